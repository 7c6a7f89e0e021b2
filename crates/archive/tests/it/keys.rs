//! Tapes that are encrypted with a key of their pool.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use archive::{
    Archive, ChangeLogSettings, KeySource, Locality, LogKept, Machines, PoolEncryption, SettlingStage, Stat,
    TapeInfo, TapeUse, refusal_text,
};
use base::{ByteCount, KeyId, TapeKey, Vid};
use catalogue::{Command, EvictRefusal, TapeState};
use library::{
    DriveCommand, DriveName, Faults, VirtualCartridgeOptions, VirtualLibrary, VirtualLibraryConfig,
};
use store::{CatalogueStore, StoreOptions};

use crate::common::{
    Instance, SystemClock, bytes, get, migrate_all, path, put, settled, stage, stop, wait_for, wait_until,
};
use crate::emptied::{dismounted, single_pool};
use crate::rebuild::{rebuild_all, try_rebuild};
use crate::unreadable::extents_in;

const OLD: &str = "vault-2025";
const NEW: &str = "vault-2026";
/// Text that no cipher text has by chance, in a name and in the bytes of a file.
const NAME: &str = "plainly-named-file";

fn key_file(instance: &Instance) -> PathBuf {
    instance.directory.path().join("keys")
}

/// Writes the file of keys anew with these.
fn give(instance: &Instance, ids: &[&str]) {
    let file = key_file(instance);
    let line = |id: &&str| format!("{id} {}\n", if *id == OLD { "0f" } else { "f0" }.repeat(32));
    fs::write(&file, ids.iter().map(line).collect::<String>()).unwrap();
    fs::set_permissions(&file, fs::Permissions::from_mode(0o600)).unwrap();
}

fn use_key(instance: &mut Instance, id: &str) {
    let keys = KeySource::File(key_file(instance));
    let key = KeyId::new(id).unwrap();
    instance.settings.tape_pools[0].encryption = Some(PoolEncryption { key: Some(key), keys });
}

fn instance() -> Instance {
    Instance::with(ByteCount::mib(256), |settings| {
        single_pool(settings);
        settings.tape.retry_delay = Duration::from_millis(50);
    })
}

/// The same with a key for its pool.
fn keyed() -> Instance {
    let mut instance = instance();
    use_key(&mut instance, OLD);
    give(&instance, &[OLD]);
    instance
}

fn used(archive: &Archive) -> Vec<TapeInfo> {
    archive.tapes().unwrap().into_iter().filter(|tape| tape.generation > 0).collect()
}

fn key_of(tape: &TapeInfo) -> Option<&str> {
    tape.key.as_ref().map(|key| key.id.as_str())
}

/// All that a cartridge's files hold.
fn stored(instance: &Instance, vid: Vid) -> Vec<u8> {
    fn gather(at: &Path, all: &mut Vec<u8>) {
        if at.is_dir() {
            fs::read_dir(at).unwrap().for_each(|entry| gather(&entry.unwrap().path(), all));
        } else {
            all.extend(fs::read(at).unwrap());
        }
    }
    let mut all = Vec::new();
    gather(&instance.cartridge(vid), &mut all);
    all
}

fn has(all: &[u8], what: &[u8]) -> bool {
    all.windows(what.len()).any(|part| part == what)
}

fn content(seed: u64) -> Vec<u8> {
    bytes(seed, 300_000)
}

fn put_to_tape(archive: &Archive, name: &str, seed: u64) {
    put(archive, &format!("/{NAME}/{name}"), &content(seed));
    migrate_all(archive);
    dismounted(archive);
}

/// The file `a` on a tape, and nowhere else: the tape, and its path.
fn put_to_tape_only(archive: &Archive) -> (Vid, String) {
    put_to_tape(archive, "a", 1);
    let at = format!("/{NAME}/a");
    archive.evict(&crate::common::all(&[&at])).unwrap();
    (used(archive)[0].vid, at)
}

fn recall(archive: &Archive, name: &str, seed: u64) {
    let at = format!("/{NAME}/{name}");
    archive.evict(&crate::common::all(&[&at])).unwrap();
    wait_for(archive, stage(archive, &[&at]));
    assert_eq!(get(archive, &at).unwrap(), content(seed));
    dismounted(archive);
}

