# mksql.tcl: turns the files of sql/ into C: statements, and the names by which
# C binds their parameters and reads their columns.
#
#     tclsh tcl/build/mksql.tcl OUTDIR FILE.sql ... FILE.c ...
#
# writes OUTDIR/claimq_sql.h and OUTDIR/claimq_sql.c.  From
#
#     -- fragment: LIVE
#     expires_at_ms > :now
#
#     -- name: SESSION_HELD
#     -- Is anything of the session held?          (documentation)
#     SELECT enqueue_seq, claim_id IS NOT NULL AS held
#     FROM {{S}}.claimq_batch WHERE session = :session AND {{LIVE}} LIMIT 1;
#
# come the statement CQ_SQL_SESSION_HELD, a row of claimqSql[] with its text
# (comments gone, white space collapsed, fragments put in), and the constants
#
#     CQ_SESSION_HELD_session, CQ_SESSION_HELD_now     numbers of parameters
#     CQ_COL_SESSION_HELD_enqueue_seq, CQ_COL_SESSION_HELD_held      of columns
#
# A column is named by its AS, or is a plain column.  A fragment may be used in
# any file and in other fragments, also with words or parameters that take the
# places of $1, $2 and so on in it: {{OLDEST session}}.  {{S}} is the schema
# that all tables are in.
#
# Statements that stand in for each other share their names:
#
#     -- name: SESSION_HELD_BY like SESSION_HELD
#
# numbers its parameters as SESSION_HELD does (which gets those that only this
# one has) and must have the same columns at the same places, as far as both
# have them.  C then uses the names of SESSION_HELD for both.
#
# Parameters that mean the same in all statements are bound by claimq's engine,
# whatever the statement: the line
#
#     -- common: head claim token
#
# of any file names them.  claimqSql[].aCommon[CQ_P_head] is the number of :head
# in that statement, 0 if it has none.
#
# Statements of several disciplines that the engine runs alike are like a shape,
# which has no text of its own:
#
#     -- shape: VACUUM_ROWS (limit) id at_ms
#
# What all statements of a kind must begin with is said once:
#
#     -- columns: HOLD claim_id lease_token
#
# makes CQ_COL_HOLD_claim_id and so on, and every statement whose name ends in
# _HOLD must have these as its first columns.
#
# A parameter that no .c file binds stops the build; a name that does not exist
# is an error of the C compiler.
#
# The files of sql/schema/ are different: they hold the statements that create
# the database format, which users will read with .schema.  Each becomes a row
# {type, name, option, feature, columns, sql} of claimqSchema[], with its text
# as written (comments between statements are left out, those inside stay).
# They are created in the order of the file.  Which file comes first is said in
# one of them:
#
#     -- order: meta session lane
#
# Files that it does not name come after these.  The line
#
#     -- feature: sessions
#
# says which feature the statements after it belong to, to the end of the file:
# they are created when it is first used, or by claimq_init('sessions', 1).  It
# makes the constants CQ_FEAT_SESSIONS and CQ_M_SESSIONS (its bit), and
# claimqSql[].mFeature says of which features a statement names a table (and
# bDelete, whether it is a DELETE).  What stands in no feature is CQ_FEAT_LANES:
# every database has it.  The line
#
#     -- option: any_session serial
#
# before a statement says that it is for databases with one of these settings of
# claimq_init() only; without that line a statement is for all.  A file of
# statements may bring some for the format, too, after all others, in blocks
# that begin with the line
#
#     -- schema:
#
# What brings the tables of format N-1 to format N stands in migrate.sql, one
# statement to a block, in the order in which they run:
#
#     -- migrate: N
#
# How: scan_sql cuts any SQL text into pieces (blanks, comments, quoted things,
# words, single characters); everything else looks at pieces only, so that a
# semicolon in a string or a quote in a comment cannot confuse it.  Every
# mistake in the input stops the build with FILE:LINE: MESSAGE.

# The schema that {{S}} stands for, also CQ_SCHEMA in C.
set ::schema_name main

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

