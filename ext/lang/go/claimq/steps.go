package claimq

// Durable steps: see ext/doc/steps.md of the source archive.

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"
)

// Step has what the step of this name gave when it was run the first time, in
// whichever attempt of the job; if it never was, it runs f and stores what it
// gives, as JSON.  An error of f is returned, and nothing is stored.
func Step[T any](j *Job, name string, f func() (T, error)) (value T, err error) {
	var stored sql.NullString
	err = j.one(&stored, "SELECT value FROM claimq_steps WHERE job_id=? AND name=?",
		j.ID, name)
	if err != nil && strings.Contains(err.Error(), "no such table") {
		err = sql.ErrNoRows // until there is a first step
	}
	if errors.Is(err, sql.ErrNoRows) {
		var made T
		var text []byte
		if made, err = f(); err == nil {
			text, err = json.Marshal(made)
		}
		if err != nil {
			return value, err
		}
		err = j.one(&stored, "SELECT claimq_step(?, ?, ?, ?, 'lease_ms', ?)",
			j.ClaimID, j.LeaseToken, name, string(text), j.lease.Milliseconds())
	}
	if err == nil && stored.Valid {
		err = json.Unmarshal([]byte(stored.String), &value)
	}
	return value, err
}

// Step is the function Step for a value of any type, as encoding/json reads it
// back: numbers are float64.
func (j *Job) Step(name string, f func() (any, error)) (any, error) {
	return Step(j, name, f)
}

// Sleep gives the job back for that time, once: its handler returns the error, and
// begins anew when the job comes back; then Sleep returns nil.  Call sleeps in
// the same order each time.
func (j *Job) Sleep(d time.Duration) error {
	j.naps++
	until, err := Step(j, fmt.Sprintf("sleep-%d", j.naps), func() (int64, error) {
		return time.Now().Add(d + time.Millisecond - 1).UnixMilli(), nil
	})
	if left := until - time.Now().UnixMilli(); err == nil && left > 0 {
		return pause{"delay_ms", left}
	}
	return err
}

// WaitFor returns nil if these jobs have ended, however.  Else the handler
// returns the error, and begins anew when they have.
func (j *Job) WaitFor(ids ...int64) error {
	for _, id := range ids {
		var open int64
		err := j.one(&open, `SELECT id FROM (SELECT ? AS id) -- open, or never there
			WHERE id NOT BETWEEN 1 AND (SELECT seq FROM sqlite_sequence
			                            WHERE name='claimq_job')
			OR EXISTS (SELECT 1 FROM claimq_job
			           WHERE job_id=id AND terminal_at_ms IS NULL)`, id)
		if err == nil {
			list, _ := json.Marshal(ids)
			return pause{"after", string(list)}
		}
		if !errors.Is(err, sql.ErrNoRows) {
			return err
		}
	}
	return nil
}

func (j *Job) one(into any, query string, values ...any) error {
	return one(context.Background(), j.db, into, query, values...)
}
