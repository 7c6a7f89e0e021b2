//! A stage of what is damaged in all its copies: it waits while these are put together.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use archive::{About, Archive, CheckState, Machines, TapeUse};
use base::{BlockAddress, RequestId, Vid};
use catalogue::{ItemState, RequestState};
use library::Faults;

use crate::common::tight::{Tightness, tighten};
use crate::common::{SystemClock, all, bytes, get, migrate_all, put, settled, stage, wait_for, wait_until};
use crate::faulty::{Trouble, data, drive, place};
use crate::held::{Gate, Held};
use crate::unreadable::extents;
use scheduler::Reason;

/// Longer than a test lasts: what has failed is not tried again by itself.
const LONG: Duration = Duration::from_secs(3_600);
/// Files of 150 KB, a pack of them: each has bytes in several blocks.
const MEMBERS: u64 = 8;
/// Blocks of that pack in which the second member has bytes: the first one is of each copy's own, so that the
/// copies have all of it together, and none has it alone.
const DAMAGED: [u64; 2] = [3, 4];

fn trouble() -> Trouble {
    Trouble::with_retry(1, LONG)
}

/// The server of an instance with one drive, whose mounts wait for a gate, whose tapes do as told, and whose
/// pool has as much room as it is told.
fn open(trouble: &Trouble, gate: &Gate) -> (Archive, Faults, Arc<Tightness>) {
    let settings = trouble.instance.settings.clone();
    let library = trouble.library();
    let faults = library.faults();
    let library = Arc::new(Held { library: Arc::new(library), gate: gate.clone() });
    let mut machines = Machines { library, ..Machines::open(&settings, Arc::new(SystemClock)).unwrap() };
    let tightness = tighten(&mut machines);
    let archive = settled(Archive::open_on(machines, settings, Arc::new(SystemClock)).unwrap());
    (archive, faults, tightness)
}

fn name(n: u64) -> String {
    format!("/t/f{n}")
}

fn content(n: u64) -> Vec<u8> {
    bytes(n + 1, 150_000)
}

/// A pack on two tapes, and in the pool no more; the tapes are in their slots.
fn nearline(archive: &Archive) -> Vec<(Vid, BlockAddress)> {
    (0..MEMBERS).for_each(|n| drop(put(archive, &name(n), &content(n))));
    migrate_all(archive);
    assert_eq!(archive.evict(&all(&["/t"])).unwrap().refused_count, 0);
    wait_until("the tapes are unmounted", || archive.tapes().unwrap().iter().all(|it| it.drive.is_none()));
    place(archive, &name(0))
}

fn damage(faults: &Faults, places: &[(Vid, BlockAddress)], blocks: [u64; 2]) {
    for ((vid, block), number) in places.iter().zip(blocks) {
        faults.plan_unreadable(*vid, data(block.0 + number));
    }
}

/// Stages all and lets two mounts through: both copies are read then, and what the second one lacks is to be
/// read from the first one, for which a third mount is waited for.
fn staged_up_to_the_mend(archive: &Archive, gate: &Gate) -> RequestId {
    let request = stage(archive, &["/t"]);
    gate.open(Some(2));
    wait_until("the first tape is wanted again", || gate.waiting() == 1 && gate.mounted().len() == 2);
    let record = archive.request(request).unwrap().record;
    assert_eq!(
        (record.state, record.failed),
        (RequestState::Active, 0),
        "{:?}",
        archive.why_request(request)
    );
    assert!(u64::from(record.done) < MEMBERS, "no copy has the second member");
    request
}

/// A request that waits for a container of which each copy is damaged.
struct Waiting {
    archive: Archive,
    faults: Faults,
    tightness: Arc<Tightness>,
    gate: Gate,
    places: Vec<(Vid, BlockAddress)>,
    request: RequestId,
}

impl Waiting {
    /// The copies lack these blocks. `staged`: stages all, with no tape mounted yet.
    fn with(
        trouble: &Trouble,
        blocks: [u64; 2],
        staged: impl FnOnce(&Archive, &Gate) -> RequestId,
    ) -> Waiting {
        let (archive, ..) = open(trouble, &Gate::default());
        let places = nearline(&archive);
        archive.close();
        drop(archive);
        let gate = Gate::shut();
        let (archive, faults, tightness) = open(trouble, &gate);
        damage(&faults, &places, blocks);
        let request = staged(&archive, &gate);
        Waiting { archive, faults, tightness, gate, places, request }
    }

    fn of(trouble: &Trouble, blocks: [u64; 2]) -> Waiting {
        Waiting::with(trouble, blocks, staged_up_to_the_mend)
    }
}

fn wait_for_a_new_copy(archive: &Archive, before: &[(Vid, BlockAddress)]) {
    wait_until("a copy is written again", || {
        let now = place(archive, &name(1));
        now.len() == 2 && now != before && archive.totals().unwrap().unindexed == 0
    });
}

