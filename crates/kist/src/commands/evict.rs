//! `kist evict`.

use door::wire::{EvictReply, SelectionBody};

use crate::cli::Common;
use crate::client::{Client, archive_path};
use crate::failure::{Exit, Failure, Outcome};
use crate::{output, text};

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
    let reply = evict(&common.connection.client()?, paths)?;
    if common.json {
        output::json(&reply)?;
    } else {
        let already = match reply.already {
            0 => String::new(),
            already => format!(", {} NEARLINE before", text::files(already)),
        };
        output::line(&format!(
            "evicted {}, {}{already}",
            text::files(reply.evicted),
            text::size(reply.bytes)
        ))?;
    }
    outcome(&reply)
}

/// Evicts paths, all below directories included.
pub fn evict(client: &Client, paths: Vec<String>) -> Outcome<EvictReply> {
    client.post_for("/api/v1/evict", &SelectionBody { paths, recursive: true, pin_seconds: None })
}

/// Refused files are failures.
pub fn outcome(reply: &EvictReply) -> Outcome {
    if reply.refused_count == 0 {
        return Ok(());
    }
    for refused in &reply.refused {
        eprintln!("kist: {}: {}", refused.path, refused.reason);
    }
    let only = reply.evicted + reply.already == 0;
    let exit = if only { Exit::Refused } else { Exit::SomeFailed };
    Err(Failure::new(exit, format!("{} not evicted", text::files(reply.refused_count))))
}
