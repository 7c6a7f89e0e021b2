//! What tapes hold that a restored catalogue does not know.

use crate::common::*;
use base::*;
use catalogue::*;

/// A catalogue before and after a restore to a point at which these files were in the pool only, and what the
/// tapes hold of the time after it.
struct Restored {
    bench: Bench,
    files: Vec<FileId>,
    found: AdoptContainer,
    tapes: Vec<TapeFound>,
}

/// A container that the catalogue knows, at these places.
fn standing(container: ContainerId, record: &ContainerRecord, places: Vec<TapePlace>) -> AdoptContainer {
    AdoptContainer {
        container,
        kind: record.kind.clone(),
        class: record.class,
        members: Vec::new(),
        length: record.length,
        checksums: record.checksums,
        sealed: record.sealed,
        tape_path: record.tape_path.clone(),
        places,
    }
}

/// Files a, b, c are put; then they go to both tapes in one pack; then the catalogue goes back to before
/// that.
fn restored() -> Restored {
    let mut bench = Bench::new();
    let files: Vec<FileId> = ["a", "bb", "ccc"].map(|content| bench.put(content, content)).to_vec();
    let (store, log, point) = (bench.store.clone(), bench.log.len(), bench.view().last_change().unwrap());
    let container = bench.pack(&files);
    bench.write_to(0, container);
    bench.write_to(1, container);
    let view = bench.view();
    let record = view.container(container).unwrap().unwrap();
    let found = AdoptContainer {
        members: view.members(container, None, 9).unwrap(),
        ..standing(container, &record, record.places().map(|(vid, block)| TapePlace { vid, block }).collect())
    };
    let tapes = bench.tapes.map(|vid| {
        let tape = view.tape(vid).unwrap().unwrap();
        TapeFound {
            vid,
            uuid: tape.uuid.unwrap(),
            tape_pool: tape.tape_pool.unwrap(),
            generation: tape.generation,
            index_block: tape.index_block,
            end_of_data: tape.end_of_data,
            reason: "it was written after the point of the restore".into(),
        }
    });
    drop(view);
    let seen = bench.view().last_change().unwrap();
    bench.store = store;
    bench.log.truncate(log);
    bench.ok(Command::AcceptRestore { epoch: Epoch(3), after: point, seen });
    Restored { bench, files, found, tapes: tapes.to_vec() }
}

/// A session that was open at the point has planned a pack; since then another tape of the pool got it.
fn planned() -> Restored {
    let mut bench = Bench::new();
    let files: Vec<FileId> = ["a", "bb"].map(|content| bench.put(content, content)).to_vec();
    let container = bench.pack(&files);
    let vid = Vid::new("ZZZ003").unwrap();
    bench.ok(Command::RegisterTape { vid, capacity: ByteCount::gib(1) });
    let run = bench.begin(0);
    bench.append(run, container, 3);
    let view = bench.view();
    let record = view.container(container).unwrap().unwrap();
    let tape_pool = view.tape(bench.tapes[0]).unwrap().unwrap().tape_pool.unwrap();
    let point = view.last_change().unwrap();
    drop(view);
    let found = standing(container, &record, vec![TapePlace { vid, block: BlockAddress(4) }]);
    let tape = TapeFound {
        vid,
        uuid: Uuid([7; 16]),
        tape_pool,
        generation: Generation(2),
        index_block: BlockAddress(10),
        end_of_data: BlockAddress(12),
        reason: "it was written after the point of the restore".into(),
    };
    bench.ok(Command::AcceptRestore { epoch: Epoch(3), after: point, seen: point });
    Restored { bench, files, found, tapes: vec![tape] }
}

impl Restored {
    /// The pool gives none of these files.
    fn lose(&mut self, files: &[FileId]) {
        let copies = files.iter().map(|file| self.bench.pool_copy(*file)).collect();
        self.bench.ok(Command::PoolCopiesLost { copies });
    }

    fn find_tapes(&mut self) {
        for tape in self.tapes.clone() {
            self.bench.ok(Command::TapeFound(tape));
        }
    }

    fn adopt(&mut self) {
        self.bench.ok(Command::AdoptContainer(Box::new(self.found.clone())));
    }

    fn state(&self, file: FileId) -> FileState {
        self.bench.view().file(file).unwrap().unwrap().state
    }
}

