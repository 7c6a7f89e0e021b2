//! Room in the pool for what is recalled: how much there is, and who has claimed it.
//!
//! A recall never begins a batch that has no room, so that no write of it fails for want of space and no tape
//! or drive gets a bad name for a full pool. Nothing is evicted by itself: who wants more room evicts, or
//! releases what is pinned.

use std::collections::{BTreeMap, VecDeque};
use std::sync::PoisonError;
use std::sync::atomic::{AtomicBool, Ordering};
use threads::{Mutex, MutexGuard};

use base::{ByteCount, ClassId, Duration, FileId, Timestamp};
use catalogue::Counter;
use mover::WantedFile;
use pool::{DriveSpace, PoolError};
use scheduler::session;

use crate::ArchiveError;
use crate::engine::Engine;

/// New files are refused when a drive has less than this part of it free ...
const FLOOR_PART: u64 = 50;
/// ... or less than this, whichever is less.
const FLOOR_BYTES_MAX: u64 = 1 << 30;

/// What is free for recalls, by the pool and by classes.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub(crate) struct Room {
    /// Bytes of files that the pool takes from tapes, what is claimed not taken off.
    pub(crate) pool: u64,
    /// The same for each class with a ceiling.
    pub(crate) classes: BTreeMap<ClassId, u64>,
}

/// What running sessions have claimed, and what did not fit.
#[derive(Default)]
pub(crate) struct Space(Mutex<State>);

#[derive(Default)]
struct State {
    claimed: BTreeMap<ClassId, u64>,
    /// Of each class, the file that did not fit.
    short: BTreeMap<ClassId, Short>,
}

/// The smallest file of a class that did not fit.
#[derive(Clone, Copy)]
struct Short {
    bytes: u64,
    since: Timestamp,
    /// How often it was tried in vain: each time its class is left alone for twice as long.
    times: u32,
    /// That time has passed and it is being tried again.
    tried: bool,
}

impl Short {
    fn rests(&self, retry_delay: Duration) -> Duration {
        session::back_off(retry_delay, self.times, session::BACK_OFF_MAX)
    }
}

impl Space {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn give_back(&self, class: ClassId, bytes: u64) {
        let mut state = self.lock();
        if let Some(claimed) = state.claimed.get_mut(&class) {
            *claimed = claimed.saturating_sub(bytes);
        }
        state.claimed.retain(|_, claimed| *claimed > 0);
    }
}

impl Engine {
    /// Whether new files are refused because too few drives have room for them: the one place that says so,
    /// for the doors, the health and the screens. A part of the pool is kept for what empties it: skeletons
    /// of packs and recalled files.
    pub(crate) fn pool_is_full(&self) -> bool {
        let has_room = |drive: &&DriveSpace| {
            let floor = (drive.capacity.0 / FLOOR_PART).min(FLOOR_BYTES_MAX);
            drive.up && drive.free.0 > floor
        };
        let width = self.pool.config().code.width();
        // Asked of the file systems at most once a second.
        let spaces = self.pool.spaces();
        // Too few drives at all is another matter, of which the pool tells itself.
        let answer = |drive: &&DriveSpace| drive.up || drive.full;
        spaces.iter().filter(has_room).count() < width && spaces.iter().filter(answer).count() >= width
    }

    /// What is free for recalls now, as known by at most a second ago.
    pub(crate) fn room(&self) -> Result<Room, ArchiveError> {
        let code = self.pool.config().code;
        let pool = logical(&self.pool.spaces(), code.width(), code.data.into(), left_for_recalls);
        let ceilings =
            self.classes.all().iter().filter_map(|class| Some((class.id, class.settings.pool_max?)));
        let classes = self.read(|view| {
            let mut classes = BTreeMap::new();
            for (class, ceiling) in ceilings.clone() {
                let online = view.tally(Counter::Online(class))?.bytes;
                classes.insert(class, ceiling.0.saturating_sub(online.0));
            }
            Ok(classes)
        })?;
        Ok(Room { pool, classes })
    }

    /// As [`Engine::room`], but nothing where a file is known to wait for more than that.
    pub(crate) fn room_to_tell(&self) -> Result<Room, ArchiveError> {
        let mut room = self.room()?;
        let now = self.now();
        let mut state = self.space.lock();
        let retry_delay = self.settings.tape.retry_delay;
        let (pool, classes) = (room.pool, &mut room.classes);
        state.short.retain(|class, short| {
            let of_class = classes.get(class).copied().unwrap_or(u64::MAX);
            pool < short.bytes || of_class < short.bytes
        });
        // Nothing is said of the pool as a whole: a large file of one class must not stop all others. After a
        // rest it is tried again: who wanted that file may have given up.
        for (class, short) in &mut state.short {
            short.tried |= now.since(short.since) >= short.rests(retry_delay);
            if !short.tried {
                classes.insert(*class, 0);
            }
        }
        Ok(room)
    }

