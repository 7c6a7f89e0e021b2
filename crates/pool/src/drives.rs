//! The drives of a pool: bounded queues for writing and for reading, a thread each that hands over what
//! waits, health and counters.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU32, AtomicU64, Ordering};
use std::time::Duration;
use threads::{JoinHandle, Mutex};

use base::{BlobId, ByteCount, DriveGroup, DriveId, Timestamp};
use drive::{BlockingQueue, DriveError, DriveQueue, DriveStatus, ObjectDrive};

use crate::config::{
    PROBE_REST_FIRST, PROBE_REST_FULL, PROBE_REST_MAX, READ_FAILURES_MAX, SPACE_ANSWERS_MAX,
    STUCK_READS_AFTER,
};
use crate::gather::{Gather, Ticket, lock};
use crate::lane::{Flight, Lane};
use crate::order::Wanted;
use crate::queue::JobQueue;
use crate::reading::{Memory, ReadPlace, Reading};
use crate::slow::{Kind, Slowness};
use crate::space::KnownSpace;
use crate::status::{DriveHealth, FileSystemShares};
use crate::watch::Watch;

/// A call that blocks, run on a thread of the drive.
pub(crate) type Call = Box<dyn FnOnce(&Device) + Send>;
/// Hands an operation to the drive's queue.
pub(crate) type Submission = Box<dyn FnOnce(&Arc<Device>, Flight) + Send>;

/// What waits for a drive.
pub(crate) enum Job {
    /// A read, or a step of an extent that is written.
    Submit(Wanted, Submission),
    Call(Call),
}

/// A drive that is there, with its counters.
pub(crate) struct Device {
    pub(crate) drive: Arc<dyn ObjectDrive>,
    pub(crate) queue: Arc<dyn DriveQueue>,
    pub(crate) counters: Counters,
    pub(crate) watch: Arc<Watch>,
    /// The drives that it is compared with.
    group: Arc<AtomicU8>,
    health: Mutex<Health>,
    slowness: Mutex<Slowness>,
    space: KnownSpace,
    /// Reads that failed since the last that did not.
    read_failures: AtomicU32,
    /// It took the place of another and has not got all that it should hold: an extent that is not there is
    /// no error of it.
    pub(crate) filling: AtomicBool,
    /// What is under way.
    reading: Arc<Lane>,
    writing: Arc<Lane>,
}

struct Health {
    now: DriveHealth,
    /// Probes that failed in a row.
    failures: u32,
    next_probe: Timestamp,
    probing: bool,
    /// The most room that a write of a full drive lacked; it is in use again when it has as much.
    lacked: ByteCount,
    /// The least that one lacked since the drive was last probed: what is smaller is worth a try.
    refused: ByteCount,
}

/// No write was refused that something smaller could stand behind.
const NOTHING_REFUSED: ByteCount = ByteCount(u64::MAX);

#[derive(Default)]
pub(crate) struct Counters {
    pub(crate) bytes_read: AtomicU64,
    pub(crate) bytes_written: AtomicU64,
    pub(crate) syncs: AtomicU64,
    pub(crate) errors: AtomicU64,
    pub(crate) damaged: AtomicU64,
    pub(crate) late: AtomicU64,
    pub(crate) recoveries: AtomicU64,
}

pub(crate) fn count(counter: &AtomicU64, by: usize) {
    counter.fetch_add(by as u64, Ordering::Relaxed);
}

impl Device {
    pub(crate) fn new(drive: Arc<dyn ObjectDrive>, group: Arc<AtomicU8>, watch: Arc<Watch>) -> Arc<Self> {
        let health = Health {
            now: DriveHealth::Up,
            failures: 0,
            next_probe: Timestamp(0),
            probing: false,
            lacked: ByteCount(0),
            refused: NOTHING_REFUSED,
        };
        let queue = drive.queue().unwrap_or_else(|| Arc::new(BlockingQueue::new(Arc::clone(&drive))));
        if let Some(error) = drive.queue_refused() {
            tracing::info!(drive = %drive.id(), %error, "no queue of the kernel: threads read and write it");
        }
        let depth = queue.depth();
        let device = Device {
            drive,
            queue,
            counters: Counters::default(),
            watch,
            group,
            health: Mutex::new(health),
            slowness: Mutex::default(),
            space: KnownSpace::default(),
            read_failures: AtomicU32::new(0),
            filling: AtomicBool::new(false),
            reading: Lane::new(depth),
            writing: Lane::new(depth),
        };
        // Whoever puts a drive in waits for it anyway: it is stamped before. Who asks first still asks anew:
        // this is for when it does not answer then.
        device.ask_space();
        device.forget_space();
        Arc::new(device)
    }

