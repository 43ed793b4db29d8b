package claimq

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"encoding/json"
	"errors"
	"fmt"
	"log"
	"runtime/debug"
	"sync/atomic"
	"time"
)

// ErrLost is the cause of the end of a handler's context when somebody else has
// taken the job over.
var ErrLost = errors.New("the job was taken over")

// Job is what a handler gets.  Row has all columns of the claim.
type Job struct {
	ID                  int64
	Payload             any
	Attempt             int64 // 0 is the first
	ClaimID, LeaseToken string
	Row                 map[string]any
	Stopping            <-chan struct{} // closed when the worker is to end

	ctx   context.Context // the handler's; over when the job is settled or lost
	end   context.CancelCauseFunc
	taken atomic.Bool
}

// Text is the payload as text.
func (j *Job) Text() string {
	if blob, ok := j.Payload.([]byte); ok {
		return string(blob)
	}
	return fmt.Sprint(j.Payload)
}

// execer is a sql.DB, a sql.Conn or a sql.Tx.
type execer interface {
	ExecContext(context.Context, string, ...any) (sql.Result, error)
}

// Complete completes the job on a connection or in a transaction of the
// handler's own, with the handler's writes: both happen, or neither.
func (j *Job) Complete(ctx context.Context, tx execer) error {
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

// readJobs reads all rows of a claim, and closes them.
func readJobs(rows *sql.Rows, stopping <-chan struct{}) ([]*Job, error) {
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
		j := &Job{Payload: row["payload"], Row: row, Stopping: stopping}
		j.ID, _ = row["job_id"].(int64)
		j.Attempt, _ = row["attempt_index"].(int64)
		j.ClaimID, _ = row["claim_id"].(string)
		j.LeaseToken, _ = row["lease_token"].(string)
		j.ctx, j.end = context.WithCancelCause(context.Background())
		jobs = append(jobs, j)
	}
	if err == nil {
		err = rows.Err()
	}
	return jobs, err
}

func (j *Job) lost() bool { return context.Cause(j.ctx) == ErrLost }

// take is true for the first who asks: the loop, which begins the job, or keep,
// which gives it back when the worker is stopping.
func (j *Job) take() bool {
	return !j.lost() && j.taken.CompareAndSwap(false, true)
}

// call calls a verb, such as "renew(?, ?, ?)", unless the claim is lost.  That
// it is lost ends the handler's context, and is no error.
func (j *Job) call(conn execer, verb string, values ...any) error {
	if j.lost() {
		return nil
	}
	_, err := conn.ExecContext(context.Background(), "SELECT claimq_"+verb,
		append([]any{j.ClaimID, j.LeaseToken}, values...)...)
	if Code(err) == "claim_lost" {
		j.end(ErrLost)
		return nil
	}
	return err
}

// handle calls the handler.  A panic is an error like others.
func (j *Job) handle(f func(context.Context, *Job) (any, error)) (
	result any, err error) {
	defer func() {
		if why := recover(); why != nil {
			err = fmt.Errorf("panic: %v", why)
			log.Printf("claimq: job %d: %v\n%s", j.ID, err, debug.Stack())
		}
	}()
	return f(j.ctx, j)
}

// settle settles the job by what its handler returned.
func (j *Job) settle(conn execer, result any, failed error) error {
	value, err := driver.DefaultParameterConverter.ConvertValue(result)
	if err != nil { // no value of SQL
		var text []byte
		text, err = json.Marshal(result)
		value = string(text)
	}
	if failed == nil {
		failed = err
	}
	var later retry
	var never reject
	switch {
	case failed == nil:
		return j.call(conn, "complete(?, ?, 'result', ?)", value)
	case errors.As(failed, &never):
		return j.call(conn, "reject(?, ?, ?)", failed.Error())
	}
	errors.As(failed, &later)
	return j.call(conn, "retry(?, ?, ?, 'delay_ms', ?)", failed.Error(),
		later.delay)
}
