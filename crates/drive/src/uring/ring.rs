//! One ring of the kernel, and the thread that has it: it hands over what comes to its inbox and goes on with
//! what has ended.

use std::cell::Cell;
use std::collections::VecDeque;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, mpsc};
use std::thread;
use std::time::Duration;

use io_uring::{IoUring, Probe, opcode, squeue, types};
use rustix::event::EventfdFlags;

use crate::uring::answer;
use crate::uring::read::Reading;
use crate::uring::write::Writing;

/// The number of the wake-up among what is under way.
const WAKE: u64 = u64::MAX;
/// The kernel has no memory for more at present: so long until it is asked again.
const REST: Duration = Duration::from_millis(1);

/// Reading, or one append, on its way.
pub(crate) enum Work {
    Read(Reading),
    Write(Writing),
}

/// What is to be done with a piece of work.
pub(crate) enum Next {
    /// The kernel is to do this; its answer is told to [`Work::ended`].
    Kernel(squeue::Entry),
    /// Nothing more.
    Done,
}

impl Work {
    /// The memory and the files of an entry are those of the work, and stay until it has ended.
    fn next(&mut self) -> Next {
        match self {
            Work::Read(read) => read.next(),
            Work::Write(write) => write.next(),
        }
    }

    fn ended(&mut self, result: i32) {
        match self {
            Work::Read(read) => read.ended(result),
            Work::Write(write) => write.ended(result),
        }
    }

    fn tell(self) {
        match self {
            Work::Read(read) => read.tell(),
            Work::Write(write) => write.tell(),
        }
    }

    /// Tells that it will not be done; the kernel has nothing of it.
    fn give_up(self) {
        match self {
            Work::Read(read) => read.give_up(),
            Work::Write(write) => write.give_up(),
        }
    }

    /// Likewise, but the kernel may have it for ever: its memory stays as it is.
    fn lose(self) {
        match self {
            Work::Read(read) => read.lose(),
            Work::Write(write) => write.lose(),
        }
    }
}

/// What the kernel is asked to do.
pub(crate) type Operations = &'static [(u8, &'static str)];
/// All that is asked for here.
pub(crate) const OPERATIONS: Operations =
    &[(opcode::OpenAt::CODE, "open"), (opcode::Read::CODE, "read"), (opcode::Write::CODE, "write")];

