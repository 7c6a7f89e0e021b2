//! What a snapshot is: its manifest.

use std::fmt::Write;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use base::{Blake3, Crc32c, Epoch, Timestamp, Uuid};
use store::snapshot_files;

use crate::error::BackupError;
use crate::files::{CopyError, hash_file};

/// The manifest's name.
pub(crate) const MANIFEST: &str = "MANIFEST";
const MAGIC: &str = "kist-snapshot 1";
/// The longest manifest that is read.
const MANIFEST_BYTES_MAX: u64 = 64 << 10;

/// A snapshot of the catalogue.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SnapshotInfo {
    /// Its directory.
    pub path: PathBuf,
    /// The instance.
    pub instance: Uuid,
    /// The newest change that is in it.
    pub change: u64,
    /// When that change was made.
    pub changed_at: Timestamp,
    /// BLAKE3 of that change: tells this history from another one.
    pub change_digest: Blake3,
    /// The epoch of the catalogue.
    pub epoch: Epoch,
    /// When it was taken.
    pub taken: Timestamp,
    /// Its files in the order of [`snapshot_files`]: bytes and BLAKE3.
    pub files: Vec<(u64, Blake3)>,
}

impl SnapshotInfo {
    /// Bytes of its files.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.files.iter().map(|(bytes, _)| bytes).sum()
    }

    pub(crate) fn encode(&self) -> String {
        let mut text = format!("{MAGIC}\n");
        for (key, value) in [
            ("instance", self.instance.to_string()),
            ("change", self.change.to_string()),
            ("changed_at", self.changed_at.0.to_string()),
            ("change_blake3", self.change_digest.to_string()),
            ("epoch", self.epoch.0.to_string()),
            ("taken", self.taken.0.to_string()),
        ] {
            // Writing into a String cannot fail.
            let _ = writeln!(text, "{key} {value}");
        }
        for ((name, _), (bytes, blake3)) in snapshot_files(&self.path).iter().zip(&self.files) {
            let _ = writeln!(text, "file {name} {bytes} {blake3}");
        }
        let sum = Crc32c::of(text.as_bytes());
        let _ = writeln!(text, "end {sum}");
        text
    }

    pub(crate) fn parse(path: &Path, text: &str) -> Option<Self> {
        let at = text.rfind("end ")?;
        let (body, end) = text.split_at_checked(at)?;
        if end != format!("end {}\n", Crc32c::of(body.as_bytes())) {
            return None;
        }
        let mut lines = body.lines();
        if lines.next()? != MAGIC {
            return None;
        }
        let mut value = |key: &str| lines.next()?.strip_prefix(key)?.strip_prefix(' ');
        let mut info = SnapshotInfo {
            path: path.to_owned(),
            instance: Uuid::parse(value("instance")?)?,
            change: value("change")?.parse().ok()?,
            changed_at: Timestamp(value("changed_at")?.parse().ok()?),
            change_digest: Blake3::parse(value("change_blake3")?)?,
            epoch: Epoch(value("epoch")?.parse().ok()?),
            taken: Timestamp(value("taken")?.parse().ok()?),
            files: Vec::new(),
        };
        for (name, _) in snapshot_files(path) {
            let (bytes, blake3) = value("file")?.strip_prefix(name)?.strip_prefix(' ')?.split_once(' ')?;
            info.files.push((bytes.parse().ok()?, Blake3::parse(blake3)?));
        }
        lines.next().is_none().then_some(info)
    }

    /// Reads the manifest of the snapshot in `path`; the files are not looked at.
    pub(crate) fn read(path: &Path) -> Result<Self, BackupError> {
        let manifest = path.join(MANIFEST);
        let damaged = |what: &str| BackupError::DamagedSnapshot { path: manifest.clone(), what: what.into() };
        let length = fs::metadata(&manifest).map_err(unreadable(&manifest))?.len();
        if length > MANIFEST_BYTES_MAX {
            return Err(damaged("it is too long"));
        }
        let text = fs::read(&manifest).map_err(unreadable(&manifest))?;
        let text = String::from_utf8(text).map_err(|_| damaged("it is no text"))?;
        let info = SnapshotInfo::parse(path, &text);
        info.ok_or_else(|| damaged("its checksum or its form is wrong"))
    }

    /// Compares the files with the manifest; with `into` also copies them there, synced.
    pub(crate) fn verify(&self, into: Option<&Path>) -> Result<(), BackupError> {
        for ((name, path), expected) in snapshot_files(&self.path).iter().zip(&self.files) {
            let target = into.map(|into| into.join(name));
            let copy = target.as_ref().map(File::create_new).transpose();
            let copied = target.as_deref().unwrap_or(path);
            let mut copy = copy.map_err(BackupError::at(copied, "making"))?;
            let found = hash_file(path, copy.as_mut()).map_err(|error| match error {
                CopyError::Reading(error) => unreadable(path)(error),
                CopyError::Writing(error) => BackupError::at(copied, "writing")(error),
            })?;
            if found != *expected {
                let what = format!(
                    "it has {} bytes with BLAKE3 {}, the manifest says {} and {}",
                    found.0, found.1, expected.0, expected.1
                );
                return Err(BackupError::DamagedSnapshot { path: path.clone(), what });
            }
            if let Some(copy) = copy {
                copy.sync_all().map_err(BackupError::at(copied, "syncing"))?;
            }
        }
        Ok(())
    }
}

/// For `map_err`: a file of a snapshot cannot be read. A snapshot gets its name when it is whole, so one that
/// is not there any more is damage, not a disk that may answer later.
fn unreadable(path: &Path) -> impl Fn(io::Error) -> BackupError + use<> {
    let path = path.to_owned();
    move |source| match source.kind() {
        io::ErrorKind::NotFound => {
            BackupError::DamagedSnapshot { path: path.clone(), what: "it is missing".to_owned() }
        }
        _ => BackupError::UnreadableSnapshot { path: path.clone(), source },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flipped_bit_of_a_manifest_is_found() {
        let info = SnapshotInfo {
            path: PathBuf::from("s"),
            instance: Uuid::from_random([3; 16]),
            change: 17,
            changed_at: Timestamp(5),
            change_digest: Blake3::of(b"x"),
            epoch: Epoch(2),
            taken: Timestamp(-6),
            files: vec![(4096, Blake3::of(b"a")), (20, Blake3::of(b"b"))],
        };
        let text = info.encode();
        assert_eq!(SnapshotInfo::parse(Path::new("s"), &text), Some(info));
        for bit in 0..text.len() * 8 {
            let mut bytes = text.clone().into_bytes();
            bytes[bit / 8] ^= 1 << (bit % 8);
            let parsed = String::from_utf8(bytes).ok().and_then(|t| SnapshotInfo::parse(Path::new("s"), &t));
            assert_eq!(parsed, None, "bit {bit}");
        }
    }
}
