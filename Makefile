# Targets: run, test, sanitize, torture, bench, bench-erasure, bench-s3, lint, clean-demo. `make run FROM=/some/tree` archives that tree.

DIR ?= kist-data
CARGO ?= cargo
KIST := $(or $(CARGO_TARGET_DIR),target)/release/kist

# A demonstration's instance grows by about 4 GB with each run; `make clean-demo` removes it.
.PHONY: run build needs needs-test needs-isal test torture sanitize lint bench bench-erasure bench-s3 clean-demo

# Installs what is missing, builds, and shows everything: init, serve, put, migrate, evict, stage, compare.
run: build
	$(KIST) demo $(if $(FROM),--from "$(FROM)" )$(DIR)

build: needs
	$(CARGO) build --release --locked --package kist

# LMDB is written in C, so a C compiler is needed. Installed only if it is missing and we may.
needs:
	@command -v $(CARGO) >/dev/null || { \
		echo "cargo is missing: install a Rust toolchain, 1.95 or newer, then again" >&2; exit 1; }
	@command -v cc >/dev/null || $(call install,build-essential)

# The tests also read a cartridge with programs that share no code with Kist, and compare parity with ISA-L's,
# which is built from the sources in a crate, as is libFuzzer, in C++.
needs-test: needs needs-isal
	@command -v c++ >/dev/null || $(call install,g++)
	@$(CARGO) fmt --version >/dev/null && $(CARGO) clippy --version >/dev/null || { \
		echo "rustfmt and clippy are missing: add these components to the toolchain, then again" >&2; exit 1; }
	@command -v python3 >/dev/null || $(call install,python3)
	@command -v tar >/dev/null || $(call install,tar)
	@for each in s3cmd curl openssl; do command -v $$each >/dev/null || $(call install,$$each); done
	@python3 -c 'import venv, ensurepip' 2>/dev/null || $(call install,python3-venv)
	@[ "$$KIST_CLIENTS_SKIP_GO" = 1 ] || command -v go >/dev/null || { \
		echo "go is missing (rclone and restic, which the tests use, are built with it): install Go, 1.25 or newer," \
			"or set KIST_CLIENTS_SKIP_GO=1 to leave them out" >&2; exit 1; }
	@[ "$$KIST_NO_PTRACE" = 1 ] || command -v strace >/dev/null || $(call install,strace)

needs-isal: needs
	@command -v nasm >/dev/null && command -v autoreconf >/dev/null && command -v libtoolize >/dev/null \
		&& command -v make >/dev/null || $(call install,nasm autoconf automake libtool make)

# Installs a Debian package, or says which one is missing.
install = { \
	sudo=; [ "$$(id -u)" = 0 ] || sudo=sudo; \
	if command -v apt-get >/dev/null; then \
		$$sudo apt-get update && $$sudo apt-get install --yes --no-install-recommends $(1); \
	else \
		echo "$(1) is missing: install it, then again" >&2; exit 1; \
	fi; }

# All that decides a merge.
test: needs-test lint
	$(CARGO) test --workspace --locked
	tests/run

