//! Losses, damaged copies, repack, restore, and requests too large for one transaction.

use crate::common::*;
use base::*;
use catalogue::*;

fn set_state(bench: &mut Bench, vid: Vid, state: TapeState) {
    bench.ok(Command::SetTapeState { vid, state, reason: String::new() });
}

fn place(bench: &Bench, container: ContainerId, copy: usize) -> (Vid, BlockAddress) {
    let record = bench.view().container(container).unwrap().unwrap();
    record.copies[copy].state.place().unwrap()
}

/// A file on both tapes and in the pool.
fn on_tape() -> (Bench, FileId, ContainerId) {
    let mut bench = Bench::new();
    let file = bench.put("f", "content");
    let container = bench.pack(&[file]);
    bench.write_to(0, container);
    bench.write_to(1, container);
    (bench, file, container)
}

#[test]
fn a_repack_copies_verifies_and_gives_the_tape_back() {
    let (mut bench, file, container) = on_tape();
    assert_eq!(bench.evict(file), Ok(()));
    let request = bench.request(&[file]);
    let (old, fresh) = (bench.tapes[0], vid("AAA002"));
    let old_uuid = bench.view().tape(old).unwrap().unwrap().uuid;
    bench.label(fresh, bench.pools[0]);
    set_state(&mut bench, old, TapeState::Repacking);
    for _ in 0..2 {
        let requeued = bench.ok(Command::RequeueCopy { container, vid: old });
        assert_eq!(requeued, Outcome::Requeued(Requeue::Queued), "asked twice it is queued once");
    }
    let text = bench.rejected(Command::ReclaimTape { vid: old });
    assert!(text.contains("holds containers"), "{text}");
    assert_eq!(bench.evict(file), Err(EvictRefusal::NotOnline));
    bench.tapes[0] = fresh;
    bench.write_to(0, container);
    assert!(bench.rejected(Command::RequeueCopy { container, vid: fresh }).contains("verified"));
    assert_eq!(bench.view().recall_set(old, None, 9).unwrap().len(), 1);
    let (vid, block) = place(&bench, container, 0);
    bench.ok(Command::CopyVerified { container, vid, block });
    assert_eq!(bench.view().recall_set(old, None, 9).unwrap(), [], "who waits looks to the new tape");
    assert_eq!(bench.view().recall_set(fresh, None, 9).unwrap().len(), 1);
    bench.ok(Command::ReclaimTape { vid: old });
    let tape = bench.view().tape(old).unwrap().unwrap();
    assert_eq!((tape.state, tape.replaces, tape.uuid), (TapeState::Scratch, old_uuid, None));
    assert_eq!(bench.view().segments(old).unwrap(), []);
    bench.label(old, bench.pools[0]);
    assert_eq!(bench.view().tape(old).unwrap().unwrap().replaces, None);
    bench.recall(file);
    let items = bench.view().request_items(request, 0, 1).unwrap();
    assert!(matches!(items[0].1.state, ItemState::Done(_)));
    assert!(bench.replayed() == bench.store);
}

#[test]
fn a_copy_that_is_to_leave_its_tape_stays_if_that_is_to_be_written() {
    let (mut bench, file, container) = on_tape();
    assert_eq!(bench.evict(file), Ok(()));
    let (old, other) = (bench.tapes[0], bench.tapes[1]);
    let before = bench.view().container(container).unwrap().unwrap();
    set_state(&mut bench, old, TapeState::Repacking);
    bench.ok(Command::RequeueCopy { container, vid: old });
    set_state(&mut bench, old, TapeState::Active);
    bench.ok(Command::KeepCopy { container, vid: other });
    assert_eq!(bench.view().queue(bench.pools[0], None, 9).unwrap().len(), 1, "its source is elsewhere");
    for _ in 0..2 {
        bench.ok(Command::KeepCopy { container, vid: old });
        assert_eq!(bench.view().container(container).unwrap().unwrap(), before);
        assert_eq!(bench.view().queue(bench.pools[0], None, 9).unwrap(), []);
    }
    assert_eq!(bench.view().content(old, BlockAddress(0), 9).unwrap().len(), 1);
    assert!(bench.replayed() == bench.store);
}

/// Story: a pack of which one tape had a copy was written to the second one, and kept its removed files in
/// the pool, though nobody needed it any more.
#[test]
fn what_nobody_needs_is_not_written_a_second_time() {
    let mut bench = Bench::new();
    let file = bench.put("f", "content");
    let container = bench.pack(&[file]);
    bench.write_to(0, container);
    let drop = Command::DropUnneededCopies { container };
    assert!(bench.rejected(drop.clone()).contains("has a name"));
    bench.ok(Command::RemoveFile { parent: DirId::ROOT, name: name("f") });
    assert!(bench.view().file(file).unwrap().is_some(), "its bytes are kept for the second copy");
    for _ in 0..2 {
        bench.ok(drop.clone());
        let record = bench.view().container(container).unwrap().unwrap();
        assert!(record.copies.len() == 1 && record.is_settled() && record.is_empty(), "{record:?}");
        assert_eq!(bench.view().queue(bench.pools[1], None, 9).unwrap(), []);
        assert!(bench.view().file(file).unwrap().is_none());
    }
    assert_eq!(bench.view().content(bench.tapes[0], BlockAddress(0), 9).unwrap().len(), 1);
    assert!(bench.replayed() == bench.store);
}

