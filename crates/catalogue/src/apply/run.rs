//! Runs: what a tape session means to write, durable before the first block, and how much of it is safe.

use base::{BlockAddress, ByteCount, ContainerId, Generation, RunId, Vid};

use super::drive::DRIVE_BYTES_MAX;
use super::{copy, lifecycle, limit, lost, reason, tape};
use crate::command::{Command, Outcome, PlannedContainer, SEGMENTS_MAX};
use crate::draft::Draft;
use crate::error::{Object, ReadError, Rejection};
use crate::key;
use crate::record::{ContainerRecord, CopyState, Counter, RunEnd, RunItem, RunRecord, TapeRecord, TapeState};
use crate::table::Table;

/// Most containers in one `AppendToRun`.
const APPEND_MAX: usize = 10_000;
/// Most containers in one run.
const RUN_ITEMS_MAX: u32 = 10_000_000;
/// Rows read at a time.
const PAGE: usize = 1000;

pub(super) fn perform(draft: &mut Draft<'_>, command: &Command) -> Result<Outcome, Rejection> {
    match command {
        Command::BeginRun { vid, drive, start } => {
            let tape = tape::find(draft, *vid)?;
            tape::need(*vid, &tape, TapeState::Active)?;
            begin(draft, *vid, tape, drive, *start)
        }
        Command::BeginHistoryRun { vid, drive, start } => {
            let tape = tape::find(draft, *vid)?;
            tape::need_written_out(*vid, &tape)?;
            begin(draft, *vid, tape, drive, *start)
        }
        Command::AppendToRun { run, containers } => append(draft, *run, containers),
        Command::CommitRun { run, committed, end_of_data, written } => {
            let mut open = Open::find(draft, *run)?;
            open.move_end_of_data(*end_of_data, *written)?;
            open.commit(draft, *committed)?;
            draft.count(Counter::Flushes, 1, written.0)?;
            open.put(draft)
        }
        Command::AdoptRun { run, committed, end_of_data } => {
            let mut open = Open::find(draft, *run)?;
            open.move_end_of_data(*end_of_data, ByteCount(0))?;
            let before = open.tape.committed.0;
            open.commit(draft, *committed)?;
            let adopted = open.tape.committed.0.saturating_sub(before);
            open.tape.written.0 = open.tape.written.0.saturating_add(adopted);
            open.put(draft)
        }
        Command::IndexWritten { run, generation, index_block, end_of_data, written, changes } => {
            let mut open = Open::find(draft, *run)?;
            open.check_index(*generation, *index_block, *end_of_data)?;
            open.record_segments(draft, changes)?;
            open.move_end_of_data(*end_of_data, *written)?;
            let covered_from = open.tape.index_block;
            open.tape.generation = *generation;
            open.tape.index_block = *index_block;
            open.run.indexed = open.run.committed;
            assert!(open.tape.index_block < open.tape.end_of_data, "the end of data is behind the index");
            draft.count(Counter::Indexes, 1, written.0)?;
            let vid = open.run.vid;
            let outcome = open.put(draft)?;
            cover(draft, vid, covered_from)?;
            Ok(outcome)
        }
        Command::EndRun { run, end, tape_state, reason, end_of_data, torn } => {
            let mut open = Open::find(draft, *run)?;
            if let Some(end_of_data) = end_of_data {
                open.move_end_of_data(*end_of_data, ByteCount(0))?;
            }
            open.end(draft, *end, *tape_state, reason)?;
            open.tape.torn.0 = open.tape.torn.0.saturating_add(torn.0);
            open.put(draft)
        }
        _ => unreachable!("apply sends commands about runs only"),
    }
}

