// What a Worker, an Outbox, a Session and a Contest can do, one thing at a time.
//
//	grown NAME DATABASE
//
// Prints what happens.
package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"log"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"example.com/claimq"
)

var ctx = context.Background()

func must(err error) {
	if err != nil {
		log.Fatal(err)
	}
}

func open() *sql.DB {
	db, err := claimq.Open(os.Args[2])
	must(err)
	return db
}

func exec(db *sql.DB, query string, values ...any) {
	_, err := db.Exec(query, values...)
	must(err)
}

// text has the first column of a query, a line for each row.
func text(db *sql.DB, query string, values ...any) string {
	rows, err := db.Query(query, values...)
	must(err)
	defer rows.Close()
	var lines []string
	for rows.Next() {
		var line string
		must(rows.Scan(&line))
		lines = append(lines, line)
	}
	return strings.Join(lines, "\n")
}

func add(db *sql.DB, lane string, payload any, options ...claimq.Options) int64 {
	id, err := claimq.Submit(ctx, db, lane, payload, options...)
	must(err)
	return id
}

// until waits for what another goroutine or process does, five minutes at most.
func until(what string, done func() bool) {
	for end := time.Now().Add(5 * time.Minute); !done(); {
		if time.Now().After(end) {
			log.Fatal("never true: ", what)
		}
		time.Sleep(5 * time.Millisecond)
	}
}

func worker(lanes ...string) *claimq.Worker {
	return &claimq.Worker{Path: os.Args[2], Lanes: lanes, Owner: "me"}
}

func drain(w *claimq.Worker) {
	begun, err := w.Drain(ctx)
	must(err)
	fmt.Println("begun:", begun)
}

func submit() {
	db := open()
	add(db, "l", "plain")
	add(db, "l", []byte{0, 255})
	add(db, "l", map[string]int{"n": 7})
	add(db, "l", []int{1, 2})
	fmt.Println(text(db, `SELECT job_id || ' ' || iif(typeof(payload)='text',
		'text: ' || payload, 'blob: x''' || lower(hex(payload)) || '''')
		FROM claimq_job`))
	_, err := claimq.Submit(ctx, db, "l", "x", claimq.Options{"max_atempts": 3})
	fmt.Println("unknown option:", claimq.Code(err))
	var none []string
	all := claimq.Options{"max_attempts": 3, "priority": 9, "delay_ms": 60000,
		"capabilities": []string{"gpu"}, "task": "t", "source_key": "k",
		"headers": map[string]any{"user": 7}, "after": none, "group_key": nil}
	fmt.Println("same key:", add(db, "l", "x", all), add(db, "l", "x", all))
	all["on_duplicate"] = "refuse"
	_, err = claimq.Submit(ctx, db, "l", "x", all)
	fmt.Println("refused:", claimq.Code(err))
	claimq.Transaction(ctx, db, func(tx *sql.Tx) error {
		_, err := claimq.Submit(ctx, tx, "l", "undone")
		must(err)
		return errors.New("roll back")
	})
	fmt.Println("rolled back:", text(db, "SELECT count(*) FROM claimq_job"))
	fmt.Println("job 5:", text(db, `SELECT 'p' || priority || ' a' ||
		max_attempts || iif(available_at_ms > created_at_ms, ' d', ' ') ||
		capabilities || ' ' || headers || ' ' || source_key
		FROM claimq_job WHERE job_id=5`))
}

type order struct{ ID int }

func job() {
	db := open()
	add(db, "a", order{7})
	add(db, "b", order{8}, claimq.Options{"task": "mail.welcome",
		"headers": map[string]string{"locale": "de"}})
	add(db, "b", "no JSON", claimq.Options{"max_attempts": 1, "priority": -1})
	w := worker("a", "b")
	w.Handler = func(_ context.Context, job *claimq.Job) (any, error) {
		order, err := claimq.Decode[order](job)
		if err != nil {
			fmt.Println("bad:", job.Text() == "no JSON")
			return nil, err
		}
		fmt.Println(job.Lane+job.Task, "order", order.ID, job.Headers["locale"])
		return nil, nil
	}
	w.Task("mail.welcome", func(_ context.Context, job *claimq.Job) (any, error) {
		order, err := claimq.Decode[order](job)
		fmt.Println(job.Lane, "task:"+job.Task, order.ID, job.Headers["locale"])
		return nil, err
	})
	drain(w)
}

