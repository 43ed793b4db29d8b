# statement.tcl: random statements over claim tables, against a model.
#
# What a claim table gives in one execution of a statement is a relation like
# any other: it stays the same however often SQLite looks at it.  So the model
# of
#
#     SELECT u.x, c.payload
#     FROM (SELECT x FROM ta UNION ALL SELECT x FROM tb) AS u
#     JOIN claimq('s1','w') AS c
#
# is the same statement over an ordinary table that holds what the claim will
# give, and SQLite itself says what the result must be:
#
#     SELECT u.x, c.payload
#     FROM (SELECT x FROM ta UNION ALL SELECT x FROM tb) AS u
#     JOIN (SELECT * FROM m_claimq WHERE session='s1' AND owner='w') AS c
#
# Before each statement the tables m_claimq, m_claimq_lane and m_claimq_contest
# are filled from what is in the queues, for every list of arguments (a key)
# that the generator uses.  No two keys are about the same rows, so that they do
# not depend on which of them SQLite runs first.  After the statement
#
#   *  its rows are those of the model, in any order;
#   *  of each key either everything was claimed that it had to give, or
#      nothing; under a LIMIT a part of it, and not more than the LIMIT;
#   *  nothing was claimed twice;
#   *  if it was refused, nothing was claimed at all.
#
# A statement is generated as one text in which the places that differ between
# claim tables and model are written <<REAL>><<MODEL>>; see `either`.
#
# Keys are of four kinds, because a LIMIT (also that of EXISTS and of a scalar
# subquery) bounds what is claimed by the first use of a key, for all of them:
#
#   many    sessions of several rows that join: not used under a LIMIT
#   one     give one row, whatever the LIMIT
#   none    give nothing
#   limited used once in a statement, under a LIMIT of its own

#--------------------------------------------------------------------------
# Chance

proc rnd {n} {return [expr {int(rand()*$n)}]}
proc chance {percent} {return [expr {rand()*100 < $percent}]}
proc pick {list} {return [lindex $list [rnd [llength $list]]]}
proc shuffle {list} {
  return [lmap x [lsort -real -index 0 [lmap y $list {list [expr rand()] $y}]] \
    {lindex $x 1}]
}

#--------------------------------------------------------------------------
# Keys: NAME -> {table, arguments by name, kind}

set KEYS {
  s1 {claimq {session 's1' owner 'w'} one}
  s2 {claimq {session 's2' owner 'w'} one}
  s3 {claimq {session 's3' owner 'w'} one}
  s0 {claimq {session 's0' owner 'w'} none}
  m1 {claimq {session 'm1' owner 'w'} many}
  m2 {claimq {session 'm2' owner 'w'} many}
  m3 {claimq {session 'm3' owner 'w' lease_ms 5000 max 2} many}
  l1 {claimq_lane {lane 'l1' owner 'w'} one}
  l2 {claimq_lane {lane 'l2' owner 'w' lease_ms 30000 max 2} many}
  c1 {claimq_contest {label 'c1' owner 'w'} one}
  c2 {claimq_contest {label 'c2' owner 'w'} one}
  z1 {claimq {session 'z1' owner 'w'} limited}
  z2 {claimq {session 'z2' owner 'w'} limited}
}

# Columns that statements read, and arguments: all of them are columns of the
# model, too.  (Not those that have the name of an argument: in a condition they
# are the argument, which is given already.)
array set COLUMNS {
  claimq {payload claim_id enqueue_seq slot_policy merge_key
          batch_fencing_token attempts expires_at_ms}
  claimq_lane {payload claim_id job_id attempts expires_at_ms}
  claimq_contest {outcome mine}
}
array set ARGS {
  claimq {session owner lease_ms max}
  claimq_lane {lane owner lease_ms max}
  claimq_contest {label owner lease_ms}
}

proc keys_of {kinds} {
  set out {}
  dict for {name def} $::KEYS {
    if {[lindex $def 2] in $kinds} {lappend out $name}
  }
  return $out
}

#--------------------------------------------------------------------------
# Queues and model

