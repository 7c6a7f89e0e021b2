//! Files that are larger than a tape: their parts come back one by one.

use crate::common::*;
use base::*;
use catalogue::*;

/// A file of 12 bytes in segments of 4, evicted.
struct Case {
    bench: Bench,
    file: FileId,
    segments: Vec<ContainerId>,
}

impl Case {
    fn sealed() -> Case {
        let mut bench = Bench::new();
        let file = bench.put("huge", "content of it");
        let size = bench.file(file).size.0;
        let mut segments = Vec::new();
        for at in (0..size).step_by(5) {
            segments.push(seal(&mut bench, file, at, 5.min(size - at)));
        }
        assert_eq!(segments.len(), 3);
        assert_eq!(bench.view().todo(bench.class, None, 9).unwrap(), [], "all of it is sealed");
        Case { bench, file, segments }
    }

    fn evicted() -> Case {
        let mut case = Case::sealed();
        for segment in case.segments.clone() {
            assert_eq!(case.bench.evict(case.file), Err(EvictRefusal::NotSafeOnTape));
            case.bench.write_to(0, segment);
            case.bench.write_to(1, segment);
        }
        case.bench.evict(case.file).unwrap();
        case
    }

    /// A part comes; gives its blob, and whether it was taken.
    fn come(&mut self, part: usize) -> (BlobPiece, bool) {
        let data = self.bench.data(self.record(part).length.0);
        let piece = data.pieces[0];
        (piece, self.give(part, data) == Outcome::Recalled(1))
    }

    fn give(&mut self, part: usize, data: PoolData) -> Outcome {
        let parts = vec![(self.segments[part], data.pieces[0])];
        self.bench.ok(Command::PartsRecalled(Box::new(PartsRecalled {
            blobs: data.blobs,
            files: vec![],
            parts,
        })))
    }

    fn record(&self, part: usize) -> ContainerRecord {
        self.bench.view().container(self.segments[part]).unwrap().unwrap()
    }

    /// Rows of a part in the recall sets of all tapes.
    fn asked(&self, part: usize) -> usize {
        let view = self.bench.view();
        let rows = self.bench.tapes.iter().flat_map(|vid| view.recall_set(*vid, None, 99).unwrap());
        rows.filter(|(_, item)| item.container == self.segments[part]).count()
    }

    fn done(&self, request: RequestId) -> (u32, u32) {
        let request = self.bench.view().request(request).unwrap().unwrap();
        (request.done, request.failed)
    }

    fn end(self) {
        assert!(self.bench.replayed() == self.bench.store);
    }
}

fn seal(bench: &mut Bench, file: FileId, at: u64, length: u64) -> ContainerId {
    let container = bench.reserve();
    bench.ok(segment_of(bench, container, file, (at, length), length));
    container
}

fn segment_of(
    bench: &Bench,
    container: ContainerId,
    file: FileId,
    (at, length): (u64, u64),
    container_length: u64,
) -> Command {
    let member = MemberRecord {
        file,
        header_offset: ByteCount(0),
        data_offset: ByteCount(0),
        length: ByteCount(length),
        file_offset: ByteCount(at),
    };
    Command::SealContainer(Box::new(SealContainer {
        container,
        kind: ContainerKind::Segment { file, file_offset: ByteCount(at) },
        class: bench.class,
        members: vec![member],
        length: ByteCount(container_length),
        checksums: StreamChecksums::of(b"part"),
        tape_path: format!("/huge.{at}"),
        skeleton: None,
    }))
}

#[test]
fn a_segment_is_a_part_of_a_file_and_nothing_else() {
    let mut bench = Bench::new();
    let file = bench.put("huge", "content of it");
    let container = bench.reserve();
    for (range, length, why) in [
        ((0, 5), 6, "all that its container holds"),
        ((5, 5), 5, "does not continue"),
        ((0, 0), 0, "does not continue"),
        ((0, 14), 14, "does not continue"),
    ] {
        let command = segment_of(&bench, container, file, range, length);
        let refused = bench.rejected(command);
        assert!(refused.contains(why), "{range:?}: {refused}");
    }
}

