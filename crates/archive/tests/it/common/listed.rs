//! Drives of the pool whose lists wait for a test and are counted, as are their reads.

#![allow(dead_code)]

use std::sync::{Arc, Condvar, Mutex};

use archive::{Archive, Machines};
use base::{ByteCount, Clock, DriveId, Epoch};
use drive::{DriveError, DriveQueue, DriveStatus, ExtentId, ExtentWriter, ObjectDrive, SharedPage, Stamp};

use crate::common::{Instance, PATIENCE, wait_until};

/// What a test lets the lists do. Clones are the same.
#[derive(Clone, Default)]
pub struct Lists(Arc<(Mutex<State>, Condvar)>);

#[derive(Default)]
struct State {
    is_open: bool,
    waiting: usize,
    calls: usize,
    reads: usize,
}

impl Lists {
    /// Lists that wait.
    pub fn waiting(&self) -> usize {
        self.0.0.lock().unwrap().waiting
    }

    /// Reads of bytes so far.
    pub fn reads(&self) -> usize {
        self.0.0.lock().unwrap().reads
    }

    /// Stops the server while a list waits. Gives how many lists were called after that one.
    pub fn calls_after_stop(&self, archive: &Archive) -> usize {
        wait_until("a drive is listed", || self.waiting() > 0);
        let closing = std::thread::spawn({
            let archive = archive.clone();
            move || archive.close()
        });
        wait_until("the server stops", || archive.is_stopping());
        let before = self.0.0.lock().unwrap().calls;
        self.0.0.lock().unwrap().is_open = true;
        self.0.1.notify_all();
        closing.join().unwrap();
        self.0.0.lock().unwrap().calls - before
    }

    fn pass(&self) {
        let (state, changed) = &*self.0;
        let mut state = state.lock().unwrap();
        state.calls += 1;
        state.waiting += 1;
        let shut = |state: &mut State| !state.is_open;
        let (mut state, over) = changed.wait_timeout_while(state, PATIENCE, shut).unwrap();
        assert!(!over.timed_out(), "the lists are never let through");
        state.waiting -= 1;
    }
}

/// A drive that lists one extent at a time.
struct Listed {
    drive: Arc<dyn ObjectDrive>,
    lists: Lists,
}

impl ObjectDrive for Listed {
    fn id(&self) -> DriveId {
        self.drive.id()
    }

    fn name(&self) -> String {
        self.drive.name()
    }

    fn burn_in(&self) -> Option<drive::BurnInRecord> {
        self.drive.burn_in()
    }

    fn queue(&self) -> Option<Arc<dyn DriveQueue>> {
        None
    }

    fn create(&self, id: ExtentId, preallocate: ByteCount) -> Result<Box<dyn ExtentWriter>, DriveError> {
        self.drive.create(id, preallocate)
    }

    fn replace(&self, id: ExtentId, preallocate: ByteCount) -> Result<Box<dyn ExtentWriter>, DriveError> {
        self.drive.replace(id, preallocate)
    }

    fn punch_unneeded(&self, id: ExtentId, pages: &[SharedPage]) -> Result<Vec<u32>, DriveError> {
        self.drive.punch_unneeded(id, pages)
    }

    fn trim(&self, id: ExtentId) -> Result<(), DriveError> {
        self.drive.trim(id)
    }

    fn allocated(&self, id: ExtentId) -> Result<ByteCount, DriveError> {
        self.drive.allocated(id)
    }

    fn probe_room(&self, bytes: ByteCount) -> Result<(), DriveError> {
        self.drive.probe_room(bytes)
    }

    fn check_stamp(&self) -> Result<(), DriveError> {
        self.drive.check_stamp()
    }

    fn check_place(&self) -> Result<(), DriveError> {
        self.drive.check_place()
    }

    fn probe(&self) -> Result<(), DriveError> {
        self.drive.probe()
    }

    fn read_at(&self, id: ExtentId, offset: ByteCount, into: &mut [u8]) -> Result<(), DriveError> {
        self.lists.0.0.lock().unwrap().reads += usize::from(!into.is_empty());
        self.drive.read_at(id, offset, into)
    }

    fn punch(&self, id: ExtentId, offset: ByteCount, length: ByteCount) -> Result<(), DriveError> {
        self.drive.punch(id, offset, length)
    }

    fn length(&self, id: ExtentId) -> Result<ByteCount, DriveError> {
        self.drive.length(id)
    }

    fn delete(&self, id: ExtentId) -> Result<(), DriveError> {
        self.drive.delete(id)
    }

    fn list(&self, after: Option<ExtentId>, _limit: usize) -> Result<Vec<ExtentId>, DriveError> {
        self.lists.pass();
        self.drive.list(after, 1)
    }

    fn status(&self) -> Result<DriveStatus, DriveError> {
        self.drive.status()
    }

    fn stamp(&self) -> Stamp {
        self.drive.stamp()
    }

    fn set_stamp(&self, epoch: Epoch, commit: u64) -> Result<(), DriveError> {
        self.drive.set_stamp(epoch, commit)
    }

    fn set_gaps(&self, gaps_after: Option<u64>) -> Result<(), DriveError> {
        self.drive.set_gaps(gaps_after)
    }
}

/// The server of an instance, in which the lists of a drive of the pool wait.
pub fn open_listed(instance: &Instance, clock: Arc<dyn Clock>, drive: u16) -> (Archive, Lists) {
    let mut machines = Machines::open(&instance.settings, Arc::clone(&clock)).unwrap();
    let lists = Lists::default();
    let (_, slot) = machines.drives.iter_mut().find(|(id, _)| *id == DriveId(drive)).unwrap();
    let inner = slot.take().unwrap();
    *slot = Some(Arc::new(Listed { drive: inner, lists: lists.clone() }));
    (Archive::open_on(machines, instance.settings.clone(), clock).unwrap(), lists)
}

/// The server of an instance, of whose pool drives the reads are counted.
pub fn open_counted(instance: &Instance, clock: Arc<dyn Clock>) -> (Archive, Lists) {
    let mut machines = Machines::open(&instance.settings, Arc::clone(&clock)).unwrap();
    let lists = Lists::default();
    lists.0.0.lock().unwrap().is_open = true;
    for (_, slot) in &mut machines.drives {
        *slot = slot.take().map(|drive| {
            let counted: Arc<dyn ObjectDrive> = Arc::new(Listed { drive, lists: lists.clone() });
            counted
        });
    }
    (Archive::open_on(machines, instance.settings.clone(), clock).unwrap(), lists)
}
