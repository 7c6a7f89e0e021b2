//! The queues of a directory drive against a real file system: what the trait promises holds for the one that
//! blocks and the one over `io_uring`.

use std::fs;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use base::{BlobId, ByteCount, DriveId, Uuid};
use drive::{
    AlignedBuffer, BlockingQueue, DirectIo, DirectoryDrive, DriveError, DriveIo, DriveQueue, ExtentId,
    ObjectDrive, PAGE, QueueEngine, ReadOperation, WriteOperation, WriteStep,
};

const INSTANCE: Uuid = Uuid([1; 16]);
const ID: DriveId = DriveId(4);
/// Long enough for a disk that is busy with other tests.
const PATIENCE: Duration = Duration::from_secs(30);

type Told = (usize, Result<(), DriveError>, Vec<AlignedBuffer>);

struct Read {
    number: usize,
    extent: ExtentId,
    parts: Vec<(u64, AlignedBuffer)>,
    /// Bytes of each part that are left out at its beginning, so that it lies at an odd address.
    skip: usize,
    told: Sender<Told>,
}

impl ReadOperation for Read {
    fn extent(&self) -> ExtentId {
        self.extent
    }

    fn part(&mut self, number: usize) -> Option<(ByteCount, &mut [u8])> {
        let skip = self.skip;
        self.parts.get_mut(number).map(|(at, into)| (ByteCount(*at), &mut into.as_mut_slice()[skip..]))
    }

    fn done(self: Box<Self>, result: Result<(), DriveError>) {
        let parts = self.parts.into_iter().map(|(_, part)| part).collect();
        let _ = self.told.send((self.number, result, parts));
    }
}

enum Step {
    /// These bytes but for so many at the beginning.
    Append(Arc<AlignedBuffer>, usize),
    Sync,
    Seal,
}

struct Write {
    number: usize,
    step: Step,
    told: Sender<Told>,
}

impl WriteOperation for Write {
    fn step(&self) -> WriteStep<'_> {
        match &self.step {
            Step::Append(bytes, skip) => WriteStep::Append(&bytes.as_slice()[*skip..]),
            Step::Sync => WriteStep::Sync,
            Step::Seal => WriteStep::Seal,
        }
    }

    fn done(self: Box<Self>, result: Result<(), DriveError>) {
        let _ = self.told.send((self.number, result, Vec::new()));
    }
}

struct Bench {
    directory: tempfile::TempDir,
    drive: Arc<dyn ObjectDrive>,
    queue: Arc<dyn DriveQueue>,
    sender: Sender<Told>,
    told: Receiver<Told>,
}

fn open(path: &Path, io: DriveIo) -> Arc<dyn ObjectDrive> {
    let drive = DirectoryDrive::open(path, INSTANCE, ID, DirectIo::Auto).unwrap();
    Arc::new(drive.driven_by(io).unwrap())
}

impl Bench {
    fn new(io: DriveIo) -> Bench {
        let directory = tempfile::tempdir().unwrap();
        DirectoryDrive::format(directory.path(), INSTANCE, ID).unwrap();
        let drive = open(directory.path(), io);
        let queue = drive.queue().unwrap_or_else(|| Arc::new(BlockingQueue::new(Arc::clone(&drive))));
        let (sender, told) = mpsc::channel();
        Bench { directory, drive, queue, sender, told }
    }

    /// Each kind that this kernel has.
    fn all() -> Vec<Bench> {
        let uring = drive::io_uring().map(|()| Bench::new(DriveIo::Uring));
        [Ok(Bench::new(DriveIo::Threads)), uring].into_iter().flatten().collect()
    }

    fn write(&self, number: usize, step: Step) -> Box<Write> {
        Box::new(Write { number, step, told: self.sender.clone() })
    }

    fn read(&self, number: usize, extent: ExtentId, at: &[u64], length: usize, skip: usize) {
        let parts = at.iter().map(|at| (*at, AlignedBuffer::new(length + skip))).collect();
        self.queue.read(Box::new(Read { number, extent, parts, skip, told: self.sender.clone() }));
    }

    fn next(&self) -> Told {
        self.told.recv_timeout(PATIENCE).expect("it is told")
    }