# Replace {{NAME}} by fragment NAME, also within fragments.  form: 1 squeezed, 2
# as written.  outer: the fragments that this text is part of.
proc expand {where text {form 1} {outer {}}} {
  global fragment schema_name
  set text [string map [list "{{S}}" $schema_name] $text]
  while {[regexp {\{\{(\w+)((?:\s+[\w.:]+)*)\}\}} $text all name words]} {
    if {![info exists fragment($name)]} {fail $where "no fragment $name"}
    if {$name in $outer} {fail $where "fragment $name uses itself"}
    set map {}
    foreach word $words {lappend map \$[expr {[llength $map]/2+1}] $word}
    set value [string map $map [lindex $fragment($name) $form]]
    if {[regexp {\$\d} $value place]} {fail $where "$name needs $place"}
    set value [expand $where $value $form [concat $outer $name]]
    set text [string map [list $all $value] $text]
  }
  return $text
}

#--------------------------------------------------------------------------
# Reading

source [file join [file dirname [info script]] files.tcl]

# A file of named blocks, into the globals stmt (list of NAME WHERE TEXT),
# root(NAME), the statement whose names it shares, and fragment(NAME) {WHERE
# TEXT WRITTEN}.
proc read_blocks {file} {
  set marker {^--\s*(name|fragment|schema|migrate):\s*(\S*)}
  append marker {(?:\s+like\s+(\S+))?\s*$}
  lassign {"" "" "" 0 0 ""} kind name body start line like
  foreach text [split [read_file $file] \n] {
    incr line
    if {[regexp {^--\s*common:(.*)$} $text -> names]} {
      lappend ::common {*}$names
    } elseif {[regexp {^--\s*columns:\s*(\w+)\s+(.*)$} $text -> what list]} {
      set ::kind($what) $list
    } elseif {[regexp {^--\s*shape:\s*(\w+)\s*\(([^)]*)\)(.*)$} $text -> \
        what list columns]} {
      set ::shape($what) [list $file:$line $list $columns]
    } elseif {[regexp $marker $text -> newkind newname newlike]} {
      add_block $kind $file $start $name $body $like
      lassign [list $newkind $newname $line "" $newlike] \
        kind name start body like
      if {$kind in {name fragment} && ![regexp {^[A-Z][A-Z0-9_]*$} $name]} {
        fail $file:$line "bad $kind '$name': wanted capitals, like THIS_ONE"
      }
    } elseif {$kind ne ""} {
      append body $text \n
    } elseif {[regexp {^\s*[^\s-]} $text]} {
      fail $file:$line "text before the first '-- name:'"
    }
  }
  add_block $kind $file $start $name $body $like
}

proc add_block {kind file line name body like} {
  global stmt fragment seen root
  if {$kind eq ""} return
  set where $file:$line
  if {$kind eq "schema"} {
    read_schema $file $body [expr {$line+1}]
    return
  }
  if {$kind eq "migrate"} {
    lappend ::migrate $name $where [squeeze [scan_sql $file $body $line]]
    return
  }
  if {[info exists seen($name)]} {
    fail $where "$kind $name again, first at $seen($name)"
  }
  set seen($name) $where
  set text [squeeze [scan_sql $file $body [expr {$line+1}]]]
  if {$text eq ""} {fail $where "$kind $name is empty"}
  if {$kind eq "name"} {
    lappend stmt $name $where $text
    set root($name) [expr {$like eq "" ? $name : $like}]
  } else {
    regsub -all -line {^\s*--.*\n?} $body "" body
    set fragment($name) [list $where $text [string trim $body]]
  }
}

# The files of the format, in the order that one of them gives.
proc read_schemas {files} {
  set order {}
  foreach file $files {
    foreach {line names} [regexp -all -inline -line \
        {^--\s*order:(.*)$} [read_file $file]] {
      foreach name $names {
        set found [lsearch -inline $files */schema/$name.sql]
        if {$found eq ""} {fail $file "no $name.sql beside it"}
        lappend order $found
      }
    }
  }
  foreach file $files {
    if {$file ni $order} {lappend order $file}
  }
  foreach file $order {read_schema $file [read_file $file] 1}
}

