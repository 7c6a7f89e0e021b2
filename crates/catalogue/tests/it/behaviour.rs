//! One story a test: what each command promises beyond the plain case.

use crate::common::*;
use base::*;
use catalogue::*;

fn put_outcome(bench: &mut Bench, put: &PutFile) -> PutOutcome {
    match bench.ok(Command::PutFile(Box::new(put.clone()))) {
        Outcome::Put(outcome) => outcome,
        other => panic!("{other:?}"),
    }
}

fn remove(file: &str) -> Command {
    Command::RemoveFile { parent: DirId::ROOT, name: name(file) }
}

#[test]
fn a_repeated_put_gets_the_first_answer_even_after_a_delete() {
    let mut bench = Bench::new();
    let mut put = bench.new_put(DirId::ROOT, "f", "content");
    put.idempotency = Some([5; 32]);
    let first = put_outcome(&mut bench, &put);
    assert!(first.created);
    let again = PutOutcome { file: first.file, created: false, replaced: None };
    // The very same command, blob and all: what is in use must not become garbage.
    assert_eq!(put_outcome(&mut bench, &put), again);
    assert_eq!(bench.garbage_blobs(), Vec::<u64>::new());
    bench.ok(remove("f"));
    put.data = Some(bench.data(7));
    assert_eq!(put_outcome(&mut bench, &put), again);
    assert_eq!(bench.view().entry(DirId::ROOT, &name("f")).unwrap(), None);
    for other in [
        PutFile { name: name("g"), ..put.clone() },
        PutFile { size: ByteCount(8), ..put.clone() },
        PutFile { checksums: Checksums::of(b"other"), ..put.clone() },
        PutFile { parent: DirId(99), ..put.clone() },
    ] {
        assert!(bench.rejected(Command::PutFile(Box::new(other))).contains("idempotency key was used"));
    }
    bench.at = bench.at.plus(IDEMPOTENCY_KEPT);
    assert_eq!(bench.ok(Command::ExpireIdempotency), Outcome::Dropped(1));
    put.data = Some(bench.data(7));
    assert!(put_outcome(&mut bench, &put).created);
}

#[test]
fn values_of_a_segment_are_garbage_one_by_one_and_the_segment_when_empty() {
    let mut bench = Bench::new();
    let log = bench.new_blob();
    let small = |bench: &mut Bench, file: &str, content: &str, offset: u64| {
        let mut put = bench.new_put(DirId::ROOT, file, content);
        let length = content.len() as u64;
        put.data = Some(PoolData { blobs: vec![segment(log)], pieces: vec![piece(log, offset, length)] });
        put_outcome(bench, &put)
    };
    small(&mut bench, "a", "aaa", 0);
    small(&mut bench, "b", "bbb", 4096);
    // The same bytes again: the second value was written for nothing.
    assert!(!small(&mut bench, "a", "aaa", 8192).created);
    assert_eq!(bench.garbage_values(), [(log, 8192)]);
    // A repeat of the repeat once wrote the same garbage again, and with it a change that changed nothing.
    let changes = bench.view().last_change().unwrap();
    assert!(!small(&mut bench, "a", "aaa", 8192).created);
    assert_eq!(bench.view().last_change().unwrap(), changes);
    // A new version in the same segment: the segment never falls to no references.
    assert!(small(&mut bench, "b", "other", 12288).created);
    assert_eq!(bench.garbage_values(), [(log, 4096), (log, 8192)]);
    bench.ok(Command::GarbageRemoved { blobs: vec![], values: vec![piece(log, 4096, 3), piece(log, 77, 3)] });
    assert_eq!(bench.garbage_values(), [(log, 8192)]);
    let page = |page, sectors| UnneededSectors { blob: BlobId(log), page, sectors };
    let removed = |values, pages| Command::ValuesRemoved { values, pages };
    bench.ok(removed(vec![piece(log, 8192, 3)], vec![page(1, 0b10), page(2, 0b110), page(400, 1)]));
    assert_eq!(bench.garbage_values(), [(0, 0); 0]);
    bench.ok(removed(vec![], vec![page(2, 0), page(400, 0b11), page(77, 0)]));
    let sectors = |bench: &Bench, page| bench.view().unneeded_sectors(BlobId(log), page).unwrap();
    assert_eq!([1, 2, 77, 400].map(|page| sectors(&bench, page)), [0b10, 0, 0, 0b11]);
    assert_eq!(bench.view().check().unwrap(), []);
    // No change is logged for what is known, nor for a segment that is not there.
    let changes = bench.view().last_change().unwrap();
    let gone = UnneededSectors { blob: BlobId(log + 1000), page: 1, sectors: 1 };
    bench.ok(removed(vec![piece(log, 8192, 3)], vec![page(1, 0b10), gone]));
    assert_eq!(bench.view().last_change().unwrap(), changes);
    assert!(bench.rejected(removed(vec![], vec![page(1 << 19, 1)])).contains("no page of this number"));
    let too_many = (0..100_001).map(|n| page(n % 100, 1)).collect();
    assert!(bench.rejected(removed(vec![], too_many)).contains("100000"));
    bench.ok(remove("a"));
    bench.ok(remove("b"));
    assert_eq!((bench.garbage_values(), bench.garbage_blobs()), (vec![], vec![log]));
    assert_eq!(sectors(&bench, 400), 0, "what is known of its pages goes with the segment");
    // Another small put cannot rely on a segment that is about to go.
    let mut put = bench.new_put(DirId::ROOT, "c", "ccc");
    put.data = Some(PoolData { blobs: vec![segment(log)], pieces: vec![piece(log, 16384, 3)] });
    assert!(bench.rejected(Command::PutFile(Box::new(put))).contains("is garbage"));
    bench.ok(Command::GarbageRemoved { blobs: vec![BlobId(log)], values: vec![] });
    assert_eq!(bench.view().garbage(10).unwrap(), []);
}

