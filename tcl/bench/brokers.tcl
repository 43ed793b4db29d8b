# bench/brokers.tcl: claimq beside what people would pick instead.
#
#     tclsh tcl/bench/brokers.tcl ?SYSTEM ...?
#
# Measures the systems of bench/broker_list.tcl (or only those named), all in
# one run: Redis, BullMQ, beanstalkd, PostgreSQL, graphile-worker, and queues on
# SQLite, each with 1, 4 and 16 worker processes.  The programs are
# test/bench/broker_*; broker_python.py says exactly what they do.
#
#   jobs a second   Workers take jobs, each of which submits a new one, from a
#                   queue of 1,000 and then of 1,000,000 waiting jobs: a job is
#                   one submit, one claim and one completion, each by itself.
#                   The systems take turns; a figure is the median of the
#                   rounds.
#   processor time  of a job: that of all workers and of the server, of all
#                   rounds together.
#   submit to start from just before the submit until the handler begins, four
#                   idle workers, while as many jobs wait in another queue.
#   after kill -9   seconds from the death of a worker until another one has
#                   done its job, with the system's own defaults.
#
# Libraries are installed by name into build/peers; servers are Debian's, and
# are started here with files in build/brokers and sockets in a temporary
# folder.  What is not there is skipped: SKIPPED NAME: reason.  INSTALL=1
# installs the servers.
# PEER_PYTHON names a newer Python for litequeue and honker.
#
# Writes build/brokers.json, from which bench/broker_table.tcl makes the table
# and the plot.  In the environment:
#     ROUNDS (3)           of each depth
#     DEPTHS (1000 1000000)
#     WINDOW (700)         ms of a figure
#     JOBS (150)           of submit to start
#     KILL (90)            seconds to wait for the job of a dead worker; 0: none

set root [file normalize [file join [file dirname [info script]] .. ..]]
source [file join $root tcl bench json.tcl]
source [file join $root tcl bench install.tcl]
source [file join $root tcl bench broker_list.tcl]

set ROUNDS [env_or ROUNDS 3]
set DEPTHS [env_or DEPTHS {1000 1000000}]
set WINDOW [env_or WINDOW 700]
set JOBS [env_or JOBS 150]
set KILL [env_or KILL 90]
set WORKERS {1 4 16}
set LINE 34                    ;# bytes of a line of a worker's log
set home $root/build/peers
set place $root/build/brokers
set failed 0

proc say {text} {
  puts $text
  flush stdout
}

proc skipped {name why} {
  say "SKIPPED $name: $why"
}

proc pause {ms} {
  after $ms {set ::paused 1}
  vwait ::paused
}

# Waits until an expression is true; raises an error after some seconds.
proc until {what seconds expression} {
  set end [expr {[clock milliseconds] + 1000*$seconds}]
  while {![uplevel 1 [list expr $expression]]} {
    if {[clock milliseconds] > $end} {error "$what: not after $seconds s"}
    pause 2
  }
}

#--------------------------------------------------------------------------
# Programs: RUN(LANGUAGE) or RUN(SYSTEM) is the command, or not there.

# The package of claimq for a language, made from this tree.
proc package_of {language} {
  global root
  if {![works out [info nameofexecutable] $root/tcl/dist/packages.tcl \
        $root/build -here $language]} {
    error $out
  }
  set file [lindex [split $out \n] end]
  if {[string match SKIPPED* $file]} {error $file}
  return $file
}

proc or_error {args} {
  if {![works why {*}$args]} {error $why}
}

