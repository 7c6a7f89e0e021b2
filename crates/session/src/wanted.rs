//! What is wanted from a mounted tape: the files that were asked for and, of classes that recall packs as a
//! whole, the rest of their packs.

use std::collections::HashSet;

use base::{ByteCount, FileId};

use crate::order::Segment;
use crate::plan::PLAN_FILES_MAX;

/// A file that a session is to read from its tape.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Wanted<P> {
    /// The file.
    pub file: FileId,
    /// The blocks of its bytes.
    pub segment: Segment,
    /// Its bytes.
    pub length: ByteCount,
    /// Nobody asked for it: its class recalls packs as a whole.
    pub along: bool,
    /// What the executor needs to read it.
    pub place: P,
}

/// Some of what is wanted.
#[derive(Debug)]
pub struct WantedPage<P, C> {
    /// The files.
    pub files: Vec<Wanted<P>>,
    /// Where the next page begins; `None` after the last one.
    pub next: Option<C>,
}

/// What is wanted from a tape, as catalogue or model have it.
pub trait TapeSet {
    /// Why it cannot be read.
    type Error;
    /// Where a look at it ended.
    type Cursor: Copy;
    /// What the executor needs to read a file.
    type Place;
    /// A pack.
    type Pack: Ord + Copy;

    /// The files that were asked for, page by page, in the order of the tape or any other that is always the
    /// same.
    ///
    /// # Errors
    /// Whatever keeps them from being read.
    fn wanted(
        &mut self,
        after: Option<Self::Cursor>,
    ) -> Result<WantedPage<Self::Place, Self::Cursor>, Self::Error>;

    /// Which of these files this tape is to give now, rather than another one with a copy.
    fn claim(&mut self, files: &[FileId]) -> Vec<bool>;

    /// The pack that is to be read as a whole because this file of it was asked for.
    ///
    /// # Errors
    /// Whatever keeps it from being found out.
    fn whole_pack(&mut self, wanted: &Wanted<Self::Place>) -> Result<Option<Self::Pack>, Self::Error>;

    /// Files of a pack that are not in the pool, page by page.
    ///
    /// # Errors
    /// Whatever keeps them from being read.
    fn away_in_pack(
        &mut self,
        pack: Self::Pack,
        after: Option<Self::Cursor>,
    ) -> Result<WantedPage<Self::Place, Self::Cursor>, Self::Error>;
}

/// All that is to be read now, without what the session was `given` already: at most [`PLAN_FILES_MAX`], what
/// is beyond comes with the next plan. Of a file of which the tape holds several parts one, the first: the
/// others are for the next session.
///
/// # Errors
/// The first one of `set`.
pub fn gather_wanted<S: TapeSet>(
    set: &mut S,
    given: impl Fn(FileId) -> bool,
) -> Result<Vec<Wanted<S::Place>>, S::Error> {
    let mut wanted = Vec::new();
    let mut met = HashSet::new();
    let mut packs = std::collections::BTreeSet::new();
    let mut after = None;
    while wanted.len() < PLAN_FILES_MAX {
        let mut page = set.wanted(after)?;
        page.files.retain(|file| !given(file.file) && met.insert(file.file));
        let files: Vec<FileId> = page.files.iter().map(|wanted| wanted.file).collect();
        let claimed = set.claim(&files);
        assert_eq!(claimed.len(), files.len(), "one answer a file");
        for (file, _) in page.files.into_iter().zip(claimed).filter(|(_, claimed)| *claimed) {
            packs.extend(set.whole_pack(&file)?);
            wanted.push(file);
        }
        after = page.next;
        if after.is_none() {
            break;
        }
    }
    if packs.is_empty() {
        return Ok(wanted);
    }
    let asked: HashSet<FileId> = wanted.iter().map(|wanted| wanted.file).collect();
    for pack in packs {
        let mut after = None;
        while wanted.len() < PLAN_FILES_MAX {
            let page = set.away_in_pack(pack, after)?;
            let along = page.files.into_iter().filter(|it| !asked.contains(&it.file) && !given(it.file));
            wanted.extend(along.map(|it| Wanted { along: true, ..it }));
            after = page.next;
            if after.is_none() {
                break;
            }
        }
    }
    Ok(wanted)
}

#[cfg(test)]
mod tests;
