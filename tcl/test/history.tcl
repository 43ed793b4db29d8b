# history.tcl: what many processes were answered is what one would have been.
#
#     source $T(root)/tcl/test/history.tcl
#     do_history_test 17 8 150          ;# seed 17, 8 processes, 150 calls each
#
# SQLite's commits have one order.  So the calls of many processes can be made
# again by one connection, in that order, and each must get the answer that it
# got when they ran side by side; and so must the model of oracle_model.tcl,
# which was written from the manual.  Whatever a call sees that it should not
# have seen, or misses, gives another answer.
#
# The order is written by the calls themselves: triggers on claimq's tables put
# the name of the call (PROCESS:NUMBER, from a function of the connection) into
# the table hist, in the call's own transaction.  A call that wrote nothing has
# its place if nobody wrote while it ran; if somebody did, it is not compared,
# but for two kinds.  A call with a request that somebody else made before must
# have the answer that the other got: requests are shared.  And of what a call
# of claimq_wait() waited for, things that stay so once they are so must be so
# after it if it says 1, and not before it if it says 0: see history_waited.
#
# A process writes each call into a file of its own before it makes it, and the
# answer after it.  One that is killed by SIGKILL leaves a call without an
# answer: if it is in hist it took effect, and is made again; else it did not.
# Another is stopped by SIGSTOP for a while.
#
# The calls are those of oracle.tcl (the same generator), with times that follow
# a clock of their own, ten times as fast as the real one, a little forth and
# back, so that leases end in between.  (claimq_wait() has the real clock, for
# which all of them have ended.)  Where calls fail it prints which, and
# the directory with all files is kept.

source [file join [file dirname [info script]] oracle.tcl]
source [file join $T(root) tcl build files.tcl]

#--------------------------------------------------------------------------
# A process

# In a process it stands for oracle_clock: see above.
proc history_clock {} {
  set ::O(now) [expr {
    max(0, 1000 + ([clock milliseconds]-$::start)*10 + [oracle_random 200]-100)
  }]
}

# One call.  No transactions of the user's; and no vacuum, which the oracle
# calls twice.
proc history_make {} {
  if {[oracle_chance 8]} {
    history_clock
    return [expr {[oracle_chance 60] ? [history_make_wait] : [oracle_make_see]}]
  }
  while 1 {
    set step [oracle_ask [oracle_make]]
    if {[lindex $step 0] ni {tx vacuum restored}} {return $step}
  }
}

# wait {WHAT KEY OPTIONS TIMEOUT}
proc history_make_wait {} {
  set timeout [oracle_one {0 0 5 20}]
  set job [oracle_one $::O(jobs)]
  set claim [oracle_recent $::O(claims)]
  switch [oracle_one {job claim event commit look look}] {
    job {if {$job ne ""} {return [list wait [list job @v:$job {} $timeout]]}}
    claim {
      if {$claim ne ""} {
        lassign $claim label row
        return [list wait [list claim @c:$label:$row {} $timeout]]
      }
    }
    event {
      set last [::odb one {SELECT ifnull(max(event_id), 0) FROM claimq_event}]
      return [list wait [list event [expr {$last+[oracle_random 2]}] {} \
        $timeout]]
    }
    commit {return [list wait [list commit {} {} $timeout]]}
  }
  while 1 {
    set step [oracle_make_see]
    if {[lindex $step 0] eq "why"} {
      return [list wait [lreplace [lindex $step 1] end end $timeout]]
    }
  }
}

proc history_sql {op arglist form request} {
  if {$op ne "wait"} {return [oracle_sql $op $arglist $form $request]}
  lassign $arglist what key opts timeout
  if {$what eq "commit"} {return "SELECT claimq_wait($timeout)"}
  return "SELECT claimq_wait($timeout, '$what',\
    [model::lit $key][oracle_options $opts])"
}

