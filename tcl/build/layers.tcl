# layers.tcl: the folders of the source, from the bottom up.
#
#     source [file join [file dirname [info script]] layers.tcl]
#     layer_of ext/store/op.c                         ;# 1
#
# A file may use its own folder and those before it; the folders of one line
# know nothing of each other.  tcl/test/checks.tcl checks that, and the
# amalgamation (mkclaimq.tcl) has the files in this order.

set LAYERS {
  ext/core
  ext/store
  ext/engine
  {ext/contest ext/lane ext/letter ext/outbox ext/session}
  vtab
  ext
}

# The files of ext/store, likewise: each uses only those before it.
set STORE {
  watch op zoneinfo ids schema stmt rows conn gate settings request args lease
  txn init
}

# The number of the layer that a file is in, -1 if its folder is none of them.
proc layer_of {file} {
  return [lsearch -exact [lmap folders $::LAYERS {
    expr {[file dirname $file] in $folders}
  }] 1]
}
