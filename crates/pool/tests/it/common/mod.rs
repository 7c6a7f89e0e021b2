//! A bench of drives in temporary directories, with faults on demand.
#![allow(dead_code)]

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};

use base::{
    BlobDescription, ByteCount, DriveGroup, DriveId, Epoch, StreamChecksums, StripeCode, StripeSet, Uuid,
};
use cluster::{DriveEntry, DriveMap, DriveState, FailureDomain};
use drive::{
    DirectIo, DirectoryDrive, DriveError, DriveIo, DriveQueue, DriveStatus, ExtentId, ExtentWriter,
    ObjectDrive, SharedPage, Stamp,
};
use pool::{Pool, PoolConfig, PoolError};

mod faulty_queue;
mod queue;

use faulty_queue::FaultyQueue;
pub use queue::{QueuedDrive, Seen};

pub const INSTANCE: Uuid = Uuid([9; 16]);

/// What a test drive is told to do, and what it did.
#[derive(Default)]
pub struct Faults {
    /// Appends until one fails; negative: never.
    appends_left: AtomicI64,
    syncs_left: AtomicI64,
    /// From the first fault on, nothing on this drive works, reads included.
    dies: AtomicBool,
    pub fired: AtomicU64,
    pub syncs_after_failure: AtomicU64,
    pub syncs: AtomicU64,
    dead: AtomicBool,
    /// Whatever needs space finds none: appends, superblocks, the page of a probe.
    pub full: AtomicBool,
    /// No more than so much can be reserved for an extent; 0: no limit.
    pub room: AtomicU64,
    /// The file system says that so much is free; 0: what is really free.
    pub free: AtomicU64,
    /// Reads that begin at this offset less one fail; 0: none.
    pub bad_sector: AtomicI64,
    /// This many reads at offsets of `passing_from` and more fail with EIO, then all is well again.
    pub passing: AtomicI64,
    pub passing_from: AtomicI64,
    /// Reads and writes wait as long as this is set.
    pub hung: AtomicBool,
    /// Nothing is answered as long as this is set, not even how much room there is.
    pub mute: AtomicBool,
}

/// The drive of these faults answers again when this is dropped, so that a test that fails ends: the pool
/// waits for its drives when it goes.
pub struct Answering(pub Arc<Faults>);

impl Drop for Answering {
    fn drop(&mut self) {
        self.0.hung.store(false, Ordering::SeqCst);
        self.0.mute.store(false, Ordering::SeqCst);
    }
}

impl Faults {
    /// Waits while the drive hangs.
    fn hang(&self) {
        self.wait_while(|| self.hung.load(Ordering::SeqCst));
        self.answer();
    }

    /// Waits while the drive answers nothing at all.
    fn answer(&self) {
        self.wait_while(|| self.mute.load(Ordering::SeqCst));
    }

    fn wait_while(&self, hangs: impl Fn() -> bool) {
        while hangs() {
            self.fired.fetch_add(1, Ordering::SeqCst);
            std::thread::sleep(std::time::Duration::from_millis(2));
        }
    }

    /// Nothing works from now on, or everything again.
    pub fn set_dead(&self, dead: bool) {
        self.dead.store(dead, Ordering::SeqCst);
    }

    pub fn fail_append(&self, after: i64, dies: bool) {
        self.dies.store(dies, Ordering::SeqCst);
        self.appends_left.store(after + 1, Ordering::SeqCst);
    }

    pub fn fail_sync(&self, after: i64) {
        self.syncs_left.store(after + 1, Ordering::SeqCst);
    }

    pub fn fired(&self) -> u64 {
        self.fired.load(Ordering::SeqCst)
    }

    /// What the system says where a page is to be written.
    fn room(&self) -> std::io::Result<()> {
        if !self.full.load(Ordering::SeqCst) {
            return Ok(());
        }
        self.fired.fetch_add(1, Ordering::SeqCst);
        Err(std::io::ErrorKind::StorageFull.into())
    }

