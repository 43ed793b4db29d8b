# calls.tcl: random calls of everything that claimq_help lists.
#
#     source $T(root)/tcl/test/calls.tcl
#     calls_begin db 17                 ;# seed 17
#     set sql [calls_next]              ;# SELECT claimq_submit('l1', 'p3', ...
#     calls_note $sql [calls_run db $sql]
#
# The functions, claim tables, arguments and options are read from claimq_help,
# so one that is new is called as soon as it is there.  What calls_value knows
# by name (a lane, an owner, a claim that was made before) gets a value that
# makes sense; everything else gets one by its type.  Some calls are refused:
# that is an answer like any other.
#
# now_ms is always given.  It goes on in small and large steps, and sometimes
# back.
#
#   CALLS(def)       name -> {kind table|function args LIST opts LIST}; of an
#                    argument: {name type words minimum}
#   CALLS(now)       the time
#   CALLS(claims)    {claim_id lease_token} of claims made, newest last
#   CALLS(jobs)      job ids; CALLS(batches): batch ids
#   CALLS(n)         calls so far
#   CALLS(plan)      the calls that come next, of a wave
#   CALLS(last)      the last call that had a request

if {[info commands calls_next] ne ""} return

# What is called how often; 2 where nothing is said.
array set CALLS_WEIGHT {
  claimq 8 claimq_lane 8 claimq_outbox 6 claimq_dead_letter 4
  claimq_enqueue 8 claimq_submit 8 claimq_publish 8 claimq_complete 10
  claimq_retry 6 claimq_release 4 claimq_renew 4 claimq_reject 4
  claimq_queue 1 claimq_restored 1 claimq_init 1
  claimq_peek 1 claimq_stats 1 claimq_why 1 claimq_next_at 1
}

#--------------------------------------------------------------------------
# What there is

# Everything that reads the clock or writes, but for claimq_init() and
# claimq_wait(): {NAME DEFINITION ...}.  NAME+ is the second form of a function
# that has two.
proc calls_defs {db} {
  set pure [$db eval {
    SELECT name FROM pragma_function_list
    WHERE name LIKE 'claimq%' AND flags & 0x800
  }]
  set all {}
  $db eval {
    SELECT name, kind, argument, type, words, minimum FROM claimq_help
  } {
    switch $kind {
      argument {set what args}
      option   {set what opts}
      default  {
        set key [expr {[dict exists $all $name] ? "$name+" : $name}]
        dict set all $key [dict create kind $kind args {} opts {}]
        continue
      }
    }
    dict update all $key def {
      dict lappend def $what [list $argument $type $words $minimum]
    }
  }
  set out {}
  dict for {name def} $all {
    set names [lmap a [concat [dict get $def args] [dict get $def opts]] {
      lindex $a 0
    }]
    if {$name in $pure || $name in {claimq_init claimq_wait}} continue
    if {"now_ms" in $names || "request" in $names
        || $name in {claimq_fence claimq_guard}} {
      dict set out $name $def
    }
  }
  return $out
}

proc calls_begin {db seed} {
  global CALLS CALLS_WEIGHT
  expr {srand($seed*7919+1)}
  array unset CALLS
  array set CALLS [list db $db def [calls_defs $db] now 1000000 claims {} \
    jobs {} batches {} n 0 plan {} last {} names {}]
  foreach name [dict keys $CALLS(def)] {
    set weight 2
    catch {set weight $CALLS_WEIGHT($name)}
    lappend CALLS(names) {*}[lrepeat $weight $name]
  }
}

#--------------------------------------------------------------------------
# Values

proc calls_random {n} {
  return [expr {int(rand()*$n)}]
}
proc calls_chance {percent} {
  return [expr {rand()*100 < $percent}]
}
proc calls_one {list} {
  return [lindex $list [calls_random [llength $list]]]
}
# Mostly one of the last few, so that something is still to be done with it.
proc calls_recent {list} {
  if {[calls_chance 20]} {return [calls_one $list]}
  return [calls_one [lrange $list end-11 end]]
}
proc calls_text {value} {
  return '[string map {' ''} $value]'
}
proc calls_job {} {
  if {[llength $::CALLS(jobs)] == 0} {return 1}
  return [calls_recent $::CALLS(jobs)]
}

