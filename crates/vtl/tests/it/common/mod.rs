//! A library behind a target, and an initiator that speaks in commands.
#![allow(dead_code, reason = "each test uses a part")]

use std::sync::Arc;
use std::time::Duration;

use base::{ByteCount, Vid};
use iscsi::login::Name;
use library::{DriveName, VirtualCartridgeOptions, VirtualLibrary, VirtualLibraryConfig};
use scsi::command::{Changer, ElementType, PageControl, PositionForm, Primary, SpaceCode, Stream};
use scsi::element::{Element, ElementStatus};
use scsi::log::{LogPage, TapeAlerts, page};
use scsi::mode::{ModeContent, ModeDirection, ModeForm, ModePage, ModeParameters};
use scsi::position::PositionLong;
use scsi::{Command, Completion, Data, ElementAddress, Packed, Sense, Status, Transport};
use vtl::{LocalTransport, Options, Target};

pub const VID: &str = "KT0001";
pub const INITIATOR: &str = "iqn.2026-01.org.kist:test";
pub const CHANGER: u16 = 0;
pub const DRIVE: u16 = 1;

/// Elements as the target lays them out.
pub const SLOT: u16 = 1024;
pub const DOOR: u16 = 16;
pub const BAY: u16 = 256;

pub fn vid(text: &str) -> Vid {
    Vid::new(text).unwrap()
}

pub fn config() -> VirtualLibraryConfig {
    VirtualLibraryConfig {
        drives: ["vdrive0", "vdrive1"].map(|name| DriveName::new(name).unwrap()).to_vec(),
        robots: 1,
        cartridges: ["KT0001", "KT0002", "KT0003"].map(|name| (vid(name), ByteCount::mib(64))).to_vec(),
        options: VirtualCartridgeOptions::default(),
        drop_cache: false,
    }
}

pub struct Bench {
    pub directory: tempfile::TempDir,
    pub library: Arc<VirtualLibrary>,
    pub target: Arc<Target>,
}

impl Bench {
    pub fn new() -> Bench {
        Bench::with(&config(), |_| {})
    }

    pub fn with(config: &VirtualLibraryConfig, change: impl FnOnce(&mut Options)) -> Bench {
        let directory = tempfile::tempdir().unwrap();
        let library = Arc::new(VirtualLibrary::create(directory.path(), config).unwrap());
        let mut options = Options::new(Name::new("iqn.2026-01.org.kist:vtl").unwrap());
        change(&mut options);
        let target = Target::new(library.clone(), options).unwrap();
        Bench { directory, library, target }
    }

    /// A session with a unit, its first unit attention taken.
    pub fn host(&self, lun: u16) -> Host {
        self.host_of(lun, INITIATOR)
    }

    pub fn host_of(&self, lun: u16, initiator: &str) -> Host {
        let mut host = Host(self.target.transport(lun, initiator).unwrap());
        let sense = host.fails(&Primary::TestUnitReady.into(), Data::None);
        assert_eq!(sense.key, scsi::SenseKey::UnitAttention);
        host
    }

    /// A session with drive 0, in which a cartridge was loaded.
    pub fn loaded(&self) -> Host {
        let mut host = self.host(DRIVE);
        let mut changer = self.host(CHANGER);
        changer.go(&move_medium(SLOT, BAY), Data::None);
        assert_eq!(code(&host.fails(&Primary::TestUnitReady.into(), Data::None)), (6, 0x28, 0));
        host
    }
}

pub fn move_medium(from: u16, to: u16) -> Command {
    Changer::MoveMedium {
        transport: ElementAddress(0),
        from: ElementAddress(from),
        to: ElementAddress(to),
        invert: false,
    }
    .into()
}

pub fn unload() -> Command {
    Stream::LoadUnload { immediate: false, hold: false, end_of_tape: false, retension: false, load: false }
        .into()
}

pub fn load() -> Command {
    Stream::LoadUnload { immediate: false, hold: false, end_of_tape: false, retension: false, load: true }
        .into()
}

/// Key, code and qualifier.
pub fn code(sense: &Sense) -> (u8, u8, u8) {
    (sense.key.byte(), sense.additional.asc, sense.additional.ascq)
}

/// An initiator.
pub struct Host(pub LocalTransport);

pub const PATIENCE: Duration = Duration::from_secs(10);

impl Host {
    pub fn send(&mut self, command: &Command, data: Data<'_>) -> Completion {
        self.0.execute(&command.encode().unwrap(), data, PATIENCE).unwrap()
    }

