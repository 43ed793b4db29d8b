#!/bin/sh
# asan.sh: runs a command under the sanitizers of addresses, undefined behaviour
# and leaks.
#
#     CC=gcc TCLSH=tclsh sh tcl/test/asan.sh COMMAND ...
#
# The tests are run by a tclsh that was built without them, so their libraries
# are loaded first, and claimq.so must have been built with
# -fsanitize=address,undefined.  A process that does something wrong ends with
# an error, at the end also one that has lost memory.  To find that, the leak
# sanitizer must be allowed to stop threads and look into them, which some
# machines forbid: so it is tried here with a process that leaks on purpose,
# and with one that does not.

CC=${CC:-cc}
TCLSH=${TCLSH:-tclsh}
UBSAN_OPTIONS=halt_on_error=1
preload=$($CC -print-file-name=libasan.so):$($CC -print-file-name=libubsan.so)
export UBSAN_OPTIONS

# leaks N: end well?
leaks() {
  echo "load build/cqtest.so; for {set i 0} {\$i<$1} {incr i} {
    cq_leak_memory 1000}" |
  env ASAN_OPTIONS=detect_leaks=1 LD_PRELOAD=$preload "$TCLSH" >/dev/null 2>&1
}

detect=1
if ! leaks 0 || leaks 20; then
  echo 'SKIPPED: leak sanitizer: it does not work on this machine'
  detect=0
fi
ASAN_OPTIONS=detect_leaks=$detect LD_PRELOAD=$preload exec "$@"
