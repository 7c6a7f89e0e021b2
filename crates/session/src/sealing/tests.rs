use std::collections::BTreeMap;

use proptest::prelude::*;

use super::*;

const SIZE: PackSize = PackSize { bytes: 800, members: 40, limit: PackLimit::NONE };
const LARGE: ByteCount = ByteCount(300);

/// A class whose queue gives three files at a time.
#[derive(Default)]
struct Class {
    waits: BTreeMap<(u64, FileId), u64>,
    alone: Vec<FileId>,
    packs: Vec<Vec<Waiting>>,
}

impl Sealing for Class {
    type Error = Infallible;

    fn waiting(&mut self, after: Option<(u64, FileId)>) -> Result<Vec<Waiting>, Infallible> {
        let behind = after.map_or((0, FileId(0)), |(data_set, file)| (data_set, FileId(file.0 + 1)));
        let next = self.waits.range(behind..).take(3);
        Ok(next
            .map(|((data_set, file), size)| Waiting { data_set: *data_set, file: *file, size: *size })
            .collect())
    }

    fn place(&mut self, file: FileId) -> Result<String, Infallible> {
        Ok(format!("{:05}", file.0))
    }

    fn seal_files(&mut self, files: &[FileId]) -> Result<(), Infallible> {
        assert!(!files.is_empty() && files.len() <= SEAL_BATCH_MAX);
        self.alone.extend(files);
        self.waits.retain(|(_, file), _| !files.contains(file));
        Ok(())
    }

    fn seal_pack(&mut self, files: &[Waiting]) -> Result<(), Infallible> {
        for file in files {
            assert_eq!(self.waits.remove(&(file.data_set, file.file)), Some(file.size));
        }
        self.packs.push(files.to_vec());
        Ok(())
    }
}

fn class(sizes: &[(u64, u64)]) -> Class {
    let waits = (1..).zip(sizes).map(|(file, (data_set, size))| ((*data_set, FileId(file)), *size));
    Class { waits: waits.collect(), ..Class::default() }
}

fn limited(largest: u64, pack_overhead: u64, member_overhead: u64) -> PackSize {
    let [largest, pack_overhead, member_overhead] = [largest, pack_overhead, member_overhead].map(ByteCount);
    PackSize { limit: PackLimit { largest, pack_overhead, member_overhead }, ..SIZE }
}

/// Numbers of members of the packs, and of the files that stand alone.
fn sealed(sizes: &[(u64, u64)], size: PackSize) -> (Vec<usize>, usize) {
    let mut class = class(sizes);
    let Ok(()) = seal(&mut class, size, LARGE, true);
    assert!(class.waits.is_empty(), "all of it goes");
    (class.packs.iter().map(Vec::len).collect(), class.alone.len())
}

#[test]
fn a_pack_is_as_large_as_a_tape_takes_and_not_a_byte_larger() {
    let three = [(1, 250), (1, 250), (1, 250)];
    assert_eq!(sealed(&three, limited(790, 10, 10)), (vec![3], 0));
    assert_eq!(sealed(&three, limited(789, 10, 10)), (vec![2, 1], 0));
    // Of two data sets, each too small for a pack of its own.
    let mixed = [(1, 290), (2, 290)];
    assert_eq!(sealed(&mixed, limited(610, 10, 10)), (vec![1, 1], 0));
    let mixed = [(1, 290), (2, 290), (3, 290)];
    assert_eq!(sealed(&mixed, limited(910, 10, 10)), (vec![2, 1], 0));
}

#[test]
fn a_file_that_no_pack_on_a_tape_can_have_stands_alone() {
    let files = [(1, 200), (1, 280), (1, 20)];
    assert_eq!(sealed(&files, limited(300, 10, 10)), (vec![1, 1, 1], 0));
    assert_eq!(sealed(&files, limited(299, 10, 10)), (vec![2], 1));
}

