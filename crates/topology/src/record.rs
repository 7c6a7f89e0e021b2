//! A recorded tree: one text file that any system can keep and any mail can carry. The form is in
//! docs/format/machine-record.md.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use crate::reader::split;
use crate::tree::{NAMES_MAX, PATH_MAX, READ_MAX, Tree, Unread};

/// The longest recorded tree in bytes. One of 1,000 disks on two paths has some 6 MB.
pub const RECORD_MAX: usize = 64 * 1024 * 1024;
/// The most files, links and directories in one.
pub const ENTRIES_MAX: usize = 1_000_000;
/// The first line.
const MAGIC: &str = "kist-machine 1";
/// What the first line of another version begins with.
const MAGIC_ANY: &str = "kist-machine ";

/// Why a recorded tree cannot be read.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RecordError {
    /// It is something else.
    #[error("this is no recorded machine: the first line is not '{MAGIC}'")]
    NotRecord,
    /// A later version of Kist has written it.
    #[error("the first line is '{0}', this version of Kist reads '{MAGIC}': use a newer one")]
    Version(String),
    /// It is longer than [`RECORD_MAX`], or has more than [`ENTRIES_MAX`] entries.
    #[error("it is larger than {RECORD_MAX} bytes or {ENTRIES_MAX} entries")]
    TooLarge,
    /// Its end is missing.
    #[error("its end is missing: {found} entries were read; it was cut off on its way")]
    Cut {
        /// Entries that were there.
        found: usize,
    },
    /// The last line counts other entries than there are.
    #[error("line {line}: the end counts {counted} entries, {found} are there")]
    Count {
        /// The line.
        line: usize,
        /// What it says.
        counted: usize,
        /// What there is.
        found: usize,
    },
    /// A line has no meaning.
    #[error("line {line}: {what}")]
    Line {
        /// The line, counted from one.
        line: usize,
        /// What is wrong with it.
        what: &'static str,
    },
}

/// What stands at a path.
#[derive(Clone, PartialEq, Eq, Debug)]
enum Node {
    Directory,
    File(Vec<u8>),
    Link(String),
    /// It was there and could not be read.
    Failed(Unread),
    /// It was there, and nobody asked what is in it.
    Unasked,
}

/// A tree in memory.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Record {
    nodes: BTreeMap<String, Node>,
    /// The names in each directory.
    children: BTreeMap<String, BTreeSet<String>>,
}

/// Whether a path is absolute and plain, and short enough.
fn is_plain(path: &str) -> bool {
    path == "/"
        || path.len() <= PATH_MAX
            && path
                .strip_prefix('/')
                .is_some_and(|rest| rest.split('/').all(|part| !matches!(part, "" | "." | "..")))
}

/// A name or path with everything that could be taken for something else as `%XX`.
fn escaped(text: &str, keeps: impl Fn(u8) -> bool) -> String {
    let mut out = String::new();
    for byte in text.bytes() {
        if keeps(byte) {
            out.push(char::from(byte));
        } else {
            // Writing into a String cannot fail.
            let _ = write!(out, "%{byte:02X}");
        }
    }
    out
}

fn is_name_byte(byte: u8) -> bool {
    byte.is_ascii_graphic() && !matches!(byte, b'%' | b'#' | b'=' | b'>' | b'!' | b'?')
}

fn is_text_byte(byte: u8) -> bool {
    (b' '..=b'~').contains(&byte) && byte != b'%'
}

/// The bytes that were escaped.
fn unescaped(text: &str) -> Option<Vec<u8>> {
    let mut out = Vec::new();
    let mut bytes = text.bytes();
    while let Some(byte) = bytes.next() {
        if byte == b'%' {
            let digit = |byte: u8| char::from(byte).to_digit(16).and_then(|digit| u8::try_from(digit).ok());
            let (high, low) = (digit(bytes.next()?)?, digit(bytes.next()?)?);
            out.push(high << 4 | low);
        } else {
            out.push(byte);
        }
    }
    Some(out)
}

fn unescaped_text(text: &str) -> Option<String> {
    String::from_utf8(unescaped(text)?).ok()
}

fn hex(text: &str) -> Option<Vec<u8>> {
    let digits = text.as_bytes();
    let digit = |byte: u8| char::from(byte).to_digit(16).and_then(|digit| u8::try_from(digit).ok());
    let (pairs, rest) = digits.as_chunks::<2>();
    if !rest.is_empty() {
        return None;
    }
    pairs.iter().map(|[high, low]| Some(digit(*high)? << 4 | digit(*low)?)).collect()
}