    pub(crate) fn group(&self) -> DriveGroup {
        DriveGroup(self.group.load(Ordering::Relaxed))
    }

    pub(crate) fn health(&self) -> DriveHealth {
        lock(&self.health).now.clone()
    }

    /// Whether it is set aside: neither read nor written.
    pub(crate) fn is_away(&self) -> bool {
        lock(&self.health).now.is_silent()
    }

    /// Takes note of a failed write that needed so much room: the drive gets no new data, what it holds is
    /// still read.
    pub(crate) fn write_failed(&self, error: &DriveError, room: ByteCount) {
        // A lack of room is a state, and no error of the drive.
        if error.is_full() {
            let mut state = lock(&self.health);
            let is_first = state.now != DriveHealth::Full;
            state.lacked = if is_first { room } else { state.lacked.max(room) };
            state.refused = if is_first { room } else { state.refused.min(room) };
        } else {
            count(&self.counters.errors, 1);
        }
        self.forget_space();
        if error.is_shortage() {
            tracing::warn!(drive = %self.drive.id(), %error, "a write failed; the drive is not to blame");
            return;
        }
        if self.gone() {
            return;
        }
        let worse = if error.is_full() {
            DriveHealth::Full
        } else {
            DriveHealth::Suspect { reason: error.without_drive() }
        };
        self.worsen(worse);
    }

    /// Sets the drive aside: it is neither read nor written until a probe succeeds.
    pub(crate) fn set_aside(&self, reason: String) {
        self.worsen(DriveHealth::Away { reason });
    }

    fn worsen(&self, health: DriveHealth) {
        let mut state = lock(&self.health);
        let rank = |health: &DriveHealth| match health {
            DriveHealth::Up => 0,
            DriveHealth::Full => 1,
            DriveHealth::Suspect { .. } => 2,
            DriveHealth::Away { .. } => 3,
            // Nothing makes good what is gone: no probe takes it up again.
            DriveHealth::Wiped { .. } | DriveHealth::Missing | DriveHealth::Lost | DriveHealth::Removed => 4,
        };
        if rank(&health) > rank(&state.now) {
            tracing::warn!(drive = %self.drive.id(), now = ?health, "a drive of the pool is set aside");
            state.now = health;
            state.next_probe = self.watch.now().plus(state.rest());
        }
    }

    pub(crate) fn read_failed(&self, blob: BlobId, error: &DriveError) {
        let is_missing = matches!(error, DriveError::NotFound { .. });
        if is_missing && self.filling.load(Ordering::Relaxed) {
            tracing::debug!(drive = %self.drive.id(), %blob, "a drive that is being filled lacks it still");
        } else {
            count(&self.counters.errors, 1);
            tracing::warn!(drive = %self.drive.id(), %blob, %error, "read failed");
        }
        if is_missing && self.gone() {
            return;
        }
        if error.is_shortage() || !matches!(error, DriveError::Io { .. }) {
            return;
        }
        if self.read_failures.fetch_add(1, Ordering::Relaxed) + 1 >= READ_FAILURES_MAX {
            let last = error.without_drive();
            self.set_aside(format!("{READ_FAILURES_MAX} reads in a row failed, the last: {last}"));
        }
    }