/// Story: what is between one pack and one and a half was cut in the middle; the second half was more than a
/// tape takes and was cut again, so that three packs came of what two have room for.
#[test]
fn what_a_tape_takes_in_two_packs_becomes_no_three() {
    let files: Vec<(u64, u64)> = [239, 205, 91, 144, 0, 215, 229].iter().map(|size| (0, *size)).collect();
    let (packs, alone) = sealed(&files, limited(406, 0, 0));
    assert_eq!((packs, alone), (vec![1, 2, 3, 1], 0));
}

proptest! {
    #[test]
    fn large_files_stand_alone_and_all_that_waits_goes_when_it_is_old(
        sizes in proptest::collection::vec((0u64..4, 0u64..400), 0..200),
    ) {
        let mut class = class(&sizes);
        let Ok(()) = seal(&mut class, SIZE, LARGE, true);
        prop_assert!(class.waits.is_empty());
        let alone = sizes.iter().filter(|(_, size)| *size >= LARGE.0).count();
        prop_assert_eq!(class.alone.len(), alone);
        prop_assert_eq!(class.packs.iter().map(Vec::len).sum::<usize>(), sizes.len() - alone);
    }

    #[test]
    fn what_is_left_is_less_than_sixteen_packs(
        sizes in proptest::collection::vec((0u64..400, 0u64..299), 0..400),
    ) {
        let mut class = class(&sizes);
        let Ok(()) = seal(&mut class, SIZE, LARGE, false);
        let left: u64 = class.waits.values().sum();
        prop_assert!(left < PACKS_LEFT_MAX * SIZE.bytes, "{left} bytes wait");
        prop_assert!(class.packs.iter().flatten().all(|file| file.size < LARGE.0));
    }

    /// Story: a pack ended with the file that filled it. With that file it was larger than an empty tape
    /// takes, and its files never came to tape.
    #[test]
    fn no_pack_is_larger_than_a_tape_takes(
        sizes in proptest::collection::vec((0u64..4, 0u64..400), 0..200),
        largest in 300u64..1_500, pack_overhead in 0u64..60, member_overhead in 0u64..60,
        partial in any::<bool>(),
    ) {
        let on_tape = |pack: &[Waiting]| {
            let files: u64 = pack.iter().map(|file| file.size + member_overhead).sum();
            pack_overhead + files
        };
        let mut class = class(&sizes);
        let Ok(()) = seal(&mut class, limited(largest, pack_overhead, member_overhead), LARGE, partial);
        for pack in &class.packs {
            prop_assert!(on_tape(pack) <= largest && pack.len() <= SIZE.members, "{pack:?}");
        }
        for file in &class.alone {
            let (_, size) = sizes[file.0 as usize - 1];
            prop_assert!(size >= LARGE.0 || size + pack_overhead + member_overhead > largest);
        }
        prop_assert!(!partial || class.waits.is_empty());
        let left: u64 = class.waits.values().sum();
        prop_assert!(left < PACKS_LEFT_MAX * SIZE.bytes.min(largest), "{left} bytes wait");
    }

    #[test]
    fn packs_of_a_data_set_are_no_smaller_than_they_must_be(
        sizes in proptest::collection::vec(0u64..400, 0..200), largest in 300u64..1_500, overhead in 0u64..60,
    ) {
        let mut class = class(&sizes.into_iter().map(|size| (0, size)).collect::<Vec<_>>());
        let size = limited(largest, overhead, overhead);
        let Ok(()) = seal(&mut class, size, LARGE, true);
        for two in class.packs.windows(2) {
            let (bytes, files) = (two.iter().flatten().map(|file| file.size).sum(), two.concat().len());
            let fills_one = bytes >= SIZE.bytes || files >= SIZE.members;
            prop_assert!(fills_one || !size.limit.allows(bytes, files), "{two:?}");
        }
    }

    #[test]
    fn tapes_that_take_any_pack_change_none(
        sizes in proptest::collection::vec((0u64..4, 0u64..400), 0..200), partial in any::<bool>(),
    ) {
        let (mut free, mut within) = (class(&sizes), class(&sizes));
        let Ok(()) = seal(&mut free, SIZE, LARGE, partial);
        let Ok(()) = seal(&mut within, limited(1 << 20, 50, 50), LARGE, partial);
        prop_assert_eq!((free.alone, free.packs), (within.alone, within.packs));
    }

    /// What the forecast takes a backlog to become is what the rule makes of files that are alike.
    #[test]
    fn sums_become_what_the_files_would(
        files in 1u64..300, of_a_pack in 17u64..60, partial in any::<bool>(),
    ) {
        let size = SIZE.bytes / of_a_pack;
        let alike: Vec<(u64, u64)> = (0..files).map(|_| (0, size)).collect();
        let mut class = class(&alike);
        let pack = PackSize { members: PACK_MEMBERS_MAX, ..SIZE };
        let Ok(()) = seal(&mut class, pack, LARGE, partial);
        let sealed = seal_in_bulk(files, ByteCount(files * size), pack, partial);
        let bytes: u64 = class.packs.iter().flatten().map(|file| file.size).sum();
        // Pieces are a sixteenth of a pack: no finer does it know where one ends.
        let apart = sealed.bytes.abs_diff(bytes);
        let packs = class.packs.len() as u64;
        prop_assert!(sealed.containers.abs_diff(packs) <= 1, "{sealed:?} {packs}");
        prop_assert!(apart <= SIZE.bytes * 11 / 8, "{sealed:?} beside {bytes}");
        prop_assert_eq!(sealed.bytes + sealed.bytes_left, files * size);
        prop_assert!(!partial || sealed.files_left == 0);
    }
}