/// On the cartridge stands nothing of names and bytes, and with the key all comes back, after a restart and
/// from the cartridges alone.
#[test]
fn what_is_on_an_encrypted_tape_comes_back_with_its_key_only() {
    let instance = keyed();
    let archive = instance.open();
    put_to_tape(&archive, "a", 1);
    let tapes = used(&archive);
    assert_eq!(tapes.len(), 1);
    let vid = tapes[0].vid;
    assert_eq!(key_of(&tapes[0]), Some(OLD));
    let all = stored(&instance, vid);
    assert!(has(&all, vid.as_str().as_bytes()) && has(&all, OLD.as_bytes()), "labels and key id in clear");
    let plain = content(1);
    for what in [NAME.as_bytes(), b"<ltfsindex", b"KISTCHG1", &plain[1_000..1_032]] {
        assert!(!has(&all, what), "{:?} stands in clear", String::from_utf8_lossy(what));
    }
    assert!(!has(&all, &[0x0f; 32]), "nor does the key");
    stop(archive);

    let archive = instance.open();
    recall(&archive, "a", 1);
    put_to_tape(&archive, "b", 2);
    assert_eq!(used(&archive).len(), 1, "it is appended to");
    recall(&archive, "b", 2);
    stop(archive);

    fs::remove_dir_all(&instance.settings.catalogue_directory).unwrap();
    let rebuilt = rebuild_all(&instance);
    assert_eq!((rebuilt.inconsistencies, rebuilt.missing_from), (0, None));
    assert!(rebuilt.unread.is_empty(), "{:?}", rebuilt.unread);
    let archive = instance.open();
    let at = format!("/{NAME}/b");
    assert!(archive.stat(&path(&at)).is_ok(), "the rebuilt catalogue names it");
    stop(archive);
}

/// Without its key a tape waits, is well, and says which key it wants; with it all goes on by itself.
#[test]
fn a_tape_whose_key_is_missing_says_so_and_goes_on_when_it_is_there() {
    let instance = keyed();
    let archive = instance.open();
    let (vid, at) = put_to_tape_only(&archive);
    give(&instance, &[]);
    let before = archive.tape(vid).unwrap();
    let request = stage(&archive, &[&at]);
    let tells = |lines: Vec<String>| lines.iter().any(|line| line.contains(OLD) && line.contains("its key"));
    wait_until("why tells of the key", || tells(archive.why_path(&path(&at)).unwrap()));
    wait_until("the tape tells of it", || archive.tape(vid).unwrap().reason.contains(OLD));
    wait_until("the queue tells of it", || {
        archive.queue().unwrap().iter().any(|line| {
            line.cause.as_ref().is_some_and(|cause| cause.kind() == "key-missing" && cause.vids() == [vid])
        })
    });
    let now = archive.tape(vid).unwrap();
    assert_eq!((now.state, now.history, now.mounts), (TapeState::Active, None, before.mounts), "not mounted");
    // What is to be written waits too, in no clear form on another tape.
    put(&archive, &format!("/{NAME}/b"), &content(2));
    archive.migrate_now(None).unwrap();
    wait_until("what is to be written waits for the key", || {
        let lines = archive.why_path(&path(&format!("/{NAME}/b"))).unwrap();
        lines.iter().any(|line| line.contains("nothing is written") && line.contains(OLD))
    });
    assert_eq!(used(&archive).len(), 1);
    give(&instance, &[OLD]);
    wait_for(&archive, request);
    assert_eq!(get(&archive, &at).unwrap(), content(1));
    migrate_all(&archive);
    // While the first one is read, a second tape may have been begun.
    assert!(used(&archive).iter().all(|tape| key_of(tape) == Some(OLD)));
    assert_eq!(archive.tape(vid).unwrap().state, TapeState::Active);
    stop(archive);
}

/// Another key under the same id opens nothing, and harms nothing.
#[test]
fn a_wrong_key_of_the_same_id_is_told_and_not_held_against_the_tape() {
    let instance = keyed();
    let archive = instance.open();
    let (vid, at) = put_to_tape_only(&archive);
    fs::write(key_file(&instance), format!("{OLD} {}\n", "aa".repeat(32))).unwrap();
    let request = stage(&archive, &[&at]);
    wait_until("the tape tells of it", || {
        archive.tape(vid).unwrap().reason.contains("another key under this id")
    });
    let now = archive.tape(vid).unwrap();
    assert_eq!((now.state, now.history), (TapeState::Active, None));
    give(&instance, &[OLD]);
    wait_for(&archive, request);
    assert_eq!(get(&archive, &at).unwrap(), content(1));
    stop(archive);
}

/// A pool of tapes in clear is switched on, then gets another key: each time new files go to new tapes, the
/// old ones stay readable, and their repack brings all under the new key.
#[test]
fn keys_are_rotated_by_repack() {
    let mut instance = instance();
    let archive = instance.open();
    put_to_tape(&archive, "a", 1);
    let clear = used(&archive)[0].vid;
    assert_eq!(key_of(&used(&archive)[0]), None);
    assert!(has(&stored(&instance, clear), NAME.as_bytes()), "the test finds what stands in clear");
    stop(archive);

    give(&instance, &[OLD, NEW]);
    use_key(&mut instance, OLD);
    let archive = instance.open();
    let before = archive.tape(clear).unwrap().end_of_data;
    put_to_tape(&archive, "secret-b", 2);
    assert_eq!(archive.tape(clear).unwrap().end_of_data, before, "nothing new in clear");
    assert_eq!(archive.tape(clear).unwrap().state, TapeState::Active);
    recall(&archive, "a", 1);
    assert!(!has(&stored(&instance, clear), b"secret-b"));
    let old = used(&archive).into_iter().find(|tape| key_of(tape) == Some(OLD)).unwrap().vid;
    stop(archive);

    use_key(&mut instance, NEW);
    let archive = instance.open();
    let told = archive.why_path(&path(&format!("/{NAME}/a"))).unwrap();
    assert!(!told.is_empty());
    for vid in [clear, old] {
        archive.repack_tape(vid, "for its key").unwrap();
        // What it gives waits in the queue of its pool like anything else.
        wait_until("it is empty", || {
            archive.migrate_now(None).unwrap();
            archive.tape_repack(vid).unwrap().is_some_and(|it| it.done)
        });
    }
    migrate_all(&archive);
    dismounted(&archive);
    recall(&archive, "a", 1);
    recall(&archive, "secret-b", 2);
    let holds: Vec<_> = used(&archive).into_iter().filter(|tape| tape.containers > 0).collect();
    assert!(!holds.is_empty() && holds.iter().all(|tape| key_of(tape) == Some(NEW)), "{holds:#?}");
    stop(archive);
    // Nothing needs the old key any more.
    give(&instance, &[NEW]);
    let archive = instance.open();
    recall(&archive, "a", 1);
    recall(&archive, "secret-b", 2);
    stop(archive);
}