# Once: the tables of the model, some that have nothing to do with claims, and
# full queues, which are kept in full.db.
proc statement_setup {} {
  db eval {
    CREATE TABLE ta(x, y); INSERT INTO ta VALUES('s1-0', 1), ('a', 2);
    CREATE TABLE tb(x, y); INSERT INTO tb VALUES('m1-1', 1), ('a', 3), (2, 2);
    CREATE TABLE te(x, y);
    CREATE TABLE k1(s); INSERT INTO k1 VALUES('s1'),('s0'),('s2'),('s1');
    CREATE TABLE k3(s); INSERT INTO k3 VALUES('m1'),('s3'),('m2'),('m1');
    CREATE TABLE out(p, q);
    CREATE TEMP TABLE tt(x, y); INSERT INTO tt VALUES('l1-0', 1), ('b', 1);

    CREATE TABLE m_claimq(payload BLOB, claim_id TEXT, enqueue_seq INTEGER,
      session TEXT, slot_policy TEXT, merge_key TEXT,
      batch_fencing_token INTEGER, attempts INTEGER, owner TEXT,
      expires_at_ms INTEGER, lease_ms, max);
    CREATE TABLE m_claimq_lane(payload BLOB, claim_id TEXT, job_id INTEGER,
      lane TEXT, attempts INTEGER, owner TEXT, expires_at_ms INTEGER,
      lease_ms, max);
    CREATE TABLE m_claimq_contest(outcome TEXT, mine INTEGER,
      kind INTEGER, label TEXT, owner TEXT, lease_ms);
    CREATE TABLE m_key(tbl, scope, lease_ms, n);

    CREATE TEMP VIEW v1 AS SELECT c.payload AS p, c.claim_id AS q
      FROM claimq('s2','w') AS c;
    CREATE TEMP VIEW m_v1 AS SELECT payload AS p, claim_id AS q
      FROM m_claimq WHERE session='s2';
    CREATE TEMP VIEW v2 AS SELECT x AS p, y AS q FROM ta
      UNION ALL SELECT x, y FROM tb;
    CREATE TEMP VIEW m_v2 AS SELECT * FROM v2;
    CREATE TEMP VIEW v3 AS SELECT v2.p, c.payload AS q
      FROM v2 JOIN claimq('m2','w') AS c;
    CREATE TEMP VIEW m_v3 AS SELECT v2.p, c.payload AS q
      FROM v2 JOIN m_claimq AS c ON c.session='m2';
  }
  dict for {name def} $::KEYS {
    lassign $def table args
    set ttl NULL
    set n NULL
    foreach {arg value} $args {
      if {$arg eq "lease_ms"} {set ttl $value}
      if {$arg eq "max"} {set n $value}
    }
    db eval "INSERT INTO m_key VALUES('$table', '$name', $ttl, $n)"
  }
  db eval {
    WITH RECURSIVE n(i) AS (SELECT 0 UNION ALL SELECT i+1 FROM n WHERE i<5)
    INSERT INTO claimq_batch(session, payload, slot_policy, merge_key)
    SELECT scope, scope||'-'||i, iif(scope LIKE 's%', 'exclusive', 'join'),
           'group:'||(i/3)
    FROM n, m_key WHERE tbl='claimq' AND scope<>'s0' ORDER BY i, scope;
    WITH RECURSIVE n(i) AS (SELECT 0 UNION ALL SELECT i+1 FROM n WHERE i<5)
    INSERT INTO claimq_job(lane, payload)
    SELECT scope, scope||'-'||i FROM n, m_key WHERE tbl='claimq_lane'
    ORDER BY i, scope;
  }
  db backup full.db
}

# Full queues, and the tables that statements have made are gone.
proc statement_fill {} {
  foreach name [db eval {
    SELECT name FROM sqlite_temp_schema WHERE name LIKE 'made%'
  }] {
    db eval "DROP TABLE $name"
  }
  db restore full.db
}

