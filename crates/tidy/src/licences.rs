//! Which licences crates from elsewhere may have, and where they may come from.

/// The only registry.
const REGISTRY: &str = "registry+https://github.com/rust-lang/crates.io-index";

/// A package that the program or its tests are built with.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Foreign {
    /// Name and version.
    pub name: String,
    /// Its licence as its author has it: an SPDX expression, or names with `/` between them.
    pub licence: Option<String>,
    /// Where it comes from; `None` for a crate of this workspace.
    pub source: Option<String>,
}

/// Packages whose licence does not follow from those that are allowed, or that come from somewhere else.
#[must_use]
pub fn check_licences(packages: &[Foreign], allowed: &[String]) -> Vec<String> {
    let mut violations = Vec::new();
    for Foreign { name, licence, source } in packages {
        let licence = licence.as_deref().unwrap_or("");
        if !follows(licence, allowed) {
            violations.push(format!("{name}: the licence '{licence}' is not among those of deny.toml"));
        }
        if let Some(source) = source.as_deref().filter(|source| *source != REGISTRY) {
            violations.push(format!("{name} comes from {source}"));
        }
    }
    violations
}

/// Whether an expression holds if one may take exactly the allowed licences.
fn follows(expression: &str, allowed: &[String]) -> bool {
    let spaced = expression.replace('(', " ( ").replace(')', " ) ").replace('/', " OR ");
    let words: Vec<&str> = spaced.split_whitespace().collect();
    let mut rest = words.as_slice();
    alternatives(&mut rest, allowed) == Some(true) && rest.is_empty()
}

/// `a OR b OR …`; `None` if it is no expression.
fn alternatives(words: &mut &[&str], allowed: &[String]) -> Option<bool> {
    let mut holds = all_of(words, allowed)?;
    while let Some(("OR", rest)) = words.split_first().map(|(word, rest)| (*word, rest)) {
        *words = rest;
        holds |= all_of(words, allowed)?;
    }
    Some(holds)
}

/// `a AND b AND …`
fn all_of(words: &mut &[&str], allowed: &[String]) -> Option<bool> {
    let mut holds = one(words, allowed)?;
    while let Some(("AND", rest)) = words.split_first().map(|(word, rest)| (*word, rest)) {
        *words = rest;
        holds &= one(words, allowed)?;
    }
    Some(holds)
}

/// `( … )`, `licence` or `licence WITH exception`.
fn one(words: &mut &[&str], allowed: &[String]) -> Option<bool> {
    let (first, rest) = words.split_first()?;
    *words = rest;
    if *first == "(" {
        let holds = alternatives(words, allowed)?;
        let (")", rest) = words.split_first().map(|(word, rest)| (*word, rest))? else { return None };
        *words = rest;
        return Some(holds);
    }
    let mut licence = (*first).to_owned();
    if let ["WITH", exception, rest @ ..] = *words {
        licence = format!("{licence} WITH {exception}");
        *words = rest;
    }
    let is_name = !matches!(*first, ")" | "OR" | "AND" | "WITH");
    is_name.then(|| allowed.contains(&licence))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn allowed() -> Vec<String> {
        ["MIT", "Apache-2.0", "Apache-2.0 WITH LLVM-exception"].map(str::to_owned).to_vec()
    }

    #[test]
    fn an_expression_follows_from_what_is_allowed_or_not() {
        for right in [
            "MIT",
            "MIT/GPL-3.0",
            "GPL-3.0 OR MIT",
            "(MIT OR GPL-3.0) AND Apache-2.0",
            "Apache-2.0 WITH LLVM-exception",
            "GPL-3.0 AND MIT OR Apache-2.0",
        ] {
            assert!(follows(right, &allowed()), "{right}");
        }
        for wrong in [
            "",
            "GPL-3.0",
            "MIT AND GPL-3.0",
            "MIT AND (GPL-3.0 OR MPL-2.0)",
            "MIT WITH LLVM-exception",
            "(MIT",
            "MIT)",
            "MIT Apache-2.0",
            "OR MIT",
            "MIT OR",
        ] {
            assert!(!follows(wrong, &allowed()), "{wrong}");
        }
    }

    #[test]
    fn crates_come_from_one_registry() {
        let package = |licence: Option<&str>, source: Option<&str>| Foreign {
            name: "a 1.0.0".to_owned(),
            licence: licence.map(str::to_owned),
            source: source.map(str::to_owned),
        };
        let good = [package(Some("MIT"), Some(REGISTRY)), package(Some("MIT"), None)];
        assert_eq!(check_licences(&good, &allowed()), [""; 0]);
        let bad = [package(None, Some("git+https://example.org/a"))];
        assert_eq!(check_licences(&bad, &allowed()).len(), 2);
    }
}
