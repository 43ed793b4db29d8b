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
	"regexp"
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

// handle is the work.  Any error but errGiveBack has the job retried later.
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

type worker struct {
	db          *sql.DB
	lane, owner string
	leaseMs     int64
}

var lost = regexp.MustCompile(`\bclaimq: claim_lost: `)

// call runs a function of claimq for its effect.
func (w *worker) call(query string, args ...any) error {
	return w.callContext(context.Background(), query, args...)
}

func (w *worker) callContext(ctx context.Context, query string, args ...any) error {
	var answer any
	return w.db.QueryRowContext(ctx, query, args...).Scan(&answer)
}

// claim takes at most one job.  It has read all rows when it returns.
func (w *worker) claim() (jobs []job, err error) {
	rows, err := w.db.Query(`SELECT payload, attempt_index, claim_id,
		lease_token FROM claimq_lane(?, ?, ?)`, w.lane, w.owner, w.leaseMs)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	for rows.Next() {
		var j job
		if err = rows.Scan(&j.payload, &j.attempt, &j.claimID, &j.leaseToken); err != nil {
			return nil, err
		}
		jobs = append(jobs, j)
	}
	return jobs, rows.Err()
}

// heartbeat renews the claim three times in each lease until done is closed,
// on another connection of the pool.  If the claim is lost it stops the work.
func (w *worker) heartbeat(j job, done <-chan struct{}, stop func()) {
	for {
		select {
		case <-done:
			return
		case <-time.After(time.Duration(w.leaseMs) * time.Millisecond / 3):
			err := w.call("SELECT claimq_renew(?, ?, ?)", j.claimID, j.leaseToken, w.leaseMs)
			if err != nil && lost.MatchString(err.Error()) {
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
		err = w.call("SELECT claimq_complete(?, ?)", j.claimID, j.leaseToken)
	case errors.Is(err, errGiveBack):
		err = w.call("SELECT claimq_release(?, ?)", j.claimID, j.leaseToken)
	default:
		err = w.call("SELECT claimq_retry(?, ?, ?)", j.claimID, j.leaseToken, err.Error())
	}
	if err != nil && lost.MatchString(err.Error()) {
		log.Print("too late: ", err)
		return nil
	}
	return err
}

func (w *worker) run(ctx context.Context) error {
	err := w.call("SELECT claimq_init()")
	for err == nil && ctx.Err() == nil {
		var jobs []job
		jobs, err = w.claim()
		for _, j := range jobs {
			err = w.work(ctx, j)
		}
		if err == nil && len(jobs) == 0 {
			err = w.callContext(ctx, "SELECT claimq_wait(60000, 'lane', ?)", w.lane)
			if ctx.Err() != nil {
				return nil
			}
		}
	}
	return err
}

func main() {
	extension, leaseMs := "./claimq", int64(30000)
	if len(os.Args) > 3 {
		extension = os.Args[3]
	}
	if len(os.Args) > 4 {
		leaseMs, _ = strconv.ParseInt(os.Args[4], 10, 64)
	}
	sql.Register("claimq", &sqlite3.SQLiteDriver{Extensions: []string{extension}})
	db, err := sql.Open("claimq", "file:"+os.Args[1]+"?_busy_timeout=5000")
	if err != nil {
		log.Fatal(err)
	}
	host, _ := os.Hostname()
	w := &worker{db, os.Args[2], fmt.Sprintf("%s:%d", host, os.Getpid()), leaseMs}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	if err := w.run(ctx); err != nil {
		log.Fatal(err)
	}
}
