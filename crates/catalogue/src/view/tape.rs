//! Reading what concerns tape: containers, queues, tapes, runs, recalls.

use base::{
    BlockAddress, ByteCount, ClassId, ContainerId, FileId, RequestId, RunId, TapeKey, TapePoolId, Vid,
};

use super::View;
use crate::encoding::{MemberValue, Nothing, PartRecord};
use crate::error::ReadError;
use crate::frame;
use crate::key::{self, KeyReader};
use crate::record::{
    BaseRecord, ClassRecord, CleanerRecord, ContainerRecord, CopyState, Counter, DriveCleaning, MemberRecord,
    QueuedContainer, RecallItem, RecallKey, Rule, RunItem, RunRecord, SealingRecord, Tally, TapeRecord,
    TodoFile,
};
use crate::table::Table;
use std::ops::ControlFlow;

/// A file that waits to be sealed: data set and file, size and age.
pub type TodoRow = ((u64, FileId), TodoFile);

impl View<'_> {
    /// The containers that hold a file's bytes, in the order of the file; empty if it was not sealed yet.
    ///
    /// # Errors
    /// If the catalogue cannot be read.
    pub fn parts(&self, file: FileId) -> Result<Vec<(ContainerId, MemberRecord)>, ReadError> {
        let prefix = key::file(file);
        let parts: Vec<PartRecord> =
            self.rows_within(Table::Part, &prefix, None, usize::MAX, |_, key, value| {
                frame::open(Table::Part, key, value)
            })?;
        parts
            .into_iter()
            .map(|part| {
                let key = key::member(part.container, part.data_offset, file);
                let value: MemberValue = self.expect(Table::Member, &key)?;
                Ok((part.container, member(part.data_offset, file, value, &key)?))
            })
            .collect()
    }

    /// A container.
    ///
    /// # Errors
    /// If the catalogue cannot be read.
    pub fn container(&self, id: ContainerId) -> Result<Option<ContainerRecord>, ReadError> {
        self.get(Table::Container, &key::container(id))
    }

    /// The members of a container in the order of their offsets, those behind `after`, at most `limit`.
    ///
    /// # Errors
    /// If the catalogue cannot be read.
    pub fn members(
        &self,
        id: ContainerId,
        after: Option<(ByteCount, FileId)>,
        limit: usize,
    ) -> Result<Vec<MemberRecord>, ReadError> {
        let after = after.map(|(data_offset, file)| key::member(id, data_offset, file));
        self.rows_within(Table::Member, &key::container(id), after, limit, |mut parts, key, value| {
            parts.u64()?;
            let data_offset = ByteCount(parts.u64()?);
            member(data_offset, FileId(parts.u64()?), frame::open(Table::Member, key, value)?, key)
        })
    }

    /// Packs that are being sealed, or given up, in pieces; at most `limit`.
    ///
    /// # Errors
    /// If the catalogue cannot be read.
    pub fn sealing(&self, limit: usize) -> Result<Vec<(ContainerId, SealingRecord)>, ReadError> {
        self.rows(Table::Sealing, &[], None, limit, |mut parts, key, value| {
            Ok((ContainerId(parts.u64()?), frame::open(Table::Sealing, key, value)?))
        })
    }

    /// Containers that wait for a tape pool, those among them that are being sealed in pieces.
    ///
    /// # Errors
    /// If the catalogue cannot be read.
    pub fn waiting_for(&self, pool: TapePoolId) -> Result<Tally, ReadError> {
        let mut waiting = self.tally(Counter::Queued(pool))?;
        for (id, _) in self.sealing(usize::MAX)? {
            let Some(container) = self.container(id)? else { continue };
            let class: Option<ClassRecord> = self.get(Table::Class, &key::class(container.class))?;
            if class.is_some_and(|class| class.copies.contains(&pool)) {
                waiting.files = waiting.files.saturating_add(1);
                waiting.bytes.0 = waiting.bytes.0.saturating_add(container.length.0);
            }
        }
        Ok(waiting)
    }

    /// Files of a class that wait to be sealed, by data set and file; those behind `after`, at most `limit`.
    ///
    /// # Errors
    /// If the catalogue cannot be read.
    pub fn todo(
        &self,
        class: ClassId,
        after: Option<(u64, FileId)>,
        limit: usize,
    ) -> Result<Vec<TodoRow>, ReadError> {
        let after = after.map(|(dataset, file)| key::todo(class, dataset, file));
        self.rows_within(Table::Todo, &key::class(class), after, limit, |mut parts, key, value| {
            parts.u16()?;
            Ok(((parts.u64()?, FileId(parts.u64()?)), frame::open(Table::Todo, key, value)?))
        })
    }

    /// Containers that wait for a tape pool in the order of sealing; those behind `after`, at most `limit`.
    ///
    /// # Errors
    /// If the catalogue cannot be read.
    pub fn queue(
        &self,
        tape_pool: TapePoolId,
        after: Option<ContainerId>,
        limit: usize,
    ) -> Result<Vec<(ContainerId, QueuedContainer)>, ReadError> {
        let after = after.map(|container| key::queue(tape_pool, container));
        self.rows_within(Table::Queue, &key::tape_pool(tape_pool), after, limit, |mut parts, key, value| {
            parts.u16()?;
            Ok((ContainerId(parts.u64()?), frame::open(Table::Queue, key, value)?))
        })
    }

    /// Whether a container stands, or is planned to stand, on a tape from this block on.
    ///
    /// # Errors
    /// If the catalogue cannot be read.
    pub fn is_known_there(
        &self,
        vid: Vid,
        container: ContainerId,
        block: BlockAddress,
    ) -> Result<bool, ReadError> {
        let standing = self.content(vid, block, 1)?;
        if standing.first().is_some_and(|(at, found)| (*at, *found) == (block, container)) {
            return Ok(true);
        }
        let Some(record) = self.container(container)? else { return Ok(false) };
        let planned = |state: CopyState| match state {
            CopyState::Planned { vid, block, .. } => Some((vid, block)),
            _ => None,
        };
        Ok(record.copies.iter().any(|copy| planned(copy.state) == Some((vid, block))))
    }

    /// What was committed to a tape from block `from` on, in the order of the blocks, at most `limit`.
    ///
    /// # Errors
    /// If the catalogue cannot be read.
    pub fn content(
        &self,
        vid: Vid,
        from: BlockAddress,
        limit: usize,
    ) -> Result<Vec<(BlockAddress, ContainerId)>, ReadError> {
        let to = key::prefix_end(vid.as_bytes());
        let from = key::content(vid, from);
        self.rows(Table::Content, &from, to.as_deref(), limit, |mut parts, key, value| {
            parts.vid()?;
            Ok((BlockAddress(parts.u64()?), frame::open(Table::Content, key, value)?))
        })
    }

    /// The change-log segments on a tape: first and last change of each, in order.
    ///
    /// # Errors
    /// If the catalogue cannot be read.
    pub fn segments(&self, vid: Vid) -> Result<Vec<(u64, u64)>, ReadError> {
        self.rows_within(Table::Segment, vid.as_bytes(), None, usize::MAX, |mut parts, key, value| {
            parts.vid()?;
            Ok((parts.u64()?, frame::open(Table::Segment, key, value)?))
        })
    }

    /// The bases of the catalogue on a tape: the newest change of each, in order.
    ///
    /// # Errors
    /// If the catalogue cannot be read.
    pub fn bases(&self, vid: Vid) -> Result<Vec<(u64, BaseRecord)>, ReadError> {
        self.rows_within(Table::Base, vid.as_bytes(), None, usize::MAX, |mut parts, key, value| {
            parts.vid()?;
            Ok((parts.u64()?, frame::open(Table::Base, key, value)?))
        })
    }

    /// The changes that stand on some tape of a pool: ranges of first and last change, ascending, neither
    /// overlapping nor adjacent.
    ///
    /// # Errors
    /// If the catalogue cannot be read.
    pub fn covered_changes(&self, tape_pool: TapePoolId) -> Result<Vec<(u64, u64)>, ReadError> {
        let mut ranges = Vec::new();
        for (vid, tape) in self.tapes()? {
            if tape.tape_pool == Some(tape_pool) {
                ranges.extend(self.segments(vid)?);
            }
        }
        Ok(merged_ranges(ranges))
    }

    /// The tape drives that an operator has taken out of use, and why.
    ///
    /// # Errors
    /// If the catalogue cannot be read.
    pub fn drives_down(&self) -> Result<Vec<(String, String)>, ReadError> {
        self.rows(Table::DriveDown, &[], None, usize::MAX, |mut parts, key, value| {
            Ok((parts.text()?, frame::open(Table::DriveDown, key, value)?))
        })
    }

    /// The tapes that are to be exported as soon as no drive has them.
    ///
    /// # Errors
    /// If the catalogue cannot be read.
    pub fn tapes_leaving(&self) -> Result<Vec<Vid>, ReadError> {
        self.rows(Table::TapeLeaving, &[], None, usize::MAX, |mut parts, key, value| {
            let Nothing = frame::open(Table::TapeLeaving, key, value)?;
            parts.vid()
        })
    }

    /// The keys of tapes that were found since the newest start, and not missed since.
    ///
    /// # Errors
    /// If the catalogue cannot be read.
    pub fn keys_at_hand(&self) -> Result<Vec<TapeKey>, ReadError> {
        self.rows(Table::KeyAtHand, &[], None, usize::MAX, |mut parts, key, value| {
            let Nothing = frame::open(Table::KeyAtHand, key, value)?;
            parts.tape_key()
        })
    }

    /// Whether a key of tapes is at hand.
    ///
    /// # Errors
    /// If the catalogue cannot be read.
    pub fn is_key_at_hand(&self, key: &TapeKey) -> Result<bool, ReadError> {
        self.has(Table::KeyAtHand, &key::tape_key(key))
    }

    /// Whether a tape is encrypted with a key that is not at hand: nothing on it can be read now, and nothing
    /// be written to it.
    ///
    /// # Errors
    /// If the catalogue cannot be read.
    pub fn lacks_key(&self, tape: &TapeRecord) -> Result<bool, ReadError> {
        let Some(key) = &tape.key else { return Ok(false) };
        Ok(self.holds(Rule::KeyAtHand)? && !self.is_key_at_hand(key)?)
    }

    /// Whether a tape can give what stands on it, as far as the catalogue knows: it is not set aside, and its
    /// key, if it has one, is at hand.
    ///
    /// # Errors
    /// If the catalogue cannot be read.
    pub fn can_give(&self, tape: &TapeRecord) -> Result<bool, ReadError> {
        Ok(!tape.state.is_set_aside() && !self.lacks_key(tape)?)
    }

    /// The cleaning cartridges that were used, by VID.
    ///
    /// # Errors
    /// If the catalogue cannot be read.
    pub fn cleaners(&self) -> Result<Vec<(Vid, CleanerRecord)>, ReadError> {
        self.rows(Table::Cleaner, &[], None, usize::MAX, |mut parts, key, value| {
            Ok((parts.vid()?, frame::open(Table::Cleaner, key, value)?))
        })
    }

    /// The tape drives that ask to be cleaned or were, by name.
    ///
    /// # Errors
    /// If the catalogue cannot be read.
    pub fn drives_cleaning(&self) -> Result<Vec<(String, DriveCleaning)>, ReadError> {
        self.rows(Table::DriveCleaning, &[], None, usize::MAX, |mut parts, key, value| {
            Ok((parts.text()?, frame::open(Table::DriveCleaning, key, value)?))
        })
    }

    /// How urgent a request is, from 0 to [`crate::PRIORITY_MAX`]; the usual priority if there is no such
    /// request.
    ///
    /// # Errors
    /// If the catalogue cannot be read.
    pub fn priority(&self, request: RequestId) -> Result<u8, ReadError> {
        Ok(self.get(Table::RequestPriority, &key::request(request))?.unwrap_or(crate::PRIORITY_USUAL))
    }

    /// All tapes.
    ///
    /// # Errors
    /// If the catalogue cannot be read.
    pub fn tapes(&self) -> Result<Vec<(Vid, TapeRecord)>, ReadError> {
        self.rows(Table::Tape, &[], None, usize::MAX, |mut parts, key, value| {
            Ok((parts.vid()?, frame::open(Table::Tape, key, value)?))
        })
    }

    /// A tape.
    ///
    /// # Errors
    /// If the catalogue cannot be read.
    pub fn tape(&self, vid: Vid) -> Result<Option<TapeRecord>, ReadError> {
        self.get(Table::Tape, &key::tape(vid))
    }

    /// All runs that were begun and not ended.
    ///
    /// # Errors
    /// If the catalogue cannot be read.
    pub fn open_runs(&self) -> Result<Vec<(RunId, RunRecord)>, ReadError> {
        let open = self.rows(Table::OpenRun, &[], None, usize::MAX, |mut parts, key, value| {
            let _: Vid = frame::open(Table::OpenRun, key, value)?;
            Ok(RunId(parts.u64()?))
        })?;
        open.into_iter().map(|id| Ok((id, self.expect(Table::Run, &key::run(id))?))).collect()
    }

    /// A run, open or ended.
    ///
    /// # Errors
    /// If the catalogue cannot be read.
    pub fn run(&self, id: RunId) -> Result<Option<RunRecord>, ReadError> {
        self.get(Table::Run, &key::run(id))
    }

    /// The last run on a tape, if it is among the newest `newest` of all tapes.
    ///
    /// # Errors
    /// If the catalogue cannot be read.
    pub fn last_run(&self, vid: Vid, newest: u64) -> Result<Option<RunRecord>, ReadError> {
        let next = self.meta()?.map_or(0, |meta| meta.next_run);
        for id in (next.saturating_sub(newest)..next).rev() {
            let run = self.run(RunId(id))?.filter(|run| run.vid == vid);
            if run.is_some() {
                return Ok(run);
            }
        }
        Ok(None)
    }

    /// The items of a run from number `from` on, in the order of writing, at most `limit`.
    ///
    /// # Errors
    /// If the catalogue cannot be read.
    pub fn run_items(&self, id: RunId, from: u32, limit: usize) -> Result<Vec<RunItem>, ReadError> {
        let to = key::prefix_end(&id.0.to_be_bytes());
        let from = key::run_item(id, from);
        self.rows(Table::RunItem, &from, to.as_deref(), limit, |_, key, value| {
            frame::open(Table::RunItem, key, value)
        })
    }

    /// What is wanted from a tape in the order on that tape; what comes behind `after`, at most `limit`.
    ///
    /// # Errors
    /// If the catalogue cannot be read.
    pub fn recall_set(
        &self,
        vid: Vid,
        after: Option<RecallKey>,
        limit: usize,
    ) -> Result<Vec<(RecallKey, RecallItem)>, ReadError> {
        let after = after.map(|after| key::recall(&after));
        self.rows_within(Table::Recall, vid.as_bytes(), after, limit, |parts, key, value| {
            Ok((recall_key(parts)?, frame::open(Table::Recall, key, value)?))
        })
    }
}