#[test]
fn parts_come_in_any_order_and_the_last_one_makes_the_file_online() {
    for order in [[0, 1, 2], [2, 0, 1], [1, 2, 0]] {
        let mut case = Case::evicted();
        let request = case.bench.request(&[case.file]);
        let mut pieces = [piece(0, 0, 0); 3];
        for (count, part) in order.into_iter().enumerate() {
            assert_eq!(case.asked(part), 2);
            assert_eq!(case.done(request), (0, 0));
            let (piece, taken) = case.come(part);
            assert!(taken);
            pieces[part] = piece;
            assert_eq!(case.asked(part), 0, "it is read from no other tape");
            if count < 2 {
                assert!(!case.bench.file(case.file).is_online());
                assert_eq!(case.record(part).image, Some(piece));
            }
        }
        assert_eq!(case.bench.file(case.file).pieces, pieces, "in the order of their offsets");
        assert_eq!(case.done(request), (1, 0));
        assert_eq!(case.bench.view().tally(Counter::Online(case.bench.class)).unwrap().files, 1);
        assert!((0..3).all(|part| case.record(part).image.is_none()));
        assert_eq!(case.bench.view().pins(case.file).unwrap().len(), 1);
        assert_eq!(case.bench.evict(case.file), Err(EvictRefusal::Pinned));
        case.bench.ok(Command::Release { request, files: None });
        let before = case.bench.garbage_blobs().len();
        case.bench.evict(case.file).unwrap();
        assert_eq!(case.bench.garbage_blobs().len() - before, 3, "evict removes all pieces");
        case.end();
    }
}

/// What nobody waits for gives its room back: after a cancel, a delete, and a failure.
#[test]
fn what_came_is_given_up_when_nobody_waits_any_more() {
    for end in 0..3 {
        let mut case = Case::evicted();
        let request = case.bench.request(&[case.file]);
        let (first, _) = case.come(0);
        let (second, _) = case.come(2);
        let before = case.bench.garbage_blobs();
        assert!(!before.contains(&first.blob.0));
        let (file, vid) = (case.file, case.bench.tapes[0]);
        case.bench.ok(match end {
            0 => Command::CancelRequest { request },
            1 => Command::RemoveFile { parent: DirId::ROOT, name: name("huge") },
            _ => Command::RecallFailed { file, reason: "unreadable".into() },
        });
        let garbage = case.bench.garbage_blobs();
        assert!(garbage.contains(&first.blob.0) && garbage.contains(&second.blob.0), "{end}");
        assert!((0..3).all(|part| case.record(part).image.is_none() && case.asked(part) == 0));
        let (late, taken) = case.come(1);
        assert!(!taken && case.bench.garbage_blobs().contains(&late.blob.0), "it comes too late");
        assert_eq!(case.bench.view().tally(Counter::Wanted(vid)).unwrap().files, 0);
        case.end();
    }
}

/// One of two who wait is no reason to give up what came.
#[test]
fn what_came_stays_while_somebody_waits() {
    let mut case = Case::evicted();
    let first = case.bench.request(&[case.file]);
    let (piece, _) = case.come(1);
    let second = case.bench.request(&[case.file]);
    assert_eq!(case.asked(1), 0, "what is there is not asked for again");
    case.bench.ok(Command::CancelRequest { request: first });
    assert_eq!(case.record(1).image, Some(piece));
    case.come(0);
    case.come(2);
    assert_eq!(case.done(second), (1, 0));
    case.end();
}

/// A part that comes twice, from two tapes at once or by the very same command again, is kept once.
#[test]
fn a_part_that_comes_twice_is_kept_once() {
    let mut case = Case::evicted();
    case.bench.request(&[case.file]);
    let log = case.bench.new_blob();
    // Of a segment of small values a piece is given up by its place: the same one must not be.
    let data = PoolData { blobs: vec![segment(log)], pieces: vec![piece(log, 4096, 5)] };
    assert_eq!(case.give(0, data.clone()), Outcome::Recalled(1));
    assert_eq!(case.give(0, data.clone()), Outcome::Recalled(0));
    assert_eq!(case.bench.garbage_values(), []);
    let (again, taken) = case.come(0);
    assert!(!taken && case.bench.garbage_blobs().contains(&again.blob.0));
    case.come(1);
    case.come(2);
    assert!(case.bench.file(case.file).is_online());
    assert_eq!(case.give(0, data), Outcome::Recalled(0));
    assert_eq!(case.bench.garbage_values(), [], "the file has it now");
    case.end();
}

