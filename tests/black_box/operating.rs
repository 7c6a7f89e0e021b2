//! What an operator's tools get: metrics, logs, completions, manual pages, the service manager.

use std::collections::BTreeSet;
use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::os::unix::net::UnixDatagram;
use std::path::Path;
use std::process::{Command, Stdio};

use crate::harness::{Instance, KIST, bytes, kist, write};
use crate::rebuild::with_backup;

fn described(metrics: &str) -> BTreeSet<&str> {
    metrics.lines().filter_map(|line| line.strip_prefix("# TYPE ")?.split(' ').next()).collect()
}

/// A panel that asks for a name that nobody writes stays empty for ever, and nobody notices.
#[test]
fn the_dashboard_asks_for_what_is_there() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../packaging/grafana/kist.json");
    let dashboard: serde_json::Value = serde_json::from_str(&fs::read_to_string(path).unwrap()).unwrap();
    let dashboard = dashboard.to_string();
    let ends = |c: char| !(c.is_ascii_alphanumeric() || c == '_');
    let asked: BTreeSet<_> = dashboard.split(ends).filter(|word| word.starts_with("kist_")).collect();
    assert!(asked.len() > 30, "{asked:?}");

    let mut instance = Instance::init();
    with_backup(&instance);
    instance.start();
    let file = instance.beside("file");
    write(&file, &bytes(50_000, 1));
    instance.kist(&["put", file.to_str().unwrap(), "/file"]).exits(0);
    instance.kist(&["backup", "now"]).exits(0);
    let (status, metrics) = instance.http("GET", "/metrics", &[], b"");
    assert_eq!(status, 200, "{metrics}");
    let described = described(&metrics);
    for name in asked {
        let known = ["", "_total", "_bucket"]
            .iter()
            .any(|end| name.strip_suffix(end).is_some_and(|name| described.contains(name)));
        assert!(known, "{name} is in the dashboard, not in /metrics: {described:?}");
    }
    let files: f64 = metrics
        .lines()
        .filter(|line| line.starts_with("kist_files{") && line.contains("state=\"all\""))
        .map(|line| line.rsplit(' ').next().unwrap().parse::<f64>().unwrap())
        .sum();
    assert_eq!(files, 1.0, "{metrics}");
}

#[test]
fn completions_know_every_command() {
    for shell in ["bash", "zsh", "fish"] {
        let script = kist(&["completions", shell]).exits(0).out;
        for word in ["put", "stage", "repack", "completions"] {
            assert!(script.contains(word), "{shell} does not know {word}");
        }
    }
    kist(&["completions", "tcsh"]).exits(2);
}

#[test]
fn every_command_has_a_manual_page() {
    let directory = tempfile::tempdir().unwrap();
    let said = kist(&["man", directory.path().to_str().unwrap()]).exits(0).out;
    let pages: BTreeSet<_> = fs::read_dir(directory.path())
        .unwrap()
        .map(|page| page.unwrap().file_name().into_string().unwrap())
        .collect();
    assert!(said.starts_with(&format!("{} manual pages", pages.len())), "{said}");
    for name in ["kist.1", "kist-serve.1", "kist-tape-repack.1", "kist-plan-site.1"] {
        let page = fs::read_to_string(directory.path().join(name)).unwrap();
        assert!(page.contains(".TH") && page.contains(".SH SYNOPSIS"), "{name}: {page}");
    }
    assert!(pages.len() > 60, "{pages:?}");
}

/// With `Type=notify` a server that does not say that it is ready is killed after a while, and one that does
/// not say that it stops may be killed while it writes an index.
#[test]
fn the_service_manager_and_the_log_are_told() {
    let instance = Instance::init();
    let path = instance.beside("notify");
    let manager = UnixDatagram::bind(&path).unwrap();
    let mut child = Command::new(&*KIST)
        .args(["serve", "--stop-with-stdin", "--log-format", "json", instance.dir().to_str().unwrap()])
        .env("NOTIFY_SOCKET", &path)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut line = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
    let mut message = [0; 1024];
    let mut told = || {
        let length = manager.recv(&mut message).unwrap();
        String::from_utf8(message[..length].to_vec()).unwrap()
    };
    let ready = told();
    assert!(ready.contains("READY=1") && ready.contains("STATUS=serves "), "{ready}");
    drop(child.stdin.take());
    assert!(told().contains("STOPPING=1"));
    let mut log = String::new();
    child.stderr.take().unwrap().read_to_string(&mut log).unwrap();
    assert!(child.wait().unwrap().success(), "{log}");
    assert!(log.lines().count() > 2, "{log}");
    for line in log.lines() {
        let event: serde_json::Value = serde_json::from_str(line).unwrap_or_else(|_| panic!("{line}"));
        assert!(event["timestamp"].is_string() && event["message"].is_string(), "{line}");
    }
}
