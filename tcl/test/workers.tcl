# workers.tcl: tests with several real processes.  Part of tester.tcl, which
# says how to use it.
#
#     set results [with_workers 4 -vars {rows 100} {
#       open_db
#       db timeout 300000
#       for {set i 0} {$i < $rows} {incr i} {
#         emit [db eval {SELECT claim_id FROM claimq('s', $me)}]
#       }
#     }]
#     foreach r $results {... [dict get $r rc] ... [dict get $r out] ...}
#
# A worker is a tclsh of its own.  Its script is written to a file: this
# harness, the variables, a wait for the start signal (a file that appears, so
# that all begin together), then what the test gave.  Its output goes to
# another file rather than through a pipe: a full pipe would stop a worker in
# the middle of a transaction, and with it all the others.

set W(next) 0
# Seconds after which a worker has hung: nothing that a test waits for takes a
# part of it, on however slow a machine.
set W(limit) 1200

proc emit {args} {
  puts $args
  flush stdout
}

proc worker_start {script args} {
  global W T
  set opt [dict merge {-vars {} -me 0 -n 1} $args]
  set h worker[incr W(next)]
  set fd [open $h.tcl w]
  fconfigure $fd -encoding utf-8
  puts $fd [list set argv0 $T(name)]
  puts $fd "set cq_worker $h"
  puts $fd [list source $T(root)/tcl/test/tester.tcl]
  puts $fd [list set me [dict get $opt -me]]
  puts $fd [list set nworker [dict get $opt -n]]
  foreach {name value} [dict get $opt -vars] {
    puts $fd [list set $name $value]
  }
  puts $fd [list worker_main $script]
  close $fd
  close [open $h.out w]
  set W($h) [list [cq_spawn $h.out [info nameofexecutable] $h.tcl] \
    [dict get $opt -me]]
  set W($h,read) 0
  return $h
}

# In the worker.  The exit code says what happened: 0 fine, 1 an error in the
# script, 2 something was left behind.
proc worker_main {script} {
  global cq_worker
  puts "@ready"
  flush stdout
  set until [expr {[clock seconds] + $::W(limit)}]
  while {![file exists $cq_worker.go]} {
    if {[clock seconds] > $until} {exit 3}
    after 1
  }
  set code [catch {uplevel #0 $script} msg]
  if {$code} {puts $msg}
  at_time real
  close_all
  set left [left_behind]
  if {$left ne ""} {puts $left}
  flush stdout
  exit [expr {$code ? 1 : $left ne "" ? 2 : 0}]
}

proc worker_go {h} {
  while {[worker_line $h] ne "@ready"} {}
  close [open $h.go w]
}

# The lines of output from the n-th byte on that are complete.
proc worker_output {h from} {
  set fd [open $h.out]
  fconfigure $fd -translation lf -encoding utf-8
  seek $fd $from
  set text [read $fd]
  close $fd
  return [string range $text 0 [string last \n $text]]
}

proc worker_line {h} {
  global W
  set until [expr {[clock seconds] + $W(limit)}]
  while 1 {
    set ended [info exists W($h,rc)]
    set text [worker_output $h $W($h,read)]
    set i [string first \n $text]
    if {$i >= 0} {
      set line [string range $text 0 $i-1]
      set bytes [encoding convertto utf-8 $line\n]
      incr W($h,read) [string length $bytes]
      return $line
    }
    if {$ended} {error "$h has ended: $W($h,rc)"}
    if {[clock seconds] > $until} {error "$h prints nothing"}
    worker_poll $h 1
  }
}

proc worker_signal {h signal} {
  cq_kill [lindex $::W($h) 0] $signal
}

# Wait up to ms for the end of a worker; true if it has ended.
proc worker_poll {h ms} {
  global W
  if {[info exists W($h,rc)]} {return 1}
  set status [cq_waitpid [lindex $W($h) 0] $ms]
  if {$status eq ""} {return 0}
  lassign $status how n
  set W($h,rc) $n
  if {$how eq "signal"} {
    array set name {2 SIGINT 6 SIGABRT 7 SIGBUS 9 SIGKILL 11 SIGSEGV
      15 SIGTERM}
    set W($h,rc) [expr {[info exists name($n)] ? $name($n) : "SIG$n"}]
  }
  return 1
}

# A worker that is still running after the time is killed: rc TIMEOUT.
proc worker_wait {h {seconds ""}} {
  global W
  if {$seconds eq ""} {set seconds $W(limit)}
  if {![worker_poll $h [expr {1000*$seconds}]]} {
    worker_signal $h KILL
    worker_poll $h 10000
    set W($h,rc) TIMEOUT
  }
  set out {}
  foreach line [split [string trimright [worker_output $h 0] \n] \n] {
    if {$line ne "@ready"} {lappend out $line}
  }
  set result [dict create me [lindex $W($h) 1] rc $W($h,rc) out $out]
  file delete $h.tcl $h.out $h.go
  array unset W $h
  array unset W $h,*
  return $result
}

proc with_workers {n args} {
  set script [lindex $args end]
  set opt [dict merge {-vars {} -timeout ""} [lrange $args 0 end-1]]
  set all {}
  for {set i 0} {$i < $n} {incr i} {
    lappend all [worker_start $script -me $i -n $n -vars [dict get $opt -vars]]
  }
  foreach h $all {worker_go $h}
  return [lmap h $all {worker_wait $h [dict get $opt -timeout]}]
}

# Another process holds the write lock, with a row for the table `held`, until
# it hears that it is enough.
proc hold {} {
  file delete enough
  set h [worker_start {
    open_plain
    db timeout 300000
    db eval {BEGIN IMMEDIATE; INSERT INTO held VALUES(1)}
    emit locked
    while {![file exists enough]} {after 2}
    db eval COMMIT
  }]
  worker_go $h
  worker_line $h
  return $h
}
proc enough {} {close [open enough w]}
