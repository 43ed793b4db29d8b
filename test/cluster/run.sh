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
# where they can be had: when the first process ends, for whatever reason, the
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

# FOLDER PACKAGE PROGRAM: build a program, unless it is there.  Fails with 2 if
# Go cannot have the source: $why says why.
build() {
  program=$build/$3
  if [ -x "$program" ] && [ -z "$(find "$1/go.mod" "$1/go.sum" \
      -newer "$program")" ]; then
    return 0
  fi
  cd "$1" || return 1
  why=$(GOWORK=off GOFLAGS=-mod=readonly go list -deps "$2" 2>&1 >/dev/null) ||
    { why=$(echo "$why" | tail -n 1); return 2; }
  echo "building $3 (once, some minutes)"
  GOWORK=off GOFLAGS='-mod=readonly -buildvcs=false' CGO_ENABLED=1 \
    go build -o "$program.tmp" "$2" && mv -f "$program.tmp" "$program"
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
set -- python3 "$here/cluster.py" "$build/rqlited" "$so" "$build/run" "$@"
for user in '' '--user --map-root-user'; do
  own="unshare $user --net --pid --fork --kill-child --mount-proc"
  if $own ip link set lo up 2>/dev/null; then
    export CLUSTER_NAMESPACE=1
    exec $own sh -c 'ip link set lo up && exec "$@"' sh "$@"
  fi
done
exec "$@"
