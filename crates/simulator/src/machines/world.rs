//! All machines of one world together.

use std::collections::BTreeMap;
use std::sync::{Arc, Weak};

use archive::{Machines, OpenError};
use base::{ByteCount, Clock, DriveId, Epoch, Timestamp, Uuid, Vid};
use catalogue::{Command, Envelope};
use drive::Stamp;
use library::{DriveName, Library};
use store::{CatalogueStore, MemoryCatalogue, StoreOptions};

use super::disk_state::DiskState;
use super::journal::Effect;
use super::tape_state::TapeState;
use super::{Dice, Fault, Faults, Journal, Pace, Replay, SimCatalogue, SimDisk, SimLibrary};

/// What a world is made of.
#[derive(Clone, Debug)]
pub struct MachineConfig {
    /// The instance.
    pub instance: Uuid,
    /// Disks, with ids from 1 on.
    pub disks: u16,
    /// Bytes of one disk.
    pub disk_capacity: ByteCount,
    /// Tape drives, named `vdrive0`, `vdrive1` and so on.
    pub tape_drives: u16,
    /// Robots.
    pub robots: usize,
    /// Cartridges, named `KT0001` and so on; at most 9,999.
    pub tapes: u16,
    /// Bytes of one cartridge's data partition.
    pub tape_capacity: ByteCount,
    /// Commands that one commit of the catalogue may hold.
    pub commit_batch: usize,
}

impl Default for MachineConfig {
    fn default() -> Self {
        MachineConfig {
            instance: Uuid([0x4b; 16]),
            disks: 6,
            disk_capacity: ByteCount::gib(1),
            tape_drives: 2,
            robots: 1,
            tapes: 6,
            tape_capacity: ByteCount::mib(256),
            commit_batch: 1_024,
        }
    }
}

impl MachineConfig {
    /// The names of the tape drives.
    #[must_use]
    pub fn drive_names(&self) -> Vec<DriveName> {
        let names = (0..self.tape_drives).map(|number| DriveName::new(&format!("vdrive{number}")));
        names.filter_map(Result::ok).collect()
    }
}

/// What every machine is given.
#[derive(Clone)]
pub(crate) struct Surroundings {
    pub(crate) pace: Arc<dyn Pace>,
    pub(crate) faults: Faults,
}

/// What all machines hold.
pub(crate) struct Contents {
    disks: BTreeMap<DriveId, DiskState>,
    tapes: BTreeMap<Vid, TapeState>,
    catalogue: MemoryCatalogue,
}

impl Contents {
    /// Empty disks and cartridges, and a catalogue that knows its instance and no more.
    fn blank(config: &MachineConfig) -> Self {
        let disk = |id| {
            let id = DriveId(id);
            (
                id,
                DiskState::new(Stamp {
                    instance: config.instance,
                    drive: id,
                    epoch: Epoch(0),
                    commit: 0,
                    gaps_after: None,
                }),
            )
        };
        let vids = (1..=config.tapes).filter_map(|number| Vid::new(&format!("KT{number:04}")).ok());
        let tapes = vids.map(|vid| (vid, TapeState::new(config.tape_capacity.0))).collect();
        let catalogue = MemoryCatalogue::new();
        initialise(&catalogue, config.instance);
        Contents { disks: (1..=config.disks).map(disk).collect(), tapes, catalogue }
    }

    pub(crate) fn fork(&self) -> Self {
        let catalogue = self.catalogue.fork(None);
        Contents { disks: self.disks.clone(), tapes: self.tapes.clone(), catalogue }
    }

    pub(crate) fn apply(&mut self, effect: &Effect) {
        match effect {
            Effect::Disk(id, effect) => {
                if let Some(disk) = self.disks.get_mut(id) {
                    disk.apply(effect);
                }
            }
            Effect::Tape(vid, effect) => {
                if let Some(tape) = self.tapes.get_mut(vid) {
                    tape.apply(effect);
                }
            }
            Effect::Catalogue(changes) => self.catalogue.replay(changes),
        }
    }

    pub(crate) fn power_loss(&mut self, dice: &mut Dice) {
        self.disks.values_mut().for_each(|disk| disk.power_loss(dice));
        self.tapes.values_mut().for_each(|tape| tape.power_loss(dice));
    }
}

/// Gives an empty catalogue its instance, as `kist init` does.
fn initialise(tables: &MemoryCatalogue, instance: Uuid) {
    let mut first = ::catalogue::MemoryStore::new();
    let envelope = Envelope { at: Timestamp(0), command: Command::Initialise { instance } };
    ::catalogue::apply(&mut first, &envelope).unwrap_or_else(|error| unreachable!("an empty one: {error}"));
    for table in ::catalogue::Table::ALL {
        for (key, value) in first.rows(table) {
            tables.overwrite(table, key, Some(value));
        }
    }
}

/// The machines of one world. Clones are one.
#[derive(Clone)]
pub struct SimMachines {
    config: MachineConfig,
    around: Surroundings,
    catalogue: SimCatalogue,
    disks: Vec<SimDisk>,
    library: SimLibrary,
    journal: Option<Journal>,
    /// What the machines held when the journal began.
    start: Option<Arc<Contents>>,
}

