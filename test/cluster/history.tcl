# history.tcl: a random history of calls of everything (tcl/test/calls.tcl) on plain
# SQLite, for cluster.py, which has a cluster carry out the same calls.
#
#     tclsh history.tcl CLAIMQ_SO DATABASE LOG CALLS SEED
#
# Each call is a transaction of its own with a row in the table done(id), so
# that one that is sent twice is carried out once; if it raises, it is rolled
# back.  LOG is a database with the table log(id, sql, ok): the calls, in their
# order.

package require sqlite3
lassign $argv so database log n seed
source [file join [file dirname [info script]] .. .. tcl test calls.tcl]

sqlite3 log $log
log eval {CREATE TABLE log(id INTEGER PRIMARY KEY, sql TEXT, ok INTEGER)}
log eval BEGIN
sqlite3 db $database
db nullvalue NULL
db enable_load_extension 1
db eval {SELECT load_extension($so)}
db eval {PRAGMA synchronous=OFF}

proc carry_out {sql} {
  log eval {INSERT INTO log(sql) VALUES($sql)}
  set id [log last_insert_rowid]
  db eval {BEGIN; INSERT INTO done(id) VALUES($id)}
  set answer [calls_run db $sql]
  set ok [expr {[lindex $answer 0] ne "error"}]
  db eval [expr {$ok ? "COMMIT" : "ROLLBACK"}]
  log eval {UPDATE log SET ok=$ok WHERE id=$id}
  return $answer
}

db eval {CREATE TABLE done(id INTEGER PRIMARY KEY)}
foreach sql {
  {SELECT claimq_init('clock', 'explicit', 'any_session', 1)}
  {CREATE TABLE mine(id INTEGER PRIMARY KEY, claim_id, lease_token)}
  {SELECT claimq_queue('q1', 3)}
  {SELECT claimq_queue('q2', 2)}
  {SELECT claimq_queue('q3', 40)}
} {
  carry_out $sql
}
calls_begin db $seed
while {$CALLS(n) < $n} {
  set sql [calls_next]
  calls_note $sql [carry_out $sql]
}
log eval COMMIT