proc history_last {} {
  return [::odb one {SELECT ifnull(max(id), 0) FROM hist}]
}

# A line of the file.
proc history_write {fd list} {
  puts $fd [binary encode base64 [encoding convertto utf-8 $list]]
  flush $fd
}

# In the process: n calls.
proc history_work {seed me n} {
  rename oracle_clock {}
  interp alias {} oracle_clock {} history_clock
  set fd [open calls.$me w]
  open_db test.db odb
  ::odb timeout 300000
  ::odb function whoami {set ::whoami}
  model::reset
  # Letters by number, whether there are such or not.
  for {set i 1} {$i <= 20} {incr i} {dict set ::model::letter $i {}}
  expr {srand($seed*7919+$me*104729+1)}
  array set ::O [list now 1000 claims {} jobs {} batches {} plan {} asked {} \
    me $me flood 0 stack {}]
  for {set i 0} {$i < $n} {incr i} {
    lassign [history_make] op arglist form request
    if {[catch {oracle_resolve $arglist} arglist]} continue
    if {[catch {oracle_resolve $form} form]} continue
    set ::whoami $me:$i
    history_write $fd [list begin $i $op $arglist $form $request [history_last]]
    set got [oracle_db [history_sql $op $arglist $form $request]]
    history_write $fd [list end $i [history_last] $got]
    if {[lindex $got 0] eq "ok"} {
      set ::O(ref,$i) [lindex $got 1]
      oracle_note [list $i $op]
    }
  }
  close $fd
  close_db odb
}

#--------------------------------------------------------------------------
# What they left

# The calls of a process: {NUMBER {op arglist form request from to got}}; to and
# got are empty if there was no answer.
proc history_calls {me} {
  set calls {}
  # A process that was killed may leave half a line.
  foreach line [lrange [split [read_file calls.$me] \n] 0 end-1] {
    set line [encoding convertfrom utf-8 [binary decode base64 $line]]
    switch [lindex $line 0] {
      begin {
        lassign $line - i op arglist form request from
        dict set calls $i [list $op $arglist $form $request $from {} {}]
      }
      end {
        lassign $line - i to got
        dict set calls $i [lreplace [dict get $calls $i] 5 6 $to $got]
      }
    }
  }
  return $calls
}

# Where each call that wrote did: an array of WHO and place.  And all of them in
# their order: {PLACE WHO ...}.
proc history_places {} {
  set before ""
  set all {}
  ::odb eval {SELECT id, who FROM hist ORDER BY id} {
    if {$who ne $before && [dict exists $all $who]} {
      error "$who is in two transactions"
    }
    if {![dict exists $all $who]} {dict set all $who $id}
    set before $who
  }
  return $all
}

# All that is to be looked at, sorted, each {PLACE HOW WHO op arglist form
# request got}; and how many calls are not.  HOW: call, at its place; repeat,
# after it, of a call that had an answer from elsewhere; before and after, of a
# wait.
proc history_order {n} {
  set places [history_places]
  set out {}
  set lost 0
  for {set me 0} {$me < $n} {incr me} {
    set seen ""
    dict for {i call} [history_calls $me] {
      lassign $call op arglist form request from to got
      set who $me:$i
      set rest [list $who $op $arglist $form $request $got]
      if {$op eq "wait" && $to ne ""} {
        set what [lindex $arglist 0]
        if {$what eq "commit"} {
          if {[lindex $got 1] == 0} {history_quiet $places $who $seen $from}
          set seen $to
        } elseif {$from == $to || $what in {job claim event}} {
          lappend out [list $from.5 before {*}$rest] [list $to.6 after {*}$rest]
        }
      } elseif {[dict exists $places $who]} {
        lappend out [list [dict get $places $who].0 call {*}$rest]
      } elseif {$to ne "" && $from == $to} {
        lappend out [list $from.5 call {*}$rest]
      } elseif {$request ne "" && [lindex $got 0] eq "ok"
                && ![info exists ::oracle_table($op)]} {
        lappend out [list $to.6 repeat {*}$rest]
      } else {
        incr lost
      }
    }
  }
  return [list [lsort -real -index 0 $out] $lost]
}

