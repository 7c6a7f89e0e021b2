//! What `drive/tests/queue.rs` demands of a queue.

use std::sync::mpsc::{self, Receiver, Sender};
use std::sync::{Arc, Mutex};

use base::ByteCount;
use drive::{
    DriveError, DriveQueue, ExtentId, ObjectDrive, PAGE, QueueEngine, ReadOperation, WriteOperation,
    WriteStep,
};

use crate::serving::Served;
use crate::{count_at_rest, extent, fresh, open};

type Told = (usize, Result<(), DriveError>, Vec<Vec<u8>>);

struct Read {
    number: usize,
    extent: ExtentId,
    parts: Vec<(u64, Vec<u8>)>,
    told: Sender<Told>,
}

impl ReadOperation for Read {
    fn extent(&self) -> ExtentId {
        self.extent
    }

    fn part(&mut self, number: usize) -> Option<(ByteCount, &mut [u8])> {
        self.parts.get_mut(number).map(|(at, into)| (ByteCount(*at), into.as_mut_slice()))
    }

    fn done(self: Box<Self>, result: Result<(), DriveError>) {
        let parts = self.parts.into_iter().map(|(_, part)| part).collect();
        let _ = self.told.send((self.number, result, parts));
    }
}

pub enum Step {
    Append(Arc<Vec<u8>>),
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
            Step::Append(bytes) => WriteStep::Append(bytes),
            Step::Sync => WriteStep::Sync,
            Step::Seal => WriteStep::Seal,
        }
    }

    fn done(self: Box<Self>, result: Result<(), DriveError>) {
        let _ = self.told.send((self.number, result, Vec::new()));
    }
}

pub struct Bench {
    pub served: Served,
    pub drive: Arc<dyn ObjectDrive>,
    pub queue: Arc<dyn DriveQueue>,
    sender: Sender<Told>,
    told: Receiver<Told>,
}

impl Bench {
    pub fn new() -> Bench {
        let (served, drive) = fresh();
        let drive: Arc<dyn ObjectDrive> = Arc::new(drive);
        let queue = drive.queue().unwrap();
        let (sender, told) = mpsc::channel();
        Bench { served, drive, queue, sender, told }
    }

    pub fn write(&self, number: usize, step: Step) -> Box<dyn WriteOperation> {
        Box::new(Write { number, step, told: self.sender.clone() })
    }

    fn read(&self, number: usize, extent: ExtentId, at: &[u64], length: usize) {
        let parts = at.iter().map(|at| (*at, vec![0; length])).collect();
        self.queue.read(Box::new(Read { number, extent, parts, told: self.sender.clone() }));
    }

    pub fn next(&self) -> Told {
        self.told.recv().expect("it is told")
    }
}

pub fn filled(pages: usize, fill: u8) -> Arc<Vec<u8>> {
    Arc::new(vec![fill; pages * PAGE])
}

#[test]
fn steps_of_an_extent_are_done_and_told_of_in_order_and_read_back() {
    let bench = Bench::new();
    assert_eq!((bench.queue.engine(), bench.queue.depth()), (QueueEngine::Own, 16));
    let ids: Vec<ExtentId> = (1..=8).map(|blob| extent(blob, 1)).collect();
    let mut extents: Vec<_> = ids.iter().map(|id| bench.queue.extent(*id, ByteCount(0), false)).collect();
    for round in 0..5usize {
        for (at, extent) in extents.iter_mut().enumerate() {
            let fill = (at * 10 + round) as u8 + 1;
            let step = match round {
                2 => Step::Sync,
                4 => Step::Seal,
                _ => Step::Append(filled(257, fill)),
            };
            extent.submit(bench.write(at * 10 + round, step));
        }
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
        assert_eq!(bench.drive.length(*id).unwrap(), ByteCount(3 * 257 * PAGE as u64));
        // Three parts, over borders of pieces.
        let page = PAGE as u64;
        bench.read(at, *id, &[0, 256 * page, 513 * page], 3 * PAGE);
        let (number, result, parts) = bench.next();
        result.unwrap();
        let fills = |part: &[u8]| part.chunks(PAGE).map(|page| page[0]).collect::<Vec<u8>>();
        let of = |round: usize| (at * 10 + round) as u8 + 1;
        assert_eq!(number, at);
        assert_eq!(fills(&parts[0]), [of(0); 3]);
        assert_eq!(fills(&parts[1]), [of(0), of(1), of(1)]);
        assert_eq!(fills(&parts[2]), [of(1), of(3), of(3)]);
    }
    // All of it was synced.
    bench.served.crash(|_| false);
    let other = open(&bench.served);
    for id in &ids {
        assert_eq!(other.length(*id).unwrap(), ByteCount(3 * 257 * PAGE as u64));
        other.read_at(*id, ByteCount(0), &mut vec![0; 3 * 257 * PAGE]).unwrap();
    }
}

