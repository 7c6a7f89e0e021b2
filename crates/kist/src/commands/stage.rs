//! `kist stage`.

use std::io::Read;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use base::Timestamp;
use client::{Client, Watched, archive_path};
use config::Span;
use terminal::{Exit, Failure, Outcome, Progress, output, text};
use wire::{
    CreatedReply, ExpectedReply, RequestFilesReply, RequestReply, SelectionBody, WhyReply, WorkReply,
};

use crate::cli::Common;

/// How often a request is looked at.
const POLL_EVERY: Duration = Duration::from_millis(300);
/// After how long without movement the reason is asked for.
const REASON_AFTER: Duration = Duration::from_secs(3);
/// The shortest pin.
const PIN_LEAST: Duration = Duration::from_secs(1);
/// Failed files that are shown.
const FAILURES_SHOWN_MAX: usize = 20;
/// The longest list of paths that is read.
const LIST_BYTES_MAX: u64 = 1 << 30;

/// Arguments.
#[derive(clap::Args, Debug)]
#[command(after_help = "\
One request for all paths: the server orders it over the tapes. Directories
stand for all files below. Staged files are pinned in the pool for a while, also
those that are online already; kist release gives them free earlier. A file that
can never be had fails at once, with its cause; exit code 1 then.

Examples:
  kist stage --wait /demo-1
  kist stage --from-file list.txt --pin 7d")]
pub struct Args {
    /// Files and directories
    #[arg(value_name = "PATH")]
    paths: Vec<String>,
    /// More paths, one a line; - for standard input
    #[arg(long, value_name = "FILE")]
    from_file: Option<PathBuf>,
    /// Wait until all files are there
    #[arg(short, long)]
    wait: bool,
    /// How long the files stay pinned
    #[arg(long, default_value = "1d", value_parser = Span::parse, value_name = "SPAN")]
    pin: Span,
    /// How urgent it is, from 0 (can wait) to 9; usually 5
    #[arg(long, value_parser = clap::value_parser!(u8).range(0..=9), value_name = "0-9")]
    priority: Option<u8>,
}

/// Runs the command.
pub fn run(args: &Args, common: &Common) -> Outcome {
    let mut paths = args.paths.iter().map(|path| archive_path(path)).collect::<Outcome<Vec<_>>>()?;
    if let Some(file) = &args.from_file {
        paths.extend(read_paths(file)?);
    }
    check_pin(args)?;
    if paths.is_empty() {
        return Err(Failure::usage("nothing to stage: name paths, or a list with --from-file"));
    }
    let client = common.connection.client()?;
    let id = submit(&client, paths, args.pin.0, args.priority, common.quiet)?;
    // What is done by now was online before, or came at once; what failed can never be had.
    let first: RequestReply = client.get(&format!("/api/v1/requests/{id}"))?;
    let amount = format!("{}, {}", text::files(u64::from(first.files)), text::size(first.bytes));
    let online = u64::from(first.done);
    let all_online = first.done == first.files;
    if !args.wait {
        if common.json {
            output::json(&CreatedReply { id })?;
        } else {
            output::line(&format!("request {id}: {amount}; {}", begun(&first)))?;
        }
        return outcome(&client, &first);
    }
    if !common.quiet {
        output::note(&format!("request {id}: {amount}; {}", begun(&first)));
    }
    let progress = Progress::start("stage", 0, 0, common.quiet);
    let request = wait_for(&client, id, &progress)?;
    let elapsed = progress.elapsed();
    drop(progress);
    if common.json {
        output::json(&request)?;
    } else if !common.quiet && !all_online {
        let already = match online {
            0 => String::new(),
            online => format!(", {} online at once", text::files(online)),
        };
        let bytes = request.done_bytes.saturating_sub(first.done_bytes);
        let staged = text::files(u64::from(request.done).saturating_sub(online));
        output::note(&format!("staged {staged}, {}{already}", text::speed(bytes, elapsed)));
    }
    outcome(&client, &request)
}

/// Refuses a pin that the server, which counts whole seconds, would take for none.
fn check_pin(args: &Args) -> Outcome {
    if args.pin.0 >= PIN_LEAST {
        return Ok(());
    }
    Err(Failure::usage(format!(
        "--pin {}: files that are not pinned may leave the pool before anybody reads them: write how long \
         they stay, at least 1s, such as 1h",
        args.pin
    )))
}

/// How a request stands right after it was made: what was online is pinned by it like what comes from tape.
fn begun(request: &RequestReply) -> String {
    let (id, failed) = (request.id, u64::from(request.failed));
    let pinned = text::write_span(Duration::from_secs(request.pin_seconds));
    let mut parts = Vec::new();
    match request.done {
        0 => {}
        all if all == request.files => parts.push(format!("all online, pinned for {pinned}")),
        some => {
            parts.push(format!("{} online, pinned for {pinned}", text::count(u64::from(some))));
        }
    }
    if failed > 0 {
        parts.push(format!("{} failed", text::count(failed)));
    }
    if request.done + request.failed + request.cancelled < request.files {
        parts.push(format!("watch: kist request show {id}, kist why {id}"));
    }
    if parts.is_empty() { "there is no file in it".to_owned() } else { parts.join("; ") }
}

