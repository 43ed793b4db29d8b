# runtests.tcl: runs tests and adds them up.
#
#     tclsh tcl/test/runtests.tcl PART ...
#
# A part is one of
#     -cmd NAME COMMAND     a program that tests
#     -files GROUPS SO      the files of test/ in these groups (smoke, test,
#                           package, steady, soak; see tester.tcl) or of
#                           these names (!NAME: without it), on that build of
#                           claimq
# Between them, for the parts that follow:
#     -env ARGUMENTS        of env(1): NAME=VALUE ..., -u NAME ...; {} ends it
#     -with COMMAND         each file runs under this command; {} ends it
#     -limit SECONDS        after which a file is killed, and has failed
#     -sqlite VERSIONS      each part runs on each of these versions of SQLite
#                           (versions.tcl; or `all`); A/B is B if A cannot be
#                           had; system ends it
# A part that cannot run here (there is no npm to get SQLite from, say) is
# SKIPPED.
#
# Whatever runs must close with a line "N passed, M failed" (", K skipped" may
# follow); without it, it has crashed and counts as one failure.  Lines that
# begin with SKIPPED are counted and always shown, other output only when
# something failed.  Programs and files run in this order, two at a time, each
# file in a tclsh of its own; a part begins when there is nothing left to start
# of the one before, so its number stands in front of what it reports.  The
# environment variable TESTS (globs, e.g. TESTS='session* demo') selects files.
#
# The last line is the sum of all; the exit code is 1 if anything failed.

set root [file normalize [file join [file dirname [info script]] .. ..]]
source [file join $root tcl build versions.tcl]
set parallel 2
set limit [expr {[info exists env(CLAIMQ_SOAK)] ? 36000 : 7200}]  ;# seconds
array set total {passed 0 failed 0 skipped 0}

proc seconds {since} {
  return [format %.1fs [expr {([clock milliseconds]-$since)/1000.0}]]
}

#--------------------------------------------------------------------------
# Jobs: programs that run in the background.
#   J(ID,what)  J(ID,start)  J(ID,out)  J(ID,chan)  J(ID,part)
# Parts: P(N,what)  P(N,start)  P(N,left): jobs that run, and 1 while there may
# be more of them.

proc job_start {what command} {
  global J next_job running
  set id [incr next_job]
  set chan [open "|$command 2>@1"]
  fconfigure $chan -blocking 0 -encoding utf-8
  fileevent $chan readable [list job_read $id]
  array set J [list $id,what $what $id,start [clock milliseconds] \
    $id,out "" $id,chan $chan $id,part $::part]
  incr ::P($::part,left)
  incr running
  return $id
}

proc job_read {id} {
  global J running
  append J($id,out) [read $J($id,chan)]
  if {![eof $J($id,chan)]} return
  fconfigure $J($id,chan) -blocking 1
  set status ""
  if {[catch {close $J($id,chan)} - options]} {
    set status [dict get $options -errorcode]
  }
  job_report $id $status
  part_left $J($id,part)
  array unset J $id,*
  incr running -1
}

proc job_timeout {id} {
  global J
  if {![info exists J($id,chan)]} return
  append J($id,out) "\nstill running after $::limit seconds: killed\n"
  foreach pid [pid $J($id,chan)] {catch {exec sh -c "kill -9 $pid"}}
}

# Add up, and print one line; all the output if something is wrong.
proc job_report {id status} {
  global J total
  set rx {^(\d+) passed, (\d+) failed(, \d+ skipped)?$}
  set lines [split [string trim $J($id,out)] \n]
  set skips [lsearch -all -inline $lines SKIPPED*]
  set crashed 0
  if {![regexp $rx [lindex $lines end] -> passed failed]} {
    lassign {0 0} passed failed
    set crashed 1
  } elseif {$status ne "" && $failed == 0} {
    set crashed 1
  }
  if {$crashed} {incr failed}
  incr total(passed) $passed
  incr total(failed) $failed
  incr total(skipped) [llength $skips]
  if {$failed} {
    puts $J($id,out)
    if {$crashed} {puts "CRASHED $J($id,what): $status"}
  } else {
    foreach line $skips {puts $line}
  }
  puts [format "  %2d %-29s %6d passed %4d failed %8s" $J($id,part) \
    $J($id,what) $passed $failed [seconds $J($id,start)]]
  flush stdout
}

proc wait_until_fewer {n} {
  while {$::running >= $n} {vwait ::running}
}

