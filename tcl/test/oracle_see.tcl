# oracle_see.tcl: claimq_stats and claimq_why, a second time: a part of
# oracle_model.tcl.
#
#     model::stats NULL NULL 1000                 -> rows, as text
#     model::stats lane l1 1000                   -> a row for each partition
#     model::why lane l1 {partition 0} 1000       -> 'claimable'|2|7|NULL|NULL
#                                                    'held'|1|8|4000|NULL
#                                                    1
#
# Each row of a discipline has one state and one reason; all of them are looked
# at, and counted.

namespace eval model {
  variable statscols {discipline scope partition ready delayed held expired
    blocked limited dead oldest_ready_at_ms next_at_ms}
  variable whycols {reason n example until_at_ms detail}
}

#--------------------------------------------------------------------------
# claimq_stats

# One more row of a scope and a partition.  since: from when on it could be had;
# at: when it can be.  The state "over" is not counted, but its scope has a row.
proc model::count {discipline scope part state {since NULL} {at NULL}} {
  upvar 1 stats stats
  set key [list $discipline $scope $part]
  if {![dict exists $stats $key]} {
    dict set stats $key [list discipline $discipline scope $scope \
      partition $part ready 0 delayed 0 held 0 expired 0 blocked 0 limited 0 \
      dead 0 oldest_ready_at_ms NULL next_at_ms NULL]
  }
  if {$state eq "over"} return
  if {$state ne "coming"} {
    dict set stats $key $state [expr {[dict get $stats $key $state]+1}]
  }
  if {$state eq "ready"} {
    dict set stats $key oldest_ready_at_ms \
      [earlier [dict get $stats $key oldest_ready_at_ms] $since]
  }
  if {$state in {delayed held coming}} {
    dict set stats $key next_at_ms \
      [earlier [dict get $stats $key next_at_ms] $at]
  }
}

proc model::earlier {a b} {
  return [expr {$a eq "NULL" ? $b : $b eq "NULL" ? $a : min($a, $b)}]
}

# {STATE AT} of a row that is available since a time, and may be claimed.  Open:
# a row that is held while it is not available yet comes when both are over.
proc model::state_of {row claimed since now} {
  set end [dict get $row expires_at_ms]
  if {!$claimed || $end eq "NULL"} {set end 0}
  set at [expr {max($since, $end)}]
  if {$end > $now} {return [list held $at]}
  if {$since > $now} {return [list delayed $at]}
  return [list [expr {$claimed ? "expired" : "ready"}] $at]
}

proc model::job_state {row now} {
  if {[dict get $row terminal_at_ms] ne "NULL"} {return over}
  if {[dict get $row state] eq "blocked" || [unadmitted $row]} {
    return blocked
  }
  lassign [state_of $row [expr {[dict get $row state] eq "active"}] \
    [dict get $row available_at_ms] $now] what at
  if {$what eq "ready"} {
    foreach whose [limits_of_job $row] {
      if {[closed $whose $now] ne ""} {set what limited}
    }
  }
  return [list $what $at]
}

# Of all scopes, or of one.
proc model::stats {only_discipline only_scope now} {
  set ::model::known {}
  set stats {}
  dict for {seq row} $::model::batch {
    set since [dict get $row available_at_ms]
    lassign [state_of $row [expr {[dict get $row claim_id] ne "NULL"}] $since \
      $now] what at
    count session [dict get $row session] NULL $what $since $at
  }
  dict for {id row} $::model::job {
    lassign [job_state $row $now] what at
    count lane [dict get $row lane] [dict get $row partition] $what \
      [dict get $row available_at_ms] $at
  }
  dict for {name row} $::model::schedule {
    set at [dict get $row next_at_ms]
    if {$at ne "NULL"} {
      count lane [dict get $row lane] \
        [opt [dict get $row opts] partition 0] coming NULL $at
    }
  }
  foreach key [dict keys $::model::message] {
    set part [lrange $key 0 1]
    if {[lindex $key 2] > [dict get [row part $part] processed_seq]} {
      lappend open($part) $key
    }
  }
  dict for {key row} $::model::part {
    count outbox {*}$key over
    if {![info exists open($key)]} continue
    set since [dict get $row available_at_ms]
    lassign [state_of $row [expr {[dict get $row claim_id] ne "NULL"}] $since \
      $now] what at
    set since [expr {max($since, [waiting $key])}]
    foreach one $open($key) {count outbox {*}$key $what $since $at}
  }
  dict for {key row} $::model::holder {
    set claimed [expr {[dict get $row claim_id] ne "NULL"}]
    set since [expr {$claimed ? 0 : [dict get $row expires_at_ms]}]
    lassign [state_of $row $claimed $since $now] what at
    count contest [join $key /] NULL $what $since $at
  }
  dict for {id row} $::model::letter {
    dict with row {
      if {$status ni {pending reprocessing}} continue
      set since [expr {max($available_at_ms, $failed_at_ms)}]
      lassign [state_of $row [expr {$claim_id ne "NULL"}] $available_at_ms \
        $now] what at
      count dead_letter $scope NULL $what $since $at
      if {$status ne "pending"} continue
      count dead_letter $scope NULL dead
      switch $source {
        session {count session $scope NULL dead}
        lane {count lane $scope [dict get $origin partition] dead}
        outbox {count outbox {*}[split $scope /] dead}
      }
    }
  }
  set out {}
  dict for {key row} $stats {
    if {$only_discipline in [list NULL [lindex $key 0]]
        && $only_scope in [list NULL [lindex $key 1]]} {
      lappend out [show $row $::model::statscols]
    }
  }
  return [lsort $out]
}

