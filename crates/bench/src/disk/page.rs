//! The page with curves. Pure: of a report, whatever machine it is of.

use base::ByteCount;
use report::{Curve, Plot, PlotPage, PlotTable, plot_page};
use terminal::text;

use super::figures::{self, DirectionShown, Report, Row};
use super::show::{cells, engines, headings};

/// The page: of each order rate, operations and latency over the size of an operation, and the rate over the
/// number of paths, with the bottleneck as a line.
pub fn page(report: &Report) -> String {
    let names: Vec<String> = report.places.iter().map(|place| place.path.display().to_string()).collect();
    let has_fio = report.fio.is_some();
    let has_stream = report.rows.iter().any(|row| row.stream.is_some());
    let mut lead = vec![
        format!("{}: {}.", text::plural(names.len() as u64, "path"), names.join(", ")),
        format!("{}; {}.", engines(report), report.bottleneck.sentence()),
    ];
    lead.extend(report.notes.iter().cloned());
    let columns = headings(has_fio, has_stream);
    let table = PlotTable {
        heading: "Rows".to_owned(),
        columns: columns.iter().map(|name| name.trim_start_matches('>').to_owned()).collect(),
        rows: report.rows.iter().map(|row| cells(row, has_fio, has_stream)).collect(),
    };
    let orders = distinct(report.rows.iter().map(|row| row.access.as_str()));
    let mut plots: Vec<Plot> = orders.iter().flat_map(|order| of_order(report, order)).collect();
    let orders = distinct(report.scaling.iter().map(|one| one.row.access.as_str()));
    plots.extend(orders.iter().map(|order| over_paths(report, order)));
    plot_page(&PlotPage {
        title: "Disks measured by kist bench disk".to_owned(),
        lead,
        plots,
        tables: vec![table],
        footer: "Made by kist bench disk.".to_owned(),
    })
}

/// Each once, in the order in which they were met.
fn distinct<'a>(words: impl Iterator<Item = &'a str>) -> Vec<&'a str> {
    let mut all: Vec<&str> = Vec::new();
    for word in words {
        if !all.contains(&word) {
            all.push(word);
        }
    }
    all
}

/// Rows of one order of blocks, by size and mix.
struct Rows<'a> {
    rows: Vec<&'a Row>,
    sizes: Vec<u64>,
    mixes: Vec<&'a str>,
}

impl<'a> Rows<'a> {
    fn of(report: &'a Report, order: &str) -> Rows<'a> {
        let rows: Vec<&Row> = report.rows.iter().filter(|row| row.access == order).collect();
        let mut sizes: Vec<u64> = rows.iter().map(|row| row.size_bytes).collect();
        sizes.sort_unstable();
        sizes.dedup();
        let mixes = distinct(rows.iter().map(|row| row.mix.as_str()));
        Rows { rows, sizes, mixes }
    }

    fn curve(&self, name: String, mix: &str, value: &dyn Fn(&Row) -> Option<f64>) -> Curve {
        let at = |size: &u64| value(self.rows.iter().find(|row| row.size_bytes == *size && row.mix == mix)?);
        Curve { name, values: self.sizes.iter().map(at).collect() }
    }

    fn plot(&self, heading: String, unit: &str, curves: Vec<Curve>) -> Plot {
        let depth = self.rows.first().map_or(0, |row| row.depth);
        Plot {
            heading,
            note: format!("{} at once on each path", text::plural(u64::from(depth), "operation")),
            places_are: "size".to_owned(),
            places: self.sizes.iter().map(|size| figures::size(ByteCount(*size))).collect(),
            unit: unit.to_owned(),
            curves,
            bound: None,
            moving_bound: None,
        }
    }
}

fn of_order(report: &Report, order: &str) -> Vec<Plot> {
    let rows = Rows::of(report, order);
    let has_fio = report.fio.is_some();
    let (mut rates, mut operations, mut latencies) = (Vec::new(), Vec::new(), Vec::new());
    for mix in &rows.mixes {
        rates.push(rows.curve((*mix).to_owned(), mix, &|row| Some(row.bytes_per_second / 1e6)));
        operations.push(rows.curve((*mix).to_owned(), mix, &|row| Some(row.operations_per_second)));
        if has_fio {
            let rate = |row: &Row| row.fio.as_ref().map(|fio| fio.bytes_per_second);
            rates.push(rows.curve(format!("{mix}, fio"), mix, &|row| Some(rate(row)? / 1e6)));
            let count = |row: &Row| Some(rate(row)? / row.size_bytes as f64);
            operations.push(rows.curve(format!("{mix}, fio"), mix, &count));
        }
        latencies.extend(of_direction(&rows, mix, "reads", |row| row.read));
        latencies.extend(of_direction(&rows, mix, "writes", |row| row.write));
    }
    let rate = Plot {
        bound: report.bottleneck.mb_s.map(|rate| (rate, report.bottleneck.sentence())),
        ..rows.plot(format!("{order}, size of an operation against rate"), "MB/s", rates)
    };
    let heading = format!("{order}, size of an operation against operations a second");
    let operations = rows.plot(heading, "/s", operations);
    let heading = format!("{order}, size of an operation against latency");
    vec![rate, operations, rows.plot(heading, "ms", latencies)]
}

/// Half of the operations were not longer, and 99 of 100.
fn of_direction(rows: &Rows<'_>, mix: &str, what: &str, direction: fn(&Row) -> DirectionShown) -> Vec<Curve> {
    let of = |name: &str, took: fn(&DirectionShown) -> f64| {
        let value = |row: &Row| {
            let direction = direction(row);
            (direction.operations > 0).then(|| took(&direction) * 1e3)
        };
        rows.curve(format!("{mix}: {what} {name}"), mix, &value)
    };
    let curves = [of("p50", |direction| direction.seconds.p50), of("p99", |direction| direction.seconds.p99)];
    curves.into_iter().filter(|curve| curve.values.iter().any(Option::is_some)).collect()
}

/// What the first paths do together.
fn over_paths(report: &Report, order: &str) -> Plot {
    let all: Vec<_> = report.scaling.iter().filter(|one| one.row.access == order).collect();
    let mut counts: Vec<usize> = all.iter().map(|one| one.count).collect();
    counts.sort_unstable();
    counts.dedup();
    let curve = |mix: &str| {
        let at = |count: &usize| {
            let found = all.iter().find(|one| one.count == *count && one.row.mix == mix)?;
            Some(found.row.bytes_per_second / 1e6)
        };
        Curve { name: mix.to_owned(), values: counts.iter().map(at).collect() }
    };
    let computed =
        |count: &usize| all.iter().find(|one| one.count == *count).and_then(|one| one.bottleneck.mb_s);
    let bound = Curve { name: "computed".to_owned(), values: counts.iter().map(computed).collect() };
    let size = all.first().map_or_else(String::new, |one| one.row.size());
    Plot {
        heading: format!("{order}, paths together against rate"),
        note: format!("operations of {size}"),
        places_are: "paths".to_owned(),
        places: counts.iter().map(ToString::to_string).collect(),
        unit: "MB/s".to_owned(),
        curves: distinct(all.iter().map(|one| one.row.mix.as_str())).into_iter().map(curve).collect(),
        bound: None,
        moving_bound: bound.values.iter().any(Option::is_some).then_some(bound),
    }
}

#[cfg(test)]
#[path = "page_tests.rs"]
mod tests;
