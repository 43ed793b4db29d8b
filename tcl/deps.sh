#!/bin/sh
# deps.sh: what claimq needs to be built and tested.
#
#     CC=gcc TCLSH=tclsh sh tcl/deps.sh
#
# Each tool or library is tried out, not looked up in a package list, so that
# any system that has them will do.  When something is missing: on Debian as
# root it is installed, elsewhere the command to run is printed and this fails.
#
#     sh tcl/deps.sh -part NAME TOOL PACKAGE [TOOL PACKAGE ...]
#
# The same for a part that can be left out: when a tool is missing and cannot
# be installed, one line "SKIPPED NAME: ..." says so, and this fails.

CC=${CC:-cc}
TCLSH=${TCLSH:-tclsh}

have_header() {
  printf '#include <%s>\n' "$1" | "$CC" $2 -E -o /dev/null - 2>/dev/null
}

# Install Debian packages if that is possible; fails if not.
install() {
  [ "$(id -u)" = 0 ] && [ -e /etc/debian_version ] || return 1
  echo "installing: $*"
  export DEBIAN_FRONTEND=noninteractive
  apt-get update -qq
  apt-get install -y -qq --no-install-recommends "$@" >/dev/null
}

# TOOL PACKAGE ...: the packages of tools (commands or files) that are not
# there.
missing_tools() {
  while [ $# -gt 1 ]; do
    command -v "$1" >/dev/null || [ -e "$1" ] || echo "$2"
    shift 2
  done
}

if [ "$1" = -part ]; then
  part=$2
  shift 2
  todo=$(missing_tools "$@" | tr '\n' ' ')
  [ -z "$todo" ] || install $todo
  todo=$(missing_tools "$@" | tr '\n' ' ')
  [ -n "$todo" ] || exit 0
  echo "SKIPPED $part: on Debian, run: sudo apt-get install $todo"
  exit 1
fi

# The Debian packages of what does not work here.
missing() {
  command -v "$CC" >/dev/null || echo gcc
  command -v make >/dev/null || echo make
  command -v sqlite3 >/dev/null || echo sqlite3
  have_header sqlite3ext.h || echo libsqlite3-dev
  if command -v "$TCLSH" >/dev/null; then
    # tclsh ends with 0 whatever goes wrong in what it reads from stdin.
    echo 'exit [catch {package require sqlite3}]' | "$TCLSH" ||
      echo libsqlite3-tcl
    inc=$(echo 'puts [::tcl::pkgconfig get includedir,runtime]' | "$TCLSH")
    have_header tcl.h "-I$inc" || echo tcl-dev
  else
    echo tcl tcl-dev libsqlite3-tcl
  fi
}

todo=$(missing | tr '\n' ' ')
[ -n "$todo" ] || exit 0
# gcc alone brings no headers of the C library.
case " $todo" in *" gcc "*) todo="$todo libc6-dev";; esac
if install $todo; then
  todo=$(missing | tr '\n' ' ')
  [ -n "$todo" ] || exit 0
fi
echo "claimq needs more to build; on Debian, run:"
echo "  sudo apt-get install $todo"
exit 1
