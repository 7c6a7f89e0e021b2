//! Tables in memory behave like LMDB's, and outlive the store.

use std::sync::Mutex;

use base::{DirId, ManualClock, Name, Uuid};
use catalogue::{Attributes, Snapshot, Table};

use super::*;
use crate::memory::{CommitControl, CommitFate, MemoryChange};

fn options() -> StoreOptions {
    StoreOptions::new(ByteCount::mib(64), Arc::new(ManualClock::new(Timestamp(5))))
}

fn directory(name: &str) -> Command {
    let name = Name::new(name).unwrap();
    Command::MakeDirectory { parent: DirId::ROOT, name, attributes: Attributes::default(), class: None }
}

fn names(store: &CatalogueStore) -> usize {
    store
        .read(|view| {
            assert_eq!(view.check()?, []);
            Ok(view.list(DirId::ROOT, None, 1000)?.len())
        })
        .unwrap()
}

fn rows(snapshot: &dyn Snapshot) -> Vec<(Table, Vec<u8>, Vec<u8>)> {
    let mut rows = Vec::new();
    for table in Table::ALL {
        let mut visit = |key: &[u8], value: &[u8]| {
            rows.push((table, key.to_vec(), value.to_vec()));
            std::ops::ControlFlow::Continue(())
        };
        snapshot.scan(table, &[], None, &mut visit).unwrap();
    }
    rows
}

#[test]
fn both_engines_hold_the_same_bytes() {
    let dir = tempfile::tempdir().unwrap();
    let tables = MemoryCatalogue::new();
    let on_disk = CatalogueStore::open(dir.path(), options()).unwrap();
    let in_memory = CatalogueStore::open_memory(&tables, options()).unwrap();
    for store in [&on_disk, &in_memory] {
        store.execute(Command::Initialise { instance: Uuid([1; 16]) }).unwrap();
        for number in 0..20 {
            store.execute(directory(&format!("d{number}"))).unwrap();
        }
        let name = Name::new("d7").unwrap();
        let commands = vec![directory("x"), Command::RemoveDirectory { parent: DirId::ROOT, name }];
        store.execute_all(commands).unwrap().into_iter().for_each(|outcome| drop(outcome.unwrap()));
        assert_eq!(names(store), 20);
    }
    let of = |store: &CatalogueStore| store.engine.read(|snapshot| Ok(rows(snapshot))).unwrap();
    assert_eq!(of(&on_disk), of(&in_memory));
}

/// Gives each commit the next fate of a list, then lets all succeed.
struct Fates(Mutex<Vec<CommitFate>>);

impl CommitControl for Fates {
    fn fate(&self, changes: &[MemoryChange]) -> CommitFate {
        assert!(!changes.is_empty());
        self.0.lock().unwrap().pop().unwrap_or(CommitFate::Durable)
    }

    fn committed(&self, _changes: &[MemoryChange]) {}
}

fn after(fate: CommitFate) -> (Result<Outcome, ExecuteError>, bool, usize) {
    let fates = Arc::new(Fates(Mutex::default()));
    let tables = MemoryCatalogue::with_control(Arc::clone(&fates) as Arc<dyn CommitControl>);
    let store = CatalogueStore::open_memory(&tables, options()).unwrap();
    store.execute(Command::Initialise { instance: Uuid([1; 16]) }).unwrap();
    fates.0.lock().unwrap().push(fate);
    let result = store.execute(directory("d"));
    let goes_on = store.is_writing();
    drop(store);
    (result, goes_on, names(&CatalogueStore::open_memory(&tables, options()).unwrap()))
}

#[test]
fn fates_of_commits() {
    assert!(matches!(after(CommitFate::Durable), (Ok(_), true, 1)));
    assert!(matches!(after(CommitFate::MapFull), (Err(ExecuteError::MapFull), true, 0)));
    assert!(matches!(after(CommitFate::Fails), (Err(ExecuteError::Engine(_)), _, 0)));
    assert!(matches!(after(CommitFate::InDoubt), (Err(ExecuteError::Engine(_)), _, 1)));
}

#[test]
fn a_store_of_a_dead_process_changes_nothing() {
    let tables = MemoryCatalogue::new();
    let dead = CatalogueStore::open_memory(&tables, options()).unwrap();
    dead.execute(Command::Initialise { instance: Uuid([1; 16]) }).unwrap();
    let store = CatalogueStore::open_memory(&tables, options()).unwrap();
    assert!(matches!(dead.execute(directory("d")), Err(ExecuteError::Engine(_))));
    store.execute(directory("e")).unwrap();
    assert_eq!(names(&store), 1);
    tables.fence();
    assert!(matches!(store.execute(directory("f")), Err(ExecuteError::Engine(_))));
}

#[test]
fn a_damaged_record_is_seen() {
    let tables = MemoryCatalogue::new();
    let store = CatalogueStore::open_memory(&tables, options()).unwrap();
    store.execute(Command::Initialise { instance: Uuid([1; 16]) }).unwrap();
    let fork = tables.fork(None);
    let (key, mut value) = {
        let snapshot = tables.snapshot();
        let (key, value) = snapshot.rows(Table::Directory).next().unwrap();
        (key.to_vec(), value.to_vec())
    };
    value[0] ^= 1;
    assert!(tables.overwrite(Table::Directory, &key, Some(&value)).is_some());
    assert!(store.read(|view| view.check()).is_err());
    let other = CatalogueStore::open_memory(&fork, options()).unwrap();
    assert_eq!(names(&other), 0);
}