    /// Sets the drive aside if it does not stand where it was opened, or was emptied: that an extent is not
    /// there says nothing about the extent then.
    pub(crate) fn gone(&self) -> bool {
        let Err(error) = self.drive.check_place() else { return false };
        if error.is_shortage() {
            return false;
        }
        let (reason, is_full) = (error.without_drive(), error.is_full());
        self.worsen(match error {
            DriveError::Wiped { .. } => DriveHealth::Wiped { reason },
            DriveError::NotThere { .. } => DriveHealth::Away { reason },
            _ if is_full => DriveHealth::Full,
            // What it holds may still be read, and is verified where it is.
            _ => DriveHealth::Suspect { reason },
        });
        true
    }

    /// Space came free: a full drive is due to be tried again, at once by `Pool::try_full_drives` or with the
    /// next look. It is not in use before it was: what came free may be only what a refused write had taken,
    /// and the pool would be full and not full in turn.
    pub(crate) fn space_freed(&self) {
        self.forget_space();
        let mut state = lock(&self.health);
        if state.now == DriveHealth::Full {
            state.next_probe = state.next_probe.min(self.watch.now());
        }
    }

    /// Whether it is full only for what is larger: a write of so many bytes is less than all that it refused.
    pub(crate) fn may_take(&self, bytes: ByteCount) -> bool {
        let state = lock(&self.health);
        state.now == DriveHealth::Full && bytes < state.refused
    }

    /// Of a full drive, what finds no room there for all that is known.
    pub(crate) fn refuses_from(&self) -> Option<ByteCount> {
        let state = lock(&self.health);
        (state.now == DriveHealth::Full).then(|| state.refused.min(state.lacked))
    }

    /// What was last known of its space counts no more: it is asked anew.
    pub(crate) fn forget_space(&self) {
        self.space.forget();
    }

    /// Room that it must have to be in use again; `None` if it is not full.
    pub(crate) fn lacked(&self) -> Option<ByteCount> {
        let state = lock(&self.health);
        (state.now == DriveHealth::Full).then_some(state.lacked)
    }

    /// Finds out whether it works, and, if it is full, whether it has the room that it lacked.
    pub(crate) fn try_again(&self) -> Result<(), DriveError> {
        let lacked = self.lacked();
        self.drive.probe()?;
        // A page found room: what is larger than it, and smaller than what the drive lacked, may as well.
        lock(&self.health).refused = NOTHING_REFUSED;
        lacked.map_or(Ok(()), |lacked| self.drive.probe_room(lacked))
    }

    /// Reads and counts.
    pub(crate) fn read(&self, id: drive::ExtentId, offset: u64, into: &mut [u8]) -> Result<(), DriveError> {
        self.drive.read_at(id, ByteCount(offset), into)?;
        self.has_read(into.len());
        Ok(())
    }

    /// Takes note of an operation that ended and did not fail, by how long it was under way.
    pub(crate) fn took(&self, kind: Kind, flight: &Flight) {
        if let Some(since) = flight.since() {
            self.took_span(kind, self.watch.now().since(since));
        }
    }

    pub(crate) fn took_span(&self, kind: Kind, span: Duration) {
        let now = self.watch.now();
        let usual = self.watch.took_for(self.group(), kind, span);
        let changed = lock(&self.slowness).took(now, span, usual);
        let drive = self.drive.id();
        match changed {
            Some(true) => tracing::warn!(
                %drive, ?kind, ?span, ?usual,
                "a drive is much slower than the others: new data goes to those"
            ),
            Some(false) => tracing::info!(%drive, "a drive is as fast as the others again"),
            None => {}
        }
    }

    /// How many times as long as the others it takes, if it is slow.
    pub(crate) fn slow(&self) -> Option<u64> {
        lock(&self.slowness).factor(self.watch.now())
    }

    /// Takes note of a read that did not fail.
    pub(crate) fn has_read(&self, bytes: usize) {
        self.read_failures.store(0, Ordering::Relaxed);
        count(&self.counters.bytes_read, bytes);
    }

    /// Since which change of the catalogue it may lack what was written.
    pub(crate) fn gaps_after(&self) -> Option<u64> {
        self.drive.stamp().gaps_after
    }

    /// Space and size as the drive said last; `None` if it never did, or could not. Who needs them as they
    /// are now has the drive asked before, by `Pool::ask_spaces`.
    pub(crate) fn space(&self) -> Option<DriveStatus> {
        self.space.last()
    }