#[test]
fn a_stripe_set_means_the_same_drives_for_ever() {
    let mut bench = Bench::new();
    bench.put("a", "aaa");
    let mut put = bench.new_put(DirId::ROOT, "b", "bbb");
    put.data.as_mut().unwrap().blobs[0].stripes[0].drives.swap(0, 1);
    assert!(bench.rejected(Command::PutFile(Box::new(put))).contains("stripe set 1"));
    let mut put = bench.new_put(DirId::ROOT, "b", "bbb");
    put.data.as_mut().unwrap().blobs[0].stripes[0].drives.pop();
    assert!(bench.rejected(Command::PutFile(Box::new(put))).contains("as many distinct drives"));
    let mut put = bench.new_put(DirId::ROOT, "b", "bbb");
    put.data.as_mut().unwrap().pieces[0].length = ByteCount(4);
    assert!(bench.rejected(Command::PutFile(Box::new(put))).contains("add up"));
    let mut put = bench.new_put(DirId::ROOT, "b", "bbb");
    put.data.as_mut().unwrap().pieces[0].offset = ByteCount(1);
    assert!(bench.rejected(Command::PutFile(Box::new(put))).contains("beyond the end"));
}

#[test]
fn names_are_guarded() {
    let mut bench = Bench::new();
    let a = bench.mkdir(DirId::ROOT, "a");
    let b = bench.mkdir(a, "b");
    bench.put("f", "content");
    let rename = |from: (DirId, &str), to: (DirId, &str), replace| Command::Rename {
        from_parent: from.0,
        from_name: name(from.1),
        to_parent: to.0,
        to_name: name(to.1),
        replace,
    };
    let root = DirId::ROOT;
    let allowed = Replace::Allowed;
    assert!(bench.rejected(rename((root, "a"), (b, "x"), allowed)).contains("below it"));
    assert!(bench.rejected(rename((root, "a"), (a, "x"), allowed)).contains("below it"));
    assert!(bench.rejected(rename((root, "a"), (root, "f"), allowed)).contains("exists already"));
    assert!(bench.rejected(rename((root, "f"), (root, "a"), allowed)).contains("exists already"));
    assert!(bench.rejected(rename((root, "f"), (root, ".kist"), allowed)).contains("reserved"));
    assert!(bench.rejected(rename((root, "x"), (root, "y"), allowed)).contains("does not exist"));
    let same = bench.ok(rename((root, "a"), (root, "a"), Replace::Refused));
    assert_eq!(same, Outcome::Renamed { moved: Entry::Directory(a), replaced: None });
    bench.ok(rename((a, "b"), (root, "c"), allowed));
    assert_eq!(bench.view().path_of_directory(b).unwrap().as_deref(), Some("/c"));
    let g = bench.put("g", "another");
    assert!(bench.rejected(rename((root, "f"), (root, "g"), Replace::Refused)).contains("exists already"));
    bench.ok(rename((root, "f"), (root, "g"), allowed));
    assert_eq!(bench.view().file(g).unwrap(), None);
    assert!(bench.rejected(remove("a")).contains("is a directory"));
    assert!(bench.rejected(Command::RemoveDirectory { parent: root, name: name("g") }).contains("is a file"));
    bench.ok(rename((root, "g"), (a, "g"), allowed));
    assert!(bench.rejected(Command::RemoveDirectory { parent: root, name: name("a") }).contains("not empty"));
    bench.ok(Command::RemoveDirectory { parent: root, name: name("c") });
    let put = bench.new_put(root, "a", "content");
    assert!(bench.rejected(Command::PutFile(Box::new(put))).contains("is a directory"));
    let put = PutFile { replace: Replace::Refused, ..bench.new_put(a, "g", "third") };
    assert!(bench.rejected(Command::PutFile(Box::new(put))).contains("exists already"));
    let listed = bench.view().list(root, None, 10).unwrap();
    assert_eq!(listed, [(name("a"), Entry::Directory(a))]);
}

