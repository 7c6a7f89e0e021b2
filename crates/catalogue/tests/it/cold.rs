//! Cold classes, changed classes, cursors of lifecycle rules.

use crate::common::*;
use base::*;
use catalogue::*;

/// A bench whose only class is cold.
fn cold() -> Bench {
    let mut bench = Bench::new();
    bench.ok(Command::SetResidency { class: ClassId(1), cold: true });
    bench
}

fn on_tape(bench: &mut Bench, files: &[FileId]) -> ContainerId {
    let pack = bench.pack(files);
    bench.write_to(0, pack);
    bench.write_to(1, pack);
    pack
}

fn leave(bench: &mut Bench) {
    while bench.ok(Command::EvictCold) == Outcome::More(true) {}
}

fn queued(bench: &Bench) -> usize {
    bench.view().cold(usize::MAX).unwrap().len()
}

#[test]
fn files_leave_when_all_their_copies_are_under_an_index() {
    let mut bench = cold();
    let files = [bench.put("one", "1"), bench.put("two", "22")];
    let pack = bench.pack(&files);
    bench.write_to(0, pack);
    assert_eq!(queued(&bench), 0, "one copy is missing");
    leave(&mut bench);
    assert!(files.iter().all(|file| bench.file(*file).is_online()));
    bench.write_to(1, pack);
    assert_eq!(queued(&bench), 1, "durable with the index");
    leave(&mut bench);
    assert!(files.iter().all(|file| !bench.file(*file).is_online()));
    assert_eq!(queued(&bench), 0);
    assert_eq!(bench.view().check().unwrap(), []);
}

#[test]
fn files_of_other_classes_stay() {
    let mut bench = Bench::new();
    let file = bench.put("one", "1");
    on_tape(&mut bench, &[file]);
    leave(&mut bench);
    assert!(bench.file(file).is_online());
    bench.ok(Command::SetResidency { class: ClassId(1), cold: true });
    bench.ok(Command::SetResidency { class: ClassId(1), cold: false });
    let other = bench.put("two", "2");
    on_tape(&mut bench, &[other]);
    leave(&mut bench);
    assert!(bench.file(other).is_online());
}

#[test]
fn a_pin_keeps_a_file_until_it_runs_out() {
    let mut bench = cold();
    let file = bench.put("one", "1");
    bench.request(&[file]);
    on_tape(&mut bench, &[file]);
    leave(&mut bench);
    assert!(bench.file(file).is_online(), "pinned");
    let longer = bench.request(&[file]);
    bench.at = bench.at.plus(Duration::from_secs(70));
    let last = bench.request(&[file]);
    bench.at = bench.at.plus(Duration::from_secs(50));
    bench.ok(Command::ExpirePins);
    assert!(bench.file(file).is_online(), "asked for again");
    bench.ok(Command::Release { request: longer, files: None });
    assert!(bench.file(file).is_online());
    bench.ok(Command::Release { request: last, files: None });
    assert!(!bench.file(file).is_online());
    let again = bench.request(&[file]);
    bench.recall(file);
    assert!(bench.file(file).is_online());
    assert_eq!(queued(&bench), 0, "the pin keeps it");
    bench.at = bench.at.plus(Duration::from_secs(101));
    bench.ok(Command::ExpirePins);
    assert!(!bench.file(file).is_online());
    bench.ok(Command::ForgetRequest { request: again });
    assert_eq!(bench.view().check().unwrap(), []);
}

#[test]
fn what_comes_back_without_being_asked_for_leaves_again() {
    let mut bench = cold();
    let file = bench.put("one", "1");
    on_tape(&mut bench, &[file]);
    leave(&mut bench);
    bench.recall(file);
    assert!(bench.file(file).is_online());
    assert_eq!(queued(&bench), 1);
    leave(&mut bench);
    assert!(!bench.file(file).is_online());
}

