//! An instance in a temporary directory, and the few verbs that tests need.

#![allow(dead_code)]

pub mod tight;

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use archive::DriveLocation;
use archive::{
    Aim, Archive, ClassSettings, FlowSettings, LibrarySettings, MountSettings, OpenError, PoolDriveSettings,
    PoolSettings, PutDone, PutOptions, Selection, Settings, ShareSettings, StageOptions, TapePoolSettings,
    TapeSettings, create_catalogue, has_ended,
};
use base::{
    ArchivePath, ByteCount, Clock, DriveId, ManualClock, RequestId, StripeCode, Timestamp, TrustedClock,
    Uuid, Vid,
};
use drive::DriveOpenError;
use library::{VirtualCartridgeOptions, VirtualLibrary, VirtualLibraryConfig};

/// How many extents the pool keeps since a restore; none without one.
pub fn extents_quarantined(archive: &Archive) -> u64 {
    archive.quarantined().unwrap().unwrap_or_default().extents
}

/// How long a test waits for the engine's threads before it fails.
pub const PATIENCE: Duration = Duration::from_secs(120);
/// How often an opening finds the lock taken before a test fails; each one waits for it half a second.
const OPENS_MAX: usize = 20;

/// The system's clock.
pub struct SystemClock;

impl Clock for SystemClock {
    fn now(&self) -> Timestamp {
        let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap();
        Timestamp(i64::try_from(since.as_nanos()).unwrap())
    }
}

pub struct Instance {
    pub directory: tempfile::TempDir,
    pub settings: Settings,
}

impl Instance {
    pub fn new(cartridge: ByteCount) -> Self {
        Instance::with(cartridge, |_| {})
    }

    pub fn with(cartridge: ByteCount, change: impl FnOnce(&mut Settings)) -> Self {
        Instance::with_tapes(cartridge, VirtualCartridgeOptions::default(), change)
    }

    pub fn with_tapes(
        cartridge: ByteCount,
        options: VirtualCartridgeOptions,
        change: impl FnOnce(&mut Settings),
    ) -> Self {
        Instance::with_many_tapes(6, cartridge, options, change)
    }

    pub fn with_many_tapes(
        tapes: u32,
        cartridge: ByteCount,
        options: VirtualCartridgeOptions,
        change: impl FnOnce(&mut Settings),
    ) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let mut settings = settings(directory.path());
        change(&mut settings);
        let instance = Uuid::from_random([7; 16]);
        let clock = Arc::new(SystemClock);
        create_catalogue(&settings.catalogue_directory, settings.catalogue_map_size, instance, clock)
            .unwrap();
        for drive in &settings.pool.drives {
            std::fs::create_dir_all(drive.at.directory()).unwrap();
            drive.at.format(instance, DriveId(drive.id)).unwrap();
        }
        let cartridges =
            (1..=tapes).map(|n| (Vid::new(&format!("KT{n:04}")).unwrap(), cartridge)).collect::<Vec<_>>();
        let config =
            VirtualLibraryConfig { drives: Vec::new(), robots: 1, cartridges, options, drop_cache: false };
        VirtualLibrary::create(&settings.library.files().unwrap().directory, &config).unwrap();
        Instance { directory, settings }
    }

    /// Tests beside this one begin programs, which for a moment have the locks of all catalogues and drives
    /// that are open.
    pub fn open(&self) -> Archive {
        for _ in 0..OPENS_MAX {
            match Archive::open(self.settings.clone(), Arc::new(SystemClock)) {
                Err(OpenError::Catalogue(store::OpenError::InUse(_))) => {}
                Err(OpenError::Drive { source: DriveOpenError::Locked(_), .. }) => {
                    std::thread::sleep(Duration::from_millis(100));
                }
                opened => return settled(opened.unwrap()),
            }
        }
        panic!("the catalogue stays in use");
    }

    /// The clock of its machine, which a test sets; not before the catalogue was made.
    pub fn clock(&self) -> Arc<ManualClock> {
        Arc::new(ManualClock::new(SystemClock.now().plus(Duration::from_secs(1))))
    }

    /// Starts the engine as a server does: on the trusted time.
    pub fn start(&self, clock: &Arc<ManualClock>) -> Archive {
        let clock = TrustedClock::new(Arc::<ManualClock>::clone(clock));
        settled(Archive::open(self.settings.clone(), Arc::new(clock)).unwrap())
    }

    pub fn cartridge(&self, vid: Vid) -> PathBuf {
        self.settings.library.files().unwrap().directory.join("cartridges").join(vid.as_str())
    }
}

