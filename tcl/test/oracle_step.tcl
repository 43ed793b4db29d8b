# oracle_step.tcl: durable steps, work that waits for other work or is done from
# outside, and how long it is kept, a second time: a part of oracle_model.tcl.
#
#     model::step qjc:1:1 $token charge 'receipt' {} 1000   -> 'receipt'
#     model::resolve 7 'yes' 1000                           -> 1
#     model::revoke_owner w1 {except i2} 1000               -> 3
#     model::forget 1000 gone                ;# what claimq has removed by now

# Headers are stored without white space around them.
proc model::headers {opts} {
  return [string trim [opt $opts headers]]
}

#--------------------------------------------------------------------------
# Steps: {JOB NAME} or {SEQ NAME} of the first batch of a claim.

proc model::step {claim token name value opts now} {
  switch [string range $claim 0 3] {
    qwc: {lassign {batch_step enqueue_seq} table col}
    qjc: {lassign {step job_id} table col}
    default {fail bad_argument}
  }
  if {[dict exists $opts lease_ms]} {
    verb renew $claim $token [dict get $opts lease_ms] {} $now
  } else {
    verb guard $claim $token {} {} $now
  }
  set head [lindex [split $claim :] 1]
  set key [list $head $name]
  if {![dict exists [set ::model::$table] $key]} {
    dict set ::model::$table $key [list $col $head name $name value $value \
      at_ms $now]
  }
  return [list [dict get [row $table $key] value]]
}

proc model::steps_of {table head} {
  return [dict keys [set ::model::$table] "$head *"]
}

proc model::move_steps {table from to} {
  foreach key [steps_of $table $from] {
    set row [row $table $key]
    drop $table $key
    dict set row [lindex $row 0] $to
    dict set ::model::$table [lreplace $key 0 0 $to] $row
  }
}

# A batch is done, or cancelled.
proc model::done_batch {seq} {
  drop batch $seq
  foreach key [steps_of batch_step $seq] {drop batch_step $key}
}

#--------------------------------------------------------------------------
# Waiting for jobs that may be younger, and being done from outside

# Whom a job that is given back is to wait for.
proc model::park_for {id opts} {
  set preds [lsort -unique -integer [regexp -all -inline {\d+} \
    [opt $opts after {}]]]
  foreach p $preds {
    if {$p == 0 || $p > [dict get $::model::last job]} {fail not_found}
  }
  set before $preds
  for {set i 0} {$i < [llength $before]} {incr i} {
    set p [lindex $before $i]
    if {$p == $id} {fail bad_argument}
    if {[ended $p] || [dict get [row job $p] state] ne "blocked"} continue
    foreach more [waits $p] {if {$more ni $before} {lappend before $more}}
  }
  return $preds
}

# Open: if all of them have ended, nothing is written down.
proc model::park {id preds} {
  set open [lmap p $preds {
    if {[ended $p]} continue
    set p
  }]
  if {$open eq ""} return
  foreach key [dict keys $::model::after "$id *"] {drop after $key}
  foreach p $preds {
    dict set ::model::after [list $id $p] [list job_id $id after_id $p]
  }
  set_row job $id state blocked on_failure run waits_for [lindex $open end]
}

proc model::resolve {id result now} {
  if {![dict exists $::model::job $id]} {fail not_found}
  set row [row job $id]
  if {[ended $id]} {return 0}
  if {[live $row $now]} {fail conflict}
  end_attempt $id $now interrupted_reclaimed NULL
  if {[dict get $row claim_id] ne "NULL"} {set_row job $id settled {}}
  set_row job $id result $result
  end_job $id completed $now NULL
  return 1
}

#--------------------------------------------------------------------------
# What a holder and an operator may ask

proc model::remaining {claim token headroom now} {
  verb guard $claim $token {} {} $now
  foreach table {batch job part holder letter} {
    dict for {key row} [set ::model::$table] {
      if {[dict get $row claim_id] eq $claim} {
        return [expr {max(0, [dict get $row expires_at_ms]-$now-$headroom)}]
      }
    }
  }
}

