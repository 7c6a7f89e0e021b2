//! Expected times in words.

use std::time::Duration;

use terminal::text;
use wire::{CauseReply, ExpectedReply};

/// When something is done, with times as everywhere: `between 2026-11-21T20:29:00Z and 2026-11-21T21:10:00Z,
/// likely 2026-11-21T20:40:00Z`.
pub fn words(expected: &ExpectedReply) -> String {
    match expected {
        ExpectedReply::Within { earliest, likely, latest } => {
            let [earliest, likely, latest] = [earliest, likely, latest].map(|time| text::whole_seconds(time));
            format!("between {earliest} and {latest}, likely {likely}")
        }
        ExpectedReply::NotWithin { seconds } => {
            format!("not within {}", text::span(Duration::from_secs(*seconds)))
        }
        ExpectedReply::Never { .. } => "not before somebody does something about it".to_owned(),
    }
}

/// The same, or a dash.
pub fn words_or_dash(expected: Option<&ExpectedReply>) -> String {
    expected.map_or_else(|| "-".to_owned(), words)
}

/// A reason and when it is over, on one line.
pub fn cause(cause: &CauseReply) -> String {
    match &cause.expected {
        Some(expected @ ExpectedReply::Within { .. }) => {
            format!("{}; done {}", cause.text, words(expected))
        }
        Some(ExpectedReply::Never { reason }) if !cause.text.contains(&reason.text) => {
            format!("{}; not done before somebody does something: {}", cause.text, reason.text)
        }
        Some(ExpectedReply::Never { .. }) | None => cause.text.clone(),
        Some(expected) => format!("{}; {}", cause.text, words(expected)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Story: a line of `kist queue` had a time of the day in one column, a date with a fraction of a second
    /// in another, and a date in whole seconds in the reason.
    #[test]
    fn times_are_told_as_reasons_tell_them() {
        let at = |text: &str| text.to_owned();
        let within = ExpectedReply::Within {
            earliest: at("2026-05-04T14:05:09.5Z"),
            likely: at("2026-05-04T14:15:00Z"),
            latest: at("2026-05-05T14:40:00Z"),
        };
        assert_eq!(
            words(&within),
            "between 2026-05-04T14:05:09Z and 2026-05-05T14:40:00Z, likely 2026-05-04T14:15:00Z"
        );
        let days = ExpectedReply::NotWithin { seconds: 30 * 86_400 };
        assert_eq!(words(&days), "not within 30 d 0 h");
    }
}
