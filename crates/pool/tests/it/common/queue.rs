//! A drive with a queue in memory, in front of any other drive: it holds many operations, does them in an
//! order of its own, and tells of each from its own thread.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

use base::{ByteCount, DriveId, Epoch};
use drive::{
    BlockingQueue, DriveError, DriveQueue, DriveStatus, ExtentId, ExtentWriter, ObjectDrive, QueueEngine,
    QueuedExtent, ReadOperation, SharedPage, Stamp, WriteOperation, WriteStep,
};

/// Reads, and operations of writing, that a queue holds at one time.
pub const DEPTH: usize = 32;
/// The queue waits so long for company, so that there is an order to change.
const PATIENCE: Duration = Duration::from_micros(300);

/// What a queue did.
#[derive(Default)]
pub struct Seen {
    /// The most reads, and the most operations of writing, that it held at one time.
    pub reads: AtomicUsize,
    pub writes: AtomicUsize,
    /// Operations that were done before an older one.
    pub overtaken: AtomicUsize,
    /// Operations that were dropped, or failed, on purpose.
    pub spoilt: AtomicUsize,
    /// How often the pool did not keep to what [`DriveQueue`] says of its user.
    pub misused: AtomicUsize,
    /// One in so many operations fails without a look at the drive; 0: none.
    pub fail_one_in: AtomicUsize,
    /// One in so many reads is dropped, and nobody is told; 0: none.
    pub drop_one_in: AtomicUsize,
}

pub struct QueuedDrive {
    inner: Arc<dyn ObjectDrive>,
    queue: Arc<Queue>,
    thread: Option<JoinHandle<()>>,
}

struct Queue {
    /// Does what the queue has chosen.
    inner: BlockingQueue,
    drive: DriveId,
    shared: Arc<Shared>,
}

struct Shared {
    state: Mutex<State>,
    changed: Condvar,
    seen: Arc<Seen>,
}

#[derive(Default)]
struct State {
    /// In the order in which they came.
    waiting: VecDeque<Waiting>,
    reads: usize,
    writes: usize,
    random: u64,
    closed: bool,
}

enum Waiting {
    Read(Box<dyn ReadOperation>),
    /// Of an extent, by its number in this queue: in its order.
    Write(u64, Arc<Mutex<Box<dyn QueuedExtent>>>, Box<dyn WriteOperation>),
}

/// An extent that is written through the queue.
struct Written {
    number: u64,
    inner: Arc<Mutex<Box<dyn QueuedExtent>>>,
    shared: Arc<Shared>,
}

impl QueuedDrive {
    pub fn new(inner: Arc<dyn ObjectDrive>, seen: Arc<Seen>) -> Self {
        let state = State { random: u64::from(inner.id().0) + 1, ..State::default() };
        let shared = Arc::new(Shared { state: Mutex::new(state), changed: Condvar::new(), seen });
        let queue = Arc::new(Queue {
            inner: BlockingQueue::new(Arc::clone(&inner)),
            drive: inner.id(),
            shared: Arc::clone(&shared),
        });
        let thread = std::thread::spawn({
            let queue = Arc::clone(&queue);
            move || queue.run()
        });
        QueuedDrive { inner, queue, thread: Some(thread) }
    }
}

impl Drop for QueuedDrive {
    fn drop(&mut self) {
        self.queue.shared.state.lock().unwrap().closed = true;
        self.queue.shared.changed.notify_all();
        // The lock of the drive below is free when it is opened again.
        self.thread.take().unwrap().join().unwrap();
    }
}

impl State {
    fn random(&mut self, below: usize) -> usize {
        self.random = self.random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (self.random >> 33) as usize % below
    }

    /// Takes one of those that may be done now: any read, and of each extent the oldest operation.
    fn choose(&mut self, seen: &Seen) -> Option<Waiting> {
        let is_first = |at: usize| match &self.waiting[at] {
            Waiting::Read(_) => true,
            Waiting::Write(number, ..) => !self.waiting.iter().take(at).any(|before| before.is_of(*number)),
        };
        let free: Vec<usize> = (0..self.waiting.len()).filter(|at| is_first(*at)).collect();
        let chosen = *free.get(self.random(free.len().max(1)))?;
        seen.overtaken.fetch_add(usize::from(chosen > 0), Ordering::SeqCst);
        self.waiting.remove(chosen)
    }