proc install_Python {systems} {
  global home root RUN
  lassign [find_python] python loads
  if {$python eq ""} {error "there is no python3"}
  set script $root/test/bench/broker_python.py
  if {[lsearch $systems claimq*] >= 0} {
    if {!$loads} {error "this Python loads no SQLite extensions"}
    file delete -force $home/site
    or_error $python -m pip install --quiet --disable-pip-version-check \
      --no-deps --target $home/site [package_of python]
  }
  set RUN(Python) [list env PYTHONPATH=$home/site:$home/py \
    PYTHONDONTWRITEBYTECODE=1 $python $script]
  foreach {system module package} {huey huey huey  redis redis redis
      postgres psycopg psycopg[binary]} {
    if {$system in $systems
        && [python_peer $python $home/py $module why $package] eq ""} {
      set ::MISSING($system) $why
    }
  }
  foreach system {litequeue honker} {
    if {$system ni $systems} continue
    set run ""
    set newer [env_or PEER_PYTHON ""]
    if {$newer ne ""} {
      set run [python_peer $newer $home/py-newer $system why]
    }
    if {$run eq ""} {set run [python_peer $python $home/py $system why]}
    if {$run eq ""} {
      set ::MISSING($system) $why
    } else {
      set RUN($system) [list {*}$run $script]
    }
  }
}

proc install_Node {systems} {
  global home root RUN
  if {![have node] || ![have npm]} {error "there is no node or no npm"}
  file mkdir $home/js
  set npm [list npm install --silent --no-audit --no-fund --prefix $home/js]
  foreach {system libraries} {plainjob {plainjob better-sqlite3}
      claimq better-sqlite3  bullmq {ioredis bullmq}
      graphile graphile-worker} {
    set missing [lmap library $libraries {
      if {[file isdirectory $home/js/node_modules/$library]} continue
      set library
    }]
    if {$system in $systems && [llength $missing]
        && ![works why {*}$npm {*}$missing]} {
      set ::MISSING($system) $why
    }
  }
  if {"claimq" in $systems} {or_error {*}$npm [package_of node]}
  set RUN(Node) [list node $root/test/bench/broker_node.mjs $home/js]
}

proc install_Go {systems} {
  global home root env RUN
  if {![have go]} {error "there is no go"}
  set dir $home/brokers/app
  file delete -force $dir/claimq
  file mkdir $dir/claimq
  array set env [list GOMODCACHE $home/brokers/mod GOCACHE $home/brokers/cache \
    GOFLAGS "-mod=mod -modcacherw" GOTOOLCHAIN local CGO_ENABLED 1]
  exec tar -xzf [package_of go] -C $dir/claimq --strip-components=1
  file copy -force $root/test/bench/broker_go.go $dir/main.go
  set fd [open $dir/go.mod w]
  puts $fd "module broker\n\ngo 1.21\n\nrequire example.com/claimq v0.0.0\n
replace example.com/claimq => ./claimq"
  close $fd
  set here [pwd]
  cd $dir
  try {
    if {![works why go get maragu.dev/goqite@latest]} {
      or_error go get maragu.dev/goqite@v0.4.0
    }
    or_error go get github.com/riverqueue/river/riverdriver/riversqlite
    or_error go mod tidy
    or_error go build -o broker .
    if {![works folder go list -m -f "{{.Dir}}" maragu.dev/goqite]} {
      error $folder
    }
  } finally {
    cd $here
  }
  set env(SCHEMA) $folder/schema_sqlite.sql
  set RUN(Go) $dir/broker
}

#--------------------------------------------------------------------------
# Servers: SERVER(NAME) is {PID WHERE}

# Starts a program, and waits until its socket is there.  Should this script be
# killed, the server ends after an hour.
proc start_server {name socket args} {
  global SERVER place
  set pid [exec timeout 3600 {*}$args </dev/null >&$place/$name.log &]
  set SERVER($name) [list $pid $socket]
  until "$name has started" 30 {[file exists $socket]}
}

# Does a process run?  (Tcl collects those that have ended when it starts the
# next one: until then they are zombies.)
proc alive {pid} {
  if {[catch {
    set fd [open /proc/$pid/stat]
    set stat [gets $fd]
    close $fd
  }]} {
    return 0
  }
  return [expr {![regexp {\) Z } $stat]}]
}

