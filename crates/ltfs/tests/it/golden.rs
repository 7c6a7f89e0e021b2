//! The formats, byte for byte. The files under `golden/` are contracts: a difference is a new format version,
//! never a new file. Only where a file does not exist yet does `KIST_WRITE_GOLDEN=1` write it.

use std::path::Path;

use crate::common::{NOW, sample_index, sample_plan, uuid, write};
use base::{BlockAddress, Generation, Partition, Uuid, Vid};
use ltfs::catalogue_base::{BasePart, BasePartWriter, BaseRow, PartHead};
use ltfs::changes::{ChangeNumber, ChangeSegment};
use ltfs::coherency::{ChangeReference, VolumeCoherency};
use ltfs::pack::PackLayout;
use ltfs::{BlockSize, Index, Vol1Label, VolumeLabel};

fn check(name: &str, bytes: &[u8]) -> Vec<u8> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden").join(name);
    if !path.exists() && std::env::var_os("KIST_WRITE_GOLDEN").is_some() {
        std::fs::write(&path, bytes).unwrap();
    }
    let golden = std::fs::read(&path).unwrap_or_else(|e| panic!("golden file {name}: {e}"));
    assert!(golden == bytes, "{name}: what is written is no longer what was written");
    golden
}

fn label(location: Partition) -> VolumeLabel {
    VolumeLabel {
        creator: "Kist 0.1.0 - Linux - kist".into(),
        format_time: NOW,
        volume_uuid: uuid(),
        location,
        block_size: BlockSize::DEFAULT,
        compression: false,
    }
}

#[test]
fn vol1() {
    let label = Vol1Label { vid: Vid::new("KS0001").unwrap() };
    let golden = check("vol1.bin", &label.encode());
    assert_eq!(Vol1Label::parse(&golden), Ok(label));
}

#[test]
fn ltfs_labels() {
    for (name, location) in [("label-a.xml", Partition::Index), ("label-b.xml", Partition::Data)] {
        let golden = check(name, &label(location).encode());
        assert_eq!(VolumeLabel::parse(&golden).unwrap(), label(location));
    }
}

#[test]
fn index() {
    let golden = check("index-sealed.xml", &sample_index().encode());
    assert_eq!(Index::parse(&golden, BlockSize::DEFAULT).unwrap(), sample_index());
    // As it was written before indexes had a hash behind them.
    let older = include_bytes!("../golden/index.xml");
    assert_eq!(Index::parse(older, BlockSize::DEFAULT).unwrap(), sample_index());
}

#[test]
fn coherency() {
    let value = VolumeCoherency {
        change_reference: ChangeReference(0x0102_0304_0506_0708),
        generation: Generation(3),
        index_block: BlockAddress(5),
        volume_uuid: uuid(),
    };
    let golden = check("coherency.bin", &value.encode());
    assert_eq!(VolumeCoherency::parse(&golden), Ok(value));
}

#[test]
fn pack() {
    let (plan, data) = sample_plan();
    let layout = PackLayout::seal(&plan).unwrap();
    check("pack.tar", &write(&layout, &data));
    let golden = check("pack.skeleton", layout.stored_skeleton());
    assert_eq!(PackLayout::from_skeleton(&golden), Ok(layout));
}

#[test]
fn changes() {
    let changes = [b"first".to_vec(), Vec::new(), vec![0xff; 300]];
    let bytes = ChangeSegment::encode(Uuid([0xab; 16]), ChangeNumber(41), &changes).unwrap();
    let golden = check("changes.kcl", &bytes);
    assert_eq!(ChangeSegment::parse(&golden).unwrap().last, ChangeNumber(43));
}

#[test]
fn base_part() {
    let head = PartHead {
        instance: Uuid([0xab; 16]),
        format: 3,
        change: ChangeNumber(43),
        part: 2,
        is_last: true,
        rows_before: 1_000,
    };
    let rows = [
        BaseRow { table: 3, key: &[0, 0, 0, 7], value: &[0xff; 300] },
        BaseRow { table: 62, key: b"key", value: b"" },
    ];
    let mut part = BasePartWriter::default();
    assert!(rows.iter().all(|row| part.add(*row)));
    let golden = check("base.kcb", &part.close(&head));
    assert_eq!(BasePart::parse(&golden).unwrap(), BasePart { head, rows: rows.to_vec() });
}
