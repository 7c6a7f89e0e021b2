//! Packs: layout, skeleton, checksums, headers, and what GNU tar makes of them.

use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::process::Command;

use crate::common::{link, member, plan, sample_plan, write};
use base::{ByteCount, ContainerId, FileId, StreamChecksums};
use ltfs::pack::{
    MEMBER_OVERHEAD_MAX, Manifest, ManifestError, MemberKind, OWNER_BYTES_MAX, PACK_HEADER_BYTES_MAX,
    PACK_MEMBERS_MAX, PACK_OVERHEAD_MAX, PackHeaderError, PackHeaderOf, PackLayout, PackPlan,
    SKELETON_FRAME_BYTES, SYMLINK_TARGET_BYTES_MAX, SealError, SkeletonError, read_pack_header,
};
use proptest::prelude::*;

#[test]
fn every_member_stands_where_the_layout_says() {
    let (plan, data) = sample_plan();
    let layout = PackLayout::seal(&plan).unwrap();
    let pack = write(&layout, &data);
    assert_eq!(layout.checksums(), StreamChecksums::of(&pack));
    assert_eq!(layout.members().len(), plan.members.len());
    for (at, expect) in layout.members().zip(&plan.members) {
        let header = read_pack_header(&pack[at.header_offset.0 as usize..]).unwrap();
        let of = PackHeaderOf::Member { file: expect.file, path: expect.path.clone() };
        assert_eq!((header.of, header.header_length), (of, at.header_length));
        assert_eq!((header.checksums, header.mtime), (expect.checksums, expect.mtime));
        assert_eq!((header.kind, header.owner), (expect.kind.clone(), expect.owner.clone()));
        let start = at.data_offset.0 as usize;
        assert_eq!(&pack[start..start + at.data_length.0 as usize], data[&expect.file]);
        assert_eq!(StreamChecksums::of(&data[&expect.file]), at.checksums);
    }
    let head = read_pack_header(&pack).unwrap();
    assert_eq!(head.of, PackHeaderOf::Manifest(ContainerId(0x2a)));
    let start = head.header_length.0 as usize;
    let manifest = Manifest::parse(&pack[start..start + head.size.0 as usize]).unwrap();
    assert!(manifest.entries.iter().map(|entry| &entry.member).eq(&plan.members));
    assert!(manifest.entries.iter().map(|e| e.data_offset).eq(layout.members().map(|m| m.data_offset)));
    assert_eq!((manifest.container, manifest.created), (plan.container, plan.created));
}

#[test]
fn a_pack_beyond_eight_gigabytes_is_laid_out() {
    let huge = 20 << 30;
    let mut big = member(1, "/big", b"");
    (big.size, big.checksums.stream.crc32c) = (ByteCount(huge), base::Crc32c(7));
    let (plan, _) = plan(vec![(big, vec![]), (member(2, "/next", b"n"), vec![])]);
    let layout = PackLayout::seal(&plan).unwrap();
    let [first, second] = [0, 1].map(|at| *layout.members().nth(at).unwrap());
    assert_eq!(second.header_offset.0, first.data_offset.0 + huge);
    assert_eq!(PackLayout::from_skeleton(layout.stored_skeleton()), Ok(layout));
}

