# oracle.tcl: the differential test.  A random history is run on claimq and on
# the model of oracle_model.tcl, and every answer must be the same.
#
#     source $T(root)/tcl/test/oracle.tcl
#     do_oracle_test 17 2000            ;# seed 17, 2000 steps
#     do_oracle_test 17 2000 flood      ;# with bulk steps: long queues
#
# After each step the result is compared: rows with all their columns, values,
# or the code of the error.  Every third step, and after each ROLLBACK, what
# claimq_stats says or claimq_why is compared; every 25th, and after each
# ROLLBACK, all documented columns of all tables.
#
# When they differ the history is shrunk: steps are left out as long as the
# rest still fails, and what remains is printed as an SQL script.
#
# How a history is made.  A step is a list {LABEL OP ARGS FORM}.  Steps are
# chosen one at a time (or in waves, see oracle_wave), looking at what the
# model holds (ids, claims made before), but they are written down by
# reference: @c:12:0 is the claim id of the first row that step 12 returned,
# @t:12:0 its token, @v:9 the value of step 9, @b:12 the batch ids of step 12
# in JSON; and the option after is a list of @v:9.  So a history means the same
# when steps in front are left out.
#
# FORM, for claims: plain, limit N (LIMIT N in the SELECT), insert (INSERT ...
# SELECT ... RETURNING), named (arguments by name in WHERE).

if {[info commands do_oracle_test] ne ""} return
source [file join [file dirname [info script]] oracle_model.tcl]

# Claim tables: name, arguments, which of them is the maximum, own columns.
array set oracle_table {
  claim {claimq {session owner lease_ms max incarnation boundary take serial
      now_ms} 3}
  peek {claimq_peek {session max boundary take serial now_ms} 1}
  lane {claimq_lane {lane owner lease_ms max incarnation capabilities
      partition now_ms} 3}
  outbox {claimq_outbox {queue owner lease_ms max incarnation partition
      now_ms} 3}
  contest {claimq_contest {label owner lease_ms incarnation kind now_ms} -1}
  reclaim {claimq_reclaim {job_id owner lease_ms incarnation max_reclaims
      now_ms} -1}
  dead_letter {claimq_dead_letter {scope owner lease_ms max incarnation source
      now_ms} 3}
}
array set oracle_cols [list \
  claim $model::batchcols \
  peek [concat $model::batchcols previous_claim_id attempts] \
  lane $model::jobcols \
  outbox $model::messagecols \
  contest {outcome mine kind label} \
  reclaim [concat outcome $model::jobcols] \
  dead_letter {letter_id source scope ref payload payload_type created_at_ms
    failed_at_ms reason}]

# Tables to compare: the model's name, claimq's, columns.
set oracle_content {
  batch claimq_batch {enqueue_seq batch_id session source_key work_class
    delivery_policy slot_policy merge_key payload enqueued_at_ms
    available_at_ms fencing_token attempts last_error claim_id lease_token
    owner incarnation claim_size claimed_at_ms expires_at_ms}
  job claimq_job {job_id lane partition priority payload
    capabilities attempt_index reclaim_count created_at_ms
    available_at_ms source_key max_attempts backoff_ms backoff_factor
    backoff_max_ms max_reclaims max_runtime_ms reclaim group_key flow_id
    namespace instance_tag state
    result last_error error_class progress terminal_at_ms fencing_token attempts
    claim_id lease_token owner incarnation claimed_at_ms expires_at_ms
    on_failure waits_for}
  after claimq_after {job_id after_id}
  attempt claimq_attempt {job_id attempt_index owner incarnation
    fencing_token started_at_ms ended_at_ms outcome error expires_at_ms
    error_class}
  event claimq_event {event_id job_id lane partition flow_id outcome
    error_class namespace instance_tag occurred_at_ms}
  grant claimq_grant {grant_id job_id owner incarnation lane
    issued_at_ms expires_at_ms capability_hash admission_summary}
  part {(SELECT p.*, p.last_seq+(SELECT count(*) FROM claimq_message AS m
      WHERE m.queue=p.queue AND m.partition=p.partition
        AND m.seq IS NULL) AS given
      FROM claimq_partition AS p)} {partition_id queue partition given
    processed_seq attempts degrade retry_count last_error fencing_token claim_id
    lease_token owner incarnation claimed_at_ms expires_at_ms}
  message {(SELECT m.*, ifnull(m.seq, (
      SELECT last_seq FROM claimq_partition AS p
      WHERE p.queue=m.queue AND p.partition=m.partition)
      + (SELECT count(*) FROM claimq_message AS n
         WHERE n.queue=m.queue AND n.partition=m.partition
           AND n.seq IS NULL AND n.message_id<=m.message_id)) AS given,
      m.seq IS NULL AS new FROM claimq_message AS m)} {queue partition
    given new source_key payload payload_type created_at_ms}
  holder claimq_holder {holder_id kind label fencing_token
    claim_id lease_token owner incarnation claimed_at_ms expires_at_ms}
  fence claimq_fence {resource token}
  letter claimq_letter {letter_id source scope ref payload payload_type
    created_at_ms failed_at_ms reason error_class attempts status
    fencing_token claim_id
    lease_token owner incarnation claim_size claimed_at_ms
    expires_at_ms}
  schedule claimq_schedule {name spec lane next_at_ms last_at_ms
    created_at_ms catch_up until_at_ms enabled payload}
}

