//! What cannot be, and at which key.

/// What cannot be.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Finding {
    /// The key.
    pub path: Vec<String>,
    /// What is wrong with it.
    pub problem: Problem,
}

/// What is wrong with a key.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Problem {
    /// In words, with what would be right.
    Words(String),
    /// It names something that is not there.
    NotThere {
        /// What kind of thing.
        kind: &'static str,
        /// What was asked for.
        name: String,
        /// All that there are.
        known: Vec<String>,
    },
    /// It asks for too much.
    Limit {
        /// Of what.
        what: &'static str,
        /// How much.
        found: u64,
        /// The limit.
        most: u64,
        /// Its name.
        limit: &'static str,
    },
    /// It must be said.
    Missing,
}

/// A path of words.
pub fn at(path: &[&str]) -> Vec<String> {
    path.iter().map(|key| (*key).to_owned()).collect()
}

/// That a key is wrong.
pub fn wrong<T>(path: &[&str], problem: &str) -> Result<T, Finding> {
    Err(Finding { path: at(path), problem: Problem::Words(problem.to_owned()) })
}

/// That a key must be there.
pub fn missing<T>(path: &[&str]) -> Result<T, Finding> {
    Err(Finding { path: at(path), problem: Problem::Missing })
}

/// That something is no more than it may be.
pub fn limited(
    path: &[&str],
    what: &'static str,
    found: u64,
    most: u64,
    limit: &'static str,
) -> Result<(), Finding> {
    if found <= most {
        return Ok(());
    }
    Err(Finding { path: at(path), problem: Problem::Limit { what, found, most, limit } })
}
