//! The report for people: tables on the terminal, and the generated part of docs/reference/ordering.md.

use terminal::Table;

use super::figures::{Bar, Report, Row, Spread, WaitRow};

/// `0.02`, `2`.
pub fn gb(bytes: u64) -> String {
    format!("{}", bytes as f64 / 1e9)
}

fn ratio(spread: &Spread) -> String {
    format!("{:.3} – {:.3}", spread.median, spread.worst)
}

fn measured(bar: &Bar) -> String {
    bar.measured.map_or_else(|| "-".to_owned(), |measured| format!("{}", (measured * 1e3).round() / 1e3))
}

/// The rows, what users wait, and the bars at the end.
pub fn text(report: &Report) -> String {
    let mut table = Table::new(&ROW_HEADINGS);
    report.rows.iter().for_each(|row| table.row(cells(row)));
    let mut text = table.render();
    text.push_str(EXPLAINED);
    let mut table = Table::new(&WAIT_HEADINGS);
    report.waits.iter().for_each(|row| table.row(wait_cells(row)));
    text.push_str(&table.render());
    text.push('\n');
    for note in &report.notes {
        text.push_str(&format!("{note}\n"));
    }
    text.push('\n');
    let mut table = Table::new(&["bar", "verdict", ">measured", ">runs"]);
    for bar in &report.bars {
        table.row(vec![bar.bar.to_owned(), bar.verdict.to_owned(), measured(bar), bar.runs.to_string()]);
    }
    text + &table.render()
}

const EXPLAINED: &str =
    "\nSeconds of locates and gaps read through, a file, medians. Ratios of the plan: median – worst.
CTA: nearest first in windows of 4,000 requests, as if from the beginning of the tape, no gap read through.
Optimum: the improved orders against the best of all. Planning: milliseconds of processor time.\n\n";

const ROW_HEADINGS: [&str; 14] = [
    "tape",
    ">GB",
    ">files",
    ">plan",
    ">nearest",
    ">block",
    ">CTA",
    ">nearest*",
    ">block*",
    "to nearest",
    "to block",
    "to CTA",
    "to optimum",
    ">planning",
];

fn cells(row: &Row) -> Vec<String> {
    let seconds = row.seconds_a_file;
    let times = [
        seconds.plan,
        seconds.nearest,
        seconds.block,
        seconds.cta,
        seconds.nearest_located,
        seconds.block_located,
    ];
    let mut cells = vec![row.tape.to_owned(), gb(row.file_bytes), row.files.to_string()];
    cells.extend(times.map(|time| format!("{time:.2}")));
    cells.extend([&row.to_nearest, &row.to_block, &row.to_cta].map(ratio));
    cells.push(row.to_optimum.as_ref().map_or_else(|| "-".to_owned(), ratio));
    cells.push(planning(&row.planning_ms));
    cells
}

fn planning(spread: &Spread) -> String {
    format!("{:.1} – {:.1}", spread.median, spread.worst)
}

const WAIT_HEADINGS: [&str; 9] = [
    "tape",
    "where",
    ">GB",
    ">files",
    ">mean wait, s",
    "to nearest",
    "to block",
    "to the last-file plan",
    ">planning",
];

fn wait_cells(row: &WaitRow) -> Vec<String> {
    let place = if row.one_wrap { "one wrap" } else { "whole tape" };
    let mut cells = vec![row.tape.to_owned(), place.to_owned(), gb(row.file_bytes), row.files.to_string()];
    cells.push(format!("{:.0}", row.wait));
    cells.extend([&row.to_nearest, &row.to_block, &row.to_last_file].map(ratio));
    cells.push(planning(&row.planning_ms));
    cells
}

/// Bars, rows and waits.
pub fn markdown(report: &Report) -> String {
    let mut text = String::from("| bar | verdict | measured | runs |\n|---|---|---|---|\n");
    for bar in &report.bars {
        text.push_str(&format!("| {} | {} | {} | {} |\n", bar.bar, bar.verdict, measured(bar), bar.runs));
    }
    let simple = &report.exact.simple;
    text.push_str(&format!(
        "\nWithout nesting, the worst of {} small cases is {:.5} of the best of all orders.\n",
        report.exact.cases, simple.worst
    ));
    text.push_str(
        "\nSeconds of locates and of gaps read through, a file, medians; *: without reading through. ",
    );
    text.push_str("Ratios of the plan: median – worst. Planning: milliseconds of processor time.\n\n");
    text.push_str(&lines(&ROW_HEADINGS, report.rows.iter().map(cells)));
    text.push_str("\nWhere users wait for each file:\n\n");
    text.push_str(&lines(&WAIT_HEADINGS, report.waits.iter().map(wait_cells)));
    text.push('\n');
    for note in &report.notes {
        text.push_str(&format!("- {note}\n"));
    }
    text
}

fn lines(headings: &[&str], rows: impl Iterator<Item = Vec<String>>) -> String {
    let names: Vec<String> =
        headings.iter().map(|name| name.trim_start_matches('>').replace('*', "\\*")).collect();
    let mut text = format!("| {} |\n|{}\n", names.join(" | "), "---|".repeat(names.len()));
    for row in rows {
        text.push_str(&format!("| {} |\n", row.join(" | ")));
    }
    text
}
