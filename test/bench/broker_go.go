// broker_go.go: queues beside claimq that are used from Go.
//
//	broker SYSTEM prepare WHERE SYNC QUEUE N
//	broker SYSTEM submit WHERE SYNC QUEUE N PAUSE_MS KIND
//	broker SYSTEM work WHERE SYNC QUEUE LOG AGAIN
//
// SYSTEM is claimq, goqite or river.  SCHEMA in the environment names goqite's
// schema_sqlite.sql.  All the rest is that of broker_python.py, where it is
// explained.
package main

// #include <time.h>
import "C"

import (
	"bufio"
	"context"
	"database/sql"
	"fmt"
	"io"
	"log"
	"log/slog"
	"math/rand"
	"os"
	"path/filepath"
	"runtime/debug"
	"strconv"
	"strings"
	"time"

	"example.com/claimq"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver/riversqlite"
	"github.com/riverqueue/river/rivermigrate"
	"maragu.dev/goqite"
	"maragu.dev/goqite/jobs"
)

const numbers = `WITH RECURSIVE c(i) AS
  (VALUES(1) UNION ALL SELECT i+1 FROM c WHERE i<?) `

var ctx = context.Background()

func must(err error) {
	if err != nil {
		log.Fatal(err)
	}
}

// now is in microseconds of the clock that all processes share.
func now() int64 {
	var t C.struct_timespec
	C.clock_gettime(C.CLOCK_MONOTONIC, &t)
	return int64(t.tv_sec)*1000000 + int64(t.tv_nsec)/1000
}

func payload(kind string) string {
	return fmt.Sprintf("%016d%s%s", now(), kind, strings.Repeat("-", 33))
}

func open(where, sync string) *sql.DB {
	db, err := sql.Open("sqlite3", "file:"+where+"?_journal_mode=WAL"+
		"&_synchronous="+sync+"&_busy_timeout=30000&_txlock=immediate")
	must(err)
	db.SetMaxOpenConns(1)
	return db
}

// versionOf is the version of a module that is linked in.
func versionOf(module string) string {
	info, _ := debug.ReadBuildInfo()
	for _, dep := range info.Deps {
		if dep.Path == module {
			return strings.TrimPrefix(dep.Version, "v")
		}
	}
	return "?"
}

// A queue: work returns when it has started, or never.
type queue struct {
	version string
	fill    func(n int) error
	put     func(data string) error
	work    func(handle func(data string)) error
}

// The Worker of the package.
func newClaimq(where, sync, name string) *queue {
	db, err := claimq.Open(where)
	must(err)
	db.SetMaxOpenConns(1)
	_, err = db.Exec("PRAGMA synchronous=" + sync)
	must(err)
	return &queue{claimq.Version, func(n int) error {
		_, err := db.Exec(
			"INSERT INTO claimq_job(lane, payload, available_at_ms) "+numbers+
				"SELECT ?, ?, 0 FROM c", n, name, payload("."))
		return err
	}, func(data string) error {
		_, err := claimq.Submit(ctx, db, name, data)
		return err
	}, func(handle func(string)) error {
		worker := claimq.Worker{Path: where, Lane: name,
			Synchronous: strings.ToUpper(sync),
			Handler: func(_ context.Context, job *claimq.Job) (any, error) {
				handle(job.Text())
				return nil, nil
			}, Log: func(string, ...any) {}}
		_, err := worker.Run(ctx)
		return err
	}}
}

// Its runner asks every millisecond: its default, every 100, would be all that
// one worker can do.
func newGoqite(where, sync, name string) *queue {
	db := open(where, sync)
	var n int
	must(db.QueryRow(
		"SELECT count(*) FROM sqlite_schema WHERE name='goqite'").Scan(&n))
	if n == 0 {
		text, err := os.ReadFile(os.Getenv("SCHEMA"))
		must(err)
		_, err = db.Exec(string(text))
		must(err)
	}
	lib := goqite.New(goqite.NewOpts{DB: db, Name: name})
	put := func(data string) error {
		_, err := jobs.Create(ctx, lib, "job",
			goqite.Message{Body: []byte(data)})
		return err
	}
	return &queue{versionOf("maragu.dev/goqite"), func(n int) error {
		if err := put(payload(".")); err != nil {
			return err
		}
		_, err := db.Exec("INSERT INTO goqite(queue, body) "+numbers+
			"SELECT ?, (SELECT body FROM goqite ORDER BY created DESC LIMIT 1) "+
			"FROM c", n-1, name)
		return err
	}, put, func(handle func(string)) error {
		runner := jobs.NewRunner(jobs.NewRunnerOpts{Queue: lib, Limit: 1,
			PollInterval: time.Millisecond})
		runner.Register("job", func(_ context.Context, body []byte) error {
			handle(string(body))
			return nil
		})
		runner.Start(ctx)
		return nil
	}}
}

