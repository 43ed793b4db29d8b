# bench/wait.tcl: claimq_wait() beside honker's own waiting, from Python.
#
#     tclsh tcl/bench/wait.tcl CLAIMQ.SO QUICK
#
# Prints what test/bench/wait_python.py prints, JSON objects, one a line, for
# claimq and for honker, which is installed by name into build/peers, once, and
# nowhere else.  What cannot be installed or run is skipped:
#     SKIPPED: wait NAME: reason

set root [file normalize [file join [file dirname [info script]] .. ..]]
if {[llength $argv] != 2} {
  puts stderr "usage: tclsh tcl/bench/wait.tcl CLAIMQ.SO QUICK"
  exit 2
}
lassign $argv so quick
set so [file normalize $so]
set home $root/build/peers
set script $root/test/bench/wait_python.py

# 1 and what a program printed, or 0 and the last line of it.
proc works {outVar args} {
  upvar 1 $outVar out
  if {[catch {exec timeout 900 {*}$args 2>@1} out]} {
    set lines [lsearch -all -inline -not -exact [split $out \n] ""]
    set out [string range [lindex $lines end-1] 0 160]
    return 0
  }
  return 1
}

# A Python that can load extensions into SQLite; "" if there is none.
proc find_python {} {
  foreach dir [concat [split $::env(PATH) :] /usr/local/bin /usr/bin] {
    set python $dir/python3
    if {[file executable $python] && [works - $python -c \
        "import sqlite3; sqlite3.Connection.enable_load_extension"]} {
      return $python
    }
  }
}

set python [find_python]
if {$python eq ""} {
  puts "SKIPPED: wait (Python): no python3 that loads SQLite extensions"
  exit 0
}
if {![file isdirectory /dev/shm]} {
  puts "SKIPPED: wait (Python): there is no /dev/shm"
  exit 0
}
set run [list env PYTHONPATH=$home/py PYTHONDONTWRITEBYTECODE=1 $python]
foreach way {claimq honker} {
  if {$way eq "honker" && ![works why {*}$run -c "import honker"]
      && !([works why $python -m pip install --quiet \
             --disable-pip-version-check --target $home/py honker]
           && [works why {*}$run -c "import honker"])} {
    puts "SKIPPED: wait honker: $why"
    continue
  }
  if {[works out {*}$run $script $way /dev/shm/claimq-wait-[pid] $so $quick]} {
    puts $out
  } else {
    puts "FAILED: $script $way: $out"
    exit 1
  }
  flush stdout
}
