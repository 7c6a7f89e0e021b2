//! An instance whose library does what a test tells it.

#![allow(dead_code)]

use std::sync::Arc;
use std::time::Duration;

use archive::{Archive, Machines, MountLog, Settings, Stat};
use base::{BlockAddress, ByteCount, Clock, Partition, TapePosition, Vid};
use library::{DriveName, Faults, VirtualCartridgeOptions, VirtualLibrary, VirtualLibraryConfig};

use crate::common::{
    Instance, SystemClock, all, bytes, get, migrate_all, path, put, settled, stage, wait_for, wait_until,
};

/// An instance whose library does what it is told.
pub struct Trouble {
    pub instance: Instance,
    drives: u16,
}

impl Trouble {
    pub fn new(drives: u16) -> Self {
        Trouble::with_retry(drives, Duration::from_millis(200))
    }

    pub fn with_retry(drives: u16, retry_delay: Duration) -> Self {
        Trouble::with(drives, retry_delay, |_| {})
    }

    pub fn with(drives: u16, retry_delay: Duration, change: impl FnOnce(&mut Settings)) -> Self {
        let instance = Instance::with(ByteCount::mib(128), |settings| {
            settings.library.files_mut().unwrap().drives = drives;
            settings.tape.retry_delay = retry_delay;
            // All small files are one pack, whenever the sealer looks.
            for class in &mut settings.classes {
                class.pack_age = Duration::from_secs(3600);
            }
            change(settings);
        });
        Trouble { instance, drives }
    }

    /// With tapes of its own.
    pub fn of(instance: Instance, drives: u16) -> Self {
        Trouble { instance, drives }
    }

    pub fn open(&self) -> (Archive, Faults) {
        self.open_logged(None)
    }

    /// The library with these drives.
    pub fn library(&self) -> VirtualLibrary {
        let config = VirtualLibraryConfig {
            drives: (0..self.drives).map(drive).collect(),
            robots: 1,
            cartridges: Vec::new(),
            options: VirtualCartridgeOptions::default(),
            drop_cache: false,
        };
        VirtualLibrary::open(&self.instance.settings.library.files().unwrap().directory, &config).unwrap()
    }

    pub fn open_logged(&self, mount_log: Option<Arc<dyn MountLog>>) -> (Archive, Faults) {
        self.open_by(Arc::new(SystemClock), mount_log)
    }

    /// By another clock than the system's.
    pub fn open_by(&self, clock: Arc<dyn Clock>, mount_log: Option<Arc<dyn MountLog>>) -> (Archive, Faults) {
        let settings = self.instance.settings.clone();
        let library = self.library();
        let faults = library.faults();
        let machines = Machines::open(&settings, Arc::clone(&clock)).unwrap();
        let machines = Machines { library: Arc::new(library), mount_log, ..machines };
        (settled(Archive::open_on(machines, settings, clock).unwrap()), faults)
    }
}

pub fn drive(number: u16) -> DriveName {
    DriveName::new(&format!("vdrive{number}")).unwrap()
}

pub fn vid(number: u16) -> Vid {
    Vid::new(&format!("KT{number:04}")).unwrap()
}

pub fn data(block: u64) -> TapePosition {
    TapePosition { partition: Partition::Data, block: BlockAddress(block) }
}

/// Four large files, a container each, and forty small ones in a pack: 62 blocks of 64 KiB a large one.
pub fn fill(archive: &Archive) -> Vec<(String, Vec<u8>)> {
    let mut files = Vec::new();
    for n in 0..4 {
        files.push((format!("/t/large{n}"), bytes(n, 4_000_000)));
    }
    for n in 0..40 {
        files.push((format!("/t/small{n}"), bytes(100 + n, 30_000 + n as usize)));
    }
    for (name, content) in &files {
        put(archive, name, content);
    }
    files
}

/// Takes all tape drives out of use, or gives them back.
pub fn set_drives(archive: &Archive, up: bool) {
    for drive in archive.tape_drives() {
        let done = if up { archive.drive_up(&drive.name) } else { archive.drive_down(&drive.name, "a test") };
        done.unwrap();
    }
    let is_so = |state: &str| (state != "down") == up;
    wait_until("the drives are so", || archive.tape_drives().iter().all(|drive| is_so(&drive.state)));
}

pub fn check_all(archive: &Archive, files: &[(String, Vec<u8>)]) {
    for (name, content) in files {
        assert!(get(archive, name).unwrap() == *content, "{name}");
    }
}

/// All copies of all files are under indexes, every file leaves the pool and comes back.
pub fn round(archive: &Archive, files: &[(String, Vec<u8>)]) {
    migrate_all(archive);
    check_all(archive, files);
    let evicted = archive.evict(&all(&["/t"])).unwrap();
    assert_eq!(evicted.refused_count, 0, "{:?}", evicted.refused);
    let request = stage(archive, &["/t"]);
    wait_for(archive, request);
    let record = archive.request(request).unwrap().record;
    assert_eq!(record.failed, 0, "{:?}", archive.why_request(request));
    check_all(archive, files);
}

pub fn place(archive: &Archive, file: &str) -> Vec<(Vid, BlockAddress)> {
    let Stat::File(stat) = archive.stat(&path(file)).unwrap() else { panic!("a file") };
    stat.copies.iter().filter_map(|copy| copy.vid.zip(copy.block)).collect()
}
