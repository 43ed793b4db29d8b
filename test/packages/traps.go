// The traps of ext/lang/go/README.md, and the way around each of them.
//
//	traps NAME DATABASE
//
// Prints what happens, a line for the natural way and a line for the recipe.
package main

import (
	"context"
	"database/sql"
	"fmt"
	"log"
	"os"
	"time"

	"example.com/claimq"
)

const claim = `SELECT claim_id, lease_token
	FROM claimq_lane('l', 'w', 30000, 3)`
const done = "SELECT claimq_complete(?, ?)"

func must(err error) {
	if err != nil {
		log.Fatal(err)
	}
}

func exec(db *sql.DB, query string) {
	_, err := db.Exec(query)
	must(err)
}

func fresh(jobs int) *sql.DB {
	db, err := claimq.Open(os.Args[2])
	must(err)
	exec(db, "CREATE TABLE orders(id)")
	for ; jobs > 0; jobs-- {
		exec(db, "SELECT claimq_submit('l', 'x')")
	}
	return db
}

// Completing inside the loop over the rows of the claim, on one connection.
func rows() {
	ctx := context.Background()
	db := fresh(6)
	conn, err := db.Conn(ctx)
	must(err)
	var id, token string
	open, err := conn.QueryContext(ctx, claim)
	must(err)
	for open.Next() {
		must(open.Scan(&id, &token))
		exec(db, "INSERT INTO orders VALUES (1)")
		if _, err = conn.ExecContext(ctx, done, id, token); err != nil {
			fmt.Println("loop:", err)
			break
		}
	}
	open.Close()

	claims := [][2]any{}
	open, err = conn.QueryContext(ctx, claim)
	must(err)
	for open.Next() {
		must(open.Scan(&id, &token))
		claims = append(claims, [2]any{id, token})
	}
	must(open.Close())
	for _, c := range claims {
		exec(db, "INSERT INTO orders VALUES (1)")
		_, err = conn.ExecContext(ctx, done, c[0], c[1])
		must(err)
	}
	fmt.Println("all:", len(claims))
}

// Exec of a claim claims, and throws the rows away.
func execute() {
	db := fresh(3)
	exec(db, claim)
	var n int
	must(db.QueryRow("SELECT count(*) FROM claimq_job WHERE state='active'").
		Scan(&n))
	fmt.Println("exec:", n)
}

// A transaction that begins by reading, while another connection commits.
func begin() {
	writer := fresh(0)
	for _, lock := range []string{"deferred", "immediate"} {
		db, err := sql.Open("sqlite3", "file:"+os.Args[2]+
			"?_busy_timeout=30000&_txlock="+lock)
		must(err)
		tx, err := db.Begin()
		must(err)
		var n int
		must(tx.QueryRow("SELECT count(*) FROM orders").Scan(&n))
		if lock == "deferred" {
			exec(writer, "INSERT INTO orders VALUES (1)")
		}
		if _, err = tx.Exec("SELECT claimq_submit('l', 'x')"); err == nil {
			err = tx.Commit()
		}
		fmt.Printf("%s: %v\n", lock, err)
		tx.Rollback()
	}
}

// A worker with all options; its handler returns what SQL has no value for, or
// panics.
func values() {
	db := fresh(0)
	for i, payload := range []string{"object", "fail", "panic", "last"} {
		_, err := db.Exec(`SELECT claimq_submit('l', ?, 'capabilities',
			'["gpu"]', 'partition', ?)`, payload, i%2+3)
		must(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	worker := claimq.Worker{Path: os.Args[2], Lane: "l", Owner: "me", Batch: 3,
		Capabilities: []string{"cpu", "gpu"}, Partitions: []int{3, 4}}
	worker.Handler = func(_ context.Context, job *claimq.Job) (any, error) {
		switch job.Text() {
		case "object":
			return map[string]int{"n": 1}, nil
		case "fail":
			return func() {}, nil
		case "panic":
			panic("no luck")
		}
		stop()
		return nil, nil
	}
	begun, err := worker.Run(ctx)
	must(err)
	fmt.Println("begun:", begun)
	show(db)
}

// A delay that is over already: the job is tried again at once.  It is in a
// partition that the worker does not name.
func past() {
	db := fresh(0)
	exec(db, "SELECT claimq_submit('l', 'x', 'partition', 7)")
	ctx, stop := context.WithCancel(context.Background())
	worker := claimq.Worker{Path: os.Args[2], Lane: "l", Owner: "me", Batch: 2}
	worker.Handler = func(_ context.Context, job *claimq.Job) (any, error) {
		if job.Attempt == 0 {
			return nil, claimq.Retry("yesterday", -time.Hour)
		}
		stop()
		return "done", nil
	}
	begun, err := worker.Run(ctx)
	must(err)
	fmt.Println("begun:", begun)
	show(db)
}

func show(db *sql.DB) {
	rows, err := db.Query(`SELECT payload || ' ' || state || ' ' ||
		coalesce(result, replace(last_error, substr(last_error,
			instr(last_error, char(10))), iif(last_error LIKE '%main.go:%',
			' in main.go', '')), settled_owner, 'none') FROM claimq_job`)
	must(err)
	for rows.Next() {
		var line string
		must(rows.Scan(&line))
		fmt.Println(line)
	}
}

func main() {
	map[string]func(){"rows": rows, "exec": execute, "begin": begin,
		"values": values, "past": past}[os.Args[1]]()
}
