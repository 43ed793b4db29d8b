# cross.tcl: claimq for other machines than this one.
#
#     tclsh tcl/dist/cross.tcl build                    every target
#     tclsh tcl/dist/cross.tcl build linux-aarch64 ...  only these
#     tclsh tcl/dist/cross.tcl build -check ...         only whether it compiles
#
# Compiles the amalgamation, as make dist hands it out, without a warning, for
# each target into build/cross/TARGET/claimq.so (.dll, .dylib) and packs it into
# build/dist/claimq-VERSION-TARGET.tar.gz.  The compiler for all of them is the
# one of PyPI's package ziglang, in a fixed version, which pip installs into
# build/zig and nowhere else.
#
# Where it can be run it is run: test/cross_main.c with a SQLite of its own
# loads the library, here, under qemu-user, under wine, or in Node (where
# nothing can be loaded, claimq is linked in).  Where the tool for that is
# missing, the target is built and its run is SKIPPED, with the command that
# would install the tool.  With INSTALL=1 in the environment it is installed, on
# Debian as root.
#
# What cannot be seen by running is looked up in the file: the oldest glibc or
# macOS that it will do with, its name, its one exported symbol.
#
# With -check nothing is linked or run: the compiler compiles the amalgamation
# for each target and must have nothing to say.  That takes seconds, and make
# test does it; a whole make cross takes minutes.
#
# One check for each build, file and run; "N passed, M failed" at the end.

source [file join [file dirname [info script]] dist.tcl]

set ZIG_VERSION 0.17.0

# target, what zig calls it, what it is run with.  `-` is here and directly;
# `static` in front: with claimq linked in, because there is no dynamic linker
# of that platform here; nothing: it cannot be run here.
set TARGETS {
  linux-x86_64        x86_64-linux-gnu.2.17      {-}
  linux-aarch64       aarch64-linux-gnu.2.17     {qemu-aarch64
                                                  /usr/aarch64-linux-gnu}
  linux-armhf         arm-linux-gnueabihf.2.17   {qemu-arm
                                                  /usr/arm-linux-gnueabihf}
  linux-riscv64       riscv64-linux-gnu.2.27     {qemu-riscv64
                                                  /usr/riscv64-linux-gnu}
  linux-x86_64-musl   x86_64-linux-musl          {musl}
  linux-aarch64-musl  aarch64-linux-musl         {static qemu-aarch64}
  windows-x86_64      x86_64-windows-gnu         {wine}
  windows-arm64       aarch64-windows-gnu        {}
  macos-x86_64        x86_64-macos.11.0          {}
  macos-arm64         aarch64-macos.11.0         {}
  freebsd-x86_64      x86_64-freebsd             {}
  wasm32-wasi         wasm32-wasi                {static node}
}

# TOOL PACKAGE ... that a way of running needs.
array set NEEDS {
  qemu-aarch64 {qemu-aarch64 qemu-user
                /usr/aarch64-linux-gnu/lib libc6-arm64-cross}
  qemu-arm     {qemu-arm qemu-user
                /usr/arm-linux-gnueabihf/lib libc6-armhf-cross}
  qemu-riscv64 {qemu-riscv64 qemu-user
                /usr/riscv64-linux-gnu/lib libc6-riscv64-cross}
  musl         {/lib/ld-musl-x86_64.so.1 musl}
  wine         {/usr/lib/wine/wine64 wine64}
  node         {node nodejs}
}

set npass 0
set nfail 0
set nskip 0
set wanted {}                     ;# Debian packages
proc pass {what {how ""}} {
  incr ::npass
  puts [format "  %-20s %s" $what $how]
  flush stdout
}
proc fail {what why} {
  incr ::nfail
  puts "FAILED $what\n  [string map {\n "\n  "} $why]"
}
proc skip {what why} {
  incr ::nskip
  puts "SKIPPED $what: $why"
}

#--------------------------------------------------------------------------
# The compiler

