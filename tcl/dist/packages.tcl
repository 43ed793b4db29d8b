# packages.tcl: claimq as each language installs things.
#
#     tclsh tcl/dist/packages.tcl build                 all packages
#     tclsh tcl/dist/packages.tcl build python ruby     only these
#     tclsh tcl/dist/packages.tcl build -here python    for this machine alone
#
# The packages are made in build/dist, ready to be uploaded, of the libraries
# that make cross has left in build/cross.  With -here the library is compiled
# by this machine's own compiler and the packages are made in
# build/packages/dist: that is what the tests install and use.
#
# A package is a thin loader, whose source is in ext/lang/LANGUAGE, with a
# library for each platform (Python, Node, Ruby, Java, Debian) or with the
# amalgamation in it (Go, Rust).  @VERSION@ in a source file is replaced by the
# version of ext/claimq.h.  What needs a tool that is not here (javac, gem) is
# SKIPPED.
#
# A language is one proc package_NAME below, which gets a dictionary of
# libraries by target and the folder to put packages into, and returns the
# files it has made.

source [file join [file dirname [info script]] dist.tcl]
source [file join $root tcl dist zip.tcl]

# What the ecosystems call the targets of cross.tcl.  `-`: they do not know it.
set PLATFORMS {
  linux-x86_64       {wheel manylinux_2_17_x86_64.manylinux2014_x86_64
                      npm linux-x64          gem x86_64-linux-gnu
                      deb amd64              sqlpkg linux-amd64}
  linux-aarch64      {wheel manylinux_2_17_aarch64.manylinux2014_aarch64
                      npm linux-arm64        gem aarch64-linux-gnu
                      deb arm64              sqlpkg linux-arm64}
  linux-armhf        {wheel manylinux_2_17_armv7l.manylinux2014_armv7l
                      npm linux-arm          gem arm-linux-gnu
                      deb armhf              sqlpkg -}
  linux-riscv64      {wheel manylinux_2_31_riscv64
                      npm linux-riscv64      gem -
                      deb riscv64            sqlpkg -}
  linux-x86_64-musl  {wheel musllinux_1_1_x86_64
                      npm linux-x64-musl     gem x86_64-linux-musl
                      deb -                  sqlpkg -}
  linux-aarch64-musl {wheel musllinux_1_1_aarch64
                      npm linux-arm64-musl   gem aarch64-linux-musl
                      deb -                  sqlpkg -}
  windows-x86_64     {wheel win_amd64
                      npm win32-x64          gem x64-mingw-ucrt
                      deb -                  sqlpkg windows-amd64}
  windows-arm64      {wheel win_arm64
                      npm win32-arm64        gem aarch64-mingw-ucrt
                      deb -                  sqlpkg -}
  macos-x86_64       {wheel macosx_11_0_x86_64
                      npm darwin-x64         gem x86_64-darwin
                      deb -                  sqlpkg darwin-amd64}
  macos-arm64        {wheel macosx_11_0_arm64
                      npm darwin-arm64       gem arm64-darwin
                      deb -                  sqlpkg darwin-arm64}
}

set SUMMARY "Queues of leased, fenced work in ordinary SQLite tables"

proc name_of {target ecosystem} {
  if {![dict exists $::PLATFORMS $target]} {
    return -code error -errorcode SKIP "there are no packages for $target"
  }
  return [dict get $::PLATFORMS $target $ecosystem]
}

# The target of this machine.
proc here {} {
  global tcl_platform
  set machine [string map {amd64 x86_64 arm64 aarch64} $tcl_platform(machine)]
  return [string tolower $tcl_platform(os)]-$machine
}

# A text file with its version put in.
proc put_text {target source args} {
  file mkdir [file dirname $target]
  set fd [open $target w]
  fconfigure $fd -encoding utf-8 -translation lf
  puts -nonewline $fd [string map [list @VERSION@ [dist_version] {*}$args] \
    [read_file $source]]
  close $fd
}

proc put_string {target text} {
  file mkdir [file dirname $target]
  set fd [open $target w]
  fconfigure $fd -encoding utf-8 -translation lf
  puts -nonewline $fd $text
  close $fd
}

# Copy a folder's text files, with those below it.
proc put_tree {target source} {
  foreach file [glob -directory $source *] {
    if {[file isdirectory $file]} {
      put_tree $target/[file tail $file] $file
    } else {
      put_text $target/[file tail $file] $file
    }
  }
}

