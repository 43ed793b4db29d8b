# oracle_vacuum.tcl: claimq_vacuum(), a second time: a part of oracle_model.tcl.

# Vacuum: first with a limit, then without.  What a limit leaves is open, how
# many it removes is not.  Without an age what goes is said by policies; groups
# are kept for days.

proc model::vacuum {older limit now} {
  set gone [old_messages $older $now]
  dict for {key row} $::model::grant {
    if {[dict get $row expires_at_ms] <= $now} {lappend gone grant $key}
  }
  lappend gone {*}[old_letters $older $now]
  set heads {}
  dict for {id row} $::model::job {
    if {[dict get $row terminal_at_ms] ne "NULL"} continue
    dict with row {
      dict set heads \
        [list $lane $group_key $partition [job_set $row]] 1
    }
  }
  dict for {key one} $::model::head {
    if {![dict exists $heads $key]} {lappend gone head $key}
  }
  if {$older ne "NULL"} {
    lappend gone {*}[old_groups $heads [expr {$now-$older}]]
  }
  lappend gone {*}[old $older $now]
  foreach {table key} $gone {
    drop [expr {$table eq "own" ? "attempt" : $table}] $key
  }
  foreach id [dict keys $::model::unique] {
    if {![dict exists $::model::job $id]} {drop unique $id}
  }
  set n [llength [lsearch -all -inline -not [lmap {table key} $gone {
    expr {$table in {starts head group own} ? "" : 1}
  }] {}]]
  set first [expr {min($n, $limit)}]
  return [list $first [expr {$n-$first}]]
}

# Letters that are settled, and the steps of batches that only they still have.
proc model::old_letters {older now} {
  set gone {}
  dict for {key row} $::model::letter {
    dict with row {
      if {$status ni {resolved discarded}
          || ![is_over $settled_ms [keeps_other $older] $now]} continue
      lappend gone letter $key
      if {$source ne "session"} continue
      foreach step [steps_of batch_step [dict get $origin seq]] {
        lappend gone batch_step $step
      }
    }
  }
  return $gone
}

# Processed messages of a partition go in their order, up to the first that is
# too young.  One from the future goes with one behind it.
proc model::old_messages {older now} {
  set gone {}
  set older [keeps_other $older]
  if {$older < 0} {return {}}
  set stop {}
  set later {}
  dict for {key row} [lsort -stride 2 -index 0 -command model::by_seq \
      $::model::message] {
    lassign $key queue part seq
    set at [dict get $row created_at_ms]
    set of [list $queue $part]
    if {$at > $now-$older && $at <= $now} {dict set stop $of 1}
    if {$seq > [dict get [row part $of] processed_seq]
        || [dict exists $stop $of]} continue
    dict lappend later $of message $key
    if {$at <= $now-$older} {
      lappend gone {*}[dict get $later $of]
      dict unset later $of
    }
  }
  return $gone
}

proc model::by_seq {a b} {
  lassign [list [lindex $a 2] [lindex $b 2]] a b
  return [expr {$a<$b ? -1 : $a>$b}]
}

# A job stays while another waits that named it, while its key is taken, and
# while its letter is open; the newest event always.
proc model::old {older now} {
  set gone {}
  set kept {}
  dict for {id row} $::model::job {
    if {[dict get $row state] eq "blocked"} {lappend kept {*}[waits $id]}
  }
  dict for {id keeps} $::model::unique {
    if {$keeps > $now} {lappend kept $id}
  }
  dict for {id row} $::model::letter {
    if {[dict get $row status] in {pending reprocessing}
        && [dict get $row source] eq "lane"} {
      lappend kept [dict get $row ref]
    }
  }
  dict for {id row} $::model::job {
    set end [dict get $row terminal_at_ms]
    dict with row {
      if {$id in $kept || ![is_over $end \
          [keeps $older $lane [expr {$state eq "failed"}]] $now]} continue
    }
    lappend gone job $id
    foreach key [steps_of step $id] {lappend gone step $key}
    foreach key [dict keys $::model::after "$id *"] {lappend gone after $key}
    # The last attempt of a job that is done stands in its row.
    foreach key [dict keys $::model::attempt "$id *"] {
      lappend gone [expr {[dict get [row attempt $key] outcome] eq "success"
                          ? "own" : "attempt"}] $key
    }
  }
  set newest [tcl::mathfunc::max 0 {*}[dict keys $::model::event]]
  dict for {id row} $::model::event {
    if {$id == $newest} continue
    dict with row {
      if {[is_over $occurred_at_ms \
           [keeps $older $lane [expr {$outcome eq "failed"}]] $now]} {
        lappend gone event $id
      }
    }
  }
  return $gone
}