# The statements of a schema, into the global schema (list of TYPE NAME OPTION
# FEATURE WHERE SQL).  A trigger has semicolons inside; it ends with "; END ;"
# as sqlite3_complete() sees it.
proc read_schema {file body line} {
  set sql ""
  set words {}
  set option ""
  set feature lanes
  foreach {kind text line} [scan_sql $file $body $line] {
    if {$sql eq ""} {
      regexp {^--\s*option:\s*(.*?)\s*$} $text -> option
      regexp {^--\s*feature:\s*(\w+)\s*$} $text -> feature
      if {$kind in {space comment}} continue
      set start $line
    }
    append sql $text
    if {$kind in {space comment}} continue
    lappend words $text
    if {$text eq ";" && [schema_complete $words]} {
      add_schema $file:$start $words [string trimright $sql ";"] $option \
        $feature
      set sql ""
      set words {}
      set option ""
    }
  }
  if {$sql ne ""} {fail $file:$start "statement without an end"}
}

proc schema_complete {words} {
  set text [join $words]
  if {![regexp -nocase {^CREATE TRIGGER } $text]} {return 1}
  return [regexp -nocase { ; END ;$} $text]
}

proc add_schema {where words sql option feature} {
  global schema seen
  if {$feature ni $::features} {lappend ::features $feature}
  set head [join [lrange $words 0 12]]
  set rx {^CREATE (?:UNIQUE )?(TABLE|INDEX|TRIGGER|VIEW) }
  append rx {(?:IF NOT EXISTS )?(?:\{ \{ S \} \} \. )?(\w+)}
  if {[regexp -nocase $rx $head -> type name]} {
    set key "schema $name"
    if {[info exists seen($key)]} {
      fail $where "$name again, first at $seen($key)"
    }
    set seen($key) $where
  } elseif {[regexp -nocase \
      {^INSERT (?:OR \w+ )?INTO (?:\{ \{ S \} \} \. )?(\w+)} $head -> name]} {
    set type insert
  } else {
    fail $where "neither CREATE nor INSERT: [lrange $words 0 3]"
  }
  lappend schema [string tolower $type] $name $option $feature $where \
    [string trimright $sql]
}

