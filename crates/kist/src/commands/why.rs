//! `kist why`.

use client::{Client, archive_path};
use terminal::{Exit, Outcome, one_line, output, text};
use wire::WhyReply;

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
  kist why vdrive0")]
pub struct Args {
    /// A path, the number of a request, the VID of a tape, a tape pool, a storage class, or a tape drive
    #[arg(value_name = "PATH|REQUEST|VID|TAPEPOOL|CLASS|DRIVE")]
    subject: String,
}

/// Runs the command.
pub fn run(args: &Args, common: &Common) -> Outcome {
    let reply = ask(&common.connection.client()?, &args.subject)?;
    if common.json {
        return output::json(&reply);
    }
    reply.causes.iter().try_for_each(|cause| output::line(&one_line(&expected::cause(cause))))
}

/// Paths begin with a slash; a number is a request, or a name if there is no such request.
fn ask(client: &Client, subject: &str) -> Outcome<WhyReply> {
    if subject.starts_with('/') {
        return client.get(&format!("/api/v1/why?path={}", text::encode(&archive_path(subject)?)));
    }
    let by_name = || client.get(&format!("/api/v1/why?name={}", text::encode(subject)));
    let Ok(request) = subject.parse::<u64>() else { return by_name() };
    match client.get(&format!("/api/v1/why?request={request}")) {
        Err(failure) if failure.exit == Exit::NotFound => by_name().or(Err(failure)),
        reply => reply,
    }
}
