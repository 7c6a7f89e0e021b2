//! `kist request`.

use std::collections::BTreeMap;

use client::{Client, Watched};
use terminal::{Outcome, Table, output, text};
use wire::{OutlookReply, PriorityBody, REQUEST_STATES, RequestFileReply, RequestFilesReply, RequestReply};

use crate::cli::Common;
use crate::expected;
use crate::watch::{self, Watch, is_asked};

/// Files asked for in one page.
const PAGE: usize = 10_000;
/// Files told as JSON unless more are asked for.
const JSON_FILES: usize = 100;
/// As many files are listed; of more, like ones are counted.
const LISTED_MAX: usize = 20;

/// Arguments.
#[derive(clap::Args, Debug)]
#[command(after_help = "\
Examples:
  kist request ls
  kist request ls --state active --watch
  kist request show 17
  kist request show 17 --files
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
        /// Only requests in this state
        #[arg(long, value_parser = REQUEST_STATES)]
        state: Option<String>,
        /// Only requests of this owner, of those
        #[arg(long)]
        owner: Option<String>,
        #[command(flatten)]
        watch: Watch,
    },
    /// Show a request and its files
    Show {
        /// The request
        request: u64,
        /// List so many files instead of counting like ones
        #[arg(long)]
        limit: Option<usize>,
        /// List all files instead of counting like ones
        #[arg(long)]
        files: bool,
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
        Action::Ls { limit, state, owner, watch } => {
            let get = || {
                let mut requests: Vec<RequestReply> =
                    client.get(&format!("/api/v1/requests?limit={limit}"))?;
                requests.retain(|request| is_asked(state.as_deref(), &request.state));
                requests.retain(|request| is_asked(owner.as_deref(), &request.owner));
                Ok(requests)
            };
            watch::list(*watch, common, get, |requests| table(requests) + &total(requests))
        }
        Action::Show { request, limit, files } => show(&client, *request, *limit, *files, common.json),
        Action::Priority { request, priority } => {
            let body = PriorityBody { priority: *priority };
            client.post(&format!("/api/v1/requests/{request}/priority"), &body)?;
            let done = serde_json::json!({ "request": request, "priority": priority });
            output::done(common, &done, &format!("request {request} has priority {priority}"))
        }
        Action::Cancel { request } => {
            let mut watched = Watched::new("cancel", common.quiet);
            let target = format!("/api/v1/requests/{request}/cancel");
            client.post_long(&target, &serde_json::json!({}), &mut |work| watched.show(work))?;
            let done = serde_json::json!({ "request": request });
            output::done(common, &done, &format!("request {request}: what still waited is cancelled"))
        }
    }
}

fn show(client: &Client, request: u64, limit: Option<usize>, all: bool, json: bool) -> Outcome {
    let reply: RequestReply = client.get(&format!("/api/v1/requests/{request}"))?;
    let page = |from: u32, limit: usize| -> Outcome<RequestFilesReply> {
        client.get(&format!("/api/v1/requests/{request}/files?from={from}&limit={limit}"))
    };
    if json {
        let mut found = page(0, limit.unwrap_or(if all { PAGE } else { JSON_FILES }))?;
        while let Some(from) = found.next.filter(|_| all) {
            let mut more = page(from, PAGE)?;
            found.files.append(&mut more.files);
            found.next = more.next.filter(|next| *next > from);
        }
        let value = serde_json::json!({ "request": reply, "files": found.files, "next": found.next });
        return output::json(&value);
    }
    output::write(&table(std::slice::from_ref(&reply)))?;
    if reply.refused > 0 {
        let refused = text::plural(u64::from(reply.refused), "path");
        output::line(&format!("\n{refused} refused when it was asked for"))?;
    }
    if let Some(outlook) = &reply.outlook {
        show_outlook(outlook)?;
    }
    output::line("")?;
    if !all && limit.is_none() {
        let found = page(0, PAGE)?;
        output::write(&like_files(&found.files))?;
        let more = "... of its first files: kist request show --files lists all";
        return if found.next.is_some() { output::line(more) } else { Ok(()) };
    }
    let mut from = Some(0);
    while let Some(next) = from {
        let found = page(next, limit.unwrap_or(PAGE))?;
        output::write(&files_table(&found.files))?;
        from = found.next.filter(|after| *after > next);
        if let (Some(more), false) = (from, all) {
            return output::line(&format!("... and more from number {more} on: --files lists all"));
        }
    }
    Ok(())
}