    /// Asks the drive for space and size, until all who wait have their answer. For its own threads only: a
    /// drive that hangs holds up whoever asks it.
    pub(crate) fn ask_space(&self) {
        for _ in 0..SPACE_ANSWERS_MAX {
            let asked = (self.space.turn(), self.watch.now());
            let status = match self.drive.status() {
                Ok(status) => Some(status),
                // Seen by who only asks for its room, before anybody reads or writes it.
                Err(DriveError::NotThere { .. }) if self.gone() => self.space(),
                Err(_) => None,
            };
            if self.space.told(asked, status) {
                return;
            }
        }
    }

    /// Whether the file system of a full drive has less free than all drives on it need to take what this one
    /// could not: one alone could reserve that, and the next write would be refused again. Asks the drive.
    fn lacks_room(&self, shares: &FileSystemShares, width: usize) -> bool {
        let Some(lacked) = self.lacked() else { return false };
        self.ask_space();
        let Some(space) = self.space() else { return false };
        let drives = shares.sharing(space).min(width as u64);
        space.free.0 < lacked.0.saturating_mul(drives)
    }

    /// Whether a read has been under way for so long that nothing more is asked of it for now.
    pub(crate) fn is_stuck(&self) -> bool {
        let since = self.reading.oldest(&self.watch);
        since.is_some_and(|since| self.watch.now().since(since) > STUCK_READS_AFTER)
    }

    /// The time that counts has gone back a little: what began meanwhile begins now.
    pub(crate) fn forget_future(&self, now: Timestamp) {
        for lane in [&self.reading, &self.writing] {
            lane.forget_future(&self.watch, now);
        }
        self.space.forget_future(now);
        let mut health = lock(&self.health);
        health.next_probe = health.next_probe.min(now.plus(health.rest()));
    }

    /// For how long the slowest of what is under way has been running at that time.
    pub(crate) fn silence(&self, now: Timestamp) -> Duration {
        let lanes = [&self.reading, &self.writing];
        let oldest = lanes.into_iter().filter_map(|lane| lane.oldest(&self.watch)).min();
        oldest.map_or(Duration::ZERO, |since| now.since(since))
    }

    /// As [`Device::silence`], now.
    pub(crate) fn silence_now(&self) -> Duration {
        self.silence(self.watch.now())
    }

    /// Whether it is time for a probe; then the caller runs one and tells [`Device::probed`] what came of it.
    pub(crate) fn begin_probe(&self) -> bool {
        let now = self.watch.now();
        let mut state = lock(&self.health);
        let may_come_back = state.now != DriveHealth::Up && !state.now.is_given_up();
        let due = may_come_back && !state.probing && state.next_probe <= now;
        state.probing |= due;
        due
    }

    /// It was not probed: the file system says that it lacks room.
    pub(crate) fn is_still_full(&self) {
        let mut state = lock(&self.health);
        state.probing = false;
        // Something may have come free, though not enough for all that it refused.
        state.refused = NOTHING_REFUSED;
        state.next_probe = self.watch.now().plus(state.rest());
    }

    /// Takes note of a probe; takes the drive up again if it works.
    pub(crate) fn probed(&self, result: Result<(), DriveError>) {
        let mut state = lock(&self.health);
        state.probing = false;
        match result {
            Ok(()) if state.now.is_given_up() => {}
            Ok(()) => {
                tracing::info!(drive = %self.drive.id(), was = ?state.now, "a drive works again");
                state.now = DriveHealth::Up;
                state.failures = 0;
                state.lacked = ByteCount(0);
                self.read_failures.store(0, Ordering::Relaxed);
                count(&self.counters.recoveries, 1);
            }
            // It answers, and lacks nothing but room.
            Err(error) if error.is_full() && !state.now.is_given_up() => {
                if state.now != DriveHealth::Full {
                    let (drive, was) = (self.drive.id(), &state.now);
                    tracing::warn!(%drive, ?was, "a drive works again, and is full");
                    state.now = DriveHealth::Full;
                    self.read_failures.store(0, Ordering::Relaxed);
                    count(&self.counters.recoveries, 1);
                }
                state.failures = 0;
                state.next_probe = self.watch.now().plus(state.rest());
            }
            Err(error) => {
                state.failures = state.failures.saturating_add(1);
                let rest = state.rest();
                tracing::warn!(drive = %self.drive.id(), %error, ?rest, "a drive does not work yet");
                state.next_probe = self.watch.now().plus(rest);
            }
        }
        let is_set_aside = !matches!(state.now, DriveHealth::Up | DriveHealth::Full);
        drop(state);
        self.forget_space();
        // It may have been emptied while it was away, when nobody else looks at it.
        if is_set_aside {
            self.gone();
        }
    }
}

