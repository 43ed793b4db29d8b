# oracle_outbox.tcl: the part of oracle_model.tcl that knows the outbox,
# contests and fences.

#--------------------------------------------------------------------------
# Outbox.  Partitions are keyed {QUEUE NUMBER}, messages {QUEUE NUMBER SEQ}.

proc model::queue_size {queue} {
  return [llength [dict keys $::model::part [list $queue *]]]
}

# What is not given stays as it is, and NULL takes it back; a new partition has
# what the others have.
proc model::queue {queue n opts} {
  set size [queue_size $queue]
  if {$size > 0 && $size != $n} {fail conflict}
  for {set i $size} {$i < $n} {incr i} {
    dict set ::model::part [list $queue $i] [list \
      partition_id [next part] queue $queue partition $i last_seq 0 \
      processed_seq 0 attempts 0 last_error NULL fencing_token 0 degrade 1 \
      retry_count 0 lease_ms NULL max NULL backoff_ms NULL \
      backoff_factor NULL backoff_max_ms NULL max_attempts NULL \
      available_at_ms 0 claim_size NULL {*}[nobody]]
  }
  if {[opt $opts degrade 0] eq "NULL"} {dict set opts degrade 1}
  for {set i 0} {$i < $n} {incr i} {set_row part [list $queue $i] {*}$opts}
  return $n
}

# Open: a key is hashed by SHA-256, its first 8 bytes as a number.
proc model::key_partition {key n} {
  return [expr {"0x[string range [sha256 $key] 0 15]" % $n}]
}

proc model::message_by_key {queue key} {
  if {$key eq "NULL"} {return ""}
  dict for {k row} $::model::message {
    if {[dict get $row queue] eq $queue
        && [dict get $row source_key] eq $key} {return [dict get $row seq]}
  }
  return ""
}

# new: it came by a plain INSERT, and has no number in the database yet.
proc model::new_message {queue part source_key payload type headers now
                         {new 0}} {
  set key [list $queue $part]
  if {[queue_size $queue] == 0} {fail not_found}
  if {![dict exists $::model::part $key]} {fail bad_argument}
  if {!$new} {number $key}
  set seq [expr {[dict get [row part $key] last_seq]+1}]
  set_row part $key last_seq $seq
  dict set ::model::message [list $queue $part $seq] [list \
    queue $queue partition $part seq $seq payload $payload \
    payload_type $type headers $headers created_at_ms $now \
    source_key $source_key new $new]
  return $seq
}

# The messages of a partition that have no number get it, and keep it.
proc model::number {key} {
  dict for {k m} $::model::message {
    if {[lrange $k 0 1] eq $key} {set_row message $k new 0}
  }
}

# claimq_restored() makes the numbers jump, also those that are not given yet.
proc model::renumber {jump} {
  dict for {k m} $::model::message {
    if {![dict get $m new]} continue
    set seq [add [dict get $m seq] $jump]
    dict unset ::model::message $k
    dict set m seq $seq
    dict set ::model::message [lreplace $k 2 2 $seq] $m
  }
}

proc model::publish {queue payload opts now} {
  set part [opt $opts partition 0]
  set source_key [opt $opts source_key]
  if {[dict exists $opts key] && [dict exists $opts partition]} {
    fail bad_argument
  }
  set stored [message_by_key $queue $source_key]
  if {$stored ne ""} {
    dict for {k m} $::model::message {
      if {[dict get $m queue] eq $queue
          && [dict get $m source_key] eq $source_key
          && [dict get $m new]} {number [lrange $k 0 1]}
    }
    return $stored
  }
  if {[dict exists $opts key]} {
    if {[queue_size $queue] == 0} {fail not_found}
    set part [key_partition [dict get $opts key] [queue_size $queue]]
  }
  return [new_message $queue $part $source_key $payload \
    [opt $opts payload_type application/json] [headers $opts] $now]
}

# To a queue that is not registered, or a partition that it does not have, the
# oracle inserts nothing: see outbox_plain.test.
proc model::insert_message {queue payload opts now} {
  new_message $queue [opt $opts partition 0] [opt $opts source_key] $payload \
    [opt $opts payload_type application/json] [headers $opts] $now 1
  return {}
}

namespace eval model {
  variable messagecols {queue partition seq payload headers payload_type
    created_at_ms}
}

# The numbers of the messages after the cursor.  They have gaps where
# claimq_restored() was called.
proc model::to_do {key} {
  set seqs {}
  foreach k [dict keys $::model::message "$key *"] {
    if {[lindex $k 2] > [dict get [row part $key] processed_seq]} {
      lappend seqs [lindex $k 2]
    }
  }
  return [lsort -integer $seqs]
}

