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
# "NULL" or look like a number); payload, result, progress and the value of a
# step are SQL literals.
# A result is a list of texts: one for each row, its columns quoted as by
# quote() and joined by "|".  An error is raised with the errorcode {CQ code}.

namespace eval model {
  # The tables: batches, jobs, attempts, events, grants, partitions, messages,
  # holders, fences, letters, who waits for whom, keys that stay taken (of jobs,
  # and of batches: taken), schedules, steps of jobs and of batches; and the
  # last key of each.  Of lanes with limits also when claims began, the groups,
  # which of their jobs stand together (head), and turns.  And what calls with a
  # request have answered.
  variable tables {batch job attempt event grant part message holder fence
                   letter after unique taken schedule step batch_step last limit
                   starts group head turn request}
  variable claimcols {claim_id lease_token fencing_token owner
    incarnation claimed_at_ms expires_at_ms previous_claim_id attempts}
  variable max 9223372036854775807
}

source [file join [file dirname [info script]] oracle_lane.tcl]
source [file join [file dirname [info script]] oracle_limit.tcl]
source [file join [file dirname [info script]] oracle_outbox.tcl]
source [file join [file dirname [info script]] oracle_see.tcl]
source [file join [file dirname [info script]] oracle_step.tcl]
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
    lappend out [expr {
      $c in {payload result progress value} ? $v : [lit $v]}]
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
    headers [headers $opts] \
    enqueued_at_ms $now available_at_ms [due_at $opts $now] \
    fencing_token 0 attempts 0 last_error NULL claim_size NULL {*}[nobody]]
  return $id
}

proc model::enqueue {session payload opts now} {
  due_at $opts $now
  set key [list $session [opt $opts source_key]]
  set id [batch_by_key {*}$key]
  if {$id eq "" && [dict exists $::model::taken $key]} {
    lassign [dict get $::model::taken $key] until kept
    if {$until > $now} {set id $kept}
  }
  if {$id eq ""} {
    set id [new_batch $session $payload $opts $now]
    if {[dict exists $opts source_key] && [dict exists $opts unique_for_ms]} {
      dict set ::model::taken $key [list \
        [add $now [dict get $opts unique_for_ms]] $id]
    }
  }
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
    delivery_policy slot_policy merge_key payload headers enqueued_at_ms
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
      complete {done_batch $seq}
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
          new_letter session $session $batch_id $payload $headers NULL \
            $enqueued_at_ms $now $arg $attempts [list seq $seq \
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
    done_batch $seq
    return 'cancelled'
  }
  return 'missing'
}

#--------------------------------------------------------------------------
# Dead letters

proc model::new_letter {source scope ref payload headers type created now
                        reason attempts origin {class NULL}} {
  set id [next letter]
  dict set ::model::letter $id [list letter_id $id source $source \
    scope $scope ref $ref payload $payload headers $headers \
    payload_type $type \
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
      scope ref payload headers payload_type created_at_ms failed_at_ms
      reason} \
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
        dict set origin headers $headers
        set id [new_batch $scope $payload $origin $now]
        move_steps batch_step [dict get $origin seq] [dict get $::model::last \
          batch]
        return [lit $id]
      }
      lane {
        if {[job_by_key $scope [dict get $origin source_key]] ne ""} {
          dict set origin source_key NULL
        }
        # A key that an ended job keeps goes over to this one.
        set kept [kept_key $scope [dict get $origin source_key] $now]
        dict set origin headers $headers
        set job [put_job $scope $payload $origin $now]
        move_steps step $ref $job
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
          [dict get $origin source_key] $payload $payload_type $headers $now]
      }
    }
  }
}

#--------------------------------------------------------------------------
# claimq_restored(): all counters jump.  Open: by how much.  An event of no job
# says so.  The attempt that a
# job tells of has the job's token.

proc model::restored {now} {
  set jump [expr {4294967296 + 256*min($now, 1<<42)}]
  foreach name {batch job event grant part letter contest} {
    dict incr ::model::last $name $jump
  }
  set event [next event]
  dict set ::model::event $event [list event_id $event job_id 0 lane "" \
    partition 0 flow_id NULL outcome restored error_class NULL \
    namespace NULL instance_tag NULL occurred_at_ms $now]
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
