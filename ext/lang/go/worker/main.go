// Command worker is a complete claimq worker.
//
//	worker DATABASE LANE [EXTENSION [LEASE_MS]]
//
// It takes the jobs of a lane one by one, keeps the lease alive while it works,
// and completes or retries each job.  SIGTERM or SIGINT ends it: the job at
// hand is finished or given back, and no other is taken.  Start as many as you
// like.  Put your own work in the place of handle.
package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/mattn/go-sqlite3"
)

type job struct {
	payload             string
	attempt             int
	claimID, leaseToken string
}

// errGiveBack gives the job back without using up an attempt.
var errGiveBack = errors.New("given back")

// handle is the work.  After any error but errGiveBack the job is retried.
// The context ends when the worker ends, or has lost the job to another.
func handle(ctx context.Context, j job) error {
	verb, seconds, _ := strings.Cut(j.payload, " ")
	if n, err := strconv.Atoi(seconds); err == nil && verb == "take" {
		select {
		case <-ctx.Done():
			return errGiveBack
		case <-time.After(time.Duration(n) * time.Second):
		}
	}
	if verb == "flaky" && j.attempt == 0 {
		return errors.New("the first attempt fails")
	}
	fmt.Println("done:", j.payload)
	return nil
}

// worker has a pool of connections: one works, another renews.
type worker struct {
	db          *sql.DB
	lane, owner string
	leaseMs     int64
}

// lost tells whether another worker has the job.
func lost(err error) bool {
	return err != nil && strings.Contains(err.Error(), "claimq: claim_lost: ")
}

// call calls a verb for a job.
func (w *worker) call(j job, verb string, args ...any) error {
	_, err := w.db.Exec("SELECT claimq_"+verb,
		append([]any{j.claimID, j.leaseToken}, args...)...)
	return err
}

// claim takes a job, if there is one.  Scan has closed the SELECT when it
// returns.
func (w *worker) claim() (j job, err error) {
	err = w.db.QueryRow(`SELECT payload, attempt_index, claim_id, lease_token
		FROM claimq_lane(?, ?, ?)`, w.lane, w.owner, w.leaseMs).
		Scan(&j.payload, &j.attempt, &j.claimID, &j.leaseToken)
	return j, err
}

// heartbeat renews the claim three times in each lease until the work is done.
// If the claim is lost it stops the work.
func (w *worker) heartbeat(j job, done <-chan struct{}, stop func()) {
	beat := time.NewTicker(time.Duration(w.leaseMs) * time.Millisecond / 3)
	defer beat.Stop()
	for {
		select {
		case <-done:
			return
		case <-beat.C:
			if lost(w.call(j, "renew(?, ?, ?)", w.leaseMs)) {
				stop()
			}
		}
	}
}

func (w *worker) work(ctx context.Context, j job) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	done := make(chan struct{})
	go w.heartbeat(j, done, stop)
	err := handle(ctx, j)
	close(done)
	switch {
	case err == nil:
		err = w.call(j, "complete(?, ?)")
	case errors.Is(err, errGiveBack):
		err = w.call(j, "release(?, ?)")
	default:
		err = w.call(j, "retry(?, ?, ?)", err.Error())
	}
	if lost(err) {
		log.Print("too late: ", err)
		return nil
	}
	return err
}

func (w *worker) run(ctx context.Context) error {
	_, err := w.db.Exec("SELECT claimq_init()")
	for err == nil && ctx.Err() == nil {
		var j job
		if j, err = w.claim(); err == nil {
			err = w.work(ctx, j)
		} else if errors.Is(err, sql.ErrNoRows) {
			_, err = w.db.ExecContext(ctx,
				"SELECT claimq_wait(60000, 'lane', ?)", w.lane)
			if ctx.Err() != nil { // the wait was broken off
				return nil
			}
		}
	}
	return err
}

func main() {
	args := []string{"app.db", "mail", "./claimq", "30000"}
	copy(args, os.Args[1:])
	leaseMs, err := strconv.ParseInt(args[3], 10, 64)
	if err != nil {
		log.Fatal(err)
	}
	sql.Register("claimq",
		&sqlite3.SQLiteDriver{Extensions: []string{args[2]}})
	db, err := sql.Open("claimq", "file:"+args[0]+"?_busy_timeout=5000")
	if err != nil {
		log.Fatal(err)
	}
	host, _ := os.Hostname()
	w := worker{db, args[1], fmt.Sprintf("%s:%d", host, os.Getpid()), leaseMs}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM,
		syscall.SIGINT)
	defer stop()
	if err := w.run(ctx); err != nil {
		log.Fatal(err)
	}
}
