//! Room in the pool: for puts, and for what is recalled.

use std::collections::BTreeMap;
use std::time::Duration;

use base::{ByteCount, ClassId, DriveGroup, FileId, StripeCode};
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
                let (config, drives) = (self.pool.config(), self.pool.spaces_of(DriveGroup::MAIN));
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
    /// [`ArchiveError::PoolFull`], [`ArchiveError::TooLittleRoom`], [`ArchiveError::RoomIsBeingMade`];
    /// [`ArchiveError::Pool`] if too few drives
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
        took.map_err(|error| self.tell_of_lack(error, length))
    }

    /// A put failed with this, of so many bytes, if that is known: if it was for want of room, files may
    /// leave. What is told of it: that room is being made, if it is, and the file can fit at all.
    pub fn tell_of_lack(&self, error: ArchiveError, length: Option<ByteCount>) -> ArchiveError {
        let size = match &error {
            ArchiveError::TooLittleRoom { size, .. } => *size,
            ArchiveError::PoolFull => length.unwrap_or_default(),
            _ => return error,
        };
        let comes = self.leaving.room_comes() && self.blob_room_in_all().takes(size);
        self.leaving.tell(LeavingCause::PutRefused(size));
        if comes { ArchiveError::RoomIsBeingMade { size } } else { error }
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
                let room = self.blob_room_for_files();
                if room.takes(size) {
                    return Ok(());
                }
                Err(ArchiveError::TooLittleRoom { size, room: room.largest })
            }
        }
    }

    /// Bytes of new files that the pool takes before it is full, as known by at most a second ago.
    pub fn room_for_files(&self) -> ByteCount {
        self.blob_room_for_files().all
    }

    /// Room for new files, as known by at most a second ago.
    pub fn blob_room_for_files(&self) -> BlobRoom {
        self.blob_room(|drive| drive.room_for_files().0)
    }

    /// Room for what is recalled, as known by at most a second ago; what is claimed not taken off.
    pub fn blob_room_for_recalls(&self) -> BlobRoom {
        self.blob_room(left_for_recalls)
    }

    /// About the bytes of files that stand in groups of drives, as known by at most a second ago.
    pub fn bytes_in_groups(&self) -> ByteCount {
        let of = |(group, settings): (DriveGroup, &crate::GroupSettings)| {
            settings.code.of_raw(self.pool.group_room(group).used).0
        };
        ByteCount(self.settings.pool.numbered_groups().map(of).fold(0, u64::saturating_add))
    }

    /// The group of drives that gets the files of a class.
    pub fn group_of_class(&self, class: ClassId) -> DriveGroup {
        let class = self.classes.get(class);
        let group = class.and_then(|class| self.settings.pool.group(&class.settings.placing.group));
        group.unwrap_or(DriveGroup::MAIN)
    }

    /// The groups of drives are beside the pool, full of what is used or not: its room is measured by the
    /// drives that are in none.
    fn blob_room(&self, of: impl Fn(&DriveSpace) -> u64) -> BlobRoom {
        let config = self.pool.config();
        BlobRoom::of(&self.pool.spaces_of(DriveGroup::MAIN), config.code, config.extent_size, of)
    }

    /// What is free for recalls now, as known by at most a second ago.
    pub fn free_for_recalls(&self) -> Result<FreeSpace, ArchiveError> {
        let room = self.blob_room_for_recalls();
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
        Ok(FreeSpace { pool: room.all, blob: room.largest, classes })
    }

    /// Bytes of files that the pool takes when nothing is in it; what its missing drives hold not counted.
    pub fn pool_bytes(&self) -> ByteCount {
        self.blob_room_in_all().all
    }

    fn blob_room_in_all(&self) -> BlobRoom {
        self.blob_room(|drive| drive.capacity.0.saturating_sub(left_for_puts(drive)))
    }

    /// Refuses a file that no evict can make room for.
    ///
    /// # Errors
    /// [`ArchiveError::NeverFits`].
    pub fn check_can_fit(&self, file: FileId, class: ClassId, size: ByteCount) -> Result<(), ArchiveError> {
        let pool = self.blob_room_in_all().largest.0;
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
                let lacks = |drive: &DriveSpace| drive.refuses_from.is_some() || left_for_recalls(drive) == 0;
                self.pool.spaces_of(DriveGroup::MAIN).iter().any(|drive| drive.health.is_up() && lacks(drive))
            }
            BlobFault::Unreadable(_) | BlobFault::Shortage | BlobFault::Other => false,
        }
    }
}

fn left_for_puts(drive: &DriveSpace) -> u64 {
    session::left_for_puts(drive.capacity, 1).0
}

/// A full drive takes what is smaller than all that it refused.
fn left_for_recalls(drive: &DriveSpace) -> u64 {
    if !drive.health.is_up() || drive.drains {
        return 0;
    }
    let refused = drive.refuses_from.map_or(u64::MAX, |bytes| bytes.0.saturating_sub(1));
    drive.free.0.saturating_sub(left_for_puts(drive)).min(refused)
}

/// Room on the drives for blobs, each of which lies on as many as the code is wide.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct BlobRoom {
    /// Bytes of blobs that fit in all, if each is small.
    pub all: ByteCount,
    /// The largest blob that fits.
    pub largest: ByteCount,
    /// What one stripe holds: behind the first the others may lie on other drives.
    stripe: ByteCount,
    /// Drives over which what leaves was spread, and the width of the code.
    drives: u64,
    width: u64,
}

