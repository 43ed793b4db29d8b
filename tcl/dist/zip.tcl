# zip.tcl: writes a zip file, as wheels and jars are.
#
#     source tcl/dist/zip.tcl
#     zip_file out.whl {claimq/cli.py ext/lang/python/claimq/cli.py ...}
#
# The list has a name and a file for each entry; they are stored in that order.
# All have the same time, so that the same input makes the same zip.

# A time in seconds as the date and time of MS-DOS, which zip uses.
proc zip_time {epoch} {
  if {$epoch < 315532800} {set epoch 315532800}
  set parts [clock format $epoch -gmt 1 -format {%Y %N %e %k %M %S}]
  lassign [lmap x $parts {scan $x %d}] year month day hour minute second
  return [list [expr {(($hour*64)+$minute)*32 + $second/2}] \
    [expr {((($year-1980)*16)+$month)*32 + $day}]]
}

# Write the zip.  MODE is the Unix mode of each file.
proc zip_file {out entries {epoch 315532800} {mode 0644}} {
  lassign [zip_time $epoch] time date
  set body ""
  set directory ""
  set n 0
  foreach {name file} $entries {
    set fd [open $file rb]
    set data [read $fd]
    close $fd
    set packed [zlib deflate $data 9]
    set name [encoding convertto utf-8 $name]
    # Version 2.0, UTF-8 names, deflated.
    set common [binary format sssssiiiss 20 0x800 8 $time $date \
      [zlib crc32 $data] [string length $packed] [string length $data] \
      [string length $name] 0]
    append directory \
      [binary format is 0x02014b50 [expr {3*256+20}]] $common \
      [binary format sssii 0 0 0 [expr {(0100000|$mode)<<16}] \
        [string length $body]] $name
    append body [binary format i 0x04034b50] $common $name $packed
    incr n
  }
  set fd [open $out.tmp wb]
  puts -nonewline $fd $body$directory[binary format issssiis 0x06054b50 0 0 \
    $n $n [string length $directory] [string length $body] 0]
  close $fd
  file rename -force $out.tmp $out
}
