//! Room for the catalogue: blocks of its file system that are allocated ahead of what is written, so that a
//! full file system is noticed before LMDB meets it, and what makes room can still be written.

use std::fs::File;
use std::io;
use std::path::Path;
use std::sync::PoisonError;

use base::Duration;
use rustix::fs::{FallocateFlags, fallocate, fstatvfs};
use threads::{Mutex, MutexGuard};

/// Kept for commands that make room, and allocated ahead: with less, what grows the catalogue is refused. In
/// bytes; half of it takes the removal of some 250 files that lie apart, with four pages each.
const RESERVE_MAX: u64 = 8 << 20;
/// The reserve is this part of the map, within the limits beside it.
const RESERVE_PART: u64 = 8;
/// The least reserve, in bytes, of all maps but the smallest. A commit writes each page that it changes
/// anew, and what it gives up can be written from the second commit behind it on: so the last part of the
/// reserve has room for three single removals, two of which are not given back yet.
const RESERVE_LEAST: u64 = 2 << 20;
/// The reserve is at most this part of the smallest maps: an eighth of one of 2 MiB, which only tests have,
/// is not enough for one removal.
const RESERVE_PART_MAX: u64 = 4;
/// Most bytes that the removal of one file writes, if it has few pieces: some nine tables are changed, with a
/// page on each of up to five levels, and the lists of tables and of free pages with up to eight together,
/// thus 53 pages of 4 KiB. With 60,000 files, three levels, 24 pages were measured.
pub(crate) const SINGLE_REMOVAL: u64 = 256 << 10;
const _: () = assert!(RESERVE_LEAST / LAST_PART >= 3 * SINGLE_REMOVAL);
/// This part of the reserve is kept for what makes room: with less, work of the server that keeps more, as
/// migration does, is refused too.
const LAST_PART: u64 = 2;
/// Allocated ahead is up to so many times the reserve.
const AHEAD: u64 = 2;
/// The file system is asked for blocks in this many pieces of the reserve.
const PIECES: u64 = 4;
/// A file system that was found full is asked again after this.
const ASK_AGAIN_AFTER: Duration = Duration::from_secs(1);

/// What the catalogue lacks for commands that make it grow. Reads and what makes room go on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Shortage {
    /// Space of its file system.
    Disk,
    /// Address space: its map is full.
    Map,
    /// Pages of its map: they hold nothing any more, and somebody still reads what they held.
    Readers,
}

/// Which commands are refused for it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Refused {
    /// What makes the catalogue grow for somebody outside.
    Growth,
    /// Work of the server that keeps more as well.
    Work,
    /// The last command that makes room found none either.
    All,
}

/// What is lacking, and what is refused.
pub type Lack = (Shortage, Refused);

/// Bytes that the file system of `path` has free for everybody.
///
/// # Errors
/// If it cannot be asked.
pub fn free_bytes(path: &Path) -> io::Result<u64> {
    let found = rustix::fs::statvfs(path)?;
    Ok(found.f_bavail.saturating_mul(found.f_frsize))
}

/// What is known of the room, and how more is got.
pub(crate) struct Room {
    file: File,
    map: u64,
    reserve: u64,
    state: Mutex<State>,
}

struct State {
    /// The file has blocks up to here.
    allocated: u64,
    /// When the file system last had no more room.
    asked: Option<Duration>,
    /// The last commit met a full file system.
    is_met: bool,
    /// What the last command that makes room was refused for.
    exhausted: Option<Shortage>,
    found: Option<Lack>,
}

impl Room {
    /// For the catalogue's file at `path`, in a map of `map` bytes.
    pub(crate) fn open(path: &Path, map: u64) -> io::Result<Room> {
        let file = File::options().write(true).open(path)?;
        let reserve = reserve(map);
        let state = State { allocated: 0, asked: None, is_met: false, exhausted: None, found: None };
        let room = Room { file, map, reserve, state: Mutex::new(state) };
        assert!(room.reserve < map, "what is kept for removals is a part of the map");
        // Blocks of an earlier run beyond the end of the file count, and holes are filled.
        let length = room.file.metadata()?.len();
        let mut state = room.lock();
        match room.allocate(0, length + AHEAD * room.reserve) {
            Ok(()) => state.allocated = length + AHEAD * room.reserve,
            Err(_) => state.allocated = room.blocks()?.max(length),
        }
        drop(state);
        Ok(room)
    }

