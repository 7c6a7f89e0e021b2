//! Both engines on files: what is moved, what is checked, what is counted.

mod burn_in;

use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use base::ByteCount;
use disk_load::{
    Access, Contents, DEPTH_MAX, Engine, EngineError, FAULTS_MAX, Fault, Load, Measured, Mix, PAGE, Shape,
    Stamp, Target, Until, Workload, Wrong, is_usable, run,
};
use tempfile::TempDir;

const RUN: Stamp = Stamp(4711);
const BLOCK: u64 = 8192;
const BLOCKS: u64 = 256;

/// Those that the kernel lets us have: io_uring may be forbidden where tests run.
fn engines() -> Vec<Engine> {
    let all = [Engine::IoUring, Engine::Threads];
    let usable: Vec<Engine> = all.into_iter().filter(|engine| is_usable(*engine).is_ok()).collect();
    assert!(usable.contains(&Engine::Threads), "threads are always there");
    usable
}

struct Bed {
    directory: TempDir,
    file: File,
}

impl Bed {
    /// A file in which nothing is.
    fn new() -> Bed {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("file");
        File::create(&path).unwrap().set_len(BLOCK * BLOCKS).unwrap();
        let file = File::options().read(true).write(true).open(&path).unwrap();
        Bed { directory, file }
    }

    /// Written once from the beginning to the end.
    fn filled(engine: Engine, contents: Contents) -> Bed {
        let bed = Bed::new();
        let load = bed.load("write", Access::Sequential, contents, Until::Operations(BLOCKS));
        let measured = run(engine, load).unwrap();
        assert_eq!((measured.write.bytes, measured.faults.count()), (BLOCK * BLOCKS, 0));
        bed
    }

    fn load(&self, mix: &str, access: Access, contents: Contents, until: Until) -> Load<'_> {
        static NEVER: AtomicBool = AtomicBool::new(false);
        let shape = Shape {
            block: ByteCount(BLOCK),
            mix: Mix::parse(mix).unwrap(),
            access,
            begin: ByteCount(0),
            length: ByteCount(BLOCK * BLOCKS),
        };
        let workload = Workload::new(shape, 3).unwrap();
        Load { file: &self.file, workload, contents, depth: 16, until, stop: &NEVER }
    }

    /// Reads all of it once.
    fn read(&self, engine: Engine, contents: Contents) -> Measured {
        run(engine, self.load("read", Access::Sequential, contents, Until::Operations(BLOCKS))).unwrap()
    }

    fn bytes(&self) -> Vec<u8> {
        fs::read(self.directory.path().join("file")).unwrap()
    }
}

fn only_fault(measured: &Measured) -> (Fault, u64, u64) {
    assert_eq!(measured.faults.0.len(), 1, "{measured:?}");
    let (fault, seen) = measured.faults.0.first_key_value().unwrap();
    (*fault, seen.count, seen.first.0)
}

#[test]
fn what_is_written_is_read_and_known_again() {
    for engine in engines() {
        for contents in [Contents::Stamped(RUN), Contents::Painted(RUN)] {
            let bed = Bed::filled(engine, contents);
            for (number, page) in bed.bytes().chunks(PAGE).enumerate() {
                assert_eq!(
                    RUN.check(page, ByteCount((number * PAGE) as u64)),
                    Ok(()),
                    "{engine} page {number}"
                );
            }
            let measured = bed.read(engine, contents);
            assert_eq!((measured.read.bytes, measured.faults.count()), (BLOCK * BLOCKS, 0), "{engine}");
            assert_eq!(measured.read.took.count(), BLOCKS, "{engine}");
            let mixed = bed.load("2:1", Access::Random, contents, Until::Operations(1_000));
            let mixed = run(engine, mixed).unwrap();
            assert_eq!((mixed.operations(), mixed.faults.count()), (1_000, 0), "{engine}");
            assert!(mixed.read.took.count() > 500 && mixed.write.took.count() > 200, "{engine} {mixed:?}");
        }
    }
}

/// Planted: two blocks that changed places, as a write to a wrong address leaves them.
#[test]
fn blocks_that_belong_elsewhere_are_seen() {
    for engine in engines() {
        let bed = Bed::filled(engine, Contents::Stamped(RUN));
        let (mut one, mut other) = (vec![0; BLOCK as usize], vec![0; BLOCK as usize]);
        bed.file.read_exact_at(&mut one, 7 * BLOCK).unwrap();
        bed.file.read_exact_at(&mut other, 90 * BLOCK).unwrap();
        bed.file.write_all_at(&one, 90 * BLOCK).unwrap();
        bed.file.write_all_at(&other, 7 * BLOCK).unwrap();
        let measured = bed.read(engine, Contents::Stamped(RUN));
        let (fault, count, _) = only_fault(&measured);
        assert_eq!((fault, count), (Fault::Data(Wrong::Place), 2), "{engine}");
        assert_eq!(measured.read.bytes, BLOCK * (BLOCKS - 2), "{engine}: they do not count as read");
        assert!(fault.is_of_data());
        // Nobody who does not know what is there can see it.
        assert_eq!(bed.read(engine, Contents::Unverified(RUN)).faults.count(), 0);
    }
}