#[test]
fn files_whose_pool_bytes_are_gone_are_found_on_tape() {
    let mut restored = restored();
    let lost = restored.files[1];
    restored.lose(&[lost]);
    assert!(matches!(restored.state(lost), FileState::Lost(_)), "nothing is known of the tapes yet");
    restored.find_tapes();
    restored.adopt();
    assert_eq!(restored.state(lost), FileState::Live);
    let view = restored.bench.view();
    assert!(view.file(lost).unwrap().unwrap().pieces.is_empty(), "it is NEARLINE");
    for file in &restored.files {
        assert_eq!(view.parts(*file).unwrap().len(), 1);
    }
    let record = view.container(restored.found.container).unwrap().unwrap();
    assert!(record.is_settled(), "both copies stand under an index: {record:?}");
    for tape in &restored.tapes {
        let tape = view.tape(tape.vid).unwrap().unwrap();
        assert_eq!((tape.state, tape.containers), (TapeState::ReadOnly, 1));
    }
    assert_eq!(view.check().unwrap(), []);
    drop(view);
    // All of it may go from the pool now, and a second look changes nothing.
    restored.lose(&restored.files.clone());
    let before = restored.bench.store.clone();
    restored.find_tapes();
    restored.adopt();
    for file in &restored.files {
        assert_eq!(restored.state(*file), FileState::Live);
    }
    assert_eq!(restored.bench.view().container(restored.found.container).unwrap(), {
        View::new(&before).container(restored.found.container).unwrap()
    });
    assert!(restored.bench.replayed() == restored.bench.store);
}

#[test]
fn a_copy_that_one_tape_has_is_taken_and_the_other_one_is_queued() {
    let mut restored = restored();
    restored.find_tapes();
    restored.found.places.truncate(1);
    // One of the files is not known any more; its bytes stay on tape as garbage.
    restored.found.members.remove(0);
    restored.adopt();
    let record = restored.bench.view().container(restored.found.container).unwrap().unwrap();
    assert_eq!((record.live_members, record.live_bytes), (2, ByteCount(5)));
    let states: Vec<CopyState> = record.copies.iter().map(|copy| copy.state).collect();
    assert!(matches!(states[..], [CopyState::Indexed { .. }, CopyState::Queued]), "{states:?}");
    assert_eq!(restored.bench.view().check().unwrap(), []);
    // The second place is found later.
    let mut later = restored.found.clone();
    later.places = vec![TapePlace { vid: restored.tapes[1].vid, block: first_block(&restored) }];
    restored.bench.ok(Command::AdoptContainer(Box::new(later)));
    let record = restored.bench.view().container(restored.found.container).unwrap().unwrap();
    assert!(record.is_settled());
    assert_eq!(restored.bench.view().check().unwrap(), []);
}

/// At the point of the restore a file stood on a tape that was reclaimed since; now it is in another pack.
#[test]
fn a_file_leaves_a_container_that_no_tape_has_any_more() {
    let mut restored = restored();
    let file = restored.files[0];
    let old = restored.bench.pack(&[file]);
    restored.find_tapes();
    restored.adopt();
    assert_eq!(restored.bench.view().container(old).unwrap(), None);
    assert_eq!(restored.bench.view().parts(file).unwrap()[0].0, restored.found.container);
    assert_eq!(restored.bench.view().check().unwrap(), []);
}

/// One of the files stands in another container on tape: the others are taken all the same.
#[test]
fn a_file_that_stands_elsewhere_on_tape_keeps_no_other_from_being_taken() {
    let mut restored = restored();
    let file = restored.files[0];
    let old = restored.bench.pack(&[file]);
    let vid = restored.bench.tapes[1];
    restored.find_tapes();
    // Its first place is before that of the pack that was found.
    let place = TapePlace { vid, block: BlockAddress(first_block(&restored).0 - 1) };
    let record = restored.bench.view().container(old).unwrap().unwrap();
    restored.bench.ok(Command::AdoptContainer(Box::new(standing(old, &record, vec![place]))));
    restored.adopt();
    let view = restored.bench.view();
    assert_eq!(view.parts(file).unwrap()[0].0, old);
    for other in &restored.files[1..] {
        assert_eq!(view.parts(*other).unwrap()[0].0, restored.found.container);
    }
    let record = view.container(restored.found.container).unwrap().unwrap();
    assert_eq!((record.live_members, record.live_bytes), (2, ByteCount(5)));
    assert_eq!(view.check().unwrap(), []);
}

