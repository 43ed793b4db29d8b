# bench/json.tcl: reads JSON.
#
#     set d [json_read {{"depth":1000,"us":81.3,"tags":["a","b"],"ok":true}}]
#     dict get $d us                  -> 81.3
#
# An object becomes a dict, an array a list, a string its text, a number and
# the words true, false and null themselves.  So the types are gone: the
# caller knows what it reads.  What is not JSON raises an error that says
# where, as in
#
#     not JSON at character 7: a value expected, not ]

namespace eval json {
  variable TEXT ""
  variable AT 0
  variable ESCAPE
  array set ESCAPE {\" \" \\ \\ / / b \b f \f n \n r \r t \t}
}

proc json_read {text} {
  set json::TEXT $text
  set json::AT 0
  set value [json::value]
  if {[json::peek] ne ""} {json::bad "end of text"}
  return $value
}

# The next character that is not a blank, which stays; "" at the end.
proc json::peek {} {
  variable TEXT
  variable AT
  regexp -start $AT -indices {\A[ \t\r\n]*} $TEXT span
  set AT [expr {[lindex $span 1]+1}]
  return [string index $TEXT $AT]
}

proc json::bad {wanted} {
  variable TEXT
  variable AT
  set near [string range $TEXT $AT $AT+15]
  if {$near eq ""} {set near "the end"}
  error "not JSON at character $AT: $wanted expected, not $near"
}

# Take what fits a regular expression here, or complain.
proc json::take {rx wanted} {
  variable TEXT
  variable AT
  peek
  if {![regexp -start $AT "\\A(?:$rx)" $TEXT found]} {bad $wanted}
  incr AT [string length $found]
  return $found
}

proc json::value {} {
  switch -- [peek] {
    "\{"    {return [object]}
    "\["    {return [array_]}
    "\""    {return [string_]}
  }
  return [take \
    {-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][-+]?\d+)?|true|false|null} \
    "a value"]
}

# ITEM is run for each element until CLOSE.
proc json::sequence {close item} {
  take . ""
  if {[peek] eq $close} {take . ""; return}
  while 1 {
    uplevel 1 $item
    if {[peek] eq $close} {take . ""; return}
    take , "\",\" or \"$close\""
  }
}

proc json::object {} {
  set out [dict create]
  sequence \} {
    set name [string_]
    take : ":"
    dict set out $name [value]
  }
  return $out
}

proc json::array_ {} {
  set out {}
  sequence \] {lappend out [value]}
  return $out
}

proc json::string_ {} {
  variable ESCAPE
  set raw [take {"(?:[^"\\[:cntrl:]]|\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4}))*"} \
    "a string"]
  set raw [string range $raw 1 end-1]
  set out ""
  while {[regexp {^(.*?)\\(u(....)|.)(.*)$} $raw -> before c hex raw]} {
    append out $before
    if {$hex ne ""} {
      append out [format %c [scan $hex %x]]
    } else {
      append out $ESCAPE($c)
    }
  }
  return $out$raw
}
