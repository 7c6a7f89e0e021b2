//! The walk against a sorted set of keys and S3's rules as they are written.

use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet};

use base::{DirId, Name};
use catalogue::ReadError;
use proptest::prelude::*;

use super::{Child, KeySource, Line, Lines, Start};

/// A tree of names in memory, which counts what is asked of it.
#[derive(Default)]
struct Tree {
    names: BTreeMap<(DirId, String), Child<()>>,
    keys: BTreeSet<DirId>,
    next: u64,
    looks: Cell<usize>,
}

impl Tree {
    fn of<'k>(keys: impl IntoIterator<Item = &'k String>) -> Tree {
        let mut tree = Tree { next: 100, ..Tree::default() };
        keys.into_iter().for_each(|key| tree.put(key));
        tree
    }

    fn put(&mut self, key: &str) {
        let mut at = DirId::ROOT;
        let mut rest = key;
        while let Some((name, below)) = rest.split_once('/') {
            let next = DirId(self.next);
            let child = self.names.entry((at, name.to_owned())).or_insert(Child::Directory(next));
            let Child::Directory(directory) = *child else { return };
            self.next += 1;
            (at, rest) = (directory, below);
        }
        if rest.is_empty() {
            self.keys.insert(at);
        } else {
            self.names.entry((at, rest.to_owned())).or_insert(Child::Leaf(()));
        }
    }
}

impl KeySource for Tree {
    type Leaf = ();

    fn children(
        &self,
        directory: DirId,
        from: &[u8],
        limit: usize,
    ) -> Result<Vec<(Name, Child<()>)>, ReadError> {
        let range =
            self.names.range((directory, String::new())..).take_while(|((at, _), _)| *at == directory);
        let names = range.filter(|((_, name), _)| name.as_bytes() >= from).take(limit);
        let names: Vec<_> = names.filter_map(|((_, n), child)| Some((Name::new(n).ok()?, *child))).collect();
        self.looks.set(self.looks.get() + names.len() + 1);
        Ok(names)
    }

    fn directory(&self, parent: DirId, name: &str) -> Result<Option<DirId>, ReadError> {
        self.looks.set(self.looks.get() + 1);
        Ok(match self.names.get(&(parent, name.to_owned())) {
            Some(Child::Directory(directory)) => Some(*directory),
            _ => None,
        })
    }

    fn is_key(&self, directory: DirId) -> Result<bool, ReadError> {
        Ok(self.keys.contains(&directory))
    }
}

/// A page as a client sees it, and behind what the next one begins.
type Page = (Vec<String>, Option<String>);

fn page(tree: &Tree, prefix: &str, delimiter: Option<&str>, after: &str, limit: usize) -> Page {
    let mut lines =
        Lines::new(tree, DirId::ROOT, (prefix, delimiter), Start::Behind(after), 3).expect("in memory");
    let mut out = Vec::new();
    loop {
        let line = match lines.next().expect("in memory") {
            Line::End => return (out, None),
            Line::Pause(at) => return (out, Some(at)),
            Line::Prefix(line) => format!("{line} ..."),
            Line::Leaf(line, ()) | Line::Directory(line, _) => line,
        };
        out.push(line);
        if out.len() == limit {
            let last = out.last().map(|line| line.trim_end_matches(" ...").to_owned());
            return (out, last);
        }
    }
}

/// S3's rules: filter the keys, roll up what has the delimiter, each line once.
fn naive(keys: &BTreeSet<String>, prefix: &str, delimiter: Option<&str>, after: &str) -> Vec<String> {
    let rolled = |key: &str| {
        let delimiter = delimiter.filter(|delimiter| !delimiter.is_empty())?;
        let at = key.strip_prefix(prefix)?.find(delimiter)?;
        Some(key[..prefix.len() + at + delimiter.len()].to_owned())
    };
    let mut lines = Vec::new();
    for key in keys.iter().filter(|key| key.starts_with(prefix) && key.as_str() > after) {
        let line = match rolled(key) {
            Some(roll) if roll == after => continue,
            Some(roll) => format!("{roll} ..."),
            None => key.clone(),
        };
        if lines.last() != Some(&line) {
            lines.push(line);
        }
    }
    lines
}

fn all_pages(tree: &Tree, prefix: &str, delimiter: Option<&str>, after: &str, limit: usize) -> Vec<String> {
    let mut lines = Vec::new();
    let mut at = Some(after.to_owned());
    while let Some(after) = at {
        let (page, next) = page(tree, prefix, delimiter, &after, limit);
        lines.extend(page);
        assert!(lines.len() < 1_000 && Some(&after) != next.as_ref(), "it goes round: {after:?}");
        at = next;
    }
    lines
}