/// Asks for paths, all below directories included, and gives the request's id.
pub fn submit(
    client: &Client,
    paths: Vec<String>,
    pin: Duration,
    priority: Option<u8>,
    quiet: bool,
) -> Outcome<u64> {
    let body = SelectionBody { paths, recursive: true, pin_seconds: Some(pin.as_secs()), priority };
    let mut watched = Watched::new("stage: asked for", quiet);
    let watch = &mut |work: &WorkReply| watched.show(work);
    let created: CreatedReply = client.post_long_for("/api/v1/requests", &body, watch)?;
    Ok(created.id)
}

/// Waits until a request has ended; says why when nothing moves.
pub fn wait_for(client: &Client, id: u64, progress: &Progress) -> Outcome<RequestReply> {
    let mut moved = (Instant::now(), 0, 0);
    // What was done a while ago says nothing of what waits for a tape or for room: the server foretells it.
    progress.tell_no_time_left();
    loop {
        let request: RequestReply = client.get(&format!("/api/v1/requests/{id}"))?;
        let ended = request.done + request.failed + request.cancelled;
        progress.set_totals(u64::from(request.files), request.bytes);
        progress.set(u64::from(ended), request.done_bytes);
        if matches!(request.state.as_str(), "completed" | "cancelled") {
            return Ok(request);
        }
        if (moved.1, moved.2) != (ended, request.done_bytes) {
            moved = (Instant::now(), ended, request.done_bytes);
            progress.set_stuck(false);
            progress.note(&time_left(&request, text::now()));
        } else if moved.0.elapsed() >= REASON_AFTER {
            let why: WhyReply = client.get(&format!("/api/v1/why?request={id}"))?;
            // The first sentence is the progress, which is shown already.
            let reason = why.reasons.get(1).map_or("", String::as_str);
            progress.set_stuck(true);
            progress.note(&still_waits(&request, reason, text::now()));
        }
        std::thread::sleep(POLL_EVERY);
    }
}

/// What is said while nothing moves.
fn still_waits(request: &RequestReply, reason: &str, now: Timestamp) -> String {
    let left = time_left(request, now);
    let is_told = request.outlook.as_ref().is_some_and(|outlook| outlook.expected.is_some());
    match (left.is_empty(), reason.is_empty()) {
        (true, false) if !is_told => format!("time left not known: {reason}"),
        (false, false) => format!("{left}; {reason}"),
        (_, _) => format!("{left}{reason}"),
    }
}

/// How long it takes until a request is complete, as far as the server can tell.
fn time_left(request: &RequestReply, now: Timestamp) -> String {
    let expected = request.outlook.as_ref().and_then(|outlook| outlook.expected.as_ref());
    match expected {
        Some(ExpectedReply::Within { likely, latest, .. }) => {
            let [Some(likely), Some(latest)] = [likely, latest].map(|time| text::parse_rfc3339(time)) else {
                return String::new();
            };
            let [likely, latest] = [likely, latest].map(|time| text::span(time.since(now)));
            format!("likely {likely} left, {latest} at most")
        }
        Some(ExpectedReply::NotWithin { seconds }) => {
            format!("more than {} left", text::span(Duration::from_secs(*seconds)))
        }
        Some(ExpectedReply::Never { .. }) | None => String::new(),
    }
}

/// The end of a request: failed files are shown.
pub fn outcome(client: &Client, request: &RequestReply) -> Outcome {
    if request.failed == 0 && request.cancelled == 0 {
        return Ok(());
    }
    let mut shown = 0;
    let mut from = Some(0u32);
    while let Some(page_from) = from.filter(|_| shown < FAILURES_SHOWN_MAX) {
        let target = format!("/api/v1/requests/{}/files?from={page_from}&limit=1000", request.id);
        let page: RequestFilesReply = client.get(&target)?;
        for file in page.files.iter().filter(|file| file.state == "failed").take(FAILURES_SHOWN_MAX - shown) {
            let error = file.error.as_deref().unwrap_or("failed");
            output::note(&format!("kist: {}: {error}", file.path));
            shown += 1;
        }
        from = page.next.filter(|next| *next > page_from);
    }
    let message = format!(
        "request {}: {} of {} failed, {} were cancelled",
        request.id,
        request.failed,
        text::files(u64::from(request.files)),
        request.cancelled
    );
    Err(Failure::new(Exit::SomeFailed, message))
}

/// Reads a list of paths, one a line.
pub fn read_paths(file: &Path) -> Outcome<Vec<String>> {
    let failed = |error: std::io::Error| Failure::io("reading the list", file, &error);
    let mut list = String::new();
    if file.as_os_str() == "-" {
        std::io::stdin().lock().take(LIST_BYTES_MAX).read_to_string(&mut list).map_err(failed)?;
    } else {
        let opened = std::fs::File::open(file).map_err(failed)?;
        opened.take(LIST_BYTES_MAX).read_to_string(&mut list).map_err(failed)?;
    }
    list.lines().filter(|line| !line.is_empty()).map(archive_path).collect()
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        args: Args,
    }

    /// Story: `--pin 0s` was taken, and the files were pinned for no time.
    #[test]
    fn a_pin_of_no_time_is_refused() {
        let parsed = |pin| Line::try_parse_from(["stage", "/x", "--pin", pin]).unwrap().args;
        for pin in ["0s", "999ms"] {
            let refused = check_pin(&parsed(pin)).unwrap_err();
            assert_eq!(refused.exit, Exit::Usage);
            assert!(refused.message.contains("at least 1s"), "{}", refused.message);
        }
        check_pin(&parsed("1s")).unwrap();
    }
}
