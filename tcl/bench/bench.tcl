# bench.tcl: runs the benchmark, prints its table, writes BUILD/bench.json.
#
#     tclsh tcl/bench/bench.tcl ?BUILD?
#
# The measuring is done by BUILD/bench/bench (test/bench/*.c), which explains
# what is compared with what.  This script says which parts of it run, and
# where: on tmpfs, where processor time is counted, and on disk, where real time
# is.  Then come the peers, other people's queues (tcl/bench/peers.tcl).
#
# Environment: QUICK=1 takes less than a minute, leaves out the longest queues
# and, unless PEERS=1, the peers.  ONLY='GROUP ...' runs only these groups
# (workload, extra, depth, contention, space, open, wait, peers).
#
# BUILD/bench.json:
#     {"machine":"...", "date":"...", "quick":0, "load":"0.12",
#      "results":[ one object per line of the table ],
#      "peers":[ what tcl/bench/peers.tcl wrote ]}
#
# A target that is missed is marked, and is no failure: this measures.  The
# exit code is 1 if a job was lost or done twice, or SQLITE_BUSY came back.

package require sqlite3
sqlite3 json :memory:

set root [file normalize [file join [file dirname [info script]] .. ..]]
cd $root
set build [expr {[llength $argv] ? [lindex $argv 0] : "build"}]

proc env_or {name default} {
  if {[info exists ::env($name)] && $::env($name) ne ""} {
    return $::env($name)
  }
  return $default
}

set quick [expr {[env_or QUICK 0] ne "0"}]
set results {}                    ;# JSON, one object each
set missed {}
set met 0
set failed 0

proc say {text} {
  puts $text
  flush stdout
}

#--------------------------------------------------------------------------
# Results: a line of JSON -> an array -> a line of the table

# The fields of a flat JSON object; those of param too.
proc fields {line} {
  set out {}
  json eval {
    SELECT key, value FROM json_each($line) WHERE type<>'object'
    UNION ALL SELECT key, value FROM json_each($line,'$.param')
  } row {lappend out $row(key) $row(value)}
  return $out
}

proc target {row} {
  upvar 1 $row r
  if {![info exists r(target)]} {return ""}
  set least [expr {[info exists r(sense)] && $r(sense) eq "at least"}]
  set ok [expr {$least ? $r(ratio) >= $r(target) : $r(ratio) <= $r(target)}]
  set text [format "%s %s" [expr {$least ? ">=" : "<="}] \
    [format %.4g $r(target)]]
  if {$ok} {
    incr ::met
    return $text
  }
  lappend ::missed [format "%-52s %-5s %6.2f, target %s" \
    [title r] $r(place) $r(ratio) $text]
  return "$text  MISSED"
}

# What the line is about.
proc title {row} {
  upvar 1 $row r
  if {[info exists r(processes)]} {return "$r(name), $r(processes) processes"}
  if {[info exists r(partitions)]} {return "$r(name): $r(partitions)"}
  if {$r(group) in {depth steps}} {return "$r(name): $r(depth)"}
  if {$r(group) eq "wait"} {
    return "$r(name), $r(journal), $r(waiters): $r(way)"
  }
  return $r(name)
}

proc spread {row} {
  upvar 1 $row r
  if {![info exists r(ratio_min)]} {return ""}
  return [format "(%.2f-%.2f)" $r(ratio_min) $r(ratio_max)]
}

proc heading {group} {
  set names {
    workload   {"microseconds per job" floor claimq ratio}
    extra      {"microseconds per job, in a lane" without with ratio}
    depth      {"microseconds per job, by depth" floor claimq ratio}
    steps      {"SQLite's VM steps per job, by depth" floor claimq growth}
    contention {"jobs per second, all processes" floor claimq ratio}
    space      {"bytes" floor claimq ratio}
    wait       {"waiting" median "99 %" ""}
    open       {"opening, loading, first calls" median least ""}
  }
  lassign [dict get $names $group] what a b c
  say ""
  say [format "%-52s %-5s %10s %10s %6s" $what where $a $b $c]
  say [string repeat - 100]
}

