//! `kist evict`.

use std::collections::BTreeMap;

use client::{Client, Watched, archive_path};
use terminal::{Exit, Failure, Outcome, output, text};
use wire::{EvictReply, HeldByReply, SelectionBody};

use crate::cli::Common;

/// Lines that tell what was refused.
const LINES_MAX: usize = 20;
/// Files shown of each reason.
const PATHS_SHOWN_MAX: usize = 3;

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
    outcome(&reply)
}

/// Evicts paths, all below directories included.
pub fn evict(client: &Client, paths: Vec<String>, quiet: bool) -> Outcome<EvictReply> {
    let body = SelectionBody { paths, recursive: true, pin_seconds: None, priority: None };
    let mut watched = Watched::new("evict", quiet);
    client.post_long_for("/api/v1/evict", &body, &mut |work| watched.show(work))
}

/// Refused files are failures; they are shown by reason.
pub fn outcome(reply: &EvictReply) -> Outcome {
    if reply.refused_count == 0 {
        return Ok(());
    }
    refusals(reply).iter().for_each(|line| output::note(&format!("kist: {line}")));
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
fn refusals(reply: &EvictReply) -> Vec<String> {
    let mut lines = Vec::new();
    for Refused { reason, paths, files, held_by } in by_reason(reply) {
        lines.extend(told(reason, &paths, files));
        lines.extend(holding(held_by));
    }
    if lines.len() > LINES_MAX {
        lines.truncate(LINES_MAX - 1);
        lines.push("... more are only counted".to_owned());
    }
    lines
}

/// Files that were refused for one reason.
#[derive(PartialEq, Eq, Debug)]
struct Refused<'a> {
    reason: &'a str,
    /// Those that the server has named.
    paths: Vec<&'a str>,
    /// How many there are.
    files: u64,
    /// The requests that hold them, if that is the reason.
    held_by: &'a [HeldByReply],
}

/// What was refused, by reason. The server names the first files only and counts all.
fn by_reason(reply: &EvictReply) -> Vec<Refused<'_>> {
    let mut reasons: BTreeMap<&str, Refused<'_>> = BTreeMap::new();
    let begin = |reason| Refused { reason, paths: Vec::new(), files: 0, held_by: &[] };
    for refused in &reply.refused {
        let reason = refused.reason.as_str();
        reasons.entry(reason).or_insert_with(|| begin(reason)).paths.push(&refused.path);
    }
    for counted in &reply.reasons {
        let reason = counted.reason.as_str();
        let refused = reasons.entry(reason).or_insert_with(|| begin(reason));
        refused.files += counted.files;
        refused.held_by = &counted.held_by;
    }
    for refused in reasons.values_mut() {
        refused.files = refused.files.max(refused.paths.len() as u64);
    }
    reasons.into_values().collect()
}

fn told(reason: &str, paths: &[&str], files: u64) -> Vec<String> {
    if let (1, [path]) = (files, paths) {
        return vec![format!("{path}: {reason}")];
    }
    let mut lines = vec![format!("{}: {reason}", text::files(files))];
    let shown = paths.iter().take(PATHS_SHOWN_MAX);
    lines.extend(shown.map(|path| format!("  {path}")));
    let more = files.saturating_sub(paths.len().min(PATHS_SHOWN_MAX) as u64);
    if more > 0 && !paths.is_empty() {
        lines.push(format!("  ... and {} more", text::count(more)));
    }
    lines
}

/// Which requests hold the files, and how each lets go of them.
fn holding(held: &[HeldByReply]) -> Vec<String> {
    let each = |by: &HeldByReply| {
        let HeldByReply { request, files, until } = by;
        let until = text::whole_seconds(until);
        format!("  request {request} holds {} until {until}: kist release {request}", text::files(*files))
    };
    held.iter().map(each).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reply(evicted: u64, already: u64, refused_count: u64) -> EvictReply {
        EvictReply {
            evicted,
            already,
            bytes: 2_000_000,
            refused: Vec::new(),
            refused_count,
            reasons: Vec::new(),
        }
    }

    /// Story: of 5,000 files that were pinned the line said 100, as many as the server names.
    #[test]
    fn all_that_is_refused_is_counted_and_the_first_are_named() {
        let refused =
            (0..100).map(|n| wire::RefusedReply { path: format!("/f{n}"), reason: "held".to_owned() });
        let count = |reason: &str, files| wire::RefusalCountReply {
            reason: reason.to_owned(),
            files,
            held_by: Vec::new(),
        };
        let reply = EvictReply {
            refused: refused.collect(),
            reasons: vec![count("held", 5_000), count("late", 7)],
            ..reply(0, 0, 5_007)
        };
        let lines: Vec<String> =
            by_reason(&reply).iter().flat_map(|of| told(of.reason, &of.paths, of.files)).collect();
        assert_eq!(
            lines,
            ["5,000 files: held", "  /f0", "  /f1", "  /f2", "  ... and 4,997 more", "7 files: late"]
        );
        assert_eq!(told("held", &["/f"], 1), ["/f: held"]);
    }

    /// Story: of 170 files three were asked for their pins, and the request of these was named as if it held
    /// all; with --json none was.
    #[test]
    fn each_request_is_named_with_what_it_holds() {
        let by = |request, files| HeldByReply { request, files, until: "2026-11-26T04:00:00.5Z".to_owned() };
        let held = wire::RefusalCountReply {
            reason: "pinned".to_owned(),
            files: 170,
            held_by: vec![by(5, 3), by(9, 167)],
        };
        let reply = EvictReply { reasons: vec![held], ..reply(0, 0, 170) };
        assert_eq!(
            refusals(&reply),
            [
                "170 files: pinned",
                "  request 5 holds 3 files until 2026-11-26T04:00:00Z: kist release 5",
                "  request 9 holds 167 files until 2026-11-26T04:00:00Z: kist release 9",
            ]
        );
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
