# mutate.tcl: break the program in every place, and see a test fail.
#
#     tclsh tcl/test/mutate.tcl ?-file GLOB? ?-sample N? ?-seed K? ?-kinds LIST?
#                          ?-line N? ?-tests LIST? ?-within MS? ?-again? ?-new?
#                          ?-reach? ?-list?
#
# Each .c file of ext/ and vtab/ is compiled to assembly.  A mutant is the
# program with one conditional jump (or one instruction that stores a
# condition, or moves on one) changed:
#
#     je .L5    ->    jne .L5      flip
#     je .L5    ->                 never
#     je .L5    ->    jmp .L5      always
#
# It is assembled, linked, and tested.  A test that fails, crashes or does not
# end kills the mutant.  One that survives shows a test that is missing, or a
# condition that does not show outside (a shortcut, say).  Those stand
# in test/mutate.known, each with its reason:
#
#     FUNCTION KIND | the line of source | why nobody can tell
#
# No function has the name of another, and so an entry stays good when files
# are split and lines move, until its own line is changed.  FUNCTION is where
# the compiler put the jump: the one that the line was inlined into.  KIND is
# flip, never, always or several with commas, or *; flip#2 is only the
# second jump of that line.  A survivor that is not there makes this fail.
#
# -file    only sources that match one of these, e.g. 'ext/core/*.c vtab/see.c'
# -kinds   the default is all for the pure core, flip for the rest
# -line    only those of this line of the source, e.g. to try a new test
# -tests   these tests instead of those that reach the line
# -within  try only tests that take no longer than this together, to be soon at
#          what may survive; a run without it then tries the others, on that
#          alone
# -sample  every N-th mutant, beginning with the K-th (-seed)
# -again   also those that were tried before
# -new     not those that test/mutate.known explains
# -reach   count again which test reaches which line; else this is done when it
#          was not yet
# -list    only count them
#
# What was found is kept in build/mutate/*.tsv: a run that was stopped goes on
# where it was.  A mutant that was killed stays killed as long as its source
# compiles to the same code; a survivor is tried again when a test was changed.
# All else is in a directory of this process, in memory if that can be: several
# may run at once, each with files of its own.

set root [file normalize [file join [file dirname [info script]] .. ..]]
cd $root
set dir build/mutate
unset -nocomplain env(CLAIMQ_SOAK)   ;# The tests as make test runs them
set opt(-file) *
set opt(-line) *
set opt(-tests) {}
set opt(-within) {}
set opt(-sample) 1
set opt(-seed) 0
set opt(-kinds) {}
set opt(-again) 0
set opt(-new) 0
set opt(-reach) 0
set opt(-list) 0
while {[llength $argv]} {
  set argv [lassign $argv name]
  if {![info exists opt($name)]} {puts stderr "what is $name?"; exit 2}
  if {$name in {-again -new -reach -list}} {
    set opt($name) 1
  } else {
    set argv [lassign $argv opt($name)]
  }
}

#--------------------------------------------------------------------------
# Tests: those that can kill a mutant.  For the pure core it is core_test, with
# the tests of that file first (core:FILE).  For the rest it is every file of
# test/ that reaches the line, as a build with gcov has counted once: those that
# killed others first, then the quickest.

# What was counted is kept in a line for each test: its name, the time that it
# took, and lists of a file and the lines that it reached.
set reach_file $dir/reach.tsv

