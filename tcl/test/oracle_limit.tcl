# oracle_limit.tcl: limits, groups and schedules of lanes, a second time: a part
# of oracle_model.tcl.
#
#     model::limit l1 {max_active 3 fair 1} 1000          -> 1
#     model::room {l1 g1} 1000        -> how many claims of a group may begin
#     model::schedule n1 700 l1 'x' {} 1000               -> 1400
#
# Whose a limit is: {LANE}, or {LANE GROUP}.

# What holds for a lane: its own word, that of every lane (NULL), what is built
# in.
proc model::says {lane name} {
  foreach who [list $lane NULL] {
    if {[limit_of $who $name] ne ""} {return [limit_of $who $name]}
  }
  return [dict get {paused 0 max_attempts 20 backoff_ms 1000 backoff_factor 2
    backoff_max_ms 60000 max_reclaims 5 max_runtime_ms 9223372036854775807
    lease_ms 30000 strict 0 reclaim auto admission auto keep_ms 604800000
    keep_failed_ms 2592000000 events 1} $name]
}

# What a job says, or else its lane.
proc model::job_says {row name} {
  set value [dict get $row $name]
  return [expr {$value eq "NULL" ? [says [dict get $row lane] $name] : $value}]
}

# The policy of a lane, or of every lane (NULL).  NULL takes a word away; turns
# are forgotten with fair, when claims began is not.  Both of rate and per_ms
# are given, or none.
proc model::limit {lane opts now} {
  set limit [expr {[dict exists $::model::limit $lane]
    ? [dict get $::model::limit $lane] : {}}]
  dict for {name value} $opts {
    if {$value eq "NULL" || $name eq "fair" && $value == 0} {
      dict unset limit $name
    } else {
      dict set limit $name $value
    }
  }
  dict set ::model::limit $lane $limit
  dict for {key row} $::model::group {
    if {[lindex $key 0] eq $lane && ![dict exists $limit fair]} {
      set_row group $key turn 0
    }
  }
  if {![dict exists $limit fair]} {dict unset ::model::turn [list $lane]}
  dict for {id row} $::model::job {
    if {[dict get $row lane] eq $lane && ![ended $id]} {place_job $id}
  }
  return 1
}

proc model::keeps_groups {lane} {
  foreach name {group_max_active group_rate fair} {
    if {[limit_of $lane $name] ne ""} {return 1}
  }
  return 0
}

# The name of a limit, for WHOSE: {LANE}, or {LANE GROUP}.
proc model::of_group {whose name} {
  return [expr {[llength $whose] > 1 ? "group_$name" : $name}]
}

# One of them; empty if there is none.
proc model::limit_of {lane name} {
  if {![dict exists $::model::limit $lane $name]} {return ""}
  return [dict get $::model::limit $lane $name]
}

# How many more leases may be live, of a lane {LANE} or a group {LANE GROUP}.
proc model::slots {whose now} {
  lassign $whose lane group
  set n [limit_of $lane [of_group $whose max_active]]
  if {$n eq ""} {return $::model::max}
  dict for {id row} $::model::job {
    if {[dict get $row lane] eq $lane && [live $row $now]
        && ([llength $whose] == 1 || [dict get $row group_key] eq $group)} {
      incr n -1
    }
  }
  return [expr {max($n, 0)}]
}

# How many more claims may begin.  A start after now counts as one at now.
proc model::room {whose now} {
  set lane [lindex $whose 0]
  if {[llength $whose] == 1 && [says $lane paused]} {return 0}
  set room [slots $whose $now]
  set n [limit_of $lane [of_group $whose rate]]
  if {$n eq ""} {return $room}
  if {[dict exists $::model::starts $whose]} {
    foreach s [dict get $::model::starts $whose] {
      if {min($s, $now) > $now-[limit_of $lane [of_group $whose per_ms]]} {
        incr n -1
      }
    }
  }
  return [expr {min($room, max($n, 0))}]
}

# Whose limits a job is under.
proc model::limits_of_job {row} {
  dict with row {
    set out [list [list $lane]]
    if {$group_key ne "NULL"} {lappend out [list $lane $group_key]}
  }
  return $out
}

# A claim of a job begins: for the rates, and as a turn of its group.  The turn
# of jobs without a group is kept under {LANE}, the last one under LANE LAST.
proc model::begin {id now} {
  set row [row job $id]
  set lane [dict get $row lane]
  foreach whose [limits_of_job $row] {
    set n [limit_of $lane [of_group $whose rate]]
    if {$n eq "" || $n == 0} continue
    set list {}
    if {[dict exists $::model::starts $whose]} {
      set list [lmap s [dict get $::model::starts $whose] {
        expr {min($s, $now)}
      }]
    }
    dict set ::model::starts $whose \
      [lrange [concat $list $now] end-[expr {$n-1}] end]
  }
  set turn 0
  if {[limit_of $lane fair] ne ""} {
    dict incr ::model::turn [list $lane LAST]
    set turn [dict get $::model::turn [list $lane LAST]]
  }
  if {[llength [limits_of_job $row]] > 1} {
    if {[keeps_groups $lane]} {
      set_row group $whose at_ms $now
      if {$turn} {set_row group $whose turn $turn}
    }
  } elseif {$turn} {
    dict set ::model::turn [list $lane] $turn
  }
}

# When the group of a job was served last.
proc model::last_turn {row} {
  dict with row {
    if {[limit_of $lane fair] eq ""} {return 0}
    if {$group_key ne "NULL"} {
      return [dict get [row group [list $lane $group_key]] turn]
    }
    if {[dict exists $::model::turn [list $lane]]} {
      return [dict get $::model::turn [list $lane]]
    }
  }
  return 0
}

