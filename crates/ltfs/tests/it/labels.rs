//! Labels of other programs, and labels that are none.

use base::{Partition, Timestamp, Uuid, Vid};
use ltfs::{BlockSize, LabelError, Vol1Error, Vol1Label, VolumeLabel};
use proptest::prelude::*;

#[test]
fn vol1_labels_are_told_apart() {
    let good = Vol1Label { vid: Vid::new("KS0001").unwrap() }.encode();
    let with = |at: usize, text: &[u8]| {
        let mut label = good;
        label[at..at + text.len()].copy_from_slice(text);
        Vol1Label::parse(&label)
    };
    assert_eq!(with(37, b"Somebody      ").unwrap().vid.as_str(), "KS0001");
    assert_eq!(with(0, b"HDR1"), Err(Vol1Error::NotVol1));
    assert_eq!(Vol1Label::parse(&good[..79]), Err(Vol1Error::NotVol1));
    assert_eq!(Vol1Label::parse(b""), Err(Vol1Error::NotVol1));
    assert_eq!(with(24, b"CASTOR"), Err(Vol1Error::NotLtfs { implementation: "CASTOR".into() }));
    assert_eq!(with(24, b"    "), Err(Vol1Error::NotLtfs { implementation: String::new() }));
    assert_eq!(with(4, b"ks 1\xff "), Err(Vol1Error::Serial { serial: "ks 1? ".into() }));
}

const FOREIGN: &str = r#"<?xml version="1.0" encoding="UTF-8"?>
<!-- made by hand -->
<ltfslabel version="2.2.0">
    <creator>ACME Tape 1.2.0 - Linux - mk</creator>
    <formattime>2010-02-01T18:35:47.866846222Z</formattime>
    <volumeuuid>30a91a08-daae-48d1-ae75-69804e61d2ea</volumeuuid>
    <location><partition>b</partition></location>
    <partitions><index>a</index><data>b</data></partitions>
    <blocksize>65536</blocksize>
    <compression>true</compression>
    <somethingnew><deep/></somethingnew>
</ltfslabel>
"#;

#[test]
fn a_foreign_label_is_read_and_recognised() {
    let label = VolumeLabel::parse(FOREIGN.as_bytes()).unwrap();
    assert!(!label.is_kist());
    assert_eq!((label.location, label.block_size.bytes(), label.compression), (Partition::Data, 65536, true));
    assert_eq!(label.volume_uuid, crate::common::uuid());
    assert!(VolumeLabel { creator: ltfs::CREATOR.into(), ..label }.is_kist());
}

#[test]
fn wrong_labels_are_refused() {
    for (from, to, expect) in [
        ("<index>a", "<index>b", "partitions"),
        ("65536", "1024", "'blocksize' has the illegal value '1024'"),
        ("65536", "+65536", "illegal value"),
        ("2.2.0", "1.0", "version '1.0'"),
        ("2.2.0", "3.0.0", "version '3.0.0'"),
        ("<compression>true</compression>", "", "'compression' is missing"),
        ("ltfslabel", "other", "is no ltfslabel"),
        ("<somethingnew><deep/>", "<!DOCTYPE x>", "document type"),
        ("ACME", "&acme;", "'&acme;'"),
        ("ACME", "&#1;", "'&#1;'"),
        ("ACME", "\u{1}", "forbidden character"),
        ("UTF-8", "latin-1", "encoding other"),
        ("</ltfslabel>", "", "ends early"),
        ("</ltfslabel>", "</ltfslabel><x/>", "unexpected"),
    ] {
        let text = FOREIGN.replace(from, to);
        let error = VolumeLabel::parse(text.as_bytes()).unwrap_err().to_string();
        assert!(error.contains(expect), "{to}: {error}");
    }
    assert!(matches!(VolumeLabel::parse(&vec![b' '; 65537]), Err(LabelError::TooLarge(65537))));
}

proptest! {
    #[test]
    fn labels_round_trip(uuid in any::<[u8; 16]>(), data in any::<bool>(), size in 4096u32..=8 << 20,
                         compression in any::<bool>(), creator in "[ -~é]{0,40}") {
        let label = VolumeLabel {
            creator,
            format_time: Timestamp(1),
            volume_uuid: Uuid(uuid),
            location: if data { Partition::Data } else { Partition::Index },
            block_size: BlockSize::new(size).unwrap(),
            compression,
        };
        prop_assert_eq!(VolumeLabel::parse(&label.encode()).unwrap(), label);
    }

    #[test]
    fn any_bytes_are_safe(bytes in proptest::collection::vec(any::<u8>(), 0..300), cut in 0usize..700,
                          at in 0usize..700, byte in any::<u8>()) {
        let _ = (Vol1Label::parse(&bytes), VolumeLabel::parse(&bytes));
        let mut label = FOREIGN.as_bytes().to_vec();
        if let Some(place) = label.get_mut(at) {
            *place = byte;
        }
        label.truncate(cut);
        let _ = VolumeLabel::parse(&label);
    }
}
