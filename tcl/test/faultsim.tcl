# faultsim.tcl: a fault at every place where one can happen.  Part of
# tester.tcl, which says how to use it; the faults are made by test/cqtest.c.
#
# One trial is: restore the database of -setup, open it, -prep, arm the n-th
# fault, -body, disarm, look at what came of it, close, look for leaks.  n
# counts up until a trial passes in which the fault did not strike; that trial
# must succeed.  (To stop at the first success would be wrong: SQLite survives
# many a fault.)  All scripts run at global level.
#
# Each fault is one test, however many trials it takes; the first trial that
# goes wrong ends it.

# name: {switch mode {io calls} {io code} watch {patterns of its errors}}
# (What is stopped while it writes ends the transaction, and SQLite says that to
# the statement around it.)
array set FAULT {
  oom-transient    {oom transient  {} {} none {{*out of memory*}}}
  oom-persistent   {oom persistent {} {} none {{*out of memory*}}}
  ioerr-transient  {io transient  all ioerr none
                    {{*disk I/O error*} {*unable to open database*}}}
  ioerr-persistent {io persistent all ioerr none
                    {{*disk I/O error*} {*unable to open database*}}}
  full             {io persistent {write truncate} full none
                    {{*database or disk is full*}}}
  busy-transient   {io transient  lock busy none
                    {{*database is locked*} {*locking protocol*}}}
  busy-persistent  {io persistent lock busy none
                    {{*database is locked*} {*locking protocol*}}}
  interrupt        {interrupt transient {} {} progress
                    {*interrupted* {*abort due to ROLLBACK*}}}
  abort            {abort transient {} {} progress
                    {*interrupted* {*abort due to ROLLBACK*}}}
  auth             {auth transient {} {} auth
                    {{*not authorized*} {*authorization denied*}
                     {*prohibited*}}}
  api-transient    {api transient  {} {} none {*}}
  api-persistent   {api persistent {} {} none {*}}
}
set FAULT_ORDER {
  oom-transient oom-persistent ioerr-transient ioerr-persistent full
  busy-transient busy-persistent interrupt abort auth
  api-transient api-persistent
}

# The faults that a list of names and globs means.
proc fault_names {patterns} {
  set out {}
  foreach pattern $patterns {
    set found [lsearch -all -inline -glob $::FAULT_ORDER $pattern]
    if {$found eq ""} {error "no fault $pattern: $::FAULT_ORDER"}
    lappend out {*}$found
  }
  return $out
}

proc fault_arm {fault n} {
  lassign $::FAULT($fault) switch mode calls code watch
  if {$code ne ""} {cq_io_filter $calls $code}
  if {$watch ne "none" && "db" in $::T(opened)} {cq_watch db $watch}
  cq_fault $switch $n $mode
}

# Returns how often it struck.
proc fault_disarm {fault} {
  lassign $::FAULT($fault) switch mode calls code watch
  set hits [cq_hits $switch]
  cq_fault $switch 0
  if {$watch ne "none" && "db" in $::T(opened)} {cq_watch db none}
  return $hits
}

proc fault_is_usual {fault message} {
  foreach pattern [lindex $::FAULT($fault) 5] {
    if {[string match $pattern $message]} {return 1}
  }
  return 0
}

#--------------------------------------------------------------------------
# The template: what -setup left, copied back before each trial.

proc template_make {setup {journal ""}} {
  init_db
  uplevel #0 $setup
  if {$journal ne ""} {db eval "PRAGMA journal_mode=$journal"}
  close_all
  file copy -force test.db template.db
}

proc template_restore {} {
  close_all
  delete_db
  file copy -force template.db test.db
}

#--------------------------------------------------------------------------
# Trials

