use base::{Duration, ManualClock, Uuid};
use catalogue::{Command, Table};

use super::*;
use crate::{BaseCheck, Replay};

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
        rows.push((table, key.to_vec(), value.to_vec()));
        true
    });
    assert!(whole.unwrap());
    (at, rows)
}

/// Puts the rows of a base into a new catalogue.
fn load(into: &Path, rows: &Rows, change: u64) -> Result<Replay, crate::ReplayError> {
    let mut replay = Replay::open(into, ByteCount::mib(64)).unwrap();
    let mut check = BaseCheck::default();
    for rows in rows.chunks(1_000) {
        let rows = rows.iter().map(|(table, key, value)| (*table, key.as_slice(), value.as_slice()));
        replay.put_rows(&mut check, rows)?;
    }
    replay.rows_are_whole(&check, change)?;
    Ok(replay)
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
    let mut replay = load(&dir.path().join("to"), &rows, change).unwrap();
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

/// A change that is not of these rows must not follow them, and no row may be another's, missing or there
/// twice, although each is sound by itself.
#[test]
fn rows_that_are_not_a_catalogue_are_refused() {
    let dir = tempfile::tempdir().unwrap();
    let clock = Arc::new(ManualClock::new(Timestamp(5)));
    let store = store_of(&dir.path().join("from"), &clock);
    let (change, rows) = rows_of(&store);
    let pool = rows.iter().position(|row| row.0 == Table::TapePool.number()).unwrap();
    let wrong: [&dyn Fn(&mut Rows); 7] = [
        &|rows| rows[pool].0 = 254,
        &|rows| rows[pool].0 = Table::Directory.number(),
        &|rows| *rows[pool].1.last_mut().unwrap() ^= 1,
        &|rows| *rows[pool].2.last_mut().unwrap() ^= 1,
        &|rows| drop(rows.remove(pool)),
        &|rows| rows.insert(pool, rows[pool].clone()),
        &|rows| *rows.last_mut().unwrap().2.last_mut().unwrap() ^= 1,
    ];
    for (n, wrong) in wrong.into_iter().enumerate() {
        let mut rows = rows.clone();
        wrong(&mut rows);
        let loaded = load(&dir.path().join(format!("wrong{n}")), &rows, change);
        assert!(matches!(loaded, Err(crate::ReplayError::Base { .. })), "{n}");
    }
    let of_another = load(&dir.path().join("another"), &rows, change + 1);
    assert!(matches!(of_another, Err(crate::ReplayError::Base { .. })));
    load(&dir.path().join("to"), &rows, change).unwrap();
}

/// Bases of before say nothing of sums: then the rows must at least not contradict each other.
#[test]
fn a_base_without_sums_is_taken_if_it_does_not_contradict_itself() {
    let dir = tempfile::tempdir().unwrap();
    let clock = Arc::new(ManualClock::new(Timestamp(5)));
    let store = store_of(&dir.path().join("from"), &clock);
    let (parent, name) = (base::DirId::ROOT, base::Name::new("d").unwrap());
    let attributes = catalogue::Attributes::default();
    store.execute(Command::MakeDirectory { parent, name, attributes, class: None }).unwrap();
    let (change, mut rows) = rows_of(&store);
    assert_eq!(rows.pop().unwrap().0, 255);
    load(&dir.path().join("to"), &rows, change).unwrap();
    let directory = rows.iter().rposition(|row| row.0 == Table::Directory.number()).unwrap();
    rows.remove(directory);
    let loaded = load(&dir.path().join("wrong"), &rows, change);
    assert!(matches!(loaded, Err(crate::ReplayError::Base { .. })));
}

/// A row that is lost in the catalogue is not found when a base is read, and must be: a base of what is left
/// would have the log trimmed that could give it back.
#[test]
fn no_base_is_made_of_a_catalogue_that_lost_a_row() {
    let dir = tempfile::tempdir().unwrap();
    let clock = Arc::new(ManualClock::new(Timestamp(5)));
    let store = store_of(dir.path(), &clock);
    rows_of(&store);
    let crate::engine::Engine::Lmdb(engine) = store.engine() else { panic!("it is LMDB") };
    let mut txn = engine.write().unwrap();
    let sums = txn.sums().clone();
    let mut key = None;
    catalogue::Snapshot::scan(&txn, Table::TapePool, &[], None, &mut |found, _| {
        key = Some(found.to_vec());
        std::ops::ControlFlow::Continue(())
    })
    .unwrap();
    catalogue::Transaction::delete(&mut txn, Table::TapePool, &key.unwrap()).unwrap();
    txn.set_sums(sums);
    txn.commit().unwrap();
    let read = store.each_base_row(LONG, &mut |_, _, _, _| true);
    assert!(read.unwrap_err().to_string().contains("tape_pool"));
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
