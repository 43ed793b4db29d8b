# tester.tcl: the test harness.
#
# A test file is a Tcl script that loads this one, says what should be true,
# and ends with finish_test:
#
#     # group: smoke
#     source [file join [file dirname [info script]] .. tcl test tester.tcl]
#
#     init_db
#     do_execsql_test 1.1-what-is-enqueued-is-claimed {
#       SELECT claimq_enqueue('s', 'hello', 'now_ms', 5) LIKE 'qwb:%';
#       SELECT payload FROM claimq('s', 'worker-a');
#     } {1 hello}
#     do_catchsql_test 1.2-a-session-is-required {
#       SELECT claimq_enqueue()
#     } {1 {claimq: bad_argument: ...}}
#     finish_test
#
# Run one file with `tclsh test/NAME.test` (after `make`), all of them with
# `make smoke` or `make test`.  The comment `# group:` in the first 20 lines
# says when a file runs: smoke (functional; the default; also in make test),
# test (make test only), package (make test-packages: what is handed out,
# installed and used), steady (make steady, and soak), soak (make soak only),
# old (make soak, on a SQLite that is too old), cluster (make cluster).
#
# A file runs in a private empty directory, so the database is just "test.db";
# CLAIMQ_TMP says where (build/tmp).  With CLAIMQ_FIRST set the first failure
# ends it.
# The verbs are those of SQLite's own tester.tcl wherever it has one.
#
# DATABASES
#   open_db ?FILE? ?HANDLE? ?OPTION ...?
#                             open FILE (test.db) as HANDLE (db) and load the
#                             extension; $env(CLAIMQ_SO) says which .so; OPTIONs
#                             are those of sqlite3, such as -readonly 1
#   open_plain ?FILE? ?HANDLE? ?OPTION ...?   the same without the extension
#   close_db ?HANDLE?         close it; an answer other than SQLITE_OK fails
#   reset_db                  close everything, delete test.db, open_db
#   init_db                   reset_db, then claimq_init('all', 1)
#   Any handle but `db` must be closed by the test: finish_test complains.
#
# TESTS
#   A NAME is a number and a sentence: 1.2-a-session-is-required.  The sentence
#   says what should be true, in two words or more; without one the test fails.
#   A NAME that begins with a digit gets the file's name in front.
#   do_test NAME SCRIPT EXPECTED        the script's result is EXPECTED
#   do_execsql_test ?-db H? NAME SQL ?EXPECTED?    all values, as one list
#   do_catchsql_test ?-db H? NAME SQL EXPECTED     {0 LIST} or {1 MESSAGE}
#   do_error_test ?-db H? NAME SQL CODE MESSAGE    CODE as 1 or SQLITE_BUSY
#   do_eqp_test NAME SQL EXPECTED       the detail lines of the query plan
#   integrity_check NAME ?HANDLE?       by SQLite, and by claimq_check
#   damaged_db                          claimq_check will find something, and
#                                       may, until the next reset_db or init_db
#   EXPECTED may be /REGEXP/ or ~/REGEXP/ (must not match); $variables in SQL
#   are bound as the sqlite3 Tcl command does it.  do_eqp_test also takes
#   *GLOB*, compared with the lines joined by blanks.
#   execsql SQL ?H?  catchsql SQL ?H?  eqp SQL ?H?   the same, as commands
#   db_content ?FILE?         all rows of all tables, typed, as one text
#   files_below DIR           the files below a folder, by name, from there
#   skip_test WHAT WHY        prints SKIPPED WHAT: WHY, and is counted
#   sqlite_since VERSION      1 if this SQLite is that version or newer, for
#                             what SQLite does in another way before it
#   finish_test               must be the last command of a file
#
# QUEUES: the words that most tests need
#   fill N TABLE COLUMNS VALUES   N rows by one plain INSERT; in VALUES i is
#                             1..N: fill 9 claimq_job {lane} {'a'||i}
#   claim KIND SCOPE OWNER NOW ?NAME VALUE ...?
#                             claims as of NOW, for 100 ms; returns the payloads
#                             KIND: session, lane, outbox, letter or contest;
#                             SCOPE: NULL for any; NAME: any other argument of
#                             the claim table (partition, capabilities, ...), or
#                             ttl, or max, or get: the columns to return.  A
#                             VALUE is text unless it is an integer or NULL.
#                             claim lane mail w 1000 max 5 get {job_id payload}
#     The last row is in the global array C, its claim id and token are in c
#     and t.  A claim of nothing leaves c and t as they were, and C empty.
#   keep NAME                 remembers the claim in C as the global array NAME
#   settle VERB ?ARG ...?     claimq_VERB($c, $t, ARG, ...), the ARGs as SQL
#   settle_kept NAME VERB ?ARG ...?   the same for a claim that was kept, as
#                             {0 ANSWER} or {1 MESSAGE}
#   undone SCRIPT             what SCRIPT answers, whose writes are rolled back
#   fresh ?MS?                no rows in any table of claimq's, settings as they
#                             are; MS: from now on the clock says MS
#   content                   all rows of all tables of claimq's as db sees them
#   do_refused_test NAME SQL MESSAGE   SQL fails with MESSAGE, and changes
#                             nothing in the content
#   damage SQL                SQL without the triggers and the CHECKs
#   broken SQL                what claimq_check finds after damage SQL; undone
#   steps ?GLOB ...?          steps of SQLite's virtual machine that the
#                             statements of claimq took so far: all, or those
#                             whose names match
#   runs ?GLOB ...?           the same for how often they were run
#   cost_db                   init_db without a disk, at time 1000000
#   cost SQL                  steps of one run of SQL, undone
#   within P A B              1 if B is within P percent of A, else both
#   plan_of NAME              the query plan of claimq's statement NAME
#   watch_list ?PROCESS?      descriptors of inotify that a process has, and how
#   watches ?PROCESS?         many; self unless it is given, * for all
#
# TIME
#   at_time MS                from now on the clock of SQLite says MS
#   at_time MS SCRIPT         the same while SCRIPT runs
#   at_time real              back to the real clock
#
# PROCESSES (workers.tcl): real ones, in the same directory
#   with_workers N ?-vars {NAME VALUE ...}? ?-timeout S? SCRIPT
#     Runs SCRIPT in N tclsh at once (they start together) and returns a list
#     of N dicts {me I rc RC out LINES}.  In SCRIPT: $me is 0..N-1, $nworker
#     is N, open_db and all of this file work, `emit A B ...` prints one line
#     (a Tcl list).  RC is 0, or the exit code, or SIGKILL and the like; an
#     error in SCRIPT is RC 1 with the message as last line.
#   worker_start SCRIPT ?-vars L? ?-me I? ?-n N?     -> handle (not yet going)
#   worker_go H               let it run
#   worker_line H             its next line of output; raises at its end
#   worker_signal H SIGNAL    KILL, STOP, CONT, TERM ...
#   worker_wait H ?S?         -> {me I rc RC out LINES}, in at most S seconds
#                             (1200)
#
# FAULTS (faultsim.tcl): each runs the body again and again, with the fault at
# the 1st, 2nd, 3rd ... place where it can strike, until it strikes no more.
#   do_faultsim_test NAME ?-faults LIST? ?-setup S? ?-prep S? -body S ?-test S?
#     -setup  runs once, on a database with all tables; its test.db is
#             restored and opened as `db` before every trial
#     -prep   runs before every trial, without faults (to warm up, say)
#     -body   runs with the fault armed; its result is looked at
#     -test   runs after it, without faults; sees $testrc (0 or 1),
#             $testresult, $testnfail (0: the fault did not strike) and
#             usually calls `faultsim_test_result {0 A} {1 B} ...`: the
#             outcome must be one of these, or the usual error of the fault.
#             Default: what the body gives without faults, or that error.
#     All scripts run at global level.
#     LIST (also globs, oom-*), default all but api-*:
#       oom-transient oom-persistent      the allocator
#       ioerr-transient ioerr-persistent full busy-transient busy-persistent
#                                         the file system
#       interrupt                         sqlite3_interrupt() at the n-th step
#       abort                             progress handler stops one statement
#       auth                              the n-th question to the authorizer
#       api-transient api-persistent      the n-th call of a fallible routine
#                                         by the extension
#     To test loading: -prep {open_plain} -body {cq_load db $claimq_so}, or
#     cq_api_load for the api faults, and a -test that allows SQLite's own
#     words, {1 /error during initialization.*/}.
#   do_atomic_test NAME ?-faults L? ?-contexts L? ?-setup S? ?-prep S? -sql SQL
#     All or nothing, by content: a trial that fails must leave every row as
#     it was, one that succeeds must leave exactly what the fault-free run
#     leaves; the database must be sound, and the connection must not be left
#     in a transaction.  CONTEXTS, default all: autocommit, begin, savepoint
#     (both with a row of the user's own written before), deferred (just
#     BEGIN), insert (INSERT INTO a table of main SQL; only if SQL returns
#     columns).  -body SCRIPT instead of -sql for what needs several statements
#     (without context insert).  FAULTS, default all.  -either FAULTS: these
#     may also report an error after all of the work is done (faultsim.tcl
#     says why); default interrupt and abort.
#     The clock stands still at 1000000 unless the test set it.
#   do_crash_test NAME ?-journal {delete wal}? -setup S -body S -check S
#     Runs body in a forked process that dies at its n-th write, sync,
#     truncate or delete, for every n.  Body opens the database itself, and
#     says `ack VALUE` when something is promised.  Check runs afterwards on
#     `db` with $acks (list) and $crashed (0 or 1), raises if not satisfied;
#     integrity_check is done for you.
#   The raw switches are the cq_* commands of test/cqtest.c, described there.

