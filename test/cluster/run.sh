#!/bin/sh
# run.sh: what `make cluster` does.
#
#     sh test/cluster/run.sh BUILD SO [STORY ...]
#
# Builds rqlite and Litestream from source (the exact versions are in go.mod and
# litestream/go.mod), then has cluster.py tell its stories with them: rqlite
# nodes on this machine, killed, cut off from each other, compacted, restored,
# and workers whose answers get lost.  What cannot be had here is SKIPPED, and
# the reason said.  With CI=true there is less of everything.
#
# All of it runs in a process namespace and a network namespace of its own,
# where there are any: when the first process ends, for whatever reason, the
# kernel ends all others; and no packet leaves.

here=$(cd "$(dirname "$0")" && pwd)
build=$(mkdir -p "$1/cluster" && cd "$1/cluster" && pwd)
so=$2
shift 2

skip() {
  echo "SKIPPED $1: $2"
}

command -v python3 >/dev/null || {
  skip cluster "there is no python3"
  echo "0 passed, 0 failed, 1 skipped"
  exit 0
}
command -v go >/dev/null || {
  skip cluster "there is no Go to build rqlite with"
  echo "0 passed, 0 failed, 1 skipped"
  exit 0
}

# Go keeps what it has compiled below HOME; what it needs is in go.mod, to the
# version, and no newer Go is to be fetched for it.
[ -n "$HOME" ] || export GOCACHE="$build/go" GOPATH="$build/gopath"
export GOTOOLCHAIN=local GOWORK=off CGO_ENABLED=1

# SECONDS COMMAND ...: the command, as long as it may take.
limit() {
  if command -v timeout >/dev/null; then timeout "$@"; else shift; "$@"; fi
}

# FOLDER PACKAGE PROGRAM: build a program, unless it is there.  Fails with 2 if
# Go cannot have the source, or takes too long: $why says why.
build() {
  program=$build/$3
  if [ -x "$program" ] && [ -z "$(find "$1/go.mod" "$1/go.sum" \
      -newer "$program")" ]; then
    return 0
  fi
  cd "$1" || return 1
  why=$(GOFLAGS=-mod=readonly limit 300 go list -deps "$2" 2>&1 >/dev/null) || {
    [ $? = 124 ] && why="$why
its source was not there after 5 minutes"
    why=$(echo "$why" | tail -n 1)
    return 2
  }
  echo "building $3 (once, some minutes)"
  GOFLAGS='-mod=readonly -buildvcs=false' \
    limit 1500 go build -o "$program.tmp" "$2"
  case $? in
    0) mv -f "$program.tmp" "$program";;
    124) why="it was not built after 25 minutes"; return 2;;
    *) return 1;;
  esac
}

(build "$here" github.com/rqlite/rqlite/v8/cmd/rqlited rqlited
 rc=$?; [ $rc = 2 ] && skip cluster "rqlite cannot be had: $why"; exit $rc)
case $? in
  0) ;;
  2) echo "0 passed, 0 failed, 1 skipped"; exit 0;;
  *) echo "0 passed, 1 failed"; exit 1;;
esac
CLUSTER_LITESTREAM=$build/litestream
(build "$here/litestream" github.com/benbjohnson/litestream/cmd/litestream \
   litestream
 rc=$?; [ $rc = 2 ] && echo "$why" >"$build/litestream.why"; exit $rc)
case $? in
  0) ;;
  2) CLUSTER_LITESTREAM=;;
  *) echo "0 passed, 1 failed"; exit 1;;
esac
export CLUSTER_LITESTREAM

# Namespaces for root, or for anybody where the kernel lets them.
sh "$here/../../tcl/test/deps.sh" -part 'partition of a cluster' ip iproute2
set -- python3 "$here/cluster.py" "$build/rqlited" "$so" "$build/run" "$@"
for user in '' '--user --map-root-user'; do
  own="unshare $user --net --pid --fork --kill-child --mount-proc"
  if $own ip link set lo up 2>/dev/null; then
    export CLUSTER_NAMESPACE=1
    exec $own sh -c 'ip link set lo up && exec "$@"' sh "$@"
  fi
done
exec "$@"
