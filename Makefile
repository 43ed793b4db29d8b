# claimq: build and test.
#
#   make                 claimq.so, here in the root
#   make demo            a short tour in the stock sqlite3 shell
#   make smoke           the functional tests, in seconds
#   make test            everything about the extension, in some 8 minutes on
#                        two cores
#   make test-builds     the same on other builds: sanitizers, asserts, fuzzers,
#                        the amalgamation, the oldest and newest SQLite
#   make test-packages   the packages, in every language that is here
#   make steady          ten minutes at a constant load: nothing may grow;
#                        MINUTES=5: five
#   make soak            the tests that take hours
#   make coverage        lines, branches and conditions that the tests reach
#   make mutate          jumps that can be changed without a test noticing it;
#                        FILE='ext/lane/*.c vtab/*.c': only of these;
#                        SAMPLE=20: every 20th of them
#   make cluster         claimq on rqlite nodes that are killed, cut off and
#                        restored, and under Litestream (needs Go and Python);
#                        STORY='load speed': only these
#   make bench           how fast it is
#   make bench-brokers   the same beside Redis, PostgreSQL, beanstalkd and others
#   make bench-workers   the workers of all languages beside other queues
#   make amalgamation    build/claimq.c and build/claimq.h: all in one file
#   make install         into PREFIX (/usr/local), below DESTDIR; make uninstall
#                        removes it again
#   make dist            build/dist/claimq-VERSION.tar.gz: the amalgamation and
#                        the manual, for whoever has a C compiler
#   make cross           claimq for other platforms, into build/dist; they are
#                        run where that is possible (qemu, wine, Node)
#   make packages        wheels, npm, Go, Rust, Java, Ruby, PHP, Debian, sqlpkg,
#                        into build/dist, ready to be uploaded
#   make deps            install or name what is missing
#
# On Debian as root, make deps, demo, smoke, test, test-builds, steady, soak,
# coverage, mutate and bench install what the extension's own tests need.
# test-packages,
# cluster, cross and packages install nothing unless they are run with
# INSTALL=1; they leave out what is missing, and print the command that would
# install it.
#
# A new source file in a folder of ext/ or in vtab/, or a new .sql file, is found
# automatically.
# For a second build beside the first, give it a place of its own:
#   make BUILD=build/asan SO=build/asan/claimq.so SANITIZE=-fsanitize=address

CC      = gcc
TCLSH   = tclsh
SQLITE3 = sqlite3
PREFIX  = /usr/local
BUILD   = build
SO      = claimq.so

WARN     = -std=c99 -Wall -Wextra -pedantic -Wshadow -Werror
OPT      = -O2
SANITIZE =
CFLAGS   = $(WARN) $(OPT) $(SANITIZE)
INCLUDE  = -Iext -Iext/core -Iext/store
CPPFLAGS = $(INCLUDE) -I$(BUILD)
SOFLAGS  = -shared -Wl,-z,nodelete -Wl,-soname,claimq.so $(SANITIZE)

VERSION  = $(shell sed -n 's/^.define CLAIMQ_VERSION *"\(.*\)"/\1/p' \
             ext/claimq.h)

SRC     := $(sort $(wildcard ext/*.c ext/*/*.c vtab/*.c))
PURE    := $(sort $(wildcard ext/core/*.c vtab/claim_plan.c))
SQL     := $(sort $(wildcard sql/*.sql sql/*/*.sql))
GEN      = $(BUILD)/claimq_sql.h $(BUILD)/rust_debug_table.h
OBJ      = $(SRC:%.c=$(BUILD)/%.o) $(BUILD)/claimq_sql.o
AMALG    = $(BUILD)/amalgamation/claimq.so

# Versions of SQLite that the tests get for themselves: too old for claimq, the
# oldest that is not, the newest.
TOO_OLD  = 3.38.2
OLD      = 3.39.0
NEW      = 3.53.4

# What the tests need besides the extension.
TOOLS    = $(BUILD)/cqtest.so
DRIVERS  = $(BUILD)/core_test $(BUILD)/static_test $(BUILD)/sim_test