func tasks() {
	db := open()
	add(db, "l", "", claimq.Options{"task": "two", "priority": 1})
	add(db, "l", "", claimq.Options{"task": "unknown", "priority": 3})
	add(db, "l", "", claimq.Options{"task": "one", "priority": 2})
	w := worker("l")
	var said []string
	w.Log = func(format string, values ...any) {
		said = append(said, fmt.Sprintf(format, values...))
	}
	done := func(_ context.Context, job *claimq.Job) (any, error) {
		return job.Task, nil
	}
	w.Task("one", done)
	w.Task("two", done)
	drain(w)
	fmt.Println(text(db, `SELECT result FROM claimq_job WHERE result IS NOT NULL
		ORDER BY priority DESC`))
	fmt.Println("waits:", text(db, "SELECT state FROM claimq_job WHERE job_id=2"),
		text(db, "SELECT reason FROM claimq_why('lane', 'l')"))
	plain := add(db, "l", "plain")
	_, err := w.Drain(ctx)
	must(err)
	fmt.Println("no handler:", text(db, `SELECT state || ' ' || attempt_index ||
		' ' || last_error FROM claimq_job WHERE job_id=?`, plain))
	fmt.Println("logged:", strings.Contains(strings.Join(said, "\n"),
		fmt.Sprintf("job %d failed: no handler for jobs without a task", plain)))
}

func lanes() {
	db := open()
	for _, lane := range []string{"mail", "urgent", "mail", "urgent", "mail"} {
		add(db, lane, "")
	}
	w := worker("urgent", "mail", "other")
	late := 0
	var order []string
	w.Handler = func(_ context.Context, job *claimq.Job) (any, error) {
		order = append(order, fmt.Sprint(job.Lane, " ", job.ID))
		if late++; late == 5 {
			add(db, "mail", "", claimq.Options{"partition": 7})
		}
		return nil, nil
	}
	drain(w)
	fmt.Println(strings.Join(order, "\n"))
}

func release() {
	db := open()
	add(db, "l", "shutdown")
	add(db, "l", "night")
	w, times := worker("l"), 0
	w.Handler = func(_ context.Context, job *claimq.Job) (any, error) {
		if job.Text() == "night" {
			return nil, claimq.Release(time.Hour)
		}
		if times++; times == 1 {
			return nil, claimq.Release(0)
		}
		return nil, nil
	}
	drain(w)
	fmt.Println(text(db, `SELECT payload || ': ' || state || ' ' || attempt_index
		FROM claimq_job`))
}

func create() {
	w := &claimq.Worker{Path: "nowhere.db", Lane: "l"}
	_, err := w.Drain(ctx)
	fmt.Println(err)
	_, err = os.Stat("nowhere.db")
	fmt.Println("made:", err == nil)
	w.Create = true
	begun, err := w.Drain(ctx)
	must(err)
	_, err = os.Stat("nowhere.db")
	fmt.Println("created:", begun, err == nil)
	os.Remove("nowhere.db")
}

// A trigger notes how the connections of a worker are set.
func synchronous() {
	db := open()
	exec(db, "CREATE TABLE seen(synchronous)")
	exec(db, `CREATE TRIGGER look AFTER UPDATE ON claimq_job BEGIN
		INSERT INTO seen SELECT synchronous FROM pragma_synchronous; END`)
	for _, how := range []string{"", "full"} {
		add(db, "l", "")
		w := worker("l")
		w.Synchronous = how
		w.Handler = func(context.Context, *claimq.Job) (any, error) {
			return nil, nil
		}
		drain(w)
		fmt.Println(how, text(db, "SELECT DISTINCT synchronous FROM seen"))
		exec(db, "DELETE FROM seen")
	}
	fmt.Println("open", text(db, "PRAGMA synchronous"))
}