fn begin(
    draft: &mut Draft<'_>,
    vid: Vid,
    mut tape: TapeRecord,
    drive: &str,
    start: BlockAddress,
) -> Result<Outcome, Rejection> {
    limit("bytes of a drive's name", drive.len(), DRIVE_BYTES_MAX)?;
    if tape.run.is_some() {
        let object = Object::Tape(vid);
        return Err(Rejection::WrongState { object, state: "in a run", needed: "without an open run" });
    }
    if start != tape.end_of_data {
        let what = "the run does not start at the recorded end of data: check the tape's position and label";
        return Err(Rejection::Malformed { object: Object::Tape(vid), what });
    }
    let tape_pool = tape.tape_pool.ok_or_else(|| ReadError::inconsistent(Table::Tape, &key::tape(vid)))?;
    let id = draft.change_meta(|meta| {
        meta.next_run += 1;
        RunId(meta.next_run - 1)
    })?;
    assert!(draft.view().run(id)?.is_none(), "the number of a new run was never given");
    let run = RunRecord {
        vid,
        drive: drive.to_owned(),
        tape_pool,
        generation: tape.generation,
        start,
        started: draft.at,
        planned: 0,
        committed: 0,
        indexed: 0,
        ended: None,
    };
    tape.run = Some(id);
    draft.put(Table::Run, key::run(id), &run);
    draft.put(Table::OpenRun, key::run(id), &vid);
    draft.put(Table::Tape, key::tape(vid), &tape);
    Ok(Outcome::Run(id))
}

fn append(draft: &mut Draft<'_>, id: RunId, containers: &[PlannedContainer]) -> Result<Outcome, Rejection> {
    limit("containers in one append", containers.len(), APPEND_MAX)?;
    let mut open = Open::find(draft, id)?;
    tape::need(open.run.vid, &open.tape, TapeState::Active)?;
    let mut next = open.next_block(draft)?;
    let before = (open.run.planned, next);
    for planned in containers {
        let PlannedContainer { container, block, blocks } = *planned;
        let end = block.0.checked_add(blocks.0).filter(|_| blocks.0 > 0 && block == next);
        let Some(end) = end else {
            let what = "its blocks do not follow those before it in the run";
            return Err(Rejection::Malformed { object: Object::Container(container), what });
        };
        if open.run.planned >= RUN_ITEMS_MAX {
            return Err(Rejection::LimitExceeded {
                what: "containers of a run",
                limit: u64::from(RUN_ITEMS_MAX),
            });
        }
        plan(draft, &open, container, block)?;
        draft.put(Table::RunItem, key::run_item(id, open.run.planned), &RunItem { container, block, blocks });
        open.run.planned += 1;
        next = BlockAddress(end);
    }
    assert_eq!(
        (open.run.planned - before.0) as usize,
        containers.len(),
        "each container is an item of the run"
    );
    assert!(containers.is_empty() || next > before.1, "what is planned stands behind what was planned");
    open.put(draft)
}

fn plan(draft: &mut Draft<'_>, open: &Open, id: ContainerId, block: BlockAddress) -> Result<(), Rejection> {
    let Some(mut record) = draft.view().container(id)? else {
        return Err(Rejection::NotFound(Object::Container(id)));
    };
    let vid = open.run.vid;
    let refuse = |state| {
        let needed = "queued in the tape pool of the run and without a copy on its tape";
        Rejection::WrongState { object: Object::Container(id), state, needed }
    };
    let stands_here = |state: &CopyState| match state {
        CopyState::Queued => false,
        CopyState::Planned { vid: on, .. }
        | CopyState::Flushed { vid: on, .. }
        | CopyState::Indexed { vid: on, .. } => *on == vid,
    };
    if record.copies.iter().any(|copy| stands_here(&copy.state)) {
        return Err(refuse("on this tape already, or planned for it"));
    }
    let queued = record.copies.iter_mut().find(|copy| copy.tape_pool == open.run.tape_pool);
    let Some(copy) = queued.filter(|copy| copy.state == CopyState::Queued) else {
        return Err(refuse("not queued in the tape pool of the run"));
    };
    copy.state = CopyState::Planned { run: open.id, vid, block };
    let here = record.copies.iter().filter(|copy| stands_here(&copy.state)).count();
    assert_eq!(here, 1, "the copies of a container are planned for distinct tapes");
    draft.put(Table::Container, key::container(id), &record);
    copy::drop_queued(draft, open.run.tape_pool, id, &record)
}

/// An open run and its tape.
struct Open {
    id: RunId,
    run: RunRecord,
    tape: TapeRecord,
}

