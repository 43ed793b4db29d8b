package claimq

// What a worker does about a lock that lasts longer than its timeout, a full
// disk, and a file that is not there any more.

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"
)

// patiently does f.  While that fails for a reason that waiting cures, it is
// logged, and f is done again after a pause, which grows.  Once the worker is
// stopping that goes on for the time of grace.  It returns whether f was done.
func (l *loop) patiently(ctx context.Context, what string,
	grace time.Duration, f func() error) (bool, error) {
	var end time.Time
	for pause := 100 * time.Millisecond; ; pause = min(2*pause, 5*time.Second) {
		err := f()
		if gone := l.file.check(); err != nil && gone != nil {
			return false, gone
		}
		if err == nil || !waitingCures(err) {
			return err == nil, err
		}
		stopping := ctx.Done()
		if ctx.Err() != nil {
			if end.IsZero() {
				end = time.Now().Add(grace)
			}
			if !time.Now().Before(end) {
				l.log("claimq: %s: %v: given up", what, err)
				return false, nil
			}
			pause, stopping = 100*time.Millisecond, nil
		}
		l.log("claimq: %s: %v; again in %v", what, err, pause)
		select {
		case <-stopping:
		case <-time.After(pause):
		}
	}
}

// file is a path, whatever the working directory is, and which file it was when
// it was opened.
type file struct {
	path   string
	opened os.FileInfo
}

func (f *file) remember(path string) {
	f.path, _ = filepath.Abs(path)
	f.opened, _ = os.Stat(f.path)
}

// check has an error if the database is not the file any more that was opened:
// SQLite would go on with what nobody else can see.
func (f *file) check() error {
	if f.opened == nil {
		return nil
	}
	now, err := os.Stat(f.path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) ||
		err == nil && os.SameFile(now, f.opened) {
		return nil
	}
	return fmt.Errorf("%s was removed or replaced while the worker used it",
		f.path)
}