# What each key will give now.
proc statement_model {} {
  db eval {
    DELETE FROM m_claimq; DELETE FROM m_claimq_lane;
    DELETE FROM m_claimq_contest;
    WITH free AS (
      SELECT *, row_number() OVER (PARTITION BY session ORDER BY enqueue_seq)
           AS nth,
         first_value(merge_key) OVER (PARTITION BY session
           ORDER BY enqueue_seq) AS grp,
         first_value(enqueue_seq) OVER (PARTITION BY session
           ORDER BY enqueue_seq) AS head
      FROM claimq_batch WHERE claim_id IS NULL
    )
    INSERT INTO m_claimq
    SELECT payload, 'qwc:'||head||':1', enqueue_seq, session, slot_policy,
      merge_key, 1, 0, 'w', 1000000+ifnull(lease_ms, 30000), lease_ms, n
    FROM free, m_key
    WHERE tbl='claimq' AND scope=session AND merge_key=grp
      AND nth<=ifnull(n, iif(slot_policy='exclusive', 1, 99))
    ORDER BY enqueue_seq;
    WITH free AS (
      SELECT *, row_number() OVER (PARTITION BY lane ORDER BY job_id)
           AS nth
      FROM claimq_job WHERE claim_id IS NULL
    )
    INSERT INTO m_claimq_lane
    SELECT payload, 'qjc:'||job_id||':1', job_id, lane, 0, 'w',
      1000000+ifnull(lease_ms, 30000), lease_ms, n
    FROM free, m_key
    WHERE tbl='claimq_lane' AND scope=lane AND nth<=ifnull(n, 1)
    ORDER BY job_id;
    INSERT INTO m_claimq_contest
    SELECT iif(EXISTS (SELECT 1 FROM claimq_holder WHERE label=scope),
      'yield', 'claimed'), 1, 0, scope, 'w', lease_ms
    FROM m_key WHERE tbl='claimq_contest';
  }
}

# What is claimed: {key row} pairs, the rows by their numbers.
proc statement_claimed {} {
  return [db eval {
    SELECT session, enqueue_seq FROM claimq_batch WHERE claim_id IS NOT NULL
    UNION ALL
    SELECT lane, job_id FROM claimq_job WHERE claim_id IS NOT NULL
    ORDER BY 2
  }]
}

# What is wrong with what a statement has claimed since `before`; "" if nothing.
proc statement_wrong {before limits refused} {
  set new [lrange [statement_claimed] 0 end]
  set was [dict create]
  foreach {key row} $before {dict set was $key/$row 1}
  set got [dict create]
  foreach {key row} $new {
    if {![dict exists $was $key/$row]} {dict lappend got $key $row}
  }
  if {$refused && [dict size $got]} {return "refused, but claimed $got"}
  dict for {key rows} $got {
    set all [db eval {
      SELECT enqueue_seq FROM m_claimq WHERE session=$key UNION ALL
      SELECT job_id FROM m_claimq_lane WHERE lane=$key ORDER BY 1
    }]
    set most [expr {[dict exists $limits $key] ? [dict get $limits $key] : ""}]
    if {$most ne ""} {
      if {[llength $rows] > $most} {return "$key: LIMIT $most claimed $rows"}
      set all [lrange $all 0 [llength $rows]-1]
    }
    if {$rows ne $all} {return "$key: claimed $rows of $all"}
  }
  return [db eval {
    SELECT 'claimed twice: '||payload FROM claimq_batch WHERE fencing_token>1
    UNION ALL
    SELECT 'claimed twice: '||payload FROM claimq_job WHERE fencing_token>1
  }]
}

#--------------------------------------------------------------------------
# The generator.  G(n): names so far; G(ctes): common table expressions that can
# be used; G(limits): limited keys that were used, and their LIMITs.

proc either {real model} {return "<<$real>><<$model>>"}
proc real_of {text} {return [regsub -all {<<(.*?)>><<.*?>>} $text {\1}]}
proc model_of {text} {return [regsub -all {<<.*?>><<(.*?)>>} $text {\1}]}

proc new_name {} {return a[incr ::G(n)]}

# All arguments of a key as conditions on alias; in the model also those that
# are not given.
proc conditions {key alias} {
  lassign [dict get $::KEYS $key] table args
  set out [lmap {arg value} $args {
    format [pick {"%s.%s=%s" "%s.%s IS %s"}] $alias $arg $value
  }]
  set out [join [shuffle $out] " AND "]
  set rest [lmap arg $::ARGS($table) {
    if {[dict exists $args $arg]} continue
    format "AND %s.%s IS NULL" $alias $arg
  }]
  return "$out [either {} [join $rest { }]]"
}

# A claim by position: goes anywhere in FROM.
proc claim_call {key alias} {
  lassign [dict get $::KEYS $key] table args
  set values [join [dict values $args] ,]
  set where [model_of [conditions $key i]]
  return [either "${table}($values) AS $alias" \
    "(SELECT * FROM m_$table AS i WHERE $where) AS $alias"]
}

# A column of a key's table.
proc column_of {key alias} {
  return $alias.[pick $::COLUMNS([lindex [dict get $::KEYS $key] 0])]
}

