# coverage.tcl: what the tests reached, file by file.
#
#     tclsh tcl/test/coverage.tcl GCOV-BUILD ?CLANG-BUILD?
#
# make coverage runs the tests on two builds that count.  From the one made by
# gcc with --coverage come, by gcov, the lines that ran and the branches that
# were taken; from the one made by clang with -fcoverage-mcdc come, by
# llvm-cov, the conditions that were shown to decide on their own (MC/DC).
#
#     file                        lines       of   branches       of ...
#     ext/store/rows.c         100.00%       90    100.00%       47 ...
#
# Below the table stand the lines that never ran, and those with a branch that
# was never taken; GCOV-BUILD/gcov has the annotated sources.
#
# Ends with 1 if less than the goals is reached: see goal() below.  What cannot
# happen is marked CQ_ALWAYS or CQ_NEVER in the source (claimq_core.h) and is
# no branch in these builds; in the build with assert() the marks are checked.

set root [file normalize [file join [file dirname [info script]] .. ..]]
set build [file normalize [lindex $argv 0]]
set clang [lindex $argv 1]
cd $root

# Percent of lines and of branches that must be reached, over all files.
array set goal {lines 100.0 branches 100.0}

#--------------------------------------------------------------------------
# gcov

# The annotated source of a file, as gcov prints it; kept in BUILD/gcov.
proc annotated {file} {
  set text [exec gcov -b -c -t -o $::build/[file dirname $file] $file 2>@1]
  set fd [open $::build/gcov/[string map {/ -} $file].gcov w]
  puts $fd $text
  close $fd
  return [split $text \n]
}

# Count one file into N: lines, lines that ran, branches, branches taken.
# What was missed is added to the list `missed`.
proc count_file {file} {
  global N missed
  array set N [list $file,lines 0 $file,ran 0 $file,branches 0 $file,taken 0]
  set at ""
  foreach line [annotated $file] {
    if {[regexp {^branch +\d+ (never executed|taken (\d+))} $line -> - n]} {
      incr N($file,branches)
      if {$n ne "" && $n > 0} {
        incr N($file,taken)
      } elseif {[lindex $missed end 1] ne $at} {
        lappend missed [list branch $at]
      }
    } elseif {[regexp {^ *([0-9#=]+)\*?: *(\d+):(.*)} $line -> n at text]} {
      set at [format %-24s%s $file:$at [string trim $text]]
      incr N($file,lines)
      if {[string is integer $n]} {
        incr N($file,ran)
      } else {
        lappend missed [list line $at]
      }
    }
  }
}

#--------------------------------------------------------------------------
# llvm-cov

# Its report has one line for each file, which ends with: conditions, missed,
# percent.  Counts into N; nothing without a build by clang.
proc count_conditions {} {
  global N
  if {$::clang eq ""} return
  set dir [file normalize $::clang]
  exec llvm-profdata-19 merge -sparse -o $dir/all.profdata \
    {*}[glob $dir/prof/*.profraw] 2>@1
  set report [exec llvm-cov-19 report --show-mcdc-summary \
    -instr-profile=$dir/all.profdata $dir/claimq.so -object $dir/core_test]
  foreach line [split $report \n] {
    if {![regexp {^\S+\.c\s} $line]} continue
    foreach file $::files {
      if {[string match */$file /[lindex $line 0]]
          || [string match */[lindex $line 0] /$file]} {
        set N($file,conditions) [lindex $line end-2]
        set N($file,shown) [expr {[lindex $line end-2]-[lindex $line end-1]}]
      }
    }
  }
}

#--------------------------------------------------------------------------
# The table

proc percent {part whole} {
  return [expr {$whole ? 100.0*$part/$whole : 100.0}]
}

# "  98.10%      209" for PART of WHOLE, added to the total.
proc cell {file part whole} {
  global N
  if {![info exists N($file,$whole)]} {return [format %18s -]}
  if {$file ne "total"} {
    incr N(total,$part) $N($file,$part)
    incr N(total,$whole) $N($file,$whole)
  }
  return [format "%9.2f%% %7d" [percent $N($file,$part) $N($file,$whole)] \
    $N($file,$whole)]
}

proc row {file} {
  puts [format %-22s $file][cell $file ran lines][cell $file taken \
    branches][cell $file shown conditions]
}

file mkdir $build/gcov
set missed {}
set files [lsort [glob ext/*.c ext/*/*.c vtab/*.c]]
foreach file $files {count_file $file}
count_conditions
puts [format "%-22s%10s %7s%10s %7s%10s %7s" file lines of branches of \
  MC/DC of]
foreach file [concat $files total] {row $file}

foreach item $missed {
  lassign $item what at
  puts [format "never %-8s%s" [dict get {line ran branch taken} $what] $at]
}

set failed 0
foreach {part whole} {ran lines taken branches} {
  set got [percent $N(total,$part) $N(total,$whole)]
  if {$got < $goal($whole)} {
    puts [format "FAILED: %.2f%% of the %s, the goal is %.2f%%" $got $whole \
      $goal($whole)]
    set failed 1
  }
}
exit $failed