    /// Writes and seals an extent.
    fn put(&self, id: ExtentId, pages: usize, fill: u8) {
        let mut extent = self.queue.extent(id, ByteCount(0), false);
        extent.submit(self.write(0, Step::Append(filled(pages, fill), 0)));
        extent.submit(self.write(1, Step::Seal));
        for number in 0..2 {
            let (told, result, _) = self.next();
            assert_eq!(told, number);
            result.unwrap();
        }
    }

    fn file(&self, id: ExtentId) -> std::path::PathBuf {
        self.directory.path().join(format!("extents/{:02x}/{id}", id.blob.0 & 0xff))
    }

    fn engine(&self) -> QueueEngine {
        self.queue.engine()
    }
}

fn extent(blob: u64) -> ExtentId {
    ExtentId { blob: BlobId(blob), stripe: 0, shard: 1 }
}

fn filled(pages: usize, fill: u8) -> Arc<AlignedBuffer> {
    let mut buffer = AlignedBuffer::new(pages * PAGE);
    buffer.as_mut_slice().fill(fill);
    Arc::new(buffer)
}

#[test]
fn the_kernel_here_has_io_uring_or_says_why_not() {
    match drive::io_uring() {
        Ok(()) => assert_eq!(Bench::new(DriveIo::Uring).engine(), QueueEngine::IoUring),
        Err(error) => {
            let directory = tempfile::tempdir().unwrap();
            DirectoryDrive::format(directory.path(), INSTANCE, ID).unwrap();
            let drive = DirectoryDrive::open(directory.path(), INSTANCE, ID, DirectIo::Auto).unwrap();
            let refused = drive.driven_by(DriveIo::Uring).err().unwrap().to_string();
            assert!(refused.contains("io = \"auto\"") && refused.contains(&error.to_string()), "{refused}");
        }
    }
    assert_eq!(Bench::new(DriveIo::Threads).engine(), QueueEngine::Threads);
}

#[test]
fn steps_of_an_extent_are_done_and_told_of_in_order_and_read_back() {
    for bench in Bench::all() {
        let ids: Vec<ExtentId> = (1..=8).map(extent).collect();
        let mut extents: Vec<_> = ids.iter().map(|id| bench.queue.extent(*id, ByteCount(0), false)).collect();
        // Each of 12 pages, then a page at an odd address, with a sync in between.
        for round in 0..4usize {
            for (at, extent) in extents.iter_mut().enumerate() {
                let fill = (at * 10 + round) as u8 + 1;
                let step = match round {
                    2 => Step::Sync,
                    3 => {
                        let mut odd = AlignedBuffer::new(PAGE + 1);
                        odd.as_mut_slice().fill(fill);
                        Step::Append(Arc::new(odd), 1)
                    }
                    _ => Step::Append(filled(6, fill), 0),
                };
                extent.submit(bench.write(at * 10 + round, step));
            }
        }
        for (at, extent) in extents.iter_mut().enumerate() {
            extent.submit(bench.write(at * 10 + 4, Step::Seal));
        }
        let mut last = [-1i32; 8];
        for _ in 0..5 * 8 {
            let (number, result, _) = bench.next();
            result.unwrap();
            let (at, round) = (number / 10, (number % 10) as i32);
            assert_eq!(last[at] + 1, round, "in the order of each extent");
            last[at] = round;
        }
        for (at, id) in ids.iter().enumerate() {
            let bytes = fs::read(bench.file(*id)).unwrap();
            let fills = [(6, 0u8), (6, 1), (1, 3)];
            let expected: Vec<u8> = fills
                .iter()
                .flat_map(|(pages, round)| vec![(at * 10) as u8 + round + 1; pages * PAGE])
                .collect();
            assert!(bytes == expected, "{id}");
            // In parts, at even and at odd places and addresses.
            for (skip, length, places) in
                [(0, 2 * PAGE, [0, 4 * PAGE as u64]), (1, 4097, [3, 40_000]), (0, PAGE, [PAGE as u64, 5])]
            {
                bench.read(at, *id, &places, length, skip);
                let (_, result, parts) = bench.next();
                result.unwrap();
                for (place, part) in places.iter().zip(parts) {
                    let place = *place as usize;
                    assert!(part.as_slice()[skip..] == expected[place..place + length], "{place} of {id}");
                }
            }
        }
    }
}

