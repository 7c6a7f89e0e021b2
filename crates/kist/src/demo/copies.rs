//! Whether each file has its copies where they belong.

use std::collections::BTreeSet;
use std::sync::Mutex;
use std::sync::PoisonError;

use client::Client;
use client::transfer::{JOBS_DEFAULT, Tally};
use terminal::{Exit, Failure, Outcome, Progress, parallel};
use wire::{FileReply, StatReply};

/// Checks that each file is under an index on a tape of each of its tape pools; gives all tapes.
pub fn check(client: &Client, files: &[String], quiet: bool) -> Outcome<BTreeSet<String>> {
    let tally = Tally::default();
    let tapes = Mutex::new(BTreeSet::new());
    let progress = Progress::start("check", files.len() as u64, 0, quiet);
    parallel::each(files, JOBS_DEFAULT, &tally.stop, |path| {
        match client.stat(path).and_then(|stat| tapes_of(&stat)) {
            Ok(found) => {
                tapes.lock().unwrap_or_else(PoisonError::into_inner).extend(found);
                tally.add_done(0);
            }
            Err(failure) => tally.add_failure(path, failure),
        }
        progress.add_files(1);
    });
    tally.outcome(files.len())?;
    Ok(tapes.into_inner().unwrap_or_else(PoisonError::into_inner))
}

/// The tapes that hold a file, if it has all its copies and each is under an index.
fn tapes_of(stat: &StatReply) -> Outcome<BTreeSet<String>> {
    let lacks = |what: String| Err(Failure::new(Exit::SomeFailed, format!("{}: {what}", stat.path)));
    let Some(file) = &stat.file else { return lacks("it is no file".to_owned()) };
    if let Some(copy) = file.copies.iter().find(|copy| copy.state != "indexed") {
        return lacks(format!("its copy in {} is only {}", copy.tape_pool, copy.state));
    }
    let pools: BTreeSet<&str> = file.copies.iter().map(|copy| copy.tape_pool.as_str()).collect();
    if pools.len() < file.copies_wanted as usize {
        return lacks(format!("it is in {} of {} tape pools", pools.len(), file.copies_wanted));
    }
    let tapes = vids(file);
    if tapes.len() < pools.len() {
        return lacks("two of its copies are on one tape".to_owned());
    }
    Ok(tapes)
}

fn vids(file: &FileReply) -> BTreeSet<String> {
    file.copies.iter().filter_map(|copy| copy.vid.clone()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stat(copies: &[(&str, &str, &str)]) -> StatReply {
        let copies: Vec<_> = copies
            .iter()
            .map(|(pool, state, vid)| {
                serde_json::json!({"tape_pool": pool, "state": state, "vid": vid, "block": 5, "container": 1,
                    "container_kind": "pack", "tape_path": "/.kist/p", "offset": 0, "length": 1})
            })
            .collect();
        serde_json::from_value(serde_json::json!({
            "path": "/f", "kind": "file", "size": 1, "mode": "0644", "owner": "a", "group": "a",
            "mtime": "2026-11-21T20:29:00Z", "created": "2026-11-21T20:29:00Z", "file_id": 2,
            "locality": "ONLINE_AND_NEARLINE", "adler32": "", "crc32c": "", "blake3": "", "copies_wanted": 2,
            "copies": copies, "pins": []
        }))
        .unwrap()
    }

    #[test]
    fn two_indexed_copies_on_two_tapes_of_two_pools() {
        let good = stat(&[("a", "indexed", "KS0001"), ("b", "indexed", "KS0002")]);
        assert_eq!(tapes_of(&good).unwrap().len(), 2);
        for bad in [
            stat(&[("a", "indexed", "KS0001")]),
            stat(&[("a", "indexed", "KS0001"), ("b", "flushed", "KS0002")]),
            stat(&[("a", "indexed", "KS0001"), ("b", "indexed", "KS0001")]),
            stat(&[("a", "indexed", "KS0001"), ("a", "indexed", "KS0002")]),
        ] {
            assert!(tapes_of(&bad).is_err(), "{:?}", bad.file.unwrap().copies);
        }
    }
}