#[test]
fn plans_that_cannot_be_are_refused() {
    let seal = |members: Vec<ltfs::pack::PackMember>| {
        PackLayout::seal(&PackPlan { container: ContainerId(1), created: crate::common::NOW, members })
    };
    let one = || member(1, "/a", b"a");
    assert_eq!(seal(vec![]), Err(SealError::Members(0)));
    assert_eq!(seal(vec![one(), one()]), Err(SealError::Twice(FileId(1))));
    assert_eq!(seal(vec![member(1, "/", b"a")]), Err(SealError::Root(FileId(1))));
    let owner = |owner: String| ltfs::pack::PackMember { owner, ..one() };
    assert!(seal(vec![owner("o".repeat(OWNER_BYTES_MAX))]).is_ok());
    assert_eq!(seal(vec![owner("o".repeat(OWNER_BYTES_MAX + 1))]), Err(SealError::Owner(FileId(1))));
    assert_eq!(seal(vec![owner("\0".into())]), Err(SealError::Owner(FileId(1))));
    assert!(seal(vec![link(1, "/a", &"t".repeat(SYMLINK_TARGET_BYTES_MAX))]).is_ok());
    let too_long = "t".repeat(SYMLINK_TARGET_BYTES_MAX + 1);
    assert_eq!(seal(vec![link(1, "/a", &too_long)]), Err(SealError::Target(FileId(1))));
    let full_link = ltfs::pack::PackMember { size: ByteCount(1), ..link(1, "/a", "b") };
    assert_eq!(seal(vec![full_link]), Err(SealError::NotEmpty(FileId(1))));
    let wrong = ltfs::pack::PackMember { size: ByteCount(0), ..one() };
    assert_eq!(seal(vec![wrong]), Err(SealError::NotEmpty(FileId(1))));
    let endless = |id| ltfs::pack::PackMember { size: ByteCount(u64::MAX), ..member(id, "/a", b"a") };
    assert_eq!(seal(vec![endless(1)]), Err(SealError::TooLong));
    let half = |id| ltfs::pack::PackMember { size: ByteCount(1 << 62), ..member(id, "/a", b"a") };
    assert_eq!(seal(vec![half(1), half(2)]), Err(SealError::TooLong));
}

#[test]
fn the_largest_header_is_within_its_limit() {
    let component = "é".repeat(127);
    let path = format!("/{}", vec![component.as_str(); 16].join("/"));
    let mut worst = link(u64::MAX, &path, &"ü".repeat(2047));
    (worst.owner, worst.group) = ("ö".repeat(127), "ä".repeat(127));
    worst.mtime = base::Timestamp(i64::MIN);
    let same_path = ltfs::pack::PackMember { file: FileId(1), ..worst.clone() };
    let (plan, _) = plan(vec![(same_path, vec![]), (worst, vec![])]);
    let layout = PackLayout::seal(&plan).unwrap();
    assert!(layout.members().all(|member| member.header_length.0 <= PACK_HEADER_BYTES_MAX as u64));
    assert_eq!(PackLayout::from_skeleton(layout.stored_skeleton()), Ok(layout));
}

/// By these bounds a pack ends before it is larger than a tape takes.
#[test]
fn the_longest_names_take_no_more_than_the_overhead_of_members() {
    // Control characters, of which each byte stands as three in the manifest.
    let name = "\u{85}".repeat(127);
    let path = format!("/{}", vec![name.as_str(); 16].join("/"));
    let mut worst = link(u64::MAX, &path, &"\u{1}".repeat(SYMLINK_TARGET_BYTES_MAX));
    (worst.owner, worst.group, worst.mtime) = (name.clone(), name, base::Timestamp(i64::MIN));
    for count in [1, 2, 100] {
        let members: Vec<_> = (0..count)
            .map(|file| (ltfs::pack::PackMember { file: FileId(u64::MAX - file), ..worst.clone() }, vec![]))
            .collect();
        let layout = PackLayout::seal(&plan(members).0).unwrap();
        let most = PACK_OVERHEAD_MAX as u64 + count * MEMBER_OVERHEAD_MAX as u64;
        assert!(layout.total_length().0 <= most, "{count} members take {}", layout.total_length());
    }
    let one = PackLayout::seal(&plan(vec![(member(1, "/a", b"a"), vec![])]).0).unwrap();
    assert!(one.total_length().0 <= 1 + (PACK_OVERHEAD_MAX + MEMBER_OVERHEAD_MAX) as u64);
}