/// At the point a session had planned the container for one tape; it was written to another one of that pool
/// since. Whatever becomes of the session, it is read from there.
#[test]
fn a_planned_copy_is_read_where_it_was_found() {
    let mut restored = planned();
    let (container, place) = (restored.found.container, restored.found.places[0]);
    restored.find_tapes();
    restored.adopt();
    let copy = restored.bench.view().container(container).unwrap().unwrap().copies[0];
    assert!(matches!(copy.state, CopyState::Planned { .. }), "{copy:?}");
    assert_eq!(copy.source, Some(place));
    assert_eq!(restored.bench.view().check().unwrap(), []);
    // The pool does not have them any more, and the session has written nothing.
    restored.lose(&restored.files.clone());
    let (run, _) = restored.bench.view().open_runs().unwrap()[0].clone();
    restored.bench.ok(Command::EndRun {
        run,
        end: RunEnd::Torn,
        tape_state: TapeState::ReadOnly,
        reason: "torn".into(),
        end_of_data: None,
        torn: ByteCount(0),
    });
    for file in &restored.files {
        assert_eq!(restored.state(*file), FileState::Live);
    }
    let copy = restored.bench.view().container(container).unwrap().unwrap().copies[0];
    assert_eq!((copy.state, copy.source), (CopyState::Queued, Some(place)));
    assert_eq!(restored.bench.view().check().unwrap(), []);
}

#[test]
fn nothing_is_adopted_that_does_not_fit() {
    let adopt = |found: &AdoptContainer| Command::AdoptContainer(Box::new(found.clone()));
    let mut restored = restored();
    let found = restored.found.clone();
    let text = restored.bench.rejected(adopt(&found));
    assert!(text.contains("no index covers"), "the tapes were not looked at: {text}");
    restored.find_tapes();
    let mut other = found.clone();
    other.members[0].length.0 -= 1;
    assert!(restored.bench.rejected(adopt(&other)).contains("size"));
    let mut other = found.clone();
    other.places.clear();
    assert!(restored.bench.rejected(adopt(&other)).contains("none of its places"));
    let mut other = found.clone();
    // One that was never there; one that is not there any more is left out.
    other.members[2].file = FileId(1 << 40);
    assert!(restored.bench.rejected(adopt(&other)).contains("file 1099511627776"));
    let mut older = restored.tapes[0].clone();
    older.generation.0 -= 1;
    assert!(restored.bench.rejected(Command::TapeFound(older)).contains("newer"));
    assert_eq!(restored.bench.view().check().unwrap(), []);
    restored.adopt();
    let mut other = found.clone();
    other.length.0 += 1;
    assert!(restored.bench.rejected(adopt(&other)).contains("another length"));
    restored.bench.ok(Command::RestoreSettled);
    assert!(restored.bench.rejected(adopt(&found)).contains("settled"));
    let tape = restored.tapes[0].clone();
    assert!(restored.bench.rejected(Command::TapeFound(tape)).contains("settled"));
}

/// A tape was given back and labelled anew: what stood on it before is given up first.
#[test]
fn another_volume_replaces_one_that_holds_nothing() {
    let mut restored = restored();
    restored.find_tapes();
    restored.adopt();
    let mut other = restored.tapes[0].clone();
    other.uuid = Uuid([0x77; 16]);
    assert!(restored.bench.rejected(Command::TapeFound(other.clone())).contains("in use"));
    let (vid, block) = (other.vid, first_block(&restored));
    restored.bench.ok(Command::CopyDamaged {
        container: restored.found.container,
        vid,
        block,
        reason: "it is gone".into(),
    });
    other.generation = Generation(1);
    restored.bench.ok(Command::TapeFound(other));
    let tape = restored.bench.view().tape(vid).unwrap().unwrap();
    assert_eq!((tape.uuid, tape.generation), (Some(Uuid([0x77; 16])), Generation(1)));
    assert_eq!(restored.bench.view().check().unwrap(), []);
}

fn first_block(restored: &Restored) -> BlockAddress {
    restored.found.places[0].block
}

