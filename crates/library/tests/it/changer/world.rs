//! A changer as a value: elements, a script of what goes wrong, and the ways to it and its drives.

use std::collections::{BTreeMap, VecDeque};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use base::{BlockAddress, ByteCount, Partition, TapePosition, Vid};
use library::scsi::changer::{
    ChangerTimes, Devices, DriveSeat, LoadableDrive, ScsiLibrary, ScsiLibraryConfig, Unreached, WantedDrive,
};
use library::{
    DriveName, MotionReport, ReadBlock, TapeAlert, TapeDrive, TapeError, Track, Waiter, WriteResult,
};
use scsi::command::{Changer, Primary};
use scsi::element::{Element, ElementPage, ElementStatus, PageElementType, VolumeTag};
use scsi::log::{TapeAlerts, page};
use scsi::mode::{
    DeviceCapabilities, ElementAddressAssignment, ElementKinds, ModeContent, ModeDirection, ModeForm,
    ModeParameters,
};
use scsi::opcodes::{OneOpcode, Support};
use scsi::sense::AdditionalSense;
use scsi::vpd::{Association, CodeSet, Designator, DesignatorType, Vpd, VpdPage};
use scsi::{
    Cdb, Command, CommandSet, Completion, Data, DeviceType, ElementAddress, ElementType, Inquiry, Packed,
    Sense, SenseKey, Status, Text, Transport, TransportError, TransportFault,
};

pub const PICKER: u16 = 1;
pub const DOOR: u16 = 10;
pub const DRIVES: u16 = 256;
pub const SLOTS: u16 = 1000;

/// What a changer does other than most.
#[derive(Clone, Copy, Debug, Default)]
pub struct Quirks {
    pub no_opcodes: bool,
    pub no_identifiers: bool,
    pub no_tags: bool,
    pub no_tags_in_drives: bool,
    pub no_addresses: bool,
    /// Gives all elements of a type, however few were asked for (tgt).
    pub ignores_count: bool,
    /// The way takes no longer transfers.
    pub transfer_max: Option<usize>,
    /// Refuses answers that may be longer than this, with this sense (tgt).
    pub allocation_max: Option<(u32, SenseKey, u8)>,
    /// Gives answers without their last bytes, so many (tgt).
    pub leaves_out: usize,
    /// So many reads after a movement show what was before it.
    pub lag: u32,
    pub no_initialize: bool,
    /// The door is open: the robot does not get at it.
    pub door_open: bool,
    /// Cartridges come in by the door, and not out.
    pub no_export: bool,
    /// It has log pages, so many; without them LOG SENSE is no command of it, as of tgt's.
    pub logs: Logs,
}

/// What a changer does with LOG SENSE.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Logs {
    #[default]
    None,
    /// Flag 16 is raised once; 31 degrees, of the robot nothing.
    Some,
    /// No page is that which was asked for.
    Others,
    /// No answer.
    Silent,
}

/// What becomes of the next MOVE MEDIUM.
#[derive(Clone, Copy, Debug)]
pub enum Effect {
    None,
    Done,
    /// It stays in the hand.
    Hand,
    /// It is done when so many further reads were answered.
    Later(u32),
}

