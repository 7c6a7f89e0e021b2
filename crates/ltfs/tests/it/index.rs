//! The index: what is written is read, what is wrong is refused, and size and depth do no harm.

use crate::common::{NOW, file, index, sample_index};
use base::{BlockAddress, ByteCount, Partition, Timestamp};
use ltfs::tree::TREE_DEPTH_MAX;
use ltfs::{BlockSize, Entry, Extent, File, FileUid, Index, IndexError, Times, Tree};
use proptest::prelude::*;

const BLOCK: BlockSize = BlockSize::DEFAULT;

/// The document without the hash behind it, as another program would write it.
fn unsealed(index: &Index) -> String {
    let text = String::from_utf8(index.encode()).unwrap();
    text[..text.rfind("<!--").unwrap()].to_owned()
}

/// Story: in the simulator a bit flipped in an index took a file's attribute away. The XML was still right,
/// the index was believed, and the next generation carried the loss on.
#[test]
fn every_flipped_bit_of_an_index_is_found() {
    let index = sample_index();
    let bytes = index.encode();
    assert_eq!(Index::parse(unsealed(&index).as_bytes(), BLOCK).unwrap(), index, "without a hash");
    let (mut refused, mut intact) = (0, 0);
    for bit in 0..bytes.len() * 8 {
        let mut flipped = bytes.clone();
        flipped[bit / 8] ^= 1 << (bit % 8);
        match Index::parse(&flipped, BLOCK) {
            Err(_) => refused += 1,
            // The word that says that a hash follows may be hit: the index is not.
            Ok(read) => {
                assert_eq!(read, index, "bit {bit}");
                intact += 1;
            }
        }
    }
    assert!(refused > 100 * intact, "{refused} refused, {intact} intact");
}

/// Changes the sample's XML and expects the reading to fail with this text.
fn refuse(from: &str, to: &str, expect: &str) {
    let text = unsealed(&sample_index());
    assert!(text.contains(from), "the sample holds {from}");
    let error = Index::parse(text.replacen(from, to, 1).as_bytes(), BLOCK).unwrap_err().to_string();
    assert!(error.contains(expect), "{to}: {error}");
}

#[test]
fn wrong_indexes_are_refused() {
    refuse("<startblock>5727</startblock>", "", "'startblock' is missing");
    refuse("<byteoffset>4096<", "<byteoffset>524288<", "not below the block size");
    refuse("<bytecount>100<", "<bytecount>101<", "behind the end");
    refuse("<bytecount>100<", "<bytecount>0<", "no bytes");
    refuse("<fileoffset>0<", "<fileoffset>18446744073709551615<", "overflows");
    refuse("<startblock>5727<", "<startblock>18446744073709551615<", "overflows");
    refuse(
        "<partition>b</partition>\n<startblock>4<",
        "<partition>c</partition>\n<startblock>4<",
        "'partition'",
    );
    refuse("<highestfileuid>9<", "<highestfileuid>8<", "number 9");
    refuse("<fileuid>9<", "<fileuid>8<", "number 8");
    refuse("<fileuid>9<", "<fileuid>0<", "number 0");
    refuse("<fileuid>1<", "<fileuid>10<", "number 10");
    refuse("<name>empty<", "<name>run 7<", "'run 7' twice");
    refuse("<name>empty<", "<name>..<", "illegal name");
    refuse("<name>empty<", "<name percentencoded=\"true\">a%2Fb<", "illegal name 'a/b'");
    refuse("<name>empty<", "<name percentencoded=\"true\">a%0<", "'name'");
    refuse("<name>empty<", "<name percentencoded=\"maybe\">a<", "'name'");
    refuse("<name>empty<", "<name>&lol;<", "&lol;");
    refuse("<key>kist.crc32c<", "<key>kist.path<", "'kist.path' twice");
    refuse("<value>4711<", "<value type=\"base64\">!<", "'value'");
    refuse("<volumelockstate>unlocked<", "<volumelockstate>ajar<", "'volumelockstate'");
    refuse("version=\"2.4.0\"", "version=\"2.6.0\"", "'2.6.0'");
    refuse("</ltfsindex>", "<directory></directory></ltfsindex>", "missing");
    refuse("<ltfsindex ", "<!DOCTYPE x [<!ENTITY a \"b\">]><ltfsindex ", "document type");
    refuse(
        "<symlink>",
        "<extentinfo><extent><fileoffset>0</fileoffset><partition>b</partition>\
        <startblock>9</startblock>\
        <byteoffset>0</byteoffset><bytecount>1</bytecount></extent></extentinfo><symlink>",
        "symbolic link with data",
    );
    assert!(matches!(Index::parse(b"\xff", BLOCK), Err(IndexError::Xml(_))));
    assert!(matches!(Index::parse(b"<ltfsindex version=\"2.4.0\"/>", BLOCK), Err(IndexError::Roots(0))));
}

