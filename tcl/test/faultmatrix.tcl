# faultmatrix.tcl: every operation, in every context, under every fault.
#
#     matrix_template lane {SELECT claimq_submit('a', 'x'); ...}
#     matrix_case submit lane {SELECT claimq_submit('a', 'y', 'now_ms', 5)}
#     matrix_case claim lane {SELECT * FROM claimq_lane('a', 'w')} -claim 1
#     matrix_run
#
# A template is a database file, copied before each trial.  A case is one
# SELECT on a copy of it.  A pair (case, context) is run once without faults:
# that tells what must come of it, and how many places there are at which each
# fault can strike.  Then come the trials, each a fault at one place.
#
# What is looked at after a trial:
#   *  the answer is that of the fault-free run, or the fault's usual error;
#   *  no statement was left running;
#   *  the transaction of the user is still there, or SQLite itself has rolled
#      it back (only for those faults for which SQLite does so);
#   *  all rows of all tables are as before, or, if there was no error, as after
#      the fault-free run; the file is sound;
#   *  the connection still works: in every other trial that failed the same
#      statement is run again, and does all of its work;
#   *  nothing leaks when the connection is closed.
#
# How many trials: with CLAIMQ_SOAK=N every context, fault and state of each
# case, and N places of each, or all if there are no more (in sum there are 18
# million).  Without, some contexts of each case (always those in which nothing
# is locked yet), some faults, one place of each.  A seed chooses: 1, or
# CLAIMQ_SEED.
# CLAIMQ_CASE='CASE.CONTEXT.FAULT' (globs) selects, e.g. 'lane-*.begin.oom-*';
# of what it selects every fault is tried.

set MATRIX(contexts) 3            ;# Of each case, without CLAIMQ_SOAK,
set MATRIX(some) 2                ;# and faults of each of these pairs
set MATRIX(soak) [expr {[info exists env(CLAIMQ_SOAK)] ? $env(CLAIMQ_SOAK) : 0}]
set MATRIX(seed) $T(seed)
set MATRIX(only) *
if {[info exists env(CLAIMQ_CASE)]} {set MATRIX(only) $env(CLAIMQ_CASE)}
set MATRIX(cases) {}
set MATRIX(trials) 0
set MATRIX(strikes) 0

# context: {SQL before it, SQL that ends it, what stands around the SELECT}
# In the SQL around it %s is the SELECT and %c as many columns as it has.
set user {INSERT INTO cq_user VALUES(1)}
set sink {INSERT INTO main.cq_sink(%c) %s}
array set MATRIX_CONTEXT [list \
  autocommit [list {} {} %s] \
  begin      [list "BEGIN; $user" COMMIT %s] \
  deferred   [list BEGIN COMMIT %s] \
  immediate  [list "BEGIN IMMEDIATE; $user" COMMIT %s] \
  savepoint  [list "SAVEPOINT cq; $user" {RELEASE cq} %s] \
  insert     [list {} {} $sink] \
  inserttx   [list "BEGIN; $user" COMMIT $sink] \
  inserttemp [list {} {} {INSERT INTO temp.cq_sink(%c) %s}] \
  join       [list {} {} {SELECT q.*, x FROM cq_one, (%s) AS q}] \
  jointx     [list "BEGIN; $user" COMMIT \
               {SELECT x, q.* FROM cq_one LEFT JOIN (%s) AS q}] \
]
set MATRIX_ORDER {
  autocommit deferred begin immediate savepoint insert inserttx inserttemp
  join jointx
}

#--------------------------------------------------------------------------
# Templates and cases

proc matrix_columns {n} {
  set cols {}
  for {set i 1} {$i <= $n} {incr i} {lappend cols c$i}
  return [join $cols ,]
}

