//! What several tests build on.
#![allow(dead_code)]

use std::collections::BTreeMap;

use base::{
    ArchivePath, BlockAddress, ByteCount, Checksums, ContainerId, FileId, Generation, Partition,
    TapePosition, Timestamp, Uuid,
};
use ltfs::pack::{MemberKind, PackLayout, PackMember, PackPlan, Piece};
use ltfs::{Extent, File, FileUid, Index, Times, Tree, VolumeLock, naming};

pub const NOW: Timestamp = Timestamp(1_795_292_940_123_456_789);

pub fn uuid() -> Uuid {
    Uuid::parse("30a91a08-daae-48d1-ae75-69804e61d2ea").unwrap()
}

pub fn file(length: u64, start_block: u64) -> File {
    let extent = Extent {
        file_offset: ByteCount(0),
        partition: Partition::Data,
        start_block: BlockAddress(start_block),
        byte_offset: 0,
        byte_count: ByteCount(length),
    };
    File {
        uid: FileUid(0),
        length: ByteCount(length),
        times: Times::all(NOW),
        read_only: false,
        xattrs: Vec::new(),
        extents: if length > 0 { vec![extent] } else { Vec::new() },
        symlink: None,
    }
}

pub fn index(tree: Tree) -> Index {
    let at = |partition, block| TapePosition { partition, block: BlockAddress(block) };
    Index {
        creator: "Kist 0.1.0 - Linux - kist".into(),
        volume_uuid: uuid(),
        generation: Generation(3),
        update_time: NOW,
        location: at(Partition::Index, 5),
        previous: Some(at(Partition::Data, 4711)),
        allow_policy_update: false,
        lock: VolumeLock::Unlocked,
        tree,
    }
}

/// A small volume with one of everything.
pub fn sample_index() -> Index {
    let mut tree = Tree::new("KS0001", NOW);
    let path = ArchivePath::new("/atlas/run 7/a:b & <c>\n.root").unwrap();
    let mut large = file(3_000_000_000, 4);
    large.xattrs = vec![
        (naming::XATTR_FILE_ID.into(), b"4711".to_vec()),
        (naming::XATTR_PATH.into(), path.as_str().into()),
        (naming::XATTR_CRC32C.into(), b"e3069283".to_vec()),
    ];
    tree.insert_file(&naming::tape_path(&path, FileId(4711), false), large, NOW).unwrap();
    let mut shared = file(100, 5727);
    shared.extents[0].byte_offset = 4096;
    tree.insert_file(&naming::pack_path(ContainerId(12)), shared, NOW).unwrap();
    tree.insert_file(&["atlas", "empty"], file(0, 0), NOW).unwrap();
    let mut link = file(0, 0);
    link.symlink = Some("../somewhere".into());
    tree.insert_file(&["atlas", "li\u{301}nk".replace("i\u{301}", "í").as_str()], link, NOW).unwrap();
    index(tree)
}

pub fn member(file: u64, path: &str, data: &[u8]) -> PackMember {
    PackMember {
        file: FileId(file),
        path: ArchivePath::new(path).unwrap(),
        size: ByteCount(data.len() as u64),
        mtime: Timestamp(NOW.0 + file as i64),
        mode: 0o640,
        owner: "alice".into(),
        group: "atlas".into(),
        checksums: Checksums::of(data),
        kind: MemberKind::Regular,
    }
}

pub fn link(file: u64, path: &str, target: &str) -> PackMember {
    PackMember { kind: MemberKind::Symlink { target: target.into() }, mode: 0o777, ..member(file, path, b"") }
}

/// A plan and the data of its files.
pub fn plan(members: Vec<(PackMember, Vec<u8>)>) -> (PackPlan, BTreeMap<FileId, Vec<u8>>) {
    let data = members.iter().map(|(member, data)| (member.file, data.clone())).collect();
    let members = members.into_iter().map(|(member, _)| member).collect();
    (PackPlan { container: ContainerId(0x2a), created: NOW, members }, data)
}

/// A small pack with one of everything.
pub fn sample_plan() -> (PackPlan, BTreeMap<FileId, Vec<u8>>) {
    let long = format!("/atlas/{}/{}.dat", "d".repeat(120), "f".repeat(90));
    let longer = format!("/atlas/{}/{}.dat", "d".repeat(200), "f".repeat(200));
    let mut before = member(17, "/atlas/old", b"from 1969");
    before.mtime = Timestamp(-1_500_000_000);
    before.owner = "jürgen".into();
    let content = |member: &PackMember, data: &[u8]| (member.clone(), data.to_vec());
    let mut members = vec![
        content(&member(11, "/atlas/hello.txt", b"hello\n"), b"hello\n"),
        content(&member(12, "/atlas/empty", b""), b""),
        content(&link(13, "/atlas/link", "hello.txt"), b""),
        content(&member(14, &long, &[b'x'; 512]), &[b'x'; 512]),
        content(&member(15, &longer, &[b'y'; 513]), &[b'y'; 513]),
        content(&member(16, "/atlas/größe\t1%.txt", b"g"), b"g"),
        content(&before, b"from 1969"),
        content(&member(18, "/atlas/hello.txt", b"a newer version\n"), b"a newer version\n"),
    ];
    members.push(content(&link(19, "/atlas/far", &format!("../{}", "t".repeat(300))), b""));
    plan(members)
}

/// Writes a pack as the mover would.
pub fn write(layout: &PackLayout, data: &BTreeMap<FileId, Vec<u8>>) -> Vec<u8> {
    let mut out = Vec::new();
    for piece in layout.pieces() {
        match piece {
            Piece::Skeleton(bytes) => out.extend(bytes),
            Piece::Data { file, length } => {
                assert_eq!(data[&file].len() as u64, length.0);
                out.extend(&data[&file]);
            }
            Piece::Zeros(count) => out.extend(vec![0; count as usize]),
        }
    }
    assert_eq!(out.len() as u64, layout.total_length().0);
    out
}
