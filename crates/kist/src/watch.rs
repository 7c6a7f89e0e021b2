//! Lists that are shown again and again.

use std::collections::BTreeSet;
use std::io::{IsTerminal, stdout};
use std::thread;
use std::time::Duration;

use client::Client;
use terminal::{Failure, Outcome, output, text};
use wire::ClassReply;

use crate::cli::Common;

/// Clears a terminal and goes to its first line.
const CLEAR: &str = "\x1b[H\x1b[2J\x1b[3J";

/// The option.
#[derive(clap::Args, Clone, Copy, Debug)]
pub struct Watch {
    /// Show the list again every so many seconds, until interrupted
    #[arg(long, value_name = "SECONDS", num_args = 0..=1, default_missing_value = "2",
        value_parser = clap::value_parser!(u64).range(1..=86_400))]
    watch: Option<u64>,
}

impl Watch {
    /// Whether it was given.
    pub fn is_asked_for(self) -> bool {
        self.watch.is_some()
    }

    /// Shows what `list` gives, once or again and again.
    pub fn show(self, common: &Common, list: impl Fn() -> Outcome<String>) -> Outcome {
        let Some(seconds) = self.watch else { return output::write(&list()?) };
        if common.json {
            return Err(Failure::usage("--watch shows a list for people: leave --json out"));
        }
        loop {
            let shown = list()?;
            let (before, after) = if stdout().is_terminal() { (CLEAR, "") } else { ("", "\n") };
            let time = text::whole_seconds(&text::rfc3339(text::now()));
            output::write(&format!("{before}{time}, every {seconds} s\n\n{shown}{after}"))?;
            output::flush()?;
            thread::sleep(Duration::from_secs(seconds));
        }
    }
}

/// A list for people or programs: the table and its last line, or the elements as JSON.
pub fn list<T: serde::Serialize>(
    watch: Watch,
    common: &Common,
    get: impl Fn() -> Outcome<Vec<T>>,
    table: impl Fn(&[T]) -> String,
) -> Outcome {
    watch.show(common, || {
        let items = get()?;
        match common.json {
            true => output::json_text(&items),
            false => Ok(table(&items)),
        }
    })
}

/// Refuses the value of a filter that is none of the words there are: an empty list would look like an
/// answer.
pub fn check(filter: &str, value: Option<&str>, words: &BTreeSet<String>) -> Outcome {
    let Some(value) = value.filter(|value| !words.contains(*value)) else { return Ok(()) };
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let words = if words.is_empty() { "none".to_owned() } else { words.join(", ") };
    Err(Failure::usage(format!("{filter} {value}: unknown; there are: {words}")))
}

/// The names of all classes, and of the tape pools to which they go.
pub fn classes_and_pools(client: &Client) -> Outcome<(BTreeSet<String>, BTreeSet<String>)> {
    let classes: Vec<ClassReply> = client.get("/api/v1/classes")?;
    let pools = classes.iter().flat_map(|class| class.copies.clone()).collect();
    Ok((classes.into_iter().map(|class| class.name).collect(), pools))
}

/// Whether a filter lets something through; none lets everything.
pub fn is_asked(filter: Option<&str>, value: &str) -> bool {
    filter.is_none_or(|filter| filter == value)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A filter with a word that there is not gave an empty list, which looked like an answer.
    #[test]
    fn a_word_that_there_is_not_is_refused_with_those_that_there_are() {
        let words = BTreeSet::from(["vault-a".to_owned(), "vault-b".to_owned()]);
        check("--pool", None, &words).unwrap();
        check("--pool", Some("vault-b"), &words).unwrap();
        let refused = check("--pool", Some("vault"), &words).unwrap_err();
        assert_eq!(refused.exit.code(), 2);
        assert_eq!(refused.message, "--pool vault: unknown; there are: vault-a, vault-b");
    }
}
