//! A small instance for the engine in this process.

use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use archive::{
    Aim, Archive, ClassSettings, FlowSettings, LibrarySettings, Machines, MountSettings, PoolDriveSettings,
    PoolSettings, PoolShape, Settings, ShareSettings, TapePoolSettings, TapeSettings, create_catalogue,
};
use base::{ByteCount, Clock, DriveId, StripeCode, Timestamp, Uuid, Vid};
use library::{VirtualCartridgeOptions, VirtualLibrary, VirtualLibraryConfig};
use location::DriveLocation;

/// Drives of the pool.
const DRIVES: u16 = 3;
/// Cartridges of the library.
const CARTRIDGES: u32 = 4;

/// How often is looked whether locks were let go, and how many times.
const LOCKED_LOOK_EVERY: Duration = Duration::from_millis(100);
const LOCKED_LOOKS: usize = 50;

/// The system's clock.
struct SystemClock;

impl Clock for SystemClock {
    fn now(&self) -> Timestamp {
        let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
        Timestamp(i64::try_from(since.as_nanos()).unwrap_or(i64::MAX))
    }
}

fn other(error: impl std::fmt::Display) -> io::Error {
    io::Error::other(error.to_string())
}

/// Makes an instance.
pub fn create(directory: &Path) -> io::Result<()> {
    let settings = settings(directory);
    let instance = Uuid::from_random([7; 16]);
    std::fs::create_dir_all(&settings.catalogue_directory)?;
    create_catalogue(
        &settings.catalogue_directory,
        settings.catalogue_map_size,
        instance,
        Arc::new(SystemClock),
    )
    .map_err(other)?;
    for drive in &settings.pool.drives {
        drive.at.make_place()?;
        drive.at.format(instance, DriveId(drive.id)).map_err(other)?;
    }
    let cartridge = |n| Vid::new(&format!("KT{n:04}")).map(|vid| (vid, ByteCount::mib(64))).map_err(other);
    let config = VirtualLibraryConfig {
        drives: Vec::new(),
        robots: 1,
        cartridges: (1..=CARTRIDGES).map(cartridge).collect::<io::Result<_>>()?,
        options: VirtualCartridgeOptions::default(),
        drop_cache: false,
    };
    let files = settings.library.files().ok_or("the library is not made of files");
    VirtualLibrary::create(&files.map_err(other)?.directory, &config).map_err(other)?;
    Ok(())
}

/// Opens it; a `quiet` one starts nothing by itself.
pub fn open(directory: &Path, quiet: bool) -> io::Result<Archive> {
    let mut settings = settings(directory);
    if quiet {
        let never = Duration::from_secs(100_000);
        settings.classes.iter_mut().for_each(|class| class.pack_age = never);
        for pool in &mut settings.tape_pools {
            (pool.mount_age, pool.mount_bytes) = (never, ByteCount::gib(1));
        }
    }
    let clock = Arc::new(SystemClock);
    // Space is reserved for a whole segment at once, which takes long in memory.
    let shape = PoolShape { cell_size: None, segment_size: Some(ByteCount::mib(1)) };
    let open = || {
        let opened = Machines::open(&settings, clock.clone())
            .and_then(|machines| Archive::open_shaped(machines, settings.clone(), clock.clone(), shape));
        opened.map_err(|error| {
            let mut text = error.to_string();
            let mut source = std::error::Error::source(&error);
            while let Some(error) = source {
                text = format!("{text}: {error}");
                source = error.source();
            }
            io::Error::other(text)
        })
    };
    retried(open)
}

/// Tries again while locks are held. A program that another thread is just starting has all that was open
/// when it was forked until it runs.
pub fn retried<T>(mut attempt: impl FnMut() -> io::Result<T>) -> io::Result<T> {
    for _ in 0..LOCKED_LOOKS {
        match attempt() {
            Err(error) if error.to_string().contains("is in use by another process") => {
                std::thread::sleep(LOCKED_LOOK_EVERY);
            }
            done => return done,
        }
    }
    attempt()
}

fn settings(directory: &Path) -> Settings {
    let class = |name: &str, up_to: Option<ByteCount>| ClassSettings {
        name: name.to_owned(),
        up_to,
        copies: vec!["vault-a".to_owned(), "vault-b".to_owned()],
        large_bytes: ByteCount::kib(512),
        pack_bytes: ByteCount::mib(1),
        pack_age: Duration::ZERO,
        data_set_depth: None,
        recall_packs: false,
        cold: false,
        pool_max: None,
        placing: archive::PlacingSettings::default(),
        leaving: archive::LeavingSettings::default(),
        share: ShareSettings::default(),
    };
    let tape_pool = |name: &str| TapePoolSettings {
        name: name.to_owned(),
        mount_bytes: ByteCount::mib(1),
        mount_age: Duration::ZERO,
        drives_max: 2,
        drives_min: 0,
        open_tapes_max: None,
        library: None,
        encryption: None,
    };
    let drive = |id| PoolDriveSettings {
        id,
        at: DriveLocation::Directory(directory.join(format!("pool/d{id}"))),
        host: None,
        enclosure: String::new(),
        group: String::new(),
    };
    Settings {
        catalogue_directory: directory.join("catalogue"),
        catalogue_map_size: ByteCount::mib(64),
        pool: PoolSettings {
            code: StripeCode::reed_solomon(2, 1),
            arena: ByteCount::mib(24),
            io: drive::DriveIo::Auto,
            groups: Vec::new(),
            unknown_kept: Duration::ZERO,
            water: None,
            drives: (0..DRIVES).map(drive).collect(),
        },
        library: LibrarySettings::only(directory.join("library"), 2),
        more_libraries: Vec::new(),
        classes: vec![class("small", Some(ByteCount::mib(1))), class("large", None)],
        tape_pools: vec![tape_pool("vault-a"), tape_pool("vault-b")],
        change_log: archive::ChangeLogSettings::default(),
        tape: TapeSettings {
            block_bytes: ByteCount::kib(64),
            flush_bytes: ByteCount::kib(512),
            flush_age: Duration::from_secs(300),
            index_bytes: ByteCount::mib(2),
            buffer: ByteCount::mib(2),
            recall_age: Duration::ZERO,
            recall_bytes: ByteCount(1),
            recall_aim: Aim::LastFile,
            recall_order_from: archive::OrderFrom::Cheaper,
            dismount_delay: Duration::ZERO,
            retry_delay: Duration::from_millis(50),
            mounts: MountSettings::default(),
            flow: FlowSettings::default(),
        },
    }
}
