package claimq

import (
	"context"
	"fmt"
	"time"
)

// Session is the loop of a worker of sessions, or of one of them: conversations,
// each of which is worked on by one handler at a time, in order.  What the
// handler returns decides: with a nil error the batches are done; Reject makes
// dead letters of them; Release gives them back; after any other error, or a
// panic, they come again, at once or when Retry says.
//
// All else is as for a Worker.
type Session struct {
	Path        string
	Session     string // default: any
	Handler     func(context.Context, *Turn) error
	Owner       string
	Concurrency int           // how many sessions are worked on at once
	Max         int           // batches at a time; default: 32
	Lease       time.Duration // as those of a Worker
	Timeout     time.Duration
	Create      bool
	Synchronous string
	Log         func(format string, values ...any)
}

// Turn is what a session has to deliver at a time.
type Turn struct {
	*Claim
	Session  string
	Batches  []*Batch
	Stopping <-chan struct{} // closed when the loop is to end
}

// Batch is an entry of a session.
type Batch struct {
	ID        string
	WorkClass string // "turn_work" or "session_command"
	Payload   any
	Headers   map[string]any // never nil
	Row       map[string]any // all columns of the claim
}

// Run works until ctx ends or a signal comes, and counts the turns.
func (s *Session) Run(ctx context.Context) (begun int, err error) {
	return s.run(ctx, false)
}

// Drain works until no batch is claimable now, and counts the turns.
func (s *Session) Drain(ctx context.Context) (begun int, err error) {
	return s.run(ctx, true)
}

func (s *Session) run(ctx context.Context, drain bool) (int, error) {
	l := &loop{limit: max(s.Concurrency, 1), what: "worker of sessions",
		settings: settings{path: s.Path, owner: s.Owner, lease: s.Lease,
			timeout: s.Timeout, create: s.Create, synchronous: s.Synchronous,
			log: s.Log}}
	l.defaults()
	var session, most any
	if s.Session != "" {
		session = s.Session
		l.what = "worker of session " + s.Session
	}
	if s.Max > 0 {
		most = s.Max
	}
	l.wait = func(ctx context.Context) error {
		_, err := l.db.ExecContext(ctx, `SELECT claimq_wait(5000, 'session', ?,
			'take', 'any', 'serial', 1)`, session)
		return err
	}
	l.claim = func(db querier, n int) ([]*task, error) { // a session each
		return claimMany(n, func() (*task, error) {
			rows, err := readRows(db, `SELECT * FROM claimq WHERE session IS ?
				AND owner=? AND lease_ms=? AND max IS ? AND take='any'
				AND serial=1`, session, l.owner, l.lease.Milliseconds(), most)
			if len(rows) == 0 {
				return nil, err
			}
			return s.task(l, rows), nil
		})
	}
	return l.run(ctx, drain)
}

func (s *Session) task(l *loop, rows []map[string]any) *task {
	t := &Turn{Claim: newClaim(l.ctx, rows[0]), Stopping: l.stopping}
	t.Session, _ = t.Row["session"].(string)
	for _, row := range rows {
		b := &Batch{Payload: row["payload"], Headers: headers(row), Row: row}
		b.ID, _ = row["batch_id"].(string)
		b.WorkClass, _ = row["work_class"].(string)
		t.Batches = append(t.Batches, b)
	}
	name := fmt.Sprintf("batch %s", t.Batches[0].ID)
	return &task{Claim: t.Claim, name: name,
		work: func(ctx context.Context) (any, error) {
			return nil, s.Handler(ctx, t)
		},
		calls: func(_ any, err error) []verb {
			return settleMany(err, name, l.log, "")
		}}
}
