//! How paths of the archive become paths on tape.
//!
//! Every component is normalised to NFC. Its control characters, and those that XML or LTFS programs do not
//! take in a name (U+FEFF, U+FFFE, U+FFFF), are written as `%XX`, one for each UTF-8 byte: an index could
//! hold them percent-encoded, but programs check the name after decoding, and refuse the whole volume for
//! one. A `%` that two hexadecimal digits follow is written as `%25`, any other `%` stays: so ordinary names
//! stay as they are, and decoding every `%XX` gives back the NFC name. Where an accent would join the last
//! digit of an escape before it, all characters of the component that are not ASCII are escaped too. A file
//! whose name is taken on the volume, or does not fit into 255 bytes, gets the suffix `~<file id>` (decimal)
//! behind as much of its name as fits. A directory that does not fit gets `~` and eight hexadecimal digits,
//! the CRC-32C of its exact name. The exact bytes of the archive path stand in the extended attribute
//! [`XATTR_PATH`], which alone decides when a catalogue is rebuilt.

use base::{ArchivePath, ByteCount, ContainerId, Crc32c, FileId};
use unicode_normalization::{UnicodeNormalization, is_nfc};

use crate::changes::ChangeNumber;
use crate::text::push_encoded;
use crate::tree::TAPE_NAME_BYTES_MAX;
use crate::tree::{File, InsertError, Tree};

/// The directory of Kist's own files on a volume.
pub const KIST_DIRECTORY: &str = ".kist";

/// The file's id, decimal.
pub const XATTR_FILE_ID: &str = "kist.file_id";
/// The exact archive path, byte for byte.
pub const XATTR_PATH: &str = "kist.path";
/// The name of the storage class.
pub const XATTR_CLASS: &str = "kist.class";
/// The container's id, decimal.
pub const XATTR_CONTAINER: &str = "kist.container";
/// Adler-32 of the content, 8 hexadecimal digits. LTFS has no standard attribute for it.
pub const XATTR_ADLER32: &str = "kist.adler32";
/// CRC-32C of the content, 8 hexadecimal digits. Not `ltfs.hash.crc32sum`, which is another polynomial.
pub const XATTR_CRC32C: &str = "kist.crc32c";
/// BLAKE3 of the content, 64 hexadecimal digits.
pub const XATTR_BLAKE3: &str = "kist.blake3";
/// Of a part of a file that is larger than a tape: where it begins in the file, decimal.
pub const XATTR_SEGMENT_OFFSET: &str = "kist.segment_offset";
/// Which part that is, from 1 on, decimal.
pub const XATTR_SEGMENT_NUMBER: &str = "kist.segment_number";
/// The size of the whole file, decimal. Parts have this and the next three in place of [`XATTR_BLAKE3`].
pub const XATTR_FILE_SIZE: &str = "kist.file_size";
/// Adler-32 of the whole file.
pub const XATTR_FILE_ADLER32: &str = "kist.file_adler32";
/// CRC-32C of the whole file.
pub const XATTR_FILE_CRC32C: &str = "kist.file_crc32c";
/// BLAKE3 of the whole file.
pub const XATTR_FILE_BLAKE3: &str = "kist.file_blake3";
/// The user's modification time, nanoseconds since 1970 UTC, decimal.
pub const XATTR_MTIME: &str = "kist.mtime";
/// The user's permission bits, octal.
pub const XATTR_MODE: &str = "kist.mode";
/// The name of the owner.
pub const XATTR_OWNER: &str = "kist.owner";
/// The name of the group.
pub const XATTR_GROUP: &str = "kist.group";

/// The path on tape of a file: one name for each component of `path`, each NFC and at most 255 bytes.
/// `collides` says that the plain path is taken on the volume.
#[must_use]
pub fn tape_path(path: &ArchivePath, file: FileId, collides: bool) -> Vec<String> {
    let count = path.components().count();
    path.components()
        .enumerate()
        .map(|(at, component)| {
            let name = encode(component);
            let is_file = at + 1 == count;
            if is_file && (collides || name.len() > TAPE_NAME_BYTES_MAX) {
                with_suffix(&name, &format!("~{file}"))
            } else if name.len() > TAPE_NAME_BYTES_MAX {
                with_suffix(&name, &format!("~{}", Crc32c::of(component.as_bytes())))
            } else {
                name
            }
        })
        .collect()
}