# A letter that can be requeued, if there is one.
proc calls_letter {} {
  set n [calls_random 5]
  set id [$::CALLS(db) one {
    SELECT letter_id FROM claimq_letter WHERE status<>'resolved'
    ORDER BY letter_id DESC LIMIT 1 OFFSET $n
  }]
  return [expr {$id in {"" NULL} ? 1 : $id}]
}

# A value for an argument of a function or table, as SQL.  The claim id and the
# token of one call are of the same claim: CALLS(claim).
proc calls_value {name argument type words minimum} {
  global CALLS
  set now $CALLS(now)
  switch -glob $name.$argument {
    *.now_ms {return $now}
    *.request {
      set n [expr {[calls_chance 25] ? max(0, $CALLS(n)-[calls_random 40])
        : $CALLS(n)}]
      return 'r$n'
    }
    claimq.session - claimq_peek.session {
      return [calls_one {'s1' 's1' 's2' 's3' NULL NULL}]
    }
    *.session {return [calls_one {'s1' 's1' 's2' 's3'}]}
    *.lane {return [calls_one {'l1' 'l1' 'l1' 'l2' 'l3' 'l4'}]}
    *.queue {return [calls_one {'q1' 'q1' 'q2' 'q3'}]}
    *.partitions {return [calls_one {3 3 3 2 40}]}
    *.owner {return [calls_one {'w1' 'w2' 'w3'}]}
    *.incarnation* {return [calls_one {'' '' 'i1'}]}
    *.lease_ms - claimq_grant.ttl_ms {
      return [calls_one {0 50 500 500 5000 60000}]
    }
    *.max_reclaims - *.max_attempts {return [calls_one {0 1 2 5}]}
    *.max_active - *.group_max_active {return [calls_one {NULL 0 1 3 20}]}
    *.rate - *.group_rate {return [calls_one {NULL 1 3 20}]}
    *.per_ms - *.group_per_ms {return [calls_one {100 1000}]}
    claimq_vacuum.max {return [calls_one {1 3 10 1000}]}
    *.max {return [calls_one {0 1 1 1 2 5 100}]}
    *.capabilities - *.worker_capabilities {
      return [calls_one {'[]' '["gpu"]' '["gpu"]' '["net","gpu"]'
        '["gpu","net","x"]'}]
    }
    claimq_stats.scope - claimq_why.scope - claimq_next_at.scope {
      return [calls_one {'s1' 's2' 'l1' 'l2' 'q1' 'a'}]
    }
    *.scope {return [calls_one {NULL NULL 's1' 'l1' 'q1/0'}]}
    *.source {return [calls_one {NULL NULL 'session' 'lane' 'outbox'}]}
    *.discipline {
      return [calls_one {'session' 'lane' 'outbox' 'contest' 'dead_letter'}]
    }
    *.kind {return [calls_one {0 0 7}]}
    *.label {return [calls_one {'a' 'b' 'c'}]}
    claimq_submit.partition - claimq_schedule.partition -
    claimq_change.partition {return [calls_one {0 0 0 1}]}
    *.partition {return [calls_one {NULL 0 0 1 2}]}
    *.claim_id {return [calls_text [lindex $CALLS(claim) 0]]}
    *.lease_token {return [calls_text [lindex $CALLS(claim) 1]]}
    *.done - *.claims {
      return [calls_text [format {["%s","%s"]} {*}$CALLS(claim)]]
    }
    claimq_revoke.key {
      return [expr {[calls_chance 50] ? [calls_job]
        : [calls_text [lindex $CALLS(claim) 0]]}]
    }
    claimq_cancel.key {
      if {[calls_chance 50] || $CALLS(batches) eq ""} {return [calls_job]}
      return [calls_text [calls_recent $CALLS(batches)]]
    }
    claimq_publish.key {return [calls_one {'a' 'b' 3}]}
    *.job_id {return [calls_job]}
    *.letter_id {return [calls_letter]}
    *.after {return '\[[calls_job]\]'}
    *.source_key {return 'k[calls_random 30]'}
    *.unique_for_ms {return [calls_one {0 100 5000}]}
    *.available_at_ms {return [expr {$now+[calls_random 400]}]}
    *.until_at_ms {return [expr {$now+[calls_random 400000]}]}
    *.delay_ms {return [calls_one {0 20 400 3000}]}
    *.backoff_* {return [calls_one {0 2 50}]}
    *.older_than_ms {return [calls_one {0 100 5000}]}
    *.processed {return [calls_one {0 1 1 2}]}
    *.rejected {return [calls_one {'[]' '[{"seq":1,"reason":"bad"}]'}]}
    *.spec {return [calls_one {{'every 1 s'} {'every 300 ms'} {'* * * * *'}}]}
    *.offset_minutes {return [calls_one {0 60 -90}]}
    claimq_schedule.name - claimq_unschedule.name {
      return [calls_one {'n1' 'n2' 'n3'}]
    }
    *.flow_id {return [calls_one {'f1' 'f2'}]}
    *.group_key {return [calls_one {NULL 'g1' 'g2' 'g3'}]}
    *.resource {return [calls_one {'f1' 'f2'}]}
    *.token {return [calls_random 30]}
    *.merge_key {return [calls_one {'never' 'payload_default' 'group:a'}]}
    *.slot_policy {return [calls_one {'exclusive' 'join' 'join'}]}
    *.payload_type {return 'text/plain'}
    *.error_class {return 'permanent'}
    *.reason {return [calls_text "why $CALLS(n)"]}
    *.serial - *.degrade - *.fair - *.enabled - *.force - *.partial {
      return [calls_random 2]
    }
  }
  switch $type {
    word    {return [calls_text [calls_one [split $words ,]]]}
    integer {return [calls_one [list 0 1 5 [expr {max(0, $minimum+0)}]]]}
    json    {return '\[\]'}
    any     {
      return [calls_one [list 'p$CALLS(n)' 'p$CALLS(n)' x'00ff' 17 1.5 NULL]]
    }
  }
  return 't[calls_random 3]'
}