    /// Claims room for so many bytes of a class; `false` if there is none. What is claimed is given back with
    /// [`Engine::give_back_space`], once it stands in the catalogue or will not come.
    pub(crate) fn take_space(&self, class: ClassId, bytes: u64) -> Result<bool, ArchiveError> {
        let room = self.room()?;
        let mut state = self.space.lock();
        let all: u64 = state.claimed.values().sum();
        let own = state.claimed.get(&class).copied().unwrap_or(0);
        let of_class = room.classes.get(&class).copied().unwrap_or(u64::MAX);
        let fits = all.saturating_add(bytes) <= room.pool && own.saturating_add(bytes) <= of_class;
        if fits {
            *state.claimed.entry(class).or_default() += bytes;
        }
        Ok(fits)
    }

    /// A file of so many bytes waits for room.
    fn is_short(&self, class: ClassId, bytes: u64) {
        let now = self.now();
        let mut state = self.space.lock();
        let new = Short { bytes, since: now, times: 0, tried: false };
        let short = state.short.entry(class).or_insert(new);
        short.bytes = short.bytes.min(bytes);
        if std::mem::take(&mut short.tried) {
            (short.since, short.times) = (now, short.times.saturating_add(1));
        }
    }

    /// Gives back what [`Engine::take_space`] has claimed.
    pub(crate) fn give_back_space(&self, class: ClassId, bytes: u64) {
        self.space.give_back(class, bytes);
    }

    /// Bytes of files that the pool takes when nothing is in it; what its missing drives hold not counted.
    pub(crate) fn pool_bytes(&self) -> ByteCount {
        let code = self.pool.config().code;
        let whole = |drive: &DriveSpace| drive.capacity.0.saturating_sub(left_for_puts(drive));
        ByteCount(logical(&self.pool.spaces(), code.width(), code.data.into(), whole))
    }

    /// Refuses a file that no evict can make room for.
    ///
    /// # Errors
    /// [`ArchiveError::NeverFits`].
    pub(crate) fn check_can_fit(
        &self,
        file: FileId,
        class: ClassId,
        size: ByteCount,
    ) -> Result<(), ArchiveError> {
        let pool = self.pool_bytes().0;
        let ceiling = self.classes.get(class).and_then(|class| class.settings.pool_max);
        let limit = ceiling.map_or(pool, |ceiling| pool.min(ceiling.0));
        // A pool whose drives are away says nothing about what fits when they are back.
        if size.0 <= limit || (pool == 0 && ceiling.is_none_or(|ceiling| size <= ceiling)) {
            return Ok(());
        }
        let path = self.read(|view| view.path_of_file(file))?.unwrap_or_default();
        let what = match ceiling {
            Some(ceiling) if ceiling.0 <= pool || pool == 0 => {
                format!("pool_max of its class {}", self.classes.name(class))
            }
            _ => "what the pool's drives hold".to_owned(),
        };
        let limit = if pool == 0 { ceiling.unwrap_or_default() } else { ByteCount(limit) };
        Err(ArchiveError::NeverFits { path, size, what, limit })
    }

    /// Whether a write failed because drives are full.
    pub(crate) fn is_for_want_of_room(&self, error: &PoolError) -> bool {
        match error {
            error if error.is_full() => true,
            PoolError::Placement(_) | PoolError::WriteLost { .. } => {
                // What the failed write left behind is removed already, and with it a drive's state `full`.
                self.pool
                    .spaces()
                    .iter()
                    .any(|drive| drive.full || (drive.up && left_for_recalls(drive) == 0))
            }
            _ => false,
        }
    }
}

fn left_for_puts(drive: &DriveSpace) -> u64 {
    session::left_for_puts(drive.capacity, 1).0
}

fn left_for_recalls(drive: &DriveSpace) -> u64 {
    if drive.up { drive.free.0.saturating_sub(left_for_puts(drive)) } else { 0 }
}

/// Bytes of files that fit if each drive takes so many: the most rows of which each has its cells on `width`
/// distinct drives.
fn logical(drives: &[DriveSpace], width: usize, data: usize, of: impl Fn(&DriveSpace) -> u64) -> u64 {
    let mut room: Vec<u64> = drives.iter().map(of).collect();
    room.sort_unstable_by(|a, b| b.cmp(a));
    if room.len() < width || width == 0 {
        return 0;
    }
    // A drive with more than an even part of what all others allow cannot use the rest.
    let mut cells = u64::MAX;
    for large in 0..width {
        let rest: u128 = room[large..].iter().map(|room| u128::from(*room)).sum();
        let each = rest / (width - large) as u128;
        cells = cells.min(u64::try_from(each).unwrap_or(u64::MAX));
    }
    cells.saturating_mul(data as u64)
}

/// What one recall session has claimed, batch after batch; given back when it ends, however it ends.
pub(crate) struct SessionSpace<'a> {
    engine: &'a Engine,
    batches: Mutex<VecDeque<BTreeMap<ClassId, u64>>>,
    refused: AtomicBool,
}

impl<'a> SessionSpace<'a> {
    pub(crate) fn new(engine: &'a Engine) -> Self {
        SessionSpace { engine, batches: Mutex::default(), refused: AtomicBool::new(false) }
    }

