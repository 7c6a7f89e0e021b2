//! Keys of tapes on which something relies: what other places have is given up only if they were given a
//! moment ago.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use archive::{Archive, KeySource, Locality, PoolEncryption};
use base::{ByteCount, Clock, KeyId, Timestamp, Vid};
use catalogue::EvictRefusal;

use crate::common::{
    Instance, SystemClock, all, bytes, get, migrate_all, put, settled, stage, stop, wait_for, wait_until,
};
use crate::emptied::{dismounted, single_pool};
use crate::unreadable::extents_in;

const KEY: &str = "vault";
/// More than an answer counts for.
const A_WHILE: Duration = Duration::from_secs(61);

/// A clock whose steady part a test lets go on.
#[derive(Default)]
struct Passing {
    by_secs: AtomicU64,
}

impl Passing {
    fn pass(&self, span: Duration) {
        self.by_secs.fetch_add(span.as_secs(), Ordering::SeqCst);
    }
}

impl Clock for Passing {
    fn now(&self) -> Timestamp {
        SystemClock.now()
    }

    fn steady(&self) -> Duration {
        SystemClock.steady() + Duration::from_secs(self.by_secs.load(Ordering::SeqCst))
    }
}

struct Keyed {
    instance: Instance,
    clock: Arc<Passing>,
}

impl Keyed {
    /// A program gives the key, as long as a file is there, and notes each time that it is asked.
    fn with(is_cold: bool) -> Keyed {
        let mut instance = Instance::with(ByteCount::mib(256), |settings| {
            single_pool(settings);
            settings.tape.retry_delay = Duration::from_secs(3_600);
            settings.classes.iter_mut().for_each(|class| class.cold = is_cold);
        });
        let at = |name: &str| instance.directory.path().join(name);
        let (program, key, asked) = (at("program"), at("key"), at("asked"));
        let text = format!("#!/bin/sh\necho $1 >> {}\nexec cat {}\n", asked.display(), key.display());
        fs::write(&program, text).unwrap();
        fs::set_permissions(&program, fs::Permissions::from_mode(0o700)).unwrap();
        let keys = KeySource::Command(program);
        instance.settings.tape_pools[0].encryption =
            Some(PoolEncryption { key: Some(KeyId::new(KEY).unwrap()), keys });
        let keyed = Keyed { instance, clock: Arc::default() };
        keyed.give();
        keyed
    }

    fn key(&self) -> PathBuf {
        self.instance.directory.path().join("key")
    }

    fn give(&self) {
        fs::write(self.key(), "0f".repeat(32)).unwrap();
    }

    fn take_away(&self) {
        fs::remove_file(self.key()).unwrap();
    }

    fn asked(&self) -> usize {
        fs::read_to_string(self.instance.directory.path().join("asked")).unwrap().lines().count()
    }

    fn open(&self) -> Archive {
        settled(
            Archive::open(self.instance.settings.clone(), Arc::clone(&self.clock) as Arc<dyn Clock>).unwrap(),
        )
    }
}

fn content(seed: u64) -> Vec<u8> {
    bytes(seed, 30_000)
}

/// Why a file is not evicted; `None`: it was.
fn evict(archive: &Archive, at: &str) -> Option<EvictRefusal> {
    archive.evict(&all(&[at])).unwrap().refused.pop().map(|(_, refusal)| refusal)
}

fn tape(archive: &Archive) -> Vid {
    archive.tapes().unwrap().into_iter().find(|tape| tape.generation > 0).unwrap().vid
}

/// Story: for up to an hour after a key was gone, an evict gave up what was on its tapes alone.
#[test]
fn an_evict_asks_for_keys_that_were_given_a_while_ago() {
    let keyed = Keyed::with(false);
    let archive = keyed.open();
    let names: Vec<String> = (0..8).map(|n| format!("/d/{n}")).collect();
    (0..).zip(&names).for_each(|(seed, at)| drop(put(&archive, at, &content(seed))));
    migrate_all(&archive);
    dismounted(&archive);
    let vid = tape(&archive);

    keyed.clock.pass(A_WHILE);
    keyed.take_away();
    let before = keyed.asked();
    assert_eq!(evict(&archive, &names[0]), Some(EvictRefusal::KeyMissing(vec![vid])));
    assert!(keyed.asked() > before, "it was asked for");
    assert_eq!(get(&archive, &names[0]).unwrap(), content(0));
    wait_until("everybody hears of it", || archive.tape(vid).unwrap().reason.contains(KEY));

    // A server that starts asks for it; after that once a minute, however many are evicted.
    stop(archive);
    keyed.give();
    let archive = keyed.open();
    wait_until("the key is there", || evict(&archive, &names[0]).is_none());
    keyed.clock.pass(A_WHILE);
    let before = keyed.asked();
    for at in &names[1..] {
        assert_eq!(evict(&archive, at), None);
    }
    assert_eq!(keyed.asked() - before, 1, "not once for each file");
    stop(archive);
}

