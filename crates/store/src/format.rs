//! The file `FORMAT` beside the engine's own: what wrote this directory.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::Path;

use base::Crc64;

use crate::error::OpenError;

/// The format of the catalogue that this Kist writes: tables, keys, records.
pub const FORMAT_VERSION: u32 = 3;
/// The oldest that is read: as the newest, without the sums of the tables.
pub const OLDEST_FORMAT_READ: u32 = 2;
/// From this format on every commit writes what the rows of the tables add up to.
pub(crate) const FIRST_WITH_SUMS: u32 = 3;
const _: () = assert!(OLDEST_FORMAT_READ <= FIRST_WITH_SUMS && FIRST_WITH_SUMS <= FORMAT_VERSION);
const MAGIC: &[u8; 8] = b"KISTCAT\n";
const NAME: &str = "FORMAT";
/// The engine's file.
const DATA: &str = "data.mdb";

/// Checks the format of a directory and gives its version, or marks a new one. `[magic 8][version u32 LE]
/// [CRC-64/NVME u64 LE of the 12 before]`.
pub(crate) fn check(dir: &Path) -> Result<u32, OpenError> {
    let path = dir.join(NAME);
    let bytes = match fs::read(&path) {
        Ok(bytes) => bytes,
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            if dir.join(DATA).exists() {
                return Err(OpenError::DamagedFormat(path));
            }
            write(dir).map_err(|source| OpenError::File { path, source })?;
            return Ok(FORMAT_VERSION);
        }
        Err(source) => return Err(OpenError::File { path, source }),
    };
    let Some(found) = version(&bytes) else { return Err(OpenError::DamagedFormat(path)) };
    if !(OLDEST_FORMAT_READ..=FORMAT_VERSION).contains(&found) {
        return Err(OpenError::UnknownFormat { path: dir.to_owned(), found, known: FORMAT_VERSION });
    }
    Ok(found)
}

/// Checks the format of a copy, which must have one.
pub(crate) fn check_existing(dir: &Path) -> Result<u32, OpenError> {
    if dir.join(NAME).exists() { check(dir) } else { Err(OpenError::DamagedFormat(dir.join(NAME))) }
}

fn version(bytes: &[u8]) -> Option<u32> {
    let (body, checksum) = bytes.split_at_checked(12)?;
    let version = body.strip_prefix(MAGIC)?;
    if Crc64::of(body).0.to_le_bytes() != checksum {
        return None;
    }
    version.try_into().ok().map(u32::from_le_bytes)
}

pub(crate) fn encode(version: u32) -> Vec<u8> {
    let mut bytes = MAGIC.to_vec();
    bytes.extend_from_slice(&version.to_le_bytes());
    bytes.extend_from_slice(&Crc64::of(&bytes).0.to_le_bytes());
    assert_eq!(self::version(&bytes), Some(version), "what is written is what a start reads");
    bytes
}

/// Writes the file durably.
pub(crate) fn write(dir: &Path) -> io::Result<()> {
    let temporary = dir.join("FORMAT.new");
    let mut file = File::create(&temporary)?;
    file.write_all(&encode(FORMAT_VERSION))?;
    file.sync_all()?;
    fs::rename(&temporary, dir.join(NAME))?;
    File::open(dir)?.sync_all()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn other_formats_are_refused() {
        let dir = tempfile::tempdir().unwrap();
        check(dir.path()).unwrap();
        check(dir.path()).unwrap();
        fs::write(dir.path().join(NAME), encode(FORMAT_VERSION + 1)).unwrap();
        assert!(matches!(check(dir.path()), Err(OpenError::UnknownFormat { found: 4, .. })));
        let mut bytes = encode(FORMAT_VERSION);
        for bit in 0..bytes.len() * 8 {
            bytes[bit / 8] ^= 1 << (bit % 8);
            fs::write(dir.path().join(NAME), &bytes).unwrap();
            assert!(matches!(check(dir.path()), Err(OpenError::DamagedFormat(_))), "bit {bit}");
            bytes[bit / 8] ^= 1 << (bit % 8);
        }
        fs::write(dir.path().join(NAME), &bytes[..11]).unwrap();
        assert!(matches!(check(dir.path()), Err(OpenError::DamagedFormat(_))));
    }

    #[test]
    fn tables_without_a_format_are_refused() {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join(DATA), b"").unwrap();
        assert!(matches!(check(dir.path()), Err(OpenError::DamagedFormat(_))));
    }
}