/// The path on tape of a part of a file that is larger than a tape: that of the file, its name with
/// `~<file id>.part-` and the offset behind it, 20 digits, so that the parts of one version stand behind each
/// other in the order of their names.
#[must_use]
pub fn segment_path(path: &ArchivePath, file: FileId, offset: ByteCount) -> Vec<String> {
    let mut names = tape_path(path, file, false);
    if let (Some(name), Some(component)) = (names.last_mut(), path.components().last()) {
        *name = with_suffix(&encode(component), &format!("~{file}{}", part_suffix(offset)));
    }
    names
}

fn part_suffix(offset: ByteCount) -> String {
    format!(".part-{:020}", offset.0)
}

/// The path at which a volume can take a part of a file: its own, or below Kist's directory if a directory on
/// the way is a file of the same volume.
///
/// # Errors
/// If even that is taken: the same part stands on the volume already.
pub fn free_segment_path(
    tree: &Tree,
    path: &ArchivePath,
    file: FileId,
    offset: ByteCount,
) -> Result<Vec<String>, InsertError> {
    let plain = segment_path(path, file, offset);
    if tree.check(&plain).is_ok() {
        return Ok(plain);
    }
    let mut fallback = fallback_path(file);
    if let Some(name) = fallback.last_mut() {
        name.push_str(&part_suffix(offset));
    }
    tree.check(&fallback).map(|()| fallback)
}

/// The path of a file that has no place under its own: `.kist/files/<16 hexadecimal digits of the file id>`.
/// Needed when a directory on the way is a file of the same volume.
#[must_use]
pub fn fallback_path(file: FileId) -> Vec<String> {
    vec![KIST_DIRECTORY.to_owned(), "files".to_owned(), format!("{:016x}", file.0)]
}

/// The path at which a volume can take a file: its own, the one with the suffix, or the fallback.
///
/// # Errors
/// If even the fallback is taken: the same file stands on the volume already.
pub fn free_path(tree: &Tree, path: &ArchivePath, file: FileId) -> Result<Vec<String>, InsertError> {
    let plain = tape_path(path, file, false);
    if tree.check(&plain).is_ok() {
        return Ok(plain);
    }
    let suffixed = tape_path(path, file, true);
    if tree.check(&suffixed).is_ok() {
        return Ok(suffixed);
    }
    let fallback = fallback_path(file);
    tree.check(&fallback).map(|()| fallback)
}

/// The path of a pack: `.kist/packs/<16 hexadecimal digits of the container id>.tar`.
#[must_use]
pub fn pack_path(container: ContainerId) -> Vec<String> {
    vec![KIST_DIRECTORY.to_owned(), "packs".to_owned(), format!("{:016x}.tar", container.0)]
}

/// The container that an entry of an index holds, if it says so.
#[must_use]
pub fn container_of(file: &File) -> Option<ContainerId> {
    let (_, value) = file.xattrs.iter().find(|(key, _)| key == XATTR_CONTAINER)?;
    Some(ContainerId(std::str::from_utf8(value).ok()?.parse().ok()?))
}

/// The path of a change-log segment: `.kist/changes/<first>-<last>.kcl`, 20 decimal digits each.
#[must_use]
pub fn changes_path(first: ChangeNumber, last: ChangeNumber) -> Vec<String> {
    vec![KIST_DIRECTORY.to_owned(), "changes".to_owned(), format!("{:020}-{:020}.kcl", first.0, last.0)]
}

/// What [`changes_path`] says: the first and the last change; `None` for any other path.
#[must_use]
pub fn parse_changes_path(path: &[&str]) -> Option<(ChangeNumber, ChangeNumber)> {
    let [directory, "changes", name] = path else { return None };
    let (first, last) = name.strip_suffix(".kcl")?.split_once('-')?;
    let is_number = |text: &str| text.len() == 20 && text.bytes().all(|b| b.is_ascii_digit());
    let fits = *directory == KIST_DIRECTORY && is_number(first) && is_number(last);
    let found = (ChangeNumber(first.parse().ok()?), ChangeNumber(last.parse().ok()?));
    fits.then_some(found)
}

