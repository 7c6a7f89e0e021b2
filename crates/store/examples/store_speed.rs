//! How fast the catalogue is: durable creates, and looking up paths.
//!
//! `cargo run --release -p store --example store_speed -- DIRECTORY [FILES]`

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Instant, SystemTime};

use base::*;
use catalogue::*;
use store::{CatalogueStore, StoreOptions};

struct SystemClock;

impl Clock for SystemClock {
    fn now(&self) -> Timestamp {
        let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        Timestamp(i64::try_from(since.as_nanos()).unwrap_or(i64::MAX))
    }
}

const DIRECTORIES: u64 = 16;
const THREADS: u64 = 64;

fn put(parent: DirId, number: u64) -> Command {
    let size = ByteCount(20_000);
    let set = StripeSet { id: StripeSetId(1), drives: vec![DriveId(1), DriveId(2), DriveId(3)] };
    // A thousand small files share a segment.
    let blob = BlobDescription {
        id: BlobId((1 << 40) + number / 1000),
        stands_as: None,
        layout: Layout::Segment { copies: 3 },
        length: ByteCount(0),
        stripes: vec![set],
    };
    let piece = BlobPiece { blob: blob.id, offset: ByteCount(number % 1000 * 24_576), length: size };
    let mut hash = [0u8; 32];
    hash[..8].copy_from_slice(&number.to_le_bytes());
    let checksums = Checksums { stream: StreamChecksums::default(), blake3: Blake3(hash) };
    Command::PutFile(Box::new(PutFile {
        parent,
        name: Name::new(&format!("L{number:08}_SB001.h5")).unwrap(),
        kind: FileKind::Regular,
        size,
        attributes: Attributes {
            mode: 0o644,
            owner: "lofar".into(),
            group: "astron".into(),
            ..Default::default()
        },
        checksums,
        class: ClassId(1),
        dataset: parent.0,
        data: Some(PoolData { blobs: vec![blob], pieces: vec![piece] }),
        replace: Replace::Allowed,
        idempotency: None,
    }))
}

fn prepare(store: &CatalogueStore) -> (Vec<DirId>, Vec<String>) {
    let pool = |name: &str| Command::DefineTapePool { name: name.into() };
    for command in [
        Command::Initialise { instance: Uuid([1; 16]) },
        Command::OpenEpoch,
        pool("first"),
        pool("second"),
        Command::DefineClass { name: "two".into(), copies: vec![TapePoolId(1), TapePoolId(2)] },
    ] {
        store.execute(command).unwrap();
    }
    let make = |parent, name: &str| {
        let name = Name::new(name).unwrap();
        let attributes = Attributes::default();
        match store.execute(Command::MakeDirectory { parent, name, attributes, class: None }).unwrap() {
            Outcome::Directory(id) => id,
            other => panic!("{other:?}"),
        }
    };
    let project = make(DirId::ROOT, "lofar");
    let cycle = make(project, "cycle12");
    let names = (0..DIRECTORIES).map(|number| format!("observation{number:03}"));
    names.map(|name| (make(cycle, &name), format!("/lofar/cycle12/{name}"))).unzip()
}