#[test]
fn what_is_not_there_is_not_read() {
    for bench in Bench::all() {
        bench.put(extent(7), 3, 9);
        bench.read(1, extent(7), &[0, 2 * PAGE as u64], 2 * PAGE, 0);
        let (_, result, parts) = bench.next();
        let end = ByteCount(4 * PAGE as u64);
        assert!(matches!(result, Err(DriveError::Truncated { end: told, .. }) if told == end), "{result:?}");
        assert!(parts[0].as_slice().iter().all(|byte| *byte == 9));
        bench.read(2, extent(7), &[PAGE as u64 * 3], 10, 0);
        assert!(matches!(bench.next().1, Err(DriveError::Truncated { .. })));
        bench.read(3, extent(8), &[0], PAGE, 0);
        assert!(matches!(bench.next().1, Err(DriveError::NotFound { .. })));
        assert!(!bench.drive.status().unwrap().suspect);
    }
}

#[test]
fn what_failed_takes_no_more_and_tells_who_is_to_blame() {
    for bench in Bench::all() {
        bench.put(extent(7), 1, 9);
        let is_kept = |bench: &Bench| fs::read(bench.file(extent(7))).unwrap() == vec![9; PAGE];
        // It is there already.
        let mut second = bench.queue.extent(extent(7), ByteCount(0), false);
        second.submit(bench.write(1, Step::Append(filled(1, 1), 0)));
        second.submit(bench.write(2, Step::Seal));
        assert!(matches!(bench.next(), (1, Err(DriveError::Exists { .. }), _)));
        assert!(matches!(bench.next(), (2, Err(DriveError::Poisoned { .. }), _)));
        // No whole pages.
        let mut odd = bench.queue.extent(extent(8), ByteCount(0), false);
        odd.submit(bench.write(3, Step::Append(filled(1, 1), 5)));
        odd.submit(bench.write(4, Step::Sync));
        assert!(matches!(bench.next(), (3, Err(DriveError::Unaligned { length: 4091, .. }), _)));
        assert!(matches!(bench.next(), (4, Err(DriveError::Poisoned { .. }), _)));
        // More than any file system has.
        let mut large = bench.queue.extent(extent(9), ByteCount(8 << 40), false);
        large.submit(bench.write(5, Step::Append(filled(1, 1), 0)));
        assert!(matches!(bench.next(), (5, Err(DriveError::Full { .. }), _)));
        assert!(!bench.file(extent(9)).exists() && is_kept(&bench));
        assert!(!bench.drive.status().unwrap().suspect, "none of this is the fault of the drive");
    }
}

/// What is acknowledged without a name is lost with the last who has it open.
#[test]
fn an_extent_that_lost_its_name_is_not_acknowledged() {
    for bench in Bench::all() {
        for (blob, step) in [(1, Step::Sync), (2, Step::Seal)] {
            let mut written = bench.queue.extent(extent(blob), ByteCount(0), false);
            written.submit(bench.write(1, Step::Append(filled(1, 1), 0)));
            bench.next().1.unwrap();
            fs::remove_file(bench.file(extent(blob))).unwrap();
            written.submit(bench.write(2, step));
            assert!(matches!(bench.next(), (2, Err(DriveError::Io { operation: "sync", .. }), _)));
            written.submit(bench.write(3, Step::Append(filled(1, 1), 0)));
            assert!(matches!(bench.next(), (3, Err(DriveError::Poisoned { .. }), _)));
        }
        assert!(bench.drive.status().unwrap().suspect);
    }
}

#[test]
fn a_replacement_takes_the_place_when_it_is_sealed_and_leaves_nothing_else() {
    for bench in Bench::all() {
        bench.put(extent(7), 2, 9);
        let replacements = || fs::read_dir(bench.directory.path().join("replacements")).unwrap().count();
        let mut dropped = bench.queue.extent(extent(7), ByteCount(0), true);
        dropped.submit(bench.write(1, Step::Append(filled(1, 1), 0)));
        dropped.submit(bench.write(2, Step::Sync));
        assert!((bench.next().1.is_ok(), bench.next().1.is_ok()) == (true, true));
        assert_eq!(replacements(), 1);
        assert!(fs::read(bench.file(extent(7))).unwrap() == vec![9; 2 * PAGE]);
        let mut next = bench.queue.extent(extent(7), ByteCount::mib(1), true);
        next.submit(bench.write(3, Step::Append(filled(1, 3), 0)));
        next.submit(bench.write(4, Step::Seal));
        assert!((bench.next().1.is_ok(), bench.next().1.is_ok()) == (true, true));
        assert!(fs::read(bench.file(extent(7))).unwrap() == vec![3; PAGE]);
        drop((dropped, next));
        // What is dropped goes when the thread that told of it has let it go.
        let is_gone = (0..1_000).any(|_| {
            std::thread::sleep(Duration::from_millis(u64::from(replacements() > 0)));
            replacements() == 0
        });
        assert!(is_gone);
        let found = fs::metadata(bench.file(extent(7))).unwrap();
        assert!(std::os::unix::fs::MetadataExt::blocks(&found) <= 16, "what was reserved is given back");
    }
}