# A part of this benchmark that Debian's package brings.
proc need {name tool package} {
  global root
  if {[catch {
    exec sh $root/tcl/test/deps.sh -part $name $tool $package 2>@1
  } out]} {
    regexp -line {^SKIPPED [^:]*: (.*)} $out -> out
    error $out
  }
}

proc serve_redis {name when} {
  global place sockets
  need Redis redis-server redis-server
  file mkdir $place/$name
  start_server $name $sockets/$name redis-server --port 0 --unixsocket \
    $sockets/$name --dir $place/$name --save "" --appendonly yes \
    --appendfsync $when
}

proc serve_beanstalkd {name ms} {
  global place sockets
  need beanstalkd beanstalkd beanstalkd
  file mkdir $place/$name
  start_server $name $sockets/$name beanstalkd -l unix:$sockets/$name \
    -b $place/$name -f $ms
}

# To fill a queue with a million jobs, each of them synced, takes too long: it
# is filled with syncs now and then, and the server starts again with its own.
proc filling {row script} {
  lassign [dict get $row server] server ms
  if {$server eq "beanstalkd" && $ms == 0} {
    set name [dict get $row name]
    again_beanstalkd $name 50
    try {uplevel 1 $script} finally {again_beanstalkd $name $ms}
  } else {
    uplevel 1 $script
  }
}

proc again_beanstalkd {name ms} {
  global SERVER sockets
  set pid [lindex $SERVER($name) 0]
  exec kill $pid
  until "$name ends" 60 {![alive $pid]}
  file delete $sockets/$name
  serve_beanstalkd $name $ms
}

# One server for all; a database for each system.  It does not run as root.
proc serve_postgres {name commit} {
  global place sockets SERVER
  set bin [lindex [lsort [glob -nocomplain /usr/lib/postgresql/*/bin]] end]
  if {$bin eq ""} {
    need PostgreSQL pg_ctlcluster postgresql
    set bin [lindex [lsort [glob /usr/lib/postgresql/*/bin]] end]
  }
  set as {}
  if {[exec id -u] == 0} {set as {runuser -u postgres --}}
  if {![info exists SERVER(postgres)]} {
    file mkdir $place/postgres
    if {$as ne ""} {exec chown postgres $place/postgres $sockets}
    or_error {*}$as $bin/initdb -A trust -U postgres -D $place/postgres/data
    start_server postgres $sockets/.s.PGSQL.5432 {*}$as $bin/postgres \
      -D $place/postgres/data -k $sockets -c listen_addresses=
    set fd [open $place/postgres/data/postmaster.pid]
    set SERVER(postgres) [list [gets $fd] $sockets]
    close $fd
  }
  foreach sql [list "CREATE DATABASE $name" \
      "ALTER DATABASE $name SET synchronous_commit=$commit"] {
    for {set try 0} {![works why psql -q -h $sockets -U postgres -c $sql]} {
        incr try} {
      if {$try > 20} {error $why}
      pause 250
    }
  }
  set SERVER($name) [list [lindex $SERVER(postgres) 0] \
    postgresql://postgres@/$name?host=$sockets]
}

proc stop_servers {} {
  global SERVER
  foreach pid [lsort -unique [lmap {name one} [array get SERVER] \
      {lindex $one 0}]] {
    catch {exec kill -INT $pid}
    catch {until "$pid ends" 20 {![alive $pid]}}
    catch {exec kill -9 $pid}
  }
}

#--------------------------------------------------------------------------
# Processor time

# Seconds of a process so far, with those of its threads that have ended.
proc cpu_of {pid} {
  if {[catch {
    set fd [open /proc/$pid/stat]
    set words [gets $fd]
    close $fd
  }]} {
    return 0
  }
  set words [string range $words [string last ) $words]+2 end]
  return [expr {([lindex $words 11]+[lindex $words 12])/100.0}]
}

# A server and what it has forked.
proc family {pid} {
  set all $pid
  if {![catch {exec ps -o pid= --ppid $pid} children]} {
    foreach child $children {lappend all {*}[family $child]}
  }
  return $all
}