#[test]
fn links_and_empty_files_are_always_online_and_wait_for_a_pack_all_the_same() {
    let mut bench = Bench::new();
    let empty = bench.put("empty", "");
    let mut link = bench.new_put(DirId::ROOT, "link", "");
    link.kind = FileKind::Symlink("../target".into());
    let link_id = put_outcome(&mut bench, &link).file;
    assert!(!put_outcome(&mut bench, &link).created);
    link.kind = FileKind::Symlink("elsewhere".into());
    assert_eq!(put_outcome(&mut bench, &link).replaced, Some(link_id));
    let todo = bench.view().todo(bench.class, None, 10).unwrap();
    assert_eq!(todo.len(), 2, "the empty file and the newer link: {todo:?}");
    assert!(todo.iter().all(|(_, file)| file.size.0 == 0));
    assert_eq!(bench.evict(empty), Err(EvictRefusal::NoData));
    let request = bench.request(&[empty]);
    assert_eq!(bench.view().request(request).unwrap().unwrap().state, RequestState::Completed);
    bench.ok(remove("empty"));
}

#[test]
fn a_file_larger_than_a_tape_is_sealed_part_by_part() {
    let mut bench = Bench::new();
    let file = bench.put("large", "0123456789");
    let seal = |bench: &mut Bench, offset: u64, length: u64, container| {
        let file_offset = ByteCount(offset);
        let zero = ByteCount(0);
        let length = ByteCount(length);
        let member = MemberRecord { file, header_offset: zero, data_offset: zero, length, file_offset };
        bench.run(Command::SealContainer(Box::new(SealContainer {
            container,
            kind: ContainerKind::Segment { file, file_offset },
            class: bench.class,
            members: vec![member],
            length,
            checksums: StreamChecksums::default(),
            tape_path: format!("/large.{offset}"),
            skeleton: None,
        })))
    };
    let (one, two) = (bench.reserve(), bench.reserve());
    seal(&mut bench, 0, 6, one).unwrap();
    assert_eq!(bench.view().todo(bench.class, None, 10).unwrap().len(), 1);
    for (offset, length) in [(0, 6), (7, 3), (6, 5), (6, 0)] {
        assert!(seal(&mut bench, offset, length, two).is_err(), "{offset} {length}");
    }
    assert!(seal(&mut bench, 6, 4, ContainerId(99)).is_err(), "not reserved");
    assert!(seal(&mut bench, 6, 4, one).is_err(), "sealed already");
    seal(&mut bench, 6, 4, two).unwrap();
    assert_eq!(bench.view().todo(bench.class, None, 10).unwrap(), []);
    for tape in 0..2 {
        bench.write_to(tape, one);
    }
    assert_eq!(bench.evict(file), Err(EvictRefusal::NotSafeOnTape));
    bench.ok(remove("large"));
    let condemned = |bench: &Bench, id| bench.view().container(id).unwrap().unwrap().condemned_members;
    assert_eq!((condemned(&bench, one), condemned(&bench, two)), (1, 1));
    for tape in 0..2 {
        bench.write_to(tape, two);
    }
    assert_eq!(bench.view().file(file).unwrap(), None);
    assert_eq!((condemned(&bench, one), condemned(&bench, two)), (0, 0));
}

