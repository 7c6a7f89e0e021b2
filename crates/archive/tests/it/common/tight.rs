//! Pool drives that are as large and as full as a test says.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use crate::common::Instance;
use archive::{Archive, Machines};
use base::{ByteCount, Clock, DriveId, Epoch};
use drive::{DriveError, DriveQueue, DriveStatus, ExtentId, ExtentWriter, ObjectDrive, SharedPage, Stamp};

/// What all drives of a pool say and do.
#[derive(Default)]
pub struct Tightness {
    /// Bytes that a drive says are free; 0: what is really free.
    pub free: AtomicU64,
    /// Its size then; 0: 1 GB.
    pub capacity: AtomicU64,
    /// Whether no extent can be made durable.
    pub fail_seals: AtomicBool,
    /// How many were refused for that.
    pub seals_failed: AtomicU64,
    /// No more than so much can be reserved for an extent; 0: no limit.
    pub room: AtomicU64,
    /// No less than so much can be reserved for an extent; 0: no limit.
    pub least: AtomicU64,
    /// Whether what is less waits instead of being refused.
    pub hold_small: AtomicBool,
    /// Whether everything that is to be written finds no space.
    pub full: AtomicBool,
    /// How many writes found none.
    pub refused: AtomicU64,
    /// How many superblocks.
    pub stamps_refused: AtomicU64,
    /// Whether reads wait.
    pub hold_reads: AtomicBool,
    /// How many reads came so far.
    pub reads: AtomicU64,
    /// The first read that waits, by its number; 0: none does.
    pub hold_from: AtomicU64,
    /// How often one of them looked whether it still has to.
    pub reads_held: AtomicU64,
}

/// The archive over such drives.
pub fn open_tight_on(instance: &Instance, clock: Arc<dyn Clock>) -> (Archive, Arc<Tightness>) {
    let settings = instance.settings.clone();
    let mut machines = Machines::open(&settings, Arc::clone(&clock)).unwrap();
    let tightness = tighten(&mut machines);
    (Archive::open_on(machines, settings, clock).unwrap(), tightness)
}

/// Makes the drives of the pool such drives.
pub fn tighten(machines: &mut Machines) -> Arc<Tightness> {
    let tightness = Arc::<Tightness>::default();
    for (_, drive) in &mut machines.drives {
        if let Some(inner) = drive.take() {
            *drive = Some(Arc::new(TightDrive { inner, tightness: Arc::clone(&tightness) }));
        }
    }
    tightness
}

/// A drive that says it has 1 GB.
pub struct TightDrive {
    pub inner: Arc<dyn ObjectDrive>,
    pub tightness: Arc<Tightness>,
}

struct TightWriter {
    inner: Box<dyn ExtentWriter>,
    drive: DriveId,
    extent: ExtentId,
    tightness: Arc<Tightness>,
}

impl Tightness {
    fn check(&self, drive: DriveId, extent: ExtentId) -> Result<(), DriveError> {
        if !self.full.load(Ordering::SeqCst) {
            return Ok(());
        }
        self.refused.fetch_add(1, Ordering::SeqCst);
        // Only now does the drive say so.
        self.free.store(1_000_000, Ordering::SeqCst);
        Err(DriveError::Full { drive, extent })
    }
}

impl Tightness {
    /// Whether so much can be reserved.
    fn check_room(&self, bytes: ByteCount, drive: DriveId, extent: ExtentId) -> Result<(), DriveError> {
        let room = self.room.load(Ordering::SeqCst);
        if bytes.0 < self.least.load(Ordering::SeqCst) {
            self.refused.fetch_add(1, Ordering::SeqCst);
            if !self.hold_small.load(Ordering::SeqCst) {
                return Err(DriveError::Full { drive, extent });
            }
            while self.hold_small.load(Ordering::SeqCst) {
                std::thread::sleep(std::time::Duration::from_millis(1));
            }
        }
        if room == 0 || bytes.0 <= room { Ok(()) } else { Err(DriveError::Full { drive, extent }) }
    }
}

impl ExtentWriter for TightWriter {
    fn append(&mut self, bytes: &[u8]) -> Result<(), DriveError> {
        self.tightness.check(self.drive, self.extent)?;
        self.inner.append(bytes)
    }

    fn sync(&mut self) -> Result<(), DriveError> {
        self.inner.sync()
    }

    fn seal(self: Box<Self>) -> Result<(), DriveError> {
        if self.tightness.fail_seals.load(Ordering::SeqCst) {
            self.tightness.seals_failed.fetch_add(1, Ordering::SeqCst);
            let (drive, extent) = (self.drive, self.extent);
            return Err(DriveError::Poisoned { drive, extent });
        }
        self.inner.seal()
    }
}