proc cpu_sum {pids} {
  set sum 0
  foreach pid $pids {set sum [expr {$sum+[cpu_of $pid]}]}
  return $sum
}

#--------------------------------------------------------------------------
# Workers

proc command {row args} {
  global RUN
  dict with row {}
  set run $RUN([expr {[info exists RUN($system)] ? $system : $language}])
  set verb [lindex $args 0]
  return [list {*}$run $system $verb [where $row] $sync {*}[lrange $args 1 end]]
}

proc where {row} {
  global place SERVER
  set name [dict get $row name]
  if {[info exists SERVER($name)]} {return [lindex $SERVER($name) 1]}
  return $place/$name/queue.db
}

proc server_pids {row} {
  global SERVER
  set name [dict get $row name]
  if {![info exists SERVER($name)]} {return {}}
  return [family [lindex $SERVER($name) 0]]
}

# Starts workers that wait for their line; returns their channels.
proc start_workers {row n queue again} {
  global place
  set logs $place/logs-[dict get $row name]-$queue
  file delete -force $logs
  file mkdir $logs
  set all {}
  for {set i 0} {$i < $n} {incr i} {
    lappend all [open "|[list {*}[command $row work $queue $logs/$i $again] \
      >/dev/null 2>$logs/err$i]" w]
  }
  if {[catch {
    for {set i 0} {$i < $n} {incr i} {
      until "worker $i has started" 60 {[file exists $logs/$i]}
    }
  } why]} {
    catch {append why ": " [reason [exec cat $logs/err$i]]}
    stop_workers $all
    error $why
  }
  return [list $all $logs]
}

proc go {chans} {
  foreach chan $chans {
    puts $chan go
    flush $chan
  }
}

proc stop_workers {chans} {
  foreach chan $chans {
    catch {exec kill -9 {*}[pid $chan]}
    catch {close $chan}
  }
}

# How many jobs were begun, by all workers of a folder.
proc done {logs} {
  set bytes 0
  foreach file [glob -nocomplain $logs/?  $logs/??] {
    incr bytes [file size $file]
  }
  return [expr {$bytes/$::LINE}]
}

# All seconds from submit to start.
proc waits {logs} {
  set all {}
  foreach file [glob -nocomplain $logs/? $logs/??] {
    set fd [open $file]
    foreach {from to} [read $fd] {
      scan $from %lld from
      scan $to %lld to
      lappend all [expr {($to-$from)/1e6}]
    }
    close $fd
  }
  return [lsort -real $all]
}

#--------------------------------------------------------------------------
# Measuring: FIGURES(NAME,KEY) are lists of numbers

proc figure {row key value} {
  lappend ::FIGURES([dict get $row name],$key) $value
}

# Jobs a second and processor time with 1, 4 and 16 workers.
proc throughput {row depth} {
  global WORKERS WINDOW
  lassign [start_workers $row [lindex $WORKERS end] deep 1] chans logs
  try {
    set running 0
    foreach n $WORKERS {
      go [lrange $chans $running $n-1]
      for {set i $running} {$i < $n} {incr i} {
        catch {until "a job" 3 {[file size $logs/$i]}}
      }
      set running $n
      pause 100
      set pids [concat [lmap c [lrange $chans 0 $n-1] {pid $c}] \
        [server_pids $row]]
      set jobs [done $logs]
      set cpu [cpu_sum $pids]
      set start [clock microseconds]
      pause $WINDOW
      set jobs [expr {[done $logs]-$jobs}]
      set cpu [expr {[cpu_sum $pids]-$cpu}]
      set seconds [expr {([clock microseconds]-$start)/1e6}]
      figure $row $depth,$n,rate [expr {$jobs/$seconds}]
      figure $row $depth,$n,jobs $jobs
      figure $row $depth,$n,cpu $cpu
    }
  } finally {
    stop_workers $chans
  }
}