if {[info exists T(root)]} return

set T(root)   [file normalize [file join [file dirname [info script]] .. ..]]
set T(npass)  0
set T(nfail)  0
set T(nskip)  0
set T(opened) {}                   ;# handles, in the order they were opened
set T(name)   [file rootname [file tail $argv0]]
set T(seed)   [expr {[info exists env(CLAIMQ_SEED)] ? $env(CLAIMQ_SEED) : 1}]
set testdir   $T(root)/test

# A path that the environment may set.  Made absolute there too, because
# workers inherit it and the directory will change.
proc env_path {name default} {
  if {![info exists ::env($name)]} {set ::env($name) $default}
  set ::env($name) [file normalize $::env($name)]
  return $::env($name)
}
set claimq_so [env_path CLAIMQ_SO $T(root)/claimq.so]
set cqtest_so [env_path CQTEST_SO $T(root)/build/cqtest.so]

# What a test needs and is not there: say in one line what to run, and end.
proc give_up {what todo} {
  puts stderr "$::argv0: there is no $what: run $todo in $::T(root)"
  exit 1
}

# The helper is built by the first test that runs after a plain make.
if {![file exists $claimq_so]} {give_up $claimq_so make}
if {![file exists $cqtest_so]} {
  catch {
    exec make -s -C $T(root) BUILD=[file dirname $cqtest_so] $cqtest_so 2>@1
  }
  if {![file exists $cqtest_so]} {give_up $cqtest_so "make deps tools"}
}