impl SimMachines {
    /// New machines: formatted disks, blank cartridges, an initialised catalogue.
    #[must_use]
    pub fn new(config: &MachineConfig, pace: Arc<dyn Pace>) -> Self {
        SimMachines::with_contents(config, Contents::blank(config), pace, None)
    }

    /// As [`SimMachines::new`], with all that happens written down, to be replayed by
    /// [`SimMachines::replay`].
    #[must_use]
    pub fn with_journal(config: &MachineConfig, pace: Arc<dyn Pace>) -> Self {
        SimMachines::with_contents(config, Contents::blank(config), pace, Some(Journal::default()))
    }

    pub(crate) fn with_contents(
        config: &MachineConfig,
        contents: Contents,
        pace: Arc<dyn Pace>,
        journal: Option<Journal>,
    ) -> Self {
        let around = Surroundings { pace, faults: Faults::default() };
        let start = journal.is_some().then(|| Arc::new(contents.fork()));
        let Contents { disks, tapes, catalogue } = contents;
        let capacity = config.disk_capacity;
        let disk = |(id, state)| SimDisk::new(id, capacity, state, around.clone(), journal.clone());
        let drives = config.drive_names();
        SimMachines {
            config: config.clone(),
            catalogue: SimCatalogue::new(&catalogue, around.clone(), journal.clone()),
            disks: disks.into_iter().map(disk).collect(),
            library: SimLibrary::new(&drives, config.robots, tapes, around.clone(), journal.clone()),
            journal,
            start,
            around,
        }
    }

    /// What an engine is opened on. Whoever had it open before should be dead: see
    /// [`SimMachines::process_crash`].
    ///
    /// # Errors
    /// If the catalogue's writer cannot be started.
    pub fn open(&self, clock: Arc<dyn Clock>) -> Result<Machines, OpenError> {
        let map_size = ByteCount::mib(64);
        let options = StoreOptions { map_size, clock, batch_max: self.config.commit_batch };
        let catalogue = CatalogueStore::open_memory(self.catalogue.tables(), options)?;
        let pace = Arc::clone(&self.around.pace);
        let random_uuid = move || {
            let bytes = (u128::from(pace.random()) << 64) | u128::from(pace.random());
            Some(Uuid::from_random(bytes.to_be_bytes()))
        };
        Ok(Machines {
            catalogue,
            drives: self.disks.iter().map(|disk| (disk.id(), disk.open())).collect(),
            library: Arc::new(self.library.clone()) as Arc<dyn Library>,
            random_uuid: Arc::new(random_uuid),
            mount_log: None,
            drive_fits: None,
            access_log: None,
            backup: None,
        })
    }

    /// What shows whether anybody holds these machines still, or an engine on them, after they were dropped.
    #[must_use]
    pub fn trace(&self) -> Weak<dyn Pace> {
        Arc::downgrade(&self.around.pace)
    }

    /// What the world is made of.
    #[must_use]
    pub fn config(&self) -> &MachineConfig {
        &self.config
    }

    /// The faults planned for these machines, and those that happened.
    #[must_use]
    pub fn faults(&self) -> &Faults {
        &self.around.faults
    }

    /// The catalogue's disk.
    #[must_use]
    pub fn catalogue(&self) -> &SimCatalogue {
        &self.catalogue
    }

    /// The disks in the order of their ids.
    #[must_use]
    pub fn disks(&self) -> &[SimDisk] {
        &self.disks
    }

    /// The tape library.
    #[must_use]
    pub fn library(&self) -> &SimLibrary {
        &self.library
    }

    /// What happened so far, if it is written down.
    #[must_use]
    pub fn journal(&self) -> Option<&Journal> {
        self.journal.as_ref()
    }

    /// Goes through what was written down, from its beginning on. `None` without a journal.
    #[must_use]
    pub fn replay(&self) -> Option<Replay> {
        let (journal, start) = (self.journal.clone()?, self.start.as_ref()?);
        Some(Replay::new(self.config.clone(), journal, start.fork()))
    }

    /// Power is lost now, at all machines: what was not synced is lost, torn or there. Engines that were open
    /// get nothing but errors from here on. Not for a journal that goes on.
    pub fn power_loss(&self) {
        let mut dice = Dice::new(self.around.pace.random());
        self.catalogue.crash();
        self.disks.iter().for_each(|disk| disk.power_loss(&mut dice));
        self.library.power_loss(&mut dice);
        self.around.faults.count(Fault::PowerLoss);
    }

    /// The process dies now, the machines go on: what they have taken stays. Engines that were open get
    /// nothing but errors from here on.
    pub fn process_crash(&self) {
        self.catalogue.crash();
        self.disks.iter().for_each(SimDisk::process_crash);
        self.library.process_crash();
        self.around.faults.count(Fault::ProcessCrash);
    }

    /// A copy of all machines as they are, under another pace, with no faults planned.
    #[must_use]
    pub fn fork(&self, pace: Arc<dyn Pace>) -> SimMachines {
        let contents = Contents {
            disks: self.disks.iter().map(|disk| (disk.id(), disk.state())).collect(),
            tapes: self.library.tapes(),
            catalogue: self.catalogue.tables().fork(None),
        };
        SimMachines::with_contents(&self.config, contents, pace, None)
    }
}
