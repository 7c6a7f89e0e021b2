//! `kist ls`.

use std::collections::HashMap;

use client::transfer::{RemoteItem, RemoteKind};
use client::{archive_path, join};
use terminal::{Exit, Failure, Outcome, Table, one_line, output, text};
use wire::ListEntry;

use crate::cli::Common;

/// Lines of a long listing that are aligned together.
const TABLE_ROWS_MAX: usize = 2000;

/// Arguments.
#[derive(clap::Args, Debug)]
#[command(after_help = "\
Locality: ONLINE in the pool only, ONLINE_AND_NEARLINE in the pool and on all
its tapes, NEARLINE on tape only, LOST nowhere readable.

Example:
  kist ls -l -r /demo-1")]
pub struct Args {
    /// A directory or file
    #[arg(default_value = "/")]
    path: String,
    /// Mode, owner, size, time, locality and class too
    #[arg(short, long)]
    long: bool,
    /// All below, as paths
    #[arg(short, long)]
    recursive: bool,
}

/// Runs the command.
pub fn run(args: &Args, common: &Common) -> Outcome {
    let client = common.connection.client()?;
    let path = archive_path(&args.path)?;
    let stat = client.stat(&path)?;
    if RemoteItem::of_stat(&stat)?.kind != RemoteKind::Directory {
        return if common.json { output::json(&stat) } else { super::stat::print(&stat) };
    }
    let mut printer = Printer::new(args, common)?;
    let mut waiting = vec![path];
    let mut too_deep = 0;
    while let Some(directory) = waiting.pop() {
        let mut inside = Vec::new();
        client.list(&directory, |entry| {
            let path = join(&directory, &entry.name);
            if args.recursive && entry.kind == "directory" {
                // A rename above it has made the path longer than any that can be asked for.
                if path.len() > base::PATH_BYTES_MAX {
                    output::note(&format!(
                        "kist: {path}: longer than a path may be: what is in it is left out"
                    ));
                    too_deep += 1;
                } else {
                    inside.push(path.clone());
                }
            }
            printer.entry(&path, entry)
        })?;
        waiting.extend(inside.into_iter().rev());
    }
    printer.end()?;
    match too_deep {
        0 => Ok(()),
        count => {
            let what = text::plural(count, "directory");
            Err(Failure::new(
                Exit::SomeFailed,
                format!("{what} left out: rename one above to a shorter name"),
            ))
        }
    }
}

struct Printer<'a> {
    args: &'a Args,
    json: Option<output::JsonArray>,
    rows: Vec<Vec<String>>,
    headed: bool,
}

impl<'a> Printer<'a> {
    fn new(args: &'a Args, common: &Common) -> Outcome<Self> {
        let json = if common.json { Some(output::JsonArray::begin()?) } else { None };
        Ok(Printer { args, json, rows: Vec::new(), headed: false })
    }

    fn entry(&mut self, path: &str, entry: ListEntry) -> Outcome {
        if let Some(json) = &mut self.json {
            let value = serde_json::to_value(&entry).unwrap_or_default();
            let mut object: HashMap<String, serde_json::Value> =
                value.as_object().cloned().unwrap_or_default().into_iter().collect();
            object.insert("path".to_owned(), path.into());
            let sorted: std::collections::BTreeMap<_, _> = object.into_iter().collect();
            return json.push(&sorted);
        }
        let mut name = one_line(if self.args.recursive { path } else { &entry.name });
        match entry.kind.as_str() {
            "directory" => name.push('/'),
            "link" if self.args.long => {
                name.push_str(&format!(" -> {}", one_line(entry.target.as_deref().unwrap_or("?"))));
            }
            _ => {}
        }
        if !self.args.long {
            return output::line(&name);
        }
        let size = if entry.kind == "directory" { String::new() } else { text::size(entry.size) };
        self.rows.push(vec![
            entry.mode,
            text::or_dash(&entry.owner),
            text::or_dash(&entry.group),
            size,
            text::whole_seconds(&entry.mtime),
            entry.locality.unwrap_or_default(),
            entry.class.unwrap_or_default(),
            name,
        ]);
        if self.rows.len() >= TABLE_ROWS_MAX { self.table() } else { Ok(()) }
    }

    fn table(&mut self) -> Outcome {
        let mut table =
            Table::new(&["mode", "owner", "group", ">size", "modified", "locality", "class", "name"]);
        self.rows.drain(..).for_each(|row| table.row(row));
        if table.is_empty() {
            return Ok(());
        }
        let text = table.render();
        let text = if self.headed { text.split_once('\n').map_or("", |(_, rows)| rows) } else { &text };
        self.headed = true;
        output::write(text)
    }

    fn end(mut self) -> Outcome {
        self.table()?;
        match self.json {
            Some(json) => json.end(),
            None => Ok(()),
        }
    }
}
