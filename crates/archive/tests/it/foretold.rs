//! What the twin foretells of a run is what the engine has done: it has the same rules.

use std::collections::BTreeSet;
use std::sync::Arc;

use crate::common::{Instance, SystemClock, bytes, migrate_all, put};
use archive::{AccessLog, AccessLogFiles, Archive, Machines, Settings};
use base::{ByteCount, Clock, Duration, Timestamp};
use library::VirtualCartridgeOptions;
use mechanics::{Geometry, RobotTiming};
use replay::{Machines as Times, RecordedMount, Recorder, Replay, Server, ServerLibrary, replay};
use scenario::model::{ClassModel, GatherBy, LibraryIndex, SizeLaw, TapePoolModel, TapeWork};
use twin::world::MountKind;
use usage::{Access, What};

const HOUR: Duration = Duration::from_secs(3600);
const FOREVER: Timestamp = Timestamp(i64::MAX);

/// An instance with one tape pool and small cartridges, of which nothing is written before it is asked for.
fn patient(change: impl FnOnce(&mut Settings)) -> Instance {
    Instance::with_many_tapes(8, ByteCount::mib(24), VirtualCartridgeOptions::default(), |settings| {
        for class in &mut settings.classes {
            class.copies.truncate(1);
            (class.pack_age, class.pack_bytes) = (HOUR, ByteCount::mib(4));
        }
        settings.tape_pools.truncate(1);
        for pool in &mut settings.tape_pools {
            (pool.mount_age, pool.mount_bytes, pool.drives_max) = (HOUR, ByteCount::gib(1), 1);
        }
        change(settings);
    })
}

fn open_logged(instance: &Instance, log: &Arc<AccessLogFiles>) -> Archive {
    let clock = Arc::new(SystemClock);
    let mut machines = Machines::open(&instance.settings, clock.clone()).unwrap();
    machines.access_log = Some(log.clone());
    Archive::open_on(machines, instance.settings.clone(), clock).unwrap()
}

fn lines(archive: &Archive, log: &AccessLogFiles) -> Vec<Access> {
    // Hands on what waits.
    archive.usage(Duration::from_secs(86_400), None).unwrap();
    let mut lines = Vec::new();
    log.read(Timestamp(0), FOREVER, &mut |access| lines.push(access)).unwrap();
    lines
}

/// The server as its settings say, with drives that take the time of an LTO-8.
fn server(settings: &Settings) -> Server {
    let drive = mechanics::drive("LTO-8").unwrap();
    let tape_pool = |name: &str| TapePoolModel { name: name.to_owned(), library: LibraryIndex(0) };
    let class = |class: &archive::ClassSettings| ClassModel {
        name: class.name.clone(),
        copies: vec![0],
        sizes: SizeLaw::Fixed(1),
        large: class.large_bytes,
        pack: class.pack_bytes,
        recall_packs: class.recall_packs,
        residency: Duration::ZERO,
        pool_max: None,
        data_set_files: 1,
        gather: GatherBy::Class,
    };
    let (recall_batch, replan) = settings.recall_rhythm();
    Server {
        libraries: vec![ServerLibrary {
            name: settings.library.name.clone(),
            drives: u32::from(settings.library.files().unwrap().drives),
            timing: mechanics::timing("LTO-8").unwrap(),
            robots: RobotTiming { robots: 1, move_us: 1_000_000 },
            geometry: Geometry::of(drive.own_medium().unwrap()),
            machines: Times::Timed,
        }],
        tape_pools: settings.tape_pools.iter().map(|pool| tape_pool(&pool.name)).collect(),
        classes: settings.classes.iter().map(class).collect(),
        policy: settings.policy().unwrap(),
        work: TapeWork {
            flush_bytes: settings.tape.flush_bytes,
            flush_age: settings.tape.flush_age,
            index_bytes: settings.tape.index_bytes,
            index_bytes_a_file: 700,
            flush_each_file: false,
            recall_batch,
            replan,
        },
    }
}

/// `asked`: when everything was to be written at once.
fn foretell(settings: &Settings, lines: &[Access], asked: Timestamp) -> Replay {
    let mut recorder = Recorder::new(Timestamp(0), FOREVER);
    lines.iter().for_each(|line| recorder.push(line.clone()));
    let forced = RecordedMount {
        drive: "vdrive0".to_owned(),
        vid: base::Vid::new("KT0001").unwrap(),
        kind: Some(MountKind::Migrate),
        ordered: asked,
        ready: None,
        unmounting: None,
        unmounted: None,
        is_failed: false,
        tape_pool: Some(settings.tape_pools[0].name.clone()),
        queued: ByteCount(0),
        oldest: None,
        is_forced: true,
    };
    let replay = replay(&server(settings), &recorder.finish(), &[forced]).unwrap();
    assert_eq!(replay.outcome.violation, None);
    assert!(replay.outcome.is_drained, "something waits for ever: {:?}", replay.left);
    replay
}

/// Packs and large files that were written, their members and bytes, and the tapes.
fn written(lines: &[Access]) -> (u64, u64, u64) {
    let copies = lines.iter().filter_map(|line| match &line.what {
        What::Migrated(copy) => Some(copy),
        _ => None,
    });
    let copies: Vec<_> = copies.collect();
    let tapes: BTreeSet<_> = copies.iter().map(|copy| copy.vid).collect();
    let members = copies.iter().map(|copy| u64::from(copy.members)).sum();
    (copies.len() as u64, members, tapes.len() as u64)
}

/// The story of issue 17: with small cartridges the twin used 10 tapes where the server used 8, since it did
/// not cut packs as the server does, and waits came out 26 to 90 % off.
#[test]
fn packs_and_tapes_are_those_of_the_engine() {
    let instance = patient(|_| {});
    let directory = tempfile::tempdir().unwrap();
    let log = Arc::new(AccessLogFiles::new(directory.path()));
    let archive = open_logged(&instance, &log);
    let mut all = 0;
    // Two data sets of several packs each, one of a pack and a little, and many that are smaller: 75 MB. When
    // which pack is sealed is a race; in whatever order they come, a tape takes 19.3 to 24.4 MB of them.
    for n in 0..32u64 {
        let mut file = |at: String, size: u64| {
            put(&archive, &at, &bytes(n * 10 + size, size as usize));
            all += size;
        };
        file(format!("/run/a/f{n}"), 900_000);
        file(format!("/run/b/f{n}"), 700_000 + n * 3_000);
        if n % 4 == 0 {
            file(format!("/run/c/f{n}"), 610_000);
        }
        if n % 7 == 0 {
            file(format!("/large/f{n}"), 3_000_000);
        }
        file(format!("/small/d{n}/f"), 50_000 + n * 1_000);
    }
    let asked = SystemClock.now();
    migrate_all(&archive);
    let lines = lines(&archive, &log);
    archive.close();
    let (containers, members, tapes) = written(&lines);
    assert_eq!(members, 32 * 3 + 8 + 5);

    let says = foretell(&instance.settings, &lines, asked).predicted;
    assert_eq!(says.written, all, "bytes of files, each once");
    assert_eq!(says.tapes, tapes);
    // How far sealing is when somebody asks for haste is a race in the engine: one pack more or less.
    let (told, there) = (says.written_copies, containers);
    assert!(told.abs_diff(there) <= 1, "{told} containers, the engine made {there}");
}
