//! `kist request`.

use door::wire::{OutlookReply, PriorityBody, RequestFilesReply, RequestReply};

use crate::cli::Common;
use crate::failure::Outcome;
use crate::table::Table;
use crate::{expected, output, text};

/// Arguments.
#[derive(clap::Args, Debug)]
#[command(after_help = "\
Examples:
  kist request ls
  kist request show 17
  kist request priority 17 9
  kist request cancel 17")]
pub struct Args {
    #[command(subcommand)]
    action: Action,
}

#[derive(clap::Subcommand, Debug)]
enum Action {
    /// List requests, the newest first
    Ls {
        /// At most so many
        #[arg(long, default_value_t = 50)]
        limit: usize,
    },
    /// Show a request and its files
    Show {
        /// The request
        request: u64,
        /// At most so many files
        #[arg(long, default_value_t = 100)]
        limit: usize,
    },
    /// Make what a request still waits for more or less urgent
    Priority {
        /// The request
        request: u64,
        /// From 0 (can wait) to 9; usually 5
        #[arg(value_parser = clap::value_parser!(u8).range(0..=9))]
        priority: u8,
    },
    /// Cancel what a request still waits for
    Cancel {
        /// The request
        request: u64,
    },
}

/// Runs the command.
pub fn run(args: &Args, common: &Common) -> Outcome {
    let client = common.connection.client()?;
    match &args.action {
        Action::Ls { limit } => {
            let requests: Vec<RequestReply> = client.get(&format!("/api/v1/requests?limit={limit}"))?;
            if common.json { output::json(&requests) } else { output::write(&table(&requests)) }
        }
        Action::Show { request, limit } => {
            let reply: RequestReply = client.get(&format!("/api/v1/requests/{request}"))?;
            let target = format!("/api/v1/requests/{request}/files?limit={limit}");
            let page: RequestFilesReply = client.get(&target)?;
            if common.json {
                return output::json(
                    &serde_json::json!({ "request": reply, "files": page.files, "next": page.next }),
                );
            }
            output::write(&table(std::slice::from_ref(&reply)))?;
            if let Some(outlook) = &reply.outlook {
                show_outlook(outlook)?;
            }
            output::line("")?;
            let mut files = Table::new(&["state", ">size", "path", "error"]);
            for file in &page.files {
                let error = file.error.clone().unwrap_or_default();
                files.row(vec![file.state.clone(), text::size(file.size), file.path.clone(), error]);
            }
            output::write(&files.render())?;
            match page.next {
                Some(next) => output::line(&format!("... and more from number {next} on: --limit N")),
                None => Ok(()),
            }
        }
        Action::Priority { request, priority } => {
            let body = PriorityBody { priority: *priority };
            client.post(&format!("/api/v1/requests/{request}/priority"), &body)?;
            let done = serde_json::json!({ "request": request, "priority": priority });
            if common.json { output::json(&done) } else { Ok(()) }
        }
        Action::Cancel { request } => {
            client.post(&format!("/api/v1/requests/{request}/cancel"), &serde_json::json!({}))?;
            if common.json { output::json(&serde_json::json!({ "request": request })) } else { Ok(()) }
        }
    }
}

/// How fast it goes, when it is complete, and what comes last.
fn show_outlook(outlook: &OutlookReply) -> Outcome {
    if outlook.waiting == 0 {
        return Ok(());
    }
    let now = text::now();
    let rate = text::size(outlook.rate.max(0.0) as u64);
    let waiting = text::files(outlook.waiting);
    output::line(&format!("\nwaits for {waiting}; {rate}/s came online since it was made"))?;
    if let Some(end) = &outlook.expected {
        output::line(&format!("complete {}", expected::words(end, now)))?;
    }
    if outlook.tail.is_empty() {
        return Ok(());
    }
    output::line("")?;
    let mut tail = Table::new(&["last to come", ">size", "tape", "done", "why it waits"]);
    for file in &outlook.tail {
        tail.row(vec![
            file.path.clone(),
            text::size(file.size),
            file.tapes.join(" "),
            expected::words_or_dash(file.expected.as_ref(), now),
            file.reason.text.clone(),
        ]);
    }
    output::write(&tail.render())
}

fn table(requests: &[RequestReply]) -> String {
    let headings = [
        "request",
        "state",
        "owner",
        ">priority",
        "created",
        "ended",
        ">done",
        ">failed",
        ">files",
        ">bytes done",
        ">bytes",
    ];
    let mut table = Table::new(&headings);
    for request in requests {
        table.row(vec![
            request.id.to_string(),
            request.state.clone(),
            request.owner.clone(),
            request.priority.to_string(),
            text::whole_seconds(&request.created),
            request.ended.as_deref().map_or_else(|| "-".to_owned(), text::whole_seconds),
            text::count(u64::from(request.done)),
            text::count(u64::from(request.failed)),
            text::count(u64::from(request.files)),
            text::size(request.done_bytes),
            text::size(request.bytes),
        ]);
    }
    table.render()
}
