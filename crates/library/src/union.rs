//! Several libraries as one: each cartridge stays in its own, and so does each drive.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use base::Vid;

use crate::{CartridgeInfo, CleanerInfo, DriveName, Library, LibraryError, Slot, TapeAlert, TapeDrive};

/// The most libraries of one union.
const LIBRARIES_MAX: usize = 256;

/// Several libraries, numbered from 0 in the order given. Drives keep their names, which must differ; no
/// cartridge
/// may be in two of them.
pub struct Union {
    members: Vec<Member>,
}

struct Member {
    name: String,
    library: Arc<dyn Library>,
    drives: Vec<DriveName>,
}

impl Union {
    /// Joins libraries under their names.
    ///
    /// # Errors
    /// [`LibraryError::DuplicateDrive`], [`LibraryError::CartridgeTwice`], or if an inventory cannot be
    /// taken;
    /// [`LibraryError::TooManyLibraries`].
    pub fn new(libraries: Vec<(String, Arc<dyn Library>)>) -> Result<Self, LibraryError> {
        if libraries.len() > LIBRARIES_MAX {
            return Err(LibraryError::TooManyLibraries { max: LIBRARIES_MAX });
        }
        let mut names = BTreeSet::new();
        let mut members = Vec::with_capacity(libraries.len());
        for (name, library) in libraries {
            let drives = library.drives();
            for drive in &drives {
                if !names.insert(drive.clone()) {
                    return Err(LibraryError::DuplicateDrive { drive: drive.clone() });
                }
            }
            members.push(Member { name, library, drives });
        }
        let union = Union { members };
        union.inventory()?;
        Ok(union)
    }

    /// The names of the libraries by their numbers.
    #[must_use]
    pub fn names(&self) -> Vec<&str> {
        self.members.iter().map(|member| member.name.as_str()).collect()
    }

    fn of_drive(&self, drive: &DriveName) -> Result<(usize, &Member), LibraryError> {
        let found = self.members.iter().enumerate().find(|(_, member)| member.drives.contains(drive));
        found.ok_or_else(|| LibraryError::UnknownDrive { drive: drive.clone() })
    }

    fn of_cartridge(&self, vid: Vid) -> Result<&Member, LibraryError> {
        let found = self.inventory()?.into_iter().find(|cartridge| cartridge.vid == vid);
        let member = found.and_then(|cartridge| self.members.get(usize::from(cartridge.library)));
        member.ok_or(LibraryError::UnknownCartridge { vid })
    }
}

impl Library for Union {
    fn inventory(&self) -> Result<Vec<CartridgeInfo>, LibraryError> {
        let mut all: Vec<CartridgeInfo> = Vec::new();
        for (number, member) in (0u16..).zip(&self.members) {
            let cartridges = member.library.inventory()?;
            all.extend(
                cartridges.into_iter().map(|cartridge| CartridgeInfo { library: number, ..cartridge }),
            );
        }
        all.sort_by_key(|cartridge| cartridge.vid);
        let twice = all.windows(2).find(|pair| pair[0].vid == pair[1].vid);
        match twice.map(|pair| pair[0].vid) {
            Some(vid) => Err(LibraryError::CartridgeTwice { vid }),
            None => Ok(all),
        }
    }

    fn changes(&self) -> Result<u64, LibraryError> {
        let mut sum = 0u64;
        for member in &self.members {
            sum = sum.wrapping_add(member.library.changes()?);
        }
        Ok(sum)
    }

    fn look_again(&self, scan: bool) -> Result<(), LibraryError> {
        // All are asked, whatever one of them says.
        let asked: Vec<_> = self.members.iter().map(|member| member.library.look_again(scan)).collect();
        asked.into_iter().collect()
    }

    fn without_vid(&self) -> Vec<String> {
        self.members.iter().flat_map(|member| member.library.without_vid()).collect()
    }

    fn out_of_reach(&self) -> Vec<String> {
        let all = self.members.iter().flat_map(|member| {
            let why = member.library.out_of_reach().into_iter();
            why.map(|why| format!("library {}: {why}", member.name))
        });
        all.collect()
    }

    fn drives(&self) -> Vec<DriveName> {
        self.members.iter().flat_map(|member| member.drives.iter().cloned()).collect()
    }

    fn library_of(&self, drive: &DriveName) -> u16 {
        self.of_drive(drive).map_or(0, |(number, _)| number as u16)
    }

    fn take_drive(&self, name: &DriveName) -> Result<Box<dyn TapeDrive>, LibraryError> {
        self.of_drive(name)?.1.library.take_drive(name)
    }

    fn mount(&self, vid: Vid, drive: &DriveName) -> Result<(), LibraryError> {
        let (_, member) = self.of_drive(drive)?;
        let result = member.library.mount(vid, drive);
        if !matches!(result, Err(LibraryError::UnknownCartridge { .. })) {
            return result;
        }
        let elsewhere = self.inventory()?.into_iter().find(|cartridge| cartridge.vid == vid);
        let elsewhere = elsewhere.and_then(|cartridge| self.members.get(usize::from(cartridge.library)));
        match elsewhere.filter(|other| other.name != member.name) {
            Some(other) => Err(LibraryError::OtherLibrary {
                vid,
                drive: drive.clone(),
                library: other.name.clone(),
                of_drive: member.name.clone(),
            }),
            None => result,
        }
    }

    fn unmount(&self, drive: &DriveName) -> Result<Vid, LibraryError> {
        self.of_drive(drive)?.1.library.unmount(drive)
    }

    fn cleaners(&self) -> Vec<CleanerInfo> {
        let mut all: Vec<CleanerInfo> = Vec::new();
        for (number, member) in (0u16..).zip(&self.members) {
            let own = member.library.cleaners().into_iter();
            all.extend(own.map(|cleaner| CleanerInfo { library: number, ..cleaner }));
        }
        all.sort_by_key(|cleaner| cleaner.vid);
        all
    }

    fn clean(&self, vid: Vid, drive: &DriveName, most: Duration) -> Result<Vec<TapeAlert>, LibraryError> {
        self.of_drive(drive)?.1.library.clean(vid, drive, most)
    }

    fn export(&self, vid: Vid) -> Result<Slot, LibraryError> {
        self.of_cartridge(vid)?.library.export(vid)
    }

    fn import(&self, vid: Vid) -> Result<Slot, LibraryError> {
        self.of_cartridge(vid)?.library.import(vid)
    }
}
