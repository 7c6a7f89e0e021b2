//! Following a mount while it goes on.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, PoisonError};

use base::{ByteCount, Clock, Count, Timestamp, Vid};
use journal::{
    CounterRecord, ErrorRecord, MotionRecord, MountKind, MountLog, MountRecord, MountSessionEnd, OrderRecord,
    ProductRecord, SessionRecord,
};
use library::{DriveCounters, ErrorCounters, TapeAlert, TapeDrive};
use mechanics::MotionReport;
use scheduler::{Purpose, SessionEnd};
use threads::{Mutex, MutexGuard};

use crate::ages::queue_at_mount;
use crate::flow::Flow;
use crate::health::{HealthBook, HealthReport, MountSample};
use crate::watch::{SharedFlow, WatchedDrive};
use ground::Ground;

/// The mounts of an engine: where they are written down, and those that go on.
#[derive(Default)]
pub struct Mounts {
    log: Option<Arc<dyn MountLog>>,
    live: Mutex<BTreeMap<String, MountRecord>>,
    last: Mutex<LastWork>,
    health: HealthBook,
}

/// What was done last since the start: one session for each drive and each tape.
#[derive(Default)]
struct LastWork {
    of_drives: BTreeMap<String, LastSession>,
    of_tapes: BTreeMap<Vid, LastSession>,
}

/// A session that is over.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LastSession {
    /// The tape drive.
    pub drive: String,
    /// The tape.
    pub vid: Vid,
    /// What it was for.
    pub kind: MountKind,
    /// Files (recall) or containers (otherwise).
    pub items: u64,
    /// Their bytes.
    pub bytes: ByteCount,
    /// When it was over.
    pub ended: Timestamp,
}

impl fmt::Display for LastSession {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let LastSession { drive, vid, kind, items, bytes, ended } = self;
        let amount =
            |noun: &str| format!("{} {noun}{}, {bytes}", Count(*items), if *items == 1 { "" } else { "s" });
        match kind {
            MountKind::Migrate => write!(f, "wrote {}", amount("container"))?,
            MountKind::Recall => write!(f, "read {}", amount("file"))?,
            MountKind::Maintain => write!(f, "checked or copied {}", amount("container"))?,
            MountKind::Recover => write!(f, "closed what a session before had left open")?,
        }
        write!(f, " (tape {vid} in drive {drive}, until {ended})")
    }
}

impl Mounts {
    /// `None`: nothing is followed, and reports are empty.
    #[must_use]
    pub fn new(log: Option<Arc<dyn MountLog>>) -> Self {
        Mounts { log, live: Mutex::default(), last: Mutex::default(), health: HealthBook::default() }
    }

    fn last(&self) -> MutexGuard<'_, LastWork> {
        self.last.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What a drive did last since the start.
    #[must_use]
    pub fn last_of_drive(&self, drive: &str) -> Option<LastSession> {
        self.last().of_drives.get(drive).cloned()
    }

    /// What was done last with a tape since the start.
    #[must_use]
    pub fn last_of_tape(&self, vid: Vid) -> Option<LastSession> {
        self.last().of_tapes.get(&vid).cloned()
    }

    /// What the mounts of the last 90 days say of drives and tapes. The first time it reads the log; nothing
    /// is known without one.
    #[must_use]
    pub fn health(&self, now: Timestamp) -> Arc<HealthReport> {
        match &self.log {
            Some(log) => self.health.report(log.as_ref(), now),
            None => Arc::default(),
        }
    }

    /// The last mounts of a drive, at most so many, the newest first.
    #[must_use]
    pub fn last_mounts(&self, now: Timestamp, drive: &str, most: usize) -> Vec<MountSample> {
        match &self.log {
            Some(log) => self.health.last_of_drive(log.as_ref(), now, drive, most),
            None => Vec::new(),
        }
    }

    pub(crate) fn log(&self) -> Option<&Arc<dyn MountLog>> {
        self.log.as_ref()
    }

