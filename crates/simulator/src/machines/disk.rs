//! A disk in memory, with the faults and the durability of a real one.

use std::io;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use base::planted::{Bug, is_planted};
use base::{ByteCount, DriveId, Epoch};
use drive::{
    DriveError, DriveQueue, DriveStatus, ExtentId, ExtentWriter, ObjectDrive, PAGE, SharedPage, Stamp,
    punch_page_by_page,
};

use super::disk_state::{DiskEffect, DiskState};
use super::faults::Place;
use super::journal::{Effect, Journal};
use super::{Dice, Fault, Surroundings};

/// How long one operation takes, beside the transfer.
const OPERATION_NANOS: u64 = 20_000;
/// How long a sync takes.
const SYNC_NANOS: u64 = 4_000_000;
/// Nanoseconds to transfer a page: 200 MB/s.
const PAGE_NANOS: u64 = 20_000;
const SLOW_NANOS: u64 = 2_000_000_000;
const HUNG_NANOS: u64 = 300_000_000_000;

/// A disk. Clones are one; it outlives the engines that open it.
#[derive(Clone)]
pub struct SimDisk(Arc<Inner>);

struct Inner {
    id: DriveId,
    capacity: ByteCount,
    state: Mutex<DiskState>,
    is_gone: AtomicBool,
    /// Rises with each crash: handles from before are dead.
    lives: AtomicU64,
    around: Surroundings,
    journal: Option<Journal>,
}

impl SimDisk {
    pub(crate) fn new(
        id: DriveId,
        capacity: ByteCount,
        state: DiskState,
        around: Surroundings,
        journal: Option<Journal>,
    ) -> Self {
        SimDisk(Arc::new(Inner {
            id,
            capacity,
            state: Mutex::new(state),
            is_gone: AtomicBool::new(false),
            lives: AtomicU64::new(0),
            around,
            journal,
        }))
    }

    /// The drive's id within the instance.
    #[must_use]
    pub fn id(&self) -> DriveId {
        self.0.id
    }

    /// Opens the disk; `None` if it is gone.
    #[must_use]
    pub fn open(&self) -> Option<Arc<dyn ObjectDrive>> {
        if self.0.is_gone.load(Ordering::SeqCst) {
            return None;
        }
        let life = self.0.lives.load(Ordering::SeqCst);
        Some(Arc::new(SimDrive { disk: self.clone(), life, is_suspect: Arc::default() }))
    }

    /// Takes the disk away, or gives it back with all that it held.
    pub fn set_gone(&self, is_gone: bool) {
        self.0.is_gone.store(is_gone, Ordering::SeqCst);
    }

    /// Whether the disk is away.
    #[must_use]
    pub fn is_gone(&self) -> bool {
        self.0.is_gone.load(Ordering::SeqCst)
    }

    /// Replaces the disk by an empty one of the same id and stamp.
    pub fn wipe(&self) {
        let mut state = self.lock();
        *state = DiskState::new(state.stamp);
    }

    /// All extents in order.
    #[must_use]
    pub fn extents(&self) -> Vec<ExtentId> {
        self.lock().list(None, usize::MAX)
    }

    /// The bytes of an extent as a read would find them. Not a copy, since whoever checks a disk wants all of
    /// it; what is written later does not show.
    #[must_use]
    pub fn bytes(&self, id: ExtentId) -> Option<Arc<Vec<u8>>> {
        self.lock().shared(id)
    }

    /// Flips one bit of an extent at rest; `false` if there is no such byte.
    pub fn flip(&self, id: ExtentId, offset: usize, bit: u8) -> bool {
        let mut state = self.lock();
        let Some(byte) = state.bytes(id).and_then(|bytes| bytes.get(offset)).copied() else { return false };
        self.apply(&mut state, DiskEffect::Damage(id, offset, Arc::new([byte ^ (1 << (bit & 7))])));
        self.0.around.faults.count(Fault::DiskBitFlip);
        true
    }