#[test]
fn the_most_members_are_possible_and_one_more_is_not() {
    let empty = member(0, "/d/f", b"");
    let members =
        (0..=PACK_MEMBERS_MAX as u64).map(|id| ltfs::pack::PackMember { file: FileId(id), ..empty.clone() });
    let mut plan =
        PackPlan { container: ContainerId(1), created: crate::common::NOW, members: members.collect() };
    assert_eq!(PackLayout::seal(&plan), Err(SealError::Members(PACK_MEMBERS_MAX + 1)));
    plan.members.pop();
    let start = std::time::Instant::now();
    let layout = PackLayout::seal(&plan).unwrap();
    let sealed = start.elapsed();
    assert_eq!(PackLayout::from_skeleton(layout.stored_skeleton()).unwrap(), layout);
    let read = start.elapsed() - sealed;
    let _ = layout.checksums();
    let summed = start.elapsed() - sealed - read;
    println!("{} bytes; seal {sealed:?}, read {read:?}, sum {summed:?}", layout.skeleton().len());
}

#[test]
fn frames_and_manifests_are_checked() {
    let (plan, _) = sample_plan();
    let layout = PackLayout::seal(&plan).unwrap();
    let stored = layout.stored_skeleton();
    assert_eq!(PackLayout::from_skeleton(b""), Err(SkeletonError::Magic));
    assert_eq!(PackLayout::from_skeleton(&stored[..20]), Err(SkeletonError::Length(20)));
    let short = &stored[..stored.len() - 1];
    assert_eq!(PackLayout::from_skeleton(short), Err(SkeletonError::Length(short.len())));
    let mut other = stored.to_vec();
    other[8] = 2;
    assert_eq!(PackLayout::from_skeleton(&other), Err(SkeletonError::Checksum));
    let sum = base::Crc32c::of(&other[..36]).0.to_le_bytes();
    other[36..40].copy_from_slice(&sum);
    assert_eq!(PackLayout::from_skeleton(&other), Err(SkeletonError::Version(2)));
    for bit in 0..SKELETON_FRAME_BYTES * 8 {
        let mut damaged = stored.to_vec();
        damaged[bit / 8] ^= 1 << (bit % 8);
        let error = PackLayout::from_skeleton(&damaged).unwrap_err();
        assert!(!matches!(error, SkeletonError::Version(_)), "bit {bit}: {error}");
    }
    let head = read_pack_header(layout.skeleton()).unwrap();
    let start = SKELETON_FRAME_BYTES + head.header_length.0 as usize;
    let text = std::str::from_utf8(&stored[start..start + head.size.0 as usize]).unwrap();
    assert!(text.starts_with("kist-pack-manifest\t1\ncontainer\t000000000000002a\n"));
    assert!(text.contains("\t/atlas/größe%091%25.txt\t\n"), "{text}");
    let change = |from: &str, to: &str| Manifest::parse(text.replacen(from, to, 1).as_bytes()).unwrap_err();
    assert_eq!(change("manifest\t1", "manifest\t2"), ManifestError::Checksum);
    let (body, _) = text.split_at(text.rfind("end\t").unwrap());
    let newer = body.replacen("manifest\t1", "manifest\t2", 1);
    let newer = format!("{newer}end\t{}\n", base::Crc32c::of(newer.as_bytes()));
    assert_eq!(Manifest::parse(newer.as_bytes()).unwrap_err(), ManifestError::Version);
    assert_eq!(change("hello.txt", "hallo.txt"), ManifestError::Checksum);
    assert_eq!(change("\nend\t", "\nfin\t"), ManifestError::Checksum);
}