fn all_came(archive: &Archive, request: RequestId) {
    wait_for(archive, request);
    let record = archive.request(request).unwrap().record;
    assert_eq!((u64::from(record.done), record.failed), (MEMBERS, 0), "{:?}", archive.why_request(request));
    (0..MEMBERS).for_each(|n| assert!(get(archive, &name(n)).unwrap() == content(n), "{n}"));
}

/// Story: a file was damaged in both copies, at different places. Its request failed for good, and a second
/// later the copies were put together.
#[test]
fn a_stage_waits_until_the_copies_are_put_together() {
    let trouble = trouble();
    let Waiting { archive, faults, gate, places, request, .. } = Waiting::of(&trouble, DAMAGED);
    for about in [About::Request(request), About::Path(crate::common::path(&name(1)))] {
        let causes = archive.explain(&about).unwrap();
        let told =
            causes.iter().filter_map(|cause| cause.reason.as_ref()).find(|it| it.kind() == "being-mended");
        let told = told.unwrap_or_else(|| panic!("{causes:?}"));
        assert!(!told.needs_an_operator() && !told.vids().is_empty(), "{told}");
        assert!(told.to_string().contains("put together"), "{told}");
    }
    gate.open(None);
    all_came(&archive, request);
    assert!(faults.fired() > 1, "both damaged blocks were read");
    wait_for_a_new_copy(&archive, &places);
    archive.close();
}

/// What is known of the mend is lost with the server; the row of the last place is not.
#[test]
fn a_stage_that_waited_for_a_mend_goes_on_after_a_restart() {
    let trouble = trouble();
    let Waiting { archive, gate, places, request, .. } = Waiting::of(&trouble, DAMAGED);
    gate.break_drive(&drive(0));
    gate.open(None);
    wait_until("the tape cannot be mounted", || gate.refused() > 0);
    archive.close();
    drop(archive);
    // Nothing is read before the damage is there again.
    let gate = Gate::shut();
    let (archive, faults, _) = open(&trouble, &gate);
    damage(&faults, &places, DAMAGED);
    gate.open(None);
    all_came(&archive, request);
    assert!(faults.fired() > 1, "the damaged blocks were read once more");
    archive.close();
}

/// A request that is called off meanwhile waits for nothing, and another one gets what the mend gave.
#[test]
fn a_stage_that_waits_for_a_mend_can_be_cancelled() {
    let trouble = trouble();
    let Waiting { archive, gate, places, request, .. } = Waiting::of(&trouble, DAMAGED);
    archive.cancel_request(request).unwrap();
    assert_eq!(archive.request(request).unwrap().record.state, RequestState::Cancelled);
    gate.open(None);
    wait_for_a_new_copy(&archive, &places);
    assert_eq!(archive.request(request).unwrap().record.state, RequestState::Cancelled);
    let again = stage(&archive, &["/t"]);
    all_came(&archive, again);
    archive.close();
}

/// Both copies lack the same block: the request fails when that is known, and says so.
#[test]
fn a_stage_fails_with_the_cause_when_the_copies_do_not_have_it_together() {
    let trouble = trouble();
    let Waiting { archive, gate, request, .. } = Waiting::of(&trouble, [DAMAGED[0]; 2]);
    gate.open(None);
    wait_for(&archive, request);
    let record = archive.request(request).unwrap().record;
    assert!(record.failed > 0 && u64::from(record.done + record.failed) == MEMBERS, "{record:?}");
    let (files, _) = archive.request_files(request, 0, 100).unwrap();
    for file in files {
        if let ItemState::Failed(why) = file.state {
            assert!(why.contains("cannot be read"), "{why}");
            assert!(why.contains("do not have all of it together"), "{why}");
        }
    }
    archive.close();
}

/// Story: the copies had been put together, and the pool had no room for the file beside the container. What
/// was put together was thrown away, no tape was left to be tried, and the request failed: the copies were
/// said not to have all of it together.
#[test]
fn what_was_put_together_is_kept_while_the_pool_has_no_room() {
    let trouble = Trouble::with_retry(1, Duration::from_secs(1));
    let Waiting { archive, tightness, gate, request, .. } = Waiting::of(&trouble, DAMAGED);
    // There is room for the container, and for no file of it.
    tightness.least.store(100_000, Ordering::SeqCst);
    gate.open(None);
    wait_until("the pool has no room", || tightness.refused.load(Ordering::SeqCst) > 0);
    tightness.least.store(0, Ordering::SeqCst);
    all_came(&archive, request);
    archive.close();
}

/// Story: the tape that was to give the rest was disabled, and the request failed as if it had been read: its
/// copies were said not to have all of it together.
#[test]
fn a_stage_that_fails_for_a_disabled_tape_names_it() {
    let trouble = trouble();
    let Waiting { archive, gate, places, request, .. } = Waiting::of(&trouble, DAMAGED);
    let lacking = gate.mounted()[0];
    archive.set_tape(lacking, TapeUse::Disabled, "for the test").unwrap();
    wait_for(&archive, request);
    let (files, _) = archive.request_files(request, 0, 100).unwrap();
    let told: Vec<_> = files
        .into_iter()
        .filter_map(|file| match file.state {
            ItemState::Failed(why) => Some(why),
            _ => None,
        })
        .collect();
    assert!(!told.is_empty());
    for why in told {
        assert!(why.contains(&format!("its copy on {lacking}")) && !why.contains("together"), "{why}");
    }
    // In use again, it gives what is missing.
    gate.open(None);
    archive.set_tape(lacking, TapeUse::Active, "for the test").unwrap();
    wait_for_a_new_copy(&archive, &places);
    let again = stage(&archive, &["/t"]);
    all_came(&archive, again);
    archive.close();
}