    fn batches(&self) -> MutexGuard<'_, VecDeque<BTreeMap<ClassId, u64>>> {
        self.batches.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The next batch that has room, and that room claimed; empty if there is none, in all that is planned.
    /// To be called before anything of it is read.
    pub(crate) fn next_batch(&self, next: &mut dyn FnMut() -> Vec<WantedFile>) -> Vec<WantedFile> {
        // What did not fit a moment ago needs no other look, nor what is larger.
        let mut too_large = BTreeMap::new();
        while !self.engine.stop.load(Ordering::Relaxed) {
            let batch = next();
            if batch.is_empty() {
                return batch;
            }
            let admitted = self.admit(batch, &mut too_large);
            if !admitted.is_empty() {
                return admitted;
            }
        }
        Vec::new()
    }

    /// Claims room for a batch and leaves out what has none.
    fn admit(&self, batch: Vec<WantedFile>, too_large: &mut BTreeMap<ClassId, u64>) -> Vec<WantedFile> {
        let mut claims: BTreeMap<ClassId, u64> = BTreeMap::new();
        let mut admitted = Vec::with_capacity(batch.len());
        // One claim for each class; a class without room for all is tried file by file.
        let mut by_class: BTreeMap<ClassId, u64> = BTreeMap::new();
        let classes: Vec<Option<ClassId>> = batch.iter().map(|wanted| self.class_of(wanted.file)).collect();
        for (wanted, class) in batch.iter().zip(&classes) {
            if let Some(class) = class {
                *by_class.entry(*class).or_default() += wanted.length.0;
            }
        }
        by_class.retain(|class, bytes| !too_large.contains_key(class) && self.take(*class, *bytes));
        for (class, bytes) in &by_class {
            claims.insert(*class, *bytes);
        }
        for (wanted, class) in batch.into_iter().zip(classes) {
            let Some(class) = class else { continue };
            let bytes = wanted.length.0;
            if by_class.contains_key(&class) {
                admitted.push(wanted);
            } else if too_large.get(&class).is_none_or(|least| bytes < *least) && self.take(class, bytes) {
                *claims.entry(class).or_default() += bytes;
                admitted.push(wanted);
            } else {
                let least = too_large.entry(class).or_insert(bytes);
                *least = bytes.min(*least);
                self.engine.is_short(class, bytes);
                self.refused.store(true, Ordering::Relaxed);
            }
        }
        if !admitted.is_empty() {
            self.batches().push_back(claims);
        }
        admitted
    }

    /// The oldest batch stands in the catalogue, or will not come.
    pub(crate) fn done(&self) {
        let claims = self.batches().pop_front().unwrap_or_default();
        claims.into_iter().for_each(|(class, bytes)| self.engine.give_back_space(class, bytes));
    }

    /// Whether something was left out.
    pub(crate) fn has_refused(&self) -> bool {
        self.refused.load(Ordering::Relaxed)
    }

    fn take(&self, class: ClassId, bytes: u64) -> bool {
        self.engine.take_space(class, bytes).unwrap_or_else(|error| {
            tracing::error!(%error, "the room of the pool cannot be found out; nothing is read for now");
            false
        })
    }

    /// `None` of a file that was deleted meanwhile.
    fn class_of(&self, file: FileId) -> Option<ClassId> {
        let record = self.engine.read(|view| view.file(file));
        record.ok().flatten().map(|record| record.class)
    }
}

impl Drop for SessionSpace<'_> {
    fn drop(&mut self) {
        while !self.batches().is_empty() {
            self.done();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn drives(free: &[u64]) -> Vec<DriveSpace> {
        let drive = |(id, free): (usize, &u64)| DriveSpace {
            id: base::DriveId(id as u16),
            up: true,
            full: false,
            capacity: ByteCount(1_000),
            free: ByteCount(*free),
        };
        free.iter().enumerate().map(drive).collect()
    }

    /// By hand: each row takes one cell of `width` distinct drives.
    fn by_rows(free: &[u64], width: usize) -> u64 {
        let mut free = free.to_vec();
        let mut rows = 0;
        loop {
            free.sort_unstable_by(|a, b| b.cmp(a));
            if free.len() < width || free[width - 1] == 0 {
                return rows;
            }
            free[..width].iter_mut().for_each(|room| *room -= 1);
            rows += 1;
        }
    }

    #[test]
    fn room_is_what_rows_over_distinct_drives_can_fill() {
        for free in [
            &[10, 10, 10, 10, 10, 10][..],
            &[100, 10, 10, 10, 10, 10, 10],
            &[50, 40, 3, 2, 1],
            &[7, 7, 0, 0, 0, 0],
            &[90, 90, 90, 5, 5, 5, 5],
            &[1, 2],
        ] {
            for width in 1..=6 {
                let found = logical(&drives(free), width, 1, |drive| drive.free.0);
                assert_eq!(found, by_rows(free, width), "{free:?}, width {width}");
            }
        }
    }

    #[test]
    fn a_twentieth_of_each_drive_is_left_to_puts() {
        let spaces = drives(&[50, 51, 1_000]);
        let left: Vec<u64> = spaces.iter().map(left_for_recalls).collect();
        assert_eq!(left, [0, 1, 950]);
    }
}
