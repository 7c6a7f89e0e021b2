//! Tapes and drives that fail with several partners are set aside: what failed with all of them is at fault.

use std::collections::{BTreeMap, BTreeSet};

use base::{Duration, FailureCause, Timestamp, Vid};
use session::back_off;

use super::{ASIDE_REST_MAX, ASIDE_RESTS, DRIVE_FAILURES_MAX, DRIVE_SUSPECTS_MAX, TAPE_FAILURES_MAX};
use crate::scheduler::{Rest, Scheduler};
use crate::{Action, DriveName, Failure};

/// Who failed with whom since the last session that went well.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub(crate) struct Blame {
    tapes: BTreeMap<Vid, BTreeSet<DriveName>>,
    drives: BTreeMap<DriveName, BTreeSet<Vid>>,
    /// Tapes that became suspect in a drive, one after the other.
    suspects: BTreeMap<DriveName, Vec<Vid>>,
    /// Tapes that were cleared of a failure in a drive: the next one is their own.
    cleared: BTreeSet<Vid>,
    /// Tapes to be cleared now, and the drives that are to blame.
    to_clear: Vec<(DriveName, Vid)>,
    /// Which part for a while although neither did anything wrong: this host could do nothing.
    pub(crate) of_host: BTreeSet<(Vid, DriveName)>,
    /// How often a tape could not be read for this host since it was last.
    pub(crate) host_failures: BTreeMap<Vid, u32>,
    /// How often a tape was set aside since then.
    tape_rests: BTreeMap<Vid, u32>,
    /// The same for drives.
    drive_rests: BTreeMap<DriveName, u32>,
}

/// The end of the next rest, which is twice as long as the last one.
fn rest_until(now: Timestamp, retry_delay: Duration, before: &mut u32) -> Timestamp {
    let rest = back_off(retry_delay.saturating_mul(ASIDE_RESTS), *before, ASIDE_REST_MAX);
    *before = before.saturating_add(1);
    now.plus(rest)
}

impl Scheduler {
    /// A mount or a session failed: the two part for a while, and the one that failed with others too is set
    /// aside. A cartridge that is not what it should be says nothing about the drive that found that out.
    pub(crate) fn failed_together(&mut self, drive: &DriveName, vid: Vid, failure: &Failure, now: Timestamp) {
        let reason = failure.reason.as_str();
        // One that fails elsewhere too is not to be cleared of what it did in another drive.
        for (other, tapes) in &mut self.blame.suspects {
            if other != drive {
                tapes.retain(|failed| *failed != vid);
            }
        }
        // What fails for this host would fail with all others too: see `host.rs`.
        if failure.cause != Some(FailureCause::Host) {
            self.rest(drive, vid, reason.to_owned(), now);
        }
        match failure.cause {
            // A robot that does not reach one drive, or one slot, shows by what else fails there.
            Some(FailureCause::Unknown | FailureCause::Robot) => {
                self.blame_tape(drive, vid, reason, now);
                self.blame_drive(drive, vid, reason, now);
            }
            Some(FailureCause::Cartridge) => self.blame_tape(drive, vid, reason, now),
            Some(FailureCause::Drive | FailureCause::Path) => self.blame_drive(drive, vid, reason, now),
            // All drives would be to blame, and none is.
            Some(FailureCause::Host) | None => {}
        }
        if failure.suspect {
            self.suspect_in(drive, vid, now);
        }
    }

    /// A tape became suspect in a drive. When tape after tape does, the drive is to blame, and not they.
    fn suspect_in(&mut self, drive: &DriveName, vid: Vid, now: Timestamp) {
        if self.blame.cleared.contains(&vid) {
            return;
        }
        let tapes = self.blame.suspects.entry(drive.clone()).or_default();
        if !tapes.contains(&vid) {
            tapes.push(vid);
        }
        if tapes.len() < DRIVE_SUSPECTS_MAX {
            return;
        }
        let tapes = self.blame.suspects.remove(drive).unwrap_or_default();
        let names: Vec<String> = tapes.iter().map(Vid::to_string).collect();
        for vid in tapes {
            self.blame.cleared.insert(vid);
            self.blame.to_clear.push((drive.clone(), vid));
        }
        let what = format!("the tapes {} failed in it one after the other", names.join(" and "));
        self.set_drive_aside(drive, &what, now);
    }

    /// Says which tapes are to be cleared of what a drive did.
    pub(crate) fn clear_tapes(&mut self, actions: &mut Vec<Action>) {
        let cleared = self.blame.to_clear.drain(..);
        actions.extend(cleared.map(|(drive, vid)| Action::Clear { drive, vid }));
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
            self.set_drive_aside(
                drive,
                &format!("it failed with tapes {}, last: {cause}", with.join(", ")),
                now,
            );
        }
    }

    /// Takes a drive out of use for a rest, and no tape is to blame for what it did.
    fn set_drive_aside(&mut self, drive: &DriveName, what: &str, now: Timestamp) {
        let before = self.blame.drive_rests.entry(drive.clone()).or_default();
        let until = rest_until(now, self.policy.retry_delay, before);
        self.release_drive(drive);
        self.blame.tapes.values_mut().for_each(|drives| {
            drives.remove(drive);
        });
        let reason = format!("{what}; tried again at {until}, or when it is set up");
        self.retire_until(drive.clone(), reason, Some(until));
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
            self.asides.insert(vid, Rest { until, cause, idle_of: None });
            self.recall.stop_joining(vid);
            self.refresh(vid);
        }
    }

    /// A session went well: neither is to blame for what was before.
    pub(crate) fn worked_together(&mut self, drive: &DriveName, vid: Vid) {
        self.blame.tape_rests.remove(&vid);
        self.blame.drive_rests.remove(drive);
        self.blame.host_failures.remove(&vid);
        self.maintenance_rests.remove(&vid);
        self.release_drive(drive);
        self.blame.cleared.remove(&vid);
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
        self.blame.suspects.remove(drive);
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
