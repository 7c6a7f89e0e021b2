//! What is remembered of one mount of a tape: statistics, no truth.

use base::{ByteCount, Duration, Timestamp, Vid};
use mechanics::MotionReport;

use super::health::{CounterRecord, ProductRecord};

/// Sessions of one mount that are told apart; what further ones did is added to the last of them.
pub const MOUNT_SESSIONS_MAX: usize = 64;
/// Longest reason of a failure, in bytes; the rest is cut off.
pub const MOUNT_REASON_MAX: usize = 512;

/// What a tape was mounted for, or a session did.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum MountKind {
    /// To write what is queued.
    Migrate,
    /// To read what is wanted.
    Recall,
    /// To check, to read back, to repack.
    Maintain,
    /// To close what a crash had left open.
    Recover,
}

/// How a session ended.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum MountSessionEnd {
    /// Nothing was left to do.
    Drained,
    /// The tape is full.
    Full,
    /// It gave way, or was asked to stop.
    Stopped,
    /// It failed, for this reason.
    Failed(String),
}

/// One session on a mounted tape.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SessionRecord {
    /// What it did.
    pub kind: MountKind,
    /// When it began.
    pub began: Timestamp,
    /// When it ended.
    pub ended: Timestamp,
    /// When the first READ or WRITE that moved data returned; `None` if none did.
    pub first_byte: Option<Timestamp>,
    /// When the last one returned.
    pub last_byte: Option<Timestamp>,
    /// Bytes of files or containers that it brought to tape, or from it. Gaps, indexes and padding do not
    /// count.
    pub bytes: ByteCount,
    /// Files (recall) or containers (otherwise) done.
    pub files: u64,
    /// Bytes of blocks read.
    pub read: ByteCount,
    /// Bytes of blocks written.
    pub written: ByteCount,
    /// Commands that moved the tape elsewhere: LOCATE, SPACE, REWIND.
    pub locates: u64,
    /// How long data flowed; see [`MountRecord::moving`].
    pub moving: Duration,
    /// How it ended.
    pub end: MountSessionEnd,
}

/// What was waiting for the tape when its mount was ordered.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct QueueAtMount {
    /// Wanted files (recall), or containers queued for the tape pool (migrate); 0 otherwise.
    pub items: u64,
    /// Their bytes.
    pub bytes: ByteCount,
    /// Since when the oldest of them was waiting; of a recall, of the first
    /// 4,096 in the order of their blocks.
    pub oldest: Option<Timestamp>,
}

/// What the drive itself says of its tape's motion between `ready` and `unmounting`, in its own time.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct MotionRecord {
    /// Spent moving to where data is, without transfer.
    pub locating: Duration,
    /// Spent moving with transfer.
    pub streaming: Duration,
    /// Spent standing, since the host gave or took nothing.
    pub starved: Duration,
    /// Spent stopping, going back and starting again, since the host was too slow.
    pub hitching: Duration,
    /// Spent on flushes, apart from the streaming that empties the buffer.
    pub flushing: Duration,
    /// How often it had to stop and go back.
    pub back_hitches: u64,
    /// How often it was flushed.
    pub flushes: u64,
}

impl MotionRecord {
    /// All of the time.
    #[must_use]
    pub fn whole(&self) -> Duration {
        let spans = [self.locating, self.streaming, self.starved, self.hitching, self.flushing];
        spans.into_iter().fold(Duration::ZERO, Duration::saturating_add)
    }
}

impl From<MotionReport> for MotionRecord {
    fn from(report: MotionReport) -> Self {
        let span = |seconds: f64| Duration::try_from_secs_f64(seconds.max(0.0)).unwrap_or_default();
        MotionRecord {
            locating: span(report.locate_seconds),
            streaming: span(report.streaming_seconds),
            starved: span(report.waiting_seconds),
            hitching: span(report.backhitch_seconds),
            flushing: span(report.flush_seconds),
            back_hitches: report.backhitches,
            flushes: report.flushes,
        }
    }
}

/// What came of asking the drive for its order of reading (RAO), of all plans of a mount.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct OrderRecord {
    /// Plans for which the drive gave an order, of all or of a piece.
    pub compared: u64,
    /// Of those, such as were read in the drive's order; the others were read in Kist's.
    pub drives: u64,
    /// What Kist's orders of them cost by the model: locates and gaps read through.
    pub own: Duration,
    /// What the drive's orders of the same cost by the model.
    pub drive: Duration,
    /// Plans for which it failed, or did not name each stretch once.
    pub failed: u64,
}

impl OrderRecord {
    /// Adds those of another session.
    pub fn add(&mut self, other: &OrderRecord) {
        // Taken apart completely, so that a new figure cannot be forgotten here.
        let OrderRecord { compared, drives, own, drive, failed } = *other;
        self.compared = self.compared.saturating_add(compared);
        self.drives = self.drives.saturating_add(drives);
        self.own = self.own.saturating_add(own);
        self.drive = self.drive.saturating_add(drive);
        self.failed = self.failed.saturating_add(failed);
    }
}

