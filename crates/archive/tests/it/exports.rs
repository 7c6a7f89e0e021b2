//! Tapes that go out of the library and come back, and those that are never used again.

use std::fs;
use std::path::PathBuf;

use archive::{Archive, Reason, TapeExport, TapeInfo, TapeUse};
use base::{ByteCount, RequestId, Vid};
use catalogue::{AwayKind, EvictRefusal, RequestState, TapeState};
use library::DriveCommand;

use crate::common::{Instance, all, bytes, get, migrate_all, path, put, stage, stop, wait_for, wait_until};
use crate::held::{Gate, open_behind};
use crate::keys::{drive, open_with_faults};
use crate::restoring::at_rest;

const FILES: u64 = 3;

fn name(n: u64) -> String {
    format!("/t/file{n}")
}

fn content(n: u64) -> Vec<u8> {
    bytes(n + 1, 300_000)
}

fn instance() -> Instance {
    Instance::with(ByteCount::mib(256), at_rest)
}

/// Writes files to both tape pools; their tapes, at rest.
fn write(archive: &Archive) -> Vec<Vid> {
    (0..FILES).for_each(|n| drop(put(archive, &name(n), &content(n))));
    migrate_all(archive);
    rest(archive);
    let used = archive.tapes().unwrap().into_iter().filter(|tape| tape.containers > 0);
    let vids: Vec<Vid> = used.map(|tape| tape.vid).collect();
    assert_eq!(vids.len(), 2, "a tape of each pool");
    vids
}

/// A recall whose only tape at hand is on its way into a drive, where it does not come before the gate opens.
fn hanging(archive: &Archive, gate: &Gate, vids: &[Vid]) -> RequestId {
    archive.evict(&all(&["/t"])).unwrap();
    gate.take_out(vids[1]);
    archive.take_inventory().unwrap();
    gate.hold(vids[0]);
    let request = stage(archive, &[&name(0)]);
    wait_until("a mount does not come back", || gate.hanging() > 0);
    request
}

fn rest(archive: &Archive) {
    wait_until("the drives are empty", || archive.tape_drives().iter().all(|drive| drive.vid.is_none()));
}

/// Where a cartridge stands that is to be taken out, or was put in.
fn element(instance: &Instance, vid: Vid) -> PathBuf {
    let slots = instance.cartridge(vid);
    slots.parent().unwrap().with_file_name("import-export").join(vid.as_str())
}

fn export(archive: &Archive, vid: Vid) {
    wait_until("the tape is exported", || {
        matches!(archive.export_tape(vid).unwrap(), TapeExport::Done { .. })
    });
}

fn away(tape: &TapeInfo) -> Option<(AwayKind, &str)> {
    tape.away_as.as_ref().map(|away| (away.kind, away.place.as_str()))
}

fn state(archive: &Archive, request: RequestId) -> RequestState {
    archive.request(request).unwrap().record.state
}

fn copies_away(archive: &Archive, at: &str) -> usize {
    let archive::Stat::File(stat) = archive.stat(&path(at)).unwrap() else { panic!("{at} is no file") };
    let away = stat.copies.iter().filter(|copy| copy.away).count();
    assert_eq!(stat.is_away(), away == 2);
    away
}