#[test]
fn a_torn_run_gives_back_what_was_not_committed_and_keeps_what_was() {
    let mut bench = Bench::new();
    let files: Vec<_> = (0..3).map(|n| bench.put(&format!("f{n}"), "content")).collect();
    let packs: Vec<_> = files.iter().map(|file| bench.pack(&[*file])).collect();
    let sealed = bench.view().container(packs[1]).unwrap().unwrap().sealed;
    let run = bench.begin(0);
    bench.append(run, packs[0], 4);
    bench.commit(run);
    bench.append(run, packs[1], 4);
    let tape = bench.tapes[0];
    let pool = bench.pools[0];
    assert_eq!(bench.view().queue(pool, None, 10).unwrap().len(), 1);
    let end = |tape_state, end_of_data| Command::EndRun {
        run,
        end: RunEnd::Torn,
        tape_state,
        reason: "é".repeat(300),
        end_of_data: Some(BlockAddress(end_of_data)),
        torn: ByteCount(77),
    };
    assert!(bench.rejected(end(TapeState::Active, 10)).contains("cannot move back"));
    assert!(bench.rejected(end(TapeState::Scratch, 20)).contains("after a run"));
    bench.ok(end(TapeState::Active, 14));
    let record = bench.view().tape(tape).unwrap().unwrap();
    assert_eq!((record.run, record.torn.0, record.end_of_data.0, record.reason.len()), (None, 77, 14, 512));
    assert_eq!(bench.view().open_runs().unwrap(), []);
    let queue = bench.view().queue(pool, None, 10).unwrap();
    assert_eq!(queue.len(), 2);
    assert_eq!(queue[0], (packs[1], QueuedContainer { since: sealed, ..queue[0].1 }));
    let state =
        |bench: &Bench, pack: ContainerId| bench.view().container(pack).unwrap().unwrap().copies[0].state;
    assert!(matches!(state(&bench, packs[0]), CopyState::Flushed { .. }));
    // The index of a later run lies behind the older copy and covers it too.
    bench.write_to(0, packs[2]);
    assert_eq!(state(&bench, packs[0]), CopyState::Indexed { vid: tape, block: BlockAddress(7) });
    assert_eq!(state(&bench, packs[1]), CopyState::Queued);
    assert_eq!(bench.view().content(tape, BlockAddress(0), 10).unwrap().len(), 2);
}

#[test]
fn a_run_for_the_history_leaves_its_tape_as_it_is() {
    let mut bench = Bench::new();
    let files: Vec<_> = (0..2).map(|n| bench.put(&format!("f{n}"), "content")).collect();
    let packs: Vec<_> = files.iter().map(|file| bench.pack(&[*file])).collect();
    bench.write_to(0, packs[0]);
    let vid = bench.tapes[0];
    let set = |bench: &mut Bench, state| {
        bench.ok(Command::SetTapeState { vid, state, reason: "for the test".into() });
    };
    let begin = |bench: &Bench| {
        let start = bench.view().tape(vid).unwrap().unwrap().end_of_data;
        Command::BeginHistoryRun { vid, drive: "d".into(), start }
    };
    let command = begin(&bench);
    assert!(bench.rejected(command.clone()).contains("active"), "an active tape has runs of its own");
    set(&mut bench, TapeState::Repacking);
    assert!(bench.rejected(command.clone()).contains("without containers"), "what is on it is to leave it");
    for state in [TapeState::ReadOnly, TapeState::Suspect, TapeState::Disabled] {
        set(&mut bench, state);
        assert!(bench.rejected(command.clone()).contains("full"));
    }
    set(&mut bench, TapeState::Full);
    let Outcome::Run(run) = bench.ok(command.clone()) else { panic!() };
    let (tape, record) = (bench.view().tape(vid).unwrap().unwrap(), bench.view().run(run).unwrap().unwrap());
    assert_eq!((tape.state, tape.run), (TapeState::Full, Some(run)));
    assert_eq!((tape.reason.as_str(), record.start), ("for the test", tape.end_of_data));
    assert!(bench.rejected(command).contains("in a run"));
    let (container, blocks) = (packs[1], BlockCount(1));
    let containers = vec![PlannedContainer { container, block: tape.end_of_data, blocks }];
    assert!(bench.rejected(Command::AppendToRun { run, containers }).contains("full"), "nothing is planned");
    bench.ok(Command::EndRun {
        run,
        end: RunEnd::Torn,
        tape_state: TapeState::Active,
        reason: String::new(),
        end_of_data: None,
        torn: ByteCount(0),
    });
    let tape = bench.view().tape(vid).unwrap().unwrap();
    assert_eq!((tape.state, tape.run), (TapeState::Full, None), "one that is taken over after a crash too");
}

