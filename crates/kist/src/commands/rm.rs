//! `kist rm`.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use client::transfer::{JOBS_DEFAULT, RemoteItem, RemoteKind, Tally};
use client::{Client, archive_path};
use terminal::{Exit, Failure, Outcome, Progress, Table, output, parallel, text};
use wire::{RemovalBody, RemovalReply};

use crate::cli::Common;

/// How often the server is asked how far a removal is.
const POLL_EVERY: Duration = Duration::from_millis(250);
/// The server's word for a directory that is not removed with one request.
const NOT_AT_ONCE: &str = "not-at-once";
/// Removals that are begun before they are waited for: the server works on 1,000 at a time, and remembers as
/// many that have ended.
const FOLLOWED_MAX: usize = 200;
/// What the server says where the caller may not remove a directory as a whole.
const FORBIDDEN: &str = "forbidden";
/// What it says of a directory in which something is left.
const NOT_EMPTY: &str = "not-empty";

/// Arguments.
#[derive(clap::Args, Debug)]
#[command(after_help = "\
A directory is gone at once with all that is in it, and its name can be used
again; the server removes its files behind, also after a restart. They count
for quotas until then. Where something in it may have to stay (a retention or
a legal hold, versions of a bucket, a list of its own), its directories go
one by one in the same way, and the files beside them name by name, as far as
that is allowed.

The space on tape stays used until the tape is repacked.

Examples:
  kist rm -r /demo-1
  kist rm -r --no-wait /demo-1 && kist rm --show")]
pub struct Args {
    /// Files, or directories with -r
    #[arg(required_unless_present = "show", value_name = "PATH")]
    paths: Vec<String>,
    /// Remove directories with all that is in them
    #[arg(short, long)]
    recursive: bool,
    /// With -r and the path /: remove all files of the archive
    #[arg(long)]
    everything: bool,
    /// With -r: do not wait until the server has removed all that was in the directories
    #[arg(long)]
    no_wait: bool,
    /// Show removals of directories that go on, and the last ones that ended
    #[arg(long, conflicts_with_all = ["paths", "recursive", "everything", "no_wait"])]
    show: bool,
    /// Requests at once, where names are removed one by one
    #[arg(short, long, default_value_t = JOBS_DEFAULT, value_parser = parallel::parse_jobs)]
    jobs: usize,
}

/// Runs the command.
pub fn run(args: &Args, common: &Common) -> Outcome {
    let client = common.connection.client()?;
    if args.show {
        return show(&client, common);
    }
    let paths = args.paths.iter().map(|path| archive_path(path)).collect::<Outcome<Vec<_>>>()?;
    check_root(args, &paths)?;
    let tally = Tally::default();
    let mut remover = Remover { client: &client, args, common, tally: &tally, total: 0, begun: Vec::new() };
    for path in &paths {
        remover.remove(path)?;
        remover.follow_all();
    }
    let Remover { total, begun, .. } = remover;
    let removals: Vec<u64> = begun.iter().map(|begun| begun.removal.id).collect();
    if tally.did_nothing() {
        return tally.outcome(total);
    }
    if !common.quiet && (tally.done() > 0 || !args.no_wait && tally.failed() == 0) {
        output::note(&format!("{} removed", text::plural(tally.done(), "name")));
    }
    if common.json {
        let (removed, failed) = (tally.done(), tally.failed());
        output::json(&serde_json::json!({ "removed": removed, "failed": failed, "removals": removals }))?;
    }
    tally.outcome(total)
}

fn check_root(args: &Args, paths: &[String]) -> Outcome {
    if !paths.iter().any(|path| path == "/") {
        return Ok(());
    }
    match (args.recursive, args.everything) {
        (false, _) => Err(Failure::new(Exit::Refused, "/ cannot be removed")),
        (true, false) => Err(Failure::new(
            Exit::Refused,
            "/ is the whole archive: to remove all files in it, say so: kist rm -r --everything /",
        )),
        (true, true) => Ok(()),
    }
}

/// One `kist rm`.
struct Remover<'a> {
    client: &'a Client,
    args: &'a Args,
    common: &'a Common,
    tally: &'a Tally,
    /// Names that were to be removed.
    total: usize,
    /// Directories that the server removes with all that is in them.
    begun: Vec<Begun>,
}

/// A directory that the server removes.
struct Begun {
    removal: RemovalReply,
    is_followed: bool,
}