fn files_table(files: &[RequestFileReply]) -> String {
    let mut table = Table::new(&["state", ">size", "started", "ended", "path", "error"]);
    for file in files {
        let error = file.error.clone().unwrap_or_default();
        let [started, ended] = [&file.started, &file.ended].map(|at| time_or_dash(at.as_deref()));
        table.row(vec![file.state.clone(), text::size(file.size), started, ended, file.path.clone(), error]);
    }
    table.render()
}

fn time_or_dash(at: Option<&str>) -> String {
    at.map_or_else(|| "-".to_owned(), text::whole_seconds)
}

/// Files in the same state, for the same reason, as one line with the first of them; few are listed.
fn like_files(files: &[RequestFileReply]) -> String {
    if files.len() <= LISTED_MAX {
        return files_table(files);
    }
    let mut groups: Vec<(&RequestFileReply, u64, u64)> = Vec::new();
    let mut places: BTreeMap<(&str, Option<&str>), usize> = BTreeMap::new();
    for file in files {
        let place = *places.entry((&file.state, file.error.as_deref())).or_insert_with(|| {
            groups.push((file, 0, 0));
            groups.len() - 1
        });
        if let Some((_, count, bytes)) = groups.get_mut(place) {
            *count += 1;
            *bytes = bytes.saturating_add(file.size);
        }
    }
    let mut table = Table::new(&["state", ">files", ">bytes", "the first of them", "error"]);
    for (first, count, bytes) in groups {
        let error = first.error.clone().unwrap_or_default();
        let (count, bytes) = (text::count(count), text::size(bytes));
        table.row(vec![first.state.clone(), count, bytes, first.path.clone(), error]);
    }
    table.render()
}

/// The last line of a list of requests.
fn total(requests: &[RequestReply]) -> String {
    let sum = |of: fn(&RequestReply) -> u64| requests.iter().map(of).fold(0, u64::saturating_add);
    format!(
        "{}: {} of {} done, {} of {}\n",
        text::plural(requests.len() as u64, "request"),
        text::count(sum(|request| request.done.into())),
        text::files(sum(|request| request.files.into())),
        text::size(sum(|request| request.done_bytes)),
        text::size(sum(|request| request.bytes))
    )
}

/// How fast it goes, when it is complete, and what comes last.
fn show_outlook(outlook: &OutlookReply) -> Outcome {
    if outlook.waiting == 0 {
        return Ok(());
    }
    let rate = text::size(outlook.rate.max(0.0) as u64);
    let waiting = text::files(outlook.waiting);
    output::line(&format!("\nwaits for {waiting}; {rate}/s came online since it was made"))?;
    if let Some(end) = &outlook.expected {
        output::line(&format!("complete {}", expected::words(end)))?;
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
            expected::words_or_dash(file.expected.as_ref()),
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
        "started",
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
            time_or_dash(request.started.as_deref()),
            time_or_dash(request.ended.as_deref()),
            text::count(u64::from(request.done)),
            text::count(u64::from(request.failed) + u64::from(request.refused)),
            text::count(u64::from(request.files) + u64::from(request.refused)),
            text::size(request.done_bytes),
            text::size(request.bytes),
        ]);
    }
    table.render()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(n: usize, state: &str, error: Option<&str>) -> RequestFileReply {
        let (state, error) = (state.to_owned(), error.map(str::to_owned));
        RequestFileReply {
            path: format!("/f{n}"),
            size: 1_000,
            state,
            error,
            cause: None,
            started: None,
            ended: None,
        }
    }

    /// A request of 110 files filled the screen with lines that said the same.
    #[test]
    fn like_files_are_counted_and_few_are_listed() {
        let mut files: Vec<_> = (0..110).map(|n| file(n, "waiting", None)).collect();
        files.extend((110..113).map(|n| file(n, "failed", Some("no copy can be read"))));
        let told = like_files(&files);
        let lines: Vec<Vec<&str>> = told.lines().map(|line| line.split_whitespace().collect()).collect();
        assert_eq!(lines.len(), 3, "{told}");
        assert_eq!(lines[1], ["waiting", "110", "110", "kB", "/f0"]);
        assert_eq!(lines[2][..5], ["failed", "3", "3.00", "kB", "/f110"]);
        assert!(told.contains("no copy can be read"), "{told}");
        assert_eq!(like_files(&files[..20]).lines().count(), 21, "few are listed");
    }
}