# What must be refused, and with which code.
set oracle_bad {
  {SELECT claimq_enqueue(NULL, 1)} bad_argument
  {SELECT claimq_enqueue('s1', 1, 'slot_policy', 'both')} bad_argument
  {SELECT claimq_enqueue('s1', 1, 'merge_key', 'group')} bad_argument
  {SELECT claimq_enqueue('s1', 1, 'delay_ms', -1)} bad_argument
  {SELECT claimq_enqueue('s1', 1, 'delay_ms', 1, 'available_at_ms', 1)}
    bad_argument
  {SELECT claimq_submit('l1', 1, 'capabilities', '[""]')} bad_argument
  {SELECT claimq_submit('l1', 1, 'priority')} bad_argument
  {SELECT claimq_submit('l1', 1, 'max_attempts', 1.5)} bad_argument
  {SELECT claimq_publish('q1', 1, 'partition', 0, 'key', 'a')} bad_argument
  {SELECT claimq_publish('-', 1)} bad_argument
  {SELECT claimq_publish('nowhere', 1)} not_found
  {SELECT claimq_queue('q1', 0)} bad_argument
  {SELECT claimq_renew('qwc:1:1', 'x', -1)} bad_argument
  {SELECT claimq_complete('xyz:1:1', 'x')} bad_argument
  {SELECT claimq_complete('qwc:1', 'x')} claim_lost
  {SELECT claimq_complete('qjc:1:1', 'x', 'batch_ids', '[]')} bad_argument
  {SELECT claimq_retry('qjc:1:999999', 'x', 'why')} claim_lost
  {SELECT claimq_fence('f1', -1)} bad_argument
  {SELECT claimq_schedule('n1', 'every 0 s', 'l1', 1)} bad_argument
  {SELECT claimq_schedule('n1', '@daily', 'l1', 1, 'delay_ms', 1)} bad_argument
  {SELECT claimq_requeue(999999)} not_found
  {SELECT claimq_policy('l1', 'rate', 10001, 'per_ms', 1)} bad_argument
  {SELECT claimq_policy('l9', 'per_ms', 1)} bad_argument
  {SELECT claimq_grant(999999, 'w1', 1)} not_found
  {SELECT claimq_revoke(999999)} not_found
  {SELECT claimq_cancel('qwb:0', 'force', 1)} bad_argument
  {SELECT * FROM claimq('s1', NULL)} bad_argument
  {SELECT * FROM claimq('s1', 'w1', -1)} bad_argument
  {SELECT * FROM claimq('s1', 'w1', 1, 1, '', 'soon')} bad_argument
  {SELECT * FROM claimq_lane('l1', 'w1', 1, -1)} bad_argument
  {SELECT * FROM claimq_contest('c', 'w1', NULL, NULL, 256)} bad_argument
  {SELECT * FROM claimq_outbox('nowhere', 'w1')} not_found
  {SELECT * FROM claimq_dead_letter(NULL, 'w1') WHERE source='contest'}
    bad_argument
  {SELECT * FROM claimq_lane('l1', 'w1') WHERE priority>3} unsafe_plan
}

#--------------------------------------------------------------------------
# A step as SQL

proc oracle_quoted {cols} {
  # Of a batch these follow from the row, and may not be written yet.
  if {"enqueue_seq" in $cols && "claim_size" in $cols} {
    set cols [string map {batch_id {{ifnull(batch_id, claimq_batch_id(session,
      source_key, enqueued_at_ms, enqueue_seq))}}
      available_at_ms {{ifnull(available_at_ms, enqueued_at_ms)}}} $cols]
  }
  return [join [lmap c $cols {string cat quote( $c )}] {||'|'||}]
}

# Options as name, value pairs, each with a comma in front.
proc oracle_options {opts} {
  set out ""
  dict for {name value} $opts {append out ", '$name', [model::lit $value]"}
  return $out
}

# As claimq_complete() wants it, from the list of the model.
proc oracle_rejected {list} {
  set out {}
  foreach {seq reason} $list {
    lappend out "{\"seq\":$seq,\"reason\":\"$reason\"}"
  }
  return "\[[join $out ,]\]"
}

proc oracle_sql_claim {op arglist form} {
  lassign $::oracle_table($op) table names
  set cols $::oracle_cols($op)
  if {$op ne "peek"} {lappend cols {*}$model::claimcols}
  set from "${table}([join [lmap a $arglist {model::lit $a}] {, }])"
  if {$form eq "named"} {
    set where {}
    foreach name $names a $arglist {
      if {$a ne "NULL"} {lappend where "$name=[model::lit $a]"}
    }
    set from "$table WHERE [join $where { AND }]"
  }
  if {[lindex $form 0] eq "limit"} {append from " LIMIT [lindex $form 1]"}
  set sql "SELECT [oracle_quoted $cols] FROM $from"
  if {$form eq "insert"} {set sql "INSERT INTO sink(v) $sql RETURNING v"}
  return $sql
}

proc oracle_sql_insert {op scope payload opts now} {
  array set into {
    insert_batch {claimq_batch session enqueued_at_ms}
    insert_job {claimq_job lane created_at_ms}
    insert_message {claimq_message queue created_at_ms}
  }
  lassign $into($op) table scopecol timecol
  set cols [list $scopecol payload $timecol]
  set values [list [model::lit $scope] $payload $now]
  dict for {name value} $opts {
    lappend cols $name
    lappend values [model::lit $value]
  }
  return "INSERT INTO ${table}([join $cols {, }])\
    VALUES([join $values {, }])"
}

proc oracle_sql_verb {verb claim token arg opts now} {
  set call "claimq_${verb}('$claim', '$token'"
  if {$verb in {renew retry reject}} {append call ", [model::lit $arg]"}
  if {[dict exists $opts rejected]} {
    dict set opts rejected [oracle_rejected [dict get $opts rejected]]
  }
  append call [oracle_options $opts]
  return "SELECT quote($call, 'now_ms', $now))"
}

proc oracle_sql_call {op arglist} {
  set at ", 'now_ms', [lindex $arglist end]"
  lassign $arglist a b c d e
  set a [model::lit $a]
  switch $op {
    enqueue - submit - publish {
      set call "claimq_${op}($a, $b[oracle_options $c]$at)"
    }
    cancel_batch {set call "claimq_cancel($a$at)"}
    cancel_job {set call "claimq_cancel($a, 'force', $b$at)"}
    cancel_flow {set call "claimq_cancel_flow($a, 'force', $b$at)"}
    revoke {set call "claimq_revoke($a$at)"}
    change {set call "claimq_change($a[oracle_options $b]$at)"}
    grant {set call "claimq_grant($a, '$b', $c[oracle_options $d]$at)"}
    queue {
      set degrade [expr {$c eq "NULL" ? "" : ", 'degrade', $c"}]
      set call "claimq_queue($a, $b$degrade)"
    }
    limit {set call "claimq_policy($a[oracle_options $b]$at)"}
    next_at {
      set call "claimq_next_at('lane', $a, 'capabilities', '$b',\
        'partition', [model::lit $c]$at)"
    }
    fence {set call "claimq_fence($a, $b)"}
    schedule {
      set call "claimq_schedule($a, 'every $b ms', [model::lit $c],\
        $d[oracle_options $e]$at)"
    }
    unschedule {set call "claimq_unschedule($a$at)"}
    restored {set call "claimq_restored('now_ms', $a)"}
    requeue {
      if {$b ne "NULL"} {set at ", 'claim_id', '$b', 'lease_token', '$c'$at"}
      set call "claimq_requeue($a$at)"
    }
  }
  return "SELECT quote($call)"
}

