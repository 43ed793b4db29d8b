# bench/peers.tcl: claimq beside what people would use instead.
#
#     tclsh tcl/bench/peers.tcl OUTFILE ?CLAIMQ.SO?
#
# Measures how long it takes to claim and complete one job when 1,000, 10,000,
# 100,000 and 1,000,000 jobs are ready, with
#     litequeue, huey, honker     Python, from PyPI
#     plainjob, honker            Node, from npm; honker as the native module
#                                 that is published for each platform
#     goqite                      Go, from its module proxy
# and with claimq from the same three languages, in the same loop: so the cost
# of the language is in both figures.  The loops are test/bench/peer_*; they
# say exactly what is done, and prove at the end that it was done once.
#
# And how soon an idle worker of each has a job that another process has put, at
# an empty queue, and what that worker costs meanwhile: in the library's own way
# of waiting, with its own defaults.  One that polls every second is late half a
# second.  Between two jobs 100 to 600 ms pass.
#
# The libraries are installed by name into build/peers, once, and nowhere
# else.  What cannot be installed or built is skipped:
#     SKIPPED: peer NAME: reason
#
# OUTFILE gets one JSON object per line:
#     {"peer":"litequeue","language":"Python","version":"0.9","lease":false,
#      "refuses":false,"fence":false,"attempts":false,"waits":false,
#      "note":"...",
#      "depth":1000,"us":578.0,"lo":549.1,"hi":659.7,"cpu":560.2,"n":3003,
#      ...}
# us is the median block in microseconds per job, lo and hi are the quartiles,
# cpu is the processor time.  Where us is much more than cpu, the machine had
# other work, and the figures are worth little; a line at the end says so.
# The words lease, refuses and fence are explained in peer_python.py; they
# were tried out, not copied from a manual.  attempts: the queue counts how
# often a job was claimed.  Where waits is true there are also
#      "wake":1200.5,"wake_max":2100.7    microseconds: the median, the largest
#      "idle":0.1                         processor time, ms a second
#
# PEER_PYTHON in the environment names a newer Python for the peers, which may
# have newer versions there, and need not load extensions.
#
# QUICK=1 in the environment: 1,000 and 100,000 only.  CLAIMQ_SO names the
# extension if the second argument does not (default ./claimq.so).

set root [file normalize [file join [file dirname [info script]] .. ..]]
source [file join $root tcl bench json.tcl]
source [file join $root tcl bench install.tcl]

if {[llength $argv] ni {1 2}} {
  puts stderr "usage: tclsh tcl/bench/peers.tcl OUTFILE ?CLAIMQ.SO?"
  exit 2
}
lassign $argv outfile so
if {$so eq ""} {set so [env_or CLAIMQ_SO $root/claimq.so]}
set so [file normalize $so]
set outfile [file normalize $outfile]
set home $root/build/peers
file mkdir $home

if {[env_or QUICK 0]} {
  set DEPTHS {1000 100000}
  set WORK {1000 0.5}           ;# jobs and seconds for one figure
  set WAKES 10                  ;# jobs that an idle worker waits for
  set ROOM 500                  ;# megabytes that the file may need
} else {
  set DEPTHS {1000 10000 100000 1000000}
  set WORK {3000 4}
  set WAKES 40
  set ROOM 3000
}

set failed 0

proc say {text} {
  puts $text
  flush stdout
}

proc skipped {peer why} {
  say "SKIPPED: peer $peer: $why"
}

#--------------------------------------------------------------------------
# Installing.  Each of these returns the queues it has, a list of
#     PEER LANGUAGE COMMAND
# where COMMAND ARGUMENTS is as peer_python.py has it, after QUEUE; extra
# arguments that come after SO are the fourth element.

