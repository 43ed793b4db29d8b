package claimq

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"
)

// Handler does a job.  With a nil error the job is completed, and the value is
// its result; Reject makes it a dead letter; Release gives it back; any other
// error, or a panic, has it tried again, after its backoff or when Retry says.
type Handler func(context.Context, *Job) (any, error)

// Worker is the loop of a worker, whole.  Path, a lane or several, and a handler
// or tasks are needed.
//
// If a job is taken away (after a pause longer than the lease, by claimq_cancel
// or claimq_revoke), the handler's context ends at once with the cause ErrLost:
// nothing it still does counts.
//
// A lock that lasts longer than Timeout, or a full disk, does not end the worker:
// it says so in the log, waits and goes on, and what it has done is settled then.
// A file that was removed or replaced ends it: its jobs are not there any more.
//
// SIGTERM, SIGINT or the end of Run's context ends the loop: what is held and
// not begun is given back at once, and the jobs at hand are finished.
type Worker struct {
	Path         string
	Lane         string
	Lanes        []string // several: jobs of an earlier one go first
	Handler      Handler  // of jobs without a task
	Owner        string   // default: host, process and a random part
	Concurrency  int      // how many handlers run at once; default: 1
	Batch        int      // how many jobs are taken at a time; default: 1
	Capabilities []string
	Partitions   []int         // whose jobs are taken; default: all
	Lease        time.Duration // default: 30 s; it is renewed at a third of that
	Timeout      time.Duration // how long to wait for a lock; default: 30 s
	Create       bool          // the file, if there is none
	Synchronous  string        // "full" for PRAGMA synchronous; default: normal

	// Log gets beginning and end, failures, locks and full disks; default:
	// log.Printf.
	Log func(format string, values ...any)

	tasks map[string]Handler
}

// Task has the handler of jobs that are submitted with {"task": name}.  A worker
// gets no job of a task that it does not know: those wait for one that does.
func (w *Worker) Task(name string, handler Handler) {
	if w.tasks == nil {
		w.tasks = map[string]Handler{}
	}
	w.tasks[name] = handler
}

// Run works until ctx ends or a signal comes, and counts the jobs that it began.
func (w *Worker) Run(ctx context.Context) (begun int, err error) {
	return w.run(ctx, false)
}

// Drain works until no job is claimable now, and counts the jobs that it began:
// for tests.  It does not wait for jobs that are delayed.
func (w *Worker) Drain(ctx context.Context) (begun int, err error) {
	return w.run(ctx, true)
}

func (w *Worker) run(ctx context.Context, drain bool) (int, error) {
	l := &loop{limit: max(w.Concurrency, 1), settings: settings{path: w.Path,
		owner: w.Owner, lease: w.Lease, timeout: w.Timeout, create: w.Create,
		synchronous: w.Synchronous, log: w.Log}}
	l.defaults()
	lanes := w.Lanes
	if w.Lane != "" {
		lanes = append([]string{w.Lane}, lanes...)
	}
	l.what = "worker of " + strings.Join(lanes, ", ")
	able := append([]string{}, w.Capabilities...)
	for name := range w.tasks {
		able = append(able, taskPrefix+name)
	}
	scope := []any{list(able), nil} // of all partitions
	if w.Partitions != nil {
		scope[1] = list(w.Partitions)
	}
	l.wait = func(ctx context.Context) error {
		_, err := l.db.ExecContext(ctx, `SELECT claimq_wait(5000, 'lanes', ?,
			'capabilities', ?, 'partition', ?)`, list(lanes), scope[0], scope[1])
		return err
	}
	l.claim = func(db querier, n int) (tasks []*task, err error) {
		n = max(n, w.Batch)
		for _, lane := range lanes {
			rows, err := readRows(db, `SELECT * FROM claimq_lane WHERE lane=?
				AND capabilities=? AND partition IS ? AND owner=? AND lease_ms=?
				AND max=?`, lane, scope[0], scope[1], l.owner,
				l.lease.Milliseconds(), n-len(tasks))
			for _, row := range rows {
				tasks = append(tasks, w.task(l, newJob(newClaim(l.ctx, row))))
			}
			if len(tasks) >= n {
				return tasks, nil
			}
			if err != nil && len(tasks) == 0 { // else it will come again
				return nil, err
			}
		}
		return tasks, nil
	}
	return l.run(ctx, drain)
}

// task is what the loop does about a job.
func (w *Worker) task(l *loop, j *Job) *task {
	j.db, j.lease, j.Stopping = l.db, l.lease, l.stopping
	return &task{Claim: j.Claim, name: fmt.Sprintf("job %d", j.ID),
		work: func(ctx context.Context) (any, error) {
			handler, what := w.Handler, "jobs without a task"
			if j.Task != "" {
				handler, what = w.tasks[j.Task], "task "+j.Task
			}
			if handler == nil {
				return nil, errors.New("no handler for " + what)
			}
			return handler(ctx, j)
		},
		calls: func(result any, err error) []verb {
			return j.settlement(result, err, l.log)
		}}
}

func list(values any) string {
	text, _ := json.Marshal(values)
	return string(text)
}
