//! How long requests are remembered.

use std::sync::Arc;

use archive::{Archive, ArchiveError, PathSubmission, SubmittedPath, UpkeepSettings, Which};
use base::{ByteCount, Duration, ManualClock, RequestId};
use catalogue::{AskedFor, AskedPath, Command, Outcome, PathRefusal};
use store::{CatalogueStore, StoreOptions};

use crate::common::*;

const DAY: Duration = Duration::from_secs(86_400);

struct Kept {
    _instance: Instance,
    archive: Archive,
    clock: Arc<ManualClock>,
}

impl Kept {
    fn with(requests_kept: Duration, requests_kept_max: u64) -> Self {
        Kept::of(UpkeepSettings { requests_kept, requests_kept_max, ..UpkeepSettings::default() })
    }

    fn of(settings: UpkeepSettings) -> Self {
        Kept::on(Instance::new(ByteCount::mib(64)), settings)
    }

    fn on(instance: Instance, settings: UpkeepSettings) -> Self {
        let clock = instance.clock();
        let archive = Archive::open(instance.settings.clone(), Arc::<ManualClock>::clone(&clock)).unwrap();
        archive.set_upkeep(settings);
        put(&archive, "/f", b"1");
        Kept { _instance: instance, archive, clock }
    }

    /// A request that has ended at once, since its file is in the pool.
    fn ended(&self) -> RequestId {
        let request = stage(&self.archive, &["/f"]);
        wait_for(&self.archive, request);
        request
    }

    /// The same of one that names paths one by one; each has its pin.
    fn named(&self, owner: &str, paths: &[(&str, Option<Duration>)]) -> RequestId {
        let of_path = |(path, pin): &(&str, Option<Duration>)| SubmittedPath::new((*path).to_owned(), *pin);
        let paths = paths.iter().map(of_path).collect();
        let submission = PathSubmission { owner: owner.to_owned(), pin: DAY, priority: 5, paths };
        let request = self.archive.stage_paths(submission).unwrap();
        wait_for(&self.archive, request);
        request
    }

    fn is_known(&self, request: RequestId) -> bool {
        match self.archive.request(request) {
            Ok(_) => true,
            Err(ArchiveError::NoSuchRequest(_)) => false,
            Err(error) => panic!("{error}"),
        }
    }

    fn wait_until_forgotten(&self, request: RequestId) {
        wait_until("the request is forgotten", || {
            self.clock.advance(Duration::from_secs(10));
            // It rings the sweeper; the file is on no tape and stays.
            self.archive.evict(&all(&["/f"])).unwrap();
            !self.is_known(request)
        });
    }
}

/// Found in a server that ran for long: requests that had ended were never forgotten.
#[test]
fn requests_are_forgotten_some_time_after_they_have_ended() {
    let kept = Kept::with(DAY * 30, 100_000);
    let old = kept.ended();
    kept.clock.advance(DAY * 29);
    let newer = kept.ended();
    assert!(kept.is_known(old));
    kept.clock.advance(DAY);
    // From the newest to the oldest: whatever was to stay was looked at before.
    kept.wait_until_forgotten(old);
    assert!(kept.is_known(newer));
    kept.archive.close();
}

/// Found in a server with many clients: only 256 requests were looked at in ten seconds, so that above some
/// 25 new ones a second they grew without bound.
#[test]
fn all_that_is_to_be_forgotten_goes_at_once() {
    let kept = Kept::with(DAY * 30, 10);
    let oldest = kept.ended();
    let newest: Vec<RequestId> = (0..600).map(|_| kept.ended()).collect();
    // Their pins run out, and one look is due: the clock stands from here on.
    kept.clock.advance(DAY);
    wait_until("the oldest is forgotten", || {
        // It rings the sweeper.
        kept.archive.evict(&all(&["/f"])).unwrap();
        !kept.is_known(oldest)
    });
    let (gone, there) = newest.split_at(newest.len() - 10);
    assert!(gone.iter().all(|request| !kept.is_known(*request)));
    assert!(there.iter().all(|request| kept.is_known(*request)));
    kept.archive.close();
}

#[test]
fn of_many_requests_the_newest_are_kept_and_those_that_pin() {
    let kept = Kept::with(DAY * 30, 2);
    let oldest = kept.ended();
    kept.clock.advance(Duration::from_secs(1800));
    let pinning = kept.ended();
    // The pin of the oldest has run out, that of the next one not.
    kept.clock.advance(Duration::from_secs(1900));
    let newest = [kept.ended(), kept.ended()];
    kept.wait_until_forgotten(oldest);
    assert!(kept.is_known(pinning) && newest.iter().all(|request| kept.is_known(*request)));
    kept.clock.advance(Duration::from_secs(1800));
    kept.wait_until_forgotten(pinning);
    assert!(newest.iter().all(|request| kept.is_known(*request)));
    kept.archive.close();
}