pub fn drive(n: u32) -> DriveName {
    DriveName::new(&format!("drive{n}")).unwrap()
}

/// The same instance with one drive, which does as told.
pub fn open_with_faults(instance: &Instance) -> (Archive, Faults) {
    let config = VirtualLibraryConfig {
        drives: vec![drive(0)],
        robots: 1,
        cartridges: Vec::new(),
        options: VirtualCartridgeOptions::default(),
        drop_cache: false,
    };
    let settings = instance.settings.clone();
    let library = VirtualLibrary::open(&settings.library.files().unwrap().directory, &config).unwrap();
    let faults = library.faults();
    let machines = Machines::open(&settings, Arc::new(SystemClock)).unwrap();
    let machines = Machines { library: Arc::new(library), ..machines };
    (settled(Archive::open_on(machines, settings, Arc::new(SystemClock)).unwrap()), faults)
}

fn why(archive: &Archive, name: &str, words: &[&str]) -> bool {
    let lines = archive.why_path(&path(&format!("/{NAME}/{name}"))).unwrap();
    lines.iter().any(|line| words.iter().all(|word| line.contains(word)))
}

/// Nothing is written in clear by a drive that cannot do otherwise, and no scratch tape gets a name for it.
#[test]
fn a_drive_that_does_not_encrypt_writes_nothing_of_a_pool_with_keys() {
    let instance = keyed();
    let (archive, faults) = open_with_faults(&instance);
    faults.plan_no_encryption(&drive(0));
    put(&archive, &format!("/{NAME}/a"), &content(1));
    archive.migrate_now(None).unwrap();
    wait_until("why tells of it", || why(&archive, "a", &["drive0", "does not encrypt"]));
    assert!(faults.fired() > 0);
    let tapes = archive.tapes().unwrap();
    assert!(tapes.iter().all(|tape| (tape.state, tape.uuid) == (TapeState::Scratch, None)), "{tapes:#?}");
    // Scratch tape after scratch tape was brought to it in vain.
    let mounts: u64 = tapes.iter().map(|tape| tape.mounts).sum();
    assert!(mounts < 100, "{mounts}");
    faults.clear();
    migrate_all(&archive);
    assert!(used(&archive).iter().all(|tape| key_of(tape) == Some(OLD)));
    stop(archive);
}

/// The power goes between the labels with the first indexes and the commit that says so. Then the pool gets
/// another key, and nobody has the old one. Story: the tape was mounted for ever, since nobody could see that
/// what the labelling left is nothing; its length says so.
#[test]
fn a_labelling_cut_short_is_done_again_with_the_key_of_then() {
    let mut instance = keyed();
    let (archive, faults) = open_with_faults(&instance);
    for tape in archive.tapes().unwrap().into_iter().skip(1) {
        archive.set_tape(tape.vid, TapeUse::Disabled, "there is one tape only").unwrap();
    }
    faults.plan_death(&drive(0), DriveCommand::WriteAttribute);
    put(&archive, &format!("/{NAME}/a"), &content(1));
    archive.migrate_now(None).unwrap();
    wait_until("the drive dies in the labelling", || faults.fired() > 0);
    stop(archive);

    use_key(&mut instance, NEW);
    give(&instance, &[NEW]);
    let (archive, _) = open_with_faults(&instance);
    let begun = archive.tapes().unwrap().into_iter().find(|tape| tape.uuid.is_some()).unwrap();
    assert_eq!((begun.state, begun.generation, key_of(&begun)), (TapeState::Labelling, 0, Some(OLD)));
    assert!(has(&stored(&instance, begun.vid), OLD.as_bytes()), "it has an encrypted index");
    migrate_all(&archive);
    let tape = archive.tape(begun.vid).unwrap();
    assert_eq!((tape.state, tape.uuid, key_of(&tape)), (TapeState::Active, begun.uuid, Some(NEW)));
    assert!(!has(&stored(&instance, begun.vid), OLD.as_bytes()));
    stop(archive);

    // Labelled and nothing on it yet: after a restart it is what it was.
    give(&instance, &[NEW]);
    let archive = instance.open();
    recall(&archive, "a", 1);
    stop(archive);
}

