//! The keys of a cluster, which are text without any escapes.

use bytes::Bytes;

/// Digits of the number of a block.
const BLOCK_DIGITS: usize = 10;
/// A file has fewer blocks: their numbers are `int` in libkineticio.
pub const BLOCKS_MAX: u32 = i32::MAX as u32;

/// The number of a block of a file, from 0.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct BlockNumber(pub u32);

fn joined(parts: &[&[u8]]) -> Bytes {
    Bytes::from(parts.concat())
}

/// The key of a block of a file.
#[must_use]
pub fn data_key(cluster: &str, path: &[u8], block: BlockNumber) -> Bytes {
    joined(&[cluster.as_bytes(), b":data:", path, format!("_{:010}", block.0).as_bytes()])
}

/// The first and the last key that a block of a file can have, both inclusive. Blocks of other files may
/// stand between them, if one is named like a block of this one: [`block_number`] tells.
#[must_use]
pub fn data_range(cluster: &str, path: &[u8]) -> (Bytes, Bytes) {
    (data_key(cluster, path, BlockNumber(0)), data_key(cluster, path, BlockNumber(BLOCKS_MAX)))
}

/// The number of the block that this key is of, if it is one of this very file.
#[must_use]
pub fn block_number(cluster: &str, path: &[u8], key: &[u8]) -> Option<BlockNumber> {
    let rest = key.strip_prefix(cluster.as_bytes())?.strip_prefix(b":data:")?.strip_prefix(path)?;
    let digits = rest.strip_prefix(b"_").filter(|digits| digits.len() == BLOCK_DIGITS)?;
    let digits = std::str::from_utf8(digits).ok().filter(|d| d.bytes().all(|b| b.is_ascii_digit()))?;
    digits.parse().ok().filter(|number| *number <= BLOCKS_MAX).map(BlockNumber)
}

/// The key that says that a file exists; its value is empty.
#[must_use]
pub fn metadata_key(cluster: &str, path: &[u8]) -> Bytes {
    joined(&[cluster.as_bytes(), b":metadata:", path])
}

/// From which key, inclusive, to which one, exclusive, the metadata keys are of paths with this beginning.
#[must_use]
pub fn metadata_range(cluster: &str, beginning: &[u8]) -> (Bytes, Bytes) {
    let start = metadata_key(cluster, beginning);
    let end = after_prefix(&start);
    (start, end)
}

/// The path that a metadata key is of.
#[must_use]
pub fn metadata_path<'a>(cluster: &str, key: &'a [u8]) -> Option<&'a [u8]> {
    key.strip_prefix(cluster.as_bytes())?.strip_prefix(b":metadata:")
}

/// The key of an attribute of a file.
#[must_use]
pub fn attribute_key(cluster: &str, path: &[u8], name: &[u8]) -> Bytes {
    joined(&[cluster.as_bytes(), b":attribute:", path, b":", name])
}

/// From which key, inclusive, to which one, exclusive, the attributes of a file stand. Those of another file
/// are among them, if its path is this one, a colon and more: nothing in the keys tells them apart.
#[must_use]
pub fn attribute_range(cluster: &str, path: &[u8]) -> (Bytes, Bytes) {
    let start = attribute_key(cluster, path, b"");
    let end = after_prefix(&start);
    (start, end)
}

/// The name of the attribute that a key of this file's range is of.
#[must_use]
pub fn attribute_name<'a>(cluster: &str, path: &[u8], key: &'a [u8]) -> Option<&'a [u8]> {
    key.strip_prefix(attribute_key(cluster, path, b"").as_ref())
}

/// The key by which libkineticio marks one that is to be repaired.
#[must_use]
pub fn indicator_key(key: &[u8]) -> Bytes {
    joined(&[b"indicator:", key])
}

/// The key of a chunk that stands in for one that its own drive did not take.
#[must_use]
pub fn handoff_key(key: &[u8], version: &[u8], chunk: usize) -> Bytes {
    joined(&[b"handoff=", key, b"version=", version, b"chunk=", chunk.to_string().as_bytes()])
}