#[test]
fn old_foreign_and_changed_blocks_are_seen() {
    for engine in engines() {
        let bed = Bed::filled(engine, Contents::Painted(RUN));
        assert_eq!(
            only_fault(&bed.read(engine, Contents::Painted(Stamp(1)))),
            (Fault::Data(Wrong::Run), BLOCKS, 0)
        );
        bed.file.write_all_at(&[1], 5 * BLOCK + 3 * 1024).unwrap();
        let measured = bed.read(engine, Contents::Painted(RUN));
        assert_eq!(only_fault(&measured), (Fault::Data(Wrong::Body), 1, 5 * BLOCK), "{engine}");
        bed.file.write_all_at(&[0; PAGE], 5 * BLOCK + PAGE as u64).unwrap();
        let measured = bed.read(engine, Contents::Painted(RUN));
        assert_eq!(only_fault(&measured), (Fault::Data(Wrong::Foreign), 1, 5 * BLOCK), "{engine}");
    }
}

/// Planted: the file ends within the last block.
#[test]
fn reads_that_end_early_are_counted_and_no_bytes_of_theirs() {
    for engine in engines() {
        let bed = Bed::filled(engine, Contents::Stamped(RUN));
        bed.file.set_len(BLOCK * BLOCKS - 100).unwrap();
        let measured = bed.read(engine, Contents::Stamped(RUN));
        assert_eq!(only_fault(&measured), (Fault::ShortRead, 1, BLOCK * (BLOCKS - 1)), "{engine}");
        assert_eq!(measured.read.bytes, BLOCK * (BLOCKS - 1), "{engine}");
    }
}

#[test]
fn refusals_of_the_system_are_counted_under_their_name_and_end_a_load_that_does_nothing_else() {
    for engine in engines() {
        let mut bed = Bed::new();
        bed.file = File::open(bed.directory.path().join("file")).unwrap();
        let forever = Until::Time(Duration::from_secs(3_600));
        let load = bed.load("write", Access::Random, Contents::Stamped(RUN), forever);
        let measured = run(engine, load).unwrap();
        let (fault, count, _) = only_fault(&measured);
        assert_eq!(fault.to_string(), "write: Bad file descriptor (os error 9)", "{engine}");
        assert!((FAULTS_MAX..FAULTS_MAX + 16).contains(&count), "{engine} {count}");
        assert_eq!((measured.write.bytes, measured.operations()), (0, 0));
    }
}

#[test]
fn a_load_ends_when_it_is_told_to() {
    for engine in engines() {
        let bed = Bed::filled(engine, Contents::Stamped(RUN));
        let stop = AtomicBool::new(true);
        let forever = Until::Time(Duration::from_secs(3_600));
        let load = Load { stop: &stop, ..bed.load("read", Access::Random, Contents::Stamped(RUN), forever) };
        assert_eq!(run(engine, load).unwrap().operations(), 0, "{engine}");
    }
}

#[test]
fn depths_have_a_limit() {
    for engine in engines() {
        let bed = Bed::filled(engine, Contents::Stamped(RUN));
        let of = |depth: u32| {
            let until = Until::Operations(10);
            run(engine, Load { depth, ..bed.load("read", Access::Random, Contents::Stamped(RUN), until) })
        };
        for depth in [1, DEPTH_MAX] {
            assert_eq!(of(depth).unwrap().operations(), 10, "{engine} {depth}");
        }
        for depth in [0, DEPTH_MAX + 1] {
            assert!(matches!(of(depth), Err(EngineError::Depth(_))), "{engine} {depth}");
        }
    }
}

/// A file without a name, with direct I/O where the file system has it.
#[test]
fn a_temporary_target_takes_a_load() {
    for engine in engines() {
        let directory = tempfile::tempdir().unwrap();
        let target = Target::temporary(directory.path(), ByteCount(BLOCK * BLOCKS)).unwrap();
        let bed = Bed::new();
        for mix in ["write", "read"] {
            let contents = Contents::Stamped(RUN);
            let load = bed.load(mix, Access::Sequential, contents, Until::Operations(BLOCKS));
            let measured = run(engine, Load { file: target.file(), ..load }).unwrap();
            assert_eq!((measured.operations(), measured.faults.count()), (BLOCKS, 0), "{engine} {mix}");
        }
        target.sync().unwrap();
    }
}
