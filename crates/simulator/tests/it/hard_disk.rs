//! Disks that take the time of hard disks, in virtual time, and a pool over them.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use base::{BlobDescription, ByteCount, Clock, DriveGroup, DriveId, Epoch, StripeCode, Timestamp, Uuid};
use cluster::{DriveEntry, DriveMap, DriveState, FailureDomain};
use drive::{
    BurnInRecord, DriveError, DriveQueue, DriveStatus, ExtentId, ExtentWriter, ObjectDrive, SharedPage, Stamp,
};
use pool::{Pool, PoolConfig};
use simulator::machines::{MachineConfig, Pace, RuntimePace, SimClock, SimMachines};
use threads::Mutex;
use threads::simulated;

/// A seek to anywhere takes so long, and half a turn at 7,200 rpm besides: 16 TB nearline drives, by their
/// data sheets.
const SEEK: Duration = Duration::from_micros(8_500);
const HALF_TURN: Duration = Duration::from_micros(4_170);
/// What lies no further ahead on the same track, or the next, is reached by waiting for it, at the disk's
/// rate.
const TRACK: u64 = 2 << 20;
pub(crate) const DISK_RATE: u64 = 200_000_000;
/// A disk whose arm is at one place at a time. The transfer itself takes the time of the disk below.
struct HardDisk {
    disk: Arc<dyn ObjectDrive>,
    arm: Arc<Arm>,
}

/// Where it was last, how much smaller than the real one all is, and what it did.
struct Arm {
    at: Mutex<Option<(ExtentId, u64)>>,
    scale: u64,
    /// Nanoseconds that it took to come to a place.
    seeking: AtomicU64,
    /// Nanoseconds of reading and writing there.
    transferring: AtomicU64,
}

/// An extent that is written by such a disk.
struct HardWriter {
    writer: Box<dyn ExtentWriter>,
    id: ExtentId,
    length: u64,
    arm: Arc<Arm>,
}

impl ExtentWriter for HardWriter {
    fn append(&mut self, bytes: &[u8]) -> Result<(), DriveError> {
        let (at, length) = (self.length, bytes.len() as u64);
        self.length += length;
        self.arm.at(self.id, at, length, || self.writer.append(bytes))
    }

    /// What is written has left the disk's memory when it is told of.
    fn sync(&mut self) -> Result<(), DriveError> {
        self.writer.sync()
    }

    fn seal(self: Box<Self>) -> Result<(), DriveError> {
        self.writer.seal()
    }
}

impl HardDisk {
    fn written(&self, id: ExtentId, writer: Box<dyn ExtentWriter>) -> Box<dyn ExtentWriter> {
        Box::new(HardWriter { writer, id, length: 0, arm: Arc::clone(&self.arm) })
    }
}

impl Arm {
    /// Does something at a place of an extent that takes the arm there.
    fn at<T>(&self, id: ExtentId, offset: u64, length: u64, run: impl FnOnce() -> T) -> T {
        let mut arm = self.at.lock().unwrap();
        let skipped = match *arm {
            Some((at, end)) if at == id && offset >= end => {
                Some(offset - end).filter(|gap| *gap <= TRACK / self.scale)
            }
            _ => None,
        };
        let began = simulated::now();
        RuntimePace.pause(match skipped {
            // It passes under the head.
            Some(gap) => gap * self.scale * 1_000_000_000 / DISK_RATE,
            None => (SEEK + HALF_TURN).as_nanos() as u64,
        });
        let is_there = simulated::now();
        // The disk below has the real one's rate.
        RuntimePace.pause(length * (self.scale - 1) * 1_000_000_000 / DISK_RATE);
        let done = run();
        self.seeking.fetch_add(is_there - began, Ordering::Relaxed);
        self.transferring.fetch_add(simulated::now() - is_there, Ordering::Relaxed);
        *arm = Some((id, offset + length));
        done
    }
}

impl ObjectDrive for HardDisk {
    fn read_at(&self, id: ExtentId, offset: ByteCount, into: &mut [u8]) -> Result<(), DriveError> {
        let length = into.len() as u64;
        self.arm.at(id, offset.0, length, || self.disk.read_at(id, offset, into))
    }

    fn id(&self) -> DriveId {
        self.disk.id()
    }
    fn name(&self) -> String {
        self.disk.name()
    }
    fn burn_in(&self) -> Option<BurnInRecord> {
        None
    }
    fn queue(&self) -> Option<Arc<dyn DriveQueue>> {
        None
    }
    fn create(&self, id: ExtentId, preallocate: ByteCount) -> Result<Box<dyn ExtentWriter>, DriveError> {
        Ok(self.written(id, self.disk.create(id, preallocate)?))
    }
    fn replace(&self, id: ExtentId, preallocate: ByteCount) -> Result<Box<dyn ExtentWriter>, DriveError> {
        Ok(self.written(id, self.disk.replace(id, preallocate)?))
    }
    fn punch(&self, id: ExtentId, offset: ByteCount, length: ByteCount) -> Result<(), DriveError> {
        self.disk.punch(id, offset, length)
    }
    fn punch_unneeded(&self, id: ExtentId, pages: &[SharedPage]) -> Result<Vec<u32>, DriveError> {
        self.disk.punch_unneeded(id, pages)
    }
    fn trim(&self, id: ExtentId) -> Result<(), DriveError> {
        self.disk.trim(id)
    }
    fn allocated(&self, id: ExtentId) -> Result<ByteCount, DriveError> {
        self.disk.allocated(id)
    }
    fn length(&self, id: ExtentId) -> Result<ByteCount, DriveError> {
        self.disk.length(id)
    }
    fn delete(&self, id: ExtentId) -> Result<(), DriveError> {
        self.disk.delete(id)
    }
    fn list(&self, after: Option<ExtentId>, limit: usize) -> Result<Vec<ExtentId>, DriveError> {
        self.disk.list(after, limit)
    }
    fn status(&self) -> Result<DriveStatus, DriveError> {
        self.disk.status()
    }
    fn stamp(&self) -> Stamp {
        self.disk.stamp()
    }
    fn set_stamp(&self, epoch: Epoch, commit: u64) -> Result<(), DriveError> {
        self.disk.set_stamp(epoch, commit)
    }
    fn set_gaps(&self, gaps_after: Option<u64>) -> Result<(), DriveError> {
        self.disk.set_gaps(gaps_after)
    }
    fn check_stamp(&self) -> Result<(), DriveError> {
        self.disk.check_stamp()
    }
    fn check_place(&self) -> Result<(), DriveError> {
        self.disk.check_place()
    }
    fn probe(&self) -> Result<(), DriveError> {
        self.disk.probe()
    }
    fn probe_room(&self, bytes: ByteCount) -> Result<(), DriveError> {
        self.disk.probe_room(bytes)
    }
}

