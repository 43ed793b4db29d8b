package claimq

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// Outbox is the loop of a relay, which hands on the messages of a queue, each
// partition in order.  What the handler returns decides: with a nil error all
// messages are done; Reject makes dead letters of them; Release gives them back;
// after any other error, or a panic, they come again, after a pause or when Retry
// says.  Messages that the handler has called Done do not come again.
//
// All else is as for a Worker.
type Outbox struct {
	Path        string
	Queue       string
	Handler     func(context.Context, *Delivery) error
	Owner       string
	Concurrency int           // how many partitions are worked on at once
	Max         int           // messages at a time; default: as the queue says
	Partition   *int          // default: the one that waits longest
	Lease       time.Duration // as those of a Worker
	Timeout     time.Duration
	Create      bool
	Synchronous string
	Log         func(format string, values ...any)
}

// Delivery is some messages of a partition, in order.
type Delivery struct {
	*Claim
	Queue     string
	Partition int64
	Messages  []*Message
	Stopping  <-chan struct{} // closed when the loop is to end
}

// Message is one of an outbox.
type Message struct {
	Seq         int64
	Payload     any
	PayloadType string
	Headers     map[string]any // never nil
	Row         map[string]any // all columns of the claim
	done        bool
}

// Done says that a message is done, whatever becomes of the others.  It counts
// if all before it are done, too.
func (d *Delivery) Done(m *Message) { m.done = true }

// processed counts the messages at the beginning that are done.
func (d *Delivery) processed() (n int) {
	for n < len(d.Messages) && d.Messages[n].done {
		n++
	}
	return n
}

// Run works until ctx ends or a signal comes, and counts the deliveries.
func (o *Outbox) Run(ctx context.Context) (begun int, err error) {
	return o.run(ctx, false)
}

// Drain works until no message is claimable now, and counts the deliveries.
func (o *Outbox) Drain(ctx context.Context) (begun int, err error) {
	return o.run(ctx, true)
}

func (o *Outbox) run(ctx context.Context, drain bool) (int, error) {
	l := &loop{limit: max(o.Concurrency, 1), what: "outbox of " + o.Queue,
		settings: settings{path: o.Path, owner: o.Owner, lease: o.Lease,
			timeout: o.Timeout, create: o.Create, synchronous: o.Synchronous,
			log: o.Log}}
	l.defaults()
	var most any // as the queue says
	if o.Max > 0 {
		most = o.Max
	}
	l.wait = func(ctx context.Context) error {
		_, err := l.db.ExecContext(ctx, `SELECT claimq_wait(5000, 'outbox', ?,
			'partition', ?)`, o.Queue, o.Partition)
		return err
	}
	l.claim = func(db querier, n int) ([]*task, error) { // a partition each
		return claimMany(n, func() (*task, error) {
			rows, err := readRows(db, `SELECT * FROM claimq_outbox WHERE queue=?
				AND owner=? AND lease_ms=? AND max IS ? AND partition IS ?`, o.Queue,
				l.owner, l.lease.Milliseconds(), most, o.Partition)
			if len(rows) == 0 {
				return nil, err
			}
			return o.task(l, rows), nil
		})
	}
	return l.run(ctx, drain)
}

func (o *Outbox) task(l *loop, rows []map[string]any) *task {
	d := &Delivery{Claim: newClaim(l.ctx, rows[0]), Queue: o.Queue,
		Stopping: l.stopping}
	d.Partition, _ = d.Row["partition"].(int64)
	for _, row := range rows {
		m := &Message{Payload: row["payload"], Headers: headers(row), Row: row}
		m.Seq, _ = row["seq"].(int64)
		m.PayloadType, _ = row["payload_type"].(string)
		d.Messages = append(d.Messages, m)
	}
	return &task{Claim: d.Claim, name: fmt.Sprintf("messages of %s/%d", d.Queue,
		d.Partition),
		work: func(ctx context.Context) (any, error) {
			return nil, o.Handler(ctx, d)
		},
		calls: func(_ any, err error) []verb {
			n := d.processed()
			return settleMany(err, "messages of "+d.Queue, l.log,
				", 'processed', ?", n)
		}}
}

// claimMany makes up to n claims, each of several rows.  An error after the
// first loses none of those before it: the next round meets it again.
func claimMany(n int, claim func() (*task, error)) (tasks []*task, err error) {
	for len(tasks) < n {
		t, err := claim()
		if t == nil && len(tasks) == 0 {
			return nil, err
		}
		if t == nil {
			break
		}
		tasks = append(tasks, t)
	}
	return tasks, nil
}

// settleMany has the calls that settle a claim of several rows.  processed is
// an option with its value, or nothing.
func settleMany(err error, name string, log logger, processed string,
	values ...any) []verb {
	if err == nil {
		return []verb{{"complete(?, ?)", nil}}
	}
	text := valid(fmt.Sprint(err))
	var later retry
	var paused pause
	var never reject
	switch {
	case errors.As(err, &paused):
		if len(values) > 0 && values[0] != 0 {
			return []verb{{"complete(?, ?" + processed + ")", values}}
		}
		return []verb{{"release(?, ?, 'delay_ms', ?)", []any{paused.value}},
			{"release(?, ?)", nil}}
	case errors.As(err, &never):
		return []verb{{"reject(?, ?, ?" + processed + ")", append([]any{text}, values...)},
			{"reject(?, ?, 'rejected')", nil}}
	case errors.As(err, &later):
		return []verb{{"retry(?, ?, ?, 'delay_ms', ?" + processed + ")",
			append([]any{text, milliseconds(later.delay)}, values...)},
			{"retry(?, ?, 'the handler failed')", nil}}
	}
	said, kept, _ := failure(err)
	log("claimq: %s failed: %s", name, said)
	return []verb{{"retry(?, ?, ?" + processed + ")", append([]any{valid(kept)}, values...)},
		{"retry(?, ?, 'the handler failed')", nil}}
}