#[test]
fn a_changed_class_moves_what_waits_and_keeps_what_is_sealed() {
    let mut bench = Bench::new();
    let copies = vec![TapePoolId(1), TapePoolId(2)];
    bench.ok(Command::DefineClass { name: "glacier".into(), copies });
    bench.ok(Command::DefineClass { name: "disk".into(), copies: vec![] });
    let all = bench.view().classes().unwrap();
    let id = |name: &str| all.iter().find(|(_, class)| class.name == name).unwrap().0;
    let (glacier, disk) = (id("glacier"), id("disk"));
    bench.ok(Command::SetResidency { class: glacier, cold: true });
    let (waiting, sealed, plain) = (bench.put("w", "1"), bench.put("s", "22"), bench.put("d", "333"));
    bench.ok(Command::ChangeClass { file: plain, class: disk });
    assert_eq!(bench.view().tally(Counter::Todo(disk)).unwrap().files, 0);
    bench.ok(Command::ChangeClass { file: plain, class: glacier });
    bench.ok(Command::ChangeClass { file: waiting, class: glacier });
    assert_eq!(bench.view().tally(Counter::Todo(glacier)).unwrap().files, 2);
    assert_eq!(bench.view().tally(Counter::Todo(ClassId(1))).unwrap().files, 1);
    let pack = on_tape(&mut bench, &[sealed]);
    leave(&mut bench);
    assert!(bench.file(sealed).is_online());
    bench.ok(Command::ChangeClass { file: sealed, class: glacier });
    assert!(!bench.file(sealed).is_online(), "safe already");
    assert_eq!(bench.view().parts(sealed).unwrap()[0].0, pack);
    let refused = bench.rejected(Command::ChangeClass { file: sealed, class: disk });
    assert!(refused.contains("tape"), "{refused}");
    bench.ok(Command::ChangeClass { file: sealed, class: ClassId(1) });
    assert_eq!(bench.view().tally(Counter::Class(ClassId(1))).unwrap().files, 1);
    assert_eq!(bench.view().check().unwrap(), []);
}

/// A file of one copy was moved to a class of two and left the pool at once, with one copy for good.
#[test]
fn a_class_that_asks_for_more_copies_than_there_are_is_refused() {
    let mut bench = Bench::new();
    let one = Command::DefineClass { name: "one".into(), copies: vec![TapePoolId(1)] };
    let two = Command::DefineClass { name: "two".into(), copies: vec![TapePoolId(1), TapePoolId(2)] };
    let (Outcome::Class(one), Outcome::Class(two)) = (bench.ok(one), bench.ok(two)) else {
        panic!("classes")
    };
    bench.ok(Command::SetResidency { class: two, cold: true });
    let (sealed, waiting) = (bench.put("s", "22"), bench.put("w", "333"));
    for file in [sealed, waiting] {
        bench.ok(Command::ChangeClass { file, class: one });
    }
    bench.class = one;
    bench.pack(&[sealed]);
    let refused = bench.rejected(Command::ChangeClass { file: sealed, class: two });
    assert!(refused.contains("copies"), "{refused}");
    bench.ok(Command::ChangeClass { file: waiting, class: two });
}

#[test]
fn a_file_sealed_in_another_class_leaves_when_its_container_is_safe() {
    let mut bench = Bench::new();
    let copies = vec![TapePoolId(1), TapePoolId(2)];
    let Outcome::Class(glacier) = bench.ok(Command::DefineClass { name: "glacier".into(), copies }) else {
        panic!("a class");
    };
    bench.ok(Command::SetResidency { class: glacier, cold: true });
    let files = [bench.put("one", "1"), bench.put("two", "22")];
    let pack = bench.pack(&files);
    bench.ok(Command::ChangeClass { file: files[0], class: glacier });
    bench.write_to(0, pack);
    bench.write_to(1, pack);
    leave(&mut bench);
    assert!(!bench.file(files[0]).is_online());
    assert!(bench.file(files[1]).is_online(), "of a class that stays");
}

#[test]
fn while_a_restored_catalogue_is_checked_nothing_leaves() {
    let mut bench = cold();
    let file = bench.put("one", "1");
    let request = bench.request(&[file]);
    on_tape(&mut bench, &[file]);
    leave(&mut bench);
    let after = bench.view().last_change().unwrap();
    bench.ok(Command::AcceptRestore { epoch: Epoch(9), after, seen: 0 });
    bench.ok(Command::Release { request, files: None });
    leave(&mut bench);
    assert!(bench.file(file).is_online());
    bench.ok(Command::RestoreSettled);
    leave(&mut bench);
    assert!(!bench.file(file).is_online());
}

