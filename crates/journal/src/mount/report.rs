//! How well tapes and drives ran, from what is remembered of mounts.

use std::collections::BTreeMap;

use base::{ByteCount, Duration, Timestamp};

use super::record::{MountKind, MountRecord, MountSessionEnd, OrderRecord, SessionRecord};

/// Bytes of a terabyte, as tapes are sold.
const TERABYTE: f64 = 1e12;

/// What the rows of a report are.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub enum ReportBy {
    /// A row a tape drive.
    #[default]
    Drive,
    /// A row a tape.
    Tape,
    /// A row a tape pool.
    Pool,
}

/// How spans are spread.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Spread {
    /// How many there are.
    pub count: u64,
    /// Their mean.
    pub mean: Duration,
    /// The middle one, or the mean of the two in the middle.
    pub median: Duration,
    /// The smallest that at least 95 of 100 do not exceed.
    pub p95: Duration,
    /// The longest.
    pub max: Duration,
}

impl Spread {
    /// `None` of no spans.
    fn of(spans: &mut [Duration]) -> Option<Self> {
        spans.sort_unstable();
        let count = spans.len();
        let max = *spans.last()?;
        let (low, high) = (*spans.get((count - 1) / 2)?, *spans.get(count / 2)?);
        let p95 = *spans.get((count * 95).div_ceil(100) - 1)?;
        let sum = spans.iter().fold(Duration::ZERO, |sum, span| sum.saturating_add(*span));
        let mean = sum / u32::try_from(count).unwrap_or(u32::MAX);
        Some(Spread { count: count as u64, mean, median: low.saturating_add(high) / 2, p95, max })
    }
}

/// Figures of one drive, tape or tape pool, or of all. A mount counts whole in the window in which it ended.
#[derive(Clone, PartialEq, Debug)]
pub struct ReportRow {
    /// The drive, tape or tape pool; `-` for mounts of tapes without a pool.
    pub name: String,
    /// Cartridges that came into a drive.
    pub mounts: u64,
    /// Of those, such as are still there.
    pub mounted_now: u64,
    /// Mounts by what they were ordered for: migrate, recall, maintain, recover.
    pub mounts_for: [u64; 4],
    /// Mounts and unmounts that failed.
    pub mount_failures: u64,
    /// Sessions.
    pub sessions: u64,
    /// Sessions that failed.
    pub session_failures: u64,
    /// From the order to the moment when labels and index were read.
    pub mount_time: Option<Spread>,
    /// From the end of the last index to the empty drive.
    pub unmount_time: Option<Spread>,
    /// How long the oldest that a mount was made for had waited when the mount was ordered.
    pub wait: Option<Spread>,
    /// Bytes of files and containers read: by recalls and for maintenance.
    pub read: ByteCount,
    /// Bytes of containers written.
    pub written: ByteCount,
    /// Bytes of blocks read between mount and unmount, gaps and indexes included.
    pub tape_read: ByteCount,
    /// Bytes of blocks written between mount and unmount, indexes included.
    pub tape_written: ByteCount,
    /// Files recalled and containers written or read.
    pub files: u64,
    /// Commands that moved the tape elsewhere.
    pub locates: u64,
    /// How long tapes stood mounted and ready.
    pub mounted: Duration,
    /// How long data flowed: as the drive says where it does, else see [`MountRecord::moving`].
    pub moving: Duration,
    /// What that is a part of: the time that the drive counted where it does, else the mounted time.
    pub observed: Duration,
    /// How long the drives say they were moving without transfer; `None` if none says.
    pub locating: Option<Duration>,
    /// How long the drives say they stood, or went back and started again, since the host was too
    /// slow; `None` if none says.
    pub starved: Option<Duration>,
    /// How often the drives say they had to stop and go back; `None` if none says.
    pub back_hitches: Option<u64>,
    /// Bytes of blocks moved by mounts whose native rate is known, over what the native rate would have given
    /// while data flowed; `None` if no rate is known.
    pub of_native: Option<f64>,
    /// Whose orders were read; `None` if no drive was asked for one that has any.
    pub order: Option<OrderRecord>,
}

