//! Every screen names the same cause of the same wait.
//!
//! Story: `kist queue` and `kist request show` blamed an idle drive where `kist why` knew that room in the
//! pool was missing, and before a recall's age all of them promised a mount that no age would have brought.

use std::fs;

use archive::{
    About, Archive, ArchiveError, Cause, Expected, QueueLine, Reason, Settings, Stat, TapeUse, TimingSettings,
};
use base::{ByteCount, Duration, RequestId, Vid};
use library::{Faults, VirtualCartridgeOptions, VirtualLibrary, VirtualLibraryConfig};

use crate::common::{Instance, all, bytes, migrate_all, path, put, stage, stop, wait_until};
use crate::emptied::dismounted;
use crate::faulty::{Trouble, data, place, set_drives};

const FILE: usize = 3_000_000;
const HOUR: Duration = Duration::from_secs(3600);

/// A reason as a screen shows it.
type Shown = (&'static str, Reason);

/// An instance whose files have one copy, so that a file and its tape wait for the same.
fn instance(change: impl FnOnce(&mut Settings)) -> Instance {
    Instance::with(ByteCount::mib(128), |settings| {
        settings.classes.iter_mut().for_each(|class| class.copies.truncate(1));
        settings.tape_pools.truncate(1);
        change(settings);
    })
}

fn in_words(screen: &'static str, text: &str, reason: Option<&Reason>) -> Shown {
    let reason = reason.unwrap_or_else(|| panic!("{screen} tells no reason: {text}"));
    assert!(text.contains(&reason.to_string()), "{screen} says '{text}' where the reason is '{reason}'");
    (screen, reason.clone())
}

/// What the queue and the status say of a line, at moments between which its cause did not change.
fn in_lists(archive: &Archive, what: &str) -> Vec<Shown> {
    let line_now = || {
        let queue = archive.queue().unwrap();
        let line = queue.iter().find(|line| line.what == what);
        line.unwrap_or_else(|| panic!("{what}: {queue:?}")).clone()
    };
    let (mut line, mut stuck) = (line_now(), archive.totals().unwrap().stuck);
    wait_until("the cause stays", || {
        let before = std::mem::replace(&mut line, line_now());
        // Only its kind: a reason may name figures and times that change.
        let kind = |line: &QueueLine| line.cause.as_ref().map(std::mem::discriminant);
        let is_same = kind(&before) == kind(&line);
        if !is_same {
            stuck = archive.totals().unwrap().stuck;
        }
        is_same
    });
    let mut shown = vec![in_words("queue", &line.reason, line.cause.as_ref())];
    let in_status = stuck.iter().find(|line| line.what == what);
    let needs = line.cause.as_ref().is_some_and(Reason::needs_an_operator);
    assert_eq!(in_status.is_some(), needs, "status: {stuck:?}");
    shown.extend(in_status.map(|line| in_words("status", &line.reason, line.cause.as_ref())));
    shown
}

/// What all screens say of a file that a request waits for, and of its tape.
fn of_recall(archive: &Archive, file: &str, request: RequestId) -> Vec<Shown> {
    let mut shown = Vec::new();
    for (screen, about) in [("why PATH", About::Path(path(file))), ("why REQUEST", About::Request(request))] {
        let causes = archive.explain(&about).unwrap();
        let cause =
            causes.iter().find(|cause| cause.reason.is_some()).unwrap_or_else(|| panic!("{causes:?}"));
        shown.push(in_words(screen, &cause.text, cause.reason.as_ref()));
    }
    let outlook = archive.request_outlook(request).unwrap();
    let tail = outlook.tail.iter().find(|tail| tail.path == file);
    let tail = tail.unwrap_or_else(|| panic!("request show: {:?}", outlook.tail));
    shown.push(("request show", tail.reason.clone()));
    let refused = archive.open_read(&path(file)).err();
    let Some(ArchiveError::Nearline { vids, recall, .. }) = &refused else { panic!("get: {refused:?}") };
    let text = refused.as_ref().map(ToString::to_string).unwrap_or_default();
    shown.push(in_words("get", &text, recall.as_deref()));
    let vid = vids[0];
    let cause = archive.explain(&About::Tape(vid)).unwrap().remove(0);
    shown.push(in_words("why VID", &cause.text, cause.reason.as_ref()));
    let classes = archive.classes().unwrap().into_iter().map(|class| About::Class(class.name));
    let causes: Vec<_> = classes.flat_map(|class| archive.explain(&class).unwrap()).collect();
    let cause = causes.iter().find(|cause| cause.text.starts_with("recall: "));
    let cause = cause.unwrap_or_else(|| panic!("why CLASS: {causes:?}"));
    shown.push(in_words("why CLASS", &cause.text, cause.reason.as_ref()));
    shown.extend(in_lists(archive, &format!("recall {vid}")));
    shown
}

/// What all screens say of a file that waits for its tape.
fn of_migration(archive: &Archive, file: &str, line: &str) -> Vec<Shown> {
    let cause = archive.explain(&About::Path(path(file))).unwrap().remove(0);
    let mut shown = vec![in_words("why PATH", &cause.text, cause.reason.as_ref())];
    shown.extend(in_lists(archive, line));
    shown
}

/// Waits until the first screen says `kind`; then all of them have to, in the same words. What waits may
/// change between two screens: then they are looked at once more.
fn agree(kind: &str, screens: impl Fn() -> Vec<Shown>) {
    wait_until(kind, || screens().first().is_some_and(|(_, reason)| reason.kind() == kind));
    let first = screens();
    let shown = if is_one(&first) { first } else { screens() };
    let first = &shown[0].1;
    for (screen, reason) in &shown {
        assert_eq!(reason.to_string(), first.to_string(), "{screen}: {shown:#?}");
        assert_eq!(reason.kind(), kind, "{screen}: {shown:#?}");
    }
}

/// Whether all screens say the same.
fn is_one(shown: &[Shown]) -> bool {
    shown.iter().all(|(_, reason)| reason.to_string() == shown[0].1.to_string())
}

/// Two files on tape only, no tape in a drive: from one that is there they would be read at once.
fn nearline(archive: &Archive) -> Vid {
    for n in 0..2 {
        put(archive, &format!("/t/f{n}"), &bytes(n, FILE));
    }
    migrate_all(archive);
    dismounted(archive);
    assert_eq!(archive.evict(&all(&["/t"])).unwrap().evicted, 2);
    archive.tapes().unwrap().into_iter().find(|tape| tape.uuid.is_some()).unwrap().vid
}

fn patient(settings: &mut Settings) {
    settings.tape.recall_age = HOUR;
    settings.tape.recall_bytes = ByteCount::gib(1);
}

fn ceiling(settings: &mut Settings) {
    settings.classes.iter_mut().for_each(|class| class.pool_max = Some(ByteCount(FILE as u64 + 1_000)));
}

#[test]
fn of_a_recall() {
    type Change = fn(&mut Settings);
    type Then = fn(&Archive, Vid);
    let full: Then = |archive, _| drop(put(archive, "/full", &bytes(7, FILE + 1_000)));
    let table: [(&str, Change, Then); 6] = [
        ("waiting-for-bytes", patient, |_, _| {}),
        // No age makes room: it is told at once.
        ("waiting-for-space", |settings| (patient(settings), ceiling(settings)).0, full),
        ("waiting-for-space", ceiling, full),
        ("all-drives-down", patient, |archive, _| {
            for drive in archive.tape_drives() {
                archive.drive_down(&drive.name, "a test").unwrap();
            }
        }),
        ("all-drives-down", ceiling, |archive, _| {
            for drive in archive.tape_drives() {
                archive.drive_down(&drive.name, "a test").unwrap();
            }
        }),
        (
            "tape-not-readable",
            |_| {},
            |archive, vid| {
                archive.set_tape(vid, TapeUse::Disabled, "a test").unwrap();
            },
        ),
    ];
    for (kind, change, then) in table {
        // What is put afterwards stays in the pool: while a tape is written, other causes hold.
        let instance = instance(|settings| {
            settings.tape_pools[0].mount_age = HOUR;
            change(settings);
        });
        let archive = instance.open();
        let vid = nearline(&archive);
        then(&archive, vid);
        if kind == "waiting-for-space" {
            wait_until("the room is known", || archive.flow().unwrap().classes.iter().any(|c| c.room.0 == 0));
        }
        let request = stage(&archive, &["/t/f0"]);
        let causes = || archive.explain(&About::Path(path("/t/f0"))).unwrap();
        wait_until("the scheduler has heard of it", || causes().iter().any(|cause| cause.reason.is_some()));
        agree(kind, || of_recall(&archive, "/t/f0", request));
        archive.close();
    }
}

/// Story: with all drives down, or all tapes disabled, the queue said until its age that a migration would go
/// at that time, beside 'not before somebody does something'; the test hurried it, and so hid that.
#[test]
fn of_a_migration() {
    let instance = instance(|settings| settings.tape_pools[0].mount_age = HOUR);
    let archive = instance.open();
    put(&archive, "/t/f0", &bytes(1, FILE));
    wait_until("it is queued", || archive.totals().unwrap().queued.files > 0);
    agree("waiting-for-bytes", || of_migration(&archive, "/t/f0", "migrate vault-a"));
    // No age brings a drive or a tape: both are told at once.
    for drive in archive.tape_drives() {
        archive.drive_down(&drive.name, "a test").unwrap();
    }
    agree("all-drives-down", || of_migration(&archive, "/t/f0", "migrate vault-a"));
    foretold_by_its_cause(&archive, "/t/f0", "migrate vault-a");
    for tape in archive.tapes().unwrap() {
        archive.set_tape(tape.vid, TapeUse::Disabled, "a test").unwrap();
    }
    for drive in archive.tape_drives() {
        archive.drive_up(&drive.name).unwrap();
    }
    agree("no-scratch-tape", || of_migration(&archive, "/t/f0", "migrate vault-a"));
    foretold_by_its_cause(&archive, "/t/f0", "migrate vault-a");
    for tape in archive.tapes().unwrap() {
        archive.set_tape(tape.vid, TapeUse::Active, "a test").unwrap();
    }
    agree("waiting-for-bytes", || of_migration(&archive, "/t/f0", "migrate vault-a"));
    archive.close();
}

/// What is foretold of a wait that lasts until somebody does something rests on the very cause that is told.
fn foretold_by_its_cause(archive: &Archive, file: &str, line: &str) {
    let cause = archive.explain(&About::Path(path(file))).unwrap().remove(0);
    assert_eq!(cause.expected, cause.reason.map(Expected::Never));
    let queue = archive.queue().unwrap();
    let queued = queue.iter().find(|queued| queued.what == line).unwrap();
    assert_eq!(queued.expected, queued.cause.clone().map(Expected::Never));
}

/// What all screens say of the repack of a tape.
fn of_repack(archive: &Archive, vid: Vid) -> Vec<Shown> {
    let repack = archive.tape_repack(vid).unwrap().unwrap();
    let Some(wait) = repack.waits else { panic!("{:?}", archive.tape(vid)) };
    let mut shown = vec![in_words("repack --show", &wait.to_string(), Some(&wait.reason))];
    let causes = archive.explain(&About::Tape(vid)).unwrap();
    let cause = causes.iter().find(|cause| cause.text.starts_with("its repack: "));
    let cause = cause.unwrap_or_else(|| panic!("{causes:?}"));
    shown.push(in_words("why VID", &cause.text, cause.reason.as_ref()));
    shown.extend(in_lists(archive, &format!("repack {vid}")));
    shown
}

/// Story: a repack that could not read its tape stood still, and no screen said why.
#[test]
fn of_a_repack_that_no_tape_serves() {
    type Then = fn(&Trouble, &Archive, &Faults, Vid);
    let table: [(&str, &str, Then); 4] = [
        ("all-drives-down", "every tape drive is down", |_, archive, _, _| set_drives(archive, false)),
        ("no-readable-copy", "no library holds it", |trouble, archive, _, vid| {
            wait_until("the tape is in its slot", || archive.tape(vid).unwrap().drive.is_none());
            let away = trouble.instance.settings.library.files().unwrap().directory.join("away");
            fs::rename(trouble.instance.cartridge(vid), away).unwrap();
            archive.take_inventory().unwrap();
        }),
        ("no-readable-copy", "damaged: ", |_, archive, faults, vid| {
            for (_, block) in (0..2).flat_map(|n| place(archive, &format!("/t/f{n}"))) {
                faults.plan_unreadable(vid, data(block.0 + 5));
            }
        }),
        ("resting", "it is suspect", |_, archive, faults, vid| {
            wait_until("the tape is in its slot", || archive.tape(vid).unwrap().drive.is_none());
            let blank = archive.tapes().unwrap().into_iter().find(|tape| tape.uuid.is_none()).unwrap().vid;
            faults.plan_wrong_cartridge(vid, blank);
        }),
    ];
    for (kind, text, then) in table {
        let trouble = Trouble::with(1, HOUR, |settings| {
            settings.classes.iter_mut().for_each(|class| class.copies.truncate(1));
            settings.tape_pools.truncate(1);
            settings.tape.dismount_delay = Duration::ZERO;
        });
        let (archive, faults) = trouble.open();
        let vid = nearline(&archive);
        then(&trouble, &archive, &faults, vid);
        archive.repack_tape(vid, "a test").unwrap();
        let waits = || archive.tape_repack(vid).unwrap().and_then(|repack| repack.waits);
        wait_until(text, || waits().is_some_and(|wait| wait.reason.to_string().contains(text)));
        agree(kind, || of_repack(&archive, vid));
        assert_eq!(archive.totals().unwrap().repacked, 2, "it is not over: {kind}");
        archive.close();
    }
}

/// Story: a file that was put before the tapes were exchanged for smaller ones waited without a word, and
/// its containers made Kist mount a tape for nothing now and then. Its own container is cut anew; what was
/// cut for larger tapes waits for these.
#[test]
fn of_a_file_that_no_tape_takes_any_more() {
    let instance = instance(|settings| settings.tape_pools[0].mount_age = HOUR);
    let archive = instance.open();
    put(&archive, "/t/cut", &bytes(1, 12_000_000));
    put(&archive, "/t/large", &bytes(1, 130_000_000));
    wait_until("they are sealed", || archive.totals().unwrap().todo.files == 0);
    stop(archive);
    let directory = &instance.settings.library.files().unwrap().directory;
    fs::remove_dir_all(directory.join("cartridges")).unwrap();
    let small = |n: u16| (Vid::new(&format!("KS{n:04}")).unwrap(), ByteCount::mib(10));
    let config = VirtualLibraryConfig {
        drives: Vec::new(),
        robots: 1,
        cartridges: (1..=4).map(small).collect(),
        options: VirtualCartridgeOptions::default(),
        drop_cache: false,
    };
    VirtualLibrary::create(directory, &config).unwrap();
    let archive = instance.open();
    put(&archive, "/t/f0", &bytes(2, FILE));
    archive.migrate_now(None).unwrap();
    let line = "migrate vault-a (too large)";
    wait_until("it is queued", || archive.queue().unwrap().iter().any(|queued| queued.what == line));
    agree("larger-than-tapes", || of_migration(&archive, "/t/large", line));
    wait_until("the other file is on tape", || {
        archive.totals().unwrap().unindexed == 0 && {
            let queue = archive.queue().unwrap();
            queue.iter().all(|queued| queued.what == line)
        }
    });
    let Stat::File(cut) = archive.stat(&path("/t/cut")).unwrap() else { panic!() };
    assert!(cut.copies.len() == 2 && cut.copies.iter().all(|copy| copy.vid.is_some()), "{:?}", cut.copies);
    let written: u64 = archive.tapes().unwrap().iter().map(|tape| tape.containers).sum();
    let mounts = archive.totals().unwrap().mounts;
    // A drive may be on its way with a tape for what another one writes first, but none comes twice for it.
    let drives = archive.tape_drives().len() as u64;
    assert!(
        mounts < written + drives,
        "{mounts} mounts for {written} containers: some for what no tape takes"
    );
    archive.close();
}

#[test]
fn of_what_could_be_evicted() {
    let instance = instance(|_| {});
    let archive = instance.open();
    let evictable = || archive.totals().unwrap().holders.evictable;
    let pinned = || archive.totals().unwrap().holders.pinned;
    for n in 0..3 {
        put(&archive, &format!("/t/f{n}"), &bytes(n, FILE));
    }
    archive.migrate_now(None).unwrap();
    migrate_all(&archive);
    assert_eq!((evictable().files, evictable().bytes.0), (3, 3 * FILE as u64));
    for drive in archive.tape_drives() {
        archive.drive_down(&drive.name, "a test").unwrap();
    }
    put(&archive, "/t/new", &bytes(9, FILE));
    wait_until("it is in a container", || archive.totals().unwrap().todo.files == 0);
    assert_eq!(evictable().files, 3, "no tape has the new one");
    let request = stage(&archive, &["/t/f0"]);
    assert_eq!((evictable().files, evictable().bytes.0), (2, 2 * FILE as u64), "one is pinned");
    assert_eq!((pinned().files, pinned().bytes.0), (1, FILE as u64));
    // Story: which request holds a file was asked of the first three only.
    let held = archive.evict(&all(&["/t/f0"])).unwrap().holding;
    let held: Vec<_> = held.into_iter().map(|(request, held)| (request, held.files)).collect();
    assert_eq!(held, [(request, 1)]);
    archive.release(request, None).unwrap();
    // Story: what evict refuses, since its tapes are set aside, counted as evictable.
    let tapes: Vec<Vid> =
        archive.tapes().unwrap().iter().filter(|tape| tape.uuid.is_some()).map(|t| t.vid).collect();
    let set = |to| tapes.iter().for_each(|vid| archive.set_tape(*vid, to, "a test").unwrap());
    set(TapeUse::Disabled);
    assert_eq!(archive.evict(&all(&["/t"])).unwrap().evicted, 0);
    assert_eq!((evictable().files, evictable().bytes.0), (0, 0), "their tapes are set aside");
    set(TapeUse::Active);
    let evicted = archive.evict(&all(&["/t"])).unwrap();
    assert_eq!((evicted.evicted, evicted.refused_count), (3, 1));
    assert_eq!(evictable().files, 0);
    archive.close();
}

/// Story: a request for more than the pool takes filled it with what it pinned. Its time left fell for ever,
/// and the reason told to evict files, none of which could go.
#[test]
fn of_a_request_that_holds_the_pool_itself() {
    let instance = instance(ceiling);
    let archive = instance.open();
    nearline(&archive);
    let request = stage(&archive, &["/t"]);
    wait_until("one is back", || archive.request(request).unwrap().record.done == 1);
    let causes = || archive.explain(&About::Request(request)).unwrap();
    let own =
        |cause: &Cause| cause.reason.as_ref().is_some_and(|reason| reason.kind() == "own-pins-hold-pool");
    wait_until("it is told what holds the room", || causes().iter().any(own));
    let told = causes().into_iter().find(own).unwrap().text;
    assert!(told.contains(&format!("kist release {request}")) && told.contains("smaller parts"), "{told}");
    let outlook = archive.request_outlook(request).unwrap();
    assert!(
        matches!(&outlook.expected, Some(Expected::Never(reason)) if reason.kind() == "own-pins-hold-pool")
    );
    archive.close();
}

/// Story: with both tapes of a file disabled, the queue and the status said of each that it had the only copy
/// and 'it is disabled: ', with nothing behind the colon.
#[test]
fn of_files_whose_tapes_are_disabled() {
    let instance = Instance::with(ByteCount::mib(128), patient);
    let archive = instance.open();
    nearline(&archive);
    let tapes: Vec<Vid> =
        archive.tapes().unwrap().iter().filter(|tape| tape.uuid.is_some()).map(|tape| tape.vid).collect();
    let [first, second] = tapes[..] else { panic!("{tapes:?}") };
    archive.set_tape(first, TapeUse::Disabled, "").unwrap();
    let request = stage(&archive, &["/t/f0"]);
    let line = |vid: Vid| {
        let queue = archive.queue().unwrap();
        queue.into_iter().find(|line| line.what == format!("recall {vid}")).unwrap()
    };
    // The other one gives them: nothing may say that nothing waits, nor that somebody has to do something.
    let elsewhere = Reason::ReadElsewhere { vid: first, tapes: vec![second] };
    wait_until("the scheduler has heard of it", || line(first).cause == Some(elsewhere.clone()));
    let cause = archive.explain(&About::Tape(first)).unwrap().remove(0);
    assert!(
        cause.text.contains(&format!("wanted from it: its files are read from tape {second}")),
        "{cause:?}"
    );
    assert!(archive.totals().unwrap().stuck.is_empty());
    archive.set_tape(second, TapeUse::Disabled, "broken: look at it").unwrap();
    agree("no-readable-copy", || of_recall(&archive, "/t/f0", request));
    for vid in [first, second] {
        let told = line(vid).reason;
        assert!(!told.contains("only copy") && !told.contains(": ;"), "{told}");
        assert!(told.contains(&format!("kist tape set {first} active, or read-only")), "{told}");
        assert!(told.contains("it is disabled: broken: look at it;"), "{told}");
        assert_eq!(archive.explain(&About::Tape(vid)).unwrap()[0].reason, line(vid).cause);
    }
    archive.close();
}

/// Story: `kist stage --wait` foretold a time that grew while nothing changed: a file found no room, its tape
/// was tried again and again, each time later, and each forecast took the next try for the last one.
#[test]
fn no_time_is_foretold_for_a_file_that_finds_no_room() {
    let instance = instance(|settings| {
        settings.tape_pools[0].mount_age = HOUR;
        settings.tape.retry_delay = Duration::from_millis(1);
        // A mount takes long enough to look at it.
        let timing = TimingSettings { drive: "LTO-8".to_owned(), scale: 50.0, robots: 1 };
        *settings.library.timing_mut() = Some(timing);
        ceiling(settings);
    });
    let archive = instance.open();
    let vid = nearline(&archive);
    let request = stage(&archive, &["/t"]);
    let waits = || archive.explain(&About::Request(request)).unwrap();
    wait_until("one has come and the other one finds no room", || {
        archive.request(request).unwrap().record.done == 1
            && waits().iter().any(|cause| matches!(cause.reason, Some(Reason::OwnPinsHoldPool { .. })))
    });
    let mounts = || archive.tapes().unwrap().iter().find(|tape| tape.vid == vid).unwrap().mounts;
    let first = mounts();
    wait_until("it was tried again some times", || {
        for _ in 0..20 {
            let outlook = archive.request_outlook(request).unwrap();
            let all =
                [outlook.expected].into_iter().chain(outlook.tail.into_iter().map(|file| file.expected));
            for expected in all.chain(waits().into_iter().map(|cause| cause.expected)).flatten() {
                assert!(matches!(expected, Expected::Never(_)), "{expected:?}");
            }
        }
        mounts() >= first + 3
    });
    stop(archive);
}
