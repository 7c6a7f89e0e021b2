//! The target: its units, and the way of a command to one of them.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use iscsi::login::{Name, NameError};
use iscsi::pdu::Isid;
use iscsi::target::{LogicalUnits, Nexus, NexusId};
use library::{DriveName, Library, LibraryError};
use scsi::sense::SenseFormat;
use scsi::{Cdb, Command, CommandSet, Completion, ElementAddress, Lun};

use crate::answer::{Outcome, Refusal, completion};
use crate::changer::places::PlacesFile;
use crate::changer::{Changer, Elements, Refreshed, cleaners};
#[cfg(feature = "faults")]
use crate::faults::{Faults, Meets};
use crate::gate::{Gate, IMPORT_EXPORT_ACCESSED, NEXUS_LOST, Port, RESET};
use crate::options::{Options, TargetError};
use crate::tape::{Drive, Tape};
use crate::transport::LocalTransport;

/// Initiators' ports whose earlier sessions are remembered.
const PORTS_MAX: usize = 1024;

/// TEST UNIT READY, which hosts give between two blocks. Not READ POSITION: in its long form it may have to
/// go through what was not looked at yet, to count file marks.
const AT_ONCE: [u8; 1] = [0x00];

/// Numbers of sessions of this process begin here: those of an iSCSI server count from below.
const LOCAL_NEXUS: u64 = 1 << 63;

/// What all units share.
pub struct Shared {
    pub library: Arc<dyn Library>,
    pub options: Options,
    /// Units in the order of their numbers.
    pub luns: Vec<Lun>,
    elements: Mutex<Elements>,
    places: PlacesFile,
    /// The library's own counter of changes when it was last looked at.
    changes: AtomicU64,
    /// An operator has the door of the import and export elements open.
    pub door_open: AtomicBool,
}

impl Shared {
    pub fn elements(&self) -> MutexGuard<'_, Elements> {
        self.elements.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Writes down which cartridge stands where, for the next start.
    pub fn keep_places(&self) {
        let places = self.elements().places();
        self.places.keep(places);
    }

    /// Takes over what came and went in the library, and tells what did.
    pub fn refresh(&self, drives: &[Drive]) -> Refreshed {
        // A library that cannot be asked is as it was.
        let Ok(changes) = self.library.changes() else { return Refreshed::default() };
        let is_same = self.changes.swap(changes, Ordering::Relaxed) == changes;
        // They come and go without a change of the library.
        if is_same && cleaners::vids(&*self.library, &[]) == *self.elements().cleaners() {
            return Refreshed::default();
        }
        let Ok(mut inventory) = self.library.inventory() else { return Refreshed::default() };
        let cleaners = cleaners::vids(&*self.library, &inventory);
        inventory.extend(cleaners::rows(&cleaners));
        let mut elements = self.elements();
        elements.set_cleaners(cleaners);
        elements.refresh(&inventory, |name| element_of(drives, name))
    }
}

fn element_of(drives: &[Drive], name: &DriveName) -> Option<ElementAddress> {
    drives.iter().find(|drive| drive.name == *name).map(|drive| drive.address)
}

/// A library as a SCSI target. It holds the library's drives: nobody else takes them while it lives, and
/// nobody else should mount and unmount.
pub struct Target {
    shared: Shared,
    changer: Changer,
    drives: Vec<Drive>,
    sessions: AtomicU64,
    /// Ports that had a session.
    ports: Mutex<BTreeSet<Port>>,
    #[cfg(feature = "faults")]
    faults: Faults,
}

/// One of the units.
enum Unit<'a> {
    Changer(&'a Changer),
    Drive(&'a Drive),
}

impl Unit<'_> {
    fn gate(&self) -> &Gate {
        match self {
            Unit::Changer(changer) => &changer.gate,
            Unit::Drive(drive) => &drive.gate,
        }
    }

    fn set(&self) -> CommandSet {
        match self {
            Unit::Changer(_) => CommandSet::Changer,
            Unit::Drive(_) => CommandSet::Stream,
        }
    }
}

