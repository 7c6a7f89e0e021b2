//! Why repacks, and repairs of damaged copies, are not done yet.

use std::collections::BTreeMap;
use std::fmt;

use base::{BlockAddress, ByteCount, ContainerId, Vid};
use catalogue::{ContainerRecord, CopyState, ReadError, Tally, TapeRecord, TapeState};
use scheduler::Reason;

use crate::reasons::Waiting;
use crate::room::Tape;
use crate::tapes::state_told;

/// Containers of a repack of which it is asked what they wait for.
const LOOKED_AT_MAX: usize = 32;

/// What containers that repacks take off tapes wait for.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RepackWait {
    /// What is to be done next with the first of them.
    pub step: RepackStep,
    /// Why it is not done yet.
    pub reason: Reason,
}

/// What is done with a container that is taken off a tape.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum RepackStep {
    /// The session that is open on the tape is to be closed.
    Close,
    /// A tape is to be found that can give its bytes.
    Find,
    /// Its bytes are to be read from this tape.
    Read(Vid),
    /// It is to be written to a tape of this pool.
    Write(String),
    /// What was written to this tape is to be read back.
    ReadBack(Vid),
}

impl fmt::Display for RepackWait {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.step {
            RepackStep::Close => write!(f, "for the session that is open on the tape")?,
            RepackStep::Find => write!(f, "for a tape that can give them")?,
            RepackStep::Read(vid) => write!(f, "to be read from tape {vid}")?,
            RepackStep::Write(pool) => write!(f, "to be written to tapes of {pool}")?,
            RepackStep::ReadBack(vid) => write!(f, "to be read back from tape {vid}")?,
        }
        write!(f, ": {}", self.reason)
    }
}

/// Whether a tape is being repacked, or goes on with that when it is not suspect any more.
pub(crate) fn is_repacked(record: &TapeRecord) -> bool {
    record.state == TapeState::Repacking || record.before_failure() == Some(TapeState::Repacking)
}

impl Tape {
    /// What a repack waits for, if anything is left to be done of it.
    pub(crate) fn repack_waits_for(&self, vid: Vid) -> Result<Option<RepackWait>, ReadError> {
        let Some(record) = self.catalogue.read(|view| view.tape(vid))? else { return Ok(None) };
        if !is_repacked(&record) || record.containers == 0 && record.run.is_none() {
            return Ok(None);
        }
        if record.state == TapeState::Suspect {
            let reason = self.why_suspect(vid, &record)?;
            return Ok(Some(RepackWait { step: RepackStep::Find, reason }));
        }
        if record.run.is_some() {
            let step = RepackStep::Close;
            return Ok(self.why_on(vid)?.map(|reason| RepackWait { step, reason }));
        }
        let mut under_way: Vec<ContainerId> = {
            let maintenance = self.maintenance();
            let repack = maintenance.repacks.get(&vid);
            let all = || repack.iter().flat_map(|repack| repack.under_way.keys());
            // What is read already first: the others may wait for the room that it holds.
            let is_read = |container: &&ContainerId| !maintenance.mends.contains_key(*container);
            let others = all().filter(|container| !is_read(container));
            all().filter(is_read).chain(others).take(LOOKED_AT_MAX).copied().collect()
        };
        if under_way.is_empty() {
            // It takes nothing up before others are read: it waits for what they wait for.
            let maintenance = self.maintenance();
            if maintenance.put_off.repacks.contains(&vid) {
                under_way.extend(maintenance.mends.keys().take(LOOKED_AT_MAX));
            }
        }
        if under_way.is_empty() {
            let content = self.catalogue.read(|view| view.content(vid, BlockAddress(0), LOOKED_AT_MAX))?;
            under_way.extend(content.into_iter().map(|(_, container)| container));
        }
        let (mut first, mut no_room) = (None, None);
        for container in under_way {
            let Some(wait) = self.container_waits_for(vid, container)? else { continue };
            // Room comes when others are written, if those are: their reason is the nearer one.
            if matches!(wait.reason, Reason::NoRoomForReads { .. }) {
                no_room.get_or_insert(wait);
                continue;
            }
            // As long as something goes on it is not stuck.
            if !wait.reason.needs_an_operator() {
                return Ok(Some(wait));
            }
            first.get_or_insert(wait);
        }
        Ok(first.or(no_room))
    }

    /// What is done on a tape that nobody waits for, or why it is not.
    fn why_on(&self, vid: Vid) -> Result<Option<Reason>, ReadError> {
        let maintenance =
            self.reason(Waiting::Maintenance(vid))?.filter(|reason| *reason != Reason::NothingWaits);
        match maintenance {
            Some(reason) => Ok(Some(reason)),
            None => self.reason(Waiting::Tape(vid)),
        }
    }

    fn why_suspect(&self, vid: Vid, record: &TapeRecord) -> Result<Reason, ReadError> {
        let tried = self.reason(Waiting::Maintenance(vid))?;
        if let Some(reason) = tried.filter(|reason| !reason.drives().is_empty()) {
            return Ok(reason);
        }
        let why = state_told(vid, record);
        let retry = record.history.and_then(|history| history.retry);
        Ok(match retry {
            Some(until) => Reason::Resting { until, cause: why },
            None => Reason::TapeSetAside { vid, reason: why },
        })
    }

