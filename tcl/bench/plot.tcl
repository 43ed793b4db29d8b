# bench/plot.tcl: draws the time of a claim against the depth of the queue.
#
#     tclsh tcl/bench/plot.tcl ?BENCH.JSON? ?OUT.SVG?
#
# Reads what `make bench` wrote (build/bench.json) and writes an SVG
# (test/bench/depth.svg): both axes logarithmic, one line for claimq, for the
# floor and for each peer, each with its name at its right end.  A language
# has one colour, so like is compared with like; claimq is drawn bold.  The
# name is followed by the time at the greatest depth.  On tmpfs all times are
# processor times, as make bench measures its own there; on disk they are real.
#
# Of BENCH.JSON it uses
#     machine, date, quick
#     results   those with group "depth" and a name of CLAIMS below:
#               param.depth, claimq_us, floor_us, place
#     peers     peer, language, version, depth, us, cpu, place
# One place is drawn, tmpfs if it is there.

set root [file normalize [file join [file dirname [info script]] .. ..]]
source [file join $root tcl bench json.tcl]
source [file join $root tcl bench svg.tcl]

# Results of the C driver that are drawn, and under which names.
set CLAIMS {
  "session claim+complete"         {claimq_us "claimq (C)" floor_us "floor"}
  "session claim+complete, ready"  {claimq_us "claimq (C)" floor_us "floor"}
  "lane claim+complete"            {claimq_us "claimq lane (C)"}
  "lane claim+complete, ready"     {claimq_us "claimq lane (C)"}
}

# The drawing, in pixels: the whole, and the field inside the axes.
array set BOX {width 910 height 600 left 78 right 645 top 64 bottom 502}
set LABEL_GAP 16

proc die {message} {
  puts stderr "bench/plot.tcl: $message"
  exit 1
}

#--------------------------------------------------------------------------
# Series: a dict  NAME -> {language L points {DEPTH US ...}}

proc add_point {name language depth us} {
  global SERIES
  if {$us eq "null" || $us <= 0 || $depth <= 0} return
  if {![dict exists $SERIES $name]} {
    dict set SERIES $name [dict create language $language points {}]
  }
  dict set SERIES $name points $depth $us
}

# Those of a list that are in the place that is drawn.
proc of_place {rows place} {
  return [lmap row $rows {
    if {[or_else $row place $place] ne $place} continue
    set row
  }]
}

proc depth_results {bench} {
  return [lmap row [or_else $bench results {}] {
    if {[or_else $row group ""] ne "depth"
        || ![dict exists $::CLAIMS [or_else $row name ""]]
        || ![dict exists $row param depth]} continue
    set row
  }]
}

