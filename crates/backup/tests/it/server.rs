//! As much of a server as its backup knows of: a catalogue in a directory, a clock, a worker.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use backup::{
    BackupDirectory, BackupReach, BackupSettings, BackupStatus, RestoreError, RestoreTo, Restored, Worker,
    WorkerParts, restore,
};
use base::{ByteCount, DirId, Duration, ManualClock, Name, Timestamp, Uuid};
use catalogue::{Attributes, Command, Table};
use store::{CatalogueStore, Replay, SnapshotReader, StoreOptions, TableDigest};

pub const MAP: ByteCount = ByteCount(64 << 20);
pub const INSTANCE: Uuid = Uuid([7; 16]);
/// What each table holds.
pub type Tables = Vec<(Table, TableDigest)>;

/// An instance, whether or not it is running.
pub struct Instance {
    pub directory: tempfile::TempDir,
    pub clock: Arc<ManualClock>,
}

/// An instance that is running.
pub struct Server<'i> {
    instance: &'i Instance,
    pub catalogue: Arc<CatalogueStore>,
    pub reach: Arc<BackupReach>,
    pub worker: Worker,
}

impl Instance {
    pub fn new() -> Instance {
        let clock = Arc::new(ManualClock::new(Timestamp(1_795_000_000_000_000_000)));
        Instance { directory: tempfile::tempdir().unwrap(), clock }
    }

    pub fn catalogue(&self) -> PathBuf {
        self.directory.path().join("catalogue")
    }

    pub fn backup(&self) -> PathBuf {
        self.directory.path().join("backup")
    }

    pub fn from(&self) -> BackupDirectory {
        BackupDirectory::open(&self.backup()).unwrap()
    }

    pub fn start(&self) -> Server<'_> {
        self.start_into(INSTANCE, self.backup())
    }

    /// As a server starts, with its backup in `directory`.
    pub fn start_into(&self, instance: Uuid, directory: PathBuf) -> Server<'_> {
        let options = StoreOptions::new(MAP, self.clock.clone());
        let is_new = !CatalogueStore::is_there(&self.catalogue());
        let catalogue = Arc::new(CatalogueStore::open(&self.catalogue(), options).unwrap());
        if is_new {
            catalogue.execute(Command::Initialise { instance }).unwrap();
        }
        catalogue.execute(Command::OpenEpoch).unwrap();
        let settings = BackupSettings {
            directory,
            ship_every: Duration::from_millis(20),
            snapshot_every: Duration::from_secs(3_600),
            keep_snapshots: 3,
        };
        let reach = Arc::new(BackupReach::default());
        let parts = WorkerParts {
            catalogue: Arc::clone(&catalogue),
            clock: self.clock.clone(),
            instance,
            reach: Arc::clone(&reach),
        };
        Server { instance: self, catalogue, reach, worker: Worker::new(settings, parts) }
    }

    /// The tables of the catalogue, which nobody has open.
    pub fn tables(&self) -> Tables {
        Replay::open(&self.catalogue(), MAP).unwrap().digests().unwrap()
    }

    /// Destroys the catalogue, if there is one, and restores it as it was.
    pub fn restored(&self, to: RestoreTo) -> Result<Restored, RestoreError> {
        let into = self.catalogue();
        if into.exists() {
            fs::remove_dir_all(&into).unwrap();
        }
        restore(&self.from(), to, &into, MAP, None, &mut |_| {})
    }
}

impl Server<'_> {
    /// Changes the catalogue.
    pub fn make(&self, name: &str) {
        // Two changes are not made at one time, as a restore to a time sees it.
        self.instance.clock.advance(Duration::from_secs(1));
        let (parent, name) = (DirId::ROOT, Name::new(name).unwrap());
        let attributes = Attributes::default();
        self.catalogue.execute(Command::MakeDirectory { parent, name, attributes, class: None }).unwrap();
    }

    /// Ships everything; gives the newest change.
    pub fn ship(&self) -> u64 {
        self.worker.turn(true);
        let status = self.worker.status();
        assert_eq!((status.failing, status.shipped), (None, status.change));
        status.change
    }

    pub fn snapshot(&self) {
        let asked = self.worker.ask();
        self.worker.turn(true);
        let BackupStatus { answered, failing, .. } = self.worker.status();
        assert_eq!((answered, failing), (asked, None));
    }

    /// What each table holds now.
    pub fn tables(&self) -> Tables {
        let copy = self.instance.directory.path().join("copy");
        self.catalogue.copy_to(&copy).unwrap();
        let tables = SnapshotReader::open(&copy).unwrap().digests().unwrap();
        fs::remove_dir_all(&copy).unwrap();
        tables
    }

    /// Stops the server; gives what its tables hold at the end.
    pub fn close(self) -> Tables {
        self.worker.turn(false);
        self.tables()
    }
}

/// The files with this ending below a directory, in order.
pub fn files_of(directory: &Path, ending: &str) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(files_of(&path, ending));
        } else if path.to_str().unwrap().ends_with(ending) {
            found.push(path);
        }
    }
    found.sort();
    found
}

/// Flips a bit in the middle of a file.
pub fn flip(file: &Path) {
    let mut content = fs::read(file).unwrap();
    let middle = content.len() / 2;
    content[middle] ^= 0x10;
    fs::write(file, content).unwrap();
}