#[test]
fn cursors_of_rules_go_with_their_bucket() {
    let mut bench = Bench::new();
    let dir = bench.mkdir(DirId::ROOT, "bucket");
    let cursor = Some(LifecycleCursor { rule: [3; 16], through: FileId(77) });
    let set = |action, cursor| Command::SetLifecycleCursor { dir, rule: "to tape".into(), action, cursor };
    bench.ok(set(0, cursor));
    bench.ok(set(1, cursor));
    assert_eq!(bench.view().lifecycle_cursor(dir, "to tape", 0).unwrap(), cursor);
    bench.ok(set(0, None));
    assert_eq!(bench.view().lifecycle_cursor(dir, "to tape", 0).unwrap(), None);
    bench.ok(Command::RemoveDirectory { parent: DirId::ROOT, name: name("bucket") });
    assert_eq!(bench.view().size(Table::Lifecycle).unwrap().0, 0);
    let elsewhere = Command::SetLifecycleCursor { dir: DirId(9_999), rule: "r".into(), action: 0, cursor };
    bench.rejected(elsewhere);
}

fn set(bench: &mut Bench, at: usize, state: TapeState) {
    let reason = "by an operator".to_owned();
    bench.ok(Command::SetTapeState { vid: bench.tapes[at], state, reason });
}

/// A file with two copies under an index, whose tapes were both disabled, was evicted: its only readable
/// bytes went.
#[test]
fn a_file_whose_tapes_are_all_set_aside_stays_in_the_pool() {
    let mut bench = Bench::new();
    bench.ok(Command::AdoptRule { rule: Rule::ReadableIfEvicted });
    let file = bench.put("one", "1");
    on_tape(&mut bench, &[file]);
    set(&mut bench, 0, TapeState::Disabled);
    set(&mut bench, 1, TapeState::Suspect);
    let refused = Err(EvictRefusal::TapesSetAside(bench.tapes.to_vec()));
    assert_eq!(bench.evict(file), refused);
    set(&mut bench, 0, TapeState::Active);
    assert_eq!(bench.evict(file), Ok(()), "one tape that is in use is enough");
    assert_eq!(bench.view().check().unwrap(), []);
}

/// By itself too a cold class gave up the only readable bytes.
#[test]
fn files_of_cold_classes_leave_when_their_tapes_are_in_use_again() {
    let mut bench = cold();
    bench.ok(Command::AdoptRule { rule: Rule::ReadableIfEvicted });
    let (file, removed) = (bench.put("one", "1"), bench.put("two", "2"));
    on_tape(&mut bench, &[file]);
    on_tape(&mut bench, &[removed]);
    set(&mut bench, 0, TapeState::Disabled);
    set(&mut bench, 1, TapeState::Disabled);
    leave(&mut bench);
    assert!(bench.file(file).is_online());
    assert!(!bench.view().has_cold_work().unwrap(), "nothing to do before a tape is back");
    bench.ok(Command::RemoveFile { parent: DirId::ROOT, name: name("two") });
    // A pin that goes while the tapes are set aside changes nothing.
    let request = bench.request(&[file]);
    bench.ok(Command::Release { request, files: None });
    assert!(bench.file(file).is_online());
    set(&mut bench, 1, TapeState::Active);
    assert!(bench.view().has_cold_work().unwrap());
    leave(&mut bench);
    assert!(!bench.file(file).is_online());
    set(&mut bench, 0, TapeState::Active);
    leave(&mut bench);
    assert_eq!(bench.view().size(Table::ColdWait).unwrap().0, 0);
    assert_eq!(bench.view().check().unwrap(), []);
}

/// More containers wait for a tape than one part of the work takes.
#[test]
fn what_waits_for_a_tape_is_queued_in_parts() {
    let mut bench = cold();
    bench.ok(Command::AdoptRule { rule: Rule::ReadableIfEvicted });
    let files: Vec<FileId> = ["a", "b", "c"].map(|name| bench.put(name, name)).to_vec();
    for file in &files {
        on_tape(&mut bench, &[*file]);
    }
    set(&mut bench, 0, TapeState::Disabled);
    set(&mut bench, 1, TapeState::Disabled);
    leave(&mut bench);
    set(&mut bench, 0, TapeState::Active);
    let some = Command::DoSome { work: Work::EvictCold, most: 1 };
    let mut parts = 1;
    while bench.ok(some.clone()) == Outcome::More(true) {
        parts += 1;
        assert!(parts < 20, "it comes to an end");
    }
    assert!(parts >= files.len());
    assert!(files.iter().all(|file| !bench.file(*file).is_online()));
}

