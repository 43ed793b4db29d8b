# bench/broker_table.tcl: the tables and the plot of bench/brokers.tcl.
#
#     tclsh tcl/bench/broker_table.tcl ?BROKERS.JSON README.MD OUT.SVG?
#
# Puts the tables into the README (test/bench/README.md), between the two lines
# that begin with "<!-- brokers", and writes the plot (test/bench/brokers.svg).
# BROKERS.JSON is test/bench/brokers.json, which is the last run that was taken
# over from build/brokers.json.  A system that was skipped has no row.

set root [file normalize [file join [file dirname [info script]] .. ..]]
source [file join $root tcl bench json.tcl]
source [file join $root tcl bench svg.tcl]
source [file join $root tcl bench table.tcl]
source [file join $root tcl bench broker_list.tcl]

set WORKERS {1 4 16}

proc die {message} {
  puts stderr "bench/broker_table.tcl: $message"
  exit 1
}

#--------------------------------------------------------------------------
# The rows of a run: those of the list, in its order, with their figures.

proc run_rows {run} {
  set by {}
  foreach one [dict get $run rows] {dict set by [dict get $one name] $one}
  return [lmap row [broker_rows] {
    if {![dict exists $by [dict get $row name]]} continue
    dict merge $row [dict get $by [dict get $row name]]
  }]
}

proc title {row} {
  return "[dict get $row label] [dict get $row version]"
}

# Seconds as milliseconds.
proc ms {seconds} {
  if {$seconds eq ""} {return -}
  set ms [expr {1000.0*$seconds}]
  return [expr {$ms < 1 ? [format %.2f $ms] : [number $ms]}]
}

proc killed {row limit} {
  set seconds [or_else $row kill ""]
  if {$seconds eq ""} {return ""}
  if {$seconds < 0} {return "not after $limit s"}
  return "[format %.1f $seconds] s"
}

proc rate_table {run rows} {
  set depths [dict get $run depths]
  set cells {system language "on disk after"}
  foreach depth $depths {
    lappend cells "[number $depth] waiting: 1 worker" 4 16 \
      "\u00b5s of processor"
  }
  set lines [head $cells]
  foreach row $rows {
    set cells [list [title $row] [dict get $row language] \
      [dict get $row durable]]
    foreach depth $depths {
      foreach n $::WORKERS {
        lappend cells [number [or_else $row $depth,$n,rate ""]]
      }
      lappend cells [number [or_else $row $depth,4,cpu ""]]
    }
    lappend lines [table_row $cells]
  }
  return $lines
}

proc wait_table {run rows} {
  set depths [dict get $run depths]
  set cells {system language "on disk after"}
  foreach depth $depths {
    lappend cells "[number $depth] waiting: p50, ms" p99
  }
  set lines [head [concat $cells {"job of a killed worker is done after"}]]
  foreach row $rows {
    set cells [list [title $row] [dict get $row language] \
      [dict get $row durable]]
    foreach depth $depths {
      foreach what {p50 p99} {
        lappend cells [ms [or_else $row $depth,$what ""]]
      }
    }
    lappend cells [killed $row [dict get $run limit]]
    lappend lines [table_row $cells]
  }
  return $lines
}

# What was measured, when and where, and what was not.
proc about {run rows} {
  set names [lmap row $rows {dict get $row name}]
  set left [lmap row [broker_rows] {
    if {[dict get $row name] in $names} continue
    set row
  }]
  set rounds [dict get $run rounds]
  set text "[dict get $run date], [dict get $run machine], load average\
    [dict get $run load]; [expr {
      $rounds == 1 ? "one round" : "median of $rounds rounds"}]."
  if {[llength $left]} {
    append text " Not measured: [join [lmap row $left {
      format "%s (%s; %s)" [dict get $row label] [dict get $row language] \
        [dict get $row durable]}] {, }]."
  }
  return $text
}

# README with the tables in it.
proc put_tables {text run rows} {
  set text [put_between $text brokers tcl/bench/broker_table.tcl [list \
    [about $run $rows] "" \
    {*}[rate_table $run $rows] "" {*}[wait_table $run $rows]]]
  if {$text eq ""} {die "the README has no place for the tables"}
  return $text
}

