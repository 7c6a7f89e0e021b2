//! The report for people: a table on the terminal, and the generated part of docs/reference/erasure.md.

use ::erasure::bench::Operation;
use terminal::Table;

use super::figures::{Bar, CACHE, MEMORY, Ratio, Report, Row, bytes};

/// Missed shapes that are named on the terminal and on the page; all are in the JSON.
const MISSED_SHOWN: usize = 8;
/// The columns of a table on the page.
const PLACES: [(&str, usize); 4] = [(CACHE, 1), (CACHE, 2), (MEMORY, 1), (MEMORY, 2)];

/// The aligned table, and the bars at its end.
pub fn text(report: &Report) -> String {
    let peers: Vec<String> = report.peers.iter().map(|peer| format!(">{}", peer.name)).collect();
    let mut headings = vec!["code", ">shard", "source", ">cores", "operation", ">kist, GB/s"];
    headings.extend(peers.iter().map(String::as_str));
    headings.extend([">ratio", "to"]);
    let mut table = Table::new(&headings);
    for row in &report.rows {
        let (code, cores) = (row.code.clone(), row.cores.to_string());
        let mut cells = vec![code, bytes(row.shard), row.source.to_owned(), cores, row.operation.to_owned()];
        cells.push(format!("{:.1}", row.own()));
        cells.extend(report.peers.iter().map(|peer| or_dash(row.gbps.get(&peer.name).copied(), 1)));
        cells.push(or_dash(row.ratio, 2));
        cells.push(row.against.clone().unwrap_or_else(|| "-".to_owned()));
        table.row(cells);
    }
    let mut text = table.render();
    text.push_str("\nGB/s: 10^9 bytes of data a second, parity not counted; of a copy, bytes copied.\n\n");
    let mut table = Table::new(&["bar", "verdict", ">shapes", ">missed", "ratios"]);
    for bar in &report.bars {
        let missed = bar.missed.len().to_string();
        let name = bar.bar.to_owned();
        table.row(vec![name, bar.verdict.to_owned(), bar.shapes.to_string(), missed, range(bar)]);
    }
    text.push_str(&table.render());
    for bar in report.bars.iter().filter(|bar| !bar.missed.is_empty()) {
        text.push_str(&format!("\nmissed: {}\n", bar.bar));
        for one in bar.missed.iter().take(MISSED_SHOWN) {
            text.push_str(&format!("  {:.2}  {}\n", one.ratio, one.shape));
        }
        if bar.missed.len() > MISSED_SHOWN {
            text.push_str(&format!("  and {} more, see --json\n", bar.missed.len() - MISSED_SHOWN));
        }
    }
    text
}

fn or_dash(value: Option<f64>, digits: usize) -> String {
    value.map_or_else(|| "-".to_owned(), |value| format!("{value:.digits$}"))
}

fn range(bar: &Bar) -> String {
    let shown = |one: &Ratio| format!("{:.2}", one.ratio);
    match (&bar.lowest, &bar.highest) {
        (Some(lowest), Some(highest)) => format!("{} – {}", shown(lowest), shown(highest)),
        _ => String::new(),
    }
}

/// Bars, and a table for each operation.
pub fn markdown(report: &Report) -> String {
    let peers = report.peers.iter().map(|peer| format!(", {} {}", peer.name, peer.version));
    let mut text = format!(
        "Kernel {}; best of {} or more rounds from the cache, {} from memory, {} a core{}.\n\n",
        report.kernel,
        report.rounds_cache,
        report.rounds_memory,
        bytes(report.working_set),
        peers.collect::<String>()
    );
    text.push_str("| bar | verdict | ratios | missed |\n|---|---|---|---|\n");
    for bar in &report.bars {
        let verdict = match bar.missed.len() {
            0 => bar.verdict.to_owned(),
            missed => format!("missed at {missed} of {} shapes", bar.shapes),
        };
        text.push_str(&format!("| {} | {verdict} | {} | {} |\n", bar.bar, range(bar), missed(bar)));
    }
    let names: Vec<&str> = report.peers.iter().map(|peer| peer.name.as_str()).collect();
    let coders = ["Kist"].iter().chain(&names).copied().collect::<Vec<_>>().join(" / ");
    for (operation, title) in [
        (Operation::Encode, "Encode"),
        (Operation::DecodeOne, "Decode, 1 data shard lost"),
        (Operation::DecodeAll, "Decode, m data shards lost"),
    ] {
        let title = format!("{title}: GB/s of {coders} (Kist ÷ the best peer)");
        text.push_str(&table(report, &title, &PLACES, |row| of(report, row, operation, peer_cell)));
    }
    let title = "Encode with the CRC-32C of every 64 KiB: GB/s in one pass / in two (ratio)";
    text.push_str(&table(report, title, &PLACES, |row| of(report, row, Operation::EncodeChecked, pair_cell)));
    let title = "Verified read: GB/s from the cache; from memory / reading alone (ratio)";
    text.push_str(&table(report, title, &PLACES, |row| of(report, row, Operation::Verify, pair_cell)));
    let title = "Encode beside the memory: GB/s of encode / the same reads and writes alone (ratio)";
    text.push_str(&table(report, title, &PLACES[2..], |row| of(report, row, Operation::Encode, mix_cell)));
    text + &memory(report)
}

