# hakmem: the usual commands. `make help` lists them.
#
# SPDX-License-Identifier: Apache-2.0 OR MIT
SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := build
.PHONY: build run test test-all quick soak soak-hardened faults fuzz programs glibc-tests model bench bench-quick bench-build lint format install clean help

PREFIX ?= /usr/local
DESTDIR ?=
LDCONFIG ?= ldconfig # so that programs find what was installed
BENCH_ARGS ?=
PROGRAMS_ARGS ?=
LOGS := build/logs

# $(call logged,what,log name,command): one line on the terminal, the rest in a log; its end is shown on failure.
define logged
mkdir -p $(LOGS); printf '%s ... ' "$(1)"; \
if $(3) >$(LOGS)/$(2).log 2>&1 </dev/null; then echo ok; \
else echo failed; tail -n 60 $(LOGS)/$(2).log >&2; echo 'all of it: $(LOGS)/$(2).log' >&2; exit 1; fi
endef

build: ## build the library and the command (build/release)
	@tools/check-build-tools.sh
	@$(call logged,configuring build/release,configure-release,cmake --preset release)
	@$(call logged,building libhakmem and the hakmem command,build-release,\
	  cmake --build --preset release --target hakmem_products)
	@echo 'built: build/release/libhakmem.so, libhakmem-hardened.so, libhakmem.a, hakmem'

run: ## install what is needed, build, and show what hakmem does to two real programs
	@tools/setup-run.sh
	@$(MAKE) --no-print-directory build
	@bash bench/run-demo.sh

test: ## install what is needed, then the tests of allocator and command in all variants, and the gates (about 15 minutes)
	@tools/setup-test.sh
	@/usr/bin/env python3 -B tools/run_tests.py variants

test-all: ## the same, and the tools in Python, other compilers, C libraries, processors, kernels, packages, the checkers
	@tools/setup-test.sh
	@/usr/bin/env python3 -B tools/run_tests.py all

quick: ## build the release variant and run its tests
	@tools/check-build-tools.sh
	@/usr/bin/env python3 -B tools/run_tests.py quick

soak: ## stress for SOAK_MINUTES (60)
	@tools/setup-test.sh
	@for preset in release debug; do \
	  $(call logged,configuring $$preset,soak-configure-$$preset,cmake --preset $$preset); \
	  $(call logged,building $$preset,soak-build-$$preset,cmake --build --preset $$preset); \
	done
	@tools/soak.sh

soak-hardened: ## 10^9 operations of the stress under the hardened library (SOAK_HARDENED_OPS)
	@SOAK_HARDENED_OPS=$${SOAK_HARDENED_OPS:-1000000000} $(MAKE) --no-print-directory soak

faults: ## refuse each system call of the library, one by one, in five programs (about half an hour)
	@tools/setup-test.sh
	@$(call logged,configuring release,faults-configure,cmake --preset release)
	@$(call logged,building release,faults-build,cmake --build --preset release)
	@/usr/bin/env python3 -B tests/faults/run.py --all --refuse build/release/tests/faults/faults_refuse \
	  --library build/release/libhakmem.so --stress build/release/tests/stress/stress

fuzz: ## run the fuzz targets for FUZZ_MINUTES (12), under libFuzzer and AFL++
	@tools/setup-fuzz.sh
	@for preset in fuzz afl; do \
	  $(call logged,configuring $$preset,fuzz-configure-$$preset,cmake --preset $$preset); \
	  $(call logged,building $$preset,fuzz-build-$$preset,cmake --build --preset $$preset); \
	done
	@tools/fuzz.sh

programs: ## install more than fifty programs and compare them with and without hakmem (PROGRAMS_ARGS)
	@tools/setup-programs.sh
	@$(MAKE) --no-print-directory build
	@/usr/bin/env python3 -B tests/programs/run.py --lib build/release/libhakmem.so --all $(PROGRAMS_ARGS)

glibc-tests: ## build glibc once and run its own tests of malloc, threads, files, the loader under hakmem (GLIBC_ARGS)
	@tools/setup-glibc.sh
	@$(MAKE) --no-print-directory build
	@/usr/bin/env python3 -B tests/glibc/run.py $(GLIBC_ARGS)

model: ## check the models of the lock-free protocols, the large ones too (some minutes)
	@tools/setup-test.sh
	@/usr/bin/env python3 -B model/run.py

bench: ## set up peers and programs, build, and run all benchmarks (BENCH_ARGS; under 40 minutes)
	@tools/setup-bench.sh
	@$(MAKE) --no-print-directory bench-build
	@build/release/hakmem bench $(BENCH_ARGS)

bench-quick: ## the same with small work (under 3 minutes)
	@tools/setup-bench.sh
	@$(MAKE) --no-print-directory bench-build
	@build/release/hakmem bench --quick $(BENCH_ARGS)

bench-build: build
	@$(call logged,building the benchmark programs,build-bench,\
	  cmake --build --preset release --target hakmem_bench)

lint: ## formatting, clang-tidy, shellcheck
	@/usr/bin/env python3 -B tools/run_tests.py lint

format: ## bring the C and C++ sources into the house format
	@tools/format.sh

install: build ## install below PREFIX (and DESTDIR)
	@umask 022; $(call logged,installing to $(DESTDIR)$(PREFIX),install,\
	  env DESTDIR='$(DESTDIR)' cmake --install build/release --prefix '$(PREFIX)')
ifeq ($(DESTDIR),)
	-@PATH="$$PATH:/usr/sbin:/sbin"; [[ $$EUID -ne 0 ]] || ! command -v $(LDCONFIG) >/dev/null || $(LDCONFIG)
endif

clean: ## remove everything that was built
	@rm -rf build

help: ## this list
	@echo 'make TARGET   (the default is build)'
	@grep -E '^[a-z-]+:.*## ' Makefile | sed -E 's/^([a-z-]+):.*## /\1\t/' | expand -t 15 | sed 's/^/  /'
	@echo 'Variables: PREFIX (for install, /usr/local), DESTDIR, SOAK_MINUTES, SOAK_SEED, SOAK_HARDENED_OPS, FUZZ_MINUTES, BENCH_ARGS, PROGRAMS_ARGS'