    /// The mounts that go on.
    pub(crate) fn live(&self) -> Vec<MountRecord> {
        self.live.lock().unwrap_or_else(PoisonError::into_inner).values().cloned().collect()
    }

    fn change(&self, drive: &str, change: impl FnOnce(&mut MountRecord)) {
        if let Some(record) = self.live.lock().unwrap_or_else(PoisonError::into_inner).get_mut(drive) {
            change(record);
        }
    }

    /// Ends a mount and writes it down, unless `last` says that it goes on. All of it under the lock: whoever
    /// looks at what goes on and then at the log finds each mount in one of them, with a time that tells
    /// which.
    fn end(&self, ground: &Ground, drive: &str, last: impl FnOnce(&mut MountRecord) -> bool) {
        let mut live = self.live.lock().unwrap_or_else(PoisonError::into_inner);
        let now = ground.now();
        let Some(record) = live.get_mut(drive) else { return };
        if !last(record) {
            return;
        }
        record.unmounted = Some(now);
        if let (Some(record), Some(log)) = (live.remove(drive), &self.log) {
            log.record(&record);
            self.health.add(&record);
        }
    }
}

/// Why a tape is mounted.
pub struct MountCause {
    /// What the drive is to do with it.
    pub purpose: Option<Purpose>,
    /// Whether a session on it was left open.
    pub is_torn: bool,
}

/// Follows the mounts of one drive, on its thread. Without a log it does nothing.
pub struct MountTracker {
    mounts: Arc<Mounts>,
    drive: String,
    /// `None`: nothing is followed.
    flow: Option<SharedFlow>,
    /// What the drive had done when the tape was ready.
    at_ready: Flow,
    /// What the drive said of itself when the tape was ready.
    motion: Option<MotionReport>,
    /// What the drive had counted when the tape was in it.
    counted: Option<DriveCounters>,
    /// When the present session began, and what the drive had done then.
    session: Option<(Timestamp, Flow)>,
}

impl MountTracker {
    /// The drive as the thread is to use it, and its tracker.
    #[must_use]
    pub fn follow(
        mounts: &Arc<Mounts>,
        clock: &Arc<dyn Clock>,
        drive: Box<dyn TapeDrive>,
    ) -> (Box<dyn TapeDrive>, MountTracker) {
        let mut tracker = MountTracker {
            mounts: Arc::clone(mounts),
            drive: drive.id().as_str().to_owned(),
            flow: None,
            at_ready: Flow::default(),
            motion: None,
            counted: None,
            session: None,
        };
        if mounts.log.is_none() {
            return (drive, tracker);
        }
        let flow = SharedFlow::default();
        tracker.flow = Some(Arc::clone(&flow));
        (Box::new(WatchedDrive { drive, clock: Arc::clone(clock), flow }), tracker)
    }

    /// A mount begins.
    pub fn ordered(&mut self, ground: &Ground, vid: Vid, cause: impl FnOnce() -> MountCause) {
        if self.flow.is_none() {
            return;
        }
        let MountCause { purpose, is_torn } = cause();
        let kind = match purpose {
            Some(Purpose::Migration(_)) => MountKind::Migrate,
            Some(Purpose::Recall) => MountKind::Recall,
            Some(Purpose::Maintenance) if is_torn => MountKind::Recover,
            Some(Purpose::Maintenance) | None => MountKind::Maintain,
        };
        let mut record = MountRecord::ordered(&self.drive, vid, kind, ground.now());
        record.tape_pool = pool_of(ground, vid);
        if let Some(purpose) = purpose {
            record.queue = queue_at_mount(ground, vid, purpose);
        }
        let mut live = self.mounts.live.lock().unwrap_or_else(PoisonError::into_inner);
        live.insert(self.drive.clone(), record);
    }