/// A copy that a repack was taking off its tape stays there, to be dropped with the next look of the repack.
#[test]
fn what_nobody_needs_does_not_move_to_another_tape() {
    let (mut bench, _, container) = on_tape();
    let old = bench.tapes[0];
    set_state(&mut bench, old, TapeState::Repacking);
    bench.ok(Command::RequeueCopy { container, vid: old });
    bench.ok(Command::RemoveFile { parent: DirId::ROOT, name: name("f") });
    bench.ok(Command::DropUnneededCopies { container });
    assert_eq!(bench.view().queue(bench.pools[0], None, 9).unwrap(), []);
    let requeued = bench.ok(Command::RequeueCopy { container, vid: old });
    assert_eq!(requeued, Outcome::Requeued(Requeue::Dropped));
    bench.ok(Command::ReclaimTape { vid: old });
    assert!(bench.replayed() == bench.store);
}

/// What no tape has is dissolved as a whole.
#[test]
fn the_last_copies_are_not_dropped_one_by_one() {
    let mut bench = Bench::new();
    let file = bench.put("f", "content");
    let container = bench.pack(&[file]);
    bench.ok(Command::RemoveFile { parent: DirId::ROOT, name: name("f") });
    assert!(bench.rejected(Command::DropUnneededCopies { container }).contains("dissolved"));
}

#[test]
fn a_container_that_nobody_needs_is_dropped_by_a_repack() {
    let (mut bench, _, container) = on_tape();
    bench.ok(Command::RemoveFile { parent: DirId::ROOT, name: name("f") });
    for tape in bench.tapes {
        assert!(bench.view().container(container).unwrap().is_some());
        set_state(&mut bench, tape, TapeState::Repacking);
        let requeued = bench.ok(Command::RequeueCopy { container, vid: tape });
        assert_eq!(requeued, Outcome::Requeued(Requeue::Dropped));
        bench.ok(Command::ReclaimTape { vid: tape });
    }
    assert!(bench.view().container(container).unwrap().is_none());
}

#[test]
fn the_last_damaged_copy_makes_a_file_lost_and_an_image_brings_it_back() {
    let (mut bench, file, container) = on_tape();
    assert_eq!(bench.evict(file), Ok(()));
    let request = bench.request(&[file]);
    let damaged = |bench: &Bench, copy| {
        let (vid, block) = place(bench, container, copy);
        Command::CopyDamaged { container, vid, block, reason: "medium error".into() }
    };
    let first = damaged(&bench, 0);
    bench.ok(first.clone());
    bench.ok(first);
    assert_eq!(bench.view().queue(bench.pools[0], None, 9).unwrap().len(), 1);
    assert_eq!(bench.file(file).state, FileState::Live);
    let length = bench.view().container(container).unwrap().unwrap().length.0;
    let image = bench.data(length);
    bench.ok(Command::StoreImage { container, image });
    let second = bench.data(length);
    assert!(bench.rejected(Command::StoreImage { container, image: second }).contains("image already"));
    let last = damaged(&bench, 1);
    bench.ok(last);
    assert!(matches!(bench.file(file).state, FileState::Lost(_)));
    let items = bench.view().request_items(request, 0, 1).unwrap();
    assert!(matches!(&items[0].1.state, ItemState::Failed(why) if why.contains("LOST")), "{items:?}");
    let again = bench.request(&[file]);
    let items = bench.view().request_items(again, 0, 1).unwrap();
    assert!(matches!(&items[0].1.state, ItemState::Failed(why) if why.contains("LOST")), "{items:?}");
    assert_eq!(bench.evict(file), Err(EvictRefusal::Lost));
    bench.write_to(0, container);
    assert_eq!(bench.file(file).state, FileState::Live, "the image is on tape now");
    bench.write_to(1, container);
    assert_eq!(bench.view().container(container).unwrap().unwrap().image, None, "settled");
}

/// A pack's copy was found damaged while the pool had all of its members; one was evicted before the copy was
/// given up, and was LOST, although its own bytes could still be read there.
#[test]
fn a_last_place_is_not_given_up_for_bytes_that_left_the_pool_since() {
    let (mut bench, file, container) = on_tape();
    let give_up = |bench: &Bench, copy| {
        let (vid, block) = place(bench, container, copy);
        Command::GiveUpPlace { container, vid, block, reason: "medium error".into() }
    };
    let (first, last) = (give_up(&bench, 0), give_up(&bench, 1));
    assert_eq!(bench.evict(file), Ok(()));
    bench.ok(first.clone());
    bench.ok(first);
    let before = bench.store.clone();
    assert!(bench.rejected(last.clone()).contains("not in the pool any more"));
    assert!(bench.store == before, "nothing is changed, and nothing logged");
    bench.recall(file);
    bench.ok(last);
    assert_eq!(bench.file(file).state, FileState::Live, "the pool has it");
    assert!(bench.view().container(container).unwrap().unwrap().places().next().is_none());
    assert_eq!(bench.view().check().unwrap(), []);
}

