# bench/broker_list.tcl: the systems that bench/brokers.tcl measures.
#
#     name      of the row
#     label     in the table and the plot
#     language  of the program test/bench/broker_*
#     system    its first argument
#     server    what to start for it, and how it syncs; "" for a SQLite file
#     sync      PRAGMA synchronous of a SQLite file
#     durable   what survives a power cut, in words
#     victim    1 if a worker of this row is killed (the others do the same)

set BROKERS {
  claimq_python    "claimq Worker" Python claimq {} normal
    "WAL, NORMAL" 1
  claimq_sql       "claimq by hand" Python claimq-sql {} normal
    "WAL, NORMAL" 0
  claimq_full      "claimq Worker" Python claimq {} full
    "WAL, FULL: each commit" 0
  huey             huey Python huey {} normal
    "WAL, NORMAL" 1
  litequeue        litequeue Python litequeue {} normal
    "WAL, NORMAL" 1
  honker           honker Python honker {} normal
    "WAL, NORMAL" 1
  redis            "Redis list" Python redis {redis everysec} -
    "AOF, every second" 1
  redis_always     "Redis list" Python redis {redis always} -
    "AOF, each write" 0
  beanstalkd       beanstalkd Python beanstalkd {beanstalkd 50} -
    "binlog, every 50 ms" 1
  beanstalkd_each  beanstalkd Python beanstalkd {beanstalkd 0} -
    "binlog, each write" 0
  postgres_off     "PostgreSQL by hand" Python postgres {postgres off} -
    "synchronous_commit off" 0
  postgres_on      "PostgreSQL by hand" Python postgres {postgres on} -
    "each commit" 1
  claimq_node      "claimq Worker" Node claimq {} normal
    "WAL, NORMAL" 1
  plainjob         plainjob Node plainjob {} normal
    "WAL, NORMAL" 1
  bullmq           BullMQ Node bullmq {redis everysec} -
    "AOF, every second" 1
  bullmq_always    BullMQ Node bullmq {redis always} -
    "AOF, each write" 0
  graphile_off     graphile-worker Node graphile {postgres off} -
    "synchronous_commit off" 0
  graphile_on      graphile-worker Node graphile {postgres on} -
    "each commit" 1
  claimq_go        "claimq Worker" Go claimq {} normal
    "WAL, NORMAL" 1
  goqite           goqite Go goqite {} normal
    "WAL, NORMAL" 1
  river            River Go river {} normal
    "WAL, NORMAL" 1
}

# The rows, each a dict with the words above as keys.
proc broker_rows {} {
  return [lmap {name label language system server sync durable victim} \
      $::BROKERS {
    dict create name $name label $label language $language system $system \
      server $server sync $sync durable $durable victim $victim
  }]
}