func draining() {
	db := open()
	add(db, "l", "")
	add(db, "l", "", claimq.Options{"delay_ms": 3600000})
	add(db, "l", "again", claimq.Options{"backoff_ms": 0})
	w := worker("l")
	w.Handler = func(_ context.Context, job *claimq.Job) (any, error) {
		if job.Text() == "again" && job.Attempt == 0 {
			return nil, claimq.Retry("again", 0)
		}
		return nil, nil
	}
	drain(w)
	fmt.Println(text(db, "SELECT job_id || ' ' || state FROM claimq_job"))
	drain(w)
}

// traced is an error as packages with traces make them.
type traced struct{ error }

func (t traced) Unwrap() error { return t.error }

func (t traced) Format(s fmt.State, verb rune) {
	fmt.Fprint(s, t.Error())
	if s.Flag('+') {
		fmt.Fprint(s, strings.Repeat("\nmain.f\n\tmain.go:1", 4))
	}
}

func logging() {
	db := open()
	for _, payload := range []string{"fail", "wrap", "trace", "panic", "what"} {
		add(db, "mail", payload, claimq.Options{"max_attempts": 1})
	}
	w := worker("mail", "push")
	w.Handler = func(_ context.Context, job *claimq.Job) (any, error) {
		switch job.Text() {
		case "fail":
			return nil, errors.New("no luck")
		case "wrap":
			_, err := os.Open("/no/where")
			return nil, fmt.Errorf("reading: %w", err)
		case "trace":
			return nil, fmt.Errorf("deep: %w", traced{io.EOF})
		case "panic":
			panic("oh")
		}
		return make(chan int), nil
	}
	w.Log = func(format string, values ...any) {
		line := strings.TrimPrefix(fmt.Sprintf(format, values...), "claimq: ")
		if strings.Contains(line, "\n") {
			first, trace, _ := strings.Cut(line, "\n")
			fmt.Println(first)
			line = fmt.Sprint("has a trace: ", strings.Contains(trace, "main.go:"))
		} else if strings.Contains(line, "cannot be stored") {
			line, _, _ = strings.Cut(line, ": json")
		}
		fmt.Println(line)
	}
	_, err := w.Drain(ctx)
	must(err)
	fmt.Println(text(db, `SELECT error_class || ' ' || substr(reason, 1,
		instr(reason || char(10), char(10)) - 1) || ' ' ||
		(length(reason) - length(replace(reason, char(10), '')))
		FROM claimq_letter`))
}

func concurrency() {
	db := open()
	for i := 0; i < 7; i++ {
		add(db, "l", "")
	}
	w := worker("l")
	w.Concurrency = 3
	var now, most atomic.Int32
	together := sync.WaitGroup{}
	together.Add(3)
	var first atomic.Int32
	w.Handler = func(_ context.Context, job *claimq.Job) (any, error) {
		if n := now.Add(1); n > most.Load() {
			most.Store(n)
		}
		if first.Add(1) <= 3 { // the first three wait for each other
			together.Done()
			together.Wait()
		}
		now.Add(-1)
		return nil, nil
	}
	begun, err := w.Drain(ctx)
	must(err)
	fmt.Println("at once:", most.Load())
	fmt.Println("begun:", begun)
	fmt.Println(text(db, `SELECT 'done: ' || count(*) FROM claimq_job
		WHERE state='completed'`))
	fmt.Println(text(db, "SELECT 'held: ' || count(*) FROM claimq_leases"))
}