/// A damaged place was given up while the only other one was on a disabled tape: what could be read of the
/// file there was read no more, and the other is perhaps never seen again.
#[test]
fn a_place_is_not_given_up_while_all_others_are_on_tapes_set_aside() {
    let (mut bench, file, container) = on_tape();
    assert_eq!(bench.evict(file), Ok(()));
    let (vid, block) = place(&bench, container, 0);
    let give_up = Command::GiveUpPlace { container, vid, block, reason: "medium error".into() };
    let (other, _) = place(&bench, container, 1);
    let set = |bench: &mut Bench, state| {
        bench.ok(Command::SetTapeState { vid: other, state, reason: "in the safe".into() })
    };
    // A log of before the rule gives what it gave then.
    let mut older = bench.clone();
    set(&mut older, TapeState::Disabled);
    older.ok(give_up.clone());
    bench.ok(Command::AdoptRule { rule: Rule::AnotherGives });
    for state in [TapeState::Disabled, TapeState::Suspect] {
        set(&mut bench, state);
        let before = bench.store.clone();
        assert!(bench.rejected(give_up.clone()).contains("on no other tape in use"));
        assert!(bench.store == before, "nothing is changed, and nothing logged");
    }
    set(&mut bench, TapeState::ReadOnly);
    bench.ok(give_up);
    assert_eq!(bench.view().check().unwrap(), []);
    assert!(bench.replayed() == bench.store);
}

/// A drive that had asked to be cleaned in idle time for days, and then had to be before its next mount, was
/// taken for one that had rested for want of that already.
#[test]
fn a_drive_that_must_be_cleaned_now_asks_for_that_since_now() {
    let mut bench = Bench::new();
    let drive = || "drive0".to_owned();
    let ask = |bench: &mut Bench, urgent| {
        bench.ok(Command::SetDriveCleaning { drive: drive(), urgent: Some(urgent) });
        bench.view().drives_cleaning().unwrap()[0].1.asks.unwrap()
    };
    let idle = ask(&mut bench, false);
    assert_eq!(ask(&mut bench, false), idle);
    // A log of before the rule gives what it gave then.
    assert_eq!(ask(&mut bench.clone(), true).since, idle.since);
    bench.ok(Command::AdoptRule { rule: Rule::UrgentAnew });
    let now = ask(&mut bench, true);
    assert!(now.urgent && now.since > idle.since, "{now:?} after {idle:?}");
    assert_eq!(ask(&mut bench, true), now);
    assert_eq!(ask(&mut bench, false).since, now.since);
}

/// A use of a cleaning cartridge that did not come into the drive is none.
#[test]
fn a_use_that_was_none_is_not_counted() {
    let mut bench = Bench::new();
    let vid = Vid::new("CLN001").unwrap();
    bench.ok(Command::UncountCleaning { vid });
    (0..2).for_each(|_| drop(bench.ok(Command::CountCleaning { vid, anew: false })));
    bench.ok(Command::UncountCleaning { vid });
    assert_eq!(bench.view().cleaners().unwrap()[0].1.uses, 1);
    bench.ok(Command::UncountCleaning { vid });
    assert_eq!(bench.view().cleaners().unwrap(), []);
    assert!(bench.replayed() == bench.store);
}

/// A damaged copy was given up before its bytes were in the pool, and a kill between lost what could be read
/// of it: the image and the copy's end are one change.
#[test]
fn a_copy_is_mended_in_one_change() {
    let (mut bench, file, container) = on_tape();
    assert_eq!(bench.evict(file), Ok(()));
    let (vid, block) = place(&bench, container, 0);
    let length = bench.view().container(container).unwrap().unwrap().length.0;
    let mend = |image| Command::MendCopy { container, vid, block, reason: "medium error".into(), image };
    let short = bench.data(length - 1);
    assert!(bench.rejected(mend(short)).contains("length"));
    assert!(bench.view().container(container).unwrap().unwrap().is_settled(), "nothing is done then");
    let image = bench.data(length);
    bench.ok(mend(image));
    let record = bench.view().container(container).unwrap().unwrap();
    assert!(record.image.is_some() && record.places().count() == 1, "{record:?}");
    assert_eq!(bench.view().queue(bench.pools[0], None, 9).unwrap().len(), 1);
    bench.write_to(0, container);
    assert_eq!(bench.view().container(container).unwrap().unwrap().image, None, "settled");
}

#[test]
fn what_the_pool_loses_is_nearline_or_lost() {
    let (mut bench, file, _) = on_tape();
    let only = bench.put("only", "in the pool");
    let link = bench.put("empty", "");
    let copies: Vec<_> = [file, only, link].map(|file| bench.pool_copy(file)).into();
    let copies = [copies.clone(), vec![PoolCopy { file: FileId(99), pieces: Vec::new() }, copies[0].clone()]];
    let losses = bench.ok(Command::PoolCopiesLost { copies: copies.concat() });
    use PoolLoss::{Lost, Nearline, NotConcerned};
    assert_eq!(losses, Outcome::PoolCopyLost(vec![Nearline, Lost, NotConcerned, NotConcerned, NotConcerned]));
    assert!(bench.file(file).pieces.is_empty() && !bench.file(only).pieces.is_empty());
    let online = bench.view().tally(Counter::Online(bench.class)).unwrap();
    assert_eq!((online.files, online.bytes.0), (1, 0));
    let copies = [only, file].map(|file| bench.pool_copy(file)).into();
    bench.ok(Command::PoolCopiesFound { copies });
    assert_eq!(bench.file(only).state, FileState::Live);
    let online = bench.view().tally(Counter::Online(bench.class)).unwrap();
    assert_eq!((online.files, online.bytes.0), (2, 11));
}

