//! What the scrubber is told, and what it tells.

use base::{ByteCount, Duration, PercentPoints, StripeCode, Timestamp};
use cluster::Share;
use pool::GroupRoom;
use session::Water;

use crate::DiskPolicy;

/// How the pool and the catalogue are kept.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct UpkeepSettings {
    /// In this time all of the pool is read and checked once.
    pub pass: Duration,
    /// What a missing drive held is rebuilt on the others after this time.
    pub rebuild_after: Duration,
    /// What is done by itself about the disks of the pool.
    pub disks: DiskPolicy,
    /// A request is forgotten so long after it has ended.
    pub requests_kept: Duration,
    /// Ended requests with so many newer ones are forgotten before.
    pub requests_kept_max: u64,
    /// Requests that name paths one by one, and pin nothing, are forgotten before if newer ones of the same
    /// owner that have ended have so many paths.
    pub paths_kept_max: u64,
}

/// [`UpkeepSettings::paths_kept_max`] of every server. Paths that are not there cost who asks for them
/// nothing, but the catalogue as many bytes as they have: with 4 KiB each this is 1 GiB for each owner.
pub const PATHS_KEPT_MAX: u64 = 25 * catalogue::REQUEST_PATHS_MAX as u64;

impl Default for UpkeepSettings {
    fn default() -> Self {
        UpkeepSettings {
            pass: Duration::from_secs(14 * 86_400),
            rebuild_after: Duration::from_secs(12 * 3600),
            disks: DiskPolicy::default(),
            requests_kept: Duration::from_secs(30 * 86_400),
            requests_kept_max: 100_000,
            paths_kept_max: PATHS_KEPT_MAX,
        }
    }
}

/// How far a drive of the pool is emptied. What was counted and moved is since the start of the server.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct DrainInfo {
    /// Since when it is to be emptied.
    pub since: Timestamp,
    /// When what stood on it was counted.
    pub began: Timestamp,
    /// Shards that stood on it then.
    pub shards: u64,
    /// About their bytes.
    pub bytes: ByteCount,
    /// Shards that were moved since.
    pub moved: u64,
    /// Bytes that were written for that.
    pub moved_bytes: ByteCount,
    /// Shards that could not be moved by the last round over all; they are tried again.
    pub stuck: u64,
    /// Why the first of them could not.
    pub reason: Option<String>,
    /// Nothing stands on it, as far as the last round has seen: it can be taken out.
    pub is_empty: bool,
    /// Bytes a second.
    pub rate: ByteCount,
    /// Until all is moved, if it goes on so.
    pub remaining: Option<Duration>,
}

impl DrainInfo {
    /// Works out rate and time left.
    pub fn estimate(&mut self, now: Timestamp) {
        let seconds = now.since(self.began).as_secs_f64();
        let rate = if seconds > 0.0 { self.moved_bytes.0 as f64 / seconds } else { 0.0 };
        let left = self.bytes.0.saturating_sub(self.moved_bytes.0) as f64;
        let goes_on = rate > 0.0 && !self.is_empty;
        self.remaining = goes_on.then(|| Duration::try_from_secs_f64(left / rate).ok()).flatten();
        self.rate = ByteCount(rate as u64);
    }
}

/// What a rebalance, or a change of code, does now.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub enum PoolWork {
    /// It counts what there is to be done.
    #[default]
    Counting,
    /// It is at work.
    Working,
    /// Something comes first, or some of it could not be done; for people.
    Waiting(String),
    /// It has ended: why, for people.
    Ended(String),
}

impl PoolWork {
    /// One word for people and programs; `working` is the one for what it does.
    #[must_use]
    pub fn word(&self, working: &'static str) -> &'static str {
        match self {
            PoolWork::Counting => "counting",
            PoolWork::Working => working,
            PoolWork::Waiting(_) => "waiting",
            PoolWork::Ended(_) => "ended",
        }
    }

    /// Why it waits, or has ended.
    #[must_use]
    pub fn reason(&self) -> Option<&str> {
        match self {
            PoolWork::Counting | PoolWork::Working => None,
            PoolWork::Waiting(why) | PoolWork::Ended(why) => Some(why),
        }
    }
}

/// How far what is stored has moved, so that the drives of the pool become equally full. What was moved is
/// since the start of the server.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct RebalanceInfo {
    /// What it does.
    pub state: PoolWork,
    /// It ends when the fullest drive and the emptiest are no further apart.
    pub to: PercentPoints,
    /// Since when it is asked for.
    pub since: Timestamp,
    /// When the first shard could move, since the start of the server.
    pub began: Option<Timestamp>,
    /// How far apart they are, of their sizes; `None`: not counted yet.
    pub spread: Option<Share>,
    /// Shards that were moved.
    pub moved: u64,
    /// Bytes that were written for that.
    pub moved_bytes: ByteCount,
    /// About the bytes that are to be moved still.
    pub left_bytes: ByteCount,
    /// Bytes a second.
    pub rate: ByteCount,
    /// Until all is moved, if it goes on so.
    pub remaining: Option<Duration>,
}

