//! `kist bench all`: the budgets of the design beside today's figures and the limits of the machine.

use std::fs;
use std::path::Path;
use std::time::Instant;

use client::Server;
use serde::Serialize;
use terminal::{Failure, Outcome, Table, output};

use super::http::{self, Load};
use super::measure::{Args, Bench};
use super::rows::{self, Row};
use super::subject::Call;
use super::{limits, page};

/// Runs of each measurement; the median counts.
const RUNS: usize = 3;
/// Clients of durable puts.
const CLIENTS: [usize; 4] = [1, 8, 64, 96];
/// A budget and how it stands.
#[derive(Clone, Debug, Serialize)]
struct Budget {
    /// What the design asks for.
    budget: String,
    /// The figure in words.
    measured: String,
    /// What is compared, in the budget's unit.
    figure: f64,
    /// What it has to be: at least, or at most for `open`.
    wanted: f64,
    /// Whether it is.
    reached: bool,
}

impl Budget {
    fn at_least(budget: &str, measured: String, figure: f64, wanted: f64) -> Self {
        Budget { budget: budget.to_owned(), measured, figure, wanted, reached: figure >= wanted }
    }

    fn verdict(&self) -> String {
        match self.reached {
            true => "reached".to_owned(),
            false if self.figure > self.wanted => {
                format!("missed: {:.2} × too much", self.figure / self.wanted)
            }
            false => format!("missed: {:.2} of it", self.figure / self.wanted),
        }
    }
}

/// Everything that was measured.
#[derive(Debug, Default, Serialize)]
struct Report {
    budgets: Vec<Budget>,
    limits: Vec<Row>,
    rows: Vec<Row>,
}

/// Measures all, prints it, and writes the page if one is named.
pub fn run(args: &Args, call: Call<'_>) -> Outcome {
    let mut report = Report::default();
    let memory = args.dir.as_deref();
    large(memory, &mut report, call)?;
    small(args.disk.as_deref(), &mut report, call)?;
    tape(memory, &mut report, call)?;
    if let Some(page) = &args.write {
        let more = args.with.as_ref().map(|path| {
            fs::read_to_string(path).map_err(|error| Failure::io("reading what is to be added", path, &error))
        });
        page::write(page, "kist bench all", &markdown(&report, more.transpose()?.as_deref()))?;
    }
    if call.style.json {
        return output::json(&report);
    }
    let mut table = Table::new(&["budget", "measured", "verdict"]);
    for budget in &report.budgets {
        table.row(vec![budget.budget.clone(), budget.measured.clone(), budget.verdict()]);
    }
    output::write(&table.render())?;
    report.limits.append(&mut report.rows);
    rows::print(&report.limits, call.style)
}

/// The rows of the run whose first row is the median.
fn median(mut measure: impl FnMut() -> Outcome<Vec<Row>>) -> Outcome<Vec<Row>> {
    let mut runs = (0..RUNS).map(|_| measure()).collect::<Outcome<Vec<_>>>()?;
    runs.sort_by(|a, b| {
        let value = |rows: &[Row]| rows.first().map_or(0.0, |row| row.value);
        value(a).total_cmp(&value(b))
    });
    Ok(runs.swap_remove(RUNS / 2))
}

fn find<'a>(rows: &'a [Row], name: &str) -> Outcome<&'a Row> {
    rows.iter().find(|row| row.name == name).ok_or_else(|| Failure::internal(format!("no row '{name}'")))
}

/// Put and get of 2 GiB.
fn large(place: Option<&Path>, report: &mut Report, call: Call<'_>) -> Outcome {
    let load = Load { files: 1, size: 2 << 30, clients: 1 };
    let put = median(|| Bench::new(place, load, call)?.put())?;
    let row = find(&put, "put over HTTP")?;
    report.budgets.push(Budget::at_least(
        "put, 2 GiB, 4+2, in memory: ≥ 1.2 GB/s",
        format!("{}, {:.2} cores", row.shown(), row.cores),
        row.value / 1e9,
        1.2,
    ));
    let get = median(|| Bench::new(place, load, call)?.get())?;
    let row = find(&get, "get over HTTP")?;
    report.budgets.push(Budget::at_least(
        "get, 2 GiB: ≥ 0.65 of loopback in the same run",
        format!("{}, {:.2} of loopback, {:.2} cores", row.shown(), row.ratio, row.cores),
        row.ratio,
        0.65,
    ));
    for name in ["memory copy", "loopback TCP"] {
        report.limits.push(find(&get, name)?.clone());
    }
    report.rows.push(find(&put, "put over HTTP")?.clone());
    report.rows.push(find(&put, "pool alone, write")?.clone());
    report.rows.push(find(&get, "get over HTTP")?.clone());
    report.rows.push(find(&get, "pool alone, read")?.clone());
    Ok(())
}