/// A key file is written anew, with another key under the id that tapes have already: a tape that is labelled
/// with that one could not be read any more by who brings the right one back.
#[test]
fn no_tape_is_labelled_with_another_key_under_the_id_of_older_tapes() {
    let instance = keyed();
    let archive = instance.open();
    put_to_tape(&archive, "a", 1);
    let first = used(&archive)[0].vid;
    archive.set_tape(first, TapeUse::ReadOnly, "so that another one is needed").unwrap();
    fs::write(key_file(&instance), format!("{OLD} {}\n", "aa".repeat(32))).unwrap();
    put(&archive, &format!("/{NAME}/b"), &content(2));
    archive.migrate_now(None).unwrap();
    wait_until("why tells of it", || {
        why(&archive, "b", &["nothing is written", "another key under this id"])
    });
    assert_eq!(used(&archive).len(), 1);
    stop(archive);
    // A start asks for all keys, and says so before anything is wanted.
    let archive = instance.open();
    wait_until("the tape says it", || {
        archive.tape(first).unwrap().reason.contains("another key under this id")
    });
    give(&instance, &[OLD]);
    migrate_all(&archive);
    let tapes = used(&archive);
    assert_eq!(tapes.len(), 2);
    assert_eq!(tapes[0].key, tapes[1].key, "the very same key");
    stop(archive);
}

/// A program of a key manager gives the keys.
#[test]
fn keys_come_from_a_program_too() {
    let mut instance = instance();
    give(&instance, &[OLD]);
    let program = instance.directory.path().join("program");
    let text = format!("#!/bin/sh\nsed -n \"s/^$1 //p\" {}\n", key_file(&instance).display());
    fs::write(&program, text).unwrap();
    fs::set_permissions(&program, fs::Permissions::from_mode(0o700)).unwrap();
    let (key, keys) = (KeyId::new(OLD).unwrap(), KeySource::Command(program));
    instance.settings.tape_pools[0].encryption = Some(PoolEncryption { key: Some(key), keys });
    let archive = instance.open();
    put_to_tape(&archive, "a", 1);
    assert_eq!(key_of(&used(&archive)[0]), Some(OLD));
    recall(&archive, "a", 1);
    stop(archive);
}

/// A program that gives keys takes its time until the file is there that this gives.
fn use_slow_program(instance: &mut Instance) -> PathBuf {
    let (program, go) = (instance.directory.path().join("slow"), instance.directory.path().join("go"));
    let (keys, go_on) = (key_file(instance), go.display());
    let text = format!(
        "#!/bin/sh\nwhile [ ! -e {go_on} ]; do sleep 0.05; done\nsed -n \"s/^$1 //p\" {}\n",
        keys.display()
    );
    fs::write(&program, text).unwrap();
    fs::set_permissions(&program, fs::Permissions::from_mode(0o700)).unwrap();
    let (key, keys) = (KeyId::new(OLD).unwrap(), KeySource::Command(program));
    instance.settings.tape_pools[0].encryption = Some(PoolEncryption { key: Some(key), keys });
    go
}

/// The tapes for whose key an evict of the file `name` is refused; `None`: it was evicted.
fn evict_waits_for(archive: &Archive, name: &str) -> Option<Vec<Vid>> {
    let done = archive.evict(&crate::common::all(&[&format!("/{NAME}/{name}")])).unwrap();
    let (_, refusal) = done.refused.first()?;
    let EvictRefusal::KeyMissing(vids) = refusal else { panic!("{refusal:?}") };
    let told = refusal_text(refusal);
    assert!(told.contains("key is missing") && vids.iter().all(|vid| told.contains(vid.as_str())), "{told}");
    Some(vids.clone())
}

/// Story: a file left the pool although nobody had the key of its only tape: no evict asked for it. Right
/// after a start, too, before anybody was asked.
#[test]
fn what_only_a_tape_without_its_key_has_stays_in_the_pool() {
    let mut instance = keyed();
    let archive = instance.open();
    put_to_tape(&archive, "a", 1);
    let vid = used(&archive)[0].vid;
    stop(archive);

    give(&instance, &[]);
    let archive = instance.open();
    assert_eq!(evict_waits_for(&archive, "a"), Some(vec![vid]));
    wait_until("the tape tells of it", || archive.tape(vid).unwrap().reason.contains(OLD));
    assert_eq!(evict_waits_for(&archive, "a"), Some(vec![vid]));
    assert_eq!(get(&archive, &format!("/{NAME}/a")).unwrap(), content(1));
    give(&instance, &[OLD]);
    wait_until("with the key it is evicted", || evict_waits_for(&archive, "a").is_none());
    wait_for(&archive, stage(&archive, &[&format!("/{NAME}/a")]));
    put_to_tape(&archive, "b", 2);
    stop(archive);

    let go = use_slow_program(&mut instance);
    let archive = instance.open();
    assert_eq!(evict_waits_for(&archive, "b"), Some(vec![vid]), "nobody has said that the key is there");
    fs::write(&go, "").unwrap();
    wait_until("with the key it is evicted", || evict_waits_for(&archive, "b").is_none());
    stop(archive);
}

