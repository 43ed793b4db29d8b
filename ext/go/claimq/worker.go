package claimq

import (
	"context"
	"crypto/rand"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"sync"
	"syscall"
	"time"
)

// ErrLost is the cause of the end of a handler's context when somebody else has
// taken the job over.
var ErrLost = errors.New("the job was taken over")

const waitMs = 5000

// Job is what a handler gets.  Row has all columns of the claim.
type Job struct {
	ID                  int64
	Payload             any
	Attempt             int64 // 0 is the first
	ClaimID, LeaseToken string
	Row                 map[string]any
	Stopping            <-chan struct{} // closed when the worker is to end

	ctx  context.Context
	lost context.CancelCauseFunc
}

// Text is the payload as text.
func (j *Job) Text() string {
	if blob, ok := j.Payload.([]byte); ok {
		return string(blob)
	}
	return fmt.Sprint(j.Payload)
}

// Complete completes the job on a connection or in a transaction of the
// handler's own, with the handler's writes: both happen, or neither.
func (j *Job) Complete(ctx context.Context, tx interface {
	ExecContext(context.Context, string, ...any) (sql.Result, error)
}) error {
	_, err := tx.ExecContext(ctx, "SELECT claimq_complete(?, ?)", j.ClaimID,
		j.LeaseToken)
	return err
}

type retry struct {
	reason string
	delay  any
}

func (r retry) Error() string { return r.reason }

type reject struct{ reason string }

func (r reject) Error() string { return r.reason }

// Retry, returned by a handler, has the job tried again after the delay.
func Retry(reason string, delay time.Duration) error {
	return retry{reason, delay.Milliseconds()}
}

// Reject, returned by a handler, makes the job a dead letter.
func Reject(reason string) error { return reject{reason} }

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
	begun        int
	mutex        sync.Mutex // for these two:
	waiting      []*Job     // held, and not begun
	current      *Job
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
	if err = w.defaults(); err != nil {
		return 0, err
	}
	end := make(chan struct{})
	var renewer sync.WaitGroup
	renewer.Add(1)
	go func() {
		defer renewer.Done()
		w.renew(ctx, conns[1], end)
	}()
	for err == nil && ctx.Err() == nil {
		err = w.step(ctx, conns[0])
	}
	close(end)
	renewer.Wait()
	if w.current != nil { // it could not be settled
		w.take([]*Job{w.current})
	}
	w.giveBack(conns[1])
	return w.begun, err
}

// step works on the next job that is held, or takes some, or waits for one.
func (w *Worker) step(ctx context.Context, conn *sql.Conn) error {
	if job := w.begin(ctx); job != nil {
		result, err := w.Handler(job.ctx, job)
		return w.settle(ctx, conn, job, result, err)
	}
	jobs, err := w.claim(ctx, conn)
	w.take(jobs)
	if err != nil || len(jobs) > 0 {
		return err
	}
	_, err = conn.ExecContext(ctx, `SELECT claimq_wait(?, 'lane', ?,
		'capabilities', ?, 'partition', ?)`, waitMs, w.Lane, w.capabilities,
		w.Partition)
	if ctx.Err() != nil {
		return nil // the wait was broken off
	}
	return err
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
	var jobs []*Job
	for err == nil && rows.Next() {
		values, into := make([]any, len(names)), make([]any, len(names))
		row := make(map[string]any, len(names))
		for i := range values {
			into[i] = &values[i]
		}
		err = rows.Scan(into...)
		for i, name := range names {
			row[name] = values[i]
		}
		job := &Job{Payload: row["payload"], Row: row, Stopping: ctx.Done()}
		job.ID, _ = row["job_id"].(int64)
		job.Attempt, _ = row["attempt_index"].(int64)
		job.ClaimID, _ = row["claim_id"].(string)
		job.LeaseToken, _ = row["lease_token"].(string)
		job.ctx, job.lost = context.WithCancelCause(context.Background())
		jobs = append(jobs, job)
	}
	if err == nil {
		err = rows.Err()
	}
	return jobs, err
}

// take: these are held from now on, and nothing is at hand.
func (w *Worker) take(jobs []*Job) {
	w.mutex.Lock()
	defer w.mutex.Unlock()
	w.current = nil
	w.waiting = append(w.waiting, jobs...)
}

// begin returns the next job, which is at hand then, or nil.
func (w *Worker) begin(ctx context.Context) *Job {
	w.mutex.Lock()
	defer w.mutex.Unlock()
	for len(w.waiting) > 0 && ctx.Err() == nil {
		job := w.waiting[0]
		w.waiting = w.waiting[1:]
		if job.ctx.Err() == nil {
			w.current = job
			w.begun++
			return job
		}
	}
	return nil
}

// settle settles the job, and takes the next one with the same commit.
func (w *Worker) settle(ctx context.Context, conn *sql.Conn, job *Job,
	result any, failed error) error {
	var jobs []*Job
	w.mutex.Lock()
	last := len(w.waiting) == 0
	w.mutex.Unlock()
	err := Transaction(context.Background(), conn, func() error {
		err := w.call(conn, job, result, failed)
		if err == nil && last && ctx.Err() == nil {
			jobs, err = w.claim(ctx, conn)
		}
		return err
	})
	if err == nil {
		w.take(jobs)
	}
	job.lost(nil) // ends the context
	return err
}

// call settles a job by what its handler returned.  A lost claim is no error.
func (w *Worker) call(conn *sql.Conn, job *Job, result any, failed error) error {
	var later retry
	var never reject
	switch {
	case job.ctx.Err() != nil:
		return nil
	case failed == nil:
		return w.verb(conn, job, "complete(?, ?, 'result', ?)", result)
	case errors.As(failed, &never):
		return w.verb(conn, job, "reject(?, ?, ?)", failed.Error())
	}
	errors.As(failed, &later)
	return w.verb(conn, job, "retry(?, ?, ?, 'delay_ms', ?)", failed.Error(),
		later.delay)
}

func (w *Worker) verb(conn *sql.Conn, job *Job, verb string,
	values ...any) error {
	_, err := conn.ExecContext(context.Background(), "SELECT claimq_"+verb,
		append([]any{job.ClaimID, job.LeaseToken}, values...)...)
	if Code(err) == "claim_lost" {
		job.lost(ErrLost)
		return nil
	}
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
			w.giveBack(conn)
		case <-beat.C:
		}
		w.mutex.Lock()
		held := append([]*Job{}, w.waiting...)
		if w.current != nil {
			held = append(held, w.current)
		}
		w.mutex.Unlock()
		for _, job := range held {
			w.verb(conn, job, "renew(?, ?, ?)", w.Lease.Milliseconds())
		}
	}
}

func (w *Worker) giveBack(conn *sql.Conn) {
	w.mutex.Lock()
	jobs := w.waiting
	w.waiting = nil
	w.mutex.Unlock()
	for _, job := range jobs {
		w.verb(conn, job, "release(?, ?)")
	}
}
