#!/bin/sh
# debian13.sh: packages of Debian 13, without installing them.
#
#     sh tcl/dist/debian13.sh DIRECTORY PACKAGE...
#
# fetches the packages, and all that they depend on, from the mirror that apt
# uses, and unpacks them below DIRECTORY/root, nowhere else.
#
#     sh tcl/dist/debian13.sh DIRECTORY -source PACKAGE
#
# fetches the source archive of a package to DIRECTORY/PACKAGE_*.orig.tar.*.
# Fails with a line that says why it cannot be had.
set -e
mkdir -p "$1"
cd "$1"
shift
command -v apt-get >/dev/null || { echo "there is no apt-get"; exit 1; }

mirror=$(apt-get indextargets --format '$(REPO_URI)' 'Created-By: Packages' \
  'Origin: Debian' 'Component: main' | head -n 1)
[ -n "$mirror" ] || { echo "apt knows no mirror of Debian"; exit 1; }
mkdir -p lists/partial cache/archives/partial
key=/usr/share/keyrings/debian-archive-keyring.gpg
type=deb
[ "$1" != -source ] || type=deb-src
echo "$type [signed-by=$key] $mirror trixie main" >sources.list

apt() {
  apt-get -qq -o "Dir::Etc::sourcelist=$PWD/sources.list" \
    -o Dir::Etc::sourceparts=- -o "Dir::State::lists=$PWD/lists" \
    -o "Dir::Cache=$PWD/cache" -o Acquire::Languages=none \
    -o Dir::State::status=/dev/null -o Debug::NoLocking=1 \
    -o Acquire::IndexTargets::deb::DEP-11::DefaultEnabled=false \
    -o APT::Sandbox::User= -o Acquire::Retries=1 "$@"
}
apt update
if [ "$1" = -source ]; then
  apt source --download-only --tar-only "$2"
else
  apt install -y --download-only --no-install-recommends "$@"
  for package in cache/archives/*.deb; do
    dpkg-deb -x "$package" root
  done
fi
rm -rf lists cache sources.list