.PHONY: all deps demo smoke test steady soak coverage mutate bench \
        bench-brokers bench-workers amalgamation \
        install uninstall dist cross packages clean \
        tools drivers asan debug test-ready builds-ready soak-ready \
        fuzzers cluster test-builds test-packages
.DELETE_ON_ERROR:

all: $(SO)

# Never write over a .so that a process may have loaded: make it aside, and
# rename.
$(SO): $(OBJ)
	$(CC) $(SOFLAGS) -o $(BUILD)/claimq.so.tmp $(OBJ)
	mv -f $(BUILD)/claimq.so.tmp $@

$(BUILD)/%.o: %.c | $(GEN)
	@mkdir -p $(@D)
	$(CC) $(CFLAGS) -fPIC -fvisibility=hidden $(CPPFLAGS) -MMD -MP -c -o $@ $<

$(BUILD)/claimq_sql.o: $(BUILD)/claimq_sql.c | $(GEN)
	$(CC) $(CFLAGS) -fPIC -fvisibility=hidden $(CPPFLAGS) -MMD -MP -c -o $@ $<

# One run of mksql.tcl writes both, and leaves alone what has not changed: it
# runs after every change of a .c file, to see that all parameters are bound.
# It is also the first thing to run, and says what is missing to build.
$(BUILD)/claimq_sql.stamp: tcl/build/mksql.tcl tcl/build/files.tcl $(SQL) \
                           $(SRC)
	@CC='$(CC)' CPPFLAGS='$(CPPFLAGS)' TCLSH='$(TCLSH)' \
	  sh tcl/test/deps.sh -build
	@mkdir -p $(@D)
	$(TCLSH) tcl/build/mksql.tcl $(@D) $(SQL) $(SRC)
	@touch $@
$(BUILD)/claimq_sql.c $(BUILD)/claimq_sql.h: $(BUILD)/claimq_sql.stamp ;

$(BUILD)/rust_debug_table.h: tcl/build/mkrust.tcl \
                             test/vectors/rust_debug_escape_ranges.tsv \
                             | $(BUILD)/claimq_sql.stamp
	@mkdir -p $(@D)
	$(TCLSH) $^ >$@.tmp
	mv -f $@.tmp $@

-include $(OBJ:.o=.d)

#--------------------------------------------------------------------------
# The amalgamation.  It is compiled as a user would, by the line that its first
# comment shows.

amalgamation: $(BUILD)/claimq.c $(BUILD)/claimq.h

$(BUILD)/claimq.c: tcl/build/mkclaimq.tcl tcl/build/layers.tcl $(SRC) \
                   $(wildcard ext/*.h ext/*/*.h) $(BUILD)/claimq_sql.c $(GEN)
	$(TCLSH) tcl/build/mkclaimq.tcl $@ $(BUILD)/claimq_sql.c $(SRC)

$(BUILD)/claimq.h: ext/claimq.h
	@mkdir -p $(@D)
	cp ext/claimq.h $@

$(AMALG): $(BUILD)/claimq.c
	@mkdir -p $(@D)
	$(CC) $(SANITIZE) -O2 -shared -fPIC -Wl,-z,nodelete -o $@.tmp $<
	mv -f $@.tmp $@

# The same without any help of the operating system: see ext/store/watch.c and
# gate.c.
POLL     = $(BUILD)/poll/claimq.so
$(POLL): $(BUILD)/claimq.c
	@mkdir -p $(@D)
	$(CC) $(SANITIZE) -DCLAIMQ_POLL -shared -fPIC -o $@.tmp $<
	mv -f $@.tmp $@

#--------------------------------------------------------------------------
# Tools and drivers of the tests.

tools: $(TOOLS)
drivers: $(DRIVERS)

TCLINC  = $(shell echo 'puts [::tcl::pkgconfig get includedir,runtime]' \
            | $(TCLSH))
TCLSTUB = $(shell echo 'set v [info tclversion]; \
            puts -ltclstub[expr {$$v<9 ? $$v : ""}]' | $(TCLSH))

