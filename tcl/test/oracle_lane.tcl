# oracle_lane.tcl: lanes, a second time: a part of oracle_model.tcl.
#
#     model::submit l1 'hello' {} 1000                    -> 1
#     model::lane l1 w1 500 1 {} {[]} NULL 1000 asked     -> rows, as text
#
# Limits and schedules are in oracle_limit.tcl, durable steps and how long jobs
# are kept in oracle_step.tcl.

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
    headers [headers $opts] admission [opt $opts admission] admitted 0 \
    capabilities [opt $opts capabilities {[]}] \
    attempt_index 0 reclaim_count 0 created_at_ms $now \
    available_at_ms $due source_key [opt $opts source_key] \
    max_attempts [opt $opts max_attempts] \
    backoff_ms [opt $opts backoff_ms] \
    backoff_factor [opt $opts backoff_factor] \
    backoff_max_ms [opt $opts backoff_max_ms] \
    max_reclaims [opt $opts max_reclaims] \
    max_runtime_ms [opt $opts max_runtime_ms] \
    reclaim [opt $opts reclaim] group_key [opt $opts group_key] \
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
    if {$id ne ""} {return [submit_again $id $payload $opts $now]}
  }
  set preds [lsort -unique -integer [regexp -all -inline {\d+} \
    [opt $opts after {}]]]
  foreach p $preds {if {![dict exists $::model::job $p]} {fail not_found}}
  if {[llength $preds] && ![dict exists $opts on_failure]} {
    dict set opts on_failure cancel
  }
  set id [put_job $lane $payload $opts $now]
  if {$key ne "NULL" && [dict exists $opts unique_for_ms]} {
    dict set ::model::unique $id [add $now [dict get $opts unique_for_ms]]
  }
  wait_for $id $preds
  return $id
}

# What a job does not say itself, its lane says now.
proc model::put_job {lane payload opts now} {
  set all $opts
  foreach name {reclaim admission} {
    if {![dict exists $opts $name]} {dict set all $name [says $lane $name]}
  }
  set id [new_job $lane $payload [sorted_caps $all] $now]
  set_row job $id said [dict keys $opts]
  return $id
}

# The key is taken, by this job.
proc model::submit_again {id payload opts now} {
  set row [row job $id]
  switch [opt $opts on_duplicate keep] {
    refuse {fail conflict}
    replace {
      if {[ended $id] || [live $row $now]} {return $id}
      set_row job $id payload $payload headers [headers $opts]
      put_off $id [due_at $opts $now] $now
    }
  }
  return $id
}

# A job that waits is available at another time.
proc model::put_off {id due now} {
  set_row job $id available_at_ms $due
  if {[dict get [row job $id] state] ni {active blocked}} {
    set_row job $id state [expr {$due > $now ? "delayed" : "ready"}]
  }
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
# of what they wait for, or may run.  The ids of those that are cancelled are
# greater than those they wait for (one that was given back until others have
# ended is not cancelled), so one look at the jobs in their order is enough.
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
  set_row job [new_job $lane $payload $opts $now] state ready \
    said [dict keys $opts]
  return {}
}

# The claim of a job ends: so does its attempt.
proc model::end_attempt {id now outcome error {class NULL}} {
  set row [row job $id]
  if {[dict get $row claim_id] eq "NULL"} return
  set_row attempt [list $id [dict get $row attempt_index]] \
    ended_at_ms $now outcome $outcome error $error error_class $class
}

# Ids that end with those of events nobody wants are given again: see
# newest_event.
proc model::new_event {id now} {
  set event [next event]
  set row [row job $id]
  if {![wants_event $row]} return
  dict with row {
    dict set ::model::event $event [list event_id $event job_id $id \
      lane $lane partition $partition flow_id $flow_id \
      outcome [expr {$state eq "completed" ? "success" : $state}] \
      error_class [expr {$state eq "failed" ? $error_class : "NULL"}] \
      namespace $namespace instance_tag $instance_tag occurred_at_ms $now]
  }
}

# A call is over: the next event follows the newest that is there.
proc model::newest_event {} {
  dict set ::model::last event \
    [tcl::mathfunc::max 0 {*}[dict keys $::model::event]]
}