# The columns of a table or view, with commas: as its statement names them.
proc schema_columns {type where sql} {
  if {$type ni {table view}} {return ""}
  set depth 0
  set list {}
  set first 0
  foreach {kind piece line} [scan_sql $where $sql 1] {
    if {$kind in {space comment}} continue
    if {$piece eq "("} {incr depth}
    if {$piece eq ")" && [incr depth -1] == 0} break
    if {$depth == 1 && $first} {
      if {$kind eq "word" && [string toupper $piece] ni
          {CONSTRAINT CHECK PRIMARY UNIQUE FOREIGN}} {lappend list $piece}
    }
    set first [expr {$depth == 1 && $piece in {( ,}}]
  }
  return [join $list ,]
}

# The features that a text names a table, view or index of, as C has them.
proc features_of {text} {
  set out {}
  foreach {type name option feature where sql} $::schema {
    if {$feature ne "lanes" && $type in {table view index}
        && [regexp "\\m$name\\M" $text]} {
      lappend out CQ_M_[string toupper $feature]
    }
  }
  return [expr {[llength $out] ? [join [lsort -unique $out] |] : 0}]
}

#--------------------------------------------------------------------------
# Names

# The named parameters of a statement, in the order of their first use.
proc params_of {where text} {
  set out {}
  foreach {kind piece line} [scan_sql $where $text 1] {
    if {$kind eq "word" && [regexp {^:(\w+)$} $piece -> name]} {
      if {$name ni $out} {lappend out $name}
    } elseif {$kind eq "other" && $piece eq "?"} {
      fail $where "a parameter without a name: write :name"
    }
  }
  return $out
}

# The names of a statement's columns, "" where one has none.
proc columns_of {where text} {
  if {[regexp {^PRAGMA (?:\w+\.)?(\w+)$} $text -> name]} {return [list $name]}
  set depth 0
  set on [regexp -nocase {^SELECT\M} $text]
  set list {}
  set column {}
  foreach {kind piece line} [scan_sql $where $text 1] {
    if {$kind in {space comment}} continue
    if {$piece eq "("} {incr depth}
    if {$piece eq ")"} {incr depth -1}
    set word [string toupper $piece]
    if {$depth == 0 && $word eq "RETURNING"} {
      set on 1
      set list {}
      set column {}
    } elseif {$depth == 0 && $on && $word in {FROM WHERE UNION ORDER LIMIT}} {
      if {[llength $column]} {lappend list [column_name $column]}
      set on 0
      set column {}
    } elseif {$depth == 0 && $on && $piece eq ","} {
      lappend list [column_name $column]
      set column {}
    } elseif {$on && !($depth == 0 && $word in {SELECT DISTINCT})} {
      lappend column $piece
    }
  }
  if {$on && [llength $column]} {lappend list [column_name $column]}
  return $list
}

proc column_name {words} {
  set name [lindex $words end]
  set before [string toupper [lindex $words end-1]]
  if {![regexp {^[a-z_]\w*$} $name]} {return ""}
  if {[llength $words] == 1 || $before in {AS .}} {return $name}
  return ""
}

# The shapes, as a list like stmt.
proc shapes {} {
  set out {}
  foreach name [lsort [array names ::shape]] {
    lappend out $name [lindex $::shape($name) 0] ""
  }
  return $out
}

# Fill the globals body(NAME) (the text as SQLite gets it), number(ROOT,PARAM),
# params(ROOT), columns(ROOT) and own(NAME) (the parameters of one statement).
proc name_statements {} {
  global stmt root body number params columns own
  foreach {name where text} $stmt {
    set body($name) [expand $where $text]
    set own($name) [params_of $where $body($name)]
    set columns($name) [columns_of $where $body($name)]
    set params($name) {}
  }
  foreach {name def} [array get ::shape] {
    set root($name) $name
    set own($name) [lindex $def 1]
    set columns($name) [lindex $def 2]
    set params($name) {}
  }
  foreach {name where text} $stmt {
    set r $root($name)
    if {![info exists root($r)] || $root($r) ne $r} {
      fail $where "like $r: there is no such statement, or it is like another"
    }
    foreach {k list} [array get ::kind] {
      if {[string match *_$k $name]
          && [lrange $columns($name) 0 [llength $list]-1] ne $list} {
        fail $where "the first columns must be: $list"
      }
    }
    foreach a $columns($name) b $columns($r) {
      if {$a ne "" && $b ne "" && $a ne $b} {
        fail $where "column $a stands where $r has $b"
      }
    }
  }
  # The root's own parameters come first, then those of its likes.
  foreach pass {1 2} {
    foreach {name where text} [concat [shapes] $stmt] {
      set r $root($name)
      if {($r eq $name) != ($pass == 1)} continue
      foreach param $own($name) {
        if {$param ni $params($r)} {lappend params($r) $param}
        set number($r,$param) [expr {[lsearch -exact $params($r) $param]+1}]
      }
    }
  }
  foreach {name where text} $stmt {number_params $name $where}
}

# Replace :name by ?NUMBER.
proc number_params {name where} {
  global root body number
  set out ""
  foreach {kind piece line} [scan_sql $where $body($name) 1] {
    if {$kind eq "word" && [string index $piece 0] eq ":"} {
      set piece ?$number($root($name),[string range $piece 1 end])
    }
    append out $piece
  }
  set body($name) $out
}

# Every parameter must be bound by some .c file, or be a common one.
proc check_bound {cfiles} {
  global stmt root params common
  if {![llength $cfiles]} return
  set code ""
  foreach file $cfiles {append code [read_file $file]}
  foreach {name where text} [concat [shapes] $stmt] {
    if {$root($name) ne $name} continue
    foreach param $params($name) {
      if {$param in $common} continue
      if {![regexp "\\mCQ_${name}_$param\\M" $code]} {
        fail $where "no C file binds CQ_${name}_$param"
      }
    }
  }
}

#--------------------------------------------------------------------------
# Writing

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

# The C literal for a text.  C99 promises 4095 characters, and -pedantic holds
# us to it.
proc c_text {where text indent} {
  if {[string length $text] > 4095} {fail $where "longer than C99 allows"}
  return \n[c_literal $text $indent]
}

# The names of one statement's parameters and columns, as an enum.
proc write_names {fd name} {
  global params columns number
  set list {}
  foreach param $params($name) {
    lappend list "CQ_${name}_$param = $number($name,$param)"
  }
  set i -1
  set seen {}
  foreach column $columns($name) {
    incr i
    if {$column eq "" || $column in $seen} continue
    lappend seen $column
    lappend list "CQ_COL_${name}_$column = $i"
  }
  if {[llength $list]} {puts $fd "enum {\n  [join $list ",\n  "]\n};"}
}

proc write_header {fd} {
  global stmt schema common root schema_name
  puts $fd "/* Generated by tcl/build/mksql.tcl from sql/.  Do not edit. */"
  puts $fd "#ifndef CLAIMQ_SQL_H\n#define CLAIMQ_SQL_H\n"
  puts $fd "#include \"claimq_core.h\"\n"
  puts $fd "/* Statements, for claimqSql\[\]. */\ntypedef enum CqSqlId {"
  foreach {name where text} $stmt {puts $fd "  CQ_SQL_$name,"}
  puts $fd "  CQ_NSTMT\n} CqSqlId;\n"
  puts $fd "/* Parameters that mean the same in all statements. */"
  puts $fd "typedef enum CqCommon {"
  foreach name $common {puts $fd "  CQ_P_$name,"}
  puts $fd "  CQ_NCOMMON\n} CqCommon;\n"
  foreach k [lsort [array names ::kind]] {
    puts $fd "/* The first columns of all statements *_$k. */\nenum {"
    set names [lmap c $::kind($k) {set _ CQ_COL_${k}_$c}]
    puts $fd "  [join $names ",\n  "]\n};\n"
  }
  puts $fd "/* Parameters and columns of each statement. */"
  foreach {name where text} [concat [shapes] $stmt] {
    if {$root($name) eq $name} {write_names $fd $name}
  }
  puts $fd "\n/* The schema that all tables are in. */"
  puts $fd "#define CQ_SCHEMA \"$schema_name\"\n"
  puts $fd "#define CQ_NSCHEMA [expr {[llength $schema]/6}]\n"
  puts $fd "/* The features, and a bit for each. */\nenum {"
  foreach name $::features {puts $fd "  CQ_FEAT_[string toupper $name],"}
  puts $fd "  CQ_NFEATURE\n};\nenum {"
  puts $fd "  [join [lmap name $::features {
    set n [string toupper $name]; set _ "CQ_M_$n = 1<<CQ_FEAT_$n"}] ",\n  "]"
  puts $fd "};\n"
  puts $fd "typedef struct CqSql CqSql;