fn main() {
    let mut arguments = std::env::args().skip(1);
    let dir = PathBuf::from(arguments.next().expect("give a directory"));
    let files: u64 = arguments.next().map_or(1_000_000, |text| text.parse().expect("a number of files"));
    let options = StoreOptions::new(ByteCount::gib(16), Arc::new(SystemClock));
    let store = CatalogueStore::open(&dir, options.clone()).unwrap();
    let (directories, paths) = prepare(&store);

    let singles = files / 10;
    let next = AtomicU64::new(0);
    let (start, commits) = (Instant::now(), store.commits());
    std::thread::scope(|scope| {
        for _ in 0..THREADS {
            scope.spawn(|| {
                loop {
                    let number = next.fetch_add(1, Ordering::Relaxed);
                    if number >= singles {
                        return;
                    }
                    store.execute(put(directories[(number % DIRECTORIES) as usize], number)).unwrap();
                }
            });
        }
    });
    report("creates, 64 threads", singles, start);
    println!("  {:.1} creates a commit", singles as f64 / (store.commits() - commits) as f64);

    let start = Instant::now();
    let mut batches = Vec::new();
    let mut building = Instant::now().elapsed();
    for first in (singles..files).step_by(4096) {
        let made = Instant::now();
        let numbers = first..files.min(first + 4096);
        batches.clear();
        batches.extend(numbers.map(|number| put(directories[(number % DIRECTORIES) as usize], number)));
        building += made.elapsed();
        let answers = store.execute_all(std::mem::take(&mut batches)).unwrap();
        assert!(answers.iter().all(Result::is_ok));
    }
    report("creates, batches of 4096", files - singles, start);
    println!("  of these {:.2} s making the commands", building.as_secs_f64());

    let path = |number: u64| {
        ArchivePath::new(&format!("{}/L{number:08}_SB001.h5", paths[(number % DIRECTORIES) as usize]))
            .unwrap()
    };
    let ordered: Vec<_> =
        (0..DIRECTORIES).flat_map(|d| (d..files).step_by(DIRECTORIES as usize)).map(path).collect();
    look_up(&store, "resolve, directory order", &ordered);
    let mut state = 0x9e37_79b9_7f4a_7c15u64;
    let random: Vec<_> = (0..files)
        .map(|_| {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            path(state % files)
        })
        .collect();
    look_up(&store, "resolve, random", &random);
    let start = Instant::now();
    for some in random.chunks(1000) {
        let keys = some.iter().map(|path| {
            let (above, name) = path.as_str().rsplit_once('/').unwrap();
            let number = paths.iter().position(|known| known == above).unwrap();
            [&directories[number].0.to_be_bytes(), name.as_bytes()].concat()
        });
        let keys: Vec<_> = keys.collect();
        assert_eq!(store.probe(Table::Entry, &keys).unwrap(), some.len() as u64);
    }
    report("the engine alone, the same random rows", files, start);
    let start = Instant::now();
    let listed: usize =
        directories.iter().map(|d| store.read(|v| v.list(*d, None, usize::MAX)).unwrap().len()).sum();
    assert_eq!(listed as u64, files);
    report("list", files, start);
    sizes(&store, files);
    let start = Instant::now();
    assert!(store.read(|view| view.check()).unwrap().is_empty());
    report("check", files, start);
    drop(store);
    let start = Instant::now();
    drop(CatalogueStore::open(&dir, options).unwrap());
    report("open, all pages walked", files, start);
}

fn look_up(store: &CatalogueStore, what: &str, paths: &[ArchivePath]) {
    let start = Instant::now();
    for some in paths.chunks(1000) {
        store
            .read(|view| {
                for path in some {
                    assert!(view.resolve(path)?.is_some());
                }
                Ok(())
            })
            .unwrap();
    }
    report(what, paths.len() as u64, start);
}

fn report(what: &str, count: u64, start: Instant) {
    let seconds = start.elapsed().as_secs_f64();
    println!(
        "{what}: {:.0} /s ({count} in {seconds:.2} s; {:.1} s cpu so far)",
        count as f64 / seconds,
        cpu()
    );
}

/// Processor time of this process in seconds: what counts on a machine that others use as well.
fn cpu() -> f64 {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let fields = stat.rsplit(')').next().unwrap_or_default().split_whitespace();
    fields.skip(11).take(2).filter_map(|ticks| ticks.parse::<f64>().ok()).sum::<f64>() / 100.0
}

fn sizes(store: &CatalogueStore, files: u64) {
    for table in [Table::Entry, Table::File, Table::Todo, Table::Change] {
        let (rows, bytes) = store.read(|view| Ok(view.size(table)?)).unwrap();
        println!("  {}: {:.1} bytes a file, {rows} rows", table.name(), bytes.0 as f64 / files as f64);
    }
}