#[derive(Clone, Copy, Debug)]
pub enum Script {
    /// This sense, and this is what was done.
    Sense(SenseKey, u8, u8, Effect),
    /// No answer.
    Lost(Effect),
    /// GOOD, and this is what was done.
    Good(Effect),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cell {
    pub kind: ElementType,
    pub label: Option<String>,
    pub source: Option<u16>,
    pub medium_type: u8,
    pub exception: Option<(u8, u8)>,
}

#[derive(Default)]
pub struct World {
    pub cells: BTreeMap<u16, Cell>,
    shown: Option<(u32, BTreeMap<u16, Cell>)>,
    pub quirks: Quirks,
    pub moves: Vec<(u16, u16)>,
    pub script: VecDeque<Script>,
    pub attentions: VecDeque<(u8, u8)>,
    /// What happens when the next MOVE MEDIUM finds a unit attention: somebody was faster.
    pub meanwhile: Option<fn(&mut World)>,
    later: Option<(u32, u16, u16)>,
    /// The changer is not reached.
    pub away: bool,
    /// TEST UNIT READY says so often that it becomes ready.
    pub becoming: u32,
    pub serial: String,
    /// Commands by name.
    pub heard: BTreeMap<&'static str, u32>,
    /// Drives that are not found, that do not load, that do not unload, whose flush fails.
    pub drive_away: bool,
    pub load_fails: bool,
    pub unload_fails: bool,
    /// The same for a drive that has cleaned.
    pub cleaner_stays: bool,
    /// How often drives were cleaned, whether they say that they were not, and the flags they raise then.
    pub cleanings: u32,
    pub cleaning_fails: bool,
    pub alerts: Vec<TapeAlert>,
    pub flush_fails: bool,
    pub initialized: Vec<(u16, u16)>,
    /// Log pages that were asked for.
    pub logs_asked: Vec<u8>,
}

impl World {
    /// Slots with labels, empty where there is none, two drives, a door and a picker.
    pub fn new(labels: &[&str]) -> World {
        let mut world = World { serial: "CH0001".to_owned(), ..World::default() };
        let mut put = |at: u16, kind, label: &str| {
            let label = (!label.is_empty()).then(|| label.to_owned());
            world.cells.insert(at, Cell { kind, label, source: None, medium_type: 0, exception: None });
        };
        put(PICKER, ElementType::Transport, "");
        put(DOOR, ElementType::ImportExport, "");
        put(DRIVES, ElementType::DataTransfer, "");
        put(DRIVES + 1, ElementType::DataTransfer, "");
        for (at, label) in (SLOTS..).zip(labels) {
            put(at, ElementType::Storage, label);
        }
        world
    }

    pub fn label(&self, at: u16) -> Option<&str> {
        self.cells[&at].label.as_deref()
    }

    pub fn put(&mut self, at: u16, label: Option<&str>) {
        self.cells.get_mut(&at).unwrap().label = label.map(str::to_owned);
    }

    fn shift(&mut self, from: u16, to: u16) {
        let before = self.cells.clone();
        let label = self.cells.get_mut(&from).unwrap().label.take();
        let cell = self.cells.get_mut(&to).unwrap();
        assert!(cell.label.is_none(), "a cartridge is pushed onto another");
        cell.label = label;
        cell.source = (before[&from].kind == ElementType::Storage).then_some(from);
        if self.quirks.lag > 0 {
            self.shown = Some((self.quirks.lag, before));
        }
    }

    fn apply(&mut self, effect: Effect, from: u16, to: u16) {
        match effect {
            Effect::None => {}
            Effect::Done => self.shift(from, to),
            Effect::Hand => {
                self.shift(from, PICKER);
                self.cells.get_mut(&PICKER).unwrap().source = Some(from);
            }
            Effect::Later(reads) => self.later = Some((reads, from, to)),
        }
    }

    fn move_medium(&mut self, from: u16, to: u16) -> Result<Completion, TransportError> {
        self.moves.push((from, to));
        match self.script.pop_front() {
            Some(Script::Sense(key, asc, ascq, effect)) => {
                self.apply(effect, from, to);
                return Ok(check(key, asc, ascq));
            }
            Some(Script::Lost(effect)) => {
                self.apply(effect, from, to);
                return Err(lost(true));
            }
            Some(Script::Good(effect)) => {
                self.apply(effect, from, to);
                return Ok(good(0));
            }
            None => {}
        }
        if self.cells.get(&from).is_none_or(|cell| cell.label.is_none()) {
            return Ok(check(SenseKey::IllegalRequest, 0x3b, 0x0e));
        }
        if self.quirks.door_open && [from, to].contains(&DOOR) {
            return Ok(check(SenseKey::IllegalRequest, 0x3b, 0x11));
        }
        if self.cells.get(&to).is_none_or(|cell| cell.label.is_some()) {
            return Ok(check(SenseKey::IllegalRequest, 0x3b, 0x0d));
        }
        self.shift(from, to);
        Ok(good(0))
    }

