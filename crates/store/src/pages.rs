//! The pages of LMDB's file, read without LMDB: it trusts every page that it is given, and so must not be the
//! one that says whether they can be trusted. Format: version 1 of the 0.9 line, `docs/format/catalogue.md`.

use std::fs::File;
use std::io::ErrorKind;
use std::os::unix::fs::FileExt;

use crate::error::Damage;

const HEADER: usize = 16;
const NODE_HEADER: usize = 8;
const MAGIC: u32 = 0xBEEF_C0DE;
const VERSION: u32 = 1;
const META_BYTES: usize = HEADER + 24 + 2 * TREE_BYTES + 16;
pub(crate) const TREE_BYTES: usize = 48;
/// LMDB descends no deeper.
const DEPTH_MAX: u16 = 32;
/// The page number that stands for "no page".
const NO_PAGE: u64 = u64::MAX;

const BRANCH: u16 = 0x01;
const LEAF: u16 = 0x02;
const OVERFLOW: u16 = 0x04;
const META: u16 = 0x08;
/// A node's data lies on overflow pages.
const BIG: u16 = 0x01;
/// A node's data describes a tree.
pub(crate) const SUBTREE: u16 = 0x02;

/// What a tree may be of which LMDB reads keys and values otherwise: several values a key, or keys in another
/// order. None of ours is, but the free list, whose keys are numbers.
const TREE_KINDS: u16 = 0x7f;
const NUMBER_KEYS: u16 = 0x08;

fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_le_bytes(bytes.get(at..at + 2)?.try_into().ok()?))
}

fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_le_bytes(bytes.get(at..at + 4)?.try_into().ok()?))
}

fn u64_at(bytes: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_le_bytes(bytes.get(at..at + 8)?.try_into().ok()?))
}

/// What a meta page or the node of a named table says about a tree of pages.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Tree {
    /// Only the free list's: the size of a page.
    pad: u32,
    flags: u16,
    depth: u16,
    entries: u64,
    root: u64,
}

impl Tree {
    pub(crate) fn of(bytes: &[u8]) -> Option<Tree> {
        Some(Tree {
            pad: u32_at(bytes, 0)?,
            flags: u16_at(bytes, 4)?,
            depth: u16_at(bytes, 6)?,
            entries: u64_at(bytes, 32)?,
            root: u64_at(bytes, 40)?,
        })
    }

    /// Whether LMDB reads it as we do: with a flag that is not its own it looks for values where there are
    /// none, and may never end.
    fn is_of_kind(&self, kind: u16) -> bool {
        self.flags & TREE_KINDS == kind
    }

    /// Whether it is one of those that Kist makes: a value for each key, keys in the order of their bytes.
    pub(crate) fn is_plain(&self) -> bool {
        self.is_of_kind(0)
    }
}

/// A meta page: the roots of one commit.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Meta {
    pub(crate) free: Tree,
    pub(crate) main: Tree,
    /// The number of the last page that any commit has used.
    pub(crate) last_page: u64,
    /// The number of the commit.
    pub(crate) commit: u64,
}

impl Meta {
    fn of(page: &[u8], number: u64) -> Option<Meta> {
        let of_this = u64_at(page, 0)? == number && u16_at(page, 10)? == META;
        let known = u32_at(page, HEADER)? == MAGIC && u32_at(page, HEADER + 4)? == VERSION;
        let trees = HEADER + 24;
        let meta = Meta {
            free: Tree::of(page.get(trees..)?)?,
            main: Tree::of(page.get(trees + TREE_BYTES..)?)?,
            last_page: u64_at(page, trees + 2 * TREE_BYTES)?,
            commit: u64_at(page, trees + 2 * TREE_BYTES + 8)?,
        };
        let are_ours = meta.free.is_of_kind(NUMBER_KEYS) && meta.main.is_plain();
        (of_this && known && are_ours && meta.last_page >= 1).then_some(meta)
    }
}

/// How the keys of a tree are ordered.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Order {
    Bytes,
    /// Eight bytes in the machine's order.
    Number,
}

impl Order {
    fn is_before(self, a: &[u8], b: &[u8]) -> bool {
        match self {
            Order::Bytes => a < b,
            Order::Number => u64_at(a, 0) < u64_at(b, 0),
        }
    }
}

/// Called for each row: its flags, key and value.
type Row<'a> = dyn FnMut(u16, &[u8], &[u8]) -> Result<(), Damage> + 'a;

/// The file, and which of its pages were met.
pub(crate) struct Pages {
    file: File,
    page_size: usize,
    pub(crate) meta: Meta,
    met: Vec<u64>,
}

/// What a walk through a tree has counted.
#[derive(Default)]
struct Walk {
    entries: u64,
    last: Option<Vec<u8>>,
}

