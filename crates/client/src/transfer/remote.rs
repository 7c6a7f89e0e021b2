//! Trees of the archive.

use base::{Name, Timestamp};
use terminal::{Exit, Failure, Outcome, text};
use wire::{ListEntry, StatReply};

use crate::request::{Client, join};

/// What a name of the archive is.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum RemoteKind {
    /// A file with bytes.
    File,
    /// A symbolic link and its target.
    Link(String),
    /// A directory.
    Directory,
}

/// A file, link or directory of the archive.
#[derive(Clone, Debug)]
pub struct RemoteItem {
    /// Its path.
    pub path: String,
    /// Its path below the root of the walk; empty for the root itself.
    pub relative: String,
    /// What it is.
    pub kind: RemoteKind,
    /// Bytes.
    pub size: u64,
    /// Mode in octal.
    pub mode: String,
    /// Modification time.
    pub mtime: Option<Timestamp>,
    /// BLAKE3 of a file.
    pub blake3: Option<String>,
    /// Locality of a file.
    pub locality: Option<String>,
}

impl RemoteItem {
    /// Of a stat.
    pub fn of_stat(stat: &StatReply) -> Outcome<Self> {
        Ok(RemoteItem {
            path: stat.path.clone(),
            relative: String::new(),
            kind: kind(&stat.path, &stat.kind, stat.target.as_deref())?,
            size: stat.size,
            mode: stat.mode.clone(),
            mtime: text::parse_rfc3339(&stat.mtime),
            blake3: stat.file.as_ref().map(|file| file.blake3.clone()),
            locality: stat.file.as_ref().map(|file| file.locality.clone()),
        })
    }

    /// Whether it is on tape only.
    pub fn is_nearline(&self) -> bool {
        self.locality.as_deref() == Some("NEARLINE")
    }

    /// Refuses a file that is on tape only.
    pub fn refuse_nearline(&self) -> Outcome {
        if !self.is_nearline() {
            return Ok(());
        }
        let message =
            format!("{0} is NEARLINE, on tape only: stage it first: kist stage --wait {0}", self.path);
        Err(Failure::new(Exit::Refused, message))
    }

    /// Refuses a directory if `nearline` of the `files` below it are on tape only.
    pub fn refuse_nearline_below(&self, nearline: u64, files: u64) -> Outcome {
        if nearline == 0 {
            return Ok(());
        }
        let message = format!(
            "{} of {} below {path} {} NEARLINE, on tape only: stage first: kist stage --wait {path}",
            text::count(nearline),
            text::files(files),
            if nearline == 1 { "is" } else { "are" },
            path = self.path,
        );
        Err(Failure::new(Exit::Refused, message))
    }

    /// What a listing of `parent` has.
    pub fn of_entry(parent: &RemoteItem, entry: ListEntry) -> Outcome<Self> {
        // What the server says becomes a local path: it is checked like any input.
        let name = Name::new(&entry.name).map_err(|error| {
            Failure::internal(format!("{}: the server lists a bad name: {error}", parent.path))
        })?;
        let path = join(&parent.path, name.as_str());
        let relative = match parent.relative.as_str() {
            "" => name.as_str().to_owned(),
            relative => format!("{relative}/{name}"),
        };
        Ok(RemoteItem {
            kind: kind(&path, &entry.kind, entry.target.as_deref())?,
            path,
            relative,
            size: entry.size,
            mode: entry.mode,
            mtime: text::parse_rfc3339(&entry.mtime),
            blake3: entry.blake3,
            locality: entry.locality,
        })
    }
}

/// Gives each item below `root` (a directory), directories before what is in them; not `root` itself.
pub fn walk_remote(
    client: &Client,
    root: &RemoteItem,
    give: &mut impl FnMut(&RemoteItem) -> Outcome,
) -> Outcome {
    let mut waiting = vec![root.clone()];
    while let Some(directory) = waiting.pop() {
        let mut inside = Vec::new();
        client.list(&directory.path, |entry| {
            let item = RemoteItem::of_entry(&directory, entry)?;
            give(&item)?;
            if item.kind == RemoteKind::Directory {
                inside.push(item);
            }
            Ok(())
        })?;
        waiting.extend(inside.into_iter().rev());
    }
    Ok(())
}

fn kind(path: &str, word: &str, target: Option<&str>) -> Outcome<RemoteKind> {
    match (word, target) {
        ("file", _) => Ok(RemoteKind::File),
        ("directory", _) => Ok(RemoteKind::Directory),
        ("link", Some(target)) => Ok(RemoteKind::Link(target.to_owned())),
        _ => Err(Failure::internal(format!(
            "{path}: the server says that it is a '{word}', which is not known here"
        ))),
    }
}