    fn spoils(&mut self, one_in: &AtomicUsize) -> bool {
        let one_in = one_in.load(Ordering::SeqCst);
        one_in > 0 && self.random(one_in) == 0
    }
}

impl Waiting {
    fn is_of(&self, extent: u64) -> bool {
        matches!(self, Waiting::Write(number, ..) if *number == extent)
    }
}

impl Shared {
    fn add(&self, waiting: Waiting) {
        let mut state = self.state.lock().unwrap();
        match waiting {
            Waiting::Read(_) => state.reads += 1,
            Waiting::Write(..) => state.writes += 1,
        }
        let is_misused = state.reads > DEPTH || state.writes > DEPTH;
        self.seen.misused.fetch_add(usize::from(is_misused), Ordering::SeqCst);
        self.seen.reads.fetch_max(state.reads, Ordering::SeqCst);
        self.seen.writes.fetch_max(state.writes, Ordering::SeqCst);
        state.waiting.push_back(waiting);
        drop(state);
        self.changed.notify_all();
    }

    /// One is done, and its place free: before it is told, since what follows may be handed over at once.
    fn over(&self, of: fn(&mut State) -> &mut usize) {
        *of(&mut self.state.lock().unwrap()) -= 1;
    }
}

impl Queue {
    fn run(&self) {
        loop {
            let mut state = self.shared.state.lock().unwrap();
            while state.waiting.is_empty() && !state.closed {
                state = self.shared.changed.wait(state).unwrap();
            }
            if state.waiting.is_empty() {
                return;
            }
            if state.waiting.len() == 1 {
                state = self.shared.changed.wait_timeout(state, PATIENCE).unwrap().0;
            }
            let Some(chosen) = state.choose(&self.shared.seen) else { continue };
            let seen = &self.shared.seen;
            let (fails, drops) = (state.spoils(&seen.fail_one_in), state.spoils(&seen.drop_one_in));
            drop(state);
            self.carry_out(chosen, fails, drops);
        }
    }

    fn carry_out(&self, chosen: Waiting, fails: bool, drops: bool) {
        let (shared, spoilt) = (Arc::clone(&self.shared), &self.shared.seen.spoilt);
        let broken = |extent, operation| {
            spoilt.fetch_add(1, Ordering::SeqCst);
            let source = std::io::Error::from_raw_os_error(5);
            DriveError::Io { drive: self.drive, extent, operation, source }
        };
        match chosen {
            Waiting::Read(read) if drops => {
                spoilt.fetch_add(1, Ordering::SeqCst);
                shared.over(|state| &mut state.reads);
                drop(read);
            }
            Waiting::Read(read) if fails => {
                let error = broken(read.extent(), "read");
                shared.over(|state| &mut state.reads);
                read.done(Err(error));
            }
            Waiting::Read(read) => self.inner.read(Box::new(Reading { read, shared })),
            Waiting::Write(_, extent, write) => {
                let mut extent = extent.lock().unwrap();
                // The extent fails for good: what follows finds it ended.
                let failure =
                    fails.then(|| broken(ExtentId { blob: base::BlobId(0), stripe: 0, shard: 0 }, "write"));
                extent.submit(Box::new(Writing { write, shared, failure }));
            }
        }
    }
}

/// A read that gives its place back when it is done.
struct Reading {
    read: Box<dyn ReadOperation>,
    shared: Arc<Shared>,
}

impl ReadOperation for Reading {
    fn extent(&self) -> ExtentId {
        self.read.extent()
    }

    fn part(&mut self, number: usize) -> Option<(ByteCount, &mut [u8])> {
        self.read.part(number)
    }

    fn done(self: Box<Self>, result: Result<(), DriveError>) {
        self.shared.over(|state| &mut state.reads);
        self.read.done(result);
    }
}

struct Writing {
    write: Box<dyn WriteOperation>,
    shared: Arc<Shared>,
    failure: Option<DriveError>,
}

impl WriteOperation for Writing {
    fn step(&self) -> WriteStep<'_> {
        // Refused by any writer, and so the end of this one.
        if self.failure.is_some() { WriteStep::Append(&[0]) } else { self.write.step() }
    }

    fn done(self: Box<Self>, result: Result<(), DriveError>) {
        let Writing { write, shared, failure } = *self;
        shared.over(|state| &mut state.writes);
        write.done(failure.map_or(result, Err));
    }
}