impl Pages {
    /// Reads both meta pages; the newer commit is the one that counts.
    pub(crate) fn open(file: File) -> Result<Pages, Damage> {
        let mut first = [0; META_BYTES];
        let no_meta = |page| Damage::Page { page, what: "it is no meta page" };
        file.read_exact_at(&mut first, 0).map_err(|_| no_meta(0))?;
        let meta = Meta::of(&first, 0).ok_or_else(|| no_meta(0))?;
        let page_size = usize::try_from(meta.free.pad).unwrap_or(0);
        if !(512..=65_536).contains(&page_size) || !page_size.is_power_of_two() {
            return Err(Damage::Page { page: 0, what: "it gives a size of pages that cannot be" });
        }
        let mut second = [0; META_BYTES];
        file.read_exact_at(&mut second, page_size as u64).map_err(|_| no_meta(1))?;
        let other = Meta::of(&second, 1).filter(|other| other.free.pad == meta.free.pad);
        let other = other.ok_or_else(|| no_meta(1))?;
        // Commits write to the two in turn.
        let (even, odd) = (meta.commit, other.commit);
        if even != odd && (even % 2 != 0 || odd % 2 != 1 || even.abs_diff(odd) != 1) {
            return Err(Damage::Page {
                page: 0,
                what: "the commits of both meta pages do not follow each other",
            });
        }
        let meta = if odd > even { other } else { meta };
        let words = usize::try_from(meta.last_page / 64 + 1).ok();
        let in_file = file.metadata()?.len() / page_size as u64;
        // The free list may name pages behind the end of the file, but not more than one commit can free.
        let words = words.filter(|_| meta.last_page <= in_file.saturating_mul(2) + (1 << 20));
        let words = words.ok_or(Damage::Page { page: 0, what: "it gives more pages than the file has" })?;
        let mut pages = Pages { file, page_size, meta, met: vec![0; words] };
        assert!(pages.met.len() as u64 > meta.last_page / 64, "each page up to the last one has its bit");
        pages.meet(0)?;
        pages.meet(1)?;
        Ok(pages)
    }

    /// Each page is met once: in one tree, or in the free list.
    fn meet(&mut self, page: u64) -> Result<(), Damage> {
        if page > self.meta.last_page {
            return Err(Damage::Page { page, what: "it is named and lies behind the last one" });
        }
        let (word, bit) = ((page / 64) as usize, 1 << (page % 64));
        if self.met[word] & bit != 0 {
            return Err(Damage::Page { page, what: "it is named twice" });
        }
        self.met[word] |= bit;
        Ok(())
    }

    fn read_at(&self, page: u64, offset: usize, into: &mut [u8]) -> Result<(), Damage> {
        assert!(page <= self.meta.last_page, "page {page} was met before it is read");
        assert!(offset < self.page_size, "a read begins in its page");
        let at = page * self.page_size as u64 + offset as u64;
        self.file.read_exact_at(into, at).map_err(|error| match error.kind() {
            ErrorKind::UnexpectedEof => Damage::Page { page, what: "it lies behind the end of the file" },
            _ => error.into(),
        })
    }

    fn read(&mut self, page: u64, into: &mut [u8]) -> Result<(), Damage> {
        self.meet(page)?;
        self.read_at(page, 0, into)?;
        if u64_at(into, 0) != Some(page) {
            return Err(Damage::Page { page, what: "it holds another page" });
        }
        Ok(())
    }

    /// Visits all rows of a tree in order. Every page must be where and what it is said to be, keys must
    /// ascend and be where a search looks for them, and there must be as many as the tree has counted.
    pub(crate) fn walk(&mut self, tree: &Tree, order: Order, row: &mut Row<'_>) -> Result<(), Damage> {
        let mut walk = Walk::default();
        if tree.root != NO_PAGE {
            if tree.depth > DEPTH_MAX {
                return Err(Damage::Page { page: tree.root, what: "the tree under it is too deep" });
            }
            self.visit(tree.root, tree.depth, (None, None), order, &mut walk, row)?;
        }
        if walk.entries == tree.entries {
            return Ok(());
        }
        Err(Damage::Page { page: tree.root, what: "the tree under it has more or fewer rows than it had" })
    }

    fn visit(
        &mut self,
        number: u64,
        depth: u16,
        within: (Option<&[u8]>, Option<&[u8]>),
        order: Order,
        walk: &mut Walk,
        row: &mut Row<'_>,
    ) -> Result<(), Damage> {
        let wrong = |what| Damage::Page { page: number, what };
        let mut page = vec![0; self.page_size];
        self.read(number, &mut page)?;
        let wanted = if depth > 1 { BRANCH } else { LEAF };
        if depth == 0 || u16_at(&page, 10) != Some(wanted) {
            return Err(wrong("it is not of the kind that stands at its place"));
        }
        let nodes = Nodes::of(&page).ok_or_else(|| wrong("its nodes do not fit"))?;
        if depth == 1 {
            for at in 0..nodes.count {
                let node = nodes.leaf(at).ok_or_else(|| wrong("a node does not fit"))?;
                let is_within = within.0.is_none_or(|low| !order.is_before(node.key, low))
                    && within.1.is_none_or(|high| order.is_before(node.key, high));
                if !is_within || walk.last.as_deref().is_some_and(|last| !order.is_before(last, node.key)) {
                    return Err(wrong("a key is not where a search looks for it"));
                }
                walk.entries += 1;
                let last = walk.last.get_or_insert_default();
                last.clear();
                last.extend_from_slice(node.key);
                match node.data {
                    Data::Here(value) => row(node.flags, node.key, value)?,
                    Data::Pages { first, length } => {
                        let value = self.overflow(first, length)?;
                        row(node.flags, node.key, &value)?;
                    }
                }
            }
            return Ok(());
        }
        for at in 0..nodes.count {
            let (key, child) = nodes.branch(at).ok_or_else(|| wrong("a node does not fit"))?;
            let next = nodes.branch(at + 1).map(|(key, _)| key);
            // The first key of a branch is never looked at.
            let low = if at == 0 { within.0 } else { Some(key) };
            self.visit(child, depth - 1, (low, next.or(within.1)), order, walk, row)?;
        }
        Ok(())
    }

