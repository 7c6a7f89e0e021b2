//! What a tape stream gets beside clients who read and write as fast as they can, with and without a reserved
//! rate. In each run files of 16 MiB go to one untimed virtual tape drive while the clients work.
//!
//! `stream_share [DIRECTORY [MIB [CLIENTS [RATE_MB]]]]`

use std::error::Error;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use archive::{
    Aim, Archive, ArchiveError, ClassSettings, FlowSettings, LibrarySettings, MountSettings,
    PoolDriveSettings, PoolSettings, PutOptions, Settings, ShareSettings, TapePoolSettings, TapeSettings,
    create_catalogue,
};
use base::{ArchivePath, ByteCount, Clock, DriveId, StripeCode, Timestamp, Uuid, Vid};
use library::{VirtualCartridgeOptions, VirtualLibrary, VirtualLibraryConfig};
use location::DriveLocation;

const FILE: usize = 16 << 20;

type Failure = Box<dyn Error + Send + Sync>;

struct SystemClock;

impl Clock for SystemClock {
    fn now(&self) -> Timestamp {
        let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
        Timestamp(i64::try_from(since.as_nanos()).unwrap_or(i64::MAX))
    }
}

fn class(name: &str, copies: &[&str]) -> ClassSettings {
    ClassSettings {
        name: name.to_owned(),
        up_to: None,
        copies: copies.iter().map(|name| (*name).to_owned()).collect(),
        large_bytes: ByteCount::mib(1),
        pack_bytes: ByteCount::mib(64),
        pack_age: Duration::from_secs(3_600),
        data_set_depth: None,
        recall_packs: false,
        cold: false,
        pool_max: None,
        placing: archive::PlacingSettings::default(),
        leaving: archive::LeavingSettings::default(),
        share: ShareSettings::default(),
    }
}

fn settings(directory: &Path, rate: u64) -> Settings {
    let drive = |id: u16| PoolDriveSettings {
        id,
        at: DriveLocation::Directory(directory.join(format!("d{id}"))),
        host: None,
        enclosure: String::new(),
        group: String::new(),
    };
    Settings {
        catalogue_directory: directory.join("catalogue"),
        catalogue_map_size: ByteCount::mib(256),
        pool: PoolSettings {
            code: StripeCode::reed_solomon(4, 2),
            arena: ByteCount::mib(192),
            io: drive::DriveIo::Auto,
            groups: Vec::new(),
            unknown_kept: Duration::ZERO,
            water: None,
            drives: (0..6).map(drive).collect(),
        },
        library: LibrarySettings::only(directory.join("library"), 1),
        more_libraries: Vec::new(),
        classes: vec![class("taped", &["vault"]), class("disk", &[])],
        tape_pools: vec![TapePoolSettings {
            name: "vault".to_owned(),
            mount_bytes: ByteCount(u64::MAX),
            mount_age: Duration::from_secs(36_000),
            drives_max: 1,
            drives_min: 0,
            open_tapes_max: None,
            library: None,
            encryption: None,
        }],
        change_log: archive::ChangeLogSettings::default(),
        tape: TapeSettings {
            block_bytes: ByteCount::kib(512),
            flush_bytes: ByteCount::gib(32),
            flush_age: Duration::from_secs(300),
            index_bytes: ByteCount::gib(300),
            buffer: ByteCount::mib(32),
            recall_age: Duration::from_secs(15),
            recall_bytes: ByteCount::gib(100),
            recall_aim: Aim::LastFile,
            recall_order_from: archive::OrderFrom::Cheaper,
            dismount_delay: Duration::from_secs(60),
            retry_delay: Duration::from_secs(60),
            mounts: MountSettings::default(),
            flow: FlowSettings { stream_rate: ByteCount(rate), streams_max: 0 },
        },
    }
}

fn open(directory: &Path, rate: u64, bytes: u64) -> Result<Archive, Failure> {
    let settings = settings(directory, rate);
    let (instance, clock) = (Uuid::from_random([7; 16]), Arc::new(SystemClock));
    create_catalogue(&settings.catalogue_directory, settings.catalogue_map_size, instance, clock.clone())?;
    for drive in &settings.pool.drives {
        drive.at.make_place()?;
        drive.at.format(instance, DriveId(drive.id))?;
    }
    let cartridges = vec![(Vid::new("KT0001")?, ByteCount(bytes * 2 + (1 << 30)))];
    let options = VirtualCartridgeOptions::default();
    let config =
        VirtualLibraryConfig { drives: Vec::new(), robots: 1, cartridges, options, drop_cache: false };
    VirtualLibrary::create(&settings.library.files().ok_or("no files")?.directory, &config)?;
    Ok(Archive::open(settings, clock)?)
}