/// The pool loses what came: it is asked for again, from every tape that has it.
#[test]
fn a_part_that_the_pool_lost_is_wanted_again() {
    let mut case = Case::evicted();
    let request = case.bench.request(&[case.file]);
    let (image, _) = case.come(1);
    let container = case.segments[1];
    case.bench.ok(Command::ImageLost { container, image: piece(7, 0, 5) });
    assert_eq!(case.asked(1), 0, "another image was looked at");
    case.bench.ok(Command::ImageLost { container, image });
    assert_eq!((case.asked(1), case.record(1).image), (2, None));
    assert!(case.bench.garbage_blobs().contains(&image.blob.0));
    for part in 0..3 {
        case.come(part);
    }
    assert_eq!(case.done(request), (1, 0));
    case.end();
}

/// One copy of a part is damaged: the other one serves. Both are: the file is lost, and what came of this
/// part stays, so that the part is written to tape again and the file found.
#[test]
fn a_part_of_which_the_last_copy_is_lost_is_kept_if_it_came() {
    let mut case = Case::evicted();
    let request = case.bench.request(&[case.file]);
    let (image, _) = case.come(1);
    let container = case.segments[1];
    let places: Vec<_> = case.record(1).places().collect();
    for (vid, block) in places {
        assert_eq!(case.done(request), (0, 0));
        case.bench.ok(Command::CopyDamaged { container, vid, block, reason: "torn".into() });
    }
    assert_eq!(case.done(request), (0, 1));
    assert!(case.bench.file(case.file).is_lost());
    assert_eq!(case.record(1).image, Some(image), "these are the last bytes of it");
    case.bench.write_to(0, container);
    assert!(!case.bench.file(case.file).is_lost());
    let request = case.bench.request(&[case.file]);
    assert_eq!([0, 1, 2].map(|part| case.asked(part)), [2, 0, 2]);
    case.bench.write_to(1, container);
    assert_eq!(case.record(1).image, Some(image), "all copies are there, but somebody waits for the file");
    case.come(0);
    case.come(2);
    assert_eq!(case.done(request), (1, 0));
    case.end();
}

/// A tape that cannot give one part may give another: the one place is given up, not the tape.
#[test]
fn a_part_that_cannot_be_read_is_read_from_its_other_copy() {
    let mut case = Case::evicted();
    let request = case.bench.request(&[case.file]);
    let places: Vec<_> = case.record(1).places().collect();
    let failed = |(vid, block)| Command::RecallPlaceFailed { vid, block, reason: "torn".into() };
    case.bench.ok(failed(places[0]));
    assert_eq!([0, 1, 2].map(|part| case.asked(part)), [2, 1, 2]);
    case.bench.ok(failed(places[0]));
    assert_eq!(case.done(request), (0, 0));
    case.bench.ok(failed(places[1]));
    assert_eq!(case.done(request), (0, 1));
    case.end();
}

/// A repack brings a part into the pool that somebody waits for: it need not be read a second time. With the
/// last one the file is there.
#[test]
fn an_image_for_a_repack_is_the_part_too() {
    let mut case = Case::evicted();
    let request = case.bench.request(&[case.file]);
    case.come(0);
    case.come(2);
    let (container, vid) = (case.segments[1], case.bench.tapes[0]);
    case.bench.ok(Command::SetTapeState { vid, state: TapeState::Repacking, reason: String::new() });
    case.bench.ok(Command::RequeueCopy { container, vid });
    let image = case.bench.data(5);
    case.bench.ok(Command::StoreImage { container, image });
    assert_eq!(case.done(request), (1, 0));
    assert!(case.bench.file(case.file).is_online());
    case.end();
}

