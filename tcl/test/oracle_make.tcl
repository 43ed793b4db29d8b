# oracle_make.tcl: random steps for oracle.tcl and history.tcl.
#
#     oracle_make             -> {submit {l1 'p1' {priority 9} 1000}}
#     oracle_make_see         -> {why {lane l1 {partition 1} 1000}}
#
# They look at what the model holds, and at what earlier steps have returned:
# global O: now  claims {LABEL ROW OP} ...  jobs  batches  plan  flood.

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
proc oracle_headers {percent} {
  return [oracle_opts [list headers $percent {{{"a":1}} {{}} {{"b":"x"}}}]]
}
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
  }] [oracle_headers 15] [oracle_due [expr {$op eq "insert_batch"}]]]
  if {$op eq "enqueue"} {
    lappend opts {*}[oracle_opts {
      unique_for_ms 20 {0 50 1000 9223372036854775807}}]
  }
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
    admission 12 {grant grant auto}
    partition 10 {0 1 -3}
    group_key 60 {g1 g1 g2 g3 {}}
    flow_id 10 {f1} namespace 10 {n1} instance_tag 10 {t1}
  }] [oracle_headers 15] [oracle_due [expr {$op eq "insert_job"}]]]
  if {$op eq "submit"} {
    lappend opts {*}[oracle_opts {on_failure 30 {cancel run}
      on_duplicate 40 {keep replace replace replace refuse}
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
  lappend opts {*}[oracle_headers 15]
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

# A claim, and one in six completes another first.
proc oracle_make_claim {} {
  lassign [oracle_make_plain_claim] op arglist form
  if {$op ne "peek" && $form eq "plain" && [oracle_chance 30]} {
    lassign [oracle_some_claim] claim token of
    set form [list done $claim $token [expr {
      $of eq "lane" ? [oracle_opts {result 40 {done 5}}] : {}}]]
  }
  return [list $op $arglist $form]
}

proc oracle_make_plain_claim {} {
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
      lset common 1 [oracle_lease]
      if {[oracle_chance 20]} {lset common 2 NULL}
      if {[lindex $form 0] eq "limit"} {lset common 2 [oracle_max]}
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

# A step of the work, or how much time is left for it.
proc oracle_make_step {} {
  if {[oracle_chance 20]} {
    return [list remaining [list {*}[lrange [oracle_some_claim] 0 1] \
      [oracle_one {0 0 20 9000}] $::O(now)]]
  }
  set kind [oracle_one {lane lane lane claim claim outbox}]
  return [list step [list {*}[lrange [oracle_some_claim $kind] 0 1] \
    [oracle_one {a a b c}] [oracle_payload] \
    [oracle_opts {lease_ms 40 {10 200 5000}}] $::O(now)]]
}

proc oracle_make_verb {} {
  if {[oracle_chance 15]} {return [oracle_make_step]}
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
  if {$op in {lane reclaim} && $verb eq "release" && [oracle_chance 40]} {
    set jobs {}
    while {[oracle_chance 70]} {lappend jobs [oracle_some_job]}
    lappend opts after $jobs
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
    if {[model::unadmitted $row] || [dict get $row reclaim] eq "grant"
        && [dict get $row state] eq "active"
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
    next_at resolve resolve ungrant revoke_owner revoke_claim}]
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
    revoke_claim {
      return [list revoke_claim [list [lindex [oracle_some_claim] 0] $now]]
    }
    revoke_owner {
      return [list revoke_owner [list [oracle_owner] \
        [oracle_opts {except 60 {{} i2}}] $now]]
    }
    resolve {
      return [list resolve [list [oracle_some_job] [oracle_payload] $now]]
    }
    ungrant {
      set id [oracle_one [dict keys $::model::grant]]
      return [list ungrant [list [expr {$id eq "" ? 1 : $id}] $now]]
    }
    limit {
      if {[oracle_chance 40]} {
        return [list limit [list [oracle_one {l1 l2 NULL}] [oracle_opts {
          paused 20 {0 0 1 NULL NULL} max_attempts 30 {1 3 NULL}
          backoff_ms 20 {7 NULL} backoff_factor 20 {1 NULL}
          backoff_max_ms 20 {30 NULL} max_reclaims 30 {0 1 3 NULL}
          max_runtime_ms 20 {60 400 NULL NULL} lease_ms 30 {20 300 NULL}
          strict 20 {0 1 NULL NULL} reclaim 20 {auto grant NULL NULL}
          admission 15 {auto grant NULL NULL NULL} events 15 {0 1 NULL NULL}
          keep_ms 30 {0 0 100 3000 -1 NULL NULL}
          keep_failed_ms 20 {0 100 -1 NULL NULL}
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
      }] [oracle_headers 15] [oracle_due 0]] $now]]
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
        group_key 40 g1 admission 10 grant
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
        {q1 3} {q1 3} {q2 1} {q2 2} {q4 2}}] [oracle_opts {
        degrade 30 {0 1 1} lease_ms 20 {0 40 2000 NULL} max 20 {1 3 NULL}
        backoff_ms 25 {0 10 300 NULL} backoff_factor 20 {0 1 3 NULL}
        backoff_max_ms 20 {20 500 NULL} max_attempts 40 {1 2 NULL}}]]]
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

