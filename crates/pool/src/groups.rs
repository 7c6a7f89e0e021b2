//! The groups of drives: what each has room for, and in which a blob stands.

use std::cmp::Reverse;
use std::sync::Arc;

use base::{BlobDescription, ByteCount, DriveGroup, DriveId};
use cluster::DriveEntry;

use crate::config::GROUPS_MAX;
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
            self.takers += 1;
        }
    }
}

/// What is claimed of each group by who writes there, in bytes of the drives.
#[derive(Default)]
pub(crate) struct GroupClaims([u64; 1 + GROUPS_MAX]);

impl GroupClaims {
    fn of(&self, group: DriveGroup) -> u64 {
        self.0.get(usize::from(group.0)).copied().unwrap_or(0)
    }

    fn change(&mut self, group: DriveGroup, change: impl FnOnce(u64) -> u64) {
        if let Some(claimed) = self.0.get_mut(usize::from(group.0)) {
            *claimed = change(*claimed);
        }
    }
}

/// Room in a group that is somebody's until it is written, or this is dropped.
pub(crate) struct GroupClaim {
    pool: Arc<Pool>,
    group: DriveGroup,
    raw: u64,
}

impl GroupClaim {
    /// More of the same group becomes part of this one.
    pub(crate) fn join(&mut self, mut more: GroupClaim) {
        assert!(self.group == more.group, "a blob is written to one group");
        self.raw = self.raw.saturating_add(std::mem::take(&mut more.raw));
    }

    /// So many bytes of the drives stand there now, or all that is left: the drives tell of them.
    pub(crate) fn is_written(&mut self, raw: ByteCount) {
        let raw = raw.0.min(self.raw);
        if raw == 0 {
            return;
        }
        self.raw -= raw;
        let of_group = self.pool.drives().filter(|drive| drive.group() == self.group);
        of_group.filter_map(PoolDrive::device).for_each(|device| device.forget_space());
        self.pool.group_claims().change(self.group, |claimed| {
            assert!(claimed >= raw, "what is given back was claimed");
            claimed - raw
        });
    }
}

impl Drop for GroupClaim {
    fn drop(&mut self) {
        self.is_written(ByteCount(u64::MAX));
    }
}

impl Pool {
    /// As [`Pool::spaces`], of the drives of a group.
    #[must_use]
    pub fn spaces_of(&self, group: DriveGroup) -> Vec<DriveSpace> {
        let mut spaces = self.spaces();
        spaces.retain(|drive| drive.group == group);
        spaces
    }

    /// Room on the drives of a group, as known by at most a second ago.
    #[must_use]
    pub fn group_room(&self, group: DriveGroup) -> GroupRoom {
        let mut sum = GroupRoom::default();
        self.spaces_of(group).iter().for_each(|drive| sum.add(drive));
        assert!(sum.takers <= sum.drives && sum.used <= sum.capacity, "a part is no more than the whole");
        sum
    }

    /// Whether a group has room for a striped blob of so many bytes: on as many drives as a stripe needs for
    /// a stripe, and on all of them for all of it. What is claimed by who writes there counts as taken.
    #[must_use]
    pub fn has_room_in(&self, group: DriveGroup, bytes: ByteCount) -> bool {
        self.room_in(group, bytes, self.group_claims().of(group)).is_some()
    }

    /// Claims room in a group for so many bytes of a striped blob, if it has some: as long as the claim is
    /// held it is nobody else's.
    pub(crate) fn claim_in(self: &Arc<Self>, group: DriveGroup, bytes: ByteCount) -> Option<GroupClaim> {
        let mut claims = self.group_claims();
        let raw = self.room_in(group, bytes, claims.of(group))?;
        claims.change(group, |claimed| claimed.saturating_add(raw));
        Some(GroupClaim { pool: Arc::clone(self), group, raw })
    }

    /// What so many bytes take of the drives of a group, parity included, if they have room for it.
    fn room_in(&self, group: DriveGroup, bytes: ByteCount, claimed: u64) -> Option<u64> {
        let at = usize::from(group.0).checked_sub(1)?;
        let code = self.config().groups.get(at).copied()?;
        let mut drives = self.spaces_of(group);
        drives.retain(|drive| drive.health.is_up());
        let raw = code.raw(bytes).0;
        let each = claimed / (drives.len() as u64).max(1);
        let stripe = self.geometry(code).extent_bytes(bytes.0.max(1), 0).saturating_add(each);
        drives.retain(|drive| drive.room_for_files().0 >= stripe);
        let room = drives.iter().map(|drive| u128::from(drive.room_for_files().0)).sum::<u128>();
        let fits = drives.len() >= code.width() && u128::from(claimed) + u128::from(raw) <= room;
        fits.then_some(raw)
    }

    /// The group on whose drives most of a blob stands; of one of which nothing does the main one.
    #[must_use]
    pub fn group_of_blob(&self, blob: &BlobDescription) -> DriveGroup {
        if self.config().groups.is_empty() {
            return DriveGroup::MAIN;
        }
        let mut counts = [0u64; 1 + GROUPS_MAX];
        for drive in blob.stripes.iter().flat_map(|stripe| &stripe.drives) {
            counts[usize::from(self.group_of(*drive).0).min(GROUPS_MAX)] += 1;
        }
        let shards = blob.stripes.iter().map(|stripe| stripe.drives.len() as u64).sum::<u64>();
        assert_eq!(counts.iter().sum::<u64>(), shards, "each shard stands in one group");
        let most = (0u8..).zip(counts).max_by_key(|(group, count)| (*count, Reverse(*group)));
        DriveGroup(most.map_or(0, |(group, _)| group))
    }

    /// Whether some of a blob stands on drives in no group: when it goes, there is room on those.
    #[must_use]
    pub fn stands_on_main(&self, blob: &BlobDescription) -> bool {
        let mut drives = blob.stripes.iter().flat_map(|stripe| &stripe.drives);
        self.config().groups.is_empty() || drives.any(|drive| self.group_of(*drive) == DriveGroup::MAIN)
    }

    fn group_of(&self, drive: DriveId) -> DriveGroup {
        self.drive(drive).map_or(DriveGroup::MAIN, PoolDrive::group)
    }

    /// A group in which some of these drives are.
    pub(crate) fn group_of_drives<'a>(&self, drives: impl IntoIterator<Item = &'a DriveId>) -> DriveGroup {
        let of = |drive: &DriveId| self.group_of(*drive);
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
