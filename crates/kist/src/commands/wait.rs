//! `kist wait`.

use std::time::{Duration, Instant};

use door::wire::{QueueReply, StatusReply};

use crate::cli::Common;
use crate::client::Client;
use crate::config::Span;
use crate::failure::{Exit, Failure, Outcome};
use crate::progress::Progress;
use crate::text;

/// How often the server is asked.
const POLL_EVERY: Duration = Duration::from_millis(250);
/// After how long without movement the reasons are asked for.
const REASON_AFTER: Duration = Duration::from_secs(2);

/// Arguments.
#[derive(clap::Args, Debug)]
#[command(after_help = "\
Waits until every file has all its tape copies and each lies under an index on
its tape; says why meanwhile.

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
    let progress = Progress::start("to tape", 0, 0, common.quiet);
    let waited = wait(&client, &progress, args.timeout.map(|span| span.0));
    let elapsed = progress.elapsed();
    drop(progress);
    waited?;
    if !common.quiet {
        eprintln!("everything is on tape and under indexes, after {}", text::span(elapsed));
    }
    Ok(())
}

/// Waits until nothing waits for tape.
pub fn wait(client: &Client, progress: &Progress, timeout: Option<Duration>) -> Outcome {
    let mut most = 0;
    let mut last = (Instant::now(), (0, 0, 0, 0));
    let mut reason = String::new();
    loop {
        let status: StatusReply = client.get("/api/v1/status")?;
        let left =
            (status.todo_files, status.queued_containers, status.unindexed_containers, status.tape_written);
        if (left.0, left.1, left.2) == (0, 0, 0) {
            return Ok(());
        }
        most = most.max(status.queued_bytes);
        progress.set_totals(0, most);
        progress.set(0, most - status.queued_bytes);
        if left != last.1 {
            last = (Instant::now(), left);
            reason.clear();
        } else if last.0.elapsed() >= REASON_AFTER {
            reason = reasons(client)?;
        }
        let amounts = format!(
            "{} unsealed, {} queued, {} not under an index",
            text::files(left.0),
            text::plural(left.1, "container"),
            text::count(left.2)
        );
        progress.note(if reason.is_empty() { &amounts } else { &reason });
        if timeout.is_some_and(|timeout| progress.elapsed() >= timeout) {
            let message = format!(
                "still waiting after {}: {amounts}; {}",
                text::span(progress.elapsed()),
                reasons(client)?
            );
            return Err(Failure::new(Exit::SomeFailed, message));
        }
        std::thread::sleep(POLL_EVERY);
    }
}

fn reasons(client: &Client) -> Outcome<String> {
    let queue: Vec<QueueReply> = client.get("/api/v1/queue")?;
    let lines: Vec<String> = queue.iter().map(|line| format!("{}: {}", line.what, line.reason)).collect();
    Ok(lines.join("; "))
}
