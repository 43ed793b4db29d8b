#!/bin/sh
# deps.sh: what claimq needs to be built and tested.
#
#     CC=gcc TCLSH=tclsh sh tcl/test/deps.sh
#
# Each tool or library is tried out, not looked up in a package list, so that
# any system that has them will do.  When something is missing: on Debian as
# root it is installed, elsewhere the command to run is printed and this fails.
#
#     CC=gcc CPPFLAGS= TCLSH=tclsh sh tcl/test/deps.sh -build
#
# The same for what a plain make needs; nothing is installed.
#
#     sh tcl/test/deps.sh -part NAME TOOL PACKAGE [TOOL PACKAGE ...]
#
# A part that can be left out.  When a tool is missing, it is installed if the
# environment says INSTALL=1 and that is possible; else one line "SKIPPED NAME:
# ..." says what to run, and this fails.

CC=${CC:-cc}
TCLSH=${TCLSH:-tclsh}

# CC may be two words, such as `ccache gcc`.
have_cc() {
  command -v ${CC%% *} >/dev/null
}
have_header() {
  printf '#include <%s>\n' "$1" |
    $CC $CPPFLAGS $2 -E -o /dev/null - 2>/dev/null
}

# Install Debian packages if that is possible; fails if not.  Another apt-get
# may be at work; its lock is waited for.
install() {
  [ "$(id -u)" = 0 ] && [ -e /etc/debian_version ] || return 1
  echo "installing: $*"
  export DEBIAN_FRONTEND=noninteractive
  apt-get update -qq
  apt-get install -y -qq -o DPkg::Lock::Timeout=600 --no-install-recommends \
    "$@" >/dev/null
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
  [ -z "$todo" ] || [ "$INSTALL" != 1 ] || install $todo
  todo=$(missing_tools "$@" | tr '\n' ' ')
  [ -n "$todo" ] || exit 0
  echo "SKIPPED $part: on Debian, run: sudo apt-get install $todo"
  exit 1
fi

# What a plain make needs and does not work here, each with its Debian package.
missing_to_build() {
  have_cc || echo "${CC%% *} gcc"
  command -v "$TCLSH" >/dev/null || echo "$TCLSH tcl"
  ! have_cc || have_header sqlite3ext.h ||
    echo sqlite3ext.h libsqlite3-dev
}

if [ "$1" = -build ]; then
  todo=$(missing_to_build)
  [ -n "$todo" ] || exit 0
  echo "$todo" | while read -r what package; do
    echo "claimq needs $what to build; on Debian: sudo apt-get install $package"
  done
  echo "(make deps also finds what the tests need.)"
  exit 1
fi

# The Debian packages of what does not work here.
missing() {
  have_cc || echo gcc
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
