//! More tapes than the conductor keeps events: libraries may have a million cartridges.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, mpsc};

use archive::{Archive, Machines};
use base::{ByteCount, Vid};
use catalogue::{Command, TapeState};
use library::{CartridgeInfo, Library, LibraryError, Place, Slot};

use crate::common::{Instance, PATIENCE, SystemClock, bytes, migrate_all, put, stop};
use crate::within::as_the_library_within;

/// As many as wait for the conductor at most; whoever posts one more waits.
const EVENTS_MAX: u32 = 100_000;

/// None of them is one of the instance's own.
fn vid(number: u32) -> Vid {
    let digit = |place: u32| char::from_digit(number / 36u32.pow(place) % 36, 36).unwrap();
    let digits: String = (0..5).rev().map(digit).collect();
    Vid::new(&format!("K{}", digits.to_uppercase())).unwrap()
}

fn known_before(instance: &Instance, tapes: u32) {
    let options = store::StoreOptions::new(instance.settings.catalogue_map_size, Arc::new(SystemClock));
    let store = store::CatalogueStore::open(&instance.settings.catalogue_directory, options).unwrap();
    let numbers: Vec<u32> = (0..tapes).collect();
    for some in numbers.chunks(store::EXECUTE_ALL_MAX) {
        let register = |n: &u32| Command::RegisterTape { vid: vid(*n), capacity: ByteCount::mib(128) };
        store.execute_all(some.iter().map(register).collect()).unwrap();
    }
}

/// What comes of this in the end; a start, or a stop, that hangs fails the test.
fn ends<T: Send + 'static>(what: &str, run: impl FnOnce() -> T + Send + 'static) -> T {
    let (sender, done) = mpsc::channel();
    std::thread::spawn(move || drop(sender.send(run())));
    done.recv_timeout(PATIENCE).unwrap_or_else(|_| panic!("{what} does not end"))
}

fn works(archive: &Archive, at: &str) {
    put(archive, at, &bytes(1, 300_000));
    migrate_all(archive);
}

/// Story: a start posted an event for each tape, and the thread that hears events was started after it: with
/// 100,000 tapes, of which drives had told too, the start waited for good.
#[test]
fn a_start_with_more_tapes_than_events_are_kept_ends() {
    for tapes in [EVENTS_MAX, 5 * EVENTS_MAX / 2] {
        let instance = Instance::new(ByteCount::mib(128));
        known_before(&instance, tapes);
        let (archive, instance) = ends("the start", move || (instance.open(), instance));
        works(&archive, "/t/file");
        assert!(archive.tapes().unwrap().len() > tapes as usize);
        ends("the stop", move || stop(archive));
        drop(instance);
    }
}

/// A library in which somebody puts many cartridges at once.
struct Growing {
    library: Arc<dyn Library>,
    more: Arc<AtomicU32>,
}

impl Library for Growing {
    as_the_library_within!(
        drives without_vid out_of_reach library_of take_drive mount unmount
    );

    fn inventory(&self) -> Result<Vec<CartridgeInfo>, LibraryError> {
        let mut inventory = self.library.inventory()?;
        let model = inventory.first().cloned().unwrap();
        let more =
            |n: u32| CartridgeInfo { vid: vid(n), place: Place::Slot(Slot(1_000 + n)), ..model.clone() };
        inventory.extend((0..self.more.load(Ordering::SeqCst)).map(more));
        Ok(inventory)
    }

    fn changes(&self) -> Result<u64, LibraryError> {
        Ok(self.library.changes()? + u64::from(self.more.load(Ordering::SeqCst)))
    }
}

/// Whoever tells of so many waits until they are heard, and nobody else does. The next start finds all in the
/// library.
#[test]
fn many_cartridges_come_at_once() {
    let instance = Instance::new(ByteCount::mib(128));
    let more = Arc::new(AtomicU32::new(0));
    let open = |instance: &Instance, more: &Arc<AtomicU32>| {
        let machines = Machines::open(&instance.settings, Arc::new(SystemClock)).unwrap();
        let library = Arc::new(Growing { library: Arc::clone(&machines.library), more: Arc::clone(more) });
        let clock = Arc::new(SystemClock);
        Archive::open_on(Machines { library, ..machines }, instance.settings.clone(), clock).unwrap()
    };
    let archive = open(&instance, &more);
    works(&archive, "/t/before");
    more.store(2 * EVENTS_MAX, Ordering::SeqCst);
    let asked = archive.clone();
    ends("the inventory", move || asked.take_inventory().unwrap());
    let tapes = archive.tapes().unwrap().into_iter();
    let new: Vec<_> = tapes.filter(|tape| tape.vid.as_str().starts_with("K0")).collect();
    assert_eq!(new.len(), 2 * EVENTS_MAX as usize);
    assert!(new.iter().all(|tape| tape.state == TapeState::Scratch));
    works(&archive, "/t/after");
    ends("the stop", move || stop(archive));
    let (archive, _instance) = ends("the start", move || (open(&instance, &more), instance));
    works(&archive, "/t/later");
    ends("the stop", move || stop(archive));
}
