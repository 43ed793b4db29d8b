// The story of tcl/test/story.tcl, with the Go module.
//
//	story calls DATABASE
//	story worker DATABASE LANE LEASE_MS BATCH
package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log"
	"math"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"example.com/claimq"
)

func must(err error) {
	if err != nil {
		log.Fatal(err)
	}
}

func text(db *sql.DB, query string) (answer string) {
	must(db.QueryRow(query).Scan(&answer))
	return
}

func calls(db *sql.DB) {
	fmt.Println("version", text(db, "SELECT claimq_version()"))
	fmt.Println("journal", text(db, "PRAGMA journal_mode"))

	// A stale worker is refused, and recognised.
	const claim = `SELECT claim_id, lease_token
		FROM claimq_lane('stale', ?, 1000) WHERE now_ms=?`
	var id, token, other string
	_, err := db.Exec("SELECT claimq_submit('stale', 'x', 'now_ms', 1000)")
	must(err)
	must(db.QueryRow(claim, "a", 1000).Scan(&id, &token))
	must(db.QueryRow(claim, "b", 2000).Scan(&other, &other))
	_, err = db.Exec("SELECT claimq_complete(?, ?)", id, token)
	fmt.Println("stale", claimq.Code(err))
	_, err = db.Exec("SELECT nonsense()")
	if err != nil && claimq.Code(err) == "" {
		fmt.Println("other none")
	}

	// An order and its job, in one transaction.
	_, err = db.Exec("CREATE TABLE orders(id)")
	must(err)
	order := func(id int, payload string) *sql.Tx {
		tx, err := db.Begin()
		must(err)
		_, err = tx.Exec("SELECT claimq_submit('orders', ?)", payload)
		must(err)
		_, err = tx.Exec("INSERT INTO orders VALUES (?)", id)
		must(err)
		return tx
	}
	must(order(1, "x").Rollback())
	must(order(2, "y").Commit())
}

func waitFor(name string) {
	for {
		if _, err := os.Stat(name); err == nil {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
}

func write(name string) {
	must(os.WriteFile(name+".tmp", nil, 0o644))
	must(os.Rename(name+".tmp", name))
}

// An error whose text panics.
type oddError struct{}

func (oddError) Error() string { panic("no text") }

func odd(attempt int64) error {
	switch attempt {
	case 0:
		return claimq.Retry("negative", -time.Millisecond)
	case 1:
		return claimq.Retry("half", time.Millisecond/2)
	case 2:
		return oddError{}
	}
	return nil
}

type object struct {
	N int `json:"n"`
}

func note(name, word string) {
	file, err := os.OpenFile(name+".log", os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	must(err)
	_, err = file.WriteString(word + "\n")
	must(errors.Join(err, file.Close()))
}

func steps(job *claimq.Job, db *sql.DB, name string) error {
	first, err := claimq.Step(job, "one", func() (object, error) {
		note(name, "one")
		return object{1}, nil
	})
	if err == nil && job.Attempt == 0 {
		return claimq.Retry("again", time.Millisecond)
	}
	if err == nil {
		err = job.Sleep(time.Millisecond)
	}
	if err != nil {
		return err
	}
	child, err := claimq.Step(job, "child", func() (id int64, err error) {
		note(name, "child")
		err = db.QueryRow("SELECT claimq_submit(?, 'count')", os.Args[3]).Scan(&id)
		return id, err
	})
	if err == nil {
		err = job.WaitFor(child)
	}
	if err == nil {
		_, err = job.Step("two", func() (any, error) {
			note(name, "two")
			return first.N + 1, nil
		})
	}
	return err
}

var functions int

func agent(job *claimq.Job, name string, n int) (total int, err error) {
	most, limited := os.LookupEnv("STORY_FUNCTIONS")
	limit, _ := strconv.Atoi(most)
	for i := 0; i < n && err == nil; i++ {
		var value int
		step := fmt.Sprintf("s%d", i)
		value, err = claimq.Step(job, step, func() (int, error) {
			if functions++; limited && functions > limit {
				select {} // until it is killed
			}
			note(name, step)
			return i, nil
		})
		total += value
	}
	return total, err
}

func fan(job *claimq.Job, db *sql.DB, lane string, n int) (total int, err error) {
	children, err := claimq.Step(job, "children", func() (ids []int64, err error) {
		for i := 1; i <= n; i++ {
			id, err := claimq.Submit(context.Background(), db, lane,
				fmt.Sprintf("part %d", i))
			must(err)
			ids = append(ids, id)
		}
		return ids, nil
	})
	if err == nil {
		err = job.WaitFor(children...)
	}
	if err == nil {
		err = db.QueryRow("SELECT sum(result) FROM claimq_job WHERE lane=?",
			lane).Scan(&total)
	}
	return total, err
}

func ask(job *claimq.Job, db *sql.DB, id int) (answer string, err error) {
	if err = job.WaitFor(int64(id)); err == nil {
		err = db.QueryRow("SELECT result FROM claimq_job WHERE job_id=?",
			id).Scan(&answer)
	}
	return answer, err
}

func main() {
	signal.Ignore(syscall.SIGXFSZ) // for a disk that is full
	open := sync.OnceValue(func() *sql.DB {
		db, err := claimq.Open(os.Args[2])
		must(err)
		return db
	})
	if os.Args[1] == "calls" {
		calls(open())
		return
	}
	timeout, _ := strconv.Atoi(os.Getenv("STORY_TIMEOUT_MS"))
	concurrency, _ := strconv.Atoi(os.Getenv("STORY_CONCURRENCY"))
	lease, _ := strconv.Atoi(os.Args[4])
	batch, _ := strconv.Atoi(os.Args[5])
	worker := claimq.Worker{Path: os.Args[2], Lane: os.Args[3], Batch: batch,
		Concurrency: concurrency,
		Lease:       time.Duration(lease) * time.Millisecond,
		Timeout:     time.Duration(timeout) * time.Millisecond}
	worker.Handler = func(ctx context.Context, job *claimq.Job) (any, error) {
		word, name, _ := strings.Cut(job.Text(), " ")
		number, _ := strconv.Atoi(name[strings.LastIndex(name, " ")+1:])
		name, _, _ = strings.Cut(name, " ")
		switch {
		case word == "odd" && job.Attempt < 3:
			return nil, odd(job.Attempt)
		case word == "never":
			return nil, claimq.Retry("never", math.MaxInt64)
		case word == "what":
			return make(chan int), nil
		case word == "count":
			_, err := open().Exec("INSERT INTO done VALUES (?)", job.ID)
			must(err)
		case word == "fail" && job.Attempt == 0:
			return nil, errors.New("no luck")
		case word == "later" && job.Attempt == 0:
			return nil, claimq.Retry("later", time.Millisecond)
		case word == "reject":
			return nil, claimq.Reject("poison")
		case word == "hold":
			write(name + ".begun")
			waitFor(name + ".go")
		case word == "steps":
			if err := steps(job, open(), name); err != nil {
				return nil, err
			}
		case word == "agent":
			return agent(job, name, number)
		case word == "fan":
			return fan(job, open(), name, number)
		case word == "part":
			return name, nil
		case word == "ask":
			return ask(job, open(), number)
		case word == "lost":
			write(name + ".begun")
			<-ctx.Done()
			if context.Cause(ctx) == claimq.ErrLost {
				write(name + ".lost")
			}
		}
		return "did " + job.Text(), nil
	}
	begun, err := worker.Run(context.Background())
	must(err)
	fmt.Println("begun", begun)
}
