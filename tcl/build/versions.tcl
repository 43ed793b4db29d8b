# versions.tcl: claimq on other versions of SQLite than the system's.
#
#     tclsh tcl/build/versions.tcl 3.53.4 3.45.1     fetch, build, if need be
#     tclsh tcl/test/runtests.tcl -sqlite 3.53.4 -files smoke claimq.so
#
# The source of SQLite comes from the npm package better-sqlite3, which carries
# the amalgamation.  It is unpacked into build/sqlite-VERSION and built there
# as libsqlite3.so.0, which LD_LIBRARY_PATH then puts in the place of the
# system's: Debian's tclsh and its sqlite3 package run on it unchanged.  What
# was built before is used again.
#
# A version may have a suffix that says how it is built: 3.53.4-debug has
# SQLite's own assert()s, and API_ARMOR, which refuses calls with wrong
# arguments; 3.53.4-tsan is for a program that runs under ThreadSanitizer.
#
# That a test really runs on the version it was meant for is checked by
# tester.tcl, in every process.

# One of each minor version: {version package}.  There is no 3.52.  The first
# one is older than what claimq accepts: test/old.test.
set SQLITES {
  3.38.2 7.5.1   3.39.0 7.6.0   3.40.1 8.1.0   3.41.2 8.3.0
  3.42.0 8.4.0   3.43.1 8.7.0   3.44.2 9.2.2   3.45.1 9.4.0   3.46.0 10.1.0
  3.47.2 11.7.0  3.48.0 11.8.1  3.49.2 11.10.0 3.50.4 12.4.1  3.51.3 12.8.0
  3.53.4 13.0.3
}

# Debian's sqlite3 package for Tcl calls what these bring.  Without usleep()
# older versions wait for a lock in steps of whole seconds.
set SQLITE_FLAGS {
  -w -fPIC -shared -Wl,-soname,libsqlite3.so.0 -DHAVE_USLEEP=1
  -DSQLITE_ENABLE_COLUMN_METADATA -DSQLITE_ENABLE_PREUPDATE_HOOK
  -DSQLITE_ENABLE_SESSION -DSQLITE_ENABLE_UNLOCK_NOTIFY
}
set SQLITE_SUFFIX {
  ""    -O1
  debug {-O1 -DSQLITE_DEBUG -DSQLITE_ENABLE_API_ARMOR}
  tsan  {-O1 -g -fsanitize=thread}
}

set SQLITE_BUILD [file normalize \
  [file join [file dirname [info script]] .. .. build]]

proc write_file {file text} {
  set fd [open $file.tmp w]
  puts -nonewline $fd $text
  close $fd
  file rename -force $file.tmp $file
}

# Have npm bring the source of a version.  Raises a reason if it cannot.
proc sqlite_fetch {number dir} {
  if {[auto_execok npm] eq ""} {error "no npm"}
  set package better-sqlite3@[dict get $::SQLITES $number]
  file mkdir $dir
  if {[catch {
    exec sh -c {cd "$0" && npm pack --silent --fetch-retries=1 \
      --fetch-retry-mintimeout=1000 "$1" 2>/dev/null} $dir $package
  } tgz]} {
    error "npm cannot get $package"
  }
  set tgz $dir/[lindex $tgz end]
  exec tar -xzf $tgz -C $dir --strip-components=3 package/deps/sqlite3 \
    2>/dev/null
  file delete $tgz
  write_file $dir/all.c "#include \"sqlite3.c\"\n"
}

# Compile in the directory of the source.  The command is kept, so that another
# one builds anew.
proc sqlite_compile {command source dir} {
  if {[file exists $dir/libsqlite3.so.0]
      && ![catch {open $dir/command} fd]} {
    set same [expr {[read $fd] eq $command}]
    close $fd
    if {$same} return
  }
  file mkdir $dir
  exec sh -c {cd "$0" && exec "$@"} $source {*}$command \
    -o $dir/libsqlite3.so.tmp all.c -lpthread -ldl -lm
  file rename -force $dir/libsqlite3.so.tmp $dir/libsqlite3.so.0
  write_file $dir/command $command
}

# {number suffix} of a version.  A word that is no version stops everything: a
# mistake must not look like something that cannot be had here.
proc sqlite_parse {version} {
  lassign [split $version -] number suffix
  if {![dict exists $::SQLITES $number]
      || ![dict exists $::SQLITE_SUFFIX $suffix]} {
    puts stderr "no SQLite $version; known are [dict keys $::SQLITES]"
    exit 2
  }
  return [list $number $suffix]
}

# The directory of a version, fetched and built if need be.  Raises a reason
# if that cannot be done.
proc sqlite_get {version} {
  lassign [sqlite_parse $version] number suffix
  set source $::SQLITE_BUILD/sqlite-$number
  if {![file exists $source/all.c]} {sqlite_fetch $number $source}
  set cc [expr {[info exists ::env(CC)] ? $::env(CC) : "gcc"}]
  set dir $::SQLITE_BUILD/sqlite-$version
  sqlite_compile [list $cc {*}[dict get $::SQLITE_SUFFIX $suffix] \
    {*}$::SQLITE_FLAGS] $source $dir
  return $dir
}

# Those that claimq accepts, oldest first.
proc sqlite_all {} {
  return [lrange [dict keys $::SQLITES] 1 end]
}

# Called by itself it only prepares; what cannot be had is left out here, and
# SKIPPED where it is wanted.
if {[file normalize $argv0] eq [file normalize [info script]]} {
  foreach version $argv {
    if {[catch {sqlite_get $version} why]} {
      puts "sqlite $version: [lindex [split $why \n] 0]"
    }
  }
}
