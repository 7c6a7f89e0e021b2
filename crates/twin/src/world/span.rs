//! Files that stand on several tapes: what finds no room on one goes on on the next, and a recall reads its
//! parts one after the other.

use std::collections::BTreeMap;

use base::FileId;
use scheduler::Event;

use super::World;
use crate::holdings::{Place, TapeIndex};
use scenario::model::FileNumber;

/// A part of a file on a tape.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Part {
    pub(super) tape: TapeIndex,
    pub(super) byte: u64,
    pub(super) bytes: u64,
}

/// Which files stand in parts.
#[derive(Default)]
pub(super) struct Spans {
    /// Of a container and its tape pool: parts that are written, where it is not whole yet.
    begun: BTreeMap<(u32, u16), Vec<Part>>,
    /// Of a file, and the number of its copy.
    whole: BTreeMap<(FileId, usize), Vec<Part>>,
    /// Wanted files of which some parts were read: the copy, and the part that comes next.
    reading: BTreeMap<FileId, (usize, usize)>,
}

impl Spans {
    /// A tape is lost: what was begun on it begins anew.
    pub(super) fn forget(&mut self, tape: TapeIndex) {
        self.begun.retain(|_, parts| parts.iter().all(|part| part.tape != tape));
    }

    /// Whether a copy begins on another tape than this one, where it goes on.
    pub(super) fn begins_elsewhere(&self, file: FileId, copy: usize, tape: TapeIndex) -> bool {
        let parts = self.whole.get(&(file, copy));
        parts.and_then(|parts| parts.first()).is_some_and(|first| first.tape != tape)
    }

    /// Bytes of a container that stand on earlier tapes of a pool.
    pub(super) fn written(&self, container: u32, pool: u16) -> u64 {
        self.begun.get(&(container, pool)).map_or(0, |parts| parts.iter().map(|part| part.bytes).sum())
    }

    /// It is not wanted any more: who wants it again begins with its first part.
    pub(super) fn wanted_no_more(&mut self, file: FileId) {
        self.reading.remove(&file);
    }

    /// Tapes that a copy needs beside that of its first part.
    pub(super) fn others(&self, file: FileId, first: TapeIndex) -> impl Iterator<Item = TapeIndex> {
        let of = self.whole.range((file, 0)..=(file, usize::MAX));
        let of = of.filter(move |(_, parts)| parts.first().is_some_and(|part| part.tape == first));
        of.flat_map(|(_, parts)| parts.iter().skip(1).map(|part| part.tape))
    }

    /// The tape of the part that comes next, of a file that is being read.
    pub(super) fn next(&self, file: FileId) -> Option<TapeIndex> {
        let (copy, at) = self.reading.get(&file)?;
        Some(self.whole.get(&(file, *copy))?.get(*at)?.tape)
    }

    /// The part that a session on this tape is to read; `None`: the file stands whole there.
    pub(super) fn part_on(&self, file: FileId, tape: TapeIndex) -> Option<Part> {
        if let Some((copy, at)) = self.reading.get(&file) {
            let part = self.whole.get(&(file, *copy))?.get(*at)?;
            return Some(*part).filter(|part| part.tape == tape);
        }
        let of = self.whole.range((file, 0)..=(file, usize::MAX));
        of.filter_map(|(_, parts)| parts.first()).find(|part| part.tape == tape).copied()
    }

    /// A part was read. Whether there are more.
    fn read(&mut self, file: FileId, tape: TapeIndex) -> bool {
        let (copy, at) = match self.reading.get(&file) {
            Some((copy, at)) => (*copy, *at),
            None => {
                let of = self.whole.range((file, 0)..=(file, usize::MAX));
                let begins = |parts: &Vec<Part>| parts.first().is_some_and(|part| part.tape == tape);
                match of.into_iter().find(|(_, parts)| begins(parts)) {
                    Some(((_, copy), _)) => (*copy, 0),
                    None => return false,
                }
            }
        };
        let parts = self.whole.get(&(file, copy)).map_or(0, Vec::len);
        match at + 1 < parts {
            true => drop(self.reading.insert(file, (copy, at + 1))),
            false => drop(self.reading.remove(&file)),
        }
        at + 1 < parts
    }
}

impl World<'_> {
    /// Bytes of a container that stand on earlier tapes of the pool that the drive writes for.
    pub(super) fn spanned(&self, container: u32, drive: usize) -> u64 {
        self.spans.written(container, self.drives[drive].writing_for())
    }

    /// The tape is full within a container: the rest goes to the next one.
    pub(super) fn part_is_written(&mut self, container: u32, pool: u16, part: Part) {
        self.spans.begun.entry((container, pool)).or_default().push(part);
    }

    /// A container is whole, and an index names it: where it begins.
    pub(super) fn end_of_span(&mut self, container: u32, slot: usize, last: Place) -> Place {
        let of = &self.migration.containers[container as usize];
        let (class, first, bytes) = (of.class, of.first(), of.bytes);
        let Some(pool) = self.holdings.tapes()[last.tape.0 as usize].tape_pool else { return last };
        let Some(mut parts) = self.spans.begun.remove(&(container, pool)) else { return last };
        let before: u64 = parts.iter().map(|part| part.bytes).sum();
        parts.push(Part { tape: last.tape, byte: last.byte, bytes: bytes - before });
        let begin = parts[0];
        let file = FileNumber { class: scenario::model::ClassIndex(class), sequence: first };
        self.spans.whole.insert((file.id(), slot), parts);
        Place { tape: begin.tape, byte: begin.byte, order: last.order }
    }

    /// A wanted file, or its part on this tape, was read: if more of it stands elsewhere, the scheduler is
    /// told so. Whether there is more.
    pub(super) fn goes_on_elsewhere(&mut self, file: FileId, tape: TapeIndex) -> bool {
        if !self.model.foreign.spans || !self.spans.read(file, tape) {
            return false;
        }
        self.tell(Event::NotWanted(file));
        self.copies_changed(file);
        true
    }
}