# The files below a folder, by their names in it, sorted.
proc tree {dir {prefix ""}} {
  set out {}
  foreach file [lsort [glob -nocomplain -directory $dir *]] {
    set name $prefix[file tail $file]
    if {[file isdirectory $file]} {
      lappend out {*}[tree $file $name/]
    } else {
      lappend out $name
    }
  }
  return $out
}

# An empty folder to put a package together in.
proc stage {name} {
  set dir $::stage/$name
  file delete -force $dir
  file mkdir $dir
  return $dir
}

proc need {args} {
  foreach tool $args {
    if {[auto_execok $tool] eq ""} {
      return -code error -errorcode SKIP "there is no $tool"
    }
  }
}

#--------------------------------------------------------------------------
# Python: a wheel for each platform.

# SHA-256 as RECORD wants it.
proc record_hash {file} {
  set hex [lindex [exec sha256sum $file] 0]
  set text [binary encode base64 [binary decode hex $hex]]
  return sha256=[string trimright [string map {+ - / _} $text] =]
}

proc wheel {library tag out} {
  global root SUMMARY
  set version [dist_version]
  set dir [stage wheel]
  set info $dir/claimq-$version.dist-info
  put_tree $dir/claimq $root/ext/lang/python/claimq
  put_files $dir/claimq $library
  put_files $info/licenses $root/LICENSE
  put_string $info/entry_points.txt "\[console_scripts\]
claimq = claimq.cli:main
"
  put_string $info/METADATA "Metadata-Version: 2.1
Name: claimq
Version: $version
Summary: $SUMMARY
License: MIT
Keywords: sqlite,queue,job,lease,worker
Requires-Python: >=3.8
Description-Content-Type: text/markdown

[read_file $root/ext/lang/python/README.md]"
  set tags {}
  foreach platform [split $tag .] {append tags "Tag: py3-none-$platform\n"}
  put_string $info/WHEEL "Wheel-Version: 1.0
Generator: claimq $version
Root-Is-Purelib: false
$tags"
  set record ""
  set entries {}
  foreach name [tree $dir] {
    append record \
      "$name,[record_hash $dir/$name],[file size $dir/$name]\n"
    lappend entries $name $dir/$name
  }
  set name claimq-$version.dist-info/RECORD
  put_string $dir/$name "$record$name,,\n"
  set file $out/claimq-$version-py3-none-$tag.whl
  zip_file $file [concat $entries $name $dir/$name] [dist_epoch]
  return $file
}

proc package_python {libraries out} {
  set files {}
  dict for {target library} $libraries {
    set tag [name_of $target wheel]
    if {$::only_here} {set tag [string map {- _} $target]}
    lappend files [wheel $library $tag $out]
  }
  return $files
}

#--------------------------------------------------------------------------
# Node: one tarball with a library for each platform.

proc package_node {libraries out} {
  global root
  set dir [stage npm]/package
  put_tree $dir $root/ext/lang/node/claimq
  put_files $dir $root/LICENSE $root/ext/lang/node/README.md
  dict for {target library} $libraries {
    put_files $dir/native/[name_of $target npm] $library
  }
  set file $out/claimq-[dist_version].tgz
  tarball $file [file dirname $dir] package
  return [list $file]
}

#--------------------------------------------------------------------------
# Go and Rust: the source, with the amalgamation and SQLite's headers in it.

proc put_amalgamation {dir} {
  file mkdir $dir
  file copy -force $::amalgamation $dir/claimq.c
  put_files $dir $::root/ext/claimq.h {*}[sqlite_headers]
}

# GO_MODULE says under which path the module will be found.
proc go_module {} {
  global env
  if {[info exists env(GO_MODULE)]} {return $env(GO_MODULE)}
  return example.com/claimq
}

proc package_go {libraries out} {
  global root
  set name claimq-go-[dist_version]
  set dir [stage go]/$name
  put_tree $dir $root/ext/lang/go/claimq
  put_text $dir/go.mod $root/ext/lang/go/claimq/go.mod @MODULE@ [go_module]
  put_text $dir/README.md $root/ext/lang/go/README.md \
    example.com/claimq [go_module]
  put_files $dir $root/LICENSE
  put_amalgamation $dir
  set file $out/$name.tar.gz
  tarball $file [file dirname $dir] $name
  return [list $file]
}

proc package_rust {libraries out} {
  global root
  set name claimq-[dist_version]
  set dir [stage rust]/$name
  put_tree $dir $root/ext/lang/rust/claimq
  put_files $dir $root/LICENSE $root/ext/lang/rust/README.md
  put_amalgamation $dir/c
  set file $out/$name.crate
  tarball $file [file dirname $dir] $name
  return [list $file]
}

