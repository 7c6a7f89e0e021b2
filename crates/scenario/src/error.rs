//! Why a scenario cannot be used.

use std::fmt;

/// A line of a file.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Place {
    /// The file's name, as it was given or as the scenario names it.
    pub file: String,
    /// From 1; 0: the file as a whole.
    pub line: usize,
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.line {
            0 => f.write_str(&self.file),
            line => write!(f, "{}:{line}", self.file),
        }
    }
}

/// Why a scenario cannot be used. Keys are full paths, as `variant."30,000 in the queue".tape.recall_age`.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ScenarioError {
    /// Not TOML.
    #[error("{place}: this is not TOML: {message}")]
    Syntax {
        /// Where.
        place: Box<Place>,
        /// The parser's words.
        message: String,
    },
    /// A key that means nothing there.
    #[error("{place}: {key}: unknown key{}; known here: {}", meant(.nearest), .known.join(", "))]
    UnknownKey {
        /// Where.
        place: Box<Place>,
        /// The key.
        key: String,
        /// The known one that is written most alike, if any is.
        nearest: Option<String>,
        /// All that are known there.
        known: Vec<String>,
    },
    /// A word in the place of one of a few.
    #[error("{place}: {key}: '{word}' is not known{}; write one of: {}", meant(.nearest), .known.join(", "))]
    UnknownWord {
        /// Where.
        place: Box<Place>,
        /// The key.
        key: String,
        /// What was written.
        word: String,
        /// The known one that is written most alike, if any is.
        nearest: Option<String>,
        /// All that are known there.
        known: Vec<String>,
    },
    /// Something must be said and is not.
    #[error("{place}: {key} is missing: add it; docs/reference/twin.md says what it means")]
    Missing {
        /// The table in which it should be.
        place: Box<Place>,
        /// The key.
        key: String,
    },
    /// The value of a key cannot be read, or cannot be.
    #[error("{place}: {key}: {problem}")]
    Value {
        /// Where.
        place: Box<Place>,
        /// The key.
        key: String,
        /// What is wrong and what would be right.
        problem: String,
    },
    /// Something is named that is not there.
    #[error("{place}: {key}: there is no {kind} '{name}'{}; {}", meant(.nearest), there_are(.known))]
    NotThere {
        /// Where.
        place: Box<Place>,
        /// The key.
        key: String,
        /// What kind of thing.
        kind: &'static str,
        /// What was asked for.
        name: String,
        /// The one that is written most alike, if any is.
        nearest: Option<String>,
        /// All that there are.
        known: Vec<String>,
    },
    /// Too much of something.
    #[error("{place}: {key}: {found} {what}, but {most} at most can be simulated ({limit}): ask for less")]
    Limit {
        /// Where.
        place: Box<Place>,
        /// The key; empty for the file as a whole.
        key: String,
        /// Of what.
        what: &'static str,
        /// How much.
        found: u64,
        /// The limit.
        most: u64,
        /// The limit's name in the documentation.
        limit: &'static str,
    },
    /// The site's file cannot be read.
    #[error("{place}: site: '{name}': {problem}")]
    Site {
        /// Where.
        place: Box<Place>,
        /// The site, or its file.
        name: String,
        /// The reader's words.
        problem: String,
    },
    /// A variant that was asked for is not there.
    #[error("there is no variant '{name}'{}; {}", meant(.nearest), there_are(.known))]
    NoVariant {
        /// What was asked for.
        name: String,
        /// The one that is written most alike, if any is.
        nearest: Option<String>,
        /// All that there are.
        known: Vec<String>,
    },
}

fn meant(nearest: &Option<String>) -> String {
    nearest.as_ref().map_or(String::new(), |nearest| format!(" (did you mean '{nearest}'?)"))
}

/// Names that are listed in a message.
const LISTED_MAX: usize = 20;

fn there_are(known: &[String]) -> String {
    match known.len() {
        0 => "there is none: add one".to_owned(),
        1..=LISTED_MAX => format!("there are: {}", known.join(", ")),
        _ => format!("there are {}, the first of them: {}", known.len(), known[..LISTED_MAX].join(", ")),
    }
}

/// The known word that is written most alike, if it is alike at all.
pub fn nearest<'a>(word: &str, known: impl Iterator<Item = &'a str>) -> Option<String> {
    // A slip in about every third letter.
    let most = word.chars().count().min(60) / 3 + 1;
    let near = known.map(|known| (slips(word, known), known)).filter(|(slips, _)| *slips <= most);
    near.min_by_key(|(slips, _)| *slips).map(|(_, known)| known.to_owned())
}

/// Letters to be put in, taken out or changed to make one word of the other; words are taken to end at the
/// 80th letter.
fn slips(one: &str, other: &str) -> usize {
    let [one, other] = [one, other].map(|word| word.to_lowercase().chars().take(80).collect::<Vec<_>>());
    let mut row: Vec<usize> = (0..=other.len()).collect();
    for (at, letter) in one.iter().enumerate() {
        let mut diagonal = row[0];
        row[0] = at + 1;
        for (column, there) in other.iter().enumerate() {
            let same = diagonal + usize::from(letter != there);
            diagonal = row[column + 1];
            row[column + 1] = same.min(diagonal + 1).min(row[column] + 1);
        }
    }
    row[other.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_word_nearly_right_is_found() {
        let known = ["recall_age", "recall_bytes", "remount_delay"];
        let near = |word| nearest(word, known.into_iter());
        assert_eq!(near("recal_age").as_deref(), Some("recall_age"));
        assert_eq!(near("Recall_Bites").as_deref(), Some("recall_bytes"));
        assert_eq!(near("x"), None);
        assert_eq!(near(""), None);
    }
}