/// The path of a part of a base: `.kist/base/<change>-<part>-<parts>.kcb`, 20 decimal digits for the newest
/// change that it holds, 6 each for the part, from 1 on, and how many there are.
#[must_use]
pub fn base_path(change: ChangeNumber, part: u32, parts: u32) -> Vec<String> {
    let name = format!("{:020}-{part:06}-{parts:06}.kcb", change.0);
    vec![KIST_DIRECTORY.to_owned(), "base".to_owned(), name]
}

/// What [`base_path`] says: the change, the part, how many parts there are; `None` for any other path.
#[must_use]
pub fn parse_base_path(path: &[&str]) -> Option<(ChangeNumber, u32, u32)> {
    let [directory, "base", name] = path else { return None };
    let (change, rest) = name.strip_suffix(".kcb")?.split_once('-')?;
    let (part, parts) = rest.split_once('-')?;
    let is_number = |text: &str, digits| text.len() == digits && text.bytes().all(|b| b.is_ascii_digit());
    let fits =
        *directory == KIST_DIRECTORY && is_number(change, 20) && is_number(part, 6) && is_number(parts, 6);
    let found = (ChangeNumber(change.parse().ok()?), part.parse().ok()?, parts.parse().ok()?);
    (fits && (1..=found.2).contains(&found.1)).then_some(found)
}

/// One component as it stands on tape, before it is cut.
fn encode(component: &str) -> String {
    let plain = encode_where(component, is_refused);
    if is_nfc(&plain) {
        return plain;
    }
    // An accent behind an escape would join its last digit: `%0A` and an acute accent are not NFC.
    encode_where(component, |c| is_refused(c) || !c.is_ascii())
}

/// Whether a name with this character is taken by some LTFS program for no name: control characters (the
/// reference implementation refuses U+001F, Windows all of them), the two code points that XML 1.0 leaves
/// out, and the byte order mark. All other characters of Rust are characters of XML.
fn is_refused(c: char) -> bool {
    c.is_control() || matches!(c, '\u{feff}' | '\u{fffe}' | '\u{ffff}')
}

fn encode_where(component: &str, needs: impl Fn(char) -> bool) -> String {
    let mut out = String::with_capacity(component.len() + 8);
    let mut rest = component.nfc().peekable();
    while let Some(c) = rest.next() {
        if needs(c) {
            push_encoded(&mut out, c);
            continue;
        }
        out.push(c);
        if c == '%' {
            let mut ahead = rest.clone();
            let digit = |c: Option<char>| c.is_some_and(|c| c.is_ascii_hexdigit());
            if digit(ahead.next()) && digit(ahead.next()) {
                out.push_str("25");
            }
        }
    }
    out
}