    /// Flips one bit somewhere; `false` if the disk is empty.
    pub fn flip_somewhere(&self) -> bool {
        let (page, at) = (self.random(), self.random());
        let Some((id, offset)) = self.lock().page(page) else { return false };
        self.flip(id, offset + at as usize % PAGE, (at >> 32) as u8)
    }

    /// Loses an extent at rest, durably.
    pub fn lose(&self, id: ExtentId) {
        let mut state = self.lock();
        self.apply(&mut state, DiskEffect::Delete(id));
        state.settle();
    }

    /// The process that has the disk open dies.
    pub(crate) fn process_crash(&self) {
        self.0.lives.fetch_add(1, Ordering::SeqCst);
        self.lock().settle();
    }

    pub(crate) fn power_loss(&self, dice: &mut Dice) {
        self.0.lives.fetch_add(1, Ordering::SeqCst);
        self.lock().power_loss(dice);
    }

    pub(crate) fn state(&self) -> DiskState {
        self.lock().clone()
    }

    fn lock(&self) -> MutexGuard<'_, DiskState> {
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn random(&self) -> u64 {
        self.0.around.pace.random()
    }

    fn apply(&self, state: &mut DiskState, effect: DiskEffect) {
        state.apply(&effect);
        if let Some(journal) = &self.0.journal {
            journal.push(Effect::Disk(self.0.id, effect));
        }
    }

    fn hits(&self, fault: Fault) -> bool {
        self.0.around.faults.hits(fault, Place::Disk(self.0.id), &*self.0.around.pace)
    }

    /// Lets the time of an operation pass. An error if the disk does not answer (any more).
    fn pass(&self, life: u64, nanos: u64) -> io::Result<()> {
        let mut nanos = nanos + OPERATION_NANOS;
        if self.hits(Fault::DiskSlow) {
            nanos += SLOW_NANOS;
        }
        if self.hits(Fault::DiskHung) {
            nanos += HUNG_NANOS;
        }
        self.0.around.pace.pause(nanos);
        if self.is_gone() {
            self.0.around.faults.count(Fault::DiskGone);
            return Err(eio());
        }
        if self.0.lives.load(Ordering::SeqCst) != life || threads::simulated::is_dead() {
            return Err(eio());
        }
        Ok(())
    }

    /// Stores appended bytes, or what a disk that lies makes of them.
    fn store(&self, id: ExtentId, offset: usize, bytes: &[u8], replaces: bool) {
        let mut stored: Arc<[u8]> = bytes.into();
        let mut elsewhere = None;
        if !bytes.is_empty() {
            let page = self.random_page(bytes);
            if self.hits(Fault::DiskBitFlip) {
                let (byte, bit) = (page + self.random() as usize % PAGE, self.random() % 8);
                Arc::make_mut(&mut stored)[byte] ^= 1 << bit;
            }
            if self.hits(Fault::DiskLostWrite) {
                stored = vec![0; bytes.len()].into();
            }
            if self.hits(Fault::DiskMisdirectedWrite) {
                elsewhere = Some(Arc::<[u8]>::from(&bytes[page..page + PAGE]));
                Arc::make_mut(&mut stored)[page..page + PAGE].fill(0);
            }
            if self.hits(Fault::DiskStalePage) {
                let random = self.random();
                let state = self.lock();
                let old = state.page(random).and_then(|(old, at)| state.bytes(old)?.get(at..at + PAGE));
                let stale = old.map_or([0; PAGE], |old| old.try_into().unwrap_or([0; PAGE]));
                Arc::make_mut(&mut stored)[page..page + PAGE].copy_from_slice(&stale);
            }
        }
        let random = self.random_if(elsewhere.is_some());
        let mut state = self.lock();
        if let Some((victim, at)) = state.page(random).filter(|_| elsewhere.is_some()) {
            let page = elsewhere.take().unwrap_or_else(|| Arc::new([]));
            self.apply(&mut state, DiskEffect::Damage(victim, at, page));
        }
        let effect = match replaces {
            true => DiskEffect::Stage(id, offset, stored),
            false => DiskEffect::Write(id, offset, stored),
        };
        self.apply(&mut state, effect);
    }

