# checks.tcl: checks the architecture.
#
#     tclsh tcl/checks.tcl BUILD CLAIMQ.SO AMALGAMATION.SO
#
# What ext/ARCHITECTURE.md says and a compiler does not enforce: SQL lives in
# sql/ only, the pure files know nothing of SQLite, dependencies point one
# way, one symbol is exported, nothing global changes, functions stay small
# and say what they do.
# What cannot be seen in the text is looked up in the object files (nm, objdump,
# readelf).  Each check is one test, and names every offender.

set root [file normalize [file join [file dirname [info script]] ..]]
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

source [file join [file dirname [info script]] files.tcl]

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

proc long_files {files max} {
  set out {}
  foreach file $files {
    set n [llength [lines_of $file]]
    if {$n > $max} {lappend out "$file: $n lines"}
  }
  return $out
}

# The Worker of each language, which is to be read in one go: FILE FROM MAX;
# FROM fits its first line, and is empty if the whole file is counted.  It ends
# with the next brace in the first column, or with the file.
set WORKERS {
  ext/go/claimq/worker.go               {}                           125
  ext/java/claimq/Worker.java           {}                           125
  ext/node/claimq/job_thread.cjs        {}                           90
  ext/node/claimq/job_worker.cjs        {}                           85
  ext/php/Claimq.php                    {^final class ClaimqWorker}  150
  ext/python/claimq/_worker.py          {^class Worker}              100
  ext/ruby/claimq/lib/claimq/worker.rb  {}                           130
  ext/rust/claimq/src/worker.rs         {}                           135
}
proc long_workers {workers} {
  set out {}
  foreach {file from max} $workers {
    set lines [lines_of $file]
    set end [llength $lines]
    set start 0
    if {$from ne ""} {
      set start [lsearch -regexp $lines $from]
      set brace [lsearch -exact -start $start $lines "\}"]
      if {$brace > $start} {set end [expr {$brace+1}]}
    }
    set n [expr {$end-$start}]
    if {$start < 0} {
      lappend out "$file: there is no $from"
    } elseif {$n > $max} {
      lappend out "$file: $n lines, $max are allowed"
    }
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

# The layers, from the bottom.  A file may use its own layer and those below;
# what is not named here is a discipline.
set LAYERS {
  {sha256.c rust_debug.c core_*.c claim_plan.c}
  {op.c args.c rows.c id_list.c watch.c stmt.c schema.c request.c txn.c lease.c}
  {origin.c look.c claim.c verb.c put.c vacuum.c restore.c wait.c}
  {}
  {claim_vtab.c func.c help.c see.c}
  {claimq_main.c}
}
proc layer_of {file} {
  set n 0
  foreach patterns $::LAYERS {
    foreach pattern $patterns {
      if {[string match $pattern [file tail $file]]} {return $n}
    }
    incr n
  }
  return [lsearch -exact $::LAYERS {}]
}

# Two names of claimq_main.c are for everyone: SQLite's routines, and the table
# of disciplines, through which the layers above them call.
proc upward {files} {
  foreach file $files {
    foreach name [defined [object_of $file]] {set home($name) $file}
  }
  array unset home sqlite3_api
  array unset home claimqDiscipline
  set out {}
  foreach file $files {
    foreach name [undefined [object_of $file]] {
      if {[info exists home($name)]
          && [layer_of $home($name)] > [layer_of $file]} {
        lappend out "$file uses $name of $home($name)"
      }
    }
  }
  return $out
}

# A discipline knows no other: what they share is in lease.c and below.  Files
# of one discipline are named alike: lane.c, lane_claim.c.
proc sideways {files} {
  set middle [lsearch -exact $::LAYERS {}]
  set all {}
  foreach file $files {
    if {[layer_of $file] == $middle} {lappend all $file}
  }
  foreach file $all {
    foreach name [defined [object_of $file]] {set home($name) $file}
  }
  set out {}
  foreach file $all {
    foreach name [undefined [object_of $file]] {
      if {[info exists home($name)]
          && [discipline_of $home($name)] ne [discipline_of $file]} {
        lappend out "$file uses $name of $home($name)"
      }
    }
  }
  return $out
}
proc discipline_of {file} {
  return [lindex [split [file rootname [file tail $file]] _] 0]
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

set source  [lsort [glob ext/*.c vtab/*.c]]
set headers [lsort [glob -nocomplain ext/*.h vtab/*.h]]
set pure {}
foreach file $source {if {[layer_of $file] == 0} {lappend pure $file}}
set text [concat $source $headers [glob test/*.c test/*/*.c] \
  [glob -nocomplain test/*.h test/*/*.h] \
  [glob sql/*.sql tcl/*.tcl tcl/*.sh]]

set verbs {SELECT INSERT UPDATE DELETE REPLACE CREATE DROP ALTER BEGIN COMMIT
  END ROLLBACK SAVEPOINT RELEASE PRAGMA WITH ANALYZE ATTACH DETACH}
check "SQL text in C (it belongs in sql/)" \
  [grep_code $source "\"\\s*([join $verbs |])\\M"]
check "// comments" [grep_code [concat $source $headers] {(^|[^:])//}]

set plain {claimq_core claim_plan rust_debug_table stddef stdint string assert
  limits}
check "pure files include other headers than $plain" \
  [grep_code [concat $pure ext/claimq_core.h] \
    "#\\s*include\\s+\[\"<\](?!([join $plain |])\\.h)"]
check "pure files use nothing of SQLite, no memory, no clock" \
  [uses $pure {^(sqlite3_|malloc|calloc|realloc|free|time|clock|rand)}]
set libc {malloc calloc realloc free strdup v?f?s?n?printf(_chk)? puts putchar
  fputs fwrite time gettimeofday clock_gettime rand random getenv exit}
check "libc's own memory, output, clock or environment" \
  [uses $source ^_*([join $libc |])\$]
check "variables that can change" [variables $source]
check "dependencies that point upward" [upward $source]
check "disciplines that know each other" [sideways $source]

foreach library [list $so $amalgamation] {
  set names [exported $library]
  check "symbols exported by $library" [expr {
    $names eq "sqlite3_claimq_init" ? "" : [list $names]}]
}
check "$so is linked -z nodelete" [expr {
  [regexp NODELETE [exec readelf -d $so]] ? "" : [list "no NODELETE flag"]}]

check "lines over 80 columns" [long_lines $text]
check "files over 1500 lines" \
  [long_files [concat $source $headers [glob tcl/*.tcl]] 1500]
check "a Worker longer than it is to be" [long_workers $WORKERS]
check "functions over 100 lines" [long_functions $source 100]
check "functions of more than 6 lines without a comment above them" \
  [bare_functions $source 6]

check "procs of tests that are defined twice" \
  [copied_procs [lsort [glob test/*.test]] \
    {tcl/tester.tcl tcl/workers.tcl tcl/faultsim.tcl}]

set allowed {Makefile README.md LICENSE CHANGELOG.md ext vtab sql tcl test
  build claimq.so}
check "at the top level, but not in the layout" \
  [lmap file [glob *] {if {$file in $allowed} continue; set file}]

puts "$npass passed, $nfail failed"
exit [expr {$nfail > 0}]