$(BUILD)/cqtest.so: test/cqtest.c
	@mkdir -p $(@D)
	$(CC) $(CFLAGS) -fPIC -fvisibility=hidden -DUSE_TCL_STUBS -isystem $(TCLINC) \
	  -shared -o $@.tmp $< $(TCLSTUB) -lsqlite3 -ldl $(SANITIZE)
	mv -f $@.tmp $@

# The pure files, without SQLite.
PUREOBJ = $(PURE:%.c=$(BUILD)/%.o)
$(BUILD)/core_test: test/core_test.c $(wildcard test/core_*.h) $(PUREOBJ)
	$(CC) $(CFLAGS) $(CPPFLAGS) -o $@ test/core_test.c $(PUREOBJ)

# Linked into a program, as claimq.h describes it.  (The amalgamation makes all
# functions static, also those that only tests or later disciplines call.)
$(BUILD)/claimq_core.o: $(BUILD)/claimq.c
	$(CC) $(CFLAGS) -Wno-unused-function -DSQLITE_CORE -c -o $@ $<

$(BUILD)/static_test: test/static_main.c $(BUILD)/claimq_core.o ext/claimq.h
	$(CC) $(CFLAGS) -Iext -o $@ test/static_main.c $(BUILD)/claimq_core.o \
	  -lsqlite3