#[test]
fn many_at_once_from_many_threads_are_all_done() {
    let Some(bench) = Bench::all().pop() else { return };
    bench.put(extent(1), 64, 5);
    std::thread::scope(|scope| {
        for thread in 0..4u64 {
            let queue = &bench.queue;
            scope.spawn(move || {
                let (sender, told) = mpsc::channel();
                let mut extents: Vec<_> = (0..2)
                    .map(|n| queue.extent(extent(100 + thread * 2 + n), ByteCount::kib(512), false))
                    .collect();
                for round in 0..64usize {
                    let parts = vec![((round as u64) * PAGE as u64, AlignedBuffer::new(PAGE))];
                    let told = sender.clone();
                    let number = round;
                    queue.read(Box::new(Read { number, extent: extent(1), parts, skip: 0, told }));
                    for written in &mut extents {
                        let step = Step::Append(filled(1, round as u8), 0);
                        let told = sender.clone();
                        written.submit(Box::new(Write { number: 1_000 + round, step, told }));
                    }
                }
                for written in &mut extents {
                    let told = sender.clone();
                    written.submit(Box::new(Write { number: 2_000, step: Step::Seal, told }));
                }
                for _ in 0..64 * 3 + 2 {
                    let (number, result, parts) = told.recv_timeout(PATIENCE).unwrap();
                    result.unwrap();
                    let is_right = parts.iter().all(|part| part.as_slice().iter().all(|byte| *byte == 5));
                    assert!(is_right, "read {number}");
                }
            });
        }
    });
    for blob in 100..108 {
        let bytes = fs::read(bench.file(extent(blob))).unwrap();
        let is_right = |(at, page): (usize, &[u8])| page.iter().all(|byte| usize::from(*byte) == at);
        assert!(bytes.len() == 64 * PAGE && bytes.chunks(PAGE).enumerate().all(is_right), "{blob}");
    }
}

#[test]
fn what_was_handed_over_is_done_although_all_is_dropped_and_then_the_drive_is_free() {
    for Bench { directory, drive, queue, sender, told } in Bench::all() {
        for round in 0..20u64 {
            let mut written = queue.extent(extent(round), ByteCount(0), false);
            for step in
                [Step::Append(filled(16, 4), 0), Step::Sync, Step::Append(filled(16, 4), 0), Step::Seal]
            {
                written.submit(Box::new(Write { number: 0, step, told: sender.clone() }));
            }
        }
        let io = if queue.engine() == QueueEngine::IoUring { DriveIo::Uring } else { DriveIo::Threads };
        drop((drive, queue, sender));
        let mut count = 0;
        loop {
            match told.recv_timeout(PATIENCE) {
                Ok((_, result, _)) => result.unwrap(),
                Err(RecvTimeoutError::Disconnected) => break,
                Err(RecvTimeoutError::Timeout) => panic!("it is told"),
            }
            count += 1;
        }
        assert_eq!(count, 80);
        let again = open(directory.path(), io);
        assert_eq!(again.list(None, 100).unwrap().len(), 20);
        assert_eq!(again.length(extent(3)).unwrap(), ByteCount(32 * PAGE as u64));
    }
}

/// An operation that panics when it is told of its end, and one that counts that it was dropped.
struct Panics;
struct Counts(Arc<AtomicUsize>, Mutex<AlignedBuffer>);

impl ReadOperation for Panics {
    fn extent(&self) -> ExtentId {
        extent(1)
    }
    fn part(&mut self, _: usize) -> Option<(ByteCount, &mut [u8])> {
        None
    }
    fn done(self: Box<Self>, _: Result<(), DriveError>) {
        panic!("on purpose");
    }
}

