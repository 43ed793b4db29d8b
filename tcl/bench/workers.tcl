# bench/workers.tcl: the Worker of each language beside its own SQLite queue.
#
#     make test-packages INSTALL=1
#     tclsh tcl/bench/workers.tcl ?-install | -readme? ?JOBS? ?LANGUAGE ...?
#
# Prints how many jobs a second are done by a worker with a concurrency of 1, 4
# and 16, with handlers that do nothing and handlers that sleep for 5 ms:
#     Python   claimq, huey from PyPI
#     Node     claimq, plainjob from npm, both over better-sqlite3
#     Go       claimq, goqite from its module proxy, both over go-sqlite3
#     Rust     claimq over rusqlite, apalis with apalis-sqlite from crates.io
#     Java     claimq, JobRunr from Maven Central, both over sqlite-jdbc
#     Ruby     claimq, delayed_job with delayed_job_active_record from Debian
#     PHP      claimq, the database queue of Laravel (illuminate) from Debian
# The programs are test/bench/worker_* and WorkerJava.java; worker_python.py
# says exactly what they do.  Each figure is the median of three runs, one
# after the other in turns;
# JOBS (1,000) is how many jobs a run has, a fifth of them if they sleep.  In
# brackets is the processor time of a job in microseconds.  The file is in
# memory where there is /dev/shm.
#
# With -readme the table is also put into test/bench/README.md, if nothing has
# failed: `make bench-workers`.  -install measures nothing: it installs and
# compiles what is measured, which takes some minutes the first time.
#
# claimq is used as make test-packages has left it in build/packages; the
# others are installed by name into build/peers, those of Debian if the
# environment says INSTALL=1.  What is not there is skipped:
#     SKIPPED: NAME: reason

set root [file normalize [file join [file dirname [info script]] .. ..]]
source [file join $root tcl bench json.tcl]
source [file join $root tcl bench svg.tcl]
source [file join $root tcl bench table.tcl]
set packages $root/build/packages
set peers $root/build/peers
set option ""
if {[string match -* [lindex $argv 0]]} {set argv [lassign $argv option]}
set jobs [expr {[llength $argv] ? [lindex $argv 0] : 1000}]
set languages [lrange $argv 1 end]
if {$languages eq ""} {set languages {Python Node Go Rust Java Ruby PHP}}
set RUNS 3

proc skipped {name why} {
  puts "SKIPPED: $name: [lindex [split [string trim $why] \n] end]"
}

# Runs a program that installs something; returns 1, or 0 and why.
proc works {whyVar args} {
  upvar 1 $whyVar why
  return [expr {![catch {exec timeout 900 {*}$args 2>@1} why]}]
}

# Are these there, TOOL PACKAGE ..., or can Debian's packages be installed?
proc debian {name args} {
  if {[works why sh $::root/tcl/test/deps.sh -part $name {*}$args]} {return 1}
  regsub -line {.*SKIPPED [^:]*: } $why {} why
  skipped $name $why
  return 0
}

proc write {file text} {
  file mkdir [file dirname $file]
  set fd [open $file w]
  puts $fd $text
  close $fd
}

# The version of claimq, as the packages have it.
proc version {} {
  set fd [open $::root/ext/claimq.h]
  regexp {CLAIMQ_VERSION +"([^"]*)"} [read $fd] -> version
  close $fd
  return $version
}

# Each of these returns NAME COMMAND ...; QUEUE DIR ... follows the command.
# EXTRA(LANGUAGE,NAME) is its last argument.

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
  write $dir/go.mod "module worker\n\ngo 1.21\n
require example.com/claimq v0.0.0\n
replace example.com/claimq => $packages/go/claimq"
  cd $dir
  foreach version {latest v0.4.0} {
    if {[works why go get maragu.dev/goqite@$version]} break
  }
  if {![works why go mod tidy] || ![works why go build -o worker .]
      || ![works folder go list -m -f "{{.Dir}}" maragu.dev/goqite]} {
    skipped "claimq and goqite (Go)" $why
    return
  }
  set ::EXTRA(Go,goqite) $folder/schema_sqlite.sql
  return [list claimq $dir/worker goqite $dir/worker]
}