/// Files all of whose copies are away wait, are told everywhere, and come when a tape is back; until then the
/// request can be cancelled. What is in the pool stays there.
#[test]
fn files_wait_for_tapes_that_are_away() {
    let instance = instance();
    let archive = instance.open();
    let vids = write(&archive);
    let before: Vec<TapeState> = vids.iter().map(|vid| archive.tape(*vid).unwrap().state).collect();
    // A copy that is away is a copy: one that is here is enough to give up what the pool has.
    export(&archive, vids[0]);
    assert_eq!(away(&archive.tape(vids[0]).unwrap()), Some((AwayKind::Exported, "")));
    assert_eq!(archive.tape(vids[0]).unwrap().element, Some(0));
    assert_eq!(copies_away(&archive, &name(0)), 1);
    let evicted = archive.evict(&all(&[&name(0), &name(1)])).unwrap();
    assert_eq!((evicted.evicted, evicted.refused_count), (2, 0));
    // One is kept elsewhere: where it is put stands in the catalogue.
    let vault = tempfile::tempdir().unwrap();
    export(&archive, vids[1]);
    for vid in &vids {
        fs::rename(element(&instance, *vid), vault.path().join(vid.as_str())).unwrap();
    }
    archive.take_inventory().unwrap();
    archive.set_tape_off_site(vids[1], "vault 3, shelf 12").unwrap();
    assert!(archive.set_tape_off_site(vids[1], &"v".repeat(257)).is_err());
    let refused = archive.evict(&all(&[&name(2)])).unwrap().refused;
    assert!(matches!(refused[..], [(_, EvictRefusal::NotInLibrary(_))]), "{refused:?}");
    assert_eq!(copies_away(&archive, &name(0)), 2);
    // Nobody is warned of what is away on purpose, until it is asked for.
    let warned = |what: &str| archive.totals().unwrap().warnings.into_iter().find(|it| it.contains(what));
    assert_eq!((warned("no library holds"), warned("off-site")), (None, None));

    let request = stage(&archive, &[&name(0), &name(1)]);
    let cancelled = stage(&archive, &[&name(1)]);
    let told = format!("{} is off-site (vault 3, shelf 12), 2 files of 2 requests wait for it", vids[1]);
    wait_until("status lists the tape", || warned(&told).is_some());
    let off_site = "off-site (vault 3, shelf 12)";
    let tells = |lines: Vec<String>| lines.iter().any(|line| line.contains(off_site));
    wait_until("why tells of the request", || tells(archive.why_request(request).unwrap()));
    wait_until("why tells of the file", || tells(archive.why_path(&path(&name(0))).unwrap()));
    let why = archive.explain(&archive::About::Tape(vids[1])).unwrap();
    assert!(tells(why.into_iter().map(|cause| cause.text).collect()));
    assert_eq!(state(&archive, request), RequestState::Active, "it fails not, it waits");
    archive.cancel_request(cancelled).unwrap();
    wait_until("it is cancelled", || state(&archive, cancelled) == RequestState::Cancelled);

    // It is here again when an operator has put it into an element and said so; a restart changes nothing.
    stop(archive);
    let archive = instance.open();
    assert_eq!(away(&archive.tape(vids[1]).unwrap()), Some((AwayKind::OffSite, "vault 3, shelf 12")));
    fs::rename(vault.path().join(vids[1].as_str()), element(&instance, vids[1])).unwrap();
    archive.take_inventory().unwrap();
    assert_eq!(archive.tape(vids[1]).unwrap().element, Some(0));
    assert_eq!(state(&archive, request), RequestState::Active, "it is not mounted from there");
    assert!(archive.import_tapes(Some(7)).unwrap().is_empty());
    let imports = archive.import_tapes(Some(0)).unwrap();
    assert!(matches!(&imports[..], [one] if one.vid == vids[1] && one.slot.is_ok()), "{imports:?}");
    wait_for(&archive, request);
    let tape = archive.tape(vids[1]).unwrap();
    assert_eq!((away(&tape), tape.away, tape.state), (None, false, before[1]));
    assert!(get(&archive, &name(0)).unwrap() == content(0));
    assert_eq!(copies_away(&archive, &name(0)), 1);
    // Put into a slot by hand, without a word.
    fs::rename(vault.path().join(vids[0].as_str()), instance.cartridge(vids[0])).unwrap();
    archive.refresh_inventory(false).unwrap();
    let tape = archive.tape(vids[0]).unwrap();
    assert_eq!((away(&tape), tape.away, tape.state), (None, false, before[0]));
    assert_eq!(archive.verify_catalogue().unwrap(), []);
    stop(archive);
}

/// A tape that a drive has goes out by itself when the drive has given it back, and nothing new is begun.
#[test]
fn an_export_waits_for_the_drive() {
    let instance = instance();
    let gate = Gate::default();
    let archive = open_behind(&instance, &gate);
    let vids = write(&archive);
    let request = hanging(&archive, &gate, &vids);
    let waits = archive.export_tape(vids[0]).unwrap();
    let TapeExport::Waiting { reason, begins: true } = &waits else { panic!("{waits:?}") };
    assert!(reason.contains("drive vdrive"), "{reason}");
    let again = archive.export_tape(vids[0]).unwrap();
    assert!(matches!(again, TapeExport::Waiting { begins: false, .. }), "{again:?}");
    assert_eq!(away(&archive.tape(vids[0]).unwrap()), None);
    assert!(archive.tape(vids[0]).unwrap().leaving, "the list tells of it");
    let later = stage(&archive, &[&name(1)]);
    gate.hold_none();
    // The inventory's thread brings it out.
    wait_until("the tape is exported", || away(&archive.tape(vids[0]).unwrap()).is_some());
    // The record comes first, the robot behind it.
    wait_until("it stands there", || element(&instance, vids[0]).is_dir());
    assert!(matches!(archive.export_tape(vids[0]).unwrap(), TapeExport::Done { element: 0, .. }));
    archive.import_tapes(None).unwrap();
    wait_for(&archive, request);
    wait_for(&archive, later);
    stop(archive);
}