proc oracle_sql_stats {discipline scope now} {
  set where "now_ms=$now"
  if {$discipline ne "NULL"} {append where " AND discipline='$discipline'"}
  if {$scope ne "NULL"} {append where " AND scope='$scope'"}
  return "SELECT * FROM (SELECT [oracle_quoted $model::statscols] AS r\
    FROM claimq_stats WHERE $where) ORDER BY r"
}

# And the same of claimq_next_at(): it is now if and only if there is a row
# claimable.
proc oracle_sql_why {discipline scope opts now} {
  set args "'$discipline', [model::lit $scope]"
  set where "now_ms=$now"
  dict for {name value} $opts {
    append where " AND $name=[model::lit $value]"
  }
  return "SELECT * FROM (SELECT [oracle_quoted $model::whycols] AS r\
    FROM claimq_why($args) WHERE $where) ORDER BY r;\
    SELECT claimq_next_at($args[oracle_options $opts], 'now_ms', $now)\
    IS $now"
}

# Statements; the results of all of them are the result of the step.
proc oracle_sql {op arglist form} {
  if {[info exists ::oracle_table($op)]} {
    return [oracle_sql_claim $op $arglist $form]
  }
  switch $op {
    raw {return [lindex $arglist 0]}
    insert_batch - insert_job - insert_message {
      return [oracle_sql_insert $op {*}$arglist]
    }
    verb {return [oracle_sql_verb {*}$arglist]}
    stats {return [oracle_sql_stats {*}$arglist]}
    why {return [oracle_sql_why {*}$arglist]}
    bulk {
      lassign $arglist what scope n opts now
      return "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i+1 FROM n\
        WHERE i<$n) SELECT count(claimq_${what}('$scope',\
        i[oracle_options $opts][expr {$what eq "publish" ? ", 'key', i" : ""}],\
        'now_ms', $now)) FROM n"
    }
    vacuum {
      lassign $arglist older limit now
      set opts ", 'now_ms', $now"
      if {$older ne "NULL"} {append opts ", 'older_than_ms', $older"}
      return "SELECT claimq_vacuum('max', $limit$opts);\
        SELECT claimq_vacuum([string range $opts 2 end])"
    }
  }
  return [oracle_sql_call $op $arglist]
}

#--------------------------------------------------------------------------
# A step on both sides.  Global O: ref,LABEL  stack  sql (list) ...

proc oracle_open {} {
  open_db :memory: odb
  ::odb eval {SELECT claimq_init('sessions', 1, 'outbox', 1);
    CREATE TABLE sink(v)}
  model::reset
  array unset ::O ref,*
  array unset ::O label,*
  set ::O(stack) {}
  set ::O(sql) {}
}

