//! A timed virtual library whose drives recommend the order of reading that a test says (RAO).

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

use archive::{Archive, DriveFitFile, Machines, MountLog};
use base::{BlockAddress, ByteCount, Partition, TapePosition};
use library::{
    BlockEncryption, DriveCounters, DriveName, Library, LibraryError, ReadBlock, TapeAlert, TapeDrive,
    TapeEncryption, TapeError, VirtualLibrary, VirtualLibraryConfig, VirtualTiming, Waiter, WriteResult,
};
use mechanics::{DriveFit, DriveTiming, FittedDrive, Geometry, MotionReport, RobotTiming, Track};

use crate::common::{Instance, SystemClock, settled};
use crate::within::as_the_library_within;

/// Begin and end of what a drive is asked for.
pub type Stretches = Vec<(BlockAddress, BlockAddress)>;
/// What a drive answers.
pub type Answers = fn(&DriveName, &[(BlockAddress, BlockAddress)]) -> Result<Option<Vec<usize>>, TapeError>;

/// What the drives are to do, and what they did. Clones are the same.
#[derive(Clone)]
pub struct Script(Arc<Mutex<State>>);

pub struct State {
    pub answers: Answers,
    /// No model of the drive is known.
    pub is_unknown: bool,
    /// What the drives say of their locates, if they are real ones.
    pub told: Option<Option<DriveFit>>,
    /// What it was asked, in order.
    pub asked: Vec<Stretches>,
    /// Blocks of the data partition that were read, in order.
    pub read: Vec<u64>,
}

impl Script {
    pub fn new() -> Self {
        Script(Arc::new(Mutex::new(State::of(|_, _| Ok(None)))))
    }

    pub fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap()
    }

    /// From now on the drives answer so; what they did is forgotten.
    pub fn answer(&self, answers: Answers, is_unknown: bool) {
        let mut state = self.lock();
        *state = State { is_unknown, told: state.told, ..State::of(answers) };
    }
}

impl State {
    fn of(answers: Answers) -> Self {
        State { answers, is_unknown: false, told: None, asked: Vec::new(), read: Vec::new() }
    }
}

/// A clock of the machines that goes on when one of them waits.
#[derive(Debug, Default)]
struct AtOnce(AtomicU64);

impl Waiter for AtOnce {
    fn now_us(&self) -> u64 {
        self.0.load(Ordering::SeqCst)
    }

    fn wait_until(&self, until_us: u64) {
        self.0.fetch_max(until_us, Ordering::SeqCst);
    }
}

/// Drives so slow that few blocks take as long as a locate, on wraps of 16 blocks.
fn timing() -> VirtualTiming {
    let usual = mechanics::timing("LTO-8").unwrap();
    let drive = DriveTiming { native_rate: 20_000, least_rate: 10_000, recommends_order: true, ..usual };
    VirtualTiming {
        drive,
        geometry: Geometry::ltfs(208, ByteCount::mib(1), 2_696..171_097),
        robot: RobotTiming { robots: 1, move_us: 1 },
        scale: 1.0,
        waiter: Arc::new(AtOnce::default()),
    }
}

/// The server of an instance over such a library.
pub fn open_ordering(
    instance: &Instance,
    script: &Script,
    log: Arc<dyn MountLog>,
    drive_fits: Option<DriveFitFile>,
) -> Archive {
    let clock = Arc::new(SystemClock);
    let machines = Machines::open(&instance.settings, clock.clone()).unwrap();
    let files = instance.settings.library.files().unwrap();
    let config = VirtualLibraryConfig {
        drives: machines.library.drives(),
        robots: 1,
        cartridges: Vec::new(),
        options: library::VirtualCartridgeOptions::default(),
        drop_cache: false,
    };
    let timed = VirtualLibrary::open_timed(&files.directory, &config, timing()).unwrap();
    let library = Arc::new(OrderingLibrary { library: timed, script: script.clone() });
    let machines = Machines { library, mount_log: Some(log), drive_fits, ..machines };
    settled(Archive::open_on(machines, instance.settings.clone(), clock).unwrap())
}

struct OrderingLibrary {
    library: VirtualLibrary,
    script: Script,
}