    fn status(&mut self, command: &Changer) -> Result<Vec<u8>, Completion> {
        let Changer::ReadElementStatus {
            volume_tags,
            kind,
            first,
            count,
            identifiers,
            allocation_length,
            ..
        } = *command
        else {
            unreachable!()
        };
        assert_ne!(kind, ElementType::All, "one type at a time");
        let illegal = || check(SenseKey::IllegalRequest, 0x24, 0x00);
        if identifiers && self.quirks.no_identifiers || volume_tags && self.quirks.no_tags {
            return Err(illegal());
        }
        if let Some((_, key, asc)) = self.quirks.allocation_max.filter(|(max, ..)| allocation_length > *max) {
            return Err(check(key, asc, 0x00));
        }
        if let Some((reads, from, to)) = self.later {
            self.later = (reads > 1).then_some((reads - 1, from, to));
            if reads <= 1 {
                self.shift(from, to);
            }
        }
        let cells = match &mut self.shown {
            Some((0, _)) | None => &self.cells,
            Some((reads, before)) => {
                *reads -= 1;
                before
            }
        };
        let most = if self.quirks.ignores_count { usize::MAX } else { usize::from(count) };
        let ours = cells.iter().filter(|(at, cell)| cell.kind == kind && **at >= first.0).take(most);
        let elements: Vec<Element> = ours
            .map(|(at, cell)| {
                let in_drive = kind == ElementType::DataTransfer;
                let is_blind = in_drive && self.quirks.no_tags_in_drives;
                let label = cell.label.as_deref().filter(|label| *label != UNREADABLE && !is_blind);
                let identifier = identifiers.then(|| serial_of(*at));
                Element {
                    address: ElementAddress(*at),
                    full: cell.label.is_some(),
                    accessible: kind != ElementType::ImportExport || !self.quirks.door_open,
                    exports: kind == ElementType::ImportExport && !self.quirks.no_export,
                    imports: kind == ElementType::ImportExport,
                    medium_type: cell.medium_type,
                    exceptional: cell.exception.is_some(),
                    exception: cell
                        .exception
                        .map_or_else(AdditionalSense::default, |(asc, ascq)| AdditionalSense { asc, ascq }),
                    source: cell.source.map(ElementAddress),
                    primary_tag: volume_tags.then(|| VolumeTag {
                        identifier: Text::new(label.unwrap_or("")).unwrap(),
                        sequence: 0,
                    }),
                    identifier,
                    ..Element::default()
                }
            })
            .collect();
        let page_kind = match kind {
            ElementType::Transport => PageElementType::Transport,
            ElementType::Storage => PageElementType::Storage,
            ElementType::ImportExport => PageElementType::ImportExport,
            _ => PageElementType::DataTransfer,
        };
        let page =
            ElementPage { kind: page_kind, primary_tags: volume_tags, alternate_tags: false, elements };
        let pages = if page.elements.is_empty() { Vec::new() } else { vec![page] };
        let mut answer = ElementStatus::of(pages).encode();
        answer.truncate(answer.len() - self.quirks.leaves_out.min(answer.len() - 8));
        Ok(answer)
    }

    fn layout(&self) -> ElementAddressAssignment {
        let range = |kind| {
            let mut all = self.cells.iter().filter(|(_, cell)| cell.kind == kind).map(|(at, _)| *at);
            let first = all.next().unwrap_or(0);
            (ElementAddress(first), all.next_back().map_or(1, |last| last - first + 1))
        };
        ElementAddressAssignment {
            transport: range(ElementType::Transport),
            storage: range(ElementType::Storage),
            import_export: range(ElementType::ImportExport),
            data_transfer: range(ElementType::DataTransfer),
        }
    }

    fn mode(&self, page: u8) -> Result<Vec<u8>, Completion> {
        let content = match page {
            0x1d if !self.quirks.no_addresses => ModeContent::ElementAddressAssignment(self.layout()),
            0x1f if !self.quirks.no_addresses => ModeContent::DeviceCapabilities(DeviceCapabilities {
                moves: [ElementKinds::ALL; 4],
                exchanges: [ElementKinds::ALL; 4],
                ..DeviceCapabilities::default()
            }),
            _ => return Err(check(SenseKey::IllegalRequest, 0x24, 0x00)),
        };
        let parameters = ModeParameters { pages: vec![content.into()], ..ModeParameters::default() };
        Ok(parameters.encode(ModeForm::Six, ModeDirection::Sense))
    }