# Before the sqlite3 package, and -global: see test/cqtest.c.
if {[catch {load -global $cqtest_so Cqtest; package require sqlite3} msg]} {
  give_up "SQLite for Tcl ([lindex [split $msg \n] 0])" "make deps"
}

# CLAIMQ_SQLITE says which SQLite this must be (see versions.tcl).  Another one
# in its place would make the whole run worthless, so it ends here.
proc check_sqlite {wanted} {
  sqlite3 ::cq_version :memory:
  lassign [split $wanted -] number suffix
  set got [::cq_version one {SELECT sqlite_version()}]
  foreach option [expr {$suffix eq "debug" ? "DEBUG ENABLE_API_ARMOR" : ""}] {
    if {![::cq_version one {SELECT sqlite_compileoption_used($option)}]} {
      append got " without $option"
    }
  }
  ::cq_version close
  if {$got ne $number} {
    puts "FAILED: this is SQLite $got, not $wanted\n0 passed, 1 failed"
    exit 1
  }
}
if {[info exists env(CLAIMQ_SQLITE)]} {check_sqlite $env(CLAIMQ_SQLITE)}

proc sqlite_since {version} {
  return [expr {[package vcompare [sqlite3 -version] $version] >= 0}]
}

# Do writers wait for each other at a gate, in this build and on this system?
proc has_gate {} {
  expr {[string match -nocase linux $::tcl_platform(os)]
        && ![string match */poll/* $::claimq_so]}
}

#--------------------------------------------------------------------------
# Counting and reporting.  Silent when all is well; VERBOSE=1 shows each test.

# The whole name of a test.  It must say what the test says, in words behind its
# number: a failure is read by somebody who does not have the file open.
proc test_name {name} {
  if {![regexp {[^\s-][\s-]\S*[[:alpha:]]\S*[\s-]\S*[[:alpha:]]} $name]} {
    fail_test $name "name it by what it says, such as 1.2-no-lane-is-refused"
  }
  return [expr {[string is digit -strict [string index $name 0]]
    ? "$::T(name)-$name" : $name}]
}

proc pass_test {name} {
  incr ::T(npass)
  if {[info exists ::env(VERBOSE)]} {puts "ok $name"}
}

proc fail_test {name why} {
  incr ::T(nfail)
  puts "FAILED $name"
  puts "  [string map {\n "\n  "} $why]"
  flush stdout
  if {[info exists ::env(CLAIMQ_FIRST)]} {exit 1}
}

proc skip_test {what why} {
  incr ::T(nskip)
  puts "SKIPPED $what: $why"
}

# Does a result fit what a test expects (a value, /REGEXP/ or ~/REGEXP/)?
proc test_matches {expected got} {
  if {[regexp {^(~?)/(.*)/$} $expected -> not re]} {
    return [expr {[regexp -- $re $got] == ($not eq "")}]
  }
  return [expr {$expected eq $got}]
}

proc check_result {name expected got} {
  if {[test_matches $expected $got]} {
    pass_test $name
  } else {
    fail_test $name "expected: $expected\ngot:      $got"
  }
}

# A list as Tcl itself would write it; patterns are left alone.
proc normal_list {expected} {
  if {[regexp {^~?/.*/$} $expected]} {return $expected}
  return [list {*}$expected]
}

