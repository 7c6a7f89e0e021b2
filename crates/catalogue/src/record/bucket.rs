//! Buckets: directories of the root with settings of their own, and the versions that they keep.

use base::{Duration, FileId, Timestamp};

use super::{RetentionMode, Versioning};

/// What a bucket is set to.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct BucketSettings {
    /// Whether versions are kept.
    pub versioning: Versioning,
    /// Whether versions may be held; once on it stays on.
    pub object_lock: bool,
    /// The retention of new versions whose put names none: mode and how long.
    pub default_retention: Option<(RetentionMode, Duration)>,
    /// What is done with objects as time passes; at most 1,000 rules.
    pub lifecycle: Vec<LifecycleRule>,
    /// What a door keeps for itself, by name; at most 64 KiB in all.
    pub documents: Vec<(String, Vec<u8>)>,
}

/// What is done with objects that have reached an age.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LifecycleRule {
    /// Its name, unique in the bucket.
    pub id: String,
    /// Whether it is carried out.
    pub enabled: bool,
    /// It applies to keys that begin with this.
    pub prefix: String,
    /// After this time objects go to this class.
    pub transition: Option<(Duration, String)>,
    /// After this time objects are deleted (in a bucket with versions: get a marker).
    pub expiration: Option<Duration>,
    /// After this time uploads that were not completed are given up.
    pub abort_uploads: Option<Duration>,
}

/// A bucket that was set to something.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct BucketRecord {
    /// How it is set.
    pub settings: BucketSettings,
    /// The ids at which it began or ceased to number versions, ascending: what was put before the first is
    /// without a number, what was put behind it and before the second has one, and so on.
    pub numbered: Vec<FileId>,
}

impl BucketRecord {
    /// Whether a version or marker of this id is the one without a number: made while no versions were kept.
    #[must_use]
    pub fn is_null(&self, id: FileId) -> bool {
        self.numbered.iter().filter(|from| **from <= id).count().is_multiple_of(2)
    }

    /// Whether what is replaced or deleted is kept.
    #[must_use]
    pub fn keeps_versions(&self) -> bool {
        self.settings.versioning != Versioning::Off
    }
}

/// A version that is not the current one.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Version {
    /// A file that was replaced, or stands below a marker.
    File,
    /// Says that the name was deleted at this time. Its id is drawn like that of a file.
    Marker(Timestamp),
}
