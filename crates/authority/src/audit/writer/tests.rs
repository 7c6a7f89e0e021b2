//! The log as files: what is written is read, and what was changed is found.

use std::fs;
use std::path::PathBuf;

use base::Timestamp;

use super::super::read::{AuditFault, AuditSummary, read_audit};
use super::*;

pub(super) fn entry(what: &str) -> AuditEntry {
    AuditEntry {
        at: Timestamp(1_790_000_000_000_000_000),
        who: "anna".to_owned(),
        how: "key".to_owned(),
        peer: "127.0.0.1:5000".to_owned(),
        verb: "put".to_owned(),
        what: what.to_owned(),
        outcome: Outcome::Done,
        note: String::new(),
    }
}

pub(super) struct Still;

impl Clock for Still {
    fn now(&self) -> Timestamp {
        Timestamp(1)
    }
}

fn open(directory: &Path) -> Audit {
    Audit::open(directory, Arc::new(Still)).unwrap()
}

pub(super) fn read(directory: &Path) -> Result<(Vec<String>, AuditSummary), AuditFault> {
    let mut found = Vec::new();
    let summary = read_audit(directory, None, &mut |_, line| {
        if let AuditLine::Entry(entry) = line {
            found.push(entry.what.clone());
        }
    })?;
    Ok((found, summary))
}

fn files(directory: &Path) -> Vec<PathBuf> {
    LogFiles::<AuditLine>::new(directory).list().unwrap().into_iter().map(|(_, path)| path).collect()
}

fn write(directory: &Path, names: &[&str]) {
    let audit = open(directory);
    names.iter().for_each(|name| audit.record(entry(name)));
}

#[test]
fn lines_are_durable_after_a_flush_and_go_on_after_a_stop() {
    let directory = tempfile::tempdir().unwrap();
    let audit = open(directory.path());
    audit.record(entry("/1"));
    audit.flush();
    assert_eq!(read(directory.path()).unwrap().0, ["/1"]);
    audit.record(entry("/2"));
    audit.close();
    audit.record(entry("/too late"));
    write(directory.path(), &["/3"]);
    let (found, summary) = read(directory.path()).unwrap();
    assert_eq!(found, ["/1", "/2", "/3"]);
    assert_eq!((summary.files, summary.lines, summary.last, summary.is_complete), (1, 4, 4, true));
    let mut none = |_: u64, _: &AuditLine| {};
    assert!(read_audit(directory.path(), Some(summary.hash), &mut none).unwrap().has_expected);
    assert!(!read_audit(directory.path(), Some(base::Blake3([1; 32])), &mut none).unwrap().has_expected);
}

#[test]
fn nothing_is_left_out_when_the_queue_is_full() {
    let directory = tempfile::tempdir().unwrap();
    let audit = Arc::new(open(directory.path()));
    let writers: Vec<_> = (0..4)
        .map(|writer| {
            let audit = audit.clone();
            threads::spawn(move || {
                (0..AUDIT_QUEUE_MAX).for_each(|n| audit.record(entry(&format!("/{writer}/{n}"))));
            })
        })
        .collect();
    writers.into_iter().for_each(|writer| writer.join().unwrap());
    audit.close();
    assert_eq!(read(directory.path()).unwrap().0.len(), 4 * AUDIT_QUEUE_MAX);
}

#[test]
fn the_chain_goes_through_all_files() {
    let directory = tempfile::tempdir().unwrap();
    let audit = Audit::with_limits(directory.path(), Arc::new(Still), 200, 3).unwrap();
    for n in 0..10 {
        audit.record(entry(&format!("/{n}")));
        audit.flush();
    }
    audit.close();
    assert_eq!(files(directory.path()).len(), 3);
    let (found, summary) = read(directory.path()).unwrap();
    assert_eq!(found.last().map(String::as_str), Some("/9"));
    assert!(!summary.is_complete && summary.files == 3, "{summary:?}");
    // One of the files is missing.
    fs::remove_file(&files(directory.path())[1]).unwrap();
    assert!(matches!(read(directory.path()), Err(AuditFault::Missing { .. })));
}

#[test]
fn whatever_is_changed_removed_added_or_moved_is_found() {
    let directory = tempfile::tempdir().unwrap();
    write(directory.path(), &["/1", "/2", "/3", "/4", "/5"]);
    let path = files(directory.path()).remove(0);
    let good = fs::read_to_string(&path).unwrap();
    let lines: Vec<&str> = good.split_inclusive('\n').collect();
    assert_eq!(lines.len(), 6);
    let mut changed: Vec<String> = Vec::new();
    // Each byte of a line changed by one bit, so that it stays text.
    let offset: usize = lines[..2].iter().map(|line| line.len()).sum();
    for at in offset..offset + lines[2].len() - 1 {
        let mut bytes = good.clone().into_bytes();
        bytes[at] ^= 1;
        changed.extend(String::from_utf8(bytes));
    }
    // Each line but the last removed, doubled, or exchanged with the next.
    for n in 0..5 {
        let without = lines.iter().enumerate().filter(|(at, _)| *at != n).map(|(_, line)| *line);
        changed.push(without.collect());
        let twice = lines.iter().enumerate().map(|(at, line)| line.repeat(1 + usize::from(at == n)));
        changed.push(twice.collect());
        let mut moved = lines.clone();
        moved.swap(n, n + 1);
        changed.push(moved.concat());
    }
    let mut found = 0;
    for text in &changed {
        fs::write(&path, text).unwrap();
        let fault = read(directory.path()).unwrap_err();
        assert!(matches!(fault, AuditFault::Line { .. }), "{text}");
        // A changed byte was told as a version of a newer kist once.
        assert!(!fault.to_string().contains("newer kist"), "{fault}");
        found += 1;
    }
    assert!(found > 100, "{found}");
    fs::write(&path, &good).unwrap();
    assert_eq!(read(directory.path()).unwrap().0.len(), 5);
}

/// A crash can leave the beginning of a line, or a file without one.
#[test]
fn a_torn_end_is_cut_and_the_chain_goes_on() {
    let directory = tempfile::tempdir().unwrap();
    write(directory.path(), &["/1", "/2"]);
    let path = files(directory.path()).remove(0);
    let good = fs::read(&path).unwrap();
    let whole = good.iter().position(|byte| *byte == b'\n').unwrap() + 1;
    let second = whole + good[whole..].iter().position(|byte| *byte == b'\n').unwrap() + 1;
    for cut in [second + 1, second + 70, good.len() - 1] {
        fs::write(&path, &good[..cut]).unwrap();
        assert_eq!(read(directory.path()).unwrap().0, ["/1"], "cut at {cut}");
        write(directory.path(), &["/3"]);
        assert_eq!(read(directory.path()).unwrap().0, ["/1", "/3"], "cut at {cut}");
    }
    fs::write(&path, b"").unwrap();
    write(directory.path(), &["/4"]);
    assert_eq!(read(directory.path()).unwrap().0, ["/4"]);
}