/// Story: before the keys were asked for, a file was found that the pool could not give. Nothing was decided
/// about it, and with the keys at hand nobody came to it before a pass did, weeks later: the file was neither
/// read nor recalled.
#[test]
fn what_waited_for_the_keys_is_decided_when_they_are_there() {
    let mut instance = keyed();
    let archive = instance.open();
    let before = extents_in(&instance);
    put_to_tape(&archive, "a", 1);
    stop(archive);
    let shards: Vec<_> = extents_in(&instance).difference(&before).cloned().collect();
    let go = use_slow_program(&mut instance);
    let archive = instance.open();
    // Some of them may have been garbage, which a start removes.
    shards.iter().for_each(|path| drop(fs::remove_file(path)));
    let at = format!("/{NAME}/a");
    assert!(get(&archive, &at).is_err(), "the pool has lost it");
    let locality = || {
        let Stat::File(stat) = archive.stat(&path(&at)).unwrap() else { panic!("a file") };
        stat.locality
    };
    assert_eq!(locality(), Locality::OnlineAndNearline, "nobody has said that the key of its tape is there");
    assert_eq!(archive.requests(None, 10).unwrap().len(), 0);
    fs::write(&go, "").unwrap();
    // No get, which would have it looked at once more.
    wait_until("it is recalled", || !archive.requests(None, 10).unwrap().is_empty());
    wait_until("it comes back from tape", || get(&archive, &at).is_ok_and(|found| found == content(1)));
    stop(archive);
}

/// Story: what stood on tapes whose key was lost counted as written: no other tape got those changes, and
/// the tapes that can be read did not give the catalogue back.
#[test]
fn changes_on_tapes_without_their_key_are_written_to_others() {
    let mut instance = keyed();
    let archive = instance.open();
    put_to_tape(&archive, "a", 1);
    stop(archive);
    // Nobody has the old key any more.
    use_key(&mut instance, NEW);
    give(&instance, &[NEW]);
    let archive = instance.open();
    let old = used(&archive)[0].vid;
    wait_until("the old key is missed", || archive.tape(old).unwrap().reason.contains(OLD));
    put_to_tape(&archive, "b", 2);
    stop(archive);
    fs::remove_dir_all(&instance.settings.catalogue_directory).unwrap();
    let rebuilt = try_rebuild(&instance).unwrap();
    assert_eq!((rebuilt.inconsistencies, rebuilt.missing_from), (0, None), "{rebuilt:?}");
    assert!(rebuilt.unread.iter().any(|unread| unread.vid == old), "{rebuilt:?}");
    let archive = instance.open();
    for (name, seed) in [("a", 1), ("b", 2)] {
        assert_eq!(get(&archive, &format!("/{NAME}/{name}")).unwrap(), content(seed));
    }
    stop(archive);
}

/// Story: the log of changes was trimmed behind bases that nobody could read for want of the key.
#[test]
fn the_log_is_not_trimmed_behind_a_base_without_its_key() {
    let mut instance = keyed();
    instance.settings.change_log = ChangeLogSettings {
        base_changes: 60,
        base_log_percent: 0,
        keep_changes: u64::MAX,
        keep_age: base::Duration::ZERO,
    };
    let archive = instance.open();
    // A single pool has two tapes with a base each.
    for (round, name) in ["a", "b"].into_iter().enumerate() {
        for n in 0..70 {
            put(&archive, &format!("/{NAME}/{name}{n}"), &bytes(n + 1, 90));
        }
        put_to_tape(&archive, name, round as u64 + 1);
        for tape in used(&archive).iter().filter(|_| round == 0) {
            archive.set_tape(tape.vid, TapeUse::ReadOnly, "so that another one is needed").unwrap();
        }
    }
    assert_ne!(archive.change_log().unwrap().base, 0);
    stop(archive);
    give(&instance, &[]);
    let archive = instance.open();
    let log = archive.change_log().unwrap();
    assert!(log.base == 0 && matches!(log.kept, LogKept::NoBase { .. }), "{log:?}");
    give(&instance, &[OLD]);
    wait_until("with the key it counts again", || archive.change_log().unwrap().base > 0);
    stop(archive);
}

/// A server that has stopped: a file stands on a tape that is not encrypted, and a second one behind it in a
/// session that was cut short.
fn torn_in_clear() -> (Instance, Vid) {
    let instance = instance();
    let (archive, faults) = open_with_faults(&instance);
    put_to_tape(&archive, "a", 1);
    let clear = used(&archive)[0].vid;
    faults.plan_death(&drive(0), DriveCommand::Flush);
    put(&archive, &format!("/{NAME}/b"), &content(2));
    archive.migrate_now(None).unwrap();
    wait_until("the drive dies when the file is on tape", || faults.fired() > 0);
    stop(archive);
    (instance, clear)
}