#[test]
fn a_volume_without_numbers_takes_no_file() {
    let text = unsealed(&sample_index());
    let text = text.replace("<highestfileuid>9<", "<highestfileuid>18446744073709551614<");
    let mut read = Index::parse(text.as_bytes(), BLOCK).unwrap();
    let two = read.tree.insert_file(&["new", "file"], file(0, 0), NOW);
    assert_eq!(two, Err(ltfs::InsertError::Uids));
    assert_eq!(read.tree.insert_file(&["file"], file(0, 0), NOW), Ok(FileUid(u64::MAX)));
    assert_eq!(read.tree.insert_file(&["file2"], file(0, 0), NOW), Err(ltfs::InsertError::Uids));
}

#[test]
fn overlapping_extents_are_refused_and_gaps_are_not() {
    let extent = |file_offset, start_block| Extent {
        file_offset: ByteCount(file_offset),
        partition: Partition::Data,
        start_block: BlockAddress(start_block),
        byte_offset: 7,
        byte_count: ByteCount(10),
    };
    let with = |extents: Vec<Extent>| {
        let mut tree = Tree::new("V", NOW);
        tree.insert_file(&["f"], File { extents, ..file(100, 1) }, NOW).unwrap();
        Index::parse(&index(tree).encode(), BLOCK)
    };
    assert!(with(vec![extent(0, 4), extent(50, 9)]).is_ok());
    assert!(with(vec![extent(0, 4), extent(10, 9)]).is_ok());
    assert!(with(vec![extent(0, 4), extent(9, 9)]).unwrap_err().to_string().contains("overlaps"));
    // Out of order is legal, and put in order.
    let read = with(vec![extent(50, 9), extent(0, 4)]).unwrap();
    let Some(Entry::File(file)) = read.tree.lookup(&["f"]) else { panic!("the file is there") };
    assert_eq!(file.extents, [extent(0, 4), extent(50, 9)]);
}

#[test]
fn a_foreign_index_in_another_order_is_read() {
    let times = "<creationtime>2010-02-01T18:35:47.866846222Z</creationtime>\
        <changetime>2010-02-01T18:35:47.866846222Z</changetime>\
        <modifytime>0001-02-01T18:35:47.866846222Z</modifytime>\
        <accesstime>9999-02-01T18:35:47.866846222Z</accesstime>\
        <backuptime>2010-02-01T18:35:47.866846222Z</backuptime>";
    let text = format!(
        "<ltfsindex version='2.2.0'><directory><readonly>false</readonly>{times}<contents>\
         <file><symlink>x</symlink>{times}<openforwrite>true</openforwrite><length>1</length>\
         <name><![CDATA[<e]]>\u{301}&amp;&#x41;</name><fileuid>2</fileuid></file></contents><name/>\
         <fileuid>1</fileuid></directory><highestfileuid>7</highestfileuid>\
         <dataplacementpolicy><indexpartitioncriteria><size>1</size>\
         </indexpartitioncriteria></dataplacementpolicy>\
         <allowpolicyupdate>true</allowpolicyupdate><generationnumber>1</generationnumber>\
         <creator>c</creator>\
         <updatetime>2010-02-01T18:35:47.866846222Z</updatetime><volumeuuid>{}</volumeuuid>\
         <location><startblock>6</startblock><partition>a</partition></location></ltfsindex>",
        crate::common::uuid()
    );
    let read = Index::parse(text.as_bytes(), BLOCK).unwrap();
    assert_eq!((read.tree.highest_uid(), read.previous, read.allow_policy_update), (FileUid(7), None, true));
    let Some(Entry::File(file)) = read.tree.lookup(&["<é&A"]) else { panic!("the name is normalised") };
    assert_eq!(file.symlink.as_deref(), Some("x"));
    assert_eq!(file.times.access, Timestamp(i64::MAX));
    assert_eq!(Index::parse(&read.encode(), BLOCK).unwrap().encode(), read.encode());
}

