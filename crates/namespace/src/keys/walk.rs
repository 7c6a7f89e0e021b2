//! A tree in the order of bytes of whole keys.
//!
//! The catalogue has the names of a directory in their own order; in the order of keys a directory `a`
//! stands where `a/` does, so `a-b` and `a.txt` come before what is below it. A directory is therefore set
//! aside when its name comes by, until the next name is behind `a/`. Those set aside begin with one another
//! (`a`, `a-`, `a--`), hence they are a stack of at most 255.

use std::collections::VecDeque;

use base::{DirId, Name};
use catalogue::ReadError;

/// Names read at once after a jump ...
const FEW: usize = 16;
/// ... and when many are wanted one after the other.
const MANY: usize = 1024;

/// What stands at a name.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Child<L> {
    /// Something with a key of its own.
    Leaf(L),
    /// What has the key in front of others.
    Directory(DirId),
}

/// Names of a directory and what they stand for.
pub(crate) type Children<L> = Result<Vec<(Name, Child<L>)>, ReadError>;

/// Where a walk gets its names.
pub(crate) trait KeySource {
    /// What is known of a key from its name alone.
    type Leaf;

    /// Names of a directory in the order of their bytes from `from` (included, any bytes) on, about `limit`
    /// of them. A name may be leaf and directory, the leaf first; it is given whole or not at all.
    fn children(&self, directory: DirId, from: &[u8], limit: usize) -> Children<Self::Leaf>;

    /// The directory of that name, if it is one.
    fn directory(&self, parent: DirId, name: &str) -> Result<Option<DirId>, ReadError>;

    /// Whether a directory is a key itself, with a slash at its end.
    fn is_key(&self, directory: DirId) -> Result<bool, ReadError>;
}

/// The next thing of a walk.
#[derive(PartialEq, Eq, Debug)]
pub(crate) enum Found<L> {
    /// A key.
    Leaf(String, L),
    /// A directory that is a key; it ends in a slash.
    Directory(String, DirId),
    /// A name that is no key has gone by: all that comes is behind this.
    Passed(String),
    /// There is nothing more.
    End,
}

/// A walk below a directory, through keys that begin with a prefix.
pub(crate) struct Walk<'s, S: KeySource> {
    source: &'s S,
    prefix: String,
    frames: Vec<Frame<S::Leaf>>,
    /// Names read so far.
    pub(crate) rows: usize,
}

struct Frame<L> {
    directory: DirId,
    /// What all keys below it begin with: empty, or up to a slash.
    key: String,
    /// Whether the directory's own key is still to come.
    own: bool,
    /// Directories that come when their slash is reached, the first of them last.
    aside: Vec<(Name, DirId)>,
    names: VecDeque<(Name, Child<L>)>,
    /// Where to read on; `None`: there are no more names.
    from: Option<Vec<u8>>,
    batch: usize,
}

impl<L> Frame<L> {
    fn new(directory: DirId, key: String, own: bool) -> Self {
        Frame {
            directory,
            key,
            own,
            aside: Vec::new(),
            names: VecDeque::new(),
            from: Some(Vec::new()),
            batch: FEW,
        }
    }

    /// Whether the directory set aside last comes before the name read first.
    fn is_due(&self) -> bool {
        match (self.aside.last(), self.names.front()) {
            (Some((aside, _)), Some((name, _))) => !is_before(name, aside),
            (Some(_), None) => true,
            (None, _) => false,
        }
    }
}

/// Whether a name comes before what is below a directory.
fn is_before(name: &Name, directory: &Name) -> bool {
    name.as_str().bytes().lt(directory.as_str().bytes().chain([b'/']))
}

fn slashed(name: &Name) -> Vec<u8> {
    format!("{name}/").into_bytes()
}

impl<'s, S: KeySource> Walk<'s, S> {
    /// A walk through the keys below `root` that begin with `prefix`, from `from` (included) on.
    pub(crate) fn new(source: &'s S, root: DirId, prefix: &str, from: &[u8]) -> Result<Self, ReadError> {
        let frames = vec![Frame::new(root, String::new(), false)];
        let mut walk = Walk { source, prefix: prefix.to_owned(), frames, rows: 0 };
        walk.seek(from.max(prefix.as_bytes()))?;
        Ok(walk)
    }