impl Open {
    fn find(draft: &Draft<'_>, id: RunId) -> Result<Open, Rejection> {
        let run = draft.view().run(id)?.ok_or(Rejection::NotFound(Object::Run(id)))?;
        if run.ended.is_some() {
            let object = Object::Run(id);
            return Err(Rejection::WrongState { object, state: "ended", needed: "open: begin a new run" });
        }
        let tape = draft.view().expect(Table::Tape, &key::tape(run.vid))?;
        Ok(Open { id, run, tape })
    }

    fn put(self, draft: &mut Draft<'_>) -> Result<Outcome, Rejection> {
        draft.put(Table::Run, key::run(self.id), &self.run);
        draft.put(Table::Tape, key::tape(self.run.vid), &self.tape);
        Ok(Outcome::Done)
    }

    fn malformed(&self, what: &'static str) -> Rejection {
        Rejection::Malformed { object: Object::Run(self.id), what }
    }

    fn item(&self, draft: &Draft<'_>, number: u32) -> Result<RunItem, Rejection> {
        Ok(draft.view().expect(Table::RunItem, &key::run_item(self.id, number))?)
    }

    /// Where the next container goes: behind what is planned, or at the end of data if all of that is on
    /// tape.
    fn next_block(&self, draft: &Draft<'_>) -> Result<BlockAddress, Rejection> {
        if self.run.planned == self.run.committed {
            return Ok(self.tape.end_of_data);
        }
        let last = self.item(draft, self.run.planned.saturating_sub(1))?;
        self.check_not_overtaken(&last)?;
        Ok(BlockAddress(last.block.0.saturating_add(last.blocks.0)))
    }

    /// An index written where a container was planned makes that plan void.
    fn check_not_overtaken(&self, item: &RunItem) -> Result<(), Rejection> {
        if item.block <= self.tape.index_block {
            return Err(self.malformed("an index stands where a container was planned: end this run"));
        }
        Ok(())
    }

    fn move_end_of_data(&mut self, end_of_data: BlockAddress, written: ByteCount) -> Result<(), Rejection> {
        if end_of_data < self.tape.end_of_data {
            return Err(self.malformed("the end of data cannot move back: check the tape's position"));
        }
        self.tape.end_of_data = end_of_data;
        self.tape.written.0 = self.tape.written.0.saturating_add(written.0);
        Ok(())
    }

    fn commit(&mut self, draft: &mut Draft<'_>, committed: u32) -> Result<(), Rejection> {
        if committed < self.run.committed || committed > self.run.planned {
            return Err(self.malformed("the number of committed items falls or is more than were planned"));
        }
        let before = (self.tape.containers, self.tape.committed);
        let (mut count, mut bytes) = (0u64, 0u64);
        for number in self.run.committed..committed {
            let item = self.item(draft, number)?;
            self.check_not_overtaken(&item)?;
            if item.block.0.saturating_add(item.blocks.0) > self.tape.end_of_data.0 {
                return Err(self.malformed("a committed container reaches beyond the end of data"));
            }
            let RunItem { container, block, .. } = item;
            let place = CopyState::Flushed { run: self.id, vid: self.run.vid, block };
            let record = self.change_copy(draft, container, place)?;
            draft.put(Table::Content, key::content(self.run.vid, block), &container);
            self.tape.committed.0 = self.tape.committed.0.saturating_add(record.length.0);
            self.tape.containers = self.tape.containers.saturating_add(1);
            (count, bytes) = (count + 1, bytes.saturating_add(record.length.0));
            // Only a container with an image is written although its members may be lost. Those of another
            // are decided anew when the pool says once more that it cannot give them.
            if record.image.is_some() && record.places().count() == 1 {
                lost::container_found(draft, container)?;
            }
        }
        assert_eq!(
            count,
            u64::from(committed - self.run.committed),
            "each item from then to now is committed"
        );
        assert_eq!(self.tape.containers, before.0.saturating_add(count), "each is one more on the tape");
        assert_eq!(self.tape.committed.0, before.1.0.saturating_add(bytes), "so is each of its bytes");
        // A file that waits for other copies is not added to this tape's set: those serve it.
        self.run.committed = committed;
        Ok(())
    }

