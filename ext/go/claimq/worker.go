package claimq

import (
	"context"
	"crypto/rand"
	"database/sql"
	"encoding/json"
	"fmt"
	"os"
	"os/signal"
	"sync"
	"syscall"
	"time"
)

const waitMs = 5000

// Worker is the loop of a worker, whole.  Path, Lane and Handler are needed.
//
// What the handler returns decides what becomes of the job: a nil error
// completes it, with the value as its result; Reject makes it a dead letter;
// any other error, or a panic, has it tried again, after the job's own backoff,
// or when Retry says.
//
// One connection claims, waits and settles; it settles a job and takes the next
// one in the same transaction.  Another one renews: each job that is held has a
// goroutine that does it at a third of the lease.  If somebody else has taken a
// job over (after a pause longer than the lease, or by claimq_revoke), the
// handler's context ends with the cause ErrLost: the handler should stop, nothing
// that it still does counts, and the worker goes on with the next job.
//
// SIGTERM and SIGINT, or the end of the context of Run, end the loop: what is
// held and not begun is given back at once, and the job at hand is finished.
type Worker struct {
	Path, Lane   string
	Handler      func(context.Context, *Job) (any, error)
	Owner        string        // default: host, process and a random part
	Lease        time.Duration // default: 30 s
	Batch        int           // how many jobs are taken at a time; default 1
	Capabilities []string
	Partition    int

	capabilities string
	db           *sql.DB        // of two connections: the one that renews, and
	conn         *sql.Conn      // that of the loop
	held         []*Job         // and not begun
	keepers      sync.WaitGroup // the goroutines that renew
}

func (w *Worker) defaults() error {
	if w.Lease == 0 {
		w.Lease = 30 * time.Second
	}
	if w.Batch == 0 {
		w.Batch = 1
	}
	if w.Owner == "" {
		host, _ := os.Hostname()
		random := make([]byte, 3)
		rand.Read(random)
		w.Owner = fmt.Sprintf("%s:%d:%x", host, os.Getpid(), random)
	}
	text, err := json.Marshal(append([]string{}, w.Capabilities...))
	w.capabilities = string(text)
	return err
}

// Run works until the context ends or a signal comes.  It returns how many
// jobs were begun.
func (w *Worker) Run(ctx context.Context) (begun int, err error) {
	if err = w.defaults(); err != nil {
		return
	}
	if w.db, err = Open(w.Path); err != nil {
		return
	}
	defer w.db.Close()
	w.db.SetMaxOpenConns(2)
	if w.conn, err = w.db.Conn(context.Background()); err != nil {
		return
	}
	defer w.conn.Close()
	ctx, stop := signal.NotifyContext(ctx, syscall.SIGTERM, os.Interrupt)
	defer w.keepers.Wait()
	defer stop() // also after an error: what is not begun is given back
	for err == nil && ctx.Err() == nil {
		if job := w.next(); job != nil {
			begun++
			err = w.work(ctx, job)
			continue
		}
		var jobs []*Job
		if jobs, err = w.claim(ctx); err == nil && len(jobs) == 0 {
			_, err = w.conn.ExecContext(ctx, `SELECT claimq_wait(?, 'lane', ?,
				'capabilities', ?, 'partition', ?)`, waitMs, w.Lane,
				w.capabilities, w.Partition)
			if ctx.Err() != nil { // the wait was broken off
				err = nil
			}
		}
		w.hold(ctx, jobs)
	}
	return
}

func (w *Worker) claim(ctx context.Context) ([]*Job, error) {
	rows, err := w.conn.QueryContext(context.Background(), `SELECT *
		FROM claimq_lane WHERE lane=? AND owner=? AND ttl_ms=? AND max_jobs=?
		AND capabilities=? AND partition=?`, w.Lane, w.Owner,
		w.Lease.Milliseconds(), w.Batch, w.capabilities, w.Partition)
	if err != nil {
		return nil, err
	}
	return readJobs(rows, ctx.Done())
}

// hold begins to renew jobs whose claim is committed.
func (w *Worker) hold(ctx context.Context, jobs []*Job) {
	w.held = append(w.held, jobs...)
	w.keepers.Add(len(jobs))
	for _, job := range jobs {
		go w.keep(ctx, job)
	}
}

// next returns the next job that is held, which is begun then, or nil.
func (w *Worker) next() *Job {
	for len(w.held) > 0 {
		job := w.held[0]
		w.held = w.held[1:]
		if job.take() {
			return job
		}
	}
	return nil
}

// work calls the handler and settles the job; unless some are left, it takes
// the next ones with the same commit.
func (w *Worker) work(ctx context.Context, job *Job) error {
	defer job.end(nil)
	result, failed := job.handle(w.Handler)
	var jobs []*Job
	err := Transaction(context.Background(), w.conn, func() error {
		err := job.settle(w.conn, result, failed)
		if err == nil && len(w.held) == 0 && ctx.Err() == nil {
			jobs, err = w.claim(ctx)
		}
		return err
	})
	if err != nil {
		job.call(w.db, "release(?, ?)")
		return err
	}
	w.hold(ctx, jobs)
	return nil
}

// keep renews a job until it is settled or lost, and gives it back if the
// worker is stopping before the job is begun.  What fails is tried again at the
// next beat, or the lease ends.
func (w *Worker) keep(ctx context.Context, job *Job) {
	defer w.keepers.Done()
	beat := time.NewTicker(w.Lease / 3)
	defer beat.Stop()
	stopping := ctx.Done()
	for {
		select {
		case <-job.ctx.Done():
			return
		case <-stopping:
			stopping = nil
			if job.take() {
				job.call(w.db, "release(?, ?)")
				job.end(nil)
			}
		case <-beat.C:
			job.call(w.db, "renew(?, ?, ?)", w.Lease.Milliseconds())
		}
	}
}
