//! Containers that are to be read from tape and of which the pool cannot give what it has already: an image,
//! or what was read of them so far. Each of them waits alone, and all else that is to be done on its tape
//! goes on.

use std::collections::BTreeMap;
use std::sync::TryLockError;

use base::{BlobId, ContainerId, Duration, Timestamp, Vid};
use blob::BlobFault;
use scheduler::{Event, Reason};
use session::{BACK_OFF_MAX, back_off};

use crate::maintenance::Maintenance;
use crate::room::Tape;
use ground::{ArchiveError, truncated};

/// Most bytes of a reason that are kept.
const REASON_MAX: usize = 512;

/// Containers that are left alone for a while, as long as they are to be read.
#[derive(Default, Debug)]
pub(crate) struct ReadRests(BTreeMap<ContainerId, ReadRest>);

#[derive(Debug)]
struct ReadRest {
    until: Timestamp,
    why: String,
    /// How often it failed: each time it rests twice as long.
    failures: u32,
    /// It may be read again, and was not yet.
    is_over: bool,
}

impl ReadRests {
    pub(crate) fn begin(&mut self, container: ContainerId, now: Timestamp, shortest: Duration, why: &str) {
        let failures = self.0.get(&container).map_or(0, |rest| rest.failures);
        let until = now.plus(back_off(shortest, failures, BACK_OFF_MAX));
        let rest =
            ReadRest { until, why: truncated(why, REASON_MAX), failures: failures + 1, is_over: false };
        self.0.insert(container, rest);
    }

    /// Whether a container is not to be read now.
    pub(crate) fn keeps(&self, container: ContainerId) -> bool {
        self.0.get(&container).is_some_and(|rest| !rest.is_over)
    }

    /// Time has passed. What is not to be read any more (`is_to_be_read`) is forgotten.
    fn look(&mut self, now: Timestamp, is_to_be_read: impl Fn(ContainerId) -> bool) {
        self.0.retain(|container, _| is_to_be_read(*container));
        self.0.values_mut().for_each(|rest| rest.is_over |= rest.until <= now);
    }

    /// Those that may be read again and were not yet.
    fn over(&self) -> impl Iterator<Item = ContainerId> {
        self.0.iter().filter(|(_, rest)| rest.is_over).map(|(container, _)| *container)
    }

    fn why(&self, container: ContainerId) -> Option<Reason> {
        let rest = self.0.get(&container).filter(|rest| !rest.is_over)?;
        Some(Reason::Resting { until: rest.until, cause: rest.why.clone() })
    }
}

/// The blob that could not be read, if that is why something failed.
pub(crate) fn unreadable(error: &ArchiveError) -> Option<BlobId> {
    match error {
        ArchiveError::Blob(error) => match error.fault {
            BlobFault::Unreadable(blob) => Some(blob),
            BlobFault::Full | BlobFault::NoPlace | BlobFault::Shortage | BlobFault::Other => None,
        },
        _ => None,
    }
}

impl Tape {
    /// What the pool has of a container that is to be read from tape cannot be read: it is given up if tapes
    /// have the bytes too, and the container is looked at again later.
    pub(crate) fn read_rests(
        &self,
        container: ContainerId,
        blob: BlobId,
        why: &str,
    ) -> Result<(), ArchiveError> {
        tracing::error!(%container, %blob, why, "what the pool has of a container cannot be read");
        let image = self.read(|view| view.container(container))?.and_then(|record| record.image);
        if let Some(image) = image.filter(|image| image.blob == blob) {
            self.drop_bad_image(container, image)?;
        }
        // Several damaged tapes together may have given it: it is dropped if no drive may bring it back.
        let may_be_dropped = self.upkeep.no_drive_may_come_back();
        let spool = {
            let mut maintenance = self.maintenance();
            let spool = maintenance.mends.get_mut(&container).and_then(|mend| {
                let spool = mend.spool.take_if(|spool| may_be_dropped && spool.blob.id == blob)?;
                // Without it, all tapes are to be read anew.
                mend.tried.clear();
                Some(spool)
            });
            maintenance.rests.begin(container, self.now(), self.settings.tape.retry_delay, why);
            self.tell_of_reads(&maintenance);
            spool
        };
        if let Some(spool) = spool
            && let Err(error) = self.blobs.remove(&spool.blob)
        {
            tracing::warn!(%container, %error, "an unused blob stays until the next start");
        }
        Ok(())
    }

    /// Why a container is not read from tape now, if that is since the pool could not give what it has of it.
    pub(crate) fn why_read_rests(&self, container: ContainerId) -> Option<Reason> {
        self.maintenance().rests.why(container)
    }

    /// The same of the first one that is to be read from a tape.
    pub(crate) fn why_reads_rest_on(&self, vid: Vid) -> Option<Reason> {
        let maintenance = self.maintenance();
        let tape = maintenance.tapes.get(&vid).filter(|_| maintenance.next_read(vid).is_none())?;
        tape.reads.iter().find_map(|container| maintenance.rests.why(*container))
    }

    /// Tapes of which containers are read that have rested. Told until they were read: what was posted while
    /// they rested may be heard after it.
    ///
    /// For the conductor, which waits for no lock under which others post: while one is held it looks again
    /// with its next turn.
    pub(crate) fn rested_reads(&self) -> Vec<Event> {
        let mut maintenance = match self.own.maintenance.try_lock() {
            Ok(maintenance) => maintenance,
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
            Err(TryLockError::WouldBlock) => return Vec::new(),
        };
        let Maintenance { rests, mends, .. } = &mut *maintenance;
        rests.look(self.now(), |container| mends.contains_key(&container));
        let due = |vid: &Vid| self.is_due(&maintenance, *vid);
        let tapes: Vec<Vid> =
            maintenance.rests.over().filter_map(|container| maintenance.tape_that_gives(container)).collect();
        tapes.into_iter().filter(due).map(|vid| Event::Maintain(vid, true)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_rest_is_twice_as_long_as_long_as_the_container_is_to_be_read() {
        let at = |seconds| Timestamp(0).plus(Duration::from_secs(seconds));
        let (one, other, delay) = (ContainerId(1), ContainerId(2), Duration::from_secs(60));
        let mut rests = ReadRests::default();
        rests.begin(one, at(0), delay, "bad");
        assert!(rests.keeps(one) && !rests.keeps(other));
        assert_eq!(rests.why(one), Some(Reason::Resting { until: at(60), cause: "bad".to_owned() }));
        rests.look(at(59), |_| true);
        assert_eq!((rests.keeps(one), rests.over().count()), (true, 0));
        rests.look(at(60), |_| true);
        assert_eq!((rests.keeps(one), rests.over().collect()), (false, vec![one]));
        assert_eq!(rests.why(one), None);
        rests.begin(one, at(60), delay, "bad");
        rests.look(at(179), |_| true);
        assert!(rests.keeps(one));
        rests.look(at(180), |_| true);
        assert!(!rests.keeps(one));
        rests.look(at(180), |_| false);
        rests.begin(one, at(180), delay, "bad");
        rests.look(at(240), |_| true);
        assert!(!rests.keeps(one), "it was read meanwhile, and begins anew");
    }
}