// A worker of two that holds five jobs is stopped.
func stop() {
	db := open()
	for i := 0; i < 5; i++ {
		add(db, "l", "")
	}
	w := worker("l")
	w.Concurrency, w.Batch = 2, 5
	ctx, cancel := context.WithCancel(ctx)
	var begun atomic.Int32
	w.Handler = func(_ context.Context, job *claimq.Job) (any, error) {
		if begun.Add(1) == 2 {
			fmt.Println(text(db, `SELECT 'held: ' || count(*) FROM claimq_job
				WHERE state='active'`))
			cancel()
		}
		<-job.Stopping
		until("three are given back", func() bool {
			return text(db, `SELECT count(*) FROM claimq_job
				WHERE state='ready'`) == "3"
		})
		return nil, nil
	}
	n, err := w.Run(ctx)
	must(err)
	fmt.Println("ready: 3")
	fmt.Println("begun:", n)
	fmt.Println(text(db, `SELECT 'completed: ' || count(*) FROM claimq_job
		WHERE state='completed'`))
}

// Two at work and one that is taken ahead live longer than their lease.
func renew() {
	db := open()
	for i := 0; i < 3; i++ {
		add(db, "l", "")
	}
	w := worker("l")
	w.Concurrency, w.Batch, w.Lease = 2, 3, 3*time.Second
	var once sync.Once
	w.Handler = func(context.Context, *claimq.Job) (any, error) {
		once.Do(func() {
			first := text(db, "SELECT max(expires_at_ms) FROM claimq_job")
			until("all are renewed", func() bool {
				return text(db, `SELECT count(*) FROM claimq_job
					WHERE expires_at_ms > ? + 300`, first) == "3"
			})
			fmt.Println("renewed: 3")
		})
		return nil, nil
	}
	drain(w)
	fmt.Println(text(db, `SELECT 'reclaims: ' || sum(reclaim_count)
		FROM claimq_job`))
}

// A lease of ten minutes, and a job that is cancelled from outside.
func cancel() {
	db := open()
	id := add(db, "l", "endless")
	next := add(db, "l", "next")
	w := worker("l")
	w.Lease = 10 * time.Minute
	w.Handler = func(ctx context.Context, job *claimq.Job) (any, error) {
		if job.ID == next {
			return nil, nil
		}
		fmt.Println("cancelled:", text(db, "SELECT claimq_cancel(?, 'force', 1)", id))
		select {
		case <-ctx.Done():
			fmt.Println("lost:", context.Cause(ctx))
		case <-time.After(5 * time.Minute):
		}
		return nil, nil
	}
	drain(w)
	fmt.Println("next:", text(db, "SELECT state FROM claimq_job WHERE job_id=?", next))
}

// A handler that has completed its job itself has not lost it.
func own() {
	db := open()
	id := add(db, "l", "")
	w := worker("l")
	w.Lease = time.Millisecond * 30
	w.Handler = func(ctx context.Context, job *claimq.Job) (any, error) {
		must(claimq.Transaction(ctx, db, func(tx *sql.Tx) error {
			return job.Complete(ctx, tx)
		}))
		select {
		case <-ctx.Done():
		case <-time.After(500 * time.Millisecond):
		}
		fmt.Println("cause:", context.Cause(ctx))
		return nil, nil
	}
	drain(w)
	fmt.Println(text(db, "SELECT state FROM claimq_job WHERE job_id=?", id))
}

// Five messages: the first delivery fails after the second of its messages, and
// the rest comes again.
func outbox() {
	db := open()
	exec(db, "SELECT claimq_queue('q', 2, 'degrade', 0, 'backoff_ms', 0)")
	for i := 0; i < 5; i++ {
		exec(db, `SELECT claimq_publish('q', 'm' || ?1, 'partition', 1,
			'headers', json_object('n', ?1))`, i)
	}
	o := claimq.Outbox{Path: os.Args[2], Queue: "q", Max: 3, Owner: "me"}
	failed := false
	o.Handler = func(_ context.Context, batch *claimq.Delivery) error {
		fmt.Print(batch.Partition, ":")
		for i, message := range batch.Messages {
			fmt.Print(" ", message.Payload, message.Headers["n"])
			if message.Payload == "bad" {
				fmt.Println()
				return claimq.Reject("poison")
			}
			if i == 2 && !failed {
				failed = true
				fmt.Println()
				return errors.New("no luck")
			}
			batch.Done(message)
		}
		fmt.Println()
		return nil
	}
	begun, err := o.Drain(ctx)
	must(err)
	fmt.Println("begun:", begun)
	exec(db, "SELECT claimq_publish('q', 'bad', 'partition', 0)")
	_, err = o.Drain(ctx)
	must(err)
	fmt.Println(text(db, "SELECT reason || ' ' || payload FROM claimq_letter"))
	fmt.Println("waits:", text(db, "SELECT claimq_wait(0, 'outbox', 'q')"))
}

