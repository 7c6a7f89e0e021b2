//! `kist queue`.

use std::cell::Cell;
use std::time::Duration;

use terminal::{Outcome, Table, text};
use wire::{QueueReply, StatusReply, TapeReply};

use crate::cli::Common;
use crate::expected;
use crate::watch::{self, Watch, is_asked};

/// Arguments.
#[derive(clap::Args, Debug)]
#[command(after_help = "\
Examples:
  kist queue
  kist queue --kind recall --watch
  kist queue --of vault-a")]
pub struct Args {
    /// Only what waits for this
    #[arg(long, value_parser = ["seal", "migrate", "recall", "repack", "repair"])]
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
    let wanted = Cell::new(None);
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
        if queue.iter().filter(|line| line.what.starts_with("recall ")).count() > 1 {
            let status: StatusReply = client.get("/api/v1/status")?;
            wanted.set(status.wanted_files.map(|files| (files, status.wanted_bytes)));
        }
        Ok(queue)
    };
    watch::list(args.watch, common, get, |queue| table(queue, wanted.get()))
}

fn table(queue: &[QueueReply], wanted: Option<(u64, u64)>) -> String {
    if queue.is_empty() {
        return "nothing waits\n".to_owned();
    }
    let mut table =
        Table::new(&["what", ">items", ">bytes", "oldest", ">longest wait", "done", "why it waits"]);
    for line in queue {
        table.row(vec![
            line.what.clone(),
            text::count(line.items),
            text::size(line.bytes),
            line.oldest.as_deref().map_or_else(|| "-".to_owned(), text::whole_seconds),
            line.oldest_seconds.map_or_else(|| "-".to_owned(), |age| text::span(Duration::from_secs(age))),
            expected::words_or_dash(line.expected.as_ref()),
            line.reason.clone(),
        ]);
    }
    table.render() + &total(queue, wanted)
}

/// Files to be sealed, copies of containers to be written, files to be read and containers to be moved are no
/// sum: one of each.
/// `wanted`: the files to be read and their bytes, each once; a file stands in the line of each tape that has
/// a copy of it.
fn total(queue: &[QueueReply], wanted: Option<(u64, u64)>) -> String {
    let kinds = [
        ("seal", "file"),
        ("migrate", "container copy"),
        ("recall", "file"),
        ("repack", "container"),
        ("repair", "container"),
    ];
    let sums = kinds.map(|(kind, noun)| {
        let lines = || queue.iter().filter(|line| line.what.split(' ').next() == Some(kind));
        let (items, bytes) = lines().fold((0u64, 0u64), |(items, bytes), line| {
            (items.saturating_add(line.items), bytes.saturating_add(line.bytes))
        });
        let (files, of_files, copies) = match wanted {
            Some((files, of_files)) if kind == "recall" && lines().count() > 1 && files < items => {
                let copies = text::plural(items, "copy");
                (files, of_files, format!(" (with {copies} on {} tapes)", lines().count()))
            }
            _ => (items, bytes, String::new()),
        };
        let text = format!("{kind} {}, {}{copies}", text::plural(files, noun), text::size(of_files));
        (items > 0).then_some(text)
    });
    let sums: Vec<String> = sums.into_iter().flatten().collect();
    // Rows of other kinds have nothing to add up.
    if sums.is_empty() { String::new() } else { format!("in all: {}\n", sums.join("; ")) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(what: &str, items: u64, bytes: u64) -> QueueReply {
        let (reason, what) = (String::new(), what.to_owned());
        let (oldest, oldest_seconds, cause, expected) = (None, None, None, None);
        QueueReply { what, items, bytes, oldest, oldest_seconds, reason, cause, expected }
    }

    /// A file with two copies was counted twice: it stands in the line of each of its tapes.
    #[test]
    fn the_total_counts_each_wanted_file_once() {
        let queue = [
            line("seal a", 3, 30),
            line("migrate v", 1, 5),
            line("recall A1", 7, 700),
            line("recall A2", 5, 500),
        ];
        assert_eq!(
            total(&queue, Some((7, 700))),
            "in all: seal 3 files, 30 B; migrate 1 container copy, 5 B; recall 7 files, 700 B (with 12 \
             copies on 2 tapes)\n"
        );
        assert_eq!(total(&queue[2..3], Some((9, 900))), "in all: recall 7 files, 700 B\n", "one tape's");
        assert_eq!(total(&[], None), "");
        assert_eq!(total(&queue[2..], Some((12, 1200))), "in all: recall 12 files, 1.20 kB\n");
    }
}
