//! `kist wait`.

use std::time::{Duration, Instant};

use client::Client;
use config::Span;
use terminal::{Exit, Failure, Outcome, Progress, output, text};
use wire::{QueueReply, SettlingReply, StatusReply};

use crate::cli::Common;

/// How often the server is asked.
const POLL_EVERY: Duration = Duration::from_millis(250);
/// After how long without movement the reasons are asked for.
const REASON_AFTER: Duration = Duration::from_secs(2);

/// Arguments.
#[derive(clap::Args, Debug)]
#[command(after_help = "\
Waits until nothing is left to be done on tapes: every file has all its tape
copies and each lies under an index on its tape, all that is wanted was recalled,
and no repack or repair has anything left to move. Says why meanwhile, and what
somebody has to do if it cannot end by itself. After a restore also until what
the catalogue says was compared with pool and tapes.

Example:
  kist migrate --now && kist wait --timeout 2h")]
pub struct Args {
    /// Give up after so long
    #[arg(long, value_parser = Span::parse, value_name = "SPAN")]
    timeout: Option<Span>,
}

/// Runs the command.
pub fn run(args: &Args, common: &Common) -> Outcome {
    let client = common.connection.client()?;
    let progress = progress(common.quiet);
    let waited = wait(&client, &progress, args.timeout.map(|span| span.0));
    let elapsed = progress.elapsed();
    drop(progress);
    let status = waited?;
    if !common.quiet {
        let after = text::span(elapsed);
        output::note(&format!("everything is on tape and under indexes, and nothing waits, after {after}"));
        if let Some(settling) = &status.settling {
            output::note(&settled(settling, status.lost_files.unwrap_or(0)));
        }
    }
    if common.json {
        let seconds = elapsed.as_secs_f64();
        output::json(&match &status.settling {
            Some(settling) => serde_json::json!({ "seconds": seconds, "settling": settling }),
            None => serde_json::json!({ "seconds": seconds }),
        })
    } else {
        Ok(())
    }
}

/// What came of the comparison of a restored catalogue with pool and tapes.
fn settled(settling: &SettlingReply, lost: u64) -> String {
    let (tapes, files) = (text::plural(settling.tapes_done, "tape"), text::files(settling.files_done));
    let lost = match lost {
        0 => "no file is LOST".to_owned(),
        lost => format!("{} LOST (kist scrub names them)", text::files(lost)),
    };
    let looked =
        format!("the restored catalogue was compared with pool and tapes: {tapes}, {files} looked at");
    if settling.stage == "settled" {
        return format!("{looked}; it is settled, {lost}");
    }
    let left = settling.unseen.iter().chain(&settling.absent).chain(&settling.unsearched);
    let left: Vec<&str> = left.map(String::as_str).collect();
    let tapes = if left.is_empty() { String::new() } else { format!(" (tapes {})", left.join(", ")) };
    format!("{looked}; it is NOT settled{tapes}: kist status says why and what to do")
}

/// The progress of a wait, which counts containers.
pub fn progress(quiet: bool) -> Progress {
    Progress::start_of("to tape", "container", 0, 0, quiet)
}