#[test]
fn a_backlog_that_is_more_than_a_pack_and_less_than_one_and_a_half_waits_or_becomes_two() {
    let whole = PackSize { members: PACK_MEMBERS_MAX, ..SIZE };
    let waits = seal_in_bulk(120, ByteCount(1_100), whole, false);
    assert_eq!((waits.containers, waits.files_left, waits.bytes_left), (0, 120, 1_100));
    let old = seal_in_bulk(120, ByteCount(1_100), whole, true);
    assert_eq!((old.containers, old.bytes, old.files_left), (2, 1_100, 0));
    assert_eq!(seal_in_bulk(0, ByteCount(0), SIZE, true), Sealed::default());
    let size = PackSize::of(ByteCount(1 << 32), PackLimit::NONE);
    let many = seal_in_bulk(1 << 40, ByteCount(1 << 60), size, true);
    assert_eq!((many.containers, many.bytes, many.bytes_left), (1 << 28, 1 << 60, 0));
}

/// At the limit a file is one part, with one byte more it is two; each byte is in one part, and every part
/// fits on a tape.
#[test]
fn parts_have_each_byte_once_and_fit() {
    const MIB: u64 = 1 << 20;
    for largest in [1, 7, MIB - 1, MIB, MIB + 1, 60 * MIB, 60 * MIB + 12_345] {
        for sealed in [0, 5, 3 * MIB] {
            for more in [0, 1, largest - 1, largest, largest + 1, 2 * largest, 2 * largest + 1, 9 * largest] {
                let size = sealed + more;
                let parts = parts_of(ByteCount(size), ByteCount(sealed), ByteCount(largest)).unwrap();
                let mut at = sealed;
                for (offset, length) in &parts {
                    assert_eq!(offset.0, at);
                    assert!(length.0 > 0 && length.0 <= largest, "{length:?} of {largest}");
                    at += length.0;
                }
                assert_eq!(at, size);
                assert_eq!(parts.len() > 1, more > largest, "{more} of {largest}");
            }
        }
    }
    let parts = |size| parts_of(ByteCount(size), ByteCount(0), ByteCount(10)).map(|parts| parts.len());
    assert_eq!(parts(10 * FILE_PARTS_MAX as u64), Some(FILE_PARTS_MAX));
    assert_eq!(parts(10 * FILE_PARTS_MAX as u64 + 1), None);
    assert_eq!(parts_of(ByteCount(1), ByteCount(0), ByteCount(0)), None);
}
