#!/bin/sh
# newer_python.sh: a newer Python than this Debian has, without installing it.
#
#     sh tcl/dist/newer_python.sh DIRECTORY
#
# Connections with autocommit=False need Python 3.12.  Where there is none, this
# unpacks Python 3.13 of Debian 13, with its SQLite and C library, below
# DIRECTORY (see debian13.sh).  DIRECTORY/python runs it.  Fails with a line
# that says why it cannot be had.
set -e
here=$(cd "$(dirname "$0")" && pwd)
mkdir -p "$1"
cd "$1"
[ ! -x python ] || exit 0
sh "$here/debian13.sh" . python3.13-minimal libpython3.13-stdlib libsqlite3-0

lib=$(echo "$PWD"/root/usr/lib/*-linux-gnu*)
loader=$(echo "$lib"/ld-linux*)
cat >python.tmp <<EOF
#!/bin/sh
export PYTHONHOME='$PWD/root/usr'
exec '$loader' --library-path '$lib' '$PWD/root/usr/bin/python3.13' "\$@"
EOF
chmod +x python.tmp
./python.tmp -c 'import sqlite3; sqlite3.Connection.load_extension'
mv python.tmp python
