//! The codec: every kind there and back, the golden file, damage.

use base::Crc32c;
use proptest::prelude::*;

use super::*;
use crate::line::encode;

fn decode(line: &[u8]) -> Result<Access, LineFault> {
    line::decode(line)
}

const BEGIN: i64 = 1_795_292_940_000_000_000;

fn vid(text: &str) -> Vid {
    Vid::new(text).unwrap()
}

fn by(at: i64, class: Option<&str>, who: Option<&str>, what: What) -> Access {
    let at = Timestamp(BEGIN + at * 1_000_000_000);
    Access { at, class: class.map(str::to_owned), who: who.map(str::to_owned), what }
}

fn copy(pool: &str, tape: &str, block: u64) -> CopyPlace {
    CopyPlace {
        pool: pool.to_owned(),
        vid: vid(tape),
        container: ContainerId(77),
        block: BlockAddress(block),
        container_length: ByteCount(4_000_010_240),
        offset: ByteCount(1_024),
        length: ByteCount(2_000_000_000),
    }
}

fn states() -> Vec<Access> {
    let start = Start {
        begins: Begins::Server,
        tapes: 1,
        drives: 1,
        pool: ByteCount(200_000_000_000),
        block_size: ByteCount(524_288),
    };
    let tape = TapeState {
        vid: vid("KS0001"),
        pool: Some("vault-a".to_owned()),
        library: "hall 1".to_owned(),
        state: "active".to_owned(),
        capacity: ByteCount(18_000_000_000_000),
        written: ByteCount(5_000_000_000),
        free: ByteCount(17_432_500_000_000),
        end_of_data: BlockAddress(9_600),
    };
    let drive = DriveState { drive: "vdrive0".to_owned(), library: "hall 1".to_owned(), up: true };
    let pools = vec!["vault-a".to_owned(), "vault-b".to_owned()];
    let class = ClassState { pools, pool_max: Some(ByteCount(100_000_000_000)) };
    vec![
        by(0, None, None, What::Start(start)),
        by(0, Some("standard"), None, What::Class(class)),
        by(0, None, None, What::Drive(drive)),
        by(0, None, None, What::Tape(tape)),
    ]
}

/// One line of each kind: the golden file.
fn samples() -> Vec<Access> {
    let (file, bytes) = (FileId(4_711), ByteCount(2_000_000_000));
    let put = Put { file, bytes, set: 12, took: Duration::from_millis(8_250) };
    let get = Get {
        file,
        bytes,
        offset: ByteCount(1_000),
        asked: ByteCount(500),
        sent: ByteCount(0),
        online: false,
        took: Duration::from_micros(90),
    };
    let stage = Stage {
        file,
        bytes,
        request: RequestId(9),
        priority: 2,
        online: false,
        copies: vec![copy("vault-a", "KS0001", 4_711), copy("vault b", "KS0002", 815)],
    };
    let wait = Some(Duration::from_secs(340));
    let recalled = Recalled { file, bytes, vid: vid("KS0001"), wait };
    let migrated = Migrated {
        container: ContainerId(77),
        pool: "vault-a".to_owned(),
        vid: vid("KS0001"),
        block: BlockAddress(4_711),
        length: ByteCount(4_000_010_240),
        members: 2,
        repack: false,
    };
    let mut all = states();
    all.extend([
        by(1, Some("standard"), Some("anna"), What::Put(put)),
        by(2, Some("standard"), None, What::Migrated(migrated)),
        by(3, Some("standard"), None, What::Evicted(FileSize { file, bytes: Some(bytes) })),
        by(4, Some("standard"), Some("bert, the 2nd"), What::Get(get)),
        by(5, Some("standard"), Some("-"), What::Stage(stage)),
        by(345, Some("standard"), None, What::Recalled(recalled)),
        by(346, None, None, What::Deleted(FileSize { file, bytes: None })),
        by(347, None, None, What::Dropped { count: 3 }),
    ]);
    all
}

fn line(access: &Access) -> String {
    let mut out = String::new();
    encode(access, &mut out);
    out
}

fn framed(body: &str) -> String {
    format!("{} {body}", Crc32c::of(body.as_bytes()))
}

/// Bytes that a released Kist has written stay readable: this file never changes.
#[test]
fn the_golden_file_is_written_and_read() {
    let golden = include_str!("../golden/access-1.log");
    let mut written = String::new();
    samples().iter().for_each(|access| encode(access, &mut written));
    assert_eq!(written, golden);
    let read: Vec<Access> = golden.lines().map(|line| decode(line.as_bytes()).unwrap()).collect();
    assert_eq!(read, samples());
}

#[test]
fn damage_and_newer_versions_are_told_apart() {
    for access in samples() {
        let line = line(&access);
        let line = line.trim_end();
        for at in 0..line.len() {
            let mut bytes = line.as_bytes().to_vec();
            bytes[at] ^= 1;
            assert_eq!(decode(&bytes), Err(LineFault::Damaged), "byte {at} of {line}");
            assert_eq!(decode(&line.as_bytes()[..at]), Err(LineFault::Damaged), "cut at {at}");
        }
        let body = line.split_once(' ').unwrap().1;
        let more = framed(&format!("{body} new=1"));
        assert_eq!(decode(more.as_bytes()), Ok(access), "an unknown field is passed over");
        for wrong in [format!("{body} word"), body.replacen(" at=", " at=x", 1), body.replacen('=', "", 1)] {
            assert_eq!(decode(framed(&wrong).as_bytes()), Err(LineFault::Damaged), "{wrong}");
        }
    }
    assert_eq!(decode(framed("2 whatever").as_bytes()), Err(LineFault::Newer));
    assert_eq!(decode(framed("1 dance at=1 class=- who=-").as_bytes()), Err(LineFault::Newer));
    for wrong in ["1", "1 put", "1 put at=1 class=- who=- file=1", "1 drive at=1 class=- who=- drive=a%2"] {
        assert_eq!(decode(framed(wrong).as_bytes()), Err(LineFault::Damaged), "{wrong}");
    }
}

