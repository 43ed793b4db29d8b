# bench/workers.tcl: the Worker of each language beside its own SQLite queue.
#
#     make test-packages
#     tclsh tcl/bench/workers.tcl ?JOBS?
#
# Prints how many jobs a second are done by a worker with a concurrency of 1, 4
# and 16, with handlers that do nothing and handlers that sleep for 5 ms:
#     Python   claimq, huey from PyPI
#     Node     claimq, plainjob from npm, both over better-sqlite3
#     Go       claimq, goqite from its module proxy, both over go-sqlite3
# The programs are test/bench/worker_*; worker_python.py says exactly what they
# do.  Each figure is the median of three runs, one after the other in turns;
# JOBS (2,000) is how many jobs a run has, a fifth of them if they sleep.  In
# brackets is the processor time of a job in microseconds.  The file is in
# memory where there is /dev/shm.
#
# claimq is used as make test-packages has left it in build/packages; the
# others are installed by name into build/peers.  What is not there is skipped:
#     SKIPPED: NAME: reason

set root [file normalize [file join [file dirname [info script]] .. ..]]
source [file join $root tcl bench json.tcl]
set packages $root/build/packages
set peers $root/build/peers
set jobs [expr {[llength $argv] ? [lindex $argv 0] : 2000}]
set RUNS 3

proc skipped {name why} {
  puts "SKIPPED: $name: [lindex [split [string trim $why] \n] end]"
}

# Runs a program that installs something; returns 1, or 0 and why.
proc works {whyVar args} {
  upvar 1 $whyVar why
  return [expr {![catch {exec timeout 900 {*}$args 2>@1} why]}]
}

# Each of these returns NAME COMMAND ...; QUEUE DIR ... follows the command.

proc python_workers {} {
  global root packages peers
  set program $root/test/bench/worker_python.py
  set out {}
  foreach python {python3 /usr/bin/python3} {
    set run [list env PYTHONDONTWRITEBYTECODE=1 \
      PYTHONPATH=$packages/python/site:$peers/py $python]
    if {[works why {*}$run -c "import claimq; claimq.connect(':memory:')"]} {
      lappend out claimq [list {*}$run $program]
      break
    }
  }
  if {$out eq ""} {skipped "claimq (Python)" $why}
  if {[works why {*}$run -c "import huey"] || [works why $python -m pip \
        install --quiet --disable-pip-version-check --target $peers/py huey]} {
    lappend out huey [list {*}$run $program]
  } else {
    skipped huey $why
  }
  return $out
}

proc node_workers {} {
  global root packages peers
  set run [list node $root/test/bench/worker_node.mjs \
    $packages/node/app:$peers/js]
  set out {}
  if {[file isdirectory $packages/node/app/node_modules/claimq]} {
    lappend out claimq $run
  } else {
    skipped "claimq (Node)" "run make test-packages first"
  }
  file mkdir $peers/js
  if {[file isdirectory $peers/js/node_modules/plainjob] || [works why npm \
        install --silent --no-audit --no-fund --prefix $peers/js plainjob \
        better-sqlite3]} {
    lappend out plainjob $run
  } else {
    skipped plainjob $why
  }
  return $out
}

proc go_workers {} {
  global root packages peers env
  if {![file isdirectory $packages/go/claimq]} {
    skipped "claimq and goqite (Go)" "run make test-packages first"
    return
  }
  set dir $peers/worker
  file mkdir $dir
  array set env [list GOMODCACHE $packages/go/mod GOCACHE $peers/worker/cache \
    GOFLAGS "-mod=mod -modcacherw" GOTOOLCHAIN local CGO_ENABLED 1]
  file copy -force $root/test/bench/worker_go.go $dir/main.go
  set fd [open $dir/go.mod w]
  puts $fd "module worker\n\ngo 1.21\n\nrequire example.com/claimq v0.0.0\n
replace example.com/claimq => $packages/go/claimq"
  close $fd
  cd $dir
  foreach version {latest v0.4.0} {
    if {[works why go get maragu.dev/goqite@$version]} break
  }
  if {![works why go mod tidy] || ![works why go build -o worker .]
      || ![works folder go list -m -f "{{.Dir}}" maragu.dev/goqite]} {
    skipped "claimq and goqite (Go)" $why
    return
  }
  set ::SCHEMA $folder/schema_sqlite.sql
  return [list claimq ./worker goqite ./worker]
}

# One run: jobs a second, and microseconds of processor time for a job.
proc run {name command n concurrency ms} {
  global place SCHEMA VERSION
  file delete -force $place
  file mkdir $place
  set answer [json_read [lindex [split [exec -ignorestderr timeout 600 \
    {*}$command $name $place $n $concurrency $ms $SCHEMA 2>/dev/null] \n] end]]
  set VERSION($name) [dict get $answer version]
  return [list [expr {$n/[dict get $answer seconds]}] \
    [expr {[dict get $answer cpu]*1e6/$n}]]
}

proc median {values} {
  return [lindex [lsort -real $values] [expr {[llength $values]/2}]]
}

# All figures of a language.
proc measure {language workers} {
  global jobs RUNS VERSION
  foreach ms {0 5} {
    set n [expr {$ms ? $jobs/5 : $jobs}]
    foreach concurrency {1 4 16} {
      array unset rates
      array unset cpus
      for {set i 0} {$i < $RUNS} {incr i} {
        foreach {name command} $workers {
          if {[catch {run $name $command $n $concurrency $ms} answer]} {
            puts "FAILED: $name, $language: $answer"
            set ::failed 1
            continue
          }
          lappend rates($name) [lindex $answer 0]
          lappend cpus($name) [lindex $answer 1]
        }
      }
      foreach name [array names rates] {
        append line($name) [format "%9.0f (%4.0f)" [median $rates($name)] \
          [median $cpus($name)]]
      }
    }
  }
  foreach {name -} $workers {
    if {[info exists line($name)]} {
      puts [format "%-18s %-7s%s" "$name $VERSION($name)" $language \
        $line($name)]
    }
  }
  flush stdout
}

set failed 0
set SCHEMA ""
file mkdir $peers
cd $peers              ;# the claimq.so of the tree is no module of Python
set place [expr {[file writable /dev/shm] ? "/dev/shm" : $peers}]
append place /claimq-workers-[pid]
puts "jobs a second (processor time of a job, us)"
puts "load [exec cat /proc/loadavg]"
puts [format "%-18s %-7s%s" "" "" [join [lmap what {"nothing, 1" 4 16 \
  "5 ms, 1" 4 16} {format %16s $what}] ""]]
foreach language {Python Node Go} {
  measure $language [[string tolower $language]_workers]
}
file delete -force $place
puts "load [exec cat /proc/loadavg]"
exit $failed
