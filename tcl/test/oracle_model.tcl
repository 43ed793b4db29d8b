# oracle_model.tcl: claimq a second time, as simple as it can be.
#
#     model::reset
#     model::enqueue s1 'hello' {} 1000          -> 'qwb:...'
#     model::claim s1 w1 500 32 {} idle turn_work 0 1000
#                                                -> rows, as text
#     model::verb complete qwc:1:1 $token {} {} 1200     -> 1
#
# This is what the manual (ext/doc) says, not what the code does: rows
# are dicts, tables are dicts of rows by key, everything is found by looking at
# all of it.  No index, no promotion, no trigger, no SQL.  tcl/test/oracle.tcl
# runs the same history on this and on claimq, and compares.
#
# What the manual leaves open is decided as the head comments of ext/*/*.c say;
# such places are marked "Open:".
#
# Values: numbers and texts as they are, NULL for NULL (so no text may be
# "NULL" or look like a number); payload, result and progress are SQL literals.
# A result is a list of texts: one for each row, its columns quoted as by
# quote() and joined by "|".  An error is raised with the errorcode {CQ code}.

namespace eval model {
  # The tables: batches, jobs, attempts, events, grants, partitions, messages,
  # holders, fences, letters, who waits for whom, keys
  # that stay taken, schedules; and the last key of each.  Of lanes with limits
  # also when claims began, the groups, which of their jobs stand together
  # (head), and turns.
  variable tables {batch job attempt event grant part message holder fence
                   letter after unique schedule last limit starts
                   group head turn}
  variable claimcols {claim_id lease_token fencing_token owner
    incarnation claimed_at_ms expires_at_ms previous_claim_id attempts}
  variable max 9223372036854775807
}

source [file join [file dirname [info script]] oracle_limit.tcl]
source [file join [file dirname [info script]] oracle_outbox.tcl]
source [file join [file dirname [info script]] oracle_see.tcl]
source [file join [file dirname [info script]] oracle_vacuum.tcl]

#--------------------------------------------------------------------------
# Values, rows, errors

proc model::reset {} {
  foreach t $::model::tables {set ::model::$t {}}
}

# All of the state as one value, for BEGIN, SAVEPOINT and back.
proc model::save {} {
  return [lmap t $::model::tables {set ::model::$t}]
}

proc model::restore {state} {
  foreach t $::model::tables value $state {set ::model::$t $value}
}

proc model::fail {code} {
  return -code error -errorcode [list CQ $code] "model: $code"
}

proc model::lit {v} {
  if {$v eq "NULL" || [string is entier -strict $v]} {return $v}
  return '[string map {' ''} $v]'
}

# The columns of a row as text.
proc model::show {row cols} {
  set out {}
  foreach c $cols {
    set v [dict get $row $c]
    lappend out [expr {$c in {payload result progress} ? $v : [lit $v]}]
  }
  return [join $out |]
}

proc model::opt {opts name {default NULL}} {
  return [expr {[dict exists $opts $name] ? [dict get $opts $name] : $default}]
}

proc model::add {a b} {
  return [expr {min($a+$b, $::model::max)}]
}

proc model::next {table} {
  dict incr ::model::last $table
  return [dict get $::model::last $table]
}

# Set columns of a row: set_row TABLE KEY COLUMN VALUE ...
proc model::set_row {table key args} {
  dict set ::model::$table $key [dict merge [dict get [set ::model::$table] \
    $key] $args]
}

proc model::row {table key} {
  return [dict get [set ::model::$table] $key]
}

proc model::drop {table key} {
  dict unset ::model::$table $key
}

proc model::sha256 {text} {
  return [::mem onecolumn {SELECT claimq_sha256($text)}]
}

#--------------------------------------------------------------------------
# The lease

proc model::lease {prefix head fence scope owner inc now ttl} {
  set id $prefix:$head:[add $fence 1]
  return [list claim_id $id \
    lease_token [sha256 $scope:$owner:$inc:$id:$now] \
    owner $owner incarnation $inc claimed_at_ms $now \
    expires_at_ms [add $now $ttl]]
}

proc model::nobody {} {
  return {claim_id NULL lease_token NULL owner NULL incarnation NULL
    claimed_at_ms NULL expires_at_ms NULL}
}

proc model::live {row now} {
  return [expr {[dict get $row claim_id] ne "NULL"
    && [dict get $row expires_at_ms] > $now}]
}

proc model::takeable {row now} {
  return [expr {[dict get $row available_at_ms] <= $now && ![live $row $now]}]
}

# When is a row given back due?
proc model::back {row opts now} {
  set delay [opt $opts delay_ms]
  return [expr {$delay eq "NULL" ? [dict get $row available_at_ms]
    : [add $now $delay]}]
}

# The rows of a claim.  claim_lost, unless all of it is there and the token is
# right; for release an empty list if the claim is lost.  Open: a wrong token
# is an error for release too, as long as the claim has its head.
proc model::held {verb table claim token} {
  set keys {}
  set right 0
  dict for {key row} [set ::model::$table] {
    if {[dict get $row claim_id] ne $claim} continue
    lappend keys $key
    set size [dict get $row claim_size]
    incr right [expr {[dict get $row lease_token] eq $token}]
  }
  set head [lindex [split $claim :] 1]
  if {$table eq "batch" && $head ni $keys} {set keys {}}
  if {[llength $keys] && !$right} {fail claim_lost}
  if {[llength $keys] && [llength $keys] == $size} {return $keys}
  if {$verb eq "release"} {return {}}
  fail claim_lost
}

