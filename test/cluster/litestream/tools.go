//go:build tools

// Package litestream names the program that backup.py runs.  It has a go.mod
// of its own: rqlite and Litestream do not agree about what they need.
package litestream

import _ "github.com/benbjohnson/litestream/cmd/litestream"
