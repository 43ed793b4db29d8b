-- see.sql: what the statements of claimq_stats and claimq_check share.  Those
-- of each discipline stand in its own file.

--------------------------------------------------------------------------
-- claimq_stats
--
-- A discipline has two statements, for all of its scopes and for one, which
-- give the columns of the table in their order; or a function that adds them
-- up itself: lanes have.
--
-- shape: STATS (scope)

-- fragment: STATS_SUMS
-- Rows of the inner query are counted as what they are, n at a time: w is one
-- of STATS_*, since says from when on it could be had, at when it can be.
sum((w={{STATS_READY}})*n) AS ready, sum((w={{STATS_DELAYED}})*n) AS delayed,
sum((w={{STATS_HELD}})*n) AS held, sum((w={{STATS_EXPIRED}})*n) AS expired,
0 AS blocked, 0 AS limited, sum(d) AS dead,
min(iif(w={{STATS_READY}} AND n>0, since, NULL)) AS oldest_ready_at_ms,
min(iif((w={{STATS_DELAYED}} OR w={{STATS_HELD}}) AND n>0, at, NULL))
  AS next_at_ms

-- fragment: STATS_READY
0

-- fragment: STATS_DELAYED
1

-- fragment: STATS_HELD
2

-- fragment: STATS_EXPIRED
3

-- fragment: STATS_OVER
-- Counted as nothing; but its scope has a row.
9

-- fragment: STATS_STATE
-- What a row is: $1 says whether it is claimed, $2 from when on it is
-- available.  The same rule as claimqRowWhy().
CASE WHEN {{$1}} AND ifnull(expires_at_ms,0)>:now THEN {{STATS_HELD}}
     WHEN {{$2}}>:now THEN {{STATS_DELAYED}}
     WHEN {{$1}} THEN {{STATS_EXPIRED}}
     ELSE {{STATS_READY}} END AS w, 1 AS n, 0 AS d, {{$2}} AS since,
max({{$2}}, iif({{$1}}, ifnull(expires_at_ms,0), 0)) AS at

-- fragment: STATS_CLAIMED
claim_id IS NOT NULL

-- fragment: STATS_LETTERS
-- The pending letters of source $1.  Nothing else of them is counted here.
SELECT scope, {{STATS_OVER}} AS w, 0 AS n, 1 AS d, NULL AS since, NULL AS at
FROM {{S}}.claimq_letter INDEXED BY claimq_letter_by_scope
WHERE source='$1' AND due IS NOT NULL AND status='pending'

--------------------------------------------------------------------------
-- claimq_leases
--
-- A discipline has one statement, which gives the rows that claims hold, those
-- of one owner if :owner is not NULL.  No index leads to them: it would be
-- written by every claim.
--
-- shape: LEASES () discipline scope key claim_id owner incarnation

-- fragment: LEASES_HELD
claim_id, owner, incarnation, claimed_at_ms, expires_at_ms

-- fragment: LEASES_OF
claim_id IS NOT NULL AND (:owner IS NULL OR owner=:owner)

--------------------------------------------------------------------------
-- claimq_check
--
-- Statements that give table_name, row_key and problem of each bad row.  SQLite
-- thinks it knows that a column of a STRICT table is of its type and not NULL;
-- typeof() is asked all the same.  Whether texts are UTF-8 is asked once for
-- all of a row: a call takes longer than the rest.
--
-- shape: CHECK ()

-- fragment: CHECK_TEXT
WHEN typeof($1)<>'text' THEN 'bad $1'

-- fragment: CHECK_TEXT_NULL
WHEN typeof($1) NOT IN ('text','null') THEN 'bad $1'

-- fragment: CHECK_LEASE_TEXTS
claim_id, lease_token, owner, incarnation

-- fragment: CHECK_UNSOUND
THEN 'a text that is not UTF-8'

-- fragment: CHECK_HEADERS
WHEN NOT claimq__headers_sound(headers) THEN 'bad headers'

-- fragment: CHECK_INT
WHEN typeof($1)<>'integer' THEN 'bad $1'