/// Story: a session was cut short, and the pool got another key before it was closed. The index that closed
/// it covered files without the changes that tell of them, so that they could leave the pool: no tape would
/// have told what they were.
#[test]
fn a_torn_session_is_not_indexed_on_a_tape_with_another_key_than_its_pool() {
    let (mut instance, clear) = torn_in_clear();

    use_key(&mut instance, NEW);
    give(&instance, &[NEW]);
    let (archive, _) = open_with_faults(&instance);
    migrate_all(&archive);
    dismounted(&archive);
    let tapes = used(&archive);
    let old = tapes.iter().find(|tape| tape.vid == clear).unwrap();
    assert_eq!((old.state, old.containers), (TapeState::ReadOnly, 1), "{old:#?}");
    assert!(old.reason.contains("another key"), "{}", old.reason);
    let new = tapes.iter().find(|tape| key_of(tape) == Some(NEW)).unwrap();
    assert_eq!(new.containers, 1, "it is written again: {tapes:#?}");
    recall(&archive, "a", 1);
    recall(&archive, "b", 2);
    stop(archive);
}

/// What the pool has lost meanwhile is indexed on such a tape all the same: it could not be read ever again.
#[test]
fn a_torn_session_is_indexed_with_another_key_if_the_pool_lost_what_it_wrote() {
    let (mut instance, clear) = torn_in_clear();

    for drive in &instance.settings.pool.drives {
        fs::remove_dir_all(drive.at.directory()).unwrap();
    }
    use_key(&mut instance, NEW);
    give(&instance, &[NEW]);
    let (archive, _) = open_with_faults(&instance);
    let drives: Vec<u16> = instance.settings.pool.drives.iter().map(|drive| drive.id).collect();
    drives.iter().for_each(|drive| archive.pool_drive_lost(*drive, true).unwrap());
    for drive in drives {
        archive.pool_drive_replace(drive, true, true).unwrap();
    }
    let is_nearline = |name: &str| {
        let Ok(archive::Stat::File(stat)) = archive.stat(&path(&format!("/{NAME}/{name}"))) else { panic!() };
        stat.locality == archive::Locality::Nearline
    };
    wait_until("it is under an index", || is_nearline("b"));
    let old = archive.tape(clear).unwrap();
    assert_eq!(old.containers, 2, "{old:#?}");
    recall(&archive, "a", 1);
    recall(&archive, "b", 2);
    stop(archive);
}

/// Two pools, of which nothing goes to tape without being asked for.
fn two_pools() -> Instance {
    Instance::with(ByteCount::mib(256), |settings| {
        crate::restoring::at_rest(settings);
        settings.tape.retry_delay = Duration::from_millis(50);
    })
}

/// Each of the two has a key, from a file.
fn use_keys(instance: &mut Instance, ids: [&str; 2], files: [PathBuf; 2]) {
    for ((pool, id), file) in instance.settings.tape_pools.iter_mut().zip(ids).zip(files) {
        let (key, keys) = (KeyId::new(id).unwrap(), KeySource::File(file));
        pool.encryption = Some(PoolEncryption { key: Some(key), keys });
    }
}

/// Story: of two copies the one was waited for whose tape lacks its key, while the other could be read.
#[test]
fn a_copy_is_read_from_the_tape_whose_key_is_there() {
    let mut instance = two_pools();
    let sources = [key_file(&instance), key_file(&instance)];
    use_keys(&mut instance, [OLD, NEW], sources);
    give(&instance, &[OLD, NEW]);
    let archive = instance.open();
    put_to_tape(&archive, "a", 1);
    assert_eq!(evict_waits_for(&archive, "a"), None);
    let tapes = used(&archive);
    assert_eq!(tapes.len(), 2);
    // The one that is asked first: of two that can be read, that with the lower VID.
    let (first, other) = (tapes[0].vid, tapes[1].vid);
    let kept = key_of(&tapes[1]).unwrap().to_owned();
    stop(archive);
    give(&instance, &[&kept]);
    let archive = instance.open();
    wait_until("the key is missed", || archive.tape(first).unwrap().reason.contains("waits for its key"));
    archive.repack_tape(other, "for the test").unwrap();
    wait_until("it is read and written again", || {
        archive.migrate_now(None).unwrap();
        archive.tape_repack(other).unwrap().is_some_and(|it| it.done)
    });
    give(&instance, &[OLD, NEW]);
    wait_until("the key is there", || !archive.tape(first).unwrap().reason.contains("waits for its key"));
    recall(&archive, "a", 1);
    stop(archive);
}

