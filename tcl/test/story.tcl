# story.tcl: the same small story with each language's package.
#
#     source tcl/test/tester.tcl
#     source tcl/test/story.tcl
#     package_files python         make the package of this machine; its files
#     story python [list python3 story.py]
#
# The program of a language (test/packages/story.*) uses the installed package
# and nothing of this tree.  It is called as
#
#     PROGRAM calls DATABASE                        what a first program does
#     PROGRAM worker DATABASE LANE LEASE_MS BATCH   a Worker, until SIGTERM
#
# `calls` prints lines of words, which are compared.  The handler of `worker`
# does what the payload says: "count" puts a row into the table done, "fail"
# and "later" fail at their first attempt, "reject" rejects, "hold NAME" makes
# the file NAME.begun and waits for NAME.go, "lost NAME" makes NAME.begun, waits
# until it learns that the claim is lost, and makes NAME.lost.  "odd" fails
# three times, in ways that no worker expects: it asks for a retry after -1 ms,
# for one after half a millisecond, and raises an error whose own text raises
# one, and which looks like a request for a retry (as far as the language has
# such things).  "never" asks for a retry after more time than there is.  "what"
# returns what SQLite cannot store.  All others return "did PAYLOAD", which
# becomes the result.  "steps NAME" is of several steps, each of which writes
# its name to NAME.log: `one`, which gives an object {"n":1}; then the first
# attempt asks for a retry, and the second sleeps for 1 ms; `child` submits
# "count" to the lane of the worker and gives its id, which is waited for; `two`
# gives n+1.  Four more words are in agent.tcl.
#
# STORY_TIMEOUT_MS in the environment is how long the Worker waits for a lock,
# STORY_CONCURRENCY how many handlers it runs at once.
# The program opens no connection of its own before the handler needs one.
#
#     readme_story python FIRST WORKER OWN
#
# runs the programs that the README of a language shows: see there.
#
# Everything that decides whether the story went well is here, so that it is
# the same for all languages: what the database says, and that the processes
# end well.  Nothing depends on who is faster: each step waits for what it
# needs, for five minutes at most.

source [file join $T(root) tcl build files.tcl]
source [file join $T(root) tcl test agent.tcl]
set S(limit) 300

# Make the packages of a language for this machine; returns their paths.  A
# reason why that cannot be done is raised with the code SKIP.
proc package_files {language} {
  set lines {}
  if {[catch {
    exec [info nameofexecutable] $::T(root)/tcl/dist/packages.tcl \
      $::T(root)/build -here $language 2>@1
  } out]} {error $out}
  foreach line [split $out \n] {
    if {[regexp {^SKIPPED [^:]*: (.*)} $line -> why]} {
      return -code error -errorcode SKIP $why
    }
    lappend lines $line
  }
  return $lines
}