    fn random_page(&self, bytes: &[u8]) -> usize {
        self.random() as usize % (bytes.len() / PAGE) * PAGE
    }

    fn random_if(&self, wanted: bool) -> u64 {
        if wanted { self.random() } else { 0 }
    }

    /// The kernel says that a sync failed, and calls the pages clean nevertheless.
    fn drop_pages(&self, id: ExtentId) {
        let mut dice = Dice::new(self.random());
        let mut state = self.lock();
        let pages = state.unsynced_pages(id).filter(|_| dice.one_in(2)).collect::<Vec<_>>();
        let pages = pages.into_iter().map(|page| (page, dice.one_in(2))).collect();
        self.apply(&mut state, DiskEffect::Drop(id, pages));
    }
}

fn eio() -> io::Error {
    io::Error::from_raw_os_error(5)
}

/// A disk as one engine has it open.
struct SimDrive {
    disk: SimDisk,
    life: u64,
    is_suspect: Arc<AtomicBool>,
}

impl SimDrive {
    fn writer(&self, id: ExtentId, replaces: bool) -> SimWriter {
        SimWriter {
            disk: self.disk.clone(),
            life: self.life,
            is_suspect: Arc::clone(&self.is_suspect),
            id,
            length: 0,
            is_poisoned: false,
            replaces,
        }
    }

    fn failed(&self, extent: ExtentId, operation: &'static str) -> impl FnOnce(io::Error) -> DriveError {
        let drive = self.disk.0.id;
        move |source| DriveError::Io { drive, extent, operation, source }
    }

    fn renew(&self, change: impl FnOnce(Stamp) -> Stamp) -> Result<(), DriveError> {
        let drive = self.disk.0.id;
        let failed = |source| DriveError::Stamp { drive, path: PathBuf::from(self.name()), source };
        self.disk.pass(self.life, SYNC_NANOS).map_err(failed)?;
        let mut state = self.disk.lock();
        let stamp = change(state.stamp);
        self.disk.apply(&mut state, DiskEffect::Stamp(stamp));
        Ok(())
    }
}

impl ObjectDrive for SimDrive {
    fn id(&self) -> DriveId {
        self.disk.0.id
    }

    fn name(&self) -> String {
        format!("simulated disk {}", self.disk.0.id)
    }

    fn burn_in(&self) -> Option<drive::BurnInRecord> {
        None
    }

    fn queue(&self) -> Option<Arc<dyn DriveQueue>> {
        None
    }

    fn create(&self, id: ExtentId, preallocate: ByteCount) -> Result<Box<dyn ExtentWriter>, DriveError> {
        self.disk.pass(self.life, 0).map_err(self.failed(id, "creation"))?;
        let is_full = self.disk.hits(Fault::DiskFull);
        let mut state = self.disk.lock();
        let drive = self.disk.0.id;
        if state.bytes(id).is_some() {
            return Err(DriveError::Exists { drive, extent: id });
        }
        if is_full || state.used().saturating_add(preallocate.0) > self.disk.0.capacity.0 {
            return Err(DriveError::Full { drive, extent: id });
        }
        self.disk.apply(&mut state, DiskEffect::Create(id));
        Ok(Box::new(self.writer(id, false)))
    }

    fn replace(&self, id: ExtentId, preallocate: ByteCount) -> Result<Box<dyn ExtentWriter>, DriveError> {
        self.disk.pass(self.life, 0).map_err(self.failed(id, "replacement"))?;
        let is_full = self.disk.hits(Fault::DiskFull);
        let mut state = self.disk.lock();
        if is_full || state.used().saturating_add(preallocate.0) > self.disk.0.capacity.0 {
            return Err(DriveError::Full { drive: self.disk.0.id, extent: id });
        }
        self.disk.apply(&mut state, DiskEffect::Stage(id, 0, Arc::new([])));
        Ok(Box::new(self.writer(id, true)))
    }

