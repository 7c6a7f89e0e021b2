use std::path::PathBuf;

use super::super::ceiling::Ceiling;
use super::super::figures::{FioShown, Latency, Scaling};
use super::super::place::PlaceShown;
use super::*;

fn direction(operations: u64, p50: f64) -> DirectionShown {
    let seconds = Latency { p50, p99: p50 * 4.0, max: p50 * 9.0 };
    DirectionShown { operations, bytes: operations * 4096, seconds }
}

fn row(size_bytes: u64, mix: &str, rate: f64) -> Row {
    let fio = FioShown { bytes_per_second: rate / 2.0, ratio: 2.0, ratio_interval: None, pairs: Vec::new() };
    Row {
        size_bytes,
        mix: mix.to_owned(),
        access: "random".to_owned(),
        depth: 8,
        seconds: 5.0,
        bytes_per_second: rate,
        operations_per_second: rate / size_bytes as f64,
        read: direction(u64::from(mix != "write") * 100, 0.002),
        write: direction(u64::from(mix == "write") * 100, 0.005),
        is_verified: true,
        faults: Vec::new(),
        paths: Vec::new(),
        stream: None,
        fio: Some(fio),
    }
}

fn ceiling(rate: Option<f64>) -> Ceiling {
    Ceiling { mb_s: rate, words: "the SAS link of port-0:0 limits".to_owned(), disks: Vec::new(), paths: 1 }
}

fn report() -> Report {
    let scaling = |count: usize, rate| Scaling {
        count,
        row: row(1 << 20, "read", 200e6 * count as f64),
        bottleneck: ceiling(rate),
    };
    Report {
        places: vec![PlaceShown {
            path: PathBuf::from("/mnt/<script>&"),
            kind: "temporary file",
            file_system: "xfs".to_owned(),
            bytes: 1 << 30,
            is_direct: true,
            is_in_memory: false,
        }],
        engine: "io_uring".to_owned(),
        fio: Some("fio-3.39".to_owned()),
        bottleneck: ceiling(Some(2200.0)),
        notes: vec!["a <note>".to_owned()],
        rows: vec![row(1 << 20, "read", 200e6), row(4096, "read", 4.096e6), row(1 << 20, "write", 100e6)],
        scaling: vec![scaling(1, Some(230.0)), scaling(2, Some(460.0)), scaling(12, Some(2200.0))],
    }
}

#[test]
fn rate_operations_latency_and_paths_are_drawn_with_their_numbers() {
    let html = page(&report());
    assert_eq!(html.matches("<svg").count(), 4, "rate, operations, latency, paths");
    for held in [
        "random, size of an operation against rate",
        "against operations a second",
        "against latency",
        "random, paths together against rate",
        "the SAS link of port-0:0 limits (computed): 2200 MB/s",
        "<th>read, MB/s</th>",
        "<th>read, fio, MB/s</th>",
        "<th>read: reads p99, ms</th>",
        "<th>write: writes p50, ms</th>",
        "<th>computed, MB/s</th>",
        // 4 KiB: 1,000 a second; the computed bottleneck of twelve.
        "<td>1,000</td>",
        "<td>2,200</td>",
    ] {
        assert!(html.contains(held), "{held}: {html}");
    }
    assert!(!html.contains("read: writes"), "nothing is drawn of what was not done");
}

#[test]
fn the_page_loads_nothing_and_runs_nothing() {
    let html = page(&report());
    assert!(html.contains("/mnt/&lt;script&gt;&amp;") && html.contains("a &lt;note&gt;"), "{html}");
    for none in ["<script", "http:", "https:", "url(", "<link", "<img", "@import"] {
        assert!(!html.contains(none), "{none}");
    }
    assert!(html.contains("prefers-color-scheme:dark"));
}

#[test]
fn without_a_computed_bottleneck_there_is_no_line() {
    let mut report = report();
    report.bottleneck = ceiling(None);
    report.scaling.iter_mut().for_each(|one| one.bottleneck = ceiling(None));
    let html = page(&report);
    assert!(!html.contains("mark\"") && html.contains("no bottleneck is computed"), "{html}");
    report.scaling.clear();
    assert_eq!(page(&report).matches("<svg").count(), 3);
}