/// Story: both keys of two copies were missing, and whoever looked was told of the one that the other tape
/// has.
#[test]
fn of_two_keys_that_are_missing_both_are_named() {
    let mut instance = two_pools();
    let sources = [key_file(&instance), key_file(&instance)];
    use_keys(&mut instance, [OLD, NEW], sources);
    give(&instance, &[OLD, NEW]);
    let archive = instance.open();
    put_to_tape(&archive, "a", 1);
    assert_eq!(evict_waits_for(&archive, "a"), None);
    let tapes = used(&archive);
    give(&instance, &[]);
    let at = format!("/{NAME}/a");
    let request = stage(&archive, &[&at]);
    wait_until("the file tells of both", || {
        tapes.iter().all(|tape| why(&archive, "a", &[tape.vid.as_str(), key_of(tape).unwrap()]))
    });
    for tape in &tapes {
        wait_until("a tape tells of its own first", || {
            let causes = archive.explain(&archive::About::Tape(tape.vid)).unwrap();
            causes.iter().map(|cause| &cause.text).any(|line| {
                let own = line.find(&format!("key {} cannot", key_of(tape).unwrap()));
                let others = tapes.iter().filter(|other| other.vid != tape.vid);
                let mut at = others.filter_map(|other| line.find(&format!("key {} cannot", key_of(other)?)));
                own.is_some_and(|own| at.all(|other| own < other))
            })
        });
    }
    // One is enough.
    give(&instance, &[key_of(&tapes[1]).unwrap()]);
    wait_for(&archive, request);
    assert_eq!(get(&archive, &at).unwrap(), content(1));
    stop(archive);
}

/// Story: a key that its pool has no more was said to be missing in the file of another pool.
#[test]
fn a_key_that_is_missing_is_told_of_where_its_pool_has_keys() {
    let mut instance = two_pools();
    let other = instance.directory.path().join("other-keys");
    let sources = [other.clone(), key_file(&instance)];
    use_keys(&mut instance, [OLD, OLD], sources);
    give(&instance, &[OLD, NEW]);
    fs::copy(key_file(&instance), &other).unwrap();
    // The first pool has another key, the second one this, which it then gives up.
    instance.settings.tape_pools[0].encryption.as_mut().unwrap().key = Some(KeyId::new(NEW).unwrap());
    let archive = instance.open();
    put_to_tape(&archive, "a", 1);
    let old = used(&archive).into_iter().find(|tape| key_of(tape) == Some(OLD)).unwrap().vid;
    stop(archive);
    instance.settings.tape_pools[1].encryption.as_mut().unwrap().key = None;
    for file in [&other, &key_file(&instance)] {
        fs::write(file, format!("{NEW} {}\n", "f0".repeat(32))).unwrap();
    }
    let archive = instance.open();
    let file = key_file(&instance).display().to_string();
    wait_until("its own pool's file is named", || {
        let told = archive.tape(old).unwrap().reason;
        told.contains(OLD) && told.contains(&format!("file:{file} does not have it"))
    });
    stop(archive);
}

/// Story: a rebuild gave up a tape's base with the first drive that did not encrypt, or could not read it.
#[test]
fn a_rebuild_reads_a_base_in_another_drive() {
    let mut instance = keyed();
    instance.settings.change_log = ChangeLogSettings {
        base_changes: 60,
        base_log_percent: 0,
        keep_changes: 20,
        keep_age: base::Duration::ZERO,
    };
    let archive = instance.open();
    for n in 0..70 {
        put(&archive, &format!("/{NAME}/f{n}"), &bytes(n + 1, 90));
    }
    put_to_tape(&archive, "a", 1);
    stop(archive);
    fs::remove_dir_all(&instance.settings.catalogue_directory).unwrap();
    let config = VirtualLibraryConfig {
        drives: vec![drive(0), drive(1)],
        robots: 1,
        cartridges: Vec::new(),
        options: VirtualCartridgeOptions::default(),
        drop_cache: false,
    };
    let directory = instance.settings.library.files().unwrap().directory.clone();
    let library = VirtualLibrary::open(&directory, &config).unwrap();
    let faults = library.faults();
    // The tapes are looked at first, then bases are read: from then on the first drive does not encrypt.
    let rebuilt = crate::rebuild::rebuild_from(&instance, &library, &mut |progress| {
        if progress.what == "tapes read" && progress.done == progress.total {
            faults.plan_no_encryption(&drive(0));
        }
    });
    let rebuilt = rebuilt.unwrap();
    assert!(rebuilt.base.is_some(), "{rebuilt:?}");
    assert!(faults.fired() > 0);
}

/// Story: after a restore a key was late once, and the tape that might be written was read-only from then on.
#[test]
fn after_a_restore_a_tape_whose_key_is_late_is_looked_at_when_it_is_there() {
    let instance = keyed();
    let archive = crate::restoring::open(&instance);
    put_to_tape(&archive, "a", 1);
    let vid = used(&archive)[0].vid;
    let change = crate::restoring::shipped(&archive);
    crate::restoring::restore_to(&instance, archive, change);
    // It says nothing about keys as long as others may read it.
    fs::set_permissions(key_file(&instance), fs::Permissions::from_mode(0o644)).unwrap();
    let archive = Archive::open(instance.settings.clone(), Arc::new(SystemClock)).unwrap();
    wait_until("the other tapes may be written", || {
        archive.settling().is_some_and(|it| it.stage > SettlingStage::WrittenTapes)
    });
    wait_until("the tape waits for its key", || archive.tape(vid).unwrap().reason.contains(OLD));
    assert_eq!(archive.tape(vid).unwrap().state, TapeState::Active);
    assert!(archive.settling().is_some_and(|it| !it.stage.is_over()), "nothing is known of it yet");
    give(&instance, &[OLD]);
    let archive = settled(archive);
    put_to_tape(&archive, "b", 2);
    let tapes = used(&archive);
    assert_eq!((tapes.len(), tapes[0].vid, tapes[0].state), (1, vid, TapeState::Active), "{tapes:#?}");
    recall(&archive, "a", 1);
    recall(&archive, "b", 2);
    stop(archive);
}

