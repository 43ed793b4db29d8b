#!/bin/sh
# install.sh: puts claimq where every program finds it, or takes it away.
#
#     sh tcl/dist/install.sh install SO PREFIX DESTDIR VERSION
#     sh tcl/dist/install.sh uninstall PREFIX DESTDIR
#
# After that `.load claimq` works from any folder, and load_extension('claimq')
# in any language, without a path.  SQLite hands the name "claimq.so" to the
# dynamic linker, which looks for it in the cache of ldconfig.  That cache lists
# only files whose own name begins with "lib", under the soname that stands
# inside.  So the file is libclaimq.so, its soname is claimq.so, and beside it
# is the link claimq.so, which ldconfig would make, too.
#
# ldconfig is for root, and is not run below DESTDIR: a package that is made
# there runs it when it is installed.  Where it was not run, this says what to
# do instead.

set -e

# Files are made aside and renamed: a process may have the old one loaded.
put() {
  cp "$1" "$2.tmp"
  mv -f "$2.tmp" "$2"
}

write_pc() {
  cat <<END
prefix=$1
libdir=\${prefix}/lib
includedir=\${prefix}/include
extension=\${libdir}/claimq.so

Name: claimq
Version: $2
Description: leased, fenced work queues for SQLite
Cflags: -I\${includedir}
END
}

# The claimq.so that the dynamic linker finds by its name, or nothing.
found() {
  ldconfig -p | awk '$1=="claimq.so" {print $NF; exit}'
}

# Run ldconfig if it can be run; say what is left to do.
cache() {
  if [ "$(id -u)" = 0 ] && command -v ldconfig >/dev/null; then
    ldconfig
    case $(found) in
    "$1/claimq.so")
      echo "claimq is installed: .load claimq"
      return
      ;;
    "")
      echo "claimq is installed, but the dynamic linker does not search $1."
      echo "To load it without a path, run:"
      echo "  echo $1 > /etc/ld.so.conf.d/claimq.conf && ldconfig"
      ;;
    *)
      echo "claimq is installed, but .load claimq finds $(found) first."
      ;;
    esac
  else
    echo "claimq is installed.  To load it without a path, run:"
    echo "  sudo ldconfig"
    echo "or, for yourself alone:"
    echo "  export LD_LIBRARY_PATH=$1"
  fi
  echo "With a path it can be loaded now: .load $1/claimq"
}

what=$1
shift
PATH=$PATH:/sbin:/usr/sbin
case $what in
install)
  so=$1 prefix=$2 dest=$3 version=$4
  lib=$dest$prefix/lib
  mkdir -p "$lib/pkgconfig" "$dest$prefix/include"
  put "$so" "$lib/libclaimq.so"
  ln -sf libclaimq.so "$lib/claimq.so.tmp"
  mv -f "$lib/claimq.so.tmp" "$lib/claimq.so"
  put ext/claimq.h "$dest$prefix/include/claimq.h"
  write_pc "$prefix" "$version" >"$lib/pkgconfig/claimq.pc"
  if [ -z "$dest" ]; then
    cache "$prefix/lib"
  else
    echo "claimq is below $dest.  Where it ends up, run: ldconfig"
  fi
  ;;
uninstall)
  prefix=$1 dest=$2
  lib=$dest$prefix/lib
  rm -f "$lib/libclaimq.so" "$lib/claimq.so" "$lib/pkgconfig/claimq.pc" \
    "$dest$prefix/include/claimq.h"
  if [ -z "$dest" ] && [ "$(id -u)" = 0 ] && command -v ldconfig >/dev/null
  then
    ldconfig
  fi
  ;;
*)
  echo "usage: install.sh install|uninstall ..." >&2
  exit 2
  ;;
esac