    fn overflow(&mut self, first: u64, length: usize) -> Result<Vec<u8>, Damage> {
        let wrong = |what| Damage::Page { page: first, what };
        let mut head = [0; HEADER];
        self.read(first, &mut head)?;
        let pages = u32_at(&head, 12).map_or(0, u64::from);
        let needed = (HEADER + length).div_ceil(self.page_size) as u64;
        if u16_at(&head, 10) != Some(OVERFLOW) || pages < needed {
            return Err(wrong("it does not hold the long value that stands at its place"));
        }
        for page in first + 1..first + pages {
            self.meet(page)?;
        }
        assert!((HEADER + length) as u64 <= pages * self.page_size as u64, "a long value lies in its pages");
        let mut value = vec![0; length];
        self.read_at(first, HEADER, &mut value)?;
        Ok(value)
    }

    /// Walks the list of free pages: one that is in use and listed would be written over.
    pub(crate) fn walk_free(&mut self) -> Result<(), Damage> {
        let mut free = Vec::new();
        let (tree, last_commit) = (self.meta.free, self.meta.commit);
        self.walk(&tree, Order::Number, &mut |_, key, value| {
            let wrong = |what| Damage::Page { page: tree.root, what };
            let count = u64_at(value, 0).and_then(|count| usize::try_from(count).ok());
            let listed = count.and_then(|count| value.get(8..count.checked_add(1)?.checked_mul(8)?));
            let listed = listed.ok_or_else(|| wrong("the free list is malformed"))?;
            if key.len() != 8 || u64_at(key, 0).is_none_or(|commit| commit > last_commit) {
                return Err(wrong("the free list names a commit that never was"));
            }
            free.extend(listed.chunks_exact(8).filter_map(|bytes| u64_at(bytes, 0)));
            Ok(())
        })?;
        free.into_iter().try_for_each(|page| self.meet(page))
    }
}

/// The nodes of a branch or leaf page.
struct Nodes<'p> {
    page: &'p [u8],
    count: usize,
    upper: usize,
}

enum Data<'p> {
    Here(&'p [u8]),
    Pages { first: u64, length: usize },
}

struct Leaf<'p> {
    flags: u16,
    key: &'p [u8],
    data: Data<'p>,
}

impl<'p> Nodes<'p> {
    fn of(page: &'p [u8]) -> Option<Nodes<'p>> {
        let (lower, upper) = (usize::from(u16_at(page, 12)?), usize::from(u16_at(page, 14)?));
        let count = lower.checked_sub(HEADER)? / 2;
        (count > 0 && lower % 2 == 0 && lower <= upper && upper <= page.len()).then_some(Nodes {
            page,
            count,
            upper,
        })
    }

    /// A node from its header on, and its key.
    fn node(&self, at: usize) -> Option<(&'p [u8], &'p [u8])> {
        if at >= self.count {
            return None;
        }
        let offset = usize::from(u16_at(self.page, HEADER + 2 * at)?);
        let node = self.page.get(offset..).filter(|_| offset >= self.upper)?;
        let key = usize::from(u16_at(node, 6)?);
        Some((node, node.get(NODE_HEADER..NODE_HEADER + key)?))
    }

    fn branch(&self, at: usize) -> Option<(&'p [u8], u64)> {
        let (node, key) = self.node(at)?;
        let child = u64::from(u32_at(node, 0)?) | u64::from(u16_at(node, 4)?) << 32;
        Some((key, child))
    }

    fn leaf(&self, at: usize) -> Option<Leaf<'p>> {
        let (node, key) = self.node(at)?;
        let (length, flags) = (usize::try_from(u32_at(node, 0)?).ok()?, u16_at(node, 4)?);
        let data = node.get(NODE_HEADER + key.len()..)?;
        let data = match flags {
            0 | SUBTREE => Data::Here(data.get(..length)?),
            BIG => Data::Pages { first: u64_at(data, 0)?, length },
            _ => return None,
        };
        (!key.is_empty()).then_some(Leaf { flags, key, data })
    }
}