#--------------------------------------------------------------------------
# Java: one jar with a library for each platform, and the pom that Maven wants.
# MAVEN_GROUP says under which name it will be found.

proc maven_group {} {
  global env
  if {[info exists env(MAVEN_GROUP)]} {return $env(MAVEN_GROUP)}
  return com.example.claimq
}

proc package_java {libraries out} {
  global root
  need javac
  set dir [stage java]
  put_tree $dir/src $root/ext/lang/java/claimq
  file mkdir $dir/jar
  exec javac --release 11 -d $dir/jar {*}[glob $dir/src/*.java] 2>@1
  dict for {target library} $libraries {
    put_files $dir/jar/claimq/native/$target $library
  }
  put_files $dir/jar/META-INF $root/LICENSE
  put_string $dir/jar/META-INF/MANIFEST.MF [string cat \
    "Manifest-Version: 1.0\nAutomatic-Module-Name: claimq\n" \
    "Implementation-Version: [dist_version]\n"]
  set entries {}
  foreach name [tree $dir/jar] {lappend entries $name $dir/jar/$name}
  set file $out/claimq-[dist_version].jar
  zip_file $file $entries [dist_epoch]
  set pom $out/claimq-[dist_version].pom
  put_text $pom $root/ext/lang/java/pom.xml @GROUP@ [maven_group]
  return [list $pom $file]
}

#--------------------------------------------------------------------------
# Ruby: a gem for each platform.

proc package_ruby {libraries out} {
  global root env
  need gem
  set env(SOURCE_DATE_EPOCH) [dist_epoch]
  set files {}
  dict for {target library} $libraries {
    set platform [name_of $target gem]
    if {$platform eq "-"} continue
    set dir [stage gem]
    put_tree $dir $root/ext/lang/ruby/claimq
    put_text $dir/claimq.gemspec $root/ext/lang/ruby/claimq/claimq.gemspec \
      @PLATFORM@ $platform
    put_files $dir $root/LICENSE $root/ext/lang/ruby/README.md
    put_files $dir/lib/claimq $library
    set here [pwd]
    cd $dir
    exec gem build --quiet claimq.gemspec 2>@1
    cd $here
    set gem [glob $dir/*.gem]
    file rename -force $gem $out
    lappend files $out/[file tail $gem]
  }
  return $files
}

#--------------------------------------------------------------------------
# PHP: one file, of those in the folder; a class comes behind the one that it
# extends.  The library is that of make install or of the .deb; for the tests it
# is put beside it.

proc package_php {libraries out} {
  global root only_here
  if {$only_here} {put_files $out/php {*}[dict values $libraries]}
  set all [read_file $root/ext/lang/php/claimq/Claimq.php]
  foreach name {Held Job Patience Holder Loop Worker Loops Contest} {
    append all [regsub {^<\?php\ndeclare\(strict_types=1\);\n} \
      [read_file $root/ext/lang/php/claimq/$name.php] ""]
  }
  put_string $out/Claimq.php [string map [list @VERSION@ [dist_version]] $all]
  return [list $out/Claimq.php]
}

#--------------------------------------------------------------------------
# Debian: a package for each architecture.  The link claimq.so is part of it,
# so that it goes with it; the trigger runs ldconfig (see tcl/dist/install.sh).

set TRIPLETS {amd64 x86_64-linux-gnu arm64 aarch64-linux-gnu
  armhf arm-linux-gnueabihf riscv64 riscv64-linux-gnu}

proc deb {library architecture out} {
  global root env SUMMARY TRIPLETS
  set version [dist_version]
  set dir [stage deb]
  set lib $dir/usr/lib/[dict get $TRIPLETS $architecture]
  file mkdir $lib
  file copy $library $lib/libclaimq.so
  file attributes $lib/libclaimq.so -permissions 0644
  exec ln -s libclaimq.so $lib/claimq.so
  put_files $dir/usr/include $root/ext/claimq.h
  put_text $dir/usr/share/doc/sqlite3-claimq/copyright $root/LICENSE
  put_string $dir/DEBIAN/control "Package: sqlite3-claimq
Version: $version
Architecture: $architecture
Maintainer: the authors of claimq <claimq@example.com>
Section: database
Priority: optional
Depends: libc6 (>= [expr {$architecture eq "riscv64" ? 2.27 : 2.17}])
Recommends: sqlite3
Description: $SUMMARY
 A SQLite extension.  In the sqlite3 shell: .load claimq
"
  put_string $dir/DEBIAN/triggers "activate-noawait ldconfig\n"
  set env(SOURCE_DATE_EPOCH) [dist_epoch]
  exec find $dir -exec touch -h -d @[dist_epoch] \{\} +
  set file $out/sqlite3-claimq_${version}_$architecture.deb
  exec dpkg-deb --root-owner-group --build $dir $file
  return $file
}

proc package_debian {libraries out} {
  need dpkg-deb
  set files {}
  dict for {target library} $libraries {
    set architecture [name_of $target deb]
    if {$architecture ne "-"} {
      lappend files [deb $library $architecture $out]
    }
  }
  return $files
}

#--------------------------------------------------------------------------
# sqlpkg: a description of the archives of make cross.  DIST_URL says where
# they will be found, together with checksums.txt.

proc package_sqlpkg {libraries out} {
  global env SUMMARY
  set url https://example.com/claimq/@VERSION@
  if {[info exists env(DIST_URL)]} {set url $env(DIST_URL)}
  set version [dist_version]
  set entries {}
  foreach target [dict keys $libraries] {
    set name [name_of $target sqlpkg]
    if {$name eq "-"} continue
    lappend entries [format {      "%s": "claimq-{version}-%s.tar.gz"} \
      $name $target]
  }
  put_string $out/sqlpkg.json "{
  \"owner\": \"claimq\",
  \"name\": \"claimq\",
  \"version\": \"$version\",
  \"license\": \"MIT\",
  \"description\": \"$SUMMARY\",
  \"keywords\": \[\"sqlite-claimq\", \"queue\"\],
  \"assets\": {
    \"path\": \"[string map [list @VERSION@ $version] $url]\",
    \"files\": {
[join $entries ",\n"]
    }
  }
}
"
  return [list $out/sqlpkg.json]
}

# The checksums of everything that is there.
proc checksums {out} {
  set here [pwd]
  cd $out
  set names [lsort [lsearch -all -inline -not [glob -types f *] checksums.txt]]
  set sums [exec sha256sum {*}$names]
  cd $here
  put_string $out/checksums.txt $sums\n
  return $out/checksums.txt
}

#--------------------------------------------------------------------------

set LANGUAGES {python node go rust java ruby php debian sqlpkg}

# The libraries, by target.  Those that were not made are left out, and said.
proc all_libraries {build} {
  set out {}
  foreach target [dict keys $::PLATFORMS] {
    set files [glob -nocomplain $build/cross/$target/claimq.{so,dll,dylib}]
    if {$files eq ""} {
      puts "SKIPPED packages for $target: make cross has not built it"
    } else {
      dict set out $target [lindex $files 0]
    }
  }
  return $out
}

# The library of this machine, by its own compiler.  CLAIMQ_C names another
# amalgamation than the one of this tree.
proc library_here {build source} {
  set so $build/packages/claimq.so
  if {![file exists $so] || [file mtime $so] < [file mtime $source]} {
    file mkdir $build/packages
    set cc [expr {[info exists ::env(CC)] ? $::env(CC) : "cc"}]
    exec $cc -O2 -shared -fPIC -Wl,-z,nodelete -Wl,-soname,claimq.so \
      -o $so.[pid] $source
    file rename -force $so.[pid] $so
  }
  return [dict create [here] $so]
}

proc main {build args} {
  global only_here stage amalgamation env LANGUAGES
  set build [file normalize $build]
  set only_here [expr {[lindex $args 0] eq "-here"}]
  if {$only_here} {set args [lrange $args 1 end]}
  if {$args eq ""} {set args $LANGUAGES}
  set amalgamation $build/claimq.c
  if {[info exists env(CLAIMQ_C)]} {set amalgamation $env(CLAIMQ_C)}
  if {$only_here} {
    set out $build/packages/dist
    set stage $build/packages/stage-[pid]
    set libraries [library_here $build $amalgamation]
  } else {
    set out $build/dist
    set stage $build/stage/packages
    set libraries [all_libraries $build]
  }
  file mkdir $out
  set failed 0
  foreach language $args {
    if {[catch {package_$language $libraries $out} files options]} {
      if {[dict get $options -errorcode] eq "SKIP"} {
        puts "SKIPPED package $language: $files"
      } else {
        puts "FAILED package $language: $files"
        set failed 1
      }
    } else {
      foreach file $files {puts $file}
    }
  }
  if {!$only_here} {puts [checksums $out]}
  file delete -force $stage
  exit $failed
}

if {[file normalize $argv0] eq [file normalize [info script]]} {
  main {*}$argv
}
