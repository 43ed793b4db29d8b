# bench/svg.tcl: what the plots share.  Part of bench/plot.tcl and
# bench/broker_table.tcl; json.tcl and root come before it.

source [file join $root tcl build files.tcl]

array set COLOR {C #222222 Python #1f6fb4 Node #2b8a3e Go #c2410c}

proc or_else {d key default} {
  return [expr {[dict exists $d $key] ? [dict get $d $key] : $default}]
}

# The steps 1, 2, 5, 10, 20 ... from the last one below to the first above.
proc steps {from to} {
  set out {}
  for {set e [expr {int(floor(log10($from)))}]} 1 {incr e} {
    foreach m {1 2 5} {
      set step [expr {$m*10.0**$e}]
      if {$step <= $from*1.000001} {set out {}}
      lappend out $step
      if {$step >= $to*0.999999 && [llength $out] > 1} {return $out}
    }
  }
}

# A place on a logarithmic axis that goes from pixel A to pixel B.
proc scale {value from to a b} {
  set part [expr {(log10($value)-log10($from))/(log10($to)-log10($from))}]
  return [format %.1f [expr {$a+($b-$a)*$part}]]
}

# Everything is appended to SVG.

proc esc {text} {
  return [string map {& &amp; < &lt; > &gt; \" &quot;} $text]
}

proc draw {line} {
  append ::SVG $line \n
}

proc text {x y class text {more ""}} {
  draw "<text x=\"$x\" y=\"$y\" class=\"$class\"$more>[esc $text]</text>"
}

proc line {x1 y1 x2 y2 class {more ""}} {
  draw "<line x1=\"$x1\" y1=\"$y1\" x2=\"$x2\" y2=\"$y2\"\
    class=\"$class\"$more/>"
}

proc write_text {file text} {
  set fd [open $file w]
  fconfigure $fd -encoding utf-8
  puts -nonewline $fd $text
  close $fd
}
