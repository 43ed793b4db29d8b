package claimq

import (
	"context"
	"time"
)

// Contest is for a subject that one at a time can hold: a leader, a named lock.
//
//	hold, err := claimq.Contest{Path: "app.db", Label: "leader"}.Acquire(ctx)
//	defer hold.Release()
type Contest struct {
	Path, Label string
	Kind        int
	Owner       string        // default: host, process and a random part
	Lease       time.Duration // default: 30 s; it is renewed at a third of that
	Timeout     time.Duration // as those of a Worker
	Create      bool
	Synchronous string
	Log         func(format string, values ...any)
}

// Hold is the claim of who holds a subject.  It is renewed until Release.
type Hold struct {
	*Claim
	release func()
}

// Context ends, with the cause ErrLost, when the subject is not held any more.
func (h *Hold) Context() context.Context { return h.ctx }

// Release gives the subject to others.  It may be called more than once.
func (h *Hold) Release() {
	if h != nil && h.release != nil {
		h.release()
		h.release = nil
	}
}

// Acquire waits until it holds the subject, or ctx ends.
func (c Contest) Acquire(ctx context.Context) (*Hold, error) {
	return c.acquire(ctx, true)
}

// Try has nil if somebody else holds the subject.
func (c Contest) Try(ctx context.Context) (*Hold, error) {
	return c.acquire(ctx, false)
}

func (c Contest) acquire(ctx context.Context, wait bool) (*Hold, error) {
	l := &loop{limit: 1, settings: settings{path: c.Path, owner: c.Owner,
		lease: c.Lease, timeout: c.Timeout, create: c.Create,
		synchronous: c.Synchronous, log: c.Log}}
	l.defaults()
	db, err := l.open()
	if err != nil {
		return nil, err
	}
	l.db = db
	l.wait = func(ctx context.Context) error {
		_, err := db.ExecContext(ctx, "SELECT claimq_wait(5000, 'contest', ?, "+
			"'kind', ?)", c.Label, c.Kind)
		return err
	}
	for err == nil {
		var rows []map[string]any
		_, err = l.patiently(ctx, "contest of "+c.Label, 0, func() (err error) {
			rows, err = readRows(db, `SELECT * FROM claimq_contest WHERE label=?
				AND owner=? AND lease_ms=? AND kind=?`, c.Label, l.owner,
				l.lease.Milliseconds(), c.Kind)
			return err
		})
		if len(rows) > 0 && rows[0]["outcome"] == "claimed" {
			hold := &Hold{Claim: newClaim(context.WithoutCancel(ctx), rows[0])}
			end := l.heart.start(db, l.lease, l.log)
			l.heart.hold([]*task{{Claim: hold.Claim}})
			hold.release = func() { end(); db.Close() }
			return hold, nil
		}
		if !wait {
			break
		}
		if err == nil {
			err = l.await(ctx)
		}
		if err == nil {
			err = context.Cause(ctx)
		}
	}
	db.Close()
	return nil, err
}