#--------------------------------------------------------------------------
# Calls

proc calls_pick_claim {} {
  global CALLS
  set CALLS(claim) {qjc:1:1 none}
  if {$CALLS(claims) ne ""} {set CALLS(claim) [calls_recent $CALLS(claims)]}
}

# SQL of a call.  GIVEN: values by name in the place of those that would be
# chosen, as SQL; {} leaves the argument out.  Of a table the first two
# arguments and those of the owner are always there; of what may be left out
# SHARE percent is given.
proc calls_sql {name {given {}} {share 12}} {
  global CALLS
  calls_pick_claim
  set def [dict get $CALLS(def) $name]
  set table [expr {[dict get $def kind] eq "table"}]
  set got {}
  set i 0
  foreach arg [dict get $def args] {
    set argument [lindex $arg 0]
    incr i
    if {!($table && $i > 2) || $argument in {owner now_ms lease_ms max}
        || [calls_chance $share]} {
      dict set got $argument [calls_value $name {*}$arg]
    }
  }
  # What the help calls an argument of a function comes first, in order.
  set first [dict size $got]
  foreach arg [dict get $def opts] {
    set argument [lindex $arg 0]
    if {$argument eq "now_ms" || [calls_chance $share]
        || ($argument eq "request" && [calls_chance 15])} {
      dict set got $argument [calls_value $name {*}$arg]
    }
  }
  if {[dict exists $got claim_id] != [dict exists $got lease_token]} {
    set got [dict remove $got claim_id lease_token]
  }
  dict for {argument value} $given {
    if {$value eq ""} {
      dict unset got $argument
    } elseif {[dict exists $got $argument]} {
      dict set got $argument $value
    }
  }
  if {$table} {
    set where [lmap {argument value} $got {
      if {$value eq "NULL"} {set x "$argument IS NULL"} else {
        set x "$argument=$value"}
    }]
    return "SELECT * FROM $name WHERE [join $where { AND }]"
  }
  set words {}
  foreach {argument value} $got {
    if {[incr first -1] < 0} {lappend words '$argument'}
    lappend words $value
  }
  return "SELECT [string trimright $name +]([join $words {, }])"
}

# n rows c(i), for an INSERT ... SELECT.
proc calls_many {n} {
  return "WITH c(i) AS (SELECT 1 UNION ALL SELECT i+1 FROM c WHERE i<$n)"
}

# What is seldom met by chance, as a list of calls.  Each makes one change: in
# which order a statement makes several is up to SQLite.
proc calls_wave {} {
  return [calls_wave_[calls_one {expired expired expired limited waiting
    scheduled kept}]]
}

