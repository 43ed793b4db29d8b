# checks.tcl: checks the architecture.
#
#     tclsh tcl/test/checks.tcl BUILD CLAIMQ.SO AMALGAMATION.SO
#
# What ext/doc/architecture.md says and a compiler does not enforce: SQL lives
# in sql/ only, the pure files know nothing of SQLite, dependencies point one
# way, one symbol is exported, nothing global changes, functions stay small and
# say what they do.  What cannot be seen in the text is looked up in the object
# files (nm, objdump, readelf).  Each check is one test, and names every
# offender.

set root [file normalize [file join [file dirname [info script]] .. ..]]
cd $root
lassign $argv build so amalgamation

set npass 0
set nfail 0

# A check passes if its list of offenders is empty.
proc check {what offenders} {
  if {[llength $offenders] == 0} {
    incr ::npass
    return
  }
  incr ::nfail
  puts "FAILED $what:"
  foreach line $offenders {puts "  $line"}
}

source tcl/build/files.tcl
source tcl/build/layers.tcl

proc lines_of {file} {
  return [split [string trimright [read_file $file] \n] \n]
}

#--------------------------------------------------------------------------
# Text

# C source without its comments; line numbers stay.
proc code_of {file} {
  set rx {/\*(?:[^*]|\*+[^*/])*\*+/|//[^\n]*}
  append rx {|"(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*'}
  set text [read_file $file]
  set out ""
  set i 0
  foreach pair [regexp -all -inline -indices $rx $text] {
    lassign $pair from to
    set piece [string range $text $from $to]
    append out [string range $text $i $from-1]
    if {[string index $piece 0] eq "/"} {
      set piece [expr {[string index $piece 1] eq "/" ? "//" :
        " [string repeat \n [regexp -all \n $piece]]"}]
    }
    append out $piece
    set i [expr {$to+1}]
  }
  return [split $out[string range $text $i end] \n]
}

# FILE:LINE of code that fits a regular expression.
proc grep_code {files rx} {
  set out {}
  foreach file $files {
    set n 0
    foreach line [code_of $file] {
      incr n
      if {[regexp -- $rx $line]} {lappend out "$file:$n: [string trim $line]"}
    }
  }
  return $out
}

proc long_lines {files} {
  set out {}
  foreach file $files {
    set n 0
    foreach line [lines_of $file] {
      incr n
      # A message that a trigger or a constraint raises is one literal.
      if {[string length $line] > 80
          && ![regexp {RAISE\(ABORT, '|CONSTRAINT "} $line]} {
        lappend out $file:$n
      }
    }
  }
  return $out
}

# Phrases at which a reader of English stumbles: say "this many", "for that
# long", "is available", "learns".  Also where a line ends within one.
proc odd_phrases {files} {
  set rx {\y(?:so\s+(?:many|long)|can\s+be\s+had|comes\s+to}
  append rx {|tol[d]|sees\s+to\s+it)\y}
  set out {}
  foreach file $files {
    set fd [open $file]
    fconfigure $fd -encoding utf-8
    set text [read $fd]
    close $fd
    # Where a comment goes on in the next line its marks are no words.
    regsub -all -line {^[ \t]*(?:\*\*|--|#|//[/!]?)} $text {} text
    foreach {pair} [regexp -all -inline -indices -nocase $rx $text] {
      set n [regexp -all \n [string range $text 0 [lindex $pair 0]]]
      set what [string range $text {*}$pair]
      lappend out "$file:[expr {$n+1}]: [regsub -all {\s+} $what { }]"
    }
  }
  return $out
}

proc long_files {files max} {
  set out {}
  foreach file $files {
    set n [llength [lines_of $file]]
    if {$n > $max} {lappend out "$file: $n lines"}
  }
  return $out
}

# The Worker of each language, which is to be read in one go: FILE MAX.
set WORKERS {
  ext/lang/go/claimq/loop.go                 240
  ext/lang/go/claimq/worker.go               140
  ext/lang/java/claimq/Holder.java           165
  ext/lang/java/claimq/Loop.java             170
  ext/lang/java/claimq/Worker.java           110
  ext/lang/node/claimq/loop_thread.cjs       250
  ext/lang/node/claimq/worker.cjs             80
  ext/lang/php/claimq/Holder.php             155
  ext/lang/php/claimq/Loop.php               245
  ext/lang/php/claimq/Worker.php             105
  ext/lang/python/claimq/_loop.py            230
  ext/lang/python/claimq/_worker.py           90
  ext/lang/ruby/claimq/lib/claimq/holder.rb  105
  ext/lang/ruby/claimq/lib/claimq/loop.rb    145
  ext/lang/ruby/claimq/lib/claimq/worker.rb   80
  ext/lang/rust/claimq/src/heart.rs          120
  ext/lang/rust/claimq/src/jobs.rs            90
  ext/lang/rust/claimq/src/turn.rs           193
  ext/lang/rust/claimq/src/worker.rs         160
}
proc long_workers {workers} {
  set out {}
  foreach {file max} $workers {
    set n [llength [lines_of $file]]
    if {$n > $max} {lappend out "$file: $n lines, $max are allowed"}
  }
  return $out
}

# The functions of a file, which begin and end in the first column, as the style
# has it: FIRST LINES COMMENTED ...
proc functions_of {file} {
  set out {}
  set n 0
  set start 0
  set body 0
  set before ""
  foreach line [lines_of $file] {
    incr n
    if {!$start && [regexp {^[A-Za-z_][^;]*\(} $line]} {
      set start $n
      set commented [string match {*\*/} $before]
    }
    if {$start && [regexp {\)\{$} $line]} {set body 1}
    if {!$body && [regexp {^$|[;\}]\s*$} $line]} {set start 0}
    if {[string index $line 0] eq "\}"} {
      if {$body} {lappend out $start [expr {$n-$start+1}] $commented}
      lassign {0 0} start body
    }
    set before $line
  }
  return $out
}

proc long_functions {files max} {
  set out {}
  foreach file $files {
    foreach {start n commented} [functions_of $file] {
      if {$n > $max} {lappend out "$file:$start: $n lines"}
    }
  }
  return $out
}

proc bare_functions {files max} {
  set out {}
  foreach file $files {
    foreach {start n commented} [functions_of $file] {
      if {$n > $max && !$commented} {lappend out "$file:$start: $n lines"}
    }
  }
  return $out
}

#--------------------------------------------------------------------------
# Objects

proc object_of {file} {
  return $::build/[file rootname $file].o
}

# Names an object needs from elsewhere.
proc undefined {object} {
  set out {}
  foreach line [split [exec nm -u $object] \n] {lappend out [lindex $line end]}
  return $out
}

# Names an object defines for others.
proc defined {object} {
  set out {}
  foreach line [split [exec nm -g --defined-only $object] \n] {
    if {[llength $line] == 3} {lappend out [lindex $line 2]}
  }
  return $out
}

proc uses {files rx} {
  set out {}
  foreach file $files {
    foreach name [undefined [object_of $file]] {
      if {[regexp -- $rx $name]} {lappend out "$file: $name"}
    }
  }
  return $out
}

proc exported {library} {
  set out {}
  foreach line [split [exec nm -D --defined-only $library] \n] {
    lappend out [lindex $line end]
  }
  return $out
}

# Variables that can change.  Constant tables with pointers in them are in
# .data.rel.ro, which the loader makes read-only.
proc variables {files} {
  set out {}
  foreach file $files {
    foreach line [split [exec objdump -t [object_of $file]] \n] {
      if {[regexp {\sO\s+(\S+)\s+\S+\s+(?:\.hidden )?(\S+)$} $line \
          -> section name]
        && ![regexp {^\.(rodata|data\.rel\.ro)} $section]
        && ![regexp {^__(gcov|llvm|asan|ubsan|sancov)} $name]
        && $name ne "sqlite3_api"
      } {
        lappend out "$file: $name in $section"
      }
    }
  }
  return $out
}

# What files use of each other: {FILE NAME HOME} ...  SQLite's routines are for
# everyone.
proc uses_within {files} {
  foreach file $files {
    foreach name [defined [object_of $file]] {set home($name) $file}
  }
  array unset home sqlite3_api
  set out {}
  foreach file $files {
    foreach name [undefined [object_of $file]] {
      if {[info exists home($name)]} {
        lappend out [list $file $name $home($name)]
      }
    }
  }
  return $out
}

proc upward {files} {
  set out {}
  foreach use [uses_within $files] {
    lassign $use file name home
    # Through the table of disciplines the layers above them call.
    if {[layer_of $home] > [layer_of $file] && $name ne "claimqDiscipline"} {
      lappend out "$file uses $name of $home"
    }
  }
  return $out
}

# Inside ext/store there is an order of files, too.
proc disorder {files order} {
  set out {}
  foreach file $files {
    set n [lsearch -exact $order [file rootname [file tail $file]]]
    if {$n < 0} {lappend out "$file is not in the list"}
    set place($file) $n
  }
  foreach use [uses_within $files] {
    lassign $use file name home
    if {$place($home) > $place($file)} {
      lappend out "$file uses $name of $home"
    }
  }
  return $out
}

# The folders of one layer do not know each other: no discipline another.
proc sideways {files} {
  set out {}
  foreach use [uses_within $files] {
    lassign $use file name home
    if {[layer_of $home] == [layer_of $file]
        && [file dirname $home] ne [file dirname $file]} {
      lappend out "$file uses $name of $home"
    }
  }
  return $out
}

#--------------------------------------------------------------------------
# Tests

# The procs that a Tcl file defines, anywhere in it: NAME LINE BODY ...
proc procs_of {file} {
  set out {}
  set n 0
  set lines [lines_of $file]
  foreach line $lines {
    incr n
    if {![regexp {^\s*proc (\w+) } $line -> name]} continue
    set body [string trim $line]
    for {set i $n} {![info complete $body] && $i < [llength $lines]} {incr i} {
      append body \n [string trim [lindex $lines $i]]
    }
    lappend out $name $n $body
  }
  return $out
}

# Words of the harness that a test defines again, and procs that stand in two
# tests: both belong into tester.tcl, once.
proc copied_procs {files harness} {
  foreach file $harness {
    foreach {name line body} [procs_of $file] {set home($name) $file:$line}
  }
  set out {}
  foreach file $files {
    foreach {name line body} [procs_of $file] {
      if {[info exists home($name)]} {
        lappend out "$file:$line: $name is in $home($name)"
      } elseif {[info exists seen($body)]} {
        lappend out "$file:$line: $name stands in $seen($body), too"
      }
      set seen($body) $file:$line
    }
  }
  return $out
}

#--------------------------------------------------------------------------

set source  [lsort [glob ext/*.c ext/*/*.c vtab/*.c]]
set headers [lsort [glob ext/*.h ext/*/*.h]]
set pure [concat [glob ext/core/*.c] vtab/claim_plan.c]
set text [concat $source $headers [glob test/*.c test/*/*.c] \
  [glob -nocomplain test/*.h test/*/*.h] \
  [glob sql/*.sql sql/*/*.sql tcl/*/*.tcl tcl/*/*.sh]]

set verbs {SELECT INSERT UPDATE DELETE REPLACE CREATE DROP ALTER BEGIN COMMIT
  END ROLLBACK SAVEPOINT RELEASE PRAGMA WITH ANALYZE ATTACH DETACH}
check "SQL text in C (it belongs in sql/)" \
  [grep_code $source "\"\\s*([join $verbs |])\\M"]
check "// comments" [grep_code [concat $source $headers] {(^|[^:])//}]

set plain {claimq_core claim_plan rust_debug_table stddef stdint string assert
  limits}
check "pure files include other headers than $plain" \
  [grep_code [concat $pure ext/core/claimq_core.h] \
    "#\\s*include\\s+\[\"<\](?!([join $plain |])\\.h)"]
check "pure files use nothing of SQLite, no memory, no clock" \
  [uses $pure {^(sqlite3_|malloc|calloc|realloc|free|time|clock|rand)}]
set libc {malloc calloc realloc free strdup v?f?s?n?printf(_chk)? puts putchar
  fputs fwrite time gettimeofday clock_gettime rand random getenv exit}
# (TZDIR is looked up by the one file that reads the system's zoneinfo, and how
# long a writer waits for others has nothing to do with the time of day.)
set allowed {{ext/store/zoneinfo.c: getenv} {ext/store/gate.c: clock_gettime}}
check "libc's own memory, output, clock or environment" \
  [lmap use [uses $source ^_*([join $libc |])\$] {
    if {$use in $allowed} continue
    set use
  }]
check "variables that can change" [variables $source]
check "files in a folder that has no layer (tcl/build/layers.tcl)" \
  [lmap file $source {if {[layer_of $file] >= 0} continue; set file}]
check "dependencies that point upward" [upward $source]
check "files of ext/store out of their order (tcl/build/layers.tcl)" \
  [disorder [lsort [glob ext/store/*.c]] $STORE]
check "disciplines that know each other" [sideways $source]

foreach library [list $so $amalgamation] {
  set names [exported $library]
  check "symbols exported by $library" [expr {
    $names eq "sqlite3_claimq_init" ? "" : [list $names]}]
}
check "$so is linked -z nodelete" [expr {
  [regexp NODELETE [exec readelf -d $so]] ? "" : [list "no NODELETE flag"]}]

check "lines over 80 columns" [long_lines $text]
check "phrases that are odd English" [odd_phrases [lsort [concat $source \
  $headers [glob sql/*.sql sql/*/*.sql tcl/*/*.tcl *.md ext/*.md ext/*/*.md \
    ext/lang/*/*.* ext/lang/*/*/*.* test/*.* test/{bench,cluster,fuzz}/*.* \
    test/{packages,python}/*.*]]]]
check "files over 1200 lines" \
  [long_files [concat $source $headers [glob tcl/*/*.tcl]] 1200]
check "a Worker longer than it is to be" [long_workers $WORKERS]
check "functions over 100 lines" [long_functions $source 100]
check "functions of more than 6 lines without a comment above them" \
  [bare_functions $source 6]

check "procs of tests that are defined twice" \
  [copied_procs [lsort [glob test/*.test]] \
    {tcl/test/tester.tcl tcl/test/workers.tcl tcl/test/faultsim.tcl}]

# (A log is what somebody made who keeps the output of a run: make test >x.log)
set allowed {Makefile README.md LICENSE CHANGELOG.md ext vtab sql tcl test
  build claimq.so}
check "at the top level, but not in the layout" [lmap file [glob *] {
  if {$file in $allowed || [file extension $file] eq ".log"} continue
  set file
}]

puts "$npass passed, $nfail failed"
exit [expr {$nfail > 0}]