#[test]
fn the_longest_line_is_within_its_limit_and_reads_back() {
    let name = "\u{1}".repeat(ACCESS_NAME_MAX);
    let long = name.repeat(2);
    let mut stage = samples().into_iter().find(|access| matches!(access.what, What::Stage(_))).unwrap();
    (stage.class, stage.who) = (Some(long.clone()), Some(long.clone()));
    let What::Stage(what) = &mut stage.what else { panic!("a stage") };
    let place = CopyPlace { pool: long, block: BlockAddress(u64::MAX), ..what.copies[0].clone() };
    what.copies = vec![place; STAGE_COPIES_MAX + 1];
    let line = line(&stage);
    assert!(line.len() < ACCESS_LINE_BYTES_MAX, "{}", line.len());
    let read = decode(line.as_bytes()).unwrap();
    assert_eq!(read.who, Some(name.clone()), "a name is cut off");
    let What::Stage(read) = read.what else { panic!("a stage") };
    assert_eq!((read.copies.len(), &read.copies[0].pool), (STAGE_COPIES_MAX, &name));
    let body = line.trim_end().split_once(' ').unwrap().1;
    let more = framed(&format!("{body} copy=a,KS0001,1,1,1,1,1"));
    assert_eq!(decode(more.as_bytes()), Err(LineFault::Damaged), "one copy too many");
    for (length, read) in [(ACCESS_NAME_MAX, true), (ACCESS_NAME_MAX + 1, false)] {
        let body = format!("1 dropped at=1 class={} who=- count=1", "c".repeat(length));
        assert_eq!(decode(framed(&body).as_bytes()).is_ok(), read, "a name of {length} bytes");
    }
}

prop_compose! {
    fn place()(
        pool in "\\PC{0,20}",
        tape in "[A-Z0-9]{6}",
        numbers in any::<[u64; 5]>(),
    ) -> CopyPlace {
        let [container, block, whole, offset, length] = numbers;
        CopyPlace {
            pool,
            vid: vid(&tape),
            container: ContainerId(container),
            block: BlockAddress(block),
            container_length: ByteCount(whole),
            offset: ByteCount(offset),
            length: ByteCount(length),
        }
    }
}

fn any_what() -> impl Strategy<Value = What> {
    let span = any::<u64>().prop_map(Duration::from_nanos);
    let file_size = (any::<u64>(), proptest::option::of(any::<u64>()))
        .prop_map(|(file, bytes)| FileSize { file: FileId(file), bytes: bytes.map(ByteCount) });
    let put = (any::<[u64; 3]>(), span.clone()).prop_map(|([file, bytes, set], took)| {
        What::Put(Put { file: FileId(file), bytes: ByteCount(bytes), set, took })
    });
    let get = (any::<[u64; 5]>(), any::<bool>(), span.clone()).prop_map(|(numbers, online, took)| {
        let [file, bytes, offset, asked, sent] = numbers;
        let [bytes, offset, asked, sent] = [bytes, offset, asked, sent].map(ByteCount);
        What::Get(Get { file: FileId(file), bytes, offset, asked, sent, online, took })
    });
    let copies = proptest::collection::vec(place(), 0..5);
    let stage = (any::<[u64; 3]>(), any::<u8>(), any::<bool>(), copies).prop_map(
        |([file, bytes, request], priority, online, copies)| {
            let (file, bytes, request) = (FileId(file), ByteCount(bytes), RequestId(request));
            What::Stage(Stage { file, bytes, request, priority, online, copies })
        },
    );
    let recalled = (any::<[u64; 2]>(), "[A-Z0-9]{6}", proptest::option::of(span)).prop_map(
        |([file, bytes], tape, wait)| {
            What::Recalled(Recalled { file: FileId(file), bytes: ByteCount(bytes), vid: vid(&tape), wait })
        },
    );
    let migrated = (place(), any::<u32>(), any::<bool>()).prop_map(|(at, members, repack)| {
        let (container, pool, vid, block, length) = (at.container, at.pool, at.vid, at.block, at.length);
        What::Migrated(Migrated { container, pool, vid, block, length, members, repack })
    });
    let class = (proptest::collection::vec("\\PC{0,20}", 0..4), proptest::option::of(any::<u64>()))
        .prop_map(|(pools, max)| What::Class(ClassState { pools, pool_max: max.map(ByteCount) }));
    prop_oneof![
        put,
        get,
        stage,
        recalled,
        migrated,
        class,
        file_size.clone().prop_map(What::Evicted),
        file_size.prop_map(What::Deleted),
        any::<u64>().prop_map(|count| What::Dropped { count }),
    ]
}

proptest! {
    #[test]
    fn any_record_comes_back(
        at in any::<i64>(),
        class in proptest::option::of("\\PC{0,20}"),
        who in proptest::option::of("\\PC{0,60}"),
        what in any_what(),
    ) {
        let access = Access { at: Timestamp(at), class, who, what };
        let line = line(&access);
        prop_assert_eq!(line.matches('\n').count(), 1);
        prop_assert_eq!(decode(line.as_bytes()), Ok(access));
    }

    #[test]
    fn any_bytes_are_read_or_refused(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        let _ = decode(&bytes);
    }
}