/// Durable puts of 20 kB by more and more clients, and the opening of what they made.
fn small(place: Option<&Path>, report: &mut Report, call: Call<'_>) -> Outcome {
    let mut rising = Vec::new();
    for clients in CLIENTS {
        let load = Load { files: (250 * clients as u64).clamp(500, 8000), size: 20_000, clients };
        let rows = median(|| Bench::new(place, load, call)?.create())?;
        let row = rows.first().cloned().unwrap_or_default();
        if clients == 64 {
            report.limits.push(find(&rows, "syncs of the disk")?.clone());
            report.budgets.push(Budget::at_least(
                "durable puts of 20 kB, 64 clients: ≥ 4 a device sync",
                format!("{}, {:.2} a sync, {:.2} cores", row.shown(), row.ratio, row.cores),
                row.ratio,
                4.0,
            ));
        }
        rising.push((clients, row.ratio));
        report.rows.push(row);
    }
    let shown: Vec<String> = rising.iter().map(|(clients, ratio)| format!("{clients}: {ratio:.2}")).collect();
    let least = rising.windows(2).filter_map(|pair| Some(pair.last()?.1 / pair.first()?.1));
    report.budgets.push(Budget::at_least(
        "the same, rising with clients",
        format!("a sync, by clients: {}", shown.join(", ")),
        least.fold(f64::INFINITY, f64::min),
        1.0,
    ));
    let bench = Bench::new(place, Load { files: 20_000, size: 100, clients: 64 }, call)?;
    report.limits.push(limits::disk_write(bench.raw(), 1 << 30)?);
    let server = bench.start()?;
    http::put(&server, bench.load)?;
    server.stop()?;
    let started = Instant::now();
    let server = Server::start(&bench.directory())?;
    let seconds = started.elapsed().as_secs_f64();
    server.stop()?;
    let measured = format!("{seconds:.2} s until the first answer, 20,000 files");
    let reached = seconds < 1.0;
    let budget = "open: < 1 s".to_owned();
    report.budgets.push(Budget { budget, measured, figure: seconds, wanted: 1.0, reached });
    Ok(())
}

/// Pool to tape and back.
fn tape(place: Option<&Path>, report: &mut Report, call: Call<'_>) -> Outcome {
    let load = Load { files: 32, size: 64 << 20, clients: 2 };
    let rows = median(|| Bench::new(place, load, call)?.tape())?;
    for (name, budget) in [
        ("migrate, all copies", "migrate, untimed drives: ≥ 1 GB/s a core, per copy"),
        ("recall", "recall, untimed drive: ≥ 1 GB/s a core"),
    ] {
        let row = find(&rows, name)?;
        let each = if row.cores > 0.0 { row.value / row.cores } else { 0.0 };
        let measured = format!("{}, {:.2} cores: {:.2} GB/s a core", row.shown(), row.cores, each / 1e9);
        report.budgets.push(Budget::at_least(budget, measured, each / 1e9, 1.0));
        report.rows.push(row.clone());
    }
    for name in ["virtual drive alone, write", "virtual drive alone, read"] {
        report.rows.push(find(&rows, name)?.clone());
    }
    Ok(())
}

fn markdown(report: &Report, more: Option<&str>) -> String {
    let mut text = String::from("| budget | measured | verdict |\n|---|---|---|\n");
    for budget in &report.budgets {
        text += &format!("| {} | {} | {} |\n", budget.budget, budget.measured, budget.verdict());
    }
    text += "\n| measured in the same runs | rate | cores of the server |\n|---|---|---|\n";
    for row in report.limits.iter().chain(&report.rows) {
        let cores = if row.cores > 0.0 { format!("{:.2}", row.cores) } else { String::new() };
        text += &format!("| {} | {} | {cores} |\n", row.name, row.shown());
    }
    if let Some(more) = more {
        text += &format!("\n```text\n{}\n```\n", more.trim_end());
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn verdicts_say_by_how_much() {
        assert_eq!(Budget::at_least("b", String::new(), 1.2, 1.2).verdict(), "reached");
        assert_eq!(Budget::at_least("b", String::new(), 0.6, 1.2).verdict(), "missed: 0.50 of it");
    }
}
