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

fn deviation(row: &Row) -> String {
    row.deviation.map_or_else(|| "-".to_owned(), |part| format!("{:+.1} %", part * 100.0))
}

/// What must be known before the figures are looked at.
fn first(replay: &Replay) -> Vec<String> {
    let mut says: Vec<String> = Vec::new();
    if !replay.untimed.is_empty() {
        says.push(format!(
            "library {} takes no time ([library.timing] in kist.toml): counts, bytes, mounts and their \
             order are compared; how long anything takes is not, since the twin's drives and robots are \
             merely very fast. How long it would take with real ones: --set drive=LTO-9",
            replay.untimed.join(", ")
        ));
    }
    if !replay.supposed.is_empty() {
        says.push(format!(
            "library {} took no time when this was recorded: recorded times are those of the server alone, \
             predicted ones those of the drives that are supposed; they are not compared",
            replay.supposed.join(", ")
        ));
    }
    let Left { hits, requests, .. } = replay.left;
    if requests > 0 {
        says.push(format!(
            "{requests} of {} requests are not compared: {hits} of their files had to come from tape, and \
             have not left the twin's pool",
            replay.recorded.requests + requests
        ));
    }
    says
}

/// What is below the figures.
fn notes(replay: &Replay) -> Vec<String> {
    let mut notes = vec![format!("order of mounts: {:.0} % the same", replay.same_order * 100.0)];
    if replay.untimed.is_empty() {
        notes.push(format!(
            "completion rests on {} requests and mostly on when they were made: judge by waits and mounts",
            replay.recorded.requests
        ));
    }
    notes.extend(left(&replay.left));
    if let Some(violation) = &replay.outcome.violation {
        notes.push(format!("the twin contradicts itself: {violation}"));
    }
    notes
}

fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

/// The figures as a table of HTML, and what the record lacks as a list.
#[must_use]
pub fn html(replay: &Replay) -> String {
    let mut out = String::new();
    for first in first(replay) {
        let _ = writeln!(out, "<p class=\"lead\">{}</p>", escape(&first));
    }
    out.push_str(
        "<table><thead><tr><th></th><th>recorded</th><th>predicted</th><th>deviation</th></tr></thead>",
    );
    out.push_str("<tbody>\n");
    for row in &replay.rows {
        let _ = write!(out, "<tr><th>{}</th>", escape(row.name));
        for cell in [value(row, row.recorded), value(row, row.predicted), deviation(row)] {
            let _ = write!(out, "<td>{}</td>", escape(&cell));
        }
        out.push_str("</tr>\n");
    }
    out.push_str("</tbody></table>\n<ul>");
    for note in notes(replay) {
        let _ = write!(out, "<li>{}</li>", escape(&note));
    }
    out.push_str("</ul>\n");
    out
}

/// The figures in a table, and what the record lacks.
#[must_use]
pub fn text(replay: &Replay) -> String {
    let mut out = String::new();
    for first in first(replay) {
        let _ = writeln!(out, "{first}\n");
    }
    let _ = writeln!(out, "{:<18} {:>16} {:>16} {:>10}", "", "recorded", "predicted", "deviation");
    for row in &replay.rows {
        let deviation = deviation(row);
        let (was, says) = (value(row, row.recorded), value(row, row.predicted));
        let _ = writeln!(out, "{:<18} {was:>16} {says:>16} {deviation:>10}", row.name);
    }
    out.push('\n');
    for line in notes(replay) {
        let _ = writeln!(out, "{line}");
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
        (left.unfinished, "wanted files had not come when the record ended: replayed, and not compared"),
        (left.deleted, "files were removed meanwhile: those that were not sealed yet are not written"),
        (left.repacked, "copies were repacked meanwhile: not replayed"),
        (left.along, "files came along with their packs"),
        (left.restarts, "starts of the server meanwhile: not replayed"),
        (left.other_mounts, "mounts failed or were for upkeep: not replayed"),
        (left.online, "wanted files were in the pool"),
        (
            left.forced,
            "times something was written that was neither enough nor old: replayed as migrate --now",
        ),
        (left.beyond, "lines are left out: the record is too long"),
    ];
    says.iter().filter(|(count, _)| *count > 0).map(|(count, what)| format!("{count} {what}")).collect()
}