# The rows of a claim become claimable, as if it had expired; one that has lost
# some of its rows holds nothing.  In an outbox it does not count as an attempt.
# Open: partitions and letters forget that they were delayed.
proc model::revoke_claim {claim now} {
  foreach table {batch job part holder letter} {
    set keys [lmap {key row} [set ::model::$table] {
      if {[dict get $row claim_id] ne $claim} continue
      set key
    }]
    if {$keys ne ""} break
  }
  if {$keys eq "" || $table in {batch letter}
      && [llength $keys] != [dict get [row $table [lindex $keys 0]] claim_size]
  } {return 'no_active_lease'}
  foreach key $keys {
    switch $table {
      job {revoke $key $now}
      holder {drop holder $key}
      batch {set_row batch $key {*}[nobody] claim_size NULL}
      letter {
        set_row letter $key {*}[nobody] claim_size NULL status pending \
          available_at_ms 0
      }
      part {
        set_row part $key {*}[nobody] claim_size NULL available_at_ms 0 \
          attempts [expr {[dict get [row part $key] attempts]-1}]
      }
    }
  }
  return 'revoked'
}

proc model::revoke_owner {who opts now} {
  set claims {}
  foreach table {batch job part holder letter} {
    dict for {key row} [set ::model::$table] {
      dict with row {
        if {$claim_id ne "NULL" && $claim_id ni $claims && $owner eq $who
            && !([dict exists $opts except]
                 && [dict get $opts except] eq $incarnation)} {
          lappend claims $claim_id
        }
      }
    }
  }
  set n 0
  foreach claim $claims {
    incr n [expr {[revoke_claim $claim $now] eq "'revoked'"}]
  }
  return $n
}

namespace eval model {
  variable leasecols {discipline scope key claim_id owner incarnation
    claimed_at_ms expires_at_ms}
}

# claimq_leases
proc model::leases {} {
  set out {}
  foreach {table discipline scope name} {
    batch session session batch_id job lane lane job_id
    part outbox queue partition holder contest "" label
    letter dead_letter scope letter_id
  } {
    dict for {key row} [set ::model::$table] {
      if {[dict get $row claim_id] eq "NULL"} continue
      set where [expr {$scope eq "" ? [join $key /] : [dict get $row $scope]}]
      lappend out [show [dict merge $row [list discipline $discipline \
        scope $where key [dict get $row $name]]] $::model::leasecols]
    }
  }
  return [lsort $out]
}

#--------------------------------------------------------------------------
# How long things are kept

proc model::wants_event {row} {
  dict with row {
    return [expr {[says $lane events]
      && !($state eq "completed" && [says $lane keep_ms] == 0)}]
  }
}

# Until when a job keeps its source key beyond its end.
proc model::key_until {id} {
  return [expr {[dict exists $::model::unique $id]
    ? [dict get $::model::unique $id] : 0}]
}

# The job, and what belongs to it.
proc model::drop_job {id} {
  drop job $id
  foreach table {attempt after step} {
    foreach key [dict keys [set ::model::$table] "$id *"] {drop $table $key}
  }
  dict unset ::model::unique $id
}

# How long after its end a job or an event of the lane is kept, if there is no
# other age.
proc model::keeps {older lane failed} {
  if {$older ne "NULL"} {return $older}
  return [says $lane [expr {$failed ? "keep_failed_ms" : "keep_ms"}]]
}

# ... and messages and letters.
proc model::keeps_other {older} {
  if {$older ne "NULL"} {return $older}
  set keep [limit_of NULL keep_ms]
  return [expr {$keep eq "" ? 604800000 : $keep}]
}

proc model::is_over {end keep now} {
  return [expr {$end ne "NULL" && $keep >= 0 && [add $end $keep] <= $now}]
}

# Ordinary calls remove what may go.  Open: which of it, and when.  gone, a
# command, is asked whether a row of a table is not there any more.
proc model::forget {now gone} {
  if {[string first keep_ $::model::limit] < 0} return
  foreach {table key} [concat [old NULL $now] [old_letters NULL $now] \
      [old_messages NULL $now]] {
    if {[{*}$gone $table $key]} {
      switch $table {
        job {drop_job $key}
        letter - message - event {drop_kept $table $key}
      }
    }
  }
}

# A batch's letter takes the steps of its work along.
proc model::drop_kept {table key} {
  set row [row $table $key]
  drop $table $key
  if {$table eq "letter" && [dict get $row source] eq "session"} {
    foreach step [steps_of batch_step [dict get $row origin seq]] {
      drop batch_step $step
    }
  }
}