impl RebalanceInfo {
    /// Works out rate and time left.
    pub fn estimate(&mut self, now: Timestamp) {
        let seconds = self.began.map_or(0.0, |began| now.since(began).as_secs_f64());
        let rate = if seconds > 0.0 { self.moved_bytes.0 as f64 / seconds } else { 0.0 };
        let goes_on = rate > 0.0 && self.state == PoolWork::Working;
        let left = goes_on.then(|| Duration::try_from_secs_f64(self.left_bytes.0 as f64 / rate).ok());
        self.remaining = left.flatten();
        self.rate = ByteCount(rate as u64);
    }
}

/// How far what is stored in another code is written anew. What was written is since the start of the server.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RecodingInfo {
    /// What it does.
    pub state: PoolWork,
    /// The code that all gets.
    pub to: StripeCode,
    /// Since when it is asked for.
    pub since: Timestamp,
    /// When the first blob was begun, since the start of the server.
    pub began: Option<Timestamp>,
    /// Blobs that were written anew: a large file is one, or many files that were recalled together.
    pub blobs: u64,
    /// About how many there will be.
    pub blobs_total: u64,
    /// Their bytes, parity not counted.
    pub bytes: ByteCount,
    /// About how many there will be.
    pub bytes_total: ByteCount,
    /// Bytes a second.
    pub rate: ByteCount,
    /// Until all is written, if it goes on so.
    pub remaining: Option<Duration>,
}

impl RecodingInfo {
    /// One that has not begun.
    #[must_use]
    pub fn of(to: StripeCode, since: Timestamp) -> Self {
        RecodingInfo {
            state: PoolWork::Counting,
            to,
            since,
            began: None,
            blobs: 0,
            blobs_total: 0,
            bytes: ByteCount(0),
            bytes_total: ByteCount(0),
            rate: ByteCount(0),
            remaining: None,
        }
    }

    /// Works out rate and time left.
    pub fn estimate(&mut self, now: Timestamp) {
        let seconds = self.began.map_or(0.0, |began| now.since(began).as_secs_f64());
        let rate = if seconds > 0.0 { self.bytes.0 as f64 / seconds } else { 0.0 };
        let left = self.bytes_total.0.saturating_sub(self.bytes.0) as f64;
        let goes_on = rate > 0.0 && self.state == PoolWork::Working;
        self.remaining = goes_on.then(|| Duration::try_from_secs_f64(left / rate).ok()).flatten();
        self.rate = ByteCount(rate as u64);
    }
}

/// How far a rebuild is of what lost drives held. It is counted anew when one begins, also after a restart.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct RebuildInfo {
    /// When it began.
    pub began: Timestamp,
    /// Stripes and segments that were rebuilt, or could not be.
    pub stripes: u64,
    /// How many there are; until all are counted, how many were found.
    pub stripes_total: u64,
    /// Bytes that were written for that.
    pub bytes: ByteCount,
    /// About how many there will be.
    pub bytes_total: ByteCount,
    /// Whether all are counted.
    pub is_counted: bool,
    /// The stripes that are rebuilt now bear so many further losses: the fewest go first.
    pub bears: u64,
    /// Of these so many were rebuilt, or could not be.
    pub level_stripes: u64,
    /// How many of these there are.
    pub level_total: u64,
    /// Bytes a second.
    pub rate: ByteCount,
    /// Until all is rebuilt, if it goes on so.
    pub remaining: Option<Duration>,
}

impl RebuildInfo {
    /// Works out rate and time left.
    pub fn estimate(&mut self, now: Timestamp) {
        let seconds = now.since(self.began).as_secs_f64();
        let rate = if seconds > 0.0 { self.bytes.0 as f64 / seconds } else { 0.0 };
        let left = self.bytes_total.0.saturating_sub(self.bytes.0) as f64;
        let goes_on = rate > 0.0 && self.is_counted;
        self.remaining = goes_on.then(|| Duration::try_from_secs_f64(left / rate).ok()).flatten();
        self.rate = ByteCount(rate as u64);
    }

