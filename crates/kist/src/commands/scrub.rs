//! `kist scrub`.

use std::time::Duration;

use client::Client;
use terminal::{Exit, Failure, Outcome, Progress, Table, output, text};
use wire::{RebuildReply, ScrubReply};

use crate::cli::Common;

/// How often the server is asked.
const POLL_EVERY: Duration = Duration::from_millis(250);

/// Arguments.
#[derive(clap::Args, Debug)]
#[command(after_help = "\
The server reads all of the pool over and over, every shard and every copy,
slowly, within [pool] scrub_days, and repairs what is damaged. This shows how
far it is and what it found. With --now a pass begins at once, goes as fast as
clients let it, and is waited for. Exit code 7 if files are lost or shards
could not be repaired.

Examples:
  kist scrub
  kist scrub --now")]
pub struct Args {
    /// Begin a pass now, and wait for its end
    #[arg(long)]
    now: bool,
}

/// Runs the command.
pub fn run(args: &Args, common: &Common) -> Outcome {
    let client = common.connection.client()?;
    let mut reply: ScrubReply = client.get("/api/v1/scrub")?;
    if args.now {
        reply = wait(&client, reply, common.quiet)?;
    }
    if common.json {
        output::json(&reply)?;
    } else {
        show(&reply)?;
    }
    if args.now && (reply.lost > 0 || reply.failed > 0) {
        let message = format!(
            "{} lost, {} could not be repaired: bring drives back, then scrub again",
            text::files(reply.lost),
            text::plural(reply.failed, "shard")
        );
        return Err(Failure::new(Exit::Differs, message));
    }
    Ok(())
}

fn wait(client: &Client, before: ScrubReply, quiet: bool) -> Outcome<ScrubReply> {
    client.post("/api/v1/scrub", &serde_json::json!({}))?;
    let progress = Progress::start_of("scrub", "blob", before.blobs_total, before.bytes_total, quiet);
    loop {
        let reply: ScrubReply = client.get("/api/v1/scrub")?;
        progress.set_totals(reply.blobs_total, reply.bytes_total);
        progress.set(reply.blobs, reply.bytes);
        progress.note(&format!("{}, {} found", reply.phase, text::count(reply.found)));
        if reply.passes > before.passes && !reply.running && reply.waiting <= reply.waiting_failed {
            return Ok(reply);
        }
        std::thread::sleep(POLL_EVERY);
    }
}

fn show(reply: &ScrubReply) -> Outcome {
    let time = |time: &Option<String>| time.as_deref().map_or_else(|| "-".to_owned(), text::whole_seconds);
    let mut table = Table::new(&["what", ">figure"]);
    let mut row = |what: &str, figure: String| table.row(vec![what.to_owned(), figure]);
    row("state", if reply.running { format!("running, {}", reply.phase) } else { reply.phase.clone() });
    row("pass began", time(&reply.began));
    row("last pass ended", time(&reply.ended));
    row("blobs checked", format!("{} of {}", text::count(reply.blobs), text::count(reply.blobs_total)));
    row("small values checked", text::count(reply.values));
    row("bytes read", format!("{} of about {}", text::size(reply.bytes), text::size(reply.bytes_total)));
    if reply.running {
        row("rate", format!("{}/s", text::size(reply.rate.max(0.0) as u64)));
        let left = reply.remaining.map_or_else(|| "-".to_owned(), |s| text::span(Duration::from_secs(s)));
        row("time left", left);
    }
    if let Some(rebuild) = &reply.rebuild {
        row("rebuild began", text::whole_seconds(&rebuild.began));
        row("stripes rebuilt", stripes(rebuild));
        row(&that_bear(rebuild.bears), level(rebuild));
        row(
            "bytes rebuilt",
            format!("{} of about {}", text::size(rebuild.bytes), text::size(rebuild.bytes_total)),
        );
        row("rate of the rebuild", format!("{}/s", text::size(rebuild.rate)));
        row("its time left", time_left(rebuild).unwrap_or_else(|| "-".to_owned()));
    }
    row("found wrong", text::count(reply.found));
    row("shards repaired", text::count(reply.repaired));
    row("stripes moved", text::count(reply.moved));
    row("failed repairs of shards", text::count(reply.failed));
    row("waiting for repair", text::count(reply.waiting));
    row("of these tried in vain", text::count(reply.waiting_failed));
    row("files recalled from tape", text::count(reply.nearline));
    row("files lost", text::count(reply.lost));
    row("lost files found again", text::count(reply.found_again));
    output::write(&table.render())?;
    for line in reply.findings.iter().chain(&reply.files) {
        output::line(&terminal::one_line(line))?;
    }
    Ok(())
}

fn stripes(rebuild: &RebuildReply) -> String {
    let least = if rebuild.counted { "" } else { "at least " };
    format!("{} of {least}{}", text::count(rebuild.stripes), text::count(rebuild.stripes_total))
}

/// The stripes that are rebuilt now.
fn that_bear(further: u64) -> String {
    match further {
        0 => "stripes that bear no further loss".to_owned(),
        1 => "stripes that bear 1 further loss".to_owned(),
        more => format!("stripes that bear {more} further losses"),
    }
}

fn level(rebuild: &RebuildReply) -> String {
    format!("{} of {}", text::count(rebuild.level_stripes), text::count(rebuild.level_total))
}

fn time_left(rebuild: &RebuildReply) -> Option<String> {
    let left = rebuild.remaining_seconds?;
    Some(text::span(Duration::from_secs_f64(left.clamp(0.0, 1e9))))
}

/// How far a rebuild is, in one line.
pub(crate) fn rebuilt(rebuild: &RebuildReply) -> String {
    let (bytes, total) = (text::size(rebuild.bytes), text::size(rebuild.bytes_total));
    let left = time_left(rebuild).map_or_else(String::new, |left| format!(", about {left} left"));
    format!(
        "rebuild: {} stripes, {bytes} of about {total}, {}/s{left}; {}: {}",
        stripes(rebuild),
        text::size(rebuild.rate),
        that_bear(rebuild.bears),
        level(rebuild)
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rebuild_is_told_with_what_its_stripes_bear() {
        let mut rebuild = RebuildReply {
            began: String::new(),
            stripes: 12,
            stripes_total: 400,
            bytes: 12_000_000_000,
            bytes_total: 400_000_000_000,
            counted: true,
            bears: 0,
            level_stripes: 12,
            level_total: 40,
            rate: 100_000_000,
            remaining_seconds: Some(3880.0),
        };
        assert_eq!(
            rebuilt(&rebuild),
            "rebuild: 12 of 400 stripes, 12.0 GB of about 400 GB, 100 MB/s, about 64 min 40 s left; \
             stripes that bear no further loss: 12 of 40"
        );
        (rebuild.counted, rebuild.remaining_seconds, rebuild.bears) = (false, None, 1);
        assert_eq!(
            rebuilt(&rebuild),
            "rebuild: 12 of at least 400 stripes, 12.0 GB of about 400 GB, 100 MB/s; stripes that bear 1 \
             further loss: 12 of 40"
        );
    }
}
