//! Several libraries as one: each cartridge stays in its own, and so does each drive.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use base::Vid;

use crate::{
    CartridgeInfo, CleanerInfo, DriveName, DrivePlace, Library, LibraryCondition, LibraryError, Slot,
    TapeAlert, TapeDrive,
};

/// The most libraries of one union.
const LIBRARIES_MAX: usize = 256;

/// Several libraries, numbered from 0 in the order given. Drives keep their names, which must differ; no
/// cartridge may be in two of them. One that is away holds nobody up who needs another.
pub struct Union {
    members: Vec<Member>,
}

struct Member {
    name: String,
    library: Arc<dyn Library>,
    drives: Vec<DriveName>,
    last: Mutex<Last>,
}

/// What a member said last.
#[derive(Default)]
struct Last {
    /// Its cartridges.
    inventory: Vec<CartridgeInfo>,
    /// [`Library::changes`].
    changes: u64,
    /// Times that it answered again after its inventory could not be taken: changes of their own, since it
    /// may count as many as before.
    returns: u64,
    /// Its inventory could not be taken the last time.
    is_stale: bool,
    /// Why it could not be asked the last time.
    trouble: Option<String>,
}

impl Member {
    fn last(&self) -> MutexGuard<'_, Last> {
        self.last.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Its cartridges, as numbered by the union.
    fn inventory(&self, number: u16) -> Result<Vec<CartridgeInfo>, LibraryError> {
        let asked = self.library.inventory();
        let mut last = self.last();
        match asked {
            Ok(mut cartridges) => {
                cartridges.iter_mut().for_each(|cartridge| cartridge.library = number);
                last.inventory.clone_from(&cartridges);
                (last.is_stale, last.trouble) = (false, None);
                Ok(cartridges)
            }
            Err(error) => {
                (last.is_stale, last.trouble) = (true, Some(error.to_string()));
                Err(error)
            }
        }
    }

    fn changes(&self) -> Result<u64, LibraryError> {
        let asked = self.library.changes();
        let mut last = self.last();
        match asked {
            Ok(changes) => {
                if last.is_stale {
                    (last.is_stale, last.returns) = (false, last.returns.wrapping_add(1));
                }
                (last.changes, last.trouble) = (changes, None);
                Ok(last.total())
            }
            Err(error) => {
                last.trouble = Some(error.to_string());
                Err(error)
            }
        }
    }
}

impl Last {
    fn total(&self) -> u64 {
        self.changes.wrapping_add(self.returns)
    }
}

/// All inventories as one, ordered by VID.
fn joined(inventories: impl Iterator<Item = CartridgeInfo>) -> Result<Vec<CartridgeInfo>, LibraryError> {
    let mut all: Vec<CartridgeInfo> = inventories.collect();
    all.sort_by_key(|cartridge| cartridge.vid);
    let twice = all.windows(2).find(|pair| pair[0].vid == pair[1].vid);
    match twice.map(|pair| pair[0].vid) {
        Some(vid) => Err(LibraryError::CartridgeTwice { vid }),
        None => Ok(all),
    }
}

impl Union {
    /// Joins libraries under their names.
    ///
    /// # Errors
    /// [`LibraryError::DuplicateDrive`], [`LibraryError::CartridgeTwice`],
    /// [`LibraryError::TooManyLibraries`], or if no library can be asked.
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
            members.push(Member { name, library, drives, last: Mutex::default() });
        }
        let union = Union { members };
        union.inventory_in_reach()?;
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
        let found = self.inventory_in_reach()?.into_iter().find(|cartridge| cartridge.vid == vid);
        let cleaner = || self.cleaners().into_iter().find(|cleaner| cleaner.vid == vid);
        let library = found.map(|tape| tape.library).or_else(|| cleaner().map(|cleaner| cleaner.library));
        let member = library.and_then(|library| self.members.get(usize::from(library)));
        member.ok_or(LibraryError::UnknownCartridge { vid })
    }
}

impl Library for Union {
    fn inventory(&self) -> Result<Vec<CartridgeInfo>, LibraryError> {
        let mut all = Vec::new();
        for (number, member) in (0u16..).zip(&self.members) {
            all.extend(member.inventory(number)?);
        }
        joined(all.into_iter())
    }

    fn inventory_in_reach(&self) -> Result<Vec<CartridgeInfo>, LibraryError> {
        let (mut all, mut failed, mut of_those_away) = (Vec::new(), Vec::new(), Vec::new());
        for (number, member) in (0u16..).zip(&self.members) {
            match member.inventory(number) {
                Ok(cartridges) => all.extend(cartridges),
                Err(error) => {
                    failed.push(error);
                    of_those_away.append(&mut member.last().inventory.clone());
                }
            }
        }
        if failed.len() == self.members.len()
            && let Some(error) = failed.into_iter().next()
        {
            return Err(error);
        }
        // What another library shows by now was carried there.
        let shown: BTreeSet<Vid> = all.iter().map(|cartridge| cartridge.vid).collect();
        of_those_away.retain(|cartridge| !shown.contains(&cartridge.vid));
        // One that went from one to another before both were away is told by both.
        of_those_away.sort_by_key(|cartridge| cartridge.vid);
        of_those_away.dedup_by_key(|cartridge| cartridge.vid);
        joined(all.into_iter().chain(of_those_away))
    }

    fn changes(&self) -> Result<u64, LibraryError> {
        let (mut sum, mut failed) = (0u64, Vec::new());
        for member in &self.members {
            // One that is away has not changed until it is back.
            let changes = member.changes().unwrap_or_else(|error| {
                failed.push(error);
                member.last().total()
            });
            sum = sum.wrapping_add(changes);
        }
        match failed.into_iter().next() {
            Some(error) if self.members.iter().all(|member| member.last().trouble.is_some()) => Err(error),
            _ => Ok(sum),
        }
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
            let mut why = member.library.out_of_reach();
            if why.is_empty() {
                why.extend(member.last().trouble.clone());
            }
            why.into_iter().map(|why| format!("library {}: {why}", member.name))
        });
        all.collect()
    }

    fn unreached(&self) -> Vec<u16> {
        let numbered = (0u16..).zip(&self.members);
        numbered
            .filter(|(_, member)| !member.library.unreached().is_empty())
            .map(|(number, _)| number)
            .collect()
    }

    fn conditions(&self) -> Vec<LibraryCondition> {
        let numbered = (0u16..).zip(&self.members).flat_map(|(number, member)| {
            let own = member.library.conditions().into_iter();
            own.map(move |condition| LibraryCondition { library: number, ..condition })
        });
        numbered.collect()
    }

    fn drives(&self) -> Vec<DriveName> {
        self.members.iter().flat_map(|member| member.drives.iter().cloned()).collect()
    }

    fn library_of(&self, drive: &DriveName) -> u16 {
        self.of_drive(drive).map_or(0, |(number, _)| number as u16)
    }

    fn drive_place(&self, drive: &DriveName) -> DrivePlace {
        self.of_drive(drive)
            .map_or_else(|_| DrivePlace::default(), |(_, member)| member.library.drive_place(drive))
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
        let elsewhere = self.inventory_in_reach()?.into_iter().find(|cartridge| cartridge.vid == vid);
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
