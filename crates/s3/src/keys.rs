//! Buckets, keys and versions of S3 and what they are in the archive.

use archive::Which;
use base::{ArchivePath, FileId, Name, NameError};
use s3s::{S3Result, s3_error};

/// The longest key, in bytes, as in S3.
pub(crate) const KEY_BYTES_MAX: usize = 1024;

/// A key and what it is in the archive.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Place {
    /// The bucket.
    pub bucket: Name,
    /// The file, or the directory of a key that ends with a slash.
    pub path: ArchivePath,
    /// Whether the key ends with a slash.
    pub is_directory: bool,
}

/// The name of a bucket.
pub(crate) fn bucket(name: &str) -> S3Result<Name> {
    match Name::new(name) {
        Ok(bucket) if name != ".kist" => Ok(bucket),
        _ => Err(s3_error!(InvalidBucketName, "'{name}' cannot be the name of a bucket")),
    }
}

/// The directory that a bucket is.
pub(crate) fn bucket_path(bucket: &Name) -> S3Result<ArchivePath> {
    ArchivePath::root()
        .join(bucket)
        .map_err(|error| s3_error!(InvalidBucketName, "'{bucket}' cannot be the name of a bucket: {error}"))
}

/// What a key of a bucket is in the archive.
///
/// # Errors
/// `KeyTooLongError`; `InvalidArgument` for a key that cannot be a path: one with `//`, with `.` or `..`
/// between slashes, a leading slash, a NUL, or more than 255 bytes between slashes.
pub(crate) fn place(bucket_name: &str, key: &str) -> S3Result<Place> {
    let bucket = bucket(bucket_name)?;
    if key.len() > KEY_BYTES_MAX {
        let bytes = key.len();
        return Err(s3_error!(KeyTooLongError, "the key has {bytes} bytes; the limit is {KEY_BYTES_MAX}"));
    }
    let (name, is_directory) = match key.strip_suffix('/') {
        Some(name) => (name, true),
        None => (key, false),
    };
    let path = ArchivePath::new(&format!("/{bucket}/{name}")).map_err(|error| {
        let why = match error {
            NameError::EmptyComponent(_) => "it begins with '/' or has '//' in it".to_owned(),
            error => error.to_string(),
        };
        s3_error!(InvalidArgument, "the key '{key}' cannot be stored, since keys are paths here: {why}")
    })?;
    Ok(Place { bucket, path, is_directory })
}

/// The version that a request means.
///
/// # Errors
/// `InvalidArgument` if it is none of ours: `null` or 16 hexadecimal digits.
pub(crate) fn which(version: Option<&str>) -> S3Result<Which> {
    let digits = match version {
        None => return Ok(Which::Current),
        Some("null") => return Ok(Which::Null),
        Some(digits) => digits,
    };
    let lower = |byte: u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte);
    if digits.len() == 16
        && digits.bytes().all(lower)
        && let Ok(number) = u64::from_str_radix(digits, 16)
    {
        return Ok(Which::Version(FileId(number)));
    }
    Err(s3_error!(InvalidArgument, "'{digits}' is not the id of a version"))
}

/// The id of a version, for answers.
pub(crate) fn version_text(file: FileId, is_null: bool) -> String {
    if is_null { "null".to_owned() } else { format!("{:016x}", file.0) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_a_path_within_its_bucket() {
        let at = |key: &str| place("b-1", key).map(|p| (p.path.as_str().to_owned(), p.is_directory));
        assert_eq!(at("a").unwrap(), ("/b-1/a".into(), false));
        assert_eq!(at("a/b c/ü").unwrap(), ("/b-1/a/b c/ü".into(), false));
        assert_eq!(at("a/b/").unwrap(), ("/b-1/a/b".into(), true));
        let long = "x".repeat(256);
        for bad in ["/a", "a//b", "a/../b", ".", "..", "a/.", "a\0b", "a//", "/", long.as_str()] {
            let error = place("b-1", bad).expect_err(bad);
            assert_eq!(error.code().as_str(), "InvalidArgument", "{bad}");
        }
        let longer = "a/".repeat(512) + "b";
        assert_eq!(place("b-1", &longer).expect_err("long").code().as_str(), "KeyTooLongError");
        for bad in [".kist", "", "a/b", ".."] {
            assert_eq!(place(bad, "k").expect_err(bad).code().as_str(), "InvalidBucketName", "{bad}");
        }
    }

    #[test]
    fn a_version_is_null_or_16_digits() {
        assert_eq!(which(None).unwrap(), Which::Current);
        assert_eq!(which(Some("null")).unwrap(), Which::Null);
        assert_eq!(which(Some("00000000000000ff")).unwrap(), Which::Version(FileId(255)));
        assert_eq!(version_text(FileId(255), false), "00000000000000ff");
        assert_eq!(version_text(FileId(255), true), "null");
        for bad in ["", "0", "00000000000000FF", "+0000000000000ff", "00000000000000fff", "NULL"] {
            assert!(which(Some(bad)).is_err(), "{bad}");
        }
    }
}