impl DriveQueue for Queue {
    fn depth(&self) -> usize {
        DEPTH
    }

    fn engine(&self) -> QueueEngine {
        QueueEngine::Own
    }

    fn read(&self, read: Box<dyn ReadOperation>) {
        self.shared.add(Waiting::Read(read));
    }

    fn extent(&self, id: ExtentId, preallocate: ByteCount, replaces: bool) -> Box<dyn QueuedExtent> {
        static NEXT: std::sync::atomic::AtomicU64 = std::sync::atomic::AtomicU64::new(0);
        let inner = Arc::new(Mutex::new(self.inner.extent(id, preallocate, replaces)));
        let number = NEXT.fetch_add(1, Ordering::SeqCst);
        Box::new(Written { number, inner, shared: Arc::clone(&self.shared) })
    }
}

impl QueuedExtent for Written {
    fn submit(&mut self, operation: Box<dyn WriteOperation>) {
        self.shared.add(Waiting::Write(self.number, Arc::clone(&self.inner), operation));
    }
}

impl ObjectDrive for QueuedDrive {
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
        Some(Arc::clone(&self.queue) as Arc<dyn DriveQueue>)
    }

    fn create(&self, id: ExtentId, _: ByteCount) -> Result<Box<dyn ExtentWriter>, DriveError> {
        panic!("{id} is written past the queue");
    }

    fn replace(&self, id: ExtentId, _: ByteCount) -> Result<Box<dyn ExtentWriter>, DriveError> {
        panic!("{id} is written past the queue");
    }

    fn read_at(&self, id: ExtentId, offset: ByteCount, into: &mut [u8]) -> Result<(), DriveError> {
        self.inner.read_at(id, offset, into)
    }

    fn punch(&self, id: ExtentId, offset: ByteCount, length: ByteCount) -> Result<(), DriveError> {
        self.nothing_is_written();
        self.inner.punch(id, offset, length)
    }

    fn punch_unneeded(&self, id: ExtentId, pages: &[SharedPage]) -> Result<Vec<u32>, DriveError> {
        self.nothing_is_written();
        self.inner.punch_unneeded(id, pages)
    }

    fn trim(&self, id: ExtentId) -> Result<(), DriveError> {
        self.inner.trim(id)
    }

    fn allocated(&self, id: ExtentId) -> Result<ByteCount, DriveError> {
        self.inner.allocated(id)
    }

    fn length(&self, id: ExtentId) -> Result<ByteCount, DriveError> {
        self.inner.length(id)
    }

    fn delete(&self, id: ExtentId) -> Result<(), DriveError> {
        self.nothing_is_written();
        self.inner.delete(id)
    }

    fn list(&self, after: Option<ExtentId>, limit: usize) -> Result<Vec<ExtentId>, DriveError> {
        self.inner.list(after, limit)
    }

    fn status(&self) -> Result<DriveStatus, DriveError> {
        self.inner.status()
    }

    fn stamp(&self) -> Stamp {
        self.inner.stamp()
    }

    fn set_stamp(&self, epoch: Epoch, commit: u64) -> Result<(), DriveError> {
        self.inner.set_stamp(epoch, commit)
    }

    fn set_gaps(&self, gaps_after: Option<u64>) -> Result<(), DriveError> {
        self.inner.set_gaps(gaps_after)
    }

    fn check_stamp(&self) -> Result<(), DriveError> {
        self.inner.check_stamp()
    }

    fn check_place(&self) -> Result<(), DriveError> {
        self.inner.check_place()
    }

    fn probe(&self) -> Result<(), DriveError> {
        self.inner.probe()
    }

    fn probe_room(&self, bytes: ByteCount) -> Result<(), DriveError> {
        self.inner.probe_room(bytes)
    }
}

impl QueuedDrive {
    /// What removes something is called when no write is under way.
    fn nothing_is_written(&self) {
        let writes = self.queue.shared.state.lock().unwrap().writes;
        self.queue.shared.seen.misused.fetch_add(writes, Ordering::SeqCst);
    }
}