fn settings(directory: &Path) -> Settings {
    let class = |name: &str, up_to: Option<ByteCount>| ClassSettings {
        name: name.to_owned(),
        up_to,
        copies: vec!["vault-a".to_owned(), "vault-b".to_owned()],
        large_bytes: ByteCount::mib(2),
        pack_bytes: ByteCount::mib(4),
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
        mount_bytes: ByteCount::mib(64),
        mount_age: Duration::ZERO,
        drives_max: 2,
        drives_min: 0,
        open_tapes_max: None,
        library: None,
        encryption: None,
    };
    Settings {
        catalogue_directory: directory.join("catalogue"),
        catalogue_map_size: ByteCount::mib(256),
        pool: PoolSettings {
            code: StripeCode::reed_solomon(4, 2),
            arena: ByteCount::mib(128),
            io: drive::DriveIo::Auto,
            groups: Vec::new(),
            unknown_kept: Duration::ZERO,
            water: None,
            drives: (0..8)
                .map(|id| PoolDriveSettings {
                    id,
                    at: DriveLocation::Directory(directory.join(format!("pool/d{id}"))),
                    host: None,
                    enclosure: String::new(),
                    group: String::new(),
                })
                .collect(),
        },
        library: LibrarySettings::only(directory.join("library"), 2),
        more_libraries: Vec::new(),
        classes: vec![class("small", Some(ByteCount::mib(1))), class("large", None)],
        tape_pools: vec![tape_pool("vault-a"), tape_pool("vault-b")],
        change_log: archive::ChangeLogSettings::default(),
        tape: TapeSettings {
            block_bytes: ByteCount::kib(64),
            flush_bytes: ByteCount::mib(16),
            flush_age: Duration::from_secs(300),
            index_bytes: ByteCount::mib(64),
            buffer: ByteCount::mib(4),
            recall_age: Duration::ZERO,
            recall_bytes: ByteCount(1),
            recall_aim: Aim::LastFile,
            recall_order_from: archive::OrderFrom::Cheaper,
            dismount_delay: Duration::ZERO,
            retry_delay: Duration::from_millis(200),
            mounts: MountSettings::default(),
            flow: FlowSettings::default(),
        },
    }
}