/// The scrubber's word on the bytes that it had read came behind a recall, or a repeated put, that brought
/// new ones: the file was LOST, or NEARLINE again, although it was whole.
#[test]
fn a_word_on_bytes_that_are_gone_says_nothing_of_those_that_came() {
    let (mut bench, file, container) = on_tape();
    let looked_at = bench.pool_copy(file);
    assert_eq!(bench.evict(file), Ok(()));
    bench.recall(file);
    let whole = bench.pool_copy(file);
    assert_ne!(whole, looked_at);
    for copy in 0..2 {
        let (vid, block) = place(&bench, container, copy);
        bench.ok(Command::CopyDamaged { container, vid, block, reason: "medium error".into() });
    }
    let before = bench.store.clone();
    let lost = |copy: &PoolCopy| Command::PoolCopiesLost { copies: vec![copy.clone()] };
    let losses = bench.ok(lost(&looked_at));
    assert_eq!(losses, Outcome::PoolCopyLost(vec![PoolLoss::NotConcerned]));
    assert!(bench.store == before, "nothing is changed, and nothing logged");
    assert_eq!(bench.ok(lost(&whole)), Outcome::PoolCopyLost(vec![PoolLoss::Lost]));
    // Nor does it bring back what was never read.
    bench.ok(Command::PoolCopiesFound { copies: vec![looked_at] });
    assert!(matches!(bench.file(file).state, FileState::Lost(_)));
    bench.ok(Command::PoolCopiesFound { copies: vec![whole] });
    assert_eq!(bench.file(file).state, FileState::Live);
    assert_eq!(bench.view().check().unwrap(), []);
    assert!(bench.replayed() == bench.store);
}

/// Drives were given up while both tapes of a file were out of use: the pool copy went, which the drives
/// could have brought back, and nothing could be read.
#[test]
fn what_only_tapes_have_that_are_set_aside_keeps_its_pool_copy() {
    let (mut bench, file, _) = on_tape();
    let set = |bench: &mut Bench, at: usize, state: TapeState| {
        bench.ok(Command::SetTapeState { vid: bench.tapes[at], state, reason: "in the safe".into() })
    };
    let lost = |bench: &Bench| Command::PoolCopiesLost { copies: vec![bench.pool_copy(file)] };
    set(&mut bench, 0, TapeState::Disabled);
    set(&mut bench, 1, TapeState::Suspect);
    let copy = bench.pool_copy(file);
    for _ in 0..2 {
        let command = lost(&bench);
        assert_eq!(bench.ok(command), Outcome::PoolCopyLost(vec![PoolLoss::Lost]));
        assert!(matches!(bench.file(file).state, FileState::Lost(_)));
        assert_eq!(bench.pool_copy(file), copy, "what the drives may bring back");
    }
    bench.ok(Command::PoolCopiesFound { copies: vec![copy] });
    assert_eq!(bench.file(file).state, FileState::Live);
    assert_eq!(bench.view().check().unwrap(), []);
    let command = lost(&bench);
    bench.ok(command.clone());
    set(&mut bench, 1, TapeState::ReadOnly);
    assert_eq!(bench.ok(command), Outcome::PoolCopyLost(vec![PoolLoss::Nearline]), "one that can be read");
    assert!(bench.file(file).state == FileState::Live && !bench.file(file).is_online());
    assert_eq!(bench.view().check().unwrap(), []);
    assert!(bench.replayed() == bench.store);
}

/// Only from the new command on: the old one gives what it gave then, also under the rule.
#[test]
fn old_changes_do_not_ask_for_the_state_of_tapes() {
    let (mut bench, file, _) = on_tape();
    bench.ok(Command::AdoptRule { rule: Rule::ReadableIfEvicted });
    for vid in bench.tapes {
        bench.ok(Command::SetTapeState { vid, state: TapeState::Disabled, reason: String::new() });
    }
    let losses = bench.ok(Command::PoolCopyLost { files: vec![file] });
    assert_eq!(losses, Outcome::PoolCopyLost(vec![PoolLoss::Nearline]));
    assert!(bench.replayed() == bench.store);
}

/// A change log of a Kist of before names files alone: it gives what it gave then.
#[test]
fn old_changes_concern_whatever_a_file_has_in_the_pool() {
    let (mut bench, file, container) = on_tape();
    assert_eq!(bench.evict(file), Ok(()));
    bench.recall(file);
    let (vid, block) = place(&bench, container, 0);
    bench.ok(Command::CopyDamaged { container, vid, block, reason: "medium error".into() });
    let length = bench.view().container(container).unwrap().unwrap().length.0;
    let image = bench.data(length);
    bench.ok(Command::StoreImage { container, image });
    bench.ok(Command::DropImage { container });
    assert_eq!(bench.view().container(container).unwrap().unwrap().image, None);
    let losses = bench.ok(Command::PoolCopyLost { files: vec![file] });
    assert_eq!(losses, Outcome::PoolCopyLost(vec![PoolLoss::Nearline]));
    let only = bench.put("only", "in the pool");
    let losses = bench.ok(Command::PoolCopyLost { files: vec![only] });
    assert_eq!(losses, Outcome::PoolCopyLost(vec![PoolLoss::Lost]));
    bench.ok(Command::PoolCopyFound { files: vec![only] });
    assert_eq!(bench.file(only).state, FileState::Live);
    assert!(bench.replayed() == bench.store);
}

