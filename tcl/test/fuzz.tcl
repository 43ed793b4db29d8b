# fuzz.tcl: runs the fuzz targets of test/fuzz.
#
#     tclsh tcl/test/fuzz.tcl build/fuzz clang
#     tclsh tcl/test/fuzz.tcl build/fuzz clang -deps    only installs its tools
#
# Builds them (make fuzzers), runs each over its corpus in test/fuzz/corpus,
# which must be fine, file by file, and then lets it look for something new:
# a counted number of runs from a fixed seed, so that the same tree gives the
# same answer tomorrow.  All targets at once.
#
#     CLAIMQ_SOAK=100     this many minutes instead, from a seed that is new
#                         each time and printed; interesting inputs are kept in
#                         build/fuzz/soak for the next time
#     CLAIMQ_SEED=7       that seed
#
# An input that makes a target fail is kept in build/fuzz, and the command that
# runs it again is printed:
#
#     build/fuzz/fuzz_ops build/fuzz/ops-crash-50cace21
#     FUZZ_TRACE=1 build/fuzz/fuzz_ops ...          the same, with all its SQL
#     build/fuzz/fuzz_ops -minimize_crash=1 -max_total_time=60 ...
#
# To add to a corpus what a long run found: build/fuzz/fuzz_ops -merge=1
# test/fuzz/corpus/ops build/fuzz/soak/ops.  Keep it small.
#
# One check for each file and one for each search.  Without clang or its
# libFuzzer there is nothing to run: SKIPPED.

set root [file normalize [file join [file dirname [info script]] .. ..]]
cd $root
lassign $argv dir clang mode
set npass 0
set nfail 0

# Longest input that is worth trying, and how many are tried without a soak:
# about ten seconds of a core.
array set TARGETS {args 1000 ops 1200 rows 800}
array set RUNS {args 400 ops 100 rows 120}

proc pass {} {incr ::npass}
proc fail {what why} {
  incr ::nfail
  puts "FAILED fuzz $what"
  puts "  [string map {\n "\n  "} $why]"
}
proc finish {} {
  puts "$::npass passed, $::nfail failed"
  exit [expr {$::nfail > 0}]
}

# Run a command: 1 if all is well.  OUT gets what it printed.
proc run {command outVar} {
  upvar 1 $outVar out
  return [expr {![catch {exec {*}$command 2>@1} out]}]
}

# The end of what libFuzzer printed, without its statistics of new inputs.
proc tail_of {out} {
  set lines [lsearch -all -inline -not -regexp [split $out \n] \
    {^#\d+\s+(NEW|REDUCE|pulse|RELOAD)|^stat::|^\s*$|# Uses:}]
  return [join [lrange $lines end-40 end] \n]
}

#--------------------------------------------------------------------------
# Building

# Why there can be no fuzzer; empty if there can.
proc why_not {} {
  if {[auto_execok $::clang] eq ""} {return "there is no $::clang"}
  set fd [open $::dir/probe.c w]
  puts $fd "int LLVMFuzzerTestOneInput(void){return 0;}"
  close $fd
  if {![run [list $::clang -fsanitize=fuzzer,address,undefined \
      -o $::dir/probe $::dir/probe.c] out]} {
    return "$::clang cannot link a fuzzer (libclang-rt is missing?)"
  }
  return ""
}

# Install the compiler, and its runtime libraries: where these are and which
# version they must have it says itself.  What cannot be installed is
# reported later.
proc install {} {
  if {[why_not] eq ""} return
  catch {exec sh tcl/test/deps.sh -part fuzz $::clang $::clang >@stdout 2>@1}
  if {[catch {exec $::clang -dumpversion} version]} return
  set package libclang-rt-[lindex [split $version .] 0]-dev
  catch {exec sh tcl/test/deps.sh -part fuzz \
    [exec $::clang -print-runtime-dir] $package >@stdout 2>@1}
}

#--------------------------------------------------------------------------
# The corpus

# Input FILE of a target failed: say so, and how to see it again.
proc report {target file out} {
  fail "$target: $file" "[tail_of $out]\nto run it again:\
    $::dir/fuzz_$target $file"
}

proc run_corpus {target} {
  set files [lsort [glob -nocomplain test/fuzz/corpus/$target/*]]
  if {[llength $files] == 0} {fail $target "there is no corpus"; return}
  if {[run [concat $::dir/fuzz_$target $files] out]} {
    foreach file $files pass
    return
  }
  foreach file $files {
    if {[run [list $::dir/fuzz_$target $file] out]} pass else {
      report $target $file $out
    }
  }
}

#--------------------------------------------------------------------------
# The search

set soak [expr {[info exists env(CLAIMQ_SOAK)]}]
set seed [expr {[info exists env(CLAIMQ_SEED)] ? $env(CLAIMQ_SEED)
                : $soak ? [clock milliseconds] % 1000000007 : 1}]

# How long a search goes on, as an option of libFuzzer's.
proc extent {target} {
  if {!$::soak} {return -runs=$::RUNS($target)}
  return -max_total_time=[expr {round(60*$::env(CLAIMQ_SOAK))}]
}

# Start the search of a target: its output goes to a file.
proc start_search {target} {
  global dir seed soak
  set work $dir/[expr {$soak ? "soak" : "new"}]/$target
  if {!$soak} {file delete -force $work}
  file mkdir $work
  set command [list $dir/fuzz_$target -seed=$seed [extent $target] \
    -max_len=$::TARGETS($target) -len_control=20 -timeout=60 \
    -rss_limit_mb=2048 -dict=test/fuzz/fuzz.dict -print_final_stats=1 \
    -artifact_prefix=$dir/$target- $work test/fuzz/corpus/$target]
  set chan [open |[list sh -c {exec "$@" >"$0" 2>&1} $dir/$target.log \
    {*}$command]]
  fconfigure $chan -blocking 1
  return $chan
}

proc end_search {target chan} {
  global dir seed
  set bad [catch {read $chan; close $chan} - options]
  set fd [open $dir/$target.log]
  fconfigure $fd -encoding binary
  set out [read $fd]
  close $fd
  set runs 0
  set cover 0
  regexp {stat::number_of_executed_units:\s*(\d+)} $out -> runs
  regexp {.*cov: (\d+)} $out -> cover
  puts "fuzz $target: seed $seed, $runs runs, $cover places reached"
  if {$bad} {
    set file "?"
    regexp {Test unit written to (\S+)} $out -> file
    report $target $file $out
  } elseif {$runs < 1} {
    fail $target "no run at all"
  } else {
    pass
  }
}

file mkdir $dir
if {$mode eq "-deps"} {
  install
  exit
}
set why [why_not]
if {$why ne ""} {
  puts "SKIPPED fuzz: $why"
  finish
}
if {![run [list make -s -j2 fuzzers CLANG=$clang] out]} {
  fail build $out
  finish
}
set targets [lsort [array names TARGETS]]
foreach target $targets {run_corpus $target}
set chans [lmap target $targets {start_search $target}]
foreach target $targets chan $chans {end_search $target $chan}
finish