#--------------------------------------------------------------------------
# Databases

proc open_plain {{file test.db} {handle db} args} {
  if {$handle in $::T(opened)} {close_db $handle}
  sqlite3 ::$handle $file {*}$args
  lappend ::T(opened) $handle
  return $handle
}

proc open_db {{file test.db} {handle db} args} {
  open_plain $file $handle {*}$args
  if {[catch {cq_load $handle $::claimq_so} msg]} {
    close_db $handle
    error $msg
  }
  return $handle
}

proc close_db {{handle db}} {
  set refused [cq_close_errors]
  ::$handle close
  set ::T(opened) [lsearch -all -inline -not -exact $::T(opened) $handle]
  if {[cq_close_errors] > $refused} {
    fail_test "$::T(name)-close" "sqlite3_close($handle) was refused"
  }
}

proc close_all {} {
  foreach handle $::T(opened) {close_db $handle}
}

proc delete_db {{file test.db}} {
  foreach suffix {"" -journal -wal -shm} {file delete -force $file$suffix}
}

# The state that a test leaves behind must be sound, also by claimq's own
# judgement, unless a test says that it has damaged it.
proc damaged_db {} {set ::T(damaged) 1}

proc state_check {name handle} {
  if {[info exists ::T(damaged)] || ![::$handle one {
    SELECT count(*)=2 FROM (
      SELECT name FROM pragma_module_list WHERE name='claimq_check'
      UNION ALL SELECT name FROM sqlite_schema WHERE name='claimq_meta')
  }]} return
  set wrong [::$handle eval {SELECT * FROM claimq_check LIMIT 9}]
  if {$wrong eq ""} {
    pass_test $name
  } else {
    fail_test $name "before line [test_line] claimq_check says: $wrong"
  }
}

# The line of the test's file that is being executed.
proc test_line {} {
  for {set i 1} {$i<=[info frame]} {incr i} {
    set frame [info frame $i]
    if {[dict exists $frame file]
        && [file tail [dict get $frame file]] eq "$::T(name).test"} {
      return [dict get $frame line]
    }
  }
  return 0
}

proc reset_db {} {
  if {"db" in $::T(opened) && ![catch {db one {SELECT 1 FROM sqlite_schema}}]} {
    state_check $::T(name)-state db
  }
  unset -nocomplain ::T(damaged)
  close_all
  delete_db
  open_db
}

proc init_db {} {
  reset_db
  db eval {SELECT claimq_init('all', 1)}
  return
}

# A statement in which claimq_job has two more columns: due, when the job can be
# claimed, and bucket, what it stands together with in the index.  So has
# claimq_batch due.
proc placed {sql} {
  string map {"FROM claimq_job" "FROM (SELECT *,
    iif(ifnull(place>=-1, admission IS NOT 'grant'), ifnull(place,
      iif(available_at_ms>created_at_ms, available_at_ms, -1)), NULL) AS due,
    ifnull(head_id, iif(group_key IS NULL, capabilities, 'g'||capabilities))
      AS bucket FROM main.claimq_job)" "FROM claimq_batch" "FROM (SELECT *,
    ifnull(place, iif(available_at_ms>enqueued_at_ms, available_at_ms, -1))
      AS due FROM main.claimq_batch)"} $sql
}