proc reach_key {} {
  return [digest {*}[sources] {*}[lsort [glob test/*.test]]]
}

# The tests that make test runs.
proc reach_candidates {} {
  set out {}
  foreach file [lsort [glob test/*.test]] {
    set head [join [lrange [read_lines $file] 0 9] \n]
    if {![regexp -line {^# group: *(\w+)} $head -> group]} {set group smoke}
    if {$group in {smoke test}} {lappend out [file rootname [file tail $file]]}
  }
  return $out
}

# Count what every test reaches.  One that does not pass on its own, or reaches
# nothing, kills nothing.
proc reach_make {} {
  global reach_file work
  set build build/reach
  exec make -s BUILD=$build SO=$build/claimq.so SANITIZE=--coverage \
    "OPT=-O0 -g -DNDEBUG -DCLAIMQ_COVERAGE_TEST" $build/claimq.so >@stdout
  set counts $work/reach
  foreach file [sources] {
    set note [file rootname $file].gcno
    file mkdir [file dirname $counts/$note]
    file copy -force $build/$note $counts/$note
  }
  set ::env(GCOV_PREFIX) $counts
  set ::env(GCOV_PREFIX_STRIP) [llength [file split [pwd]/x]]
  set fd [open $work/reach.tsv w]
  puts $fd [reach_key]
  foreach test [reach_candidates] {
    set start [clock milliseconds]
    set good [passes $test $build/claimq.so]
    set ms [expr {[clock milliseconds]-$start}]
    set lines [reach_lines $counts]
    if {!$good} {puts "$test does not pass on its own: not used"}
    if {$good && [llength $lines]} {puts $fd [list $test $ms {*}$lines]}
  }
  close $fd
  unset ::env(GCOV_PREFIX) ::env(GCOV_PREFIX_STRIP)
  file rename -force $work/reach.tsv $reach_file
}

# What was counted since the last time: {FILE LINES FILE LINES ...}.
proc reach_lines {counts} {
  set data [glob -nocomplain $counts/*.gcda $counts/*/*.gcda $counts/*/*/*.gcda]
  if {![llength $data]} {return {}}
  set out {}
  foreach line [split [exec gcov -t {*}$data 2>/dev/null] \n] {
    if {[regexp {^ *-: *0:Source:(.*)} $line -> file]} {
      lappend out $file {}
    } elseif {[regexp {^ *\d+\*?: *(\d+):} $line -> n]} {
      lset out end [concat [lindex $out end] $n]
    }
  }
  file delete {*}$data
  return $out
}

# Fills time(TEST) and reach(FILE,LINE).
proc reach_read {} {
  global reach_file reach time
  if {$::opt(-reach) || ![file exists $reach_file]} reach_make
  set rest [lassign [read_lines $reach_file] key]
  if {$key ne [reach_key]} {
    puts "sources or tests have changed: mutate.tcl -reach counts again what\
      each test reaches"
  }
  foreach line $rest {
    set lines [lassign $line test time($test)]
    foreach {file numbers} $lines {
      foreach n $numbers {lappend reach($file,$n) $test}
    }
  }
}

proc tests_of {file line} {
  if {[llength $::opt(-tests)]} {return $::opt(-tests)}
  if {[is_pure $file]} {return [core_test $file]}
  # A line that is not counted is part of the statement that begins before it
  while {$line > 0 && ![info exists ::reach($file,$line)]} {incr line -1}
  if {$line == 0} {return {}}
  return [lsort -command quicker $::reach($file,$line)]
}

# The test of a file of the pure core; how long it takes says how long it may.
proc core_test {file} {
  global time
  set test core:[file rootname [file tail $file]]
  if {![info exists time($test)]} {
    set start [clock milliseconds]
    must_pass $test
    set time($test) [expr {[clock milliseconds]-$start}]
  }
  return $test
}

# The same in the order in which to try them on a function.
proc tests_ordered {file function line} {
  set out {}
  set list [tests_of $file $line]
  foreach test [concat [killers $file $function] [killers $file ""] $list] {
    if {$test in $list && $test ni $out} {lappend out $test}
  }
  return $out
}

proc quicker {a b} {return [expr {$::time($a)-$::time($b)}]}

# How long a test may take shows in its processor time, which is the same
# however busy the machine is; one that only sleeps may do so for longer.
proc test_command {test so} {
  set took [expr {[info exists ::time($test)] ? $::time($test)/1000 : 30}]
  set run "[info nameofexecutable] test/$test.test"
  if {[regsub ^core: $test "" name]} {
    set run "$::work/core_test test/vectors $name"
  }
  return "ulimit -v 4000000; ulimit -t [expr {3+$took*3}]; exec env\
    CLAIMQ_FIRST=1 CLAIMQ_SO=$so CLAIMQ_TMP=$::work/tmp\
    timeout -k 1 [expr {60+$took*8}] $run"
}

# 1 if the test passes on a build.
proc passes {test so} {
  set failed [catch {exec sh -c [test_command $test $so] </dev/null 2>@1} out]
  return [expr {!$failed && [regexp {\d+ passed, 0 failed[^\n]*$} $out]}]
}

#--------------------------------------------------------------------------
# Building

# What may be changed is what was written: no merging of conditions, no memcpy()
# by the compiler.  What cannot happen (CQ_NEVER) is not there.
set cflags {-std=c99 -O1 -g -DCLAIMQ_COVERAGE_TEST
  -fno-if-conversion -fno-if-conversion2
  -fno-tree-loop-if-convert -mstringop-strategy=libcall -fPIC
  -fvisibility=hidden -Iext -Iext/core -Iext/store -Ibuild}

proc sources {} {
  return [lsort [glob ext/*.c ext/*/*.c vtab/*.c]]
}

proc is_pure {file} {
  return [regexp {^ext/core/|/claim_plan\.c$} $file]
}

proc kinds_of {file} {
  if {[llength $::opt(-kinds)]} {return $::opt(-kinds)}
  return [expr {[is_pure $file] ? "flip never always" : "flip"}]
}

# The directory of this process; those of processes that are gone go too.
proc work_open {} {
  set parent [expr {[file writable /dev/shm] ? "/dev/shm" : $::dir}]
  foreach old [glob -nocomplain $parent/claimq-mutate-*] {
    if {![file exists /proc/[lindex [split $old -] end]]} {
      catch {file delete -force $old}   ;# A test may not have ended yet
    }
  }
  set ::work $parent/claimq-mutate-[pid]
  file mkdir $::dir $::work
}

proc base {file ext} {
  return $::work/[string map {/ -} [file rootname $file]]$ext
}

proc assemble {asm object} {
  exec as -o $object $asm 2>@1
}

# The assembly and object of every file, and what tests need.
proc build_base {} {
  foreach file [sources] {
    exec gcc {*}$::cflags -S -o [base $file .s] $file 2>@1
    assemble [base $file .s] [base $file .o]
  }
  exec gcc {*}$::cflags -c -o $::work/claimq_sql.o build/claimq_sql.c
  exec gcc {*}$::cflags -c -o $::work/core_test.o test/core_test.c
}

# The objects of the files that pass a filter, one of them replaced.
proc objects {filter file object} {
  set out {}
  foreach x [sources] {
    if {$filter eq "" || [$filter $x]} {
      lappend out [expr {$x eq $file ? $object : [base $x .o]}]
    }
  }
  return $out
}

# Link what a test needs, once; a .so that was loaded is never written over.
proc link_so {file object} {
  set so $::work/claimq-[incr ::nso].so
  exec gcc -shared -Wl,-z,nodelete -o $so {*}[objects "" $file $object] \
    $::work/claimq_sql.o
  return $so
}

proc link_core {file object} {
  file delete $::work/core_test
  exec gcc -o $::work/core_test $::work/core_test.o \
    {*}[objects is_pure $file $object]
}

#--------------------------------------------------------------------------
# Mutants

set nso 0
set inverse {
  e ne z nz s ns o no p np c nc l nl b nb a na g ng
  le nle be nbe ae nae ge nge
}
foreach {a b} $inverse {
  set opposite($a) $b
  set opposite($b) $a
}

# What becomes of an instruction; empty if it has no condition.
proc changed {line kind} {
  global opposite
  if {[regexp {^\tj(\w+)\t(\S+)} $line -> cc target]} {
    if {![info exists opposite($cc)]} {return ""}
    return [dict get [list flip "\tj$opposite($cc)\t$target" never "\tnop" \
      always "\tjmp\t$target"] $kind]
  }
  if {[regexp {^\tset(\w+)\t(\S+)} $line -> cc target]} {
    if {![info exists opposite($cc)]} {return ""}
    return [dict get [list flip "\tset$opposite($cc)\t$target" \
      never "\tmovb\t\$0, $target" always "\tmovb\t\$1, $target"] $kind]
  }
  if {[regexp {^\tcmov(\w+)\t(.*)} $line -> cc operands]} {
    if {![info exists opposite($cc)]} {return ""}
    return [dict get [list flip "\tcmov$opposite($cc)\t$operands" \
      never "\tnop" always "\tmov\t$operands"] $kind]
  }
  return ""
}

# All mutants of a file, {row kind function line number}: row is that of the
# assembly, number tells apart those of one line of source.
proc mutants {asm kinds} {
  set out {}
  set row -1
  lassign {"" 0} function at
  foreach line $asm {
    incr row
    if {[regexp {^(\w+):} $line -> name]} {
      set function [lindex [split $name .] 0]
    } elseif {[regexp {^\t\.loc 1 (\d+) } $line -> n]} {
      if {$n > 0} {set at $n}
    } elseif {[changed $line flip] ne ""} {
      set number [incr count($function,$at)]
      foreach kind $kinds {
        lappend out [list $row $kind $function $at $number]
      }
    }
  }
  return $out
}

proc read_lines {file} {
  set fd [open $file]
  set text [read $fd]
  close $fd
  return [split $text \n]
}

# The test that a mutant dies of, or survived; or "quick" and the tests that it
# has survived within -within, with those of earlier runs.
proc fate {file asm mutant passed} {
  lassign $mutant row kind function at
  set fd [open $::work/mutant.s w]
  puts $fd [join [lreplace $asm $row $row \
    [changed [lindex $asm $row] $kind]] \n]
  close $fd
  assemble $::work/mutant.s $::work/mutant.o
  set so ""
  set killer survived
  set ms 0
  set quickest [lindex [tests_of $file $at] 0]
  foreach test [tests_ordered $file $function $at] {
    if {$test in $passed} continue
    if {$test ne $quickest && ![in_time $test ms]} {
      set killer quick
      continue
    }
    if {[string match core:* $test]} {
      link_core $file $::work/mutant.o
    } elseif {$so eq ""} {
      set so [link_so $file $::work/mutant.o]
    }
    if {![passes $test $so]} {
      set killer $test
      must_pass $test
      break
    }
    lappend passed $test
  }
  if {$so ne ""} {file delete $so}
  file delete -force $::work/tmp
  if {$killer eq "quick"} {return [concat quick $passed]}
  return $killer
}

# 1 if a test fits into -within, beside those that have taken `ms` before it.
proc in_time {test msVar} {
  upvar $msVar ms
  if {$::opt(-within) eq "" || ![info exists ::time($test)]} {return 1}
  if {$ms+$::time($test) > $::opt(-within)} {return 0}
  incr ms $::time($test)
  return 1
}

# A test that kills passes on what is not mutated.
proc must_pass {test} {
  global original proved
  if {[info exists proved($test)]} return
  if {[string match core:* $test]} {
    link_core "" ""
  } elseif {![info exists original]} {
    set original [link_so "" ""]
  }
  if {![passes $test [expr {[info exists original] ? $original : ""}]]} {
    puts "FAILED: $test on the original"
    exit 1
  }
  set proved($test) 1
}

# What killed last kills next, in the same function or at least the same file.
proc killers {file function} {
  global killed_by
  if {![info exists killed_by($file,$function)]} {return {}}
  return $killed_by($file,$function)
}

proc prefer {file function test} {
  if {$test eq "survived"} return
  foreach where [list $function ""] {
    set rest [lsearch -all -inline -not -exact [killers $file $where] $test]
    set ::killed_by($file,$where) [concat $test $rest]
  }
}

#--------------------------------------------------------------------------
# What was found before, and what is known

proc digest {args} {
  return [string range [exec cat {*}$args | sha256sum] 0 15]
}

# The code of a file, without places in the source and what is for debuggers.
proc code_digest {file} {
  set code [lindex [split [string map {\n.Letext0: \0} \
    [join [read_lines [base $file .s]] \n]] \0] 0]
  regsub -all -line {^\t\.(loc|file) .*$} $code {} code
  return [string range [exec sha256sum << $code] 0 15]
}

# The results of a file: one line {row kind killer when} each.  A killer that is
# "quick" and tests killed nothing yet: those tests, of a run with -within.
proc results_open {file} {
  global found quick results
  array unset found
  array unset quick
  set name $::dir/[file tail [base $file -[code_digest $file].tsv]]
  if {[file exists $name]} {
    foreach line [read_lines $name] {
      lassign [split $line \t] row kind killer when
      if {[lindex $killer 0] eq "quick"} {
        if {$when eq $::when} {set quick($row,$kind) [lrange $killer 1 end]}
      } elseif {$killer ne "survived" || $when eq $::when} {
        set found($row,$kind) $killer
      }
    }
  }
  set results [open $name a]
  fconfigure $results -buffering line
}

proc known_read {} {
  set out {}
  if {![file exists test/mutate.known]} {return $out}
  foreach line [read_lines test/mutate.known] {
    if {[regexp {^(\S+) (\S+) \| (.*) \| (.*)$} $line -> \
        function kind source reason]} {
      lappend out [list $function $kind [string trim $source] $reason]
    }
  }
  return $out
}

# The number of the entry that explains a survivor, or -1.
proc known_find {function kind number source} {
  set i -1
  foreach entry $::known {
    incr i
    lassign $entry fn k text
    if {$fn eq $function && $text eq [string trim $source]
        && ($k eq "*" || $kind in [split $k ,]
            || "$kind#$number" in [split $k ,])} {return $i}
  }
  return -1
}

# Name what explains nothing, if all that it may explain was tried.
proc known_unused {} {
  set i -1
  foreach entry $::known {
    incr i
    lassign $entry function kinds
    if {![info exists ::place($function)] || [info exists ::used($i)]} continue
    set tried [kinds_of $::place($function)]
    regsub -all {#\d+} $kinds {} kinds
    set kinds [split [string map {* flip,never,always} $kinds] ,]
    if {[llength [lsort -unique [concat $tried $kinds]]] == [llength $tried]} {
      puts "no longer needed in test/mutate.known: [lrange $entry 0 2]"
    }
  }
}

#--------------------------------------------------------------------------
# The run

proc try_file {file} {
  global opt found quick results count total
  set asm [read_lines [base $file .s]]
  set source [read_lines $file]
  array set count {all 0 killed 0 survived 0 known 0}
  set start [clock milliseconds]
  set tried 0
  results_open $file
  set i -1
  foreach mutant [mutants $asm [kinds_of $file]] {
    if {([incr i]-$opt(-seed)) % $opt(-sample)} continue
    lassign $mutant row kind function at number
    if {![string match $opt(-line) $at]} continue
    incr count(all)
    if {$opt(-list)} continue
    if {$opt(-new) && ![info exists found($row,$kind)]
        && [known_find $function $kind $number [lindex $source $at-1]] >= 0} {
      set found($row,$kind) survived
    }
    if {$opt(-again) || ![info exists found($row,$kind)]} {
      incr tried
      set passed {}
      if {!$opt(-again) && [info exists quick($row,$kind)]} {
        set passed $quick($row,$kind)
      }
      set killer [fate $file $asm $mutant $passed]
      if {$killer ne "survived" || ![llength $opt(-tests)]} {
        puts $results [join [list $row $kind $killer $::when] \t]
      }
      if {[lindex $killer 0] eq "quick"} {set killer survived}
      set found($row,$kind) $killer
      prefer $file $function $killer
    }
    judge $file $kind $function $at $number $found($row,$kind) \
      [lindex $source $at-1]
  }
  close $results
  set ms [expr {([clock milliseconds]-$start)/max($tried,1)}]
  puts [format "%-20s %5d mutants %5d killed %4d explained %4d survived\
    %6d ms each" $file $count(all) $count(killed) $count(known) \
    $count(survived) $ms]
  flush stdout
  foreach name [array names count] {incr total($name) $count($name)}
}

proc judge {file kind function at number killer source} {
  global count
  set ::place($function) $file
  if {$killer ne "survived"} {
    incr count(killed)
    return
  }
  set i [known_find $function $kind $number $source]
  if {$i >= 0} {
    incr count(known)
    set ::used($i) 1
    return
  }
  incr count(survived)
  puts "  SURVIVED $file:$at: $function $kind #$number:\
    [string trim $source]"
  flush stdout
}

exec make -s all tools build/claimq_sql.c >@stdout
work_open
build_base
set when [digest {*}[lsort [glob test/*.test test/*.c test/*.h]]]
set known [known_read]
array set total {all 0 killed 0 survived 0 known 0}
set files [lsort -unique [concat {*}[lmap x $opt(-file) {
  lsearch -all -inline -glob [sources] $x
}]]]

if {!$opt(-list)} reach_read
foreach file $files {try_file $file}
puts [format "%-20s %5d mutants %5d killed %4d explained %4d survived" total \
  $total(all) $total(killed) $total(known) $total(survived)]
if {$opt(-sample) == 1 && $opt(-line) eq "*" && !$opt(-list)} known_unused
file delete -force $work
puts "$total(killed) passed, $total(survived) failed"
exit [expr {$total(survived) > 0}]