proc model::waiting {key} {
  set first [lindex [to_do $key] 0]
  if {$first eq ""} {return ""}
  return [dict get [row message [list {*}$key $first]] created_at_ms]
}

# Open: of partitions that wait equally long the first.
# limit: of the SELECT.  Unlike max it does not become smaller after failures.
proc model::outbox {queue owner ttl max inc part now {limit 1000000}} {
  set n [queue_size $queue]
  if {$n == 0} {fail not_found}
  if {$part ne "NULL" && $part >= $n} {fail bad_argument}
  set best {}
  for {set i 0} {$i < $n} {incr i} {
    set key [list $queue $i]
    set since [waiting $key]
    if {$part in [list NULL $i] && $since ne ""
        && [takeable [row part $key] $now]
        && ($best eq "" || $since < [lindex $best 0])} {
      set best [list $since $key]
    }
  }
  if {$best eq "" || $max eq "0"} {return {}}
  return [deliver [lindex $best 1] $owner $ttl $max $limit $inc $now]
}

# What claimq_queue() said of a queue, or what is built in.
proc model::part_says {row name} {
  set value [dict get $row $name]
  if {$value ne "NULL"} {return $value}
  return [dict get {lease_ms 30000 max 100 backoff_ms 1000 backoff_factor 2
    backoff_max_ms 60000} $name]
}

proc model::deliver {key who ttl max limit inc now} {
  lassign $key queue part
  set row [row part $key]
  if {$ttl eq "NULL"} {set ttl [part_says $row lease_ms]}
  if {$max eq "NULL"} {set max [part_says $row max]}
  set row [dict remove $row lease_ms max]
  set out {}
  dict with row {
    set lease [lease qpc $partition_id $fencing_token $queue/$part $who \
      $inc $now $ttl]
    for {set i 0} {$degrade && $i < $attempts && $max > 1} {incr i} {
      set max [expr {$max/2}]
    }
    set seqs [to_do $key]
    set n [expr {min($max, $limit, [llength $seqs])}]
    set_row part $key {*}$lease claim_size $n \
      fencing_token [add $fencing_token 1] attempts [expr {$attempts+1}]
    for {set i 0} {$i < $n} {incr i} {
      set m [row message [list $queue $part [lindex $seqs $i]]]
      if {[dict get $m new]} {number $key}
      lappend out [show [dict merge $m $lease [list attempts $attempts \
        fencing_token [add $fencing_token 1] previous_claim_id $claim_id]] \
        [concat $::model::messagecols $::model::claimcols]]
    }
  }
  return $out
}

proc model::letter_of {key attempts now reason} {
  lassign $key queue part seq
  set m [row message $key]
  new_letter outbox $queue/$part $seq [dict get $m payload] \
    [dict get $m headers] [dict get $m payload_type] \
    [dict get $m created_at_ms] $now $reason $attempts [list queue $queue \
    part $part source_key [dict get $m source_key]]
}