/// Components of characters on both sides of the slash, often prefixes of one another.
fn component() -> impl Strategy<Value = String> {
    proptest::string::string_regex("[a!/é-][a!0.-]{0,3}").expect("a pattern").prop_map(|name| {
        let name = name.replace('/', "a");
        if name.chars().all(|c| c == '.') { "b".to_owned() } else { name }
    })
}

fn key() -> impl Strategy<Value = String> {
    (prop::collection::vec(component(), 1..4), prop::bool::weighted(0.1))
        .prop_map(|(parts, slash)| parts.join("/") + if slash { "/" } else { "" })
}

/// Keys of which none is file and directory at once.
fn keys() -> impl Strategy<Value = BTreeSet<String>> {
    prop::collection::btree_set(key(), 0..40).prop_map(|keys| {
        let is_above = |key: &String| {
            let below = format!("{key}/");
            keys.range(below.clone()..).next().is_some_and(|next| next.starts_with(&below))
        };
        keys.iter().filter(|key| !is_above(key)).cloned().collect()
    })
}

/// A piece of some key, or something made up.
fn piece(keys: &BTreeSet<String>, pick: &(prop::sample::Index, usize, String)) -> String {
    let (index, cut, tail) = pick;
    let key =
        if keys.is_empty() { String::new() } else { (*index.get(&keys.iter().collect::<Vec<_>>())).clone() };
    let cut = key.char_indices().map(|(at, _)| at).chain([key.len()]).nth(*cut).unwrap_or(key.len());
    format!("{}{tail}", &key[..cut])
}

fn pick(tail: &'static str) -> impl Strategy<Value = (prop::sample::Index, usize, String)> {
    (any::<prop::sample::Index>(), 0usize..14, tail)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(3000))]
    #[test]
    fn listings_are_as_s3_says(
        keys in keys(),
        empty in prop::collection::vec(component(), 0..6),
        prefix in pick("[/a-]{0,1}"),
        after in pick("[/a!é-]{0,2}"),
        delimiter in prop::option::of(prop::sample::select(vec!["/", "-", "a", "/a", "a/", "é", ""])),
        limit in 1usize..8,
    ) {
        let mut tree = Tree::of(&keys);
        for name in empty {
            let directory = DirId(tree.next);
            tree.next += 1;
            tree.names.entry((DirId::ROOT, name)).or_insert(Child::Directory(directory));
        }
        let prefix = piece(&keys, &prefix);
        let after = piece(&keys, &after);
        for (prefix, after) in [("", ""), (&prefix, ""), ("", &after), (&prefix, &after)] {
            let expected = naive(&keys, prefix, delimiter, after);
            let found = all_pages(&tree, prefix, delimiter, after, limit);
            prop_assert_eq!(found, expected, "{:?} {:?} {:?}", prefix, delimiter, after);
        }
    }
}

#[test]
fn directories_stand_where_their_slash_does() {
    let keys = ["a-b", "a.txt", "a/", "a/x", "a0", "a--/y", "a-/z"].map(str::to_owned);
    let sorted: BTreeSet<String> = keys.iter().cloned().collect();
    let tree = Tree::of(&keys);
    assert_eq!(all_pages(&tree, "", None, "", 2), sorted.iter().cloned().collect::<Vec<_>>());
    let rolled = ["a--/ ...", "a-/ ...", "a-b", "a.txt", "a/ ...", "a0"];
    assert_eq!(all_pages(&tree, "", Some("/"), "", 1), rolled);
}

#[test]
fn seeking_looks_at_little() {
    let keys: Vec<String> = (0..20_000).map(|n| format!("d{:02}/e{:02}/f{n:05}", n % 10, n % 7)).collect();
    let tree = Tree::of(&keys);
    tree.looks.set(0);
    let (lines, _) = page(&tree, "d05/", None, "d05/e03/f10005", 3);
    assert_eq!(lines.len(), 3);
    assert!(tree.looks.get() < 100, "{} look-ups for a page of three", tree.looks.get());
    tree.looks.set(0);
    let rolled = all_pages(&tree, "", Some("/"), "", 1000);
    assert_eq!(rolled.len(), 10);
    assert!(tree.looks.get() < 600, "{} look-ups for ten prefixes", tree.looks.get());
}