# Run a command; returns its output.  Raises SKIP with the last line of it if
# it fails, or is not done after ten minutes: for what comes from elsewhere, and
# cannot be had.
proc or_skip {args} {
  if {[catch {exec timeout 600 {*}$args 2>@1} out options]} {
    if {[lrange [dict get $options -errorcode] 2 2] eq "124"} {
      skip "[lrange $args 0 2]: not done after ten minutes"
    }
    regsub {\n?child process exited abnormally$} $out {} out
    regsub -all {\x1b\[[0-9;]*m} $out {} out
    set line [string trim [lindex [split [string trim $out] \n] end]]
    if {$line eq ""} {set line "[lrange $args 0 2]: it failed without a word"}
    skip [string range $line 0 150]
  }
  return $out
}

# TOOL PACKAGE ...: Debian's packages of tools that are not there are installed
# where that can be done; else the rest of a language_test is left out.
proc debian {part args} {
  if {[catch {
    exec sh $::T(root)/tcl/test/deps.sh -part $part {*}$args 2>@1
  } out]} {
    regexp -line {^SKIPPED [^:]*: (.*)} $out -> out
    skip $out
  }
}

# Leave out the rest of a language_test, and say why.
proc skip {why} {
  return -code error -errorcode SKIP $why
}

# A test file about a language: what is raised with SKIP skips the rest of it.
proc language_test {name script} {
  if {[catch {uplevel 1 $script} why options]} {
    if {[dict get $options -errorcode] eq "SKIP"} {
      skip_test $name $why
    } else {
      fail_test $name [dict get $options -errorinfo]
    }
  }
}

#--------------------------------------------------------------------------
# Steps

# Wait until an expression is true.
proc until_true {condition what} {
  set until [expr {[clock seconds] + $::S(limit)}]
  while {![uplevel 1 [list expr $condition]]} {
    if {[clock seconds] > $until} {error "never true: $what"}
    workers_alive
    after 2
  }
}

# Wait until an SQL question has an answer that is true.
proc until_sql {sql} {
  uplevel 1 [list until_true "\[[list db one $sql]\]" $sql]
}

proc until_file {name} {
  until_true {[file exists $name]} "$name is there"
}

# A worker that ended by itself will not do what is waited for.
proc workers_alive {} {
  global S
  foreach pid $S(pids) {
    if {[cq_waitpid $pid 0] ne ""} {
      set S(pids) [lsearch -all -inline -not -exact $S(pids) $pid]
      error "a worker has ended: [output $pid]"
    }
  }
}

proc output {pid} {
  if {![file exists $::S(out,$pid)]} return
  set fd [open $::S(out,$pid)]
  set text [read $fd]
  close $fd
  return [string trim $text]
}

# Start a worker process; returns its pid.
proc start_worker {lane lease batch} {
  global S
  set out worker[incr S(n)].out
  set pid [cq_spawn $out {*}$S(start) {*}$S(program) worker [pwd]/test.db \
    $lane $lease $batch]
  set S(out,$pid) $out
  lappend S(pids) $pid
  return $pid
}

# End a worker by SIGTERM; returns how it ended and what it printed last.
proc end_worker {pid} {
  global S
  cq_kill $pid TERM
  return [await_end $pid]
}

proc await_end {pid} {
  global S
  set status [cq_waitpid $pid [expr {$S(limit)*1000}]]
  if {$status eq ""} {
    cq_kill $pid KILL
    cq_waitpid $pid 10000
    set status {still running}
  }
  set S(pids) [lsearch -all -inline -not -exact $S(pids) $pid]
  return [list $status [lindex [split [output $pid] \n] end]]
}

proc kill_workers {} {
  global S
  foreach pid $S(pids) {
    catch {cq_kill $pid KILL}
    catch {cq_waitpid $pid 10000}
  }
  set S(pids) {}
}

# A test of the story.  Its workers do not outlive it.
proc step {name script expected} {
  uplevel 1 [list do_test $::S(language)-$name $script $expected]
  kill_workers
}

#--------------------------------------------------------------------------
# The story

# kills: how often the agent is killed (agent.tcl).
proc story {language program {kills 15}} {
  global S
  if {[info exists ::env(CLAIMQ_SOAK)]} {set kills 100}
  array set S [list language $language program $program start {} pids {} n 0 \
    kills $kills]
  file delete {*}[glob -nocomplain *.begun *.go *.lost *.out *.log]
  story_calls
  init_db
  db eval {PRAGMA journal_mode=wal; CREATE TABLE done(job_id)}
  db timeout 300000
  story_drain
  story_commits
  story_outcomes
  story_sigterm
  story_lost
  story_cancelled
  story_together
  story_wakes
  story_odd
  story_steps
  story_agent
  story_fan
  story_approval
  story_locked
  story_full
  story_ends
  step the-database-is-sound {db one {PRAGMA integrity_check}} ok
  close_db
  story_gone
}

proc story_calls {} {
  global S
  reset_db
  set version [db one {SELECT claimq_version()}]
  close_db
  delete_db
  step every-call-is-answered {
    exec {*}$S(program) calls [pwd]/test.db
  } "version $version\njournal wal\nstale claim_lost\nother none"
  open_db
  step an-order-and-its-job-are-rolled-back {
    execsql {
      SELECT group_concat(id) FROM orders;
      SELECT group_concat(payload) FROM claimq_job WHERE lane='orders';
    }
  } {2 y}
}

# Two workers, 200 jobs, each done once.  Two more jobs hold the workers until
# both are there.
proc story_drain {} {
  for {set i 0} {$i < 200} {incr i} {
    db eval {INSERT INTO claimq_job(lane, payload) VALUES('drain','count')}
  }
  step two-workers-drain-a-lane {
    db eval {
      SELECT claimq_submit('drain', 'hold d1', 'priority', 1),
             claimq_submit('drain', 'hold d2', 'priority', 1)
    }
    set a [start_worker drain 30000 1]
    set b [start_worker drain 30000 1]
    foreach name {d1 d2} {until_file $name.begun}
    foreach name {d1 d2} {close [open $name.go w]}
    until_sql {SELECT count(*)=202 FROM claimq_job
                WHERE lane='drain' AND state='completed'}
    lassign [concat [end_worker $a] [end_worker $b]] \
      statusA lineA statusB lineB
    list $statusA $statusB \
      [expr {[lindex $lineA 1]+[lindex $lineB 1]}] \
      {*}[db eval {SELECT count(*), count(DISTINCT job_id) FROM done}] \
      {*}[db eval {SELECT DISTINCT attempt_index, result FROM claimq_job
                    WHERE lane='drain' AND payload='count'}]
  } {{exit 0} {exit 0} 202 200 200 0 {did count}}
}

# The transactions in the write-ahead log: frames that say how large the
# database is after a commit, as long as they belong to the present log.
proc commits {} {
  set fd [open test.db-wal rb]
  set data [read $fd]
  close $fd
  if {[binary scan $data @8Iu@16a8 page salt] != 2} {return 0}
  set n 0
  for {set at 32} {$at < [string length $data]} {incr at [expr {$page+24}]} {
    if {[binary scan $data @[expr {$at+4}]Iua8 size mine] != 2
        || $mine ne $salt} break
    incr n [expr {$size > 0}]
  }
  return $n
}

# How many calls and transactions came through the gate of claimq's writers
# (ext/store/gate.c).  Not in this process: to close a file there drops its
# locks.
proc through_gate {} {
  return [string trim [exec od -An -tu4 -j124 -N4 test.db-shm]]
}

# One commit takes the first job, and each job is completed together with
# taking the next: 21 for 20 jobs.  No lease is short enough
# to be renewed.  As nobody else writes, these transactions go through the gate
# where there is one, but for the first few: the WAL is empty, so that the
# worker does not find the gate at once.
proc story_commits {} {
  step one-commit-for-each-job {
    for {set i 0} {$i < 20} {incr i} {
      db eval {INSERT INTO claimq_job(lane, payload) VALUES('c', 'nothing')}
    }
    db eval {PRAGMA wal_checkpoint(TRUNCATE)}
    set before [through_gate]
    set pid [start_worker c 3000000 1]
    until_sql {SELECT count(*)=20 FROM claimq_job
                WHERE lane='c' AND state='completed'}
    set n [expr {[through_gate] - $before}]
    list [commits] [end_worker $pid] [expr {
      $n>=15 || ![string match -nocase linux $::tcl_platform(os)] ? "gate" : $n
    }]
  } {21 {{exit 0} {begun 20}} gate}
}

# What the handler does decides.  A job that fails is tried again, until its
# attempts are used up: then it becomes a dead letter, as one that is rejected.
proc story_outcomes {} {
  step the-handler-decides-the-outcome {
    db eval {
      SELECT claimq_submit('o','fail','backoff_ms',1),
             claimq_submit('o','later'), claimq_submit('o','reject'),
             claimq_submit('o','fail','max_attempts',1)
    }
    set pid [start_worker o 30000 1]
    until_sql {SELECT count(*)=4 FROM claimq_job
                WHERE lane='o' AND state IN ('completed','failed')}
    list {*}[db eval {
      SELECT payload, state, attempt_index, coalesce(last_error, '')
        FROM claimq_job WHERE lane='o' ORDER BY job_id
    }] letters {*}[db eval {
      SELECT reason FROM claimq_letter WHERE scope='o' ORDER BY ref
    }] [lindex [end_worker $pid] 0]
  } [string cat "/^fail completed 1 {?.*no luck.*}? later completed 1 " \
    {.*later.* reject failed 0 .*poison.* fail failed 0 {?.*no luck.*}? } \
    {letters .*poison.* {?.*no luck.*}? {exit 0}$/}]
}

# SIGTERM while one of five jobs is at hand: that one is finished, four are
# given back at once, and nothing counts as an attempt.
proc story_sigterm {} {
  step SIGTERM-gives-work-back {
    for {set i 1} {$i <= 5} {incr i} {
      db eval {SELECT claimq_submit('t', 'hold t' || $i)}
    }
    set pid [start_worker t 60000 5]
    until_file t1.begun
    set held [db one {SELECT count(*) FROM claimq_job WHERE state='active'}]
    cq_kill $pid TERM
    until_sql {SELECT count(*)=4 FROM claimq_job
                WHERE lane='t' AND state='ready'}
    close [open t1.go w]
    set end [await_end $pid]
    list $held $end [db eval {
      SELECT state, attempt_index, count(*) FROM claimq_job WHERE lane='t'
       GROUP BY 1, 2
    }] [llength [glob t*.begun]]
  } {5 {{exit 0} {begun 1}} {completed 0 1 ready 0 4} 1}
}

# The handlers named begin, and wait for a file; when the lease of each job of
# the lane has been renewed, by more than ms, they may end.  Returns how the
# worker ended when all jobs of the lane are completed, and what they took.
proc renewed_to_the_end {pid lane names ms} {
  foreach name $names {until_file $name.begun}
  set first [db one {SELECT max(expires_at_ms) FROM claimq_job
                      WHERE lane=$lane}]
  until_sql {SELECT min(expires_at_ms) > $first+$ms FROM claimq_job
              WHERE lane=$lane}
  foreach name $names {close [open $name.go w]}
  until_sql {SELECT count(*)=sum(state='completed') FROM claimq_job
              WHERE lane=$lane}
  return [list [end_worker $pid] [db eval {
    SELECT sum(attempt_index), sum(reclaim_count) FROM claimq_job
     WHERE lane=$lane
  }]]
}

# A job that takes longer than its lease is renewed, and so is one that waits
# behind it.  One that is taken away is reported as lost, is not settled, and
# the worker goes on.
proc story_lost {} {
  step a-long-job-is-renewed {
    db eval {SELECT claimq_submit('r', 'hold r1', 'priority', 1),
                    claimq_submit('r', 'count')}
    set pid [start_worker r 600 2]
    renewed_to_the_end $pid r r1 600
  } {{{exit 0} {begun 2}} {0 0}}
  step a-lost-job-is-reported {
    set id [db one {SELECT claimq_submit('l', 'lost l1', 'priority', 1)}]
    db eval {SELECT claimq_submit('l', 'count')}
    set pid [start_worker l 600 1]
    until_file l1.begun
    # Together: a worker that learns of it at once would take the job again.
    set revoked [db eval {BEGIN IMMEDIATE; SELECT claimq_revoke($id);
      SELECT payload FROM claimq_lane('l', 'operator', 6000000) WHERE max=1;
      COMMIT}]
    until_file l1.lost
    until_sql {SELECT count(*)=1 FROM claimq_job
                WHERE lane='l' AND state='completed'}
    list $revoked [lindex [end_worker $pid] 0] [db eval {
      SELECT payload, state, owner FROM claimq_job WHERE job_id=$id
    }]
  } {{revoked {lost l1}} {exit 0} {{lost l1} active operator}}
}

# How long it takes until a handler learns of a cancel: the median of twenty, in
# ms.  They come at different times after the begin of the handler, wherever the
# worker is between two looks.
proc median_cancel {try} {
  for {set i 1} {$i <= 20} {incr i} {
    set name q$try-$i
    set id [db one {SELECT claimq_submit('q', 'lost ' || $name)}]
    until_file $name.begun
    after [expr {$i*7}]
    db eval {SELECT claimq_cancel($id, 'force', 1)}
    set start [clock milliseconds]
    until_file $name.lost
    lappend all [expr {[clock milliseconds] - $start}]
  }
  return [lindex [lsort -integer $all] 10]
}

# A handler learns of a cancel at once, though its lease is renewed only minutes
# later: within 100 ms, where the machine has nothing else to do.  Where it has,
# there are ten tries, and then it is not known; but seconds are never taken.
proc story_cancelled {} {
  global S
  set pid [start_worker q 600000 1]
  for {set try 1} {$try <= 10} {incr try} {
    set ms [median_cancel $try]
    if {$ms <= 100} break
  }
  if {$ms > 100} {
    skip_test $S(language)-a-cancel-within-100-ms "$ms ms at a load of\
      [lindex [read_file /proc/loadavg] 0]"
  }
  step a-cancel-is-seen-at-once {
    list [expr {$ms <= 10000}] [lindex [end_worker $pid] 0] [db eval {
      SELECT DISTINCT state FROM claimq_job WHERE lane='q'
    }]
  } {1 {exit 0} cancelled}
}

# Several handlers of one worker at once, and each of their jobs is renewed.
proc story_together {} {
  step jobs-of-one-worker-are-renewed-together {
    foreach name {k1 k2 k3} {
      db eval {SELECT claimq_submit('k', 'hold ' || $name)}
    }
    set ::env(STORY_CONCURRENCY) 3
    set pid [start_worker k 6000 1]
    unset ::env(STORY_CONCURRENCY)
    renewed_to_the_end $pid k {k1 k2 k3} 0
  } {{{exit 0} {begun 3}} {0 0}}
}

# A worker that has found nothing more takes what is put later.
proc story_wakes {} {
  step an-idle-worker-is-woken {
    db eval {SELECT claimq_submit('w', 'count')}
    set pid [start_worker w 30000 1]
    until_sql {SELECT count(*)=1 FROM claimq_job
                WHERE lane='w' AND state='completed'}
    db eval {SELECT claimq_submit('w', 'count')}
    until_sql {SELECT count(*)=2 FROM claimq_job
                WHERE lane='w' AND state='completed'}
    end_worker $pid
  } {{exit 0} {begun 2}}
}

# Whatever a handler does, its worker goes on, and it counts as an attempt.  A
# failure is logged; its class is kept, and so is the end of its trace, which
# plain errors of Go do not have.  A result that cannot be stored is
# logged, and the job is done all the same.
proc story_odd {} {
  global S
  step a-handler-cannot-end-its-worker {
    db eval {
      SELECT claimq_submit('x', 'odd', 'backoff_ms', 1),
             claimq_submit('x', 'never'), claimq_submit('x', 'what')
    }
    set pid [start_worker x 30000 1]
    until_sql {SELECT count(*)=2 FROM claimq_job
                WHERE lane='x' AND state='completed'}
    list {*}[db eval {
      SELECT payload, state, attempt_index, coalesce(result, 'none'),
             available_at_ms > 9e12
        FROM claimq_job WHERE lane='x' ORDER BY job_id
    }] [lindex [end_worker $pid] 0] \
      [regexp {cannot be stored|was refused} [output $pid]]
  } {odd completed 3 {did odd} 0 never delayed 1 none 1 what completed 0 none 0\
    {exit 0} 1}
  step a-failure-is-logged-and-its-class-kept {
    set job [db one {SELECT claimq_submit('y', 'fail', 'max_attempts', 1)}]
    set pid [start_worker y 30000 1]
    until_sql {SELECT state='failed' FROM claimq_job WHERE job_id=$job}
    end_worker $pid
    list [regexp "job $job\\M.*no luck" [output $pid]] {*}[db eval {
      SELECT error_class<>'', reason LIKE '%no luck%',
             instr(reason, char(10)) > 0 FROM claimq_letter
       WHERE scope='y'
    }]
  } [list 1 1 1 [expr {$S(language) ne "go"}]]
}

# Wait until a worker has said something, more than once.
proc until_said {pid pattern} {
  until_true {[regexp -all $pattern [output $pid]] >= 2} "it says $pattern"
}

# A job of several steps runs each of them once, though its handler begins anew
# after a retry, a sleep and a child.
proc story_steps {} {
  step each-step-runs-once {
    set job [db one {SELECT claimq_submit('p', 'steps p1')}]
    set pid [start_worker p 30000 1]
    until_sql {SELECT state='completed' FROM claimq_job WHERE job_id=$job}
    set fd [open p1.log]
    set log [split [string trim [read $fd]] \n]
    close $fd
    list $log [lindex [end_worker $pid] 0] {*}[db eval {
      SELECT attempt_index, attempts, result FROM claimq_job WHERE job_id=$job
    }] {*}[db eval {
      SELECT name, CASE name WHEN 'one' THEN replace(value, ' ', '')
                             WHEN 'two' THEN value END
        FROM claimq_steps WHERE job_id=$job
    }]
  } [list {one child two} {exit 0} 1 2 {did steps p1} child {} \
    one {{"n":1}} sleep-1 {} two 2]
}

# When both jobs of a lane are completed: how the worker ended, what they took,
# and how many have left a row.
proc both_done {pid lane} {
  until_sql {SELECT count(*)=2 FROM claimq_job
              WHERE lane=$lane AND state='completed'}
  return [list [end_worker $pid] [db eval {
    SELECT sum(attempt_index), sum(reclaim_count) FROM claimq_job
     WHERE lane=$lane; SELECT count(*) FROM done
  }]]
}

# A lock that lasts longer than the worker waits for it, when it begins and when
# it settles: it goes on afterwards, and no work is repeated.
proc story_locked {} {
  step a-long-lock-does-not-end-a-worker {
    db eval {SELECT claimq_submit('b', 'hold b1'), claimq_submit('b', 'count')}
    set ::env(STORY_TIMEOUT_MS) 50
    db eval {DELETE FROM done; BEGIN IMMEDIATE}
    set pid [start_worker b 600 1]
    unset ::env(STORY_TIMEOUT_MS)
    until_said $pid {database is locked|SQLITE_BUSY}
    db eval COMMIT
    until_file b1.begun
    set said [output $pid]
    db eval {BEGIN IMMEDIATE}
    close [open b1.go w]
    until_said $pid {settling job [^\n]*(database is locked|SQLITE_BUSY)}
    db eval COMMIT
    both_done $pid b
  } {{{exit 0} {begun 2}} {0 0 1}}
}

# A disk that is full when the worker settles, and has room again later: files
# may not grow beyond a limit, which is lifted.
proc story_full {} {
  global S
  if {[auto_execok prlimit] eq ""} {
    skip_test $S(language)-a-full-disk "there is no prlimit"
    return
  }
  step a-full-disk-does-not-end-a-worker {
    db eval {SELECT claimq_submit('f', 'hold f1'), claimq_submit('f', 'count')}
    db eval {DELETE FROM done}
    set S(start) {sh -c {trap "" XFSZ; exec "$@"} sh}
    set pid [start_worker f 60000 1]
    set S(start) {}
    until_file f1.begun
    db eval {PRAGMA wal_checkpoint(TRUNCATE)}
    exec prlimit --pid $pid --fsize=4096:unlimited
    close [open f1.go w]
    until_said $pid {settling job [^\n]*(disk|DISK|SQLITE_FULL|SQLITE_IOERR)}
    exec prlimit --pid $pid --fsize=unlimited:unlimited
    both_done $pid f
  } {{{exit 0} {begun 2}} {0 0 1}}
}

# A file that is moved away ends the worker, which says so; no other file is
# made in its place.
proc story_gone {} {
  step a-file-that-is-gone-ends-the-worker {
    init_db
    db eval {PRAGMA journal_mode=wal; CREATE TABLE done(job_id);
      SELECT claimq_submit('g', 'count')}
    db timeout 300000
    set pid [start_worker g 30000 1]
    until_sql {SELECT state='completed' FROM claimq_job}
    close_db
    file rename -force test.db moved.db
    lassign [await_end $pid] status
    string cat "made [file exists test.db], $status: " [output $pid]
  } {/^made 0, (?!exit 0).*: .*test.db was removed or replaced/}
  file delete -force moved.db test.db-wal test.db-shm
}

# What claimq refuses ends the worker, which says why.  (A worker gives no time,
# and so cannot serve a database that takes the time from its callers.)
proc story_ends {} {
  global S
  step an-error-of-claimq-ends-the-worker {
    db eval {SELECT claimq_init('clock', 'explicit')}
    set pid [start_worker e 30000 1]
    lassign [await_end $pid] status
    list [expr {$status ne "exit 0"}] \
      [regexp {claimq: clock_required: .*: give now_ms} [output $pid]]
  } {1 1}
}

#--------------------------------------------------------------------------
# The README of a language

# The Nth code block of a language in a file; raises if there is none.
proc readme_block {file language n} {
  set blocks [regexp -all -inline -- "(?n)^```$language\\n((?:.*\\n)*?)```$" \
    [read_file $::T(root)/$file]]
  if {$n*2 > [llength $blocks]} {error "$file has no block $n of $language"}
  return [lindex $blocks [expr {$n*2-1}]]
}

# A file that has this text already is left alone: compilers look at its time.
proc write_file {file text} {
  if {[file exists $file] && [read_file $file] eq $text} return
  file mkdir [file dirname $file]
  set fd [open $file w]
  fconfigure $fd -encoding utf-8
  puts -nonewline $fd $text
  close $fd
}

# What each README shows in its code, and what it explains, by regular
# expressions.
set S(shown) {
  {[sS]ubmit\(} {max_?[aA]ttempts} max_active claimq_schedule claimq_letter
  claimq_requeue keep_ms {[sS]tep(_json)?[(]} now_ms {[dD]rain} {\[Service\]}
  Outbox Session Contest {[dD]one\(} {(?i)lost}
}
set S(explained) {
  {[cC]oncurrency} {[lL]anes?} {[tT]ask\(} {Release} {[hH]eaders} error_class
  last_error {[cC]reate} {[sS]ynchronous} NORMAL {at least once} FULL
  {cannot be stored|left out} {json|JSON} SIGTERM
}

# Those of them that a README lacks.
proc readme_lacks {language} {
  set text [read_file $::T(root)/ext/lang/[string map {bun node deno node} \
    $language]/README.md]
  set code [join [regexp -all -inline -- {(?n)^```\w*\n(?:.*\n)*?```$} $text]]
  return [concat \
    [lmap rx $::S(shown) {if {[regexp $rx $code]} continue; set rx}] \
    [lmap rx $::S(explained) {if {[regexp $rx $text]} continue; set rx}]]
}

# The first programs of a README, run as they stand there: one puts an order and
# its job into app.db, another works on it until SIGTERM, and a third completes
# a job in the transaction that puts it into the table sent.
proc readme_story {language first worker {own ""}} {
  global S
  array set S [list language $language start {} pids {} n 0]
  file delete {*}[glob -nocomplain app.db* *.out]
  step the-README-shows-everything {readme_lacks $language} {}
  step the-first-program-of-the-README {
    exec {*}$first 2>@1
    open_db app.db
    execsql {
      SELECT * FROM orders;
      SELECT lane, payload, state FROM claimq_job;
    }
  } {42 mail {order 42} ready}
  step the-worker-of-the-README {
    set S(program) $worker
    set pid [start_worker {} {} {}]
    until_sql {SELECT state='completed' FROM claimq_job}
    lassign [end_worker $pid] status
    list $status [lindex [regexp -inline {order 42} [output $pid]] 0]
  } {{exit 0} {order 42}}
  if {$own ne ""} {
    step the-worker-of-the-README-with-writes-of-its-own {
      set S(program) $own
      execsql {SELECT claimq_submit('mail', 'order 43')}
      set pid [start_worker {} {} {}]
      until_sql {SELECT count(*)=2 FROM claimq_job WHERE state='completed'}
      list [lindex [end_worker $pid] 0] [execsql {
        SELECT * FROM sent;
        SELECT job_id, outcome FROM claimq_attempt;
      }]
    } {{exit 0} {{order 43} 1 success 2 success}}
  }
  catch {close_db}
}

# The same, by a command that makes a program: it is called with a name and the
# text, and returns how the program is run.
proc readme_programs {language file info make} {
  set n 0
  foreach name {first worker own} {
    lappend commands [{*}$make $name [readme_block $file $info [incr n]]]
  }
  readme_story $language {*}$commands
}
