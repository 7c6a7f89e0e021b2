//! How large a file may be: what a tape of each pool of its class takes.

use std::fs;

use archive::{Archive, ArchiveError, PutOptions, Settings};
use base::{ByteCount, Vid};
use library::{VirtualCartridgeOptions, VirtualLibrary, VirtualLibraryConfig};

use crate::common::{Instance, bytes, migrate_all, path, put, stop};

/// An instance with these cartridges in the place of the usual ones.
fn instance(cartridges: &[(&str, u64)], change: impl FnOnce(&mut Settings)) -> Instance {
    let instance = Instance::with(ByteCount::mib(64), change);
    let directory = &instance.settings.library.files().unwrap().directory;
    fs::remove_dir_all(directory.join("cartridges")).unwrap();
    let cartridge = |(vid, mib): &(&str, u64)| (Vid::new(vid).unwrap(), ByteCount::mib(*mib));
    let config = VirtualLibraryConfig {
        drives: Vec::new(),
        robots: 1,
        cartridges: cartridges.iter().map(cartridge).collect(),
        options: VirtualCartridgeOptions::default(),
        drop_cache: false,
    };
    VirtualLibrary::create(directory, &config).unwrap();
    instance
}

/// The limit that refuses a file of so many bytes before its body, and a part of one; `None`: both are taken.
fn limit_of(archive: &Archive, class: Option<&str>, mib: u64) -> Option<u64> {
    let length = Some(ByteCount::mib(mib));
    let options = |length| PutOptions {
        length,
        class: class.map(str::to_owned),
        make_parents: true,
        ..PutOptions::default()
    };
    let limit = |refused: ArchiveError| match refused {
        ArchiveError::Limit { what: "a file larger than the largest tape of its class", limit } => limit,
        other => panic!("{other}"),
    };
    let whole = archive.begin_put(&path("/t/file"), options(length)).err().map(limit);
    let upload = archive.open_multipart(&path("/t/file"), options(None)).unwrap();
    let part = archive.begin_part(upload, 1, length).err().map(limit);
    assert_eq!(part, whole, "a part of {mib} MiB and a file of as much");
    whole
}

/// Story: one smaller tape, or one taken out of the library, had every larger put refused with 'larger than
/// the largest tape' while large ones stood beside it, also for a class that has no copies on tape.
#[test]
fn one_smaller_tape_limits_no_put() {
    let cartridges = [("KS0001", 64), ("KS0002", 64), ("KS0003", 64), ("KS0004", 10)];
    let instance = instance(&cartridges, |settings| {
        let mut pool_only = settings.classes[1].clone();
        pool_only.name = "pool-only".to_owned();
        pool_only.copies.clear();
        settings.classes.insert(0, archive::ClassSettings { up_to: Some(ByteCount(0)), ..pool_only });
    });
    let archive = instance.open();
    put(&archive, "/t/first", &bytes(1, 12_000_000));
    migrate_all(&archive);
    assert_eq!(limit_of(&archive, None, 60), None);
    assert_eq!(limit_of(&archive, None, 61), Some(60 << 20));
    assert_eq!(limit_of(&archive, Some("large"), 61), Some(60 << 20));
    assert_eq!(limit_of(&archive, Some("pool-only"), 61), None);
    stop(archive);
    let cartridges = instance.settings.library.files().unwrap().directory.join("cartridges");
    // Tapes that are away take nothing: what is there counts.
    fs::rename(cartridges.join("KS0004"), cartridges.with_file_name("KS0004")).unwrap();
    let archive = instance.open();
    assert_eq!(limit_of(&archive, None, 60), None);
    stop(archive);
    fs::rename(cartridges.with_file_name("KS0004"), cartridges.join("KS0004")).unwrap();
    for vid in ["KS0001", "KS0002", "KS0003"] {
        fs::rename(cartridges.join(vid), cartridges.with_file_name(vid)).unwrap();
    }
    let archive = instance.open();
    assert_eq!(limit_of(&archive, None, 11), Some((10 << 20) - (10 << 16)));
    archive.close();
}
