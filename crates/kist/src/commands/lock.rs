//! `kist lock`.

use std::time::Duration;

use client::archive_path;
use terminal::{Outcome, Table, output, text};
use wire::{LockBody, LockReply};

use crate::cli::Common;

/// Arguments.
#[derive(clap::Args, Debug)]
#[command(after_help = "\
Clients of WebDAV lock files and directories while they work on them. A lock holds against every door, and
ends by itself.

Examples:
  kist lock ls
  kist lock rm /cms/run7/notes.txt")]
pub struct Args {
    #[command(subcommand)]
    action: Action,
}

#[derive(clap::Subcommand, Debug)]
enum Action {
    /// List the locks that are held
    Ls,
    /// End all locks that were taken on a file or directory
    Rm {
        /// What they were taken on
        path: String,
    },
}

/// Runs the command.
pub fn run(args: &Args, common: &Common) -> Outcome {
    let client = common.connection.client()?;
    match &args.action {
        Action::Ls => list(&client.get::<Vec<LockReply>>("/api/v1/locks")?, common),
        Action::Rm { path } => {
            let body = LockBody { path: archive_path(path)? };
            client.post("/api/v1/locks/remove", &body)?;
            output::done(common, &body, &format!("{path} has no lock of its own any more"))
        }
    }
}

fn list(locks: &[LockReply], common: &Common) -> Outcome {
    if common.json {
        return output::json(&locks);
    }
    if locks.is_empty() {
        return output::line("nothing is locked");
    }
    let mut table = Table::new(&["path", "owner", "kind", "holds for", ">ends in"]);
    for lock in locks {
        table.row(vec![
            lock.path.clone(),
            lock.owner.clone(),
            if lock.exclusive { "exclusive" } else { "shared" }.to_owned(),
            if lock.deep { "all below" } else { "it alone" }.to_owned(),
            text::span(Duration::from_secs(lock.ends_seconds)),
        ]);
    }
    output::write(&table.render())
}
