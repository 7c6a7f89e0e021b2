//! Drives that recommend an order of reading (RAO): whose order is read, in pieces beyond the drive's limit,
//! and that no answer of a drive loses a file or reads one twice.

use std::sync::Arc;

use archive::{Archive, DriveFitFile, MountKind, MountLog as _, MountLogFiles, OrderFrom, OrderRecord};
use base::{BlockAddress, ByteCount, Timestamp};
use library::TapeError;
use mechanics::{DriveFit, LocateFit};

use crate::common::{Instance, all, bytes, get, migrate_all, put, stage, stop, wait_for, wait_until};
use crate::faulty::{place, set_drives};
use crate::ordering::{Answers, Script, Stretches, open_ordering};

const FILES: u64 = 48;
const FILE_BYTES: usize = 150_000;
/// Every third is wanted: 16 stretches.
const STEP: u64 = 3;
/// Stretches that the drive takes at once.
const LIMIT: usize = 5;

/// Files, one container each, on one tape, of which some are brought back once a round.
struct Bench {
    /// `None`: it is stopped.
    server: Option<Archive>,
    script: Script,
    log: Arc<MountLogFiles>,
    rounds: usize,
    /// First block of each wanted file, by block.
    places: Vec<(u64, u64)>,
    directory: tempfile::TempDir,
    instance: Instance,
}

/// What a round came to.
struct Round {
    /// What the drive was asked.
    asked: Vec<Stretches>,
    /// First blocks of the wanted files in the order in which they were read.
    read: Vec<u64>,
    /// What the mount log says.
    order: Option<OrderRecord>,
}

fn name(file: u64) -> String {
    format!("/r/{file}")
}

/// Files or containers in the lines of the queue that begin so.
fn queued(archive: &Archive, what: &str) -> usize {
    let lines = archive.queue().unwrap();
    lines.iter().filter(|line| line.what.starts_with(what)).map(|line| line.items as usize).sum()
}

impl Bench {
    fn new(from: OrderFrom) -> Self {
        let instance = Instance::with(ByteCount::mib(64), |settings| {
            settings.tape.recall_order_from = from;
            settings.library.files_mut().unwrap().drives = 1;
            for class in &mut settings.classes {
                class.copies = vec!["vault-a".to_owned()];
                // Each file is a container.
                class.large_bytes = ByteCount::kib(64);
            }
        });
        let (directory, script) = (tempfile::tempdir().unwrap(), Script::new());
        let log = Arc::new(MountLogFiles::new(directory.path()));
        let archive = open_ordering(&instance, &script, log.clone(), None);
        // In one go, so that the files stand at even distances: where a head reads through what it passes
        // hangs on them.
        set_drives(&archive, false);
        for file in 0..FILES {
            put(&archive, &name(file), &bytes(file, FILE_BYTES));
        }
        archive.migrate_now(None).unwrap();
        wait_until("all are queued", || queued(&archive, "migrate ") == FILES as usize);
        set_drives(&archive, true);
        migrate_all(&archive);
        let mut places = Vec::new();
        for file in (0..FILES).step_by(STEP as usize) {
            let [(vid, block)] = place(&archive, &name(file))[..] else { panic!("one copy") };
            assert_eq!(vid.as_str(), "KT0001", "all on one tape");
            places.push((block.0, file));
        }
        places.sort_unstable();
        let distances: Vec<u64> = places.windows(2).map(|pair| pair[1].0 - pair[0].0).collect();
        assert!(distances.iter().all(|distance| *distance == distances[0]), "{distances:?}");
        Bench { server: Some(archive), script, log, rounds: 0, places, directory, instance }
    }

    fn archive(&self) -> &Archive {
        self.server.as_ref().unwrap()
    }

    /// Stops the server and starts it again, with what is kept of drives' locates, or without.
    fn restart(&mut self, keeps: bool) {
        self.server.take().into_iter().for_each(stop);
        let file = DriveFitFile::new(self.directory.path());
        let log = self.log.clone();
        self.server = Some(open_ordering(&self.instance, &self.script, log, keeps.then_some(file)));
    }