impl Health {
    /// The rest before the next probe, which doubles with each failure.
    fn rest(&self) -> Duration {
        match self.now {
            DriveHealth::Full => PROBE_REST_FULL,
            _ => PROBE_REST_FIRST.saturating_mul(1 << self.failures.min(16)).min(PROBE_REST_MAX),
        }
    }
}

/// A place in the pool's drive list.
pub(crate) struct PoolDrive {
    pub(crate) id: DriveId,
    /// Cells that other drives had to stand in for; counted for missing drives too.
    pub(crate) reconstructions: Arc<AtomicU64>,
    state: Mutex<Place>,
    /// It is to be emptied.
    drains: AtomicBool,
    /// Which drives it is with, as the map says.
    group: Arc<AtomicU8>,
    watch: Arc<Watch>,
}

struct Place {
    /// `None` if the drive is missing.
    present: Option<Arc<Present>>,
    /// What it is if it is not there.
    absent: Absent,
}

/// Why a drive is not there.
#[derive(Clone, Copy)]
enum Absent {
    Missing,
    /// Declared lost: what it held is rebuilt elsewhere.
    Lost,
    /// Taken out of the pool.
    Removed,
}

pub(crate) struct Present {
    pub(crate) device: Arc<Device>,
    writes: Arc<JobQueue>,
    reads: Arc<JobQueue>,
    threads: Mutex<Vec<JoinHandle<()>>>,
}

impl PoolDrive {
    pub(crate) fn new(
        (id, group): (DriveId, DriveGroup),
        drive: Option<Arc<dyn ObjectDrive>>,
        watch: &Arc<Watch>,
    ) -> Self {
        let group = Arc::new(AtomicU8::new(group.0));
        let present = drive.map(|drive| Present::new(drive, Arc::clone(&group), watch));
        let state = Mutex::new(Place { present, absent: Absent::Missing });
        let drains = AtomicBool::new(false);
        PoolDrive { id, reconstructions: Arc::default(), state, drains, group, watch: Arc::clone(watch) }
    }

    /// The drive if it is there, answering or not.
    pub(crate) fn attached(&self) -> Option<Arc<Present>> {
        lock(&self.state).present.clone()
    }

    /// The drive if it is there and answers.
    pub(crate) fn present(&self) -> Option<Arc<Present>> {
        self.attached().filter(|present| !present.device.is_away())
    }

    pub(crate) fn device(&self) -> Option<Arc<Device>> {
        self.present().map(|present| Arc::clone(&present.device))
    }

    pub(crate) fn health(&self) -> DriveHealth {
        let place = lock(&self.state);
        match &place.present {
            Some(present) => present.device.health(),
            None => match place.absent {
                Absent::Missing => DriveHealth::Missing,
                Absent::Lost => DriveHealth::Lost,
                Absent::Removed => DriveHealth::Removed,
            },
        }
    }

    pub(crate) fn group(&self) -> DriveGroup {
        DriveGroup(self.group.load(Ordering::Relaxed))
    }

    /// Whether it is in no group.
    pub(crate) fn is_main(&self) -> bool {
        self.group() == DriveGroup::MAIN
    }

    pub(crate) fn set_group(&self, group: DriveGroup) {
        self.group.store(group.0, Ordering::Relaxed);
    }

    /// Whether it is to be emptied: it is read, and gets nothing new.
    pub(crate) fn drains(&self) -> bool {
        self.drains.load(Ordering::Relaxed)
    }

