# files.tcl: whole files as text, for the scripts of tcl/.
#
#     source [file join $root tcl build files.tcl]
#     set text [read_file sql/session.sql]

proc read_file {file} {
  set fd [open $file]
  fconfigure $fd -encoding utf-8
  set text [read $fd]
  close $fd
  return $text
}
