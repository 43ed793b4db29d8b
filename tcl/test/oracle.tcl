# oracle.tcl: the differential test.  A random history is run on claimq and on
# the model of oracle_model.tcl, and every answer must be the same.
#
#     source $T(root)/tcl/test/oracle.tcl
#     do_oracle_test 17 2000            ;# seed 17, 2000 steps
#     do_oracle_test 17 2000 flood      ;# with bulk steps: long queues
#
# After each step the result is compared: rows with all their columns, values,
# or the code of the error.  Every third step, and after each ROLLBACK, what
# claimq_stats says or claimq_why is compared, and claimq_leases; every 25th,
# and after each ROLLBACK, all documented columns of all tables.
#
# When they differ the history is shrunk: steps are left out as long as the
# rest still fails, and what remains is printed as an SQL script.
#
# How a history is made.  A step is a list {LABEL OP ARGS FORM REQUEST}.  Steps
# are chosen one at a time (or in waves, see oracle_wave), looking at what the
# model holds (ids, claims made before), but they are written down by
# reference: @c:12:0 is the claim id of the first row that step 12 returned,
# @t:12:0 its token, @v:9 the value of step 9, @b:12 the batch ids of step 12
# in JSON; and the option after is a list of @v:9.  So a history means the same
# when steps in front are left out.
#
# FORM, for claims: plain, limit N (LIMIT N in the SELECT), insert (INSERT ...
# SELECT ... RETURNING), named (arguments by name in WHERE), done CLAIM TOKEN
# OPTIONS (this one is completed first).

if {[info commands do_oracle_test] ne ""} return
source [file join [file dirname [info script]] oracle_model.tcl]
source [file join [file dirname [info script]] oracle_make.tcl]
source [file join [file dirname [info script]] oracle_request.tcl]

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
  dead_letter {letter_id source scope ref payload headers payload_type
    created_at_ms failed_at_ms reason}]