impl Record {
    /// Reads one.
    ///
    /// # Errors
    /// If it is no recorded tree, a line has no meaning, or its end is missing.
    pub fn parse(bytes: &[u8]) -> Result<Record, RecordError> {
        if bytes.len() > RECORD_MAX {
            return Err(RecordError::TooLarge);
        }
        let text = str::from_utf8(bytes).map_err(|_| RecordError::NotRecord)?;
        let mut lines = text.lines().map(|line| line.strip_suffix('\r').unwrap_or(line)).zip(1..);
        match lines.next() {
            Some((MAGIC, _)) => {}
            Some((first, _)) if first.starts_with(MAGIC_ANY) => {
                return Err(RecordError::Version(first.chars().take(80).collect()));
            }
            _ => return Err(RecordError::NotRecord),
        }
        let mut record = Record::default();
        let mut base: Option<String> = None;
        let mut found = 0;
        for (text, line) in lines {
            let wrong = |what| RecordError::Line { line, what };
            if text.is_empty() || text.starts_with('#') {
                continue;
            }
            if text.starts_with('/') {
                let path = unescaped_text(text).filter(|path| is_plain(path));
                let path = path.ok_or_else(|| wrong("a directory is an absolute path without '..'"))?;
                record.insert(&path, Node::Directory).map_err(wrong)?;
                base = Some(path);
                continue;
            }
            // A file of the name `end` has no digits there.
            if let Some(counted) = text.strip_prefix("end ").and_then(|count| count.parse::<usize>().ok()) {
                if counted != found {
                    return Err(RecordError::Count { line, counted, found });
                }
                return Ok(record);
            }
            found += 1;
            if found > ENTRIES_MAX || record.nodes.len() > ENTRIES_MAX {
                return Err(RecordError::TooLarge);
            }
            let base = base.as_deref().ok_or_else(|| wrong("a name stands before any directory"))?;
            let (name, node) = entry(text).map_err(wrong)?;
            let path = if base == "/" { format!("/{name}") } else { format!("{base}/{name}") };
            if !is_plain(&path) {
                return Err(wrong("a name is no plain name, or its path too long"));
            }
            record.insert(&path, node).map_err(wrong)?;
        }
        Err(RecordError::Cut { found })
    }

    /// Puts something at a path, and directories above it. What nobody had asked for gives way.
    fn insert(&mut self, path: &str, node: Node) -> Result<(), &'static str> {
        match self.nodes.get(path) {
            Some(Node::Directory) if node == Node::Directory => return Ok(()),
            None | Some(Node::Unasked) => {}
            Some(_) => return Err("there is something of this name already"),
        }
        let mut below = path;
        while below != "/" {
            let (above, name) = split(below);
            self.children.entry(above.to_owned()).or_default().insert(name.to_owned());
            match self.nodes.get(above) {
                Some(Node::Directory) => break,
                None | Some(Node::Unasked) => drop(self.nodes.insert(above.to_owned(), Node::Directory)),
                Some(_) => return Err("it is below something that is no directory"),
            }
            below = above;
        }
        self.nodes.insert(path.to_owned(), node);
        Ok(())
    }

    /// Puts a file at a path, with directories above it.
    ///
    /// # Panics
    /// If the path is not absolute and plain, or something else is there: mistakes of the caller.
    pub fn put(&mut self, path: &str, bytes: Vec<u8>) {
        assert!(is_plain(path) && path != "/", "{path} is no plain path");
        if matches!(self.nodes.get(path), Some(Node::File(_))) {
            self.nodes.insert(path.to_owned(), Node::File(bytes));
            return;
        }
        let done = self.insert(path, Node::File(bytes));
        assert!(done.is_ok(), "{path}: {done:?}");
    }

    /// The same with a line of text.
    pub fn put_text(&mut self, path: &str, text: &str) {
        self.put(path, format!("{text}\n").into_bytes());
    }

    /// Files, links and names; directories do not count.
    #[must_use]
    pub fn entries(&self) -> usize {
        self.nodes.values().filter(|node| **node != Node::Directory).count()
    }

    /// Takes over all of another; what is in both stays as it is here.
    pub fn absorb(&mut self, other: &Record) {
        for (path, node) in &other.nodes {
            if !self.nodes.contains_key(path) {
                // What contradicts the tree here is left out.
                let _ = self.insert(path, node.clone());
            }
        }
    }

    /// Writes it.
    #[must_use]
    pub fn to_text(&self) -> String {
        let mut out = format!("{MAGIC}\n");
        let mut entries = 0;
        // Everything of a directory stands together, though paths of its subdirectories sort between.
        let mut directories: BTreeMap<&str, Vec<(&str, &Node)>> = BTreeMap::new();
        for (path, node) in &self.nodes {
            if *node == Node::Directory {
                directories.entry(path).or_default();
            } else {
                let (directory, name) = split(path);
                directories.entry(directory).or_default().push((name, node));
            }
        }
        for (directory, own) in directories {
            let has_more = self.children.get(directory).is_some_and(|names| !names.is_empty());
            if own.is_empty() && (directory == "/" || has_more) {
                continue;
            }
            let _ = writeln!(out, "{}", escaped(directory, |byte| byte == b'/' || is_name_byte(byte)));
            for (name, node) in own {
                entries += 1;
                let name = escaped(name, is_name_byte);
                let _ = match node {
                    Node::Directory => Ok(()),
                    Node::Link(target) => {
                        writeln!(out, "{name} > {}", escaped(target, |b| b == b'/' || is_name_byte(b)))
                    }
                    Node::Failed(why) => {
                        let word = Unread::WORDS
                            .iter()
                            .find(|(one, _)| one == why)
                            .map_or("failed", |(_, word)| word);
                        writeln!(out, "{name} ! {word}")
                    }
                    Node::Unasked => writeln!(out, "{name} ?"),
                    Node::File(bytes) => match text_of(bytes) {
                        Some(text) => writeln!(out, "{name} = {text}"),
                        None => {
                            let digits: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
                            writeln!(out, "{name} : {digits}")
                        }
                    },
                };
            }
        }
        let _ = writeln!(out, "end {entries}");
        out
    }
}

