# Targets: run, xrootd, test, grid, test-scsi, test-disks, lint, hunt, hunt-PART, sanitize, bench, bench-erasure, bench-s3, bench-doors, clean-demo. `make run FROM=/some/tree` archives that tree.

DIR ?= kist-data
CARGO ?= cargo
# Not KIST: tests read the program to test from a variable of that name.
RELEASED := $(abspath $(or $(CARGO_TARGET_DIR),target))/release/kist

# A demonstration's instance grows by about 4 GB with each run; `make clean-demo` removes it.
.PHONY: run build xrootd grid needs needs-xrootd needs-test needs-test-scsi needs-test-disks needs-uml needs-hunt needs-isal needs-bench-doors test test-scsi test-disks hunt sanitize lint bench bench-erasure bench-s3 bench-doors clean-demo

# Installs what is missing, builds, and shows everything: init, serve, put, migrate, evict, stage, compare.
run: build
	$(RELEASED) demo $(if $(FROM),--from "$(FROM)" )$(DIR)

build: needs
	$(CARGO) build --release --locked --package kist

# The plugins of a stock XRootD 5.5 server (docs/reference/xrootd.md), below target/xrootd.
xrootd: needs-xrootd
	$(MAKE) --no-print-directory -C xrootd all check BUILD=$(abspath $(or $(CARGO_TARGET_DIR),target))/xrootd

# Their headers, a server and its clients. Debian starts no server of a package without configuration by itself.
needs-xrootd:
	@command -v c++ >/dev/null || $(call install,g++)
	@test -e /usr/include/xrootd/XrdOss/XrdOss.hh || $(call install,libxrootd-server-dev libxrootd-private-dev)
	@command -v xrootd >/dev/null && command -v xrdsssadmin >/dev/null && command -v xrdcp >/dev/null \
		|| $(call install,xrootd-server xrootd-plugins xrootd-client)
	@[ ! -x /usr/bin/python3 ] || /usr/bin/python3 -c 'import XRootD' 2>/dev/null || $(call install,python3-xrootd)

# LMDB is written in C, so a C compiler is needed. Installed only if it is missing and we may.
needs:
	@command -v $(CARGO) >/dev/null || { \
		echo "cargo is missing: install a Rust toolchain, 1.95 or newer, then again" >&2; exit 1; }
	@command -v cc >/dev/null || $(call install,build-essential)

# The tests also read a cartridge with programs that share no code with Kist, speak iSCSI with tgt and libiscsi, and
# Kinetic with Seagate's client library (Java), and compare parity with ISA-L's, which is built from the sources in a crate.
needs-test: needs needs-isal
	@$(CARGO) fmt --version >/dev/null && $(CARGO) clippy --version >/dev/null || { \
		echo "rustfmt and clippy are missing: add these components to the toolchain, then again" >&2; exit 1; }
	@command -v python3 >/dev/null || $(call install,python3)
	@command -v tar >/dev/null || $(call install,tar)
	@command -v nm >/dev/null || $(call install,binutils)
	@for each in java javac; do command -v $$each >/dev/null || $(call install,default-jdk-headless); done
	@command -v mvn >/dev/null || $(call install,maven)
	@for each in s3cmd curl openssl fio; do command -v $$each >/dev/null || $(call install,$$each); done
	@python3 -c 'import venv, ensurepip' 2>/dev/null || $(call install,python3-venv)
	@command -v tgtd >/dev/null || test -x /usr/sbin/tgtd || $(call install,tgt)
	@command -v iscsi-test-cu >/dev/null || $(call install,libiscsi-bin)
	@for each in litmus davix; do \
		command -v $$each >/dev/null || command -v $$each-get >/dev/null || $(call install,$$each); done
	@command -v gfal-copy >/dev/null || $(call install,gfal2-util-scripts gfal2-plugin-http gfal2-plugin-file python3-gfal2-util)
	@[ "$$KIST_NO_PTRACE" = 1 ] || command -v strace >/dev/null || $(call install,strace)

# Hunts also build libFuzzer, in C++, and clients that are written in Go.
needs-hunt: needs-test
	@command -v c++ >/dev/null || $(call install,g++)
	@command -v valgrind >/dev/null || $(call install,valgrind)
	@command -v go >/dev/null || { \
		echo "go is missing (rclone and restic are built with it): install Go, 1.25 or newer" >&2; exit 1; }

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

# All that decides a merge: the same each time. No hunt (see there), no random seed, each crate compiled once. What was
# green with the very same program and files is not run again; ALL=1 runs all, and so does a fresh clone.
test: needs-test build xrootd
	$(CARGO) fmt --all --check
	KIST=$(RELEASED) tests/gate

# The doors of the grid with the clients of the grid: xrdcp, xrdfs, the Python client, kills and hangs, 200 clients. Some five
# minutes; what takes seconds of it is a part of `make test`.
grid: needs-test build xrootd
	KIST=$(RELEASED) tests/grid/run

# Real /dev/sg* and /dev/st* without hardware: a User-Mode Linux, its kernel's iSCSI initiator on `kist library serve`, and
# mtx, mt, sg3-utils, Bacula's btape and Kist itself on what the kernel shows. Needs no root but for installing; two minutes.
test-scsi: needs-test-scsi build
	KIST=$(RELEASED) tests/scsi/run