// Two conversations, one of which fails once; an endless turn is taken away.
func session() {
	db := open()
	for _, text := range []string{"a:hi", "b:hey", "a:you"} {
		exec(db, "SELECT claimq_enqueue(?, ?, 'slot_policy', 'join')", text[:1], text)
	}
	exec(db, "SELECT claimq_enqueue('b', 'stop', 'work_class', 'session_command')")
	s := claimq.Session{Path: os.Args[2], Owner: "me"}
	failed := false
	s.Handler = func(_ context.Context, turn *claimq.Turn) error {
		fmt.Print(turn.Session)
		for _, batch := range turn.Batches {
			fmt.Print(" ", batch.Payload, " ", batch.WorkClass)
		}
		fmt.Println()
		if turn.Session == "a" && !failed {
			failed = true
			return claimq.Retry("again", 0)
		}
		return nil
	}
	begun, err := s.Drain(ctx)
	must(err)
	fmt.Println("begun:", begun)
	fmt.Println("left:", text(db, "SELECT count(*) FROM claimq_batch"))

	exec(db, "SELECT claimq_enqueue('c', 'endless')")
	s.Session, s.Lease = "c", 10*time.Minute
	s.Handler = func(ctx context.Context, turn *claimq.Turn) error {
		if turn.Row["attempts"] != int64(0) {
			return nil
		}
		text(db, "SELECT claimq_revoke(?)", turn.ClaimID)
		select {
		case <-ctx.Done():
			fmt.Println("lost:", context.Cause(ctx))
		case <-time.After(5 * time.Minute):
		}
		return nil
	}
	_, err = s.Drain(ctx)
	must(err)
}

func contest() {
	db := open()
	leader := claimq.Contest{Path: os.Args[2], Label: "leader",
		Lease: 10 * time.Minute}
	first, err := leader.Acquire(ctx)
	must(err)
	second, err := leader.Try(ctx)
	must(err)
	fmt.Println("others:", second == nil)
	brief, cancel := context.WithTimeout(ctx, 50*time.Millisecond)
	_, err = leader.Acquire(brief)
	cancel()
	fmt.Println("in vain:", err)
	got := make(chan *claimq.Hold)
	go func() {
		hold, err := leader.Acquire(ctx)
		must(err)
		got <- hold
	}()
	first.Release()
	second = <-got
	fmt.Println("greater token:", second.FencingToken > first.FencingToken)
	text(db, "SELECT claimq_revoke(?)", second.ClaimID)
	select {
	case <-second.Context().Done():
		fmt.Println("lost:", context.Cause(second.Context()))
	case <-time.After(5 * time.Minute):
	}
	second.Release()
	short := claimq.Contest{Path: os.Args[2], Label: "x", Lease: time.Second}
	hold, err := short.Try(ctx)
	must(err)
	expires := hold.Row["expires_at_ms"]
	until("it is renewed", func() bool {
		return text(db, `SELECT count(*) FROM claimq_leases
			WHERE expires_at_ms > ?`, expires) == "1"
	})
	hold.Release()
	fmt.Println("held:", text(db, "SELECT count(*) FROM claimq_leases"))
}

func main() {
	map[string]func(){"submit": submit, "job": job, "tasks": tasks,
		"lanes": lanes, "release": release, "create": create,
		"synchronous": synchronous, "drain": draining, "log": logging,
		"concurrency": concurrency, "stop": stop, "renew": renew,
		"cancel": cancel, "own": own, "outbox": outbox, "session": session,
		"contest": contest}[os.Args[1]]()
}
