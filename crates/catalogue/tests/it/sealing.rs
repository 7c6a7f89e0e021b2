//! Packs that are sealed in pieces, and given up in pieces.

use crate::common::*;
use base::*;
use catalogue::*;

fn five(bench: &mut Bench) -> [FileId; 5] {
    ["a", "b", "c", "d", "e"].map(|file| bench.put(file, "content"))
}

fn add(container: ContainerId, members: &[MemberRecord]) -> Command {
    Command::AddMembers { container, members: members.to_vec() }
}

fn is_whole(bench: &Bench) {
    assert_eq!(bench.view().check().unwrap(), []);
    assert!(bench.replayed() == bench.store);
}

fn todo(bench: &Bench) -> Vec<FileId> {
    bench.view().todo(bench.class, None, 9).unwrap().into_iter().map(|((_, file), _)| file).collect()
}

fn queued(bench: &Bench) -> usize {
    bench.pools.iter().map(|pool| bench.view().queue(*pool, None, 9).unwrap().len()).sum()
}

/// Story: the seal of a pack of 20,000 members was one command of half a second, and puts waited for it.
#[test]
fn a_pack_is_sealed_in_pieces() {
    let mut bench = Bench::new();
    let files = five(&mut bench);
    let members = bench.members(&files);
    let container = bench.open_pack(5);
    assert!(bench.rejected(Command::ClosePack { container }).contains("not got all its members"));
    bench.ok(add(container, &members[..2]));
    is_whole(&bench);
    assert_eq!(todo(&bench), files[2..]);
    assert_eq!(bench.evict(files[0]), Err(EvictRefusal::NotSafeOnTape));
    // A member goes while the others come: what is sealed of it stays until the pack is safe.
    bench.ok(Command::RemoveFile { parent: DirId::ROOT, name: name("b") });
    assert!(matches!(bench.file(files[1]).state, FileState::Condemned(_)));
    is_whole(&bench);
    for (wrong, why) in [
        (add(container, &members[1..3]), "overlap"),
        (add(container, &[members[3], members[2]]), "overlap"),
        (add(container, &members[1..]), "more members than"),
        (add(container, &[]), "at least one"),
        (add(ContainerId(container.0 + 9), &members[2..]), "does not exist"),
    ] {
        assert!(bench.rejected(wrong.clone()).contains(why), "{wrong:?}");
    }
    bench.ok(add(container, &members[2..4]));
    let mut twice = members[3];
    (twice.header_offset, twice.data_offset) = (ByteCount(50_000), ByteCount(50_000));
    assert!(bench.rejected(add(container, &[twice])).contains("waiting to be sealed"));
    let more = [members[4], twice];
    assert!(bench.rejected(add(container, &more)).contains("more members than"));
    assert_eq!(queued(&bench), 0, "no tape waits for it");
    bench.ok(add(container, &members[4..]));
    // Whoever waits until all is on tape must not be told so now: nothing is in a queue.
    assert_eq!((todo(&bench), queued(&bench)), (vec![], 0));
    let waiting = |bench: &Bench| bench.pools.map(|pool| bench.view().waiting_for(pool).unwrap());
    let before = waiting(&bench);
    assert!(before.iter().all(|tally| (tally.files, tally.bytes.0) == (1, 100_000)), "{before:?}");
    bench.ok(Command::ClosePack { container });
    assert_eq!(waiting(&bench), before);
    assert!(bench.rejected(Command::ClosePack { container }).contains("sealed in pieces"));
    assert!(bench.rejected(add(container, &members[4..])).contains("sealed in pieces"));
    assert_eq!(queued(&bench), 2);
    is_whole(&bench);
    // As if it had been sealed at once.
    let record = bench.view().container(container).unwrap().unwrap();
    assert_eq!((record.live_members, record.condemned_members, record.copies.len()), (4, 1, 2));
    assert_eq!(bench.view().members(container, None, 9).unwrap(), members);
    bench.write_to(0, container);
    bench.write_to(1, container);
    assert_eq!(bench.view().file(files[1]).unwrap(), None);
    assert_eq!(bench.evict(files[0]), Ok(()));
    is_whole(&bench);
}

#[test]
fn what_cannot_be_opened_is_refused() {
    let mut bench = Bench::new();
    let container = bench.reserve();
    let skeleton = bench.data(1024);
    let open = OpenPack {
        container,
        class: bench.class,
        members: 3,
        length: ByteCount(100_000),
        checksums: StreamChecksums::of(b"pack"),
        tape_path: "/pack".into(),
        skeleton,
    };
    let refused = |bench: &mut Bench, change: fn(&mut OpenPack)| {
        let mut open = open.clone();
        change(&mut open);
        bench.rejected(Command::OpenPack(Box::new(open)))
    };
    assert!(refused(&mut bench, |open| open.members = 0).contains("at least one member"));
    assert!(refused(&mut bench, |open| open.members = 100_001).contains("100000"));
    assert!(refused(&mut bench, |open| open.container.0 += 1).contains("does not exist"));
    assert!(refused(&mut bench, |open| open.tape_path = "pack".into()).contains("begin with"));
    assert!(refused(&mut bench, |open| open.skeleton.pieces.clear()).contains("one piece"));
    bench.ok(Command::OpenPack(Box::new(open.clone())));
    assert!(refused(&mut bench, |_| {}).contains("not sealed yet"));
    is_whole(&bench);
}

/// What a crash left in the middle, and any other pack that no tape has: nobody waits for it from the first
/// piece on.
#[test]
fn a_pack_is_given_up_in_pieces() {
    for is_closed in [false, true] {
        let mut bench = Bench::new();
        let files = five(&mut bench);
        let members = bench.members(&files);
        let container = bench.open_pack(5);
        let skeleton = bench.view().container(container).unwrap().unwrap().skeleton.unwrap();
        bench.ok(add(container, if is_closed { &members } else { &members[..4] }));
        if is_closed {
            bench.ok(Command::ClosePack { container });
        }
        bench.ok(Command::RemoveFile { parent: DirId::ROOT, name: name("a") });
        let some = Command::DoSome { work: Work::DissolvePack(container), most: 2 };
        assert_eq!(bench.ok(some.clone()), Outcome::More(true));
        assert_eq!((queued(&bench), bench.view().file(files[0]).unwrap()), (0, None));
        is_whole(&bench);
        assert!(bench.rejected(add(container, &members[4..])).contains("being given up"));
        assert!(bench.rejected(Command::ClosePack { container }).contains("being given up"));
        assert_eq!(bench.view().sealing(9).unwrap().len(), 1);
        // One of its files goes meanwhile.
        bench.ok(Command::RemoveFile { parent: DirId::ROOT, name: name("d") });
        is_whole(&bench);
        assert_eq!(bench.ok(some.clone()), Outcome::More(true));
        assert_eq!(bench.ok(some.clone()), Outcome::More(false));
        assert_eq!(bench.ok(some), Outcome::More(false), "a repeat does no harm");
        assert_eq!(bench.view().container(container).unwrap(), None);
        assert_eq!(bench.view().sealing(9).unwrap(), []);
        assert!(bench.garbage_blobs().contains(&skeleton.blob.0));
        assert_eq!(todo(&bench), [files[1], files[2], files[4]]);
        is_whole(&bench);
        let again = bench.pack(&[files[1], files[2], files[4]]);
        bench.write_to(0, again);
        is_whole(&bench);
    }
}