# Make the file of a template.  -init 0: without claimq's tables.
proc matrix_template {name sql {init 1}} {
  global MATRIX
  reset_db
  if {$init} {db eval {SELECT claimq_init('all', 1)}}
  db eval "CREATE TABLE cq_user(x);
    CREATE TABLE cq_one(x); INSERT INTO cq_one VALUES(1);
    CREATE TABLE cq_sink([matrix_columns 40]); CREATE TABLE tok(name, c, t);"
  db eval $sql
  close_all
  file copy -force test.db matrix-$name.db
  set MATRIX($name,before) [db_content]
  open_db
  db eval {INSERT INTO cq_user VALUES(1)}
  close_all
  set MATRIX($name,user) [db_content]
}

# Options: -claim 1: rows are handed over after the work is done.  -error GLOB:
# what it answers without any fault.  -nested 1: it needs several writes, and
# is refused inside a writing statement.  (Inside a transaction as well every
# function that writes is.)  -drops 1: it drops an index or a table,
# which SQLite refuses while another statement reads.  -plain 1: a statement
# that is no SELECT, so that nothing can stand around it.
proc matrix_case {name template sql args} {
  set default {-claim 0 -error "" -nested 0 -drops 0 -plain 0}
  lappend ::MATRIX(cases) [dict merge $default $args \
    [dict create name $name template $template sql [string trim $sql]]]
}

# The numbers of a pair: always the same for the same seed, pair and call.
proc matrix_srand {pair} {fault_seed $pair}
proc matrix_random {n} {return [expr {1 + int(rand()*$n)}]}

#--------------------------------------------------------------------------
# One run

# Restore the file, open it, and run what comes before the body.  Warm: all
# statements are prepared before the faults begin.  Stale: and have expired (a
# new authorizer does it), so that SQLite prepares each again when it is run.
proc matrix_open {p api} {
  set state [dict get $p state]
  set name [dict get $p template]
  delete_db
  file copy -force matrix-$name.db test.db
  if {$api} {
    open_plain
    cq_api_load db $::claimq_so
  } else {
    open_db
  }
  if {[dict get $p context] eq "inserttemp"} {
    db eval "CREATE TEMP TABLE cq_sink([matrix_columns 40])"
  }
  if {$state ne "cold"} {
    catch {db eval "BEGIN; [dict get $p body]"}
    db eval ROLLBACK
  }
  if {$state eq "stale"} {
    cq_watch db auth
    cq_watch db none
  }
  db eval [dict get $p inside]
}

proc matrix_body {p} {
  global testrc testresult
  set testrc [catch {db eval [dict get $p body]} testresult]
}

# The fault-free run: sets in the pair what must come of it, and the number of
# places.  An authorizer has all statements prepared again, so its questions
# are counted in a run of their own.
proc matrix_reference {pVar auth} {
  global MATRIX testrc testresult
  upvar 1 $pVar p
  matrix_open $p 1
  cq_watch db progress
  foreach kind {oom io api interrupt abort} {cq_fault $kind 0}
  matrix_body $p
  foreach {kind calls} {
    oom {} ioerr all full {write truncate} busy lock api {} interrupt {}
    abort {}
  } {
    dict set p places $kind [expr {$calls eq "" ? [cq_events $kind]
      : [cq_events io $calls]}]
  }
  cq_watch db none
  dict set p result [list $testrc $testresult]
  matrix_reference_ok $p
  matrix_statements
  matrix_end $p
  dict set p after [matrix_look]
  close_all
  if {!$auth} return
  matrix_open $p 0
  cq_watch db auth
  cq_fault auth 0
  matrix_body $p
  dict set p places auth [cq_events auth]
  close_all
}

