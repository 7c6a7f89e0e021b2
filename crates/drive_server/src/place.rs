//! Where a device stands.

use std::path::Path;

use valuelog::Place;

/// A directory, or a block device or file.
#[must_use]
pub fn place_of(path: &Path) -> Place {
    if path.is_dir() { Place::Directory(path.to_owned()) } else { Place::Raw(path.to_owned()) }
}