# The job ends: one event, and a dead letter if it failed; and those that wait
# for it.
proc model::end_job {id state now error {class NULL} {gone 0}} {
  set_row job $id state $state terminal_at_ms $now waits_for NULL {*}[nobody]
  if {$error ne "NULL"} {set_row job $id last_error $error error_class $class}
  if {!$gone} {new_event $id $now}
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
                  backoff_max_ms max_reclaims max_runtime_ms
                  partition group_key flow_id namespace instance_tag} {
      dict set origin $name [set $name]
    }
    foreach name {reclaim admission} {
      if {$name in $said} {dict set origin $name [set $name]}
    }
    new_letter lane $lane $id $payload $headers NULL $created_at_ms $now \
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
  if {[dict get $row reclaim] eq "NULL"
      && [says [dict get $row lane] reclaim] eq "grant"} {
    set_row job $id reclaim grant
  }
  set ttl [expr {min($ttl, [job_says $row max_runtime_ms])}]
  dict with row {
    set lease [lease qjc $id $fencing_token $lane $who $inc $now $ttl]
    set_row job $id {*}$lease state active settled {} admitted 1 \
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
  variable jobcols {job_id lane partition priority payload headers
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
          && ($state in {ready delayed} && ![unadmitted $row]
              || $state eq "active"
              && $reclaim ne "grant")
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
# hands out, or in a lane that keeps groups; and of which jobs that do not say
# how they are admitted it writes down that their lane asks for a grant.  For
# those `asked`, a command, is asked about a job.
proc model::lane {lane owner ttl max inc caps part now asked} {
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
                     || [{*}$asked failed [dict get $row job_id]])} {
      lappend spent [dict get $row job_id]
    }
  }
  if {$max > 0} {admit $lane $asked}
  starts_back $lane $now
  together {foreach id [lsort -integer $spent] {spend_job $id $now}}
  foreach id $pick {begin $id $now}
  return [lmap row [lsort -command model::job_order \
                      [lmap id $pick {row job $id}]] {
    take_job [dict get $row job_id] $owner $inc $ttl $now
  }]
}

proc model::admit {lane asked} {
  dict for {id row} $::model::job {
    if {[dict get $row lane] eq $lane && [dict get $row admission] eq "NULL"
        && [unadmitted $row] && [{*}$asked grant $id]} {
      set_row job $id admission grant
    }
  }
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
      set brief [expr {[says [dict get $row lane] keep_ms] == 0}]
      if {$brief && [dict exists $opts result]} {fail bad_argument}
      set gone [expr {$brief && [key_until $id] <= $now}]
      end_attempt $id $now success NULL
      set_row job $id result [lit [opt $opts result]]
      end_job $id completed $now NULL NULL $gone
      if {$gone} {
        drop_job $id
        return 1
      }
    }
    reject {
      end_attempt $id $now failed $arg $class
      end_job $id failed $now $arg $class
    }
    release {
      set preds [park_for $id $opts]
      end_attempt $id $now released NULL
      set due [back $row $opts $now]
      set late [expr {[opt $opts delay_ms 0] > 0}]
      set_row job $id {*}[nobody] available_at_ms $due \
        state [expr {$late ? "delayed" : "ready"}] \
        attempts [expr {[dict get $row attempts]-1}]
      park $id $preds
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
  foreach name {lane priority payload headers capabilities max_attempts
      max_reclaims max_runtime_ms partition group_key} {
    if {![dict exists $opts $name]} continue
    set value [dict get $opts $name]
    if {$name eq "payload"} {set value [lit $value]}
    if {$name eq "headers"} {set value [headers $opts]}
    set_row job $id $name $value
  }
  if {[dict exists $opts delay_ms] || [dict exists $opts available_at_ms]} {
    put_off $id [due_at $opts $now] $now
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
    set auto [expr {$reclaim ne "grant"}]
    set_row job $id {*}[nobody] settled {} \
      state [expr {$auto ? "ready" : "active"}] \
      attempt_index [expr {$attempt_index+$auto}] \
      fencing_token [add $fencing_token 1]
  }
  return 'revoked'
}

# A job that nobody gets for the first time without a grant: one that does not
# say it goes by what the policy says now.
proc model::unadmitted {row} {
  set how [dict get $row admission]
  if {$how eq "NULL"} {set how [says [dict get $row lane] admission]}
  return [expr {$how eq "grant" && ![dict get $row admitted]
    && [dict get $row state] in {ready delayed}}]
}

proc model::ungrant {grant now} {
  if {![dict exists $::model::grant $grant]} {return 0}
  drop grant $grant
  return 1
}

proc model::reclaimable {id now} {
  if {![dict exists $::model::job $id]} {return 0}
  set row [row job $id]
  return [expr {[dict get $row state] eq "active" && ![live $row $now]}]
}

proc model::grant {id owner ttl opts now} {
  if {![dict exists $::model::job $id]} {fail not_found}
  if {![unadmitted [row job $id]] && (![reclaimable $id $now]
      || [dict get [row job $id] reclaim] ne "grant")} {fail not_reclaimable}
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
  if {[unadmitted [row job $id]]} {set_row job $id admission grant}
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
  return [list '$outcome'[string repeat |NULL 22]]
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
    set ::model::dropped 1
    return grant_not_found
  }
  if {[dict get $newest owner] ne $owner} {return wrong_owner}
  if {![dict exists $::model::job $id]
      || [dict get [row job $id] lane] ne [dict get $newest lane]} {
    return grant_not_found
  }
  set row [row job $id]
  set first [unadmitted $row]
  if {!($first && [dict get $row available_at_ms] <= $now)
      && ![reclaimable $id $now]} {return not_reclaimable}
  if {$max eq "NULL"} {set max [job_says $row max_reclaims]}
  set spent [expr {!$first && [dict get $row reclaim_count] >= $max}]
  foreach whose [limits_of_job $row] {
    if {!$spent && [room $whose $now] == 0} {return limited}
  }
  drop grant [dict get $newest grant_id]
  return [expr {$spent ? "reclaim_cap_exceeded" : "claimed"}]
}