# All rows of all tables, with their types, as text: two databases have the
# same content if and only if it is equal.  Read by a connection of its own,
# which sees only what was committed, and which does not have the extension.
proc db_content {{file test.db}} {
  sqlite3 ::cq_content $file -readonly 1
  set code [catch {
    set out {}
    ::cq_content eval {
      SELECT name, sql FROM sqlite_schema ORDER BY rowid
    } {
      lappend out "$name $sql"
      if {[regexp -nocase {^CREATE TABLE} $sql]} {
        lappend out {*}[table_content $name]
      }
    }
    join $out \n
  } result options]
  ::cq_content close
  return -options $options $result
}

proc table_content {table} {
  set cols {}
  ::cq_content eval {SELECT name FROM pragma_table_xinfo($table)} {
    lappend cols "quote(\"$name\")"
  }
  return [::cq_content eval "
    SELECT '  ' || [join $cols { || ',' || }] FROM \"$table\" ORDER BY 1
  "]
}

proc files_below {dir} {
  return [lsort [split [exec find $dir ! -type d -printf "%P\n"] \n]]
}

#--------------------------------------------------------------------------
# SQL.  uplevel, so that $variables in SQL are those of the caller.

proc execsql {sql {handle db}} {
  return [uplevel 1 [list ::$handle eval $sql]]
}

proc catchsql {sql {handle db}} {
  set code [catch {uplevel 1 [list ::$handle eval $sql]} result]
  return [list $code $result]
}

proc eqp {sql {handle db}} {
  set out {}
  ::$handle eval "EXPLAIN QUERY PLAN $sql" row {lappend out $row(detail)}
  return $out
}

# The stock shell, with its own library: another program with another SQLite.
# It waits for locks: with a rollback journal a reader may hold up a writer.
set SHELL {env -u LD_LIBRARY_PATH sqlite3 -cmd {.timeout 60000}}

#--------------------------------------------------------------------------
# Queues

proc fill {n table columns values} {
  db eval "
    INSERT INTO ${table}($columns)
    WITH RECURSIVE c(i) AS (SELECT 1 UNION ALL SELECT i+1 FROM c WHERE i<$n)
    SELECT $values FROM c"
}

# KIND: the table, and the argument that says of what.
array set CLAIMS {
  session {claimq session}
  lane    {claimq_lane lane}
  outbox  {claimq_outbox queue}
  letter  {claimq_dead_letter scope}
  contest {claimq_contest label}
}

# NAME=VALUE as a claim table takes it.
proc claim_argument {name value} {
  if {$value eq "NULL"} {return "$name IS NULL"}
  if {![string is entier -strict $value]} {
    set value '[string map {' ''} $value]'
  }
  return $name=$value
}

proc claim {kind scope owner now args} {
  lassign $::CLAIMS($kind) table what
  set given [dict merge {ttl 100 get payload} $args]
  set get [dict get $given get]
  set where [list [claim_argument $what $scope] \
    [claim_argument owner $owner] [claim_argument now_ms $now]]
  dict for {name value} [dict remove $given get] {
    if {$name eq "ttl"} {set name lease_ms}
    lappend where [claim_argument $name $value]
  }
  array unset ::C
  set out {}
  db eval "SELECT * FROM $table WHERE [join $where { AND }]" ::C {
    set ::c $::C(claim_id)
    set ::t $::C(lease_token)
    foreach column $get {lappend out $::C($column)}
  }
  unset -nocomplain ::C(*)
  return $out
}

proc keep {name} {
  upvar #0 $name kept
  unset -nocomplain kept
  array set kept [array get ::C]
}

proc settle {verb args} {
  set list [join [list {$::c} {$::t} {*}$args] ,]
  return [db one "SELECT claimq_${verb}($list)"]
}

proc settle_kept {name verb args} {
  upvar #0 $name kept
  set list [join [list {$kept(claim_id)} {$kept(lease_token)} {*}$args] ,]
  return [catchsql "SELECT claimq_${verb}($list)"]
}

