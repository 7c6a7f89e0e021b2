//! Cleaning cartridges of a virtual library: entries of a directory of their own. A file that holds a number
//! says how often it cleans still; whatever else there is cleans for ever.

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;
use std::sync::{Mutex, MutexGuard, PoisonError};

use base::Vid;

use super::atomic;
use super::library::directory_error;
use crate::{CleanerInfo, DriveName, LibraryError, Place, Slot};

/// The most that are looked at.
const CLEANERS_MAX: usize = 128;
/// The longest number in bytes, with the end of its line.
const USES_BYTES_MAX: u64 = 16;

/// The cleaning cartridges.
pub struct Cleaners {
    directory: PathBuf,
    in_drives: Mutex<BTreeMap<Vid, DriveName>>,
}

impl Cleaners {
    pub fn new(directory: PathBuf) -> Cleaners {
        Cleaners { directory, in_drives: Mutex::default() }
    }

    fn in_drives(&self) -> MutexGuard<'_, BTreeMap<Vid, DriveName>> {
        self.in_drives.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// All of them, by VID. A slot is a rank.
    pub fn all(&self) -> Vec<CleanerInfo> {
        // A directory that is not there, or cannot be read, holds none.
        let names = fs::read_dir(&self.directory).into_iter().flatten().flatten();
        let names = names.filter_map(|entry| entry.file_name().into_string().ok());
        let mut vids: Vec<Vid> = names.filter_map(|name| Vid::new(&name).ok()).take(CLEANERS_MAX).collect();
        vids.sort();
        let in_drives = self.in_drives();
        let place = |rank: u32, vid: &Vid| match in_drives.get(vid) {
            Some(drive) => Place::Drive(drive.clone()),
            None => Place::Slot(Slot(rank)),
        };
        let all = (0..).zip(vids);
        all.map(|(rank, vid)| CleanerInfo { vid, place: place(rank, &vid), library: 0 }).collect()
    }

    /// Makes one that cleans so often. Durable on return.
    pub fn add(&self, vid: Vid, uses: u32) -> Result<(), LibraryError> {
        fs::create_dir_all(&self.directory).map_err(directory_error(&self.directory))?;
        let path = self.directory.join(vid.as_str());
        match path.exists() {
            true => Err(LibraryError::CartridgeExists { vid }),
            false => atomic::replace(&path, format!("{uses}\n").as_bytes()).map_err(directory_error(&path)),
        }
    }

    /// Takes one from its slot to a drive.
    pub fn take(&self, vid: Vid, drive: &DriveName) -> Result<(), LibraryError> {
        let mut in_drives = self.in_drives();
        if let Some(drive) = in_drives.get(&vid) {
            return Err(LibraryError::CartridgeInUse { vid, drive: drive.clone() });
        }
        in_drives.insert(vid, drive.clone());
        Ok(())
    }

    pub fn put_back(&self, vid: Vid) {
        self.in_drives().remove(&vid);
    }

    /// Counts a use, durably. Gives whether it cleans.
    pub fn use_up(&self, vid: Vid) -> Result<bool, LibraryError> {
        let path = self.directory.join(vid.as_str());
        let text = atomic::read_bounded(&path, USES_BYTES_MAX).ok();
        let left = text.and_then(|text| String::from_utf8(text).ok()?.trim().parse::<u32>().ok());
        match left {
            None => Ok(true),
            Some(0) => Ok(false),
            Some(left) => {
                let text = format!("{}\n", left - 1);
                atomic::replace(&path, text.as_bytes()).map_err(directory_error(&path))?;
                Ok(true)
            }
        }
    }
}