/// The kernel has rings, but not with all that is asked of them; of kind [`io::ErrorKind::Unsupported`].
#[derive(Debug, thiserror::Error)]
#[error("its io_uring has no operation \"{0}\": the kernel is older than 5.6")]
struct Lacks(&'static str);

/// Whether the kernel lets this process have a ring that can do what is asked here.
pub(crate) fn probe() -> io::Result<()> {
    make(1, OPERATIONS).map(drop)
}

/// A ring for the calling thread alone, in which ends are worked off when they are waited for; kernels before
/// 6.1 have plain ones. Kernels from 5.1 to 5.5 give rings as well, and refuse each operation later.
fn make(entries: u32, needed: Operations) -> io::Result<IoUring> {
    let mut builder = IoUring::builder();
    builder.setup_single_issuer().setup_coop_taskrun().setup_defer_taskrun();
    let ring = match builder.build(entries) {
        Err(error) if error.kind() == io::ErrorKind::InvalidInput => IoUring::new(entries)?,
        built => built?,
    };
    let mut known = Probe::new();
    match ring.submitter().register_probe(&mut known) {
        // Probing came with the operations.
        Err(error) if error.kind() == io::ErrorKind::InvalidInput => {}
        probed => probed?,
    }
    match needed.iter().find(|(code, _)| !known.is_supported(*code)) {
        Some((_, name)) => Err(io::Error::new(io::ErrorKind::Unsupported, Lacks(name))),
        None => Ok(ring),
    }
}

/// What comes to a ring. Whoever hands over wakes the thread only if it sleeps.
pub(crate) struct Inbox {
    state: Mutex<State>,
    wake: OwnedFd,
}

#[derive(Default)]
struct State {
    waiting: VecDeque<Work>,
    /// The thread sleeps in the kernel, or is about to.
    asleep: bool,
    /// Nothing more comes; what came is done.
    closed: bool,
    /// The thread is gone: what comes fails.
    ended: bool,
    /// Why the ring broke.
    broke: Option<io::Error>,
}

impl Inbox {
    fn new() -> io::Result<Arc<Inbox>> {
        let wake = rustix::event::eventfd(0, EventfdFlags::CLOEXEC)?;
        Ok(Arc::new(Inbox { state: Mutex::default(), wake }))
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn push(&self, work: Work) {
        let wakes = {
            let mut state = self.state();
            if state.ended {
                drop(state);
                return work.give_up();
            }
            state.waiting.push_back(work);
            std::mem::take(&mut state.asleep)
        };
        if wakes {
            self.wake();
        }
    }

    /// The thread ends when what came is done.
    pub(crate) fn close(&self) {
        self.state().closed = true;
        self.wake();
    }

    fn wake(&self) {
        // The counter of an eventfd is full after 2^64 of these.
        let _ = rustix::io::write(&self.wake, &1u64.to_ne_bytes());
    }

    /// Why nothing is done any more, if its thread is gone.
    pub(crate) fn has_ended(&self) -> Option<String> {
        let state = self.state();
        let why =
            || state.broke.as_ref().map_or_else(|| "somebody panicked".to_owned(), io::Error::to_string);
        state.ended.then(why)
    }

    fn end(&self) {
        let waiting = {
            let mut state = self.state();
            (state.closed, state.ended) = (true, true);
            std::mem::take(&mut state.waiting)
        };
        waiting.into_iter().for_each(Work::give_up);
    }
}

thread_local! {
    static IS_HERE: Cell<bool> = const { Cell::new(false) };
}

/// Whether this is the thread of a ring, which must not block.
pub(crate) fn is_here() -> bool {
    IS_HERE.get()
}

/// Starts a ring with so many places, and its thread; an error if the kernel cannot do what is needed.
pub(crate) fn start(name: &str, places: usize, needed: Operations) -> io::Result<Arc<Inbox>> {
    let inbox = Inbox::new()?;
    let (sender, made) = mpsc::sync_channel(1);
    let of_thread = Arc::clone(&inbox);
    thread::Builder::new().name(name.to_owned()).spawn(move || {
        IS_HERE.set(true);
        let ring = match Ring::new(Arc::clone(&of_thread), places, needed) {
            Ok(ring) => ring,
            Err(error) => {
                of_thread.end();
                let _ = sender.send(Err(error));
                return;
            }
        };
        let _ = sender.send(Ok(()));
        drop(sender);
        ring.run();
    })?;
    made.recv().map_err(io::Error::other)??;
    Ok(inbox)
}

/// The ring with all that the kernel reads and writes. It is dropped only when the kernel is done with all of
/// it.
struct Ring {
    ring: IoUring,
    inbox: Arc<Inbox>,
    /// What is under way, by its place.
    places: Vec<Option<Work>>,
    free: Vec<usize>,
    /// What a wake-up is read into.
    count: Box<[u8; 8]>,
    /// Entries whose end was not seen yet, that of the wake-up among them.
    under_way: usize,
    /// Ends that were seen, with their places, and that nobody was told of yet.
    ends: VecDeque<(u64, i32)>,
}

impl Ring {
    fn new(inbox: Arc<Inbox>, places: usize, needed: Operations) -> io::Result<Ring> {
        // One more for the wake-up.
        let entries = u32::try_from((places + 1).next_power_of_two()).map_err(io::Error::other)?;
        let ring = make(entries, needed)?;
        let free = (0..places).rev().collect();
        let places = (0..places).map(|_| None).collect();
        Ok(Ring { ring, inbox, places, free, count: Box::default(), under_way: 0, ends: VecDeque::new() })
    }

    /// Until the inbox is closed and all that came is done, or the ring breaks.
    fn run(mut self) {
        if let Err(error) = self.serve() {
            self.inbox.state().broke = Some(error);
        }
    }

    fn serve(&mut self) -> io::Result<()> {
        self.await_wake()?;
        loop {
            if !self.take_in() {
                return Ok(());
            }
            self.wait()?;
            self.see_ends();
            while let Some((place, result)) = self.ends.pop_front() {
                if place == WAKE {
                    is_woken(result)?;
                    self.await_wake()?;
                    continue;
                }
                let Some((place, mut work)) = self.take(place) else {
                    panic!("an end is that of something under way")
                };
                work.ended(result);
                self.go_on(place, work);
            }
        }
    }

    fn see_ends(&mut self) {
        let before = self.ends.len();
        self.ends.extend(self.ring.completion().map(|end| (end.user_data(), end.result())));
        self.under_way -= self.ends.len() - before;
    }

    fn take(&mut self, place: u64) -> Option<(usize, Work)> {
        let place = usize::try_from(place).ok()?;
        Some((place, self.places.get_mut(place)?.take()?))
    }

    /// Hands over what came, as far as there are places. `false`: nothing more comes, and nothing is under
    /// way.
    fn take_in(&mut self) -> bool {
        loop {
            // With no place free, an end is what it waits for.
            let Some(place) = self.free.pop() else { return true };
            let work = {
                let mut state = self.inbox.state();
                let work = state.waiting.pop_front();
                state.asleep = work.is_none();
                work.ok_or(state.closed)
            };
            match work {
                Ok(work) => self.go_on(place, work),
                Err(is_closed) => {
                    self.free.push(place);
                    return !(is_closed && self.free.len() == self.places.len());
                }
            }
        }
    }

    /// Has the kernel do what comes next, or tells that all is done.
    fn go_on(&mut self, place: usize, mut work: Work) {
        match work.next() {
            Next::Kernel(entry) => {
                // First in its place, so that it stays whatever happens.
                self.places[place] = Some(work);
                let is_pushed = self.push(&entry.user_data(place as u64)).is_ok();
                assert!(is_pushed, "the ring has a place for all that is under way");
            }
            Next::Done => {
                self.free.push(place);
                // It may drop the queue, or hand over more.
                work.tell();
            }
        }
    }

    fn await_wake(&mut self) -> io::Result<()> {
        let file = types::Fd(self.inbox.wake.as_raw_fd());
        let entry = opcode::Read::new(file, self.count.as_mut_ptr(), 8).build();
        self.push(&entry.user_data(WAKE))
    }

    fn push(&mut self, entry: &squeue::Entry) -> io::Result<()> {
        // SAFETY: the kernel uses what the entry points to until its end is seen. That is memory and files of
        // the work in `places`, which is taken out of there, and touched, only when the end was seen (the
        // memory of an operation is the same until it is told of its end, as `ReadOperation` and
        // `WriteOperation` promise; boxes and buffers do not move with their owner), or `count` and the
        // eventfd, which are this value's own. `drop` waits for all ends before it frees any of it, or leaks
        // it.
        unsafe { self.ring.submission().push(entry) }.map_err(io::Error::other)?;
        self.under_way += 1;
        Ok(())
    }

    /// Tells the kernel of what was pushed, and waits until there is at least one end.
    fn wait(&mut self) -> io::Result<()> {
        loop {
            match self.ring.submit_and_wait(1) {
                Ok(_) => return Ok(()),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                // It lacks memory for more, or has no room for further ends.
                Err(error) if is_passing(&error) => {
                    if !self.ring.completion().is_empty() {
                        return Ok(());
                    }
                    thread::sleep(REST);
                }
                Err(error) => return Err(error),
            }
        }
    }
}

/// An error if no wake-up can come any more: asked for again, it would fail again, and at once.
fn is_woken(wake: i32) -> io::Result<()> {
    match answer(wake) {
        Err(error) if error.kind() != io::ErrorKind::Interrupted && !is_passing(&error) => Err(error),
        _ => Ok(()),
    }
}

fn is_passing(error: &io::Error) -> bool {
    use rustix::io::Errno;
    let passing = [Errno::AGAIN, Errno::BUSY, Errno::NOMEM];
    error.raw_os_error().is_some_and(|code| passing.iter().any(|errno| errno.raw_os_error() == code))
}

impl Drop for Ring {
    /// It has ended, or somebody panicked who was told of an end, or the ring broke.
    fn drop(&mut self) {
        self.inbox.end();
        self.inbox.wake();
        loop {
            self.see_ends();
            while let Some((place, result)) = self.ends.pop_front() {
                if let Some((_, mut work)) = self.take(place) {
                    // It may be a file that was opened, which is closed with the work.
                    work.ended(result);
                    work.give_up();
                }
            }
            let is_over = self.under_way == 0;
            if is_over || self.wait().is_err() {
                let left = std::mem::take(&mut self.places).into_iter().flatten();
                left.for_each(if is_over { Work::give_up } else { Work::lose });
                if !is_over {
                    // The kernel may still write there.
                    std::mem::forget(std::mem::take(&mut self.count));
                }
                return;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs::{self, File};
    use std::mem::ManuallyDrop;
    use std::os::fd::FromRawFd;
    use std::path::PathBuf;
    use std::sync::mpsc::{Receiver, Sender};

    use base::{BlobId, ByteCount, DriveId};

    use super::*;
    use crate::files::{Files, Shared};
    use crate::queue::ReadOperation;
    use crate::uring::Parts;
    use crate::uring::workers::Workers;
    use crate::{AlignedBuffer, DriveError, ExtentId, PAGE};

    const EXTENT: ExtentId = ExtentId { blob: BlobId(1), stripe: 0, shard: 0 };

    /// A read that tells what came of it and whether its memory was lost, or panics when it is told.
    struct Read(Option<AlignedBuffer>, Sender<(Result<(), DriveError>, bool)>);

    impl ReadOperation for Read {
        fn extent(&self) -> ExtentId {
            EXTENT
        }

        fn part(&mut self, number: usize) -> Option<(ByteCount, &mut [u8])> {
            self.0.as_mut().filter(|_| number == 0).map(|memory| (ByteCount(0), memory.as_mut_slice()))
        }

        fn done(self: Box<Self>, result: Result<(), DriveError>) {
            assert!(self.0.is_some(), "on purpose");
            let _ = self.1.send((result, false));
        }

        fn lost(self: Box<Self>, error: DriveError) {
            let Read(memory, told) = *self;
            std::mem::forget(memory);
            let _ = told.send((Err(error), true));
        }
    }

    struct Bench {
        _directory: tempfile::TempDir,
        /// That of the extent.
        path: PathBuf,
        files: Arc<Files>,
        parts: Arc<Parts>,
        sender: Sender<(Result<(), DriveError>, bool)>,
        told: Receiver<(Result<(), DriveError>, bool)>,
    }

    /// An extent on a drive, and a queue whose ring is still to be made; `None`: the kernel has none.
    fn bench() -> Option<Bench> {
        probe().ok()?;
        let directory = tempfile::tempdir().unwrap();
        let shared = Shared::new(DriveId(1), File::open(directory.path()).unwrap());
        let files = Arc::new(Files { shared, path: directory.path().canonicalize().unwrap(), direct: false });
        let path = files.file(EXTENT);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, [7; PAGE]).unwrap();
        let (inbox, workers) = (Inbox::new().unwrap(), Workers::start("test", 2).unwrap());
        let (sender, told) = mpsc::channel();
        let parts = Arc::new(Parts { inbox, workers });
        Some(Bench { _directory: directory, path, files, parts, sender, told })
    }

    impl Bench {
        fn push(&self, panics: bool) {
            let memory = (!panics).then(|| AlignedBuffer::new(PAGE));
            let read = Box::new(Read(memory, self.sender.clone()));
            let reading = Reading::new(Arc::clone(&self.files), Arc::clone(&self.parts), read);
            self.parts.inbox.push(Work::Read(reading));
        }

        /// Runs a ring until it ends, in a thread of its own.
        fn run(&self, before: impl FnOnce(&Ring) + Send + 'static) -> thread::Result<()> {
            let inbox = Arc::clone(&self.parts.inbox);
            let run = move || {
                let ring = Ring::new(inbox, 8, OPERATIONS).unwrap();
                before(&ring);
                ring.run();
            };
            thread::spawn(run).join()
        }

        fn next(&self) -> (Result<(), DriveError>, bool) {
            self.told.recv_timeout(Duration::from_secs(60)).expect("it is told")
        }
    }

    /// Story: a ring ended by a panic dropped what it had untold, and left open what the kernel had opened.
    #[test]
    fn after_a_panic_all_are_told_of_an_error_and_no_file_stays_open() {
        let Some(bench) = bench() else { return };
        for panics in [true, false, false, false] {
            bench.push(panics);
        }
        assert!(bench.run(|_| ()).is_err(), "somebody panicked");
        assert!(bench.files.shared.is_suspect() && bench.parts.inbox.has_ended().is_some());
        bench.push(false);
        for _ in 0..4 {
            let (told, is_lost) = bench.next();
            assert!(matches!(told, Err(DriveError::Io { operation: "reading", .. })), "{told:?}");
            assert!(!is_lost, "the kernel has nothing of it");
        }
        let file = |entry: io::Result<fs::DirEntry>| fs::read_link(entry.ok()?.path()).ok();
        let open = fs::read_dir("/proc/self/fd").unwrap().filter_map(file);
        assert_eq!(open.filter(|path| *path == bench.path).count(), 0);
    }

    /// Story: what a ring had that broke was leaked with whoever was to be told; the pool could not close.
    #[test]
    fn when_the_ring_breaks_all_are_told_though_their_memory_is_lost() {
        let Some(bench) = bench() else { return };
        for _ in 0..3 {
            bench.push(false);
        }
        let broke = bench.run(|ring| {
            let other = File::open("/dev/null").unwrap();
            // SAFETY: the descriptor stays the ring's, and open: it is that of something else from now on.
            let mut own = ManuallyDrop::new(unsafe { OwnedFd::from_raw_fd(ring.ring.as_raw_fd()) });
            rustix::io::dup2(&other, &mut own).unwrap();
        });
        broke.expect("no panic");
        for _ in 0..3 {
            let (told, is_lost) = bench.next();
            assert!(matches!(told, Err(DriveError::Io { .. })) && is_lost, "{told:?}");
        }
        assert!(bench.files.shared.is_suspect() && bench.parts.inbox.has_ended().is_some());
    }

    /// Story: kernels from 5.1 to 5.5 give a ring, and answer each of our operations with EINVAL: every drive
    /// was suspect after its first append, and its thread span.
    #[test]
    fn a_kernel_that_lacks_an_operation_gives_no_ring() {
        if probe().is_err() {
            return;
        }
        let lacking: Operations = &[(opcode::Read::CODE, "read"), (250, "to come")];
        let refused = start("test", 2, lacking).err().expect("no kernel has it");
        assert_eq!(refused.kind(), io::ErrorKind::Unsupported);
        assert!(refused.to_string().contains("\"to come\""), "{refused}");
        start("test", 2, OPERATIONS).expect("it has these").close();
    }

    #[test]
    fn a_wake_up_that_fails_is_the_end_of_the_ring() {
        use rustix::io::Errno;
        let asked = [(8, true), (0, true)].into_iter();
        let failed = [(Errno::INTR, true), (Errno::AGAIN, true), (Errno::INVAL, false), (Errno::IO, false)];
        for (wake, again) in asked.chain(failed.map(|(errno, again)| (-errno.raw_os_error(), again))) {
            assert_eq!(is_woken(wake).is_ok(), again, "{wake}");
        }
    }
}
