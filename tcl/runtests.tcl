# runtests.tcl: runs tests and adds them up.
#
#     tclsh tcl/runtests.tcl PART ...
#
# A part is one of
#     -cmd NAME COMMAND     a program that tests
#     -files GROUP SO       the files of test/ in that group (smoke, test,
#                           soak; see tester.tcl), on that build of claimq
#
# Whatever runs must close with a line "N passed, M failed" (", K skipped" may
# follow); without it, it has crashed and counts as one failure.  Lines that
# begin with SKIPPED are counted and always shown, other output only when
# something failed.  Parts run one after the other, the files of a part two at
# a time, each in a tclsh of its own.  The environment variable TESTS (globs,
# e.g. TESTS='session* demo') selects files.
#
# The last line is the sum of all; the exit code is 1 if anything failed.

set root [file normalize [file join [file dirname [info script]] ..]]
set parallel 2
set limit 600                     ;# seconds for one file; soak has no limit
array set total {passed 0 failed 0 skipped 0}

proc seconds {since} {
  return [format %.1fs [expr {([clock milliseconds]-$since)/1000.0}]]
}

#--------------------------------------------------------------------------
# Jobs: programs that run in the background.
#   J(ID,what)  J(ID,start)  J(ID,out)  J(ID,chan)

proc job_start {what command} {
  global J next_job running
  set id [incr next_job]
  set chan [open "|$command 2>@1"]
  fconfigure $chan -blocking 0 -encoding utf-8
  fileevent $chan readable [list job_read $id]
  array set J [list $id,what $what $id,start [clock milliseconds] \
    $id,out "" $id,chan $chan]
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
  puts [format "  %-32s %6d passed %4d failed %8s" $J($id,what) \
    $passed $failed [seconds $J($id,start)]]
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

proc selected {file} {
  if {![info exists ::env(TESTS)] || $::env(TESTS) eq ""} {return 1}
  foreach pattern $::env(TESTS) {
    if {[string match $pattern [file rootname [file tail $file]]]} {return 1}
  }
  return 0
}

# Large files first, so that two at a time end at about the same time.
proc files_of {group} {
  set out {}
  foreach file [lsort [glob -nocomplain $::root/test/*.test]] {
    if {[group_of $file] eq $group && [selected $file]} {
      lappend out [list $file [file size $file]]
    }
  }
  return [lmap x [lsort -integer -decreasing -index 1 $out] {lindex $x 0}]
}

proc run_files {group so} {
  set ::env(CLAIMQ_SO) [file normalize $so]
  foreach file [files_of $group] {
    wait_until_fewer $::parallel
    set id [job_start [file tail $file] \
      [list [info nameofexecutable] $file]]
    if {$group ne "soak"} {
      after [expr {1000*$::limit}] [list job_timeout $id]
    }
  }
  wait_until_fewer 1
}

proc run_cmd {name command} {
  job_start $name $command
  wait_until_fewer 1
}

proc run_part {title script} {
  set start [clock milliseconds]
  puts "$title"
  flush stdout
  uplevel 1 $script
  puts "$title: [seconds $start]"
}

set running 0
set next_job 0
set start [clock milliseconds]
cd $root
while {[llength $argv]} {
  set argv [lassign $argv kind a b]
  switch -- $kind {
    -cmd    {run_part $a {run_cmd $a $b}}
    -files  {run_part "$a tests on $b" {run_files $a $b}}
    default {puts stderr "unknown part: $kind"; exit 2}
  }
}
puts "all: [seconds $start]"
set line "$total(passed) passed, $total(failed) failed"
if {$total(skipped)} {append line ", $total(skipped) skipped"}
puts $line
exit [expr {$total(failed) > 0 || $total(passed) == 0}]
