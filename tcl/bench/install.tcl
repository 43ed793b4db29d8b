# bench/install.tcl: what the benchmarks beside other queues need to run
# programs and to install libraries.  Part of bench/peers.tcl and
# bench/brokers.tcl.

proc env_or {name default} {
  if {[info exists ::env($name)] && $::env($name) ne ""} {
    return $::env($name)
  }
  return $default
}

# Of the output of a program that failed, the line that says why.
proc reason {output} {
  set lines [lmap line [split $output \n] {string trim $line}]
  set telling [lsearch -inline -nocase -regexp $lines {\merror\M|Error:}]
  if {$telling eq ""} {
    set telling [lindex [lsearch -all -inline -not -exact $lines ""] end]
  }
  if {$telling eq ""} {set telling "it failed without a word"}
  return [string range $telling 0 160]
}

# Runs a program; returns 1 and sets OUT to what it printed, or 0 and the
# reason.
proc works {outVar args} {
  upvar 1 $outVar out
  if {[catch {exec timeout 900 {*}$args 2>@1} out options]} {
    set code [dict get $options -errorcode]
    if {[lindex $code 0] eq "CHILDSTATUS" && [lindex $code 2] == 124} {
      append out "\nError: not done after 900 seconds"
    }
    set out [reason $out]
    return 0
  }
  return 1
}

proc have {tool} {
  return [expr {[auto_execok $tool] ne ""}]
}

# A Python that can load extensions into SQLite.  Some are built without;
# then any will do for the peers.
proc find_python {} {
  set any ""
  set dirs [concat [split [env_or PATH ""] :] /usr/local/bin /usr/bin]
  foreach dir $dirs {
    set python $dir/python3
    if {![file executable $python]} continue
    if {$any eq ""} {set any $python}
    if {[works - $python -c \
        "import sqlite3; sqlite3.Connection.enable_load_extension"]} {
      return [list $python 1]
    }
  }
  return [list $any 0]
}

# Has a Python import a library, which is installed into the folder if need be;
# an older release that need not be compiled is preferred.
# Returns the command that runs this Python, or "" and why.  PACKAGE is what to
# install, if that has another name.
proc python_peer {python dir peer whyVar {package ""}} {
  upvar 1 $whyVar why
  if {$package eq ""} {set package $peer}
  set run [list env PYTHONPATH=$dir PYTHONDONTWRITEBYTECODE=1 $python]
  if {[works why {*}$run -c "import $peer"]
      || ([works why $python -m pip install --quiet \
            --prefer-binary --disable-pip-version-check --target $dir $package]
          && [works why {*}$run -c "import $peer"])} {
    return $run
  }
}