    /// Whether so much cannot be reserved.
    fn lacks(&self, bytes: ByteCount) -> bool {
        let room = self.room.load(Ordering::SeqCst);
        let lacks = room > 0 && bytes.0 > room;
        self.fired.fetch_add(u64::from(lacks), Ordering::SeqCst);
        lacks
    }

    /// Whether a read from there fails.
    fn check_read(&self, drive: DriveId, id: ExtentId, offset: ByteCount) -> Result<(), DriveError> {
        let from = self.passing_from.load(Ordering::SeqCst);
        let fails = self.dead.load(Ordering::SeqCst)
            || offset.0 as i64 >= from && self.passing.fetch_sub(1, Ordering::SeqCst) > 0
            || self.bad_sector.load(Ordering::SeqCst) - 1 == offset.0 as i64;
        if !fails {
            return Ok(());
        }
        self.fired.fetch_add(1, Ordering::SeqCst);
        Err(broken(drive, id, "read"))
    }

    fn fires(&self, counter: &AtomicI64) -> bool {
        let fires = self.dead.load(Ordering::SeqCst) || counter.fetch_sub(1, Ordering::SeqCst) == 1;
        if fires {
            self.fired.fetch_add(1, Ordering::SeqCst);
            self.dead.store(self.dies.load(Ordering::SeqCst), Ordering::SeqCst);
        }
        fires
    }
}

struct FaultyDrive {
    inner: DirectoryDrive,
    faults: Arc<Faults>,
}

struct FaultyWriter {
    inner: Option<Box<dyn ExtentWriter>>,
    id: ExtentId,
    drive: DriveId,
    faults: Arc<Faults>,
    poisoned: bool,
}

fn broken(drive: DriveId, extent: ExtentId, operation: &'static str) -> DriveError {
    DriveError::Io { drive, extent, operation, source: std::io::Error::from_raw_os_error(5) }
}

impl FaultyWriter {
    fn check_sync(&mut self) -> Result<(), DriveError> {
        self.faults.syncs.fetch_add(1, Ordering::SeqCst);
        if self.poisoned {
            self.faults.syncs_after_failure.fetch_add(1, Ordering::SeqCst);
        }
        if self.faults.fires(&self.faults.syncs_left) {
            self.poisoned = true;
            return Err(broken(self.drive, self.id, "sync"));
        }
        Ok(())
    }
}

impl ExtentWriter for FaultyWriter {
    fn append(&mut self, bytes: &[u8]) -> Result<(), DriveError> {
        self.faults.hang();
        if self.faults.full.load(Ordering::SeqCst) {
            self.faults.fired.fetch_add(1, Ordering::SeqCst);
            return Err(DriveError::Full { drive: self.drive, extent: self.id });
        }
        if self.faults.fires(&self.faults.appends_left) {
            return Err(broken(self.drive, self.id, "write"));
        }
        self.inner.as_mut().unwrap().append(bytes)
    }

    fn sync(&mut self) -> Result<(), DriveError> {
        self.check_sync()?;
        self.inner.as_mut().unwrap().sync()
    }

    fn seal(mut self: Box<Self>) -> Result<(), DriveError> {
        self.check_sync()?;
        self.inner.take().unwrap().seal()
    }
}

impl FaultyDrive {
    fn check_stamp_room(&self) -> Result<(), DriveError> {
        self.faults.room().map_err(|source| {
            let (drive, path) = (self.inner.id(), PathBuf::new());
            DriveError::Stamp { drive, path, source }
        })
    }
}

impl ObjectDrive for FaultyDrive {
    fn id(&self) -> DriveId {
        self.inner.id()
    }

    fn name(&self) -> String {
        self.inner.name()
    }

    fn burn_in(&self) -> Option<drive::BurnInRecord> {
        self.inner.burn_in()
    }

