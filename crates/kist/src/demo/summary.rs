//! The figures at the end of the demonstration.

use std::collections::BTreeSet;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::Duration;

use terminal::{Outcome, Table, output, text};
use wire::StatusReply;

/// What was measured on the way.
pub struct Measured {
    /// Files put.
    pub files: u64,
    /// Their bytes.
    pub bytes: u64,
    /// The directory of the archive.
    pub remote: String,
    /// A file in it.
    pub example: String,
    /// How long the put took.
    pub put: Duration,
    /// Bytes of all copies that the migration wrote.
    pub migrated: u64,
    /// How long the migration took.
    pub migrate: Duration,
    /// How long the recall took.
    pub recall: Duration,
    /// How long the comparison took.
    pub compare: Duration,
    /// The tapes written.
    pub tapes: BTreeSet<String>,
    /// The server's counters before.
    pub before: StatusReply,
    /// And after.
    pub after: StatusReply,
}

/// Writes the summary and what to try next.
pub fn print(measured: &Measured, directory: &Path, serving: bool) -> Outcome {
    let Measured { files, bytes, before, after, .. } = measured;
    let written = after.tape_written.saturating_sub(before.tape_written);
    let mut table = Table::new(&["phase", ">files", ">bytes", ">time", ">rate"]);
    let mut row = |phase: &str, bytes: u64, span: Duration| {
        let cells = [
            phase.to_owned(),
            text::count(*files),
            text::size(bytes),
            text::span(span),
            text::rate(bytes, span),
        ];
        table.row(cells.to_vec());
    };
    row("put", *bytes, measured.put);
    row("migrate, all copies", measured.migrated, measured.migrate);
    row("migrate, each copy", measured.migrated / 2, measured.migrate);
    row("recall", *bytes, measured.recall);
    row("compare", *bytes, measured.compare);
    output::line("")?;
    output::write(&table.render())?;
    let risen = |after: u64, before: u64| after.saturating_sub(before);
    let tapes: Vec<&str> = measured.tapes.iter().map(String::as_str).collect();
    output::line("")?;
    output::line(&format!(
        "tape       {} on {}: {}, {}, {}, {}",
        text::size(written),
        tapes.join(", "),
        text::plural(risen(after.mounts, before.mounts), "mount"),
        text::plural(risen(after.packs, before.packs), "pack"),
        text::plural(risen(after.flushes, before.flushes), "flush point"),
        text::plural(risen(after.indexes, before.indexes), "index"),
    ))?;
    output::line(&format!(
        "pool       {} used for {} of files, parity included",
        text::size(stored_below(&directory.join("pool"))),
        text::size(after.online_bytes)
    ))?;
    output::line(&format!("server     {} of anonymous memory", text::size(after.memory_anonymous)))?;
    next(measured, directory, serving)
}

/// Bytes that the files below a directory take on disk.
fn stored_below(directory: &Path) -> u64 {
    let mut sum = 0;
    let mut directories = vec![directory.to_owned()];
    while let Some(directory) = directories.pop() {
        for entry in std::fs::read_dir(directory).into_iter().flatten().flatten() {
            match entry.metadata() {
                Ok(metadata) if metadata.is_dir() => directories.push(entry.path()),
                Ok(metadata) => sum += metadata.blocks() * 512,
                Err(_) => {}
            }
        }
    }
    sum
}

fn next(measured: &Measured, directory: &Path, serving: bool) -> Outcome {
    let program = std::env::args().next().unwrap_or_else(|| "kist".to_owned());
    let Measured { remote, example, tapes, .. } = measured;
    let directory = directory.display();
    output::line("\nTry next:")?;
    if !serving {
        output::line(&format!("  {program} serve {directory} &"))?;
    }
    output::line(&format!("  export KIST_INSTANCE={directory}"))?;
    output::line(&format!("  {program} ls -l {remote}"))?;
    output::line(&format!("  {program} stat {}", quoted(example)))?;
    output::line(&format!("  {program} status"))?;
    if let Some(tape) = tapes.first() {
        output::line(&format!("  {program} tape show {tape}"))?;
        output::line(&format!("  {program} tape dump {tape} | head"))?;
    }
    output::line(&format!("  {program} key create me --s3 --admin     # for S3: docs/quick-start"))?;
    output::line(&format!("  {program} evict {remote} && {program} stage --wait {remote}"))
}

/// A path as a word for the shell.
fn quoted(path: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "/._-+,@%".contains(c);
    if path.chars().all(plain) { path.to_owned() } else { format!("'{}'", path.replace('\'', r"'\''")) }
}
