//! `kist ls`.

use std::collections::HashMap;

use client::transfer::{RemoteItem, RemoteKind};
use client::{Client, archive_path, join};
use terminal::{Exit, Failure, Outcome, Table, one_line, output, text};
use wire::{ListEntry, StatReply};

use crate::cli::Common;

/// Lines of a long listing that are aligned together.
const TABLE_ROWS_MAX: usize = 2000;

/// Arguments.
#[derive(clap::Args, Debug)]
#[command(after_help = "\
Locality: ONLINE in the pool only, ONLINE_AND_NEARLINE in the pool and on all
its tapes, NEARLINE on tape only, LOST nowhere readable.

Of several paths the files come first, then each directory below its path. With
--json all of it is one array, and each entry has its whole path; of a single
file it is the object that kist stat writes.

Examples:
  kist ls -l -r /demo-1
  kist ls /demo-1/bin /demo-1/share")]
pub struct Args {
    /// Directories and files
    #[arg(default_value = "/", value_name = "PATH")]
    paths: Vec<String>,
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
    let paths = args.paths.iter().map(|path| archive_path(path)).collect::<Outcome<Vec<_>>>()?;
    let (mut files, mut directories, mut missing) = (Vec::new(), Vec::new(), 0);
    for path in paths {
        match client.stat(&path) {
            Ok(stat) if RemoteItem::of_stat(&stat)?.kind == RemoteKind::Directory => directories.push(path),
            Ok(stat) => files.push(stat),
            // As ls does: the others are listed all the same.
            Err(failure) if failure.exit == Exit::NotFound && args.paths.len() > 1 => {
                output::note(&format!("kist: {}", failure.message));
                missing += 1;
            }
            Err(failure) => return Err(failure),
        }
    }
    if let ([stat], 1) = (files.as_slice(), args.paths.len()) {
        return if common.json { output::json(stat) } else { super::stat::print(stat) };
    }
    let mut printer = Printer::new(args, common)?;
    for stat in files {
        let path = stat.path.clone();
        printer.entry(&path, entry_of(stat), &path)?;
    }
    let mut too_deep = 0;
    for directory in directories {
        printer.section(&directory)?;
        too_deep += list(&client, args, directory, &mut printer)?;
    }
    printer.end()?;
    match (too_deep, missing) {
        (0, 0) => Ok(()),
        (0, missing) => {
            let exit = if missing == args.paths.len() { Exit::NotFound } else { Exit::SomeFailed };
            let of = text::plural(args.paths.len() as u64, "path");
            let verb = if missing == 1 { "is" } else { "are" };
            Err(Failure::new(exit, format!("{missing} of {of} {verb} not there")))
        }
        (count, _) => {
            let what = text::plural(count, "directory");
            Err(Failure::new(
                Exit::SomeFailed,
                format!("{what} left out: rename one above to a shorter name"),
            ))
        }
    }
}

/// Lists a directory; gives how many directories in it were left out, whose paths are too long.
fn list(client: &Client, args: &Args, path: String, printer: &mut Printer<'_>) -> Outcome<u64> {
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
            let name = if args.recursive { path.clone() } else { entry.name.clone() };
            printer.entry(&path, entry, &name)
        })?;
        waiting.extend(inside.into_iter().rev());
    }
    Ok(too_deep)
}

/// A file that was named, as a line of a listing.
fn entry_of(stat: StatReply) -> ListEntry {
    let (locality, blake3) = stat.file.map(|file| (file.locality, file.blake3)).unzip();
    let name = stat.path.rsplit('/').next().unwrap_or_default().to_owned();
    let StatReply { kind, size, mode, owner, group, mtime, target, class, .. } = stat;
    ListEntry { name, kind, size, mode, owner, group, mtime, target, class, locality, blake3 }
}

struct Printer<'a> {
    args: &'a Args,
    json: Option<output::JsonArray>,
    rows: Vec<Vec<String>>,
    headed: bool,
    /// Something was written before.
    begun: bool,
}

impl<'a> Printer<'a> {
    fn new(args: &'a Args, common: &Common) -> Outcome<Self> {
        let json = if common.json { Some(output::JsonArray::begin()?) } else { None };
        Ok(Printer { args, json, rows: Vec::new(), headed: false, begun: false })
    }

    /// A directory begins: of several paths, its own stands above what is in it, unless all are whole paths.
    fn section(&mut self, directory: &str) -> Outcome {
        if self.json.is_some() || self.args.recursive || self.args.paths.len() < 2 {
            return Ok(());
        }
        self.table()?;
        self.headed = false;
        if self.begun {
            output::line("")?;
        }
        self.begun = true;
        output::line(&format!("{}:", one_line(directory)))
    }

    /// A line; `name`: how it is called there.
    fn entry(&mut self, path: &str, entry: ListEntry, name: &str) -> Outcome {
        self.begun = true;
        if let Some(json) = &mut self.json {
            let value = serde_json::to_value(&entry).unwrap_or_default();
            let mut object: HashMap<String, serde_json::Value> =
                value.as_object().cloned().unwrap_or_default().into_iter().collect();
            object.insert("path".to_owned(), path.into());
            let sorted: std::collections::BTreeMap<_, _> = object.into_iter().collect();
            return json.push(&sorted);
        }
        let mut name = one_line(name);
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
