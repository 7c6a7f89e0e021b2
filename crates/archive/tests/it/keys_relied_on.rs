//! Keys of tapes on which something relies: what other places have is given up only if they were given a
//! moment ago.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use archive::{
    Archive, ArchiveError, ChangeLogSettings, CopyInfo, CopyProgress, KeySource, Locality, LogKept,
    PoolEncryption, Settings, Stat, TapeUse,
};
use base::{ByteCount, Clock, KeyId, Timestamp, Vid};
use catalogue::EvictRefusal;

use crate::common::{
    Instance, SystemClock, all, bytes, get, migrate_all, put, settled, stage, stop, wait_for, wait_until,
};
use crate::emptied::{dismounted, emptied, single_pool};
use crate::faulty::{Trouble, data, place};
use crate::unreadable::extents_in;

const KEY: &str = "vault";
/// That of a second pool.
const OTHER: &str = "vault-b";
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

/// A program gives each key as long as a file of its name is there, and notes each time which one it is asked
/// for.
fn give_by_program(instance: &mut Instance) {
    let directory = instance.directory.path();
    let (program, asked) = (directory.join("program"), directory.join("asked"));
    let text = format!("#!/bin/sh\necho $1 >> {}\nexec cat {}/$1\n", asked.display(), directory.display());
    fs::write(&program, text).unwrap();
    fs::set_permissions(&program, fs::Permissions::from_mode(0o700)).unwrap();
    for (pool, id) in instance.settings.tape_pools.iter_mut().zip([KEY, OTHER]) {
        let (key, keys) = (KeyId::new(id).unwrap(), KeySource::Command(program.clone()));
        pool.encryption = Some(PoolEncryption { key: Some(key), keys });
    }
}

fn give_key(instance: &Instance, id: &str) {
    fs::write(instance.directory.path().join(id), "0f".repeat(32)).unwrap();
}

fn take_key_away(instance: &Instance, id: &str) {
    fs::remove_file(instance.directory.path().join(id)).unwrap();
}

/// How often a key was asked for.
fn times_asked(instance: &Instance, id: &str) -> usize {
    let asked = fs::read_to_string(instance.directory.path().join("asked")).unwrap();
    asked.lines().filter(|line| *line == id).count()
}

struct Keyed {
    instance: Instance,
    clock: Arc<Passing>,
}

impl Keyed {
    /// A single pool with a key.
    fn with(is_cold: bool) -> Keyed {
        Keyed::change(|settings| settings.classes.iter_mut().for_each(|class| class.cold = is_cold))
    }

    fn change(change: impl FnOnce(&mut Settings)) -> Keyed {
        let mut instance = Instance::with(ByteCount::mib(256), |settings| {
            single_pool(settings);
            settings.tape.retry_delay = Duration::from_secs(3_600);
            change(settings);
        });
        give_by_program(&mut instance);
        let keyed = Keyed { instance, clock: Arc::default() };
        keyed.give();
        keyed
    }

    fn give(&self) {
        give_key(&self.instance, KEY);
    }

    fn take_away(&self) {
        take_key_away(&self.instance, KEY);
    }