impl ReadOperation for Counts {
    fn extent(&self) -> ExtentId {
        extent(1)
    }
    fn part(&mut self, number: usize) -> Option<(ByteCount, &mut [u8])> {
        (number == 0).then(|| (ByteCount(0), self.1.get_mut().unwrap().as_mut_slice()))
    }
    fn done(self: Box<Self>, result: Result<(), DriveError>) {
        result.unwrap();
    }
}

impl Drop for Counts {
    fn drop(&mut self) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

#[test]
fn a_panic_of_who_is_told_ends_the_ring_and_nobody_waits_for_what_it_had() {
    let Ok(()) = drive::io_uring() else { return };
    let bench = Bench::new(DriveIo::Uring);
    bench.put(extent(1), 16, 5);
    let dropped = Arc::new(AtomicUsize::new(0));
    for number in 0..30 {
        if number == 15 {
            bench.queue.read(Box::new(Panics));
        }
        let memory = Mutex::new(AlignedBuffer::new(16 * PAGE));
        bench.queue.read(Box::new(Counts(Arc::clone(&dropped), memory)));
    }
    let are_all = (0..10_000).any(|_| {
        std::thread::sleep(Duration::from_millis(1));
        dropped.load(Ordering::SeqCst) == 30
    });
    assert!(are_all, "told or dropped: {}", dropped.load(Ordering::SeqCst));
    // What comes now fails, and the drive does not work: no probe takes it up again.
    let does_not_work = (0..10_000).any(|_| {
        std::thread::sleep(Duration::from_millis(1));
        matches!(bench.drive.probe(), Err(DriveError::Probe { .. }))
    });
    let why = bench.drive.probe().err().map(|error| error.to_string());
    assert!(why.is_some_and(|why| why.contains("somebody panicked") && why.contains("restart the server")));
    assert!(does_not_work && bench.drive.status().unwrap().suspect);
    bench.read(1, extent(1), &[0], PAGE, 0);
    assert!(matches!(bench.next(), (1, Err(DriveError::Io { operation: "reading", .. }), _)));
    let mut written = bench.queue.extent(extent(2), ByteCount(0), false);
    written.submit(bench.write(2, Step::Append(filled(1, 1), 0)));
    written.submit(bench.write(3, Step::Seal));
    assert!(matches!(bench.next(), (2, Err(DriveError::Io { operation: "write", .. }), _)));
    assert!(matches!(bench.next(), (3, Err(DriveError::Poisoned { .. }), _)));
}

/// An operation that keeps the thread that tells it until it may go on.
struct Keeps(Step, Sender<Told>, Receiver<()>);

impl WriteOperation for Keeps {
    fn step(&self) -> WriteStep<'_> {
        match &self.0 {
            Step::Append(bytes, skip) => WriteStep::Append(&bytes.as_slice()[*skip..]),
            Step::Sync => WriteStep::Sync,
            Step::Seal => WriteStep::Seal,
        }
    }

    fn done(self: Box<Self>, result: Result<(), DriveError>) {
        let _ = self.1.send((0, result, Vec::new()));
        let _ = self.2.recv();
    }
}

/// Story: a replacement was given up just after an append had been told. The next attempt had the same
/// temporary name, and the writer of the one before removed it: a good drive became suspect.
#[test]
fn a_replacement_that_is_given_up_does_not_touch_the_next_one() {
    for bench in Bench::all().into_iter().filter(|bench| bench.engine() == QueueEngine::IoUring) {
        bench.put(extent(7), 2, 9);
        let (go_on, may_go_on) = mpsc::channel();
        let mut first = bench.queue.extent(extent(7), ByteCount(0), true);
        let step = Step::Sync;
        first.submit(bench.write(1, Step::Append(filled(1, 1), 0)));
        bench.next().1.unwrap();
        first.submit(Box::new(Keeps(step, bench.sender.clone(), may_go_on)));
        bench.next().1.unwrap();
        let mut next = bench.queue.extent(extent(7), ByteCount(0), true);
        next.submit(bench.write(2, Step::Append(filled(1, 3), 0)));
        bench.next().1.unwrap();
        // Now the thread that told of the first lets its writer go.
        drop(first);
        drop(go_on);
        let replacements = || fs::read_dir(bench.directory.path().join("replacements")).unwrap().count();
        let is_gone = (0..10_000).any(|_| {
            std::thread::sleep(Duration::from_millis(1));
            replacements() < 2
        });
        assert!(is_gone);
        next.submit(bench.write(3, Step::Seal));
        bench.next().1.unwrap();
        assert!(fs::read(bench.file(extent(7))).unwrap() == vec![3; PAGE]);
        assert!(!bench.drive.status().unwrap().suspect);
    }
}