# An item of FROM: {text condition columns correlates}.  `before`: the tables
# of keys that stand in front of it, as {alias kinds}.
proc from_item {depth kinds before outer} {
  set alias [new_name]
  set what [rnd 100]
  if {$what < 30} {
    set key [pick [keys_of $kinds]]
    return [list [claim_call $key $alias] "" [list [column_of $key $alias] \
      [column_of $key $alias]] 0]
  }
  if {$what < 42 && !$outer} {
    set key [pick [keys_of $kinds]]
    set table [lindex [dict get $::KEYS $key] 0]
    return [list "[either $table m_$table] AS $alias" [conditions $key $alias] \
      [list [column_of $key $alias] [column_of $key $alias]] 0]
  }
  if {$what < 60 && [llength $before] && !$outer} {
    lassign [pick $before] scope many
    if {!$many || "many" in $kinds} {
      return [list \
        [either "claimq($scope,'w') AS $alias" "m_claimq AS $alias"] \
        [either 1 "$alias.session=$scope AND $alias.owner='w' AND\
          $alias.lease_ms IS NULL AND $alias.max IS NULL"] \
        [list $alias.payload $alias.claim_id] 1]
    }
  }
  if {$what < 72 && $depth > 0} {
    set text [gen_select [expr {$depth-1}] $kinds]
    return [list "($text) AS $alias" "" [list $alias.p $alias.q] 0]
  }
  if {$what < 82 && [llength $::G(ctes)]} {
    lassign [pick $::G(ctes)] cte many
    if {!$many || "many" in $kinds} {
      return [list "$cte AS $alias" "" [list $alias.p $alias.q] 0]
    }
  }
  if {$what < 88} {
    set view [pick [expr {"many" in $kinds ? "v1 v2 v3" : "v1 v2"}]]
    return [list "[either $view m_$view] AS $alias" "" \
      [list $alias.p $alias.q] 0]
  }
  set table [pick {ta tb te tt}]
  return [list "$table AS $alias" "" [list $alias.x $alias.y] 0]
}

# A FROM clause: {text conditions columns}.
proc gen_from {depth kinds} {
  set text ""
  set where {}
  set columns {}
  set before {}
  set n [pick {1 1 2 2 2 3 3 4}]
  set outer [chance 8]               ;# with RIGHT or FULL JOIN
  for {set i 0} {$i < $n} {incr i} {
    set scope [expr {!$outer && [chance 15]}]
    if {$scope} {
      set alias [new_name]
      set many [expr {"many" in $kinds && [chance 50]}]
      set item [list "[expr {$many ? "k3" : "k1"}] AS $alias" "" \
        [list $alias.s $alias.s] 0]
      lappend before [list $alias.s $many]
    } else {
      set item [from_item $depth $kinds $before $outer]
    }
    lassign $item what condition own correlates
    if {$i == 0} {
      set text $what
      if {$condition ne ""} {lappend where $condition}
    } else {
      set join [pick {JOIN JOIN "CROSS JOIN" , "LEFT JOIN"}]
      # Of a key that is NULL a claim would take any session.
      if {$scope} {set join [pick {JOIN "CROSS JOIN" ,}]}
      if {$outer} {set join [pick {"RIGHT JOIN" "FULL JOIN" "LEFT JOIN" JOIN}]}
      set on [gen_on $columns $own]
      if {$join eq ","} {
        if {$condition ne ""} {lappend where $condition}
        if {$on ne ""} {lappend where $on}
        append text ", $what"
      } else {
        set both [lmap c [list $condition $on] {if {$c eq ""} continue; set c}]
        if {[llength $both] == 0 && $join ni {JOIN "CROSS JOIN"}} {
          set both [list [pick {1 "1=1"}]]
        }
        append text " $join $what"
        if {[llength $both]} {append text " ON [join $both { AND }]"}
      }
    }
    lappend columns {*}$own
  }
  return [list $text $where $columns]
}

# A condition between items, or none.
proc gen_on {columns own} {
  if {[chance 60]} {return ""}
  set a [pick $columns]
  set b [pick $own]
  return [pick [list "$a=$b" "$a||''=$b||''" "$a||''<>$b||''" \
    "($a IS $b OR 1)" "($a=$b OR $a=[lindex $own 0])"]]
}