    fn answer(&mut self, command: &Command) -> Result<Result<Vec<u8>, Completion>, TransportError> {
        let unknown = || check(SenseKey::IllegalRequest, 0x20, 0x00);
        Ok(match command {
            Command::Primary(Primary::TestUnitReady) if self.becoming > 0 => {
                self.becoming -= 1;
                Err(check(SenseKey::NotReady, 0x04, 0x01))
            }
            Command::Primary(Primary::TestUnitReady) => Ok(Vec::new()),
            Command::Primary(Primary::Inquiry { vital: false, .. }) => Ok(Inquiry {
                device_type: DeviceType::Changer,
                vendor: Text::new("KIST").unwrap(),
                product: Text::new("FAKE CHANGER").unwrap(),
                ..Inquiry::default()
            }
            .encode()),
            Command::Primary(Primary::Inquiry { page: 0x80, .. }) => {
                let page = VpdPage::SerialNumber(self.serial.clone().into_bytes());
                Ok(Vpd { qualifier: 0, device_type: DeviceType::Changer, page }.encode())
            }
            Command::Primary(Primary::ModeSense6 { page, .. }) => self.mode(*page),
            Command::Primary(Primary::ReportSupportedOperationCodes { .. }) if self.quirks.no_opcodes => {
                Err(unknown())
            }
            Command::Primary(Primary::ReportSupportedOperationCodes { .. }) => {
                Ok(OneOpcode { support: Support::Standard, ..OneOpcode::default() }.encode())
            }
            Command::Changer(Changer::InitializeElementStatusWithRange { first, count, .. })
                if !self.quirks.no_initialize =>
            {
                self.initialized.push((first.0, *count));
                for (_, cell) in self.cells.range_mut(first.0..first.0 + count) {
                    cell.exception = None;
                }
                Ok(Vec::new())
            }
            Command::Primary(Primary::LogSense { page, .. }) => {
                self.logs_asked.push(*page);
                match (self.quirks.logs, *page) {
                    (Logs::None, _) => Err(unknown()),
                    (Logs::Silent, _) => return Err(lost(true)),
                    (Logs::Others, _) => Ok(TapeAlerts::default().with(1).to_response().encode()),
                    (Logs::Some, page::TAPE_ALERT) => {
                        let is_first =
                            self.logs_asked.iter().filter(|one| **one == page::TAPE_ALERT).count() == 1;
                        let raised = TapeAlerts::default();
                        Ok(if is_first { raised.with(16) } else { raised }.to_log().encode())
                    }
                    (Logs::Some, page::TEMPERATURE) => Ok(vec![0x0d, 0, 0, 6, 0, 0, 3, 2, 0, 31]),
                    (Logs::Some, _) => Err(check(SenseKey::IllegalRequest, 0x24, 0x00)),
                }
            }
            Command::Changer(status @ Changer::ReadElementStatus { .. }) => self.status(status),
            Command::Changer(Changer::MoveMedium { transport, from, to, .. }) => {
                assert!([0, PICKER].contains(&transport.0));
                Err(self.move_medium(from.0, to.0)?)
            }
            _ => Err(unknown()),
        })
    }

    fn execute(&mut self, cdb: &Cdb, data: Data<'_>) -> Result<Completion, TransportError> {
        if self.away {
            return Err(lost(false));
        }
        let command = Command::decode(cdb, CommandSet::Changer).unwrap();
        *self.heard.entry(command.name()).or_default() += 1;
        let is_told_always = matches!(command, Command::Primary(Primary::Inquiry { .. }));
        let is_move = matches!(command, Command::Changer(Changer::MoveMedium { .. }));
        if is_move && let Some(meanwhile) = self.meanwhile.take() {
            meanwhile(self);
        }
        if !is_told_always && let Some((asc, ascq)) = self.attentions.pop_front() {
            return Ok(check(SenseKey::UnitAttention, asc, ascq));
        }
        match (self.answer(&command)?, data) {
            (Ok(bytes), Data::In(into)) => {
                let given = bytes.len().min(into.len());
                into[..given].copy_from_slice(&bytes[..given]);
                Ok(good(given))
            }
            (Ok(_), _) => Ok(good(0)),
            (Err(completion), _) => Ok(completion),
        }
    }
}

/// A label that no reader can read.
pub const UNREADABLE: &str = "?";

pub fn serial_of(drive: u16) -> Designator {
    Designator {
        protocol: None,
        code_set: CodeSet::Ascii,
        association: Association::Unit,
        kind: DesignatorType::T10,
        value: format!("KIST    FAKE DRIVE      SN{drive}").into_bytes(),
    }
}

fn check(key: SenseKey, asc: u8, ascq: u8) -> Completion {
    Completion { status: Status::CheckCondition, sense: Sense::new(key, asc, ascq).encode(), transferred: 0 }
}

fn good(transferred: usize) -> Completion {
    Completion { status: Status::Good, sense: Vec::new(), transferred }
}

fn lost(may_be_done: bool) -> TransportError {
    TransportError { fault: TransportFault::Path, may_be_done, what: "fake: the way broke".to_owned() }
}

/// Time that goes by only when somebody waits.
#[derive(Debug, Default)]
pub struct Clock(pub AtomicU64);

impl Waiter for Clock {
    fn now_us(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }

