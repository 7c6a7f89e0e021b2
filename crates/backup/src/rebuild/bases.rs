//! Bases that tapes have: the catalogue's rows at one change, from which a rebuild begins.
//!
//! A base is read from its tape when it is its turn, part by part, straight into the new catalogue: it takes
//! no room beside it, and those that are not needed are not read.

use std::collections::{BTreeMap, BTreeSet};

use base::{BlockAddress, Uuid, Vid};
use library::{DriveName, Library, TapeDrive, TapeError, TapeKeys};
use ltfs::BlockSize;
use ltfs::catalogue_base::BasePart;
use mover::VolumeError;
use store::{Replay, ReplayError};

use super::gather::Drives;
use super::{DRIVES_TRIED_MAX, RebuildError, Unread};
use crate::tape::{BasePlace, read_bytes};
use crate::{BaseReader, Progress};

/// All bases of the instance, and the drives to read them with.
pub(super) struct Bases<'l> {
    library: &'l dyn Library,
    keys: &'l TapeKeys,
    drives: Drives,
    /// The library of each tape.
    of: BTreeMap<Vid, u16>,
    instance: Uuid,
    places: Vec<BasePlace>,
    /// Changes of bases that were tried and are of no use.
    given_up: BTreeSet<u64>,
    /// The tape in a drive, and which drive that is.
    mounted: Option<(Vid, usize)>,
}

/// Why a tape was brought into a drive in vain.
struct Brought {
    error: String,
    /// No other drive is of use either.
    is_over: bool,
}

impl<'l> Bases<'l> {
    /// Those of an instance; a base of which nobody knows whose it is is tried too.
    pub(super) fn new(
        (library, keys): (&'l dyn Library, &'l TapeKeys),
        drives: Drives,
        mut places: Vec<BasePlace>,
        instance: Uuid,
    ) -> Result<Self, RebuildError> {
        places.retain(|base| base.instance.is_none_or(|owner| owner == instance));
        let of = library.inventory()?.into_iter().map(|cartridge| (cartridge.vid, cartridge.library));
        let (of, given_up) = (of.collect(), BTreeSet::new());
        Ok(Bases { library, keys, drives, of, instance, places, given_up, mounted: None })
    }

    /// The newest change of the newest base that is named anywhere; 0: there is none.
    pub(super) fn newest_named(&self) -> u64 {
        self.places.iter().map(|base| base.change).max().unwrap_or(0)
    }

    /// The changes of those that may be whole.
    pub(super) fn usable(&self) -> Vec<u64> {
        let mut changes: Vec<u64> = self.places.iter().map(|base| base.change).collect();
        changes.retain(|change| !self.given_up.contains(change));
        changes.sort_unstable();
        changes.dedup();
        changes
    }

    /// A base is of no use.
    pub(super) fn give_up(&mut self, change: u64) {
        self.given_up.insert(change);
    }

    /// Puts the rows of a base into the empty catalogue. Of a part that one tape gives in no drive another
    /// one's is taken, which is told.
    ///
    /// # Errors
    /// [`ReplayError::Base`] if it is not whole.
    pub(super) fn load(
        &mut self,
        change: u64,
        replay: &mut Replay,
        unread: &mut Vec<Unread>,
        progress: &mut dyn FnMut(Progress),
    ) -> Result<(), RebuildError> {
        let of_change = |base: &&BasePlace| base.change == change;
        let parts = self.places.iter().filter(of_change).map(|base| base.parts).max().unwrap_or(0);
        let mut reader = BaseReader::new(self.instance, change, parts);
        for number in 1..=parts {
            let mut is_there = false;
            for (vid, place, block_size) in self.copies(change, parts, number) {
                let read = self.read_part((vid, place, block_size), &mut reader, |reader, part| {
                    let rows = part.rows.iter().map(|row| (row.table, row.key, row.value));
                    replay.put_rows(&mut reader.check, rows)
                });
                match read {
                    Ok(put) => {
                        put?;
                        is_there = true;
                        break;
                    }
                    Err(error) => {
                        let what = format!(
                            "block {}: part {number} of the base at change {change}: {error}",
                            place.0
                        );
                        unread.push(Unread { vid, last: Some(change), what });
                    }
                }
            }
            if !is_there {
                let reason = format!("part {number} of {parts} of it can be read from no tape");
                return Err(ReplayError::Base { reason }.into());
            }
            progress(Progress::of("parts of the base read", u64::from(number), u64::from(parts)));
        }
        self.unmount();
        Ok(replay.rows_are_whole(&reader.check, change)?)
    }