/// Found by a reader: a file was held no longer than a day after its request had ended, whatever the client
/// had asked for.
#[test]
fn a_pin_of_its_own_is_held_to_its_end() {
    let kept = Kept::with(DAY, 1);
    let oldest = kept.ended();
    let pinning = kept.named("anna", &[("/none", None), ("/f", Some(DAY * 7))]);
    let newest = kept.ended();
    kept.clock.advance(DAY * 5);
    // From the newest to the oldest: the one that pins was looked at before.
    kept.wait_until_forgotten(oldest);
    assert!(kept.is_known(pinning) && !kept.is_known(newest));
    let pins = kept.archive.object(&path("/f"), Which::Current).unwrap().file.pins;
    assert_eq!(pins.iter().map(|pin| pin.0).collect::<Vec<_>>(), [pinning]);
    kept.clock.advance(DAY * 2);
    kept.wait_until_forgotten(pinning);
    kept.archive.close();
    assert_eq!(kept.archive.verify_catalogue().unwrap(), []);
}

/// Found by a reader: requests for files that are not there were kept for the time of a pin that they had
/// not.
#[test]
fn what_pins_nothing_is_not_held() {
    let kept = Kept::with(DAY * 30, 2);
    let begin = kept.archive.request(kept.ended()).unwrap().record.created;
    let nothing = kept.named("anna", &[("/none", None), ("/nowhere", Some(DAY * 20))]);
    let given_back = kept.named("anna", &[("/f", None)]);
    kept.archive.release(given_back, None).unwrap();
    let newest = [kept.named("anna", &[("/none", None)]), kept.ended()];
    kept.wait_until_forgotten(nothing);
    kept.wait_until_forgotten(given_back);
    assert!(newest.iter().all(|request| kept.is_known(*request)));
    let last = kept.archive.request(kept.ended()).unwrap().record.created;
    assert!(last < begin.plus(DAY), "long before the time of a pin was over");
    kept.archive.close();
}

/// Lists of names are large: those that pin nothing are counted for each owner.
#[test]
fn of_lists_that_pin_nothing_so_many_paths_are_kept() {
    let kept = Kept::of(UpkeepSettings { paths_kept_max: 4, ..UpkeepSettings::default() });
    let none = [("/none", None), ("/nowhere", None)];
    let oldest = kept.named("anna", &none);
    let others = [kept.named("bert", &none), kept.named("anna", &[("/f", None), ("/none", None)])];
    let newest = [kept.named("anna", &none), kept.named("anna", &none)];
    kept.wait_until_forgotten(oldest);
    assert!(others.iter().chain(&newest).all(|request| kept.is_known(*request)), "{others:?} {newest:?}");
    kept.archive.close();
}

/// Found by an attacker: with a file that is held, and thousands of long paths that are not there, a request
/// stood aside from what is counted, and other lists of its owner stayed as if it were not there.
#[test]
fn lists_that_hold_a_file_count_though_they_stay() {
    let kept = Kept::of(UpkeepSettings { paths_kept_max: 4, ..UpkeepSettings::default() });
    let none = [("/none", None), ("/nowhere", None)];
    let (oldest, of_another) = (kept.named("anna", &none), kept.named("bert", &none));
    let holding = kept.named("anna", &[("/f", None), ("/a", None), ("/b", None), ("/c", None)]);
    kept.wait_until_forgotten(oldest);
    assert!(kept.is_known(of_another) && kept.is_known(holding));
    kept.archive.close();
    assert_eq!(kept.archive.verify_catalogue().unwrap(), []);
}

/// A catalogue of a Kist that did not count them has paths already.
#[test]
fn paths_that_are_older_than_their_count_come_to_be_counted() {
    let instance = Instance::new(ByteCount::mib(64));
    let store = |instance: &Instance| {
        let options = StoreOptions::new(instance.settings.catalogue_map_size, instance.clock());
        CatalogueStore::open(&instance.settings.catalogue_directory, options).unwrap()
    };
    let before = store(&instance);
    let ended = |submission: u8| {
        let open = Command::OpenPathRequest { owner: "anna".to_owned(), pin: DAY };
        let Outcome::Request(request) = before.execute(open).unwrap() else { panic!("a request") };
        let file = AskedFor::Refused(PathRefusal::NotFound);
        let path = |number| AskedPath { path: format!("/none/{number:03}"), file, pin: None };
        before.execute(Command::AddPaths { request, paths: (0..900).map(path).collect() }).unwrap();
        let submission = base::Blake3([submission; 32]);
        before.execute(Command::ClosePathRequest { request, submission }).unwrap();
        request
    };
    let [oldest, _, _] = [1, 2, 3].map(ended);
    assert_eq!(before.read(|view| view.path_bytes("anna")).unwrap(), 0);
    drop(before);
    let kept = Kept::on(instance, UpkeepSettings { requests_kept_max: 2, ..UpkeepSettings::default() });
    // Paths are counted before requests are forgotten.
    kept.wait_until_forgotten(oldest);
    let Kept { _instance: instance, archive, .. } = kept;
    stop(archive);
    let after = store(&instance);
    assert!(!after.read(|view| view.has_uncounted_paths()).unwrap());
    assert_eq!(after.read(|view| view.path_bytes("anna")).unwrap(), 2 * 900 * 9);
    assert_eq!(after.read(|view| view.check()).unwrap(), []);
}