    /// The cartridge is in the drive.
    pub fn loaded(&mut self, ground: &Ground, drive: &mut dyn TapeDrive) {
        if self.flow.is_some() {
            self.counted = counters(drive);
        }
        self.at(ground, |record, now| record.loaded = Some(now));
    }

    /// The mount is over: sessions may begin on blocks of so many bytes, or the drive is empty again.
    pub fn mounted(
        &mut self,
        ground: &Ground,
        drive: &mut dyn TapeDrive,
        vid: Vid,
        result: Result<u32, &str>,
    ) {
        let Some(flow) = &self.flow else { return };
        self.at_ready = flow.lock().unwrap_or_else(PoisonError::into_inner).mark();
        match result {
            Ok(block_size) => {
                self.motion = drive.motion_report();
                let (tape_pool, native_rate) = (pool_of(ground, vid), native_rate(drive, block_size));
                self.at(ground, |record, now| {
                    record.ready = Some(now);
                    record.tape_pool = tape_pool;
                    record.native_rate = native_rate;
                });
            }
            Err(why) => {
                self.mounts.end(ground, &self.drive, |record| {
                    record.failed = Some(why.to_owned());
                    true
                });
            }
        }
    }

    /// A session begins.
    pub fn session_began(&mut self, ground: &Ground) {
        let Some(flow) = &self.flow else { return };
        let mark = flow.lock().unwrap_or_else(PoisonError::into_inner).mark();
        self.session = Some((ground.now(), mark));
    }

    /// A session ended so, having written or read so many containers, or recalled so many files.
    pub fn session_ended(
        &mut self,
        ground: &Ground,
        kind: MountKind,
        end: &SessionEnd,
        items: u64,
        bytes: ByteCount,
    ) {
        let (Some(flow), Some((began, mark))) = (&self.flow, self.session.take()) else { return };
        let flow = *flow.lock().unwrap_or_else(PoisonError::into_inner);
        let moved = Moved::between(&mark, &flow);
        let end = match end {
            SessionEnd::Drained | SessionEnd::Idle => MountSessionEnd::Drained,
            SessionEnd::TapeFull => MountSessionEnd::Full,
            SessionEnd::Stopped | SessionEnd::NoRoom => MountSessionEnd::Stopped,
            SessionEnd::Failed(why) => MountSessionEnd::Failed(why.reason.clone()),
        };
        let mut last = None;
        self.at(ground, |record, ended| {
            let (drive, vid) = (record.drive.clone(), record.vid);
            last = Some(LastSession { drive, vid, kind, items, bytes, ended });
            record.add_session(SessionRecord {
                kind,
                began,
                ended,
                first_byte: flow.first,
                last_byte: flow.last,
                bytes,
                files: items,
                read: moved.read,
                written: moved.written,
                locates: moved.locates,
                moving: moved.moving,
                end,
            });
        });
        if let Some(session) = last {
            let mut last = self.mounts.last();
            last.of_tapes.insert(session.vid, session.clone());
            last.of_drives.insert(session.drive.clone(), session);
        }
    }

    /// A session asked the drive for its order of reading.
    pub fn orders(&mut self, ground: &Ground, orders: &OrderRecord) {
        self.at(ground, |record, _| record.order.get_or_insert_default().add(orders));
    }