# opts: processed; rejected as a list {seq reason ...}
proc model::outbox_verb {verb claim token arg opts now} {
  if {[opt $opts processed 0] < 0} {fail bad_argument}
  set key ""
  dict for {k row} $::model::part {
    if {[dict get $row claim_id] eq $claim} {
      set key $k
      break
    }
  }
  if {$key eq "" && $verb eq "release"} {return 0}
  if {$key eq "" || [dict get $row lease_token] ne $token} {fail claim_lost}
  switch $verb {
    guard {return 1}
    renew {return [renew part [list $key] $arg $now]}
  }
  set cursor [dict get $row processed_seq]
  set size [dict get $row claim_size]
  set attempts [dict get $row attempts]
  set n [opt $opts processed [expr {$verb eq "complete" ? $size : 0}]]
  if {$n < 0 || $n > $size} {fail bad_argument}
  set seqs [lrange [to_do $key] 0 [expr {$size-1}]]
  set rejected [opt $opts rejected {}]
  set named {}
  foreach {seq reason} $rejected {
    if {$seq ni [lrange $seqs 0 [expr {$n-1}]]} {fail bad_argument}
    if {$seq in $named} {fail bad_argument}
    lappend named $seq
  }
  foreach {seq reason} [lsort -integer -stride 2 $rejected] {
    letter_of [list {*}$key $seq] [expr {$attempts-1}] $now $reason
  }
  set end [expr {$verb eq "reject" ? $size : $n}]
  for {set i $n} {$verb eq "reject" && $i < $size} {incr i} {
    letter_of [list {*}$key [lindex $seqs $i]] [expr {$attempts-1}] $now $arg
  }
  # A retry too many: the first message goes.
  set most [dict get $row max_attempts]
  set dead [expr {$verb eq "retry" && $end == 0 && $size > 0
    && $most ne "NULL" && [dict get $row retry_count]+1 >= $most}]
  if {$dead} {
    letter_of [list {*}$key [lindex $seqs 0]] [expr {$attempts-1}] $now $arg
    set end 1
  }
  set error NULL
  if {$end > 0} {set attempts 0}
  if {$verb eq "retry"} {
    set error $arg
  } elseif {$end == 0} {
    set error [dict get $row last_error]
    if {$verb ne "reject"} {incr attempts -1}
  }
  # A retry pauses the partition, longer each time that the cursor stays.
  set retries [expr {$end > 0 ? 0 : [dict get $row retry_count]}]
  set delay [opt $opts delay_ms [expr {$verb eq "retry" && !$dead
    ? min([part_says $row backoff_max_ms], [part_says $row backoff_ms]
          *[part_says $row backoff_factor]**min($retries, 60)) : 0}]]
  if {$verb eq "retry" && $end == 0} {incr retries}
  # Open: in a gap the cursor stands just before the next message of the claim.
  if {$end > 0} {
    set next [lindex $seqs $end]
    set cursor [expr {$next eq "" ? [lindex $seqs $end-1] : $next-1}]
  }
  set_row part $key {*}[nobody] claim_size NULL attempts $attempts \
    last_error $error processed_seq $cursor retry_count $retries \
    available_at_ms [expr {$delay > 0 ? [add $now $delay] : 0}]
  switch $verb {
    retry {return [expr {$dead ? "dead" : "retry"}]}
    release {return $size}
    reject {return [expr {$size-$n+[llength $rejected]/2}]}
    complete {return $n}
  }
}

#--------------------------------------------------------------------------
# Contests and fences.  Open: see the head of ext/contest/contest.c.

proc model::contest {label owner ttl inc kind now} {
  if {$kind eq "NULL"} {set kind 0}
  set key [list $kind $label]
  set cols [concat {outcome mine kind label} \
    $::model::claimcols]
  set say [dict create outcome yield mine 1 kind $kind \
    label $label {*}[nobody] fencing_token NULL \
    previous_claim_id NULL attempts NULL]
  set row {claim_id NULL attempts 0 expires_at_ms 0}
  if {[dict exists $::model::holder $key]} {set row [row holder $key]}
  if {[dict get $row expires_at_ms] > $now} {
    set mine [expr {[list [dict get $row owner] \
      [dict get $row incarnation]] eq [list $owner $inc]}]
    set say [dict merge $say $row [list mine $mine]]
    if {[dict get $row claim_id] eq "NULL"} {
      dict set say attempts NULL
      dict set say fencing_token NULL
    } else {
      dict incr say attempts -1
    }
    if {!$mine} {dict set say lease_token NULL}
  } elseif {$ttl == 0} {
    set say [dict merge $say [list owner $owner incarnation $inc \
      claimed_at_ms $now expires_at_ms $now]]
  } else {
    set fence [next contest]
    if {![dict exists $row holder_id]} {dict set row holder_id $fence}
    set new [dict merge $row [lease qsc [dict get $row holder_id] \
      [expr {$fence-1}] $kind/$label $owner $inc $now $ttl] [list \
      kind $kind label $label fencing_token $fence \
      previous_claim_id [dict get $row claim_id] \
      attempts [expr {[dict get $row attempts]+1}]]]
    dict set ::model::holder $key $new
    set say [dict merge $new [list outcome claimed mine 1 \
      attempts [dict get $row attempts]]]
  }
  return [list [show $say $cols]]
}

proc model::contest_verb {verb claim token arg opts now} {
  if {$verb eq "reject"} {fail bad_argument}
  dict for {key row} $::model::holder {
    if {[dict get $row claim_id] ne $claim} continue
    if {[dict get $row lease_token] ne $token} {fail claim_lost}
    switch $verb {
      guard {return 1}
      renew {return [renew holder [list $key] $arg $now]}
    }
    set delay [opt $opts delay_ms 0]
    if {$delay > 0} {
      set_row holder $key {*}[nobody] expires_at_ms [add $now $delay] \
        previous_claim_id NULL attempts 0
    } else {
      drop holder $key
    }
    return [expr {$verb eq "retry" ? "retry" : 1}]
  }
  if {$verb eq "release"} {return 0}
  fail claim_lost
}

proc model::fence {resource token} {
  if {[dict exists $::model::fence $resource]
      && [dict get [row fence $resource] token] > $token} {return 0}
  dict set ::model::fence $resource [list resource $resource token $token]
  return 1
}