/// The same of what leaves the pool by itself.
#[test]
fn what_is_cold_stays_if_the_key_of_its_tapes_is_gone_since_a_while() {
    let keyed = Keyed::with(true);
    let archive = keyed.open();
    let at = "/d/cold";
    put(&archive, at, &content(1));
    migrate_all(&archive);
    let is = |locality| crate::settling::locality(&archive, at) == locality;
    wait_until("the file has left", || is(Locality::Nearline));
    let request = stage(&archive, &[at]);
    wait_for(&archive, request);
    dismounted(&archive);
    keyed.clock.pass(A_WHILE);
    keyed.take_away();
    // Nobody keeps it in the pool any more.
    archive.release(request, None).unwrap();
    let vid = tape(&archive);
    wait_until("the key is missed", || archive.tape(vid).unwrap().reason.contains(KEY));
    assert!(is(Locality::OnlineAndNearline));
    assert_eq!(get(&archive, at).unwrap(), content(1));
    stop(archive);
}

/// Larger than what is put together with others.
fn striped() -> Vec<u8> {
    bytes(7, 400_000)
}

/// A striped file that a tape has too, and where its shards stand.
fn put_on_both(keyed: &Keyed, archive: &Archive, at: &str) -> Vec<PathBuf> {
    let before = extents_in(&keyed.instance);
    put(archive, at, &striped());
    let shards = extents_in(&keyed.instance).difference(&before).cloned().collect();
    migrate_all(archive);
    dismounted(archive);
    shards
}

/// A key program is late once, just when the pool cannot give a file: the file is LOST until the key is
/// there, and no longer.
#[test]
fn what_was_lost_for_the_lack_of_a_key_is_there_again_with_it() {
    let mut keyed = Keyed::with(false);
    keyed.instance.settings.tape.retry_delay = Duration::from_millis(100);
    let archive = keyed.open();
    let at = "/d/a";
    let shards = put_on_both(&keyed, &archive, at);
    keyed.clock.pass(A_WHILE);
    keyed.take_away();
    shards.iter().for_each(|path| fs::remove_file(path).unwrap());
    assert!(get(&archive, at).is_err());
    let is = |locality| crate::settling::locality(&archive, at) == locality;
    wait_until("it is LOST", || is(Locality::Lost));
    keyed.give();
    wait_until("with the key it is on its tape", || !is(Locality::Lost));
    wait_for(&archive, stage(&archive, &[at]));
    assert!(get(&archive, at).unwrap() == striped());
    stop(archive);
}

/// Story: drives of the pool were away for a moment, and the key of the tapes was gone since a while. A stage
/// gave up what the pool had, since the tapes were thought to give it.
#[test]
fn a_stage_gives_up_nothing_for_tapes_whose_key_is_gone_since_a_while() {
    let keyed = Keyed::with(false);
    let archive = keyed.open();
    let at = "/d/a";
    let shards = put_on_both(&keyed, &archive, at);
    // More than the parity bears: no drive holds two of them.
    let drives: Vec<PathBuf> = shards.iter().map(|path| drive_of(&keyed, path)).take(3).collect();
    let aside = |drive: &PathBuf| drive.with_extension("aside");
    drives.iter().for_each(|drive| fs::rename(drive, aside(drive)).unwrap());
    assert!(get(&archive, at).is_err());
    keyed.clock.pass(A_WHILE);
    keyed.take_away();
    let options = archive::StageOptions { owner: "test".to_owned(), pin: A_WHILE, priority: 5 };
    let staged = archive.stage(&all(&[at]), options);
    assert!(crate::settling::locality(&archive, at) != Locality::Lost, "{staged:?}");
    drives.iter().for_each(|drive| fs::rename(aside(drive), drive).unwrap());
    wait_until("the drives are back, and give it without any tape", || {
        let info = archive.pool_info().unwrap();
        for drive in info.drives.iter().filter(|drive| !drive.up) {
            let _ = archive.pool_drive_replace(drive.id, false, false);
        }
        get(&archive, at).is_ok_and(|found| found == striped())
    });
    stop(archive);
}

/// The directory of the pool's drive on which a shard stands.
fn drive_of(keyed: &Keyed, shard: &std::path::Path) -> PathBuf {
    let drives = keyed.instance.settings.pool.drives.iter().map(|drive| drive.at.directory().to_owned());
    drives.into_iter().find(|drive| shard.starts_with(drive)).unwrap()
}