/// As much of `name` as leaves room for `suffix` within the limit, cut between characters and escapes, and
/// `suffix`.
fn with_suffix(name: &str, suffix: &str) -> String {
    let room = TAPE_NAME_BYTES_MAX.saturating_sub(suffix.len());
    let mut cut = name.floor_char_boundary(room.min(name.len()));
    if cut < name.len() {
        // A cut escape would be a '%' of its own. An escape is three ASCII bytes.
        let tail = name.get(cut.saturating_sub(2)..cut).unwrap_or_default();
        if let Some(at) = tail.rfind('%') {
            cut -= tail.len() - at;
        }
    }
    // Cutting can separate what NFC had no need to compose, never the reverse: a prefix of an NFC text is
    // NFC.
    format!("{}{suffix}", name.get(..cut).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::text::percent_decode;
    use proptest::prelude::*;

    fn one(component: &str, collides: bool) -> String {
        let path = ArchivePath::new(&format!("/{component}")).unwrap();
        tape_path(&path, FileId(4711), collides).remove(0)
    }

    #[test]
    fn names_on_tape() {
        for (name, collides, expect) in [
            ("plain.dat", false, "plain.dat"),
            ("plain.dat", true, "plain.dat~4711"),
            ("100%", false, "100%"),
            ("100%25", false, "100%2525"),
            ("a%zz", false, "a%zz"),
            ("a\nb", false, "a%0Ab"),
            ("a\u{85}", false, "a%C2%85"),
            ("a\u{fffe}", false, "a%EF%BF%BE"),
            ("\u{feff}a", false, "%EF%BB%BFa"),
            ("a%EF%BF%BE", false, "a%25EF%25BF%25BE"),
            ("e\u{301}", false, "\u{e9}"),
            ("\n\u{301}é", false, "%0A%CC%81%C3%A9"),
        ] {
            assert_eq!(one(name, collides), expect);
        }
        let long = "ä".repeat(127) + "x";
        assert_eq!(one(&long, false), long);
        assert_eq!(one(&long, true), "ä".repeat(125) + "~4711");
        let controls = "\u{1}".repeat(255);
        assert_eq!(one(&controls, false), "%01".repeat(83) + "~4711");
        let path = ArchivePath::new(&format!("/{controls}/x")).unwrap();
        let directory = &tape_path(&path, FileId(1), false)[0];
        assert_eq!(directory, &("%01".repeat(82) + "~" + &Crc32c::of(controls.as_bytes()).to_string()));
        assert_eq!(fallback_path(FileId(255)).join("/"), ".kist/files/00000000000000ff");
        assert_eq!(pack_path(ContainerId(255)).join("/"), ".kist/packs/00000000000000ff.tar");
        let path = changes_path(ChangeNumber(1), ChangeNumber(12));
        let parts: Vec<&str> = path.iter().map(String::as_str).collect();
        assert_eq!(parse_changes_path(&parts), Some((ChangeNumber(1), ChangeNumber(12))));
        assert_eq!(parse_changes_path(&[parts[0], parts[1], "1-12.kcl"]), None);
        let changes = path.join("/");
        assert_eq!(changes, ".kist/changes/00000000000000000001-00000000000000000012.kcl");
        let base = base_path(ChangeNumber(12), 2, 3);
        assert_eq!(base.join("/"), ".kist/base/00000000000000000012-000002-000003.kcb");
        let parse = |path: &[&str]| parse_base_path(path);
        assert_eq!(parse(&[".kist", "base", &base[2]]), Some((ChangeNumber(12), 2, 3)));
        for other in ["00000000000000000012-000004-000003.kcb", "12-000001-000003.kcb", "a-b-c.kcb", "+"] {
            assert_eq!(parse(&[".kist", "base", other]), None);
        }
        assert_eq!(parse(&["kist", "base", &base[2]]), None);
    }

    #[test]
    fn names_of_parts() {
        let name = |component: &str, offset| {
            let path = ArchivePath::new(&format!("/d/{component}")).unwrap();
            segment_path(&path, FileId(4711), ByteCount(offset)).join("/")
        };
        assert_eq!(name("L2035.h5", 0), "d/L2035.h5~4711.part-00000000000000000000");
        assert_eq!(name("L2035.h5", 1 << 40), "d/L2035.h5~4711.part-00000001099511627776");
        let (long, offset) = ("ä".repeat(127), "~4711.part-18446744073709551615");
        assert_eq!(name(&long, u64::MAX), format!("d/{}{offset}", "ä".repeat(112)));
    }

    proptest! {
        #[test]
        fn every_path_fits_and_can_be_read_back(
            parts in proptest::collection::vec(
                "[a-f0-9%~é\u{1}\n\u{301}\u{85}\u{feff}\u{fffe}\u{ffff}]{1,80}", 1..4),
            collides in any::<bool>(),
        ) {
            let Ok(path) = ArchivePath::new(&format!("/{}", parts.join("/"))) else { return Ok(()) };
            let tree = Tree::new("KS0001", base::Timestamp(0));
            let names = tape_path(&path, FileId(u64::MAX), collides);
            prop_assert!(tree.check(&names).is_ok());
            for (name, part) in names.iter().zip(&parts) {
                let nfc: String = part.nfc().collect();
                if !collides && encode(part).len() <= TAPE_NAME_BYTES_MAX {
                    prop_assert_eq!(decode_all(name), nfc);
                }
            }
        }
    }

    /// Decodes every escape and leaves any other '%'.
    fn decode_all(name: &str) -> String {
        let mut marked = String::new();
        for (at, c) in name.char_indices() {
            let escape =
                name.as_bytes().get(at + 1..at + 3).is_some_and(|d| d.iter().all(u8::is_ascii_hexdigit));
            if c == '%' && !escape {
                marked.push_str("%25");
            } else {
                marked.push(c);
            }
        }
        percent_decode(&marked).unwrap()
    }
}