# The command of the compiler, which is fetched if need be.  Raises a reason.
proc zig {build} {
  global ZIG_VERSION env
  set dir $build/zig-$ZIG_VERSION
  set zig $dir/ziglang/zig
  if {![file executable $zig]} {
    if {[catch {
      exec python3 -m pip install --quiet --disable-pip-version-check \
        --no-compile --target $dir.tmp ziglang==$ZIG_VERSION 2>@1
    } why]} {
      file delete -force $dir.tmp
      error "pip cannot get ziglang: [lindex [split $why \n] end]"
    }
    file rename $dir.tmp $dir
  }
  set env(ZIG_GLOBAL_CACHE_DIR) $build/zig-cache
  set env(ZIG_LOCAL_CACHE_DIR) $build/zig-cache
  return $zig
}

proc has {target word} {return [string match *$word* $target]}

# The name of the library on a target.
proc library_name {target} {
  switch -glob -- $target {
    windows-* {return claimq.dll}
    macos-*   {return claimq.dylib}
    wasm*     {return claimq.o}
    default   {return claimq.so}
  }
}

# Options that make a library of a source file there.
proc library_flags {target} {
  switch -glob -- $target {
    windows-* {return {-shared}}
    macos-*   {return {-dynamiclib -install_name @rpath/claimq.dylib}}
    wasm*     {return {-c -DSQLITE_CORE}}
    default   {return {-shared -fPIC -Wl,-z,nodelete -Wl,-soname,claimq.so}}
  }
}

# Run a compiler that makes the file OUT of the files, unless it has done so
# before.  The command is kept, so that another one compiles anew.  What the
# compiler says is an error.
proc compile {out command files} {
  set command [concat $command [list -o $out] $files]
  set done [file exists $out.command]
  foreach file $files {
    set done [expr {$done && [file mtime $file] <= [file mtime $out.command]}]
  }
  if {$done && [read_file $out.command] eq $command} return
  file mkdir [file dirname $out]
  set said [exec {*}$command 2>@1]
  if {$said ne ""} {error $said}
  set fd [open $out.command w]
  puts -nonewline $fd $command
  close $fd
}

# The compiler, with what it is to complain about.
proc strict_cc {zig triple} {
  return [list $zig cc -target $triple -std=c99 -Wall -Wextra -pedantic \
    -Werror -Wno-unused-function]
}

# The library of a target, in a folder of its own.
proc build_library {zig source dir target triple} {
  set out $dir/[library_name $target]
  set strip [expr {[has $target wasm] ? "" : "-s"}]
  compile $out [concat [strict_cc $zig $triple] -O2 $strip \
    [library_flags $target]] [list $source]
  return $out
}

#--------------------------------------------------------------------------
# What stands in the files

# The newest version of glibc that an ELF file asks for, or "".
proc newest_glibc {file} {
  set all [regexp -all -inline {GLIBC_([\d.]+)} [exec readelf -VW $file]]
  set newest ""
  foreach {- version} $all {
    if {$newest eq "" || [package vcompare $version $newest] > 0} {
      set newest $version
    }
  }
  return $newest
}

# Names that an ELF file defines for others.
proc elf_exports {file} {
  set out {}
  foreach line [split [exec readelf --dyn-syms -W $file] \n] {
    lassign $line - - - type bind visibility index name
    if {$bind eq "GLOBAL" && $index ne "UND"} {lappend out $name}
  }
  return $out
}

# The load commands of a Mach-O file, as a dictionary: id, minos, signed.
proc mach_o {file} {
  set fd [open $file rb]
  set data [read $fd]
  close $fd
  binary scan $data @16i n
  set at 32
  set out [dict create id "" minos "" signed 0]
  for {set i 0} {$i < $n} {incr i} {
    binary scan $data @${at}ii command size
    switch $command {
      13 {
        binary scan $data @[expr {$at+8}]i from
        binary scan $data @[expr {$at+$from}]A[expr {$size-$from}] id
        dict set out id [string trimright $id \0]
      }
      29 {dict set out signed 1}
      50 {
        binary scan $data @[expr {$at+12}]i v
        dict set out minos [expr {$v>>16}].[expr {($v>>8)&255}]
      }
    }
    incr at $size
  }
  return $out
}