# The fault-free run gives what the case says.
proc matrix_reference_ok {p} {
  lassign [dict get $p result] rc result
  set error [dict get $p -error]
  set context [dict get $p context]
  set writes {^SELECT claimq_(?!init|fence|guard|remaining|next_at)\w+\(}
  if {([dict get $p -nested] && [string match insert* $context])
      || ($context eq "inserttx" && [regexp $writes [dict get $p sql]])} {
    set error "claimq: nested_write: *"
  }
  if {[dict get $p -drops] && [string match join* $context]} {
    set error "database table is locked"
  }
  if {$rc != ($error ne "") || ($rc && ![string match $error $result])} {
    error "without faults: $rc $result"
  }
}

# Remember which statements of claimq were run.
proc matrix_statements {} {
  foreach name [db eval {SELECT name FROM claimq_stmt WHERE runs>0}] {
    set ::MATRIX(ran,$name) 1
  }
}

# End the transaction of the context: 1 if it was still there.
proc matrix_end {p} {
  set end [dict get $p end]
  if {[cq_autocommit db]} {return 0}
  if {$end eq ""} {error "left in a transaction"}
  db eval $end
  return 1
}

#--------------------------------------------------------------------------
# One trial

# May this fault be reported when all of the work is done?  An interrupt may:
# SQLite asks once more after a COMMIT.  Out of memory may strike when the
# rows of a claim are handed over after its commit (manual, Limits).  And the
# statement around the call may fail when the call is over and committed: it
# runs out of memory, or cannot read on.  A writing statement takes everything
# back.
proc matrix_either {p fault} {
  if {$fault in {interrupt abort}} {return 1}
  switch -glob [dict get $p context].$fault {
    insert*         {return 0}
    join*.oom-*     -
    join.ioerr-*    -
    join.full       {return 1}
    *.oom-*         {return [dict get $p -claim]}
  }
  return 0
}

# May SQLite have rolled the user's transaction back?
proc matrix_may_end {fault} {
  return [expr {$fault ne "auth" && ![string match busy-* $fault]}]
}

proc matrix_look {} {
  if {[glob -nocomplain test.db-*] ne ""} {return [look_closely]}
  return [atomic_look]
}

# Where claimq refuses something, SQLite may have no memory left to keep its
# message: it says "SQL logic error" then, and takes that for harmless.  And
# where the schema has gaps, a refused statement is taken as their fault; a put
# that may not create its tables says who may.
proc matrix_is_usual {fault message refused} {
  return [expr {[fault_is_usual $fault $message]
    || ($fault eq "oom-persistent" && $refused
        && $message eq "SQL logic error")
    || ($fault eq "auth"
        && ([string match {claimq: schema_mismatch: * is missing: *} $message]
          || [string match {claimq: not_initialised: *} $message]))}]
}

# After the body.  Raises what is wrong.
proc matrix_check {p fault n} {
  global MATRIX testrc testresult testnfail
  set outcome [list $testrc $testresult]
  set good [expr {$outcome eq [dict get $p result]}]
  if {!$good && !($testrc && $testnfail
      && [matrix_is_usual $fault $testresult \
           [lindex [dict get $p result] 0]])} {
    error "expected [dict get $p result]"
  }
  if {[cq_busy_stmts db]} {error "[cq_busy_stmts db] statements left running"}
  set either [matrix_either $p $fault]
  set open [expr {![cq_autocommit db]}]
  if {!$open && [dict get $p end] ne ""} {
    if {!$testrc || ![matrix_may_end $fault]} {
      error "the transaction of the user is gone"
    }
    set good 0
  }
  set again [expr {!$good && $n % 2}]
  if {$again && $open && !$either} {
    matrix_again $p
    set good 1
  }
  matrix_end $p
  set template [dict get $p template]
  set state [expr {$good ? [dict get $p after]
    : $open && [dict get $p inside] ne "BEGIN" ? $MATRIX($template,user)
    : $MATRIX($template,before)}]
  set got [matrix_look]
  if {$state ne $got} {
    if {!$either || !$testrc || [dict get $p after] ne $got} {
      error [content_diff $state $got]
    }
    return
  }
  if {$again && !$good && !$open && [dict get $p end] eq ""} {
    matrix_again $p
    if {[dict get $p after] ne [matrix_look]} {
      error "again: [content_diff [dict get $p after] [matrix_look]]"
    }
  }
}

# The connection is as good as new: the same statement does its work.
proc matrix_again {p} {
  set rc [catch {db eval [dict get $p body]} result]
  if {[list $rc $result] ne [dict get $p result]} {
    error "and when run again: $rc $result"
  }
  if {[cq_busy_stmts db]} {error "again: statements left running"}
}

# One trial: 1 if the fault struck.  Raises what is wrong.
proc matrix_trial {p fault n} {
  global testrc testresult testnfail
  matrix_open $p [string match api-* $fault]
  fault_arm $fault $n
  matrix_body $p
  set testnfail [fault_disarm $fault]
  set code [catch {matrix_check $p $fault $n} why]
  close_all
  if {!$code} {set why [left_behind]}
  set ::T(memory) [cq_malloc_count]
  if {$code || $why ne ""} {
    error "place $n ([dict get $p state], $testnfail hits, rc $testrc,\
      $testresult):\n$why"
  }
  incr ::MATRIX(trials)
  incr ::MATRIX(strikes) [expr {$testnfail > 0}]
  return [expr {$testnfail > 0}]
}

# All places, or some of them.
proc matrix_fault {p fault} {
  set places [dict get $p places [regsub -- {-.*} $fault {}]]
  if {$places == 0} return
  if {$places <= $::MATRIX(soak)} {
    for {set n 1} {[matrix_trial $p $fault $n]} {incr n} {}
    return
  }
  for {set i 0} {$i < max(1, $::MATRIX(soak))} {incr i} {
    matrix_trial $p $fault [matrix_random $places]
  }
}

#--------------------------------------------------------------------------
# The matrix

# What is known of a case in any context.  (What was found in a file is kept
# from here on: see atomic_look.)
proc matrix_begin {case} {
  array unset ::LOOKED
  delete_db
  file copy -force matrix-[dict get $case template].db test.db
  open_db
  dict set case columns \
    [matrix_columns [cq_column_count db [dict get $case sql]]]
  close_all
  return $case
}

# The case in a context.
proc matrix_pair {case context} {
  lassign $::MATRIX_CONTEXT($context) inside end around
  set map [list %c [dict get $case columns] %s [dict get $case sql]]
  return [dict merge $case [dict create context $context inside $inside \
    end $end body [string map $map $around]]]
}

# n elements of a list, or all when all are to be tried.
proc matrix_choose {n list} {
  if {$::MATRIX(soak) || $::MATRIX(only) ne "*"} {return $list}
  set out {}
  while {[llength $out] < $n} {
    set i [expr {[matrix_random [llength $list]] - 1}]
    lappend out [lindex $list $i]
    set list [lreplace $list $i $i]
  }
  return $out
}

proc matrix_contexts {case} {
  matrix_srand [dict get $case name]
  set order [lmap context $::MATRIX_ORDER {
    if {[dict get $case -plain]
        && [lindex $::MATRIX_CONTEXT($context) 2] ne "%s"} continue
    set context
  }]
  return [concat autocommit deferred [matrix_choose \
    [expr {$::MATRIX(contexts)-2}] [lrange $order 2 end]]]
}

proc matrix_faults {pair} {
  matrix_srand $pair
  return [lmap fault [matrix_choose $::MATRIX(some) $::FAULT_ORDER] {
    if {![string match $::MATRIX(only) $pair.$fault]} continue
    set fault
  }]
}

# All trials of a pair with statements in this state: cold, warm or stale.
proc matrix_state {pair p faults state} {
  dict set p state $state
  if {[catch {matrix_reference p [expr {"auth" in $faults}]} why]} {
    close_all
    fail_test $pair $why
    return
  }
  foreach fault $faults {
    if {[catch {matrix_fault $p $fault} why]} {
      close_all
      fail_test $pair.$fault "seed $::MATRIX(seed), $why"
    } else {
      pass_test $pair.$fault
    }
  }
}

proc matrix_run {} {
  global MATRIX
  set only [lindex [split $MATRIX(only) .] 0]
  foreach case $MATRIX(cases) {
    if {![string match $only [dict get $case name]]} continue
    set case [matrix_begin $case]
    foreach context [matrix_contexts $case] {
      set pair [dict get $case name].$context
      set faults [matrix_faults $pair]
      if {$faults eq ""} continue
      set p [matrix_pair $case $context]
      set i [matrix_random 5]
      foreach state [expr {$MATRIX(soak) ? {warm cold stale}
          : [lindex {. warm warm warm cold stale} $i]}] {
        matrix_state $pair $p $faults $state
      }
    }
  }
}