/// Waits until a restored catalogue was compared with pool and tapes, as far as it can be now.
pub fn settled(archive: Archive) -> Archive {
    let is_over = || archive.settling().is_none_or(|settling| settling.stage.is_over());
    let begin = std::time::Instant::now();
    while !is_over() {
        if begin.elapsed() > PATIENCE {
            let (settling, drives, queue) = (archive.settling(), archive.tape_drives(), archive.queue());
            panic!("the restore is not settled: {settling:?}, {drives:#?}, {queue:?}");
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    archive
}

pub fn path(text: &str) -> ArchivePath {
    ArchivePath::new(text).unwrap()
}

/// Bytes that differ for each seed and do not compress.
pub fn bytes(seed: u64, length: usize) -> Vec<u8> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut out = Vec::with_capacity(length + 8);
    while out.len() < length {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        out.extend_from_slice(&state.to_le_bytes());
    }
    out.truncate(length);
    out
}

/// With its length, as most clients: else each shard reserves room for a whole extent, which is allocated in
/// memory.
pub fn put(archive: &Archive, at: &str, content: &[u8]) -> PutDone {
    let length = Some(ByteCount(content.len() as u64));
    put_with(archive, at, content, PutOptions { length, make_parents: true, ..PutOptions::default() })
        .unwrap()
}

pub fn put_with(
    archive: &Archive,
    at: &str,
    content: &[u8],
    options: PutOptions,
) -> Result<PutDone, archive::ArchiveError> {
    let mut upload = archive.begin_put(&path(at), options)?;
    for chunk in content.chunks(100_000) {
        upload.write(chunk)?;
    }
    upload.finish()
}

pub fn get(archive: &Archive, at: &str) -> Result<Vec<u8>, archive::ArchiveError> {
    let mut download = archive.open_read(&path(at))?;
    let mut out = Vec::new();
    while let Some(chunk) = download.next()? {
        out.extend_from_slice(chunk.as_ref());
    }
    Ok(out)
}

pub fn wait_until(what: &str, mut holds: impl FnMut() -> bool) {
    let begin = std::time::Instant::now();
    while !holds() {
        assert!(begin.elapsed() < PATIENCE, "waited too long until {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// As [`wait_until`], for what the pool is to do: a failure tells how it stands.
pub fn wait_for_pool(archive: &Archive, what: &str, mut holds: impl FnMut() -> bool) {
    let begin = std::time::Instant::now();
    while !holds() {
        if begin.elapsed() > PATIENCE {
            let drives = archive.pool_info().unwrap().drives;
            let drives: Vec<_> =
                drives.into_iter().map(|drive| (drive.id, drive.state, drive.gaps_after)).collect();
            let (health, scrub) = (archive.pool_health().unwrap(), archive.scrub_info());
            panic!("waited too long until {what}: {drives:?}\n{health:?}\n{scrub:?}");
        }
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Has all of the pool scrubbed as it is now: by a pass that begins from now on.
pub fn scrub(archive: &Archive) {
    wait_for_pool(archive, "no pass is under way", || !archive.scrub_info().running);
    let before = archive.scrub_info().passes;
    archive.scrub_now();
    wait_for_pool(archive, "the pass is done", || archive.scrub_info().passes > before);
}

/// Waits until everything is on its tapes and under indexes.
pub fn migrate_all(archive: &Archive) {
    archive.migrate_now(None).unwrap();
    let begin = std::time::Instant::now();
    loop {
        let totals = archive.totals().unwrap();
        if totals.todo.files == 0 && totals.queued.files == 0 && totals.unindexed == 0 {
            return;
        }
        if begin.elapsed() > PATIENCE {
            let tapes = archive.tapes().unwrap();
            let used: Vec<_> = tapes.into_iter().filter(|tape| tape.uuid.is_some()).collect();
            panic!("not all is migrated: {totals:?}\n{:?}\n{used:#?}", archive.queue());
        }
        std::thread::sleep(Duration::from_millis(5));
    }
}

pub fn all(paths: &[&str]) -> Selection {
    Selection { paths: paths.iter().map(|p| path(p)).collect(), recursive: true }
}

pub fn stage(archive: &Archive, paths: &[&str]) -> RequestId {
    let options = StageOptions { owner: "test".to_owned(), pin: Duration::from_secs(3600), priority: 5 };
    archive.stage(&all(paths), options).unwrap()
}

pub fn wait_for(archive: &Archive, request: RequestId) {
    wait_until("the request has ended", || has_ended(archive.request(request).unwrap().record.state));
}

/// Closes it and lets go of all that it holds.
pub fn stop(archive: Archive) {
    archive.close();
    drop(archive);
}

/// Copies what is in a directory, and makes `to` if it is not there.
pub fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let to = to.join(entry.file_name());
        if entry.path().is_dir() {
            copy(&entry.path(), &to);
        } else {
            fs::copy(entry.path(), to).unwrap();
        }
    }
}

/// The extents on a drive of the pool, in order.
pub fn extents(drive: &Path) -> Vec<PathBuf> {
    let buckets = fs::read_dir(drive.join("extents")).unwrap();
    let files = buckets.flat_map(|bucket| fs::read_dir(bucket.unwrap().path()).unwrap());
    let mut files: Vec<PathBuf> = files.map(|file| file.unwrap().path()).collect();
    files.sort();
    files
}
