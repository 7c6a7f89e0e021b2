//! What ran out, in sentences.

use super::text::{time, whole, with_unit};
use crate::outcome::Outcome;

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