/// Waits until nothing is left to be done on tapes; gives how the server stands then.
pub fn wait(client: &Client, progress: &Progress, timeout: Option<Duration>) -> Outcome<StatusReply> {
    let (mut most, mut most_containers) = (0, 0);
    let mut last = (Instant::now(), (Left::default(), 0));
    let (mut reason, mut told) = (String::new(), Vec::new());
    loop {
        let status: StatusReply = client.get("/api/v1/status")?;
        let left = Left::of(&status);
        if is_over(&status) {
            return Ok(status);
        }
        let settling = settling(&status);
        most = most.max(status.queued_bytes);
        let containers = left.queued + left.unindexed;
        most_containers = most_containers.max(containers);
        progress.set_totals(most_containers, most);
        progress.set(most_containers - containers, most - status.queued_bytes);
        if (left, status.tape_written) != last.1 {
            last = (Instant::now(), (left, status.tape_written));
            reason.clear();
            progress.set_stuck(false);
        } else if last.0.elapsed() >= REASON_AFTER {
            reason = reasons(client)?;
            let lasting: Vec<&QueueReply> = status.waiting.iter().collect();
            if !lasting.is_empty() && kinds(&lasting) != told && !progress.is_quiet() {
                let lines: Vec<String> =
                    lasting.iter().map(|line| format!("{}: {}", line.what, line.reason)).collect();
                let lines = lines.join("; ");
                output::note(&format!("kist: this does not end before somebody does something: {lines}"));
            }
            told = kinds(&lasting);
            // Nothing moves, and what is left does not end by itself: no time can be foretold.
            progress.set_stuck(!lasting.is_empty());
        }
        let amounts = settling.unwrap_or_else(|| left.amounts());
        progress.note(if reason.is_empty() { &amounts } else { &reason });
        if timeout.is_some_and(|timeout| progress.elapsed() >= timeout) {
            let reasons = reasons(client)?;
            let separator = if reasons.is_empty() { "" } else { "; " };
            let after = text::span(progress.elapsed());
            let message = format!("still waiting after {after}: {amounts}{separator}{reasons}");
            return Err(Failure::new(Exit::SomeFailed, message));
        }
        std::thread::sleep(POLL_EVERY);
    }
}

/// Whether nothing is left to be done on tapes.
fn is_over(status: &StatusReply) -> bool {
    Left::of(status) == Left::default() && settling(status).is_none()
}

/// A restored catalogue that is not compared with pool and tapes yet: what it says of copies is not proven.
fn settling(status: &StatusReply) -> Option<String> {
    let settling = status.settling.as_ref()?;
    let is_over = matches!(settling.stage.as_str(), "settled" | "unsettled");
    let left = settling.left_seconds.filter(|left| *left > 0);
    let left =
        left.map_or_else(String::new, |left| format!(", {} left", text::span(Duration::from_secs(left))));
    let of = |done: u64, of: u64| format!("{} of {}", text::count(done), text::count(of));
    (!is_over).then(|| {
        format!(
            "the restored catalogue is compared with pool and tapes: {} tapes, {} files looked at{left}",
            of(settling.tapes_done, settling.tapes),
            of(settling.files_done, settling.files)
        )
    })
}

/// What is left to be done on tapes.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
struct Left {
    unsealed: u64,
    queued: u64,
    unindexed: u64,
    /// Files that are wanted from tape.
    wanted: u64,
    /// Containers that are to leave their tape, or be written anew.
    moved: u64,
}

impl Left {
    fn of(status: &StatusReply) -> Left {
        Left {
            unsealed: status.todo_files,
            queued: status.queued_containers,
            unindexed: status.unindexed_containers,
            wanted: status.wanted_files.unwrap_or(0),
            moved: status.repack_containers.saturating_add(status.repair_containers),
        }
    }

    /// What is left, and who does the last step.
    fn amounts(self) -> String {
        let Left { unsealed, queued, unindexed, wanted, moved } = self;
        let mut amounts = Vec::new();
        if (unsealed, queued) != (0, 0) {
            amounts.push(format!(
                "{} unsealed, {} queued, {} not under an index",
                text::files(unsealed),
                text::plural(queued, "container copy"),
                text::count(unindexed)
            ));
        } else if unindexed > 0 {
            amounts.push(format!(
                "{} not under an index yet: it comes when the tape is unmounted, or after kist migrate --now",
                text::plural(unindexed, "container copy")
            ));
        }
        if moved > 0 {
            let containers = text::plural(moved, "container");
            amounts.push(format!("{containers} to be moved by repacks or mended"));
        }
        if wanted > 0 {
            amounts.push(format!("{} to be recalled", text::files(wanted)));
        }
        amounts.join("; ")
    }
}

/// What it is said again for: figures and times in a reason may change all the time.
fn kinds(lines: &[&QueueReply]) -> Vec<(String, Option<String>)> {
    lines
        .iter()
        .map(|line| (line.what.clone(), line.cause.as_ref().map(|cause| cause.kind.clone())))
        .collect()
}

fn reasons(client: &Client) -> Outcome<String> {
    let queue: Vec<QueueReply> = client.get("/api/v1/queue")?;
    let lines: Vec<String> = queue.iter().map(|line| format!("{}: {}", line.what, line.reason)).collect();
    Ok(lines.join("; "))
}

