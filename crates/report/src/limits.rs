//! What ran out, in sentences.

use super::text::{time, whole, with_unit};
use crate::outcome::Outcome;

/// Which part of the runs the means cover, if they leave something out.
pub fn covered(shown: &[&Outcome]) -> Option<String> {
    let says = |outcome: &&&Outcome| {
        let found = if outcome.is_warm_up_found { " (found)" } else { "" };
        format!("{}{found}", time(outcome.warm_up))
    };
    let cut: Vec<_> = shown.iter().filter(|outcome| outcome.warm_up > 0.0).collect();
    let first = cut.first()?;
    let is_alike = cut.len() == shown.len() && cut.iter().all(|outcome| outcome.warm_up == first.warm_up);
    let left_out = if is_alike {
        says(first)
    } else {
        let each: Vec<String> =
            cut.iter().map(|outcome| format!("{} of “{}”", says(outcome), outcome.variant)).collect();
        each.join(", ")
    };
    Some(format!(
        "Rates, shares and means over time leave out the first {left_out}; waits, campaigns, mounts and the \
         most of anything do not."
    ))
}

/// What still waited at the end for something that was not there: tapes, or room in the pool.
pub fn limits(outcome: &Outcome) -> Vec<String> {
    let mut found = Vec::new();
    let variant = &outcome.variant;
    if outcome.no_tape_bytes > 0 {
        let since = outcome.no_tape_since.map(|at| format!(" after {}", time(at))).unwrap_or_default();
        found.push(format!(
            "{variant}: scratch tapes ran out{since}: {} still waited to be written when the run ended.",
            with_unit(outcome.no_tape_bytes as f64, "bytes")
        ));
    }
    if outcome.puts_too_large > 0 {
        found.push(format!(
            "{variant}: {} files were refused when they were put: each is larger than an empty cartridge of \
             its class.",
            whole(outcome.puts_too_large as f64)
        ));
    }
    if outcome.puts_waiting > 0 {
        found.push(format!(
            "{variant}: {} files of clients still waited for room in the pool when the run ended.",
            whole(outcome.puts_waiting as f64)
        ));
    }
    if outcome.no_room_bytes > 0 {
        found.push(format!(
            "{variant}: recalls of {} still waited for room in the pool when the run ended.",
            with_unit(outcome.no_room_bytes as f64, "bytes")
        ));
    }
    found
}
