#!/bin/sh
# newer_python.sh: a newer Python than this Debian has, without installing it.
#
#     sh tcl/dist/newer_python.sh DIRECTORY
#
# Connections with autocommit=False need Python 3.12.  Where there is none, this
# fetches Python 3.13, SQLite and the C library of Debian 13 from the mirror
# that apt uses, and unpacks them below DIRECTORY, nowhere else.
# DIRECTORY/python runs it.  Fails with a line that says why it cannot be had.
set -e
mkdir -p "$1"
cd "$1"
[ ! -x python ] || exit 0
command -v apt-get >/dev/null || { echo "there is no apt-get"; exit 1; }

mirror=$(apt-get indextargets --format '$(REPO_URI)' 'Created-By: Packages' \
  'Origin: Debian' 'Component: main' | head -n 1)
[ -n "$mirror" ] || { echo "apt knows no mirror of Debian"; exit 1; }
mkdir -p lists/partial cache/archives/partial
key=/usr/share/keyrings/debian-archive-keyring.gpg
echo "deb [signed-by=$key] $mirror trixie main" >sources.list

apt() {
  apt-get -qq -o "Dir::Etc::sourcelist=$PWD/sources.list" \
    -o Dir::Etc::sourceparts=- -o "Dir::State::lists=$PWD/lists" \
    -o "Dir::Cache=$PWD/cache" -o Acquire::Languages=none \
    -o Acquire::IndexTargets::deb::DEP-11::DefaultEnabled=false \
    -o APT::Sandbox::User= -o Acquire::Retries=1 "$@"
}
apt update
apt download python3.13-minimal libpython3.13-minimal libpython3.13-stdlib \
  libsqlite3-0 libc6 libexpat1 zlib1g
for package in *.deb; do
  dpkg-deb -x "$package" root
done
rm -rf -- *.deb lists cache sources.list

lib=$(echo "$PWD"/root/usr/lib/*-linux-gnu*)
loader=$(echo "$lib"/ld-linux*)
cat >python.tmp <<END
#!/bin/sh
export PYTHONHOME='$PWD/root/usr'
exec '$loader' --library-path '$lib' '$PWD/root/usr/bin/python3.13' "\$@"
END
chmod +x python.tmp
./python.tmp -c 'import sqlite3; sqlite3.Connection.load_extension'
mv python.tmp python