#[cfg(test)]
mod tests {
    use super::*;
    use wire::ReasonReply;

    /// Story: a wait behind a restore ended without a word about what had come of it.
    #[test]
    fn who_waits_for_a_restore_learns_what_came_of_it() {
        let settling = |stage: &str, absent: &[&str]| SettlingReply {
            stage: stage.to_owned(),
            began: String::new(),
            tapes: 3,
            tapes_done: 3,
            files: 12,
            files_done: 12,
            left_seconds: None,
            unseen: Vec::new(),
            absent: absent.iter().map(|vid| (*vid).to_owned()).collect(),
            unsearched: Vec::new(),
            missing: 0,
        };
        let said = settled(&settling("settled", &[]), 0);
        assert!(said.contains("3 tapes, 12 files looked at; it is settled, no file is LOST"), "{said}");
        let said = settled(&settling("settled", &[]), 2);
        assert!(said.contains("2 files LOST (kist scrub"), "{said}");
        let said = settled(&settling("unsettled", &["KT0001"]), 0);
        assert!(said.contains("NOT settled (tapes KT0001)"), "{said}");
    }

    /// Story: a wait for a seal that could not go on went on for ever, and nobody was told what to do.
    #[test]
    fn what_lasts_is_told_once_however_its_figures_change() {
        let line = |what: &str, kind: &str, text: &str| {
            let (kind, text, what) = (kind.to_owned(), text.to_owned(), what.to_owned());
            let (tapes, drives, needs_an_operator) = (Vec::new(), Vec::new(), true);
            let reason = text.clone();
            let cause = Some(ReasonReply { kind, text, tapes, drives, until: None, needs_an_operator });
            let (items, bytes, oldest, oldest_seconds, expected) = (1, 1, None, None, None);
            QueueReply { what, items, bytes, oldest, oldest_seconds, reason, cause, expected }
        };
        let before = line("seal small", "too-few-pool-drives", "5 of 6");
        let after = line("seal small", "too-few-pool-drives", "4 of 6");
        let other = line("seal small", "pool-full", "full");
        assert_eq!(kinds(&[&before]), kinds(&[&after]));
        assert_ne!(kinds(&[&before]), kinds(&[&other]));
    }

    /// Story: a wait ended while recalls waited for room in the pool, and while a repack was under way.
    #[test]
    fn recalls_and_repacks_are_waited_for() {
        let status = |what: &str, count: u64| -> StatusReply {
            let names = [
                "files",
                "bytes",
                "online_files",
                "online_bytes",
                "todo_files",
                "queued_containers",
                "queued_bytes",
                "unindexed_containers",
                "mounts",
                "packs",
                "flushes",
                "indexes",
                "tape_written",
                "memory_anonymous",
                "wanted_files",
                "repack_containers",
                "repair_containers",
            ];
            let mut status: serde_json::Map<String, serde_json::Value> =
                names.into_iter().map(|name| (name.to_owned(), 0.into())).collect();
            for name in ["version", "instance"] {
                status.insert(name.to_owned(), "".into());
            }
            status.insert(what.to_owned(), count.into());
            serde_json::from_value(status.into()).unwrap()
        };
        assert!(is_over(&status("files", 7)));
        for what in ["todo_files", "wanted_files", "repack_containers", "repair_containers"] {
            assert!(!is_over(&status(what, 1)), "{what}");
        }
        assert_eq!(Left { wanted: 1, ..Left::default() }.amounts(), "1 file to be recalled");
        let moved = Left { moved: 3, wanted: 2, ..Left::default() };
        assert_eq!(moved.amounts(), "3 containers to be moved by repacks or mended; 2 files to be recalled");
    }

    #[test]
    fn who_waits_for_an_index_only_learns_when_it_comes() {
        let left = Left { unsealed: 1, queued: 2, unindexed: 3, ..Left::default() };
        assert_eq!(left.amounts(), "1 file unsealed, 2 container copies queued, 3 not under an index");
        let last = Left { unindexed: 2, ..Left::default() }.amounts();
        assert!(last.starts_with("2 container copies not under an index yet"), "{last}");
        assert!(last.contains("unmounted") && last.contains("kist migrate --now"), "{last}");
    }
}