/// What becomes of a command.
pub enum Reply {
    /// It is answered.
    Answer(Completion),
    /// Nobody hears of it again.
    #[cfg_attr(not(feature = "faults"), allow(dead_code, reason = "only faults lose answers"))]
    Nothing,
}

impl Target {
    /// Makes units of a library's changer and drives.
    ///
    /// # Errors
    /// If an option cannot be used, a drive is in use elsewhere, or there are too many drives or cartridges.
    pub fn new(library: Arc<dyn Library>, options: Options) -> Result<Arc<Target>, TargetError> {
        options.checked()?;
        let names = library.drives();
        let too_many = TargetError::Drives { count: names.len() };
        let count = u16::try_from(names.len()).ok().filter(|_| names.len() <= Options::DRIVES_MAX);
        let count = count.ok_or(too_many)?;
        let drives = (0..count).zip(&names).map(|(number, name)| {
            let handle = library.take_drive(name)?;
            Ok(Drive::new(handle, usize::from(number), Elements::drive(number), &options))
        });
        let drives: Vec<Drive> = drives.collect::<Result<_, LibraryError>>()?;
        let changes = library.changes()?;
        let mut inventory = library.inventory()?;
        let cleaning = cleaners::vids(&*library, &inventory);
        inventory.extend(cleaners::rows(&cleaning));
        let wanted = inventory.len().saturating_add(usize::from(Options::SLOTS_SPARE));
        let slots = options.slots.unwrap_or_else(|| u16::try_from(wanted).unwrap_or(u16::MAX));
        let slots = slots.min(Options::SLOTS_MAX);
        let places = PlacesFile::open(options.places.as_deref());
        let mut elements = Elements::new(slots, options.import_export, count, places.places());
        elements.set_cleaners(cleaning);
        elements.refresh(&inventory, |name| element_of(&drives, name));
        if elements.left_out() > 0 {
            return Err(TargetError::Slots { cartridges: inventory.len(), slots });
        }
        let luns = (0..=count).filter_map(Lun::single).collect();
        let shared = Shared {
            library,
            options,
            luns,
            elements: Mutex::new(elements),
            places,
            changes: AtomicU64::new(changes),
            door_open: AtomicBool::new(false),
        };
        shared.keep_places();
        for drive in &drives {
            let loaded = shared.elements().held(drive.address).map(|held| held.vid);
            if let Some(vid) = loaded {
                drive.take_over(&shared, vid);
            }
        }
        Ok(Arc::new(Target {
            changer: Changer::new(&shared.options),
            shared,
            drives,
            sessions: AtomicU64::new(LOCAL_NEXUS),
            ports: Mutex::default(),
            #[cfg(feature = "faults")]
            faults: Faults::default(),
        }))
    }

    /// A way to a unit without a socket, in a session of its own: 0 is the changer, 1 and up are the drives.
    ///
    /// # Errors
    /// If this is no name of an initiator.
    pub fn transport(self: &Arc<Self>, lun: u16, initiator: &str) -> Result<LocalTransport, NameError> {
        let nexus = Nexus {
            id: NexusId(self.sessions.fetch_add(1, Ordering::Relaxed)),
            initiator: Name::new(initiator)?,
            isid: Isid::default(),
            target: self.shared.options.target.clone(),
        };
        self.begin(&nexus);
        Ok(LocalTransport::new(Arc::clone(self), nexus, lun))
    }

    /// Unloads all drives, whatever initiators prevent: for the end of a program. What was not written to a
    /// cartridge by then is in the errors.
    pub fn close(&self) -> Vec<LibraryError> {
        self.drives.iter().filter_map(|drive| drive.close(&self.shared).err()).collect()
    }