# What a reference means; an error if its step was left out or failed.
proc oracle_ref {value} {
  if {![regexp {^@([ctvb]):(\d+):?(\d*)$} $value - kind label row]} {
    return $value
  }
  set rows $::O(ref,$label)
  if {$kind eq "v"} {return [string trim [lindex $rows 0] ']}
  if {$kind eq "b"} {
    return [model::json_set [lmap r $rows {
      string trim [lindex [split $r |] 1] '
    }]]
  }
  if {$row >= [llength $rows]} {error "no such row"}
  set cells [split [lindex $rows $row] |]
  set i [expr {$kind eq "c" ? "end-8" : "end-7"}]
  return [string trim [lindex $cells $i] ']
}

proc oracle_resolve {arglist} {
  return [lmap a $arglist {
    if {[string match *batch_ids* $a]} {
      set a [list batch_ids [oracle_ref [dict get $a batch_ids]]]
    }
    if {[string match {*after *} $a]} {
      set jobs [lmap job [dict get $a after] {oracle_ref $job}]
      dict set a after "\[[join $jobs ,]\]"
    }
    oracle_ref $a
  }]
}

# {ok RESULTS} or {error CODE}
proc oracle_db {sql} {
  if {![catch {::odb eval $sql} result]} {return [list ok $result]}
  if {[regexp {^claimq: (\w+):} $result - code]} {return [list error $code]}
  if {[string match {*constraint failed*} $result]} {
    return {error constraint}
  }
  return [list error $result]
}

proc oracle_failed {id} {
  return [::odb exists {
    SELECT 1 FROM claimq_job WHERE job_id=$id AND state='failed'
  }]
}

proc oracle_model {op arglist form} {
  if {$form eq "limit 0"} {return {ok {}}}
  if {[lindex $form 0] eq "limit" && $op eq "outbox"} {
    lappend arglist [lindex $form 1]
  } elseif {[lindex $form 0] eq "limit"} {
    set i [lindex $::oracle_table($op) 2]
    lset arglist $i [expr {min([lindex $arglist $i], [lindex $form 1])}]
  }
  if {$op eq "lane"} {lappend arglist oracle_failed}
  set before [model::save]
  set code [catch {
    switch $op {
      raw {model::fail [lindex $arglist 1]}
      bulk {
        lassign $arglist what scope n opts now
        for {set i 1} {$i <= $n} {incr i} {
          if {$what eq "publish"} {dict set opts key $i}
          model::$what $scope $i $opts $now
        }
        set n
      }
      default {model::$op {*}$arglist}
    }
  } result options]
  if {$code == 0} {return [list ok $result]}
  model::restore $before
  set code [dict get $options -errorcode]
  if {[lindex $code 0] ne "CQ"} {return -options $options $result}
  return [list error [lindex $code 1]]
}

# BEGIN, ROLLBACK ...  A word that makes no sense now (after shrinking) is
# skipped.  The stack has {NAME STATE} for each level.
proc oracle_tx {word} {
  upvar #0 O(stack) stack
  set top [lindex $stack end 0]
  set state [lindex $stack end 1]
  switch -glob $word {
    BEGIN* {
      if {[llength $stack]} return
      lappend stack [list BEGIN [model::save]]
    }
    COMMIT {
      if {[lindex $stack 0 0] ne "BEGIN"} return
      set stack {}
    }
    ROLLBACK {
      if {[llength $stack] == 0} return
      model::restore [lindex $stack 0 1]
      set stack {}
    }
    SAVEPOINT {
      append word " s[llength $stack]"
      lappend stack [list s[llength $stack] [model::save]]
    }
    {ROLLBACK TO} {
      if {$top in {BEGIN {}}} return
      model::restore $state
      append word " $top"
    }
    RELEASE {
      if {$top in {BEGIN {}}} return
      set stack [lrange $stack 0 end-1]
      append word " $top"
    }
  }
  lappend ::O(sql) $word
  ::odb eval $word
}

# A statement without the columns that only the comparison needs.
proc oracle_readable {sql} {
  set cols [expr {[string match INSERT* $sql] ? "claim_id" : "*"}]
  return [regsub {quote\(\w+\)\|\|.*quote\(\w+\)( AS r)? +FROM} $sql \
    "$cols FROM"]
}

# "" if all is well, else what differs.  A step that refers to one that was left
# out is left out too.
proc oracle_step {step} {
  lassign $step label op arglist form
  if {$op eq "tx"} {
    oracle_tx [lindex $arglist 0]
    return
  }
  if {[catch {oracle_resolve $arglist} arglist]} return
  set sql [oracle_sql $op $arglist $form]
  lappend ::O(sql) [oracle_readable $sql]
  set got [oracle_db $sql]
  set want [oracle_model $op $arglist $form]
  if {[lindex $want 0] eq "ok"} {set ::O(ref,$label) [lindex $want 1]}
  if {$op eq "next_at"} {
    set same [oracle_same_time [lindex $got 1] [lindex $want 1] \
      [lindex $arglist end]]
  } else {
    set same [expr {$got eq $want}]
  }
  if {!$same} {
    return "claimq: [join [lindex $got 1] \n\ \ \ \ \ \ \ \ ]\
      \nmodel:  [join [lindex $want 1] \n\ \ \ \ \ \ \ \ ]"
  }
  return
}

# claimq_next_at() may be too early, but not too late, and now is now.
proc oracle_same_time {got want now} {
  if {$want eq "NULL"} {return [expr {$got eq "NULL" || $got > $now}]}
  if {$got eq "NULL"} {return 0}
  return [expr {($got == $now) == ($want == $now) && $got <= $want}]
}

# The model numbers messages at once; the database some of them later.
proc oracle_given {row} {
  foreach name {last_seq seq} {
    if {[dict exists $row $name]} {dict set row given [dict get $row $name]}
  }
  return $row
}

# The tables, row by row; and what is kept beside them.
proc oracle_compare {} {
  foreach {name table cols} $::oracle_content {
    set want [lsort [lmap row [dict values [set ::model::$name]] {
      model::show [oracle_given $row] $cols
    }]]
    set quoted [oracle_quoted $cols]
    if {$name eq "job"} {
      # A plain INSERT may leave it out.
      set quoted [string map {quote(available_at_ms)
        quote(ifnull(available_at_ms,created_at_ms))} $quoted]
    }
    set got [lsort [::odb eval "SELECT $quoted FROM $table"]]
    if {$got eq $want} continue
    set out "$table differs:"
    foreach row $got {
      if {$row ni $want} {append out "\nclaimq: $row"}
    }
    foreach row $want {
      if {$row ni $got} {append out "\nmodel:  $row"}
    }
    return $out
  }
  set bad [::odb eval {SELECT * FROM claimq_check LIMIT 3}]
  if {$bad ne ""} {return "claimq_check: $bad"}
  return
}

#--------------------------------------------------------------------------
# Making steps.  Global O: now  claims {LABEL ROW OP} ...  jobs  batches  flood

proc oracle_random {n} {return [expr {int(rand()*$n)}]}
proc oracle_chance {percent} {return [expr {rand()*100 < $percent}]}
proc oracle_one {list} {lindex $list [oracle_random [llength $list]]}

# Often one of the last few, sometimes any.
proc oracle_recent {list} {
  if {[oracle_chance 80]} {set list [lrange $list end-6 end]}
  return [oracle_one $list]
}

# Time goes on, stands still, jumps, goes back, and often is just when
# something happens.
proc oracle_clock {} {
  set move [oracle_random 100]
  set d [expr {$move < 60 ? [oracle_random 40] : $move < 80 ? 0
    : $move < 85 ? [oracle_random 2000] : $move < 87 ? [oracle_random 40000]
    : $move < 89 ? -[oracle_random 300] : $move < 90 ? -[oracle_random 20000]
    : [oracle_moment]-$::O(now)}]
  set ::O(now) [expr {max(0, $::O(now)+$d)}]
}

# A moment just before, at or after the end of a lease or a delay.
proc oracle_moment {} {
  set row [oracle_one [dict values \
    [set ::model::[oracle_one {batch job part letter holder grant}]]]]
  set col [oracle_one {expires_at_ms expires_at_ms available_at_ms}]
  if {![dict exists $row $col] || [dict get $row $col] eq "NULL"
      || abs([dict get $row $col]-$::O(now)) > 50000} {return $::O(now)}
  return [expr {[dict get $row $col]+[oracle_one {-1 0 0 1}]}]
}

proc oracle_ttl {} {
  return [oracle_one {0 1 10 50 50 200 200 1000 5000 30000
    9223372036854775807}]
}

# The same for claims, which need not say it.
proc oracle_lease {} {
  return [oracle_one [list [oracle_ttl] [oracle_ttl] [oracle_ttl] NULL]]
}

proc oracle_max {} {
  return [oracle_one [expr {$::O(flood) ? {1 1 3 100 100 100} : {0 1 2 2 3 5 32}
    }]]
}

proc oracle_owner {} {oracle_one {w1 w2 w3}}
proc oracle_inc {} {oracle_one {{} {} {} i2}}
proc oracle_payload {} {
  return [oracle_one {'p1' 'it''s' '' 42 -7 2.5 X'00FF' NULL}]
}

# Each option with a chance: {NAME PERCENT VALUES ...}
proc oracle_opts {spec} {
  set opts {}
  foreach {name percent values} $spec {
    if {[oracle_chance $percent]} {lappend opts $name [oracle_one $values]}
  }
  return $opts
}

# When new work is due: some at once, some later, some long ago.
proc oracle_due {insert} {
  set opts [oracle_opts {delay_ms 12 {0 1 30 300 5000}}]
  if {$insert || $opts eq ""} {
    set opts {}
    if {[oracle_chance 10]} {
      lappend opts available_at_ms \
        [expr {max(0, $::O(now)+[oracle_one {-500 -1 0 1 100 3000}])}]
    }
  }
  return $opts
}

proc oracle_make_batch {} {
  set op [oracle_one {enqueue enqueue enqueue insert_batch}]
  set opts [concat [oracle_opts {
    slot_policy 92 {join join join join exclusive}
    work_class 6 {session_command session_command turn_work}
    delivery_policy 10 {earliest_safe_boundary after_current_turn_commit}
    merge_key 12 {never payload_default group:a group:b}
    source_key 25 {k1 k2 k\"3 k\\4 {}}
  }] [oracle_due [expr {$op eq "insert_batch"}]]]
  return [list $op [list [oracle_one {s1 s1 s2 s3}] [oracle_payload] $opts \
    $::O(now)]]
}

proc oracle_make_job {} {
  set op [oracle_one {submit submit submit insert_job}]
  set opts [concat [oracle_opts {
    priority 40 {-5 0 1 1 9}
    capabilities 30 {{["gpu"]} {["net","gpu"]} {["gpu","net"]} {[]}
      {["b","a","b"]}}
    source_key 20 {k1 k2 k3}
    max_attempts 40 {0 1 2 3}
    backoff_ms 20 {0 5 100}
    backoff_factor 15 {0 1 3 10}
    backoff_max_ms 15 {0 50 1000}
    max_reclaims 40 {0 1 2}
    max_runtime_ms 15 {1 40 300}
    reclaim 30 {grant grant auto}
    partition 10 {0 1 -3}
    group_key 60 {g1 g1 g2 g3 {}}
    flow_id 10 {f1} namespace 10 {n1} instance_tag 10 {t1}
  }] [oracle_due [expr {$op eq "insert_job"}]]]
  if {$op eq "submit"} {
    lappend opts {*}[oracle_opts {on_failure 30 {cancel run}
      unique_for_ms 20 {0 50 1000 9223372036854775807}}]
    if {[oracle_chance 50]} {
      set jobs {}
      while {[oracle_chance 60]} {lappend jobs [oracle_some_job]}
      lappend opts after $jobs
    }
  }
  return [list $op [list [oracle_one {l1 l1 l1 l2}] [oracle_payload] $opts \
    $::O(now)]]
}

proc oracle_make_message {} {
  set op [oracle_one {publish publish publish insert_message}]
  set opts [oracle_opts {
    partition 50 {0 0 1 1 2 7}
    payload_type 15 {text/plain {a b}}
  }]
  if {$op eq "publish"} {
    lappend opts {*}[oracle_opts {source_key 25 {k1 k2 k3 k4 k5}}]
    if {![dict exists $opts partition]} {
      lappend opts {*}[oracle_opts {key 60 {c1 c2 c3 c4}}]
    }
  }
  set queue [oracle_one {q1 q1 q1 q2 q3}]
  # What has no place in the database yet is not for the model.
  if {![dict exists $::model::part [list $queue [model::opt $opts partition 0]]]
  } {set op publish}
  return [list $op [list $queue [oracle_payload] $opts $::O(now)]]
}

# Many at once.  A message has its own number as key.
proc oracle_make_bulk {what} {
  set n [expr {70+[oracle_random 20]}]
  set delay [list delay_ms [oracle_one {0 0 20 400}]]
  switch $what {
    enqueue {
      return [list bulk [list enqueue s1 $n [list slot_policy join {*}$delay] \
        $::O(now)]]
    }
    submit {
      return [list bulk [list submit l1 $n [concat $delay [oracle_opts {
        priority 50 {1 5} max_reclaims 50 {0 1} max_attempts 50 {1 2}
        capabilities 30 {{["gpu"]}} group_key 50 {g1 g2}
      }]] $::O(now)]]
    }
    publish {return [list bulk [list publish q3 $n {} $::O(now)]]}
  }
}

# A wave: enough rows are claimed and expire for claimq to move them to the
# ready ones when it meets them; and then the clock goes back, or the late
# owner renews.  A list of {TIME-STEP SCRIPT}, for oracle_make.
proc oracle_wave {} {
  set what [oracle_one {enqueue submit publish letter}]
  set take [dict get {
    enqueue {list claim [list s1 w1 $ttl $max {} idle turn_work 0 $now] plain}
    submit {list lane [list l1 w1 $ttl $max {} {["gpu"]} 0 $now] plain}
    publish {list outbox [list q3 w1 $ttl $max {} NULL $now] plain}
    letter {list dead_letter [list NULL w1 $ttl $max {} NULL $now] plain}
  } $what]
  set bulk [expr {$what eq "letter" ? "enqueue" : $what}]
  set plan [list [list 0 "oracle_make_bulk $bulk"]]
  if {$what eq "letter"} {
    lappend plan {400 {
      list claim [list s1 w1 1000 100 {} idle any 0 $now] plain
    }}
    lappend plan {10 {
      list verb [list reject {*}[oracle_last_claim] bad {} $now]
    }}
  }
  set many [list 400 [string map {$ttl 300 $max 100} $take]]
  lappend plan {*}[lrepeat [expr {$what eq "publish" ? 25 : 1}] $many]
  set one [string map {$ttl 100 $max 1} $take]
  lappend plan [list 301 $one]
  if {[oracle_chance 30]} {
    lappend plan {0 {list verb [list renew {*}[oracle_last_claim] 500 {} $now]}}
  }
  lappend plan [list [oracle_one {-150 -302 0}] $one] [list 0 $one] \
    [list [oracle_one {0 200}] [string map {$ttl 50 $max 70} $take]]
  return [lmap p $plan {
    if {$what eq "publish" && [lindex $p 0] == 400} {lset p 0 1}
    set p
  }]
}

proc oracle_last_claim {} {
  lassign [lindex $::O(claims) end] label row
  return [list @c:$label:$row @t:$label:$row]
}

proc oracle_make_claim {} {
  set now $::O(now)
  set common [list [oracle_owner] [oracle_ttl] [oracle_max] [oracle_inc]]
  set form [oracle_one [list plain plain plain insert named \
    "limit [oracle_random 4]"]]
  set boundary [oracle_one {idle idle idle active_turn_checkpoint}]
  set take [oracle_one {turn_work turn_work any any session_command}]
  set session [oracle_one {s1 s1 s2 s3 NULL NULL}]
  set serial [oracle_one {0 0 1}]
  switch [oracle_one {claim claim claim claim peek lane lane lane lane outbox
                      outbox outbox outbox dead_letter dead_letter}] {
    claim {
      if {$session eq "NULL" && $form eq "named"} {set form plain}
      return [list claim [list $session {*}$common $boundary $take \
        $serial $now] $form]
    }
    peek {
      return [list peek [list $session [oracle_max] $boundary $take \
        $serial $now] plain]
    }
    lane {
      lset common 1 [oracle_lease]
      return [list lane [list [oracle_one {l1 l1 l1 l2}] {*}$common \
        [oracle_one {{["gpu","net"]} {["gpu"]} {["a","b","gpu","net"]} {[]}}] \
        [oracle_one {NULL NULL NULL 0 0 1 -3 {[0,1]} {[-3,0,1,1]}}] $now] \
        $form]
    }
    outbox {
      return [list outbox [list [oracle_one {q1 q1 q1 q2 q3}] {*}$common \
        [oracle_one {NULL NULL NULL 0 1 2}] $now] $form]
    }
    dead_letter {
      return [list dead_letter [list \
        [oracle_one {NULL NULL NULL s1 l1 q1/0}] {*}$common \
        [oracle_one {NULL NULL session lane outbox}] $now] $form]
    }
  }
}

proc oracle_make_contest {} {
  if {[oracle_chance 25]} {
    return [list fence [list [oracle_one {f1 f2}] [oracle_random 30]]]
  }
  return [list contest [list [oracle_one {a b}] [oracle_owner] [oracle_ttl] \
    [oracle_inc] [oracle_one {0 0 NULL 7}] $::O(now)] \
    [oracle_one {plain plain insert named}]]
}

# A claim that was made, with its token: the right one, or another.
proc oracle_some_claim {{op *}} {
  set claims [lsearch -all -inline -index 2 $::O(claims) $op]
  if {[llength $claims] == 0} {return {qwc:1:1 none claim 0}}
  lassign [oracle_recent $claims] label row op
  set token @t:$label:$row
  if {[oracle_chance 4]} {set token wrong}
  if {[oracle_chance 4]} {
    lassign [oracle_recent $claims] other i
    set token @t:$other:$i
  }
  return [list @c:$label:$row $token $op $label]
}

proc oracle_make_verb {} {
  set verb [oracle_one {renew complete complete complete release release retry
    retry retry reject reject guard}]
  lassign [oracle_some_claim] claim token op label
  set arg [expr {$verb eq "renew" ? [oracle_ttl]
    : [oracle_one {r1 {it's late} {}}]}]
  set opts {}
  if {$verb in {release retry}} {
    set opts [oracle_opts {delay_ms 25 {0 1 50 700}}]
  }
  if {$verb eq "complete"} {
    switch $op {
      claim {set opts [oracle_opts [list batch_ids 15 @b:$label]]}
      lane {set opts [oracle_opts {result 40 {done 5}}]}
    }
  }
  if {$op in {lane reclaim} && $verb in {renew release retry}} {
    lappend opts {*}[oracle_opts {progress 30 {{page 7} 12 half}}]
  }
  if {$op in {lane reclaim} && $verb in {retry reject}} {
    lappend opts {*}[oracle_opts {error_class 40 {timeout permanent}}]
  }
  if {$op eq "outbox" && $verb in {complete retry reject}} {
    lappend opts {*}[oracle_opts {processed 45 {-1 0 1 1 1 2 2 3 50}}]
    if {[oracle_chance 25]} {
      lappend opts rejected [oracle_some_seqs [oracle_ref $claim]]
    }
  }
  return [list verb [list $verb $claim $token $arg $opts $::O(now)]]
}

# A few numbers after the cursor of the partition that the claim has; of
# messages, or of none yet, or of none ever if there is a gap.
proc oracle_some_seqs {claim} {
  set seqs {1 2 3}
  dict for {key row} $::model::part {
    if {[dict get $row claim_id] eq $claim} {
      set seqs [model::to_do $key]
      set next [dict get $row last_seq]
      while {[llength $seqs] < 3} {lappend seqs [incr next]}
      if {[oracle_chance 10]} {
        set seqs [lreplace $seqs 1 1 [expr {[lindex $seqs 1]-1}]]
      }
    }
  }
  set out {}
  foreach d {2 0 1} {
    if {[oracle_chance 50]} {lappend out [lindex $seqs $d] "bad $d"}
  }
  return $out
}

proc oracle_some_job {} {
  if {[llength $::O(jobs)] == 0 || [oracle_chance 3]} {return 99999}
  return @v:[oracle_recent $::O(jobs)]
}

# An active job that a grant would help, if there is one.
proc oracle_stuck_job {} {
  set stuck {}
  dict for {id row} $::model::job {
    if {[dict get $row reclaim] eq "grant" && [dict get $row state] eq "active"
        && ![model::live $row $::O(now)]} {lappend stuck $id}
  }
  if {$stuck eq "" || [oracle_chance 25]} {return [oracle_some_job]}
  return [oracle_job_ref [oracle_one $stuck]]
}

# A job by the step that submitted it, if one did.
proc oracle_job_ref {id} {
  if {![info exists ::O(label,$id)]} {return $id}
  return @v:$::O(label,$id)
}

proc oracle_make_admin {} {
  set now $::O(now)
  set op [oracle_one {cancel_batch cancel_job cancel_flow revoke change change
    grant grant reclaim reclaim reclaim requeue requeue requeue vacuum queue raw
    raw limit limit limit schedule schedule unschedule next_at next_at
    next_at}]
  if {[oracle_chance 2]} {set op restored}
  if {$op eq "reclaim" && $::model::grant eq "" && [oracle_chance 80]} {
    set op grant
  }
  switch $op {
    cancel_batch {
      if {[llength $::O(batches)] == 0} {return {cancel_batch {qwb:0 1}}}
      return [list cancel_batch [list @v:[oracle_recent $::O(batches)] $now]]
    }
    cancel_job {
      return [list cancel_job [list [oracle_some_job] [oracle_random 2] $now]]
    }
    cancel_flow {
      return [list cancel_flow [list [oracle_one {f1 f1 f2}] \
        [oracle_random 2] $now]]
    }
    revoke {return [list revoke [list [oracle_some_job] $now]]}
    limit {
      if {[oracle_chance 40]} {
        return [list limit [list [oracle_one {l1 l2 NULL}] [oracle_opts {
          paused 20 {0 0 1 NULL NULL} max_attempts 30 {1 3 NULL}
          backoff_ms 20 {7 NULL} backoff_factor 20 {1 NULL}
          backoff_max_ms 20 {30 NULL} max_reclaims 30 {0 1 3 NULL}
          max_runtime_ms 20 {60 400 NULL NULL} lease_ms 30 {20 300 NULL}
          strict 20 {0 1 NULL NULL} reclaim 20 {auto grant NULL NULL}
        }] $now]]
      }
      return [list limit [list [oracle_one {l1 l2}] [oracle_one {
        {max_active 1} {max_active 3} {max_active 0} {max_active NULL}
        {rate 2 per_ms 100} {rate 1 per_ms 1000} {rate NULL per_ms NULL}
        {group_max_active 1} {group_max_active 1} {group_max_active 2}
        {group_max_active 0} {group_max_active NULL}
        {group_rate 1 group_per_ms 200} {group_rate 3 group_per_ms 2000}
        {group_rate NULL group_per_ms NULL} {fair 1} {fair 1} {fair 0}
        {max_active 3 group_max_active 1 rate NULL per_ms NULL fair 1}
        {max_active NULL rate NULL per_ms NULL}
        {max_active NULL rate NULL per_ms NULL group_max_active NULL
         group_rate NULL group_per_ms NULL fair NULL}}] $now]]
    }
    next_at {
      return [list next_at [list [oracle_one {l1 l1 l2}] \
        [oracle_one {{["gpu","net"]} {["a","b","gpu","net"]} {[]}}] \
        [oracle_one {0 0 0 1}] $now]]
    }
    change {
      return [list change [list [oracle_some_job] [concat [oracle_opts {
        lane 20 {l1 l2} priority 30 {-5 0 1 9} payload 15 {new 43}
        capabilities 20 {{["gpu"]} {["net","gpu"]} {[]} {["b","a","b"]}}
        max_attempts 15 {0 1 3} max_reclaims 15 {0 1 2}
        max_runtime_ms 10 {5 500}
        partition 10 {0 1 -3} group_key 30 {g1 g2 g3 {}}
      }] [oracle_due 0]] $now]]
    }
    grant {
      return [list grant [list [oracle_stuck_job] [oracle_owner] \
        [oracle_one {0 50 1000 5000 30000 30000}] [oracle_opts {
          incarnation 20 i2 lane 10 l9
          capability_hash 10 h1 admission_summary 10 ok}] $now]]
    }
    reclaim {
      set grants [lmap g [dict values $::model::grant] {
        if {[dict get $g expires_at_ms] <= $now && [oracle_chance 80]} continue
        set g
      }]
      set job [oracle_stuck_job]
      set owner [oracle_owner]
      if {[llength $grants] && [oracle_chance 70]} {
        set g [oracle_one $grants]
        set job [oracle_job_ref [dict get $g job_id]]
        if {[oracle_chance 75]} {set owner [dict get $g owner]}
      }
      return [list reclaim [list $job $owner [oracle_lease] [oracle_inc] \
        [oracle_one {NULL NULL NULL 0 1 5}] $now] \
        [oracle_one {plain plain insert named}]]
    }
    requeue {
      set id [oracle_one [dict keys $::model::letter]]
      if {$id eq ""} {set id 1}
      set proof {NULL NULL}
      if {[oracle_chance 40]} {
        set proof [lrange [oracle_some_claim dead_letter] 0 1]
      }
      return [list requeue [list $id {*}$proof $now]]
    }
    schedule {
      set opts [oracle_opts {priority 30 2 capabilities 30 {["gpu"]}
        partition 20 1 max_attempts 20 2 max_reclaims 20 0
        group_key 40 g1
        catch_up 50 all catch_up 30 none enabled 20 0}]
      if {[oracle_chance 20]} {
        dict set opts until_at_ms [expr {$now + [oracle_random 5000]}]
      }
      return [list schedule [list [oracle_one {n1 n2 n3}] \
        [oracle_one {700 700 3000}] [oracle_one {l1 l2}] [oracle_payload] \
        $opts $now]]
    }
    restored {return [list restored [list $now]]}
    unschedule {
      return [list unschedule [list [oracle_one {n1 n2 n3}] $now]]
    }
    vacuum {
      return [list vacuum [list [oracle_one {NULL 0 100 5000}] \
        [oracle_one {0 1 3 10 10000}] $now]]
    }
    queue {
      return [list queue [list {*}[oracle_one {
        {q1 3} {q1 3} {q2 1} {q2 2} {q4 2}}] [oracle_one {NULL NULL 0 1 1}]]]
    }
    raw {
      set i [oracle_random [expr {[llength $::oracle_bad]/2}]]
      return [list raw [lrange $::oracle_bad [expr {2*$i}] [expr {2*$i+1}]]]
    }
  }
}

# Look at all scopes, or at one; or ask why a claim takes what it takes.
proc oracle_make_see {} {
  set now $::O(now)
  set scope [dict create session [oracle_one {s1 s1 s2 s3}] \
    lane [oracle_one {l1 l1 l2}] outbox [oracle_one {q1 q1 q2 q3}] \
    contest [oracle_one {0/a 0/b 7/a}] \
    dead_letter [oracle_one {s1 l1 q1/0 q1/1}]]
  set what [oracle_one {session session lane lane lane outbox contest
    dead_letter}]
  if {[oracle_chance 35]} {return [list stats [list NULL NULL $now]]}
  if {[oracle_chance 15]} {
    return [list stats [list $what [dict get $scope $what] $now]]
  }
  set scope [dict get $scope $what]
  switch $what {
    session {
      if {[oracle_chance 30]} {set scope NULL}
      set opts [oracle_opts {boundary 40 active_turn_checkpoint
        take 50 {any session_command} serial 40 1}]
    }
    lane {
      set opts [oracle_opts {partition 15 {1 -3 {[1,-3]}}
        capabilities 75 {{["gpu","net"]} {["gpu"]} {["a","b","gpu","net"]}}}]
    }
    outbox {set opts [oracle_opts {partition 30 {0 1 2 7}}]}
    contest {
      lassign [split $scope /] kind scope
      set opts [list kind $kind]
    }
    dead_letter {
      if {[oracle_chance 50]} {set scope NULL}
      set opts [oracle_opts {source 40 {session lane outbox}}]
    }
  }
  return [list why [list $what $scope $opts $now]]
}

proc oracle_make_tx {} {
  if {[llength $::O(stack)] == 0} {
    return [list tx [list [oracle_one {BEGIN {BEGIN IMMEDIATE} SAVEPOINT}]]]
  }
  set words {COMMIT ROLLBACK SAVEPOINT {ROLLBACK TO} RELEASE}
  if {[llength $::O(stack)] > 3} {set words {COMMIT ROLLBACK}}
  return [list tx [list [oracle_one $words]]]
}

proc oracle_make {} {
  if {$::O(flood) && $::O(plan) eq "" && [oracle_chance 4]} {
    set ::O(plan) [oracle_wave]
  }
  if {$::O(plan) ne "" && [oracle_chance 90]} {
    set ::O(plan) [lassign $::O(plan) step]
    lassign $step time script
    set now [set ::O(now) [expr {max(0, $::O(now)+$time)}]]
    return [eval $script]
  }
  oracle_clock
  set r [oracle_random 100]
  return [expr {
      $r < 7 ? [oracle_make_batch] : $r < 14 ? [oracle_make_job]
    : $r < 20 ? [oracle_make_message] : $r < 44 ? [oracle_make_claim]
    : $r < 50 ? [oracle_make_contest] : $r < 80 ? [oracle_make_verb]
    : $r < 92 ? [oracle_make_admin] : [oracle_make_tx]}]
}

# Remember what later steps can refer to.
proc oracle_note {step} {
  lassign $step label op
  if {![info exists ::O(ref,$label)]} return
  set rows $::O(ref,$label)
  switch $op {
    enqueue {lappend ::O(batches) $label}
    submit {
      lappend ::O(jobs) $label
      set ::O(label,$rows) $label
    }
    lane {
      for {set i 0} {$i < [llength $rows]} {incr i} {
        lappend ::O(claims) [list $label $i lane]
      }
    }
    reclaim {
      if {[string match 'claimed'* $rows]} {
        lappend ::O(claims) [list $label 0 lane]
      }
    }
    claim - outbox - contest - dead_letter {
      if {[llength $rows] && [oracle_ref @c:$label:0] ne "NULL"} {
        lappend ::O(claims) [list $label 0 $op]
      }
    }
  }
}

#--------------------------------------------------------------------------
# Histories

proc oracle_setup {} {
  return {{-3 queue {q1 3 NULL}} {-2 queue {q2 1 0}} {-1 queue {q3 80 NULL}}}
}

# Run a history that is given; stop at the first difference.  Returns {} or
# {INDEX WHY}.  Tables are compared after every EVERY steps, and at the end.
proc oracle_replay {steps {every 1000000}} {
  oracle_open
  set i 0
  set why ""
  foreach step $steps {
    set why [oracle_step $step]
    if {$why eq "" && $i%$every == 0} {set why [oracle_compare]}
    if {$why ne ""} break
    incr i
  }
  if {$why eq ""} {set why [oracle_compare]}
  close_db odb
  return [expr {$why eq "" ? {} : [list $i $why]}]
}

# Leave out steps, by smaller and smaller pieces, as long as it still fails.
proc oracle_shrink {steps seconds} {
  set end [expr {[clock seconds]+$seconds}]
  set size [expr {[llength $steps]/2}]
  while {$size >= 1 && [clock seconds] < $end} {
    set smaller 0
    for {set i [expr {[llength $steps]-$size}]} {$i > -$size} {incr i -$size} {
      set try [lreplace $steps [expr {max($i, 0)}] [expr {$i+$size-1}]]
      set failed [oracle_replay $try]
      if {$failed ne ""} {
        set steps [lrange $try 0 [lindex $failed 0]]
        set smaller 1
      }
      if {[clock seconds] >= $end} break
    }
    if {$size == 1 && !$smaller} break
    set size [expr {max(1, $size/2)}]
  }
  return $steps
}

proc oracle_report {name steps} {
  set n [llength $steps]
  set failed [oracle_replay $steps 1]
  if {$failed ne ""} {
    set steps [oracle_shrink [lrange $steps 0 [lindex $failed 0]] 60]
    set failed [oracle_replay $steps]
  }
  fail_test $name "after $n steps; shrunk to [llength $steps]:\
    \nSELECT claimq_init('sessions', 1, 'outbox', 1); CREATE TABLE sink(v);\
    \n[join $::O(sql) ";\n"];\n[lindex $failed 1]"
}

proc do_oracle_test {seed n {kind mixed}} {
  set name [test_name "1.$seed-$kind-claimq-and-the-model-agree"]
  sqlite3 ::mem :memory:
  cq_load mem $::claimq_so
  oracle_open
  expr {srand($seed*7919+1)}
  array set ::O [list now 1000 claims {} jobs {} batches {} plan {} \
    flood [expr {$kind eq "flood"}]]
  set steps [oracle_setup]
  set why ""
  foreach step $steps {oracle_step $step}
  for {set i 0} {$i < $n && $why eq ""} {incr i} {
    set step [list $i {*}[oracle_make]]
    lappend steps $step
    set why [oracle_step $step]
    oracle_note $step
    set back [string match *ROLLBACK* $step]
    if {$why eq "" && ($i%3 == 0 || $back)} {
      set step [list see$i {*}[oracle_make_see]]
      lappend steps $step
      set why [oracle_step $step]
    }
    if {$why eq "" && ($i%25 == 0 || $back)} {
      set why [oracle_compare]
    }
  }
  if {$why eq ""} {set why [oracle_compare]}
  if {$why eq "" && [::odb eval {PRAGMA integrity_check}] ne "ok"} {
    set why "integrity_check"
  }
  close_db odb
  if {$why eq ""} {pass_test $name} else {oracle_report $name $steps}
  ::mem close
}
