#!/bin/sh
# newer_rails.sh: a newer Rails than this Debian has, without installing it.
#
#     sh tcl/dist/newer_rails.sh DIRECTORY
#
# unpacks Ruby and Rails of Debian 13, with delayed_job, SQLite and the C
# library, below DIRECTORY (see debian13.sh).  DIRECTORY/ruby runs it, with the
# gems of GEM_HOME, too.  Fails with a line that says why it cannot be had.
set -e
here=$(cd "$(dirname "$0")" && pwd)
mkdir -p "$1"
cd "$1"
[ ! -x ruby ] || exit 0
sh "$here/debian13.sh" . ruby-railties ruby-activerecord ruby-activejob \
  ruby-sqlite3 ruby-delayed-job-active-record

lib=$(echo "$PWD"/root/usr/lib/*-linux-gnu*)
loader=$(echo "$lib"/ld-linux*)
cat >ruby.tmp <<EOF
#!/bin/sh
usr='$PWD/root/usr'
lib='$lib'
path=
for dir in "\$usr/lib/ruby" "\$lib/ruby"; do
  path=\$path:\$dir/vendor_ruby:\$dir/vendor_ruby/3.3.0:\$dir/3.3.0
done
export RUBYLIB="\${path#:}"
export GEM_PATH="\$GEM_HOME:\$usr/share/rubygems-integration/all"
GEM_PATH="\$GEM_PATH:\$usr/lib/ruby/gems/3.3.0"
GEM_PATH="\$GEM_PATH:\$lib/rubygems-integration/3.3.0"
exec '$loader' --library-path "\$lib" "\$usr/bin/ruby3.3" "\$@"
EOF
chmod +x ruby.tmp
GEM_HOME=$PWD ./ruby.tmp -e 'require "sqlite3"; require "rails"'
mv ruby.tmp ruby