fn missed(bar: &Bar) -> String {
    let shown = bar.missed.iter().take(MISSED_SHOWN).map(|one| format!("{} {:.2}", one.shape, one.ratio));
    let mut shown: Vec<String> = shown.collect();
    if bar.missed.len() > MISSED_SHOWN {
        shown.push(format!("and {} more", bar.missed.len() - MISSED_SHOWN));
    }
    shown.join("; ")
}

/// One line for each code and shard, one column for each source and number of cores.
fn table(
    report: &Report,
    title: &str,
    places: &[(&'static str, usize)],
    cell: impl Fn(&Row) -> String,
) -> String {
    let mut text = format!("\n{title}:\n\n| code | shard |");
    for (source, cores) in places {
        text.push_str(&format!(" {source}, {cores} core{} |", if *cores == 1 { "" } else { "s" }));
    }
    text.push_str(&format!("\n|---|---|{}\n", "---|".repeat(places.len())));
    let mut shapes: Vec<&Row> = Vec::new();
    for row in &report.rows {
        if !shapes.iter().any(|known| (&known.code, known.shard) == (&row.code, row.shard)) {
            shapes.push(row);
        }
    }
    for shape in shapes {
        text.push_str(&format!("| {} | {} |", shape.code, bytes(shape.shard)));
        for (source, cores) in places {
            let wanted = Row { source, cores: *cores, ..shape.clone() };
            text.push_str(&format!(" {} |", cell(&wanted)));
        }
        text.push('\n');
    }
    text
}

fn of(report: &Report, wanted: &Row, operation: Operation, cell: fn(&Report, &Row) -> String) -> String {
    beside(report, wanted, operation.name()).map_or_else(String::new, |row| cell(report, row))
}

fn beside<'r>(report: &'r Report, row: &Row, operation: &str) -> Option<&'r Row> {
    report.rows.iter().find(|other| other.operation == operation && other.is_beside(row))
}

/// `57.9 / 54.6 / 50.1 (1.06)`
fn peer_cell(report: &Report, row: &Row) -> String {
    let mut text = format!("{:.1}", row.own());
    for peer in &report.peers {
        text.push_str(&format!(" / {}", or_dash(row.gbps.get(&peer.name).copied(), 1)));
    }
    text + &row.ratio.map_or_else(String::new, |ratio| format!(" ({ratio:.2})"))
}

/// Kist's rate beside that of another operation.
fn pair_cell(report: &Report, row: &Row) -> String {
    let other = row.against.as_deref().and_then(|against| beside(report, row, against));
    compared(row, other)
}

fn mix_cell(report: &Report, row: &Row) -> String {
    compared(row, beside(report, row, Operation::ReadAndWrite.name()))
}

fn compared(row: &Row, other: Option<&Row>) -> String {
    match other {
        Some(other) => {
            format!("{:.1} / {:.1} ({:.2})", row.own(), other.own(), row.own() / other.own())
        }
        None => format!("{:.1}", row.own()),
    }
}

/// The memory's own rates: the best over all shapes.
fn memory(report: &Report) -> String {
    let mut text = String::from("\nMemory, GB/s, the best over all shapes:\n\n");
    text.push_str("| cores | read | write | copy |\n|---|---|---|---|\n");
    for cores in [1, 2] {
        let best = |operation: Operation| {
            let rows = report.rows.iter();
            let rows = rows.filter(|row| row.cores == cores && row.operation == operation.name());
            rows.map(Row::own).fold(0.0, f64::max)
        };
        let [read, write, copy] = [Operation::Read, Operation::Write, Operation::Copy].map(best);
        if read > 0.0 {
            text.push_str(&format!("| {cores} | {read:.1} | {write:.1} | {copy:.1} |\n"));
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::super::figures::tests::measured;
    use super::super::figures::{ISA_L, PeerNamed, bars};
    use super::*;

    fn report() -> Report {
        let mut rows = measured(true, &[]);
        rows.extend(measured(false, &[]));
        Report {
            kernel: "portable".to_owned(),
            rounds_cache: 3,
            rounds_memory: 2,
            working_set: 1 << 30,
            peers: vec![PeerNamed { name: ISA_L.to_owned(), version: "2.31".to_owned() }],
            bars: bars(&rows),
            rows,
        }
    }

    #[test]
    fn the_table_has_units_and_ends_with_the_bars() {
        let text = text(&report());
        assert!(text.contains("kist, GB/s") && text.contains("4+2   8 KiB  cache"), "{text}");
        assert!(text.contains("≥ 1.0 × ISA-L") && text.contains("reached"), "{text}");
        assert!(
            text.ends_with("  1.00  4+2 8 KiB cache 1 core\n  1.00  4+2 8 KiB memory 1 core\n"),
            "{text}"
        );
    }

    #[test]
    fn the_page_has_a_line_for_each_shape_and_a_cell_for_each_place() {
        let text = markdown(&report());
        assert!(text.contains("| 4+2 | 8 KiB | 10.0 / 8.0 (1.25) |  | 10.0 / 8.0 (1.25) |  |"), "{text}");
        assert!(text.contains("missed at 2 of 2 shapes") && text.contains("isa-l 2.31"), "{text}");
        assert!(text.ends_with("| 1 | 10.0 | 10.0 | 10.0 |\n"), "{text}");
    }
}
