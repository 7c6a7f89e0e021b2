//! Reading of a tree whose contents may be anything.

use std::cell::RefCell;
use std::collections::BTreeMap;

use crate::machine::Problem;
use crate::order::by_number;
use crate::tree::{NAMES_MAX, PATH_MAX, READ_MAX, Tree, Unread};

/// The most problems that are kept; the rest is counted.
pub const PROBLEMS_MAX: usize = 1_000;
/// The most links that one path may lead over, as in Linux (`MAXSYMLINKS`).
const LINKS_MAX: usize = 40;
/// The longest text that is taken for one: what people read, and what is one value in a file.
const TEXT_MAX: usize = 4_096;

/// Follows links, keeps where directories really are, and notes what could not be read.
pub struct Reader<'a> {
    tree: &'a dyn Tree,
    /// Where directories really are.
    directories: RefCell<BTreeMap<String, Result<String, Unread>>>,
    problems: RefCell<Vec<Problem>>,
    left_out: RefCell<usize>,
}

/// The parts of a path.
fn parts(path: &str) -> impl Iterator<Item = &str> {
    path.split('/').filter(|part| !part.is_empty() && *part != ".")
}

/// The directory that a path is in, and its name there.
pub(crate) fn split(path: &str) -> (&str, &str) {
    match path.trim_end_matches('/').rsplit_once('/') {
        Some(("", name)) => ("/", name),
        Some((directory, name)) => (directory, name),
        None => ("/", path),
    }
}

