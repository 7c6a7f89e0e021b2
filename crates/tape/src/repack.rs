//! Repack: every container of a tape goes to other tapes of its pool, is read back there, and only then the
//! tape is rid of it.

use base::{BlockAddress, ByteCount, ContainerId, Vid};
use catalogue::{Command, ContainerRecord, CopyState, ReadError, Requeue, TapeState, View, typed};

use crate::maintenance::Repack;
use crate::mends::FromTape;
use crate::room::Tape;
use crate::sessions::has_skeleton;
use ground::ArchiveError;

/// Containers looked up together.
const CONTENT_PAGE: usize = 256;
/// Containers of one tape that are on their way at once.
const UNDER_WAY_MAX: usize = 4_096;
/// Flushes' worth of bytes that are on their way at once; as much may stand in the pool as images.
const UNDER_WAY_FLUSHES: u64 = 4;

/// Copies that are kept with one commit when a repack is called off. No drive plans meanwhile, so it is as
/// many as a few tens of milliseconds are enough for; and far fewer than the store takes at once.
const KEEP_GROUP: usize = 1_024;
const _: () = assert!(KEEP_GROUP + CONTENT_PAGE <= store::EXECUTE_ALL_MAX);

/// What was done about one container.
enum Taken {
    /// It is on its way.
    UnderWay,
    /// Nobody needs it: it is gone.
    Dropped,
    /// No tape can give its bytes now.
    Stuck,
    /// Too many containers are read from tapes: it is taken up when there are fewer.
    PutOff,
    /// It is not on the tape any more.
    Gone,
}

impl From<FromTape> for Taken {
    fn from(asked: FromTape) -> Self {
        match asked {
            FromTape::Asked => Taken::UnderWay,
            FromTape::Later => Taken::PutOff,
            FromTape::Nowhere => Taken::Stuck,
        }
    }
}

impl Tape {
    /// Begins, or goes on with, the repack of a tape in that state.
    pub(crate) fn repack_begin(&self, vid: Vid) -> Result<(), ArchiveError> {
        self.maintenance().repacks.insert(vid, Repack::default());
        self.repack_continue(vid)
    }

    /// A run of a tape has ended, or it is not suspect any more: if a repack was asked for before, it begins.
    pub(crate) fn repack_after_run(&self, vid: Vid) {
        let is_asked = self.tape(vid).is_ok_and(|record| record.state == TapeState::Repacking);
        if is_asked && let Err(error) = self.repack_begin(vid) {
            tracing::error!(%vid, %error, "the repack of a tape begins with the next start");
        }
    }

    /// Takes up containers of the tape as long as not too many are on their way. Of a tape that is still
    /// being written none are: [`Tape::repack_after_run`] begins then.
    pub(crate) fn repack_continue(&self, vid: Vid) -> Result<(), ArchiveError> {
        let limit = self.settings.tape.flush_bytes.0.saturating_mul(UNDER_WAY_FLUSHES);
        loop {
            let record = self.tape(vid)?;
            if record.state != TapeState::Repacking {
                self.maintenance().repacks.remove(&vid);
                return Ok(());
            }
            if record.run.is_some() {
                return Ok(());
            }
            let from = {
                let maintenance = self.maintenance();
                let Some(repack) = maintenance.repacks.get(&vid) else { return Ok(()) };
                if repack.bytes_under_way().0 >= limit || repack.under_way.len() >= UNDER_WAY_MAX {
                    return Ok(());
                }
                repack.from
            };
            let page = self.read(|view| view.content(vid, from, CONTENT_PAGE))?;
            let Some((last, _)) = page.last() else {
                if self.repack_pass_ended(vid)? {
                    continue;
                }
                return Ok(());
            };
            let next = BlockAddress(last.0 + 1);
            for (block, container) in page {
                // What was called off takes nothing more off the tape: what stays is decided now.
                if !self.maintenance().repacks.contains_key(&vid) {
                    self.notifier.backlog_changed();
                    return Ok(());
                }
                if !self.repack_one(vid, block, container)? {
                    // What is behind it waits too: it goes on with this one.
                    self.notifier.backlog_changed();
                    return Ok(());
                }
            }
            if let Some(repack) = self.maintenance().repacks.get_mut(&vid) {
                repack.from = next;
            }
            self.notifier.backlog_changed();
        }
    }