#--------------------------------------------------------------------------
# Parts

proc group_of {file} {
  set fd [open $file]
  set head [read $fd 2000]
  close $fd
  if {[regexp -line {^# group: *(\w+)} $head -> group]} {return $group}
  return smoke
}

# Does one of the names fit one of the patterns, and none of those with a "!"?
proc fits {names patterns} {
  set fits 0
  foreach pattern $patterns {
    set not [string match !* $pattern]
    if {[lsearch -glob $names [string trimleft $pattern !]] >= 0} {
      if {$not} {return 0}
      set fits 1
    }
  }
  return $fits
}

proc selected {name} {
  if {![info exists ::env(TESTS)] || $::env(TESTS) eq ""} {return 1}
  return [fits [list $name] $::env(TESTS)]
}

# Large files first, so that two at a time end at about the same time.  Those
# that take hours must be named by their group.
proc files_of {patterns} {
  set out {}
  foreach file [lsort [glob -nocomplain $::root/test/*.test]] {
    set name [file rootname [file tail $file]]
    set group [group_of $file]
    if {[fits [list $group $name] $patterns] && [selected $name]
        && ($group ne "soak" || "soak" in $patterns)} {
      lappend out [list $file [file size $file]]
    }
  }
  return [lmap x [lsort -integer -decreasing -index 1 $out] {lindex $x 0}]
}

proc run_files {patterns so} {
  foreach file [files_of $patterns] {
    wait_until_fewer $::parallel
    set ::env(CLAIMQ_SO) [file normalize $so]
    set id [job_start [file tail $file] [list env {*}$::setenv {*}$::library \
      {*}$::with [info nameofexecutable] $file]]
    after [expr {1000*$::limit}] [list job_timeout $id]
  }
}

proc run_cmd {name command} {
  wait_until_fewer $::parallel
  job_start $name [concat [list env] $::setenv $::library $command]
}

# One job less, or no more to come.
proc part_left {n} {
  global P
  if {[incr P($n,left) -1] == 0} {
    puts "$n: $P($n,what): [seconds $P($n,start)]"
  }
}

proc skip_part {what why} {
  puts "SKIPPED: $what: [lindex [split $why \n] 0]"
  incr ::total(skipped)
}

# What makes a process use a version of SQLite.
proc library_of {version} {
  if {$version eq "system"} return
  return [list LD_LIBRARY_PATH=[sqlite_get $version] CLAIMQ_SQLITE=$version]
}

# The first of some versions, as 3.53.4-tsan/system, that there is, or "".
proc first_version {choice} {
  foreach version [split $choice /] {
    if {![catch {library_of $version} ::library]} {return $version}
    skip_part "sqlite $version" $::library
  }
}

# Run a part, on each version of SQLite that was asked for.
proc run_part {title script} {
  set tool [lindex $::with 0]
  if {$tool ne ""} {append title ", $tool"}
  if {$tool ne "" && [auto_execok $tool] eq ""} {
    skip_part $title "$tool is not installed"
    return
  }
  foreach choice $::sqlite {
    set version [first_version $choice]
    if {$version eq ""} continue
    set what $title
    if {$version ne "system"} {append what ", SQLite $version"}
    wait_until_fewer $::parallel
    set n [incr ::part]
    puts "$n: $what"
    flush stdout
    array set ::P [list $n,what $what $n,start [clock milliseconds] $n,left 1]
    uplevel 1 $script
    part_left $n
  }
}

set running 0
set next_job 0
set part 0
set setenv {}
set with {}
set sqlite system
set start [clock milliseconds]
cd $root
while {[llength $argv]} {
  set argv [lassign $argv kind a]
  switch -- $kind {
    -env    {set setenv $a}
    -with   {set with $a}
    -limit  {set limit [expr {max($a, $limit)}]}
    -sqlite {set sqlite [expr {$a eq "all" ? [sqlite_all] : $a}]}
    -cmd    {
      set argv [lassign $argv b]
      run_part $a {run_cmd $a $b}
    }
    -files  {
      set argv [lassign $argv b]
      run_part "[join $a +] tests on $b" {run_files $a $b}
    }
    default {puts stderr "unknown part: $kind"; exit 2}
  }
}
wait_until_fewer 1
puts "all: [seconds $start]"
set line "$total(passed) passed, $total(failed) failed"
if {$total(skipped)} {append line ", $total(skipped) skipped"}
puts $line
exit [expr {$total(failed) > 0 || $total(passed) == 0}]