proc python_queues {} {
  global home root
  lassign [find_python] python loads
  if {$python eq ""} {
    foreach peer {litequeue huey honker "claimq (Python)" \
        "claimq lane (Python)"} {
      skipped $peer "there is no python3"
    }
    return
  }
  set run [list env PYTHONPATH=$home/py PYTHONDONTWRITEBYTECODE=1 $python]
  set script $root/test/bench/peer_python.py
  set out {}
  if {$loads} {
    lappend out [list "claimq (Python)" Python [list {*}$run $script claimq]]
    lappend out [list "claimq lane (Python)" Python \
      [list {*}$run $script claimq-lane]]
  } else {
    foreach peer {"claimq (Python)" "claimq lane (Python)"} {
      skipped $peer "this Python loads no SQLite extensions"
    }
  }
  foreach peer {litequeue huey honker} {
    set run ""
    set newer [env_or PEER_PYTHON ""]
    if {$newer ne ""} {set run [python_peer $newer $home/py-newer $peer why]}
    if {$run eq ""} {set run [python_peer $python $home/py $peer why]}
    if {$run ne ""} {
      lappend out [list $peer Python [list {*}$run $script $peer]]
    } else {
      skipped $peer $why
    }
  }
  return $out
}

# The name of honker's native module for this machine.
proc honker_module {} {
  if {![works name node -p "process.platform+'-'+process.arch"]} {return ""}
  if {[string match linux-* $name]} {append name -gnu}
  return @russellthehippo/honker-node-$name
}

proc node_queues {} {
  global home root
  set try [list node -e \
    "require('$home/js/node_modules/better-sqlite3')(':memory:')"]
  if {![have node] || ![have npm]} {
    foreach peer {plainjob "honker (Node)" "claimq (Node)"} {
      skipped $peer "there is no node or no npm"
    }
    return
  }
  if {![file exists $home/js/node_modules/plainjob] || ![works why {*}$try]} {
    file mkdir $home/js
    if {![works why npm install --silent --no-audit --no-fund \
          --prefix $home/js plainjob better-sqlite3]
        || ![works why {*}$try]} {
      skipped plainjob $why
      skipped "claimq (Node)" $why
      return
    }
  }
  set run [list node $root/test/bench/peer_node.mjs $home/js]
  set out [list [list "claimq (Node)" Node [list {*}$run claimq]] \
    [list plainjob Node [list {*}$run plainjob]]]
  set module [honker_module]
  if {[file exists $home/js/node_modules/$module] ||
      [works why npm install --silent --no-audit --no-fund --prefix $home/js \
        $module]} {
    lappend out [list "honker (Node)" Node [list {*}$run honker]]
  } else {
    skipped "honker (Node)" $why
  }
  return $out
}

# The newest goqite; or, where versions cannot be listed, one that is known.
proc go_get {whyVar} {
  global home
  upvar 1 $whyVar why
  cd $home/go
  file copy -force $::root/test/bench/peer_go.go main.go
  if {![file exists go.mod]} {
    if {![works why go mod init peer]} {return 0}
  }
  set ok [works why go get github.com/mattn/go-sqlite3]
  foreach version {latest v0.4.0} {
    if {$ok && [works why go get maragu.dev/goqite@$version]} {
      return [works why go build -o peer .]
    }
  }
  return 0
}

proc go_queues {} {
  global home root env
  if {![have go]} {
    foreach peer {goqite "claimq (Go)"} {skipped $peer "there is no go"}
    return
  }
  file mkdir $home/go
  array set env [list GOMODCACHE $home/go/mod GOCACHE $home/go/cache \
    GOFLAGS -modcacherw CGO_ENABLED 1]
  set peer $home/go/peer
  set ok 1
  if {![file exists $peer] || [file mtime $peer] <
      [file mtime $root/test/bench/peer_go.go]} {
    set ok [go_get why]
  }
  cd $home/go
  if {!$ok || ![works dir go list -m -f "{{.Dir}}" maragu.dev/goqite]} {
    if {$ok} {set why $dir}
    skipped goqite $why
    skipped "claimq (Go)" $why
    return
  }
  set extra $dir/schema_sqlite.sql
  return [list [list "claimq (Go)" Go [list $peer claimq] $extra] \
    [list goqite Go [list $peer goqite] $extra]]
}

#--------------------------------------------------------------------------
# Measuring