impl<'a> Reader<'a> {
    /// A reader of a tree.
    pub fn new(tree: &'a dyn Tree) -> Reader<'a> {
        Reader {
            tree,
            directories: RefCell::default(),
            problems: RefCell::default(),
            left_out: RefCell::default(),
        }
    }

    /// What could not be read, and how many more there were.
    #[must_use]
    pub fn into_problems(self) -> (Vec<Problem>, usize) {
        (self.problems.into_inner(), self.left_out.into_inner())
    }

    /// Notes what could not be read.
    pub fn problem(&self, path: &str, why: Unread) {
        let mut problems = self.problems.borrow_mut();
        if problems.len() < PROBLEMS_MAX {
            let path: String = path.chars().take(TEXT_MAX).collect();
            let problem = Problem { path, why };
            if !problems.contains(&problem) {
                problems.push(problem);
            }
        } else {
            *self.left_out.borrow_mut() += 1;
        }
    }

    /// Where something really is: no component of it is a link.
    ///
    /// # Errors
    /// If it is not there, or its links do not end or lead out of the tree.
    pub fn resolve(&self, path: &str) -> Result<String, Unread> {
        if let Some(known) = self.directories.borrow().get(path) {
            return known.clone();
        }
        let found = self.follow(path);
        self.directories.borrow_mut().insert(path.to_owned(), found.clone());
        found
    }

    fn follow(&self, path: &str) -> Result<String, Unread> {
        // What is still to be gone, its next component last.
        let mut rest: Vec<String> = parts(path).map(str::to_owned).collect();
        rest.reverse();
        let mut at = String::new();
        let mut links = 0;
        while let Some(part) = rest.pop() {
            if part == ".." {
                let Some((up, _)) = at.rsplit_once('/') else { return Err(Unread::Loop) };
                at.truncate(up.len());
                continue;
            }
            let next = format!("{at}/{part}");
            if next.len() > PATH_MAX {
                return Err(Unread::Loop);
            }
            let known = self.directories.borrow().get(&next).cloned();
            if let Some(known) = known {
                at = known?;
                continue;
            }
            match self.tree.link(&next)? {
                None => {
                    self.directories.borrow_mut().insert(next.clone(), Ok(next.clone()));
                    at = next;
                }
                Some(target) => {
                    links += 1;
                    if links > LINKS_MAX || target.len() > PATH_MAX {
                        return Err(Unread::Loop);
                    }
                    if target.starts_with('/') {
                        at.clear();
                    }
                    let from = rest.len();
                    rest.extend(parts(&target).map(str::to_owned));
                    if let Some(added) = rest.get_mut(from..) {
                        added.reverse();
                    }
                }
            }
        }
        Ok(if at.is_empty() { "/".to_owned() } else { at })
    }

    /// Whether something is there.
    #[must_use]
    pub fn is_there(&self, path: &str) -> bool {
        self.resolve(path).is_ok()
    }

    /// Where something really is; what is not there is no problem.
    #[must_use]
    pub fn place(&self, path: &str) -> Option<String> {
        match self.resolve(path) {
            Ok(place) => Some(place),
            Err(why) => {
                self.note(path, why);
                None
            }
        }
    }

    fn note(&self, path: &str, why: Unread) {
        // Files that are not there, and counters that a driver does not have, are how machines are.
        if !matches!(why, Unread::Missing | Unread::Refused) {
            self.problem(path, why);
        }
    }

    /// The bytes of a file; `None` if it is not there or cannot be read.
    #[must_use]
    pub fn bytes(&self, path: &str) -> Option<Vec<u8>> {
        let read = self.resolve(path).and_then(|place| self.tree.read(&place));
        match read {
            Ok(bytes) if bytes.len() > READ_MAX => {
                self.problem(path, Unread::TooLarge);
                None
            }
            Ok(bytes) => Some(bytes),
            Err(why) => {
                self.note(path, why);
                None
            }
        }
    }

    /// The text of a file without white space at its ends; `None` if it is empty, not there, or no text.
    #[must_use]
    pub fn text(&self, path: &str) -> Option<String> {
        let bytes = self.bytes(path)?;
        let text = std::str::from_utf8(&bytes).ok().map(str::trim);
        let is_text = |text: &&str| {
            text.len() <= TEXT_MAX && !text.chars().any(|c| c.is_control() && c != '\n' && c != '\t')
        };
        match text.filter(is_text) {
            Some("") => None,
            Some(text) => Some(text.to_owned()),
            None => {
                self.problem(path, Unread::Garbage);
                None
            }
        }
    }

    /// Why a device was not asked, or did not answer, in words: what stands in its directory of `/answers`.
    #[must_use]
    pub fn not_asked(&self, directory: &str) -> Option<String> {
        self.text(&format!("{directory}/silent")).or_else(|| self.text(&format!("{directory}/error")))
    }

    /// What `parse` makes of a file's text. Text that it refuses is a problem.
    pub fn parsed<T>(&self, path: &str, parse: impl FnOnce(&str) -> Option<T>) -> Option<T> {
        let text = self.text(path)?;
        let parsed = parse(&text);
        if parsed.is_none() {
            self.problem(path, Unread::Garbage);
        }
        parsed
    }

    /// The number in a file, in decimal digits or hexadecimal ones behind `0x`.
    #[must_use]
    pub fn number(&self, path: &str) -> Option<u64> {
        self.parsed(path, number)
    }

    /// The names in a directory, as people count them; none if it is not there.
    #[must_use]
    pub fn names(&self, path: &str) -> Vec<String> {
        let listed = self.resolve(path).and_then(|place| self.tree.list(&place));
        match listed {
            Ok(mut names) => {
                names.sort_by(|a, b| by_number(a, b));
                if names.len() > NAMES_MAX {
                    self.problem(path, Unread::TooLarge);
                    names.truncate(NAMES_MAX);
                }
                names
            }
            Err(why) => {
                self.note(path, why);
                Vec::new()
            }
        }
    }
}

/// A number as files have it.
#[must_use]
pub(crate) fn number(text: &str) -> Option<u64> {
    match text.strip_prefix("0x").or_else(|| text.strip_prefix("0X")) {
        Some(digits) => u64::from_str_radix(digits, 16).ok(),
        None => text.parse().ok(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Record;

    fn tree() -> Record {
        let text = "kist-machine 1\n\
            /sys/devices/a/b\nvalue = 0x1f\nword = none\nodd : 00ff\nlocked ! denied\nsilent ! refused\n\
            nowhere > ../../../../../../etc\n\
            /sys/class\nb > ../devices/a/b\nabsolute > /sys/devices/a\nself > self\nto > fro\n\
            fro > to\nup > ../..\n\
            end 12\n";
        Record::parse(text.as_bytes()).unwrap()
    }

    #[test]
    fn links_are_followed_within_the_tree() {
        let tree = tree();
        let reader = Reader::new(&tree);
        assert_eq!(reader.resolve("/sys/class/b"), Ok("/sys/devices/a/b".into()));
        assert_eq!(reader.resolve("/sys/class/absolute/b/value"), Ok("/sys/devices/a/b/value".into()));
        assert_eq!(reader.resolve("/sys/class/up/sys/class/b"), Ok("/sys/devices/a/b".into()));
        assert_eq!(reader.number("/sys/class/b/value"), Some(31));
        for (path, why) in [
            ("/sys/class/self", Unread::Loop),
            ("/sys/class/to/x", Unread::Loop),
            ("/sys/class/b/nowhere", Unread::Loop),
            ("/sys/class/none", Unread::Missing),
            ("/..", Unread::Loop),
        ] {
            assert_eq!(reader.resolve(path), Err(why), "{path}");
        }
    }

    #[test]
    fn what_cannot_be_read_is_told_once_and_what_is_not_there_is_not() {
        let tree = tree();
        let reader = Reader::new(&tree);
        for _ in 0..2 {
            assert_eq!(reader.number("/sys/devices/a/b/word"), None);
            assert_eq!(reader.text("/sys/devices/a/b/odd"), None);
            assert_eq!(reader.text("/sys/devices/a/b/locked"), None);
            assert_eq!(reader.text("/sys/devices/a/b/silent"), None);
            assert_eq!(reader.text("/sys/devices/a/b/missing"), None);
            assert_eq!(reader.text("/sys/devices/a/b"), None);
        }
        let (problems, more) = reader.into_problems();
        let whys: Vec<Unread> = problems.iter().map(|problem| problem.why).collect();
        assert_eq!(whys, [Unread::Garbage, Unread::Garbage, Unread::Denied, Unread::NotFile]);
        assert_eq!(more, 0);
    }

    #[test]
    fn so_many_problems_are_kept_and_the_rest_is_counted() {
        let tree = tree();
        let reader = Reader::new(&tree);
        for at in 0..PROBLEMS_MAX + 3 {
            reader.problem(&format!("/{at}"), Unread::Failed);
        }
        let (problems, more) = reader.into_problems();
        assert_eq!((problems.len(), more), (PROBLEMS_MAX, 3));
    }
}
