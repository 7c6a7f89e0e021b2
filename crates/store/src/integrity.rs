//! Whether a catalogue is whole, found out before anything is answered or removed on its word.
//!
//! Each record has its checksum, but a record that is not found has none: a page that was replaced by another
//! one, or by an older state of itself, makes rows vanish. So all pages are walked before LMDB is let near
//! them, by a reader of its format that trusts none, and the rows of every table must add up to what the last
//! commit said.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

use base::planted::{Bug, is_planted};
use catalogue::{Table, check_record};

use crate::error::Damage;
use crate::format::FIRST_WITH_SUMS;
use crate::head;
use crate::pages::{Order, Pages, SUBTREE, Tree};
use crate::snapshot::SNAPSHOT_DATA;
use crate::sums::Sums;

/// The named table of LMDB in which the sums lie, and the key there.
pub(crate) const SUMS_TABLE: &str = "sums";
pub(crate) const SUMS_KEY: &[u8] = b"sums";

/// Read in pieces of this size, so that what is walked through in the order of keys lies in memory.
const READ_AHEAD: usize = 1 << 20;
/// The number of the one commit of a copy that LMDB has compacted.
const COMMIT_OF_COPY: u64 = 1;

/// A catalogue that is whole.
#[derive(Default)]
pub(crate) struct Whole {
    /// What the rows of its tables add up to.
    pub(crate) sums: Sums,
    /// How many tables of LMDB it has.
    pub(crate) tables: usize,
}

#[derive(Default)]
struct Found {
    sums: Sums,
    tables: usize,
    /// What the last commit has said that they add up to, and its number.
    written: Option<(Sums, u64)>,
}

/// Walks all that the newest commit of a catalogue of that format refers to. `None` if there is nothing yet.
pub(crate) fn walk(dir: &Path, format: u32) -> Result<Option<Whole>, Damage> {
    if is_planted(Bug::UnwalkedCatalogue) {
        return Ok(None);
    }
    let newest = head::newest_commit(dir)?;
    let file = match File::open(dir.join(SNAPSHOT_DATA)) {
        Ok(file) if file.metadata()?.len() > 0 => file,
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error.into()),
        // Made and not written yet, if this is the first start.
        Ok(_) | Err(_) if newest.is_none() => return Ok(None),
        Ok(_) | Err(_) => return Err(Damage::Missing),
    };
    walk_file(file, newest, format).map(Some)
}

/// The same of the open file, which may grow meanwhile as long as a snapshot of LMDB is held.
pub(crate) fn walk_file(file: File, newest: Option<u64>, format: u32) -> Result<Whole, Damage> {
    read_through(&file)?;
    let mut pages = Pages::open(file)?;
    if let Some(newest) = newest
        && newest > pages.meta.commit
    {
        return Err(Damage::Older { found: pages.meta.commit, newest });
    }
    let Found { sums, tables, written } = walk_tables(&mut pages)?;
    pages.walk_free()?;
    // A catalogue of an older format has none, or those of before that Kist wrote to it again.
    if format >= FIRST_WITH_SUMS {
        let (written, commit) = written.unwrap_or_default();
        if let Some(table) = sums.difference(&written) {
            return Err(Damage::Rows { table: table.name() });
        }
        // LMDB begins to count anew in a copy that it has compacted.
        if commit != pages.meta.commit && pages.meta.commit > COMMIT_OF_COPY {
            return Err(Damage::Older { found: commit, newest: pages.meta.commit });
        }
    }
    Ok(Whole { sums, tables })
}

fn walk_tables(pages: &mut Pages) -> Result<Found, Damage> {
    let main = pages.meta.main;
    let mut trees = Vec::new();
    pages.walk(&main, Order::Bytes, &mut |flags, name, value| {
        let tree = Tree::of(value).filter(|tree| flags == SUBTREE && tree.is_plain());
        trees.push((name.to_vec(), tree.ok_or(Damage::Names)?));
        Ok(())
    })?;
    let mut found = Found { tables: trees.len(), ..Found::default() };
    for (name, tree) in trees {
        if name == SUMS_TABLE.as_bytes() {
            pages.walk(&tree, Order::Bytes, &mut |_, key, value| {
                let sums = Sums::decode(value).filter(|_| key == SUMS_KEY);
                found.written = Some(sums.ok_or(Damage::Rows { table: SUMS_TABLE })?);
                Ok(())
            })?;
            continue;
        }
        let table = Table::ALL.into_iter().find(|table| table.name().as_bytes() == name);
        let table = table.ok_or(Damage::Names)?;
        let sum = found.sums.of(table);
        pages.walk(&tree, Order::Bytes, &mut |_, key, value| {
            check_record(table, key, value).map_err(|error| Damage::Record(error.to_string()))?;
            sum.add(value);
            Ok(())
        })?;
    }
    Ok(found)
}

/// Brings the file into memory in its own order, which a disk likes better than that of the keys.
fn read_through(mut file: &File) -> io::Result<()> {
    let mut buffer = vec![0; READ_AHEAD];
    while file.read(&mut buffer)? > 0 {}
    Ok(())
}