impl ObjectDrive for TightDrive {
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
        None
    }

    fn create(&self, id: ExtentId, preallocate: ByteCount) -> Result<Box<dyn ExtentWriter>, DriveError> {
        self.tightness.check(self.id(), id)?;
        self.tightness.check_room(preallocate, self.id(), id)?;
        let inner = self.inner.create(id, preallocate)?;
        let tightness = Arc::clone(&self.tightness);
        Ok(Box::new(TightWriter { inner, drive: self.id(), extent: id, tightness }))
    }

    fn replace(&self, id: ExtentId, preallocate: ByteCount) -> Result<Box<dyn ExtentWriter>, DriveError> {
        self.tightness.check(self.id(), id)?;
        self.tightness.check_room(preallocate, self.id(), id)?;
        let inner = self.inner.replace(id, preallocate)?;
        let tightness = Arc::clone(&self.tightness);
        Ok(Box::new(TightWriter { inner, drive: self.id(), extent: id, tightness }))
    }

    fn punch_unneeded(&self, id: ExtentId, pages: &[SharedPage]) -> Result<Vec<u32>, DriveError> {
        self.inner.punch_unneeded(id, pages)
    }

    fn trim(&self, id: ExtentId) -> Result<(), DriveError> {
        self.inner.trim(id)
    }

    fn allocated(&self, id: ExtentId) -> Result<ByteCount, DriveError> {
        self.inner.allocated(id)
    }

    fn probe_room(&self, bytes: ByteCount) -> Result<(), DriveError> {
        let extent = ExtentId { blob: base::BlobId(0), stripe: 0, shard: 0 };
        self.tightness.check_room(bytes, self.id(), extent)?;
        self.inner.probe_room(bytes)
    }

    fn check_stamp(&self) -> Result<(), DriveError> {
        self.inner.check_stamp()
    }

    fn read_at(&self, id: ExtentId, offset: ByteCount, into: &mut [u8]) -> Result<(), DriveError> {
        let number = self.tightness.reads.fetch_add(1, Ordering::SeqCst) + 1;
        let is_held = || (1..=number).contains(&self.tightness.hold_from.load(Ordering::SeqCst));
        while self.tightness.hold_reads.load(Ordering::SeqCst) || is_held() {
            self.tightness.reads_held.fetch_add(1, Ordering::SeqCst);
            std::thread::sleep(std::time::Duration::from_millis(1));
        }
        self.inner.read_at(id, offset, into)
    }

    fn punch(&self, id: ExtentId, offset: ByteCount, length: ByteCount) -> Result<(), DriveError> {
        self.inner.punch(id, offset, length)
    }

    fn delete(&self, id: ExtentId) -> Result<(), DriveError> {
        self.inner.delete(id)
    }

    fn list(&self, after: Option<ExtentId>, limit: usize) -> Result<Vec<ExtentId>, DriveError> {
        self.inner.list(after, limit)
    }

    fn status(&self) -> Result<DriveStatus, DriveError> {
        let status = self.inner.status()?;
        let capacity = match self.tightness.capacity.load(Ordering::SeqCst) {
            0 => 1_000_000_000,
            capacity => capacity,
        };
        Ok(match self.tightness.free.load(Ordering::SeqCst) {
            0 => status,
            free => DriveStatus {
                capacity: ByteCount(capacity),
                free: ByteCount(free),
                file_system: None,
                ..status
            },
        })
    }

    fn stamp(&self) -> Stamp {
        self.inner.stamp()
    }

    fn set_stamp(&self, epoch: Epoch, commit: u64) -> Result<(), DriveError> {
        if self.tightness.full.load(Ordering::SeqCst) {
            self.tightness.stamps_refused.fetch_add(1, Ordering::SeqCst);
            let path = std::path::PathBuf::new();
            let source = std::io::ErrorKind::StorageFull.into();
            return Err(DriveError::Stamp { drive: self.id(), path, source });
        }
        self.inner.set_stamp(epoch, commit)
    }

    fn set_gaps(&self, gaps_after: Option<u64>) -> Result<(), DriveError> {
        self.inner.set_gaps(gaps_after)
    }

    fn check_place(&self) -> Result<(), DriveError> {
        self.inner.check_place()
    }

    fn length(&self, id: ExtentId) -> Result<ByteCount, DriveError> {
        self.inner.length(id)
    }

    fn probe(&self) -> Result<(), DriveError> {
        let extent = ExtentId { blob: base::BlobId(0), stripe: 0, shard: 0 };
        self.tightness.check(self.id(), extent)?;
        self.inner.probe()
    }
}