/// So many disks, and no more of a tape library than there has to be.
pub(crate) struct HardDisks {
    pub(crate) machines: SimMachines,
    scale: u64,
    arms: Mutex<Vec<Arc<Arm>>>,
}

impl HardDisks {
    /// Disks of such a capacity.
    pub(crate) fn new(disks: u16, capacity: ByteCount) -> Self {
        HardDisks::scaled(disks, capacity, 1)
    }

    /// So many times smaller: cells, extents, tracks and rates, so that all takes the time that it takes a
    /// real one, and less memory.
    pub(crate) fn scaled(disks: u16, capacity: ByteCount, scale: u64) -> Self {
        let config = MachineConfig {
            disks,
            disk_capacity: capacity,
            tape_drives: 1,
            robots: 1,
            tapes: 1,
            tape_capacity: ByteCount::mib(8),
            ..MachineConfig::default()
        };
        HardDisks {
            machines: SimMachines::new(&config, Arc::new(RuntimePace)),
            scale,
            arms: Mutex::default(),
        }
    }

    /// Nanoseconds that each took for its arm to come to a place, and for what it did there.
    pub(crate) fn times(&self) -> Vec<(u64, u64)> {
        let of =
            |arm: &Arc<Arm>| (arm.seeking.load(Ordering::Relaxed), arm.transferring.load(Ordering::Relaxed));
        self.arms.lock().unwrap().iter().map(of).collect()
    }

    /// Takes a blob of one stripe off the disks, durably at once: a disk in memory keeps what it could lose
    /// else.
    pub(crate) fn forget(&self, blob: &BlobDescription) {
        for (shard, drive) in (0u8..).zip(&blob.stripes[0].drives) {
            let disk = self.machines.disks().iter().find(|disk| disk.id() == *drive).unwrap().clone();
            disk.lose(ExtentId { blob: blob.id, stripe: 0, shard });
        }
    }

    /// A pool over them, with an arena of 2 GiB.
    pub(crate) fn open(&self, code: StripeCode) -> Arc<Pool> {
        self.open_with(code, ByteCount::gib(2))
    }

    /// A pool over them, with such an arena.
    pub(crate) fn open_with(&self, code: StripeCode, arena: ByteCount) -> Arc<Pool> {
        let entry = |id: DriveId| DriveEntry {
            id,
            domain: FailureDomain { host: "h".into(), enclosure: "e".into(), disk: id.to_string() },
            weight: 1,
            group: DriveGroup::MAIN,
            state: DriveState::Up,
        };
        let disks = self.machines.disks();
        let map = DriveMap::new(Epoch(1), disks.iter().map(|disk| entry(disk.id())).collect()).unwrap();
        let drive = |disk: &simulator::machines::SimDisk| {
            let (seeking, transferring) = (AtomicU64::new(0), AtomicU64::new(0));
            let arm = Arc::new(Arm { at: Mutex::new(None), scale: self.scale, seeking, transferring });
            self.arms.lock().unwrap().push(Arc::clone(&arm));
            let hard: Arc<dyn ObjectDrive> = Arc::new(HardDisk { disk: disk.open().unwrap(), arm });
            (disk.id(), Some(hard))
        };
        let config = PoolConfig {
            instance: Uuid([3; 16]),
            code,
            groups: Vec::new(),
            segment_copies: 3,
            small_limit: ByteCount::kib(256),
            arena: ByteCount(arena.0 / self.scale),
            segment_size: ByteCount::mib(64),
            placement_seed: 5,
            cell_size: ByteCount((1 << 20) / self.scale),
            extent_size: ByteCount((64 << 20) / self.scale),
        };
        let pool = Pool::open(config, Epoch(1), map, disks.iter().map(drive).collect(), Vec::new()).unwrap();
        let clock: Arc<dyn Clock> = Arc::new(SimClock::new(Timestamp(0), simulated::now));
        pool.set_clock(clock);
        pool
    }
}

/// Stores a blob.
pub(crate) fn fill(pool: &Arc<Pool>, length: u64) -> BlobDescription {
    let piece = vec![7u8; 1 << 20];
    let mut writer = pool.create_sized(ByteCount(length)).unwrap();
    let mut left = length;
    while left > 0 {
        let bytes = left.min(1 << 20);
        writer.write(&piece[..bytes as usize]).unwrap();
        left -= bytes;
    }
    writer.finish().unwrap()
}