# Raise what is wrong with a library.
proc inspect {target triple file} {
  if {[string match linux-* $target] || [string match freebsd-* $target]} {
    if {[elf_exports $file] ne "sqlite3_claimq_init"} {
      error "exports [elf_exports $file]"
    }
    if {![regexp {\[claimq\.so\]} [exec readelf -d $file]]} {
      error "no soname"
    }
  }
  if {[regexp {gnu[a-z]*\.([\d.]+)$} $triple -> oldest]
      && [package vcompare [newest_glibc $file] $oldest] > 0} {
    error "asks for glibc [newest_glibc $file]"
  }
  if {[string match macos-* $target]} {
    set found [mach_o $file]
    if {[dict get $found id] ne "@rpath/claimq.dylib"
        || [dict get $found minos] ne "11.0"
        || ($target eq "macos-arm64" && ![dict get $found signed])} {
      error $found
    }
  }
}

# One file for both kinds of Mac: a table of contents, and the two files, each
# at a multiple of 16 KB.
proc make_universal {out args} {
  set n [llength $args]
  set head [binary format II 0xcafebabe $n]
  set body ""
  set at 16384
  foreach file $args {
    set fd [open $file rb]
    set data [read $fd]
    close $fd
    binary scan $data @4ii type subtype
    set size [string length $data]
    append head [binary format IIIII $type $subtype $at $size 14]
    set room [expr {($size+16383)/16384*16384}]
    append body $data [string repeat \0 [expr {$room-$size}]]
    incr at $room
  }
  file mkdir [file dirname $out]
  set fd [open $out wb]
  puts -nonewline $fd $head[string repeat \0 \
    [expr {16384-[string length $head]}]]$body
  close $fd
}

#--------------------------------------------------------------------------
# Running

# The program that tries the library out.
proc build_host {zig build stage dir target triple static} {
  global root
  set name host[expr {[has $target windows] ? ".exe" : ""}]
  set out $dir/$name
  set sqlite $build/sqlite-$::env(SQLITE_SOURCE)
  set flags [list -I$sqlite]
  set files [list $root/test/cross_main.c $sqlite/sqlite3.c]
  if {$static} {
    lappend flags -DCROSS_STATIC -DSQLITE_CORE -DSQLITE_OMIT_LOAD_EXTENSION \
      -I$root/ext
    lappend files $stage/claimq.c
  }
  if {[has $target wasm]} {
    lappend flags -DSQLITE_THREADSAFE=0
  } elseif {$static} {
    lappend flags -static
  } elseif {[has $target musl]} {
    lappend flags -dynamic
  }
  compile $out [list $zig cc -target $triple -O1 -w {*}$flags] $files
  return $out
}

# A run in Node: the folder of the database is all that it sees.
set NODE_WASI {
  import {WASI} from 'node:wasi';
  import fs from 'node:fs';
  const wasi = new WASI({version: 'preview1',
    args: ['host', '-', '/db/test.db'], preopens: {'/db': process.argv[2]}});
  const module = await WebAssembly.compile(fs.readFileSync(process.argv[1]));
  const instance = await WebAssembly.instantiate(module,
    wasi.getImportObject());
  process.exitCode = wasi.start(instance);
}

# Run it in an empty folder; the output.
proc run_host {how host library dir} {
  global env NODE_WASI
  file delete -force $dir/run
  file mkdir $dir/run
  cd $dir/run
  lassign $how tool sysroot
  switch -glob -- $tool {
    - - musl {set command [list $host $library test.db]}
    qemu-*   {
      set command [list $tool {*}[expr {$sysroot eq "" ? "" :
        [list -L $sysroot]}] $host $library test.db]
    }
    wine     {
      set env(WINEPREFIX) $dir/wine
      set env(WINEDEBUG) -all
      set command [list /usr/lib/wine/wine64 $host \
        Z:[string map {/ \\} $library] test.db]
    }
    node     {
      set command [list node --no-warnings --input-type=module \
        -e $NODE_WASI $host $dir/run]
    }
  }
  catch {exec {*}$command 2>@1} out
  if {$tool eq "wine"} {catch {exec /usr/lib/wine/wineserver -k}}
  return [string map [list \r ""] $out]
}

