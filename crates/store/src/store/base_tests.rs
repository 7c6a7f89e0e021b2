use base::{Duration, ManualClock, Uuid};
use catalogue::{Command, Table};

use super::*;
use crate::Replay;

type Rows = Vec<(u8, Vec<u8>, Vec<u8>)>;

const LONG: Duration = Duration::from_secs(60);

fn store_of(dir: &Path, clock: &Arc<ManualClock>) -> CatalogueStore {
    let store = CatalogueStore::open(dir, StoreOptions::new(ByteCount::mib(64), Arc::clone(clock) as _));
    let store = store.unwrap();
    store.execute(Command::Initialise { instance: Uuid([1; 16]) }).unwrap();
    for n in 0..3_000 {
        store.execute(Command::DefineTapePool { name: format!("pool{n}") }).unwrap();
    }
    store
}

fn rows_of(store: &CatalogueStore) -> (u64, Rows) {
    let (mut rows, mut at) = (Rows::new(), 0);
    let whole = store.each_base_row(LONG, &mut |change, table, key, value| {
        at = change;
        rows.push((table.number(), key.to_vec(), value.to_vec()));
        true
    });
    assert!(whole.unwrap());
    (at, rows)
}

fn put(replay: &mut Replay, rows: &Rows) -> Result<(), crate::ReplayError> {
    replay.put_rows(rows.iter().map(|(table, key, value)| (*table, key.as_slice(), value.as_slice())))
}

/// All tables come out byte for byte, but for the log, of which the newest change is there: and what follows
/// is replayed as behind the whole log.
#[test]
fn a_base_is_the_catalogue_without_its_log() {
    let dir = tempfile::tempdir().unwrap();
    let clock = Arc::new(ManualClock::new(Timestamp(5)));
    let store = store_of(&dir.path().join("from"), &clock);
    let (change, rows) = rows_of(&store);
    assert_eq!(change, 3_001);
    store.execute(Command::DefineTapePool { name: "later".to_owned() }).unwrap();
    let later = store.read(|view| view.changes(change + 1, 10, usize::MAX)).unwrap();
    let mut replay = Replay::open(&dir.path().join("to"), ByteCount::mib(64)).unwrap();
    put(&mut replay, &rows).unwrap();
    replay.rows_are_whole(change).unwrap();
    assert_eq!(
        replay.read(|view| Ok((view.first_change()?, view.last_change()?))).unwrap(),
        (change, change)
    );
    let bodies: Vec<&[u8]> = later.iter().map(|(_, bytes)| bytes.as_slice()).collect();
    assert_eq!(replay.apply(change + 1, &bodies, |_, _| true).unwrap(), 1);
    assert_eq!(replay.read(|view| view.check()).unwrap(), []);
    store.copy_to(&dir.path().join("copy")).unwrap();
    let all = crate::SnapshotReader::open(&dir.path().join("copy")).unwrap().digests().unwrap();
    for (was, is) in all.into_iter().zip(replay.digests().unwrap()) {
        assert!(was == is || was.0 == Table::Change, "{was:?} {is:?}");
    }
}

/// A change that is not of these rows must not follow them, and no row may be another's.
#[test]
fn rows_that_are_not_a_catalogue_are_refused() {
    let dir = tempfile::tempdir().unwrap();
    let clock = Arc::new(ManualClock::new(Timestamp(5)));
    let store = store_of(&dir.path().join("from"), &clock);
    let (change, rows) = rows_of(&store);
    for wrong in [255, Table::Directory.number()] {
        let mut replay = Replay::open(&dir.path().join(format!("to{wrong}")), ByteCount::mib(64)).unwrap();
        let mut rows = rows.clone();
        rows.last_mut().unwrap().0 = wrong;
        assert!(matches!(put(&mut replay, &rows), Err(crate::ReplayError::Base { .. })));
    }
    let mut replay = Replay::open(&dir.path().join("to"), ByteCount::mib(64)).unwrap();
    put(&mut replay, &rows).unwrap();
    assert!(matches!(replay.rows_are_whole(change + 1), Err(crate::ReplayError::Base { .. })));
}

/// A reader that takes too long would keep pages from being used again.
#[test]
fn reading_a_base_ends_when_it_takes_too_long() {
    let dir = tempfile::tempdir().unwrap();
    let clock = Arc::new(ManualClock::new(Timestamp(5)));
    let store = store_of(dir.path(), &clock);
    let read = |longest| {
        let mut rows = 0;
        let whole = store.each_base_row(longest, &mut |_, _, _, _| {
            rows += 1;
            clock.advance(Duration::from_millis(1));
            true
        });
        (whole.unwrap(), rows)
    };
    let (is_whole, rows) = read(LONG);
    assert!(is_whole && rows > 3_000, "{rows}");
    assert_eq!(read(Duration::from_millis(998)), (false, 999));
    assert!(read(Duration::from_millis(rows)).0);
}

/// The log and the rest are told apart.
#[test]
fn the_size_of_the_log_is_told() {
    let dir = tempfile::tempdir().unwrap();
    let clock = Arc::new(ManualClock::new(Timestamp(5)));
    let store = store_of(dir.path(), &clock);
    let before = store.log_size().unwrap();
    assert_eq!(before.changes, 3_001);
    assert!(before.bytes > 100_000 && before.other_bytes > 50_000, "{before:?}");
    store.execute(Command::TrimChanges { through: 2_000 }).unwrap();
    let after = store.log_size().unwrap();
    assert_eq!(after.changes, 1_002);
    assert!(after.bytes < before.bytes / 2, "{after:?}");
}