    fn asked(&self) -> usize {
        times_asked(&self.instance, KEY)
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

/// Story: a drive was given up for what tapes have, and nobody asked whether their key was still there.
#[test]
fn a_drive_is_not_given_up_for_tapes_whose_key_is_gone_since_a_while() {
    let keyed = Keyed::with(false);
    let archive = keyed.open();
    let shards = put_on_both(&keyed, &archive, "/d/a");
    // More than the parity bears: no drive holds two of them.
    let drives: Vec<PathBuf> = shards.iter().map(|path| drive_of(&keyed, path)).take(3).collect();
    drives.iter().for_each(|drive| fs::rename(drive, drive.with_extension("aside")).unwrap());
    let lost = |at: &PathBuf| {
        let all = &keyed.instance.settings.pool.drives;
        let drive = all.iter().find(|drive| drive.at.directory() == at.as_path()).unwrap();
        archive.pool_drive_lost(drive.id, false)
    };
    // The code bears two.
    drives[..2].iter().for_each(|drive| lost(drive).unwrap());
    keyed.clock.pass(A_WHILE);
    keyed.take_away();
    let refused = lost(&drives[2]).unwrap_err();
    assert!(matches!(&refused, ArchiveError::WouldLose(loss) if loss.files == 1), "{refused:?}");
    stop(archive);
}

/// Story: the history of the catalogue was given up on an emptied tape, since another one has it, whose key
/// was gone.
#[test]
fn no_tape_is_reclaimed_for_one_whose_key_is_gone_since_a_while() {
    let keyed = Keyed::with(false);
    let archive = keyed.open();
    let tapes = emptied(&archive, 3);
    wait_until("the first is scratch", || archive.reclaim_tape(tapes[0]).is_ok());
    // It is in use again, and has what the others have.
    put(&archive, "/kept", &content(1));
    migrate_all(&archive);
    dismounted(&archive);
    wait_until("the second is scratch", || archive.reclaim_tape(tapes[1]).is_ok());
    dismounted(&archive);
    keyed.clock.pass(A_WHILE);
    keyed.take_away();
    let refused = archive.reclaim_tape(tapes[2]);
    assert!(refused.is_err(), "its history is on no tape that can be read");
    stop(archive);
    keyed.give();
    let archive = keyed.open();
    wait_until("with the key it is scratch", || archive.reclaim_tape(tapes[2]).is_ok());
    stop(archive);
}

/// Story: the log of changes was trimmed behind bases on tapes whose key was gone since a while.
#[test]
fn the_log_is_not_trimmed_for_tapes_whose_key_is_gone_since_a_while() {
    let keyed = Keyed::change(|settings| {
        let keep_age = base::Duration::ZERO;
        settings.change_log =
            ChangeLogSettings { base_changes: 60, base_log_percent: 0, keep_changes: 800, keep_age };
    });
    let archive = keyed.open();
    let put_some = |round: u64, count: u64| {
        (0..count).for_each(|n| drop(put(&archive, &format!("/{round}/{n}"), &bytes(n + 1, 90))));
    };
    // A single pool has two tapes with a base each.
    for round in 0..2 {
        put_some(round, 200);
        migrate_all(&archive);
        dismounted(&archive);
        for tape in archive.tapes().unwrap().iter().filter(|tape| round == 0 && tape.generation > 0) {
            archive.set_tape(tape.vid, TapeUse::ReadOnly, "so that another one is needed").unwrap();
        }
    }
    let before = archive.change_log().unwrap();
    assert!(before.first == 1 && before.base > 100, "nothing is trimmed yet: {before:?}");
    keyed.clock.pass(A_WHILE);
    keyed.take_away();
    let asked = keyed.asked();
    // Now more than those that are kept stand behind the oldest ones.
    put_some(2, 900);
    wait_until("the key is asked for", || keyed.asked() > asked);
    wait_until("it is missed", || matches!(archive.change_log().unwrap().kept, LogKept::NoBase { .. }));
    assert_eq!(archive.change_log().unwrap().first, 1, "nothing was dropped");
    keyed.give();
    stop(archive);
    let archive = keyed.open();
    wait_until("with the key it is trimmed", || archive.change_log().unwrap().first > 1);
    stop(archive);
}

/// Two copies, each in a pool with a key of its own, and drives that do as they are told.
fn two_keyed() -> Trouble {
    let mut trouble = Trouble::new(2);
    give_by_program(&mut trouble.instance);
    [KEY, OTHER].into_iter().for_each(|id| give_key(&trouble.instance, id));
    trouble
}

/// A file of its own container on two tapes: the place with the first key, and that with the other one.
fn put_on_two(archive: &Archive, at: &str) -> [(Vid, base::BlockAddress); 2] {
    put(archive, at, &bytes(5, 3_000_000));
    migrate_all(archive);
    dismounted(archive);
    let key_of = |vid: Vid| archive.tape(vid).unwrap().key.unwrap().id.to_string();
    let mut places = place(archive, at);
    places.sort_by_key(|(vid, _)| key_of(*vid));
    assert_eq!(places.iter().map(|(vid, _)| key_of(*vid)).collect::<Vec<_>>(), [KEY, OTHER]);
    <[_; 2]>::try_from(places).unwrap()
}

/// A damaged place is given up for the pool's bytes and for the other tape, whose key is asked for first.
#[test]
fn a_damaged_place_is_not_given_up_before_the_key_of_the_other_one_was_asked_for() {
    let trouble = two_keyed();
    let clock: Arc<Passing> = Arc::default();
    let (archive, faults) = trouble.open_by(Arc::clone(&clock) as Arc<dyn Clock>, None);
    let at = "/t/file";
    let [damaged, other] = put_on_two(&archive, at);
    for tape in archive.tapes().unwrap().iter().filter(|tape| ![damaged.0, other.0].contains(&tape.vid)) {
        archive.set_tape(tape.vid, TapeUse::Disabled, "no other one is written").unwrap();
    }
    clock.pass(A_WHILE);
    let asked = times_asked(&trouble.instance, OTHER);
    faults.plan_unreadable(damaged.0, data(damaged.1.0 + 2));
    archive.check_tapes(&[damaged.0]).unwrap();
    wait_until("it is given up", || place(&archive, at).iter().all(|place| *place != damaged));
    assert!(times_asked(&trouble.instance, OTHER) > asked, "the key was asked for");
    stop(archive);
}

/// A file of its own container whose first copy was found damaged, and whose image is in the pool, read from
/// the other tape.
struct Imaged {
    trouble: Trouble,
    damaged: (Vid, base::BlockAddress),
    other: (Vid, base::BlockAddress),
    /// Tapes that are set aside until the copy may be written anew.
    spare: Vec<Vid>,
}

const IMAGED: &str = "/t/file";

impl Imaged {
    fn new() -> (Imaged, Archive) {
        let trouble = two_keyed();
        let (archive, faults) = trouble.open();
        let [damaged, other] = put_on_two(&archive, IMAGED);
        let tapes = archive.tapes().unwrap().into_iter().map(|tape| tape.vid);
        let spare: Vec<Vid> = tapes.filter(|vid| ![damaged.0, other.0].contains(vid)).collect();
        let imaged = Imaged { trouble, damaged, other, spare };
        imaged.set(&archive, &imaged.spare, TapeUse::Disabled);
        imaged.set(&archive, &[damaged.0], TapeUse::ReadOnly);
        assert_eq!(evict(&archive, IMAGED), None);
        wait_until("the pool is empty", || imaged.extents().is_empty());
        faults.plan_unreadable(damaged.0, data(damaged.1.0 + 2));
        archive.check_tapes(&[damaged.0]).unwrap();
        wait_until("it is read from the other tape", || place(&archive, IMAGED) == [other]);
        wait_until("the image is in the pool", || !imaged.extents().is_empty());
        (imaged, archive)
    }

    fn set(&self, archive: &Archive, vids: &[Vid], to: TapeUse) {
        for vid in vids {
            wait_until("it is set", || archive.set_tape(*vid, to, "for the test").is_ok());
        }
    }

    fn extents(&self) -> BTreeSet<PathBuf> {
        extents_in(&self.trouble.instance)
    }

    /// Takes the image away, and lets the copy be written; gives what was moved, and where to.
    fn write_without_image(&self, archive: &Archive) -> Vec<(PathBuf, PathBuf)> {
        let aside = |path: &PathBuf| self.trouble.instance.directory.path().join(path.file_name().unwrap());
        let moved: Vec<(PathBuf, PathBuf)> =
            self.extents().into_iter().map(|path| (path.clone(), aside(&path))).collect();
        moved.iter().for_each(|(from, to)| fs::rename(from, to).unwrap());
        self.set(archive, &self.spare, TapeUse::Active);
        archive.migrate_now(None).unwrap();
        moved
    }

    fn wait_for_both(&self, archive: &Archive) {
        let is_indexed = |copy: &CopyInfo| copy.state == CopyProgress::Indexed;
        wait_until("both copies are on tape", || {
            archive.migrate_now(None).unwrap();
            let stat = archive.stat(&crate::common::path(IMAGED)).unwrap();
            let Stat::File(stat) = stat else { panic!("a file") };
            stat.copies.len() == 2 && stat.copies.iter().all(is_indexed)
        });
        assert!(place(archive, IMAGED).iter().all(|place| *place != self.damaged));
    }
}

/// The image of a container could not be read for a moment. It is not given up for the copy on a tape whose
/// key nobody has.
#[test]
fn an_image_is_not_given_up_for_a_tape_without_its_key() {
    let (imaged, archive) = Imaged::new();
    stop(archive);
    take_key_away(&imaged.trouble.instance, OTHER);
    let (archive, _) = imaged.trouble.open();
    wait_until("its key is missed", || archive.tape(imaged.other.0).unwrap().reason.contains(OTHER));
    let moved = imaged.write_without_image(&archive);
    let why = || archive.why_path(&crate::common::path(IMAGED)).unwrap().join(" ");
    wait_until("a drive has found that it cannot be read", || why().contains("lost"));
    moved.iter().for_each(|(from, to)| fs::rename(to, from).unwrap());
    imaged.wait_for_both(&archive);
    stop(archive);
}

/// Story: an image that could not be read was kept for ever, since the marks behind its bytes were taken for
/// more of them: the copy was never written, though a tape had all of it.
#[test]
fn an_image_that_is_gone_is_made_anew_from_the_other_tape() {
    let (imaged, archive) = Imaged::new();
    imaged.write_without_image(&archive);
    imaged.wait_for_both(&archive);
    stop(archive);
}