# claimq_wait() has seen no commit: nobody else has committed between the last
# such call and this one.
proc history_quiet {places who seen from} {
  if {$seen eq ""} {error "$who: the first wait for a commit waited"}
  dict for {other place} $places {
    if {$place > $seen && $place <= $from
        && [lindex [split $other :] 0] ne [lindex [split $who :] 0]} {
      error "$who has not seen the commit of $other"
    }
  }
}

# "" if the call was answered as by one process, else the difference.
proc history_again {call} {
  lassign $call place how who op arglist form request got
  switch $how {
    before - after {return [history_waited {*}$call]}
    repeat {
      set again $got
      set want [oracle_model $op $arglist $form $request]
    }
    call {
      set again [oracle_db [oracle_sql $op $arglist $form $request]]
      set want [oracle_model $op $arglist $form $request]
      if {$got eq ""} {set got $again}
      if {$op eq "limit" && [string match {*strict 1*} $arglist]} {
        set ::O(strict) 1
      }
    }
  }
  if {$again eq $got && [oracle_same $op $got $want [lindex $arglist end]]} {
    return
  }
  return [history_differs $call $again $want]
}

proc history_differs {call again want} {
  lassign $call place how who op arglist form request got
  return "$who, $how, place $place:\
    [oracle_readable [history_sql $op $arglist $form $request]]\
    \nthen:  $got\nagain: $again\nmodel: $want"
}

# Is what was waited for so, here?  That an event was there is not known after
# it has gone: then its number counts.
proc history_is_so {what key how} {
  switch $what {
    job {
      return [expr {![dict exists $::model::job $key] || [model::ended $key]}]
    }
    event {
      set last [expr {$how eq "before"
        ? [lindex [dict keys $::model::event] end]
        : [model::opt $::model::last event]}]
      return [expr {$last ne "" && $last ne "NULL" && $last > $key}]
    }
    claim {return [expr {[model::holds $key] == 0}]}
  }
}

# A wait, before and after it.  Where events are removed it may have missed one;
# and in a strict lane no claim holds for the real clock.
proc history_waited {place how who op arglist form request got} {
  lassign $arglist what key opts
  set call [list $place $how $who $op $arglist $form $request $got]
  if {$what ni {job claim event}} {
    # Nobody wrote meanwhile.
    if {$how eq "after"} return
    set asked [list $what $key $opts [clock milliseconds]]
    lassign [oracle_db [oracle_sql_why {*}$asked]] code again
    lassign [oracle_model why $asked {}] - want
    # The rows of claimq_leases come behind.
    set want [lindex $want [expr {[llength $again]-1}]]
    set again [lindex $again end]
    if {$code eq "error" && [lindex $got 1] eq $again
        || [lindex $got 1] eq $again && $want eq $again} return
    return [history_differs $call $again $want]
  }
  if {[lindex $got 0] ne "ok"} {return [history_differs $call - ok]}
  set answer [lindex $got 1]
  set so [history_is_so $what $key $how]
  if {$how eq "before" && $so && !$answer
      && !($what eq "event" && [string first keep_ $::model::limit] >= 0)
      || $how eq "after" && !$so && $answer
         && !($what eq "claim" && [info exists ::O(strict)])} {
    return [history_differs $call - $so]
  }
  return
}

# The calls up to this one as a script for the shell, in a file that stays.
proc history_script {calls last} {
  set file $::T(root)/build/history.sql
  set fd [open $file w]
  puts $fd "SELECT claimq_init('all', 1), claimq_queue('q1', 3),\
    claimq_queue('q2', 1, 'degrade', 0), claimq_queue('q3', 80);\
    CREATE TABLE sink(v);"
  foreach call $calls {
    lassign $call place how who op arglist form request
    set sql [oracle_readable [history_sql $op $arglist $form $request]]
    if {$how eq "call"} {puts $fd "$sql; -- $who"}
    if {$call eq $last} break
  }
  close $fd
  return "\nall calls up to here: build/[file tail $file]"
}