# Many rows that are claimed, and expire together or become letters, so that
# claims have to look past them and put the indexes in order: a list of calls.
# Then the clock may go back.
proc calls_wave_expired {} {
  set what [calls_one {lane session outbox letter}]
  set now [incr ::CALLS(now)]
  set many [calls_many 90]
  set plan [list [dict get [list \
    lane "INSERT INTO claimq_job(lane, payload, created_at_ms)
      $many SELECT 'l1', i, $now FROM c" \
    outbox "INSERT INTO claimq_message(queue, partition, payload,
      created_at_ms) $many SELECT 'q3', i%40, i, $now FROM c" \
    session "INSERT INTO claimq_batch(session, payload, enqueued_at_ms,
      slot_policy) $many SELECT 's1', i, $now, 'join' FROM c" \
    letter "INSERT INTO claimq_letter(source, scope, ref, payload,
      created_at_ms, failed_at_ms, reason, attempts)
      $many SELECT 'lane', 'l1', i, i, $now, $now, 'bad', 1 FROM c" \
  ] $what]]
  set claim [dict get {
    lane {claimq_lane('l1', 'w1', %d, %d)}
    session {claimq('s1', 'w1', %d, %d)}
    outbox {claimq_outbox('q3', 'w1', %d, %d)}
    letter {claimq_dead_letter(NULL, 'w1', %d, %d)}
  } $what]
  foreach {step ttl max times} [list 1 300 [calls_one {1 100 100}] \
      [expr {$what eq "outbox" ? 30 : 2}] 10 300 1 40 \
      [calls_one {100 400 1000}] 50 1 2 [calls_one {0 0 -150 -302}] 50 1 2 \
      0 50 70 1] {
    incr now $step
    set sql "SELECT * FROM [format $claim $ttl $max] WHERE now_ms=$now"
    lappend plan {*}[lrepeat $times $sql]
  }
  set ::CALLS(now) $now
  return $plan
}

# Jobs of many groups in a lane whose limits are reached: they are claimed,
# settled, put into other groups, and the limits are changed.
proc calls_wave_limited {} {
  set now [incr ::CALLS(now)]
  set plan {}
  foreach limit [list [calls_one {
    {'group_max_active', 2, 'fair', 1}
    {'max_active', 7, 'group_rate', 3, 'group_per_ms', 300}
    {'rate', 9, 'per_ms', 400, 'fair', 1, 'group_max_active', 3}
  }] [calls_one {
    {'max_active', 3} {'fair', 0} {'fair', 1, 'rate', 20, 'per_ms', 100}
    {'group_max_active', NULL} {'max_active', 0}
  }]] {
    lappend plan "SELECT claimq_policy('l3', $limit, 'now_ms', $now)" \
      "INSERT INTO claimq_job(lane, payload, created_at_ms, group_key,
         priority) [calls_many 40]
         SELECT 'l3', i, $now, iif(i%8, 'g' || i%8, NULL), i%3 FROM c"
    foreach step {1 20 150 300 -200 400 600} {
      incr now $step
      lappend plan {*}[lrepeat 2 "SELECT * FROM claimq_lane('l3', 'w1', 250,\
        [calls_one {1 3 10}]) WHERE now_ms=$now"] \
        "SELECT claimq_complete(claim_id, lease_token, 'now_ms', $now)
           FROM claimq_job WHERE job_id=(SELECT min(job_id) FROM claimq_job
             WHERE lane='l3' AND state='active')" \
        "SELECT claimq_change(max(job_id), 'group_key', 'g[calls_random 4]',
           'now_ms', $now) FROM claimq_job
           WHERE lane='l3' AND state='ready'"
    }
  }
  lappend plan "SELECT claimq_policy('l3', 'max_active', NULL, 'rate', NULL,
    'now_ms', $now)"
  set ::CALLS(now) $now
  return $plan
}

# Jobs that wait for the last one to four before them; some end well, some are
# cancelled or rejected, with all that wait for them.
proc calls_wave_waiting {} {
  set now [incr ::CALLS(now)]
  set plan [list "INSERT INTO claimq_job(lane, payload, created_at_ms,
    flow_id, priority) [calls_many 4] SELECT 'l4', i, $now, 'f3', i%2 FROM c"]
  foreach {after fails} {
    2 cancel 3 run 1 cancel 2 run 4 cancel 1 run 2 cancel
  } {
    lappend plan "SELECT claimq_submit('l4', 'x', 'after',
      json_group_array(job_id), 'on_failure', '$fails', 'flow_id', 'f3',
      'now_ms', $now) FROM (SELECT job_id FROM claimq_job
        WHERE lane='l4' ORDER BY job_id DESC LIMIT $after)"
  }
  foreach {verb more} {complete {} reject {, 'bad'} retry {, 'again'}
      complete {, 'result', x'00'} renew {, 500} complete {}} {
    incr now 20
    lappend plan "SELECT * FROM claimq_lane('l4', 'w1', 200) WHERE now_ms=$now"
    incr now 5
    lappend plan "SELECT claimq_${verb}(claim_id, lease_token$more, 'now_ms',
      $now) FROM claimq_job WHERE job_id=(SELECT min(job_id) FROM claimq_job
        WHERE lane='l4' AND state='active')"
  }
  lappend plan "SELECT * FROM claimq_lane('l4', 'w1', 200) WHERE now_ms=$now" \
    "SELECT claimq_step(claim_id, lease_token, 's1', 'v', 'now_ms', $now)
    FROM claimq_job WHERE job_id=(SELECT min(job_id) FROM claimq_job
      WHERE lane='l4' AND state='active')" \
    "SELECT claimq_release(claim_id, lease_token, 'after', '\['||(
      SELECT max(job_id) FROM claimq_job)||'\]', 'now_ms', $now)
    FROM claimq_job WHERE job_id=(SELECT min(job_id) FROM claimq_job
      WHERE lane='l4' AND state='active')" \
    "SELECT claimq_resolve((SELECT max(job_id) FROM claimq_job), x'00',
      'now_ms', $now)"
  lappend plan "SELECT claimq_cancel(min(job_id), 'force', 1, 'now_ms', $now)
    FROM claimq_job WHERE lane='l4' AND terminal_at_ms IS NULL"
  if {[calls_chance 50]} {
    lappend plan "SELECT claimq_cancel_flow('f3', 'now_ms', $now)"
  }
  set ::CALLS(now) $now
  return $plan
}