# A claim of the lane, or a reclaim of one of its jobs, finds that the clock has
# gone back: what began later than now began now.
proc model::starts_back {lane now} {
  dict for {key list} $::model::starts {
    if {[lindex $key 0] eq $lane} {
      dict set ::model::starts $key [lmap s $list {expr {min($s, $now)}}]
    }
  }
  if {[limit_of $lane rate] eq "" && [limit_of $lane group_rate] eq ""} return
  dict for {key row} $::model::group {
    if {[lindex $key 0] eq $lane && [dict get $row at_ms] > $now} {
      set_row group $key at_ms $now
    }
  }
}

# Of these jobs, which are in order, at most n, one after the other as they are
# taken: of a fair lane the next of the group that was served least recently.
proc model::choose {rows lane n now} {
  set fair [expr {[limit_of $lane fair] ne ""}]
  set turn $::model::max
  foreach row $rows {
    set g [lindex [limits_of_job $row] end]
    if {![info exists left($g)]} {
      set left($g) [expr {[llength $g] > 1 ? [room $g $now] : $::model::max}]
      set last($g) [last_turn $row]
    }
  }
  set out {}
  while {[llength $out] < $n} {
    set best ""
    foreach row $rows {
      set g [lindex [limits_of_job $row] end]
      if {$left($g) > 0
          && ($best eq "" || $fair && $last($g) < $last($best))} {
        set best $g
        set pick $row
      }
    }
    if {$best eq ""} break
    lappend out [dict get $pick job_id]
    set rows [lsearch -all -inline -exact -not $rows $pick]
    incr left($best) -1
    if {$fair} {set last($best) [incr turn]}
  }
  return $out
}

# Groups without jobs, and when their last claims began.
proc model::old_groups {heads until} {
  set gone {}
  foreach key [dict keys $heads] {dict set needed [lrange $key 0 1] 1}
  dict for {key row} $::model::group {
    set per [limit_of [lindex $key 0] group_per_ms]
    if {$per eq ""} {set per 0}
    if {[info exists needed] && [dict exists $needed $key]
        || [add [dict get $row at_ms] $per] > $until} continue
    lappend gone group $key
    if {[dict exists $::model::starts $key]} {lappend gone starts $key}
  }
  return $gone
}

#--------------------------------------------------------------------------
# Schedules, of periods only.  seq: among those of the same time the one that
# was written first comes first.
proc model::next_time {every time until enabled} {
  set next [expr {($time/$every + 1)*$every}]
  if {!$enabled || $until ne "NULL" && $next > $until} {return NULL}
  return $next
}

proc model::schedule {name every lane payload opts now} {
  set until [opt $opts until_at_ms]
  set enabled [opt $opts enabled 1]
  set created $now
  set last NULL
  set seq 1
  dict for {other row} $::model::schedule {
    set seq [expr {max($seq, [dict get $row seq]+1)}]
  }
  if {[dict exists $::model::schedule $name]} {
    set old [row schedule $name]
    if {[dict get $old enabled]} {set last [dict get $old last_at_ms]}
    if {$enabled && [dict get $old spec] eq "every $every ms"
        && [dict get $old next_at_ms] ne "NULL"} {
      set created [dict get $old created_at_ms]
    }
  }
  set from [expr {$last eq "NULL" ? $created : max($created, $last)}]
  set next [next_time $every $from $until $enabled]
  dict set ::model::schedule $name [list name $name spec "every $every ms" \
    lane $lane next_at_ms $next last_at_ms $last created_at_ms $created \
    catch_up [opt $opts catch_up one] until_at_ms $until enabled $enabled \
    payload $payload seq $seq every $every \
    opts [dict remove $opts until_at_ms enabled catch_up]]
  return $next
}

proc model::unschedule {name now} {
  if {![dict exists $::model::schedule $name]} {return 0}
  drop schedule $name
  return 1
}

# A claim of the lane puts what is due, 1,000 jobs at most.
proc model::fire {lane now} {
  set left 1000
  while {$left > 0} {
    set due {}
    dict for {name row} $::model::schedule {
      if {[dict get $row lane] ne $lane} continue
      dict with row {
        if {$next_at_ms ne "NULL" && $next_at_ms <= $now} {
          lappend due [list $next_at_ms $seq $name]
        }
      }
    }
    if {$due eq ""} return
    set name [lindex [lsort -integer -index 0 [lsort -integer -index 1 $due]] \
      0 2]
    set row [row schedule $name]
    dict with row {
      set to [expr {$until_at_ms eq "NULL" ? $now : min($now, $until_at_ms)}]
      set times {}
      set latest [expr {$to/$every*$every}]
      set n [expr {($latest-$next_at_ms)/$every + 1}]
      switch $catch_up {
        one {set times $latest}
        none {if {$n == 1} {set times $latest}}
        all {
          set latest [expr {$next_at_ms + (min($n, $left)-1)*$every}]
          for {set t $next_at_ms} {$t <= $latest} {incr t $every} {
            lappend times $t
          }
        }
      }
      set_row schedule $name last_at_ms $latest \
        next_at_ms [next_time $every $latest $until_at_ms 1]
      foreach t $times {
        submit $lane $payload \
          [dict merge $opts [list source_key schedule:$name:$t]] $t
      }
      incr left [expr {-max(1, [llength $times])}]
    }
  }
}
