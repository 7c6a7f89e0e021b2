//! The report for people: tables.

use terminal::{Table, text};

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
    out.push_str(&scaling(report));
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

/// What the first paths do together; nothing if that was not asked for.
fn scaling(report: &Report) -> String {
    if report.scaling.is_empty() {
        return String::new();
    }
    let mut table = Table::new(&[">paths", ">size", "mix", "access", ">rate", ">computed"]);
    for one in &report.scaling {
        table.row(vec![
            one.count.to_string(),
            one.row.size(),
            one.row.mix.clone(),
            one.row.access.clone(),
            mb(one.row.bytes_per_second),
            one.bottleneck.mb_s.map_or_else(|| "-".to_owned(), |rate| mb(rate * 1e6)),
        ]);
    }
    format!("{}\n", table.render())
}

pub fn engines(report: &Report) -> String {
    match &report.fio {
        Some(version) => format!("engine {}, beside {version}", report.engine),
        None => format!("engine {}", report.engine),
    }
}

pub fn headings(has_fio: bool, has_stream: bool) -> Vec<&'static str> {
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

pub fn cells(row: &Row, has_fio: bool, has_stream: bool) -> Vec<String> {
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