    /// Where a part stands, on the mounted tape first.
    fn copies(&self, change: u64, parts: u32, part: u32) -> Vec<(Vid, (BlockAddress, u64), BlockSize)> {
        let same = self.places.iter().filter(|base| (base.change, base.parts) == (change, parts));
        let mut copies: Vec<_> =
            same.filter_map(|base| Some((base.vid, *base.places.get(&part)?, base.block_size))).collect();
        copies.sort_by_key(|(vid, ..)| (self.mounted.is_none_or(|(mounted, _)| mounted != *vid), *vid));
        copies
    }

    /// Reads the next part of a base from a tape and hands it to `put`. If it cannot be read in one drive
    /// another one is tried.
    fn read_part<T>(
        &mut self,
        (vid, (block, length), block_size): (Vid, (BlockAddress, u64), BlockSize),
        reader: &mut BaseReader,
        put: impl FnOnce(&mut BaseReader, &BasePart<'_>) -> T,
    ) -> Result<T, String> {
        let (mut tried, mut why) = (BTreeSet::new(), None);
        for _ in 0..DRIVES_TRIED_MAX {
            let at = match self.bring(vid, &mut tried) {
                Ok(at) => at,
                Err(error) => return Err(why.unwrap_or(error)),
            };
            let Some((_, drive)) = self.drives.get_mut(at) else { break };
            let read = read_bytes(drive.as_mut(), block, length, block_size);
            match read.map_err(|error: TapeError| error.to_string()) {
                Ok(bytes) => match reader.part(&bytes) {
                    Ok(part) => return Ok(put(reader, &part)),
                    Err(error) => why = Some(error.to_string()),
                },
                Err(error) => why = Some(error),
            }
            tried.insert(at);
        }
        Err(why.unwrap_or_else(|| "no drive has it".to_owned()))
    }

    /// Brings a tape into a drive of its library that was not tried, any that takes it; those that do not
    /// have been tried.
    fn bring(&mut self, vid: Vid, tried: &mut BTreeSet<usize>) -> Result<usize, String> {
        if let Some((_, drive)) = self.mounted.filter(|(mounted, at)| *mounted == vid && !tried.contains(at))
        {
            return Ok(drive);
        }
        let mut why = "no other drive of its library can read it".to_owned();
        loop {
            self.unmount();
            let Some(at) = self.next_drive(vid, tried) else { return Err(why) };
            tried.insert(at);
            match self.bring_into(vid, at) {
                Ok(()) => return Ok(at),
                Err(Brought { error, is_over }) if is_over => return Err(error),
                Err(Brought { error, .. }) => why = error,
            }
        }
    }

    /// A drive of the tape's library that was not tried.
    fn next_drive(&mut self, vid: Vid, tried: &BTreeSet<usize>) -> Option<usize> {
        let library = self.of.get(&vid).copied();
        let fits = |(at, (name, _)): (usize, &mut (DriveName, Box<dyn TapeDrive>))| {
            (Some(self.library.library_of(name)) == library && !tried.contains(&at)).then_some(at)
        };
        self.drives.iter_mut().enumerate().find_map(fits)
    }

    /// Mounts a tape into a drive and gives that its key.
    fn bring_into(&mut self, vid: Vid, at: usize) -> Result<(), Brought> {
        let Some((name, drive)) = self.drives.get_mut(at) else { return Ok(()) };
        if let Err(error) = self.library.mount(vid, name) {
            let error = format!("it cannot be mounted again: {error}");
            return Err(Brought { error, is_over: false });
        }
        self.mounted = Some((vid, at));
        if self.keys.is_empty() {
            return Ok(());
        }
        let unlocked = mover::unlock_as_shown(drive.as_mut(), vid, self.keys);
        // It may be the drive: one that does not encrypt, or cannot read the first index. A key that nobody
        // gives is missing in each of them.
        let is_over =
            |error: &VolumeError| matches!(error, VolumeError::Key { source, .. } if source.is_missing());
        unlocked.map(drop).map_err(|error| Brought { is_over: is_over(&error), error: error.to_string() })
    }

    fn unmount(&mut self) {
        let Some((vid, at)) = self.mounted.take() else { return };
        if let Some((name, _)) = self.drives.get(at)
            && let Err(error) = self.library.unmount(name)
        {
            tracing::warn!(%vid, drive = %name, %error, "a tape that was read cannot be unmounted");
        }
    }
}

impl Drop for Bases<'_> {
    fn drop(&mut self) {
        self.unmount();
    }
}
