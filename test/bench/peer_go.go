// peer_go.go: claimq and goqite, used from Go through database/sql.
//
//	peer QUEUE probe DIR SO SCHEMA
//	peer QUEUE run DIR SO SCHEMA DEPTH N SECONDS
//	peer QUEUE work DIR SO SCHEMA
//	peer QUEUE put DIR SO SCHEMA
//
// QUEUE is claimq or goqite, SCHEMA is goqite's schema_sqlite.sql.  All the
// rest, the work, the check at its end, the experiment and the two sides of
// waiting, is that of peer_python.py, where it is explained.
package main

// #include <time.h>
import "C"

import (
	"bufio"
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"runtime/debug"
	"sort"
	"strconv"
	"strings"
	"syscall"
	"time"

	sqlite3 "github.com/mattn/go-sqlite3"
	"maragu.dev/goqite"
	"maragu.dev/goqite/jobs"
)

const numbers = `WITH RECURSIVE c(i) AS
  (VALUES(?1) UNION ALL SELECT i+1 FROM c WHERE i<?1+?2-1) `

var ctx = context.Background()

func must(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func open(file, driver string) *sql.DB {
	db, err := sql.Open(driver, "file:"+file+
		"?_journal=WAL&_sync=NORMAL&_timeout=5000")
	must(err)
	db.SetMaxOpenConns(1)
	return db
}

// key names a claim; goqite uses the first half only.
type key struct{ id, token string }

// A queue: claim reports false when there is nothing, counts is a statement
// for the rows that are ready, held and done.
type queue struct {
	db       *sql.DB
	fill     func(first, n int)
	claim    func(who string) (key, string, bool)
	complete func(k key) error
	put      func(data string)
	work     func(got func(data string))
	counts   string
	attempts bool
	version  string
	fillHow  string
	note     string
}

func newClaimq(file, so, _ string, ttl time.Duration) *queue {
	db := open(file, "claimq")
	_, err := db.Exec("SELECT claimq_init()")
	must(err)
	prepare := func(text string) *sql.Stmt {
		s, err := db.Prepare(text)
		must(err)
		return s
	}
	claim := prepare(
		"SELECT claim_id, lease_token, payload FROM claimq('q', ?, ?)")
	complete := prepare("SELECT claimq_complete(?, ?)")
	q := &queue{db: db, attempts: true,
		counts: `SELECT count(*) FILTER (WHERE claim_id IS NULL),
		  count(claim_id) FROM claimq_batch`,
		fillHow: "INSERT INTO claimq_batch",
		note: "claims one batch of a session under a lease; complete checks " +
			"claim and token and deletes the row (prepared statements)"}
	must(db.QueryRow("SELECT claimq_version()").Scan(&q.version))
	q.fill = func(first, n int) {
		_, err := db.Exec("INSERT INTO claimq_batch(session, payload) "+
			numbers+"SELECT 'q', printf('job %046d', i) FROM c", first, n)
		must(err)
	}
	q.claim = func(who string) (k key, data string, ok bool) {
		row := claim.QueryRow(who, ttl.Milliseconds())
		err := row.Scan(&k.id, &k.token, &data)
		if err != sql.ErrNoRows {
			must(err)
		}
		return k, data, err == nil
	}
	q.complete = func(k key) error {
		var n int
		return complete.QueryRow(k.id, k.token).Scan(&n)
	}
	q.put = func(data string) {
		_, err := db.Exec("SELECT claimq_enqueue('q', ?)", data)
		must(err)
	}
	q.work = func(got func(string)) {
		for {
			if k, data, ok := q.claim("w"); ok {
				got(data)
				must(q.complete(k))
				continue
			}
			_, err := db.Exec("SELECT claimq_wait(60000, 'session', 'q')")
			must(err)
		}
	}
	return q
}

// The version of a module that is linked in.
func versionOf(module string) string {
	info, _ := debug.ReadBuildInfo()
	for _, dep := range info.Deps {
		if dep.Path == module {
			return dep.Version
		}
	}
	return "?"
}

func newGoqite(file, _, schema string, ttl time.Duration) *queue {
	db := open(file, "sqlite3")
	var n int
	must(db.QueryRow(
		"SELECT count(*) FROM sqlite_schema WHERE name='goqite'").Scan(&n))
	if n == 0 {
		text, err := os.ReadFile(schema)
		must(err)
		_, err = db.Exec(string(text))
		must(err)
	}
	lib := goqite.New(goqite.NewOpts{DB: db, Name: "q", Timeout: ttl})
	q := &queue{db: db, attempts: true,
		counts: `SELECT count(*) FILTER (WHERE received=0),
		  count(*) FILTER (WHERE received>0) FROM goqite`,
		version: strings.TrimPrefix(versionOf("maragu.dev/goqite"), "v"),
		fillHow: "INSERT INTO goqite",
		note: "Receive hides the row for a time and counts it; Delete " +
			"deletes by id, whoever asks"}
	q.fill = func(first, n int) {
		_, err := db.Exec("INSERT INTO goqite(queue, body) "+numbers+
			"SELECT 'q', CAST(printf('job %046d', i) AS BLOB) FROM c",
			first, n)
		must(err)
	}
	q.claim = func(string) (key, string, bool) {
		m, err := lib.Receive(ctx)
		must(err)
		if m == nil {
			return key{}, "", false
		}
		return key{id: string(m.ID)}, string(m.Body), true
	}
	q.complete = func(k key) error {
		return lib.Delete(ctx, goqite.ID(k.id))
	}
	q.put = func(data string) {
		_, err := jobs.Create(ctx, lib, "job",
			goqite.Message{Body: []byte(data)})
		must(err)
	}
	q.work = func(got func(string)) {
		runner := jobs.NewRunner(jobs.NewRunnerOpts{Queue: lib})
		runner.Register("job", func(_ context.Context, m []byte) error {
			got(string(m))
			return nil
		})
		runner.Start(ctx)
	}
	return q
}

func (q *queue) count() (ready, held int) {
	must(q.db.QueryRow(q.counts).Scan(&ready, &held))
	return ready, held
}

// The figure.

// cpu is the processor time of this process so far, in seconds.
func cpu() float64 {
	var u syscall.Rusage
	must(syscall.Getrusage(syscall.RUSAGE_SELF, &u))
	return float64(u.Utime.Nano()+u.Stime.Nano()) / 1e9
}

// take returns the seconds it took, by the clock and by the processor.
func take(q *queue, k int, seen *[]string) (float64, float64) {
	before := cpu()
	start := time.Now()
	for i := 0; i < k; i++ {
		key, data, ok := q.claim("w")
		if !ok {
			must(fmt.Errorf("nothing to claim"))
		}
		must(q.complete(key))
		*seen = append(*seen, data)
	}
	return time.Since(start).Seconds(), cpu() - before
}

func blocks(q *queue, depth, n int, seconds float64,
	seen *[]string) (times, cpus []float64) {
	least := 1.0
	for i := 0; i < 3; i++ {
		t, _ := take(q, 1, seen)
		least = min(least, t)
	}
	size := max(1, min(100, int(0.02/least)))
	q.fill(depth+1, 3)
	spent := 0.0
	for len(times) < 3 || (len(*seen) < n && spent < seconds) {
		q.fill(depth+len(*seen)+1, size)
		t, c := take(q, size, seen)
		spent += t
		times = append(times, 1e6*t/float64(size))
		cpus = append(cpus, 1e6*c/float64(size))
	}
	sort.Float64s(times)
	sort.Float64s(cpus)
	return times, cpus
}

func check(q *queue, depth int, seen []string) {
	once := map[string]bool{}
	for _, data := range seen {
		once[data] = true
	}
	if len(once) != len(seen) {
		must(fmt.Errorf("a job was delivered twice"))
	}
	if ready, held := q.count(); ready != depth || held != 0 {
		must(fmt.Errorf("rows ready, held: %d %d, not %d 0",
			ready, held, depth))
	}
}

type maker func(file, so, schema string, ttl time.Duration) *queue

func run(mk maker, file, so, schema string, depth, n int,
	seconds float64) any {
	ttl := 300 * time.Second
	filler := mk(file, so, schema, ttl)
	_, err := filler.db.Exec("PRAGMA cache_size=-200000")
	must(err)
	filler.fill(1, depth)
	must(filler.db.Close()) // the last one to close checkpoints the WAL
	q := mk(file, so, schema, ttl)
	var seen []string
	times, cpus := blocks(q, depth, n, seconds, &seen)
	check(q, depth, seen)
	must(q.db.Close())
	at := func(f float64, list []float64) float64 {
		s := fmt.Sprintf("%.1f", list[int(f*float64(len(list)-1))])
		x, _ := strconv.ParseFloat(s, 64)
		return x
	}
	return map[string]any{"depth": depth, "us": at(0.5, times),
		"lo": at(0.25, times), "hi": at(0.75, times),
		"cpu": at(0.5, cpus), "n": len(seen)}
}

// The experiment.

func displaced(q *queue, old, holder key) bool {
	_, before := q.count()
	_ = q.complete(old) // claimq raises; what counts is the row
	_, after := q.count()
	if after == before {
		must(q.complete(holder))
	}
	return after == before
}

func probe(mk maker, file, so, schema string) any {
	q := mk(file, so, schema, 50*time.Millisecond)
	q.fill(1, 2)
	old := map[string]key{}
	for i := 0; i < 2; i++ {
		k, data, _ := q.claim("a")
		old[data] = k
	}
	time.Sleep(200 * time.Millisecond)
	b, bData, bOk := q.claim("b")
	a, aData, aOk := q.claim("a")
	version, _, _ := sqlite3.Version()
	answer := map[string]any{"version": q.version, "sqlite": version,
		"lease": aOk && bOk, "refuses": false, "fence": false,
		"attempts": q.attempts, "waits": true, "fill": q.fillHow, "note": q.note}
	if aOk && bOk {
		answer["refuses"] = displaced(q, old[bData], b)
		answer["fence"] = displaced(q, old[aData], a)
	}
	must(q.db.Close())
	return answer
}

// The two sides of waiting.

// say prints words, and the monotonic clock.
func say(words string) {
	var now C.struct_timespec
	C.clock_gettime(C.CLOCK_MONOTONIC, &now)
	fmt.Println(words, int64(now.tv_sec)*1000000+int64(now.tv_nsec)/1000)
}

func put(q *queue) {
	lines := bufio.NewScanner(os.Stdin)
	for lines.Scan() {
		q.put(lines.Text())
		say("")
	}
}

func main() {
	a := os.Args[1:]
	mk := map[string]maker{"claimq": newClaimq, "goqite": newGoqite}[a[0]]
	where, so, schema := a[2], a[3], a[4]
	sql.Register("claimq", &sqlite3.SQLiteDriver{Extensions: []string{so}})
	must(os.MkdirAll(where, 0o700))
	file := filepath.Join(where, "queue.db")
	var answer any
	switch a[1] {
	case "work":
		mk(file, so, schema, 300*time.Second).work(say)
		return
	case "put":
		put(mk(file, so, schema, 300*time.Second))
		return
	case "probe":
		answer = probe(mk, file, so, schema)
	default:
		depth, _ := strconv.Atoi(a[5])
		n, _ := strconv.Atoi(a[6])
		seconds, _ := strconv.ParseFloat(a[7], 64)
		answer = run(mk, file, so, schema, depth, n, seconds)
	}
	must(os.RemoveAll(where))
	text, err := json.Marshal(answer)
	must(err)
	fmt.Println(string(text))
}