type arguments struct {
	Data string `json:"data"`
}

func (arguments) Kind() string { return "job" }

// Its client asks every millisecond, for the same reason: the defaults are
// every 100 ms between two jobs, and every second while there is nothing.
func newRiver(where, sync, name string) *queue {
	db := open(where, sync)
	driver := riversqlite.New(db)
	migrator, err := rivermigrate.New(driver, nil)
	must(err)
	config := &river.Config{Logger: slog.New(slog.DiscardHandler)}
	inserter, err := river.NewClient(driver, config)
	must(err)
	put := func(data string) error {
		_, err := inserter.Insert(ctx, arguments{data},
			&river.InsertOpts{Queue: name})
		return err
	}
	return &queue{versionOf("github.com/riverqueue/river"), func(n int) error {
		_, err := migrator.Migrate(ctx, rivermigrate.DirectionUp, nil)
		must(err)
		must(put(payload(".")))
		_, err = db.Exec("INSERT INTO river_job(args, kind, max_attempts, "+
			"metadata, priority, queue, scheduled_at, state, tags) "+numbers+
			"SELECT j.args, j.kind, j.max_attempts, j.metadata, j.priority, "+
			"j.queue, j.scheduled_at, j.state, j.tags FROM c, (SELECT * FROM "+
			"river_job ORDER BY id DESC LIMIT 1) AS j", n-1)
		return err
	}, put, func(handle func(string)) error {
		workers := river.NewWorkers()
		river.AddWorker(workers, river.WorkFunc(
			func(_ context.Context, job *river.Job[arguments]) error {
				handle(job.Args.Data)
				return nil
			}))
		config.Workers = workers
		config.Queues = map[string]river.QueueConfig{name: {MaxWorkers: 1}}
		config.FetchCooldown = time.Millisecond
		config.FetchPollInterval = time.Millisecond
		client, err := river.NewClient(driver, config)
		must(err)
		return client.Start(ctx)
	}}
}

// hold writes the process id and sleeps, if no other worker has done so.
func hold(file string) {
	out, err := os.OpenFile(file, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return
	}
	fmt.Fprintln(out, os.Getpid())
	time.Sleep(time.Hour)
}

func work(q, own *queue, log, again string) {
	out, err := os.OpenFile(log, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	must(err)
	stdin := bufio.NewReader(os.Stdin)
	_, err = stdin.ReadString('\n')
	must(err)
	go func() {
		io.Copy(io.Discard, stdin)
		os.Exit(0)
	}()
	must(q.work(func(data string) {
		line := fmt.Sprintf("%s %016d\n", data[:16], now())
		if data[16] == 'h' {
			hold(filepath.Join(filepath.Dir(log), "held"))
		}
		_, err := out.WriteString(line)
		must(err)
		if again == "1" {
			must(own.put(payload(".")))
		}
	}))
	select {}
}

func number(text string) int {
	n, err := strconv.Atoi(text)
	must(err)
	return n
}

func main() {
	log.SetFlags(0)
	a := os.Args[1:]
	mk := map[string]func(where, sync, name string) *queue{
		"claimq": newClaimq, "goqite": newGoqite, "river": newRiver}[a[0]]
	q := mk(a[2], a[3], a[4])
	switch a[1] {
	case "work":
		work(q, mk(a[2], a[3], a[4]), a[5], a[6])
	case "submit":
		for i := 0; i < number(a[5]); i++ {
			must(q.put(payload(a[7])))
			time.Sleep(time.Duration(float64(number(a[6])) *
				(0.5 + rand.Float64()) * float64(time.Millisecond)))
		}
	default:
		must(q.fill(number(a[5])))
		fmt.Printf("{\"version\":%q}\n", q.version)
	}
}