impl BlobRoom {
    /// If each drive takes so many bytes, in extents of at most `extent`.
    fn of(
        drives: &[DriveSpace],
        code: StripeCode,
        extent: ByteCount,
        of: impl Fn(&DriveSpace) -> u64,
    ) -> Self {
        let width = code.width();
        let mut room: Vec<u64> = drives.iter().map(of).collect();
        room.sort_unstable_by(|a, b| b.cmp(a));
        let all = logical(&room, width, code.data.into());
        // Further stripes may lie on other drives; the first one needs a whole extent on each.
        let largest = match width.checked_sub(1).and_then(|last| room.get(last)) {
            Some(least) if *least < extent.0 => all.min(least.saturating_mul(code.data.into())),
            _ => all,
        };
        let drives = drives.iter().filter(|drive| drive.capacity.0 > 0).count().max(width) as u64;
        let stripe = ByteCount(extent.0.saturating_mul(code.data.into()));
        let (all, largest) = (ByteCount(all), ByteCount(largest));
        BlobRoom { all, largest, stripe, drives, width: width.max(1) as u64 }
    }

    /// Whether a blob of so many bytes fits.
    pub fn takes(self, bytes: ByteCount) -> bool {
        bytes <= self.largest
    }

    /// Bytes that have to be free in all for a blob of this size, if what leaves comes off all drives alike.
    pub fn needed_for(self, bytes: ByteCount) -> ByteCount {
        if self.takes(bytes) {
            return bytes;
        }
        let lacks = bytes.min(self.stripe).0.saturating_sub(self.largest.0);
        let lacks = u128::from(lacks) * u128::from(self.drives);
        let lacks = u64::try_from(lacks.div_ceil(u128::from(self.width))).unwrap_or(u64::MAX);
        ByteCount(self.all.0.saturating_add(lacks).max(bytes.0))
    }
}

/// Bytes of files that fit if each drive takes so many, the largest first: the most rows of which each has
/// its cells on `width` distinct drives.
fn logical(room: &[u64], width: usize, data: usize) -> u64 {
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
            group: DriveGroup::MAIN,
            drains: false,
            refuses_from: None,
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
                let mut room = free.to_vec();
                room.sort_unstable_by(|a, b| b.cmp(a));
                assert_eq!(logical(&room, width, 1), by_rows(free, width), "{free:?}, width {width}");
            }
        }
    }

    #[test]
    fn a_twentieth_of_each_drive_is_left_to_puts() {
        let spaces = drives(&[50, 51, 1_000]);
        let left: Vec<u64> = spaces.iter().map(left_for_recalls).collect();
        assert_eq!(left, [0, 1, 950]);
    }

    /// Story: one write that was too large for a drive made it count as without any room, and so the pool.
    #[test]
    fn a_full_drive_has_room_for_what_is_smaller_than_all_that_it_refused() {
        let mut spaces = drives(&[250, 250, 250, 250]);
        spaces.iter_mut().for_each(|drive| drive.health = pool::DriveHealth::Full);
        spaces[0].refuses_from = Some(ByteCount(150));
        spaces[1].refuses_from = Some(ByteCount(1_000));
        spaces[2].drains = true;
        spaces[3].health = pool::DriveHealth::Missing;
        let left: Vec<u64> = spaces.iter().map(left_for_recalls).collect();
        assert_eq!(left, [149, 200, 0, 0]);
    }

    /// Story: a recall of 200 MB was begun with 260 MB free on eight drives, and six of them had not so much.
    #[test]
    fn the_largest_blob_is_what_the_drives_of_one_set_take() {
        let code = StripeCode::reed_solomon(4, 2);
        let width = code.width();
        let room =
            |free: &[u64], extent| BlobRoom::of(&drives(free), code, ByteCount(extent), |drive| drive.free.0);
        let spread = vec![30; width + 2];
        let small = room(&spread, 64);
        assert_eq!(small.largest, ByteCount(4 * 30));
        assert!(small.all > small.largest && small.takes(ByteCount(120)) && !small.takes(ByteCount(121)));
        // Where each of them takes a whole extent, the next one lies on others.
        assert_eq!(room(&spread, 30).largest, small.all);
        assert_eq!(room(&spread[..width - 1], 64).largest, ByteCount(0));
        // What leaves comes off all drives: of `width` bytes each of the set gets one.
        let drives = width as u64 + 2;
        let lacks = |bytes: u64| (bytes * drives).div_ceil(width as u64);
        assert_eq!(small.needed_for(ByteCount(128)), ByteCount(small.all.0 + lacks(8)));
        // Of a large one the first stripe alone: the others lie where there is room.
        let whole = small.all.0 + lacks(4 * 64 - 120);
        assert_eq!(small.needed_for(ByteCount(4 * 64 + 1)), ByteCount(whole.max(4 * 64 + 1)));
        assert_eq!(small.needed_for(ByteCount(100_000)), ByteCount(100_000));
        assert_eq!(small.needed_for(ByteCount(7)), ByteCount(7));
        assert_eq!(small.needed_for(ByteCount(u64::MAX)), ByteCount(u64::MAX));
    }
}