proc undone {script} {
  db eval {SAVEPOINT undone}
  set code [catch {uplevel 1 $script} result options]
  db eval {ROLLBACK TO undone; RELEASE undone}
  return -options $options $result
}

proc claimq_tables {} {
  return [db eval {
    SELECT name FROM main.sqlite_schema
    WHERE type='table' AND name GLOB 'claimq*' ORDER BY name
  }]
}

# Run SQL without claimq's triggers: what a plain UPDATE or DELETE may not do.
proc unguarded {sql} {
  db config enable_trigger 0
  try {
    return [uplevel 1 [list db eval $sql]]
  } finally {
    db config enable_trigger 1
  }
}

# Without triggers, which refuse to delete what is held.
proc fresh {{ms ""}} {
  db config enable_trigger 0
  foreach table [claimq_tables] {
    if {$table ne "claimq_meta"} {db eval "DELETE FROM main.$table"}
  }
  db config enable_trigger 1
  db eval {DELETE FROM sqlite_sequence}
  if {$ms ne ""} {at_time $ms}
}

# By the connection itself: cheap, and sees what is not committed.
proc content {} {
  set sql {}
  foreach table [claimq_tables] {
    set cols [db eval {SELECT 'quote("'||name||'")'
                       FROM pragma_table_info($table)}]
    lappend sql "SELECT '$table', [join $cols ||] FROM main.\"$table\""
  }
  return [db eval [join $sql " UNION ALL "]]
}

proc damage {sql} {
  damaged_db
  db config enable_trigger 0
  db eval {PRAGMA ignore_check_constraints=1}
  db eval $sql
  db eval {PRAGMA ignore_check_constraints=0}
  db config enable_trigger 1
}

proc broken {sql} {
  set was [info exists ::T(damaged)]
  set out [undone {
    damage $sql
    db eval {SELECT * FROM claimq_check}
  }]
  if {!$was} {unset ::T(damaged)}
  return $out
}