# The hunts at full size: the whole system in the simulator, the scheduler in the twin, then the real server and real
# files. KIST_TORTURE_FAULTS, KIST_TWIN_FAULTS, KIST_CRASH_IMAGES (simulated machines), KIST_SYSCALL_IMAGES (real files), KIST_KILL_POINTS, KIST_FLIPS (in each of pool,
# cartridges and catalogue) and KIST_SOAK_MINUTES override the figures; instances lie in memory, but for the tapes of
# the soak.
TORTURE_DIR := $(or $(TMPDIR),/tmp)/kist-torture
TORTURE_TMP := $(if $(wildcard /dev/shm),/dev/shm,/tmp)
torture: needs-test
	$(CARGO) run --release --locked --package simulator -- --seed 1 --faults $(or $(KIST_TORTURE_FAULTS),1000000)
	KIST_TWIN_FAULTS=$(or $(KIST_TWIN_FAULTS),1000000) \
		$(CARGO) test --release --locked --package twin --test faults -- --nocapture
	KIST_CRASH_IMAGES=$(or $(KIST_CRASH_IMAGES),100000) \
		$(CARGO) test --release --locked --package simulator --test crash_images -- --nocapture
	$(CARGO) build --release --locked --package kist --package torture
	KIST_KILL_POINTS=$(or $(KIST_KILL_POINTS),2000) TMPDIR=$(TORTURE_TMP) \
		$(CARGO) test --release --locked --package torture --test kill_points -- --nocapture
	KIST_SYSCALL_IMAGES=$(or $(KIST_SYSCALL_IMAGES),20000) TMPDIR=$(TORTURE_TMP) \
		$(CARGO) test --release --locked --package torture --test syscall_images -- --nocapture
	KIST_FLIPS=$(or $(KIST_FLIPS),34000) TMPDIR=$(TORTURE_TMP) \
		$(CARGO) test --release --locked --package pool --package mover --package store --test flips -- --nocapture
	rm -rf -- $(TORTURE_DIR) $(TORTURE_TMP)/kist-torture-pool && mkdir -p $(TORTURE_DIR)
	$(dir $(KIST))soak --kist $(KIST) --dir $(TORTURE_DIR)/soak --pool-dir $(TORTURE_TMP)/kist-torture-pool \
		--minutes $(or $(KIST_SOAK_MINUTES),60) --clients 64
	rm -rf -- $(TORTURE_DIR) $(TORTURE_TMP)/kist-torture-pool

# The tests of the crate that reads and writes through pointers most, under AddressSanitizer with every kernel, then under
# valgrind with those it knows (up to AVX2). Some five minutes. ISA-L, which the tests link, is left as it is: the
# sanitizer of the C compiler is another one.
SANITIZE_DIR := $(or $(CARGO_TARGET_DIR),target)/sanitize
SANITIZE_TARGET := x86_64-unknown-linux-gnu
sanitize: needs-test
	@command -v valgrind >/dev/null || $(call install,valgrind)
	CFLAGS=-fno-sanitize=address RUSTC_BOOTSTRAP=1 RUSTFLAGS=-Zsanitizer=address CARGO_TARGET_DIR=$(SANITIZE_DIR) \
		$(CARGO) test --locked --package erasure --lib --test erasure --target $(SANITIZE_TARGET)
	rm -rf -- $(SANITIZE_DIR)
	CARGO_TARGET_X86_64_UNKNOWN_LINUX_GNU_RUNNER="valgrind --quiet --error-exitcode=9" \
		$(CARGO) test --locked --package erasure --lib --test erasure -- --skip long:: --skip a_24_2_4

# The check is of the program as it is released: tests ask for features that it does not have.
lint: needs-test
	$(CARGO) fmt --all --check
	$(CARGO) clippy --workspace --all-targets --locked -- -D warnings
	$(CARGO) check --package kist --locked
	RUSTDOCFLAGS="-D warnings" $(CARGO) doc --workspace --no-deps --document-private-items --locked

# The budgets of the design beside today's figures and this machine's limits, printed and written into
# docs/reference/performance.md.
bench: build
	benches/budgets.sh $(DISK)

# Erasure coding beside ISA-L, klauspost/reedsolomon (if Go is there) and the memory, on the same buffers in turn: all
# rows as JSON below target/, the summary printed and written into docs/reference/erasure.md. QUICK=1: in a minute.
bench-erasure: build needs-isal
	$(CARGO) build --release --locked --package erasure --example isal_peer
	benches/erasure.sh $(if $(QUICK),--quick)

# Kist beside MinIO and versitygw, both built with Go, on drives in memory: rows as JSON below target/, the table written
# into docs/reference/performance.md. Making the million keys of the listings takes longest. QUICK=1: in two minutes.
bench-s3: build
	benches/s3.sh $(if $(QUICK),--quick)

# Removes the instance of the demonstration.
clean-demo:
	@test ! -e $(DIR) || test -e $(DIR)/admin.key || { echo "$(DIR) is not of kist demo: left alone" >&2; exit 1; }
	rm -rf -- $(DIR)
