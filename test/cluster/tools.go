//go:build tools

// Package cluster names the programs that make cluster builds, so that go.mod
// and go.sum say exactly which versions of what they are made of.
package cluster

import _ "github.com/rqlite/rqlite/v8/cmd/rqlited"
