//! A cartridge written by the first version must stay readable, and writing it again must give the same
//! bytes. `KIST_GOLDEN=write` makes it, which is done once for each version of the format.

use std::fs;
use std::path::{Path, PathBuf};

use crate::common::{Bench, at, config, copy_tree, data, drive_name, pattern, read_at, vid};
use base::{ByteCount, Crc32c, Partition};
use library::{Library, VirtualCartridgeOptions, VirtualLibrary, VirtualLibraryConfig};

const VID: &str = "KG0001";
const FILES: [&str; 6] = [
    "cartridge.kist",
    "memory.kist",
    "partition-a.idx",
    "partition-a.rec",
    "partition-b.idx",
    "partition-b.rec",
];

fn golden() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/version-1").join(VID)
}

fn build() -> Bench {
    let options = VirtualCartridgeOptions {
        index_capacity: Some(ByteCount::mib(2)),
        early_warning: Some(ByteCount::kib(64)),
    };
    let cartridges = vec![(vid(VID), ByteCount::mib(8))];
    let bench = Bench::with(&VirtualLibraryConfig { cartridges, options, ..config() });
    let mut drive = bench.load(VID);
    for partition in [Partition::Index, Partition::Data] {
        drive.locate(at(partition, 0)).unwrap();
        drive.write_block(&[b'L'; 80]).unwrap();
        drive.write_filemarks(1).unwrap();
    }
    for n in 0..3 {
        drive.write_block(&pattern(n, 512)).unwrap();
    }
    drive.write_block(&pattern(3, 13)).unwrap();
    drive.write_filemarks(0).unwrap();
    drive.locate(at(Partition::Index, 1)).unwrap();
    drive.write_filemarks(2).unwrap();
    drive.write_attribute(Partition::Data, 0x080c, &pattern(4, 70)).unwrap();
    drop(drive);
    bench.library.unmount(&drive_name("vdrive0")).unwrap();
    bench
}

/// The drives that wrote the golden cartridge did not raise the volume change reference for an overwrite.
fn as_counted_then(memory: &mut [u8]) {
    assert_eq!(memory[16..20], 3u32.to_le_bytes());
    memory[16..20].copy_from_slice(&2u32.to_le_bytes());
    let (body, crc) = memory.split_last_chunk_mut::<4>().unwrap();
    *crc = Crc32c::of(body).0.to_le_bytes();
}

#[test]
fn version_1_stays_readable_and_is_written_alike() {
    let bench = build();
    if std::env::var("KIST_GOLDEN").is_ok_and(|value| value == "write") {
        fs::create_dir_all(golden()).unwrap();
        copy_tree(&bench.cartridge(VID), &golden());
    }
    for file in FILES {
        let (made, kept) = (bench.cartridge(VID).join(file), golden().join(file));
        let mut made = fs::read(made).unwrap();
        if file == "memory.kist" {
            as_counted_then(&mut made);
        }
        assert!(made == fs::read(kept).unwrap(), "{file} differs from the golden one");
    }

    let directory = tempfile::tempdir().unwrap();
    let cartridge = directory.path().join("cartridges").join(VID);
    fs::create_dir_all(&cartridge).unwrap();
    copy_tree(&golden(), &cartridge);
    let library = VirtualLibrary::open(directory.path(), &config()).unwrap();
    assert_eq!(library.inventory().unwrap()[0].capacity, ByteCount::mib(8));
    library.mount(vid(VID), &drive_name("vdrive0")).unwrap();
    let mut drive = library.take_drive(&drive_name("vdrive0")).unwrap();
    assert_eq!(drive.space_to_end_of_data(Partition::Index).unwrap(), at(Partition::Index, 3));
    assert_eq!(drive.space_to_end_of_data(Partition::Data).unwrap(), data(6));
    assert_eq!(read_at(drive.as_mut(), data(0)).unwrap(), Some(vec![b'L'; 80]));
    assert_eq!(read_at(drive.as_mut(), data(1)).unwrap(), None);
    for n in 0..3 {
        assert_eq!(read_at(drive.as_mut(), data(2 + n)).unwrap(), Some(pattern(n, 512)));
    }
    assert_eq!(read_at(drive.as_mut(), data(5)).unwrap(), Some(pattern(3, 13)));
    assert_eq!(drive.read_attribute(Partition::Data, 0x080c).unwrap(), Some(pattern(4, 70)));
    assert_eq!(drive.read_attribute(Partition::Data, 0x0009).unwrap(), Some(vec![0, 0, 0, 2]));
}
