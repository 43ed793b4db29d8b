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
// any other error has it tried again, after the job's own backoff, or when
// Retry says.
//
// One connection claims, waits and settles; it settles a job and takes the next
// one in the same transaction.  A goroutine with a connection of its own renews
// what is held at a third of the lease.  If somebody else has taken a job over
// (after a pause longer than the lease, or by claimq_revoke), the handler's
// context ends with the cause ErrLost: the handler should stop, nothing that it
// still does counts, and the worker goes on with the next job.
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
	mutex        sync.Mutex // for held, and for begun of each
	held         []*Job
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
func (w *Worker) Run(ctx context.Context) (int, error) {
	ctx, unlisten := signal.NotifyContext(ctx, syscall.SIGTERM, os.Interrupt)
	defer unlisten()
	if err := w.defaults(); err != nil {
		return 0, err
	}
	db, err := Open(w.Path)
	if err != nil {
		return 0, err
	}
	defer db.Close()
	conns := [2]*sql.Conn{}
	for i := range conns {
		if conns[i], err = db.Conn(context.Background()); err != nil {
			return 0, err
		}
		defer conns[i].Close()
	}
	end, ended := make(chan struct{}), make(chan struct{})
	go func() {
		w.renew(ctx, conns[1], end)
		close(ended)
	}()
	begun, err := w.work(ctx, conns[0])
	close(end)
	<-ended
	for _, job := range w.held { // what could not be settled, after an error
		job.verb(conns[1], "release(?, ?)")
	}
	w.held = nil
	return begun, err
}

func (w *Worker) work(ctx context.Context, conn *sql.Conn) (int, error) {
	for begun := 0; ; {
		job := w.begin(ctx)
		if job != nil {
			begun++
			result, failed := w.Handler(job.ctx, job)
			if err := w.settle(ctx, conn, job, result, failed); err != nil {
				return begun, err
			}
			continue
		}
		if ctx.Err() != nil {
			return begun, nil
		}
		jobs, err := w.claim(ctx, conn)
		w.swap(nil, jobs)
		if err == nil && len(jobs) == 0 {
			_, err = conn.ExecContext(ctx, `SELECT claimq_wait(?, 'lane', ?,
				'capabilities', ?, 'partition', ?)`, waitMs, w.Lane,
				w.capabilities, w.Partition)
		}
		if err != nil && ctx.Err() == nil { // else the wait was broken off
			return begun, err
		}
	}
}

// begin returns the next job that is held, which is begun then, or nil.
func (w *Worker) begin(ctx context.Context) *Job {
	w.mutex.Lock()
	defer w.mutex.Unlock()
	for len(w.held) > 0 && ctx.Err() == nil {
		if job := w.held[0]; !job.lost() {
			job.begun = true
			return job
		}
		w.held = w.held[1:]
	}
	return nil
}

// swap: this one is no longer held, but those are.
func (w *Worker) swap(done *Job, jobs []*Job) {
	w.mutex.Lock()
	defer w.mutex.Unlock()
	if done != nil {
		w.held = w.held[1:] // what is begun is the first
	}
	w.held = append(w.held, jobs...)
}

func (w *Worker) claim(ctx context.Context, conn *sql.Conn) ([]*Job, error) {
	rows, err := conn.QueryContext(context.Background(), `SELECT *
		FROM claimq_lane WHERE lane=? AND owner=? AND ttl_ms=? AND max_jobs=?
		AND capabilities=? AND partition=?`, w.Lane, w.Owner,
		w.Lease.Milliseconds(), w.Batch, w.capabilities, w.Partition)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	names, err := rows.Columns()
	values, into := make([]any, len(names)), make([]any, len(names))
	for i := range values {
		into[i] = &values[i]
	}
	var jobs []*Job
	for err == nil && rows.Next() {
		err = rows.Scan(into...)
		row := make(map[string]any, len(names))
		for i, name := range names {
			row[name] = values[i]
		}
		jobs = append(jobs, newJob(row, ctx.Done()))
	}
	if err == nil {
		err = rows.Err()
	}
	return jobs, err
}

// settle settles the job, and takes the next one with the same commit.
func (w *Worker) settle(ctx context.Context, conn *sql.Conn, job *Job,
	result any, failed error) error {
	var jobs []*Job
	w.mutex.Lock()
	last := len(w.held) == 1
	w.mutex.Unlock()
	err := Transaction(context.Background(), conn, func() error {
		err := job.settle(conn, result, failed)
		if err == nil && last && ctx.Err() == nil {
			jobs, err = w.claim(ctx, conn)
		}
		return err
	})
	if err == nil {
		w.swap(job, jobs)
	}
	job.lose(nil) // ends the context
	return err
}

// renew renews what is held, until the end; when the worker is stopping, it
// gives back what is not begun.  What fails here for another reason than a lost
// claim is tried again at the next beat, or the lease ends.
func (w *Worker) renew(ctx context.Context, conn *sql.Conn,
	end <-chan struct{}) {
	beat := time.NewTicker(w.Lease / 3)
	defer beat.Stop()
	stopping := ctx.Done()
	for {
		select {
		case <-end:
			return
		case <-stopping:
			stopping = nil
		case <-beat.C:
		}
		var keep, back []*Job
		w.mutex.Lock()
		for _, job := range w.held {
			if job.begun || ctx.Err() == nil {
				keep = append(keep, job)
			} else {
				back = append(back, job)
			}
		}
		w.held = append([]*Job{}, keep...)
		w.mutex.Unlock()
		for _, job := range back {
			job.verb(conn, "release(?, ?)")
		}
		for _, job := range keep {
			job.verb(conn, "renew(?, ?, ?)", w.Lease.Milliseconds())
		}
	}
}