# renew, for all
proc model::renew {table keys ttl now} {
  set end [add $now $ttl]
  foreach key $keys {set_row $table $key expires_at_ms $end}
  return $end
}

# claimq_renew() .. claimq_guard().  arg: ttl of renew, reason of retry and
# reject.
proc model::verb {verb claim token arg opts now} {
  switch [string range $claim 0 3] {
    qwc: {set r [session_verb $verb $claim $token $arg $opts $now]}
    qjc: {set r [job_verb $verb $claim $token $arg $opts $now]}
    qpc: {set r [outbox_verb $verb $claim $token $arg $opts $now]}
    qsc: {set r [contest_verb $verb $claim $token $arg $opts $now]}
    qdc: {set r [letter_verb $verb $claim $token $arg $opts $now]}
    default {fail bad_argument}
  }
  return [list [lit $r]]
}

#--------------------------------------------------------------------------
# Sessions

proc model::rust_key {key} {
  if {$key eq "NULL"} {return None}
  return "Some(\"[string map {\\ \\\\ \" \\\"} $key]\")"
}

proc model::batch_by_key {session key} {
  dict for {seq row} $::model::batch {
    if {$key ne "NULL" && [dict get $row session] eq $session
        && [dict get $row source_key] eq $key} {return [dict get $row batch_id]}
  }
  return ""
}

proc model::due_at {opts now} {
  if {[opt $opts available_at_ms] ne "NULL"} {
    if {[opt $opts delay_ms] ne "NULL"} {fail bad_argument}
    return [dict get $opts available_at_ms]
  }
  return [add $now [opt $opts delay_ms 0]]
}

proc model::new_batch {session payload opts now} {
  set seq [next batch]
  set key [opt $opts source_key]
  set id qwb:[sha256 "$session:[rust_key $key]:$now:$seq"]
  dict set ::model::batch $seq [list enqueue_seq $seq batch_id $id \
    session $session source_key $key \
    work_class [opt $opts work_class turn_work] \
    delivery_policy [opt $opts delivery_policy earliest_safe_boundary] \
    slot_policy [opt $opts slot_policy exclusive] \
    merge_key [opt $opts merge_key never] payload $payload \
    enqueued_at_ms $now available_at_ms [due_at $opts $now] \
    fencing_token 0 attempts 0 last_error NULL claim_size NULL {*}[nobody]]
  return $id
}

proc model::enqueue {session payload opts now} {
  due_at $opts $now
  set id [batch_by_key $session [opt $opts source_key]]
  if {$id eq ""} {set id [new_batch $session $payload $opts $now]}
  return [list [lit $id]]
}

proc model::insert_batch {session payload opts now} {
  if {[batch_by_key $session [opt $opts source_key]] ne ""} {fail constraint}
  new_batch $session $payload $opts $now
  return {}
}

# Until when live claims hold batches of the session; 0: none does.
proc model::busy {session now} {
  set until 0
  dict for {seq row} $::model::batch {
    if {[dict get $row session] eq $session && [live $row $now]} {
      set until [expr {max($until, [dict get $row expires_at_ms])}]
    }
  }
  return $until
}

# What a claim would take, as keys.  Any session: the first that gives
# something, in the order of their first candidates.
proc model::select {session max boundary take now serial} {
  if {$session eq "NULL"} {
    set seen {}
    dict for {seq row} $::model::batch {
      set id [dict get $row session]
      if {$id in $seen || ![takeable $row $now]} continue
      lappend seen $id
      set picked [select $id $max $boundary $take $now $serial]
      if {[llength $picked]} {return $picked}
    }
    return {}
  }
  if {$serial && [busy $session $now]} {return {}}
  set picked {}
  dict for {seq row} $::model::batch {
    if {[dict get $row session] ne $session} continue
    if {$serial && [dict get $row fencing_token] > 0
        && [dict get $row available_at_ms] > $now} break
    if {![takeable $row $now]} continue
    if {[llength $picked] >= $max} break
    dict with row {
      set same [list $delivery_policy $merge_key]
      if {[llength $picked] == 0} {
        if {$work_class eq "session_command"} {
          return [expr {$take eq "turn_work" ? {} : $seq}]
        }
        if {$take eq "session_command"
            || $boundary eq "active_turn_checkpoint"
               && $delivery_policy ne "earliest_safe_boundary"} {return {}}
        if {$slot_policy eq "exclusive"} {return $seq}
        set group $same
      } elseif {$work_class ne "turn_work" || $slot_policy ne "join"
                || $same ne $group} {
        break
      }
    }
    lappend picked $seq
  }
  return $picked
}

namespace eval model {
  variable batchcols {enqueue_seq batch_id session source_key work_class
    delivery_policy slot_policy merge_key payload enqueued_at_ms
    available_at_ms batch_fencing_token}
}

proc model::claim {session owner ttl max inc boundary take serial now} {
  set keys [select $session $max $boundary $take $now $serial]
  set out {}
  foreach seq $keys {
    set row [row batch $seq]
    if {$out eq ""} {
      set fence [dict get $row fencing_token]
      set lease [lease qwc $seq $fence [dict get $row session] $owner \
        $inc $now $ttl]
    }
    set old [dict get $row fencing_token]
    set_row batch $seq {*}$lease claim_size [llength $keys] \
      claim_serial $serial \
      fencing_token [add $old 1] attempts [expr {[dict get $row attempts]+1}]
    lappend out [show [dict merge $row $lease [list \
      batch_fencing_token [add $old 1] fencing_token [add $fence 1] \
      previous_claim_id [dict get $row claim_id]]] \
      [concat $::model::batchcols $::model::claimcols]]
  }
  return $out
}