-- fragment: CHECK_INT_NULL
WHEN typeof(ifnull($1,0))<>'integer' THEN 'bad $1'

-- fragment: CHECK_COUNT
WHEN typeof($1)<>'integer' OR $1<0 THEN 'bad $1'

-- fragment: CHECK_COUNT_NULL
WHEN typeof(ifnull($1,0))<>'integer' OR $1<0 THEN 'bad $1'

-- fragment: CHECK_LEASE
-- The columns of a claim: of their types, and all of them or none.
{{CHECK_TEXT_NULL claim_id}} {{CHECK_TEXT_NULL lease_token}}
{{CHECK_TEXT_NULL owner}} {{CHECK_TEXT_NULL incarnation}}
{{CHECK_INT_NULL claimed_at_ms}} {{CHECK_INT_NULL expires_at_ms}}
{{CHECK_COUNT fencing_token}}
WHEN (claim_id IS NULL)+(lease_token IS NULL)+(owner IS NULL)
  +(incarnation IS NULL)+(claimed_at_ms IS NULL) BETWEEN 1 AND 4
THEN 'half a claim'

-- fragment: CHECK_EXPIRES
WHEN (claim_id IS NULL)<>(expires_at_ms IS NULL) THEN 'half a claim'

-- fragment: CHECK_SIZE
{{CHECK_INT_NULL claim_size}}
WHEN (claim_id IS NULL)<>(claim_size IS NULL) THEN 'half a claim'
WHEN claim_size<1 THEN 'bad claim_size'

-- fragment: CHECK_BOOL
WHEN typeof($1)<>'integer' OR $1 NOT BETWEEN 0 AND 1 THEN 'bad $1'

-- fragment: CHECK_NO_JUMP
-- claimq_restored() was not called while the row was held: it makes tokens jump
-- by 2^32 or more.
fencing_token<4294967296

-- fragment: CHECK_ONE_CLAIM
-- A claim of the one row $2, prefix $1.
WHEN claim_id IS NOT NULL AND claim_id NOT GLOB '$1:'||$2||':*' OR
  claim_id<>'$1:'||$2||':'||fencing_token AND {{CHECK_NO_JUMP}}
THEN 'claim_id is not that of the row'

-- fragment: CHECK_ALIKE
-- Rows of one claim, prefix $1, all of which have the size of the whole.
WHEN claim_id NOT GLOB '$1:[1-9]*:[1-9]*' OR claim_id GLOB '$1:*:*:*'
  OR claim_id GLOB '$1:*[^0-9:]*' THEN 'bad claim_id'
WHEN min(lease_token)<>max(lease_token) OR min(claim_size)<>max(claim_size)
  OR min(owner)<>max(owner) OR min(expires_at_ms)<>max(expires_at_ms)
THEN 'the rows of the claim differ'
WHEN count(*)>max(claim_size) THEN 'the claim has more rows than claim_size'

-- name: META_CHECK like CHECK
SELECT 'claimq_meta' AS table_name, column1 AS row_key,
  'missing, or no number' AS problem
FROM (VALUES('schema_version'),('rules'),('settings'),('contest_fence'))
WHERE column1 NOT IN (
  SELECT name FROM {{S}}.claimq_meta WHERE typeof(value)='integer')

-- name: SEQUENCE_CHECK like CHECK
-- Keys are never used again, because SQLite remembers the last one.
SELECT 'sqlite_sequence' AS table_name, column1 AS row_key,
  'seq is before the last key' AS problem
FROM (VALUES
  ('claimq_batch', (SELECT max(enqueue_seq) FROM {{S}}.claimq_batch)),
  ('claimq_partition', (SELECT max(partition_id) FROM {{S}}.claimq_partition)),
  ('claimq_job', (SELECT max(job_id) FROM {{S}}.claimq_job)),
  ('claimq_grant', (SELECT max(grant_id) FROM {{S}}.claimq_grant)),
  ('claimq_letter', (SELECT max(letter_id) FROM {{S}}.claimq_letter)))
WHERE column2>ifnull((SELECT seq FROM {{S}}.sqlite_sequence
                      WHERE name=column1), 0)