/// A log of a Kist that did not ask for the tapes' state gives what it gave then: the rule holds from the
/// change on that says so.
#[test]
fn changes_of_before_the_rule_are_replayed_as_they_were() {
    let mut bench = cold();
    let (evicted, released) = (bench.put("one", "1"), bench.put("two", "2"));
    let request = bench.request(&[evicted, released]);
    on_tape(&mut bench, &[evicted]);
    on_tape(&mut bench, &[released]);
    set(&mut bench, 0, TapeState::Disabled);
    set(&mut bench, 1, TapeState::Disabled);
    bench.ok(Command::SetResidency { class: ClassId(1), cold: false });
    bench.ok(Command::Release { request, files: Some(vec![evicted]) });
    assert_eq!(bench.evict(evicted), Ok(()));
    bench.ok(Command::SetResidency { class: ClassId(1), cold: true });
    bench.ok(Command::Release { request, files: Some(vec![released]) });
    assert!(!bench.file(released).is_online());
    bench.ok(Command::AdoptRule { rule: Rule::ReadableIfEvicted });
    let changes = bench.view().last_change().unwrap();
    bench.ok(Command::AdoptRule { rule: Rule::ReadableIfEvicted });
    assert_eq!(bench.view().last_change().unwrap(), changes, "it holds already");
    let mut replayed = MemoryStore::new();
    for (number, change) in (1..).zip(&bench.log) {
        apply(&mut replayed, &Envelope::decode(change).unwrap()).unwrap();
        assert_eq!(View::new(&replayed).last_change().unwrap(), number, "each changes something");
    }
    assert!(replayed == bench.store);
}

fn key(id: &str) -> TapeKey {
    TapeKey { id: KeyId::new(id).unwrap(), check: KeyCheck([7; KeyCheck::BYTES]) }
}

fn key_at_hand(bench: &mut Bench, id: &str, at_hand: bool) {
    bench.ok(Command::SetKeyAtHand { key: key(id), at_hand });
}

/// Story: tapes whose key nobody had any more counted as tapes that can be read, and the files on them left
/// the pool: by hand, by themselves, and when the pool could not read them for a moment.
#[test]
fn what_only_tapes_without_their_keys_have_stays_in_the_pool() {
    let mut bench = cold();
    for rule in Rule::ALL {
        bench.ok(Command::AdoptRule { rule });
    }
    for (at, id) in ["a", "b"].into_iter().enumerate() {
        bench.ok(Command::SetTapeKey { vid: bench.tapes[at], key: Some(key(id)) });
    }
    let (file, unreadable) = (bench.put("one", "1"), bench.put("two", "2"));
    on_tape(&mut bench, &[file, unreadable]);
    leave(&mut bench);
    assert!(bench.file(file).is_online(), "nobody was asked for the keys yet");
    assert!(!bench.view().has_cold_work().unwrap(), "nothing to do before a key is there");
    assert_eq!(bench.evict(file), Err(EvictRefusal::KeyMissing(bench.tapes.to_vec())));
    set(&mut bench, 0, TapeState::Disabled);
    assert_eq!(bench.evict(file), Err(EvictRefusal::KeyMissing(vec![bench.tapes[1]])));
    set(&mut bench, 0, TapeState::Active);
    let lost = PoolCopy::of(unreadable, &bench.file(unreadable));
    bench.ok(Command::PoolCopiesLost { copies: vec![lost.clone()] });
    assert!(bench.file(unreadable).is_lost() && !bench.file(unreadable).pieces.is_empty());
    // A pin that goes while no key is there changes nothing.
    let request = bench.request(&[file]);
    bench.ok(Command::Release { request, files: None });
    assert!(bench.file(file).is_online());

    key_at_hand(&mut bench, "b", true);
    bench.ok(Command::PoolCopiesLost { copies: vec![lost] });
    assert!(!bench.file(unreadable).is_lost() && bench.file(unreadable).pieces.is_empty());
    assert!(bench.view().has_cold_work().unwrap());
    leave(&mut bench);
    assert!(!bench.file(file).is_online(), "one key is enough");
    assert_eq!(bench.view().check().unwrap(), []);
    // The next start knows of no key, and one that was missed is not at hand.
    assert_eq!(bench.view().keys_at_hand().unwrap(), [key("b")]);
    bench.ok(Command::OpenEpoch);
    assert_eq!(bench.view().keys_at_hand().unwrap(), []);
    let third = bench.put("three", "3");
    on_tape(&mut bench, &[third]);
    key_at_hand(&mut bench, "a", true);
    key_at_hand(&mut bench, "a", false);
    assert_eq!(bench.evict(third), Err(EvictRefusal::KeyMissing(bench.tapes.to_vec())));
    assert!(bench.replayed() == bench.store);
}