/// One mount, from the order to the empty drive.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct MountRecord {
    /// The drive.
    pub drive: String,
    /// The tape.
    pub vid: Vid,
    /// The tape's pool; `None` while it had none.
    pub tape_pool: Option<String>,
    /// What it was mounted for.
    pub kind: MountKind,
    /// When the drive's thread was told to.
    pub ordered: Timestamp,
    /// When the cartridge was in the drive.
    pub loaded: Option<Timestamp>,
    /// When labels and newest index were read and sessions could begin; `None` if that failed.
    pub ready: Option<Timestamp>,
    /// When the last index was written, and the way home began.
    pub unmounting: Option<Timestamp>,
    /// When the drive was empty again; `None` while the tape is in it.
    pub unmounted: Option<Timestamp>,
    /// Why the mount, or if `ready` is set the unmount, failed.
    pub failed: Option<String>,
    /// What waited for it.
    pub queue: QueueAtMount,
    /// Bytes of blocks read between `ready` and `unmounting`, sessions and indexes.
    pub read: ByteCount,
    /// Bytes of blocks written meanwhile.
    pub written: ByteCount,
    /// Commands meanwhile that moved the tape elsewhere.
    pub locates: u64,
    /// How long data flowed meanwhile: a second without a READ or WRITE that moves data, a command that moves
    /// the tape elsewhere, or a flush ends a flow; the next READ or WRITE begins one.
    pub moving: Duration,
    /// What the drive says of it.
    pub motion: Option<MotionRecord>,
    /// What the drive counted between `loaded` and `unmounting`, if it tells.
    pub counted: Option<CounterRecord>,
    /// The TapeAlert flags that the drive raised until `unmounting`, 1 to 64, ascending.
    pub alerts: Vec<u8>,
    /// What the drive is, if it tells.
    pub product: Option<ProductRecord>,
    /// The drive's native rate for this cartridge in bytes a second, if known.
    pub native_rate: Option<u64>,
    /// Whose order was read; `None` if the drive was asked for none, or has none.
    pub order: Option<OrderRecord>,
    /// Its sessions, at most [`MOUNT_SESSIONS_MAX`].
    pub sessions: Vec<SessionRecord>,
}

impl MountRecord {
    /// A mount that was ordered and has not got anywhere.
    #[must_use]
    pub fn ordered(drive: &str, vid: Vid, kind: MountKind, at: Timestamp) -> Self {
        MountRecord {
            drive: drive.to_owned(),
            vid,
            tape_pool: None,
            kind,
            ordered: at,
            loaded: None,
            ready: None,
            unmounting: None,
            unmounted: None,
            failed: None,
            queue: QueueAtMount::default(),
            read: ByteCount(0),
            written: ByteCount(0),
            locates: 0,
            moving: Duration::ZERO,
            motion: None,
            counted: None,
            alerts: Vec::new(),
            product: None,
            native_rate: None,
            order: None,
            sessions: Vec::new(),
        }
    }

    /// The newest time in it.
    #[must_use]
    pub fn newest(&self) -> Timestamp {
        let session = self.sessions.last().map(|session| session.ended);
        let times = [self.loaded, self.ready, session, self.unmounting, self.unmounted];
        times.into_iter().flatten().fold(self.ordered, Timestamp::max)
    }

    /// Adds a session; beyond [`MOUNT_SESSIONS_MAX`] to the last one.
    pub fn add_session(&mut self, session: SessionRecord) {
        if self.sessions.len() < MOUNT_SESSIONS_MAX {
            self.sessions.push(session);
            return;
        }
        let Some(last) = self.sessions.last_mut() else { return };
        last.ended = session.ended;
        last.first_byte = last.first_byte.or(session.first_byte);
        last.last_byte = session.last_byte.or(last.last_byte);
        last.bytes.0 = last.bytes.0.saturating_add(session.bytes.0);
        last.files = last.files.saturating_add(session.files);
        last.read.0 = last.read.0.saturating_add(session.read.0);
        last.written.0 = last.written.0.saturating_add(session.written.0);
        last.locates = last.locates.saturating_add(session.locates);
        last.moving = last.moving.saturating_add(session.moving);
        if !matches!(last.end, MountSessionEnd::Failed(_)) {
            last.end = session.end;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sessions_of_a_mount_are_limited_and_none_of_their_work_is_lost() {
        let vid = Vid::new("KS0001").unwrap();
        let mut record = MountRecord::ordered("vdrive0", vid, MountKind::Recall, Timestamp(1));
        let count = MOUNT_SESSIONS_MAX as u64 + 3;
        for number in 1..=count {
            record.add_session(SessionRecord {
                kind: MountKind::Recall,
                began: Timestamp(number as i64),
                ended: Timestamp(number as i64 + 1),
                first_byte: None,
                last_byte: Some(Timestamp(number as i64)),
                bytes: ByteCount(10),
                files: 1,
                read: ByteCount(12),
                written: ByteCount(0),
                locates: 2,
                moving: Duration::from_nanos(1),
                end: MountSessionEnd::Drained,
            });
        }
        assert_eq!(record.sessions.len(), MOUNT_SESSIONS_MAX);
        assert_eq!(record.sessions.iter().map(|session| session.files).sum::<u64>(), count);
        assert_eq!(record.sessions.iter().map(|session| session.read.0).sum::<u64>(), 12 * count);
        assert_eq!(record.newest(), Timestamp(count as i64 + 1));
    }
}