/// Two drives that had failed on one image gave it up one behind the other: the second one gave up the image
/// that had been read from tape in between.
#[test]
fn an_image_is_given_up_by_its_place() {
    let (mut bench, _, container) = on_tape();
    let (vid, block) = place(&bench, container, 0);
    bench.ok(Command::CopyDamaged { container, vid, block, reason: "medium error".into() });
    let length = bench.view().container(container).unwrap().unwrap().length.0;
    let images = [bench.data(length), bench.data(length)];
    let [bad, whole] = images.each_ref().map(|image| image.pieces[0]);
    let [first, second] = images.map(|image| Command::StoreImage { container, image });
    bench.ok(first);
    bench.ok(Command::ImageLost { container, image: bad });
    assert!(bench.garbage_blobs().contains(&bad.blob.0));
    bench.ok(second);
    bench.ok(Command::ImageLost { container, image: bad });
    assert_eq!(bench.view().container(container).unwrap().unwrap().image, Some(whole));
    bench.ok(Command::ImageLost { container, image: whole });
    assert_eq!(bench.view().container(container).unwrap().unwrap().image, None);
    assert_eq!(bench.view().check().unwrap(), []);
    assert!(bench.replayed() == bench.store);
}

/// A segment with two values, of which one is garbage.
fn segment_with_garbage() -> (Bench, u64) {
    let mut bench = Bench::new();
    let log = bench.new_blob();
    for (file, offset) in [("kept", 0), ("gone", 4096)] {
        let mut put = bench.new_put(DirId::ROOT, file, "s");
        put.data = Some(PoolData { blobs: vec![segment(log)], pieces: vec![piece(log, offset, 1)] });
        bench.ok(Command::PutFile(Box::new(put)));
    }
    bench.ok(Command::RemoveFile { parent: DirId::ROOT, name: name("gone") });
    (bench, log)
}

#[test]
fn a_stripe_moves_with_the_garbage_of_its_segment() {
    let (mut bench, log) = segment_with_garbage();
    let to = StripeSet { id: StripeSetId(40), drives: vec![DriveId(5), DriveId(6), DriveId(7)] };
    let moved = Command::MoveStripe { blob: BlobId(log), stripe: 0, from: StripeSetId(2), to: to.clone() };
    bench.ok(moved.clone());
    assert!(bench.rejected(moved).contains("another set"));
    assert_eq!(bench.view().blob(BlobId(log)).unwrap().unwrap().stripes, vec![to.clone()]);
    let garbage = bench.view().garbage(9).unwrap();
    assert!(matches!(&garbage[..], [Garbage::Value(blob, _)] if blob.stripes == [to]), "{garbage:?}");
}

#[test]
fn a_segment_gets_further_copies_behind_those_that_it_has() {
    let (mut bench, log) = segment_with_garbage();
    let large = bench.new_blob();
    let mut put = bench.new_put(DirId::ROOT, "large", "large");
    put.data = Some(PoolData { blobs: vec![striped(large, 5)], pieces: vec![piece(large, 0, 5)] });
    bench.ok(Command::PutFile(Box::new(put)));
    let old = bench.view().blob(BlobId(log)).unwrap().unwrap().stripes.remove(0);
    let more = |id, more: &[u16]| {
        let drives = old.drives.iter().copied().chain(more.iter().copied().map(DriveId)).collect();
        StripeSet { id: StripeSetId(id), drives }
    };
    let copied =
        |blob, from, to: &StripeSet| Command::CopySegment { blob: BlobId(blob), from, to: to.clone() };
    let to = more(40, &[7, 8]);
    assert!(bench.rejected(copied(log, StripeSetId(9), &to)).contains("another set"));
    assert!(bench.rejected(copied(large, StripeSetId(1), &to)).contains("only a segment"));
    for wrong in [
        more(41, &[]),
        more(42, &[old.drives[0].0]),
        StripeSet { id: StripeSetId(43), drives: (10..15).map(DriveId).collect() },
    ] {
        bench.rejected(copied(log, old.id, &wrong));
    }
    bench.ok(copied(log, old.id, &to));
    assert!(bench.rejected(copied(log, old.id, &to)).contains("another set"));
    let blob = bench.view().blob(BlobId(log)).unwrap().unwrap();
    assert_eq!((blob.layout, blob.stripes), (Layout::Segment { copies: 5 }, vec![to.clone()]));
    let garbage = bench.view().garbage(9).unwrap();
    assert!(matches!(&garbage[..], [Garbage::Value(blob, _)] if blob.stripes == [to]), "{garbage:?}");
    assert_eq!(bench.view().check().unwrap(), []);
    assert!(bench.replayed() == bench.store);
}

