-- see.sql: what the statements of claimq_stats and claimq_check share.  Those of
-- each discipline stand in its own file.

--------------------------------------------------------------------------
-- claimq_stats
--
-- A discipline has two statements, for all of its scopes and for one, which
-- give the columns of the table in their order.
--
-- shape: STATS (scope)

-- fragment: STATS_SUMS
-- Rows of the inner query are counted as what they are, n at a time: w is one
-- of STATS_*, since says from when on it could be had, at when it can be.
sum((w={{STATS_READY}})*n) AS ready, sum((w={{STATS_DELAYED}})*n) AS delayed,
sum((w={{STATS_HELD}})*n) AS held, sum((w={{STATS_EXPIRED}})*n) AS expired,
sum((w={{STATS_BLOCKED}})*n) AS blocked,
sum((w={{STATS_LIMITED}})*n) AS limited, sum(d) AS dead,
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

-- fragment: STATS_BLOCKED
4

-- fragment: STATS_LIMITED
5

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