#[test]
fn the_deepest_tree_is_read_and_a_deeper_one_refused() {
    let mut tree = Tree::new("V", NOW);
    tree.insert_file(&vec!["d"; TREE_DEPTH_MAX], file(1, 4), NOW).unwrap();
    let deepest = index(tree);
    let text = unsealed(&deepest);
    assert_eq!(Index::parse(text.as_bytes(), BLOCK).unwrap(), deepest);
    let extra = text.replacen("<contents>", "<contents><directory><contents>", 1);
    assert!(matches!(Index::parse(extra.as_bytes(), BLOCK), Err(IndexError::TooDeep)));
    let bomb = format!("<ltfsindex version=\"2.4.0\">{}", "<a>".repeat(1_000_000));
    assert!(Index::parse(bomb.as_bytes(), BLOCK).unwrap_err().to_string().contains("deeper"));
}

#[test]
fn a_hundred_thousand_files_go_through() {
    let mut tree = Tree::new("V", NOW);
    for n in 0..100_000u64 {
        let path = [format!("d{}", n % 300), format!("file-{n}")];
        tree.insert_file(&path, file(1_000_000, 4 + 2 * n), NOW).unwrap();
    }
    let whole = index(tree);
    let start = std::time::Instant::now();
    let bytes = whole.encode();
    let encoded = start.elapsed();
    let read = Index::parse(&bytes, BLOCK).unwrap();
    println!("{} bytes, encode {encoded:?}, parse {:?}", bytes.len(), start.elapsed() - encoded);
    assert_eq!(read, whole);
}

fn any_file() -> impl Strategy<Value = File> {
    let xattrs = proptest::collection::btree_map(
        "[a-z.é:\n]{1,8}",
        proptest::collection::vec(any::<u8>(), 0..9),
        0..4,
    );
    (0u64..1 << 40, any::<[i32; 5]>(), any::<bool>(), xattrs, proptest::option::of("[a-z/:%\n]{0,9}"))
        .prop_map(|(length, times, read_only, xattrs, symlink)| {
            let [creation, change, modify, access, backup] =
                times.map(|t| Timestamp(i64::from(t) * 1_000_003));
            let length = if symlink.is_some() { 0 } else { length };
            File {
                times: Times { creation, change, modify, access, backup },
                read_only,
                xattrs: xattrs.into_iter().collect(),
                symlink,
                ..file(length, 77)
            }
        })
}

proptest! {
    #[test]
    fn indexes_round_trip(files in proptest::collection::vec(
        (proptest::collection::vec("[a-c %:&<>\\]é\n\u{7f}]{1,3}", 1..4), any_file()), 0..12)) {
        let mut tree = Tree::new(" a volume: 100% ", NOW);
        for (path, file) in files {
            let _ = tree.insert_file(&path, file, NOW);
        }
        let whole = index(tree);
        prop_assert_eq!(Index::parse(&whole.encode(), BLOCK).unwrap(), whole);
    }

    #[test]
    fn damaged_indexes_are_safe(at in any::<prop::sample::Index>(), with in any::<Vec<u8>>(),
                                cut in any::<prop::sample::Index>()) {
        let mut bytes = sample_index().encode();
        let at = at.index(bytes.len());
        let end = (at + with.len()).min(bytes.len());
        bytes.splice(at..end, with);
        let _ = Index::parse(&bytes, BLOCK);
        bytes.truncate(cut.index(bytes.len()));
        let _ = Index::parse(&bytes, BLOCK);
    }

    #[test]
    fn any_bytes_are_safe(bytes in any::<Vec<u8>>(), text in "[<>/a-f!?\\[\\]&;\"'= -]{0,80}") {
        let _ = Index::parse(&bytes, BLOCK);
        let _ = Index::parse(format!("<ltfsindex version=\"2.4.0\">{text}").as_bytes(), BLOCK);
    }
}