    /// Whether another pass over the content is worth while.
    fn repack_pass_ended(&self, vid: Vid) -> Result<bool, ArchiveError> {
        let left = !self.read(|view| view.content(vid, BlockAddress(0), 1))?.is_empty();
        let why_not = if left { None } else { self.why_not_reclaimed(vid)? };
        let mut maintenance = self.maintenance();
        let Some(repack) = maintenance.repacks.get_mut(&vid) else { return Ok(false) };
        if !repack.under_way.is_empty() {
            return Ok(false);
        }
        if left && std::mem::take(&mut repack.moved) {
            repack.from = BlockAddress(0);
            repack.progress.stuck = 0;
            return Ok(true);
        }
        repack.progress.done = !left;
        match why_not {
            _ if left => {}
            None => tracing::info!(%vid, "the tape is empty: it can be reclaimed"),
            Some(why) => tracing::info!(%vid, %why, "the tape is empty; it cannot be reclaimed yet"),
        }
        Ok(false)
    }

    /// `false`: nothing more is taken up now.
    fn repack_one(
        &self,
        vid: Vid,
        block: BlockAddress,
        container: ContainerId,
    ) -> Result<bool, ArchiveError> {
        let Some(record) = self.read(|view| view.container(container))? else { return Ok(true) };
        // On its way before anything is done, so that what is done soon finds it.
        if let Some(repack) = self.maintenance().repacks.get_mut(&vid) {
            repack.under_way.insert(container, record.length);
        }
        let taken = self.take_off(vid, block, container, &record);
        let mut maintenance = self.maintenance();
        if matches!(taken, Ok(Taken::PutOff)) {
            maintenance.put_off.repacks.insert(vid);
        }
        let Some(repack) = maintenance.repacks.get_mut(&vid) else { return taken.map(|_| true) };
        match taken {
            Ok(Taken::UnderWay) => return Ok(true),
            Ok(Taken::PutOff) => {
                repack.under_way.remove(&container);
                // What is before it is not counted again.
                repack.from = block;
                return Ok(false);
            }
            Ok(Taken::Dropped) => {
                repack.progress.dropped += 1;
                repack.moved = true;
            }
            Ok(Taken::Stuck) => repack.progress.stuck += 1,
            Ok(Taken::Gone) => repack.moved = true,
            // Nothing is on its way: a later pass is not to wait for it.
            Err(_) => {}
        }
        repack.under_way.remove(&container);
        taken.map(|_| true)
    }

    fn take_off(
        &self,
        vid: Vid,
        block: BlockAddress,
        container: ContainerId,
        record: &ContainerRecord,
    ) -> Result<Taken, ArchiveError> {
        let copy = record.copies.iter().find(|copy| copy.places().any(|place| place == (vid, block)));
        let Some(copy) = copy else { return Ok(Taken::Gone) };
        let is_source = copy.source.is_some_and(|source| (source.vid, source.block) == (vid, block));
        match copy.state {
            CopyState::Indexed { vid: on, .. } if copy.source.is_some() => {
                self.set_tasks(on, |tasks| tasks.read_back.insert(container));
                return Ok(Taken::UnderWay);
            }
            CopyState::Queued if is_source && !self.has_bytes(container, record)? => {}
            _ if is_source => return Ok(Taken::UnderWay),
            CopyState::Flushed { .. } if !record.is_empty() => {
                return self.take_off_flushed(vid, block, container, record);
            }
            _ => {}
        }
        if record.is_empty() || self.has_bytes(container, record)? {
            return Ok(match self.ask_on_container(typed::RequeueCopy { container, vid })? {
                Some(Requeue::Queued) => Taken::UnderWay,
                Some(Requeue::Dropped) => Taken::Dropped,
                Some(Requeue::NotThere) | None => Taken::Gone,
            });
        }
        Ok(self.want_bytes(container, |mend| mend.repack.extend([vid]))?.into())
    }

    /// No index covers the copy, so its bytes are in the pool, from where it is written again. If they are
    /// not after all (the pool lost them, or a restored catalogue is older than the index), this place may be
    /// the only one: then it goes only when another tape has given the bytes.
    fn take_off_flushed(
        &self,
        vid: Vid,
        block: BlockAddress,
        container: ContainerId,
        record: &ContainerRecord,
    ) -> Result<Taken, ArchiveError> {
        const WHY: &str = "its tape is being repacked";
        if self.has_bytes(container, record)?
            && has_skeleton(self, record)
            && self.drop_spare_place(container, vid, block, WHY)?
        {
            return Ok(Taken::Gone);
        }
        let asked = self.want_bytes(container, |mend| {
            mend.damaged.insert((vid, block), WHY.to_owned());
        })?;
        Ok(asked.into())
    }