    fn probe(&self) -> Result<(), DriveError> {
        let (drive, path) = (self.disk.0.id, PathBuf::from(self.name()));
        let failed = |source| DriveError::Probe { drive, path, source };
        let passed = self.disk.pass(self.life, SYNC_NANOS);
        let fails = self.disk.hits(Fault::DiskWrite) || self.disk.hits(Fault::DiskSync);
        match passed {
            Err(error) => Err(failed(error)),
            Ok(()) if fails => Err(failed(eio())),
            Ok(()) => {
                self.is_suspect.store(false, Ordering::SeqCst);
                Ok(())
            }
        }
    }

    fn read_at(&self, id: ExtentId, offset: ByteCount, into: &mut [u8]) -> Result<(), DriveError> {
        let pages = into.len().div_ceil(PAGE) as u64;
        self.disk.pass(self.life, pages * PAGE_NANOS).map_err(self.failed(id, "reading"))?;
        if self.disk.hits(Fault::DiskRead) {
            return Err(self.failed(id, "reading")(eio()));
        }
        let drive = self.disk.0.id;
        let state = self.disk.lock();
        let bytes = state.bytes(id).ok_or(DriveError::NotFound { drive, extent: id })?;
        let end = offset.0.saturating_add(into.len() as u64);
        let range = usize::try_from(offset.0).ok().zip(usize::try_from(end).ok());
        let found = range.and_then(|(from, to)| bytes.get(from..to));
        let found = found.ok_or(DriveError::Truncated { drive, extent: id, end: ByteCount(end) })?;
        into.copy_from_slice(found);
        Ok(())
    }

    fn punch(&self, id: ExtentId, offset: ByteCount, length: ByteCount) -> Result<(), DriveError> {
        self.disk.pass(self.life, 0).map_err(self.failed(id, "punching a hole"))?;
        // A file system without holes leaves the bytes as they are.
        let has_holes = !self.disk.random().is_multiple_of(4);
        let mut state = self.disk.lock();
        if state.bytes(id).is_none() {
            return Err(DriveError::NotFound { drive: self.disk.0.id, extent: id });
        }
        if has_holes {
            let effect = DiskEffect::Punch(id, offset.0 as usize, length.0 as usize);
            self.disk.apply(&mut state, effect);
        }
        Ok(())
    }

    fn punch_unneeded(&self, id: ExtentId, pages: &[SharedPage]) -> Result<Vec<u32>, DriveError> {
        punch_page_by_page(self, id, pages)
    }

    /// Nothing is reserved here.
    fn trim(&self, _id: ExtentId) -> Result<(), DriveError> {
        Ok(())
    }

    fn allocated(&self, id: ExtentId) -> Result<ByteCount, DriveError> {
        self.length(id)
    }

    /// Nothing limits it but what is free.
    fn probe_room(&self, _bytes: ByteCount) -> Result<(), DriveError> {
        Ok(())
    }

    /// The superblock is in memory.
    fn check_stamp(&self) -> Result<(), DriveError> {
        Ok(())
    }

    /// The drive is nowhere else.
    fn check_place(&self) -> Result<(), DriveError> {
        Ok(())
    }

    fn delete(&self, id: ExtentId) -> Result<(), DriveError> {
        self.disk.pass(self.life, 0).map_err(self.failed(id, "deletion"))?;
        let mut state = self.disk.lock();
        if state.bytes(id).is_some() {
            self.disk.apply(&mut state, DiskEffect::Delete(id));
        }
        Ok(())
    }

    fn list(&self, after: Option<ExtentId>, limit: usize) -> Result<Vec<ExtentId>, DriveError> {
        let drive = self.disk.0.id;
        let failed = |source| DriveError::List { drive, path: PathBuf::from(self.name()), source };
        self.disk.pass(self.life, 0).map_err(failed)?;
        Ok(self.disk.lock().list(after, limit))
    }

    fn status(&self) -> Result<DriveStatus, DriveError> {
        let (drive, path) = (self.disk.0.id, PathBuf::from(self.name()));
        // Where a drive hangs it does not tell this either.
        self.disk.pass(self.life, 0).map_err(|source| DriveError::Status { drive, path, source })?;
        let (capacity, used) = (self.disk.0.capacity, ByteCount(self.disk.lock().used()));
        let free = ByteCount(capacity.0.saturating_sub(used.0));
        let suspect = self.is_suspect.load(Ordering::SeqCst);
        Ok(DriveStatus { capacity, used, free, suspect, file_system: None })
    }

