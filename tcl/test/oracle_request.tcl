# oracle_request.tcl: calls that can be repeated, a second time: a part of
# oracle.tcl, from the manual ("Repeating a call").
#
#     oracle_ask {lane {l1 w1 50 1 {} {[]} NULL 1000} plain}
#                            ;# the same step, perhaps with a request behind it
#     model::asked r1 {submit l1}         ;# {} or {FUNCTION-SCOPE-OWNER ANSWER}
#
# What a function has answered is its answer for ever.  Of a claim the rows are
# remembered, and a repeat gives those that it still holds, with the present
# time of their end: oracle_again.

# Arguments are judged first: a verb that the discipline does not have, fewer
# messages than none, and what is no claim of a letter.
proc oracle_refused {op arglist} {
  return [expr {$op eq "verb" && ([string match {reject qsc:*} $arglist]
      || [string match {* qpc:*processed -1*} $arglist])
    || $op eq "requeue" && ![string match {* qdc:* *} $arglist]
       && [lindex $arglist 1] ne "NULL"}]
}

# Calls that may have a request.  (Without LIMIT: it is the claim's maximum, and
# no part of a repeat.)
set oracle_requests {enqueue submit publish verb cancel_batch cancel_job
  cancel_flow revoke revoke_claim revoke_owner resolve ungrant change grant
  queue limit schedule unschedule requeue claim lane outbox contest reclaim
  dead_letter}

# What a request belongs to: the function, its scope, the owner.
proc oracle_whose {op arglist} {
  lassign $arglist a b c d e f
  switch $op {
    cancel_batch - cancel_job {return [list cancel $a]}
    revoke - revoke_claim {return [list revoke $a]}
    grant - claim - lane - outbox - reclaim {return [list $op $a $b]}
    verb {return [list $a $b]}
    contest {return [list contest [expr {$e eq "NULL" ? 0 : $e}] $a $b]}
    dead_letter {return [list dead_letter $f $a $b]}
  }
  return [list $op $a]
}

proc oracle_may_ask {step} {
  lassign $step op arglist form
  return [expr {$op in $::oracle_requests && [lindex $form 0] ne "limit"
    && !($op eq "verb" && [lindex $arglist 0] eq "guard")}]
}

# A step {OP ARGS FORM} with a request, perhaps; or an earlier one again.  Two
# calls for the same at about the same time often have the same request: O(me)
# is different for each process, because a reference means something else there.
proc oracle_ask {step} {
  if {$::O(asked) ne "" && [oracle_chance 8]} {
    lassign [oracle_recent $::O(asked)] op arglist form request
    if {$op ne "queue"} {lset arglist end $::O(now)}
    return [list $op $arglist $form $request]
  }
  if {![oracle_may_ask $step] || ![oracle_chance 20]} {return $step}
  lassign $step op arglist form
  set whose [oracle_whose $op $arglist]
  set request "$whose [expr {$::O(now)/1000}] [oracle_random 2]"
  if {[string first @ $whose] >= 0} {append request " $::O(me)"}
  if {$::O(asked) ne "" && [oracle_chance 4]} {
    set request [lindex $::O(asked) end 3]
  }
  lappend ::O(asked) [list $op $arglist $form $request]
  return [lindex $::O(asked) end]
}

# The statement of a call with its request.  (By the real clock all of them are
# old enough to be forgotten.)
proc oracle_sql_request {sql request} {
  if {[string match *now_ms* $sql] == 0} {
    set sql "[string range $sql 0 end-2], 'now_ms', 1))"
  }
  return "[string range $sql 0 end-2], 'request', [model::lit $request]))"
}

#--------------------------------------------------------------------------
# The model

proc model::asked {request whose} {
  if {![dict exists $::model::request $request]} return
  set known [dict get $::model::request $request]
  if {[lindex $known 0] ne $whose} {fail request_reused}
  return $known
}

# A claim that took nothing is not remembered, unless it has completed others. A
# reclaim that ended the job, or deleted a grant, did something.
proc model::answered {request op whose form rows} {
  if {[info exists ::oracle_table($op)] && [lindex $form 0] ne "done"} {
    set outcome [lindex [split [lindex $rows 0] |] 0]
    if {$rows eq "" || $op eq "contest" && $outcome ne "'claimed'"
        || $op eq "reclaim" && !$::model::dropped
           && $outcome ni {'claimed' 'reclaim_cap_exceeded'}} return
  }
  dict set ::model::request $request [list $whose $rows]
}

# The row that a claim holds, of those that the row of an answer is about, or
# nothing.  Of batches and letters the claim must have all of its rows.
proc model::held_row {op cells claim} {
  set key [string trim [lindex $cells [expr {$op eq "reclaim"}]] ']
  set table [dict get {claim batch lane job reclaim job dead_letter letter
    outbox part contest holder} $op]
  set rows [lmap {k row} [set ::model::$table] {
    if {[dict get $row claim_id] ne $claim} continue
    list $k $row
  }]
  if {$op in {outbox contest}} {return [lindex $rows 0 1]}
  foreach one $rows {
    lassign $one k row
    if {$k eq $key && ($table eq "job"
          || [llength $rows] == [dict get $row claim_size])} {return $row}
  }
}

# Does a claim hold all of its rows?
proc model::holds {claim} {
  foreach table {batch job part holder letter} {
    set rows [lsearch -all -inline -index 1 [lmap row \
      [dict values [set ::model::$table]] {
        list $row [dict get $row claim_id]
      }] $claim]
    if {$rows ne ""} {
      set row [lindex $rows 0 0]
      return [expr {$table ni {batch letter}
        || [llength $rows] == [dict get $row claim_size]}]
    }
  }
  return 0
}

# The rows of a claim that was made before, without what need not be the same:
# see oracle_part.
proc model::again {op rows} {
  set out {}
  foreach text $rows {
    set cells [split $text |]
    set claim [string trim [lindex $cells end-8] ']
    set row [held_row $op $cells $claim]
    if {$op eq "contest" && $row eq ""} {
      # A yield, with whoever has it now.
      lassign [lmap c [lrange $cells 2 3] {string trim $c '}] kind label
      set id NULL
      if {[dict exists $::model::holder [list $kind $label]]} {
        set id [dict get [row holder [list $kind $label]] claim_id]
      }
      lappend out [list 'yield' [lit $id]]
    } elseif {$claim eq "NULL"} {
      lappend out [oracle_part $op $text]
    } elseif {$row ne ""} {
      lset cells end-2 [dict get $row expires_at_ms]
      lappend out [oracle_part $op [join $cells |]]
    }
  }
  return $out
}

# What is compared of the row of a repeated claim.  A job that is held beyond
# its lease can be changed meanwhile, and claimq_restored() raises all fences.
proc oracle_part {op text} {
  set cells [split $text |]
  if {$op eq "contest" && [lindex $cells 0] ne "'claimed'"} {
    return [list [lindex $cells 0] [lindex $cells end-8]]
  }
  set key [lrange $cells 0 [expr {$op eq "reclaim"}]]
  return [list {*}$key {*}[lreplace [lrange $cells end-8 end] 2 2]]
}