    /// A command that ends with GOOD, and how much it transferred.
    pub fn go(&mut self, command: &Command, data: Data<'_>) -> usize {
        let end = self.send(command, data);
        assert_eq!(
            end.status,
            Status::Good,
            "{command:?}: {:?}",
            Sense::decode(&end.sense).map(|s| s.to_string())
        );
        end.transferred
    }

    /// A command that does not.
    pub fn fails(&mut self, command: &Command, data: Data<'_>) -> Sense {
        let end = self.send(command, data);
        assert_eq!(end.status, Status::CheckCondition, "{command:?}");
        Sense::decode(&end.sense).unwrap()
    }

    /// The TapeAlert flags that are raised; who asks has them cleared.
    pub fn flags(&mut self) -> Vec<u8> {
        let page = LogPage::decode(&self.alerts(4096)).unwrap();
        TapeAlerts::of_log(&page).flags().collect()
    }

    /// As many bytes of the page of TapeAlert flags.
    pub fn alerts(&mut self, allocation_length: u16) -> Vec<u8> {
        let sense = Primary::LogSense {
            save: false,
            control: PageControl::CUMULATIVE,
            page: page::TAPE_ALERT,
            subpage: 0,
            parameter: 0,
            allocation_length,
        };
        self.ask(sense, usize::from(allocation_length))
    }

    /// The data of a command.
    pub fn ask(&mut self, command: impl Into<Command>, room: usize) -> Vec<u8> {
        let mut into = vec![0; room];
        let given = self.go(&command.into(), Data::In(&mut into));
        into.truncate(given);
        into
    }

    pub fn write(&mut self, block: &[u8]) {
        let command = Stream::Write6 { fixed: false, length: block.len() as u32 }.into();
        assert_eq!(self.go(&command, Data::Out(block)), block.len());
    }

    pub fn marks(&mut self, count: u32) {
        self.go(&Stream::WriteFilemarks6 { immediate: false, count }.into(), Data::None);
    }

    /// One block of so many bytes.
    pub fn read(&mut self, length: usize) -> Result<Vec<u8>, (Sense, Vec<u8>)> {
        let mut into = vec![0; length];
        let command = Stream::Read6 { suppress: false, fixed: false, length: length as u32 }.into();
        let end = self.send(&command, Data::In(&mut into));
        into.truncate(end.transferred);
        match end.status {
            Status::Good => Ok(into),
            _ => Err((Sense::decode(&end.sense).unwrap(), into)),
        }
    }

    pub fn locate(&mut self, partition: u8, object: u64) -> Completion {
        let command = Stream::Locate16 {
            destination: scsi::command::Destination::Object,
            change_partition: true,
            immediate: false,
            explicit: false,
            partition,
            object,
        };
        self.send(&command.into(), Data::None)
    }

    pub fn space(&mut self, code: SpaceCode, count: i64) -> Result<(), Sense> {
        let end = self.send(&Stream::Space6 { code, count }.into(), Data::None);
        if end.status == Status::Good { Ok(()) } else { Err(Sense::decode(&end.sense).unwrap()) }
    }

    pub fn position(&mut self) -> PositionLong {
        let form = PositionForm::Long;
        PositionLong::decode(&self.ask(Stream::ReadPosition { form, allocation_length: 0 }, 32)).unwrap()
    }

    /// Partition, object, file.
    pub fn place(&mut self) -> (u32, u64, u64) {
        let long = self.position();
        assert!(!long.unknown && !long.file_unknown);
        (long.partition, long.object, long.file)
    }

    pub fn select(&mut self, content: ModeContent) -> Result<(), Sense> {
        let data = ModeParameters { buffered: 1, pages: vec![ModePage::from(content)], ..Default::default() }
            .encode(ModeForm::Ten, ModeDirection::Select);
        let command = Primary::ModeSelect10 {
            page_format: true,
            revert: false,
            save: false,
            length: data.len() as u16,
        };
        let end = self.send(&command.into(), Data::Out(&data));
        if end.status == Status::Good { Ok(()) } else { Err(Sense::decode(&end.sense).unwrap()) }
    }

    pub fn elements(&mut self, kind: ElementType) -> Vec<Element> {
        let command = Changer::ReadElementStatus {
            volume_tags: true,
            kind,
            first: ElementAddress(0),
            count: u16::MAX,
            mixed: false,
            current: true,
            identifiers: true,
            allocation_length: 65_536,
        };
        let status = ElementStatus::decode(&self.ask(command, 65_536)).unwrap();
        status.elements().map(|(_, element)| element.clone()).collect()
    }
}

pub fn pattern(seed: u64, length: usize) -> Vec<u8> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state as u8
    };
    (0..length).map(|_| next()).collect()
}