    fn stamp(&self) -> Stamp {
        self.disk.lock().stamp
    }

    fn set_stamp(&self, epoch: Epoch, commit: u64) -> Result<(), DriveError> {
        self.renew(|stamp| Stamp { epoch, commit, ..stamp })
    }

    fn set_gaps(&self, gaps_after: Option<u64>) -> Result<(), DriveError> {
        self.renew(|stamp| Stamp { gaps_after, ..stamp })
    }

    fn length(&self, id: ExtentId) -> Result<ByteCount, DriveError> {
        self.disk.pass(self.life, 0).map_err(self.failed(id, "looking"))?;
        let drive = self.disk.0.id;
        let state = self.disk.lock();
        let bytes = state.bytes(id).ok_or(DriveError::NotFound { drive, extent: id })?;
        Ok(ByteCount(bytes.len() as u64))
    }
}

/// The writer of one extent.
struct SimWriter {
    disk: SimDisk,
    life: u64,
    is_suspect: Arc<AtomicBool>,
    id: ExtentId,
    length: usize,
    is_poisoned: bool,
    /// It takes the place of an extent when it is sealed.
    replaces: bool,
}

impl Drop for SimWriter {
    fn drop(&mut self) {
        let is_alive = self.disk.0.lives.load(Ordering::SeqCst) == self.life;
        if self.replaces && is_alive {
            let mut state = self.disk.lock();
            self.disk.apply(&mut state, DiskEffect::Unstage(self.id));
        }
    }
}

impl SimWriter {
    fn check(&self) -> Result<(), DriveError> {
        if self.is_poisoned {
            return Err(DriveError::Poisoned { drive: self.disk.0.id, extent: self.id });
        }
        Ok(())
    }

    fn fail(&mut self, operation: &'static str, source: io::Error) -> DriveError {
        self.is_poisoned = true;
        self.is_suspect.store(true, Ordering::SeqCst);
        DriveError::Io { drive: self.disk.0.id, extent: self.id, operation, source }
    }
}

impl ExtentWriter for SimWriter {
    fn append(&mut self, bytes: &[u8]) -> Result<(), DriveError> {
        self.check()?;
        let (drive, extent) = (self.disk.0.id, self.id);
        if !bytes.len().is_multiple_of(PAGE) {
            return Err(DriveError::Unaligned { drive, extent, length: bytes.len() });
        }
        let nanos = (bytes.len() / PAGE) as u64 * PAGE_NANOS;
        self.disk.pass(self.life, nanos).map_err(|error| self.fail("write", error))?;
        if self.disk.hits(Fault::DiskWrite) {
            return Err(self.fail("write", eio()));
        }
        let used = self.disk.lock().used().saturating_add(bytes.len() as u64);
        if self.disk.hits(Fault::DiskFull) || used > self.disk.0.capacity.0 {
            self.is_poisoned = true;
            return Err(DriveError::Full { drive, extent });
        }
        self.disk.store(self.id, self.length, bytes, self.replaces);
        self.length += bytes.len();
        Ok(())
    }

    fn sync(&mut self) -> Result<(), DriveError> {
        self.check()?;
        self.disk.pass(self.life, SYNC_NANOS).map_err(|error| self.fail("sync", error))?;
        if self.disk.hits(Fault::DiskSync) {
            self.disk.drop_pages(self.id);
            if !is_planted(Bug::RetriedSync) {
                return Err(self.fail("sync", eio()));
            }
        }
        if !self.replaces {
            let mut state = self.disk.lock();
            self.disk.apply(&mut state, DiskEffect::Sync(self.id));
        }
        Ok(())
    }

    fn seal(mut self: Box<Self>) -> Result<(), DriveError> {
        self.sync()?;
        if self.replaces {
            let mut state = self.disk.lock();
            self.disk.apply(&mut state, DiskEffect::Replace(self.id));
        }
        Ok(())
    }
}