#[test]
fn a_run_keeps_to_its_plan() {
    let mut bench = Bench::new();
    let files: Vec<_> = (0..3).map(|n| bench.put(&format!("f{n}"), "content")).collect();
    let packs: Vec<_> = files.iter().map(|file| bench.pack(&[*file])).collect();
    let vid = bench.tapes[0];
    let begin = |start| Command::BeginRun { vid, drive: "d".into(), start: BlockAddress(start) };
    assert!(bench.rejected(begin(8)).contains("end of data"));
    let run = bench.begin(0);
    assert!(bench.rejected(begin(7)).contains("in a run"));
    let plan = |container, block, blocks| {
        let (block, blocks) = (BlockAddress(block), BlockCount(blocks));
        Command::AppendToRun { run, containers: vec![PlannedContainer { container, block, blocks }] }
    };
    assert!(bench.rejected(plan(packs[0], 8, 1)).contains("do not follow"));
    assert!(bench.rejected(plan(packs[0], 7, 0)).contains("do not follow"));
    assert!(bench.rejected(plan(ContainerId(99), 7, 1)).contains("does not exist"));
    bench.ok(plan(packs[0], 7, 2));
    assert!(bench.rejected(plan(packs[0], 9, 2)).contains("on this tape already"));
    assert!(bench.rejected(plan(packs[1], 7, 2)).contains("do not follow"));
    bench.ok(plan(packs[1], 9, 2));
    let commit = |committed, end: u64| {
        let (end_of_data, written) = (BlockAddress(end), ByteCount(10));
        Command::CommitRun { run, committed, end_of_data, written }
    };
    assert!(bench.rejected(commit(3, 20)).contains("more than were planned"));
    assert!(bench.rejected(commit(2, 10)).contains("beyond the end of data"));
    bench.ok(commit(1, 9));
    assert!(bench.rejected(commit(0, 9)).contains("falls"));
    let index = |generation, at: u64| Command::IndexWritten {
        run,
        generation: Generation(generation),
        index_block: BlockAddress(at),
        end_of_data: BlockAddress(at + 2),
        written: ByteCount(10),
        changes: vec![(1, 1)],
    };
    assert!(bench.rejected(index(1, 10)).contains("generation"));
    assert!(bench.rejected(index(2, 8)).contains("behind"));
    // An index where the second pack was planned: that plan is void.
    bench.ok(index(2, 10));
    assert!(bench.rejected(commit(2, 20)).contains("an index stands"));
    assert!(bench.rejected(plan(packs[2], 12, 1)).contains("an index stands"));
    bench.ok(Command::SetTapeState { vid, state: TapeState::Disabled, reason: "by hand".into() });
    bench.end(run, TapeState::Active);
    let tape = bench.view().tape(vid).unwrap().unwrap();
    assert_eq!((tape.state, tape.reason.as_str()), (TapeState::Disabled, "by hand"));
    assert!(bench.rejected(plan(packs[2], 12, 1)).contains("ended"));
    assert!(bench.rejected(begin(12)).contains("disabled"));
}

#[test]
fn two_requests_for_one_file_are_one_read_and_pins_hold_until_they_run_out() {
    let mut bench = Bench::new();
    let file = bench.put("f", "content");
    let pack = bench.pack(&[file]);
    bench.write_to(0, pack);
    assert_eq!(bench.evict(file), Err(EvictRefusal::NotSafeOnTape));
    bench.write_to(1, pack);
    let holding = bench.request(&[file, file]);
    assert_eq!(bench.view().request(holding).unwrap().unwrap().files, 1);
    assert_eq!(bench.evict(file), Err(EvictRefusal::Pinned));
    bench.ok(Command::Release { request: holding, files: None });
    assert_eq!(bench.evict(file), Ok(()));
    assert_eq!(bench.evict(file), Err(EvictRefusal::NotOnline));
    let (one, two) = (bench.request(&[file]), bench.request(&[file]));
    for vid in bench.tapes {
        assert_eq!(bench.view().recall_set(vid, None, 10).unwrap().len(), 1);
        assert_eq!(
            bench.view().tally(Counter::Wanted(vid)).unwrap(),
            Tally { files: 1, bytes: ByteCount(7) }
        );
    }
    bench.ok(Command::CancelRequest { request: two });
    assert_eq!(bench.view().recall_set(bench.tapes[0], None, 10).unwrap().len(), 1, "the other still waits");
    let copy_failed = |vid| Command::RecallCopyFailed { file, vid, reason: "unreadable".into() };
    bench.ok(copy_failed(bench.tapes[0]));
    assert_eq!(bench.view().recall_set(bench.tapes[0], None, 10).unwrap(), []);
    assert_eq!(bench.view().recall_set(bench.tapes[1], None, 10).unwrap().len(), 1);
    bench.recall(file);
    let record = bench.view().request(one).unwrap().unwrap();
    assert_eq!((record.state, record.done, record.done_bytes.0), (RequestState::Completed, 1, 7));
    assert_eq!(bench.evict(file), Err(EvictRefusal::Pinned));
    bench.at = bench.at.plus(Duration::from_secs(98));
    assert_eq!(bench.evict(file), Ok(()), "a pin that ran out does not hold");
    assert_eq!(bench.ok(Command::ExpirePins), Outcome::Dropped(1));
    let failing = bench.request(&[file]);
    for vid in bench.tapes {
        bench.ok(copy_failed(vid));
    }
    let items = bench.view().request_items(failing, 0, 10).unwrap();
    assert_eq!(items[0].1.state, ItemState::Failed("unreadable".into()));
    // A new request has both tapes tried again.
    let again = bench.request(&[file]);
    assert_eq!(bench.view().wants(file).unwrap(), [Want { request: again, item: 0 }]);
    assert!(bench.rejected(Command::ForgetRequest { request: again }).contains("cancel it first"));
    bench.ok(Command::CancelRequest { request: again });
    assert_eq!(bench.view().recall_set(bench.tapes[1], None, 10).unwrap(), []);
    for request in [holding, one, two, failing, again] {
        bench.ok(Command::ForgetRequest { request });
    }
    assert_eq!(bench.view().requests(None, 10).unwrap(), []);
}