    fn queue(&self) -> Option<Arc<dyn DriveQueue>> {
        let (inner, drive, faults) = (self.inner.queue()?, self.inner.id(), Arc::clone(&self.faults));
        Some(Arc::new(FaultyQueue { inner, drive, faults }))
    }

    fn create(&self, id: ExtentId, preallocate: ByteCount) -> Result<Box<dyn ExtentWriter>, DriveError> {
        self.faults.answer();
        if self.faults.lacks(preallocate) {
            return Err(DriveError::Full { drive: self.inner.id(), extent: id });
        }
        let inner = Some(self.inner.create(id, preallocate)?);
        let (drive, faults) = (self.inner.id(), Arc::clone(&self.faults));
        Ok(Box::new(FaultyWriter { inner, id, drive, faults, poisoned: false }))
    }

    fn read_at(&self, id: ExtentId, offset: ByteCount, into: &mut [u8]) -> Result<(), DriveError> {
        self.faults.hang();
        self.faults.check_read(self.inner.id(), id, offset)?;
        self.inner.read_at(id, offset, into)
    }

    fn replace(&self, id: ExtentId, preallocate: ByteCount) -> Result<Box<dyn ExtentWriter>, DriveError> {
        self.faults.answer();
        let inner = Some(self.inner.replace(id, preallocate)?);
        let (drive, faults) = (self.inner.id(), Arc::clone(&self.faults));
        Ok(Box::new(FaultyWriter { inner, id, drive, faults, poisoned: false }))
    }

    fn check_stamp(&self) -> Result<(), DriveError> {
        self.faults.answer();
        self.inner.check_stamp()
    }

    fn check_place(&self) -> Result<(), DriveError> {
        self.faults.answer();
        self.inner.check_place()
    }

    fn length(&self, id: ExtentId) -> Result<ByteCount, DriveError> {
        self.faults.answer();
        self.inner.length(id)
    }

    fn allocated(&self, id: ExtentId) -> Result<ByteCount, DriveError> {
        self.faults.answer();
        self.inner.allocated(id)
    }

    fn trim(&self, id: ExtentId) -> Result<(), DriveError> {
        self.faults.answer();
        self.inner.trim(id)
    }

    fn punch_unneeded(&self, id: ExtentId, pages: &[SharedPage]) -> Result<Vec<u32>, DriveError> {
        self.faults.answer();
        self.inner.punch_unneeded(id, pages)
    }

    fn set_gaps(&self, gaps_after: Option<u64>) -> Result<(), DriveError> {
        self.faults.answer();
        self.check_stamp_room()?;
        self.inner.set_gaps(gaps_after)
    }

    fn probe(&self) -> Result<(), DriveError> {
        self.faults.answer();
        if self.faults.dead.load(Ordering::SeqCst) {
            let source = std::io::Error::other("dead");
            return Err(DriveError::Probe { drive: self.inner.id(), path: PathBuf::new(), source });
        }
        self.faults.room().map_err(|source| {
            let (drive, path) = (self.inner.id(), PathBuf::new());
            DriveError::Probe { drive, path, source }
        })?;
        self.inner.probe()
    }

    fn probe_room(&self, bytes: ByteCount) -> Result<(), DriveError> {
        self.faults.answer();
        if self.faults.lacks(bytes) {
            let source = std::io::ErrorKind::StorageFull.into();
            return Err(DriveError::Probe { drive: self.inner.id(), path: PathBuf::new(), source });
        }
        self.inner.probe_room(bytes)
    }

    fn punch(&self, id: ExtentId, offset: ByteCount, length: ByteCount) -> Result<(), DriveError> {
        self.faults.answer();
        self.inner.punch(id, offset, length)
    }

    fn delete(&self, id: ExtentId) -> Result<(), DriveError> {
        self.faults.answer();
        self.inner.delete(id)
    }

    fn list(&self, after: Option<ExtentId>, limit: usize) -> Result<Vec<ExtentId>, DriveError> {
        self.faults.answer();
        self.inner.list(after, limit)
    }