# What must be done to get the tools of TOOL PACKAGE ...; empty if they are
# there, or with INSTALL=1 could be installed.
proc missing {part needs} {
  if {![catch {
    exec sh $::root/tcl/test/deps.sh -part $part {*}$needs 2>@1
  } out]} {return ""}
  if {![regexp -line {^SKIPPED [^:]*: (.* install) (.*)} $out -> run what]} {
    return $out
  }
  lappend ::wanted {*}$what
  return "$run [string trim $what]"
}

# One command for all that was missing, at the end.
proc wanted {} {
  set what [lsort -unique $::wanted]
  if {$what eq ""} return
  puts "To run all that was skipped: sudo apt-get install [join $what]"
  puts "and the same again; or, as root, the same again with INSTALL=1."
}

proc try_run {zig build stage dir target triple how library} {
  set static [expr {[lindex $how 0] eq "static"}]
  if {$static} {set how [lrange $how 1 end]}
  lassign $how tool
  if {$tool eq ""} {
    skip "$target, run" "built, but there is nothing here that can run it"
    return
  }
  if {[info exists ::NEEDS($tool)]
      && [set why [missing "$target, run" $::NEEDS($tool)]] ne ""} {
    skip "$target, run" $why
    return
  }
  set host [build_host $zig $build $stage $dir $target $triple $static]
  set out [run_host $how $host $library $dir]
  if {[regexp {^(\d+) passed, 0 failed$} [lindex [split $out \n] end] -> n]} {
    pass "$target, run" "[expr {$tool eq "-" ? "here" : $tool}]: $n checks"
  } else {
    fail "$target, run" $out
  }
}

#--------------------------------------------------------------------------

# The library, its header and the licence, side by side without a folder: that
# is how sqlpkg wants it.
proc pack {build target library} {
  set stage $build/stage/cross
  file delete -force $stage
  put_files $stage $library $build/claimq.h $::root/LICENSE
  tarball $build/dist/claimq-[dist_version]-$target.tar.gz $stage \
    [file tail $library] claimq.h LICENSE
}

proc one_target {zig build stage target triple how} {
  set dir $build/cross/$target
  if {[catch {
    set library [build_library $zig $stage/claimq.c $dir $target $triple]
    inspect $target $triple $library
    pack $build $target $library
  } why]} {
    fail $target $why
    return
  }
  pass $target "[file tail $library], [expr {[file size $library]/1024}] KB"
  if {[catch {
    try_run $zig $build $stage $dir $target $triple $how $library
  } why]} {
    fail "$target, run" $why
  }
}

# Does the compiler have nothing to say?
proc check_target {zig source dir target triple} {
  set command [concat [strict_cc $zig $triple] -O0 -c]
  if {[has $target wasm]} {lappend command -DSQLITE_CORE}
  if {[catch {compile $dir/check.o $command [list $source]} said]} {
    fail $target $said
  } else {
    pass $target "no warning"
  }
}

proc universal {build} {
  set out $build/cross/macos-universal/claimq.dylib
  set parts {}
  foreach target {macos-x86_64 macos-arm64} {
    lappend parts $build/cross/$target/claimq.dylib
  }
  make_universal $out {*}$parts
  pack $build macos-universal $out
  pass macos-universal "[file tail $out], [expr {[file size $out]/1024}] KB"
}

proc main {build names} {
  global TARGETS
  set build [file normalize $build]
  make_dist $build
  set stage $build/stage/dist/claimq-[dist_version]
  if {[catch {zig $build} zig]} {
    skip cross $zig
    return
  }
  set check [expr {[lindex $names 0] eq "-check"}]
  if {$check} {set names [lrange $names 1 end]}
  foreach {target triple how} $TARGETS {
    if {$names ne "" && $target ni $names} continue
    if {$check} {
      check_target $zig $stage/claimq.c $build/cross/$target $target $triple
    } else {
      one_target $zig $build $stage $target $triple $how
    }
  }
  if {$check} return
  if {$names eq "" || "macos-universal" in $names} {universal $build}
}

if {[file normalize $argv0] eq [file normalize [info script]]} {
  main [lindex $argv 0] [lrange $argv 1 end]
  wanted
  set line "$npass passed, $nfail failed"
  if {$nskip} {append line ", $nskip skipped"}
  puts $line
  exit [expr {$nfail > 0}]
}