impl ReportRow {
    /// Bytes of files and containers a mount.
    #[must_use]
    pub fn bytes_per_mount(&self) -> Option<ByteCount> {
        self.bytes().checked_div(self.mounts).map(ByteCount)
    }

    /// Mounts a terabyte (10^12 bytes) of files and containers.
    #[must_use]
    pub fn mounts_per_terabyte(&self) -> Option<f64> {
        (self.bytes() > 0).then(|| self.mounts as f64 * TERABYTE / self.bytes() as f64)
    }

    /// The share of the observed time in which data flowed, 0 to 1.
    #[must_use]
    pub fn efficiency(&self) -> Option<f64> {
        let observed = self.observed.as_secs_f64();
        (observed > 0.0).then(|| (self.moving.as_secs_f64() / observed).min(1.0))
    }

    /// Bytes of blocks a second while data flowed.
    #[must_use]
    pub fn rate(&self) -> Option<f64> {
        let moving = self.moving.as_secs_f64();
        (moving > 0.0).then(|| (self.tape_read.0.saturating_add(self.tape_written.0)) as f64 / moving)
    }

    fn bytes(&self) -> u64 {
        self.read.0.saturating_add(self.written.0)
    }
}

/// Adds up mounts. Pure: the same mounts give the same report, in whatever order they come.
pub struct MountReport {
    by: ReportBy,
    since: Timestamp,
    until: Timestamp,
    rows: BTreeMap<String, Sums>,
    total: Sums,
}

impl MountReport {
    /// A report on mounts that ended from `since` to `until`, or go on then.
    #[must_use]
    pub fn new(by: ReportBy, since: Timestamp, until: Timestamp) -> Self {
        MountReport { by, since, until, rows: BTreeMap::new(), total: Sums::default() }
    }

    /// Adds one mount; outside of the window it does nothing.
    pub fn add(&mut self, record: &MountRecord) {
        if record.unmounted.is_some_and(|at| at < self.since || at > self.until) {
            return;
        }
        let name = match self.by {
            ReportBy::Drive => record.drive.clone(),
            ReportBy::Tape => record.vid.to_string(),
            ReportBy::Pool => record.tape_pool.clone().unwrap_or_else(|| "-".to_owned()),
        };
        self.rows.entry(name).or_default().add(record, self.until);
        self.total.add(record, self.until);
    }

    /// The rows by name, and the sum of all.
    #[must_use]
    pub fn end(self) -> (Vec<ReportRow>, ReportRow) {
        let rows = self.rows.into_iter().map(|(name, sums)| sums.row(name)).collect();
        (rows, self.total.row("total".to_owned()))
    }
}

#[derive(Default)]
struct Sums {
    mounts: u64,
    mounted_now: u64,
    mounts_for: [u64; 4],
    mount_failures: u64,
    sessions: u64,
    session_failures: u64,
    mount_times: Vec<Duration>,
    unmount_times: Vec<Duration>,
    waits: Vec<Duration>,
    read: u64,
    written: u64,
    tape_read: u64,
    tape_written: u64,
    files: u64,
    locates: u64,
    mounted: Duration,
    moving: Duration,
    observed: Duration,
    locating: Option<Duration>,
    starved: Option<Duration>,
    back_hitches: Option<u64>,
    /// Bytes moved where the native rate is known, and what that rate would have given.
    native: (u64, f64),
    order: Option<OrderRecord>,
}