# Submit to start.
proc latency {row depth} {
  global JOBS
  lassign [start_workers $row 4 quick 0] chans logs
  try {
    go $chans
    pause 500
    set before [done $logs]
    if {![works why {*}[command $row submit quick $JOBS 10 .]]} {error $why}
    until "all jobs have begun" 60 {[done $logs] >= $JOBS}
    foreach wait [waits $logs] {figure $row $depth,wait $wait}
  } finally {
    stop_workers $chans
  }
}

# Holds a job, kills its worker; returns what watches for the end.
proc kill_one {row} {
  lassign [start_workers $row 2 hold 0] chans logs
  go $chans
  pause 500
  if {![works why {*}[command $row submit hold 1 0 h]]} {error $why}
  until "the job is held" 60 {
    [file exists $logs/held] && [file size $logs/held] > 1}
  set fd [open $logs/held]
  set pid [gets $fd]
  close $fd
  set start [clock microseconds]
  exec kill -9 $pid
  return [list $row $chans $logs $start]
}

# Seconds from the kill until a worker wrote into its log; -1 if none did.
proc killed {logs start} {
  foreach file [glob -nocomplain $logs/?] {
    if {[file size $file]} {
      return [expr {max(0, [exec stat -c %.6Y $file]-$start/1e6)}]
    }
  }
  return -1
}

# The job of a dead worker, of all systems at once.
proc kills {rows} {
  global KILL
  set all {}
  foreach row $rows {
    attempt $row "kill -9" {lappend all [kill_one $row]}
  }
  catch {
    until "all jobs are done" $KILL {
      -1 ni [lmap one $all {killed {*}[lrange $one 2 3]}]}
  }
  foreach one $all {
    figure [lindex $one 0] kill [killed {*}[lrange $one 2 3]]
    stop_workers [lindex $one 1]
  }
}

# Runs a script for a row; what fails is said, and the row goes on.
proc attempt {row what script} {
  if {[catch {uplevel 1 $script} why]} {
    say "FAILED [dict get $row name], $what: [string range $why 0 200]"
    set ::failed 1
    return 0
  }
  return 1
}

#--------------------------------------------------------------------------
# All

# The rows that can be measured here.
proc available {rows} {
  global MISSING
  foreach language {Python Node Go} {
    set systems [lmap row $rows {
      if {[dict get $row language] ne $language} continue
      dict get $row system
    }]
    if {[llength $systems] && [catch {install_$language $systems} why]} {
      foreach system $systems {set MISSING($language,$system) $why}
    }
  }
  return [lmap row $rows {
    dict with row {}
    set why ""
    foreach key [list $system $language,$system] {
      if {[info exists MISSING($key)]} {set why $MISSING($key)}
    }
    if {$why eq "" && $server ne "" && [catch {
      serve_[lindex $server 0] $name [lindex $server 1]
    } why]} {
      # the reason is in why
    } elseif {$server ne ""} {
      set why ""
    }
    if {$why ne ""} {
      skipped $name $why
      continue
    }
    set row
  }]
}

proc prepare {rows n} {
  return [lmap row $rows {
    file mkdir $::place/[dict get $row name]
    set start [clock milliseconds]
    if {![attempt $row "prepare $n" {
      filling $row {
        if {![works out {*}[command $row prepare deep $n]]} {error $out}
      }
      set ::VERSION([dict get $row name]) [dict get [json_read $out] version]
    }]} continue
    say [format "%-24s %8d waiting, %.1f s" [dict get $row name] $n \
      [expr {([clock milliseconds]-$start)/1000.0}]]
    set row
  }]
}

