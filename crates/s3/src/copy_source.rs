//! What a copy copies. s3s holds the names of buckets to S3's rules here; any directory of the root is one.

use http::request::Parts;
use http::{Extensions, HeaderValue};
use s3s::{S3Result, s3_error};

use crate::keys::{self, Place};
use crate::known::COPY_SOURCE;
use crate::percent;

/// What s3s reads instead of the header.
const STAND_IN: HeaderValue = HeaderValue::from_static("bucket/key");
/// What begins the version in the header.
const VERSION: &str = "?versionId=";

/// What the header names.
#[derive(Clone, PartialEq, Eq, Debug)]
struct Source {
    bucket: String,
    key: String,
    version: Option<String>,
}

impl Source {
    /// `/BUCKET/KEY`, encoded as an address is, and perhaps a version.
    fn parse(value: &str) -> S3Result<Source> {
        let (path, version) = match value.split_once(VERSION) {
            Some((path, version)) => (path, Some(version)),
            None => (value, None),
        };
        let decode = |text| {
            percent::decode(text).ok_or_else(|| s3_error!(InvalidArgument, "{COPY_SOURCE} cannot be decoded"))
        };
        let path = decode(path)?;
        let path = path.strip_prefix('/').unwrap_or(&path);
        if path.starts_with("arn:") {
            return Err(s3_error!(NotImplemented, "the source of a copy is named by bucket and key here"));
        }
        let (bucket, key) = path.split_once('/').ok_or_else(|| {
            s3_error!(InvalidArgument, "{COPY_SOURCE} names a bucket and a key: BUCKET/KEY")
        })?;
        let version = version.map(decode).transpose()?;
        Ok(Source { bucket: bucket.to_owned(), key: key.to_owned(), version })
    }
}

/// Reads the header of a copy before s3s does.
///
/// # Errors
/// `InvalidArgument`; `NotImplemented` for access points.
pub(crate) fn take(parts: &mut Parts) -> S3Result<()> {
    let Some(value) = parts.headers.get(COPY_SOURCE) else { return Ok(()) };
    let text = std::str::from_utf8(value.as_bytes());
    let text = text.map_err(|_| s3_error!(InvalidArgument, "{COPY_SOURCE} is not text"))?;
    let source = Source::parse(text)?;
    parts.extensions.insert(source);
    parts.headers.insert(COPY_SOURCE, STAND_IN);
    Ok(())
}

/// What a request copies, and which version of it.
///
/// # Errors
/// As [`keys::place`].
pub(crate) fn of(extensions: &Extensions) -> S3Result<(Place, Option<String>)> {
    let source = extensions.get::<Source>();
    let Source { bucket, key, version } =
        source.ok_or_else(|| s3_error!(InvalidArgument, "{COPY_SOURCE} is missing"))?;
    Ok((keys::place(bucket, key)?, version.clone()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sources_are_a_bucket_a_key_and_perhaps_a_version() {
        let read = |text: &str| Source::parse(text).map_err(|error| error.code().as_str().to_owned());
        let source = |bucket: &str, key: &str, version: Option<&str>| {
            Ok(Source { bucket: bucket.into(), key: key.into(), version: version.map(str::to_owned) })
        };
        assert_eq!(read("/b-1/d/a%20b"), source("b-1", "d/a b", None));
        assert_eq!(read("b-1%2Fk?versionId=00%30"), source("b-1", "k", Some("000")));
        assert_eq!(read("sh/a+b"), source("sh", "a+b", None));
        assert_eq!(read("/Run_7/k?foo=1"), source("Run_7", "k?foo=1", None));
        for (bad, code) in [
            ("", "InvalidArgument"),
            ("/b-1", "InvalidArgument"),
            ("b-1/%FF", "InvalidArgument"),
            ("arn:aws:s3:us-east-1:123456789012:accesspoint/a/object/k", "NotImplemented"),
        ] {
            assert_eq!(read(bad), Err(code.to_owned()), "{bad}");
        }
    }
}
