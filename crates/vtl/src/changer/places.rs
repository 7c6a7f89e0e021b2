//! Where each cartridge stands, in a file beside the library: a library knows which ones are in slots and
//! which at the door, and not in which element. So they stand where they stood when the target starts again.
//!
//! One line a cartridge: its VID, a blank, the address of its element, or of the one that it came from if a
//! drive has it. What cannot be read is left out: such a cartridge gets a free element, as a new one does.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use base::Vid;
use scsi::ElementAddress;

/// The longest file that is read: a line for each element that there may be.
const FILE_BYTES_MAX: u64 = 1 << 20;

/// By cartridge.
pub type Places = BTreeMap<Vid, ElementAddress>;

/// The file, and what it has.
pub struct PlacesFile {
    path: Option<PathBuf>,
    written: Mutex<Places>,
}

impl PlacesFile {
    /// Reads the file, if there is one.
    pub fn open(path: Option<&Path>) -> PlacesFile {
        let places = path.map(read).unwrap_or_default();
        PlacesFile { path: path.map(Path::to_owned), written: Mutex::new(places) }
    }

    /// What it has.
    pub fn places(&self) -> Places {
        self.written.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Writes down where cartridges stand now. That it cannot be written is no reason to refuse a move: it
    /// only tells after the next start.
    pub fn keep(&self, places: Places) {
        let Some(path) = &self.path else { return };
        let mut written = self.written.lock().unwrap_or_else(PoisonError::into_inner);
        if *written != places && write(path, &places).is_ok() {
            *written = places;
        }
    }
}

fn read(path: &Path) -> Places {
    let is_short = fs::metadata(path).is_ok_and(|known| known.len() <= FILE_BYTES_MAX);
    let text = if is_short { fs::read_to_string(path).unwrap_or_default() } else { String::new() };
    let place = |line: &str| {
        let (vid, address) = line.split_once(' ')?;
        Some((Vid::new(vid).ok()?, ElementAddress(address.parse().ok()?)))
    };
    text.lines().filter_map(place).collect()
}

/// Another file takes its place: one that is written in part is never read.
fn write(path: &Path, places: &Places) -> std::io::Result<()> {
    let new = path.with_extension("new");
    let lines: String = places.iter().map(|(vid, address)| format!("{vid} {address}\n")).collect();
    let mut file = File::create(&new)?;
    file.write_all(lines.as_bytes())?;
    file.sync_data()?;
    fs::rename(&new, path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_kept_is_read_again_and_what_is_no_place_is_left_out() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("elements");
        let file = PlacesFile::open(Some(&path));
        assert!(file.places().is_empty());
        let places: Places = [("KT0001", 16), ("KT0002", 1030)]
            .map(|(vid, address)| (Vid::new(vid).unwrap(), ElementAddress(address)))
            .into();
        file.keep(places.clone());
        assert_eq!(PlacesFile::open(Some(&path)).places(), places);
        fs::write(&path, "KT0001 16\nKT0002\nKT0003 99999\nkt 5\n\u{0}\nKT0002 1030\n").unwrap();
        assert_eq!(PlacesFile::open(Some(&path)).places(), places);
        fs::write(&path, vec![b'x'; FILE_BYTES_MAX as usize + 1]).unwrap();
        assert!(PlacesFile::open(Some(&path)).places().is_empty());
        let nowhere = PlacesFile::open(None);
        nowhere.keep(places);
        assert!(nowhere.places().is_empty());
    }
}
