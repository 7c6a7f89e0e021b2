//! The groups of drives: what each has room for, and in which a blob stands.

use base::{BlobDescription, ByteCount, DriveGroup, DriveId};
use cluster::DriveEntry;

use crate::drives::PoolDrive;
use crate::pool::Pool;
use crate::status::DriveSpace;

/// Room on the drives of a group.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct GroupRoom {
    /// Drives.
    pub drives: usize,
    /// Those of them that take new files.
    pub takers: usize,
    /// Size of those that work.
    pub capacity: ByteCount,
    /// Taken of that, by whomever.
    pub used: ByteCount,
    /// What new files may take of it.
    pub room: ByteCount,
    /// The least of it on one of the drives that take files.
    pub least: ByteCount,
}

impl GroupRoom {
    fn add(&mut self, drive: &DriveSpace) {
        self.drives += 1;
        if !drive.health.is_up() {
            return;
        }
        let add = |sum: &mut ByteCount, bytes: u64| sum.0 = sum.0.saturating_add(bytes);
        add(&mut self.capacity, drive.capacity.0);
        add(&mut self.used, drive.capacity.0.saturating_sub(drive.free.0));
        let room = drive.room_for_files();
        if room.0 > 0 {
            add(&mut self.room, room.0);
            self.least = if self.takers == 0 { room } else { self.least.min(room) };
            self.takers += 1;
        }
    }
}

impl Pool {
    /// Room on the drives of a group, as known by at most a second ago.
    #[must_use]
    pub fn group_room(&self, group: DriveGroup) -> GroupRoom {
        let mut sum = GroupRoom::default();
        self.spaces().iter().filter(|drive| drive.group == group).for_each(|drive| sum.add(drive));
        sum
    }

    /// Whether a group has room for a striped blob of so many bytes: on each of its drives that take files
    /// for an even part. What others are writing is not known here.
    #[must_use]
    pub fn has_room_in(&self, group: DriveGroup, bytes: ByteCount) -> bool {
        let (code, room) = (self.config().code_of(group), self.group_room(group));
        if room.takers < code.width() {
            return false;
        }
        let geometry = self.geometry(code);
        // Where it is longer than a stripe it is spread over all of them.
        let stripe = geometry.extent_bytes(bytes.0.max(1), 0);
        let all = u128::from(bytes.0) * code.width() as u128 / u128::from(code.data.max(1));
        let each = u64::try_from(all / room.takers as u128).unwrap_or(u64::MAX);
        stripe.max(each) <= room.least.0
    }

    /// The group on whose drives a blob stands, wholly or in part; of one of which nothing does the main one.
    #[must_use]
    pub fn group_of_blob(&self, blob: &BlobDescription) -> DriveGroup {
        if self.config().groups.is_empty() {
            return DriveGroup::MAIN;
        }
        self.group_of_drives(blob.stripes.iter().flat_map(|stripe| &stripe.drives))
    }

    /// The group in which some of these drives are.
    pub(crate) fn group_of_drives<'a>(&self, drives: impl IntoIterator<Item = &'a DriveId>) -> DriveGroup {
        let of = |drive: &DriveId| self.drive(*drive).map_or(DriveGroup::MAIN, PoolDrive::group);
        drives.into_iter().map(of).find(|group| *group != DriveGroup::MAIN).unwrap_or(DriveGroup::MAIN)
    }

    /// Says anew in which group a drive is; what stands on it stays there.
    pub fn set_group(&self, id: DriveId, group: DriveGroup) {
        if let Some(drive) = self.drive(id) {
            drive.set_group(group);
        }
        self.change_entry(id, |entry| DriveEntry { group, ..entry });
    }
}