#[test]
fn what_was_recalled_for_nobody_is_garbage() {
    let mut bench = Bench::new();
    let files = [bench.put("a", "aaaa"), bench.put("b", "bbbb")];
    let pack = bench.pack(&files);
    bench.write_to(0, pack);
    bench.write_to(1, pack);
    let old = bench.garbage_blobs();
    bench.ok(Command::Evict { files: files.to_vec() });
    bench.ok(remove("a"));
    // One blob for the whole pack: kept for the file that is still there.
    let blob = bench.new_blob();
    let done = |files: Vec<(FileId, Vec<BlobPiece>)>, blob| {
        Command::RecallDone(Box::new(RecallDone { blobs: vec![striped(blob, 8)], files }))
    };
    let both = vec![(files[0], vec![piece(blob, 0, 4)]), (files[1], vec![piece(blob, 4, 4)])];
    assert_eq!(bench.ok(done(both.clone(), blob)), Outcome::Recalled(1));
    assert_eq!(bench.view().blob_record(BlobId(blob)).unwrap().unwrap().references, 1);
    let second = bench.new_blob();
    let late = vec![(files[1], vec![piece(second, 4, 4)])];
    assert_eq!(bench.ok(done(late, second)), Outcome::Recalled(0));
    assert_eq!(bench.garbage_blobs().len(), old.len() + 3);
    assert!(bench.garbage_blobs().contains(&second));
    assert_eq!(bench.ok(done(both, blob)), Outcome::Recalled(0), "the same answer twice does no harm");
    assert!(!bench.garbage_blobs().contains(&blob));
}

#[test]
fn requests_complete_when_closed_and_nothing_waits() {
    let mut bench = Bench::new();
    let file = bench.put("f", "content");
    let Outcome::Request(request) =
        bench.ok(Command::OpenRequest { owner: "bob".into(), pin: Duration::ZERO })
    else {
        panic!()
    };
    bench.ok(Command::AddToRequest { request, files: vec![file] });
    assert_eq!(bench.view().request(request).unwrap().unwrap().state, RequestState::Filling);
    assert!(
        bench.rejected(Command::AddToRequest { request, files: vec![FileId(99)] }).contains("does not exist")
    );
    bench.ok(Command::CloseRequest { request });
    bench.ok(Command::CloseRequest { request });
    assert_eq!(bench.view().request(request).unwrap().unwrap().state, RequestState::Completed);
    assert!(bench.rejected(Command::AddToRequest { request, files: vec![file] }).contains("open for files"));
    assert!(bench.rejected(Command::CancelRequest { request }).contains("completed"));
    let strange = Command::Release { request, files: Some(vec![FileId(99)]) };
    assert!(bench.rejected(strange).contains("file 99 of request 1"));
    bench.ok(remove("f"));
    assert_eq!(bench.view().pins(file).unwrap(), []);
}

