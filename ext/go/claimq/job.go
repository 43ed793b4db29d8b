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
}

// Text is the payload as text.
func (j *Job) Text() string {
	if blob, ok := j.Payload.([]byte); ok {
		return string(blob)
	}
	return fmt.Sprint(j.Payload)
}

// querier is a sql.DB, a sql.Conn or a sql.Tx.
type querier interface {
	ExecContext(context.Context, string, ...any) (sql.Result, error)
	QueryContext(context.Context, string, ...any) (*sql.Rows, error)
}

// Complete completes the job on a connection or in a transaction of the
// handler's own, with the handler's writes: both happen, or neither.
func (j *Job) Complete(ctx context.Context, tx querier) error {
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

// readJobs runs a claim and reads all its rows.
func readJobs(db querier, stopping <-chan struct{}, claim string,
	values ...any) (jobs []*Job, err error) {
	rows, err := db.QueryContext(context.Background(), claim, values...)
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
		j := &Job{Payload: row["payload"], Row: row, Stopping: stopping}
		j.ID, _ = row["job_id"].(int64)
		j.Attempt, _ = row["attempt_index"].(int64)
		j.ClaimID, _ = row["claim_id"].(string)
		j.LeaseToken, _ = row["lease_token"].(string)
		jobs = append(jobs, j)
	}
	if err == nil {
		err = rows.Err()
	}
	return jobs, err
}

// call calls a verb for the job, such as "renew(?, ?, ?)".
func (j *Job) call(db querier, verb string, values ...any) error {
	_, err := db.ExecContext(context.Background(), "SELECT claimq_"+verb,
		append([]any{j.ClaimID, j.LeaseToken}, values...)...)
	return err
}

// outcome is what a handler returned.
type outcome struct {
	result any
	err    error
}

// start calls the handler in a goroutine of its own, and has a channel that
// gets the outcome.  A panic is an error like others.
func (j *Job) start(ctx context.Context,
	handler func(context.Context, *Job) (any, error)) <-chan outcome {
	done := make(chan outcome, 1)
	go func() {
		end := outcome{err: errors.New("the handler has ended its goroutine")}
		defer func() {
			if why := recover(); why != nil {
				end.err = fmt.Errorf("panic: %v", why)
				log.Printf("claimq: job %d: %v\n%s", j.ID, end.err, debug.Stack())
			}
			done <- end
		}()
		end.result, end.err = handler(ctx, j)
	}()
	return done
}

// settle settles the job by what its handler returned.  That the claim is lost
// is no error: there is nothing to settle.
func (j *Job) settle(db querier, end outcome) error {
	value, err := driver.DefaultParameterConverter.ConvertValue(end.result)
	if err != nil { // no value of SQL
		var text []byte
		text, err = json.Marshal(end.result)
		value = string(text)
	}
	if end.err != nil {
		err = end.err
	}
	var later retry
	var never reject
	switch {
	case err == nil:
		err = j.call(db, "complete(?, ?, 'result', ?)", value)
	case errors.As(err, &never):
		err = j.call(db, "reject(?, ?, ?)", err.Error())
	default:
		errors.As(err, &later)
		err = j.call(db, "retry(?, ?, ?, 'delay_ms', ?)", err.Error(),
			later.delay)
	}
	if Code(err) == "claim_lost" {
		return nil
	}
	return err
}
