# claimq: build and test.
#
#   make                 claimq.so, here in the root
#   make demo            a short tour in the stock sqlite3 shell
#   make smoke           the functional tests, in seconds
#   make test            everything, in minutes
#   make soak            the tests that take hours
#   make coverage        lines and branches that the tests reach
#   make bench           how fast it is
#   make amalgamation    build/claimq.c and build/claimq.h: all in one file
#   make install         into PREFIX (/usr/local), below DESTDIR
#   make deps            install or name what is missing
#
# A new source file in ext/ or vtab/ or a new .sql file is found by itself.
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
CPPFLAGS = -Iext -Ivtab -I$(BUILD)
SOFLAGS  = -shared -Wl,-z,nodelete $(SANITIZE)

VERSION  = $(shell sed -n 's/^.define CLAIMQ_VERSION *"\(.*\)"/\1/p' \
             ext/claimq.h)

SRC     := $(sort $(wildcard ext/*.c vtab/*.c))
PURE    := $(sort $(wildcard ext/core_*.c ext/sha256.c ext/rust_debug.c \
             vtab/claim_plan.c))
SQL     := $(sort $(wildcard sql/*.sql))
GEN      = $(BUILD)/claimq_sql.h $(BUILD)/rust_debug_table.h
OBJ      = $(SRC:%.c=$(BUILD)/%.o) $(BUILD)/claimq_sql.o
AMALG    = $(BUILD)/amalgamation/claimq.so

# What the tests need besides the extension.
TOOLS    = $(BUILD)/cqtest.so
DRIVERS  = $(BUILD)/core_test $(BUILD)/static_test

.PHONY: all deps demo smoke test soak coverage bench amalgamation \
        install uninstall clean tools drivers
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

# One run of mksql.tcl writes both, the .c first.
$(BUILD)/claimq_sql.c: tcl/mksql.tcl $(SQL)
	@mkdir -p $(@D)
	$(TCLSH) tcl/mksql.tcl $(@D) $(SQL)
$(BUILD)/claimq_sql.h: $(BUILD)/claimq_sql.c ;

$(BUILD)/rust_debug_table.h: tcl/mkrust.tcl \
                             test/vectors/rust_debug_escape_ranges.tsv
	@mkdir -p $(@D)
	$(TCLSH) $^ >$@.tmp
	mv -f $@.tmp $@

-include $(OBJ:.o=.d)

#--------------------------------------------------------------------------
# The amalgamation.  It is compiled as a user would, without any option.

amalgamation: $(BUILD)/claimq.c $(BUILD)/claimq.h

$(BUILD)/claimq.c: tcl/mkclaimq.tcl $(SRC) $(wildcard ext/*.h vtab/*.h) \
                   $(BUILD)/claimq_sql.c $(GEN)
	$(TCLSH) tcl/mkclaimq.tcl $@ $(BUILD)/claimq_sql.c $(SRC)

$(BUILD)/claimq.h: ext/claimq.h
	@mkdir -p $(@D)
	cp ext/claimq.h $@

$(AMALG): $(BUILD)/claimq.c
	@mkdir -p $(@D)
	$(CC) $(SANITIZE) -shared -fPIC -o $@.tmp $<
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
$(BUILD)/static_test: test/static_main.c $(BUILD)/claimq.c ext/claimq.h
	$(CC) $(CFLAGS) -Wno-unused-function -DSQLITE_CORE -Iext -o $@ \
	  test/static_main.c $(BUILD)/claimq.c -lsqlite3

#--------------------------------------------------------------------------
# Tests.  deps comes first and alone: it may install what the rest needs.

RUN = $(TCLSH) tcl/runtests.tcl
SUB = @$(MAKE) --no-print-directory -s

deps:
	@CC='$(CC)' TCLSH='$(TCLSH)' sh tcl/deps.sh

demo: deps
	$(SUB) all
	@# The shell ends with 1: the stale worker in the demo is refused.
	@stdbuf -oL $(SQLITE3) :memory: <test/demo.sql 2>&1; test $$? -eq 1

smoke: deps
	$(SUB) all tools
	@$(RUN) -files smoke $(SO)

# The functional tests again, on a build that watches itself: assert(), and the
# address and undefined-behaviour sanitizers.  (Leaks are counted to the byte
# by the harness, in every build.)
ASAN = BUILD=build/asan SO=build/asan/claimq.so OPT='-O1 -g -DCLAIMQ_DEBUG' \
       SANITIZE=-fsanitize=address,undefined
ASANLIB = $(shell $(CC) -print-file-name=libasan.so):$(shell \
            $(CC) -print-file-name=libubsan.so)
ASANRUN = env ASAN_OPTIONS=detect_leaks=0 UBSAN_OPTIONS=halt_on_error=1 \
          LD_PRELOAD=$(ASANLIB) $(RUN) -files smoke build/asan/claimq.so

test: deps
	$(SUB) all tools drivers $(AMALG)
	$(SUB) $(ASAN) all
	@$(RUN) \
	  -cmd checks '$(TCLSH) tcl/checks.tcl $(BUILD) $(SO) $(AMALG)' \
	  -cmd core '$(BUILD)/core_test test/vectors' \
	  -files smoke $(SO) \
	  -files smoke $(AMALG) \
	  -cmd static $(BUILD)/static_test \
	  -cmd sanitizers '$(ASANRUN)' \
	  -files test $(SO)

# Every place for a fault, many seeds, and what takes hours.
soak: deps
	$(SUB) all tools
	@CLAIMQ_SOAK=100 $(RUN) -files test $(SO) -files soak $(SO)

# Same tests, on a build that counts.
COV = BUILD=build/coverage SO=build/coverage/claimq.so \
      OPT='-O0 -g -DNDEBUG' SANITIZE=--coverage
coverage: deps
	$(SUB) tools
	@find build/coverage -name '*.gcda' -exec rm -f {} + 2>/dev/null || true
	$(SUB) $(COV) build/coverage/claimq.so build/coverage/core_test
	@$(RUN) -cmd core 'build/coverage/core_test test/vectors' \
	  -files smoke build/coverage/claimq.so \
	  -files test build/coverage/claimq.so
	@$(TCLSH) tcl/coverage.tcl build/coverage

bench: deps
	$(SUB) all tools
	@if [ -e tcl/bench.tcl ]; then $(TCLSH) tcl/bench.tcl; \
	else echo 'SKIPPED bench: there is no tcl/bench.tcl yet'; fi

#--------------------------------------------------------------------------

LIBDIR = $(DESTDIR)$(PREFIX)/lib
INCDIR = $(DESTDIR)$(PREFIX)/include

install: all
	mkdir -p $(LIBDIR)/pkgconfig $(INCDIR)
	cp $(SO) $(LIBDIR)/claimq.so.tmp
	mv -f $(LIBDIR)/claimq.so.tmp $(LIBDIR)/claimq.so
	cp ext/claimq.h $(INCDIR)/claimq.h
	printf '%s\n' 'prefix=$(PREFIX)' 'libdir=$${prefix}/lib' \
	  'includedir=$${prefix}/include' 'extension=$${libdir}/claimq.so' '' \
	  'Name: claimq' 'Version: $(VERSION)' \
	  'Description: leased, fenced work queues for SQLite' \
	  'Cflags: -I$${includedir}' >$(LIBDIR)/pkgconfig/claimq.pc

uninstall:
	rm -f $(LIBDIR)/claimq.so $(INCDIR)/claimq.h \
	  $(LIBDIR)/pkgconfig/claimq.pc

clean:
	rm -rf build $(SO)
