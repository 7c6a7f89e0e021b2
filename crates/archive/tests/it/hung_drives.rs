//! A drive of the pool that answers nothing any more, not even how much room it has.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use archive::{Archive, Machines, SettlingStage};
use base::{ByteCount, Clock, DriveId, Epoch, ManualClock};
use drive::{DriveError, DriveQueue, DriveStatus, ExtentId, ExtentWriter, ObjectDrive, SharedPage, Stamp};

use crate::common::{Instance, bytes, get, migrate_all, put, wait_until};
use crate::restoring::{self, at_rest, restore_to, shipped};

/// A drive that may hang in whatever is asked of it.
struct Hung {
    drive: Arc<dyn ObjectDrive>,
    hangs: Arc<AtomicBool>,
    /// It only hangs when it is asked for its extents, and what they have.
    looks_only: bool,
}

impl Hung {
    fn answer(&self) {
        if !self.looks_only {
            self.answer_look();
        }
    }

    fn answer_look(&self) {
        while self.hangs.load(Ordering::SeqCst) {
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

impl ObjectDrive for Hung {
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
        self.answer();
        self.drive.create(id, preallocate)
    }

    fn replace(&self, id: ExtentId, preallocate: ByteCount) -> Result<Box<dyn ExtentWriter>, DriveError> {
        self.answer();
        self.drive.replace(id, preallocate)
    }

    fn punch_unneeded(&self, id: ExtentId, pages: &[SharedPage]) -> Result<Vec<u32>, DriveError> {
        self.answer();
        self.drive.punch_unneeded(id, pages)
    }

    fn trim(&self, id: ExtentId) -> Result<(), DriveError> {
        self.answer();
        self.drive.trim(id)
    }

    fn allocated(&self, id: ExtentId) -> Result<ByteCount, DriveError> {
        self.answer();
        self.drive.allocated(id)
    }

    fn probe_room(&self, bytes: ByteCount) -> Result<(), DriveError> {
        self.answer();
        self.drive.probe_room(bytes)
    }

    fn check_stamp(&self) -> Result<(), DriveError> {
        self.answer();
        self.drive.check_stamp()
    }

    fn check_place(&self) -> Result<(), DriveError> {
        self.answer();
        self.drive.check_place()
    }

    fn probe(&self) -> Result<(), DriveError> {
        self.answer();
        self.drive.probe()
    }

    fn read_at(&self, id: ExtentId, offset: ByteCount, into: &mut [u8]) -> Result<(), DriveError> {
        self.answer_look();
        self.drive.read_at(id, offset, into)
    }

    fn punch(&self, id: ExtentId, offset: ByteCount, length: ByteCount) -> Result<(), DriveError> {
        self.answer();
        self.drive.punch(id, offset, length)
    }

    fn length(&self, id: ExtentId) -> Result<ByteCount, DriveError> {
        self.answer_look();
        self.drive.length(id)
    }

    fn delete(&self, id: ExtentId) -> Result<(), DriveError> {
        self.answer();
        self.drive.delete(id)
    }

    fn list(&self, after: Option<ExtentId>, limit: usize) -> Result<Vec<ExtentId>, DriveError> {
        self.answer_look();
        self.drive.list(after, limit)
    }

    fn status(&self) -> Result<DriveStatus, DriveError> {
        self.answer();
        self.drive.status()
    }

    fn stamp(&self) -> Stamp {
        self.drive.stamp()
    }

    fn set_stamp(&self, epoch: Epoch, commit: u64) -> Result<(), DriveError> {
        self.answer();
        self.drive.set_stamp(epoch, commit)
    }

    fn set_gaps(&self, gaps_after: Option<u64>) -> Result<(), DriveError> {
        self.answer();
        self.drive.set_gaps(gaps_after)
    }
}

/// The machines of an instance of which drive 3 hangs when it is told.
fn with_hung(
    instance: &Instance,
    clock: &Arc<ManualClock>,
    hangs: &Arc<AtomicBool>,
    looks_only: bool,
) -> Machines {
    let mut machines = Machines::open(&instance.settings, Arc::<ManualClock>::clone(clock)).unwrap();
    let (_, slot) = machines.drives.iter_mut().find(|(id, _)| *id == DriveId(3)).unwrap();
    let drive = slot.take().unwrap();
    *slot = Some(Arc::new(Hung { drive, hangs: Arc::clone(hangs), looks_only }));
    machines
}

/// Story: the conductor asked each drive itself how much room it has, and so did puts. A drive that did not
/// answer that stopped all tapes and puts for good: the conductor alone finds drives that hang.
#[test]
fn a_drive_that_answers_nothing_is_set_aside_and_all_goes_on() {
    let instance = Instance::new(ByteCount::mib(128));
    let clock = instance.clock();
    let hangs = Arc::new(AtomicBool::new(false));
    let machines = with_hung(&instance, &clock, &hangs, false);
    let of_test: Arc<dyn Clock> = Arc::<ManualClock>::clone(&clock);
    let archive = Archive::open_on(machines, instance.settings.clone(), of_test).unwrap();
    put(&archive, "/before", &bytes(1, 3_000_000));
    migrate_all(&archive);
    hangs.store(true, Ordering::SeqCst);
    let content = bytes(2, 3_000_000);
    let goes_on = std::thread::spawn({
        let (archive, content) = (archive.clone(), content.clone());
        move || {
            put(&archive, "/after", &content);
            migrate_all(&archive);
        }
    });
    let state = || archive.pool_info().unwrap().drives[3].state;
    wait_until("a put and the tapes go on", || {
        // Five times as fast as real time: what a drive that works takes for a job is no silence yet.
        clock.advance(Duration::from_millis(25));
        goes_on.is_finished()
    });
    goes_on.join().unwrap();
    assert_eq!(state(), "away");
    assert!(get(&archive, "/after").unwrap() == content);
    hangs.store(false, Ordering::SeqCst);
    wait_until("it is in use again", || {
        clock.advance(Duration::from_millis(25));
        state() == "up"
    });
    archive.close();
}

/// Time that goes on, five times as fast, until this is dropped.
pub struct Ticking(Arc<AtomicBool>);

impl Ticking {
    pub fn begin(clock: &Arc<ManualClock>) -> Ticking {
        let is_over = Arc::new(AtomicBool::new(false));
        let (clock, over) = (Arc::clone(clock), Arc::clone(&is_over));
        std::thread::spawn(move || {
            while !over.load(Ordering::SeqCst) {
                clock.advance(Duration::from_millis(25));
                std::thread::sleep(Duration::from_millis(5));
            }
        });
        Ticking(is_over)
    }
}

impl Drop for Ticking {
    fn drop(&mut self) {
        self.0.store(true, Ordering::SeqCst);
    }
}

/// Story: the thread that settles a restore asked the pool's drives itself for what they have. One that did
/// not answer held it up for good, and with it all tapes.
#[test]
fn a_drive_that_answers_nothing_holds_up_no_restore() {
    // As many drives as a stripe has shards: each has one.
    let instance = Instance::with(ByteCount::mib(128), |settings| {
        at_rest(settings);
        settings.pool.drives.truncate(6);
    });
    let archive = restoring::open(&instance);
    let content = bytes(1, 3_000_000);
    put(&archive, "/before", &content);
    let change = shipped(&archive);
    restore_to(&instance, archive, change);
    let (clock, hangs) = (instance.clock(), Arc::new(AtomicBool::new(true)));
    // The start asks the drives too, and may come behind what already hangs.
    let _ticking = Ticking::begin(&clock);
    let machines = with_hung(&instance, &clock, &hangs, true);
    let of_test: Arc<dyn Clock> = Arc::<ManualClock>::clone(&clock);
    let archive = Archive::open_on(machines, instance.settings.clone(), of_test).unwrap();
    wait_until("the restore is settled", || {
        archive.settling().is_some_and(|settling| settling.stage == SettlingStage::Settled)
    });
    assert_eq!(archive.pool_info().unwrap().drives[3].state, "away");
    assert!(get(&archive, "/before").unwrap() == content);
    hangs.store(false, Ordering::SeqCst);
    archive.close();
}