    /// Changes the state of the copy that this run planned.
    fn change_copy(
        &self,
        draft: &mut Draft<'_>,
        container: ContainerId,
        state: CopyState,
    ) -> Result<ContainerRecord, Rejection> {
        lifecycle::update(draft, container, |record| {
            let mut copies = record.copies.iter_mut();
            let copy =
                copies.find(|copy| matches!(copy.state, CopyState::Planned { run, .. } if run == self.id))?;
            copy.state = state;
            Some(record.clone())
        })
    }

    fn check_index(
        &self,
        generation: Generation,
        index_block: BlockAddress,
        end_of_data: BlockAddress,
    ) -> Result<(), Rejection> {
        if generation <= self.tape.generation {
            return Err(self.malformed("the index's generation must be higher than the tape's last"));
        }
        if index_block < self.tape.end_of_data || end_of_data <= index_block {
            return Err(
                self.malformed("the index must stand behind the recorded end of data and before the new one")
            );
        }
        Ok(())
    }

    /// Records which changes stand on the tape now.
    fn record_segments(&mut self, draft: &mut Draft<'_>, changes: &[(u64, u64)]) -> Result<(), Rejection> {
        limit("ranges of changes before one index", changes.len(), SEGMENTS_MAX)?;
        let next = draft.meta()?.next_change;
        let mut end = 0;
        for &(first, last) in changes {
            if first <= end || last < first || last >= next {
                return Err(self.malformed("the ranges of changes overlap, fall, or are not in the log"));
            }
            end = last;
            let key = key::segment(self.run.vid, first);
            let known: Option<u64> = draft.view().get(Table::Segment, &key)?;
            draft.put(Table::Segment, key, &last.max(known.unwrap_or(0)));
        }
        self.tape.changes_through = self.tape.changes_through.max(end);
        Ok(())
    }

    fn end(
        &mut self,
        draft: &mut Draft<'_>,
        end: RunEnd,
        state: TapeState,
        why: &str,
    ) -> Result<(), Rejection> {
        if !matches!(state, TapeState::Active | TapeState::Full | TapeState::ReadOnly | TapeState::Suspect) {
            return Err(self.malformed("after a run a tape is active, full, read-only or suspect"));
        }
        let queued = draft.tallied(Counter::Queued(self.run.tape_pool))?.files;
        for number in self.run.committed..self.run.planned {
            let item = self.item(draft, number)?;
            let record = self.change_copy(draft, item.container, CopyState::Queued)?;
            copy::put_queued(draft, self.run.tape_pool, item.container, &record)?;
        }
        let again = draft.tallied(Counter::Queued(self.run.tape_pool))?.files - queued;
        let left = u64::from(self.run.planned.saturating_sub(self.run.committed));
        assert_eq!(again, left, "what the run did not commit waits again");
        // What was set aside meanwhile is not lifted back, what an operator disabled stays so whatever became
        // of it, and what is to be repacked is so unless it is suspect now.
        let stays = match self.tape.state {
            TapeState::Disabled => true,
            TapeState::Repacking => state != TapeState::Suspect,
            TapeState::Active => false,
            _ => state == TapeState::Active,
        };
        if !stays {
            self.tape.enter(state, reason(why));
        }
        self.tape.run = None;
        self.run.ended = Some((draft.at, end));
        draft.remove(Table::OpenRun, key::run(self.id));
        Ok(())
    }
}

/// Lifts all copies that a new index covers: what was committed behind the index before it, whichever run
/// wrote it.
pub(super) fn cover(draft: &mut Draft<'_>, vid: Vid, from: BlockAddress) -> Result<(), Rejection> {
    let mut from = from;
    loop {
        let page = draft.view().content(vid, from, PAGE)?;
        for (block, container) in &page {
            let is_safe = lifecycle::update(draft, *container, |record| {
                for copy in &mut record.copies {
                    let is_here = copy.state.place() == Some((vid, *block));
                    if is_here && matches!(copy.state, CopyState::Flushed { .. }) {
                        copy.state = CopyState::Indexed { vid, block: *block };
                    }
                }
                Some(record.is_safe())
            })?;
            if is_safe {
                copy::made_safe(draft, *container)?;
            }
        }
        match page.last() {
            Some((last, _)) if page.len() == PAGE => {
                assert!(*last >= from, "each page begins behind the one before, so that they end");
                from = BlockAddress(last.0.saturating_add(1));
            }
            _ => return Ok(()),
        }
    }
}