/// At the point the files were of a class that does not go to tape, or of several; it is the bytes that
/// count.
#[test]
fn classes_at_the_point_do_not_matter() {
    let mut restored = restored();
    let file = restored.files[1];
    restored.bench.ok(Command::ChangeClass { file, class: restored.bench.disk_only });
    restored.lose(&restored.files.clone());
    restored.find_tapes();
    restored.found.class = restored.bench.disk_only;
    restored.adopt();
    let record = restored.bench.view().container(restored.found.container).unwrap().unwrap();
    assert_eq!((record.copies.len(), record.live_members), (2, 3));
    for file in &restored.files {
        assert_eq!(restored.state(*file), FileState::Live);
    }
    assert_eq!(restored.bench.view().check().unwrap(), []);
}

/// A part of a file that a tape has, or that the catalogue has sealed anew since the restore.
fn segment_at(bench: &Bench, container: ContainerId, file: FileId, at: u64, length: u64) -> SealContainer {
    SealContainer {
        container,
        kind: ContainerKind::Segment { file, file_offset: ByteCount(at) },
        class: bench.class,
        members: vec![MemberRecord {
            file,
            header_offset: ByteCount(0),
            data_offset: ByteCount(0),
            length: ByteCount(length),
            file_offset: ByteCount(at),
        }],
        length: ByteCount(length),
        checksums: StreamChecksums::of(b"part"),
        tape_path: format!("/huge.{at}"),
        skeleton: None,
    }
}

/// A file of 9 bytes of which tapes hold parts of 4, 4 and 1 that the catalogue does not know: it has sealed
/// the file otherwise. Each part that is taken over takes the place of those that stand nowhere; what is not
/// sealed any more waits to be sealed.
#[test]
fn parts_on_tapes_take_the_place_of_parts_that_stand_nowhere() {
    let mut bench = Bench::new();
    let file = bench.put("huge", "nine byte");
    let on_tape: Vec<ContainerId> = (0..3).map(|_| bench.reserve()).collect();
    let point = bench.view().last_change().unwrap();
    bench.ok(Command::AcceptRestore { epoch: Epoch(3), after: point, seen: point });
    for (at, length) in [(0, 6), (6, 3)] {
        let container = bench.reserve();
        let seal = segment_at(&bench, container, file, at, length);
        bench.ok(Command::SealContainer(Box::new(seal)));
    }
    let tape = bench.tapes[0];
    let record = bench.view().tape(tape).unwrap().unwrap();
    bench.ok(Command::TapeFound(TapeFound {
        vid: tape,
        uuid: record.uuid.unwrap(),
        tape_pool: record.tape_pool.unwrap(),
        generation: Generation(2),
        index_block: BlockAddress(20),
        end_of_data: BlockAddress(22),
        reason: "it was written since".into(),
    }));
    let adopt = |bench: &Bench, part: usize, at: u64, length: u64| {
        let SealContainer { container, kind, class, members, length, checksums, tape_path, .. } =
            segment_at(bench, on_tape[part], file, at, length);
        let places = vec![TapePlace { vid: tape, block: BlockAddress(10 + part as u64) }];
        let sealed = bench.at;
        Command::AdoptContainer(Box::new(AdoptContainer {
            container,
            kind,
            class,
            members,
            length,
            checksums,
            sealed,
            tape_path,
            places,
        }))
    };
    let second = adopt(&bench, 1, 4, 4);
    assert!(bench.rejected(second.clone()).contains("does not continue"));
    let waits = |bench: &Bench| bench.view().todo(bench.class, None, 9).unwrap().len();
    let lengths = |bench: &Bench| -> Vec<u64> {
        bench.view().parts(file).unwrap().iter().map(|(_, part)| part.length.0).collect()
    };
    assert_eq!((waits(&bench), lengths(&bench)), (0, vec![6, 3]));
    bench.ok(adopt(&bench, 0, 0, 4));
    assert_eq!((waits(&bench), lengths(&bench)), (1, vec![4]), "the rest is to be sealed");
    bench.ok(second.clone());
    bench.ok(second);
    bench.ok(adopt(&bench, 2, 8, 1));
    assert_eq!((waits(&bench), lengths(&bench)), (0, vec![4, 4, 1]));
    assert_eq!(bench.view().queue(bench.pools[1], None, 9).unwrap().len(), 3, "the other copies are queued");
    let stands = adopt(&bench, 0, 0, 4);
    bench.ok(stands);
    let copies = vec![bench.pool_copy(file)];
    assert_eq!(bench.ok(Command::PoolCopiesLost { copies }), Outcome::PoolCopyLost(vec![PoolLoss::Nearline]));
    assert!(bench.replayed() == bench.store);
}