/// The bytes of a file as escaped text, if they are mostly text and end with one line feed.
fn text_of(bytes: &[u8]) -> Option<String> {
    let text = str::from_utf8(bytes.strip_suffix(b"\n")?).ok()?;
    let is_odd = |byte: &u8| !is_text_byte(*byte) && *byte != b'\n';
    (!text.bytes().any(|byte| is_odd(&byte) && byte < b' ')).then(|| {
        let mut text = escaped(text, is_text_byte);
        // A blank at the end is easily lost.
        let blanks = text.len() - text.trim_end_matches(' ').len();
        text.truncate(text.len() - blanks);
        text.push_str(&"%20".repeat(blanks));
        text
    })
}

/// A line below a directory.
fn entry(text: &str) -> Result<(String, Node), &'static str> {
    let (name, rest) = text.split_once(' ').ok_or("a name and what it is are expected")?;
    let name = unescaped_text(name).ok_or("the name is no text")?;
    if name.contains('/') {
        return Err("a name has no '/'");
    }
    let (kind, value) = rest.split_once(' ').unwrap_or((rest, ""));
    let node = match kind {
        "=" => {
            let mut bytes = unescaped(value).ok_or("'%' stands before two hexadecimal digits")?;
            bytes.push(b'\n');
            Node::File(bytes)
        }
        ":" => Node::File(hex(value).ok_or("bytes are pairs of hexadecimal digits")?),
        ">" => Node::Link(
            unescaped_text(value).filter(|target| !target.is_empty()).ok_or("a link leads somewhere")?,
        ),
        "!" => {
            let why = Unread::WORDS.iter().find(|(_, word)| *word == value);
            Node::Failed(why.ok_or("the reason is not known")?.0)
        }
        "?" => Node::Unasked,
        _ => return Err("'=', ':', '>', '!' or '?' is expected behind the name"),
    };
    Ok((name, node))
}

impl Tree for Record {
    fn read(&self, path: &str) -> Result<Vec<u8>, Unread> {
        match self.nodes.get(path) {
            Some(Node::File(bytes)) if bytes.len() > READ_MAX => Err(Unread::TooLarge),
            Some(Node::File(bytes)) => Ok(bytes.clone()),
            Some(Node::Failed(why)) => Err(*why),
            // It was not asked for when the record was made: as good as not there.
            Some(Node::Unasked) | None => Err(Unread::Missing),
            Some(Node::Directory | Node::Link(_)) => Err(Unread::NotFile),
        }
    }