/// A log of before the rule gives what it gave then.
#[test]
fn keys_count_from_the_rule_on() {
    let mut bench = Bench::new();
    bench.ok(Command::AdoptRule { rule: Rule::ReadableIfEvicted });
    for vid in bench.tapes {
        bench.ok(Command::SetTapeKey { vid, key: Some(key("a")) });
    }
    let (before, after) = (bench.put("one", "1"), bench.put("two", "2"));
    on_tape(&mut bench, &[before, after]);
    assert_eq!(bench.evict(before), Ok(()));
    bench.ok(Command::AdoptRule { rule: Rule::KeyAtHand });
    assert!(bench.evict(after).is_err());
    assert!(bench.replayed() == bench.store);
}

/// Story: with the end of its pin a file left the pool on the word that its tapes' key was at hand, which was
/// true an hour before.
#[test]
fn what_counts_on_keys_leaves_by_an_evict_alone() {
    let mut bench = cold();
    let rules = Rule::ALL.into_iter().filter(|rule| *rule != Rule::KeysAskedFirst);
    rules.for_each(|rule| drop(bench.ok(Command::AdoptRule { rule })));
    bench.ok(Command::SetTapeKey { vid: bench.tapes[0], key: Some(key("a")) });
    bench.ok(Command::SetTapeKey { vid: bench.tapes[1], key: Some(key("b")) });
    key_at_hand(&mut bench, "a", true);
    key_at_hand(&mut bench, "b", true);
    let files = ["one", "two", "three"].map(|name| bench.put(name, "1"));
    let requests = files.map(|file| bench.request(&[file]));
    on_tape(&mut bench, &files);
    leave(&mut bench);
    let end_pin = |bench: &mut Bench, at: usize| {
        bench.ok(Command::Release { request: requests[at], files: None });
        bench.file(files[at]).is_online()
    };
    assert!(!end_pin(&mut bench, 0), "as a log of before has it");
    bench.ok(Command::AdoptRule { rule: Rule::KeysAskedFirst });
    assert!(end_pin(&mut bench, 1) && bench.view().has_cold_work().unwrap(), "it is queued");
    let both = [key("a"), key("b")].into_iter().collect();
    assert_eq!(bench.view().keys_counted_on(files[1]).unwrap(), both);
    // The keys are asked for; one is gone.
    key_at_hand(&mut bench, "a", false);
    assert_eq!(bench.view().keys_counted_on(files[1]).unwrap(), [key("b")].into_iter().collect());
    leave(&mut bench);
    assert!(!bench.file(files[1]).is_online());
    key_at_hand(&mut bench, "b", false);
    assert!(end_pin(&mut bench, 2));
    leave(&mut bench);
    assert!(bench.file(files[2]).is_online(), "no key is at hand");
    assert_eq!(bench.view().check().unwrap(), []);
    assert!(bench.replayed() == bench.store);
}

/// A tape in clear gives what it has without any key.
#[test]
fn a_copy_in_clear_counts_on_no_key() {
    let mut bench = cold();
    Rule::ALL.into_iter().for_each(|rule| drop(bench.ok(Command::AdoptRule { rule })));
    bench.ok(Command::SetTapeKey { vid: bench.tapes[0], key: Some(key("a")) });
    key_at_hand(&mut bench, "a", true);
    let file = bench.put("one", "1");
    let request = bench.request(&[file]);
    on_tape(&mut bench, &[file]);
    leave(&mut bench);
    assert!(bench.view().keys_counted_on(file).unwrap().is_empty());
    bench.ok(Command::Release { request, files: None });
    assert!(!bench.file(file).is_online(), "it leaves at once");
    set(&mut bench, 1, TapeState::Suspect);
    assert_eq!(bench.view().keys_counted_on(file).unwrap(), [key("a")].into_iter().collect());
}
