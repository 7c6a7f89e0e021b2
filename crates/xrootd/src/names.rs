//! Names: what a path stands for, directories, removing and renaming.

use archive::{DirectoryStat, FileStat, ListedKind, Locality, PutOptions, Stat};
use authority::{Bytes as _, Namespace as _, Upload};
use base::{ArchivePath, ByteCount, Clock, Name, Timestamp};
use catalogue::Attributes;
use rustix::io::Errno;

use crate::errors::Refused;
use crate::people::Client;
use crate::wire::Body;

/// What is told of a name: one bit each.
mod what {
    pub const DIRECTORY: u16 = 1;
    pub const OFFLINE: u16 = 2;
    pub const BACKED_UP: u16 = 4;
    pub const LOST: u16 = 8;
    /// The checksums are told.
    pub const SUMS: u16 = 16;
}

/// Modes of what has none of its own.
const FILE_MODE: u32 = 0o644;
const DIRECTORY_MODE: u32 = 0o755;

/// The path that XRootD means: it hands on slashes that stand twice, and at the end of directories.
pub fn path(text: &str) -> Result<ArchivePath, Refused> {
    let mut plain = String::with_capacity(text.len() + 1);
    for part in text.split('/').filter(|part| !part.is_empty()) {
        plain.push('/');
        plain.push_str(part);
    }
    if plain.is_empty() {
        plain.push('/');
    }
    ArchivePath::new(&plain).map_err(|error| Refused::new(Errno::INVAL, format!("{text}: {error}")))
}

fn locality(locality: Locality) -> u16 {
    match locality {
        Locality::Online => 0,
        Locality::OnlineAndNearline => what::BACKED_UP,
        Locality::Nearline => what::OFFLINE | what::BACKED_UP,
        Locality::Lost => what::OFFLINE | what::LOST,
    }
}

fn entry(body: Body, flags: u16, mode: u32, size: ByteCount, mtime: Timestamp) -> Body {
    let usual = if flags & what::DIRECTORY == 0 { FILE_MODE } else { DIRECTORY_MODE };
    body.u16(flags).u32(if mode == 0 { usual } else { mode & 0o7777 }).u64(size.0).i64(mtime.0)
}

fn modified(attributes: &Attributes, created: Timestamp) -> Timestamp {
    if attributes.mtime == Timestamp::default() { created } else { attributes.mtime }
}

/// A file in an answer.
pub fn file(body: Body, stat: &FileStat) -> Body {
    let flags = locality(stat.locality) | what::SUMS;
    let mtime = modified(&stat.attributes, stat.created);
    let sums = stat.checksums.stream;
    entry(body, flags, stat.attributes.mode, stat.size, mtime)
        .u64(stat.file.0)
        .u32(sums.adler32.0)
        .u32(sums.crc32c.0)
}

fn directory(body: Body, stat: &DirectoryStat) -> Body {
    let mtime = modified(&stat.attributes, stat.created);
    entry(body, what::DIRECTORY, stat.attributes.mode, ByteCount(0), mtime).u64(0).u32(0).u32(0)
}

/// What a path stands for.
pub fn stat(client: &Client, text: &str) -> Result<Body, Refused> {
    Ok(match client.engine.stat(&path(text)?)? {
        Stat::Directory(stat) => directory(Body::default(), &stat),
        Stat::File(stat) => file(Body::default(), &stat),
    })
}

/// A page of a directory.
pub fn list(client: &Client, text: &str, after: &str, limit: u32) -> Result<Body, Refused> {
    let after = match after {
        "" => None,
        name => Some(Name::new(name).map_err(|error| Refused::new(Errno::INVAL, error.to_string()))?),
    };
    let (lines, more) = client.engine.list(&path(text)?, after.as_ref(), limit as usize)?;
    let count = u32::try_from(lines.len()).unwrap_or(u32::MAX);
    let body = Body::default().u16(u16::from(more)).u32(count);
    Ok(lines.iter().fold(body, |body, line| {
        let (flags, id) = match &line.what {
            ListedKind::Directory => (what::DIRECTORY, 0),
            ListedKind::File { file, locality: at, .. } => (locality(*at), file.0),
        };
        let attributes = &line.attributes;
        let body = body.text(line.name.as_str());
        entry(body, flags, attributes.mode, line.size, attributes.mtime).u64(id).u32(0).u32(0)
    }))
}

/// Begins a new file.
pub fn create(
    client: &Client,
    clock: &dyn Clock,
    text: &str,
    (exclusive, parents): (bool, bool),
    mode: u32,
    size: Option<u64>,
) -> Result<Box<dyn Upload>, Refused> {
    let attributes = Attributes { mtime: clock.now(), mode, ..Attributes::default() };
    let options = PutOptions {
        length: size.map(ByteCount),
        attributes,
        keep_existing: exclusive,
        make_parents: parents,
        ..PutOptions::default()
    };
    Ok(client.engine.begin_put(&path(text)?, options)?)
}

/// Makes a directory.
pub fn make_directory(
    client: &Client,
    clock: &dyn Clock,
    text: &str,
    mode: u32,
    parents: bool,
) -> Result<(), Refused> {
    let path = path(text)?;
    let attributes = Attributes { mtime: clock.now(), mode, ..Attributes::default() };
    match client.engine.make_directory(&path, attributes, None, parents) {
        // With its parents, one that is there is what was asked for.
        Err(archive::ArchiveError::Exists(_)) if parents && is_directory(client, &path)? == Some(true) => {
            Ok(())
        }
        made => Ok(made?),
    }
}

fn is_directory(client: &Client, path: &ArchivePath) -> Result<Option<bool>, Refused> {
    match client.engine.stat(path) {
        Ok(stat) => Ok(Some(matches!(stat, Stat::Directory(_)))),
        Err(error) if error.kind() == archive::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// Removes a file, or a directory that is empty: only what is meant.
pub fn remove(client: &Client, text: &str, meant: Meant) -> Result<(), Refused> {
    let path = path(text)?;
    match (is_directory(client, &path)?, meant) {
        (None, _) => Err(Refused::new(Errno::NOENT, format!("there is no {path}"))),
        (Some(true), Meant::File) => Err(Refused::new(Errno::ISDIR, format!("{path} is a directory"))),
        (Some(false), Meant::Directory) => Err(Refused::new(Errno::NOTDIR, format!("{path} is a file"))),
        _ => Ok(client.engine.remove(&path)?),
    }
}

/// What is to be removed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Meant {
    /// A file.
    File,
    /// A directory.
    Directory,
}

/// Gives another name; a file that has it is not replaced: XRootD's own storage refuses that as well.
pub fn rename(client: &Client, from: &str, to: &str) -> Result<(), Refused> {
    Ok(client.engine.rename(&path(from)?, &path(to)?, false)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slashes_are_as_xrootd_hands_them_on() {
        for (text, plain) in [("/a//b/", "/a/b"), ("//", "/"), ("/a", "/a"), ("", "/"), ("a", "/a")] {
            assert_eq!(path(text).unwrap().as_str(), plain, "{text}");
        }
        for text in ["/a/../b", "/.", "/a\u{7}\0"] {
            assert_eq!(path(text).map_err(|refused| refused.errno), Err(22), "{text:?}");
        }
    }
}
