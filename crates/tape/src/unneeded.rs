//! Containers of which no file has a name any more are not written: what of them is queued is dropped when a
//! session comes to it, and before that by a walk through the queues, which nobody waits for in vain then.

use base::{ContainerId, TapePoolId, Vid};
use catalogue::{Command, ContainerCopy, ContainerRecord, CopyState};

use crate::room::Tape;
use ground::ArchiveError;

/// Queued containers that one turn of the sweeper looks at: some ten milliseconds. It comes back within 10 s.
const TURN_ROWS: usize = 4_096;
/// Of these, so many are read together.
const PAGE: usize = 512;

/// How far the queues were looked through.
#[derive(Default)]
pub struct QueueWalk {
    /// The pool that is looked at, and the last container that was.
    at: Option<(TapePoolId, Option<ContainerId>)>,
    /// The newest change when the walk began: while none has come since, the next one finds nothing.
    began: Option<u64>,
}

impl Tape {
    /// Drops what is queued of a container that nobody needs any more. Gives whether there was anything.
    /// Only while no drive plans: what it has just chosen must not go.
    pub(crate) fn drop_if_unneeded(
        &self,
        container: ContainerId,
        record: &ContainerRecord,
    ) -> Result<bool, ArchiveError> {
        let is_queued = |copy: &ContainerCopy| copy.state == CopyState::Queued;
        // A tape that was not looked at since a restore may have it; what is being sealed has no copy yet.
        if !record.is_unneeded() || !record.copies.iter().any(is_queued) || self.settled.waits_for_tapes() {
            return Ok(false);
        }
        let is_nowhere = |copy: &ContainerCopy| is_queued(copy) && copy.source.is_none();
        if record.copies.iter().all(is_nowhere) {
            if let Some(image) = record.image {
                self.execute_on_container(Command::ImageLost { container, image })?;
            }
            return self.dissolve_unneeded(container);
        }
        let leaves: Vec<Vid> = {
            let queued = record.copies.iter().filter(|copy| is_queued(copy));
            queued.filter_map(|copy| Some(copy.source?.vid)).collect()
        };
        self.execute_on_container(Command::DropUnneededCopies { container })?;
        tracing::info!(%container, "a container whose files were all removed goes to no further tape");
        self.drop_mend(container)?;
        self.own.resting.forget(&[container]);
        self.sweep.ring();
        self.notifier.backlog_changed();
        // The repack that took it to be on its way drops it now.
        leaves.into_iter().try_for_each(|vid| self.repack_again(container, vid))?;
        Ok(true)
    }

    /// Looks through a part of the queues for containers that nobody needs any more.
    ///
    /// # Errors
    /// If the catalogue cannot be read or written; what is left is looked at again.
    pub fn drop_unneeded(&self, walk: &mut QueueWalk) -> Result<(), ArchiveError> {
        if self.settled.waits_for_tapes() {
            return Ok(());
        }
        let mut looked_at = 0;
        while looked_at < TURN_ROWS && !self.stopping() {
            let Some((pool, after)) = self.next_of(walk)? else { return Ok(()) };
            let (last, rows, unneeded) = self.read(|view| {
                let page = view.queue(pool, after, PAGE)?;
                let mut unneeded = Vec::new();
                for (container, _) in &page {
                    if view.container(*container)?.is_some_and(|record| record.is_unneeded()) {
                        unneeded.push(*container);
                    }
                }
                Ok((page.last().map(|(container, _)| *container), page.len(), unneeded))
            })?;
            for container in unneeded {
                let _planning = self.planning();
                if let Some(record) = self.read(|view| view.container(container))? {
                    self.drop_if_unneeded(container, &record)?;
                }
            }
            looked_at += rows.max(1);
            walk.at = match last {
                Some(last) => Some((pool, Some(last))),
                None => self.pool_behind(pool).map(|pool| (pool, None)),
            };
        }
        Ok(())
    }

    /// Where the walk goes on; `None`: it is at rest.
    fn next_of(
        &self,
        walk: &mut QueueWalk,
    ) -> Result<Option<(TapePoolId, Option<ContainerId>)>, ArchiveError> {
        if walk.at.is_none() {
            let newest = self.read(|view| view.last_change())?;
            if walk.began == Some(newest) {
                return Ok(None);
            }
            walk.began = Some(newest);
            walk.at = self.classes.tape_pools().keys().next().map(|pool| (*pool, None));
        }
        Ok(walk.at)
    }

    fn pool_behind(&self, pool: TapePoolId) -> Option<TapePoolId> {
        self.classes.tape_pools().keys().copied().find(|other| *other > pool)
    }
}