    fn status(&self) -> Result<DriveStatus, DriveError> {
        self.faults.answer();
        let status = self.inner.status()?;
        Ok(match self.faults.free.load(Ordering::SeqCst) {
            0 => status,
            free => DriveStatus { capacity: ByteCount(10 * free), free: ByteCount(free), ..status },
        })
    }

    fn stamp(&self) -> Stamp {
        self.inner.stamp()
    }

    fn set_stamp(&self, epoch: Epoch, commit: u64) -> Result<(), DriveError> {
        self.faults.answer();
        self.check_stamp_room()?;
        self.inner.set_stamp(epoch, commit)
    }
}

/// How the drives of a bench are driven: by threads, ...
pub const PLAIN: u8 = 0;
/// ... by a queue in memory in front of that ...
pub const QUEUED: u8 = 1;
/// ... or by the queues of the kernel.
pub const URING: u8 = 2;

/// Formatted drives in a temporary directory.
pub struct AnyBench<const DRIVEN: u8> {
    directory: tempfile::TempDir,
    count: u16,
    epoch: u32,
    pub faults: Vec<Arc<Faults>>,
    /// What the queues did.
    pub seen: Vec<Arc<Seen>>,
}

pub type Bench = AnyBench<PLAIN>;

impl<const DRIVEN: u8> AnyBench<DRIVEN> {
    pub fn new(count: u16) -> Self {
        let directory = tempfile::tempdir().unwrap();
        for n in 0..count {
            DirectoryDrive::format(&directory.path().join(n.to_string()), INSTANCE, DriveId(n)).unwrap();
        }
        AnyBench { directory, count, epoch: 0, faults: Vec::new(), seen: Vec::new() }
    }

    pub fn path(&self, drive: u16) -> PathBuf {
        self.directory.path().join(drive.to_string())
    }

    /// Opens the pool in the next epoch, without the `missing` drives.
    pub fn open(&mut self, config: PoolConfig, missing: &[u16]) -> Arc<Pool> {
        self.open_with(config, missing, Vec::new()).unwrap()
    }

    pub fn open_with(
        &mut self,
        config: PoolConfig,
        missing: &[u16],
        known: Vec<StripeSet>,
    ) -> Result<Arc<Pool>, PoolError> {
        self.epoch += 1;
        self.faults = (0..self.count).map(|_| Arc::default()).collect();
        self.seen = (0..self.count).map(|_| Arc::default()).collect();
        let drives = (0..self.count).map(|n| {
            let drive = (!missing.contains(&n)).then(|| {
                let inner =
                    DirectoryDrive::open(&self.path(n), INSTANCE, DriveId(n), DirectIo::Auto).unwrap();
                // A machine without them runs the same tests on threads.
                let has_uring = DRIVEN == URING && drive::io_uring().is_ok();
                let io = if has_uring { DriveIo::Uring } else { DriveIo::Threads };
                let inner = inner.driven_by(io).unwrap();
                let faults = Arc::clone(&self.faults[usize::from(n)]);
                let drive: Arc<dyn ObjectDrive> = Arc::new(FaultyDrive { inner, faults });
                let seen = Arc::clone(&self.seen[usize::from(n)]);
                if DRIVEN == QUEUED { Arc::new(QueuedDrive::new(drive, seen)) } else { drive }
            });
            (DriveId(n), drive)
        });
        Pool::open(config, Epoch(self.epoch), map(self.count), drives.collect(), known)
    }

    /// All extents on all drives.
    pub fn extents(&self) -> Vec<PathBuf> {
        let mut files = Vec::new();
        for drive in 0..self.count {
            for bucket in fs::read_dir(self.path(drive).join("extents")).unwrap() {
                files.extend(fs::read_dir(bucket.unwrap().path()).unwrap().map(|file| file.unwrap().path()));
            }
        }
        files
    }