# Of waiting there are times, not ratios.
proc show_wait {row} {
  upvar 1 $row r
  set p99 ""
  if {$r(p99)} {set p99 [format %.2f $r(p99)]}
  say [string trimright [format "%-52s %-5s %10.2f %10s %-6s %s" \
    [title r] $r(place) $r(p50) $p99 $r(unit) [target r]]]
}

proc show {line} {
  array set r [fields $line]
  if {$r(group) eq "wait"} {
    show_wait r
    return
  }
  if {$r(group) eq "open"} {
    say [format "%-52s %-5s %10.3f %10.3f %s" [title r] $r(place) $r(p50) \
      $r(least) $r(unit)]
    return
  }
  switch $r(group) {
    steps      {set values [list $r(floor_steps) $r(claimq_steps)]}
    contention {set values [list $r(floor_per_s) $r(claimq_per_s)]}
    space      {set values [list $r(floor_bytes) $r(claimq_bytes)]}
    default    {set values [list $r(floor_us) $r(claimq_us)]}
  }
  set decimals [expr {$r(group) in {contention space} ? 0 : 2}]
  lassign $values a b
  say [string trimright [format "%-52s %-5s %10.*f %10.*f %6.2f %-13s %s" \
    [title r] $r(place) $decimals $a $decimals $b $r(ratio) [spread r] \
    [target r]]]
  if {$r(group) eq "contention"} {
    foreach side {floor claimq} {
      say [format "    %-6s claim: p50 %.0f us, p99 %.0f us, p99.9 %.0f us,\
        fairness %.2f" $side $r(${side}_p50_us) $r(${side}_p99_us) \
        $r(${side}_p999_us) $r(${side}_fairness)]
    }
    if {$r(busy)} {say "    SQLITE_BUSY came back $r(busy) times"}
  }
}

#--------------------------------------------------------------------------
# Running

# The lines of a program's output, each given to SCRIPT as $line.  Returns its
# exit code.
proc each_line {command script} {
  set chan [open "|$command 2>@stderr"]
  fconfigure $chan -encoding utf-8
  while {[gets $chan line] >= 0} {
    uplevel 1 [list set line $line]
    uplevel 1 $script
  }
  if {[catch {close $chan} msg opt]} {
    set code [dict get $opt -errorcode]
    if {[lindex $code 0] eq "CHILDSTATUS"} {return [lindex $code 2]}
    say "bench: $msg"
    return 2
  }
  return 0
}

# Depth gives times and steps in turn: they are shown as two tables.
proc run {group place args} {
  if {$group ni [env_or ONLY $group]} return
  set command [list $::build/bench/bench -json -so ./claimq.so -group $group \
    -place $place {*}$args]
  if {$::quick} {lappend command -quick}
  if {$place eq "disk"} {lappend command -dir $::build/bench}
  set steps {}
  heading $group
  set code [each_line $command {
    if {[string index $line 0] ne "\{"} {
      say $line
      continue
    }
    lappend ::results $line
    if {[string match {*"group":"steps"*} $line]} {
      lappend steps $line
    } else {
      show $line
    }
  }]
  if {$code} {
    incr ::failed
    say "FAILED: bench -group $group -place $place: exit code $code"
  }
  if {[llength $steps]} {heading steps}
  foreach line $steps {show $line}
}

# Waiting from Python, beside honker; in the same table.
proc run_wait {} {
  if {"wait" ni [env_or ONLY wait]} return
  set command [list [info nameofexecutable] tcl/bench/wait.tcl ./claimq.so \
    $::quick]
  set code [each_line $command {
    if {[string index $line 0] ne "\{"} {
      say $line
      continue
    }
    lappend ::results $line
    show $line
  }]
  if {$code} {incr ::failed}
}