#--------------------------------------------------------------------------
# The plot: a line for each system, jobs a second on a logarithmic axis; a dot
# for 1, 4 and 16 workers, the more the larger; filled at the smaller depth,
# hollow below it at the greater.

array set BOX {width 960 left 400 right 930 top 78 step 22}

proc all_rates {run rows} {
  set all {}
  foreach row $rows {
    foreach depth [dict get $run depths] {
      foreach n $::WORKERS {
        set rate [or_else $row $depth,$n,rate 0]
        if {$rate > 0} {lappend all $rate}
      }
    }
  }
  if {![llength $all]} {die "no figures"}
  return [lsort -real $all]
}

proc px {rate} {
  return [scale $rate {*}$::XRANGE $::BOX(left) $::BOX(right)]
}

proc draw_frame {run rows} {
  global BOX XRANGE
  set rates [all_rates $run $rows]
  set all [steps [lindex $rates 0] [lindex $rates end]]
  set XRANGE [list [lindex $all 0] [lindex $all end]]
  set bottom [expr {$BOX(top)+$BOX(step)*[llength $rows]}]
  set height [expr {$bottom+46}]
  draw "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"$BOX(width)\"\
    height=\"$height\" viewBox=\"0 0 $BOX(width) $height\"\
    font-family=\"system-ui, 'DejaVu Sans', sans-serif\" font-size=\"12\">"
  draw {<style>
.title {font-size: 17px; font-weight: 600; fill: #111}
.tick {fill: #444}
.note {font-size: 11px; fill: #555}
.grid {stroke: #e0e0e0; stroke-width: 1}
.end {text-anchor: end}
.mid {text-anchor: middle}
</style>}
  draw "<rect width=\"100%\" height=\"100%\" fill=\"#ffffff\"/>"
  text 14 28 title "Jobs a second, end to end: submit, claim, complete"
  text 14 48 note "Dots: 1, 4 and 16 worker processes, the more the larger;\
    filled: [number [lindex [dict get $run depths] 0]] jobs waiting, hollow:\
    [number [lindex [dict get $run depths] end]].  More is better."
  foreach rate $all {
    set x [px $rate]
    line $x [expr {$BOX(top)-8}] $x $bottom grid
    text $x [expr {$bottom+16}] "tick mid" [number $rate]
  }
  text 14 [expr {$bottom+38}] note "[dict get $run date], [dict get $run \
    machine], load average [dict get $run load]"
}

proc draw_row {run row y} {
  global BOX COLOR WORKERS
  set color $COLOR([dict get $row language])
  set weight [expr {[string match claimq* [dict get $row name]] ? 700 : 400}]
  text [expr {$BOX(left)-12}] [expr {$y+4}] end "[title $row]\
    ([dict get $row language]), [dict get $row durable]" \
    " fill=\"$color\" font-weight=\"$weight\" data-row=\"[dict get $row name]\""
  set shift -4
  foreach depth [dict get $run depths] fill [list $color #ffffff] {
    if {$depth eq ""} continue
    foreach n $WORKERS r {2.5 3.8 5.2} {
      set rate [or_else $row $depth,$n,rate 0]
      if {$rate <= 0} continue
      draw "<circle cx=\"[px $rate]\" cy=\"[expr {$y+$shift}]\" r=\"$r\"\
        fill=\"$fill\" stroke=\"$color\" fill-opacity=\"0.75\"/>"
    }
    set shift 4
  }
}

#--------------------------------------------------------------------------

lassign $argv file readme out
if {$file eq ""} {set file $root/test/bench/brokers.json}
if {$readme eq ""} {set readme $root/test/bench/README.md}
if {$out eq ""} {set out $root/test/bench/brokers.svg}
if {[catch {json_read [read_file $file]} run]} {die "$file: $run"}
set rows [run_rows $run]
set SVG ""
draw_frame $run $rows
set y $BOX(top)
foreach row $rows {
  draw_row $run $row [incr y [expr {$y == $BOX(top) ? 6 : $BOX(step)}]]
}
draw </svg>
write_text $readme [put_tables [read_file $readme] $run $rows]
write_text $out $SVG
puts "$readme, $out: [llength $rows] systems"