/// Story: a restart forgot it, and an operator who had been told that the tape goes out found it in its slot.
#[test]
fn an_export_that_waits_lasts_over_a_restart() {
    let instance = instance();
    let (archive, faults) = open_with_faults(&instance);
    let vids = write(&archive);
    faults.plan_death(&drive(0), DriveCommand::Flush);
    put(&archive, &name(FILES), &content(FILES));
    archive.migrate_now(None).unwrap();
    wait_until("the drive dies with a tape in a session", || faults.fired() > 0);
    let exports: Vec<TapeExport> = vids.iter().map(|vid| archive.export_tape(*vid).unwrap()).collect();
    let waiting = exports.iter().filter(|export| matches!(export, TapeExport::Waiting { .. })).count();
    assert_eq!(waiting, 1, "{exports:?}");
    stop(archive);
    let archive = instance.open();
    wait_until("its session is closed, and it is out", || {
        vids.iter().all(|vid| away(&archive.tape(*vid).unwrap()) == Some((AwayKind::Exported, "")))
    });
    // The record comes first, the robot behind it.
    wait_until("they stand there", || vids.iter().all(|vid| element(&instance, *vid).is_dir()));
    archive.import_tapes(None).unwrap();
    wait_until("they are in slots", || vids.iter().all(|vid| instance.cartridge(*vid).is_dir()));
    stop(archive);
    // It is done: nothing takes them out again.
    let archive = instance.open();
    archive.evict(&all(&["/t"])).unwrap();
    wait_for(&archive, stage(&archive, &[&name(0)]));
    assert!(vids.iter().all(|vid| away(&archive.tape(*vid).unwrap()).is_none()));
    assert_eq!(archive.verify_catalogue().unwrap(), []);
    stop(archive);
}

/// Story: who was told that a tape goes out found it in its slot: one free element too few, and the export
/// was given up with a line in the log. It stays, with its reason, until the library can do it or it is
/// called off.
#[test]
fn an_export_that_waits_outlasts_a_library_that_cannot_do_it() {
    let instance = instance();
    let gate = Gate::default();
    let archive = open_behind(&instance, &gate);
    let vids = write(&archive);
    let request = hanging(&archive, &gate, &vids);
    assert!(matches!(archive.export_tape(vids[0]).unwrap(), TapeExport::Waiting { begins: true, .. }));
    gate.fail_exports(true);
    gate.hold_none();
    let told = || archive.tape(vids[0]).unwrap().reason;
    wait_until("the reason is told", || told().contains("cannot bring it out now"));
    assert!(archive.tape(vids[0]).unwrap().leaving, "{}", told());
    let again = archive.export_tape(vids[0]).unwrap();
    let TapeExport::Waiting { reason, begins: false } = &again else { panic!("{again:?}") };
    assert!(reason.contains("cannot bring it out now"), "{reason}");
    gate.fail_exports(false);
    wait_until("the tape is exported", || away(&archive.tape(vids[0]).unwrap()).is_some());
    archive.cancel_request(request).unwrap();
    // One that nobody was told of before is refused, and stays.
    archive.import_tapes(None).unwrap();
    gate.fail_exports(true);
    rest(&archive);
    assert!(archive.export_tape(vids[0]).is_err());
    assert!(!archive.tape(vids[0]).unwrap().leaving);
    stop(archive);
}

/// What no later try can do is given up: it would be tried again for ever.
#[test]
fn an_export_that_a_library_can_never_do_is_given_up() {
    let instance = instance();
    let gate = Gate::default();
    let archive = open_behind(&instance, &gate);
    let vids = write(&archive);
    let request = hanging(&archive, &gate, &vids);
    assert!(matches!(archive.export_tape(vids[0]).unwrap(), TapeExport::Waiting { begins: true, .. }));
    gate.close_exports();
    gate.hold_none();
    wait_until("the export is given up", || !archive.tape(vids[0]).unwrap().leaving);
    wait_for(&archive, request);
    stop(archive);
}

