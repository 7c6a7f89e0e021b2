//! Names on tape by the strictest reading of the LTFS format specification: what the specification, XML 1.0,
//! the reference implementation or a vendor's manual refuses stands in no name. See docs/format/tape.md.

use std::collections::BTreeSet;

use crate::common::{NOW, file, index};
use base::{ArchivePath, FileId};
use ltfs::{BlockSize, Index, Tree, naming};
use proptest::prelude::*;
use unicode_normalization::is_nfc;

/// XML 1.0, production 2.
fn is_xml_char(c: char) -> bool {
    matches!(u32::from(c), 0x9 | 0xa | 0xd | 0x20..=0xd7ff | 0xe000..=0xfffd | 0x1_0000..=0x10_ffff)
}

/// What is wrong with a name, as a program sees it after decoding.
fn fault(name: &str) -> Option<String> {
    // LTFS counts code points, file systems count bytes.
    if !(1..=255).contains(&name.len()) {
        return Some(format!("{} bytes", name.len()));
    }
    if name == "." || name == ".." || name.contains('/') {
        return Some("a path".to_owned());
    }
    if !is_nfc(name) {
        return Some("not NFC".to_owned());
    }
    let refused = |c: &char| c.is_control() || *c == '\u{feff}' || !is_xml_char(*c);
    name.chars().find(refused).map(|c| format!("{c:?}"))
}

fn unescape(text: &str) -> String {
    text.replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&")
}

fn percent_decode(text: &str) -> String {
    let mut bytes = Vec::new();
    let mut rest = text.as_bytes();
    while let Some((first, tail)) = rest.split_first() {
        if *first == b'%' {
            bytes.push(u8::from_str_radix(std::str::from_utf8(&tail[..2]).unwrap(), 16).unwrap());
            rest = &tail[2..];
        } else {
            bytes.push(*first);
            rest = tail;
        }
    }
    String::from_utf8(bytes).unwrap()
}

/// All names of an index, decoded, by no more than that each stands in a line.
fn names(document: &str) -> Vec<String> {
    let mut found = Vec::new();
    for line in document.lines() {
        let Some(inside) = line.strip_suffix("</name>") else { continue };
        if let Some(plain) = inside.strip_prefix("<name>") {
            found.push(unescape(plain));
        } else if let Some(encoded) = inside.strip_prefix("<name percentencoded=\"true\">") {
            found.push(percent_decode(&unescape(encoded)));
        } else {
            panic!("{line}");
        }
    }
    found
}

/// Puts files of these paths on one volume, and looks at the index as others do.
fn check(paths: &[String]) {
    let mut tree = Tree::new("KS0001", NOW);
    let mut put = BTreeSet::new();
    for (path, id) in paths.iter().zip(1..) {
        let Ok(archive) = ArchivePath::new(path) else { continue };
        let on_tape = naming::free_path(&tree, &archive, FileId(id)).unwrap();
        for name in &on_tape {
            assert_eq!(fault(name), None, "{name:?} of {path:?}");
        }
        let mut file = file(id, 10 * id);
        file.xattrs = vec![(naming::XATTR_PATH.to_owned(), path.as_bytes().to_vec())];
        tree.insert_file(&on_tape, file, NOW).unwrap();
        assert!(put.insert(on_tape), "{path:?}");
    }
    let index = index(tree);
    let document = String::from_utf8(index.encode()).unwrap();
    let refused = document.chars().find(|c| (c.is_control() && *c != '\n') || !is_xml_char(*c));
    assert_eq!(refused, None, "{document}");
    for name in names(&document) {
        assert_eq!(fault(&name), None, "{name:?}");
    }
    let read = Index::parse(document.as_bytes(), BlockSize::DEFAULT).unwrap();
    assert_eq!(read, index);
    let exact = |(_, file): (_, &ltfs::File)| String::from_utf8(file.xattrs[0].1.clone()).unwrap();
    let exact: BTreeSet<String> = read.tree.iter().map(exact).collect();
    let expected = paths.iter().filter(|path| ArchivePath::new(path).is_ok()).cloned();
    assert_eq!(exact, expected.collect());
}

/// One file whose name held U+FFFE, outside of a pack, made LTFS programs that look at decoded names refuse
/// the whole tape.
#[test]
fn one_name_does_not_make_a_volume_unreadable_for_others() {
    for strange in
        ["\u{fffe}", "\u{ffff}", "\u{feff}", "\u{1f}", "\u{7f}", "\u{9f}", "\u{fdd0}", "\u{1fffe}", ":"]
    {
        check(&[
            format!("/d{strange}/a{strange}b"),
            format!("/{strange}"),
            format!("/{}", strange.repeat(60)),
        ]);
    }
}

/// A character: often one of those that mean something to somebody.
fn character() -> impl Strategy<Value = char> {
    let special = "\u{1}\t\n\r\u{1f}\u{7f}\u{85}\u{9f}\u{feff}\u{fffd}\u{fffe}\u{ffff}\u{fdd0}\
                   \u{1fffe}\u{10ffff}\
                   \u{301}\u{338}\u{2028}\u{200d}\u{ad}e=<>&'\"%:\\. 0aF~é\u{1100}\u{1161}\u{212b}";
    let special: Vec<char> = special.chars().collect();
    prop_oneof![3 => proptest::sample::select(special), 1 => any::<char>()]
}

fn component() -> impl Strategy<Value = String> {
    let characters = prop_oneof![8 => 1usize..6, 1 => 40usize..255];
    characters.prop_flat_map(|count| proptest::collection::vec(character(), count)).prop_map(|characters| {
        let text: String = characters.into_iter().collect();
        text[..text.floor_char_boundary(255)].to_owned()
    })
}

proptest! {
    #[test]
    fn arbitrary_names_are_names_of_ltfs(
        paths in proptest::collection::btree_set(
            proptest::collection::vec(component(), 1..3).prop_map(|parts| format!("/{}", parts.join("/"))),
            1..8)
    ) {
        check(&paths.into_iter().collect::<Vec<_>>());
    }
}
