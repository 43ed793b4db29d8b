package claimq

import (
	"database/sql/driver"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"
)

// Job is what a handler gets.  Row has all columns of the claim.
type Job struct {
	*Claim
	ID       int64
	Lane     string
	Task     string // its name, "" if it has none
	Payload  any
	Headers  map[string]any  // never nil
	Attempt  int64           // 0 is the first
	Stopping <-chan struct{} // closed when the worker is to end

	db    querier // of the worker, for steps
	lease time.Duration
	naps  int
}

func newJob(claim *Claim) *Job {
	row := claim.Row
	j := &Job{Claim: claim, Payload: row["payload"]}
	j.ID, _ = row["job_id"].(int64)
	j.Lane, _ = row["lane"].(string)
	j.Attempt, _ = row["attempt_index"].(int64)
	j.Headers = headers(row)
	var able []string
	json.Unmarshal(fmt.Append(nil, row["capabilities"]), &able)
	for _, name := range able {
		if task, found := strings.CutPrefix(name, taskPrefix); found {
			j.Task = task
		}
	}
	return j
}

// headers has those of a row; they are none if it has none.
func headers(row map[string]any) map[string]any {
	all := map[string]any{}
	if text, found := row["headers"].(string); found {
		json.Unmarshal([]byte(text), &all)
	}
	return all
}

// Text is the payload as text.
func (j *Job) Text() string {
	if blob, ok := j.Payload.([]byte); ok {
		return string(blob)
	}
	return fmt.Sprint(j.Payload)
}

// Decode has the payload of a job, which is JSON, as a value of a type.
func Decode[T any](j *Job) (value T, err error) {
	err = json.Unmarshal([]byte(j.Text()), &value)
	return value, err
}

type retry struct {
	reason string
	delay  time.Duration
}

func (r retry) Error() string { return r.reason }

type reject struct{ reason string }

func (r reject) Error() string { return r.reason }

// Retry, returned by a handler, has the job tried again after the delay, in
// whole milliseconds; a negative one is 0.
func Retry(reason string, delay time.Duration) error {
	return retry{reason, delay}
}

// Reject, returned by a handler, makes the job a dead letter.
func Reject(reason string) error { return reject{reason} }

// Release, returned by a handler, gives the job back, without using an attempt:
// it comes back at once, or after the delay.
func Release(delay time.Duration) error {
	return pause{"delay_ms", milliseconds(delay)}
}

type pause struct {
	option string
	value  any
}

func (p pause) Error() string { return fmt.Sprintf("%s %v", p.option, p.value) }

// milliseconds are rounded up, and 0 at least.
func milliseconds(d time.Duration) int64 {
	ms := d.Milliseconds()
	if time.Duration(ms)*time.Millisecond < d {
		ms++
	}
	return max(ms, 0)
}

// settlement has the calls that settle the job.  Whatever the handler has
// returned counts, and none of it may end the worker.
func (j *Job) settlement(result any, err error, log logger) []verb {
	if err == nil {
		value, err := storable(result)
		if err != nil {
			log("claimq: job %d is done, but its result cannot be stored: %v",
				j.ID, err)
			return []verb{{"complete(?, ?)", nil}}
		}
		return []verb{{"complete(?, ?, 'result', ?)", []any{value}},
			{"complete(?, ?)", nil}}
	}
	text := fmt.Sprint(err) // which survives an Error that panics
	var later retry
	var paused pause
	var never reject
	switch {
	case errors.As(err, &paused):
		return []verb{{"release(?, ?, ?, ?)", []any{paused.option, paused.value}},
			{"retry(?, ?, ?)", []any{"cannot wait: " + text}}}
	case errors.As(err, &never):
		return []verb{{"reject(?, ?, ?)", []any{valid(text)}},
			{"reject(?, ?, 'rejected')", nil}}
	case errors.As(err, &later):
		return failed(text, nil, milliseconds(later.delay))
	}
	said, kept, class := failure(err)
	log("claimq: job %d failed: %s", j.ID, said)
	return failed(kept, class, nil)
}

// failure has what is logged of an error, what is kept as last_error, and its
// class.  An error of Go has no trace, unless a package has given it one, which
// %+v prints; a panic has one.  fmt.Errorf only wraps: the class, and the types
// of the chain, are those of what it has wrapped.
func failure(err error) (said, kept, class string) {
	text := fmt.Sprint(err)
	var panic panicked
	if errors.As(err, &panic) {
		return text + "\n" + panic.trace, text + panic.where(), "panic"
	}
	var chain []string
	var trace string
	for each := err; each != nil; each = errors.Unwrap(each) {
		if all := fmt.Sprintf("%+v", each); trace == "" && all != fmt.Sprint(each) {
			trace = all
		}
		if name := fmt.Sprintf("%T", each); name != "*fmt.wrapError" ||
			errors.Unwrap(each) == nil {
			chain = append(chain, name)
		}
	}
	said, kept, class = text, text, fmt.Sprintf("%.64s", chain[0])
	if len(chain) > 1 {
		said += " (" + strings.Join(chain, ": ") + ")"
	}
	if trace != "" {
		lines := strings.SplitN(trace, "\n", 8)
		said += "\n" + trace
		kept += "\n" + strings.Join(lines[:min(7, len(lines))], "\n")
	}
	return said, kept, class
}

func failed(text string, class, delay any) []verb {
	return []verb{{"retry(?, ?, ?, 'delay_ms', ?, 'error_class', ?)",
		[]any{valid(text), delay, class}}, {"retry(?, ?, 'the handler failed')", nil}}
}

func valid(text string) string { return strings.ToValidUTF8(text, "?") }

// storable is a value as one of SQL, or as JSON.
func storable(result any) (value any, err error) {
	defer func() {
		if why := recover(); why != nil {
			err = fmt.Errorf("panic: %v", why)
		}
	}()
	if value, err = driver.DefaultParameterConverter.ConvertValue(result); err != nil {
		var text []byte
		text, err = json.Marshal(result)
		value = string(text)
	}
	return value, err
}