# Returns the objects that tcl/bench/peers.tcl wrote.
proc run_peers {} {
  set script [file join tcl bench peers.tcl]
  set file $::build/bench_peers.jsonl
  if {"peers" ni [env_or ONLY peers]} return
  if {![file exists $script]} {
    say "SKIPPED: peers: there is no $script"
    return
  }
  if {$::quick && [env_or PEERS 0] eq "0"} {
    say "SKIPPED: peers: QUICK leaves them out; PEERS=1 brings them back"
    return
  }
  say ""
  if {[each_line [list [info nameofexecutable] $script $file] {say $line}]} {
    incr ::failed
    say "FAILED: $script"
  }
  if {![file exists $file]} return
  set fd [open $file]
  fconfigure $fd -encoding utf-8
  set lines [split [string trim [read $fd]] \n]
  close $fd
  return $lines
}

#--------------------------------------------------------------------------
# Machine and file

proc machine {} {
  set cpu "unknown processor"
  set cores 0
  catch {
    set fd [open /proc/cpuinfo]
    set text [read $fd]
    close $fd
    regexp -line {^model name\s*: (.*)$} $text -> cpu
    set cores [regexp -all -line {^processor\s*:} $text]
  }
  return "$cpu, $cores cores, $::tcl_platform(os) $::tcl_platform(osVersion),\
    SQLite [exec $::build/bench/bench -version]"
}

# How busy the machine is with other things.
proc load_average {} {
  if {[catch {open /proc/loadavg} fd]} {return unknown}
  set text [read $fd]
  close $fd
  return [lindex $text 0]
}

proc write_json {file machine load peers} {
  set date [clock format [clock seconds] -gmt 1 -format %Y-%m-%dT%H:%M:%SZ]
  set head [json one {SELECT json_object('machine', $machine, 'date', $date,
    'quick', $::quick+0, 'load', $load)}]
  set text "[string range $head 0 end-1],\n\"results\":\[\n"
  append text [join $::results ",\n"] "\n\],\n\"peers\":\[\n"
  append text [join $peers ",\n"] "\n\]\}\n"
  if {![json one {SELECT json_valid($text)}]} {
    incr ::failed
    say "FAILED: $file is not JSON"
  }
  set fd [open $file.tmp w]
  fconfigure $fd -encoding utf-8
  puts -nonewline $fd $text
  close $fd
  file rename -force $file.tmp $file
}

proc summary {} {
  set n [expr {$::met + [llength $::missed]}]
  say ""
  say "targets: $::met of $n met"
  foreach line $::missed {say "  missed: $line"}
}

#--------------------------------------------------------------------------

set started [clock seconds]
set machine [machine]
set load [load_average]
say "$machine; load $load"

if {$quick} {
  run workload   tmpfs -rounds 3 -scale 20
  run workload   disk  -rounds 3 -scale 40 -only {[sl]*.claim}
  run extra      tmpfs -rounds 3 -scale 20
  run depth      tmpfs -rounds 3 -scale 25 -max 10000
  run contention tmpfs -rounds 3 -only session
  run space      tmpfs
  run open       tmpfs
  run wait       tmpfs
} else {
  run workload   tmpfs -rounds 7 -scale 60
  run workload   disk  -rounds 5 -scale 60
  run extra      tmpfs -rounds 7 -scale 60
  run extra      disk  -rounds 5 -scale 60
  run depth      tmpfs -rounds 5
  run depth      disk  -rounds 5 -only *.ready
  run contention tmpfs -rounds 5
  run contention disk  -rounds 5 -only session
  run space      tmpfs
  run open       tmpfs
  run wait       tmpfs
  run wait       disk
}
run_wait
set peers [run_peers]
write_json $build/bench.json $machine $load $peers
summary
say "$build/bench.json written after [expr {[clock seconds]-$started}] s"
exit [expr {$failed > 0}]
