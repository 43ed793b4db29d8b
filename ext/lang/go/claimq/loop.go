package claimq

// What Worker, Outbox and Session have in common: claim, work, settle.

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log"
	"math/rand"
	"os"
	"os/signal"
	"runtime/debug"
	"strings"
	"syscall"
	"time"
)

// logger is log.Printf, or what is like it.
type logger = func(format string, values ...any)

// task is a claim, and what is to be done about it.
type task struct {
	*Claim
	name  string // such as "job 17"
	work  func(context.Context) (any, error)
	calls func(result any, err error) []verb // that settle it
}

// loop claims tasks, works on up to limit of them at once, and settles them.  It
// settles a task and takes the next ones with the same commit.
type loop struct {
	settings
	what  string // for the log
	limit int
	claim func(db querier, n int) ([]*task, error)
	wait  func(ctx context.Context) error // until there may be something

	db       *sql.DB         // its own connections: the handler has others
	ctx      context.Context // of handlers: it does not end
	stopping <-chan struct{}
	heart    heart
	file     file
}

// settings are those of all loops, with their defaults.
type settings struct {
	path, owner, synchronous string
	lease, timeout           time.Duration
	create                   bool
	log                      logger
}

func (s *settings) defaults() {
	if s.lease == 0 {
		s.lease = 30 * time.Second
	}
	if s.timeout == 0 {
		s.timeout = 30 * time.Second
	}
	if s.log == nil {
		s.log = log.Printf
	}
	if s.owner == "" {
		host, _ := os.Hostname()
		s.owner = fmt.Sprintf("%s:%d:%x", host, os.Getpid(), rand.Uint32())
	}
	if s.synchronous == "" {
		s.synchronous = "NORMAL"
	}
}

// open opens the database.  A file that is not there is an error: its name may be
// mistyped.
func (s *settings) open() (*sql.DB, error) {
	inMemory := s.path == "" || s.path == ":memory:" ||
		strings.HasPrefix(s.path, "file:")
	if _, err := os.Stat(s.path); !s.create && !inMemory &&
		errors.Is(err, os.ErrNotExist) {
		return nil, fmt.Errorf("there is no file %s: create it with "+
			"claimq.Open, or Create: true", s.path)
	}
	return open(s.path, s.timeout, s.synchronous)
}

// ended is a task whose handler has ended, and the calls that settle it.
type ended struct {
	*task
	with []verb
}

// run works until ctx ends or a signal comes, or, if it is to drain, until there
// is nothing to claim.  It counts the tasks that it began.
func (l *loop) run(ctx context.Context, drain bool) (begun int, err error) {
	l.ctx = context.WithoutCancel(ctx)
	ctx, deaf := signal.NotifyContext(ctx, syscall.SIGTERM, os.Interrupt)
	defer deaf()
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	l.stopping = ctx.Done()
	if opened, err := l.patiently(ctx, "opening", 0, func() (err error) {
		l.db, err = l.open()
		return err
	}); !opened {
		return 0, err
	}
	defer l.db.Close()
	l.db.SetMaxIdleConns(l.limit + 3)
	l.file.remember(l.path)
	l.log("claimq: %s: owner %s, concurrency %d", l.what, l.owner, l.limit)
	defer func() { l.log("claimq: %s: ended, jobs begun: %d", l.what, begun) }()
	defer l.heart.start(l.db, l.lease, l.log)()
	var next []*task
	var waiting chan error
	defer func() {
		if stop(); waiting != nil {
			<-waiting
		}
	}()
	done, running, stopping := make(chan ended), 0, l.stopping
	for {
		if err == nil {
			err = l.file.check()
		}
		if err != nil || ctx.Err() != nil {
			stop()
			l.heart.release(next)
			if next, stopping = nil, nil; running == 0 {
				return begun, err
			}
		} else if len(next) == 0 && running < l.limit && waiting == nil {
			next, err = l.take(ctx, l.limit-running)
			if idle := err == nil && len(next) == 0; idle && !drain {
				waiting = make(chan error, 1)
				go func(c chan error) { c <- l.await(ctx) }(waiting)
			} else if idle && running == 0 {
				return begun, nil
			}
		}
		for ; len(next) > 0 && running < l.limit && ctx.Err() == nil; next = next[1:] {
			if !next[0].isLost() {
				begun++
				running++
				go next[0].begin(done)
			}
		}
		if running == 0 && waiting == nil {
			continue
		}
		select {
		case <-stopping:
		case failed := <-waiting:
			waiting, err = nil, errors.Join(err, failed)
		case one := <-done:
			running--
			free := 0
			if len(next) == 0 && err == nil {
				free = l.limit - running
			}
			more, failed := l.settle(ctx, one, free)
			next, err = append(next, more...), errors.Join(err, failed)
		}
	}
}

// take claims, and holds what it gets.
func (l *loop) take(ctx context.Context, n int) (tasks []*task, err error) {
	_, err = l.patiently(ctx, "looking for work", 0, func() (err error) {
		tasks, err = l.claim(l.db, n)
		return err
	})
	l.heart.hold(tasks)
	return tasks, err
}

// await waits until there may be something to claim, or ctx ends.
func (l *loop) await(ctx context.Context) error {
	_, err := l.patiently(ctx, "waiting", 0, func() error {
		err := l.wait(ctx)
		if ctx.Err() != nil { // the wait was broken off
			return nil
		}
		return err
	})
	return err
}

// settle settles a task and, if some are free, claims the next ones with the
// same commit.  What cannot be settled is given back at the end.
func (l *loop) settle(ctx context.Context, t ended, free int) (next []*task,
	err error) {
	once := func(tx *sql.Tx) error {
		next = nil
		err := t.settle(tx, t.name, t.with, l.log)
		if err == nil && free > 0 && ctx.Err() == nil {
			next, err = l.claim(tx, free)
		}
		return err
	}
	settled, err := l.patiently(ctx, "settling "+t.name, l.lease, func() error {
		return Transaction(context.Background(), l.db, once)
	})
	if !settled {
		return nil, err
	}
	l.heart.hold(next)
	l.heart.forget(t.Claim)
	return next, nil
}

type panicked struct{ text, trace string }

func (p panicked) Error() string { return p.text }

// where has the few lines of the trace that say where it happened.
func (p panicked) where() string {
	_, trace, _ := strings.Cut(p.trace, "\npanic(")
	lines := strings.SplitN(trace, "\n", 7)
	return "\n" + strings.Join(lines[min(2, len(lines)):min(6, len(lines))], "\n")
}

// begin calls the handler, which is somebody else's program: it may panic, and
// the text of its error may panic in turn.
func (t *task) begin(done chan<- ended) {
	var calls []verb
	defer func() {
		if why := recover(); why != nil {
			calls = t.calls(nil, panicked{fmt.Sprintf("panic: %v", why),
				string(debug.Stack())})
		} else if calls == nil {
			calls = t.calls(nil, errors.New("the handler has ended its goroutine"))
		}
		done <- ended{t, calls}
	}()
	defer t.lose(nil)
	result, err := t.work(t.ctx)
	calls = t.calls(result, err)
}