proc measure {rows} {
  global DEPTHS ROUNDS KILL
  set waiting 0
  set start [clock seconds]
  foreach depth $DEPTHS {
    set rows [prepare $rows [expr {$depth-$waiting}]]
    set waiting $depth
    for {set round 1} {$round <= $ROUNDS} {incr round} {
      say "depth $depth, round $round of $ROUNDS, load\
        [lrange [exec cat /proc/loadavg] 0 0]"
      foreach row $rows {
        attempt $row "depth $depth" {throughput $row $depth}
        if {$round == 1} {attempt $row waiting {latency $row $depth}}
      }
    }
    if {$KILL && $depth == [lindex $DEPTHS 0]} {
      say "kill -9"
      kills [lmap row $rows {
        if {![dict get $row victim]} continue
        set row
      }]
    }
    write_json $rows [expr {[clock seconds]-$start}]
  }
  return $rows
}

proc quantile {list part} {
  set list [lsort -real $list]
  return [lindex $list [expr {int($part*([llength $list]-1)+0.5)}]]
}

# One row as JSON: rate and cpu by depth and workers, wait by depth, kill.
proc row_json {row} {
  global FIGURES VERSION DEPTHS WORKERS KILL
  set name [dict get $row name]
  set out "{\"name\":\"$name\",\"version\":\"$VERSION($name)\""
  foreach depth $DEPTHS {
    foreach n $WORKERS {
      set key $depth,$n
      if {![info exists FIGURES($name,$key,rate)]} continue
      append out ",\"$key,rate\":" \
        [format %.1f [quantile $FIGURES($name,$key,rate) 0.5]]
      set jobs [::tcl::mathop::+ {*}$FIGURES($name,$key,jobs)]
      if {$jobs} {
        append out ",\"$key,cpu\":" [format %.1f [expr {
          1e6*[::tcl::mathop::+ {*}$FIGURES($name,$key,cpu)]/$jobs}]]
      }
    }
    if {[info exists FIGURES($name,$depth,wait)]} {
      foreach {what part} {p50 0.5 p99 0.99} {
        append out ",\"$depth,$what\":" [format %.6f \
          [quantile $FIGURES($name,$depth,wait) $part]]
      }
    }
  }
  if {[info exists FIGURES($name,kill)]} {
    append out ",\"kill\":" [format %.2f $FIGURES($name,kill)]
  }
  return "$out}"
}

proc write_json {rows seconds} {
  global root ROUNDS KILL DEPTHS FIGURES
  set depths [lmap depth $DEPTHS {
    if {![llength [array names FIGURES *,$depth,*]]} continue
    set depth
  }]
  set cpu "unknown processor"
  catch {regexp {model name\s*:\s*([^\n]*)} [exec cat /proc/cpuinfo] -> cpu}
  set fd [open $root/build/brokers.json w]
  puts $fd "{\"date\":\"[clock format [clock seconds] -format %Y-%m-%d]\","
  puts $fd "\"machine\":\"[exec nproc] cores, $cpu\","
  puts $fd "\"load\":\"$::LOAD to [lindex [exec cat /proc/loadavg] 1]\","
  puts $fd "\"rounds\":$ROUNDS,\"seconds\":$seconds,\"limit\":$KILL,"
  puts $fd "\"depths\":\[[join $depths ,]\],\"rows\":\["
  puts $fd [join [lmap row $rows {row_json $row}] ,\n]
  puts $fd "\]}"
  close $fd
}

proc main {names} {
  global root place sockets LOAD failed
  set rows [broker_rows]
  if {[llength $names]} {
    set rows [lmap row $rows {
      if {[dict get $row name] ni $names} continue
      set row
    }]
  }
  file delete -force $place
  file mkdir $place
  set sockets [exec mktemp -d]
  set start [clock seconds]
  set LOAD [lindex [exec cat /proc/loadavg] 1]
  cd $place              ;# the claimq.so of the tree is no module of Python
  try {
    set rows [available $rows]
    set start [clock seconds]
    set rows [measure $rows]
  } finally {
    stop_servers
    file delete -force $place $sockets
  }
  say "build/brokers.json: [llength $rows] systems,\
    [expr {[clock seconds]-$start}] s"
  exit $failed
}

main $argv