    pub(crate) fn set_drains(&self, drains: bool) {
        self.drains.store(drains, Ordering::Relaxed);
    }

    /// Whether new data may be written there.
    pub(crate) fn takes_data(&self) -> bool {
        self.health().is_writable() && !self.drains()
    }

    /// Whether it takes no new data only because it is full.
    pub(crate) fn is_full(&self) -> bool {
        self.health() == DriveHealth::Full && !self.drains()
    }

    /// Gives up a drive: its threads end with the job they are at.
    pub(crate) fn declare_lost(&self) {
        self.let_go(Absent::Lost, "declared lost");
    }

    /// Takes a drive out of the pool, likewise.
    pub(crate) fn remove(&self) {
        self.let_go(Absent::Removed, "taken out of the pool");
    }

    fn let_go(&self, absent: Absent, why: &str) {
        let before = {
            let mut place = lock(&self.state);
            place.absent = absent;
            let before = place.present.take();
            assert!(place.present.is_none(), "who asks from now on does not find it");
            before
        };
        if let Some(present) = before {
            // Nobody waits for a drive that may never answer.
            present.device.set_aside(why.to_owned());
            present.abandon();
        }
    }

    /// Puts a drive in this place. `false` if there is one.
    pub(crate) fn attach(&self, drive: Arc<dyn ObjectDrive>) -> bool {
        // Before the lock, which all take who use the pool: the drive may hang.
        let present = Present::new(drive, Arc::clone(&self.group), &self.watch);
        let mut place = lock(&self.state);
        if place.present.is_some() {
            return false;
        }
        *place = Place { present: Some(present), absent: Absent::Missing };
        true
    }
}

/// The queue of a thread that works on it.
struct Served(Arc<JobQueue>);

impl Drop for Served {
    fn drop(&mut self) {
        self.0.end();
    }
}

impl Present {
    fn new(drive: Arc<dyn ObjectDrive>, group: Arc<AtomicU8>, watch: &Arc<Watch>) -> Arc<Self> {
        let device = Device::new(drive, group, Arc::clone(watch));
        let (writes, reads) = (Arc::new(JobQueue::of_writes()), Arc::new(JobQueue::of_reads()));
        let spawn = |queue: &Arc<JobQueue>, lane: fn(&Device) -> &Arc<Lane>, in_order: bool| {
            let (device, queue) = (Arc::clone(&device), Arc::clone(queue));
            threads::spawn(move || {
                let queue = Served(queue);
                let lane = Arc::clone(lane(&device));
                while let Some(job) = queue.0.next() {
                    match job {
                        Job::Submit(wanted, submit) => {
                            submit(&device, lane.enter(&device.watch).of_upkeep(wanted.is_upkeep()));
                        }
                        Job::Call(call) => {
                            if in_order {
                                lane.wait_idle();
                            }
                            let _flight = lane.enter(&device.watch);
                            call(&device);
                        }
                    }
                }
                lane.wait_idle();
            })
        };
        let threads = vec![
            spawn(&writes, |device| &device.writing, true),
            spawn(&reads, |device| &device.reading, false),
        ];
        Arc::new(Present { device, writes, reads, threads: Mutex::new(threads) })
    }

    /// Queues a step of an extent behind its earlier ones; waits while the queue is full. A drive that is set
    /// aside drops it, and with it the ticket that tells the waiter.
    pub(crate) fn write(&self, wanted: Wanted, submission: Submission) {
        self.queue(&self.writes, wanted.counts(), Job::Submit(wanted, submission));
    }

    /// Queues a call, likewise. It is made when all earlier writes are over, and those behind it wait for it:
    /// what it deletes or punches is no extent of which something is still under way.
    pub(crate) fn call_writer(&self, call: Call) {
        self.queue(&self.writes, true, Job::Call(call));
    }

    /// Queues a call of what only looks, or needs no order, behind all reads that wait.
    pub(crate) fn call_reader(&self, call: Call) {
        self.queue(&self.reads, true, Job::Call(call));
    }