#[test]
fn a_tape_that_failed_keeps_what_it_was() {
    let mut bench = Bench::new();
    let tape = bench.tapes[0];
    let (cause, retry) = (FailureCause::Unknown, Some(Timestamp(77)));
    let failed = |wrote| Command::TapeFailed { vid: tape, cause, wrote, reason: "it broke".into(), retry };
    let to = |state| Command::SetTapeState { vid: tape, state, reason: "why".into() };
    let record = |bench: &Bench| bench.view().tape(tape).unwrap().unwrap();
    let forget = |doubts| Command::ForgetTapeFailures { vid: tape, doubts };
    bench.ok(failed(false));
    let known = record(&bench);
    let history = TapeHistory { before: TapeState::Active, wrote: false, failures: 1, retry, cause };
    assert_eq!((known.state, known.history), (TapeState::Suspect, Some(history)));
    assert_eq!(known.before_failure(), Some(TapeState::Active));
    assert!(
        known.told(tape).starts_with("it broke (it was active; failure 1 in a row"),
        "{}",
        known.told(tape)
    );
    // Whatever fails next, what it was before the first failure counts; a write that failed is the last one.
    bench.ok(failed(true));
    let known = record(&bench).history.unwrap();
    assert_eq!((known.before, known.wrote, known.failures), (TapeState::Active, true, 2));
    assert_eq!(record(&bench).when_well(), Some(TapeState::ReadOnly));
    // In use again it is not tried, and what it was is what it is now.
    bench.ok(to(TapeState::Active));
    let known = record(&bench);
    assert_eq!((known.history.unwrap().retry, known.before_failure(), known.when_well()), (None, None, None));
    assert!(known.is_doubted() && known.told(tape) == "why");
    bench.ok(failed(false));
    assert_eq!(
        record(&bench).history.map(|known| (known.before, known.failures)),
        Some((TapeState::Active, 3))
    );
    bench.ok(to(TapeState::Active));
    bench.ok(forget(false));
    assert_eq!(record(&bench).history, None, "a session on it went well");
    // One that is kept for reading is doubted until somebody looks.
    bench.ok(failed(true));
    bench.ok(to(TapeState::ReadOnly));
    bench.ok(forget(false));
    assert_eq!(record(&bench).history.map(|known| known.failures), Some(0));
    bench.ok(forget(true));
    assert_eq!(record(&bench).history, None);
    // One that was suspect before histories were kept may be read, and no more.
    bench.ok(to(TapeState::Suspect));
    assert_eq!(record(&bench).before_failure(), Some(TapeState::ReadOnly));
    bench.ok(to(TapeState::Disabled));
    assert!(bench.rejected(failed(false)).contains("not disabled"));
}

#[test]
fn tapes_change_state_only_as_they_may() {
    let mut bench = Bench::new();
    let fresh = vid("CCC001");
    let to = |vid, state| Command::SetTapeState { vid, state, reason: "why".into() };
    assert!(bench.rejected(to(fresh, TapeState::Disabled)).contains("does not exist"));
    bench.ok(Command::RegisterTape { vid: fresh, capacity: ByteCount(1) });
    for state in
        [TapeState::Active, TapeState::Full, TapeState::ReadOnly, TapeState::Labelling, TapeState::Scratch]
    {
        bench.rejected(to(fresh, state));
    }
    let assign = Command::AssignTape { vid: fresh, tape_pool: TapePoolId(1), uuid: Uuid([3; 16]) };
    bench.ok(assign.clone());
    assert!(bench.rejected(assign.clone()).contains("being labelled"));
    bench.ok(to(fresh, TapeState::Suspect));
    // A labelling that failed is done again, under the UUID that the half-written labels may carry.
    bench.ok(to(fresh, TapeState::Labelling));
    let tape = bench.view().tape(fresh).unwrap().unwrap();
    assert_eq!((tape.tape_pool, tape.uuid), (Some(TapePoolId(1)), Some(Uuid([3; 16]))));
    bench.ok(to(fresh, TapeState::Disabled));
    bench.ok(to(fresh, TapeState::Scratch));
    assert_eq!(bench.view().tape(fresh).unwrap().unwrap().tape_pool, None);
    bench.ok(to(fresh, TapeState::Disabled));
    assert!(bench.rejected(to(fresh, TapeState::Labelling)).contains("assigned"));
    bench.ok(to(fresh, TapeState::Scratch));
    bench.ok(assign);
    let labelled = bench.tapes[0];
    assert!(bench.rejected(to(labelled, TapeState::Scratch)).contains("not labelled"));
    bench.ok(to(labelled, TapeState::Full));
    bench.ok(to(labelled, TapeState::Active));
    bench.ok(Command::CountMount { vid: labelled });
    assert_eq!(bench.view().tape(labelled).unwrap().unwrap().mounts, 1);
    bench.ok(Command::RegisterTape { vid: labelled, capacity: ByteCount(5) });
    assert_ne!(bench.view().tape(labelled).unwrap().unwrap().capacity, ByteCount(5));
}