impl Sums {
    fn add(&mut self, record: &MountRecord, until: Timestamp) {
        let is_in = record.loaded.is_some();
        self.mounts += u64::from(is_in);
        self.mounted_now += u64::from(is_in && record.unmounted.is_none());
        if let Some(count) = self.mounts_for.get_mut(record.kind as usize) {
            *count += u64::from(is_in);
        }
        self.mount_failures += u64::from(record.failed.is_some());
        self.mount_times.extend(record.ready.map(|ready| ready.since(record.ordered)));
        if let (Some(begin), Some(end), Some(_)) = (record.unmounting, record.unmounted, record.ready) {
            self.unmount_times.push(end.since(begin));
        }
        self.waits.extend(record.queue.oldest.map(|oldest| record.ordered.since(oldest)));
        if let Some(ready) = record.ready {
            let end = record.unmounting.or(record.unmounted).unwrap_or(until);
            let mounted = end.since(ready);
            self.mounted = self.mounted.saturating_add(mounted);
            let observed = record.motion.map_or(mounted, |motion| motion.whole());
            self.observed = self.observed.saturating_add(observed);
        }
        record.sessions.iter().for_each(|session| self.add_session(session));
        self.add_motion(record);
        if let Some(order) = &record.order {
            self.order.get_or_insert_default().add(order);
        }
    }

    fn add_session(&mut self, session: &SessionRecord) {
        self.sessions += 1;
        self.session_failures += u64::from(matches!(session.end, MountSessionEnd::Failed(_)));
        self.files = self.files.saturating_add(session.files);
        let sum = if session.kind == MountKind::Migrate { &mut self.written } else { &mut self.read };
        *sum = sum.saturating_add(session.bytes.0);
    }

    fn add_motion(&mut self, record: &MountRecord) {
        // Those of a mount that goes on are known only by its sessions so far.
        let of_sessions = |count: fn(&SessionRecord) -> u64| record.sessions.iter().map(count).sum::<u64>();
        let is_over = record.unmounting.is_some();
        let (read, written, locates) = if is_over {
            (record.read.0, record.written.0, record.locates)
        } else {
            (of_sessions(|s| s.read.0), of_sessions(|s| s.written.0), of_sessions(|s| s.locates))
        };
        let flowed = if is_over {
            record.moving
        } else {
            record.sessions.iter().fold(Duration::ZERO, |sum, s| sum.saturating_add(s.moving))
        };
        let moving = record.motion.map_or(flowed, |motion| motion.streaming);
        self.tape_read = self.tape_read.saturating_add(read);
        self.tape_written = self.tape_written.saturating_add(written);
        self.locates = self.locates.saturating_add(locates);
        self.moving = self.moving.saturating_add(moving);
        if let Some(motion) = &record.motion {
            let add = |sum: &mut Option<Duration>, span| {
                *sum = Some(sum.unwrap_or_default().saturating_add(span));
            };
            add(&mut self.locating, motion.locating);
            add(&mut self.starved, motion.starved.saturating_add(motion.hitching));
            self.back_hitches = Some(self.back_hitches.unwrap_or(0).saturating_add(motion.back_hitches));
        }
        if let Some(rate) = record.native_rate {
            self.native.0 = self.native.0.saturating_add(read.saturating_add(written));
            self.native.1 += rate as f64 * moving.as_secs_f64();
        }
    }

    fn row(mut self, name: String) -> ReportRow {
        let (bytes, possible) = self.native;
        ReportRow {
            name,
            mounts: self.mounts,
            mounted_now: self.mounted_now,
            mounts_for: self.mounts_for,
            mount_failures: self.mount_failures,
            sessions: self.sessions,
            session_failures: self.session_failures,
            mount_time: Spread::of(&mut self.mount_times),
            unmount_time: Spread::of(&mut self.unmount_times),
            wait: Spread::of(&mut self.waits),
            read: ByteCount(self.read),
            written: ByteCount(self.written),
            tape_read: ByteCount(self.tape_read),
            tape_written: ByteCount(self.tape_written),
            files: self.files,
            locates: self.locates,
            mounted: self.mounted,
            moving: self.moving,
            observed: self.observed,
            locating: self.locating,
            starved: self.starved,
            back_hitches: self.back_hitches,
            of_native: (possible > 0.0).then(|| bytes as f64 / possible),
            order: self.order,
        }
    }
}

#[cfg(test)]
mod tests;
