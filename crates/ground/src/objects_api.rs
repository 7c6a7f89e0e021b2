//! What the engine says to doors that speak of buckets and objects: plain data, no HTTP, no XML.
//!
//! A bucket is a directory of the root, an object a file below it; its key is the path within the bucket.
//! What a door keeps of an object beside its bytes are extended attributes of the file.

use base::{ArchivePath, ByteCount, FileId, Name, Timestamp, UploadId};
use catalogue::Attributes;
pub use catalogue::{BucketSettings, Hold, LifecycleRule, Retention, RetentionMode, Versioning};

use crate::{FileStat, Locality};

/// A bucket.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct BucketInfo {
    /// Its name.
    pub name: Name,
    /// Who made it.
    pub owner: String,
    /// When.
    pub created: Timestamp,
    /// How it is set.
    pub settings: BucketSettings,
}

/// Whether a file that is kept on tape was brought back for a while.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub enum RestoreState {
    /// Nobody asked.
    #[default]
    No,
    /// Somebody waits for it.
    Ongoing,
    /// It stays in the pool until then.
    Until(Timestamp),
}

/// All about a version of an object.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ObjectStat {
    /// The file; its id is the version's.
    pub file: FileStat,
    /// Whether it is the current one.
    pub is_current: bool,
    /// Whether it was put while its bucket kept no versions: its number is `null`.
    pub is_null: bool,
    /// Whether it was brought back.
    pub restore: RestoreState,
    /// What keeps it.
    pub hold: Hold,
}

/// What of a bucket is to be listed.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct KeyQuery {
    /// The bucket.
    pub bucket: ArchivePath,
    /// Only keys that begin with this.
    pub prefix: String,
    /// Keys that have this behind the prefix are rolled up.
    pub delimiter: Option<String>,
    /// Only what comes behind this, in the order of bytes of whole keys.
    pub after: String,
    /// Most lines.
    pub limit: usize,
}

/// A line of a listing of keys.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum KeyLine {
    /// Keys that begin with this, up to and with the delimiter.
    Prefix(String),
    /// An object.
    Object(Box<ObjectLine>),
}

/// An object in a listing.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ObjectLine {
    /// Its key.
    pub key: String,
    /// Its version.
    pub file: FileId,
    /// Its size.
    pub size: ByteCount,
    /// When it was acknowledged.
    pub created: Timestamp,
    /// Its attributes.
    pub attributes: Attributes,
    /// Its class.
    pub class: String,
    /// The BLAKE3 of its bytes.
    pub blake3: base::Blake3,
    /// Where its bytes are.
    pub locality: Locality,
    /// Whether it was brought back.
    pub restore: RestoreState,
    /// Whether it is the current version.
    pub is_current: bool,
    /// Whether its number is `null`.
    pub is_null: bool,
    /// Whether it only says that the key was deleted.
    pub is_marker: bool,
}

/// A page of keys.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct KeyPage {
    /// Its lines, in the order of bytes of whole keys.
    pub lines: Vec<KeyLine>,
    /// Behind what the next page begins (a key or a rolled-up prefix); `None` at the end.
    pub next: Option<String>,
}

/// What of a bucket's versions is to be listed.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct VersionQuery {
    /// Bucket, prefix, delimiter, limit, and the key to begin behind.
    pub keys: KeyQuery,
    /// Begin with older versions than this one of the key `keys.after`.
    pub after_version: Option<FileId>,
}

/// A page of versions, newest first within a key.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct VersionPage {
    /// Its lines.
    pub lines: Vec<KeyLine>,
    /// Behind which key and version the next page begins.
    pub next: Option<(String, Option<FileId>)>,
}

/// Which version is meant.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub enum Which {
    /// The current one.
    #[default]
    Current,
    /// The one without a number.
    Null,
    /// This one.
    Version(FileId),
}

/// What a delete of an object did.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct ObjectRemoved {
    /// The version that was deleted or the marker that was made.
    pub version: Option<FileId>,
    /// Whether a marker was made, or the version that was deleted was one.
    pub marker: bool,
}

/// How an object is to be copied; no byte is moved.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct CloneOptions {
    /// The attributes of the copy; `None`: those of the source.
    pub attributes: Option<Attributes>,
    /// The class of the copy; `None`: what a put there would get.
    pub class: Option<String>,
    /// What keeps the copy; the default of its bucket, if none is named.
    pub hold: Option<Hold>,
    /// Who asks.
    pub who: String,
}

/// An upload in parts.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct MultipartInfo {
    /// Its id.
    pub upload: UploadId,
    /// What will be made.
    pub path: ArchivePath,
    /// Who began it.
    pub owner: String,
    /// When.
    pub created: Timestamp,
    /// The attributes of the file to be, but for those whose names begin with `UPLOAD_XATTRS`: they
    /// are the upload's alone.
    pub attributes: Attributes,
    /// Its class, if one was named.
    pub class: Option<String>,
}

/// A part of an upload.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PartInfo {
    /// From 1 to 10,000.
    pub number: u16,
    /// Its size.
    pub size: ByteCount,
    /// When it was acknowledged.
    pub stored: Timestamp,
    /// What the door keeps of it (its ETag, its checksums).
    pub attributes: Vec<(String, Vec<u8>)>,
    /// Tells it from another one of its number.
    pub stamp: u64,
}

/// What is said at the end of an upload in parts.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct CompleteOptions {
    /// Extended attributes of the file, beside those named at the beginning.
    pub xattrs: Vec<(String, Vec<u8>)>,
    /// Refuse unless the parts have these stamps, in their order; empty: whichever are there.
    pub stamps: Vec<u64>,
    /// Refuse if the name is taken.
    pub keep_existing: bool,
    /// Refuse unless this version has the name.
    pub if_current: Option<FileId>,
    /// Who asks.
    pub who: String,
}