    fn wait_until(&self, until_us: u64) {
        self.0.fetch_max(until_us, Ordering::Relaxed);
    }
}

struct Way(Arc<Mutex<World>>);

impl Transport for Way {
    fn execute(&mut self, cdb: &Cdb, data: Data<'_>, _: Duration) -> Result<Completion, TransportError> {
        self.0.lock().unwrap().execute(cdb, data)
    }

    fn transfer_max(&self) -> usize {
        self.0.lock().unwrap().quirks.transfer_max.unwrap_or(1 << 20)
    }

    fn address(&self) -> &'static str {
        "fake changer"
    }
}

/// A drive that holds what the changer has put into it.
pub struct FakeDrive {
    world: Arc<Mutex<World>>,
    name: DriveName,
    at: u16,
    loaded: Option<Vid>,
}

impl FakeDrive {
    /// One that takes whatever is brought.
    pub fn indifferent(name: DriveName) -> FakeDrive {
        FakeDrive { world: Arc::default(), name, at: 0, loaded: None }
    }
}

impl LoadableDrive for FakeDrive {
    fn tape(&mut self) -> &mut dyn TapeDrive {
        self
    }

    fn is_loaded(&self) -> bool {
        self.loaded.is_some()
    }

    fn load(&mut self, vid: Vid) -> Result<(), TapeError> {
        let world = self.world.lock().unwrap();
        if world.load_fails {
            let sense = library::Sense { key: 4, code: 0x53, qualifier: 0 };
            return Err(TapeError::CleaningNeeded { drive: self.name.clone(), sense });
        }
        if self.at != 0 {
            assert!(world.label(self.at).is_some_and(|label| label.starts_with(vid.as_str())), "not in it");
        }
        self.loaded = Some(vid);
        Ok(())
    }

    fn clean(&mut self, _: Duration) -> Result<Vec<TapeAlert>, TapeError> {
        let mut world = self.world.lock().unwrap();
        assert!(world.label(self.at).is_some_and(|label| label.starts_with("CLN")), "not in it");
        world.cleanings += 1;
        match world.cleaning_fails {
            true => {
                let sense = library::Sense { key: 2, code: 0x30, qualifier: 7 };
                Err(TapeError::CleaningNeeded { drive: self.name.clone(), sense })
            }
            false => Ok(world.alerts.clone()),
        }
    }

    fn unload(&mut self) -> Result<Option<TapeError>, TapeError> {
        let world = self.world.lock().unwrap();
        if world.unload_fails || world.cleaner_stays && world.cleanings > 0 {
            return Err(TapeError::Reserved { drive: self.name.clone() });
        }
        let vid = self.loaded.take();
        Ok(vid.filter(|_| world.flush_fails).map(|vid| TapeError::Poisoned { vid }))
    }
}

/// What a changer does not ask of a drive.
fn nobody_asks<T>() -> T {
    panic!("a changer does not read or write")
}