    /// An operator opens the door of the import and export elements, or closes it; gives whether it is open
    /// then. Initiators may prevent its opening.
    pub fn set_door_open(&self, open: bool) -> bool {
        let open = open && !self.changer.gate.is_prevented();
        let was_open = self.shared.door_open.swap(open, Ordering::SeqCst);
        if was_open && !open {
            self.changer.gate.tell_others(None, IMPORT_EXPORT_ACCESSED);
        }
        open
    }

    /// The faults planned for this target.
    #[cfg(feature = "faults")]
    pub fn faults(&self) -> Faults {
        self.faults.clone()
    }

    /// The changer raises a TapeAlert flag.
    #[cfg(feature = "faults")]
    pub fn raise_changer_alert(&self, flag: u8) {
        let mut log = self.changer.log();
        log.alerts = log.alerts.with(flag);
    }

    /// The changer gets a thermometer, which shows this.
    #[cfg(feature = "faults")]
    pub fn heat_changer(&self, celsius: u8) {
        self.changer.log().celsius = Some(celsius);
    }

    /// How it presents the library.
    #[must_use]
    pub fn options(&self) -> &Options {
        &self.shared.options
    }

    fn units(&self) -> impl Iterator<Item = Unit<'_>> {
        std::iter::once(Unit::Changer(&self.changer)).chain(self.drives.iter().map(Unit::Drive))
    }

    fn unit(&self, lun: u16) -> Option<Unit<'_>> {
        match lun.checked_sub(1) {
            None => Some(Unit::Changer(&self.changer)),
            Some(number) => self.drives.get(usize::from(number)).map(Unit::Drive),
        }
    }

    pub(crate) fn begin(&self, nexus: &Nexus) {
        let port = Port::of(nexus);
        let mut ports = self.ports.lock().unwrap_or_else(PoisonError::into_inner);
        if ports.len() >= PORTS_MAX {
            // Those that come again hear of a power on instead of a session that was lost.
            ports.clear();
        }
        let first = if ports.insert(port) { RESET } else { NEXUS_LOST };
        drop(ports);
        self.units().for_each(|unit| unit.gate().begin(nexus, first));
    }

    pub(crate) fn end(&self, nexus: &Nexus) {
        self.units().for_each(|unit| unit.gate().end(nexus));
        self.drives.iter().for_each(|drive| drive.encryption.ended(nexus));
    }

    /// Carries a command out and answers it, or not.
    pub(crate) fn reply(&self, nexus: &Nexus, lun: u16, cdb: &Cdb, out: &[u8], into: &mut [u8]) -> Reply {
        #[cfg(feature = "faults")]
        {
            self.reply_with_faults(nexus, lun, cdb, out, into)
        }
        #[cfg(not(feature = "faults"))]
        Reply::Answer(self.answer(None, nexus, lun, cdb, out, into))
    }

    #[cfg(feature = "faults")]
    fn reply_with_faults(&self, nexus: &Nexus, lun: u16, cdb: &Cdb, out: &[u8], into: &mut [u8]) -> Reply {
        match self.faults.meet(lun, cdb) {
            None => Reply::Answer(self.answer(None, nexus, lun, cdb, out, into)),
            Some(Meets::Answer(completion)) => Reply::Answer(completion),
            Some(Meets::Nothing) => Reply::Nothing,
            Some(Meets::LostAnswer) => {
                drop(self.answer(None, nexus, lun, cdb, out, into));
                Reply::Nothing
            }
            Some(Meets::Reset { is_done }) => {
                if is_done {
                    drop(self.answer(None, nexus, lun, cdb, out, into));
                }
                self.reset_unit(lun);
                Reply::Nothing
            }
            Some(Meets::Shift(by)) => {
                let answer = self.answer(None, nexus, lun, cdb, out, into);
                if let Some(Unit::Drive(drive)) = self.unit(lun) {
                    drive.shift(by);
                }
                Reply::Answer(answer)
            }
        }
    }

    /// `held`: the tape of the drive, if the caller has it.
    fn answer(
        &self,
        held: Option<MutexGuard<'_, Tape>>,
        nexus: &Nexus,
        lun: u16,
        cdb: &Cdb,
        out: &[u8],
        into: &mut [u8],
    ) -> Completion {
        let Some(unit) = self.unit(lun) else {
            // 5/25/00: there is no such unit.
            return completion(Err(Refusal::illegal(0x25, 0)), SenseFormat::Fixed);
        };
        if let Unit::Changer(changer) = &unit {
            changer.look(&self.shared, &self.drives);
        }
        let decoded = Command::decode(cdb, unit.set());
        let passed = unit.gate().pass(nexus, decoded.as_ref().ok());
        let outcome: Outcome = passed.and_then(|()| {
            match &unit {
                Unit::Changer(changer) => changer.common(&self.shared).check(cdb)?,
                Unit::Drive(drive) => drive.common(&self.shared).check(cdb)?,
            }
            let command = decoded.map_err(|error| Refusal::from(error.sense()))?;
            match &unit {
                Unit::Changer(changer) => {
                    changer.execute((&self.shared, &self.drives), nexus, &command, out, into)
                }
                Unit::Drive(drive) => drive.execute(&self.shared, held, nexus, &command, out, into),
            }
        });
        let format = match (&outcome, &unit) {
            (Err(_), Unit::Drive(drive)) => drive.format(),
            _ => SenseFormat::Fixed,
        };
        completion(outcome, format)
    }

    fn reset_unit(&self, lun: u16) {
        match self.unit(lun) {
            Some(Unit::Changer(changer)) => changer.gate.reset(),
            Some(Unit::Drive(drive)) => drive.reset(),
            None => {}
        }
    }
}

