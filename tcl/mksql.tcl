# mksql.tcl: turns the files of sql/ into a C enum and two C tables.
#
#     tclsh tcl/mksql.tcl OUTDIR sql/schema.sql sql/session.sql ...
#
# writes OUTDIR/claimq_sql.h and OUTDIR/claimq_sql.c.  From
#
#     -- fragment: LIVE
#     expires_at_ms > :now
#
#     -- name: SESSION_HELD
#     -- Is anything of the session held?          (documentation)
#     SELECT 1 FROM claimq_batch
#      WHERE session_id = :session AND {{LIVE}} LIMIT 1;
#
# come the constant CQ_SQL_SESSION_HELD and the row
#
#     {"SESSION_HELD", "SELECT 1 FROM claimq_batch WHERE ..."}
#
# of claimqSql[]: comments gone, white space collapsed, fragments put in.  A
# fragment may be used in any file and in other fragments.
#
# schema.sql and views.sql are different: they hold the statements that create
# the database format, which users will read with .schema.  Each becomes a row
# {type, name, sql} of claimqSchema[] in the order of the files, with its text
# as written (comments between statements are left out, those inside stay).
#
# How: cqScan cuts any SQL text into pieces (blanks, comments, quoted things,
# words, single characters); everything else looks at pieces only, so that a
# semicolon in a string or a quote in a comment cannot confuse it.  Every
# mistake in the input stops the build with FILE:LINE: MESSAGE.

proc fail {where msg} {
  puts stderr "$where: $msg"
  exit 1
}

