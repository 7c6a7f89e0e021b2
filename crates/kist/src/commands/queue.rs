//! `kist queue`.

use std::time::Duration;

use door::wire::QueueReply;

use crate::cli::Common;
use crate::failure::Outcome;
use crate::table::Table;
use crate::{expected, output, text};

/// Arguments.
#[derive(clap::Args, Debug)]
#[command(after_help = "Example:\n  kist queue")]
pub struct Args {}

/// Runs the command.
pub fn run(_: &Args, common: &Common) -> Outcome {
    let queue: Vec<QueueReply> = common.connection.client()?.get("/api/v1/queue")?;
    if common.json {
        return output::json(&queue);
    }
    if queue.is_empty() {
        return output::line("nothing waits");
    }
    let now = text::now();
    let mut table =
        Table::new(&["what", ">items", ">bytes", "oldest", ">longest wait", "done", "why it waits"]);
    for line in queue {
        table.row(vec![
            line.what,
            text::count(line.items),
            text::size(line.bytes),
            line.oldest.unwrap_or_else(|| "-".to_owned()),
            line.oldest_seconds.map_or_else(|| "-".to_owned(), |age| text::span(Duration::from_secs(age))),
            expected::words_or_dash(line.expected.as_ref(), now),
            line.reason,
        ]);
    }
    output::write(&table.render())
}