impl Remover<'_> {
    /// Removes what a path stands for; what fails is counted.
    fn remove(&mut self, path: &str) -> Outcome {
        let stat = match self.client.stat(path) {
            Ok(stat) => stat,
            Err(failure) => {
                self.total += 1;
                self.tally.add_failure(path, failure);
                return Ok(());
            }
        };
        let item = RemoteItem::of_stat(&stat)?;
        match item.kind {
            RemoteKind::Directory if self.args.recursive && path == "/" => self.remove_all(),
            RemoteKind::Directory if self.args.recursive => self.remove_tree(&item),
            RemoteKind::Directory => {
                self.remove_names(&[], &[path.to_owned()]);
                Ok(())
            }
            RemoteKind::File | RemoteKind::Link(_) => {
                self.remove_names(&[path.to_owned()], &[]);
                Ok(())
            }
        }
    }

    /// All that is in the root, which stays.
    fn remove_all(&mut self) -> Outcome {
        let mut names = Vec::new();
        self.client.list("/", |entry| {
            names.push(format!("/{}", entry.name));
            Ok(())
        })?;
        names.iter().try_for_each(|name| self.remove(name))
    }

    /// A directory with all that is in it: at once, or if the server cannot know whether all of it may go,
    /// its directories in the same way, and its files name by name.
    fn remove_tree(&mut self, directory: &RemoteItem) -> Outcome {
        if !self.began(directory, true) {
            return Ok(());
        }
        let (mut files, mut left) = (Vec::new(), Vec::new());
        let mut waiting = vec![directory.clone()];
        while let Some(directory) = waiting.pop() {
            let mut inside = Vec::new();
            self.client.list(&directory.path, |entry| {
                let item = RemoteItem::of_entry(&directory, entry)?;
                match item.kind {
                    RemoteKind::Directory => inside.push(item),
                    _ => files.push(item.path),
                }
                Ok(())
            })?;
            left.push(directory.path);
            for item in inside {
                if self.began(&item, false) {
                    waiting.push(item);
                }
            }
        }
        self.remove_names(&files, &left);
        Ok(())
    }

    /// Has the server remove a directory at once; whether it is to be removed name by name instead, since
    /// the server cannot know if all of it may go, or, of one in another (not `is_told`), since it may not
    /// go at once.
    fn began(&mut self, directory: &RemoteItem, is_told: bool) -> bool {
        let body = RemovalBody { path: directory.path.clone() };
        match self.client.post_for::<_, RemovalReply>("/api/v1/removals", &body) {
            Ok(removal) => {
                self.begun.push(Begun { removal, is_followed: false });
                if self.begun.iter().filter(|begun| !begun.is_followed).count() >= FOLLOWED_MAX {
                    self.follow_all();
                }
            }
            Err(failure) if failure.word.as_deref() == Some(NOT_AT_ONCE) => {
                if is_told && !self.common.quiet {
                    output::note(&failure.message);
                }
                return true;
            }
            // What is in it may have lists of its own: each name is asked for, and told if it has to stay.
            Err(failure) if !is_told && failure.word.as_deref() == Some(FORBIDDEN) => return true,
            Err(failure) => {
                self.total += 1;
                self.tally.add_failure(&directory.path, failure);
            }
        }
        false
    }

    /// Waits until the server has removed all that was in the directories, if that was not forbidden.
    fn follow_all(&mut self) {
        let mut begun = std::mem::take(&mut self.begun);
        for one in begun.iter_mut().filter(|one| !one.is_followed) {
            one.is_followed = true;
            self.follow(&one.removal);
        }
        self.begun = begun;
    }

    fn follow(&mut self, begun: &RemovalReply) {
        if self.args.no_wait {
            if !self.common.quiet {
                let (path, id) = (&begun.path, begun.id);
                let note =
                    format!("{path} is gone; what was in it goes behind: removal {id}, kist rm --show");
                output::note(&note);
            }
            return;
        }
        let progress = Progress::start_of("rm", "name", 0, 0, self.common.quiet);
        match wait(self.client, begun.id, &progress) {
            Ok(removal) => {
                let names = removal.files + removal.directories;
                self.total += usize::try_from(names).unwrap_or(usize::MAX);
                self.tally.add_all_done(names, removal.bytes);
            }
            // It has ended, before so many others that the server has forgotten it.
            Err(Failure { exit: Exit::NotFound, .. }) => {
                self.total += 1;
                self.tally.add_done(0);
            }
            Err(failure) => {
                self.total += 1;
                let message = format!("{failure}; removal {} goes on without this command", begun.id);
                self.tally.add_failure(&begun.path, Failure { message, ..failure });
            }
        }
    }

    /// Files, then directories, the last first.
    fn remove_names(&mut self, files: &[String], directories: &[String]) {
        let total = files.len() + directories.len();
        self.total += total;
        let quiet = self.common.quiet || total < 100;
        let progress = Progress::start_of("rm", "name", total as u64, 0, quiet);
        // What stays keeps the directories above it, which say no more than that.
        let kept: Mutex<BTreeSet<String>> = Mutex::default();
        let keeps = || kept.lock().unwrap_or_else(PoisonError::into_inner);
        let delete = |path: &String| {
            match self.client.delete(path) {
                Ok(()) => self.tally.add_done(0),
                // Somebody else was faster, or the first answer got lost.
                Err(Failure { exit: Exit::NotFound, .. }) if total > 1 => self.tally.add_done(0),
                Err(failure) => {
                    let failure = if keeps().contains(path) { below(path, failure) } else { failure };
                    keeps().extend(parent(path).map(str::to_owned));
                    self.tally.add_failure(path, failure);
                }
            }
            progress.add_files(1);
        };
        parallel::each(files, self.args.jobs, &self.tally.stop, delete);
        directories.iter().rev().for_each(delete);
    }
}