#[test]
fn a_class_changes_for_containers_sealed_from_now_on() {
    let mut bench = Bench::new();
    let file = bench.put("f", "content");
    let class = |copies: Vec<TapePoolId>| Command::DefineClass { name: "two".into(), copies };
    assert!(bench.rejected(class(vec![TapePoolId(1), TapePoolId(1)])).contains("twice"));
    assert!(bench.rejected(class(vec![TapePoolId(9)])).contains("does not exist"));
    assert_eq!(bench.ok(class(vec![TapePoolId(1)])), Outcome::Class(ClassId(1)));
    let pack = bench.pack(&[file]);
    bench.write_to(0, pack);
    assert_eq!(bench.evict(file), Ok(()));
    bench.ok(class(vec![]));
    let put = PutFile { class: bench.disk_only, ..bench.new_put(DirId::ROOT, "d", "disk") };
    let disk = put_outcome(&mut bench, &put).file;
    assert_eq!(bench.evict(disk), Err(EvictRefusal::DiskOnly));
    assert_eq!(bench.view().todo(bench.disk_only, None, 10).unwrap(), []);
}

#[test]
fn bases_are_recorded_as_they_stand_on_tapes() {
    let mut bench = Bench::new();
    let file = bench.put("f", "content");
    let pack = bench.pack(&[file]);
    bench.write_to(0, pack);
    let (vid, other) = (bench.tapes[0], bench.tapes[1]);
    let base = |vid, change, parts| Command::BaseOnTape { vid, change, parts, bytes: ByteCount(77) };
    let last = bench.view().last_change().unwrap();
    assert!(bench.rejected(base(vid, last + 1, 1)).contains("not made"));
    assert!(bench.rejected(base(vid, 0, 1)).contains("not made"));
    bench.ok(base(vid, last, 2));
    bench.ok(base(vid, 3, 1));
    bench.ok(base(other, 4, 1));
    let known = |bench: &Bench, vid| -> Vec<(u64, u32)> {
        let bases = bench.view().bases(vid).unwrap();
        bases.into_iter().map(|(change, base)| (change, base.parts)).collect()
    };
    assert_eq!(known(&bench, vid), [(3, 1), (last, 2)]);
    let before = bench.view().last_change().unwrap();
    bench.ok(base(vid, last, 2));
    bench.ok(base(vid, 5, 0));
    assert_eq!(bench.view().last_change().unwrap(), before, "nothing changes");
    bench.ok(base(vid, last, 0));
    assert_eq!((known(&bench, vid), known(&bench, other)), (vec![(3, 1)], vec![(4, 1)]));
    // What a tape held is gone when it is reclaimed.
    bench.ok(Command::SetTapeState { vid: other, state: TapeState::Full, reason: String::new() });
    bench.ok(Command::ReclaimTape { vid: other });
    assert_eq!(known(&bench, other), []);
    assert_eq!(bench.view().check().unwrap(), []);
    assert!(bench.replayed() == bench.store);
}

#[test]
fn the_change_log_is_numbered_trimmed_and_replays_to_the_same_bytes() {
    let mut bench = Bench::new();
    let file = bench.put("f", "content");
    let pack = bench.pack(&[file]);
    bench.write_to(0, pack);
    let last = bench.view().last_change().unwrap();
    assert_eq!(last, bench.log.len() as u64);
    let changes = bench.view().changes(3, 4, usize::MAX).unwrap();
    assert_eq!(changes.iter().map(|(number, _)| *number).collect::<Vec<_>>(), [3, 4, 5, 6]);
    assert_eq!(changes[0].1, bench.log[2]);
    assert_eq!(bench.view().changes(3, 4, 0).unwrap().len(), 1);
    assert_eq!(bench.ok(Command::TrimChanges { through: 5 }), Outcome::Dropped(5));
    assert_eq!(bench.view().first_change().unwrap(), 6);
    // A catalogue that was made from a base has none of these changes: it counts the command all the same.
    assert_eq!(bench.ok(Command::TrimChanges { through: 5 }), Outcome::Dropped(0));
    bench.rejected(remove("nothing"));
    assert_eq!(bench.view().last_change().unwrap(), last + 2, "what is refused is not logged");
    assert!(bench.replayed() == bench.store);
}

#[test]
fn an_empty_store_takes_only_its_beginning() {
    let mut bench = Bench::empty();
    assert!(bench.rejected(Command::OpenEpoch).contains("initialise"));
    assert_eq!(bench.view().instance().unwrap(), None);
    bench.ok(Command::Initialise { instance: Uuid([7; 16]) });
    assert!(bench.rejected(Command::Initialise { instance: Uuid([8; 16]) }).contains("already"));
    assert_eq!(bench.ok(Command::OpenEpoch), Outcome::Epoch(Epoch(1)));
    assert_eq!(bench.view().resolve(&ArchivePath::root()).unwrap(), Some(Entry::Directory(DirId::ROOT)));
}
