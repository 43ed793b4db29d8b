# npm.tcl: packages of npm for tests, each fetched once into a folder.
#
#     npm_package DIR PACKAGE ...      or SKIP (see story.tcl)
#
# A package may have a version: knex@3.3.0.

set npm {npm install --silent --no-audit --no-fund --no-package-lock
  --fetch-retries=1 --fetch-timeout=60000}

proc package_json {dir} {
  file mkdir $dir
  if {[file exists $dir/package.json]} return
  set fd [open $dir/package.json w]
  puts $fd {{"name": "app", "private": true, "type": "module"}}
  close $fd
}

proc npm_package {dir args} {
  if {[auto_execok npm] eq ""} {skip "there is no npm"}
  package_json $dir
  foreach package $args {
    regsub {(.)@[^@/]*$} $package {\1} name
    if {![file isdirectory $dir/node_modules/$name]} {
      or_skip {*}$::npm --prefix $dir $package
    }
  }
}