#[test]
fn what_is_not_there_is_not_read_and_what_failed_takes_no_more() {
    let bench = Bench::new();
    bench.read(1, extent(9, 1), &[0], PAGE);
    assert!(matches!(bench.next(), (1, Err(DriveError::NotFound { .. }), _)));
    bench.drive.create(extent(1, 1), ByteCount(0)).unwrap().seal().unwrap();
    bench.read(2, extent(1, 1), &[0], PAGE);
    assert!(matches!(bench.next(), (2, Err(DriveError::Truncated { .. }), _)));
    let before = bench.served.drive(|drive| drive.count());
    let mut again = bench.queue.extent(extent(1, 1), ByteCount(0), false);
    for number in 3..6 {
        let step = if number == 5 { Step::Seal } else { Step::Append(filled(300, 1)) };
        again.submit(bench.write(number, step));
    }
    assert!(matches!(bench.next(), (3, Err(DriveError::Exists { .. }), _)));
    assert!(matches!(bench.next(), (4, Err(DriveError::Poisoned { .. }), _)));
    assert!(matches!(bench.next(), (5, Err(DriveError::Poisoned { .. }), _)));
    drop(again);
    assert_eq!(count_at_rest(&bench.served, &*bench.drive, before), before, "its pieces are gone");
    bench.drive.delete(extent(1, 1)).unwrap();
}

#[test]
fn many_at_once_from_many_threads_are_all_done() {
    let bench = Bench::new();
    let ids: Arc<Mutex<Vec<u64>>> = Arc::new(Mutex::new((0..40).collect()));
    let threads: Vec<_> = (0..4)
        .map(|_| {
            let (ids, queue, drive) = (Arc::clone(&ids), Arc::clone(&bench.queue), Arc::clone(&bench.drive));
            std::thread::spawn(move || {
                let (told, next) = mpsc::channel();
                loop {
                    let Some(blob) = ids.lock().unwrap().pop() else { return };
                    let mut writer = queue.extent(extent(blob, 0), ByteCount(0), false);
                    for number in 0..4 {
                        let step =
                            if number == 3 { Step::Seal } else { Step::Append(filled(65, blob as u8)) };
                        writer.submit(Box::new(Write { number, step, told: told.clone() }));
                    }
                    for number in 0..4 {
                        let (told, result, _) = next.recv().unwrap();
                        assert_eq!(told, number);
                        result.unwrap();
                    }
                    let mut read = vec![0; 195 * PAGE];
                    drive.read_at(extent(blob, 0), ByteCount(0), &mut read).unwrap();
                    assert!(read.iter().all(|byte| *byte == blob as u8));
                }
            })
        })
        .collect();
    for thread in threads {
        thread.join().unwrap();
    }
    assert_eq!(bench.drive.list(None, 100).unwrap().len(), 40);
}

#[test]
fn what_was_handed_over_is_done_although_all_is_dropped() {
    let bench = Bench::new();
    let mut writer = bench.queue.extent(extent(1, 1), ByteCount(0), false);
    writer.submit(bench.write(0, Step::Append(filled(700, 7))));
    writer.submit(bench.write(1, Step::Seal));
    let Bench { served, drive, queue, told, .. } = bench;
    drop((writer, drive, queue));
    for number in 0..2 {
        let (told, result, _) = told.recv().unwrap();
        assert_eq!(told, number);
        result.unwrap();
    }
    assert_eq!(open(&served).length(extent(1, 1)).unwrap(), ByteCount(700 * PAGE as u64));
}
