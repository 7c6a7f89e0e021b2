//! How much of what the code takes for granted it states.

use crate::code::strip;

/// What counts as an assertion: it ends the process if it is false, at run time or already at compile time.
const MACROS: [&str; 6] =
    ["assert!(", "assert_eq!(", "assert_ne!(", "debug_assert!(", "debug_assert_eq!(", "debug_assert_ne!("];

/// Crates that hold data, with the assertions that each has for 1,000 lines of its code. What was reached is
/// kept: a number here may rise and does not fall.
pub const FLOORS: [(&str, usize); 4] = [("catalogue", 12), ("store", 15), ("mover", 22), ("pool", 16)];

/// Assertions and lines of code, of one file or more.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Stated {
    /// Assertions outside of tests.
    pub assertions: usize,
    /// Lines outside of tests that hold more than a comment.
    pub lines: usize,
}

impl Stated {
    /// What a source file states; nothing if it is a test.
    #[must_use]
    pub fn of(path: &str, text: &str) -> Stated {
        if path.contains("/tests/") || path.ends_with("tests.rs") {
            return Stated::default();
        }
        let code = strip(text).without_tests();
        let assertions = MACROS.iter().map(|name| code.lines_with(name).len()).sum();
        Stated { assertions, lines: code.text().lines().filter(|line| !line.trim().is_empty()).count() }
    }

    /// Both together.
    #[must_use]
    pub fn and(self, other: Stated) -> Stated {
        Stated { assertions: self.assertions + other.assertions, lines: self.lines + other.lines }
    }

    /// Whether there are at least so many assertions for 1,000 lines.
    #[must_use]
    pub fn reaches(self, floor: usize) -> bool {
        self.lines > 0 && self.assertions * 1_000 >= floor * self.lines
    }
}

/// The crates of [`FLOORS`] that state less than they did, among sources by their paths.
#[must_use]
pub fn check_assertions(sources: &[(String, String)]) -> Vec<String> {
    let below = FLOORS.iter().filter_map(|(name, floor)| {
        let within = format!("crates/{name}/src/");
        let own = sources.iter().filter(|(path, _)| path.starts_with(&within));
        let stated = own.map(|(path, text)| Stated::of(path, text)).fold(Stated::default(), Stated::and);
        let Stated { assertions, lines } = stated;
        let what =
            format!("crate {name}: {assertions} assertions in {lines} lines, {floor} in 1,000 are kept");
        (!stated.reaches(*floor)).then_some(what)
    });
    below.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn assertions_of_code_are_counted_and_those_of_tests_are_not() {
        let text = "\
//! assert!(in a comment)
fn f(a: u64) {
    assert!(a > 0, \"assert!(in a text)\");
    debug_assert_eq!(a, 1);

    const { assert!(true) };
}

#[cfg(test)]
mod tests {
    fn g() { assert_ne!(1, 2) }
}
";
        assert_eq!(Stated::of("crates/pool/src/a.rs", text), Stated { assertions: 3, lines: 5 });
        assert_eq!(Stated::of("crates/pool/src/a_tests.rs", text), Stated::default());
        assert_eq!(Stated::of("crates/pool/tests/it/a.rs", text), Stated::default());
    }

    #[test]
    fn a_crate_that_states_less_than_it_did_is_found() {
        let file = |name: &str, text: String| (format!("crates/{name}/src/a.rs"), text);
        let sources = |of_pool: usize| -> Vec<(String, String)> {
            let text = |assertions| format!("{}{}", "assert!(x);\n".repeat(assertions), "f();\n".repeat(900));
            FLOORS.map(|(name, _)| file(name, text(if name == "pool" { of_pool } else { 100 }))).to_vec()
        };
        assert_eq!(check_assertions(&sources(100)), [""; 0]);
        assert_eq!(check_assertions(&sources(0)).len(), 1);
        // A crate that is not found states nothing.
        assert_eq!(check_assertions(&[]).len(), FLOORS.len());
        assert!(Stated { assertions: 16, lines: 1_000 }.reaches(16));
        assert!(!Stated { assertions: 16, lines: 1_001 }.reaches(16));
    }
}
