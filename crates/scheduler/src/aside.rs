//! Tapes and drives that fail with several partners are set aside: what failed with all of them is at fault.

use std::collections::{BTreeMap, BTreeSet};

use base::{Duration, Timestamp, Vid};

use crate::scheduler::{Rest, Scheduler};
use crate::{Culprit, DriveName, Failure};

/// A tape with which sessions or mounts failed in so many different drives, and none went well between, is
/// set aside.
pub const TAPE_FAILURES_MAX: usize = 3;
/// A drive in which sessions or mounts failed with so many different tapes, and none went well between, is
/// set aside.
pub const DRIVE_FAILURES_MAX: usize = 3;
/// What is set aside rests for so many of the policy's `retry_delay` first, and twice as long each time it is
/// set aside again with nothing that went well between: a robot that jams looks like this too.
pub const ASIDE_RESTS: u32 = 4;
/// The longest rest of what is set aside; an operator may end it.
pub const ASIDE_REST_MAX: Duration = Duration::from_secs(24 * 3600);

/// Who failed with whom since the last session that went well.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub(crate) struct Blame {
    tapes: BTreeMap<Vid, BTreeSet<DriveName>>,
    drives: BTreeMap<DriveName, BTreeSet<Vid>>,
    /// How often a tape was set aside since then.
    tape_rests: BTreeMap<Vid, u32>,
    /// The same for drives.
    drive_rests: BTreeMap<DriveName, u32>,
}

/// The end of the next rest, which is twice as long as the last one.
fn rest_until(now: Timestamp, retry_delay: Duration, before: &mut u32) -> Timestamp {
    let times = ASIDE_RESTS.saturating_mul(1 << (*before).min(20));
    *before = before.saturating_add(1);
    now.plus(retry_delay.saturating_mul(times).min(ASIDE_REST_MAX))
}

impl Scheduler {
    /// A mount or a session failed: the two part for a while, and the one that failed with others too is set
    /// aside. A cartridge that is not what it should be says nothing about the drive that found that out.
    pub(crate) fn failed_together(&mut self, drive: &DriveName, vid: Vid, failure: &Failure, now: Timestamp) {
        let cause = failure.cause.as_str();
        self.rest(drive, vid, cause.to_owned(), now);
        match failure.culprit {
            Culprit::Unknown => {
                self.blame_tape(drive, vid, cause, now);
                self.blame_drive(drive, vid, cause, now);
            }
            Culprit::Cartridge => self.blame_tape(drive, vid, cause, now),
            Culprit::Nobody => {}
        }
    }

    fn blame_drive(&mut self, drive: &DriveName, vid: Vid, cause: &str, now: Timestamp) {
        if self.asides.contains_key(&vid) {
            // The drives are not to blame.
            self.blame.drives.values_mut().for_each(|tapes| {
                tapes.remove(&vid);
            });
            return;
        }
        let tapes = self.blame.drives.entry(drive.clone()).or_default();
        tapes.insert(vid);
        if tapes.len() >= DRIVE_FAILURES_MAX {
            let with: Vec<String> = tapes.iter().map(Vid::to_string).collect();
            let before = self.blame.drive_rests.entry(drive.clone()).or_default();
            let until = rest_until(now, self.policy.retry_delay, before);
            let reason = format!(
                "it failed with tapes {}, last: {cause}; tried again at {until}, or when it is set up",
                with.join(", ")
            );
            self.blame.drives.remove(drive);
            self.blame.tapes.values_mut().for_each(|drives| {
                drives.remove(drive);
            });
            self.retire_until(drive.clone(), reason, Some(until));
        }
    }

    /// A tape was in a drive that failed.
    pub(crate) fn blame_tape(&mut self, drive: &DriveName, vid: Vid, cause: &str, now: Timestamp) {
        let drives = self.blame.tapes.entry(vid).or_default();
        drives.insert(drive.clone());
        if drives.len() >= TAPE_FAILURES_MAX {
            let with: Vec<&str> = drives.iter().map(String::as_str).collect();
            let cause = format!("it failed in drives {}, last: {cause}", with.join(", "));
            self.blame.tapes.remove(&vid);
            let before = self.blame.tape_rests.entry(vid).or_default();
            let until = rest_until(now, self.policy.retry_delay, before);
            self.asides.insert(vid, Rest { until, cause });
            self.recall.stop_joining(vid);
            self.refresh(vid);
        }
    }

    /// A session went well: neither is to blame for what was before.
    pub(crate) fn worked_together(&mut self, drive: &DriveName, vid: Vid) {
        self.blame.tape_rests.remove(&vid);
        self.blame.drive_rests.remove(drive);
        self.blame.drives.remove(drive);
        self.release_tape(vid);
    }

    /// An operator has looked at a tape, or a session on it went well: it is used again.
    pub(crate) fn release_tape(&mut self, vid: Vid) {
        self.blame.tapes.remove(&vid);
        if self.asides.remove(&vid).is_some() {
            self.refresh(vid);
        }
    }

    /// An operator has looked at a drive.
    pub(crate) fn release_drive(&mut self, drive: &DriveName) {
        self.blame.drives.remove(drive);
    }

    /// Tapes that were set aside for long enough are used again.
    pub(crate) fn end_asides(&mut self, now: Timestamp) {
        let over = self.asides.iter().filter(|(_, rest)| rest.until <= now);
        let over: Vec<Vid> = over.map(|(vid, _)| *vid).collect();
        over.into_iter().for_each(|vid| self.release_tape(vid));
    }

    /// Tapes that are set aside, why and until when.
    pub fn set_aside(&self) -> impl Iterator<Item = (Vid, &str, Timestamp)> {
        self.asides.iter().map(|(vid, rest)| (*vid, rest.cause.as_str(), rest.until))
    }
}
