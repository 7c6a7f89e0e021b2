//! `kist verify`.

use std::sync::Mutex;
use std::sync::PoisonError;
use std::sync::atomic::{AtomicU64, Ordering};

use base::{Adler32, Crc32c, StreamChecksums};
use client::transfer::{JOBS_DEFAULT, RemoteItem, RemoteKind, Tally, walk_remote};
use client::{Client, archive_path};
use terminal::{Exit, Failure, Outcome, Progress, output, parallel, text};
use wire::{VerifyCatalogueReply, VerifyReply};

use crate::cli::Common;

/// Bytes that the server reads in one call.
const PART_BYTES: u64 = 256 << 20;

/// Arguments.
#[derive(clap::Args, Debug)]
#[command(after_help = "\
The server reads every file named, and all below the directories named, from
the pool, and compares all checksums; no byte is sent here. Files that are on
tape only are counted as NEARLINE: kist tape verify reads tapes. Exit code 7 if
a file is lost or damaged.

Examples:
  kist verify /survey
  kist verify --catalogue")]
pub struct Args {
    /// Files or directories; all of the archive if none is named
    paths: Vec<String>,
    /// Check all tables of the catalogue against each other instead
    #[arg(long, conflicts_with = "paths")]
    catalogue: bool,
    /// Files at once
    #[arg(short, long, default_value_t = JOBS_DEFAULT, value_parser = parallel::parse_jobs)]
    jobs: usize,
}

/// Runs the command.
pub fn run(args: &Args, common: &Common) -> Outcome {
    let client = common.connection.client()?;
    if args.catalogue {
        return catalogue(&client, common.json);
    }
    let named = if args.paths.is_empty() { vec!["/".to_owned()] } else { args.paths.clone() };
    let mut items = Vec::new();
    let nearline = Mutex::new(Vec::new());
    for path in &named {
        let root = RemoteItem::of_stat(&client.stat(&archive_path(path)?)?)?;
        let mut take = |item: &RemoteItem| {
            if item.is_nearline() {
                nearline.lock().unwrap_or_else(PoisonError::into_inner).push(item.path.clone());
            } else if item.kind == RemoteKind::File {
                items.push(item.clone());
            }
            Ok(())
        };
        take(&root)?;
        if root.kind == RemoteKind::Directory {
            walk_remote(&client, &root, &mut take)?;
        }
    }
    let bytes: u64 = items.iter().map(|item| item.size).sum();
    let progress = Progress::start("verify", items.len() as u64, bytes, common.quiet);
    let tally = Tally::default();
    let parts = AtomicU64::new(0);
    parallel::each(&items, args.jobs, &tally.stop, |item| {
        match verify(&client, item, &progress, &parts) {
            Ok(true) => tally.add_done(item.size),
            Ok(false) => nearline.lock().unwrap_or_else(PoisonError::into_inner).push(item.path.clone()),
            // It was removed since it was listed.
            Err(failure) if failure.exit == Exit::NotFound => tally.add_skipped(),
            Err(failure) => tally.add_failure(&item.path, failure),
        }
        progress.add_files(1);
    });
    let elapsed = progress.elapsed();
    drop(progress);
    let nearline = nearline.into_inner().unwrap_or_else(PoisonError::into_inner);
    if common.json {
        output::json(&serde_json::json!({
            "verified": tally.done(),
            "bytes": tally.bytes(),
            "nearline": nearline,
            "failed": tally.failed(),
            "failures": tally.failures_json(),
            "seconds": elapsed.as_secs_f64(),
        }))?;
    } else {
        output::line(&format!(
            "{} verified, {} NEARLINE, {} failed; read {}",
            text::files(tally.done()),
            text::count(nearline.len() as u64),
            text::count(tally.failed()),
            text::speed(tally.bytes(), elapsed)
        ))?;
    }
    tally.outcome(items.len().max(2))
}

/// Reads all parts of a file; `false` if it is on tape only by now.
fn verify(client: &Client, item: &RemoteItem, progress: &Progress, parts: &AtomicU64) -> Outcome<bool> {
    let (mut at, mut sums, mut version) = (0, StreamChecksums::default(), None);
    loop {
        let path = text::encode(&item.path);
        let reply = client.get(&format!("/api/v1/verify?path={path}&offset={at}&length={PART_BYTES}"));
        let reply: VerifyReply = match reply {
            Ok(reply) => reply,
            Err(failure) if failure.exit == Exit::Refused && failure.message.contains("NEARLINE") => {
                return Ok(false);
            }
            Err(failure) => return Err(failure),
        };
        parts.fetch_add(1, Ordering::Relaxed);
        if *version.get_or_insert(reply.file_id) != reply.file_id {
            // Another version took its name meanwhile: that one is read from its beginning.
            (at, sums, version) = (0, StreamChecksums::default(), None);
            continue;
        }
        sums = sums.combine(checksums(&reply.adler32, &reply.crc32c)?, reply.length);
        at += reply.length;
        progress.add_bytes(reply.length);
        if at >= reply.size {
            return if sums == checksums(&reply.file_adler32, &reply.file_crc32c)? {
                Ok(true)
            } else {
                let message =
                    format!("{}: the bytes in the pool do not have the file's checksums", item.path);
                Err(Failure::new(Exit::Differs, message))
            };
        }
        if reply.length == 0 {
            return Err(Failure::internal(format!("{}: the server read nothing at byte {at}", item.path)));
        }
    }
}

fn checksums(adler32: &str, crc32c: &str) -> Outcome<StreamChecksums> {
    let number = |text: &str| u32::from_str_radix(text, 16).ok();
    match (number(adler32), number(crc32c)) {
        (Some(adler32), Some(crc32c)) => {
            Ok(StreamChecksums { adler32: Adler32(adler32), crc32c: Crc32c(crc32c) })
        }
        _ => Err(Failure::internal("the server's checksums cannot be read")),
    }
}

fn catalogue(client: &Client, json: bool) -> Outcome {
    let target = "/api/v1/verify/catalogue";
    let reply: VerifyCatalogueReply = client.post_long_for(target, &serde_json::json!({}), &mut |_| {})?;
    if json {
        output::json(&reply)?;
    } else if reply.findings.is_empty() {
        output::line("the catalogue is sound: every record has its checksum, and all tables agree")?;
    } else {
        reply.findings.iter().try_for_each(|line| output::line(&terminal::one_line(line)))?;
    }
    match reply.findings.len() {
        0 => Ok(()),
        found => Err(Failure::new(Exit::Differs, format!("{found} records of the catalogue are wrong"))),
    }
}