    /// Something became of a container: repacks that wait for it go on.
    pub(crate) fn repack_progressed(&self, container: ContainerId) -> Result<(), ArchiveError> {
        let tapes: Vec<Vid> = {
            let maintenance = self.maintenance();
            let waits = |repack: &Repack| repack.under_way.contains_key(&container);
            maintenance.repacks.iter().filter(|(_, repack)| waits(repack)).map(|(vid, _)| *vid).collect()
        };
        for vid in tapes {
            let record = self.read(|view| view.container(container))?;
            if record.is_some_and(|record| record.places().any(|(on, _)| on == vid)) {
                continue;
            }
            let more = {
                let mut maintenance = self.maintenance();
                let Some(repack) = maintenance.repacks.get_mut(&vid) else { continue };
                let bytes = repack.under_way.remove(&container).unwrap_or_default();
                repack.moved = true;
                repack.progress.moved += 1;
                repack.progress.bytes = ByteCount(repack.progress.bytes.0 + bytes.0);
                repack.under_way.len() < UNDER_WAY_MAX / 2
            };
            if more {
                self.repack_continue(vid)?;
            }
            self.post_tape(vid);
        }
        self.ask_again()
    }

    /// A container that stands on a tape under repack can be taken off now, which was not possible before.
    pub(crate) fn repack_again(&self, container: ContainerId, vid: Vid) -> Result<(), ArchiveError> {
        let waited = self.maintenance().repacks.get_mut(&vid).is_some_and(|repack| {
            let waited = repack.under_way.remove(&container).is_some();
            repack.moved |= waited;
            waited
        });
        if waited { self.repack_continue(vid) } else { Ok(()) }
    }

    /// An operator has given a tape back to use: copies that a repack was to take off it, and that are not on
    /// their way to another tape, stay where they stand, and nothing is read any more for the repack alone.
    /// Else each is found only when a drive plans to write this tape, with a commit of its own. A tape that
    /// is to be repacked, is out of use or is in doubt keeps nothing.
    pub(crate) fn keep_what_was_to_leave(&self, vid: Vid) -> Result<(), ArchiveError> {
        let record = self.tape(vid)?;
        let is_used = matches!(record.state, TapeState::Active | TapeState::ReadOnly);
        if !is_used || record.is_doubted() {
            return Ok(());
        }
        let (mut from, mut group) = (BlockAddress(0), Vec::new());
        loop {
            let (next, page) = self.read(|view| leaving(view, vid, from))?;
            group.extend(page);
            if group.len() >= KEEP_GROUP || next.is_none() {
                self.keep_copies(vid, &std::mem::take(&mut group))?;
            }
            let Some(next) = next else { break };
            from = next;
        }
        self.call_off_reads_of_repack(vid)?;
        self.notifier.backlog_changed();
        Ok(())
    }

    /// The repack of a tape was called off: nothing is read any more for it alone.
    pub(crate) fn call_off_reads_of_repack(&self, vid: Vid) -> Result<(), ArchiveError> {
        let asked: Vec<ContainerId> = {
            let maintenance = self.maintenance();
            maintenance
                .mends
                .iter()
                .filter(|(_, mend)| mend.repack.contains(&vid))
                .map(|(id, _)| *id)
                .collect()
        };
        self.drop_mends_of_repack(vid, &asked)
    }

    fn keep_copies(&self, vid: Vid, containers: &[ContainerId]) -> Result<(), ArchiveError> {
        if containers.is_empty() {
            return Ok(());
        }
        let count = containers.len();
        tracing::info!(%vid, count, "copies that were to leave their tape stay, as the tape does");
        let keep = |container: &ContainerId| Command::KeepCopy { container: *container, vid };
        {
            // Not while a drive plans: what it has just chosen must still be queued.
            let _planning = self.planning();
            self.execute_on_containers(containers.iter().map(keep).collect())?;
        }
        self.drop_mends_of_repack(vid, containers)?;
        // If another repack was asked for meanwhile, it took these to be on their way.
        containers.iter().try_for_each(|container| self.repack_again(*container, vid))
    }

    /// No tape can give the bytes of a container: its repack goes on with the others.
    pub(crate) fn repack_stuck(&self, container: ContainerId) -> Result<(), ArchiveError> {
        let mut tapes = Vec::new();
        for (vid, repack) in &mut self.maintenance().repacks {
            if repack.under_way.remove(&container).is_some() {
                repack.progress.stuck += 1;
                tapes.push(*vid);
            }
        }
        tapes.into_iter().try_for_each(|vid| self.repack_continue(vid))?;
        self.ask_again()
    }
}

/// The containers with copies that are leaving a tape, of the next ones that stand there, and where to go on.
fn leaving(
    view: &View<'_>,
    vid: Vid,
    from: BlockAddress,
) -> Result<(Option<BlockAddress>, Vec<ContainerId>), ReadError> {
    let page = view.content(vid, from, CONTENT_PAGE)?;
    let next = page.last().map(|(last, _)| BlockAddress(last.0 + 1));
    let mut leaving = Vec::new();
    for (_, container) in page {
        let record = view.container(container)?;
        if record.is_some_and(|record| record.copies.iter().any(|copy| copy.is_leaving(vid))) {
            leaving.push(container);
        }
    }
    Ok((next, leaving))
}