    /// Brings the wanted files back while drives answer so. Each comes whole, and is read once.
    fn round(&mut self, answers: Answers, is_unknown: bool) -> Round {
        let is_empty = |archive: &Archive| archive.tape_drives().iter().all(|it| it.state == "empty");
        wait_until("the drives are empty", || is_empty(self.archive()));
        let evicted = self.archive().evict(&all(&["/r"])).unwrap();
        assert_eq!(evicted.refused_count, 0, "{:?}", evicted.refused);
        self.script.answer(answers, is_unknown);
        let wanted: Vec<String> = self.places.iter().map(|(_, file)| name(*file)).collect();
        // All are wanted before the tape is mounted: what comes later is not in the order that the drive is
        // asked.
        set_drives(self.archive(), false);
        let request = stage(self.archive(), &wanted.iter().map(String::as_str).collect::<Vec<_>>());
        wait_until("all are queued", || queued(self.archive(), "recall ") == wanted.len());
        set_drives(self.archive(), true);
        wait_for(self.archive(), request);
        let record = self.archive().request(request).unwrap().record;
        assert_eq!((record.done as usize, record.failed), (wanted.len(), 0));
        wait_until("the drives are empty", || is_empty(self.archive()));
        for (_, file) in &self.places {
            assert!(get(self.archive(), &name(*file)).unwrap() == bytes(*file, FILE_BYTES), "{file}");
        }
        self.archive().release(request, None).unwrap();

        let (asked, blocks) = {
            let state = self.script.lock();
            (state.asked.clone(), state.read.clone())
        };
        let mut read: Vec<u64> = blocks;
        read.retain(|block| self.places.binary_search_by_key(block, |(block, _)| *block).is_ok());
        let mut once = read.clone();
        once.sort_unstable();
        let first_blocks: Vec<u64> = self.places.iter().map(|(block, _)| *block).collect();
        assert_eq!(once, first_blocks, "each file is read once: {read:?}");
        let mut records = Vec::new();
        let recalls = &mut |record: archive::MountRecord| {
            if record.kind == MountKind::Recall {
                records.push(record);
            }
        };
        self.log.read(Timestamp(0), recalls).unwrap();
        self.rounds += 1;
        assert_eq!(records.len(), self.rounds, "one mount a round");
        Round { asked, read, order: records.pop().unwrap().order }
    }
}

fn begins(stretches: &[(BlockAddress, BlockAddress)]) -> Vec<u64> {
    stretches.iter().map(|(begin, _)| begin.0).collect()
}

/// The pieces that a drive took, one behind the other.
fn pieces(asked: &[Stretches], piece: impl Fn(Vec<u64>) -> Vec<u64>) -> Vec<u64> {
    asked.iter().filter(|it| it.len() <= LIMIT).flat_map(|it| piece(begins(it))).collect()
}

fn reversed(mut piece: Vec<u64>) -> Vec<u64> {
    piece.reverse();
    piece
}

const REVERSED: Answers = |_, asked| match asked.len() {
    count if count > LIMIT => Err(TapeError::SegmentCount { count, max: LIMIT }),
    count => Ok(Some((0..count).rev().collect())),
};

/// The same as it was asked, which is Kist's order.
const SAME: Answers = |_, asked| Ok(Some((0..asked.len()).collect()));

#[test]
fn the_cheaper_order_is_read_in_pieces_that_the_drive_takes() {
    let mut bench = Bench::new(OrderFrom::Cheaper);
    let stretches = bench.places.len();
    assert_eq!(stretches, 16);

    // The model is right: Kist's order is cheaper than its reverse.
    let round = bench.round(REVERSED, false);
    let counts: Vec<usize> = round.asked.iter().map(Vec::len).collect();
    assert_eq!(counts, [16, 5, 5, 5], "one is left, for which it is not asked");
    assert_eq!(round.read[..15], pieces(&round.asked, |piece| piece), "Kist's order");
    let order = round.order.unwrap();
    assert_eq!((order.compared, order.drives, order.failed), (3, 0, 0));
    assert!(order.own < order.drive && order.own.as_nanos() > 0, "{order:?}");

    // Nobody knows the drive: its order is read.
    let round = bench.round(REVERSED, true);
    let counts: Vec<usize> = round.asked.iter().map(Vec::len).collect();
    assert_eq!(counts, [16, 5, 5, 5]);
    assert_eq!(round.read[..15], pieces(&round.asked, reversed), "the drive's order");
    let order = round.order.unwrap();
    assert_eq!((order.compared, order.drives, order.failed), (3, 3, 0));
    assert!(order.own < order.drive, "{order:?}");

    // A drive without a limit that says the same is taken at its word, at the same cost.
    let round = bench.round(SAME, false);
    assert_eq!(round.read, begins(&round.asked[0]));
    let order = round.order.unwrap();
    assert_eq!((round.asked.len(), order.compared, order.drives, order.failed), (1, 1, 1, 0));
    assert_eq!(order.own, order.drive);
    bench.archive().close();
}