# Open: batch_fencing_token of a peek is the one the row has now.
proc model::peek {session max boundary take serial now} {
  return [lmap seq [select $session $max $boundary $take $now $serial] {
    set row [row batch $seq]
    dict set row batch_fencing_token [dict get $row fencing_token]
    dict set row previous_claim_id [dict get $row claim_id]
    show $row [concat $::model::batchcols {previous_claim_id attempts}]
  }]
}

proc model::session_verb {verb claim token arg opts now} {
  set keys [held $verb batch $claim $token]
  switch $verb {
    guard {return 1}
    renew {
      # An expired serial claim needs the session's slot again.
      set row [row batch [lindex $keys 0]]
      if {[dict get $row claim_serial] && ![live $row $now]
          && [busy [dict get $row session] $now]} {fail no_slot}
      return [renew batch $keys $arg $now]
    }
  }
  if {[dict exists $opts batch_ids]} {
    set mine [lmap seq $keys {dict get [row batch $seq] batch_id}]
    regsub -all {[]["]} [dict get $opts batch_ids] {} named
    if {[lsort [split $named ,]] ne [lsort $mine]} {fail bad_argument}
  }
  foreach seq $keys {
    set row [row batch $seq]
    set attempts [dict get $row attempts]
    switch $verb {
      complete {drop batch $seq}
      release {
        set_row batch $seq {*}[nobody] claim_size NULL \
          attempts [expr {$attempts-1}] \
          available_at_ms [back $row $opts $now]
      }
      retry {
        set_row batch $seq {*}[nobody] claim_size NULL last_error $arg \
          available_at_ms [back $row $opts $now]
      }
      reject {
        drop batch $seq
        dict with row {
          new_letter session $session $batch_id $payload NULL \
            $enqueued_at_ms $now $arg $attempts [list \
            source_key $source_key work_class $work_class \
            delivery_policy $delivery_policy slot_policy $slot_policy \
            merge_key $merge_key]
        }
      }
    }
  }
  return [expr {$verb eq "retry" ? "retry" : [llength $keys]}]
}

proc model::cancel_batch {id now} {
  dict for {seq row} $::model::batch {
    if {[dict get $row batch_id] ne $id} continue
    if {[live $row $now]} {return 'claimed'}
    drop batch $seq
    return 'cancelled'
  }
  return 'missing'
}

#--------------------------------------------------------------------------
# Lanes

proc model::job_by_key {lane key} {
  dict for {id row} $::model::job {
    if {$key ne "NULL" && [dict get $row lane] eq $lane
        && [dict get $row source_key] eq $key
        && [dict get $row terminal_at_ms] eq "NULL"} {return $id}
  }
  return ""
}

# caps: a list.  text: how the set is written in the table.
proc model::json_set {caps} {
  return "\[[join [lmap c $caps {string cat \" $c \"}] ,]\]"
}

# opts: those of claimq_submit(), with capabilities as JSON text; its strings
# are plain.
proc model::new_job {lane payload opts now} {
  set id [next job]
  set due [due_at $opts $now]
  dict set ::model::job $id [list job_id $id lane $lane \
    partition [opt $opts partition 0] \
    priority [opt $opts priority 0] payload $payload \
    capabilities [opt $opts capabilities {[]}] \
    attempt_index 0 reclaim_count 0 created_at_ms $now \
    available_at_ms $due source_key [opt $opts source_key] \
    max_attempts [opt $opts max_attempts] \
    backoff_ms [opt $opts backoff_ms] \
    backoff_factor [opt $opts backoff_factor] \
    backoff_max_ms [opt $opts backoff_max_ms] \
    max_reclaims [opt $opts max_reclaims] \
    max_runtime_ms [opt $opts max_runtime_ms] \
    reclaim [opt $opts reclaim auto] group_key [opt $opts group_key] \
    flow_id [opt $opts flow_id] \
    namespace [opt $opts namespace] instance_tag [opt $opts instance_tag] \
    state [expr {$due > $now ? "delayed" : "ready"}] result NULL \
    last_error NULL error_class NULL progress NULL terminal_at_ms NULL \
    fencing_token 0 attempts 0 retries 0 settled {} \
    on_failure [opt $opts on_failure] waits_for NULL {*}[nobody]]
  place_job $id
  return $id
}

# The job is where it belongs: its set of capabilities, and in a lane that
# keeps groups its group, are known.
proc model::place_job {id} {
  set row [row job $id]
  set key [job_set $row]
  dict with row {
    if {$group_key eq "NULL" || ![keeps_groups $lane]} return
    if {![dict exists $::model::group [list $lane $group_key]]} {
      dict set ::model::group [list $lane $group_key] {turn 0 at_ms 0}
    }
    dict set ::model::head [list $lane $group_key $partition $key] 1
  }
}

# What distinguishes a set of capabilities; empty if the job requires none.
proc model::job_set {row} {
  dict with row {
    if {[caps_list $capabilities] in {{} {{}}}} {return ""}
    return [list $lane $partition $capabilities]
  }
}

proc model::caps_list {json} {
  regsub -all {[]["]} $json {} list
  return [lsort -unique [split $list ,]]
}

# What claimq_submit() and claimq_requeue() put: a set of capabilities is
# stored sorted.
proc model::sorted_caps {opts} {
  if {[dict exists $opts capabilities]} {
    dict set opts capabilities \
      [json_set [caps_list [dict get $opts capabilities]]]
  }
  return $opts
}

# The job that keeps a key although it has ended, "" if none: the last that had
# the key counts.
proc model::kept_key {lane key now} {
  set last ""
  dict for {id row} $::model::job {
    if {$key ne "NULL" && [dict get $row lane] eq $lane
        && [dict get $row source_key] eq $key
        && [dict get $row terminal_at_ms] ne "NULL"
        && ($last eq "" || $id > $last)} {set last $id}
  }
  if {$last eq "" || ![dict exists $::model::unique $last]} {return ""}
  return [expr {[dict get $::model::unique $last] > $now ? $last : ""}]
}

proc model::submit {lane payload opts now} {
  due_at $opts $now
  set key [opt $opts source_key]
  foreach id [list [job_by_key $lane $key] [kept_key $lane $key $now]] {
    if {$id ne ""} {return $id}
  }
  set preds [lsort -unique -integer [regexp -all -inline {\d+} \
    [opt $opts after {}]]]
  foreach p $preds {if {![dict exists $::model::job $p]} {fail not_found}}
  if {[llength $preds] && ![dict exists $opts on_failure]} {
    dict set opts on_failure cancel
  }
  if {![dict exists $opts reclaim]} {
    dict set opts reclaim [says $lane reclaim]
  }
  set id [new_job $lane $payload [sorted_caps $opts] $now]
  if {$key ne "NULL" && [dict exists $opts unique_for_ms]} {
    dict set ::model::unique $id [add $now [dict get $opts unique_for_ms]]
  }
  wait_for $id $preds
  return $id
}

proc model::ended {id} {
  return [expr {![dict exists $::model::job $id]
    || [dict get [row job $id] terminal_at_ms] ne "NULL"}]
}

proc model::waits {id} {
  return [lmap key [dict keys $::model::after "$id *"] {lindex $key 1}]
}

# A new job waits for others.  Open: if several have failed it ends when the
# latest of them did, unless that was before it began.
proc model::wait_for {id preds} {
  foreach p $preds {
    dict set ::model::after [list $id $p] [list job_id $id after_id $p]
    if {![ended $p]} {set_row job $id state blocked waits_for $p}
  }
  if {[dict get [row job $id] on_failure] eq "run"} return
  foreach p [lreverse $preds] {
    set row [row job $p]
    if {[dict get $row state] in {failed cancelled}} {
      end_job $id cancelled [expr {max([dict get [row job $id] created_at_ms],
        [dict get $row terminal_at_ms])}] NULL
      return
    }
  }
}

# Jobs have ended.  Those that wait for them are cancelled, or wait for the rest
# of what they wait for, or may run.  All ids are greater than those they wait
# for, so one look at the jobs in their order is enough.
proc model::go_on {ids now} {
  set gone {}
  foreach id $ids {
    if {[dict get [row job $id] state] ne "completed"} {lappend gone $id}
  }
  foreach j [lsort -integer [dict keys $::model::job]] {
    set row [row job $j]
    if {[dict get $row state] ne "blocked"} continue
    foreach p [waits $j] {
      if {$p in $gone && [dict get $row on_failure] eq "cancel"} {
        lappend gone $j
        set_row job $j state cancelled terminal_at_ms $now waits_for NULL \
          settled {}
        new_event $j $now
        break
      }
    }
  }
  foreach j [lsort -integer [dict keys $::model::job]] {
    set row [row job $j]
    if {[dict get $row state] ne "blocked"} continue
    set last NULL
    foreach p [lsort -integer [waits $j]] {if {![ended $p]} {set last $p}}
    set_row job $j waits_for $last
    if {$last eq "NULL"} {
      set_row job $j state [expr {
        [dict get $row available_at_ms] > $now ? "delayed" : "ready"}]
    }
  }
}

# Jobs that a script ends, end together: then those go on that waited for them.
proc model::together {script} {
  upvar 1 now now
  set ::model::together {}
  uplevel 1 $script
  set ids $::model::together
  unset ::model::together
  go_on $ids $now
}

proc model::cancel_flow {flow force now} {
  set ids {}
  dict for {id row} $::model::job {
    if {[dict get $row flow_id] eq $flow && ![ended $id]
        && ($force || ![live $row $now])} {lappend ids $id}
  }
  together {foreach id [lsort -integer $ids] {cancel_job $id 1 $now}}
  return [llength $ids]
}

proc model::insert_job {lane payload opts now} {
  if {[job_by_key $lane [opt $opts source_key]] ne ""} {fail constraint}
  set_row job [new_job $lane $payload $opts $now] state ready
  return {}
}

# The claim of a job ends: so does its attempt.
proc model::end_attempt {id now outcome error {class NULL}} {
  set row [row job $id]
  if {[dict get $row claim_id] eq "NULL"} return
  set_row attempt [list $id [dict get $row attempt_index]] \
    ended_at_ms $now outcome $outcome error $error error_class $class
}

proc model::new_event {id now} {
  set event [next event]
  set row [row job $id]
  dict with row {
    dict set ::model::event $event [list event_id $event job_id $id \
      lane $lane partition $partition flow_id $flow_id \
      outcome [expr {$state eq "completed" ? "success" : $state}] \
      error_class [expr {$state eq "failed" ? $error_class : "NULL"}] \
      namespace $namespace instance_tag $instance_tag occurred_at_ms $now]
  }
}

# The job ends: one event, and a dead letter if it failed; and those that wait
# for it.
proc model::end_job {id state now error {class NULL}} {
  set_row job $id state $state terminal_at_ms $now waits_for NULL {*}[nobody]
  if {$error ne "NULL"} {set_row job $id last_error $error error_class $class}
  new_event $id $now
  if {[info exists ::model::together]} {
    lappend ::model::together $id
  } else {
    go_on $id $now
  }
  set row [row job $id]
  dict with row {
    if {$state ne "failed"} return
    set origin [dict create capabilities $capabilities]
    foreach name {priority source_key max_attempts backoff_ms backoff_factor
                  backoff_max_ms max_reclaims max_runtime_ms reclaim partition
                  group_key flow_id namespace instance_tag} {
      dict set origin $name [set $name]
    }
    new_letter lane $lane $id $payload NULL $created_at_ms $now \
      $last_error $attempts $origin $error_class
  }
}

# Reclaimed too often.  Open: the text.
proc model::spend_job {id now} {
  set n [dict get [row job $id] reclaim_count]
  set why "reclaimed $n times, which is the maximum"
  end_attempt $id $now interrupted_reclaimed $why
  set_row job $id settled {}
  end_job $id failed $now $why
}

# The job gets a new claim.  A job that was active is reclaimed.
proc model::take_job {id who inc ttl now} {
  set row [row job $id]
  set again [expr {[dict get $row state] eq "active"}]
  end_attempt $id $now interrupted_reclaimed NULL
  if {$ttl eq "NULL"} {set ttl [says [dict get $row lane] lease_ms]}
  set ttl [expr {min($ttl, [job_says $row max_runtime_ms])}]
  dict with row {
    set lease [lease qjc $id $fencing_token $lane $who $inc $now $ttl]
    set_row job $id {*}$lease state active settled {} \
      fencing_token [add $fencing_token 1] attempts [expr {$attempts+1}] \
      attempt_index [expr {$attempt_index+$again}] \
      reclaim_count [expr {$reclaim_count+$again}]
    set index [expr {$attempt_index+$again}]
    dict set ::model::attempt [list $id $index] [list job_id $id \
      attempt_index $index owner $who incarnation $inc \
      fencing_token [add $fencing_token 1] started_at_ms $now \
      ended_at_ms NULL outcome NULL error NULL error_class NULL \
      expires_at_ms [dict get $lease expires_at_ms]]
  }
  return [show [dict merge [row job $id] [list attempts $attempts \
    previous_claim_id $claim_id]] \
    [concat $::model::jobcols $::model::claimcols]]
}

namespace eval model {
  variable jobcols {job_id lane partition priority payload
    capabilities attempt_index reclaim_count created_at_ms
    available_at_ms progress group_key}
}

proc model::job_order {a b} {
  foreach c {priority created_at_ms job_id} sign {-1 1 1} {
    set d [expr {$sign*([dict get $a $c]-[dict get $b $c])}]
    if {$d} {return [expr {$d < 0 ? -1 : 1}]}
  }
  return 0
}

proc model::can_run {row offered} {
  foreach c [caps_list [dict get $row capabilities]] {
    if {$c ni $offered} {return 0}
  }
  return 1
}

# Partitions are NULL for all, one, or a JSON array of them.
proc model::in_part {partition part} {
  return [expr {$part eq "NULL"
    || $partition in [regexp -all -inline -- {-?\d+} $part]}]
}

# The jobs of a lane that a worker could be given, but for limits, in order; and
# those that were reclaimed too often.  Open: an expired job must also be due,
# as a batch must.
proc model::eligible {lane caps part now} {
  set offered [caps_list $caps]
  set rows {}
  set spent {}
  dict for {id row} $::model::job {
    if {[dict get $row lane] ne $lane} continue
    dict with row {
      if {[in_part $partition $part]
          && ($state in {ready delayed} || $state eq "active"
              && $reclaim eq "auto")
          && [takeable $row $now] && [can_run $row $offered]} {
        if {$state ne "active"
            || $reclaim_count < [job_says $row max_reclaims]} {
          lappend rows $row
        } else {
          lappend spent $row
        }
      }
    }
  }
  return [list [lsort -command model::job_order $rows] $spent]
}

# Open: which spent jobs a claim fails beyond those that stand before what it
# hands out, or in a lane that keeps groups; for those `failed`, a command, is
# asked about a job.
proc model::lane {lane owner ttl max inc caps part now failed} {
  if {$max == 0} {return {}}
  fire $lane $now
  set max [expr {min($max, [room [list $lane] $now])}]
  lassign [eligible $lane $caps $part $now] rows rest
  set pick [choose $rows $lane $max $now]
  set spent {}
  foreach row $rest {
    set front [expr {[llength $pick] < $max}]
    foreach id $pick {
      if {[job_order $row [row job $id]] < 0} {set front 1}
    }
    if {$max > 0 && ($front && ![keeps_groups $lane]
                     || [{*}$failed [dict get $row job_id]])} {
      lappend spent [dict get $row job_id]
    }
  }
  starts_back $lane $now
  together {foreach id [lsort -integer $spent] {spend_job $id $now}}
  foreach id $pick {begin $id $now}
  return [lmap row [lsort -command model::job_order \
                      [lmap id $pick {row job $id}]] {
    take_job [dict get $row job_id] $owner $inc $ttl $now
  }]
}

# claimq_next_at(): the first of all times at which something changes, and a
# claim would take something or put a job of a schedule.  The end of time does
# not come.
proc model::next_at {lane caps part now} {
  set times $now
  dict for {id row} $::model::job {
    if {[dict get $row lane] ne $lane} continue
    dict with row {lappend times $available_at_ms $expires_at_ms}
  }
  dict for {key list} $::model::starts {
    if {[lindex $key 0] ne $lane} continue
    set per [limit_of $lane [of_group $key per_ms]]
    if {$per eq ""} continue
    foreach s $list {lappend times [add [expr {min($s, $now)}] $per]}
  }
  dict for {name row} $::model::schedule {
    if {[dict get $row lane] eq $lane} {
      lappend times [dict get $row next_at_ms]
    }
  }
  foreach t [lsort -integer -unique [lsearch -all -inline -not $times NULL]] {
    if {$t >= $now && $t < $::model::max
        && [could_claim $lane $caps $part $t $now]} {return $t}
  }
  return NULL
}

proc model::could_claim {lane caps part t now} {
  dict for {name row} $::model::schedule {
    if {[dict get $row lane] ne $lane} continue
    dict with row {
      if {$next_at_ms ne "NULL" && $next_at_ms <= $t} {return 1}
    }
  }
  set before [save]
  starts_back $lane $now
  set found [expr {[room [list $lane] $t] > 0 && [choose \
    [lindex [eligible $lane $caps $part $t] 0] $lane 1 $t] ne ""}]
  restore $before
  return $found
}

proc model::backoff {row} {
  set ms [expr {[job_says $row backoff_ms]
    *[job_says $row backoff_factor]**[dict get $row retries]}]
  return [expr {min($ms, [job_says $row backoff_max_ms])}]
}

# settled: {verb claim token answer} of the last claim, if a verb ended it.
proc model::job_verb {verb claim token arg opts now} {
  set id [lindex [split $claim :] 1]
  if {![dict exists $::model::job $id]} {
    if {$verb eq "release"} {return 0}
    fail claim_lost
  }
  set row [row job $id]
  if {[dict get $row claim_id] ne $claim} {
    if {$verb eq "release"} {return 0}
    lassign [dict get $row settled] by whose proof answer
    if {$by eq $verb && $whose eq $claim && $proof eq $token} {return $answer}
    fail claim_lost
  }
  if {[dict get $row lease_token] ne $token} {fail claim_lost}
  if {[says [dict get $row lane] strict] && ![live $row $now]} {
    if {$verb eq "release"} {return 0}
    fail claim_lost
  }
  set answer 1
  set class [opt $opts error_class]
  if {[dict exists $opts progress]} {
    set_row job $id progress [lit [dict get $opts progress]]
  }
  switch $verb {
    guard {return 1}
    renew {
      foreach whose [limits_of_job $row] {
        if {![live $row $now] && [slots $whose $now] == 0} {fail no_slot}
      }
      set end [expr {min([renew job $id $arg $now], [add \
        [dict get $row claimed_at_ms] [job_says $row max_runtime_ms]])}]
      set_row job $id expires_at_ms $end
      set_row attempt [list $id [dict get $row attempt_index]] \
        expires_at_ms $end
      return $end
    }
    complete {
      end_attempt $id $now success NULL
      set_row job $id result [lit [opt $opts result]]
      end_job $id completed $now NULL
    }
    reject {
      end_attempt $id $now failed $arg $class
      end_job $id failed $now $arg $class
    }
    release {
      end_attempt $id $now released NULL
      set due [back $row $opts $now]
      set late [expr {[opt $opts delay_ms 0] > 0}]
      set_row job $id {*}[nobody] available_at_ms $due \
        state [expr {$late ? "delayed" : "ready"}] \
        attempts [expr {[dict get $row attempts]-1}]
    }
    retry {set answer [retry_job $id $arg $opts $now]}
  }
  set_row job $id settled [list $verb $claim $token $answer]
  return $answer
}

proc model::retry_job {id reason opts now} {
  set row [row job $id]
  set class [opt $opts error_class]
  dict with row {
    if {$attempt_index+1 >= [job_says $row max_attempts]} {
      end_attempt $id $now failed $reason $class
      end_job $id failed $now $reason $class
      return dead
    }
    end_attempt $id $now retry $reason $class
    set_row job $id {*}[nobody] state delayed last_error $reason \
      error_class $class \
      available_at_ms [add $now [opt $opts delay_ms [backoff $row]]] \
      attempt_index [expr {$attempt_index+1}] retries [expr {$retries+1}] \
      fencing_token [add $fencing_token 1]
  }
  return retry
}

# claimq_change(): what is not given stays.  A job whose claim has expired stays
# active, and one that waits for others stays blocked.
proc model::change {id opts now} {
  if {![dict exists $::model::job $id]} {return 'missing'}
  set row [row job $id]
  if {[dict get $row terminal_at_ms] ne "NULL"} {return 'missing'}
  if {[live $row $now]} {return 'claimed'}
  set opts [sorted_caps $opts]
  if {[dict exists $opts lane]} {
    set key [dict get $row source_key]
    foreach other [list [job_by_key [dict get $opts lane] $key] \
                        [kept_key [dict get $opts lane] $key $now]] {
      if {$other ni [list {} $id]} {fail conflict}
    }
  }
  foreach name {lane priority payload capabilities max_attempts max_reclaims
      max_runtime_ms partition group_key} {
    if {![dict exists $opts $name]} continue
    set value [dict get $opts $name]
    set_row job $id $name [expr {$name eq "payload" ? [lit $value] : $value}]
  }
  if {[dict exists $opts delay_ms] || [dict exists $opts available_at_ms]} {
    set due [due_at $opts $now]
    set_row job $id available_at_ms $due
    if {[dict get $row state] ni {active blocked}} {
      set_row job $id state [expr {$due > $now ? "delayed" : "ready"}]
    }
  }
  place_job $id
  return 'changed'
}

# Open: a job that has ended is missing.
proc model::cancel_job {id force now} {
  if {![dict exists $::model::job $id]} {return 'missing'}
  set row [row job $id]
  if {[dict get $row terminal_at_ms] ne "NULL"} {return 'missing'}
  if {[live $row $now] && !$force} {return 'claimed'}
  end_attempt $id $now cancelled NULL
  if {[dict get $row claim_id] ne "NULL"} {set_row job $id settled {}}
  end_job $id cancelled $now NULL
  return 'cancelled'
}

# Open: an expired claim that nobody displaced can be revoked.  The next claim
# of an auto job is a new attempt, because this one is over.
proc model::revoke {id now} {
  if {![dict exists $::model::job $id]} {fail not_found}
  set row [row job $id]
  dict with row {
    if {$claim_id eq "NULL"} {return 'no_active_lease'}
    end_attempt $id $now revoked NULL
    set auto [expr {$reclaim eq "auto"}]
    set_row job $id {*}[nobody] settled {} \
      state [expr {$auto ? "ready" : "active"}] \
      attempt_index [expr {$attempt_index+$auto}] \
      fencing_token [add $fencing_token 1]
  }
  return 'revoked'
}

proc model::reclaimable {id now} {
  if {![dict exists $::model::job $id]} {return 0}
  set row [row job $id]
  return [expr {[dict get $row state] eq "active" && ![live $row $now]}]
}

proc model::grant {id owner ttl opts now} {
  if {![dict exists $::model::job $id]} {fail not_found}
  if {![reclaimable $id $now] || [dict get [row job $id] reclaim] eq "auto"} {
    fail not_reclaimable
  }
  set lane [dict get [row job $id] lane]
  if {[opt $opts lane $lane] ne $lane} {fail bad_argument}
  set old [lrange [lsort -integer -index 0 [lsort -integer -index 1 \
    [lmap {key row} $::model::grant {
      if {[dict get $row expires_at_ms] > $now} continue
      list [dict get $row expires_at_ms] $key
    }]]] 0 1]
  set grant [next grant]
  dict set ::model::grant $grant [list grant_id $grant job_id $id \
    owner $owner incarnation [opt $opts incarnation {}] \
    lane $lane \
    issued_at_ms $now expires_at_ms [add $now $ttl] \
    capability_hash [opt $opts capability_hash] \
    admission_summary [opt $opts admission_summary]]
  foreach one $old {drop grant [lindex $one 1]}
  return $grant
}

proc model::reclaim {id owner ttl inc max now} {
  set outcome [reclaim_outcome $id $owner $max $now]
  if {$outcome in {claimed reclaim_cap_exceeded limited}} {
    starts_back [dict get [row job $id] lane] $now
  }
  if {$outcome eq "claimed"} {
    begin $id $now
    return [list 'claimed'|[take_job $id $owner $inc $ttl $now]]
  }
  if {$outcome eq "reclaim_cap_exceeded"} {spend_job $id $now}
  return [list '$outcome'[string repeat |NULL 21]]
}

proc model::reclaim_outcome {id owner max now} {
  set newest {}
  dict for {key row} $::model::grant {
    if {[dict get $row job_id] == $id && ($newest eq ""
        || [dict get $row issued_at_ms] >= [dict get $newest issued_at_ms])} {
      set newest $row
    }
  }
  if {$newest eq ""} {return grant_not_found}
  if {[dict get $newest expires_at_ms] <= $now} {
    drop grant [dict get $newest grant_id]
    return grant_not_found
  }
  if {[dict get $newest owner] ne $owner} {return wrong_owner}
  if {![dict exists $::model::job $id]
      || [dict get [row job $id] lane] ne [dict get $newest lane]} {
    return grant_not_found
  }
  if {![reclaimable $id $now]} {return not_reclaimable}
  set row [row job $id]
  if {$max eq "NULL"} {set max [job_says $row max_reclaims]}
  set spent [expr {[dict get $row reclaim_count] >= $max}]
  foreach whose [limits_of_job $row] {
    if {!$spent && [room $whose $now] == 0} {return limited}
  }
  drop grant [dict get $newest grant_id]
  return [expr {$spent ? "reclaim_cap_exceeded" : "claimed"}]
}

#--------------------------------------------------------------------------
# Dead letters

proc model::new_letter {source scope ref payload type created now reason
                        attempts origin {class NULL}} {
  set id [next letter]
  dict set ::model::letter $id [list letter_id $id source $source \
    scope $scope ref $ref payload $payload payload_type $type \
    created_at_ms $created failed_at_ms $now reason $reason \
    error_class $class attempts $attempts status pending fencing_token 0 \
    claim_size NULL \
    available_at_ms 0 settled_ms NULL origin $origin {*}[nobody]]
}

# Open: oldest is by letter_id; attempts are the letter's own.
proc model::dead_letter {scope owner ttl max inc source now} {
  set keys {}
  dict for {id row} $::model::letter {
    if {[llength $keys] < $max
        && [dict get $row status] in {pending reprocessing}
        && $source in [list NULL [dict get $row source]]
        && $scope in [list NULL [dict get $row scope]]
        && [takeable $row $now]} {lappend keys $id}
  }
  set out {}
  foreach id $keys {
    set row [row letter $id]
    if {$out eq ""} {
      set fence [dict get $row fencing_token]
      set lease [lease qdc $id $fence dead_letter $owner $inc $now $ttl]
    }
    set_row letter $id {*}$lease claim_size [llength $keys] \
      status reprocessing fencing_token [add [dict get $row fencing_token] 1]
    lappend out [show [dict merge $row $lease [list \
      fencing_token [add $fence 1] \
      previous_claim_id [dict get $row claim_id]]] [concat {letter_id source
      scope ref payload payload_type created_at_ms failed_at_ms reason} \
      $::model::claimcols]]
  }
  return $out
}

proc model::letter_verb {verb claim token arg opts now} {
  set keys [held $verb letter $claim $token]
  switch $verb {
    guard {return 1}
    renew {return [renew letter $keys $arg $now]}
  }
  foreach id $keys {
    set delay [opt $opts delay_ms 0]
    set_row letter $id {*}[nobody] claim_size NULL status [dict get {
      complete resolved release pending retry pending reject discarded
    } $verb] settled_ms $now
    if {$verb in {release retry}} {
      set_row letter $id available_at_ms [add $now $delay]
      if {![dict exists $opts delay_ms]} {set_row letter $id available_at_ms 0}
    }
    if {$verb in {retry reject}} {set_row letter $id reason $arg}
    if {$verb eq "retry"} {
      set_row letter $id attempts \
        [expr {[dict get [row letter $id] attempts]+1}]
    }
  }
  return [expr {$verb eq "retry" ? "retry" : [llength $keys]}]
}

# Open: the holder says so by claim and token, and keeps the rest of its claim;
# a source key is kept if it is free.
proc model::requeue {id claim token now} {
  if {$claim ne "NULL" && ![string match qdc:* $claim]} {fail bad_argument}
  if {![dict exists $::model::letter $id]} {fail not_found}
  set row [row letter $id]
  if {[dict get $row status] in {resolved discarded}} {fail conflict}
  if {$claim ne "NULL"} {
    set rest [held guard letter $claim $token]
    if {$id ni $rest} {fail claim_lost}
    foreach key $rest {
      set_row letter $key claim_size [expr {[llength $rest]-1}]
    }
  } elseif {[live $row $now]} {
    fail conflict
  }
  set_row letter $id {*}[nobody] claim_size NULL status resolved \
    settled_ms $now
  dict with row {
    switch $source {
      session {
        if {[batch_by_key $scope [dict get $origin source_key]] ne ""} {
          dict set origin source_key NULL
        }
        return [lit [new_batch $scope $payload $origin $now]]
      }
      lane {
        if {[job_by_key $scope [dict get $origin source_key]] ne ""} {
          dict set origin source_key NULL
        }
        # A key that an ended job keeps goes over to this one.
        set kept [kept_key $scope [dict get $origin source_key] $now]
        set job [new_job $scope $payload [sorted_caps $origin] $now]
        if {$kept ne ""} {
          dict set ::model::unique $job [dict get $::model::unique $kept]
        }
        return $job
      }
      outbox {
        set queue [dict get $origin queue]
        if {[message_by_key $queue [dict get $origin source_key]] ne ""} {
          dict set origin source_key NULL
        }
        return [new_message $queue [dict get $origin part] \
          [dict get $origin source_key] $payload $payload_type $now]
      }
    }
  }
}

#--------------------------------------------------------------------------
# claimq_restored(): all counters jump.  Open: by how much.  The attempt that a
# job tells of has the job's token.

proc model::restored {now} {
  set jump [expr {4294967296 + 256*min($now, 1<<42)}]
  foreach name {batch job event grant part letter contest} {
    dict incr ::model::last $name $jump
  }
  renumber $jump
  dict for {key row} $::model::part {
    set_row part $key last_seq [add [dict get $row last_seq] $jump] \
      fencing_token [add [dict get $row fencing_token] $jump]
  }
  dict for {id row} $::model::job {
    if {[ended $id]} continue
    set fence [add [dict get $row fencing_token] $jump]
    set_row job $id fencing_token $fence
    set key [list $id [dict get $row attempt_index]]
    if {[dict exists $::model::attempt $key]
        && [dict get [row attempt $key] outcome] in {NULL released}} {
      set_row attempt $key fencing_token $fence
    }
  }
  dict for {id row} $::model::letter {
    if {[dict get $row status] in {pending reprocessing}} {
      set_row letter $id fencing_token [add [dict get $row fencing_token] $jump]
    }
  }
  dict for {seq row} $::model::batch {
    dict with row {
      if {$fencing_token > 0 || $available_at_ms <= $now} {
        set_row batch $seq fencing_token [add $fencing_token $jump]
      }
    }
  }
  return 1
}
