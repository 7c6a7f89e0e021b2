//! `kist queue`.

use std::time::Duration;

use wire::{QueueReply, TapeReply};

use crate::cli::Common;
use crate::failure::Outcome;
use crate::table::Table;
use crate::watch::{self, Watch, is_asked};
use crate::{expected, text};

/// Arguments.
#[derive(clap::Args, Debug)]
#[command(after_help = "\
Examples:
  kist queue
  kist queue --kind recall --watch
  kist queue --of vault-a")]
pub struct Args {
    /// Only what waits for this
    #[arg(long, value_parser = ["seal", "migrate", "recall"])]
    kind: Option<String>,
    /// Only what waits of this class, for this tape pool, or from this tape
    #[arg(long, value_name = "CLASS|TAPEPOOL|VID")]
    of: Option<String>,
    #[command(flatten)]
    watch: Watch,
}

/// Runs the command.
pub fn run(args: &Args, common: &Common) -> Outcome {
    let client = common.connection.client()?;
    let get = || {
        let mut queue: Vec<QueueReply> = client.get("/api/v1/queue")?;
        if args.of.is_some() {
            let tapes: Vec<TapeReply> = client.get("/api/v1/tapes")?;
            let (mut names, pools) = watch::classes_and_pools(&client)?;
            names.extend(pools);
            if let Some(of) = args.of.as_deref().filter(|of| tapes.iter().any(|tape| tape.vid == *of)) {
                names.insert(of.to_owned());
            }
            watch::check("--of", args.of.as_deref(), &names)?;
        }
        queue.retain(|line| {
            let (kind, of) = line.what.split_once(' ').unwrap_or((&line.what, ""));
            let name = of.strip_suffix(" (too large)").unwrap_or(of);
            is_asked(args.kind.as_deref(), kind) && is_asked(args.of.as_deref(), name)
        });
        Ok(queue)
    };
    watch::list(args.watch, common, get, table)
}

fn table(queue: &[QueueReply]) -> String {
    if queue.is_empty() {
        return "nothing waits\n".to_owned();
    }
    let now = text::now();
    let mut table =
        Table::new(&["what", ">items", ">bytes", "oldest", ">longest wait", "done", "why it waits"]);
    for line in queue {
        table.row(vec![
            line.what.clone(),
            text::count(line.items),
            text::size(line.bytes),
            line.oldest.clone().unwrap_or_else(|| "-".to_owned()),
            line.oldest_seconds.map_or_else(|| "-".to_owned(), |age| text::span(Duration::from_secs(age))),
            expected::words_or_dash(line.expected.as_ref(), now),
            line.reason.clone(),
        ]);
    }
    table.render() + &total(queue)
}

/// Files to be sealed, containers to be written and files to be read are no sum: one of each.
fn total(queue: &[QueueReply]) -> String {
    let sums = [("seal", "file"), ("migrate", "container copy"), ("recall", "file")].map(|(kind, noun)| {
        let lines = queue.iter().filter(|line| line.what.split(' ').next() == Some(kind));
        let (items, bytes) = lines.fold((0u64, 0u64), |(items, bytes), line| {
            (items.saturating_add(line.items), bytes.saturating_add(line.bytes))
        });
        let text = format!("{kind} {}, {}", text::plural(items, noun), text::size(bytes));
        (items > 0).then_some(text)
    });
    format!("in all: {}\n", sums.into_iter().flatten().collect::<Vec<_>>().join("; "))
}