# Tables to compare: the model's name, claimq's, columns.
set oracle_content {
  batch claimq_batch {enqueue_seq batch_id session source_key work_class
    delivery_policy slot_policy merge_key payload headers enqueued_at_ms
    available_at_ms fencing_token attempts last_error claim_id lease_token
    owner incarnation claim_size claimed_at_ms expires_at_ms}
  job claimq_job {job_id lane partition priority payload headers admission
    capabilities attempt_index reclaim_count created_at_ms
    available_at_ms source_key max_attempts backoff_ms backoff_factor
    backoff_max_ms max_reclaims max_runtime_ms reclaim group_key flow_id
    namespace instance_tag state
    result last_error error_class progress terminal_at_ms fencing_token attempts
    claim_id lease_token owner incarnation claimed_at_ms expires_at_ms
    on_failure waits_for}
  after claimq_after {job_id after_id}
  step claimq_steps {job_id name value at_ms}
  batch_step claimq_batch_steps {enqueue_seq name value at_ms}
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
    processed_seq attempts degrade retry_count lease_ms max backoff_ms
    backoff_factor backoff_max_ms max_attempts last_error fencing_token claim_id
    lease_token owner incarnation claimed_at_ms expires_at_ms}
  message {(SELECT m.*, ifnull(m.seq, (
      SELECT last_seq FROM claimq_partition AS p
      WHERE p.queue=m.queue AND p.partition=m.partition)
      + (SELECT count(*) FROM claimq_message AS n
         WHERE n.queue=m.queue AND n.partition=m.partition
           AND n.seq IS NULL AND n.message_id<=m.message_id)) AS given,
      m.seq IS NULL AS new FROM claimq_message AS m)} {queue partition
    given new source_key payload headers payload_type created_at_ms}
  holder claimq_holder {holder_id kind label fencing_token
    claim_id lease_token owner incarnation claimed_at_ms expires_at_ms}
  fence claimq_fence {resource token}
  letter claimq_letter {letter_id source scope ref payload headers payload_type
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
  {SELECT claimq_resolve(999999, 1)} not_found
  {SELECT claimq_step('qjc:1:1', 'x', '', 1)} bad_argument
  {SELECT claimq_step('qpc:1:1', 'x', 'n', 1)} bad_argument
  {SELECT claimq_step('qjc:1:999999', 'x', 'n', 1)} claim_lost
  {SELECT claimq_remaining('qjc:1:999999', 'x')} claim_lost
  {SELECT claimq_release('qjc:1:1', 'x', 'after', '[x]')} bad_argument
  {SELECT claimq_submit('l1', 1, 'headers', '[]')} bad_argument
  {SELECT claimq_submit('l1', 1, 'on_duplicate', 'both')} bad_argument
  {SELECT claimq_policy(NULL, 'max_active', 1)} bad_argument
  {SELECT claimq_policy('l1', 'keep_ms', -2)} bad_argument
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

proc oracle_sql_claim {op arglist form request} {
  lassign $::oracle_table($op) table names
  if {$request ne ""} {
    lappend names request
    lappend arglist $request
  }
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
  if {[lindex $form 0] eq "done"} {
    lassign $form - claim token opts
    append from " WHERE done=json_array('$claim', '$token'[expr {
      [dict exists $opts result] ? ", [model::lit [dict get $opts result]]"
      : ""}])"
  }
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
    revoke - revoke_claim {set call "claimq_revoke($a$at)"}
    revoke_owner {
      set call "claimq_revoke_owner($a[oracle_options $b]$at)"
    }
    resolve {set call "claimq_resolve($a, $b$at)"}
    remaining {set call "claimq_remaining($a, '$b', $c$at)"}
    ungrant {set call "claimq_ungrant($a$at)"}
    step {
      set call "claimq_step($a, '$b', '$c', $d[oracle_options $e]$at)"
    }
    change {set call "claimq_change($a[oracle_options $b]$at)"}
    grant {set call "claimq_grant($a, '$b', $c[oracle_options $d]$at)"}
    queue {
      set call "claimq_queue($a, $b[oracle_options $c])"
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

# What is held, compared with each look.
proc oracle_sql_leases {} {
  return "SELECT * FROM (SELECT [oracle_quoted $model::leasecols] AS r\
    FROM claimq_leases) ORDER BY r"
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
proc oracle_sql {op arglist form {request ""}} {
  if {[info exists ::oracle_table($op)]} {
    return [oracle_sql_claim $op $arglist $form $request]
  }
  if {$request ne ""} {
    return [oracle_sql_request [oracle_sql $op $arglist $form] $request]
  }
  switch $op {
    raw {return [lindex $arglist 0]}
    insert_batch - insert_job - insert_message {
      return [oracle_sql_insert $op {*}$arglist]
    }
    verb {return [oracle_sql_verb {*}$arglist]}
    stats {return "[oracle_sql_stats {*}$arglist]; [oracle_sql_leases]"}
    why {return "[oracle_sql_why {*}$arglist]; [oracle_sql_leases]"}
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

# What the model leaves open: has the job failed; does it need a grant?
proc oracle_asked {what id} {
  return [::odb exists {
    SELECT 1 FROM claimq_job WHERE job_id=$id
      AND iif($what='failed', state='failed', admission='grant')
  }]
}

# Has claimq removed a row that the model has?
proc oracle_gone {table key} {
  if {$table eq "message"} {
    lassign $key queue part seq
    return [expr {![::odb exists {
      SELECT 1 FROM claimq_message
      WHERE queue=$queue AND partition=$part+0 AND seq=$seq+0
    }]}]
  }
  if {$table ni {job event letter}} {return 0}
  return [expr {![::odb exists "SELECT 1 FROM claimq_$table WHERE rowid=$key"]}]
}

# {ok RESULTS}, {error CODE}, or {again RESULTS} of a claim that is repeated.
proc oracle_model {op arglist form {request ""}} {
  if {$form eq "limit 0"} {return {ok {}}}
  if {[lindex $form 0] eq "limit" && $op eq "outbox"} {
    lappend arglist [lindex $form 1]
  } elseif {[lindex $form 0] eq "limit"} {
    set i [lindex $::oracle_table($op) 2]
    lset arglist $i [expr {min([lindex $arglist $i], [lindex $form 1])}]
  }
  set now [lindex $arglist end]
  set whose [oracle_whose $op $arglist]
  if {$op eq "lane"} {lappend arglist oracle_asked}
  set before [model::save]
  set ::model::dropped 0
  set known ""
  set code [catch {
    if {$request ne "" && ![oracle_refused $op $arglist]} {
      set known [model::asked $request $whose]
    }
    if {[lindex $form 0] eq "done" && $known eq ""} {
      lassign $form - claim token opts
      model::verb complete $claim $token {} $opts $now
    }
    switch [expr {$known ne "" ? "known" : $op}] {
      known {lindex $known 1}
      raw {model::fail [lindex $arglist 1]}
      bulk {
        lassign $arglist what scope n opts now
        for {set i 1} {$i <= $n} {incr i} {
          if {$what eq "publish"} {dict set opts key $i}
          model::$what $scope $i $opts $now
        }
        set n
      }
      stats - why {concat [model::$op {*}$arglist] [model::leases]}
      default {model::$op {*}$arglist}
    }
  } result options]
  if {$known ne ""} {
    if {![info exists ::oracle_table($op)]} {return [list ok $result]}
    return [list again [model::again $op $result]]
  }
  if {$code == 0} {
    if {$request ne ""} {model::answered $request $op $whose $form $result}
    if {$op in {verb lane reclaim requeue resolve cancel_job cancel_flow}
        || [lindex $form 0] eq "done"} {
      model::forget $now oracle_gone
    }
    model::newest_event
    return [list ok $result]
  }
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
  set sql [string map [list "; [oracle_sql_leases]" ""] $sql]
  return [regsub {quote\(\w+\)\|\|.*quote\(\w+\)( AS r)? +FROM} $sql \
    "$cols FROM"]
}

# A plain INSERT of a message needs its partition: else it is not for the model.
proc oracle_has_place {op arglist} {
  if {$op ne "insert_message"} {return 1}
  lassign $arglist queue payload opts
  return [dict exists $::model::part \
    [list $queue [model::opt $opts partition 0]]]
}

# "" if all is well, else what differs.  A step that refers to one that was left
# out is left out too.
proc oracle_step {step} {
  lassign $step label op arglist form request
  if {$op eq "tx"} {
    oracle_tx [lindex $arglist 0]
    return
  }
  if {[catch {oracle_resolve $arglist} arglist]} return
  if {[catch {oracle_resolve $form} form]} return
  if {![oracle_has_place $op $arglist]} return
  set sql [oracle_sql $op $arglist $form $request]
  lappend ::O(sql) [oracle_readable $sql]
  set got [oracle_db $sql]
  set want [oracle_model $op $arglist $form $request]
  switch [lindex $want 0] {
    ok {set ::O(ref,$label) [lindex $want 1]}
    again {set ::O(ref,$label) [lindex $got 1]}
  }
  if {![oracle_same $op $got $want [lindex $arglist end]]} {
    return "claimq: [join [lindex $got 1] \n\ \ \ \ \ \ \ \ ]\
      \nmodel:  [join [lindex $want 1] \n\ \ \ \ \ \ \ \ ]"
  }
  return
}

# Is that the answer which the model gives?
proc oracle_same {op got want now} {
  if {$op eq "next_at" && [lindex $got 0] eq "ok"} {
    return [oracle_same_time [lindex $got 1] [lindex $want 1] $now]
  }
  if {[lindex $want 0] eq "again" && [lindex $got 0] eq "ok"} {
    set rows [lmap text [lindex $got 1] {oracle_part $op $text}]
    return [expr {$rows eq [lindex $want 1]}]
  }
  return [expr {$got eq $want}]
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
# Histories

proc oracle_setup {} {
  return {{-3 queue {q1 3 {}}} {-2 queue {q2 1 {degrade 0}}}
    {-1 queue {q3 80 {}}}}
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
  array set ::O [list now 1000 claims {} jobs {} batches {} plan {} asked {} \
    me 0 flood [expr {$kind eq "flood"}]]
  set steps [oracle_setup]
  set why ""
  foreach step $steps {oracle_step $step}
  for {set i 0} {$i < $n && $why eq ""} {incr i} {
    set step [list $i {*}[oracle_ask [oracle_make]]]
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