    fn list(&self, path: &str) -> Result<Vec<String>, Unread> {
        match self.nodes.get(path) {
            Some(Node::Directory) => {
                let names = self.children.get(path).into_iter().flatten();
                Ok(names.take(NAMES_MAX + 1).cloned().collect())
            }
            Some(Node::Failed(why)) => Err(*why),
            Some(Node::Unasked) | None => Err(Unread::Missing),
            Some(_) => Err(Unread::NotFile),
        }
    }

    fn link(&self, path: &str) -> Result<Option<String>, Unread> {
        match self.nodes.get(path) {
            _ if path == "/" => Ok(None),
            Some(Node::Link(target)) => Ok(Some(target.clone())),
            Some(_) => Ok(None),
            None => Err(Unread::Missing),
        }
    }
}

/// Keeps all that is asked of a tree.
pub struct Recorder<'a> {
    tree: &'a dyn Tree,
    record: RefCell<Record>,
}

impl<'a> Recorder<'a> {
    /// A recorder of what is asked of `tree`.
    pub fn new(tree: &'a dyn Tree) -> Recorder<'a> {
        Recorder { tree, record: RefCell::default() }
    }

    /// All that was asked, and what came.
    #[must_use]
    pub fn into_record(self) -> Record {
        self.record.into_inner()
    }

    fn keep(&self, path: &str, node: Node) {
        let mut record = self.record.borrow_mut();
        if record.nodes.len() < ENTRIES_MAX {
            // What contradicts what is there is left out: the machine has changed in between.
            let _ = record.insert(path, node);
        }
    }
}

impl Tree for Recorder<'_> {
    fn read(&self, path: &str) -> Result<Vec<u8>, Unread> {
        let read = self.tree.read(path);
        match &read {
            Ok(bytes) => self.keep(path, Node::File(bytes.clone())),
            Err(Unread::Missing) => {}
            Err(why) => self.keep(path, Node::Failed(*why)),
        }
        read
    }

    fn list(&self, path: &str) -> Result<Vec<String>, Unread> {
        let listed = self.tree.list(path);
        match &listed {
            Ok(names) => {
                self.keep(path, Node::Directory);
                let base = if path == "/" { "" } else { path };
                names.iter().for_each(|name| self.keep(&format!("{base}/{name}"), Node::Unasked));
            }
            Err(Unread::Missing) => {}
            Err(why) => self.keep(path, Node::Failed(*why)),
        }
        listed
    }

