//! The hash behind an index. LTFS gives an index no checksum, and XML with one flipped bit may still be XML:
//! a file without an attribute, under another name, at another block. Kist writes a hash of all bytes before
//! it as a comment behind the root element, which other programs skip and do not keep.

use base::Blake3;

use crate::index::IndexError;

const HEAD: &[u8] = b"<!-- kist blake3 ";
const TAIL: &[u8] = b" -->\n";
const DIGITS: usize = 64;

/// Puts the hash behind a document.
pub(crate) fn seal(document: &mut Vec<u8>) {
    let hash = Blake3::of(document).to_string();
    document.extend_from_slice(HEAD);
    document.extend_from_slice(hash.as_bytes());
    document.extend_from_slice(TAIL);
}

/// Compares a document with the hash behind it. One without, of another program or an older Kist, passes.
pub(crate) fn check(bytes: &[u8]) -> Result<(), IndexError> {
    let hash = bytes.strip_suffix(TAIL).and_then(|bytes| bytes.split_last_chunk::<DIGITS>());
    let sealed = hash.and_then(|(bytes, hash)| Some((bytes.strip_suffix(HEAD)?, hash)));
    match sealed {
        Some((document, hash)) if Blake3::of(document).to_string().as_bytes() != hash => {
            Err(IndexError::Hash)
        }
        _ => Ok(()),
    }
}