#[test]
fn no_answer_of_a_drive_loses_a_file_or_reads_one_twice() {
    let mut bench = Bench::new(OrderFrom::Drive);
    let round = bench.round(REVERSED, false);
    assert_eq!(round.read[..15], pieces(&round.asked, reversed), "the settings say so");
    let order = round.order.unwrap();
    assert_eq!((order.compared, order.drives), (3, 3));

    let wrong: [(&str, Answers); 6] = [
        ("one twice and one not at all", |_, asked| Ok(Some((0..asked.len()).map(|at| at.max(1)).collect()))),
        ("one is left out", |_, asked| Ok(Some((1..asked.len()).collect()))),
        ("one too many", |_, asked| Ok(Some((0..=asked.len()).collect()))),
        ("nothing", |_, _| Ok(Some(Vec::new()))),
        ("another limit each time", |_, asked| {
            Err(TapeError::SegmentCount { count: asked.len(), max: asked.len() - 1 })
        }),
        ("no order", |drive, _| Err(TapeError::NotAnOrder { drive: drive.clone() })),
    ];
    for (what, answers) in wrong {
        let round = bench.round(answers, false);
        let first = begins(&round.asked[0]);
        assert_eq!(round.read, first, "{what}: Kist's order");
        assert_eq!(round.order, Some(OrderRecord { failed: 1, ..OrderRecord::default() }), "{what}");
    }
    let round = bench.round(|_, _| Ok(None), false);
    assert_eq!((round.order, round.asked.len()), (None, 1), "it has none");
    bench.archive().close();
}

#[test]
fn who_wants_its_own_order_does_not_ask() {
    let mut bench = Bench::new(OrderFrom::Own);
    let round = bench.round(REVERSED, true);
    assert_eq!((round.order, round.asked.len()), (None, 0));
    bench.archive().close();
}

/// A drive that was just opened knows nothing of its locates. What it told before the stop stands until then,
/// and the order of reading goes by it.
#[test]
fn what_locates_took_is_kept_over_a_stop() {
    let mut bench = Bench::new(OrderFrom::Cheaper);
    bench.restart(true);
    let own = |bench: &mut Bench, told: Option<DriveFit>| {
        bench.script.lock().told = Some(told);
        bench.round(SAME, false).order.unwrap().own.as_secs_f64()
    };
    let by_model = own(&mut bench, None);
    assert_eq!(bench.archive().drive_fits("vdrive0").unwrap(), [], "too few locates tell");
    let locate = LocateFit { fixed: 2.0, way: 2.0, samples: 100 };
    let told = DriveFit { locate, error: 0.05 };
    let fitted = own(&mut bench, Some(told));
    assert!(fitted > by_model * 1.2, "{fitted} beside {by_model}");
    let kept = bench.archive().drive_fits("vdrive0").unwrap();
    let [record] = &kept[..] else { panic!("{kept:?}") };
    assert_eq!((record.serial.as_str(), record.drive.as_str(), record.fit()), ("vdrive0", "LTO-8", told));

    bench.restart(true);
    assert_eq!(bench.archive().drive_fits("vdrive0").unwrap(), kept);
    let after = own(&mut bench, None);
    assert!((after / fitted - 1.0).abs() < 0.001, "{after} beside {fitted}");
    bench.restart(false);
    let without = own(&mut bench, None);
    assert!((without / by_model - 1.0).abs() < 0.001, "{without} beside {by_model}");
    bench.archive().close();
}
