package claimq

import (
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"strings"
)

// Options are options of claimq_submit by their names there, such as
// {"max_attempts": 3, "headers": map[string]any{"user": 7}}.  What SQL has no
// value for becomes JSON, and nil is left out.  "task" is the name of a task: see
// Worker.Task.
type Options map[string]any

// taskPrefix makes a capability of the name of a task.
const taskPrefix = "task:"

// querier is a sql.DB, a sql.Conn or a sql.Tx.
type querier interface {
	ExecContext(context.Context, string, ...any) (sql.Result, error)
	QueryContext(context.Context, string, ...any) (*sql.Rows, error)
}

// Submit submits a job and has its id, or 0 if claimq_submit has none.  db is a
// sql.DB, a sql.Conn or a sql.Tx.  A payload that is a string or []byte is
// stored as it is, all others as JSON.
func Submit(ctx context.Context, db querier, lane string, payload any,
	options ...Options) (int64, error) {
	text, err := payloadOf(payload)
	if err != nil {
		return 0, err
	}
	values := []any{lane, text}
	for _, some := range options {
		more, err := some.values()
		if err != nil {
			return 0, err
		}
		values = append(values, more...)
	}
	var id sql.NullInt64
	err = one(ctx, db, &id, "SELECT claimq_submit("+
		strings.Repeat("?, ", len(values)-1)+"?)", values...)
	return id.Int64, err
}

func payloadOf(payload any) (any, error) {
	switch payload.(type) {
	case string, []byte:
		return payload, nil
	}
	text, err := json.Marshal(payload)
	return string(text), err
}

// values has names and values in turn.
func (o Options) values() (values []any, err error) {
	all := make(map[string]any, len(o))
	for name, value := range o {
		if value, err = storable(value); err != nil {
			return nil, fmt.Errorf("option %s: %w", name, err)
		}
		if value != nil && value != "null" {
			all[name] = value
		}
	}
	if task, found := all["task"]; found {
		delete(all, "task")
		able := []any{}
		if text, found := all["capabilities"]; found {
			if err = json.Unmarshal(fmt.Append(nil, text), &able); err != nil {
				return nil, fmt.Errorf("option capabilities: %w", err)
			}
		}
		list, _ := json.Marshal(append(able, taskPrefix+fmt.Sprint(task)))
		all["capabilities"] = string(list)
	}
	for name, value := range all {
		values = append(values, name, value)
	}
	return values, nil
}

// one has the only value of a query; sql.ErrNoRows if there is none.
func one(ctx context.Context, db querier, into any, query string,
	values ...any) error {
	rows, err := db.QueryContext(ctx, query, values...)
	if err != nil {
		return err
	}
	defer rows.Close()
	if !rows.Next() {
		if err = rows.Err(); err == nil {
			err = sql.ErrNoRows
		}
		return err
	}
	if err = rows.Scan(into); err == nil {
		err = rows.Close()
	}
	return err
}