/// What a crash leaves of an export is decided by where the cartridge stands.
#[test]
fn an_export_that_was_cut_short_is_none() {
    let instance = instance();
    let archive = instance.open();
    let vids = write(&archive);
    export(&archive, vids[0]);
    stop(archive);
    // As if the process had ended between the word in the catalogue and the move.
    fs::rename(element(&instance, vids[0]), instance.cartridge(vids[0])).unwrap();
    let archive = instance.open();
    wait_until("it is here", || away(&archive.tape(vids[0]).unwrap()).is_none());
    stop(archive);
}

/// A cartridge that Kist does not know is scratch when it is brought in. A retired one is not, until somebody
/// says so.
#[test]
fn a_retired_tape_is_no_scratch_tape() {
    let instance = instance();
    let archive = instance.open();
    let used = write(&archive);
    let blanks: Vec<Vid> = archive.tapes().unwrap().into_iter().map(|tape| tape.vid).collect();
    let blank = *blanks.iter().find(|vid| !used.contains(vid)).unwrap();
    let is = |vid: Vid| archive.tape(vid).unwrap().state;
    archive.retire_tape(blank, "dropped").unwrap();
    archive.retire_tape(blank, "dropped").unwrap();
    assert_eq!(is(blank), TapeState::Retired);
    archive.refresh_inventory(true).unwrap();
    export(&archive, blank);
    archive.import_tapes(None).unwrap();
    assert_eq!(is(blank), TapeState::Retired, "it stands in the library, and is not used");
    assert!(archive.set_tape(blank, TapeUse::Active, "").is_err());
    archive.add_tape(blank).unwrap();
    archive.add_tape(blank).unwrap();
    assert_eq!(is(blank), TapeState::Scratch);
    archive.add_tape(used[0]).unwrap();

    // The rule is that of a reclaim.
    let refused = archive.retire_tape(used[0], "").unwrap_err().to_string();
    // By whether its session has ended by now.
    let whys = ["repack it first", "being written", "is active"];
    assert!(whys.iter().any(|why| refused.contains(why)), "{refused}");
    archive.set_tape(used[0], TapeUse::ReadOnly, "").unwrap();
    let refused = archive.retire_tape(used[0], "").unwrap_err().to_string();
    let reclaim = archive.reclaim_tape(used[0]).unwrap_err().to_string();
    assert_eq!(refused, reclaim);
    // A stranger.
    export(&archive, blank);
    let stranger = Vid::new("KX0001").unwrap();
    let made = tempfile::tempdir().unwrap();
    let config = library::VirtualLibraryConfig {
        drives: Vec::new(),
        robots: 1,
        cartridges: vec![(stranger, ByteCount::mib(64))],
        options: library::VirtualCartridgeOptions::default(),
        drop_cache: false,
    };
    drop(library::VirtualLibrary::create(made.path(), &config).unwrap());
    let from = made.path().join("cartridges").join(stranger.as_str());
    crate::common::copy(&from, &element(&instance, stranger));
    archive.refresh_inventory(false).unwrap();
    let imports = archive.import_tapes(None).unwrap();
    assert_eq!(imports.len(), 2, "{imports:?}");
    assert_eq!((is(stranger), archive.tape(stranger).unwrap().away), (TapeState::Scratch, false));
    assert_eq!(archive.verify_catalogue().unwrap(), []);
    stop(archive);
}

/// Story: the only tape of a pool with room was exported, and all that was told was that scratch tapes lack.
#[test]
fn a_tape_with_room_that_is_away_is_named_where_scratch_tapes_lack() {
    let instance =
        Instance::with_many_tapes(1, ByteCount::mib(256), Default::default(), crate::emptied::single_pool);
    let archive = instance.open();
    put(&archive, &name(0), &content(0));
    migrate_all(&archive);
    rest(&archive);
    let vid = archive.tapes().unwrap()[0].vid;
    export(&archive, vid);
    put(&archive, &name(1), &content(1));
    archive.migrate_now(None).unwrap();
    wait_until("the queue names the tape", || {
        archive.queue().unwrap().iter().any(|line| {
            let names_it = |cause: &Reason| cause.vids() == [vid] && cause.kind() == "no-scratch-tape";
            line.cause.as_ref().is_some_and(names_it) && line.reason.contains("kist tape import-slot")
        })
    });
    archive.close();
}