/// A tape that is encrypted otherwise than the catalogue says is looked at by somebody: no key helps.
#[test]
fn a_tape_that_is_encrypted_otherwise_than_the_catalogue_says_is_suspect() {
    let mut instance = instance();
    let archive = instance.open();
    let (vid, at) = put_to_tape_only(&archive);
    stop(archive);
    use_key(&mut instance, OLD);
    give(&instance, &[OLD]);
    let store = StoreOptions::new(instance.settings.catalogue_map_size, Arc::new(SystemClock));
    let store = CatalogueStore::open(&instance.settings.catalogue_directory, store).unwrap();
    let check = instance.settings.tape_keys().find(&KeyId::new(OLD).unwrap(), None, None).unwrap();
    let key = Some(TapeKey { id: KeyId::new(OLD).unwrap(), check: check.key.check() });
    store.execute(Command::SetTapeKey { vid, key }).unwrap();
    drop(store);
    let archive = instance.open();
    stage(&archive, &[&at]);
    wait_until("it is suspect", || {
        let tape = archive.tape(vid).unwrap();
        tape.state == TapeState::Suspect && tape.reason.contains("the catalogue says key")
    });
    stop(archive);
}

/// A store of keys that gives another one each time is told, and leaves no rows of keys that no tape has.
#[test]
fn a_program_that_gives_another_key_each_time_leaves_no_keys_at_hand() {
    let mut instance = instance();
    let program = instance.directory.path().join("random");
    fs::write(&program, "#!/bin/sh\nhead -c 32 /dev/urandom | od -An -v -tx1 | tr -d ' \\n'\n").unwrap();
    fs::set_permissions(&program, fs::Permissions::from_mode(0o700)).unwrap();
    let (key, keys) = (KeyId::new(OLD).unwrap(), KeySource::Command(program));
    instance.settings.tape_pools[0].encryption = Some(PoolEncryption { key: Some(key), keys });
    let archive = instance.open();
    put(&archive, &format!("/{NAME}/a"), &content(1));
    archive.migrate_now(None).unwrap();
    wait_until("a tape has one of them", || used(&archive).iter().any(|tape| tape.key.is_some()));
    migrate_all(&archive);
    dismounted(&archive);
    // The next mount asks again.
    put(&archive, &format!("/{NAME}/b"), &content(2));
    archive.migrate_now(None).unwrap();
    wait_until("a tape tells of it", || {
        used(&archive).iter().any(|tape| tape.reason.contains("another key under this id"))
    });
    stop(archive);
    let store = StoreOptions::new(instance.settings.catalogue_map_size, Arc::new(SystemClock));
    let store = CatalogueStore::open(&instance.settings.catalogue_directory, store).unwrap();
    let at_hand = store.read(|view| view.keys_at_hand()).unwrap();
    assert!(at_hand.is_empty(), "{at_hand:?}");
}

/// Story: after a restore a tape waited for a key that nobody has any more, for ever: the program that should
/// give it fails. An operator who takes the tape out of use ends that.
#[test]
fn after_a_restore_a_key_that_nobody_gives_is_not_waited_for_if_its_tape_is_out_of_use() {
    let mut instance = keyed();
    let archive = crate::restoring::open(&instance);
    put_to_tape(&archive, "a", 1);
    let vid = used(&archive)[0].vid;
    let change = crate::restoring::shipped(&archive);
    crate::restoring::restore_to(&instance, archive, change);
    let program = instance.directory.path().join("fails");
    fs::write(&program, "#!/bin/sh\nexit 1\n").unwrap();
    fs::set_permissions(&program, fs::Permissions::from_mode(0o700)).unwrap();
    let (key, keys) = (KeyId::new(OLD).unwrap(), KeySource::Command(program));
    instance.settings.tape_pools[0].encryption = Some(PoolEncryption { key: Some(key), keys });
    let archive = Archive::open(instance.settings.clone(), Arc::new(SystemClock)).unwrap();
    let told = || archive.tape(vid).unwrap().reason;
    wait_until("the tape waits for its key, and says what ends that", || {
        let told = told();
        told.contains("failed: exit status: 1") && told.contains(&format!("kist tape set {vid} disabled"))
    });
    assert!(archive.settling().is_some_and(|it| !it.stage.is_over()), "nothing is known of it yet");
    archive.set_tape(vid, TapeUse::Disabled, "nobody has its key").unwrap();
    let archive = settled(archive);
    assert_eq!(archive.tape(vid).unwrap().state, TapeState::Disabled);
    assert_eq!(get(&archive, &format!("/{NAME}/a")).unwrap(), content(1));
    stop(archive);
}