# A program of Rust; each has a package, because two SQLites cannot be linked.
proc rust_worker {name dependencies} {
  global root peers env
  set dir $peers/rust/$name
  set env(CARGO_TARGET_DIR) $peers/rust/target
  set env(CARGO_HOME) $::packages/rust/cargo
  file mkdir $dir/src
  file copy -force $root/test/bench/worker_rust.rs $dir/src/main.rs
  write $dir/Cargo.toml "\[package\]\nname = \"worker_$name\"
version = \"0.0.0\"\nedition = \"2021\"\n
\[features\]\ndefault = \[\"use_$name\"\]\nuse_claimq = \[\]
use_apalis = \[\]\n\n\[dependencies\]\nlibc = \"0.2\"\n$dependencies"
  if {![works why cargo build --quiet --release \
        --manifest-path $dir/Cargo.toml]} {
    skipped "$name (Rust)" $why
    return
  }
  return [list $name $peers/rust/target/release/worker_$name]
}

proc rust_workers {} {
  global packages peers EXTRA
  set out {}
  if {[file isdirectory $packages/rust/claimq]} {
    lappend out {*}[rust_worker claimq \
      "claimq = { path = \"$packages/rust/claimq\" }
rusqlite = { version = \"0.41\", features = \[\"bundled\"\] }"]
    set EXTRA(Rust,claimq) [version]
  } else {
    skipped "claimq (Rust)" "run make test-packages first"
  }
  set peer [rust_worker apalis {apalis = "1"
apalis-sqlite = "1"
futures = "0.3"
tokio = { version = "1", features = ["rt-multi-thread", "macros", "time"] }}]
  if {$peer ne ""} {
    set fd [open $peers/rust/apalis/Cargo.lock]
    regexp {"apalis-sqlite"\nversion = "([^"]*)"} [read $fd] -> \
      EXTRA(Rust,apalis)
    close $fd
  }
  return [concat $out $peer]
}

set POM {<project xmlns="http://maven.apache.org/POM/4.0.0">
<modelVersion>4.0.0</modelVersion>
<groupId>app</groupId><artifactId>app</artifactId><version>0</version>
<dependencies>
<dependency><groupId>org.jobrunr</groupId><artifactId>jobrunr</artifactId>
<version>8.4.0</version></dependency>
<dependency><groupId>com.fasterxml.jackson.core</groupId>
<artifactId>jackson-databind</artifactId><version>2.18.2</version></dependency>
<dependency><groupId>com.fasterxml.jackson.datatype</groupId>
<artifactId>jackson-datatype-jsr310</artifactId><version>2.18.2</version>
</dependency>
</dependencies></project>}

proc java_workers {} {
  global root packages peers EXTRA
  set dir $peers/java
  set jar [glob -nocomplain $packages/dist/claimq-*.jar]
  if {$jar eq "" || ![file isdirectory $packages/java/lib]} {
    skipped "claimq and jobrunr (Java)" "run make test-packages first"
    return
  }
  write $dir/pom.xml $::POM
  if {![llength [glob -nocomplain $dir/lib/jobrunr-*.jar]] && ![works why \
        mvn -q -B -f $dir/pom.xml dependency:copy-dependencies \
        -Dmaven.repo.local=$packages/java/repository \
        -DoutputDirectory=$dir/lib]} {
    skipped "claimq and jobrunr (Java)" $why
    return
  }
  set path $jar:$packages/java/lib/*:$dir/lib/*:$dir
  if {![works why javac -cp $path -d $dir $root/test/bench/WorkerJava.java]} {
    skipped "claimq and jobrunr (Java)" $why
    return
  }
  set EXTRA(Java,claimq) [version]
  set run [list java -cp $path WorkerJava]
  return [list claimq $run jobrunr $run]
}

proc ruby_workers {} {
  global root packages env
  set out {}
  set run [list ruby $root/test/bench/worker_ruby.rb]
  if {[file isdirectory $packages/ruby/gems]} {
    set env(GEM_PATH) $packages/ruby:[exec gem env gempath]
    lappend out claimq $run
  } else {
    skipped "claimq (Ruby)" "run make test-packages first"
  }
  if {[debian delayed_job ruby ruby /usr/lib/ruby/vendor_ruby/sqlite3.rb \
        ruby-sqlite3 /var/lib/dpkg/info/ruby-delayed-job-active-record.list \
        ruby-delayed-job-active-record]} {
    lappend out delayed_job $run
  }
  return $out
}

proc php_workers {} {
  global root packages
  set out {}
  set run [list php -d sqlite3.extension_dir=$packages/dist/php \
    $root/test/bench/worker_php.php]
  if {[file exists $packages/dist/Claimq.php]} {
    lappend out claimq [concat $run $packages/dist/Claimq.php]
  } else {
    skipped "claimq (PHP)" "run make test-packages first"
  }
  set library /usr/share/php/Illuminate
  if {[debian laravel php php-cli $library/Queue php-illuminate-queue \
        $library/Database php-illuminate-database \
        $library/Events php-illuminate-events]} {
    lappend out laravel [concat $run $library]
  }
  return $out
}

# One run: jobs a second, and microseconds of processor time for a job.
proc run {language name command n concurrency ms} {
  global place EXTRA VERSION
  set key $language,$name
  set last [expr {[info exists EXTRA($key)] ? $EXTRA($key) : ""}]
  file delete -force $place
  file mkdir $place
  set answer [json_read [lindex [split [exec -ignorestderr timeout 120 \
    {*}$command $name $place $n $concurrency $ms $last 2>/dev/null] \n] end]]
  set VERSION($name) [dict get $answer version]
  return [list [expr {$n/[dict get $answer seconds]}] \
    [expr {[dict get $answer cpu]*1e6/$n}]]
}

proc median {values} {
  if {"" in $values} return
  return [lindex [lsort -real $values] [expr {[llength $values]/2}]]
}

# All figures of a language: {NAME {RATE CPU ...} ...}.
proc measure {language workers} {
  global jobs RUNS
  foreach {name -} $workers {set cells($name) {}}
  foreach {ms concurrency} {0 1  0 4  0 16  5 1  5 4  5 16} {
    set n [expr {$ms ? $jobs/5 : $jobs}]
    array unset rates
    array unset cpus
    for {set i 0} {$i < $RUNS} {incr i} {
      foreach {name command} $workers {
        if {[catch {run $language $name $command $n $concurrency $ms} answer]} {
          puts "FAILED: $name, $language: $answer"
          set ::failed 1
          set answer {"" ""}
        }
        lappend rates($name) [lindex $answer 0]
        lappend cpus($name) [lindex $answer 1]
      }
    }
    foreach {name -} $workers {
      lappend cells($name) [median $rates($name)] [median $cpus($name)]
    }
  }
  return [concat {*}[lmap {name -} $workers {list $name $cells($name)}]]
}

proc title {name} {
  set label [string map {jobrunr JobRunr laravel Laravel apalis apalis-sqlite} \
    $name]
  return "$label [regsub {[+-].*} $::VERSION($name) {}]"
}

proc say {language figures} {
  foreach {name cells} $figures {
    set line [format "%-22s %-7s" [title $name] $language]
    foreach {rate cpu} $cells {
      append line [format "%9s (%5s)" [number $rate] [number $cpu]]
    }
    puts $line
  }
  flush stdout
}

# The table of the README: jobs a second, and the processor time of a job whose
# handler does nothing.
proc table {all} {
  set lines [head {"" "nothing, 1" 4 16 "5 ms, 1" 4 16 "\u00b5s, 1" 4 16}]
  foreach {language figures} $all {
    foreach {name cells} $figures {
      set row [list "[title $name], $language"]
      foreach {rate -} $cells {lappend row [number $rate]}
      foreach {- cpu} [lrange $cells 0 5] {lappend row [number $cpu]}
      lappend lines [table_row $row]
    }
  }
  return $lines
}

proc put_table {all load} {
  global root jobs RUNS
  set cpu "unknown processor"
  catch {regexp {model name\s*:\s*([^\n]*)} [read_file /proc/cpuinfo] -> cpu}
  set about "[clock format [clock seconds] -format %Y-%m-%d], [exec nproc]\
    cores, $cpu, load average $load; median of $RUNS runs of $jobs\
    and (5 ms) [expr {$jobs/5}] jobs."
  set readme $root/test/bench/README.md
  write_text $readme [put_between [read_file $readme] workers \
    tcl/bench/workers.tcl [list $about "" {*}[table $all]]]
  puts "$readme: [llength [table $all]] lines"
}

proc load {} {
  return [lindex [read_file /proc/loadavg] 0]
}

set failed 0
file mkdir $peers
cd $peers              ;# the claimq.so of the tree is no module of Python
set place [expr {[file writable /dev/shm] ? "/dev/shm" : $peers}]
append place /claimq-workers-[pid]
set ready [lmap language $languages {
  list $language [[string tolower $language]_workers]
}]
if {$option eq "-install"} exit
set load [load]
puts "jobs a second (processor time of a job, us); load $load"
puts [format "%-22s %-7s%s" "" "" [join [lmap what {"nothing, 1" 4 16 \
  "5 ms, 1" 4 16} {format %17s $what}] ""]]
set all {}
foreach one $ready {
  lassign $one language workers
  lappend all $language [measure $language $workers]
  say {*}[lrange $all end-1 end]
}
file delete -force $place
append load " to [load]"
puts "load $load"
if {$option eq "-readme" && !$failed} {put_table $all $load}
exit $failed