    /// What a container waits for that stands on a tape under repack.
    fn container_waits_for(&self, vid: Vid, container: ContainerId) -> Result<Option<RepackWait>, ReadError> {
        let Some(record) = self.catalogue.read(|view| view.container(container))? else { return Ok(None) };
        if let Some(wait) = self.bytes_wait_for(container, &record)? {
            return Ok(Some(wait));
        }
        let copy = record.copies.iter().find(|copy| copy.places().any(|(on, _)| on == vid));
        let Some(copy) = copy else { return Ok(None) };
        Ok(match copy.state {
            CopyState::Queued => {
                let reason = self.reason(Waiting::Copy(container, record.length, copy.tape_pool))?;
                let pool = self.classes.tape_pool_name(copy.tape_pool);
                reason.map(|reason| RepackWait { step: RepackStep::Write(pool), reason })
            }
            CopyState::Planned { vid: on, .. } | CopyState::Flushed { vid: on, .. } if on != vid => {
                let reason = match self.reason(Waiting::Planned(on))? {
                    Some(reason) => Some(reason),
                    None => self.reason(Waiting::Tape(on))?,
                };
                let pool = self.classes.tape_pool_name(copy.tape_pool);
                reason.map(|reason| RepackWait { step: RepackStep::Write(pool), reason })
            }
            CopyState::Indexed { vid: on, .. } if copy.source.is_some() => {
                let reason = self.why_on(on)?;
                reason.map(|reason| RepackWait { step: RepackStep::ReadBack(on), reason })
            }
            // It was not taken up, or not with success.
            _ => {
                let reason = self.why_no_tape_gives(container, &record)?;
                Some(RepackWait { step: RepackStep::Find, reason })
            }
        })
    }

    /// What a container waits for whose bytes are to come from tape.
    pub(crate) fn bytes_wait_for(
        &self,
        container: ContainerId,
        record: &ContainerRecord,
    ) -> Result<Option<RepackWait>, ReadError> {
        let from = {
            let maintenance = self.maintenance();
            if !maintenance.mends.contains_key(&container) {
                return Ok(None);
            }
            maintenance.tape_that_gives(container)
        };
        let Some(from) = from else {
            let reason = self.why_no_tape_gives(container, record)?;
            return Ok(Some(RepackWait { step: RepackStep::Find, reason }));
        };
        let step = RepackStep::Read(from);
        if let Some(reason) = self.why_read_rests(container) {
            return Ok(Some(RepackWait { step, reason }));
        }
        if let Some(reason) = self.no_room_for_read(record.length) {
            return Ok(Some(RepackWait { step, reason }));
        }
        Ok(self.why_on(from)?.map(|reason| RepackWait { step, reason }))
    }

    /// Why none of the tapes that have a container can give it.
    fn why_no_tape_gives(
        &self,
        container: ContainerId,
        record: &ContainerRecord,
    ) -> Result<Reason, ReadError> {
        let damaged =
            self.maintenance().mends.get(&container).map(|mend| mend.damaged.clone()).unwrap_or_default();
        let mut tapes = Vec::new();
        for (vid, block) in record.places() {
            let summary = self.catalogue.read(|view| view.tape(vid))?;
            let summary = summary.map(|record| self.summary_of(vid, &record));
            let why = match (damaged.get(&(vid, block)), summary) {
                (Some(how), _) => format!("damaged: {how}"),
                (None, Some(summary)) if !summary.readable => summary.reason,
                (None, _) => "it could not be read there".to_owned(),
            };
            tapes.push((vid, why));
        }
        Ok(Reason::NoReadableCopy { tapes })
    }

    /// The containers that are read from tapes to write damaged copies anew, and that no repack wants, by id.
    fn repaired(&self) -> BTreeMap<ContainerId, ByteCount> {
        let maintenance = self.maintenance();
        let mends = maintenance.mends.iter().filter(|(_, mend)| mend.repack.is_empty());
        let read = mends.filter(|(container, _)| maintenance.tape_that_gives(**container).is_some());
        read.map(|(container, mend)| (*container, mend.length())).collect()
    }

    /// How many those are.
    pub(crate) fn repairs(&self) -> Tally {
        let lengths = self.repaired();
        let bytes = lengths.values().fold(0u64, |sum, length| sum.saturating_add(length.0));
        Tally { files: lengths.len() as u64, bytes: ByteCount(bytes) }
    }

    /// What they wait for.
    pub(crate) fn why_repairs_wait(&self) -> Result<Option<Reason>, ReadError> {
        let mut first = None;
        for container in self.repaired().into_keys().take(LOOKED_AT_MAX) {
            let Some(record) = self.catalogue.read(|view| view.container(container))? else { continue };
            let Some(wait) = self.bytes_wait_for(container, &record)? else { continue };
            if !wait.reason.needs_an_operator() {
                return Ok(Some(wait.reason));
            }
            first.get_or_insert(wait.reason);
        }
        Ok(first)
    }
}
