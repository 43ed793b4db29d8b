# dist.tcl: the source archive, and what all packages have in common.
#
#     tclsh tcl/dist/dist.tcl build
#     build/dist/claimq-0.1.0.tar.gz
#
# The archive holds the amalgamation, so that a C compiler is all one needs, and
# the documents, at the places they have in the tree (their links then work):
#
#     claimq-0.1.0/claimq.c claimq.h
#                  sqlite3.h sqlite3ext.h      of the SQLite it was made with
#                  README.md LICENSE CHANGELOG.md ext/doc/*.md ...
#
# SQLite's headers are in it because they are what a machine with a compiler
# may lack.  An older or newer SQLite does not mind: the table of routines that
# they describe only ever grows at its end.
#
# The version is that of ext/claimq.h, here and in every package.  What is made
# twice from the same commit is the same, byte for byte: names are sorted, and
# every file has the time of the commit (or of SOURCE_DATE_EPOCH).

set root [file normalize [file join [file dirname [info script]] .. ..]]
source [file join $root tcl build files.tcl]

# The version of ext/claimq.h.
proc dist_version {} {
  if {![regexp {#define CLAIMQ_VERSION\s+"([^"]+)"} \
      [read_file $::root/ext/claimq.h] -> version]} {
    error "ext/claimq.h has no CLAIMQ_VERSION"
  }
  return $version
}

# The time that all files of an archive get, in seconds.
proc dist_epoch {} {
  global env root
  if {[info exists env(SOURCE_DATE_EPOCH)]} {return $env(SOURCE_DATE_EPOCH)}
  if {[catch {exec git -C $root log -1 --format=%ct 2>/dev/null} epoch]} {
    return 315532800                    ;# 1980: the oldest that a zip can say
  }
  return $epoch
}

# The paths of sqlite3.h and sqlite3ext.h, as the compiler finds them.
proc sqlite_headers {} {
  set cc [expr {[info exists ::env(CC)] ? $::env(CC) : "cc"}]
  set text [exec $cc -E -x c - << "#include <sqlite3ext.h>\n"]
  set out {}
  foreach name {sqlite3.h sqlite3ext.h} {
    if {![regexp "\"(\[^\"\]*/$name)\"" $text -> path]} {
      error "$cc does not find $name"
    }
    lappend out $path
  }
  return $out
}

# Copy files into a folder, which is made if need be.
proc put_files {dir args} {
  file mkdir $dir
  foreach file $args {file copy -force $file $dir}
}

# Make FILE, a .tar.gz of files and folders below DIR.
proc tarball {file dir args} {
  exec tar -C $dir --sort=name --owner=0 --group=0 --numeric-owner \
    --mtime=@[dist_epoch] --mode=u+rw,go+r,go-w --format=ustar -cf - {*}$args \
    | gzip -9n >$file.tmp
  file rename -force $file.tmp $file
}

# The documents of the tree, by their paths in it.
proc documents {} {
  global root
  set out {LICENSE}
  foreach pattern {*.md ext/*.md ext/*/*.md ext/lang/*/*.md test/*.md
      test/*/*.md} {
    foreach file [glob -nocomplain -directory $root $pattern] {
      lappend out [string range $file [string length $root/] end]
    }
  }
  return [lsort $out]
}

# Make the archive in BUILD/dist and return its path.
proc make_dist {build} {
  global root
  set name claimq-[dist_version]
  set stage $build/stage/dist
  file delete -force $stage
  put_files $stage/$name $build/claimq.c $build/claimq.h {*}[sqlite_headers]
  foreach file [documents] {
    put_files $stage/$name/[file dirname $file] $root/$file
  }
  file mkdir $build/dist
  set file $build/dist/$name.tar.gz
  tarball $file $stage $name
  return $file
}

if {[info exists argv0]
    && [file normalize $argv0] eq [file normalize [info script]]} {
  puts [make_dist [lindex $argv 0]]
}
