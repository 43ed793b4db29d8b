// Package claimq is queues of leased, fenced work in ordinary SQLite tables.
//
//	db, err := claimq.Open("app.db")
//	tx, err := db.Begin() // BEGIN IMMEDIATE
//	_, err = tx.Exec("INSERT INTO orders VALUES (?)", 42)
//	_, err = claimq.Submit(ctx, tx, "mail", "order 42")
//	err = tx.Commit() // the order and its job: both
//
//	worker := claimq.Worker{Path: "app.db", Lane: "mail", Handler: handle}
//	_, err = worker.Run(context.Background())
//
// The extension is compiled into the program, together with the SQLite of
// github.com/mattn/go-sqlite3.  Auto gives it to every connection that is
// opened afterwards; Open does that, too, and has the settings that suit
// claimq.  Everything else is SQL: the manual is ext/doc/manual.md of the source
// archive.
package claimq

/*
#cgo CFLAGS: -DSQLITE_CORE
#include "sqlite3.h"
#include "claimq.h"

static int claimq_auto(void){
  return sqlite3_auto_extension((void(*)(void))sqlite3_claimq_init);
}
*/
import "C"

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net/url"
	"regexp"
	"time"

	"github.com/mattn/go-sqlite3" // the driver, and the SQLite
)

// Version is the release of claimq.
const Version = "@VERSION@"

// Auto has every connection that is opened from now on know claimq, whoever
// opens it.  It may be called more than once.
func Auto() {
	C.claimq_auto()
}

// Open opens a database for claimq: WAL, a busy timeout of 30 s, transactions
// that are BEGIN IMMEDIATE, and claimq's tables, which are created when they
// are missing.
func Open(path string) (*sql.DB, error) {
	return open(path, 30*time.Second, "FULL")
}

func open(path string, timeout time.Duration, synchronous string) (*sql.DB,
	error) {
	Auto()
	settings := url.Values{
		"_busy_timeout": {fmt.Sprint(timeout.Milliseconds())},
		"_journal_mode": {"WAL"},
		"_synchronous":  {synchronous},
		"_txlock":       {"immediate"},
	}
	db, err := sql.Open("sqlite3", "file:"+url.PathEscape(path)+"?"+
		settings.Encode())
	if err != nil {
		return nil, err
	}
	if err = initialise(db, timeout); err != nil {
		db.Close()
		return nil, err
	}
	return db, nil
}

// SQLite does not wait for the lock that a change of the journal mode needs,
// and several processes may open a new database at once.
func initialise(db *sql.DB, timeout time.Duration) error {
	until := time.Now().Add(timeout)
	for {
		_, err := db.Exec("SELECT claimq_init()")
		var failed sqlite3.Error
		if !errors.As(err, &failed) || failed.Code != sqlite3.ErrBusy ||
			time.Now().After(until) {
			return err
		}
		time.Sleep(10 * time.Millisecond)
	}
}

// Transaction runs f in a transaction, and commits unless f returns an error or
// panics.  It is BEGIN IMMEDIATE in a database that was opened by Open, or with
// _txlock=immediate.
func Transaction(ctx context.Context, db *sql.DB,
	f func(*sql.Tx) error) error {
	conn, err := db.Conn(ctx)
	if err != nil {
		return err
	}
	defer conn.Close()
	// On the same connection, it waits for its turn among claimq's writers, so
	// that it need not sleep in SQLite; afterwards the next one is woken.  It is
	// only a hint, which a connection without claimq does not have: no error
	// matters.
	conn.ExecContext(ctx, "SELECT claimq__gate(1)")
	defer conn.ExecContext(context.Background(), "SELECT claimq__gate(0)")
	tx, err := conn.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer tx.Rollback() // does nothing after Commit
	if err = f(tx); err != nil {
		return err
	}
	return tx.Commit()
}

// waitingCures tells whether an error may be gone after a while: a lock, a full
// disk.
func waitingCures(err error) bool {
	var failed sqlite3.Error
	if Code(err) != "" || !errors.As(err, &failed) {
		return false
	}
	switch failed.Code {
	case sqlite3.ErrBusy, sqlite3.ErrLocked, sqlite3.ErrFull, sqlite3.ErrIoErr,
		sqlite3.ErrNomem, sqlite3.ErrProtocol:
		return true
	}
	return false
}

var codeOf = regexp.MustCompile(`\bclaimq: ([a-z_]+): `)

// Code is the code of an error of claimq, such as "claim_lost", whatever has
// been wrapped around it; "" for all other errors, and for nil.
func Code(err error) string {
	if err == nil {
		return ""
	}
	if found := codeOf.FindStringSubmatch(err.Error()); found != nil {
		return found[1]
	}
	return ""
}