/// What a user without Kist does.
#[test]
fn gnu_tar_lists_and_extracts_a_pack() {
    let (plan, data) = sample_plan();
    let layout = PackLayout::seal(&plan).unwrap();
    let directory = tempfile::tempdir().unwrap();
    let pack = directory.path().join("pack.tar");
    std::fs::write(&pack, write(&layout, &data)).unwrap();
    let tar = |arguments: &[&str]| {
        let output = Command::new("tar")
            .args(["--warning=no-unknown-keyword", "--warning=no-timestamp", "--quoting-style=literal", "-C"])
            .arg(directory.path())
            .args(arguments)
            .arg("-f")
            .arg(&pack)
            .output()
            .unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        assert_eq!(String::from_utf8_lossy(&output.stderr), "");
        String::from_utf8(output.stdout).unwrap()
    };
    let listed = tar(&["-t"]);
    let mut expect = vec![".kist/pack-000000000000002a.manifest".to_owned()];
    expect.extend(plan.members.iter().map(|m| m.path.as_str().trim_start_matches('/').to_owned()));
    let again = expect.iter().rposition(|path| path == "atlas/hello.txt").unwrap();
    expect[again].push_str("~18");
    assert_eq!(listed.lines().collect::<Vec<_>>(), expect);
    tar(&["-x"]);
    for (path, expect) in expect.iter().skip(1).zip(&plan.members) {
        let path = directory.path().join(path);
        if let MemberKind::Symlink { target } = &expect.kind {
            assert_eq!(std::fs::read_link(&path).unwrap().to_str(), Some(target.as_str()));
            continue;
        }
        assert_eq!(std::fs::read(&path).unwrap(), data[&expect.file]);
        let meta = std::fs::metadata(&path).unwrap();
        assert_eq!(meta.permissions().mode() & 0o777, expect.mode);
        assert_eq!(meta.mtime() * 1_000_000_000 + meta.mtime_nsec(), expect.mtime.0);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn packs_round_trip(members in proptest::collection::vec(
        ("(/[a-cé%\t]{1,60}){1,4}", proptest::collection::vec(any::<u8>(), 0..1200),
         any::<i64>(), "[a-zü]{0,40}"),
        1..8,
    )) {
        let members = members.into_iter().enumerate().map(|(at, (path, data, mtime, owner))| {
            let mut member = member(at as u64, &path, &data);
            (member.mtime, member.owner) = (base::Timestamp(mtime), owner);
            (member, data)
        });
        let (plan, data) = plan(members.collect());
        let layout = PackLayout::seal(&plan).unwrap();
        let pack = write(&layout, &data);
        prop_assert_eq!(layout.checksums(), StreamChecksums::of(&pack));
        let again = PackLayout::from_skeleton(layout.stored_skeleton()).unwrap();
        prop_assert_eq!(write(&again, &data), pack);
        prop_assert_eq!(again, layout);
    }

    #[test]
    fn any_flipped_bit_of_skeleton_or_header_is_found(bit in any::<prop::sample::Index>()) {
        let layout = PackLayout::seal(&sample_plan().0).unwrap();
        let mut stored = layout.stored_skeleton().to_vec();
        let at = bit.index(stored.len() * 8);
        stored[at / 8] ^= 1 << (at % 8);
        prop_assert!(PackLayout::from_skeleton(&stored).is_err());
        let first = layout.members().nth(5).unwrap();
        let start = first.header_offset.0 as usize;
        let pack = write(&layout, &sample_plan().1);
        let mut header = pack[start..start + first.header_length.0 as usize].to_vec();
        prop_assert!(read_pack_header(&header).is_ok());
        let at = bit.index(header.len() * 8);
        header[at / 8] ^= 1 << (at % 8);
        prop_assert!(read_pack_header(&header).is_err());
        header.truncate(at / 8);
        prop_assert!(read_pack_header(&header).is_err());
    }

    #[test]
    fn any_bytes_are_safe(bytes in proptest::collection::vec(any::<u8>(), 0..2048),
                          text in "[a-z0-9\t\n=%]{0,200}") {
        prop_assert!(read_pack_header(&bytes).is_err());
        prop_assert!(PackLayout::from_skeleton(&bytes).is_err());
        prop_assert!(Manifest::parse(&bytes).is_err());
        let table = format!("kist-pack-manifest\t1\n{text}");
        prop_assert!(Manifest::parse(table.as_bytes()).is_err());
    }
}

#[test]
fn a_truncated_header_asks_for_more() {
    let (plan, data) = sample_plan();
    let layout = PackLayout::seal(&plan).unwrap();
    let pack = write(&layout, &data);
    for length in [0, 511, 512, 1000, 1535] {
        assert_eq!(read_pack_header(&pack[..length]), Err(PackHeaderError::Short), "{length}");
    }
}