    /// Goes forward to the first key not before `from`: a look-up a component and set-aside name.
    pub(crate) fn seek(&mut self, from: &[u8]) -> Result<(), ReadError> {
        while let Some(frame) = self.frames.last_mut() {
            if from <= frame.key.as_bytes() {
                return Ok(());
            }
            let Some(rest) = from.strip_prefix(frame.key.as_bytes()) else {
                self.frames.pop();
                continue;
            };
            frame.own = false;
            self.rows += 1;
            let is_there = skip_read(frame, rest);
            if !is_there {
                self.rows += start_at(self.source, frame, rest)?;
            }
            let Some((name, directory)) = frame.aside.pop_if(|(name, _)| rest.starts_with(&slashed(name)))
            else {
                return Ok(());
            };
            let key = format!("{}{name}/", frame.key);
            let own = self.source.is_key(directory)?;
            self.frames.push(Frame::new(directory, key, own));
        }
        Ok(())
    }

    /// The next key, or a sign of progress.
    pub(crate) fn next(&mut self) -> Result<Found<S::Leaf>, ReadError> {
        while let Some(frame) = self.frames.last_mut() {
            if std::mem::take(&mut frame.own) && frame.key.starts_with(&self.prefix) {
                return Ok(Found::Directory(frame.key.clone(), frame.directory));
            }
            if frame.names.is_empty() {
                self.rows += fill(self.source, frame)?;
            }
            if frame.is_due() {
                let Some((name, directory)) = frame.aside.pop() else { continue };
                let key = format!("{}{name}/", frame.key);
                if !key.starts_with(&self.prefix) && !self.prefix.starts_with(&key) {
                    break;
                }
                self.rows += 1;
                let own = self.source.is_key(directory)?;
                self.frames.push(Frame::new(directory, key, own));
                continue;
            }
            let Some((name, child)) = frame.names.pop_front() else {
                self.frames.pop();
                continue;
            };
            let key = format!("{}{name}", frame.key);
            match child {
                Child::Leaf(_) if !key.starts_with(&self.prefix) => break,
                Child::Leaf(leaf) => return Ok(Found::Leaf(key, leaf)),
                Child::Directory(_) if !key.starts_with(&self.prefix) && !self.prefix.starts_with(&key) => {
                    break;
                }
                Child::Directory(directory) => {
                    frame.aside.push((name, directory));
                    return Ok(Found::Passed(key));
                }
            }
        }
        self.frames.clear();
        Ok(Found::End)
    }
}

/// Goes forward among the names that were read; whether the place is among them, or they are all.
fn skip_read<L>(frame: &mut Frame<L>, from: &[u8]) -> bool {
    let is_over = |name: &Name| slashed(name).as_slice() < from && !from.starts_with(&slashed(name));
    while frame.names.front().is_some_and(|(name, _)| name.as_str().as_bytes() < from) {
        if let Some((name, Child::Directory(directory))) = frame.names.pop_front() {
            frame.aside.push((name, directory));
        }
    }
    frame.aside.retain(|(name, _)| !is_over(name));
    !frame.names.is_empty() || frame.from.is_none()
}

/// Reads a directory from a place on, with the directories that stand before it by their names and behind it
/// with their slash: those whose name the place begins with. Gives how many look-ups that were.
fn start_at<S: KeySource>(source: &S, frame: &mut Frame<S::Leaf>, from: &[u8]) -> Result<usize, ReadError> {
    frame.aside.clear();
    frame.names.clear();
    frame.batch = FEW;
    let mut looks = 0;
    for (length, byte) in from.iter().enumerate().take(base::NAME_BYTES_MAX + 1) {
        if *byte > b'/' {
            continue;
        }
        let name = from.get(..length).and_then(|name| std::str::from_utf8(name).ok());
        if let Some(name) = name.and_then(|name| Name::new(name).ok()) {
            looks += 1;
            if let Some(directory) = source.directory(frame.directory, name.as_str())? {
                frame.aside.push((name, directory));
            }
        }
        if *byte == b'/' {
            break;
        }
    }
    frame.from = Some(from.to_vec());
    Ok(looks)
}

fn fill<S: KeySource>(source: &S, frame: &mut Frame<S::Leaf>) -> Result<usize, ReadError> {
    let Some(from) = frame.from.take() else { return Ok(0) };
    let names = source.children(frame.directory, &from, frame.batch)?;
    if names.len() >= frame.batch
        && let Some((last, _)) = names.last()
    {
        frame.from = Some([last.as_str().as_bytes(), &[0]].concat());
    }
    frame.batch = (frame.batch * 4).min(MANY);
    let rows = names.len();
    frame.names.extend(names);
    Ok(rows)
}