#[test]
fn no_stripe_comes_to_stand_on_a_drive_that_was_taken_out() {
    let mut bench = Bench::new();
    let file = bench.put("kept", "content");
    let state = |state| Command::SetPoolDrive { drive: DriveId(1), state };
    let at = |bench: &Bench| bench.view().pool_drives().unwrap();
    bench.ok(state(Some(PoolDriveState::Draining)));
    let since = at(&bench)[0].1.since;
    bench.ok(state(Some(PoolDriveState::Draining)));
    let record = PoolDriveRecord { state: PoolDriveState::Draining, since };
    assert_eq!(at(&bench), [(DriveId(1), record)], "the same word twice changes nothing");
    bench.put("while it drains", "content");
    bench.ok(state(Some(PoolDriveState::Removed)));
    let mut put = bench.new_put(DirId::ROOT, "late", "late content");
    let blob = bench.new_blob();
    put.data = Some(PoolData { blobs: vec![striped(blob, 12)], pieces: vec![piece(blob, 0, 12)] });
    let refusal = bench.rejected(Command::PutFile(Box::new(put.clone())));
    assert!(refusal.contains("pool drive 1") && refusal.contains("removed"), "{refusal}");
    let to = StripeSet { id: StripeSetId(41), drives: vec![DriveId(5), DriveId(1), DriveId(7)] };
    let log = bench.new_blob();
    bench.ok(state(None));
    let mut small = bench.new_put(DirId::ROOT, "small", "s");
    small.data = Some(PoolData { blobs: vec![segment(log)], pieces: vec![piece(log, 0, 1)] });
    bench.ok(Command::PutFile(Box::new(small)));
    bench.ok(state(Some(PoolDriveState::Leaving)));
    let moved = Command::MoveStripe { blob: BlobId(log), stripe: 0, from: StripeSetId(2), to };
    assert!(bench.rejected(moved).contains("pool drive 1"));
    assert!(bench.view().file(file).unwrap().is_some(), "what stands there is known still");
    bench.ok(state(None));
    assert_eq!(at(&bench), []);
    bench.ok(Command::PutFile(Box::new(put)));
    assert!(bench.replayed() == bench.store);
}

#[test]
fn the_last_word_about_a_rebalance_counts() {
    let mut bench = Bench::new();
    let said = |bench: &Bench| bench.view().rebalance().unwrap();
    bench.ok(Command::SetRebalance { to: None });
    assert_eq!(said(&bench), None);
    bench.ok(Command::SetRebalance { to: Some(PercentPoints(5)) });
    let first = said(&bench).unwrap();
    bench.ok(Command::SetRebalance { to: Some(PercentPoints(5)) });
    assert_eq!(said(&bench), Some(first), "the same word twice changes nothing");
    bench.ok(Command::SetRebalance { to: Some(PercentPoints(0)) });
    assert!(said(&bench).is_some_and(|now| now.to == PercentPoints(0) && now.since > first.since));
    bench.ok(Command::SetRebalance { to: None });
    assert_eq!(said(&bench), None);
    assert!(bench.replayed() == bench.store);
}

/// Files of a blob that was written anew stay as they are; nobody takes its old extents for known, and the
/// new ones are as long as it is garbage.
#[test]
fn a_blob_that_is_written_anew_stays_the_same_to_all() {
    let mut bench = Bench::new();
    let file = bench.put("large", "the content");
    let pieces = bench.view().file(file).unwrap().unwrap().pieces;
    let id = pieces[0].blob;
    let before = bench.view().blob(id).unwrap().unwrap();
    let code = StripeCode::reed_solomon(2, 1);
    let stripes = vec![StripeSet { id: StripeSetId(77), drives: vec![DriveId(9), DriveId(1), DriveId(8)] }];
    let mut anew = BlobDescription { layout: Layout::Striped { code }, stripes, ..before.clone() };
    let mut recoded = |bench: &mut Bench, from, extents: Option<BlobId>| {
        anew.stands_as = extents;
        (Command::BlobRecoded { from, to: anew.clone() }, bench.view().blob(id).unwrap().unwrap())
    };
    let (own, first, second) = (BlobId(bench.new_blob()), BlobId(bench.new_blob()), BlobId(bench.new_blob()));
    for (from, extents, word) in [(None, None, "another id"), (None, Some(id), "none had before")] {
        let (command, _) = recoded(&mut bench, from, extents);
        assert!(bench.rejected(command).contains(word), "{word}");
    }
    let is_known = |bench: &Bench, extents, drive| {
        bench.view().is_known_extent(extents, (0, 1), DriveId(drive)).unwrap()
    };
    let old_drive = before.stripes[0].drives[1].0;
    assert!(is_known(&bench, id, old_drive));
    let (command, _) = recoded(&mut bench, None, Some(first));
    bench.ok(command.clone());
    assert!(bench.rejected(command).contains("written anew"));
    assert_eq!(bench.view().file(file).unwrap().unwrap().pieces, pieces);
    assert!(!is_known(&bench, id, old_drive) && is_known(&bench, first, 1) && !is_known(&bench, first, 9));
    assert_eq!(bench.view().blob_of_extents(id).unwrap(), None, "its own id names extents of before");
    assert_eq!(bench.view().blob_named(first).unwrap(), id);
    // Who described it as it was means the same bytes; and no other blob gets the id of its extents.
    let mut again = bench.new_put(DirId::ROOT, "again", "the content");
    again.data = Some(PoolData { blobs: vec![before.clone()], pieces: pieces.clone() });
    bench.ok(Command::PutFile(Box::new(again)));
    let mut other = bench.new_put(DirId::ROOT, "other", "another");
    other.data = Some(PoolData { blobs: vec![striped(first.0, 7)], pieces: vec![piece(first.0, 0, 7)] });
    assert!(bench.rejected(Command::PutFile(Box::new(other))).contains("none had before"));
    let (command, now) = recoded(&mut bench, Some(first), Some(second));
    assert_eq!((now.stands_as, now.layout), (Some(first), Layout::Striped { code }));
    bench.ok(command);
    assert!(!is_known(&bench, first, 1) && is_known(&bench, second, 1));
    assert_eq!(bench.view().blob_named(first).unwrap(), first, "nothing is left of it");
    for name in ["large", "again"] {
        bench.ok(Command::RemoveFile { parent: DirId::ROOT, name: self::name(name) });
    }
    assert_eq!(bench.view().blob(id).unwrap(), None);
    assert!(is_known(&bench, second, 1), "garbage is removed where it stands");
    assert!(bench.view().is_known_blob(second).unwrap() && !bench.view().is_known_blob(own).unwrap());
    bench.ok(Command::GarbageRemoved { blobs: vec![id], values: Vec::new() });
    assert!(!is_known(&bench, second, 1));
    assert!(bench.view().check().unwrap().is_empty());
    assert!(bench.replayed() == bench.store);
}