    /// What was put or moved since the count is rebuilt too.
    pub fn bound_totals(&mut self) {
        self.stripes_total = self.stripes_total.max(self.stripes);
        self.level_total = self.level_total.max(self.level_stripes);
        self.bytes_total = self.bytes_total.max(self.bytes);
    }
}

/// How far the scrubber is. Findings and repairs are of the present or last pass, those of single reads and
/// rebuilds in between included.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct ScrubInfo {
    /// `idle`, `blobs`, `values`, `rebuilding`, `looking for lost files`, `looking for
    /// gaps`, `repairing`.
    pub phase: String,
    /// Whether a pass is under way.
    pub running: bool,
    /// Whether it goes as fast as clients let it, since somebody asked for it.
    pub hurried: bool,
    /// Passes that came to their end since the server started.
    pub passes: u64,
    /// When the present or last pass began.
    pub began: Option<Timestamp>,
    /// When the last pass ended.
    pub ended: Option<Timestamp>,
    /// Blobs checked in this pass, and how many there were at its beginning.
    pub blobs: u64,
    /// See above.
    pub blobs_total: u64,
    /// Small values checked in this pass.
    pub values: u64,
    /// Bytes read in this pass, all shards and copies.
    pub bytes: ByteCount,
    /// About how many there will be.
    pub bytes_total: ByteCount,
    /// Bytes a second since the pass began.
    pub rate: f64,
    /// About how long the pass goes on.
    pub remaining: Option<Duration>,
    /// The rebuild that is under way.
    pub rebuild: Option<RebuildInfo>,
    /// Cells, records, shards and superblocks found wrong.
    pub found: u64,
    /// Shards written anew in their place, superblocks included.
    pub repaired: u64,
    /// Stripes of which shards went to other drives.
    pub moved: u64,
    /// Shards that could not be repaired.
    pub failed: u64,
    /// Files that the pool cannot give any more: recalled from tape.
    pub nearline: u64,
    /// Files of which no copy can be read.
    pub lost: u64,
    /// Lost files that could be read again.
    pub found_again: u64,
    /// Blobs and values that reads have found damaged, to be repaired.
    pub waiting: u64,
    /// Of these, such that were tried in vain and rest.
    pub waiting_failed: u64,
    /// What was found and done, newest last, the last two hundred lines: like things of a blob are one.
    pub findings: Vec<String>,
    /// Files that the pool cannot give now, by path and as LOST or NEARLINE, the first thousand of each.
    pub files: Vec<String>,
}

impl ScrubInfo {
    /// The totals are estimates of the beginning of the pass: what was put since is read too.
    pub fn bound_totals(&mut self) {
        self.blobs_total = self.blobs_total.max(self.blobs);
        self.bytes_total = self.bytes_total.max(self.bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rebuild_tells_the_time_left_when_all_is_counted() {
        let (bytes, bytes_total) = (ByteCount(10_000), ByteCount(40_000));
        let mut info = RebuildInfo { bytes, bytes_total, ..RebuildInfo::default() };
        let now = Timestamp(0).plus(Duration::from_secs(10));
        info.estimate(now);
        assert_eq!((info.rate, info.remaining), (ByteCount(1000), None), "more may be found");
        info.is_counted = true;
        info.estimate(now);
        assert_eq!(info.remaining, Some(Duration::from_secs(30)));
    }

    /// Story: a pass over a pool that was empty when it began had read "13.6 MB of about 0 B".
    #[test]
    fn a_total_is_no_less_than_what_is_done() {
        let (blobs, bytes) = (3, ByteCount(13_600_000));
        let mut info = ScrubInfo { blobs, bytes, ..ScrubInfo::default() };
        info.bound_totals();
        assert_eq!((info.blobs_total, info.bytes_total), (blobs, bytes));
        let (blobs_total, bytes_total) = (7, ByteCount(20_000_000));
        let mut info = ScrubInfo { blobs_total, bytes_total, ..info };
        info.bound_totals();
        assert_eq!((info.blobs_total, info.bytes_total), (blobs_total, bytes_total));
    }
}

/// A group of drives of the pool: how full it is, and what has moved since the start of the server.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct GroupInfo {
    /// Its name.
    pub name: String,
    /// The code of what it gets.
    pub code: StripeCode,
    /// Above the first mark what was not used for longest leaves it, down to the second.
    pub water: Water,
    /// Room on its drives.
    pub room: GroupRoom,
    /// Bytes of files that went to the drives in no group.
    pub left: ByteCount,
    /// Bytes of files that came back.
    pub came: ByteCount,
    /// What moves now, or why nothing does; of all groups together.
    pub state: PoolWork,
}
