// worker_go.go: the Worker of claimq and the runner of goqite, both over
// go-sqlite3.
//
//	worker QUEUE DIR JOBS CONCURRENCY MS SCHEMA
//
// QUEUE is claimq or goqite, SCHEMA is goqite's schema_sqlite.sql.  The rest is
// that of worker_python.py, where it is explained.
package main

import (
	"context"
	"fmt"
	"log"
	"os"
	"path/filepath"
	"runtime/debug"
	"sort"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"database/sql"

	"example.com/claimq"
	"maragu.dev/goqite"
	"maragu.dev/goqite/jobs"
)

func must(err error) {
	if err != nil {
		log.Fatal(err)
	}
}

func cpu() time.Duration {
	var usage syscall.Rusage
	must(syscall.Getrusage(syscall.RUSAGE_SELF, &usage))
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}

// handler sleeps, and remembers what it has seen.
type handler struct {
	sync.Mutex
	jobs       int
	sleep      time.Duration
	seen       []string
	start, end time.Time
	from, to   time.Duration
	done       context.CancelFunc
}

func (h *handler) handle(payload string) {
	h.Lock()
	if h.start.IsZero() {
		h.start, h.from = time.Now(), cpu()
	}
	h.Unlock()
	if h.sleep > 0 {
		time.Sleep(h.sleep)
	}
	h.Lock()
	defer h.Unlock()
	if h.seen = append(h.seen, payload); len(h.seen) == h.jobs {
		h.end, h.to = time.Now(), cpu()
		h.done()
	}
}

func useClaimq(file string, payloads []string, n int, h *handler) string {
	ctx := context.Background()
	db, err := claimq.Open(file)
	must(err)
	must(claimq.Transaction(ctx, db, func(tx *sql.Tx) error {
		for _, payload := range payloads {
			if _, err := claimq.Submit(ctx, tx, "q", payload); err != nil {
				return err
			}
		}
		return nil
	}))
	worker := claimq.Worker{Path: file, Lane: "q", Concurrency: n,
		Handler: func(_ context.Context, job *claimq.Job) (any, error) {
			h.handle(job.Text())
			return nil, nil
		}, Log: func(string, ...any) {}}
	_, err = worker.Drain(ctx)
	must(err)
	return claimq.Version
}

func useGoqite(ctx context.Context, file, schema string, payloads []string,
	n int, h *handler) (version string) {
	db, err := sql.Open("sqlite3", "file:"+file+
		"?_journal_mode=WAL&_synchronous=NORMAL&_busy_timeout=30000&_txlock=immediate")
	must(err)
	text, err := os.ReadFile(schema)
	must(err)
	_, err = db.Exec(string(text))
	must(err)
	queue := goqite.New(goqite.NewOpts{DB: db, Name: "q", Timeout: time.Minute})
	for _, payload := range payloads {
		_, err := jobs.Create(ctx, queue, "job",
			goqite.Message{Body: []byte(payload)})
		must(err)
	}
	runner := jobs.NewRunner(jobs.NewRunnerOpts{Queue: queue, Limit: n,
		PollInterval: time.Millisecond})
	runner.Register("job", func(_ context.Context, body []byte) error {
		h.handle(string(body))
		return nil
	})
	runner.Start(ctx)
	info, _ := debug.ReadBuildInfo()
	for _, module := range info.Deps {
		if module.Path == "maragu.dev/goqite" {
			version = strings.TrimPrefix(module.Version, "v")
		}
	}
	return version
}

func main() {
	log.SetFlags(0)
	jobs, err := strconv.Atoi(os.Args[3])
	must(err)
	n, err := strconv.Atoi(os.Args[4])
	must(err)
	sleep, err := time.ParseDuration(os.Args[5] + "ms")
	must(err)
	var payloads []string
	for i := 0; i < jobs; i++ {
		payloads = append(payloads, fmt.Sprintf("job %046d", i))
	}
	ctx, done := context.WithCancel(context.Background())
	h := &handler{jobs: jobs, sleep: sleep, done: done}
	file, version := filepath.Join(os.Args[2], "queue.db"), ""
	if os.Args[1] == "claimq" {
		version = useClaimq(file, payloads, n, h)
	} else {
		version = useGoqite(ctx, file, os.Args[6], payloads, n, h)
	}
	sort.Strings(h.seen)
	if strings.Join(h.seen, "") != strings.Join(payloads, "") {
		log.Fatal("not every job was handled once")
	}
	fmt.Printf("{\"version\":%q,\"seconds\":%f,\"cpu\":%f}\n", version,
		h.end.Sub(h.start).Seconds(), (h.to - h.from).Seconds())
}
