//! A replay for people.

use std::fmt::Write;

use super::{Left, Replay, Row};

fn value(row: &Row, value: f64) -> String {
    match row.unit {
        "s" if value >= 100.0 => format!("{value:.1} s"),
        "s" => format!("{value:.3} s"),
        "bytes" => format!("{:.6} GB", value / 1e9),
        _ => format!("{value:.0}"),
    }
}

/// The figures in a table, and what the record lacks.
#[must_use]
pub fn text(replay: &Replay) -> String {
    let mut out = String::new();
    let _ = writeln!(out, "{:<18} {:>16} {:>16} {:>10}", "", "recorded", "predicted", "deviation");
    for row in &replay.rows {
        let deviation =
            row.deviation.map_or_else(|| "-".to_owned(), |part| format!("{:+.1} %", part * 100.0));
        let (was, says) = (value(row, row.recorded), value(row, row.predicted));
        let _ = writeln!(out, "{:<18} {was:>16} {says:>16} {deviation:>10}", row.name);
    }
    let _ = writeln!(out, "\norder of mounts: {:.0} % the same", replay.same_order * 100.0);
    for line in left(&replay.left) {
        let _ = writeln!(out, "{line}");
    }
    if let Some(violation) = &replay.outcome.violation {
        let _ = writeln!(out, "the twin contradicts itself: {violation}");
    }
    out
}

/// What the record lacks, a line each.
fn left(left: &Left) -> Vec<String> {
    let says = [
        (left.dropped, "lines of the access log were left out by the server"),
        (left.damaged, "lines of the logs are damaged"),
        (left.newer, "lines of the logs are of a newer Kist"),
        (left.unknown, "wanted files are left out: no tape or no class is known of them"),
        (left.in_parts, "wanted files stand in several parts: taken as one, where the first is"),
        (left.unfinished, "wanted files had not come when the record ended"),
        (left.deleted, "files were deleted meanwhile: not replayed"),
        (left.repacked, "copies were repacked meanwhile: not replayed"),
        (left.along, "files came along with their packs"),
        (left.restarts, "starts of the server meanwhile: not replayed"),
        (left.other_mounts, "mounts failed or were for upkeep: not replayed"),
        (left.online, "wanted files were in the pool"),
        (left.hits, "wanted files had to come from tape and are in the twin's pool"),
        (left.beyond, "lines are left out: the record is too long"),
    ];
    says.iter().filter(|(count, _)| *count > 0).map(|(count, what)| format!("{count} {what}")).collect()
}
