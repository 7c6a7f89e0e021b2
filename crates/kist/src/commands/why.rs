//! `kist why`.

use std::path::Path;

use client::{Client, archive_path};
use terminal::{Exit, Failure, Outcome, one_line, output, text};
use wire::{PoolDriveReply, PoolReply, WhyReply};

use super::pool_drive;

use crate::cli::Common;
use crate::expected;

/// Arguments.
#[derive(clap::Args, Debug)]
#[command(after_help = "\
Prints the nearest cause first, and when it is over: a range that holds nine
times of ten.

Examples:
  kist why /demo-1/README.md
  kist why 17
  kist why KS0001
  kist why vault-a
  kist why vdrive0
  kist why d3            drive 3 of the pool, by its directory: its slot, and what is wrong")]
pub struct Args {
    /// A path, the number of a request, the VID of a tape, a tape pool, a storage class, a tape drive, or a
    /// drive of the pool (its directory or the last part of that; its number where no request has it)
    #[arg(value_name = "PATH|REQUEST|VID|TAPEPOOL|CLASS|DRIVE")]
    subject: String,
}

/// Runs the command.
pub fn run(args: &Args, common: &Common) -> Outcome {
    let reply = ask(&common.connection.client()?, &args.subject)?;
    if common.json {
        return output::json(&reply);
    }
    if reply.causes.is_empty() {
        return reply.reasons.iter().try_for_each(|reason| output::line(&one_line(reason)));
    }
    reply.causes.iter().try_for_each(|cause| output::line(&one_line(&expected::cause(cause))))
}

/// Paths begin with a slash; a number is a request, or a name if there is no such request. What else has no
/// such name may be a drive of the pool.
fn ask(client: &Client, subject: &str) -> Outcome<WhyReply> {
    let or_pool_drive = |reply: Outcome<WhyReply>| match reply {
        Err(failure) if failure.exit == Exit::NotFound => about_pool_drive(client, subject)?.ok_or(failure),
        reply => reply,
    };
    if subject.starts_with('/') {
        let query = text::encode(&archive_path(subject)?);
        return or_pool_drive(client.get(&format!("/api/v1/why?path={query}")));
    }
    let by_name = || client.get(&format!("/api/v1/why?name={}", text::encode(subject)));
    let Ok(request) = subject.parse::<u64>() else { return or_pool_drive(by_name()) };
    match client.get(&format!("/api/v1/why?request={request}")) {
        Err(failure) if failure.exit == Exit::NotFound => or_pool_drive(by_name().or(Err(failure))),
        reply => reply,
    }
}

/// What is to be known of a drive of the pool: where its disk is, and what it is that keeps it from its work.
fn about_pool_drive(client: &Client, subject: &str) -> Outcome<Option<WhyReply>> {
    let pool: Outcome<PoolReply> = client.get("/api/v1/pool");
    let pool = match pool {
        // Who may not see the pool learns what the name is not.
        Err(failure) if failure.exit == Exit::NotAuthorised => return Ok(None),
        pool => pool?,
    };
    let is_meant = |drive: &&PoolDriveReply| is_named(drive, subject);
    let reply = match pool.drives.iter().filter(is_meant).collect::<Vec<_>>()[..] {
        [] => None,
        [drive] => Some(WhyReply {
            subject: format!("pool drive {}", drive.id),
            reasons: pool_drive::why(drive),
            causes: Vec::new(),
        }),
        [..] => {
            let what = format!("several drives of the pool are named {subject}: write the number of one");
            return Err(Failure::usage(what));
        }
    };
    Ok(reply)
}

/// By its number, its directory, or the last part of that.
fn is_named(drive: &PoolDriveReply, subject: &str) -> bool {
    let last = Path::new(&drive.path).file_name().and_then(|name| name.to_str());
    subject == drive.id.to_string() || subject == drive.path || last == Some(subject)
}