/// From which key, inclusive, to which one, exclusive, the stand-ins for chunks of a key are.
#[must_use]
pub fn handoff_range(key: &[u8]) -> (Bytes, Bytes) {
    let start = joined(&[b"handoff=", key, b"version="]);
    let end = after_prefix(&start);
    (start, end)
}

/// From which key, inclusive, to which one, exclusive, the stand-ins for chunks of any block of a file are.
#[must_use]
pub fn handoff_data_range(cluster: &str, path: &[u8]) -> (Bytes, Bytes) {
    let (first, last) = data_range(cluster, path);
    (handoff_range(&first).0, handoff_range(&last).1)
}

/// The number of the block that a stand-in for one of its chunks is of, if it is one of this very file.
#[must_use]
pub fn handoff_block(cluster: &str, path: &[u8], handoff: &[u8]) -> Option<BlockNumber> {
    let rest = handoff.strip_prefix(b"handoff=")?;
    let length = data_key(cluster, path, BlockNumber(0)).len();
    let (key, rest) = rest.split_at_checked(length)?;
    rest.starts_with(b"version=").then(|| block_number(cluster, path, key)).flatten()
}

/// The number of the chunk that a stand-in is for.
#[must_use]
pub fn handoff_chunk(handoff: &[u8]) -> Option<usize> {
    let place = handoff.iter().rposition(|byte| *byte == b'=')?;
    std::str::from_utf8(handoff.get(place + 1..)?).ok()?.parse().ok()
}

/// The lowest bytes above all that begin with these.
fn after_prefix(prefix: &[u8]) -> Bytes {
    let mut end = prefix.to_vec();
    while let Some(last) = end.pop() {
        if let Some(next) = last.checked_add(1) {
            end.push(next);
            break;
        }
    }
    Bytes::from(end)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_as_libkineticio_writes_them() {
        assert_eq!(data_key("C", b"a/b", BlockNumber(12)), "C:data:a/b_0000000012");
        assert_eq!(metadata_key("C", b"a/b"), "C:metadata:a/b");
        assert_eq!(attribute_key("C", b"a/b", b"sys.x"), "C:attribute:a/b:sys.x");
        assert_eq!(indicator_key(b"C:data:a_0000000000"), "indicator:C:data:a_0000000000");
        let handoff = handoff_key(b"C:data:a_0000000000", b"0000000001u=u", 17);
        assert_eq!(handoff, "handoff=C:data:a_0000000000version=0000000001u=uchunk=17");
        assert_eq!(handoff_chunk(&handoff), Some(17));
        assert_eq!(handoff_block("C", b"a", &handoff), Some(BlockNumber(0)));
        assert_eq!(handoff_block("C", b"", &handoff), None);
        let (start, end) = handoff_data_range("C", b"a");
        assert!(start <= handoff && handoff < end);
        let other = handoff_key(b"C:data:a_0000000000_0000000007", b"0000000001u=u", 1);
        assert_eq!(handoff_block("C", b"a", &other), None);
        assert_eq!(metadata_range("C", b"a"), ("C:metadata:a".into(), "C:metadata:b".into()));
        assert_eq!(after_prefix(b"a\xff\xff"), "b");
    }

    /// Blocks of a file whose name is that of a block stand among those of the other.
    #[test]
    fn a_block_is_of_one_file() {
        let number = |path: &[u8], key: &str| block_number("C", path, key.as_bytes()).map(|n| n.0);
        assert_eq!(number(b"a", "C:data:a_0000000003"), Some(3));
        assert_eq!(number(b"a", "C:data:a_0000000003_0000000000"), None);
        assert_eq!(number(b"a_0000000003", "C:data:a_0000000003_0000000000"), Some(0));
        for other in [
            "C:data:a_3",
            "C:data:b_0000000003",
            "D:data:a_0000000003",
            "C:data:a_+000000003",
            "C:data:a_9999999999",
        ] {
            assert_eq!(number(b"a", other), None, "{other}");
        }
    }
}
