//! ETags as S3 gives them.

use base::Blake3;
use catalogue::Attributes;
use s3s::dto::{ETag, ETagCondition};

use crate::metadata::{self, text};

/// The ETag of a file, without quotes: what its put left, else the beginning of its BLAKE3 in the form that
/// says "not an MD5".
pub(crate) fn value(attributes: &Attributes, blake3: &Blake3) -> String {
    text(attributes, metadata::ETAG).map_or_else(|| of_blake3(blake3), str::to_owned)
}

/// The ETag of a line of a listing. A key that ends with a slash is a directory, which has no bytes.
pub(crate) fn of_line(line: &archive::ObjectLine) -> String {
    if line.key.ends_with('/') {
        return crate::markers::EMPTY_MD5.to_owned();
    }
    value(&line.attributes, &line.blake3)
}

/// The ETag of a file whose MD5 nobody computed.
pub(crate) fn of_blake3(blake3: &Blake3) -> String {
    let digits = blake3.to_string();
    format!("{}-1", digits.get(..32).unwrap_or(&digits))
}

/// Whether a condition names this ETag. Ours are all strong; a weak one of the client's counts as equal only
/// where that cannot lose data (`If-None-Match` of a read).
pub(crate) fn names(condition: &ETagCondition, value: &str, weak: bool) -> bool {
    match condition {
        ETagCondition::Any => true,
        ETagCondition::ETag(ETag::Strong(tag)) => tag == value,
        ETagCondition::ETag(ETag::Weak(tag)) => weak && tag == value,
    }
}
