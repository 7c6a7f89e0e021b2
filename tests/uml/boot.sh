# Boots a User-Mode Linux with the host's files and runs checks in it; read by tests/scsi/run and tests/disks/run.
# Needs no root. Before `boot` the caller sets `name` (what the test is called), `limit_seconds` (nothing takes as
# long as this), `memory` and `modules_wanted`, calls `need` and `prepare`, and may put more into $work.
set -euo pipefail
root="$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)"
target="$(realpath -m "${CARGO_TARGET_DIR:-$root/target}")"
kist="${KIST:-$target/release/kist}"

# Says what is missing of these programs, and of the modules.
need() {
    for each in linux.uml python3 "$@"; do
        PATH="$PATH:/usr/sbin:/sbin" command -v "$each" >/dev/null || {
            echo "$each is missing: make needs-test-$name" >&2; exit 1; }
    done
    modules=$(find /usr/lib/uml/modules -mindepth 1 -maxdepth 1 -type d | head -1)
    [ -n "$modules" ] || { echo "the modules of user-mode-linux are missing: make needs-test-$name" >&2; exit 1; }
}

# Makes $work, which the guest sees as $KIST_UML; the arguments are the checks to run, none: all.
prepare() {
    # The guest has a /dev of its own: what is in the host's, as /dev/shm, is not there.
    case "${TMPDIR:-/tmp}" in /dev/*) TMPDIR=/tmp ;; esac
    work=$(mktemp -d "${TMPDIR:-/tmp}/kist-$name-XXXXXX")
    trap 'rm -rf -- "$work"' EXIT
    # The kernel hands what it does not know to init as its environment; a word is at most what fits a line of it.
    printf '%s\n' "$@" > "$work/checks"
    printf '%s\n' "$modules_wanted" > "$work/wanted"
    ln -s "$kist" "$work/kist"
    ln -s "$modules" "$work/modules"
    ln -s "$root/tests/$name" "$work/scripts"
}

# Runs the checks; the whole output is in target/$name.log.
boot() {
    local begin=$SECONDS
    timeout --kill-after=5 "$limit_seconds" linux.uml mem="$memory" root=/dev/root rootfstype=hostfs rootflags=/ rw quiet \
        con=null con0=fd:0,fd:1 umid="kist-$name-$$" "KIST_UML=$work" "init=$root/tests/uml/guest" \
        </dev/null 2>&1 | tee "$target/$name.log" | grep -a --line-buffered -E '^(ok|FAILED|  )' || true
    if ! grep -q '^passed$' "$work/result" 2>/dev/null; then
        echo "tests/$name: failed, or did not come to its end; see $target/$name.log" >&2
        tail -30 "$target/$name.log" >&2
        exit 1
    fi
    echo "tests/$name: passed in $((SECONDS - begin)) s"
}