impl TapeDrive for FakeDrive {
    fn id(&self) -> &DriveName {
        &self.name
    }
    fn read_block(&mut self, _: &mut [u8]) -> Result<ReadBlock, TapeError> {
        nobody_asks()
    }
    fn write_block(&mut self, _: &[u8]) -> Result<WriteResult, TapeError> {
        nobody_asks()
    }
    fn write_filemarks(&mut self, _: u32) -> Result<WriteResult, TapeError> {
        nobody_asks()
    }
    fn locate(&mut self, _: TapePosition) -> Result<(), TapeError> {
        nobody_asks()
    }
    fn space_to_end_of_data(&mut self, _: Partition) -> Result<TapePosition, TapeError> {
        nobody_asks()
    }
    fn position(&mut self) -> Result<TapePosition, TapeError> {
        Ok(TapePosition { partition: Partition::Index, block: BlockAddress(0) })
    }
    fn rewind(&mut self) -> Result<(), TapeError> {
        nobody_asks()
    }
    fn loaded(&self) -> bool {
        self.loaded.is_some()
    }
    fn format_partitions(&mut self) -> Result<(), TapeError> {
        nobody_asks()
    }
    fn read_attribute(&mut self, _: Partition, _: u16) -> Result<Option<Vec<u8>>, TapeError> {
        nobody_asks()
    }
    fn write_attribute(&mut self, _: Partition, _: u16, _: &[u8]) -> Result<(), TapeError> {
        nobody_asks()
    }
    fn remaining(&mut self) -> Result<ByteCount, TapeError> {
        nobody_asks()
    }
    fn end_of_wrap_positions(&mut self) -> Result<Option<Vec<BlockAddress>>, TapeError> {
        nobody_asks()
    }
    fn recommended_order(
        &mut self,
        _: &[(BlockAddress, BlockAddress)],
    ) -> Result<Option<Vec<usize>>, TapeError> {
        nobody_asks()
    }
    fn track(&mut self, _: u32) -> Result<Option<Track>, TapeError> {
        nobody_asks()
    }
    fn motion_report(&mut self) -> Option<MotionReport> {
        None
    }
    fn set_encryption(&mut self, _encryption: Option<&library::TapeEncryption>) -> Result<(), TapeError> {
        Ok(())
    }

    fn block_encryption(&mut self) -> Result<library::BlockEncryption, TapeError> {
        Ok(library::BlockEncryption::Unknown)
    }

    fn alerts(&mut self) -> Result<Vec<TapeAlert>, TapeError> {
        Ok(Vec::new())
    }

    fn counters(&mut self) -> Result<library::DriveCounters, TapeError> {
        nobody_asks()
    }
}

struct Fakes(Arc<Mutex<World>>);

impl Devices for Fakes {
    fn changer(&self) -> Result<Box<dyn Transport>, Unreached> {
        Ok(Box::new(Way(Arc::clone(&self.0))))
    }

    fn drive(&self, wanted: &WantedDrive) -> Result<Box<dyn LoadableDrive>, Unreached> {
        if self.0.lock().unwrap().drive_away {
            return Err(Unreached(format!("no drive {wanted:?}")));
        }
        let (world, name, at) = (Arc::clone(&self.0), wanted.name.clone(), wanted.element.0);
        Ok(Box::new(FakeDrive { world, name, at, loaded: None }))
    }
}

/// A library over a world.
pub struct Bench {
    pub world: Arc<Mutex<World>>,
    pub clock: Arc<Clock>,
    pub library: ScsiLibrary,
}

pub fn numbered() -> ScsiLibraryConfig {
    let drive = |number| (DriveName::new(&format!("drive{number}")).unwrap(), DriveSeat::Number(number));
    ScsiLibraryConfig {
        slots: None,
        drives: vec![drive(0), drive(1)],
        capacity: ByteCount(0),
        times: ChangerTimes::default(),
    }
}

impl Bench {
    pub fn new(world: World) -> Bench {
        Bench::with(world, numbered())
    }

    pub fn with(world: World, config: ScsiLibraryConfig) -> Bench {
        let (world, clock) = (Arc::new(Mutex::new(world)), Arc::new(Clock::default()));
        let devices = Arc::new(Fakes(Arc::clone(&world)));
        let library = ScsiLibrary::new(config, devices, Arc::clone(&clock) as Arc<dyn Waiter>).unwrap();
        Bench { world, clock, library }
    }

    /// The same changer, for another process.
    pub fn again(&self, config: ScsiLibraryConfig) -> ScsiLibrary {
        let devices = Arc::new(Fakes(Arc::clone(&self.world)));
        ScsiLibrary::new(config, devices, Arc::clone(&self.clock) as Arc<dyn Waiter>).unwrap()
    }

    pub fn label(&self, at: u16) -> Option<String> {
        self.world.lock().unwrap().label(at).map(str::to_owned)
    }

    pub fn moves(&self) -> Vec<(u16, u16)> {
        std::mem::take(&mut self.world.lock().unwrap().moves)
    }

    pub fn change(&self, change: impl FnOnce(&mut World)) {
        change(&mut self.world.lock().unwrap());
    }
}
