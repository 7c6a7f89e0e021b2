//! The places of the pool's drives, as they were when they were looked at.

use std::collections::BTreeMap;
use std::path::Path;

use location::{DriveLocation, ResolvedLocation};

/// What is compared when a drive is added. It is looked at before the lock is taken under which drives
/// change: a look at a directory that hangs takes as long as it hangs, and meanwhile somebody must be able to
/// give that drive up.
#[derive(Default)]
pub(crate) struct SeenPlaces(BTreeMap<DriveLocation, SeenPlace>);

struct SeenPlace {
    resolved: ResolvedLocation,
    /// `None`: it cannot be told, or was not asked.
    file_system: Option<u64>,
}

impl SeenPlaces {
    /// Looks at a place. `has_answered`: its file system is asked for, too.
    pub(crate) fn look(&mut self, at: &DriveLocation, has_answered: bool) {
        let file_system = if has_answered { at.file_system() } else { None };
        let seen = SeenPlace { resolved: at.resolved(), file_system };
        self.0.insert(at.clone(), seen);
    }

    /// Whether a place was looked at.
    pub(crate) fn has(&self, at: &DriveLocation) -> bool {
        self.0.contains_key(at)
    }

    /// Whether both are the same place, by whatever name. Nothing is the same as what was not looked at.
    pub(crate) fn is_same(&self, one: &DriveLocation, other: &DriveLocation) -> bool {
        self.both(one, other).is_some_and(|(one, other)| one.is_same_place(other))
    }

    /// Whether one is the other, or lies in it. What was not looked at may.
    pub(crate) fn overlap(&self, one: &DriveLocation, other: &DriveLocation) -> bool {
        self.both(one, other).is_none_or(|(one, other)| one.overlaps(other))
    }

    /// The file system of a place.
    pub(crate) fn file_system(&self, at: &DriveLocation) -> Option<u64> {
        self.0.get(at)?.file_system
    }

    fn both(
        &self,
        one: &DriveLocation,
        other: &DriveLocation,
    ) -> Option<(&ResolvedLocation, &ResolvedLocation)> {
        Some((&self.0.get(one)?.resolved, &self.0.get(other)?.resolved))
    }
}

/// A directory that is no drive's, as it is compared with those of drives.
pub(crate) fn directory(path: &Path) -> DriveLocation {
    DriveLocation::Directory(path.to_owned())
}