/// Who asks when all parts are there by chance need not wait.
#[test]
fn a_file_of_which_all_parts_are_there_is_online_when_asked_for() {
    let mut case = Case::evicted();
    let vid = case.bench.tapes[0];
    case.bench.ok(Command::SetTapeState { vid, state: TapeState::Repacking, reason: String::new() });
    for container in case.segments.clone() {
        case.bench.ok(Command::RequeueCopy { container, vid });
        let image = case.bench.data(case.bench.view().container(container).unwrap().unwrap().length.0);
        case.bench.ok(Command::StoreImage { container, image });
    }
    let request = case.bench.request(&[case.file]);
    assert_eq!(case.done(request), (1, 0));
    assert_eq!(case.bench.view().request(request).unwrap().unwrap().state, RequestState::Completed);
    case.end();
}

/// The tape gives the whole file at once, as a Kist without parts did.
#[test]
fn a_whole_file_takes_the_place_of_what_came() {
    let mut case = Case::evicted();
    let request = case.bench.request(&[case.file]);
    let (first, _) = case.come(0);
    case.bench.recall(case.file);
    assert_eq!(case.done(request), (1, 0));
    assert!(case.bench.garbage_blobs().contains(&first.blob.0));
    case.end();
}

#[test]
fn what_is_no_part_is_refused() {
    let mut case = Case::evicted();
    case.bench.request(&[case.file]);
    let small = case.bench.put("small", "s");
    let pack = case.bench.pack(&[small]);
    let mut refused = |container, length| {
        let data = case.bench.data(length);
        let parts = vec![(container, data.pieces[0])];
        let done = PartsRecalled { blobs: data.blobs, files: vec![], parts };
        case.bench.rejected(Command::PartsRecalled(Box::new(done)))
    };
    assert!(refused(pack, 5).contains("no part of a file"));
    let segment = case.segments[0];
    assert!(refused(segment, 6).contains("length"));
}

/// Tapes were exchanged for smaller ones: a whole file waits to be sealed again, in parts. A part does not.
#[test]
fn a_file_that_no_tape_takes_waits_to_be_cut() {
    let mut bench = Bench::new();
    let file = bench.put("huge", "content of it");
    let container = bench.reserve();
    let length = bench.file(file).size;
    let Command::SealContainer(mut whole) = segment_of(&bench, container, file, (0, length.0), length.0)
    else {
        panic!()
    };
    whole.kind = ContainerKind::File(file);
    bench.ok(Command::SealContainer(whole));
    assert_eq!(bench.view().todo(bench.class, None, 9).unwrap(), []);
    bench.ok(Command::DissolvePack { container });
    assert_eq!(bench.view().todo(bench.class, None, 9).unwrap().len(), 1);
    assert_eq!(bench.view().queue(bench.pools[0], None, 9).unwrap(), []);
    let container = seal(&mut bench, file, 0, 5);
    let refused = bench.rejected(Command::DissolvePack { container });
    assert!(refused.contains("others stand beside it"), "{refused}");
    assert!(bench.replayed() == bench.store);
}

/// Deleted before all of it came to tape: what is queued goes nowhere, and the file is gone with the last of
/// its parts that is on one tape only.
#[test]
fn parts_of_a_deleted_file_go_to_no_tape() {
    let mut case = Case::sealed();
    let [first, second, third] = case.segments[..] else { panic!() };
    case.bench.write_to(0, first);
    case.bench.write_to(0, second);
    case.bench.write_to(1, second);
    case.bench.ok(Command::RemoveFile { parent: DirId::ROOT, name: name("huge") });
    assert!(case.bench.rejected(Command::DissolvePack { container: first }).contains("on a tape"));
    case.bench.ok(Command::DissolvePack { container: third });
    assert!(case.bench.view().file(case.file).unwrap().is_some(), "one copy of the first is to be written");
    case.bench.ok(Command::DropUnneededCopies { container: first });
    assert!(case.bench.view().file(case.file).unwrap().is_none());
    assert!(case.bench.view().container(third).unwrap().is_none());
    assert!(case.bench.view().queue(case.bench.pools[1], None, 9).unwrap().is_empty());
    assert_eq!(case.bench.garbage_blobs().len(), 1);
    case.end();
}