proc sum_of {column globs} {
  set n 0
  if {![llength $globs]} {set globs *}
  foreach glob $globs {
    incr n [db one "SELECT ifnull(sum($column), 0) FROM claimq_stmt
                    WHERE name GLOB \$glob"]
  }
  return $n
}
proc cost_db {} {
  init_db
  at_time 1000000
  db eval {PRAGMA journal_mode=memory; PRAGMA synchronous=off;
           PRAGMA cache_size=-400000}
}
proc steps {args} {return [sum_of vm_steps $args]}
proc runs {args} {return [sum_of runs $args]}

# The statements must be in the cache, or what they did is forgotten with them:
# the first run is for that.
proc cost {sql} {
  foreach run {1 2 3} {                  ;# All is prepared, and then known
    set before [steps]
    db eval {SAVEPOINT cost}
    uplevel 1 [list db eval $sql]
    set cost [expr {[steps] - $before}]
    db eval {ROLLBACK TO cost; RELEASE cost}
  }
  return $cost
}

proc within {p a b} {
  return [expr {abs($b-$a)*100 <= $p*$a ? 1 : "$a and $b"}]
}

proc plan_of {name} {
  return [string map {main. {}} \
    [eqp [db one {SELECT sql FROM claimq_stmt WHERE name=$name}]]]
}

proc watch_list {{process self}} {
  set out {}
  foreach fd [glob -nocomplain /proc/$process/fd/*] {
    if {![catch {file readlink $fd} what] && $what eq "anon_inode:inotify"} {
      lappend out [file tail $fd]
    }
  }
  return $out
}
proc watches {{process self}} {return [llength [watch_list $process]]}

#--------------------------------------------------------------------------
# Tests

# Names the calling test's handle: removes "-db HANDLE" from the arguments.
proc take_db {argsVar} {
  upvar 1 $argsVar args
  if {[lindex $args 0] ne "-db"} {return db}
  set args [lassign $args - handle]
  return $handle
}

proc do_test {name script expected} {
  set name [test_name $name]
  if {[catch {uplevel 1 $script} got]} {
    fail_test $name "expected: $expected\nerror:    $got"
  } else {
    check_result $name $expected $got
  }
}

proc do_execsql_test {args} {
  set handle [take_db args]
  lassign $args name sql expected
  uplevel 1 [list do_test $name [list execsql $sql $handle] \
    [normal_list $expected]]
}

proc do_catchsql_test {args} {
  set handle [take_db args]
  lassign $args name sql expected
  uplevel 1 [list do_test $name [list catchsql $sql $handle] \
    [normal_list $expected]]
}

proc do_refused_test {name sql message} {
  set before [content]
  uplevel 1 [list do_catchsql_test $name $sql [list 1 $message]]
  do_test $name-and-changes-nothing {expr {[content] eq $before}} 1
}

# An error by message and by code (a number or a name).
proc do_error_test {args} {
  set handle [take_db args]
  lassign $args name sql code message
  array set number {
    SQLITE_ERROR 1 SQLITE_BUSY 5 SQLITE_LOCKED 6 SQLITE_NOMEM 7
    SQLITE_READONLY 8 SQLITE_INTERRUPT 9 SQLITE_IOERR 10 SQLITE_CORRUPT 11
    SQLITE_FULL 13 SQLITE_CANTOPEN 14 SQLITE_SCHEMA 17 SQLITE_TOOBIG 18
    SQLITE_CONSTRAINT 19 SQLITE_MISMATCH 20 SQLITE_MISUSE 21 SQLITE_AUTH 23
  }
  if {[info exists number($code)]} {set code $number($code)}
  set got [uplevel 1 [list catchsql $sql $handle]]
  set gotcode [expr {[::$handle errorcode] & 255}]
  if {$gotcode == $code && [test_matches $message [lindex $got 1]]} {
    pass_test [test_name $name]
  } else {
    fail_test [test_name $name] "expected: code $code, $message\
      \ngot:      code $gotcode, $got"
  }
}

# The lines of the plan in order, or a *GLOB* over all of them.
proc do_eqp_test {name sql expected} {
  set got [eqp $sql]
  if {[string match {\**\*} $expected]
      && [string match $expected [join $got]]} {
    pass_test [test_name $name]
  } else {
    check_result [test_name $name] [normal_list $expected] $got
  }
}

proc integrity_check {name {handle db}} {
  check_result [test_name $name] ok [::$handle eval {PRAGMA integrity_check}]
  state_check [test_name $name]-state $handle
}

#--------------------------------------------------------------------------
# Time

set T(clock) real
proc at_time {ms args} {
  set before $::T(clock)
  cq_clock $ms
  set ::T(clock) $ms
  if {[llength $args] == 0} return
  set code [catch {uplevel 1 [lindex $args 0]} result options]
  at_time $before
  return -options $options $result
}

#--------------------------------------------------------------------------
# Beginning and end

# What SQLite itself keeps for good must not look like a leak.
proc memory_baseline {} {
  open_plain :memory:
  db eval {SELECT julianday('now')}
  close_db
  set ::T(memory) [cq_malloc_count]
}

# What was left behind, as a message; empty if nothing.
proc left_behind {} {
  set out {}
  if {[cq_open_files] > 0} {
    lappend out "[cq_open_files] files are still open"
  }
  lassign [cq_malloc_count] n bytes
  lassign $::T(memory) n0 bytes0
  if {$n != $n0} {
    lappend out "leaked [expr {$n-$n0}] allocations,\
      [expr {$bytes-$bytes0}] bytes"
  }
  return [join $out \n]
}

proc finish_test {} {
  foreach fault {oom io api interrupt abort auth crash} {cq_fault $fault 0}
  at_time real
  if {"db" in $::T(opened) && ![catch {db one {SELECT 1 FROM sqlite_schema}}]} {
    state_check $::T(name)-state db
  }
  set why {}
  foreach handle $::T(opened) {
    if {$handle ne "db"} {lappend why "database $handle was not closed"}
  }
  close_all
  lappend why {*}[split [left_behind] \n]
  if {[llength $why]} {
    fail_test $::T(name)-finish [join $why \n]
  } else {
    pass_test $::T(name)-finish
  }
  cd $::T(root)
  file delete -force $::T(tmp)
  set line "$::T(npass) passed, $::T(nfail) failed"
  if {$::T(nskip)} {append line ", $::T(nskip) skipped"}
  puts $line
  exit [expr {$::T(nfail) > 0}]
}

source $T(root)/tcl/test/workers.tcl
source $T(root)/tcl/test/faultsim.tcl

# A worker (workers.tcl) shares the directory of the test that started it.
if {![info exists cq_worker]} {
  set T(tmp) [env_path CLAIMQ_TMP $T(root)/build/tmp]/$T(name)-[pid]
  file mkdir $T(tmp)
  cd $T(tmp)
}
memory_baseline