# What a peer is called in the plot, such as "honker 0.2.4 (Python)".
proc peer_name {row} {
  regsub { \(.*} [dict get $row peer] "" name
  if {![string match claimq* $name]} {append name " [or_else $row version ""]"}
  return "[string trim $name] ([dict get $row language])"
}

# Fills SERIES; returns the place.
proc collect {bench} {
  set rows [depth_results $bench]
  set peers [or_else $bench peers {}]
  set place [or_else [lindex [concat $rows $peers] 0] place ""]
  foreach row [concat $rows $peers] {
    if {[or_else $row place ""] eq "tmpfs"} {set place tmpfs}
  }
  foreach row [of_place $rows $place] {
    dict for {field name} [dict get $::CLAIMS [dict get $row name]] {
      add_point $name C [dict get $row param depth] \
        [or_else $row $field null]
    }
  }
  foreach row [of_place $peers $place] {
    set us [dict get $row us]
    if {$place eq "tmpfs"} {set us [or_else $row cpu $us]}
    add_point [peer_name $row] [dict get $row language] \
      [dict get $row depth] $us
  }
  return $place
}

# All depths, or all times, of all series.
proc all_of {what} {
  set out {}
  dict for {name one} $::SERIES {
    lappend out {*}[dict $what [dict get $one points]]
  }
  return $out
}

#--------------------------------------------------------------------------
# Scales

proc px {depth} {
  global XRANGE BOX
  return [scale $depth {*}$XRANGE $BOX(left) $BOX(right)]
}

proc py {us} {
  global YRANGE BOX
  return [scale $us {*}$YRANGE $BOX(bottom) $BOX(top)]
}

# 1000 -> 1k; 2000000 -> 2M
proc depth_text {n} {
  set n [format %.0f $n]
  regsub {000000$} $n M n
  regsub {000$} $n k n
  return $n
}

# 200 -> 200 us; 5000 -> 5 ms; 81.34 -> 81.3 us (with a Greek m)
proc time_text {us} {
  foreach {size unit} [list 1e6 s 1e3 ms 1 \u00b5s] {
    if {$us >= $size*0.999999} break
  }
  return "[format %.3g [expr {$us/$size}]] $unit"
}

proc set_ranges {} {
  global XRANGE YRANGE
  set depths [lsort -real [all_of keys]]
  set XRANGE [list [lindex $depths 0] [lindex $depths end]]
  if {[lindex $XRANGE 0] == [lindex $XRANGE 1]} {
    set XRANGE [list [expr {[lindex $depths 0]/10.0}] \
      [expr {[lindex $depths 0]*10.0}]]
  }
  set times [lsort -real [all_of values]]
  set all [steps [lindex $times 0] [lindex $times end]]
  set YRANGE [list [lindex $all 0] [lindex $all end]]
}

#--------------------------------------------------------------------------
# Drawing

proc draw_head {} {
  global BOX
  draw "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"$BOX(width)\"\
    height=\"$BOX(height)\" viewBox=\"0 0 $BOX(width) $BOX(height)\"\
    font-family=\"system-ui, 'DejaVu Sans', sans-serif\" font-size=\"12\">"
  draw "<title>Time to claim and complete one job, by queue depth</title>"
  draw {<style>
.title {font-size: 17px; font-weight: 600; fill: #111}
.tick, .axis {fill: #444}
.note {font-size: 11px; fill: #555}
.grid {stroke: #d0d0d0; stroke-width: 1}
.minor {stroke: #ececec; stroke-width: 1}
.lead {stroke-width: 0.7; opacity: 0.6}
.end {text-anchor: end}
.mid {text-anchor: middle}
polyline {fill: none; stroke-linejoin: round; stroke-linecap: round}
</style>}
  draw "<rect width=\"100%\" height=\"100%\" fill=\"#ffffff\"/>"
  text $BOX(left) 28 title "Claim and complete one job"
  text $BOX(left) 48 note "time for one job, against the number of jobs\
    that are ready; lower is better"
}

proc draw_axes {} {
  global BOX YRANGE
  set all [steps {*}$YRANGE]
  foreach us $all {
    set whole [expr {abs(log10($us)-round(log10($us))) < 1e-9}]
    set y [py $us]
    line $BOX(left) $y $BOX(right) $y [expr {$whole ? "grid" : "minor"}]
    if {$whole || [llength $all] < 7} {
      text [expr {$BOX(left)-8}] [expr {$y+4}] "tick end" [time_text $us]
    }
  }
  foreach depth [lsort -unique -real [all_of keys]] {
    set x [px $depth]
    line $x $BOX(top) $x $BOX(bottom) minor
    text $x [expr {$BOX(bottom)+18}] "tick mid" [depth_text $depth]
  }
  line $BOX(left) $BOX(bottom) $BOX(right) $BOX(bottom) grid
  text [expr {($BOX(left)+$BOX(right))/2}] [expr {$BOX(bottom)+38}] \
    "axis mid" "jobs ready in the queue (log scale)"
  set y [expr {($BOX(top)+$BOX(bottom))/2}]
  text 20 $y "axis mid" "time per job (log scale)" \
    " transform=\"rotate(-90 20 $y)\""
}

proc color_of {name} {
  global COLOR SERIES
  if {$name eq "floor"} {return #888888}
  set language [dict get $SERIES $name language]
  if {[info exists COLOR($language)]} {return $COLOR($language)}
  return #7a3e9d
}

# The time at the greatest depth.
proc last_of {name} {
  set points [dict get $::SERIES $name points]
  return [dict get $points [lindex [lsort -real [dict keys $points]] end]]
}

proc points_of {name} {
  set points [dict get $::SERIES $name points]
  return [lmap depth [lsort -real [dict keys $points]] {
    list [px $depth] [py [dict get $points $depth]]
  }]
}

proc draw_series {name} {
  set color [color_of $name]
  set ours [string match claimq* $name]
  set style "stroke=\"$color\" stroke-width=\"[expr {$ours ? 2.6 : 1.4}]\""
  if {$name eq "floor"} {append style " stroke-dasharray=\"5 4\""}
  set points [points_of $name]
  draw "<polyline data-series=\"[esc $name]\" $style\
    points=\"[join [lmap p $points {join $p ,}] { }]\"/>"
  foreach p $points {
    lassign $p x y
    draw "<circle cx=\"$x\" cy=\"$y\" r=\"[expr {$ours ? 3.2 : 2.8}]\"\
      fill=\"[expr {$ours ? $color : "#ffffff"}]\" stroke=\"$color\"/>"
  }
}

# Labels keep their order and at least GAP between them, stay between LOW and
# HIGH, and move as little as they can: those that would touch become a block
# around their mean.  WANTED is a list of places in rising order; returns the
# places they get.
proc spread {wanted gap low high} {
  set blocks {}                 ;# {MIDDLE COUNT} from low to high
  foreach middle $wanted {
    set n 1
    while 1 {
      set half [expr {($n-1)*$gap/2.0}]
      set middle [expr {max($low+$half, min($high-$half, $middle))}]
      if {![llength $blocks]} break
      lassign [lindex $blocks end] m k
      if {$middle-$half - ($m+($k-1)*$gap/2.0) >= $gap} break
      set middle [expr {($middle*$n+$m*$k)/($n+$k)}]
      incr n $k
      set blocks [lrange $blocks 0 end-1]
    }
    lappend blocks [list $middle $n]
  }
  set out {}
  foreach block $blocks {
    lassign $block middle n
    for {set i 0} {$i < $n} {incr i} {
      lappend out [expr {$middle+($i-($n-1)/2.0)*$gap}]
    }
  }
  return $out
}

proc draw_labels {} {
  global SERIES BOX LABEL_GAP
  set ends {}
  foreach name [dict keys $SERIES] {
    lappend ends [list $name {*}[lindex [points_of $name] end]]
  }
  set ends [lsort -real -index 2 $ends]
  set places [spread [lmap e $ends {lindex $e 2}] $LABEL_GAP \
    $BOX(top) [expr {$BOX(bottom)+30}]]
  foreach e $ends y $places {
    lassign $e name px py
    set y [format %.1f $y]
    set x [expr {$BOX(right)+36}]
    set color [color_of $name]
    line [expr {$px+6}] $py [expr {$x-5}] $y lead " stroke=\"$color\""
    set weight [expr {[string match claimq* $name] ? 600 : 400}]
    text $x [expr {$y+4}] label "$name: [time_text [last_of $name]]" \
      " fill=\"$color\" font-weight=\"$weight\""
  }
}

proc draw_caption {bench place} {
  global BOX
  set y [expr {$BOX(bottom)+62}]
  set clock [expr {$place eq "tmpfs" ? "processor time" : "real time"}]
  text $BOX(left) $y note "File on $place, $clock, WAL, synchronous NORMAL, one\
    process, one job at a time.  floor: the least SQL by hand."
  set made "[or_else $bench machine {unknown machine}],\
    [or_else $bench date {unknown date}]"
  if {[or_else $bench quick 0] ni {0 false}} {append made " (quick run)"}
  text $BOX(left) [expr {$y+16}] note $made
}

#--------------------------------------------------------------------------

lassign $argv file out
if {$file eq ""} {set file $root/build/bench.json}
if {$out eq ""} {set out $root/test/bench/depth.svg}
set SERIES [dict create]
set SVG ""
if {[catch {read_file $file} text]} {die "$text: run make bench first"}
if {[catch {json_read $text} bench]} {die "$file: $bench"}
if {[catch {collect $bench} place]} {die "$file: not of make bench: $place"}
if {![dict size $SERIES]} {die "$file: no results by depth in it"}
set_ranges
draw_head
draw_axes
foreach name [dict keys $SERIES] {draw_series $name}
draw_labels
draw_caption $bench $place
draw </svg>
write_text $out $SVG
puts "$out: [dict size $SERIES] lines"