    /// Queues a read; `then` is told what came of it, and dropped if the drive is set aside meanwhile.
    pub(crate) fn read<M: Memory>(
        &self,
        place: ReadPlace,
        memory: M,
        then: impl FnOnce(&Device, M, Result<(), DriveError>) + Send + 'static,
    ) {
        let wanted = place.wanted(memory.whose());
        let submission: Submission = Box::new(move |device, flight| {
            let device_of = Arc::clone(device);
            device.queue.read(Box::new(Reading { device: device_of, flight, place, memory, then }));
        });
        self.queue(&self.reads, wanted.counts(), Job::Submit(wanted, submission));
    }

    fn queue(&self, queue: &JobQueue, counts: bool, job: Job) {
        match counts {
            _ if self.device.is_away() => {}
            true => queue.push(job),
            // As many as its memory is for: it waits behind no queue that is full of what others want.
            false => queue.push_now(job),
        }
    }

    /// Whether reads or writes wait that are not of the upkeep, here or at the drive.
    pub(crate) fn is_busy(&self) -> bool {
        let wait_there = |lane: &Lane| lane.others_under_way() > 1;
        self.reads.others_wait()
            || self.writes.others_wait()
            || wait_there(&self.device.reading)
            || wait_there(&self.device.writing)
    }

    /// Has the drive asked for its room if what is known of it is old; `gather` waits for the answer. Of a
    /// drive that is set aside the last figure is all that is known.
    pub(crate) fn ask_space(&self, gather: &Arc<Gather<()>>) {
        let device = &self.device;
        if !device.is_away() && device.space.wait_with(gather, device.watch.now()) {
            let question = Question(Arc::clone(device));
            self.reads.push_first(Job::Call(Box::new(move |_| question.0.ask_space())));
        }
    }

    /// Makes a call that only looks, or needs no order, on the reading thread, and waits for it; `None` if
    /// the drive is set aside meanwhile.
    pub(crate) fn ask_reader<T: Send + 'static>(
        &self,
        call: impl FnOnce(&Device) -> T + Send + 'static,
    ) -> Option<T> {
        let gather = Gather::new();
        let ticket = gather.ticket();
        self.call_reader(Box::new(move |device| ticket.done(call(device))));
        gather.wait_unless(|_| self.device.is_away()).pop()
    }

    /// Queues a probe, whatever the drive's health. It runs when the drive answers, unless the drive is full
    /// and lacks room; `ticket` ends with it.
    pub(crate) fn probe(&self, shares: FileSystemShares, width: usize, ticket: Option<Ticket<()>>) {
        let probe = Probe { device: Arc::clone(&self.device), _ticket: ticket };
        self.writes.push_now(Job::Call(Box::new(move |device| {
            let result = (!device.lacks_room(&shares, width)).then(|| device.try_again());
            // The drive has answered: that the probe took long does not set it aside again.
            device.writing.begin_anew(&device.watch);
            match result {
                Some(result) => device.probed(result),
                None => device.is_still_full(),
            }
            drop(probe);
        })));
    }

    /// Drops all jobs that wait.
    pub(crate) fn abandon(&self) {
        self.writes.clear();
        self.reads.clear();
    }
}

/// A question for the room on a drive, on its way: dropped with the queue that it waits in, it makes room for
/// the next.
struct Question(Arc<Device>);

impl Drop for Question {
    fn drop(&mut self) {
        self.0.space.is_over();
    }
}

/// A probe on its way: dropped with the queue that it waits in, it makes room for the next.
struct Probe {
    device: Arc<Device>,
    /// Of who waits for what comes of it.
    _ticket: Option<Ticket<()>>,
}

impl Drop for Probe {
    fn drop(&mut self) {
        lock(&self.device.health).probing = false;
    }
}

impl Drop for Present {
    fn drop(&mut self) {
        self.writes.close();
        self.reads.close();
        let away = self.device.is_away();
        for thread in std::mem::take(&mut *lock(&self.threads)) {
            // A drive that does not answer would hold up its pool for ever.
            if !away {
                // A panic there has been reported by the panic hook already.
                let _ = thread.join();
            }
        }
    }
}
