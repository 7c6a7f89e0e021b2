//! A cartridge written by the first version must stay readable, and writing it again must give the same
//! bytes. `KIST_GOLDEN=write` makes it, which is done once for each version of the format.

use std::fs;
use std::path::{Path, PathBuf};

use crate::common::{Bench, at, config, copy_tree, data, drive_name, pattern, read_at, vid};
use base::{ByteCount, Crc32c, Partition};
use library::{
    BlockEncryption, CartridgeReader, EncryptionKey, KeyIdentity, Library, RecordKind, TapeEncryption,
    TapeError, VirtualCartridgeOptions, VirtualLibrary, VirtualLibraryConfig,
};

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

const ENCRYPTED: &str = "KG0002";

fn encrypted_golden() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/version-2").join(ENCRYPTED)
}

fn golden_key() -> TapeEncryption {
    let key = EncryptionKey::new(std::array::from_fn(|i| i as u8));
    TapeEncryption::of(key, KeyIdentity::new(b"golden", b"17").unwrap())
}

/// Labels in clear, behind them encrypted records of several lengths. Nonces are random: it is never the same
/// twice.
fn build_encrypted() -> Bench {
    let cartridges = vec![(vid(ENCRYPTED), ByteCount::mib(8))];
    let bench = Bench::with(&VirtualLibraryConfig { cartridges, ..config() });
    let mut drive = bench.load(ENCRYPTED);
    drive.locate(data(0)).unwrap();
    drive.write_block(&[b'L'; 80]).unwrap();
    drive.write_filemarks(1).unwrap();
    drive.set_encryption(Some(&golden_key())).unwrap();
    for n in 0..3 {
        drive.write_block(&pattern(n, 512)).unwrap();
    }
    drive.write_block(&pattern(3, 13)).unwrap();
    drive.write_filemarks(0).unwrap();
    drop(drive);
    bench.library.unmount(&drive_name("vdrive0")).unwrap();
    bench
}

/// A cartridge with encrypted records, of the first program that wrote them, stays readable with its key,
/// with and without its index files; without the key it says which it needs.
#[test]
fn encrypted_records_of_version_2_stay_readable() {
    if std::env::var("KIST_GOLDEN").is_ok_and(|value| value == "write-encrypted") {
        fs::create_dir_all(encrypted_golden()).unwrap();
        copy_tree(&build_encrypted().cartridge(ENCRYPTED), &encrypted_golden());
    }
    for with_index in [true, false] {
        let directory = tempfile::tempdir().unwrap();
        let cartridge = directory.path().join("cartridges").join(ENCRYPTED);
        fs::create_dir_all(&cartridge).unwrap();
        copy_tree(&encrypted_golden(), &cartridge);
        if !with_index {
            fs::remove_file(cartridge.join("partition-b.idx")).unwrap();
        }
        let mut kinds = Vec::new();
        let reader = CartridgeReader::open(&cartridge).unwrap();
        reader
            .visit(|record| {
                kinds.push((record.kind, record.length.0));
                true
            })
            .unwrap();
        drop(reader);
        use RecordKind::Encrypted;
        let label = [(RecordKind::Data, 80), (RecordKind::FileMark, 0)];
        assert_eq!(kinds[..2], label);
        assert_eq!(kinds[2..], [(Encrypted, 512), (Encrypted, 512), (Encrypted, 512), (Encrypted, 13)]);

        let library = VirtualLibrary::open(directory.path(), &config()).unwrap();
        library.mount(vid(ENCRYPTED), &drive_name("vdrive0")).unwrap();
        let mut drive = library.take_drive(&drive_name("vdrive0")).unwrap();
        assert_eq!(drive.space_to_end_of_data(Partition::Data).unwrap(), data(6));
        assert_eq!(read_at(drive.as_mut(), data(0)).unwrap(), Some(vec![b'L'; 80]));
        let error = read_at(drive.as_mut(), data(2)).unwrap_err();
        assert!(matches!(error, TapeError::KeyMissing { at, .. } if at == data(2)), "{error}");
        let identity = golden_key().identity;
        let found = drive.block_encryption().unwrap();
        assert_eq!(found, BlockEncryption::Encrypted { identity, is_readable: false });
        drive.set_encryption(Some(&golden_key())).unwrap();
        for n in 0..3 {
            assert_eq!(read_at(drive.as_mut(), data(2 + n)).unwrap(), Some(pattern(n, 512)));
        }
        assert_eq!(read_at(drive.as_mut(), data(5)).unwrap(), Some(pattern(3, 13)));
        // The key is forgotten with the cartridge.
        drop(drive);
        library.unmount(&drive_name("vdrive0")).unwrap();
        library.mount(vid(ENCRYPTED), &drive_name("vdrive0")).unwrap();
        let mut drive = library.take_drive(&drive_name("vdrive0")).unwrap();
        let error = read_at(drive.as_mut(), data(3)).unwrap_err();
        assert!(matches!(error, TapeError::KeyMissing { .. }), "{error}");
    }
}