    /// The file of a shard.
    pub fn extent(&self, blob: &BlobDescription, stripe: usize, shard: usize) -> PathBuf {
        let extents = blob.extents();
        let id = ExtentId { blob: extents, stripe: stripe as u32, shard: shard as u8 };
        let bucket = format!("extents/{:02x}", extents.0 & 0xff);
        self.path(blob.stripes[stripe].drives[shard].0).join(bucket).join(id.to_string())
    }
}

impl<const DRIVEN: u8> Drop for AnyBench<DRIVEN> {
    fn drop(&mut self) {
        let misused: usize = self.seen.iter().map(|seen| seen.misused.load(Ordering::SeqCst)).sum();
        assert!(misused == 0 || std::thread::panicking(), "queues of drives were misused {misused} times");
    }
}

pub fn map(count: u16) -> DriveMap {
    let entry = |n: u16| DriveEntry {
        id: DriveId(n),
        domain: FailureDomain { disk: n.to_string(), ..FailureDomain::default() },
        group: DriveGroup::MAIN,
        state: DriveState::Up,
        weight: 1,
    };
    DriveMap::new(Epoch(1), (0..count).map(entry).collect()).unwrap()
}

/// 4+2 with cells of 8 KiB and 4 rows a stripe: a row is 32 KiB, a stripe 128 KiB.
pub fn small_cells() -> PoolConfig {
    let mut config = PoolConfig::new(INSTANCE, StripeCode::reed_solomon(4, 2));
    config.cell_size = ByteCount::kib(8);
    config.extent_size = ByteCount(50_000);
    config.arena = ByteCount::mib(2);
    config
}

pub fn bytes(length: usize, seed: u64) -> Vec<u8> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 24) as u8
    };
    std::iter::repeat_with(next).take(length).collect()
}

pub fn put(pool: &Arc<Pool>, value: &[u8]) -> Result<BlobDescription, PoolError> {
    let mut writer = pool.create()?;
    // Odd pieces, so that they straddle cells and rows.
    for piece in value.chunks(10_007) {
        writer.write(piece)?;
    }
    writer.finish()
}

pub fn get_range(
    pool: &Arc<Pool>,
    blob: &BlobDescription,
    offset: u64,
    length: u64,
) -> Result<Vec<u8>, PoolError> {
    let mut reader = pool.read(blob, ByteCount(offset), ByteCount(length))?.with_checksums();
    let mut all = Vec::new();
    while let Some(piece) = reader.next()? {
        assert!(!piece.is_empty() && piece.len() <= 1 << 20);
        assert!(piece.checksums().is_none_or(|sums| sums == StreamChecksums::of(&piece)));
        all.extend_from_slice(&piece);
    }
    Ok(all)
}

pub fn get(pool: &Arc<Pool>, blob: &BlobDescription) -> Result<Vec<u8>, PoolError> {
    get_range(pool, blob, 0, blob.length.0)
}

/// Flips one bit of a file.
pub fn flip(path: &Path, byte: u64, bit: u8) {
    let file = fs::OpenOptions::new().read(true).write(true).open(path).unwrap();
    let mut one = [0];
    file.read_exact_at(&mut one, byte).unwrap();
    one[0] ^= 1 << bit;
    file.write_all_at(&one, byte).unwrap();
}

/// All pairs of `0..count`.
pub fn pairs(count: u16) -> impl Iterator<Item = [u16; 2]> {
    (0..count).flat_map(move |a| (a + 1..count).map(move |b| [a, b]))
}

pub fn distinct(set: &StripeSet) -> bool {
    set.drives.iter().collect::<BTreeSet<_>>().len() == set.drives.len()
}

pub fn wait_until(what: &str, mut holds: impl FnMut() -> bool) {
    let begin = std::time::Instant::now();
    while !holds() {
        assert!(begin.elapsed() < std::time::Duration::from_secs(60), "waited too long until {what}");
        std::thread::sleep(std::time::Duration::from_millis(2));
    }
}
