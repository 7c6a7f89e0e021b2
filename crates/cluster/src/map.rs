//! The drives of a pool and where they stand.

use std::collections::BTreeSet;

use base::{DriveGroup, DriveId, Epoch};

/// Where a drive stands; what shares a name fails together. The disk is the drive itself.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct FailureDomain {
    /// The machine.
    pub host: String,
    /// The enclosure (JBOD) at the host; may be empty.
    pub enclosure: String,
    /// The disk: two drives (directories) on one disk share it.
    pub disk: String,
}

/// What may be done with a drive.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum DriveState {
    /// Reads and writes.
    Up,
    /// Neither.
    Down,
    /// Reads only: it is being emptied.
    Draining,
}

/// One drive of the map.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct DriveEntry {
    /// The drive.
    pub id: DriveId,
    /// Where it stands.
    pub domain: FailureDomain,
    /// The drives with which it holds stripes.
    pub group: DriveGroup,
    /// What may be done with it.
    pub state: DriveState,
    /// Its share of new data relative to the others, usually its capacity in TB. 0 takes none.
    pub weight: u32,
}

impl DriveEntry {
    /// Takes new data.
    #[must_use]
    pub fn is_writable(&self) -> bool {
        self.state == DriveState::Up && self.weight > 0
    }
}

/// All drives of a pool at one time; each change of it has a higher epoch.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct DriveMap {
    epoch: Epoch,
    drives: Vec<DriveEntry>,
}

/// Why a list of drives is no map.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum MapError {
    /// Two entries have one id.
    #[error("drive {0} is in the drive map twice; give each drive its own id")]
    Duplicate(DriveId),
}

impl DriveMap {
    /// Makes a map; the order of `drives` does not matter.
    ///
    /// # Errors
    /// [`MapError::Duplicate`].
    pub fn new(epoch: Epoch, mut drives: Vec<DriveEntry>) -> Result<Self, MapError> {
        drives.sort_by_key(|drive| drive.id);
        let mut seen = BTreeSet::new();
        match drives.iter().find(|drive| !seen.insert(drive.id)) {
            Some(twice) => Err(MapError::Duplicate(twice.id)),
            None => Ok(DriveMap { epoch, drives }),
        }
    }

    /// The map's epoch.
    #[must_use]
    pub fn epoch(&self) -> Epoch {
        self.epoch
    }

    /// The drives in order of their ids.
    #[must_use]
    pub fn drives(&self) -> &[DriveEntry] {
        &self.drives
    }

    /// The entry of a drive.
    #[must_use]
    pub fn get(&self, id: DriveId) -> Option<&DriveEntry> {
        self.drives.binary_search_by_key(&id, |drive| drive.id).ok().and_then(|at| self.drives.get(at))
    }

    /// The group of a drive; of one that the map does not know the main one.
    #[must_use]
    pub fn group_of(&self, id: DriveId) -> DriveGroup {
        self.get(id).map_or(DriveGroup::MAIN, |drive| drive.group)
    }

    /// The drives that take new data and are not in `down`.
    pub fn writable<'a>(&'a self, down: &'a BTreeSet<DriveId>) -> impl Iterator<Item = &'a DriveEntry> {
        self.drives.iter().filter(|drive| drive.is_writable() && !down.contains(&drive.id))
    }

    /// Those of them in a group.
    pub fn writable_in<'a>(
        &'a self,
        group: DriveGroup,
        down: &'a BTreeSet<DriveId>,
    ) -> impl Iterator<Item = &'a DriveEntry> {
        self.writable(down).filter(move |drive| drive.group == group)
    }
}