# Connections as coroutines over files that crash: see test/sim/sim.h.
$(BUILD)/sim_test: $(wildcard test/sim/*.[ch]) $(BUILD)/claimq_core.o
	$(CC) $(CFLAGS) -g -Iext -o $@ $(filter %.c %.o,$^) -lsqlite3

# The same with threads, under ThreadSanitizer.
$(BUILD)/threads_test: test/threads.c $(BUILD)/claimq.c ext/claimq.h
	$(CC) $(WARN) -O1 -g -fsanitize=thread -Wno-unused-function \
	  -DSQLITE_CORE -Iext -o $@ test/threads.c $(BUILD)/claimq.c -lsqlite3 \
	  -lpthread

# Other versions of SQLite, in build/sqlite-VERSION; see
# tcl/build/versions.tcl.  Two builds of a version share its source.
sqlite-%:
	@$(TCLSH) tcl/build/versions.tcl $*
sqlite-$(NEW)-%: sqlite-$(NEW)
	@$(TCLSH) tcl/build/versions.tcl $(NEW)-$*

# The fuzz targets, by clang's libFuzzer with sanitizers.  Only claimq and the
# targets are watched; what they share is not, it is to be fast.
CLANG    = clang
FUZZ     = $(BUILD)/fuzz
FUZZERS  = $(FUZZ)/fuzz_args $(FUZZ)/fuzz_ops $(FUZZ)/fuzz_rows
FUZZBASE = $(FUZZ)/claimq.o $(FUZZ)/fuzz_common.o $(FUZZ)/fuzz_image.o
FUZZSAN  = -fsanitize=fuzzer-no-link,address,undefined \
           -fno-sanitize-recover=undefined
FUZZC    = $(CLANG) $(WARN) -O1 -g -DSQLITE_CORE -DCLAIMQ_DEBUG -Iext

fuzzers: $(FUZZERS)

$(FUZZERS): %: %.o $(FUZZBASE)
	$(CLANG) -g -fsanitize=fuzzer,address,undefined -o $@ $^ -lsqlite3

$(FUZZ)/claimq.o: $(BUILD)/claimq.c
	@mkdir -p $(@D)
	$(FUZZC) $(FUZZSAN) -Wno-unused-function -c -o $@ $<

$(FUZZ)/fuzz_common.o $(FUZZ)/fuzz_image.o: FUZZSAN =
$(FUZZ)/fuzz_%.o: test/fuzz/fuzz_%.c $(wildcard test/fuzz/*.h) ext/claimq.h
	@mkdir -p $(@D)
	$(FUZZC) $(FUZZSAN) -c -o $@ $<

#--------------------------------------------------------------------------
# Tests.  deps comes first and alone: it may install what the rest needs.

RUN = $(TCLSH) tcl/test/runtests.tcl
SUB = @+$(MAKE) --no-print-directory -s
INSTALL ?=
export CC TCLSH INSTALL
PART = INSTALL=1 sh tcl/test/deps.sh -part

deps:
	@CC='$(CC)' TCLSH='$(TCLSH)' sh tcl/test/deps.sh

demo: deps
	$(SUB) all
	@# The shell ends with 1: the stale worker in the demo is refused.
	@stdbuf -oL $(SQLITE3) :memory: <test/demo.sql 2>&1; test $$? -eq 1

smoke: deps
	$(SUB) all tools
	@$(RUN) -files smoke $(SO)

# A build that watches itself: assert(), and the sanitizers of addresses,
# undefined behaviour and leaks.  And one with assert() alone, for a SQLite that
# has it too.
ASAN  = BUILD=build/asan SO=build/asan/claimq.so OPT='-O1 -g -DCLAIMQ_DEBUG' \
        SANITIZE=-fsanitize=address,undefined
DEBUG = BUILD=build/debug SO=build/debug/claimq.so OPT='-O1 -g -DCLAIMQ_DEBUG' \
        CPPFLAGS='-Ibuild/sqlite-$(NEW) $(INCLUDE) -Ibuild/debug'
ASANRUN = sh tcl/test/asan.sh $(RUN) -files
asan:
	$(SUB) $(ASAN) all
debug: sqlite-$(NEW)
	$(SUB) $(DEBUG) all

# The extension as it is built for use, on the SQLite of this machine: every
# test of it once; and what each kind of queue does, watched by the sanitizers.
test-ready: all tools drivers amalgamation $(AMALG) $(BUILD)/bench/bench asan \
            sqlite-$(OLD) sqlite-$(NEW)
WATCHED = {lane session outbox contest letter limit after step policy}

test: deps
	@$(PART) valgrind valgrind valgrind || true
	$(SUB) -j2 test-ready
	@$(RUN) \
	  -cmd checks '$(TCLSH) tcl/test/checks.tcl $(BUILD) $(SO) $(AMALG)' \
	  -cmd core '$(BUILD)/core_test test/vectors' \
	  -files smoke $(SO) \
	  -cmd sim $(BUILD)/sim_test \
	  -files test $(SO) \
	  -cmd sanitizers '$(ASANRUN) $(WATCHED) build/asan/claimq.so' \
	  -cmd static $(BUILD)/static_test

# A counted number of runs of each fuzz target; CLAIMQ_SOAK=N: N minutes.
FUZZRUN = $(TCLSH) tcl/test/fuzz.tcl $(FUZZ) $(CLANG)

# The amalgamation is the same C in one file: what could differ is how it is
# loaded, declared and linked.
ONEFILE   = load plan lane session outbox contest letter
ASANFILES = {smoke oom fault_* !fault_matrix}

# The same extension built or surrounded otherwise: by those tests that can tell
# the difference.
builds-ready: test-ready debug $(POLL) $(BUILD)/threads_test

test-builds: deps
	@INSTALL=1 $(FUZZRUN) -deps
	$(SUB) -j2 builds-ready
	@$(RUN) \
	  -env 'CLAIMQ_SEED=3 CLAIMQ_SAMPLE=3' \
	  -cmd sanitizers '$(ASANRUN) $(ASANFILES) build/asan/claimq.so' \
	  -env '' \
	  -cmd fuzz '$(FUZZRUN)' \
	  -files '$(ONEFILE)' $(AMALG) \
	  -files 'wait wait_workers' $(POLL) \
	  -cmd threads '$(BUILD)/threads_test 1' \
	  -sqlite $(NEW) -env CLAIMQ_SEED=2 \
	  -files 'fault_matrix fault_prepare' build/debug/claimq.so \
	  -env '' \
	  -sqlite $(OLD) -files 'plan load statement' $(SO) \
	  -sqlite $(NEW) -files 'smoke contend statement' $(SO)

# The packages, installed and used in each language whose toolchain is there.
# What the languages fetch and compile for that is kept in build/packages: the
# first time takes minutes, and more where the network is slow.
test-packages: deps
	$(SUB) all tools amalgamation
	@$(RUN) -files package $(SO)

steady: deps
	$(SUB) all tools
	@MINUTES='$(MINUTES)' $(RUN) -files steady $(SO)

# What takes hours, the shorter parts first: every version of SQLite, and every
# place for a fault.  SOAK says how much of what has no end:
#   10*SOAK seconds of threads, 10*SOAK of simulation,
#   30*SOAK workers killed in each journal mode,
#   SOAK fresh seeds for the oracle and for random statements, SOAK minutes
#   for each fuzz target and of constant load,
#   SOAK places of each fault in each cell of the fault matrix,
#   SOAK % of the mutants.
# SOAK=1 is the shortest: there the sanitizers see faults at the places that make
# test has, and the versions run without the tests of faults and of cost.  Parts
# of it were measured one by one, on two cores with a load of 6 to 9 by others:
# 42 s of threads; 14 min with SQLite's asserts; for a version of SQLite 32 to
# 71 s of smoke, 6 min of test without fault_session and fault_matrix; 43 min
# for every place of fault_*, oom and crash, one after the other.  (A SQLite
# with asserts counts steps that others do not make: no *_cost there.)
SOAK     = 100
SOAKONE  = $(filter 1,$(SOAK))
SOAKASAN = $(if $(SOAKONE),-u CLAIMQ_SOAK,CLAIMQ_SOAK=1)
SOAKALL  = smoke test $(if $(SOAKONE),!fault_* !*_cost)
VALGRIND = valgrind -q --error-exitcode=9 --trace-children=yes
soak-ready: builds-ready sqlite-$(NEW)-debug sqlite-$(NEW)-tsan \
            sqlite-$(TOO_OLD)

soak: deps
	@$(PART) valgrind valgrind valgrind || true
	@INSTALL=1 $(FUZZRUN) -deps
	$(SUB) -j2 soak-ready
	@CLAIMQ_SOAK=$(SOAK) $(RUN) \
	  -sqlite $(NEW)-tsan/system \
	  -cmd threads '$(BUILD)/threads_test $(SOAK)0' \
	  -sqlite system \
	  -cmd sim '$(BUILD)/sim_test -seconds $(SOAK)0' \
	  -env '-u CLAIMQ_SOAK' \
	  -sqlite $(TOO_OLD) -files old $(SO) \
	  -sqlite system -with '$(VALGRIND)' -files smoke $(SO) -with '' \
	  -sqlite $(NEW)-debug -files 'smoke test !*_cost' build/debug/claimq.so \
	  -sqlite all -files '$(SOAKALL)' $(SO) \
	  -sqlite system \
	  -env '$(SOAKASAN)' \
	  -cmd sanitizers '$(ASANRUN) {smoke test} build/asan/claimq.so' \
	  -env '' \
	  -files 'test soak steady package' $(SO) \
	  -cmd fuzz '$(FUZZRUN)' \
	  -cmd mutate '$(TCLSH) tcl/test/mutate.tcl -sample '$$(((99+$(SOAK))/$(SOAK)))

# Same tests, on builds that count: lines and branches by gcc, and conditions
# (MC/DC) by clang.  A process that a test kills while it writes its counts
# leaves half a file, and the next one says so: not into what tests compare.
COV = BUILD=build/coverage SO=build/coverage/claimq.so \
      OPT='-O0 -g -DNDEBUG -DCLAIMQ_COVERAGE_TEST' SANITIZE=--coverage
MCDC = CC=clang-19 BUILD=build/mcdc SO=build/mcdc/claimq.so \
      OPT='-O0 -g -DNDEBUG -DCLAIMQ_COVERAGE_TEST' \
      SANITIZE='-fprofile-instr-generate -fcoverage-mapping -fcoverage-mcdc'
COVRUN = CLAIMQ_EVERY=1 GCOV_ERROR_FILE=$(CURDIR)/$$b/gcov.log \
      $(RUN) -cmd core "$$b/core_test test/vectors" \
      -files smoke $$b/claimq.so -files test $$b/claimq.so
coverage: deps
	$(SUB) tools
	@rm -rf build/mcdc/prof
	@find build/coverage -name '*.gcda' -exec rm -f {} + 2>/dev/null || true
	$(SUB) $(COV) build/coverage/claimq.so build/coverage/core_test
	@b=build/coverage; $(COVRUN)
	@if $(PART) MC/DC clang-19 clang-19 llvm-cov-19 llvm-19 \
	    /usr/lib/llvm-19/lib/clang/19/lib libclang-rt-19-dev; then \
	  $(MAKE) --no-print-directory -s $(MCDC) \
	    build/mcdc/claimq.so build/mcdc/core_test && \
	  b=build/mcdc && export LLVM_PROFILE_FILE=$(CURDIR)/$$b/prof/%4m.profraw \
	    && $(COVRUN) && $(TCLSH) tcl/test/coverage.tcl build/coverage $$b; \
	else $(TCLSH) tcl/test/coverage.tcl build/coverage; fi

# Compiled as a user's program would be: it loads claimq.so like any other.
$(BUILD)/bench/bench: $(wildcard test/bench/*.c test/bench/*.h)
	@mkdir -p $(@D)
	$(CC) $(WARN) -O2 -g -o $@.tmp $(filter %.c,$^) -lsqlite3
	mv -f $@.tmp $@

# See test/cluster/run.sh.
cluster: deps
	$(SUB) all tools
	@sh test/cluster/run.sh $(BUILD) $(SO) $(STORY)

# The program with one jump changed, again and again: see tcl/test/mutate.tcl.
# All jumps are flipped; those of the pure core are also taken always and never.
SAMPLE = 1
FILE   = *
mutate: deps
	@$(TCLSH) tcl/test/mutate.tcl -file '$(FILE)' -sample $(SAMPLE)

# QUICK=1: in a minute, without the peers.
bench: deps
	$(SUB) all $(BUILD)/bench/bench
	@QUICK='$(QUICK)' $(TCLSH) tcl/bench/bench.tcl $(BUILD)

# INSTALL=1 installs the servers.  The run replaces the tables and the plot of
# test/bench.
bench-brokers: deps amalgamation
	@INSTALL='$(INSTALL)' $(TCLSH) tcl/bench/brokers.tcl
	cp $(BUILD)/brokers.json test/bench/brokers.json
	@$(TCLSH) tcl/bench/broker_table.tcl

# The workers of all languages beside other queues, as make test-packages has
# left them; the run replaces the table of test/bench.  INSTALL=1 installs the
# peers that Debian has.
bench-workers:
	@$(TCLSH) tcl/bench/workers.tcl -readme $(JOBS)

#--------------------------------------------------------------------------

# What is handed out, in $(BUILD)/dist; see tcl/dist/dist.tcl.

dist: amalgamation
	@$(TCLSH) tcl/dist/dist.tcl $(BUILD)

# For other machines; TARGETS='linux-aarch64 windows-x86_64': only for these.
cross: amalgamation sqlite-$(NEW)
	@SQLITE_SOURCE=$(NEW) $(TCLSH) tcl/dist/cross.tcl $(BUILD) $(TARGETS)

# As each language installs things; PACKAGES='python node': only these.
packages: cross
	@$(TCLSH) tcl/dist/packages.tcl $(BUILD) $(PACKAGES)

# `.load claimq` works afterwards, without a path: see tcl/dist/install.sh.
install: all
	@sh tcl/dist/install.sh install '$(SO)' '$(PREFIX)' '$(DESTDIR)' '$(VERSION)'

uninstall:
	@sh tcl/dist/install.sh uninstall '$(PREFIX)' '$(DESTDIR)'

clean:
	rm -rf build $(SO)