impl View<'_> {
    /// Goes through what is wanted from all tapes, in the order of the keys: at most `limit` rows behind
    /// `after`, until `visit` fails. Gives the last one seen.
    ///
    /// # Errors
    /// If the catalogue cannot be read.
    pub fn recall_rows(
        &self,
        after: Option<RecallKey>,
        limit: usize,
        mut visit: impl FnMut(RecallKey, RecallItem) -> Result<(), ReadError>,
    ) -> Result<Option<RecallKey>, ReadError> {
        let from = after.map_or_else(Vec::new, |after| key::behind(key::recall(&after)));
        let mut last = after;
        let mut seen = 0;
        self.each(Table::Recall, &from, None, |key, value| {
            if seen == limit {
                return Ok(ControlFlow::Break(()));
            }
            seen += 1;
            let recall = recall_key(KeyReader::new(Table::Recall, key))?;
            visit(recall, frame::open(Table::Recall, key, value)?)?;
            last = Some(recall);
            Ok(ControlFlow::Continue(()))
        })?;
        Ok(last)
    }

    /// The requests with a priority of their own.
    ///
    /// # Errors
    /// If the catalogue cannot be read.
    pub fn priorities(&self) -> Result<Vec<(RequestId, u8)>, ReadError> {
        self.rows(Table::RequestPriority, &[], None, usize::MAX, |mut parts, key, value| {
            Ok((RequestId(!parts.u64()?), frame::open(Table::RequestPriority, key, value)?))
        })
    }
}