#[test]
fn a_restored_catalogue_gives_no_id_twice() {
    let mut bench = Bench::new();
    let before = bench.put("a", "1");
    for round in 1..3u64 {
        let after = bench.view().last_change().unwrap();
        let accept = |after, seen| Command::AcceptRestore { epoch: Epoch(7), after, seen };
        assert!(bench.rejected(accept(after + 1, 0)).contains("does not stand at"));
        // Drives or tapes have seen changes of a restore that is given up now.
        bench.ok(accept(after, (round - 1) << 33 | 17));
        assert_eq!(bench.view().quarantine().unwrap(), Some(Epoch(7)));
        assert!(bench.view().is_restored().unwrap());
        assert!(bench.view().is_known_blob(BlobId::new(Epoch(7), 5).unwrap()).unwrap());
        assert!(!bench.view().is_known_blob(BlobId::new(Epoch(8), 5).unwrap()).unwrap());
        let level = [0, 1 << 32, 3 << 32][round as usize];
        assert_eq!(bench.view().last_change().unwrap(), level);
        assert_eq!(bench.reserve(), ContainerId(level));
    }
    assert_eq!(bench.ok(Command::OpenEpoch), Outcome::Epoch(Epoch(8)));
    let after = bench.put("b", "2");
    assert!(after.0 > before.0 && after.0 >= 2 << 32);
    bench.ok(Command::RestoreSettled);
    bench.ok(Command::EndQuarantine);
    assert_eq!((bench.view().quarantine().unwrap(), bench.view().is_restored().unwrap()), (None, false));
}

#[test]
fn a_rename_makes_no_path_longer_than_any_may_be() {
    let mut bench = Bench::new();
    let mut parent = DirId::ROOT;
    for _ in 0..16 {
        parent = bench.mkdir(parent, &"d".repeat(250));
    }
    bench.put("f", "1");
    let rename = |to: usize| Command::Rename {
        from_parent: DirId::ROOT,
        from_name: name("f"),
        to_parent: parent,
        to_name: name(&"n".repeat(to)),
        replace: Replace::Refused,
    };
    // 16 directories of 251 bytes, and 80 more.
    assert!(bench.rejected(rename(80)).contains("4097"));
    bench.ok(rename(79));
}

/// A request of more items than one transaction takes: the story of a cancel of millions that held the writer
/// for minutes.
#[test]
fn a_large_request_is_cancelled_and_forgotten_in_batches() {
    let mut bench = Bench::new();
    let near = bench.put("near", "content");
    let container = bench.pack(&[near]);
    bench.write_to(0, container);
    bench.write_to(1, container);
    assert_eq!(bench.evict(near), Ok(()));
    let many = BATCH_FILES_MAX + 5;
    let quick = |bench: &mut Bench, command| {
        let envelope = Envelope { at: bench.at, command };
        let outcome = apply(&mut bench.store, &envelope).unwrap();
        bench.log.push(envelope.encode());
        outcome
    };
    let mut files = Vec::new();
    for number in 0..many {
        let put = bench.new_put(DirId::ROOT, &format!("e{number}"), "");
        let Outcome::Put(put) = quick(&mut bench, Command::PutFile(Box::new(put))) else { panic!() };
        files.push(put.file);
    }
    files.push(near);
    let open = Command::OpenRequest { owner: "bob".into(), pin: Duration::from_secs(1000) };
    let Outcome::Request(request) = quick(&mut bench, open) else { panic!() };
    for batch in files.chunks(BATCH_FILES_MAX) {
        quick(&mut bench, Command::AddToRequest { request, files: batch.to_vec() });
    }
    quick(&mut bench, Command::CloseRequest { request });
    assert!(bench.rejected(Command::Release { request, files: None }).contains("batches"));
    assert_eq!(bench.ok(Command::CancelRequest { request }), Outcome::More(true));
    let record = bench.view().request(request).unwrap().unwrap();
    assert_eq!((record.state, record.swept as usize), (RequestState::Cancelling, BATCH_FILES_MAX));
    assert!(bench.rejected(Command::ForgetRequest { request }).contains("cancel it first"));
    assert!(bench.rejected(Command::AddToRequest { request, files: vec![] }).contains("being cancelled"));
    bench.recall(near);
    // What is left in smaller parts.
    bench.rejected(Command::DoSome { work: Work::CancelRequest(request), most: 10_001 });
    let some = |work| Command::DoSome { work, most: 4 };
    assert_eq!(bench.ok(some(Work::CancelRequest(request))), Outcome::More(true));
    assert_eq!(bench.view().request(request).unwrap().unwrap().swept as usize, BATCH_FILES_MAX + 4);
    assert_eq!(bench.ok(some(Work::CancelRequest(request))), Outcome::More(false));
    assert_eq!(bench.ok(Command::CancelRequest { request }), Outcome::More(false));
    let record = bench.view().request(request).unwrap().unwrap();
    assert_eq!((record.state, record.done as usize), (RequestState::Cancelled, many + 1));
    assert_eq!(bench.view().pins(near).unwrap(), [], "what came in the middle of it holds nothing either");
    assert_eq!(bench.ok(some(Work::ForgetRequest(request))), Outcome::More(true));
    assert_eq!(bench.view().request(request).unwrap().unwrap().state, RequestState::Forgetting);
    assert_eq!(bench.ok(Command::ForgetRequest { request }), Outcome::More(true));
    assert_eq!(bench.ok(Command::ForgetRequest { request }), Outcome::More(false));
    assert_eq!(bench.view().request(request).unwrap(), None);
    assert!(bench.replayed() == bench.store);
}