impl Library for OrderingLibrary {
    as_the_library_within!(
        inventory changes drives without_vid out_of_reach library_of mount unmount look_again export import
    );

    fn take_drive(&self, name: &DriveName) -> Result<Box<dyn TapeDrive>, LibraryError> {
        let drive = self.library.take_drive(name)?;
        Ok(Box::new(OrderingDrive { drive, script: self.script.clone() }))
    }
}

struct OrderingDrive {
    drive: Box<dyn TapeDrive>,
    script: Script,
}

impl TapeDrive for OrderingDrive {
    fn id(&self) -> &DriveName {
        self.drive.id()
    }

    fn read_block(&mut self, buffer: &mut [u8]) -> Result<ReadBlock, TapeError> {
        let at = self.drive.position()?;
        if at.partition == Partition::Data {
            self.script.lock().read.push(at.block.0);
        }
        self.drive.read_block(buffer)
    }

    fn write_block(&mut self, block: &[u8]) -> Result<WriteResult, TapeError> {
        self.drive.write_block(block)
    }

    fn write_filemarks(&mut self, count: u32) -> Result<WriteResult, TapeError> {
        self.drive.write_filemarks(count)
    }

    fn locate(&mut self, to: TapePosition) -> Result<(), TapeError> {
        self.drive.locate(to)
    }

    fn space_to_end_of_data(&mut self, partition: Partition) -> Result<TapePosition, TapeError> {
        self.drive.space_to_end_of_data(partition)
    }

    fn position(&mut self) -> Result<TapePosition, TapeError> {
        self.drive.position()
    }

    fn rewind(&mut self) -> Result<(), TapeError> {
        self.drive.rewind()
    }

    fn loaded(&self) -> bool {
        self.drive.loaded()
    }

    fn format_partitions(&mut self) -> Result<(), TapeError> {
        self.drive.format_partitions()
    }

    fn read_attribute(&mut self, partition: Partition, id: u16) -> Result<Option<Vec<u8>>, TapeError> {
        self.drive.read_attribute(partition, id)
    }

    fn write_attribute(&mut self, partition: Partition, id: u16, value: &[u8]) -> Result<(), TapeError> {
        self.drive.write_attribute(partition, id, value)
    }

    fn remaining(&mut self) -> Result<ByteCount, TapeError> {
        self.drive.remaining()
    }

    fn end_of_wrap_positions(&mut self) -> Result<Option<Vec<BlockAddress>>, TapeError> {
        self.drive.end_of_wrap_positions()
    }

    fn recommended_order(
        &mut self,
        segments: &[(BlockAddress, BlockAddress)],
    ) -> Result<Option<Vec<usize>>, TapeError> {
        let mut state = self.script.lock();
        state.asked.push(segments.to_vec());
        (state.answers)(self.drive.id(), segments)
    }

    fn track(&mut self, block_size: u32) -> Result<Option<Track>, TapeError> {
        let track = self.drive.track(block_size)?;
        let (is_unknown, told) = {
            let state = self.script.lock();
            (state.is_unknown, state.told)
        };
        let track = track.map(|track| if is_unknown { Track { error: None, ..track } } else { track });
        let Some(fit) = told else { return Ok(track) };
        let (drive, medium) = (mechanics::drive("LTO-8").unwrap(), mechanics::medium("LTO-8").unwrap());
        // As the counters say.
        let serial = self.drive.id().as_str().to_owned();
        let fitted = Some(FittedDrive { serial, drive, medium, fit: None });
        let track = track.map(|track| Track { fitted, ..track });
        Ok(track.map(|track| fit.into_iter().fold(track, Track::refitted)))
    }

    fn motion_report(&mut self) -> Option<MotionReport> {
        self.drive.motion_report()
    }

    fn set_encryption(&mut self, encryption: Option<&TapeEncryption>) -> Result<(), TapeError> {
        self.drive.set_encryption(encryption)
    }

    fn block_encryption(&mut self) -> Result<BlockEncryption, TapeError> {
        self.drive.block_encryption()
    }

    fn alerts(&mut self) -> Result<Vec<TapeAlert>, TapeError> {
        self.drive.alerts()
    }

    fn counters(&mut self) -> Result<DriveCounters, TapeError> {
        self.drive.counters()
    }
}
