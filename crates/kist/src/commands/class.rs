//! `kist class`.

use std::time::Duration;

use terminal::{Outcome, Table, output, text};
use wire::ClassReply;

use crate::cli::Common;

/// Arguments.
#[derive(clap::Args, Debug)]
#[command(after_help = "Example:\n  kist class ls")]
pub struct Args {
    #[command(subcommand)]
    action: Action,
}

#[derive(clap::Subcommand, Debug)]
enum Action {
    /// List the storage classes
    Ls,
}

/// Runs the command.
pub fn run(args: &Args, common: &Common) -> Outcome {
    let Action::Ls = args.action;
    let classes: Vec<ClassReply> = common.connection.client()?.get("/api/v1/classes")?;
    if common.json {
        return output::json(&classes);
    }
    output::write(&classes_table(&classes))
}

/// The classes; what decides when their files leave the pool stands there only if some class has it.
fn classes_table(classes: &[ClassReply]) -> String {
    let mut headings = vec![
        "class",
        ">up to",
        "copies",
        ">pack",
        ">unpacked from",
        ">files",
        ">bytes",
        ">online",
        ">bytes",
        ">unsealed",
    ];
    let leaving: Vec<_> =
        LEAVING.into_iter().filter(|(_, of)| classes.iter().any(|it| of(it).is_some())).collect();
    headings.extend(leaving.iter().map(|(heading, _)| heading));
    let mut table = Table::new(&headings);
    for class in classes {
        let mut row = vec![
            class.name.clone(),
            class.up_to.map_or_else(|| "any".to_owned(), text::size),
            class.copies.join(", "),
            text::size(class.pack_bytes),
            text::size(class.large_bytes),
            text::count(class.files),
            text::size(class.bytes),
            text::count(class.online_files),
            text::size(class.online_bytes),
            text::count(class.todo_files),
        ];
        row.extend(leaving.iter().map(|(_, of)| of(class).unwrap_or_else(|| "-".to_owned())));
        table.row(row);
    }
    table.render()
}

/// A setting of a class in words; `None` if it is not set.
type Setting = fn(&ClassReply) -> Option<String>;

/// What decides on which drives files of a class stand and when they leave the pool, and its headings.
const LEAVING: [(&str, Setting); 6] = [
    ("group", |class| Some(class.pool_group.clone()).filter(|group| !group.is_empty())),
    (">group for", |class| class.pool_group_seconds.map(Duration::from_secs).map(text::span)),
    (">residency", residency),
    (">pool max", |class| class.pool_max.map(text::size)),
    (">pool min", |class| class.pool_min.map(text::size)),
    (">evict min", |class| class.evict_min.map(text::size)),
];

fn residency(class: &ClassReply) -> Option<String> {
    match (class.residency.as_str(), class.residency_seconds) {
        ("tape", _) => Some("tape".to_owned()),
        (_, Some(seconds)) => Some(text::span(Duration::from_secs(seconds))),
        (_, None) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn class(name: &str) -> ClassReply {
        let copies = vec!["vault".to_owned()];
        let name = name.to_owned();
        let (up_to, pack_bytes, large_bytes) = (None, 1_000, 2_000);
        let (files, bytes, online_files, online_bytes, todo_files, todo_bytes) = (0, 0, 0, 0, 0, 0);
        let (pool_max, pool_min, evict_min, residency_seconds) = (None, None, None, None);
        let residency = "pool".to_owned();
        ClassReply {
            name,
            up_to,
            copies,
            pack_bytes,
            large_bytes,
            files,
            bytes,
            online_files,
            online_bytes,
            todo_files,
            todo_bytes,
            pool_group: String::new(),
            pool_group_seconds: None,
            pool_max,
            pool_min,
            evict_min,
            residency,
            residency_seconds,
        }
    }

    #[test]
    fn what_decides_when_files_leave_is_shown_where_it_is_set() {
        let plain = classes_table(&[class("a")]);
        assert!(plain.trim_end().lines().all(|line| !line.contains("pool max")), "{plain}");
        let capped = ClassReply { pool_max: Some(3_000_000), evict_min: Some(4_000), ..class("b") };
        let (residency, residency_seconds) = ("unused".to_owned(), Some(30 * 86_400));
        let aged = ClassReply { residency, residency_seconds, ..class("c") };
        let cold = ClassReply { residency: "tape".to_owned(), ..class("d") };
        let shown = classes_table(&[class("a"), capped, aged, cold]);
        let lines: Vec<Vec<&str>> = shown.lines().map(|line| line.split_whitespace().collect()).collect();
        let [head, a, b, c, d] = &lines[..] else { panic!("{shown}") };
        assert!(head.ends_with(&["residency", "pool", "max", "evict", "min"]), "{shown}");
        assert!(a.ends_with(&["0", "-", "-", "-"]) && d.ends_with(&["tape", "-", "-"]), "{shown}");
        assert!(b.ends_with(&["-", "3.00", "MB", "4.00", "kB"]), "{shown}");
        assert!(c.ends_with(&["30", "d", "0", "h", "-", "-"]), "{shown}");
    }
}
