//! `kist evict`.

use std::collections::BTreeMap;

use client::{Client, Watched, archive_path};
use terminal::{Exit, Failure, Outcome, output, text};
use wire::{EvictReply, SelectionBody};

use crate::cli::Common;

/// Lines that tell what was refused.
const LINES_MAX: usize = 20;
/// Files shown of each reason.
const PATHS_SHOWN_MAX: usize = 3;
/// Files that are asked for their pins.
const PATHS_ASKED_MAX: usize = 3;

/// Arguments.
#[derive(clap::Args, Debug)]
#[command(after_help = "\
Removes the pool copies only of files that have all their tape copies under an
index and that nobody has pinned; others are refused with the reason.
Directories stand for all files below.

Example:
  kist evict /demo-1")]
pub struct Args {
    /// Files and directories
    #[arg(required = true, value_name = "PATH")]
    paths: Vec<String>,
}

/// Runs the command.
pub fn run(args: &Args, common: &Common) -> Outcome {
    let paths = args.paths.iter().map(|path| archive_path(path)).collect::<Outcome<Vec<_>>>()?;
    let client = common.connection.client()?;
    let reply = evict(&client, paths, common.quiet)?;
    if common.json {
        output::json(&reply)?;
    } else if let Some(summary) = summary(&reply) {
        output::line(&summary)?;
    }
    outcome(&client, &reply)
}

/// Evicts paths, all below directories included.
pub fn evict(client: &Client, paths: Vec<String>, quiet: bool) -> Outcome<EvictReply> {
    let body = SelectionBody { paths, recursive: true, pin_seconds: None, priority: None };
    let mut watched = Watched::new("evict", quiet);
    client.post_long_for("/api/v1/evict", &body, &mut |work| watched.show(work))
}

/// Refused files are failures; they are shown by reason.
pub fn outcome(client: &Client, reply: &EvictReply) -> Outcome {
    if reply.refused_count == 0 {
        return Ok(());
    }
    refusals(client, reply)?.iter().for_each(|line| output::note(&format!("kist: {line}")));
    let only = reply.evicted + reply.already == 0;
    let exit = if only { Exit::Refused } else { Exit::SomeFailed };
    Err(Failure::new(exit, staying(reply.refused_count)))
}

/// How many were refused.
fn staying(count: u64) -> String {
    let stay = if count == 1 { "stays" } else { "stay" };
    format!("{} {stay} in the pool", text::files(count))
}

/// All that an evict did, in one sentence; `None` if it did nothing but refuse, which is told as a failure.
fn summary(reply: &EvictReply) -> Option<String> {
    if reply.refused_count > 0 && reply.evicted + reply.already == 0 {
        return None;
    }
    let mut text = format!("evicted {}, {}", text::files(reply.evicted), text::size(reply.bytes));
    if reply.already > 0 {
        text += &format!("; {} NEARLINE before", text::files(reply.already));
    }
    Some(text)
}

/// At most [`LINES_MAX`] lines: each reason with its first files.
fn refusals(client: &Client, reply: &EvictReply) -> Outcome<Vec<String>> {
    let mut reasons: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for refused in &reply.refused {
        reasons.entry(&refused.reason).or_default().push(&refused.path);
    }
    let mut lines = Vec::new();
    for (reason, paths) in reasons {
        let pinned = if reason.contains("request") { pinned_by(client, &paths)? } else { None };
        let reason = pinned.as_deref().unwrap_or(reason);
        if let [path] = paths.as_slice() {
            lines.push(format!("{path}: {reason}"));
            continue;
        }
        lines.push(format!("{}: {reason}", text::files(paths.len() as u64)));
        lines.extend(paths.iter().take(PATHS_SHOWN_MAX).map(|path| format!("  {path}")));
        if let Some(more) = paths.len().checked_sub(PATHS_SHOWN_MAX + 1) {
            lines.push(format!("  ... and {} more", text::count(more as u64 + 1)));
        }
    }
    if lines.len() > LINES_MAX {
        lines.truncate(LINES_MAX - 1);
        lines.push("... more are only counted".to_owned());
    }
    Ok(lines)
}

/// Which requests hold the first of `paths`, if any does.
fn pinned_by(client: &Client, paths: &[&str]) -> Outcome<Option<String>> {
    let mut requests: BTreeMap<u64, String> = BTreeMap::new();
    for path in paths.iter().take(PATHS_ASKED_MAX) {
        // A file may have been removed meanwhile.
        let Some(file) = client.find(path)?.and_then(|stat| stat.file) else { continue };
        requests.extend(file.pins.into_iter().map(|pin| (pin.request, text::whole_seconds(&pin.until))));
    }
    let each = |(request, until): (&u64, &String)| {
        format!("pinned by request {request} until {until}: kist release {request}")
    };
    let all: Vec<String> = requests.iter().map(each).collect();
    // Only some were asked, or thousands of files would be.
    let rest = match paths.len().checked_sub(PATHS_ASKED_MAX) {
        Some(others @ 1..) => {
            format!(" (the first {PATHS_ASKED_MAX}; the other {others}: kist why PATH)")
        }
        _ => String::new(),
    };
    Ok((!all.is_empty()).then(|| all.join("; ") + &rest))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reply(evicted: u64, already: u64, refused_count: u64) -> EvictReply {
        EvictReply { evicted, already, bytes: 2_000_000, refused: Vec::new(), refused_count }
    }

    /// When all was refused, that was said three times: in the summary, with the reason, and as the failure.
    #[test]
    fn what_is_refused_is_told_once() {
        assert_eq!(summary(&reply(0, 0, 3)), None);
        assert_eq!(staying(3), "3 files stay in the pool");
        assert_eq!(staying(1), "1 file stays in the pool");
        assert_eq!(summary(&reply(2, 0, 3)).as_deref(), Some("evicted 2 files, 2.00 MB"));
        assert_eq!(
            summary(&reply(0, 1, 3)).as_deref(),
            Some("evicted 0 files, 2.00 MB; 1 file NEARLINE before")
        );
    }
}