# Cut SQL into a flat list: KIND TEXT LINE KIND TEXT LINE ...
# KIND is space, comment, quoted, word or other.
proc scan_sql {file sql line} {
  set rx {\A(?:(\s+)|(--[^\n]*|/\*(?:[^*]|\*+[^*/])*\*+/)}
  append rx {|('(?:[^']|'')*'|"(?:[^"]|"")*"|`[^`]*`)|([\w$:@]+)|(.))}
  set out {}
  set i 0
  while {[regexp -start $i $rx $sql all space comment quoted word other]} {
    foreach kind {space comment quoted word other} {
      if {[set $kind] ne ""} break
    }
    set two [string range $sql $i $i+1]
    if {$kind eq "other" && ($other in {' \" `} || $two eq "/*")} {
      fail $file:$line "$two without an end"
    }
    lappend out $kind $all $line
    incr line [regexp -all {\n} $all]
    incr i [string length $all]
  }
  return $out
}

# Text without comments, runs of white space as one blank, no final semicolon.
proc squeeze {pieces} {
  set out ""
  set gap ""
  foreach {kind text line} $pieces {
    if {$kind in {space comment}} {set gap " "; continue}
    if {$out eq ""} {set gap ""}
    append out $gap $text
    set gap ""
  }
  return [string trimright $out "; "]
}

# Replace {{NAME}} by fragment NAME, also within fragments.
proc expand {where text {depth 0}} {
  global fragment
  if {$depth > 20} {fail $where "fragments that use each other"}
  while {[regexp {\{\{(\w+)\}\}} $text all name]} {
    if {![info exists fragment($name)]} {fail $where "no fragment $name"}
    set value [expand $where [lindex $fragment($name) 1] [incr depth]]
    set text [string map [list $all $value] $text]
  }
  return $text
}

#--------------------------------------------------------------------------
# Reading

source [file join [file dirname [info script]] files.tcl]

# A file of named blocks, into the globals stmt (list of NAME WHERE PIECES)
# and fragment(NAME) {WHERE TEXT}.
proc read_blocks {file} {
  set marker {^--\s*(name|fragment):\s*(\S*)\s*$}
  lassign {"" "" "" 0 0} kind name body start line
  foreach text [split [read_file $file] \n] {
    incr line
    if {[regexp $marker $text -> newkind newname]} {
      add_block $kind $file $start $name $body
      lassign [list $newkind $newname $line ""] kind name start body
      if {![regexp {^[A-Z][A-Z0-9_]*$} $name]} {
        fail $file:$line "bad $kind '$name': wanted capitals, like THIS_ONE"
      }
    } elseif {$kind ne ""} {
      append body $text \n
    } elseif {[regexp {^\s*[^\s-]} $text]} {
      fail $file:$line "text before the first '-- name:'"
    }
  }
  add_block $kind $file $start $name $body
}

proc add_block {kind file line name body} {
  global stmt fragment seen
  if {$kind eq ""} return
  set where $file:$line
  if {[info exists seen($name)]} {
    fail $where "$kind $name again, first at $seen($name)"
  }
  set seen($name) $where
  set text [squeeze [scan_sql $file $body [expr {$line+1}]]]
  if {$text eq ""} {fail $where "$kind $name is empty"}
  if {$kind eq "name"} {
    lappend stmt $name $where $text
  } else {
    set fragment($name) [list $where $text]
  }
}

# A schema file, into the global schema (list of TYPE NAME WHERE SQL).  A
# trigger has semicolons inside; it ends with "; END ;" as sqlite3_complete()
# sees it.
proc read_schema {file} {
  set sql ""
  set words {}
  foreach {kind text line} [scan_sql $file [read_file $file] 1] {
    if {$sql eq ""} {
      if {$kind in {space comment}} continue
      set start $line
    }
    append sql $text
    if {$kind in {space comment}} continue
    lappend words $text
    if {$text eq ";" && [schema_complete $words]} {
      add_schema $file:$start $words [string trimright $sql ";"]
      set sql ""
      set words {}
    }
  }
  if {$sql ne ""} {fail $file:$start "statement without an end"}
}

proc schema_complete {words} {
  set text [join $words]
  if {![regexp -nocase {^CREATE TRIGGER } $text]} {return 1}
  return [regexp -nocase { ; END ;$} $text]
}

proc add_schema {where words sql} {
  global schema seen
  set head [join [lrange $words 0 12]]
  set rx {^CREATE (?:UNIQUE )?(TABLE|INDEX|TRIGGER|VIEW) }
  append rx {(?:IF NOT EXISTS )?(?:main \. )?(\w+)}
  if {[regexp -nocase $rx $head -> type name]} {
    set key "schema $name"
    if {[info exists seen($key)]} {
      fail $where "$name again, first at $seen($key)"
    }
    set seen($key) $where
  } elseif {[regexp -nocase \
      {^INSERT (?:OR \w+ )?INTO (?:main \. )?(\w+)} $head -> name]} {
    set type insert
  } else {
    fail $where "neither CREATE nor INSERT: [lrange $words 0 3]"
  }
  lappend schema [string tolower $type] $name $where [string trimright $sql]
}

#--------------------------------------------------------------------------
# Writing

# C99 promises 4095 characters in a string literal, and -pedantic holds us to
# it.  Longer text becomes an array of characters.
set ::literal_max 4000

proc c_escape {text} {
  set out ""
  foreach c [split [encoding convertto utf-8 $text] ""] {
    scan $c %c n
    switch -- $c {
      "\\" - "\"" {append out \\$c}
      "\n" {append out "\\n"}
      default {
        append out [expr {$n<32 || $n>126 ? [format "\\%03o" $n] : $c}]
      }
    }
  }
  # No trigraphs.
  return [string map {"??" "?\"\"?"} $out]
}

# Cut escaped text into quoted lines that fit, at blanks where there are any.
proc c_literal {text indent} {
  set lines {}
  set width [expr {76 - [string length $indent]}]
  set pending ""
  foreach piece [regexp -all -inline {(?:[^\s\\]|\\[^n])+\s*(?:\\n)?|\s+|\\n} \
      [c_escape $text]] {
    if {$pending ne "" && [string length $pending$piece] > $width} {
      lappend lines $indent\"$pending\"
      set pending ""
    }
    append pending $piece
    if {[string match {*\\n} $piece]} {
      lappend lines $indent\"$pending\"
      set pending ""
    }
  }
  if {$pending ne ""} {lappend lines $indent\"$pending\"}
  return [join $lines \n]
}

# The C expression for a text: a literal, or the name of an array that is put
# out first.
proc c_text {fd text indent} {
  global literal_max narray
  set bytes [encoding convertto utf-8 $text]
  if {[string length $bytes] <= $literal_max} {
    return \n[c_literal $text $indent]
  }
  set name cqLongSql[incr narray]
  puts $fd "static const char $name\[\] = {"
  binary scan $bytes cu* codes
  lappend codes 0
  for {set i 0} {$i < [llength $codes]} {incr i 16} {
    puts $fd "  [join [lrange $codes $i [expr {$i+15}]] ,],"
  }
  puts $fd "};\n"
  return " $name"
}

proc write_header {fd} {
  global stmt schema
  puts $fd "/* Generated by tcl/mksql.tcl from sql/.  Do not edit. */"
  puts $fd "#ifndef CLAIMQ_SQL_H\n#define CLAIMQ_SQL_H\n"
  puts $fd "#include \"claimq_core.h\"\n"
  puts $fd "/* Statements, for claimqSql\[\]. */\ntypedef enum CqSqlId {"
  foreach {name where text} $stmt {puts $fd "  CQ_SQL_$name,"}
  puts $fd "  CQ_NSTMT\n} CqSqlId;\n"
  puts $fd "#define CQ_NSCHEMA [expr {[llength $schema]/4}]\n"
  puts $fd "typedef struct CqSql CqSql;
struct CqSql {
  const char *zName;              /* As in sql/, e.g. SESSION_HELD */
  const char *zSql;
};

typedef struct CqSchemaObj CqSchemaObj;
struct CqSchemaObj {
  const char *zType;              /* table index trigger view insert */
  const char *zName;              /* For insert, the table's name */
  const char *zSql;
};

/* In the amalgamation the tables stand before all that uses them. */
#ifndef CLAIMQ_AMALGAMATION
extern const CqSql claimqSql\[CQ_NSTMT\];
extern const CqSchemaObj claimqSchema\[CQ_NSCHEMA\];
#endif

#endif /* CLAIMQ_SQL_H */"
}

# One table: the long texts first, then the rows, then the compile-time check
# that it has as many rows as the header says.
proc write_table {fd type name count rows} {
  set body ""
  foreach {heads where text} $rows {
    set value [c_text $fd [expand $where $text] "    "]
    append body "  {\"[join $heads {", "}]\",$value},\n"
  }
  puts $fd "CQ_PRIV const $type $name\[\] = {\n$body};"
  set check "CqCheck[string totitle $name 0 0]"
  puts $fd "typedef char ${check}\["
  puts $fd "  sizeof($name)/sizeof($name\[0\])==$count ? 1 : -1\n\];\n"
}

proc write_source {fd} {
  global stmt schema
  puts $fd "/* Generated by tcl/mksql.tcl from sql/.  Do not edit. */"
  puts $fd "#include \"claimq_sql.h\"\n"
  set rows {}
  foreach {name where text} $stmt {lappend rows [list $name] $where $text}
  write_table $fd CqSql claimqSql CQ_NSTMT $rows
  set rows {}
  foreach {type name where text} $schema {
    lappend rows [list $type $name] $where $text
  }
  write_table $fd CqSchemaObj claimqSchema CQ_NSCHEMA $rows
}

# Written aside and renamed, so that a failed run leaves no half of a file.
proc write_file {file writer} {
  set fd [open $file.tmp w]
  fconfigure $fd -encoding utf-8
  $writer $fd
  close $fd
  file rename -force $file.tmp $file
}

proc main {argv} {
  global stmt schema
  set files [lassign $argv outdir]
  if {$files eq ""} {
    puts stderr "usage: tclsh mksql.tcl OUTDIR FILE.sql ..."
    exit 2
  }
  set stmt {}
  set schema {}
  set done {}
  # The schema first, whatever the order of the arguments: views need tables.
  foreach file $files {
    if {$file in $done} continue
    lappend done $file
    switch -- [file tail $file] {
      schema.sql {read_schema $file}
      views.sql  {lappend views $file}
      default    {read_blocks $file}
    }
  }
  if {[info exists views]} {foreach file $views {read_schema $file}}
  foreach {what list} [list statement $stmt schema $schema] {
    if {$list eq ""} {fail $outdir "no $what in [join $files]"}
  }
  write_file $outdir/claimq_sql.c write_source
  write_file $outdir/claimq_sql.h write_header
}

main $argv
