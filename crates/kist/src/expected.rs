//! Expected times in words.

use std::time::Duration;

use base::Timestamp;
use wire::{CauseReply, ExpectedReply};

use crate::text;

/// Ranges that are shorter than this are told to the second.
const TO_THE_SECOND: Duration = Duration::from_secs(600);

/// When something is done: `between 14:05 and 14:40 UTC, likely 14:15`.
pub fn words(expected: &ExpectedReply, now: Timestamp) -> String {
    match expected {
        ExpectedReply::Within { earliest, likely, latest } => {
            match [earliest, likely, latest].map(|time| text::parse_rfc3339(time)) {
                [Some(earliest), Some(likely), Some(latest)] => range(earliest, likely, latest, now),
                _ => format!("between {earliest} and {latest}, likely {likely}"),
            }
        }
        ExpectedReply::NotWithin { seconds } => {
            format!("not within {}", text::span(Duration::from_secs(*seconds)))
        }
        ExpectedReply::Never { .. } => "not before somebody does something about it".to_owned(),
    }
}

/// The same, or a dash.
pub fn words_or_dash(expected: Option<&ExpectedReply>, now: Timestamp) -> String {
    expected.map_or_else(|| "-".to_owned(), |expected| words(expected, now))
}

/// A reason and when it is over, on one line.
pub fn cause(cause: &CauseReply, now: Timestamp) -> String {
    match &cause.expected {
        Some(expected @ ExpectedReply::Within { .. }) => {
            format!("{}; done {}", cause.text, words(expected, now))
        }
        Some(ExpectedReply::Never { reason }) if !cause.text.contains(&reason.text) => {
            format!("{}; not done before somebody does something: {}", cause.text, reason.text)
        }
        Some(ExpectedReply::Never { .. }) | None => cause.text.clone(),
        Some(expected) => format!("{}; {}", cause.text, words(expected, now)),
    }
}

fn range(earliest: Timestamp, likely: Timestamp, latest: Timestamp, now: Timestamp) -> String {
    let to_the_second = latest.since(earliest) < TO_THE_SECOND;
    let time = |at| clock(at, now, to_the_second);
    format!("between {} and {} UTC, likely {}", time(earliest), time(latest), time(likely))
}

/// The time of the day, with the date if it is another day than `now`.
fn clock(at: Timestamp, now: Timestamp, to_the_second: bool) -> String {
    let (year, month, day, hour, minute, second, _) = at.civil();
    let (this_year, this_month, today, ..) = now.civil();
    let date = match (year, month, day) == (this_year, this_month, today) {
        true => String::new(),
        false => format!("{year:04}-{month:02}-{day:02} "),
    };
    let seconds = if to_the_second { format!(":{second:02}") } else { String::new() };
    format!("{date}{hour:02}:{minute:02}{seconds}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_told_as_people_tell_them() {
        let now = Timestamp::from_civil(2026, 5, 4, 12, 0, 0, 0).unwrap();
        let within = |from: &str, likely: &str, to: &str| {
            words(
                &ExpectedReply::Within { earliest: from.into(), likely: likely.into(), latest: to.into() },
                now,
            )
        };
        assert_eq!(
            within("2026-05-04T14:05:09.5Z", "2026-05-04T14:15:00Z", "2026-05-04T14:40:00Z"),
            "between 14:05 and 14:40 UTC, likely 14:15"
        );
        assert_eq!(
            within("2026-05-04T12:00:01Z", "2026-05-04T12:00:02Z", "2026-05-04T12:00:10Z"),
            "between 12:00:01 and 12:00:10 UTC, likely 12:00:02"
        );
        assert_eq!(
            within("2026-05-04T23:00:00Z", "2026-05-05T01:00:00Z", "2026-05-06T02:00:00Z"),
            "between 23:00 and 2026-05-06 02:00 UTC, likely 2026-05-05 01:00"
        );
        let days = ExpectedReply::NotWithin { seconds: 30 * 86_400 };
        assert_eq!(words(&days, now), "not within 30 d 0 h");
    }
}