#--------------------------------------------------------------------------
# claimq_why

# One more row with a reason, that ends at a time.  detail: of the first one.
proc model::because {reason key {until NULL} {detail NULL}} {
  upvar 1 why why
  if {![dict exists $why $reason]} {
    dict set why $reason [list reason $reason n 0 example $key \
      until_at_ms NULL detail $detail]
  }
  set row [dict get $why $reason]
  dict incr row n
  if {$until ne "NULL" && $reason ne "paused"} {
    dict set row until_at_ms [earlier [dict get $row until_at_ms] $until]
  }
  dict set why $reason $row
}

# {REASON UNTIL} of a row by itself.
proc model::row_why {row claimed now} {
  lassign [state_of $row $claimed [dict get $row available_at_ms] $now] what at
  if {$what in {ready expired}} {return {claimable NULL}}
  return [list $what $at]
}

# {REASON UNTIL LIMIT} of what keeps a claim from beginning; empty if nothing
# does.  Open: of several the one that lasts longest is named; of equal ones the
# lane's before the group's, and max_active before rate.  Found once for each
# look, which empties ::model::known.
proc model::closed {whose now} {
  if {![dict exists $::model::known $whose]} {
    dict set ::model::known $whose [find_closed $whose $now]
  }
  return [dict get $::model::known $whose]
}

proc model::find_closed {whose now} {
  set lane [lindex $whose 0]
  set most [of_group $whose max_active]
  set rate [of_group $whose rate]
  if {[llength $whose] == 1 && [says $lane paused]} {
    return [list paused $::model::max paused]
  }
  if {[limit_of $lane $most] eq "0"} {return [list paused $::model::max $most]}
  if {[limit_of $lane $rate] eq "0"} {return [list paused $::model::max $rate]}
  set out {}
  if {[slots $whose $now] == 0} {
    set ends {}
    dict for {id row} $::model::job {
      if {[live $row $now] && $whose in [limits_of_job $row]} {
        lappend ends [dict get $row expires_at_ms]
      }
    }
    set ends [lsort -integer $ends]
    set out [list limit [lindex $ends end-[expr {[limit_of $lane $most]-1}]] \
      $most]
  }
  if {[dict exists $::model::starts $whose] && [limit_of $lane $rate] ne ""} {
    set start [lindex [dict get $::model::starts $whose] \
      end-[expr {[limit_of $lane $rate]-1}]]
    set per [limit_of $lane [of_group $whose per_ms]]
    if {$start ne "" && min($start, $now) > $now-$per} {
      set end [add [expr {min($start, $now)}] $per]
      if {$out eq "" || $end > [lindex $out 1]} {set out [list rate $end $rate]}
    }
  }
  return $out
}