impl LogicalUnits for Target {
    fn targets(&self) -> Vec<Name> {
        vec![self.shared.options.target.clone()]
    }

    fn luns(&self, _target: &Name) -> Vec<iscsi::pdu::Lun> {
        self.shared.luns.iter().map(|lun| iscsi::pdu::Lun(lun.0)).collect()
    }

    fn execute(
        &self,
        nexus: &Nexus,
        lun: iscsi::pdu::Lun,
        cdb: &Cdb,
        out: &[u8],
        into: &mut [u8],
    ) -> Completion {
        // Numbers that are none of a unit's are answered by the server already.
        let number = lun.number().unwrap_or(u16::MAX);
        match self.reply(nexus, number, cdb, out, into) {
            Reply::Answer(completion) => completion,
            Reply::Nothing => {
                #[cfg(feature = "faults")]
                self.faults.hold(nexus.id, number);
                // Nobody hears of it: it was aborted, or the session is over.
                completion(Err(Refusal::new(scsi::SenseKey::AbortedCommand, 0, 6)), SenseFormat::Fixed)
            }
        }
    }

    fn execute_at_once(
        &self,
        nexus: &Nexus,
        lun: iscsi::pdu::Lun,
        cdb: &Cdb,
        into: &mut [u8],
    ) -> Option<Completion> {
        let number = lun.number()?;
        let Unit::Drive(drive) = self.unit(number)? else { return None };
        if cfg!(feature = "faults") || !AT_ONCE.contains(&cdb.operation_code()) {
            return None;
        }
        // Nobody else's command comes between.
        let tape = drive.lock_if_free()?;
        Some(self.answer(Some(tape), nexus, number, cdb, &[], into))
    }

    fn begun(&self, nexus: &Nexus) {
        self.begin(nexus);
    }

    fn ended(&self, nexus: &Nexus) {
        self.end(nexus);
    }

    fn abort(&self, nexus: &Nexus, lun: iscsi::pdu::Lun) {
        let number = lun.number().unwrap_or(u16::MAX);
        if let Some(Unit::Drive(drive)) = self.unit(number) {
            drive.abort(nexus);
        }
        #[cfg(feature = "faults")]
        self.faults.release(nexus.id, number);
    }

    fn reset(&self, _nexus: &Nexus, lun: iscsi::pdu::Lun) {
        self.reset_unit(lun.number().unwrap_or(u16::MAX));
    }
}
