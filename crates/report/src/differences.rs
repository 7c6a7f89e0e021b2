//! What differs between two variants beside their rates, in sentences.

use super::text::{number, with_unit};
use crate::outcome::Outcome;
use crate::stats::{COMPLETED, Figure, FigureSummary, VariantSummary, WAIT_99};

/// Differences below this part are not worth a word beside a rate that is the same.
const WORTH: f64 = 0.1;
/// Most differences in a sentence.
const MOST: usize = 4;
/// What is left of all that was asked for may be this part, and all of it counts as done: something is
/// always under way.
const LEFT: f64 = 0.02;

/// What differs by a tenth or more and by more than chance: campaigns' times first, then waits, then what
/// drives do. Each with both values and their ratio.
pub fn differences<'a>(first: &VariantSummary, variant: &'a VariantSummary) -> Vec<(&'a Figure, String)> {
    let figures = variant.figures.iter();
    let mut ranked: Vec<(usize, &Figure, String)> = figures
        .filter_map(|found| {
            let (rank, words) = difference(first, variant, found)?;
            Some((rank, &found.figure, words))
        })
        .collect();
    ranked.sort_by_key(|(rank, ..)| *rank);
    ranked.into_iter().take(MOST).map(|(_, figure, words)| (figure, words)).collect()
}

fn difference(
    first: &VariantSummary,
    variant: &VariantSummary,
    found: &FigureSummary,
) -> Option<(usize, String)> {
    let figure = &found.figure;
    let of = figure.of.split_once(' ').map(|(kind, name)| format!("{kind} “{name}”"));
    let (rank, what) = match (figure.name, of) {
        (COMPLETED, Some(of)) => (0, format!("{of} is done after")),
        (WAIT_99, Some(of)) => (1, format!("99 % of what {of} asks for is there after")),
        ("drives in use", None) => (2, "drives are in use".to_owned()),
        ("mounts", None) => (3, "mounts are".to_owned()),
        ("hit rate", None) => (4, "the hit rate is".to_owned()),
        _ => return None,
    };
    let other = first.of(&figure.of, figure.name)?;
    let (mine, others) = (found.estimate.mean, other.estimate.mean);
    if mine.is_nan() && others.is_nan() {
        return None;
    }
    // One that is done and one that is not cannot be divided.
    if mine.is_nan() || others.is_nan() {
        let words = format!("{what}: {} against {}", variant.says(found), first.says(other));
        return Some((rank, words));
    }
    let is_chance = found.against_first.and_then(|against| against.is_different) == Some(false);
    let ratio = mine / others;
    if is_chance || others <= 0.0 || (ratio - 1.0).abs() < WORTH {
        return None;
    }
    let both = format!("{} against {}", with_unit(mine, figure.unit), with_unit(others, figure.unit));
    Some((rank, format!("{what} {both} ({} times)", ratio_of(ratio))))
}

/// A ratio.
pub fn ratio_of(ratio: f64) -> String {
    if ratio >= 0.1 { format!("{ratio:.2}") } else { number(ratio) }
}

/// Whether all that clients asked for came, and all that they brought is on tape, but for what is always
/// under way: then the rate is that of the demand and says nothing of what the site could do.
pub fn is_all_moved(outcome: &Outcome) -> bool {
    let totals = &outcome.totals;
    let left = totals.files_wanted.saturating_sub(totals.files_served + totals.files_refused);
    let unwritten = outcome.series.backlog.last().copied().unwrap_or(0) as f64;
    left as f64 <= LEFT * totals.files_wanted as f64
        && unwritten <= LEFT * (totals.tape_written as f64 + unwritten)
        && outcome.puts_waiting == 0
}
