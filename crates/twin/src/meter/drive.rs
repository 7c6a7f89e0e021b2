//! What a drive does.

use crate::moment::Moment;
use report::outcome::{DriveActivity, DriveUse};

/// One drive.
#[derive(Debug)]
pub struct DriveMeter {
    name: String,
    native_rate: u64,
    /// What it does, and since when.
    activity: DriveActivity,
    since: Moment,
    /// Microseconds of each activity.
    micros: [u64; DriveActivity::COUNT],
    spans: Vec<(u64, u64, DriveActivity)>,
    /// Of the spans that were kept, no more can be extended: one was left out.
    is_full: bool,
    pub mounts: u64,
    pub read: u64,
    pub written: u64,
}

impl DriveMeter {
    /// An idle drive.
    pub fn new(name: String, native_rate: u64) -> DriveMeter {
        DriveMeter {
            name,
            native_rate,
            activity: DriveActivity::Idle,
            since: Moment(0),
            micros: [0; DriveActivity::COUNT],
            spans: Vec::new(),
            is_full: false,
            mounts: 0,
            read: 0,
            written: 0,
        }
    }

    /// It does something else from now on: what it did until now, if that took any time.
    pub fn change(
        &mut self,
        now: Moment,
        activity: DriveActivity,
    ) -> Option<(Moment, Moment, DriveActivity)> {
        if activity == self.activity {
            return None;
        }
        let passed = self.pass(now);
        self.activity = activity;
        passed
    }

    /// It has done what it does until now.
    pub fn pass(&mut self, now: Moment) -> Option<(Moment, Moment, DriveActivity)> {
        if now <= self.since {
            return None;
        }
        let (from, activity) = (self.since, self.activity);
        self.since = now;
        self.micros[activity as usize] += now.0 - from.0;
        self.keep(from.0, now.0, activity);
        Some((from, now, activity))
    }

    fn keep(&mut self, from: u64, to: u64, activity: DriveActivity) {
        if self.is_full {
            return;
        }
        let kept = self.spans.len();
        match self.spans.last_mut() {
            Some((_, end, same)) if *same == activity && *end == from => *end = to,
            _ if kept < DriveUse::SPANS_MAX => self.spans.push((from, to, activity)),
            _ => self.is_full = true,
        }
    }

    /// All it did, after the last [`DriveMeter::pass`].
    pub fn finish(self) -> DriveUse {
        let seconds = |micros: u64| micros as f64 / 1e6;
        let spans = self.spans.iter().map(|(from, to, what)| (seconds(*from), seconds(*to), *what));
        DriveUse {
            name: self.name,
            native_rate: self.native_rate,
            seconds: self.micros.map(seconds),
            mounts: self.mounts,
            read: self.read,
            written: self.written,
            spans: spans.collect(),
        }
    }
}
