package claimq

import (
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"math/rand"
	"os"
	"os/signal"
	"slices"
	"syscall"
	"time"
)

// Worker is the loop of a worker, whole.  Path, Lane and Handler are needed.
// What the handler returns decides: with a nil error the job is completed, and
// the value is its result; Reject makes it a dead letter; any other error, or a
// panic, has it tried again, after its backoff or when Retry says.  If the job
// is taken over (after a pause longer than the lease, or by claimq_revoke), the
// handler's context ends with the cause ErrLost: nothing it still does counts.
//
// SIGTERM, SIGINT or the end of Run's context ends the loop: what is held and
// not begun is given back at once, and the job at hand is finished.
type Worker struct {
	Path, Lane   string
	Handler      func(context.Context, *Job) (any, error)
	Owner        string        // default: host, process and a random part
	Lease        time.Duration // default: 30 s; it is renewed at a third of that
	Batch        int           // how many jobs are taken at a time; default: 1
	Capabilities []string
	Partition    int

	db    *sql.DB      // its own connections: the handler has others
	beat  *time.Ticker // when to renew
	scope []any        // what is claimed, and waited for
}

// Run works until ctx ends or a signal comes, and counts the jobs that it began.
func (w *Worker) Run(ctx context.Context) (begun int, err error) {
	if w.Lease == 0 {
		w.Lease = 30 * time.Second
	}
	if w.Owner == "" {
		host, _ := os.Hostname()
		w.Owner = fmt.Sprintf("%s:%d:%x", host, os.Getpid(), rand.Uint32())
	}
	capabilities, _ := json.Marshal(append([]string{}, w.Capabilities...))
	w.scope = []any{w.Lane, string(capabilities), w.Partition}
	w.beat = time.NewTicker(max(w.Lease/3, 1))
	defer w.beat.Stop()
	if w.db, err = Open(w.Path); err != nil {
		return 0, err
	}
	defer w.db.Close()
	ctx, stop := signal.NotifyContext(ctx, syscall.SIGTERM, os.Interrupt)
	defer stop()
	var held []*Job
	for err == nil && ctx.Err() == nil {
		if len(held) > 0 {
			begun++
			held, err = w.work(ctx, held[0], held[1:])
		} else if held, err = w.claim(ctx, w.db); err == nil && len(held) == 0 {
			_, err = w.db.ExecContext(ctx, `SELECT claimq_wait(5000, 'lane', ?,
				'capabilities', ?, 'partition', ?)`, w.scope...)
			if ctx.Err() != nil { // the wait was broken off
				err = nil
			}
		}
	}
	w.release(held...)
	return begun, err
}

func (w *Worker) claim(ctx context.Context, db querier) ([]*Job, error) {
	return readJobs(db, ctx.Done(), `SELECT * FROM claimq_lane WHERE lane=?
		AND capabilities=? AND partition=? AND owner=? AND ttl_ms=? AND max_jobs=?`,
		append(w.scope, w.Owner, w.Lease.Milliseconds(), max(w.Batch, 1))...)
}

// work calls the handler, and keeps the job and the others, not begun, meanwhile.
// Then it settles the job and, if no others are left, takes the next ones with
// the same commit.  It returns what is held then.
func (w *Worker) work(ctx context.Context, job *Job, others []*Job) ([]*Job, error) {
	inner, lose := context.WithCancelCause(context.WithoutCancel(ctx))
	defer lose(nil)
	done := job.start(inner, w.Handler)
	stopping := ctx.Done()
	for {
		select {
		case <-stopping:
			w.release(others...)
			others, stopping = nil, nil
		case <-w.beat.C:
			if w.lost(job) {
				lose(ErrLost)
			}
			others = slices.DeleteFunc(others, w.lost)
		case end := <-done:
			err := Transaction(context.Background(), w.db, func(tx *sql.Tx) error {
				err := job.settle(tx, end)
				if err == nil && len(others) == 0 && ctx.Err() == nil {
					others, err = w.claim(ctx, tx)
				}
				return err
			})
			if err != nil {
				w.release(job)
			}
			return others, err
		}
	}
}

// lost renews a job, and tells whether somebody else has it by now.
func (w *Worker) lost(job *Job) bool {
	return Code(job.call(w.db, "renew(?, ?, ?)", w.Lease.Milliseconds())) == "claim_lost"
}

// release gives jobs back.  If that fails, their leases end.
func (w *Worker) release(jobs ...*Job) {
	for _, job := range jobs {
		job.call(w.db, "release(?, ?)")
	}
}
