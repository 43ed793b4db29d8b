#!/bin/sh
# deps.sh: what claimq needs to be built and tested.
#
#     CC=gcc TCLSH=tclsh sh tcl/deps.sh
#
# Each tool or library is tried out, not looked up in a package list, so that
# any system that has them will do.  When something is missing: on Debian as
# root it is installed, elsewhere the command to run is printed and this fails.

CC=${CC:-cc}
TCLSH=${TCLSH:-tclsh}

have_header() {
  printf '#include <%s>\n' "$1" | "$CC" $2 -E -o /dev/null - 2>/dev/null
}

# The Debian packages of what does not work here.
missing() {
  command -v "$CC" >/dev/null || echo gcc
  command -v make >/dev/null || echo make
  command -v sqlite3 >/dev/null || echo sqlite3
  have_header sqlite3ext.h || echo libsqlite3-dev
  if command -v "$TCLSH" >/dev/null; then
    echo 'package require sqlite3' | "$TCLSH" >/dev/null 2>&1 ||
      echo libsqlite3-tcl
    inc=$(echo 'puts [::tcl::pkgconfig get includedir,runtime]' | "$TCLSH")
    have_header tcl.h "-I$inc" || echo tcl-dev
  else
    echo tcl tcl-dev libsqlite3-tcl
  fi
}

todo=$(missing | tr '\n' ' ')
[ -n "$todo" ] || exit 0
if [ "$(id -u)" = 0 ] && [ -e /etc/debian_version ]; then
  # gcc alone brings no headers of the C library.
  case " $todo" in *" gcc "*) todo="$todo libc6-dev";; esac
  echo "installing: $todo"
  export DEBIAN_FRONTEND=noninteractive
  apt-get update -qq
  apt-get install -y -qq --no-install-recommends $todo >/dev/null || exit 1
  todo=$(missing | tr '\n' ' ')
  [ -n "$todo" ] || exit 0
fi
echo "claimq needs more to build; on Debian, run:"
echo "  sudo apt-get install $todo"
exit 1