/// Story: a file that the pool had lost was removed, and its container stayed in the tape queue for ever: no
/// tape could get it, and nobody waited for it.
#[test]
fn a_file_s_container_that_nobody_needs_is_given_up() {
    let mut bench = Bench::new();
    let file = bench.put("lost", "content");
    let container = bench.reserve();
    let length = bench.file(file).size;
    let none = ByteCount(0);
    let (header_offset, data_offset, file_offset) = (none, none, none);
    bench.ok(Command::SealContainer(Box::new(SealContainer {
        container,
        kind: ContainerKind::File(file),
        class: bench.class,
        members: vec![MemberRecord { file, header_offset, data_offset, length, file_offset }],
        length,
        checksums: StreamChecksums::of(b"content"),
        tape_path: "/lost".to_owned(),
        skeleton: None,
    })));
    let dissolve = Command::DissolvePack { container };
    bench.ok(Command::PoolCopiesLost { copies: vec![bench.pool_copy(file)] });
    assert!(bench.rejected(dissolve.clone()).contains("a file's own container"), "its file has a name");
    bench.ok(Command::RemoveFile { parent: DirId::ROOT, name: name("lost") });
    bench.ok(dissolve);
    assert!(bench.view().container(container).unwrap().is_none());
    assert_eq!(bench.view().file(file).unwrap(), None);
    for pool in bench.pools {
        assert_eq!(bench.view().queue(pool, None, 9).unwrap(), []);
    }
    assert_eq!(bench.view().check().unwrap(), []);
    assert!(bench.replayed() == bench.store);
}

/// A pack whose skeleton the pool had lost before any tape had it waited for ever, and with it the files that
/// the pool still had.
#[test]
fn a_pack_that_can_never_be_written_is_dissolved() {
    let mut bench = Bench::new();
    let [live, lost, gone] = ["live", "lost", "gone"].map(|file| bench.put(file, "content"));
    let link = bench.new_put(DirId::ROOT, "link", "");
    let link = PutFile { kind: FileKind::Symlink("live".into()), ..link };
    let Outcome::Put(PutOutcome { file: link, .. }) = bench.ok(Command::PutFile(Box::new(link))) else {
        panic!("a put gives a file")
    };
    let container = bench.pack(&[live, lost, gone, link]);
    let skeleton = bench.view().container(container).unwrap().unwrap().skeleton.unwrap();
    let copies = vec![bench.pool_copy(lost)];
    bench.ok(Command::PoolCopiesLost { copies });
    bench.ok(Command::RemoveFile { parent: DirId::ROOT, name: name("gone") });
    assert!(matches!(bench.file(gone).state, FileState::Condemned(_)));
    let dissolve = Command::DissolvePack { container };
    let run = bench.begin(0);
    bench.append(run, container, 4);
    assert!(bench.rejected(dissolve.clone()).contains("planned"));
    bench.end(run, TapeState::Active);
    bench.ok(dissolve.clone());
    assert!(bench.view().container(container).unwrap().is_none());
    assert!(bench.garbage_blobs().contains(&skeleton.blob.0));
    assert_eq!(bench.view().file(gone).unwrap(), None, "nothing needs a file without a name any more");
    for pool in bench.pools {
        assert_eq!(bench.view().queue(pool, None, 9).unwrap(), []);
    }
    let class = bench.file(live).class;
    let todo = |bench: &Bench| -> Vec<FileId> {
        bench.view().todo(class, None, 9).unwrap().into_iter().map(|((_, file), _)| file).collect()
    };
    assert_eq!(todo(&bench), [live, link]);
    let copies = vec![bench.pool_copy(lost)];
    bench.ok(Command::PoolCopiesFound { copies });
    assert_eq!(todo(&bench), [live, lost, link], "found again it goes to tape with others");
    assert!(bench.rejected(dissolve).contains("container"));
    let again = bench.pack(&[live, lost, link]);
    bench.write_to(0, again);
    assert!(bench.rejected(Command::DissolvePack { container: again }).contains("on a tape"));
    bench.write_to(1, again);
    assert_eq!(bench.view().check().unwrap(), []);
    assert!(bench.replayed() == bench.store);
}
