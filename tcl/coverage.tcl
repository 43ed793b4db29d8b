# coverage.tcl: what the tests reached, file by file.
#
#     tclsh tcl/coverage.tcl BUILD
#
# Reads what a build with --coverage counted (make coverage) by gcov, and
# prints for each file of ext/ and vtab/ the share of lines that ran and of
# branches that were taken.  The annotated sources (*.gcov) are left in
# BUILD/gcov: a line marked ##### never ran.

set root [file normalize [file join [file dirname [info script]] ..]]
set build [file normalize [lindex $argv 0]]
cd $root

# From gcov's report, the section on one file:
# {lines% nlines branches% nbranches}.
proc figures {report file} {
  array set found {Lines {100.00 0} Taken {100.00 0}}
  set here 0
  foreach line [split $report \n] {
    if {[regexp {^File '(.*)'} $line -> name]} {
      set here [string match */$file /$name]
    } elseif {$here && [regexp {^(Lines|Taken) .*:([0-9.]+)% of ([0-9]+)} \
        $line -> what percent n]} {
      set found($what) [list $percent $n]
    }
  }
  return [concat $found(Lines) $found(Taken)]
}

# What n items at percent mean in the sum.
proc hit {percent n} {
  return [expr {$percent*$n/100.0}]
}

file mkdir $build/gcov
puts [format "%-24s %8s %8s %10s %8s" file lines of branches of]
lassign {0 0 0 0} lines nlines branches nbranches
foreach file [lsort [glob ext/*.c vtab/*.c]] {
  set report [exec sh -c "cd $build/gcov && \
    gcov -b -c -s $root -o $build/[file dirname $file] $root/$file 2>&1"]
  lassign [figures $report $file] l nl b nb
  puts [format "%-24s %7s%% %8d %9s%% %8d" $file $l $nl $b $nb]
  set lines [expr {$lines + [hit $l $nl]}]
  set branches [expr {$branches + [hit $b $nb]}]
  incr nlines $nl
  incr nbranches $nb
}
puts [format "%-24s %7.2f%% %8d %9.2f%% %8d" total \
  [expr {100.0*$lines/$nlines}] $nlines \
  [expr {100.0*$branches/max($nbranches,1)}] $nbranches]