/// Story: the lock of the directory outlived a pool that had been closed by a moment.
#[test]
fn who_is_told_of_the_last_step_finds_nothing_of_the_drive_held() {
    for (round, last) in [(1, Step::Seal), (2, Step::Append(filled(1, 2), 0)), (3, Step::Sync)] {
        let Some(bench) = Bench::all().into_iter().find(|bench| bench.engine() == QueueEngine::IoUring)
        else {
            return;
        };
        let Bench { directory, drive, queue, sender, told } = bench;
        let (go_on, may_go_on) = mpsc::channel();
        let mut written = queue.extent(extent(round), ByteCount(0), false);
        // Given up while the first step is told of: nothing comes behind the last.
        let (begin, may_begin) = mpsc::channel();
        let first = Keeps(Step::Append(filled(1, 1), 0), sender.clone(), may_begin);
        written.submit(Box::new(first));
        told.recv_timeout(PATIENCE).unwrap().1.unwrap();
        written.submit(Box::new(Keeps(last, sender, may_go_on)));
        drop((written, drive, queue));
        drop(begin);
        told.recv_timeout(PATIENCE).unwrap().1.unwrap();
        let again = DirectoryDrive::open(directory.path(), INSTANCE, ID, DirectIo::Auto);
        again.expect("its lock is free");
        drop(go_on);
    }
}

/// An operation that tells on which thread it was told of.
struct Tells(Option<AlignedBuffer>, ExtentId, Sender<(bool, std::thread::ThreadId)>);

impl ReadOperation for Tells {
    fn extent(&self) -> ExtentId {
        self.1
    }
    fn part(&mut self, number: usize) -> Option<(ByteCount, &mut [u8])> {
        self.0.as_mut().filter(|_| number == 0).map(|memory| (ByteCount(0), memory.as_mut_slice()))
    }
    fn done(self: Box<Self>, result: Result<(), DriveError>) {
        let _ = self.2.send((result.is_ok(), std::thread::current().id()));
    }
}

impl WriteOperation for Tells {
    fn step(&self) -> WriteStep<'_> {
        self.0.as_ref().map_or(WriteStep::Sync, |bytes| WriteStep::Append(bytes.as_slice()))
    }
    fn done(self: Box<Self>, result: Result<(), DriveError>) {
        let _ = self.2.send((result.is_ok(), std::thread::current().id()));
    }
}

/// Story: whoever is told of a failed read looks at the drive, which blocks; and a replacement that was given
/// up was removed. Both held up all that the ring of the drive had.
#[test]
fn the_thread_of_the_ring_does_nothing_that_blocks() {
    let Ok(()) = drive::io_uring() else { return };
    let bench = Bench::new(DriveIo::Uring);
    bench.put(extent(1), 1, 5);
    let (sender, told) = mpsc::channel();
    let next = || told.recv_timeout(PATIENCE).unwrap();
    let operation = |id| Box::new(Tells(Some(AlignedBuffer::new(PAGE)), id, sender.clone()));
    bench.queue.read(operation(extent(1)));
    let (is_read, ring) = next();
    assert!(is_read);
    bench.queue.read(operation(extent(2)));
    let (is_read, other) = next();
    assert!(!is_read && other != ring);

    let mut given_up = bench.queue.extent(extent(1), ByteCount(0), true);
    let (go_on, may_go_on) = mpsc::channel();
    let first = Keeps(Step::Append(filled(1, 1), 0), bench.sender.clone(), may_go_on);
    given_up.submit(Box::new(first));
    bench.next().1.unwrap();
    given_up.submit(operation(extent(1)));
    drop(given_up);
    drop(go_on);
    let (is_written, other) = next();
    assert!(is_written && other != ring);
    assert_eq!(fs::read_dir(bench.directory.path().join("replacements")).unwrap().count(), 0);
}
