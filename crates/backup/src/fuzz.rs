//! For the fuzz targets: parsers of files of the backup.

use std::path::Path;

use base::Crc32c;

use crate::SnapshotInfo;

/// The manifest of a snapshot, with a checksum that agrees.
pub fn snapshot_manifest(text: &str) {
    let _ = SnapshotInfo::parse(Path::new("snapshot"), text);
    let sealed = format!("{text}end {}\n", Crc32c::of(text.as_bytes()));
    let _ = SnapshotInfo::parse(Path::new("snapshot"), &sealed);
}
