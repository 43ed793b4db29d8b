# bench/table.tcl: the tables that benchmarks put into test/bench/README.md.
# Part of bench/broker_table.tcl and bench/workers.tcl.

# 12345.6 -> 12,346; below 10 one digit more.
proc number {x} {
  if {$x eq ""} {return -}
  if {$x < 9.95} {return [format %.1f $x]}
  set text [format %.0f $x]
  while {[regsub {^(\d+)(\d{3})} $text {\1,\2} text]} {}
  return $text
}

proc table_row {cells} {
  return "| [join $cells { | }] |"
}

proc head {cells} {
  return [list [table_row $cells] "|[string repeat ---| [llength $cells]]"]
}

# The text with these lines between the two lines that begin with "<!-- NAME";
# "" if it has no such lines.
proc put_between {text name script lines} {
  if {![regexp -indices "<!-- $name:.*<!-- $name end -->" $text at]} return
  return [string replace $text {*}$at [join [list \
    "<!-- $name: made by $script -->" {*}$lines "<!-- $name end -->"] \n]]
}