struct CqSql {
  const char *zName;              /* As in sql/, e.g. SESSION_HELD */
  unsigned char nParam;           /* Greatest number of a parameter */
  unsigned char aCommon\[CQ_NCOMMON\];  /* Numbers of the common ones, or 0 */
  int mFeature;                   /* CQ_M_* of the tables that it names */
  unsigned char bDelete;          /* It is a DELETE */
  const char *zSql;
};

typedef struct CqSchemaObj CqSchemaObj;
struct CqSchemaObj {
  const char *zType;              /* table index trigger view insert */
  const char *zName;              /* For insert, the table's name */
  const char *zOption;            /* Settings it is for; empty: all databases */
  int eFeature;                   /* CQ_FEAT_*: what it belongs to */
  const char *zCols;              /* Of a table or view: \"a,b\"; else empty */
  const char *zSql;
};

typedef struct CqMigrate CqMigrate;
struct CqMigrate {
  int iVersion;                   /* The format it leads to; 0 ends the list */
  const char *zSql;
};

/* In the amalgamation the tables stand before all that uses them. */
#ifndef CLAIMQ_AMALGAMATION
extern const CqSql claimqSql\[CQ_NSTMT\];
extern const CqSchemaObj claimqSchema\[CQ_NSCHEMA\];
extern const CqMigrate claimqMigrate\[\];
extern const char claimqDefaultNow\[\];
extern const char *const claimqFeature\[CQ_NFEATURE\];
#endif

#endif /* CLAIMQ_SQL_H */"
}