# A value of one row: of an aggregate, or of what has one row.
proc gen_scalar {depth kinds columns} {
  set a [new_name]
  switch [rnd 6] {
    0 {return "(SELECT max(p) FROM ([gen_select $depth $kinds]))"}
    1 {return "(SELECT count(*) FROM ([gen_select $depth $kinds]))"}
    2 {return "EXISTS (SELECT 1 FROM ([gen_select $depth {one none}]))"}
    3 {
      set key [pick [keys_of {one none}]]
      return "(SELECT [column_of $key $a] FROM [claim_call $key $a])"
    }
    4 {
      set key [pick [keys_of $kinds]]
      return "(SELECT count([column_of $key $a]) FROM [claim_call $key $a])"
    }
    5 {
      set key [pick [keys_of {one none}]]
      return "(SELECT max([column_of $key $a]) FROM [claim_call $key $a]\
        WHERE [pick {1 0 1}] AND [pick $columns] IS NOT NULL)"
    }
  }
}

# What else stands in WHERE.
proc gen_filter {depth kinds columns} {
  set a [pick $columns]
  switch [rnd 5] {
    0 {return "$a IN (SELECT p FROM ([gen_select $depth $kinds]))"}
    1 {return "EXISTS (SELECT 1 FROM ([gen_select $depth {one none}]))"}
    2 {return "NOT EXISTS (SELECT 1 FROM ([gen_select $depth {one none}]))"}
    3 {return "$a||''<>[gen_scalar $depth $kinds $columns]||'x'"}
    4 {return "($a IS NOT NULL OR [gen_scalar $depth $kinds $columns]=1)"}
  }
}

# A SELECT of one FROM clause with the columns p and q.
proc gen_simple {depth kinds} {
  lassign [gen_from $depth $kinds] from where columns
  if {$depth > 0 && [chance 25]} {
    lappend where [gen_filter [expr {$depth-1}] $kinds $columns]
  }
  set p [pick $columns]
  set q [pick $columns]
  if {$depth > 0 && [chance 25]} {
    set q [gen_scalar [expr {$depth-1}] $kinds $columns]
  }
  set tail ""
  if {[llength $where]} {set tail " WHERE [join [shuffle $where] { AND }]"}
  switch [rnd 12] {
    0 {return "SELECT DISTINCT $p AS p, $q AS q FROM $from$tail"}
    1 {return "SELECT count(*) AS p, max($p) AS q FROM $from$tail"}
    2 {return "SELECT $p AS p, count(*) AS q FROM $from$tail GROUP BY $p"}
    3 {return "SELECT $p AS p, count(*) OVER () AS q FROM $from$tail"}
    4 {return "SELECT count(DISTINCT $p) AS p, min($q) AS q FROM $from$tail"}
    5 {
      # (To the LIMIT of a subquery it would become an ORDER BY of its own.)
      if {[dict size $::G(limits)] == 0} {
        return "SELECT $p AS p, $q AS q FROM $from$tail ORDER BY 1, 2"
      }
    }
  }
  return "SELECT $p AS p, $q AS q FROM $from$tail"
}

# A claim under a LIMIT.
proc gen_limited {} {
  foreach key [shuffle [keys_of limited]] {
    if {[dict exists $::G(limits) $key]} continue
    set a [new_name]
    set n [expr {1+[rnd 4]}]
    dict set ::G(limits) $key $n
    return "SELECT $a.payload AS p, [column_of $key $a] AS q\
      FROM [claim_call $key $a] LIMIT $n"
  }
  return "SELECT 1 AS p, 2 AS q"
}

proc gen_select {depth kinds} {
  set what [rnd 100]
  if {$what < 8} {
    set op [pick {"UNION ALL" "UNION ALL" UNION EXCEPT INTERSECT}]
    set left [gen_simple $depth $kinds]
    set right [gen_simple $depth $kinds]
    if {[string match "*ORDER BY 1, 2" $left]} {
      set left "SELECT * FROM ($left)"
    }
    return "$left $op $right"
  }
  if {$what < 14} {return [gen_limited]}
  if {$what < 18} {
    set n [new_name]
    return "SELECT * FROM (WITH RECURSIVE $n\(p,q) AS (SELECT 1,\
      [gen_scalar [expr {$depth>0 ? $depth-1 : 0}] {one none} 1]\
      UNION ALL SELECT p+1, q FROM $n WHERE p<3) SELECT p, q FROM $n)"
  }
  return [gen_simple $depth $kinds]
}