# Jobs that are not kept for long, some with steps, and some that go at once:
# those that end later remove them.
proc calls_wave_kept {} {
  set now [incr ::CALLS(now)]
  set plan [list "SELECT claimq_policy('l6', 'keep_ms', 100, 'now_ms', $now)" \
    "SELECT claimq_policy('l7', 'keep_ms', 0, 'now_ms', $now)"]
  foreach lane {l6 l7 l6} {
    lappend plan "INSERT INTO claimq_job(lane, payload, created_at_ms)
      [calls_many 20] SELECT '$lane', i, $now FROM c"
    lappend plan {*}[lrepeat 20 "SELECT claimq_complete(claim_id, lease_token,
        'now_ms', $now) FROM (SELECT claim_id, lease_token,
          claimq_step(claim_id, lease_token, 's', 1, 'now_ms', $now)
        FROM claimq_lane('$lane', 'w1') WHERE now_ms=$now)"]
    incr now 200
  }
  set ::CALLS(now) $now
  return $plan
}

# Schedules of one lane: many times have passed when somebody claims.
proc calls_wave_scheduled {} {
  set now [incr ::CALLS(now)]
  set plan {}
  foreach catch_up {one all none} {
    lappend plan "SELECT claimq_schedule('$catch_up', 'every\
      [calls_one {70 100 300}] ms', 'l5', x'00ff', 'catch_up', '$catch_up',
      'now_ms', $now)"
  }
  foreach step {50 60 900 -300 4000} {
    incr now $step
    lappend plan "SELECT * FROM claimq_lane('l5', 'w1', 100, 3)
      WHERE now_ms=$now"
  }
  lappend plan "DELETE FROM claimq_schedule WHERE name='none'"
  set ::CALLS(now) $now
  return $plan
}

