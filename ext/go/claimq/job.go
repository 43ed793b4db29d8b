package claimq

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
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

	begun bool            // under the worker's lock
	ctx   context.Context // the handler's
	lose  context.CancelCauseFunc
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

// newJob is a job of a claim's row.
func newJob(row map[string]any, stopping <-chan struct{}) *Job {
	j := &Job{Payload: row["payload"], Row: row, Stopping: stopping}
	j.ID, _ = row["job_id"].(int64)
	j.Attempt, _ = row["attempt_index"].(int64)
	j.ClaimID, _ = row["claim_id"].(string)
	j.LeaseToken, _ = row["lease_token"].(string)
	j.ctx, j.lose = context.WithCancelCause(context.Background())
	return j
}

func (j *Job) lost() bool { return context.Cause(j.ctx) == ErrLost }

// verb calls one, such as "renew(?, ?, ?)".  That the claim is lost ends the
// handler's context, and is no error.
func (j *Job) verb(conn *sql.Conn, verb string, values ...any) error {
	_, err := conn.ExecContext(context.Background(), "SELECT claimq_"+verb,
		append([]any{j.ClaimID, j.LeaseToken}, values...)...)
	if Code(err) == "claim_lost" {
		j.lose(ErrLost)
		return nil
	}
	return err
}

// settle settles the job by what its handler returned.
func (j *Job) settle(conn *sql.Conn, result any, failed error) error {
	var later retry
	var never reject
	switch {
	case j.lost():
		return nil
	case failed == nil:
		return j.verb(conn, "complete(?, ?, 'result', ?)", result)
	case errors.As(failed, &never):
		return j.verb(conn, "reject(?, ?, ?)", failed.Error())
	}
	errors.As(failed, &later)
	return j.verb(conn, "retry(?, ?, ?, 'delay_ms', ?)", failed.Error(),
		later.delay)
}
