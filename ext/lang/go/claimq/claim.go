package claimq

import (
	"context"
	"database/sql"
	"errors"
	"sync"
	"sync/atomic"
	"time"
)

// ErrLost is the cause of the end of a handler's context when the claim is not
// its own any more: somebody else has it, or it was cancelled.
var ErrLost = errors.New("the claim was lost")

// Claim is what is held, of any discipline.
type Claim struct {
	ClaimID, LeaseToken string
	FencingToken        int64
	Row                 map[string]any // all columns of the (first) row

	ctx       context.Context
	lose      context.CancelCauseFunc
	completed atomic.Bool // by the handler, perhaps in a transaction to come
}

func newClaim(ctx context.Context, row map[string]any) *Claim {
	c := &Claim{Row: row}
	c.ctx, c.lose = context.WithCancelCause(ctx)
	c.ClaimID, _ = row["claim_id"].(string)
	c.LeaseToken, _ = row["lease_token"].(string)
	c.FencingToken, _ = row["fencing_token"].(int64)
	return c
}

// readRows runs a claim and reads all its rows.
func readRows(db querier, query string, values ...any) (all []map[string]any,
	err error) {
	rows, err := db.QueryContext(context.Background(), query, values...)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	names, err := rows.Columns()
	columns, into := make([]any, len(names)), make([]any, len(names))
	for i := range columns {
		into[i] = &columns[i]
	}
	for err == nil && rows.Next() {
		err = rows.Scan(into...)
		row := make(map[string]any, len(names))
		for i, name := range names {
			row[name] = columns[i]
		}
		all = append(all, row)
	}
	if err == nil {
		err = rows.Err()
	}
	return all, err
}

func (c *Claim) isLost() bool { return context.Cause(c.ctx) == ErrLost }

// call calls a verb for the claim, such as "renew(?, ?, ?)".
func (c *Claim) call(ctx context.Context, db querier, verb string,
	values ...any) error {
	_, err := db.ExecContext(ctx, "SELECT claimq_"+verb,
		append([]any{c.ClaimID, c.LeaseToken}, values...)...)
	return err
}

// Complete completes the claim on a connection or in a transaction of the
// handler's own, with the handler's writes: both happen, or neither.
func (c *Claim) Complete(ctx context.Context, tx querier) error {
	c.completed.Store(true)
	return c.call(ctx, tx, "complete(?, ?)")
}

// verb is a call.  What came of a handler is a list of them, the best first: if
// SQLite or claimq refuses the values of one, the next is made.  The last has no
// value of the handler's.
type verb struct {
	call   string
	values []any
}

// settle makes the first of the calls whose values are accepted.  That the
// claim is lost is no error: there is nothing to settle.
func (c *Claim) settle(db querier, name string, calls []verb, log logger) (err error) {
	for i, verb := range calls {
		err = c.call(context.Background(), db, verb.call, verb.values...)
		if Code(err) == "claim_lost" {
			return nil
		}
		if err == nil || waitingCures(err) || i+1 == len(calls) {
			break
		}
		log("claimq: %s: %s was refused: %v", name, verb.call, err)
	}
	return err
}

// heart renews all that is held at a third of the lease, and watches whether
// any of it is gone.
type heart struct {
	db    *sql.DB
	lease time.Duration
	log   logger
	lock  sync.Mutex
	held  map[*Claim]bool
}

// start starts the goroutine, and has a function that ends it and gives back
// what is held still.
func (h *heart) start(db *sql.DB, lease time.Duration, log logger) func() {
	h.db, h.lease, h.log, h.held = db, lease, log, map[*Claim]bool{}
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		h.beat(ctx)
	}()
	return func() {
		stop()
		<-done
		for claim := range h.held {
			claim.call(context.Background(), db, "release(?, ?)")
		}
	}
}

func (h *heart) hold(tasks []*task) {
	h.lock.Lock()
	defer h.lock.Unlock()
	for _, t := range tasks {
		h.held[t.Claim] = true
	}
}

func (h *heart) forget(claim *Claim) {
	h.lock.Lock()
	defer h.lock.Unlock()
	delete(h.held, claim)
}

// release gives back what is not begun.  If that fails, the leases end.
func (h *heart) release(tasks []*task) {
	for _, t := range tasks {
		h.forget(t.Claim)
		t.call(context.Background(), h.db, "release(?, ?)")
	}
}

func (h *heart) claims() (claims []*Claim, ids []string) {
	h.lock.Lock()
	defer h.lock.Unlock()
	for claim := range h.held {
		claims, ids = append(claims, claim), append(ids, claim.ClaimID)
	}
	return claims, ids
}

// beat looks twenty times a second whether all claims hold still.  It does not
// wait for that: with short jobs it would be woken by the end of each.
func (h *heart) beat(ctx context.Context) {
	third := max(h.lease/3, time.Millisecond)
	for due := time.Now().Add(third); ; {
		select {
		case <-ctx.Done():
			return
		case <-time.After(min(third, 50*time.Millisecond)):
		}
		claims, ids := h.claims()
		over := time.Now().After(due)
		if over {
			due = time.Now().Add(third)
		} else if !h.gone(ids[:min(len(ids), asked)]) {
			continue
		}
		for _, claim := range claims {
			if over || h.gone([]string{claim.ClaimID}) {
				h.renew(claim)
			}
		}
	}
}

const asked = 1024 // claims that claimq_wait takes

// gone tells whether one of these claims does not hold any more.
func (h *heart) gone(ids []string) (gone bool) {
	if len(ids) > 0 {
		err := one(context.Background(), h.db, &gone,
			"SELECT claimq_wait(0, 'claims', ?)", list(ids))
		if err != nil {
			h.log("claimq: looking at what is held: %v", err)
		}
	}
	return gone
}

// renew renews a claim, or learns that it is lost.  One that the handler has
// completed itself is not lost.
func (h *heart) renew(claim *Claim) {
	err := claim.call(context.Background(), h.db, "renew(?, ?, ?)",
		h.lease.Milliseconds())
	if Code(err) == "claim_lost" {
		h.forget(claim)
		if !claim.completed.Load() {
			claim.lose(ErrLost)
		}
	} else if err != nil {
		h.log("claimq: renewing %s: %v", claim.ClaimID, err)
	}
}