# A whole statement: {text how}, how: select, insert, create.
proc gen_statement {} {
  array set ::G {n 0 ctes {} limits {}}
  set with {}
  while {[llength $with] < 2 && [chance 40]} {
    set name w[llength $with]
    set many [chance 60]
    set body [gen_select 1 [expr {$many ? "one none many" : "one none"}]]
    lappend with "$name\(p,q) AS [pick {{} {} MATERIALIZED {NOT MATERIALIZED}}]\
      ($body)"
    lappend ::G(ctes) [list $name $many]
  }
  set text [gen_select 2 {one none many}]
  if {[llength $with]} {set text "WITH [join $with {, }] $text"}
  return [list $text [pick {select select select select insert create}]]
}

#--------------------------------------------------------------------------
# Running

# The rows of a statement, sorted.
proc rows_of {handle sql} {
  set out {}
  $handle eval $sql row {lappend out [list $row(p) $row(q)]}
  return [lsort $out]
}

# Run a statement in one of its three forms.
proc statement_run {sql how} {
  switch $how {
    select {return [rows_of db $sql]}
    insert {return [rows_of db "INSERT INTO out $sql RETURNING p, q"]}
    create {
      set name made[incr ::S(made)]
      db eval "CREATE TEMP TABLE $name AS $sql"
      return [rows_of db "SELECT p, q FROM $name"]
    }
  }
}

# What claimq or SQLite may say to a statement that it does not want.
set REFUSED {claimq: unsafe_plan: |no query solution|claimq: nested_write: }
if {![sqlite_since 3.50]} {
  append REFUSED {|claimq: bad_argument: \w+ is required, and SQLite}
}

# Run it and compare.  Returns "" or what is wrong; sets S(refused).
proc statement_check {text how limits} {
  global S
  statement_model
  set model [model_of $text]
  set real [real_of $text]
  set want [rows_of db $model]
  set before [statement_claimed]
  set S(refused) [catch {statement_run $real $how} got]
  if {$S(refused) && ![regexp $::REFUSED $got]} {return "error: $got"}
  set wrong [statement_wrong $before $limits $S(refused)]
  if {$wrong ne ""} {return $wrong}
  if {!$S(refused) && $got ne $want} {
    return "got  [lrange $got 0 20]\nwant [lrange $want 0 20]"
  }
  return ""
}

# Ways to run a statement.
proc statement_way {way text how limits} {
  switch $way {
    autocommit {return [statement_check $text $how $limits]}
    begin - immediate {
      db eval [expr {$way eq "begin" ? "BEGIN" : "BEGIN IMMEDIATE"}]
      set wrong [statement_check $text $how $limits]
      db eval ROLLBACK
      return $wrong
    }
    twice {
      set wrong [statement_check $text $how $limits]
      if {$wrong eq ""} {set wrong [statement_check $text $how $limits]}
      return $wrong
    }
    half {
      set real [real_of $text]
      catch {db eval $real break}
      return [statement_check $text $how $limits]
    }
    nested {
      set wrong ""
      db eval {SELECT payload FROM claimq('m1','w') UNION ALL SELECT 1} {
        set wrong [statement_check $text $how $limits]
        break
      }
      return $wrong
    }
  }
}

# N statements from a seed: one test, which tells the first that went wrong.
proc do_statement_test {seed n} {
  global G S
  expr {srand($seed)}
  set ran 0
  set wrong ""
  statement_fill
  for {set i 0} {$i < $n} {incr i} {
    if {$i % 10 == 0} statement_fill
    lassign [gen_statement] text how
    set way [pick {autocommit autocommit begin immediate twice half nested}]
    # Some statements with RIGHT JOIN are too much for SQLite itself.
    if {[catch {db eval [model_of $text]} rows]
        || [llength $rows] > 2000} continue
    set wrong [statement_way $way $text $how $G(limits)]
    if {$wrong ne ""} break
    if {!$S(refused)} {incr ran}
  }
  if {$wrong ne ""} {
    set wrong "statement $i, $way, $how: [real_of $text]\n$wrong"
  }
  do_test seed-$seed-statements-claim-what-they-deliver {set wrong} ""
  # A generator of statements that are refused would test nothing.
  do_test seed-$seed-most-statements-ran {expr {$wrong ne "" || $ran > $n/2}} 1
}
