//! The report for people: a table, and a page with curves.

use terminal::{Table, text};

use report::{Curve, Plot, PlotPage, PlotTable, plot_page};

use super::figures::{DirectionShown, FioShown, Report, Row};

/// Rows, then what is to be known of them.
pub fn text(report: &Report) -> String {
    let has_fio = report.fio.is_some();
    let has_stream = report.rows.iter().any(|row| row.stream.is_some());
    let headings = headings(has_fio, has_stream);
    let mut table = Table::new(&headings);
    report.rows.iter().for_each(|row| table.row(cells(row, has_fio, has_stream)));
    let mut out = table.render();
    let mut of_paths = Table::new(&["size", "mix", "access", "path", ">rate"]);
    for row in &report.rows {
        for one in &row.paths {
            of_paths.row(vec![
                row.size(),
                row.mix.clone(),
                row.access.clone(),
                one.path.display().to_string(),
                mb(one.bytes_per_second),
            ]);
        }
    }
    if !of_paths.is_empty() {
        out.push_str(&format!("\n{}", of_paths.render()));
    }
    out.push('\n');
    for place in &report.places {
        let way = if place.is_direct { "direct I/O" } else { "through the kernel's cache" };
        let (path, size) = (place.path.display(), text::size(place.bytes));
        out.push_str(&format!("{path}: {}, {}, {size}, {way}\n", place.kind, place.file_system));
    }
    out.push_str(&format!("{}; {}\n", engines(report), report.bottleneck.sentence()));
    report.notes.iter().for_each(|note| out.push_str(&format!("{note}\n")));
    for row in &report.rows {
        for fault in &row.faults {
            out.push_str(&format!(
                "{} {} {}: {}: {}, {}, first at byte {}\n",
                row.size(),
                row.mix,
                row.access,
                fault.path.display(),
                fault.what,
                text::plural(fault.count, "time"),
                fault.first_byte
            ));
        }
    }
    out
}

fn engines(report: &Report) -> String {
    match &report.fio {
        Some(version) => format!("engine {}, beside {version}", report.engine),
        None => format!("engine {}", report.engine),
    }
}

fn headings(has_fio: bool, has_stream: bool) -> Vec<&'static str> {
    let mut all = vec![
        ">size",
        "mix",
        "access",
        ">depth",
        ">rate",
        ">operations",
        ">read p50",
        ">p99",
        ">max",
        ">write p50",
        ">p99",
        ">max",
        "checked",
        ">errors",
    ];
    if has_fio {
        all.extend([">fio", ">ratio", "95 % interval"]);
    }
    if has_stream {
        all.extend([">tape asks", ">has", ">behind", ">stood still"]);
    }
    all
}

fn cells(row: &Row, has_fio: bool, has_stream: bool) -> Vec<String> {
    let dash = || "-".to_owned();
    let mut all = vec![
        row.size(),
        row.mix.clone(),
        row.access.clone(),
        row.depth.to_string(),
        mb(row.bytes_per_second),
        format!("{}/s", text::count(row.operations_per_second.round() as u64)),
    ];
    all.extend(latencies(&row.read));
    all.extend(latencies(&row.write));
    let checked = match (row.read.operations, row.is_verified) {
        (0, _) => "-",
        (_, true) => "yes",
        (_, false) => "no",
    };
    all.push(checked.to_owned());
    all.push(text::count(row.faults.iter().map(|fault| fault.count).sum()));
    if has_fio {
        let interval = |fio: &FioShown| {
            fio.ratio_interval.map_or_else(dash, |(low, high)| format!("{low:.3} – {high:.3}"))
        };
        match &row.fio {
            Some(fio) => all.extend([mb(fio.bytes_per_second), format!("{:.3}", fio.ratio), interval(fio)]),
            None => all.extend([dash(), dash(), dash()]),
        }
    }
    if has_stream {
        match &row.stream {
            Some(stream) => all.extend([
                mb(stream.asked_bytes_per_second as f64),
                mb(stream.bytes_per_second),
                text::count(stream.fell_behind),
                format!("{:.1} s", stream.stopped_seconds),
            ]),
            None => all.extend([dash(), dash(), dash(), dash()]),
        }
    }
    all
}

fn latencies(direction: &DirectionShown) -> [String; 3] {
    if direction.operations == 0 {
        return ["-", "-", "-"].map(str::to_owned);
    }
    let took = direction.seconds;
    [took.p50, took.p99, took.max].map(brief)
}

/// `87 µs`, `1.25 ms`, `2.10 s`.
pub fn brief(seconds: f64) -> String {
    match seconds {
        seconds if seconds < 1e-3 => format!("{:.0} µs", seconds * 1e6),
        seconds if seconds < 1.0 => format!("{:.2} ms", seconds * 1e3),
        seconds => format!("{seconds:.2} s"),
    }
}

/// `412 MB/s`, of 10^6 bytes: as `kist disk bottleneck` and fio have them.
pub fn mb(rate: f64) -> String {
    let megabytes = rate / 1e6;
    match megabytes {
        rate if rate >= 99.95 => format!("{} MB/s", text::count(rate.round() as u64)),
        rate => format!("{rate:.1} MB/s"),
    }
}

/// The page: a picture for each order, a curve for each mix, the bottleneck as a line.
pub fn page(report: &Report) -> String {
    let mut orders: Vec<&str> = Vec::new();
    for row in &report.rows {
        if !orders.contains(&row.access.as_str()) {
            orders.push(&row.access);
        }
    }
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
    plot_page(&PlotPage {
        title: "Disks measured by kist bench disk".to_owned(),
        lead,
        plots: orders.iter().map(|order| plot(report, order)).collect(),
        tables: vec![table],
        footer: "Made by kist bench disk.".to_owned(),
    })
}

fn plot(report: &Report, order: &str) -> Plot {
    let rows: Vec<&Row> = report.rows.iter().filter(|row| row.access == order).collect();
    let mut sizes: Vec<u64> = rows.iter().map(|row| row.size_bytes).collect();
    sizes.sort_unstable();
    sizes.dedup();
    let mut mixes: Vec<&str> = Vec::new();
    for row in &rows {
        if !mixes.contains(&row.mix.as_str()) {
            mixes.push(&row.mix);
        }
    }
    let curve = |name: String, value: &dyn Fn(&Row) -> Option<f64>, mix: &str| {
        let at = |size: &u64| {
            let row = rows.iter().find(|row| row.size_bytes == *size && row.mix == mix)?;
            value(row)
        };
        Curve { name, values: sizes.iter().map(at).collect() }
    };
    let mut curves = Vec::new();
    for mix in mixes {
        curves.push(curve(mix.to_owned(), &|row| Some(row.bytes_per_second / 1e6), mix));
        if report.fio.is_some() {
            let fio = |row: &Row| row.fio.as_ref().map(|fio| fio.bytes_per_second / 1e6);
            curves.push(curve(format!("{mix}, fio"), &fio, mix));
        }
    }
    let depth = rows.first().map_or(0, |row| row.depth);
    let bottleneck = report.bottleneck.mb_s;
    Plot {
        heading: format!("{order}, size of an operation against rate"),
        note: format!("{} at once on each path", text::plural(u64::from(depth), "operation")),
        places: sizes.iter().map(|size| super::figures::size(base::ByteCount(*size))).collect(),
        unit: "MB/s".to_owned(),
        curves,
        bound: bottleneck.map(|rate| (rate, report.bottleneck.sentence())),
    }
}