fn put(archive: &Archive, path: &str, class: &str, content: &[u8], moved: &AtomicU64) -> Result<(), Failure> {
    let options = PutOptions {
        make_parents: true,
        class: Some(class.to_owned()),
        length: Some(ByteCount(content.len() as u64)),
        ..PutOptions::default()
    };
    let mut upload = archive.begin_put(&ArchivePath::new(path)?, options)?;
    for chunk in content.chunks(1 << 20) {
        upload.write(chunk)?;
        moved.fetch_add(chunk.len() as u64, Ordering::Relaxed);
    }
    upload.finish()?;
    Ok(())
}

fn content(seed: u64) -> Vec<u8> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state.to_le_bytes()
    };
    std::iter::repeat_with(next).take(FILE / 8).flatten().collect()
}

/// Every second client writes, the others read.
fn client(
    archive: &Archive,
    number: usize,
    files: u64,
    stop: &AtomicBool,
    moved: &AtomicU64,
) -> Result<(), Failure> {
    let mut content = content(1_000 + number as u64);
    let mut turn = number as u64;
    while !stop.load(Ordering::Relaxed) {
        turn = turn.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        if number.is_multiple_of(2) {
            content[..8].copy_from_slice(&turn.to_le_bytes());
            put(archive, &format!("/clients/{number}"), "disk", &content, moved)?;
        } else {
            let path = ArchivePath::new(&format!("/taped/{}", (turn >> 33) % files))?;
            let mut download = archive.open_read(&path)?;
            while let Some(chunk) = download.next()? {
                moved.fetch_add(chunk.as_ref().len() as u64, Ordering::Relaxed);
            }
        }
    }
    Ok(())
}

/// MB/s of the stream and of all clients together, while the stream ran.
fn measure(archive: &Archive, bytes: u64, moved: &AtomicU64) -> Result<(f64, f64), ArchiveError> {
    std::thread::sleep(Duration::from_secs(2));
    archive.migrate_now(None)?;
    let written = || archive.tape_drives().iter().map(|drive| drive.bytes.0).max().unwrap_or(0);
    let migrates = || archive.tape_drives().iter().any(|drive| drive.state == "migrating");
    while !migrates() || written() == 0 {
        std::thread::sleep(Duration::from_millis(1));
    }
    let (began, first, by_clients) = (Instant::now(), written(), moved.load(Ordering::Relaxed));
    let mut last = first;
    while last < bytes && migrates() {
        std::thread::sleep(Duration::from_millis(1));
        last = last.max(written());
    }
    let seconds = began.elapsed().as_secs_f64();
    let rate = |bytes: u64| bytes as f64 / 1e6 / seconds;
    Ok((rate(last - first), rate(moved.load(Ordering::Relaxed) - by_clients)))
}

fn run(directory: &Path, bytes: u64, clients: usize, rate: u64) -> Result<(f64, f64), Failure> {
    let work = tempfile::tempdir_in(directory)?;
    let archive = open(work.path(), rate, bytes)?;
    let files = (bytes / FILE as u64).max(1);
    let (stop, moved) = (AtomicBool::new(false), AtomicU64::new(0));
    for file in 0..files {
        put(&archive, &format!("/taped/{file}"), "taped", &content(file), &moved)?;
    }
    let measured = std::thread::scope(|scope| {
        for number in 0..clients {
            let (archive, stop, moved) = (&archive, &stop, &moved);
            scope.spawn(move || {
                if let Err(error) = client(archive, number, files, stop, moved) {
                    eprintln!("client {number}: {error}");
                }
            });
        }
        let measured = measure(&archive, files * FILE as u64, &moved);
        stop.store(true, Ordering::Relaxed);
        measured
    });
    archive.close();
    Ok(measured?)
}

fn main() -> Result<(), Failure> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let number = |at: usize, other| arguments.get(at).map_or(Ok(other), |text| text.parse::<u64>());
    let directory = arguments.first().map_or_else(std::env::temp_dir, Into::into);
    let (bytes, rate) = (number(1, 2_048)? << 20, number(3, 200)? * 1_000_000);
    let clients = usize::try_from(number(2, 16)?)?;
    println!("| run | stream MB/s | clients MB/s |\n|---|---|---|");
    for (what, clients, rate) in [
        ("stream alone", 0, 0),
        ("clients, nothing reserved", clients, 0),
        ("clients, rate reserved", clients, rate),
    ] {
        let (stream, beside) = run(&directory, bytes, clients, rate)?;
        println!("| {what} | {stream:.0} | {beside:.0} |");
    }
    Ok(())
}