# Run prep and body with the n-th fault; n 0 is without any.  Leaves testrc,
# testresult, testnfail.  An error in prep is raised.
proc fault_run {fault n prep body} {
  global testrc testresult testnfail
  template_restore
  if {[string match api-* $fault]} {
    open_plain
    cq_api_load db $::claimq_so
  } else {
    open_db
  }
  # SQLite reads the schema now: thousands of faults there say nothing of us.
  db eval {SELECT 1 FROM sqlite_schema LIMIT 1}
  uplevel #0 $prep
  fault_arm $fault $n
  set testrc [catch {uplevel #0 $body} testresult]
  set testnfail [fault_disarm $fault]
}

# One trial: fault_run, the check, close, leaks.  Raises what is wrong.
proc fault_trial {fault n prep body check} {
  set ::testfault $fault
  fault_run $fault $n $prep $body
  set outcome "rc $::testrc, $::testresult"
  set code [catch {uplevel #0 $check} why]
  close_all
  if {!$code} {set why [left_behind]}
  if {!$code && $why eq ""} return
  error "fault $n ($::testnfail hits, $outcome): $why"
}

# The place after place n that is tried.  make soak (CLAIMQ_SOAK) tries every
# one; make test every one of the first eight and then a choice, ever sparser,
# the same in every run unless CLAIMQ_SEED says otherwise.  With CLAIMQ_SAMPLE=3
# it is three times sparser: for a build on which a trial takes much longer.
# Of the faults in FAULT_EVERY (do_atomic_test -every) it tries every place too.
set FAULT_EVERY {}
set FAULT_SAMPLE [expr {
  [info exists env(CLAIMQ_SAMPLE)] ? $env(CLAIMQ_SAMPLE) : 1
}]

proc fault_seed {name} {
  expr {srand([zlib crc32 "$::T(seed) $name"] % 2147483646 + 1)}
}

proc fault_next {fault n} {
  if {[info exists ::env(CLAIMQ_SOAK)] || $n < 8/$::FAULT_SAMPLE
      || $fault in $::FAULT_EVERY} {
    return [expr {$n+1}]
  }
  return [expr {$n + 1 + int(rand()*$n*$::FAULT_SAMPLE/2)}]
}

# All trials of one fault, as one test.
proc fault_test {name fault prep body check} {
  set failed $::T(nfail)
  fault_seed $name
  for {set n 1} {$n < 5000000} {set n [fault_next $fault $n]} {
    if {[catch {fault_trial $fault $n $prep $body $check} why]} {
      fail_test $name $why
      return
    }
    if {$::testnfail == 0} break
  }
  if {$::T(nfail) > $failed} return
  if {$::testnfail} {
    fail_test $name "still strikes after $n trials"
  } else {
    pass_test "$name ($n trials)"
  }
}

# For -test scripts: the outcome is one of these, or the fault's usual error.
proc faultsim_test_result {args} {
  global testrc testresult testnfail testfault
  set got [list $testrc $testresult]
  foreach expected $args {
    if {$got eq [normal_list $expected]} return
    if {$testrc == [lindex $expected 0]
        && [test_matches [lindex $expected 1] $testresult]} return
  }
  if {$testnfail && $testrc && [fault_is_usual $testfault $testresult]} return
  error "got $got, expected one of $args"
}

proc do_faultsim_test {name args} {
  set opt [dict merge {
    -faults {oom-* ioerr-* full busy-* interrupt abort auth}
    -setup {} -prep {} -test {}
  } $args]
  set prep [dict get $opt -prep]
  set body [dict get $opt -body]
  set check [dict get $opt -test]
  template_make [dict get $opt -setup]
  if {$check eq ""} {
    fault_run oom-transient 0 $prep $body
    set check [list faultsim_test_result [list $::testrc $::testresult]]
  }
  foreach fault [fault_names [dict get $opt -faults]] {
    fault_test [test_name $name]-$fault $fault $prep $body $check
  }
  close_all
}

#--------------------------------------------------------------------------
# All or nothing.
#
# In a transaction of the user there is a row of the user's own, written just
# before: when the statement fails and the transaction goes on, that row must
# still be there.  (Some faults make SQLite roll the whole transaction back;
# then it must be gone.)
#
# A statement can be interrupted after its work is done: SQLite asks the
# progress handler once more when a COMMIT has just happened, and the outer
# SELECT may be stopped when the claim inside it is committed already.  So for
# the faults in -either (by default the interrupts) an error may also go with
# the whole of the work, though never with a part of it.

# context: {prep {SQL that ends it, if it is still open}}
array set CONTEXT {
  autocommit {{} {}}
  begin      {{BEGIN; INSERT INTO cq_user VALUES(1)} COMMIT}
  deferred   {BEGIN COMMIT}
  savepoint  {{SAVEPOINT cq; INSERT INTO cq_user VALUES(1)} {RELEASE cq}}
  insert     {{} {}}
}

# End the transaction of a context.  Returns 1 if it was still there.
proc context_end {context} {
  set end [lindex $::CONTEXT($context) 1]
  if {[cq_autocommit db]} {return 0}
  if {$end eq ""} {error "left in a transaction"}
  db eval $end
  return 1
}

# The content after prep and body, without faults.
proc atomic_content {context prep body} {
  fault_run oom-transient 0 $prep $body
  if {$::testrc} {error "fails without faults: $::testresult"}
  context_end $context
  return [db_content]
}

# For atomic_check: the content before, the content if only the user's own row
# was written, and the outcome and content of a run without faults.
proc atomic_reference {context prep inside body} {
  global ATOMIC
  set ATOMIC(before) [atomic_content $context $prep {}]
  set ATOMIC(user) [atomic_content $context $prep\n$inside {}]
  set ATOMIC(after) [atomic_content $context $prep\n$inside $body]
  set ATOMIC(result) $::testresult
}

# The content of test.db, after an integrity check.  Most trials leave the
# very bytes of another one, so what was found is remembered by two checksums
# of them.
proc atomic_look {} {
  global LOOKED
  if {[glob -nocomplain test.db-*] ne ""} {return [look_closely]}
  set fd [open test.db rb]
  set bytes [read $fd]
  close $fd
  set key [zlib crc32 $bytes].[zlib adler32 $bytes].[string length $bytes]
  if {![info exists LOOKED($key)]} {set LOOKED($key) [look_closely]}
  return $LOOKED($key)
}

proc look_closely {} {
  set sound [db eval {PRAGMA integrity_check}]
  if {$sound ne "ok"} {error "integrity: $sound"}
  return [db_content]
}

proc atomic_check {context} {
  global ATOMIC testrc testresult
  set inside [context_end $context]
  set state [expr {!$testrc ? "after" : $inside ? "user" : "before"}]
  faultsim_test_result [list 0 $ATOMIC(result)]
  set got [atomic_look]
  if {$got eq $ATOMIC($state)} return
  if {$got eq $ATOMIC(after) && $::testfault in $ATOMIC(either)} return
  error [content_diff $ATOMIC($state) $got]
}

proc content_diff {expected got} {
  set out "the content is not as it must be"
  set extra [split $got \n]
  foreach line [split $expected \n] {
    set i [lsearch -exact $extra $line]
    if {$i < 0} {append out "\n- $line"}
    set extra [lreplace $extra $i $i]
  }
  foreach line $extra {append out "\n+ $line"}
  return $out
}

proc do_atomic_test {name args} {
  set opt [dict merge {
    -faults {oom-* ioerr-* full busy-* interrupt abort auth api-*}
    -contexts {autocommit begin deferred savepoint insert}
    -setup {} -prep {} -either {interrupt abort} -every {}
  } $args]
  set ::FAULT_EVERY [dict get $opt -every]
  set ::ATOMIC(either) [fault_names [dict get $opt -either]]
  if {$::T(clock) eq "real"} {
    at_time 1000000 [list do_atomic_test $name {*}$args]
    return
  }
  template_make "[dict get $opt -setup]\ndb eval {CREATE TABLE cq_user(x)}"
  array unset ::LOOKED
  foreach context [dict get $opt -contexts] {
    atomic_context [test_name $name]-$context $context $opt
  }
  close_all
}

proc atomic_context {name context opt} {
  set body [expr {[dict exists $opt -body]
    ? [dict get $opt -body] : [list db eval [dict get $opt -sql]]}]
  if {$context eq "insert"} {
    if {![dict exists $opt -sql]} return
    set body [atomic_sink [dict get $opt -sql]]
    if {$body eq ""} return
  }
  set prep [dict get $opt -prep]
  set inside [list db eval [lindex $::CONTEXT($context) 0]]
  if {[catch {atomic_reference $context $prep $inside $body} why]} {
    fail_test $name $why
    return
  }
  foreach fault [fault_names [dict get $opt -faults]] {
    fault_test $name-$fault $fault $prep\n$inside $body \
      [list atomic_check $context]
  }
}

# Put a table for the result of SQL into the template and return the script
# that fills it; empty if SQL has no result.
proc atomic_sink {sql} {
  template_restore
  open_db
  set cols {}
  for {set i [cq_column_count db $sql]} {$i > 0} {incr i -1} {
    lappend cols c$i
  }
  if {$cols ne ""} {
    db eval "CREATE TABLE IF NOT EXISTS cq_sink([join $cols ,])"
  }
  close_all
  file copy -force test.db template.db
  return [expr {$cols eq "" ? "" : [list db eval "INSERT INTO cq_sink $sql"]}]
}

#--------------------------------------------------------------------------
# Crashes.  The body runs in a forked process, which needs no new tclsh and is
# safe because no database is open then.

proc ack {value} {
  set fd [open acks a]
  puts $fd [list $value]
  close $fd
}

proc crash_child {n torn body} {
  set pid [cq_fork]
  if {$pid} {return [cq_waitpid $pid]}
  cq_crash_torn $torn
  cq_fault crash $n
  if {[catch {uplevel #0 $body} msg]} {
    puts "crash body: $msg"
    flush stdout
    cq_exit 1
  }
  cq_exit 0
}

# One crash point.  Returns 1 if it was beyond the end of the body.
proc crash_trial {n torn body check} {
  template_restore
  file delete acks
  set status [crash_child $n $torn $body]
  if {$status ni {{exit 0} {exit 77}}} {error "ended by $status"}
  set ::crashed [expr {$status eq {exit 77}}]
  set ::acks {}
  if {[file exists acks]} {
    set fd [open acks]
    foreach line [split [string trim [read $fd]] \n] {
      lappend ::acks {*}$line
    }
    close $fd
  }
  open_db
  set sound [db eval {PRAGMA integrity_check}]
  if {$sound ne "ok"} {error "integrity: $sound"}
  uplevel #0 $check
  close_all
  return [expr {!$::crashed}]
}

proc do_crash_test {name args} {
  set opt [dict merge {-journal {delete wal} -setup {}} $args]
  foreach journal [dict get $opt -journal] {
    template_make [dict get $opt -setup] $journal
    foreach torn {0 1} {
      set test [test_name $name]-$journal-[lindex {whole torn} $torn]
      for {set n 1; set done 0} {!$done} {incr n} {
        if {[catch {
          crash_trial $n $torn [dict get $opt -body] [dict get $opt -check]
        } done]} {
          fail_test $test "crash at $n: $done"
          break
        }
        if {$done} {pass_test "$test ($n points)"}
      }
      close_all
    }
  }
}
