//! Room in the pool: for puts, and for what is recalled.

use std::collections::BTreeMap;
use std::time::Duration;

use base::{ByteCount, ClassId, FileId};
use blob::BlobFault;
use catalogue::Counter;
use pool::DriveSpace;
use session::FreeSpace;

use crate::{ArchiveError, Ground, HealthProblem, LeavingCause};

/// Values up to this size share log segments; above they are striped.
pub const SMALL_BYTES_MAX: usize = 256 << 10;

/// How often a put that finds the pool full looks again while something is being removed from it, and how
/// many times: a second in all. A reader of what was removed may hold it longer; then the pool is full.
const ROOM_LOOK_EVERY: Duration = Duration::from_millis(10);
const ROOM_LOOKS: usize = 100;

impl Ground {
    /// Why the pool refuses new files, if it does.
    pub fn pool_refuses(&self) -> Option<HealthProblem> {
        match self.pool.takes_files() {
            Ok(()) => None,
            Err(error) if error.is_full() => Some(HealthProblem::PoolFull),
            Err(_) => {
                let (config, drives) = (self.pool.config(), self.pool.spaces());
                let writable = drives.iter().filter(|drive| drive.takes_files()).count();
                let takes_small = writable >= usize::from(config.segment_copies);
                Some(HealthProblem::DrivesAway { writable, needed: config.code.width(), takes_small })
            }
        }
    }

    /// Refuses a file of this length for which the pool has no room, or not enough drives. What puts under
    /// way will take is not known here: one that is let through may still find no room. What was evicted or
    /// removed and is still being taken from the drives counts as room: it is waited for, [`ROOM_LOOKS`]
    /// times [`ROOM_LOOK_EVERY`] at most.
    ///
    /// # Errors
    /// [`ArchiveError::PoolFull`], [`ArchiveError::TooLittleRoom`]; [`ArchiveError::Pool`] if too few drives
    /// are up for a file that is known to share no segments: of others the first write tells.
    pub fn check_takes_file(&self, length: Option<ByteCount>) -> Result<(), ArchiveError> {
        let is_full = |error: &ArchiveError| {
            matches!(error, ArchiveError::PoolFull | ArchiveError::TooLittleRoom { .. })
        };
        let is_coming = || {
            let holds = self.settled.holds_pool();
            Ok::<_, ArchiveError>(!holds && !self.read(|view| view.garbage(1))?.is_empty())
        };
        let mut took = self.takes_file(length);
        for _ in 0..ROOM_LOOKS {
            if !took.as_ref().is_err_and(is_full) || !is_coming()? {
                break;
            }
            self.sweep.ring();
            threads::Doorbell::default().wait(ROOM_LOOK_EVERY);
            took = self.takes_file(length);
        }
        // The last garbage may have gone between the look at the drives and that at the catalogue.
        let took = if took.as_ref().is_err_and(is_full) { self.takes_file(length) } else { took };
        took.inspect_err(|error| self.tell_of_lack(error, length))
    }

    /// A put failed with this, of so many bytes, if that is known: if it was for want of room, files may
    /// leave.
    pub fn tell_of_lack(&self, error: &ArchiveError, length: Option<ByteCount>) {
        let needs = match error {
            ArchiveError::TooLittleRoom { size, .. } => *size,
            ArchiveError::PoolFull => length.unwrap_or_default(),
            _ => return,
        };
        self.leaving.tell(LeavingCause::PutRefused(needs));
    }

    fn takes_file(&self, length: Option<ByteCount>) -> Result<(), ArchiveError> {
        match self.pool.takes_files().map_err(ArchiveError::from) {
            // A refusal in the midst of a large body costs its sending, and many clients never read it.
            Err(ArchiveError::Pool(_)) if length.is_none_or(|length| length.0 <= SMALL_BYTES_MAX as u64) => {
                Ok(())
            }
            result => {
                result?;
                let Some(size) = length.filter(|length| length.0 > SMALL_BYTES_MAX as u64) else {
                    return Ok(());
                };
                let room = self.room_for_files();
                if size > room { Err(ArchiveError::TooLittleRoom { size, room }) } else { Ok(()) }
            }
        }
    }

    /// Bytes of new files that the pool takes before it is full, as known by at most a second ago.
    pub fn room_for_files(&self) -> ByteCount {
        let code = self.pool.config().code;
        let room = |drive: &DriveSpace| drive.room_for_files().0;
        ByteCount(logical(&self.pool.spaces(), code.width(), code.data.into(), room))
    }

    /// What is free for recalls now, as known by at most a second ago.
    pub fn free_for_recalls(&self) -> Result<FreeSpace, ArchiveError> {
        let code = self.pool.config().code;
        let pool = logical(&self.pool.spaces(), code.width(), code.data.into(), left_for_recalls);
        let ceilings =
            self.classes.all().iter().filter_map(|class| Some((class.id, class.settings.pool_max?)));
        let classes = self.read(|view| {
            let mut classes: BTreeMap<ClassId, ByteCount> = BTreeMap::new();
            for (class, ceiling) in ceilings.clone() {
                let online = view.tally(Counter::Online(class))?.bytes;
                classes.insert(class, ByteCount(ceiling.0.saturating_sub(online.0)));
            }
            Ok(classes)
        })?;
        Ok(FreeSpace { pool: ByteCount(pool), classes })
    }

    /// Bytes of files that the pool takes when nothing is in it; what its missing drives hold not counted.
    pub fn pool_bytes(&self) -> ByteCount {
        let code = self.pool.config().code;
        let whole = |drive: &DriveSpace| drive.capacity.0.saturating_sub(left_for_puts(drive));
        ByteCount(logical(&self.pool.spaces(), code.width(), code.data.into(), whole))
    }

    /// Refuses a file that no evict can make room for.
    ///
    /// # Errors
    /// [`ArchiveError::NeverFits`].
    pub fn check_can_fit(&self, file: FileId, class: ClassId, size: ByteCount) -> Result<(), ArchiveError> {
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
    pub fn is_for_want_of_room(&self, fault: BlobFault) -> bool {
        match fault {
            BlobFault::Full => true,
            BlobFault::NoPlace => {
                self.pool.spaces().iter().any(|drive| drive.health.is_up() && left_for_recalls(drive) == 0)
            }
            BlobFault::Unreadable(_) | BlobFault::Shortage | BlobFault::Other => false,
        }
    }
}

fn left_for_puts(drive: &DriveSpace) -> u64 {
    session::left_for_puts(drive.capacity, 1).0
}

fn left_for_recalls(drive: &DriveSpace) -> u64 {
    if drive.health.is_writable() { drive.free.0.saturating_sub(left_for_puts(drive)) } else { 0 }
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

#[cfg(test)]
mod tests {
    use super::*;

    fn drives(free: &[u64]) -> Vec<DriveSpace> {
        let drive = |(id, free): (usize, &u64)| DriveSpace {
            drains: false,
            id: base::DriveId(id as u16),
            health: pool::DriveHealth::Up,
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