# Rows by plain SQL: one, or enough to make claims put the indexes in order.
proc calls_plain {} {
  set now $::CALLS(now)
  set n [calls_one {1 1 1 3 90}]
  set many [calls_many $n]
  set later [expr {$now+[calls_one {0 0 0 300}]}]
  set job [calls_job]
  return [calls_one [list \
    "INSERT INTO claimq_job(lane, payload, created_at_ms, available_at_ms,
       priority) $many SELECT 'l1', 'plain ' || i, $now, $later, i%3 FROM c" \
    "INSERT INTO claimq_batch(session, payload, enqueued_at_ms,
       available_at_ms, slot_policy)
       $many SELECT 's' || (1+i%5), i, $now, $later, 'join' FROM c" \
    "INSERT INTO claimq_message(queue, partition, payload, created_at_ms)
       $many SELECT 'q1', i%3, i, $now FROM c" \
    "INSERT INTO claimq_job(lane, payload, created_at_ms, reclaim,
       capabilities, max_reclaims)
       VALUES('l1', 'g', $now, 'grant', '\[\"gpu\"\]', 1)" \
    "UPDATE claimq_job SET payload='changed' WHERE job_id=$job" \
    "UPDATE claimq_batch SET payload='changed'
       WHERE enqueue_seq=(SELECT max(enqueue_seq) FROM claimq_batch)" \
    "DELETE FROM claimq_job WHERE job_id=$job AND claim_id IS NULL
      AND awaited IS NULL" \
    "DELETE FROM claimq_batch WHERE enqueue_seq%17=3 AND claim_id IS NULL" \
    "INSERT INTO claimq_batch(session, payload, enqueued_at_ms)
       VALUES('s2', 'new', $now)"]]
}

# The next call, as SQL.
proc calls_next {} {
  global CALLS
  incr CALLS(n)
  if {$CALLS(plan) eq "" && [calls_chance 1]} {set CALLS(plan) [calls_wave]}
  if {$CALLS(plan) ne "" && [calls_chance 90]} {
    set CALLS(plan) [lassign $CALLS(plan) sql]
    return $sql
  }
  set CALLS(now) [expr {max(0, $CALLS(now)+[calls_one {0 0 1 1 5 20 20 100 600
    -50 -400}])}]
  if {[calls_chance 1]} {incr CALLS(now) 90000000}
  if {[calls_chance 8]} {return [calls_plain]}
  # The answer was lost; the time is that of the second try.
  if {$CALLS(last) ne "" && [calls_chance 6]} {
    return [regsub {(now_ms'?[=,] ?)\d+} $CALLS(last) \\1$CALLS(now)]
  }
  if {[calls_chance 1]} {
    return "SELECT claimq_init('[calls_one {any_session serial}]',\
      [calls_random 2])"
  }
  set name [calls_one $CALLS(names)]
  set sql [calls_sql $name]
  if {[string match *request* $sql]} {set CALLS(last) $sql}
  if {[dict get $CALLS(def) $name kind] eq "table" && [calls_chance 5]
      && $name in {claimq_lane claimq claimq_outbox claimq_dead_letter}} {
    set sql "INSERT INTO mine(claim_id, lease_token)\
      [string map {* {claim_id, lease_token}} $sql]\
      RETURNING claim_id, lease_token"
  }
  return $sql
}

# Run a call.  Returns its answer, {COLUMNS ROW ROW ...} or {error MESSAGE}.
proc calls_run {db sql} {
  set rows {}
  set cols {}
  if {[catch {
    $db eval $sql row {
      set cols $row(*)
      lappend rows [lmap c $cols {set row($c)}]
    }
  } msg]} {
    return [list error $msg]
  }
  return [list $cols {*}$rows]
}

# Remember what later calls can refer to.
proc calls_note {sql answer} {
  global CALLS
  set rows [lassign $answer cols]
  if {$cols eq "error"} return
  set c [lsearch -exact $cols claim_id]
  set t [lsearch -exact $cols lease_token]
  foreach row $rows {
    if {$t >= 0 && [lindex $row $t] ni {"" NULL}} {
      set claim [list [lindex $row $c] [lindex $row $t]]
      if {$claim ni [lrange $CALLS(claims) end-5 end]} {
        lappend CALLS(claims) $claim
      }
    }
  }
  switch -glob $sql {
    {SELECT claimq_submit(*} {lappend CALLS(jobs) [lindex $rows 0 0]}
    {SELECT claimq_enqueue(*} {lappend CALLS(batches) [lindex $rows 0 0]}
  }
}
