//! This host cannot write to the tapes of a library, whatever the tape and the drive: a file system behind a
//! virtual one that is full, a catalogue that takes nothing. No partner is to blame, so writing rests as a
//! whole: all other tapes and drives would fail alike, and each would cost a mount and a scratch tape.

use std::collections::BTreeSet;

use base::{FailureCause, LibraryId, TapePoolId, Timestamp, Vid};
use session::back_off;

use super::HOST_REST_MAX;
use crate::scheduler::{Rest, Scheduler};
use crate::{DriveName, DriveState, Failure, Purpose, Reason, SessionEnd};

/// Writing in a library failed for this host, and no session has written there since.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct HostRest {
    /// Rests so far: the next one is twice as long.
    rests: u32,
    /// When it failed last.
    failed: Timestamp,
    /// When it is tried again.
    pub(crate) until: Timestamp,
    /// It has rested for long enough: one session tries.
    is_over: bool,
    cause: String,
}

impl Scheduler {
    /// A mount or a session failed, and the drive is still in that state.
    pub(crate) fn note_host(&mut self, drive: &DriveName, vid: Vid, failure: &Failure, now: Timestamp) {
        if failure.cause != Some(FailureCause::Host) {
            return;
        }
        let reads = matches!(
            self.state(drive),
            Some(DriveState::Recalling { .. } | DriveState::Mounting { purpose: Purpose::Recall, .. })
        );
        if reads {
            self.rest_from_all(self.library_of(drive), vid, &failure.reason, now);
        } else {
            // Maintenance writes too: what a session left is taken over at its mount.
            self.rest_writing(self.library_of(drive), &failure.reason, now);
        }
    }

    fn rest_writing(&mut self, library: LibraryId, cause: &str, now: Timestamp) {
        let retry_delay = self.policy.retry_delay;
        let rest = self.host_rests.entry(library).or_insert_with(|| HostRest {
            rests: 0,
            failed: now,
            until: now,
            is_over: true,
            cause: String::new(),
        });
        (rest.failed, rest.cause) = (now, cause.to_owned());
        // What was under way when it failed first says nothing new.
        if rest.is_over {
            rest.until = now.plus(back_off(retry_delay, rest.rests, HOST_REST_MAX));
            rest.rests = rest.rests.saturating_add(1);
            rest.is_over = false;
        }
    }

    /// Reading goes on: what failed may lie in what the mount of this tape had to write. So the tape rests,
    /// from all drives, and nothing else.
    fn rest_from_all(&mut self, library: LibraryId, vid: Vid, cause: &str, now: Timestamp) {
        let before = self.blame.host_failures.entry(vid).or_default();
        let until = now.plus(back_off(self.policy.retry_delay, *before, HOST_REST_MAX));
        *before = before.saturating_add(1);
        let drives: Vec<DriveName> =
            self.drives.keys().filter(|name| self.library_of(name) == library).cloned().collect();
        for drive in drives {
            self.blame.of_host.insert((vid, drive.clone()));
            self.resting.insert((vid, drive), Rest { until, cause: cause.to_owned(), idle_of: None });
        }
    }

    /// A session has ended, and the drive is still in that state. Only one that has written something since
    /// shows that this host can: one that ended well may have found nothing to write, and what takes over a
    /// torn end finds the room that the torn end took.
    pub(crate) fn host_proved(&mut self, drive: &DriveName, end: &SessionEnd) {
        let Some(&DriveState::Migrating { since, .. }) = self.state(drive) else { return };
        let has_written = self.drives.get(drive).is_some_and(|drive| drive.progress);
        let library = self.library_of(drive);
        if has_written
            && !matches!(end, SessionEnd::Failed(_))
            && self.host_rests.get(&library).is_some_and(|rest| rest.failed <= since)
        {
            self.host_rests.remove(&library);
        }
    }

    /// Time has passed: writing that has rested for long enough is tried. What was not tried for long after
    /// that is forgotten: nothing was to be written.
    pub(crate) fn end_host_rests(&mut self, now: Timestamp) {
        self.host_rests.retain(|_, rest| rest.until.plus(HOST_REST_MAX) > now);
        self.host_rests.values_mut().for_each(|rest| rest.is_over |= rest.until <= now);
    }

    /// An operator wants everything written: it is tried at once.
    pub(crate) fn try_host_now(&mut self, now: Timestamp) {
        for rest in self.host_rests.values_mut() {
            (rest.is_over, rest.until) = (true, rest.until.min(now));
        }
    }

    /// This host can do something again.
    pub(crate) fn end_rests_of_host(&mut self) {
        self.host_rests.clear();
        self.blame.host_failures.clear();
        for pair in std::mem::take(&mut self.blame.of_host) {
            self.resting.remove(&pair);
        }
    }

    /// Whether one more drive of this library may be used to write: after the rest one tries.
    pub(crate) fn host_lets_write(&self, library: LibraryId) -> bool {
        let Some(rest) = self.host_rests.get(&library) else { return true };
        let tries = |state: &DriveState| match state {
            DriveState::Mounting { purpose: Purpose::Migration(_), .. } => true,
            // One that began before has not shown anything yet, and may last for hours.
            DriveState::Migrating { since, .. } => *since >= rest.failed,
            _ => false,
        };
        let mut drives = self.drives.iter().filter(|(name, _)| self.library_of(name) == library);
        rest.is_over && !drives.any(|(_, drive)| tries(&drive.state))
    }

    /// Whether maintenance may be begun in this library.
    pub(crate) fn host_lets_maintain(&self, library: LibraryId) -> bool {
        self.host_rests.get(&library).is_none_or(|rest| rest.is_over)
    }

    /// Whether a pool may be given a scratch tape in this library: while this host fails, only if none of its
    /// own tapes there, wherever it is, can be tried.
    pub(crate) fn host_lets_begin(&self, tape_pool: TapePoolId, library: LibraryId) -> bool {
        let can_be_tried = |(vid, tape): (&Vid, &crate::scheduler::Tape)| {
            let of = tape.summary.as_ref().and_then(|summary| summary.tape_pool);
            of == Some(tape_pool)
                && tape.library() == library
                && tape.is_writable()
                && !self.asides.contains_key(vid)
        };
        !self.host_rests.contains_key(&library) || !self.tapes.iter().any(can_be_tried)
    }

    /// Why this host keeps a library from being written, or maintenance there from being done.
    pub(crate) fn host_cannot_write(&self, library: LibraryId) -> Option<Reason> {
        let rest = self.host_rests.get(&library)?;
        Some(Reason::HostCannotWrite { cause: rest.cause.clone(), until: rest.until })
    }

    /// Why this host cannot write to the tapes of a pool, if it cannot in a library that has drives for it:
    /// also of what is not queued any more since it stands on a tape in part.
    #[must_use]
    pub fn why_host_cannot_write(&self, tape_pool: TapePoolId) -> Option<Reason> {
        let mut libraries: BTreeSet<LibraryId> = self.host_rests.keys().copied().collect();
        libraries
            .retain(|library| self.writes_in(tape_pool, *library) && self.libraries_up.contains_key(library));
        libraries.into_iter().find_map(|library| self.host_cannot_write(library))
    }

    /// The libraries to whose tapes this host cannot write, and why.
    pub fn hosts_failures(&self) -> impl Iterator<Item = (LibraryId, Reason)> {
        self.host_rests.keys().filter_map(|library| Some((*library, self.host_cannot_write(*library)?)))
    }
}