# Of Bacula only its test of a drive, with the libraries that it needs: unpacked and not installed, since its package starts
# a daemon.
BTAPE := $(abspath $(or $(CARGO_TARGET_DIR),target))/btape
unpack-btape = { \
	command -v apt-get >/dev/null || { echo "btape is missing: unpack Debian's bacula-sd into $(BTAPE)" >&2; exit 1; }; \
	mkdir -p $(BTAPE) && cd $(BTAPE) && apt-get download bacula-sd bacula-common libwrap0 libnsl2 libtirpc3 \
		&& for each in *.deb; do dpkg -x $$each .; done; }

needs-test-scsi: needs needs-uml
	@command -v mtx >/dev/null || test -x /usr/sbin/mtx || $(call install,mtx)
	@command -v sg_inq >/dev/null || $(call install,sg3-utils)
	@command -v lsscsi >/dev/null || $(call install,lsscsi)
	@command -v mt >/dev/null && mt --version 2>/dev/null | grep -q mt-st || $(call install,mt-st)
	@command -v iscsiadm >/dev/null || test -x /usr/sbin/iscsiadm || $(call install,open-iscsi)
	@test -x $(BTAPE)/usr/sbin/btape || $(unpack-btape)

# What is common to the tests in a User-Mode Linux.
needs-uml:
	@command -v linux.uml >/dev/null || $(call install,user-mode-linux)
	@command -v modprobe >/dev/null || test -x /usr/sbin/modprobe || $(call install,kmod)
	@command -v python3 >/dev/null || $(call install,python3)

# Paths, blocks and disks that fail, become slow or lie while files are put and read: the kernel's own disks of scsi_debug,
# two paths each. In five minutes. Its output: target/disks.log.
test-disks: needs-test-disks build
	KIST=$(RELEASED) tests/disks/run

needs-test-disks: needs needs-uml
	@command -v dmsetup >/dev/null || test -x /usr/sbin/dmsetup || $(call install,dmsetup)
	@command -v mkfs.xfs >/dev/null || test -x /usr/sbin/mkfs.xfs || $(call install,xfsprogs)

# Lints alone, without generating code; licences, sources and known faults of crates from elsewhere (deny.toml) too, if
# cargo-deny is there. A test of tidy holds licences and sources in any case.
lint: export CARGO_INCREMENTAL := 0
lint: needs-test
	$(CARGO) fmt --all --check
	$(CARGO) clippy --workspace --all-targets --locked -- -D warnings
	@if $(CARGO) deny --version >/dev/null 2>&1; then $(CARGO) deny --locked check; \
		else echo "cargo-deny is not there, so deny.toml was not checked: cargo install --locked cargo-deny" >&2; fi

# All that is long: fuzzing, campaigns, kills and crash images at full size, clients written in Go, sanitizers, benchmarks.
# A line of figures for each part, beside those of the last hunt; they are kept in tests/hunt.tsv. One part: make hunt-fuzz;
# their names: tests/hunt --list.
hunt: needs-hunt build
	tests/hunt

hunt-%: needs-hunt build
	tests/hunt $*

# The tests of the crate that reads and writes through pointers most, under AddressSanitizer with every kernel, then under
# valgrind with those it knows (up to AVX2). Some five minutes. ISA-L, which the tests link, is left as it is: the
# sanitizer of the C compiler is another one.
SANITIZE_DIR := $(or $(CARGO_TARGET_DIR),target)/sanitize
SANITIZE_TARGET := x86_64-unknown-linux-gnu
sanitize: needs-hunt
	KIST_LONG_STRIPES=16 CFLAGS=-fno-sanitize=address RUSTC_BOOTSTRAP=1 RUSTFLAGS=-Zsanitizer=address CARGO_TARGET_DIR=$(SANITIZE_DIR) \
		$(CARGO) test --locked --package erasure --lib --test erasure --target $(SANITIZE_TARGET)
	rm -rf -- $(SANITIZE_DIR)
	CARGO_TARGET_X86_64_UNKNOWN_LINUX_GNU_RUNNER="valgrind --quiet --error-exitcode=9" \
		$(CARGO) test --locked --package erasure --lib --test erasure -- --skip long:: --skip a_24_2_4

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

# WebDAV, XRootD and S3 beside nginx and a stock XRootD on the same memory, and the Tape REST API: rows as JSON below target/,
# the tables written into docs/reference/performance.md. Some minutes. QUICK=1: in half a minute.
bench-doors: build xrootd needs-bench-doors
	NGINX=$(NGINX) benches/doors.sh $(if $(QUICK),--quick)

# nginx with its DAV module, as Debian builds it: unpacked and not installed, since its package starts a daemon.
NGINX := $(abspath $(or $(CARGO_TARGET_DIR),target))/nginx
unpack-nginx = { \
	command -v apt-get >/dev/null || { echo "nginx is missing: install it with its DAV module, then again" >&2; exit 1; }; \
	mkdir -p $(NGINX) && cd $(NGINX) && apt-get download nginx && for each in *.deb; do dpkg -x $$each .; done; }

needs-bench-doors: needs-xrootd
	@command -v nginx >/dev/null || test -x /usr/sbin/nginx || test -x $(NGINX)/usr/sbin/nginx || $(unpack-nginx)

# Removes the instance of the demonstration.
clean-demo:
	@test ! -e $(DIR) || test -e $(DIR)/admin.key || { echo "$(DIR) is not of kist demo: left alone" >&2; exit 1; }
	rm -rf -- $(DIR)
