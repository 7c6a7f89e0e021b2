#!/bin/sh
# Runs the tests of crate erasure for 64-bit ARM in qemu's emulation, on Debian 12 or newer for x86-64 with cargo 1.95
# or newer: every kernel there (NEON, portable) against the plain reference and against ISA-L, which is built for ARM
# too. Some six minutes.
#
# Installs gcc-aarch64-linux-gnu, libc6-dev-arm64-cross and qemu-user-static. The compiler is Debian's own rustc-web with
# its standard library for both processors; those packages are only unpacked, into a temporary directory that is removed,
# so that nothing gets into the way of another Rust toolchain.
set -eu
cd "$(dirname "$0")/../../../.."
work=$(mktemp -d)
trap 'rm -rf -- "$work"' EXIT
chmod 755 "$work"
sudo=
[ "$(id -u)" = 0 ] || sudo=sudo

command -v aarch64-linux-gnu-gcc >/dev/null && command -v qemu-aarch64-static >/dev/null || {
	$sudo apt-get update
	$sudo apt-get install --yes --no-install-recommends \
		gcc-aarch64-linux-gnu libc6-dev-arm64-cross qemu-user-static
}

# Lists of packages for both processors, without a change to what the machine's own apt knows.
mkdir -p "$work/lists/partial" "$work/cache/archives/partial" "$work/debs" "$work/root"
apt() {
	program=$1
	shift
	"$program" -o APT::Architecture=amd64 -o APT::Architectures=amd64,arm64 -o APT::Sandbox::User=root \
		-o Dir::State::lists="$work/lists" -o Dir::Cache="$work/cache" "$@"
}
# The packages that $1 depends on whose names begin with $2.
depends() {
	apt apt-cache depends "$1" | sed -n "s/^ *Depends: \($2[^:]*\).*/\1/p" | sort -u
}
apt apt-get --quiet update
library=$(depends libstd-rust-web-dev:amd64 libstd-rust)
llvm=$(depends "$library:amd64" libllvm)
(cd "$work/debs" && apt apt-get --quiet download rustc-web libstd-rust-web-dev:amd64 libstd-rust-web-dev:arm64 \
	"$library:amd64" "$llvm:amd64")
for package in "$work"/debs/*.deb; do
	dpkg --extract "$package" "$work/root"
done

export LD_LIBRARY_PATH="$work/root/usr/lib/x86_64-linux-gnu"
export RUSTC="$work/root/usr/bin/rustc"
export CARGO_TARGET_DIR="$work/target"
export CC_aarch64_unknown_linux_gnu=aarch64-linux-gnu-gcc
export AR_aarch64_unknown_linux_gnu=aarch64-linux-gnu-ar
export CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_LINKER=aarch64-linux-gnu-gcc
export CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_RUNNER="qemu-aarch64-static -L /usr/aarch64-linux-gnu"
cargo test --locked --package erasure --lib --test erasure --target aarch64-unknown-linux-gnu