# One table, and the compile-time check that it has as many rows as the header
# says.
proc write_table {fd type name count rows} {
  puts $fd "CQ_PRIV const $type $name\[\] = {"
  foreach {head where text} $rows {
    puts $fd "  {$head,[c_text $where $text "    "]},"
  }
  puts $fd "};"
  set check "CqCheck[string totitle $name 0 0]"
  puts $fd "typedef char ${check}\["
  puts $fd "  sizeof($name)/sizeof($name\[0\])==$count ? 1 : -1\n\];\n"
}

# The numbers that stand before the text of a statement.
proc stmt_head {name} {
  global root number own common
  set n 0
  foreach param $own($name) {
    if {$number($root($name),$param) > $n} {
      set n $number($root($name),$param)
    }
  }
  set list [lmap param $common {
    expr {$param in $own($name) ? $number($root($name),$param) : 0}
  }]
  return "\"$name\", $n, {[join $list ,]}, [features_of $::body($name)],\
    [string match {DELETE *} $::body($name)]"
}

proc write_source {fd} {
  global stmt schema body
  puts $fd "/* Generated by tcl/build/mksql.tcl from sql/.  Do not edit. */"
  puts $fd "#include \"claimq_sql.h\"\n"
  set rows {}
  foreach {name where text} $stmt {
    lappend rows [stmt_head $name] $where $body($name)
  }
  write_table $fd CqSql claimqSql CQ_NSTMT $rows
  set rows {}
  foreach {type name option feature where text} $schema {
    set columns [schema_columns $type $where $text]
    set feature CQ_FEAT_[string toupper $feature]
    if {$columns ne ""} {
      set columns [c_literal [string map {, ", "} $columns] "    "]
    } else {
      set columns "    \"\""
    }
    lappend rows "\"$type\", \"$name\", \"$option\", $feature,\n$columns" \
      $where [expand $where $text 2]
  }
  write_table $fd CqSchemaObj claimqSchema CQ_NSCHEMA $rows
  puts $fd "CQ_PRIV const CqMigrate claimqMigrate\[\] = {"
  foreach {version where text} $::migrate {
    puts $fd "  {$version,[c_text $where [expand $where $text] "    "]},"
  }
  puts $fd "  {0, 0}\n};"
  puts $fd "CQ_PRIV const char *const claimqFeature\[CQ_NFEATURE\] = {"
  puts $fd "  [join [lmap name $::features {set _ "\"$name\""}] ", "]\n};"
  puts $fd "/* Fragment DEFAULT_NOW, as the tables have it. */"
  puts $fd "CQ_PRIV const char claimqDefaultNow\[\] ="
  set now [expr {[info exists ::fragment(DEFAULT_NOW)]
    ? [expand DEFAULT_NOW {{{DEFAULT_NOW}}} 2] : "?"}]
  puts $fd "  [c_literal $now {}];"
}

# Written aside and renamed, so that a failed run leaves no half of a file; and
# only if it is another one, so that make does not compile everything again.
proc write_file {file writer} {
  set fd [open $file.tmp w]
  fconfigure $fd -encoding utf-8
  $writer $fd
  close $fd
  if {[file exists $file] && [read_file $file] eq [read_file $file.tmp]} {
    file delete $file.tmp
  } else {
    file rename -force $file.tmp $file
  }
}

proc main {argv} {
  global stmt schema common
  set files [lassign $argv outdir]
  if {$files eq ""} {
    puts stderr "usage: tclsh mksql.tcl OUTDIR FILE.sql ... FILE.c ..."
    exit 2
  }
  lassign {} stmt schema common cfiles formats blocks ::migrate
  set ::features lanes
  foreach file [lsort -unique $files] {
    switch -glob -- $file {
      *.c            {lappend cfiles $file}
      */schema/*.sql {lappend formats $file}
      default        {lappend blocks $file}
    }
  }
  read_schemas $formats
  foreach file $blocks {read_blocks $file}
  foreach {what list} [list statement $stmt schema $schema] {
    if {$list eq ""} {fail $outdir "no $what in [join $files]"}
  }
  name_statements
  check_bound $cfiles
  write_file $outdir/claimq_sql.c write_source
  write_file $outdir/claimq_sql.h write_header
}

main $argv