/// Story: while the file was taken out of what was put together, a tape was given back to use. What waited
/// for a tape was looked at anew, no tape was left to be tried, and the request failed.
#[test]
fn a_tape_that_comes_back_while_the_copies_are_put_together_fails_nobody() {
    let trouble = trouble();
    let Waiting { archive, tightness, gate, places, request, .. } = Waiting::of(&trouble, DAMAGED);
    // What is less than the container is the file.
    tightness.hold_small.store(true, Ordering::SeqCst);
    tightness.least.store(100_000, Ordering::SeqCst);
    gate.open(None);
    wait_until("the file is being written", || tightness.refused.load(Ordering::SeqCst) > 0);
    let mounted = gate.mounted().last().copied();
    let other = places.iter().map(|(vid, _)| *vid).find(|vid| Some(*vid) != mounted).unwrap();
    archive.set_tape(other, TapeUse::ReadOnly, "for the test").unwrap();
    let record = archive.request(request).unwrap().record;
    tightness.least.store(0, Ordering::SeqCst);
    tightness.hold_small.store(false, Ordering::SeqCst);
    assert_eq!(record.failed, 0, "{:?}", archive.why_request(request));
    all_came(&archive, request);
    archive.close();
}

/// The tapes are not mounted yet for a request; then the first one is, and all come that it can give.
fn staged_up_to_the_second_tape(archive: &Archive, gate: &Gate) -> RequestId {
    let request = stage(archive, &["/t"]);
    gate.open(Some(1));
    wait_until("all but one came from the first tape", || {
        let record = archive.request(request).unwrap().record;
        u64::from(record.done) == MEMBERS - 1 && gate.waiting() == 1
    });
    request
}

/// Story: the copies were to be put together, and the tape that was to give the rest was not to be had. Until
/// it was, the last damaged place was read again every `retry_delay`, for which its tape was mounted.
#[test]
fn a_place_that_is_known_to_be_damaged_is_not_read_again_while_its_mend_waits() {
    const RETRY: Duration = Duration::from_millis(100);
    let trouble = Trouble::with_retry(2, RETRY);
    let Waiting { archive, faults, gate, places, request, .. } =
        Waiting::with(&trouble, DAMAGED, staged_up_to_the_second_tape);
    let first = gate.mounted()[0];
    let second = places.iter().map(|(vid, _)| *vid).find(|vid| *vid != first).unwrap();
    let is_out = |vid| archive.tape(vid).unwrap().drive.is_none();
    wait_until("the first tape is in its slot", || is_out(first));
    gate.hold(first);
    gate.open(None);
    wait_until("the second tape was read", || {
        gate.hanging() == 1 && gate.mounted().len() > 1 && is_out(second)
    });
    let (read, mounted, began) = (faults.fired(), gate.mounted(), Instant::now());
    assert!(read > 1, "both damaged places were read");
    wait_until("some time goes by", || began.elapsed() > 20 * RETRY);
    assert_eq!((faults.fired(), gate.mounted()), (read, mounted), "the second tape has nothing new to tell");
    let told = archive.explain(&About::Tape(second)).unwrap();
    let told = told.iter().find_map(|cause| cause.reason.as_ref()).map(Reason::kind);
    assert_eq!(told, Some("being-mended"));
    gate.hold_none();
    all_came(&archive, request);
    archive.close();
}

/// Story: what one tape had given of a container could not be read in the pool when another tape was to give
/// the rest. The session failed, and so did each one after it: nothing else was done on that tape.
#[test]
fn a_container_of_which_the_pool_lost_a_part_rests_alone() {
    let trouble = Trouble::with_retry(1, Duration::from_millis(200));
    let Waiting { archive, gate, places, request, .. } =
        Waiting::with(&trouble, DAMAGED, staged_up_to_the_second_tape);
    let before = extents(&trouble);
    gate.open(Some(1));
    wait_until("the first tape is wanted again", || gate.waiting() == 1 && gate.mounted().len() == 2);
    let first = gate.mounted()[0];
    let spooled: Vec<_> = extents(&trouble).difference(&before).cloned().collect();
    assert_eq!(spooled.len(), 6, "what the second tape gave of the container");
    spooled.iter().for_each(|path| std::fs::remove_file(path).unwrap());
    archive.check_tapes(&[first]).unwrap();
    gate.open(None);
    wait_until("the first tape is checked", || {
        archive.tape_check(first).unwrap().is_some_and(|check| check.state == CheckState::Done)
    });
    all_came(&archive, request);
    wait_for_a_new_copy(&archive, &places);
    archive.close();
}