    fn link(&self, path: &str) -> Result<Option<String>, Unread> {
        let link = self.tree.link(path);
        match &link {
            Ok(Some(target)) => self.keep(path, Node::Link(target.clone())),
            // A file or a directory: the next question says which.
            Ok(None) => self.keep(path, Node::Unasked),
            Err(_) => {}
        }
        link
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Reader;
    use proptest::prelude::*;

    const SMALL: &str = "kist-machine 1\n# a comment\n\n/sys/block/sda\nsize = 7814037168\n\
        model = a%25b  c%20\nempty =\nvpd : 00800008\ndevice > ../../devices/7:0:3:0\nlocked ! denied\n\
        holders ?\n/sys/class/a%20slot\nend 7\n";

    #[test]
    fn a_record_is_read_written_and_read_again() {
        let record = Record::parse(SMALL.as_bytes()).unwrap();
        assert_eq!(record.read("/sys/block/sda/model"), Ok(b"a%b  c \n".to_vec()));
        assert_eq!(record.read("/sys/block/sda/empty"), Ok(b"\n".to_vec()));
        assert_eq!(record.read("/sys/block/sda/vpd"), Ok(vec![0, 0x80, 0, 8]));
        assert_eq!(record.read("/sys/block/sda/locked"), Err(Unread::Denied));
        assert_eq!(record.read("/sys/block/sda/holders"), Err(Unread::Missing));
        assert_eq!(record.list("/sys"), Ok(vec!["block".into(), "class".into()]));
        assert_eq!(record.list("/sys/class/a slot"), Ok(vec![]));
        assert_eq!(record.link("/sys/block/sda/device"), Ok(Some("../../devices/7:0:3:0".into())));
        let text = record.to_text();
        assert_eq!(Record::parse(text.as_bytes()), Ok(record), "{text}");
        assert!(text.contains("\nmodel = a%25b  c%20\n"), "{text}");
    }

    #[test]
    fn names_that_look_like_something_else_come_back() {
        let mut record = Record::default();
        for name in ["#", "end", "a = b", "%41", "> x"] {
            record.put_text(&format!("/sys/{name}"), name);
        }
        assert_eq!(Record::parse(record.to_text().as_bytes()), Ok(record));
    }

    #[test]
    fn lines_that_windows_has_ended_are_the_same() {
        let record = Record::parse(SMALL.replace('\n', "\r\n").as_bytes()).unwrap();
        assert_eq!(record, Record::parse(SMALL.as_bytes()).unwrap());
    }

    #[test]
    fn what_is_wrong_is_refused_with_its_line() {
        let of = |text: &str| Record::parse(text.as_bytes()).unwrap_err().to_string();
        for (text, words) in [
            ("", "no recorded machine"),
            ("kist-machine 2\n", "reads 'kist-machine 1'"),
            ("kist-machine 1\n", "its end is missing: 0 entries"),
            ("kist-machine 1\n/a\nb = c\n", "its end is missing: 1 entries"),
            ("kist-machine 1\n/a\nb = c\nend 2\n", "line 4: the end counts 2 entries, 1 are there"),
            ("kist-machine 1\nb = c\n", "line 2: a name stands before"),
            ("kist-machine 1\n/a/../b\n", "line 2: a directory is"),
            ("kist-machine 1\n/a\n.. = c\n", "line 3: a name is no plain name"),
            ("kist-machine 1\n/a\nb%2Fc = c\n", "line 3: a name has no '/'"),
            ("kist-machine 1\n/a\nb = %4\n", "line 3: '%' stands before"),
            ("kist-machine 1\n/a\nb : 0\n", "line 3: bytes are pairs"),
            ("kist-machine 1\n/a\nb ~ 0\n", "line 3: '='"),
            ("kist-machine 1\n/a\nb ! why\n", "line 3: the reason is not known"),
            ("kist-machine 1\n/a\nb = 1\nb = 1\n", "line 4: there is something"),
            ("kist-machine 1\n/a\nb = 1\n/a/b/c\n", "line 4: it is below something"),
        ] {
            assert!(of(text).contains(words), "{text:?}: {}", of(text));
        }
        assert_eq!(Record::parse(&[0xff; 40]), Err(RecordError::NotRecord));
        assert_eq!(Record::parse(&vec![b'\n'; RECORD_MAX + 1]), Err(RecordError::TooLarge));
    }

    /// What a reader asked of one tree, it gets from the recorded one.
    #[test]
    fn a_recorder_keeps_what_was_asked() {
        let text = "kist-machine 1\n/sys/class\nsda > ../devices/7:0:3:0/block/sda\n\
            /sys/devices/7:0:3:0/block/sda\nsize = 5\nro = 0\nsecret ! denied\nend 4\n";
        let tree = Record::parse(text.as_bytes()).unwrap();
        let recorder = Recorder::new(&tree);
        let ask = |tree: &dyn Tree| {
            let reader = Reader::new(tree);
            let names = reader.names("/sys/class/sda");
            let size = reader.number("/sys/class/sda/size");
            (names, size, reader.text("/sys/class/sda/secret"), reader.into_problems().0)
        };
        let first = ask(&recorder);
        assert_eq!((first.0.len(), first.1), (3, Some(5)));
        let record = recorder.into_record();
        let again = Record::parse(record.to_text().as_bytes()).unwrap();
        assert_eq!(ask(&again), first);
        assert_eq!(again.read("/sys/devices/7:0:3:0/block/sda/ro"), Err(Unread::Missing), "nobody asked");
    }

    proptest! {
        #[test]
        fn nothing_panics(bytes in prop::collection::vec(any::<u8>(), 0..200), cut in 0..SMALL.len()) {
            let _ = Record::parse(&bytes);
            let mut near = SMALL.as_bytes().to_vec();
            near.splice(cut..cut, bytes.iter().take(3).copied());
            if let Ok(record) = Record::parse(&near) {
                prop_assert_eq!(Record::parse(record.to_text().as_bytes()), Ok(record));
            }
        }

        #[test]
        fn any_contents_come_back(bytes in prop::collection::vec(any::<u8>(), 0..40), name in "[ -~]{1,12}") {
            prop_assume!(!name.contains('/') && !matches!(name.as_str(), "." | ".."));
            let mut record = Record::default();
            record.put(&format!("/sys/{name}"), bytes.clone());
            let again = Record::parse(record.to_text().as_bytes()).unwrap();
            prop_assert_eq!(again.read(&format!("/sys/{name}")), Ok(bytes));
        }
    }
}
