# python.tcl: tests of the Python package that are written in Python.
#
#     source tcl/test/tester.tcl
#     source tcl/test/python.tcl
#     python_tests command test/python/test_cli.py
#
# The package is put together in the test's own directory, of ext/lang/python
# and the extension under test, as `make packages` does it.  A script (unittest,
# see test/python/support.py) prints a line for each of its tests,
#
#     ok NAME
#     failed NAME: the last lines of why
#     SKIPPED NAME: why
#
# each of which becomes a test here, and may print lines that begin with "note".

# The first Python on the path that can load extensions: some are built
# without.  "" if there is none.
proc extension_python {} {
  foreach dir [concat [split $::env(PATH) :] /usr/bin /usr/local/bin] {
    set python $dir/python3
    if {[file executable $python] && ![catch {
      exec $python -c "import sqlite3; sqlite3.Connection.load_extension"
    }]} {
      return $python
    }
  }
}

# Put the package into ./python; returns the Python to use it with, or raises
# why there is none.
proc python_package {} {
  global env T claimq_so
  foreach {name why} {
    CLAIMQ_SQLITE "Python brings its own SQLite"
    LD_PRELOAD    "Python does not run with what is preloaded"
  } {
    if {[info exists env($name)]} {error $why}
  }
  set python [extension_python]
  if {$python eq ""} {error "no python3 here loads extensions"}
  if {![file isdirectory python/claimq]} {
    file mkdir python
    file copy $T(root)/ext/lang/python/claimq python/claimq
    file copy $claimq_so python/claimq/claimq.so
  }
  set env(PYTHONPATH) [file normalize python]
  set env(PYTHONDONTWRITEBYTECODE) 1
  return $python
}

proc python_tests {what script args} {
  global T
  if {[catch {python_package} python]} {
    skip_test $what $python
    return
  }
  python_script $what $python $script {*}$args
}

# The same with a Python that finds the package, and what else it needs.
proc python_script {what python script args} {
  global T
  catch {
    exec timeout 2000 $python -W ignore $T(root)/$script {*}$args 2>@1
  } out
  script_results $what $out
}

# A test for each line of a script's output, in whichever language.
proc script_results {what out} {
  set ended 0
  foreach line [split $out \n] {
    if {[regexp {^ok (\S+)$} $line -> name]} {
      pass_test $what-$name
    } elseif {[regexp {^failed (\S+): (.*)} $line -> name why]} {
      fail_test $what-$name $why
    } elseif {[regexp {^SKIPPED (\S+): (.*)} $line -> name why]} {
      skip_test $what-$name $why
    } elseif {[string match "note *" $line]} {
      puts $line
    } elseif {$line eq "end"} {
      set ended 1
    }
  }
  if {!$ended} {fail_test $what [string range $out end-2000 end]}
}

# Unpack a part of a source package of PyPI into a directory, once: the tests
# that a library has of its own.
proc python_source {python dir library version pattern} {
  if {[file isdirectory $dir]} return
  file delete -force $dir.new
  or_skip $python -m pip download --quiet --no-deps --no-binary $library \
    --ignore-requires-python --dest $dir.new $library$version
  exec tar -xzf [glob $dir.new/*.tar.gz] -C $dir.new \
    --strip-components 1 --wildcards $pattern
  file rename $dir.new $dir
}