/// The directory of a path, but the root, which nobody removes.
fn parent(path: &str) -> Option<&str> {
    path.rsplit_once('/').map(|(parent, _)| parent).filter(|parent| !parent.is_empty())
}

/// That a directory stays in which something stays that was to be removed with it, and was told before.
fn below(path: &str, failure: Failure) -> Failure {
    if failure.word.as_deref() != Some(NOT_EMPTY) {
        return failure;
    }
    Failure { message: format!("{path} stays with what was not removed from it"), ..failure }
}

/// Asks until a removal is done; gives what it was then.
fn wait(client: &Client, id: u64, progress: &Progress) -> Outcome<RemovalReply> {
    loop {
        let removal: RemovalReply = client.get(&format!("/api/v1/removals/{id}"))?;
        progress.set(removal.files + removal.directories, removal.bytes);
        if removal.state == "done" {
            return Ok(removal);
        }
        if let Some(why) = removal.waits {
            return Err(Failure::new(Exit::SomeFailed, format!("{} is gone; {why}", removal.path)));
        }
        std::thread::sleep(POLL_EVERY);
    }
}

fn show(client: &Client, common: &Common) -> Outcome {
    let removals: Vec<RemovalReply> = client.get("/api/v1/removals")?;
    if common.json {
        return output::json(&removals);
    }
    let mut table = Table::new(&[">removal", "state", "since", "by", ">files", ">size", "path"]);
    for removal in &removals {
        table.row(vec![
            removal.id.to_string(),
            if removal.waits.is_some() { "waiting".to_owned() } else { removal.state.clone() },
            removal.since.clone(),
            removal.owner.clone(),
            text::count(removal.files),
            text::size(removal.bytes),
            removal.path.clone(),
        ]);
    }
    output::write(&(table.render() + &waits(&removals)))
}

/// A line for each reason why removals wait, below their table.
fn waits(removals: &[RemovalReply]) -> String {
    let mut reasons: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    for removal in removals {
        if let Some(why) = &removal.waits {
            reasons.entry(why).or_default().push(removal.id.to_string());
        }
    }
    let line = |(why, ids): (&str, Vec<String>)| format!("waiting, {}: {why}\n", ids.join(", "));
    reasons.into_iter().map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn removal(id: u64, waits: Option<&str>) -> RemovalReply {
        RemovalReply {
            id,
            owner: "alice".to_owned(),
            path: "/a".to_owned(),
            state: "removing".to_owned(),
            since: "2026-01-01T00:00:00Z".to_owned(),
            waits: waits.map(str::to_owned),
            ended: None,
            files: 0,
            bytes: 0,
            directories: 0,
        }
    }

    /// Story: of a bucket with versions each directory ended with "remove what is in it first, or all of it:
    /// kist rm -r", which had just been said.
    #[test]
    fn a_directory_of_which_something_stays_says_that() {
        assert_eq!((parent("/b/c"), parent("/b")), (Some("/b"), None));
        let failed = |word: &str| Failure {
            word: Some(word.to_owned()),
            ..Failure::new(Exit::Refused, "not empty: kist rm -r /b")
        };
        assert_eq!(below("/b", failed("not-empty")).message, "/b stays with what was not removed from it");
        assert_eq!(below("/b", failed("forbidden")).message, "not empty: kist rm -r /b");
    }

    /// The table said that a removal waits, and not what for.
    #[test]
    fn each_reason_is_told_once_with_the_removals_that_it_keeps() {
        let all = [removal(4, Some("no room")), removal(5, None), removal(7, Some("no room"))];
        assert_eq!(waits(&all), "waiting, 4, 7: no room\n");
        assert_eq!(waits(&all[1..2]), "");
        assert_eq!(waits(&[removal(9, Some("not settled"))]), "waiting, 9: not settled\n");
    }
}