/// Ranges of first and last, in any order, as ascending ones that neither overlap nor touch.
#[must_use]
pub fn merged_ranges(mut ranges: Vec<(u64, u64)>) -> Vec<(u64, u64)> {
    ranges.sort_unstable();
    let mut merged: Vec<(u64, u64)> = Vec::new();
    for (first, last) in ranges {
        match merged.last_mut() {
            Some((_, end)) if first <= end.saturating_add(1) => *end = last.max(*end),
            _ => merged.push((first, last)),
        }
    }
    assert!(merged.is_sorted_by(|(_, end), (next, _)| end < next), "ranges that touch are one");
    merged
}

pub(crate) fn recall_key(mut parts: KeyReader<'_>) -> Result<RecallKey, ReadError> {
    Ok(RecallKey {
        vid: parts.vid()?,
        block: BlockAddress(parts.u64()?),
        data_offset: ByteCount(parts.u64()?),
        file: FileId(parts.u64()?),
    })
}

fn member(
    data_offset: ByteCount,
    file: FileId,
    value: MemberValue,
    key: &[u8],
) -> Result<MemberRecord, ReadError> {
    let header_offset = data_offset.0.checked_sub(value.header_length.0);
    Ok(MemberRecord {
        file,
        header_offset: header_offset.map(ByteCount).ok_or_else(|| ReadError::damaged(Table::Member, key))?,
        data_offset,
        length: value.length,
        file_offset: value.file_offset,
    })
}