    /// What is lacking at the steady time `now`, when `used` bytes lie up to the last page, of which `live`
    /// says how many hold something. Gets blocks if there are too few ahead.
    pub(crate) fn look<E>(
        &self,
        now: Duration,
        used: u64,
        live: impl FnOnce() -> Result<u64, E>,
    ) -> Result<Option<Lack>, E> {
        let mut state = self.lock();
        // What is left is looked at each time; the file system is not asked.
        let rests = state.asked.is_some_and(|asked| now.saturating_sub(asked) < ASK_AGAIN_AFTER);
        if rests && state.is_met {
            return Ok(state.found);
        }
        if !rests {
            state.asked = (!self.get_ahead(&mut state, used)).then_some(now);
        }
        state.found = None;
        // Blocks are got in pieces: none is got behind the last whole one.
        let is_mapped = state.allocated + self.reserve / PIECES >= self.map;
        let lacks_map = used + self.reserve > self.map || is_mapped && used + self.reserve > state.allocated;
        if lacks_map || used + self.reserve > state.allocated {
            // Pages that became free are written again.
            let room = self.map.min(state.allocated).saturating_sub(live()?);
            if room < self.reserve {
                let refused = match room {
                    _ if state.exhausted.is_some() => Refused::All,
                    room if room < self.reserve / LAST_PART => Refused::Work,
                    _ => Refused::Growth,
                };
                state.found = Some((if lacks_map { Shortage::Map } else { Shortage::Disk }, refused));
                state.asked = state.asked.filter(|_| rests).or(Some(now));
            }
        }
        // The next commit has room, and without one nobody would say so.
        if state.found.is_none() && self.free().is_none_or(|free| free >= self.reserve) {
            state.is_met = false;
        }
        Ok(state.found)
    }

    /// Whether the part that is kept for what makes room is left when `live` bytes hold something.
    pub(crate) fn has_last_part(&self, live: u64) -> bool {
        self.map.saturating_sub(live) >= self.reserve / LAST_PART
    }

    /// Whether a commit may come into that part when `used` bytes lie up to the last page.
    pub(crate) fn is_near_end(&self, used: u64) -> bool {
        used + AHEAD * self.reserve > self.map
    }

    /// A commit met a full file system. After a while another one is tried: a file system that copies what
    /// it writes, or that does not allocate ahead, tells in no other way whether it has room again.
    pub(crate) fn met_full(&self, now: Duration) {
        let mut state = self.lock();
        state.allocated = state.allocated.max(self.blocks().unwrap_or(0));
        state.is_met = true;
        state.found = Some((Shortage::Disk, Refused::Growth));
        state.asked = Some(now);
    }

    /// A commit found room.
    pub(crate) fn met_room(&self) {
        let mut state = self.lock();
        (state.is_met, state.exhausted) = (false, None);
    }

    /// A command that makes room found none, for this reason.
    pub(crate) fn is_exhausted(&self, shortage: Shortage) {
        let mut state = self.lock();
        state.exhausted = Some(shortage);
        state.found = state.found.map(|(shortage, _)| (shortage, Refused::All));
    }

    /// For what the last command that makes room found none.
    pub(crate) fn exhausted(&self) -> Option<Shortage> {
        self.lock().exhausted
    }

    /// Whether the last commit met a full file system.
    pub(crate) fn is_met_full(&self) -> bool {
        self.lock().is_met
    }

    /// Whether the file system has no block for another page now.
    pub(crate) fn is_full(&self) -> bool {
        let state = self.lock();
        self.allocate(state.allocated, self.reserve / PIECES).is_err_and(|error| is_full(&error))
            || self.free().is_some_and(|free| free < self.reserve / PIECES)
    }

    /// Whether there are, or now are, as many blocks ahead as there should be.
    fn get_ahead(&self, state: &mut State, used: u64) -> bool {
        let piece = self.reserve / PIECES;
        let wanted = (used + AHEAD * self.reserve).min(self.map);
        assert!(piece > 0, "each piece gets on, or it would not end");
        while state.allocated + piece < wanted {
            match self.allocate(state.allocated, piece) {
                Ok(()) => state.allocated += piece,
                // Whoever cannot allocate ahead tells by a commit that fails.
                Err(error) if error.kind() == io::ErrorKind::Unsupported => state.allocated = u64::MAX / 2,
                Err(_) => return false,
            }
        }
        true
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Blocks behind the end of the file, which stays where it is.
    fn allocate(&self, from: u64, bytes: u64) -> io::Result<()> {
        Ok(fallocate(&self.file, FallocateFlags::KEEP_SIZE, from, bytes)?)
    }

    fn blocks(&self) -> io::Result<u64> {
        use std::os::unix::fs::MetadataExt;
        Ok(self.file.metadata()?.blocks().saturating_mul(512))
    }

    /// Free bytes of the file system; `None` if it does not say.
    fn free(&self) -> Option<u64> {
        let found = fstatvfs(&self.file).ok()?;
        Some(found.f_bavail.saturating_mul(found.f_frsize))
    }
}

/// What is kept of a map.
fn reserve(map: u64) -> u64 {
    let reserve = (map / RESERVE_PART).clamp(RESERVE_LEAST, RESERVE_MAX).min(map / RESERVE_PART_MAX);
    assert!(RESERVE_PART_MAX * reserve <= map, "most of the map is for use");
    reserve
}

/// Whether an operation failed for lack of space.
pub(crate) fn is_full(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded)
}