# A directory in memory if there is one with room, else in build.
proc choose_place {} {
  global home ROOM
  if {[file writable /dev/shm] && [works df df -Pm /dev/shm]} {
    set room [lindex [split $df \n] end 3]
    if {[string is integer -strict $room] && $room >= $ROOM} {
      return [list /dev/shm/claimq-peers-[pid] tmpfs]
    }
  }
  return [list $home/file-[pid] disk]
}

# One call of a loop; returns its JSON object without the braces, or "".
proc measure {queue what args} {
  global place so failed
  lassign $queue peer language command extra
  set call [list {*}$command [lindex $args 0] $place/q $so {*}$extra \
    {*}[lrange $args 1 end]]
  file delete -force $place/q
  if {[works out {*}$call] && ![catch {json_read $out}]} {
    return [string range [string trim $out] 1 end-1]
  }
  say "FAILED: peer $peer, $what: [string range $out 0 200]"
  set failed 1
  return ""
}

#--------------------------------------------------------------------------
# Waiting

# Milliseconds of processor time of a process so far, all its threads.
proc cpu_ms {pid} {
  set ns 0
  foreach file [glob -nocomplain /proc/$pid/task/*/schedstat] {
    catch {
      set fd [open $file]
      incr ns [lindex [gets $fd] 0]
      close $fd
    }
  }
  return [expr {$ns/1e6}]
}

# The next line of a pipe.  A worker that says nothing for a minute hangs.
proc line_of {chan} {
  global got
  set got ""
  fileevent $chan readable [list set got 1]
  set timer [after 60000 {set got late}]
  vwait got
  after cancel $timer
  fileevent $chan readable {}
  if {$got eq "late" || [gets $chan line] < 0} {error "no answer"}
  return $line
}

proc pause {ms} {
  after $ms {set ::paused 1}
  vwait ::paused
}

# A job is put; the microseconds from its commit until the worker has it.
proc wake {put work data} {
  puts $put $data
  flush $put
  set committed [lindex [line_of $put] 0]
  lassign [line_of $work] payload begun
  if {$payload ne $data} {error "job $data was put, and $payload came"}
  return [expr {$begun-$committed}]
}

# Returns the figures as JSON, as measure does, or "".
proc measure_wait {queue} {
  global place so failed WAKES
  lassign $queue peer language command extra
  file delete -force $place/q
  file mkdir $place/q
  foreach {verb mode} {put r+ work r} {
    set $verb [open "|[list {*}$command $verb $place/q $so {*}$extra] \
      2>$place/$verb.err" $mode]
    # The tables are there before the worker starts.
    if {$verb eq "put"} {
      puts $put first
      flush $put
      line_of $put
    }
  }
  try {
    if {[lindex [line_of $work] 0] ne "first"} {error "first comes first"}
    set times {}
    for {set i 1} {$i <= $WAKES} {incr i} {
      pause [expr {100+$i*197%500}]
      lappend times [wake $put $work $i]
    }
    pause 1000
    set before [cpu_ms [pid $work]]
    pause 5000
    set idle [expr {([cpu_ms [pid $work]]-$before)/5}]
    set times [lsort -real $times]
    return [format {"wake":%.1f,"wake_max":%.1f,"idle":%.2f} \
      [lindex $times [expr {$WAKES/2}]] [lindex $times end] $idle]
  } on error why {
    set failed 1
    say "FAILED: peer $peer, waiting: $why"
  } finally {
    foreach chan [list $put $work] {
      catch {exec kill -9 {*}[pid $chan]}
      catch {close $chan}
    }
  }
  return ""
}

#--------------------------------------------------------------------------

# Probes all queues of a language, then measures them depth by depth: those
# that are compared are measured shortly after each other.
proc measure_all {queues fd} {
  global DEPTHS WORK where
  set alive {}
  foreach queue $queues {
    set about [measure $queue probe probe]
    if {$about eq ""} continue
    if {[string match {*"waits":*true*} $about]} {
      set wait [measure_wait $queue]
      if {$wait ne ""} {append about , $wait}
    }
    lappend alive [list $queue $about]
  }
  foreach depth $DEPTHS {
    foreach pair $alive {
      lassign $pair queue about
      lassign $queue peer language
      set point [measure $queue "depth $depth" run $depth {*}$WORK]
      if {$point eq ""} continue
      set line "{\"peer\":\"$peer\",\"language\":\"$language\","
      append line "\"place\":\"$where\",$about,$point}"
      puts $fd $line
      flush $fd
      remember $peer [json_read $line]
    }
  }
}

#--------------------------------------------------------------------------
# The table

# RESULT(PEER) is what was said of it, RESULT(PEER,DEPTH) its microseconds.
proc remember {peer point} {
  global RESULT PEERS
  if {![info exists RESULT($peer)]} {lappend PEERS $peer}
  set RESULT($peer) $point
  set RESULT($peer,[dict get $point depth]) [dict get $point us]
  lappend RESULT(busy) [expr {
    double([dict get $point us])/max(1, [dict get $point cpu])}]
}

# How busy the machine was with other things: clock time by processor time,
# the median of all figures.
proc busy {} {
  set all [lsort -real $::RESULT(busy)]
  set median [lindex $all [expr {[llength $all]/2}]]
  say [format "clock time is %.2f of processor time%s" $median \
    [expr {$median > 1.25 ? ": THE MACHINE WAS BUSY, do not use these" : ""}]]
}

proc thousands {n} {
  if {$n % 1000000 == 0} {return [expr {$n/1000000}]M}
  return [expr {$n/1000}]k
}

proc yes {word} {
  return [expr {$word ? "yes" : "-"}]
}

proc table {} {
  global RESULT PEERS DEPTHS
  set first [lindex $DEPTHS 0]
  set last [lindex $DEPTHS end]
  set line [format "%-21s %-8s %-8s" peer version language]
  foreach depth $DEPTHS {append line [format " %9s" [thousands $depth]]}
  append line "  growth  lease  refuses  fence  attempts   wake    max   idle"
  say "\nmicroseconds to claim and complete one job, by jobs ready"
  say $line
  foreach peer $PEERS {
    set about $RESULT($peer)
    set line [format "%-21s %-8s %-8s" $peer [dict get $about version] \
      [dict get $about language]]
    foreach depth $DEPTHS {
      set us -
      if {[info exists RESULT($peer,$depth)]} {set us $RESULT($peer,$depth)}
      append line [format " %9s" $us]
    }
    set growth -
    if {[info exists RESULT($peer,$first)]
        && [info exists RESULT($peer,$last)]} {
      set growth [format %.2f \
        [expr {double($RESULT($peer,$last))/$RESULT($peer,$first)}]]
    }
    append line [format " %7s  %-5s  %-7s  %-5s  %-8s" $growth \
      [yes [dict get $about lease]] [yes [dict get $about refuses]] \
      [yes [dict get $about fence]] [yes [dict get $about attempts]]]
    if {[dict exists $about wake]} {
      append line [format " %6.2f %6.2f %6.2f" \
        [expr {[dict get $about wake]/1000}] \
        [expr {[dict get $about wake_max]/1000}] [dict get $about idle]]
    }
    say $line
  }
  say "lease: the job of a dead worker comes back by itself.  refuses: a\
    late worker\ncannot complete what another has.  fence: nor what a\
    namesake has.\nattempts: claims of a job are counted.  wake: from commit\
    until an idle worker has\nthe job, ms, median and largest.  idle:\
    processor time of that worker, ms a second."
  foreach peer $PEERS {say "$peer: [dict get $RESULT($peer) note]"}
}

#--------------------------------------------------------------------------

if {![file exists $so]} {
  puts stderr "there is no $so: run make first"
  exit 2
}
set PEERS {}
lassign [choose_place] place where
file mkdir $place
set fd [open $outfile w]
fconfigure $fd -encoding utf-8
foreach language {python node go} {
  measure_all [${language}_queues] $fd
}
close $fd
file delete -force $place
say "\npeers: file on $where, WAL, synchronous NORMAL"
table
if {[llength $PEERS]} busy
exit $failed