# {REASON UNTIL DETAIL} of a job, for a worker.  Open: what it lacks is named as
# it stands in the row.
proc model::job_why {row offered part now} {
  dict with row {
    if {![in_part $partition $part]} {return {partition NULL NULL}}
    if {![can_run $row $offered]} {
      regsub -all {[]["]} $capabilities {} list
      set missing [lmap c [split $list ,] {
        if {$c in $offered} continue
        set c
      }]
      return [list capability NULL [json_set $missing]]
    }
    if {$state eq "blocked"} {
      set open [lmap p [lsort -integer [waits $job_id]] {
        if {[ended $p]} continue
        set p
      }]
      return [list blocked NULL "\[[join $open ,]\]"]
    }
    lassign [row_why $row [expr {$state eq "active"}] $now] reason until
    if {$reason ne "claimable"} {return [list $reason $until NULL]}
    if {$state eq "active" && $reclaim eq "grant" || [unadmitted $row]} {
      return {grant_needed NULL NULL}
    }
    if {$state eq "active"
        && $reclaim_count >= [job_says $row max_reclaims]} {
      return {reclaims_used_up NULL NULL}
    }
  }
  set out {claimable NULL NULL}
  foreach whose [limits_of_job $row] {
    set closed [closed $whose $now]
    if {$closed ne "" && ([lindex $out 0] eq "claimable"
                          || [lindex $closed 1] > [lindex $out 1])} {
      set out $closed
    }
  }
  return $out
}

proc model::why_lane {lane opts now} {
  set offered [caps_list [opt $opts capabilities {[]}]]
  set part [opt $opts partition]
  set why {}
  foreach id [lsort -integer [dict keys $::model::job]] {
    set row [row job $id]
    if {[dict get $row lane] ne $lane || [ended $id]} continue
    lassign [job_why $row $offered $part $now] reason until detail
    because $reason $id $until $detail
  }
  set times [lmap row [dict values $::model::schedule] {
    if {[dict get $row lane] ne $lane} continue
    dict with row {
      if {$next_at_ms eq "NULL"} continue
      list $next_at_ms $seq $name
    }
  }]
  foreach time [lsort -integer -index 0 [lsort -integer -index 1 $times]] {
    lassign $time at - name
    if {$at <= $now} {
      because claimable schedule:$name:$at
    } else {
      because delayed schedule:$name:$at $at
    }
  }
  return $why
}

# The reasons of the batches of a session, in their order: what keeps the first
# of those that are available keeps all behind it.
proc model::why_session {session opts now} {
  set boundary [opt $opts boundary idle]
  set take [opt $opts take turn_work]
  set serial [opt $opts serial 0]
  if {$session eq "NULL"} {
    set first [lindex [select NULL 1 $boundary $take $now $serial] 0]
    if {$first ne ""} {set session [dict get [row batch $first] session]}
  }
  set ids [lsort -unique [lmap row [dict values $::model::batch] {
    dict get $row session
  }]]
  if {$session ne "NULL"} {set ids [lsearch -all -inline -exact $ids $session]}
  set why {}
  foreach id $ids {
    set front claimable
    set kept 0
    dict for {seq row} $::model::batch {
      if {[dict get $row session] ne $id} continue
      dict with row {
        lassign [row_why $row [expr {$claim_id ne "NULL"}] $now] reason until
        if {$serial && !$kept && $fencing_token > 0
            && $available_at_ms > $now} {
          set kept $available_at_ms
        }
        if {$reason eq "claimable"} {
          if {$front eq "claimable"} {
            set command [expr {$work_class eq "session_command"}]
            set front [expr {
                $serial && [busy $id $now] ? "busy"
              : $kept ? "kept_back"
              : $command && $take eq "turn_work" ? "command_in_front"
              : !$command && ($take eq "session_command"
                  || $boundary eq "active_turn_checkpoint"
                  && $delivery_policy ne "earliest_safe_boundary") ? "boundary"
              : "claimable"}]
          }
          set reason $front
          if {$front eq "busy"} {set until [busy $id $now]}
          if {$front eq "kept_back"} {set until $kept}
        }
        because $reason $batch_id $until
      }
    }
  }
  return $why
}

proc model::why_outbox {queue opts now} {
  set n [queue_size $queue]
  set part [opt $opts partition]
  if {$n == 0} {fail not_found}
  if {$part ne "NULL" && $part >= $n} {fail bad_argument}
  set why {}
  for {set i 0} {$i < $n} {incr i} {
    set row [row part [list $queue $i]]
    if {[to_do [list $queue $i]] eq ""} continue
    lassign [row_why $row [expr {[dict get $row claim_id] ne "NULL"}] $now] \
      reason until
    if {$part ni [list NULL $i]} {lassign {partition NULL} reason until}
    because $reason $i $until
  }
  return $why
}

proc model::why_contest {label opts now} {
  set key [list [opt $opts kind 0] $label]
  set reason claimable
  set until NULL
  if {[dict exists $::model::holder $key]} {
    set row [row holder $key]
    if {[dict get $row expires_at_ms] > $now} {
      set until [dict get $row expires_at_ms]
      set reason [expr {
        [dict get $row claim_id] eq "NULL" ? "kept_back" : "held"}]
    }
  }
  set why {}
  because $reason $label $until
  return $why
}

proc model::why_dead_letter {only_scope opts now} {
  set only_source [opt $opts source]
  set why {}
  dict for {id row} $::model::letter {
    dict with row {
      if {$status ni {pending reprocessing}
          || $only_source ni [list NULL $source]
          || $only_scope ni [list NULL $scope]} continue
      lassign [row_why $row [expr {$claim_id ne "NULL"}] $now] reason until
      because $reason $id $until
    }
  }
  return $why
}

# The rows; and whether a claim would take something.
proc model::why {discipline scope opts now} {
  set ::model::known {}
  set why [why_$discipline $scope $opts $now]
  return [concat [lsort [lmap row [dict values $why] {
    show $row $::model::whycols
  }]] [dict exists $why claimable]]
}
