//! What may stand in a source file.

use crate::code::strip;

/// Most lines of a file that is not a test.
pub const LINES_MAX: usize = 1_000;
/// Most columns of a line, in characters; `rustfmt.toml` has the same number.
pub const COLUMNS_MAX: usize = 110;

/// What is never committed.
const NEVER: [&str; 4] = ["todo!(", "unimplemented!(", "#[ignore", "dbg!("];
/// Crates that may be `unsafe`: SIMD kernels, the embedded engine, direct I/O, checksums, simulated threads,
/// the ioctl of SCSI commands, memory that the kernel's queues read and write.
const UNSAFE_ALLOWED: [&str; 7] = ["erasure", "store", "drive", "base", "threads", "sgio", "disk_load"];
/// Crates without I/O, clock and threads of their own.
const PURE: [&str; 19] = [
    "base",
    "quantity",
    "erasure",
    "cluster",
    "kinetic",
    "kineticio",
    "ltfs",
    "mechanics",
    "topology",
    "scheduler",
    "catalogue",
    "usage",
    "planner",
    "scenario",
    "report",
    "twin",
    "sample",
    "replay",
    "validation",
];
/// Modules of `std` that do what those do not.
const IMPURE_MODULES: [&str; 5] = ["fs", "net", "thread", "process", "env"];
/// Clocks.
const CLOCKS: [&str; 2] = ["SystemTime", "Instant::now"];

/// Checks a source file at `path`, relative to the repository, such as `crates/base/src/lib.rs`.
#[must_use]
pub fn check_source(path: &str, text: &str) -> Vec<String> {
    let mut violations = Vec::new();
    let mut violation = |line: usize, what: String| violations.push(format!("{path}:{line}: {what}"));
    let lines = text.lines().count();
    if lines > LINES_MAX && !is_test(path) {
        violation(lines, format!("{lines} lines, at most {LINES_MAX}: split it"));
    }
    for (number, line) in text.lines().enumerate() {
        let columns = line.chars().count();
        if columns > COLUMNS_MAX {
            violation(number + 1, format!("{columns} columns, at most {COLUMNS_MAX}"));
        }
    }
    let code = strip(text);
    for never in NEVER {
        for line in code.lines_with(never) {
            violation(line, format!("{never} is never committed"));
        }
    }
    let owner = crate_of(path);
    if !UNSAFE_ALLOWED.contains(&owner) {
        for line in code.lines_with("unsafe") {
            violation(
                line,
                format!("crate {owner} is not unsafe; only {} may be", UNSAFE_ALLOWED.join(", ")),
            );
        }
    }
    if PURE.contains(&owner) && path.contains("/src/") && !is_test(path) {
        let code = code.without_tests();
        for module in IMPURE_MODULES {
            for line in code.lines_with_std(module) {
                violation(line, format!("crate {owner} is pure: no std::{module}"));
            }
        }
        for clock in CLOCKS {
            for line in code.lines_with(clock) {
                violation(line, format!("crate {owner} is pure: time is an argument, not {clock}"));
            }
        }
    }
    violations
}

fn crate_of(path: &str) -> &str {
    path.strip_prefix("crates/").and_then(|rest| rest.split('/').next()).unwrap_or("")
}

fn is_test(path: &str) -> bool {
    path.contains("/tests/") || path.ends_with("/tests.rs")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn count(path: &str, text: &str) -> usize {
        check_source(path, text).len()
    }

    #[test]
    fn long_files_and_lines() {
        let path = "crates/pool/src/a.rs";
        assert_eq!(count(path, &"\n".repeat(LINES_MAX)), 0);
        assert_eq!(count(path, &"\n".repeat(LINES_MAX + 1)), 1);
        assert_eq!(count("crates/pool/tests/a.rs", &"\n".repeat(LINES_MAX + 1)), 0);
        // Characters count, not bytes.
        assert_eq!(count(path, &format!("//{}", "é".repeat(COLUMNS_MAX - 2))), 0);
        assert_eq!(count(path, &format!("//{}", "é".repeat(COLUMNS_MAX - 1))), 1);
    }

    #[test]
    fn what_is_never_committed() {
        let path = "crates/pool/tests/a.rs";
        for text in ["todo!()", "unimplemented!(\"x\")", "#[ignore]", "#[ignore = \"slow\"]", "dbg!(x)"] {
            assert_eq!(count(path, text), 1, "{text}");
            assert_eq!(count(path, &format!("// {text}")), 0, "{text} in a comment");
        }
    }

    #[test]
    fn unsafe_has_its_places() {
        assert_eq!(count("crates/erasure/src/a.rs", "unsafe { x() }"), 0);
        for path in ["crates/pool/src/a.rs", "crates/archive/tests/a.rs", "crates/kist/examples/a.rs"] {
            assert_eq!(count(path, "unsafe { x() }"), 1, "{path}");
        }
    }

    #[test]
    fn cores_are_pure() {
        let bad = [
            "use std::fs;",
            "std::fs::read(x)",
            "use std::net::TcpStream;",
            "std::thread::sleep(x)",
            "use std::{collections::BTreeMap, thread};",
            "use std::time::SystemTime;",
            "let now = Instant::now();",
            "std::env::var(x)",
        ];
        for text in bad {
            assert_eq!(count("crates/scheduler/src/a.rs", text), 1, "{text}");
            assert_eq!(count("crates/base/src/a.rs", text), 1, "{text}");
            assert_eq!(count("crates/pool/src/a.rs", text), 0, "{text}");
            assert_eq!(count("crates/ltfs/tests/a.rs", text), 0, "{text}");
            assert_eq!(
                count("crates/ltfs/src/a.rs", &format!("#[cfg(test)]\nmod tests {{ {text} }}")),
                0,
                "{text}"
            );
        }
    }
}