    /// All that was owed to the tape is written, or that failed, and the way home begins. The drive has
    /// raised these flags.
    pub fn unmounting(&mut self, ground: &Ground, drive: &mut dyn TapeDrive, alerts: &[TapeAlert]) {
        let Some(flow) = &self.flow else { return };
        let now = *flow.lock().unwrap_or_else(PoisonError::into_inner);
        let moved = Moved::between(&self.at_ready, &now);
        let before = self.motion.take();
        let motion = before.and_then(|before| Some(drive.motion_report()?.since(&before)));
        let before = self.counted.take();
        let counted = before.and_then(|before| Some(counters(drive)?.since(&before)));
        self.at(ground, |record, at| {
            record.unmounting = Some(at);
            // Also of a mount that failed: what could not be read of a label counts.
            record.alerts =
                alerts.iter().map(|alert| alert.0).filter(|flag| (1..=64).contains(flag)).collect();
            record.alerts.sort_unstable();
            record.alerts.dedup();
            if let Some(counted) = counted {
                record.counted = Some(counter_record(&counted));
                record.product = counted.product.map(|it| ProductRecord {
                    vendor: it.vendor,
                    product: it.product,
                    firmware: it.firmware,
                    serial: it.serial,
                });
            }
            // A mount that failed has done nothing that counts.
            if record.ready.is_some() {
                record.read = moved.read;
                record.written = moved.written;
                record.locates = moved.locates;
                record.moving = moved.moving;
                record.motion = motion.map(MotionRecord::from);
            }
        });
    }

    /// The drive is empty, or as `failed` says cannot be emptied. Ends the mount, unless it is one that is
    /// failing: [`MountTracker::mounted`] ends that.
    pub fn unmounted(&mut self, ground: &Ground, failed: Option<String>) {
        if self.flow.is_none() {
            return;
        }
        self.mounts.end(ground, &self.drive, |record| {
            let is_over = record.ready.is_some();
            if is_over {
                record.failed = failed;
            }
            is_over
        });
    }

    fn at(&self, ground: &Ground, change: impl FnOnce(&mut MountRecord, Timestamp)) {
        if self.flow.is_some() {
            let now = ground.now();
            self.mounts.change(&self.drive, |record| change(record, now));
        }
    }
}

/// What a drive did between two moments.
struct Moved {
    read: ByteCount,
    written: ByteCount,
    locates: u64,
    moving: base::Duration,
}

impl Moved {
    fn between(before: &Flow, after: &Flow) -> Self {
        Moved {
            read: ByteCount(after.read.saturating_sub(before.read)),
            written: ByteCount(after.written.saturating_sub(before.written)),
            locates: after.locates.saturating_sub(before.locates),
            moving: after.moving().saturating_sub(before.moving()),
        }
    }
}

/// What the drive counts. One that does not tell is as one that does not count.
fn counters(drive: &mut dyn TapeDrive) -> Option<DriveCounters> {
    drive.counters().ok()
}

fn counter_record(counted: &DriveCounters) -> CounterRecord {
    let errors = |errors: &ErrorCounters| ErrorRecord {
        corrected: errors.corrected,
        retries: errors.retries,
        uncorrected: errors.uncorrected,
    };
    CounterRecord {
        written: counted.written,
        read: counted.read,
        writing: errors(&counted.writing),
        reading: errors(&counted.reading),
        celsius: counted.celsius,
    }
}

/// Bytes a second with which the drive streams blocks of this size, if it tells.
fn native_rate(drive: &mut dyn TapeDrive, block_size: u32) -> Option<u64> {
    let block_us = drive.track(block_size).ok()??.block_us;
    (block_us > 0.0).then(|| (f64::from(block_size) * 1e6 / block_us).round() as u64)
}

fn pool_of(ground: &Ground, vid: Vid) -> Option<String> {
    let record = ground.tape(vid).ok()?;
    record.tape_pool.map(|id| ground.classes.tape_pool_name(id))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_work_is_one_sentence() {
        let (drive, vid) = ("d0".to_owned(), Vid::new("KS0001").unwrap());
        let (bytes, ended) = (ByteCount(3_000_000), Timestamp(0));
        let migrate = LastSession { drive, vid, kind: MountKind::Migrate, items: 1, bytes, ended };
        let place = "(tape KS0001 in drive d0, until 1970-01-01T00:00:00Z)";
        assert_eq!(migrate.to_string(), format!("wrote 1 container, 3.00 MB {place}"));
        let recall = LastSession { kind: MountKind::Recall, items: 1_500, ..migrate };
        assert_eq!(recall.to_string(), format!("read 1,500 files, 3.00 MB {place}"));
    }
}