#--------------------------------------------------------------------------
# The test

proc history_setup {} {
  delete_db
  file delete {*}[glob -nocomplain calls.*]
  open_db test.db odb
  ::odb function whoami {expr {"setup"}}
  ::odb eval {
    PRAGMA journal_mode=wal;
    SELECT claimq_init('all', 1);
    CREATE TABLE sink(v);
    CREATE TABLE hist(id INTEGER PRIMARY KEY, who TEXT);
    SELECT claimq_queue('q1', 3), claimq_queue('q2', 1, 'degrade', 0),
      claimq_queue('q3', 80);
  }
  foreach table [::odb eval {
    SELECT name FROM sqlite_schema
    WHERE type='table' AND name GLOB 'claimq_*'
  }] {
    foreach what {INSERT UPDATE DELETE} {
      ::odb eval "CREATE TRIGGER my_${table}_$what AFTER $what ON $table BEGIN
        INSERT INTO hist(who) SELECT whoami()
        WHERE whoami() IS NOT (SELECT who FROM hist ORDER BY id DESC LIMIT 1);
      END"
    }
  }
  close_db odb
}

# Kill one process and stop another, as soon as each has made a third of its
# calls.
proc history_disturb {handles n} {
  foreach {me signal} {0 KILL 1 STOP} {
    set lines 0
    while {$lines < 2*$n/3} {
      after 5
      if {[worker_poll [lindex $handles $me] 0]} break
      if {![file exists calls.$me]} continue
      set lines [regexp -all \n [read_file calls.$me]]
    }
    catch {worker_signal [lindex $handles $me] $signal}
  }
  after 300
  catch {worker_signal [lindex $handles 1] CONT}
}

proc do_history_test {seed nproc ncall} {
  set name [test_name "1.$seed-$nproc-processes-are-answered-as-one"]
  history_setup
  set handles {}
  for {set me 0} {$me < $nproc} {incr me} {
    lappend handles [worker_start {
      source $T(root)/tcl/test/history.tcl
      history_work $seed $me $ncall
    } -me $me -n $nproc -vars [list seed $seed ncall $ncall start \
        [clock milliseconds]]]
  }
  foreach h $handles {worker_go $h}
  history_disturb $handles $ncall
  set codes {}
  foreach h $handles {
    set got [worker_wait $h 600]
    lappend codes [dict get $got rc]
    if {[dict get $got rc] == 1} {error [dict get $got out]}
  }
  open_db test.db odb
  lassign [history_order $nproc] calls lost
  close_db odb
  sqlite3 ::mem :memory:
  cq_load mem $::claimq_so
  oracle_open
  foreach step [oracle_setup] {oracle_step $step}
  array unset ::O strict
  set why ""
  foreach call $calls {
    set why [history_again $call]
    if {$why ne ""} break
  }
  if {$why ne ""} {append why [history_script $calls $call]}
  close_db odb
  if {$why eq ""} {
    open_db test.db odb
    ::odb function whoami {expr {"end"}}
    set why [oracle_compare]
    if {$why ne ""} {append why [history_script $calls {}]}
    close_db odb
  }
  if {$why eq "" && [lrange $codes 1 end] ne [lrepeat [expr {$nproc-1}] 0]} {
    set why "processes ended with $codes"
  }
  set n [llength $calls]
  if {$why eq "" && $n < 4*$lost} {set why "$lost calls of $n have no place"}
  ::mem close
  if {$why ne ""} {fail_test $name $why} else {
    pass_test "$name ($n calls, $lost without a place)"
  }
}
