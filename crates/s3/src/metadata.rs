//! What S3 keeps of an object beside its bytes, as extended attributes of the file.

use std::collections::BTreeMap;

use catalogue::Attributes;
use s3s::{S3Result, s3_error};

use crate::percent;

/// The MD5 or whatever else the ETag is, in hexadecimal without quotes.
pub(crate) const ETAG: &str = "kist.s3.etag";
/// Checksums, a line each: `crc64nvme=BASE64 full`, `sha256=BASE64 composite`.
pub(crate) const SUMS: &str = "kist.s3.sum";
/// Sizes of the parts of an object that was put in parts.
pub(crate) const PARTS: &str = "kist.s3.parts";
/// Checksums of those parts.
pub(crate) const PART_SUMS: &str = "kist.s3.part-sums";
/// Says `OFF` of a version whose legal hold was taken off, or never was on but asked for as off: one of which
/// nobody ever said anything has none, which S3 tells apart.
pub(crate) const LEGAL_HOLD: &str = "kist.s3.legal-hold";
/// A directory that was put as an object.
pub(crate) const MARKER: &str = "kist.s3.marker";
/// Before the name of a tag.
pub(crate) const TAG: &str = "kist.tag.";
/// Before the name of what a client keeps.
pub(crate) const META: &str = "user.meta.";
/// Content-Type.
pub(crate) const TYPE: &str = "user.mime_type";
/// Other headers that a GET gives back.
pub(crate) const CACHE_CONTROL: &str = "user.http.cache-control";
pub(crate) const DISPOSITION: &str = "user.http.content-disposition";
pub(crate) const ENCODING: &str = "user.http.content-encoding";
pub(crate) const LANGUAGE: &str = "user.http.content-language";
pub(crate) const EXPIRES: &str = "user.http.expires";

/// Metadata of one object, names and values together, as in S3.
const META_BYTES_MAX: usize = 2 << 10;
/// Tags of one object, as in S3.
pub(crate) const TAGS_MAX: usize = 10;
/// Tags of one bucket, as in S3.
pub(crate) const BUCKET_TAGS_MAX: usize = 50;
const TAG_KEY_CHARS_MAX: usize = 128;
const TAG_VALUE_CHARS_MAX: usize = 256;

/// Content-Type of an object that has none.
pub(crate) const TYPE_DEFAULT: &str = "binary/octet-stream";

/// The headers that an object keeps.
#[derive(Default)]
pub(crate) struct Kept<'a> {
    pub content_type: Option<&'a str>,
    pub cache_control: Option<&'a str>,
    pub disposition: Option<&'a str>,
    pub encoding: Option<&'a str>,
    pub language: Option<&'a str>,
    pub expires: Option<&'a str>,
    pub metadata: Option<&'a s3s::dto::Metadata>,
}

impl Kept<'_> {
    /// As extended attributes, in a fixed order.
    ///
    /// # Errors
    /// `MetadataTooLarge`.
    pub(crate) fn xattrs(&self) -> S3Result<Vec<(String, Vec<u8>)>> {
        let mut all = Vec::new();
        let headers = [
            (TYPE, self.content_type),
            (CACHE_CONTROL, self.cache_control),
            (DISPOSITION, self.disposition),
            (ENCODING, self.encoding),
            (LANGUAGE, self.language),
            (EXPIRES, self.expires),
        ];
        for (name, value) in headers {
            if let Some(value) = value.filter(|value| !value.is_empty()) {
                all.push((name.to_owned(), value.as_bytes().to_vec()));
            }
        }
        let sorted: BTreeMap<_, _> = self.metadata.into_iter().flatten().collect();
        let bytes: usize = sorted.iter().map(|(name, value)| name.len() + value.len()).sum();
        if bytes > META_BYTES_MAX {
            let limit = META_BYTES_MAX;
            return Err(s3_error!(MetadataTooLarge, "the metadata has {bytes} bytes; the limit is {limit}"));
        }
        all.extend(
            sorted.into_iter().map(|(name, value)| (format!("{META}{name}"), value.as_bytes().to_vec())),
        );
        Ok(all)
    }
}

/// An attribute that is text.
pub(crate) fn text<'a>(attributes: &'a Attributes, name: &str) -> Option<&'a str> {
    let (_, value) = attributes.xattrs.iter().find(|(known, _)| known == name)?;
    std::str::from_utf8(value).ok()
}

/// What a client keeps of an object.
pub(crate) fn metadata(attributes: &Attributes) -> Option<s3s::dto::Metadata> {
    let all: s3s::dto::Metadata = attributes
        .xattrs
        .iter()
        .filter_map(|(name, value)| {
            let name = name.strip_prefix(META)?;
            Some((name.to_owned(), String::from_utf8(value.clone()).ok()?))
        })
        .collect();
    (!all.is_empty()).then_some(all)
}

/// The tags among attributes, by key.
pub(crate) fn tags(attributes: &Attributes) -> Vec<(String, String)> {
    let mut tags: Vec<_> = attributes
        .xattrs
        .iter()
        .filter_map(|(name, value)| {
            let key = name.strip_prefix(TAG)?;
            Some((key.to_owned(), String::from_utf8_lossy(value).into_owned()))
        })
        .collect();
    tags.sort();
    tags
}

/// The tags of the header `x-amz-tagging`, which is written as a query is.
pub(crate) fn tags_of_header(header: &str) -> S3Result<Vec<(String, String)>> {
    let mut tags = Vec::new();
    for field in header.split('&').filter(|field| !field.is_empty()) {
        let (key, value) = field.split_once('=').unwrap_or((field, ""));
        let decoded = |text| {
            percent::decode_form(text).ok_or_else(|| {
                s3_error!(InvalidArgument, "the header x-amz-tagging is not encoded as a query")
            })
        };
        tags.push((decoded(key)?, decoded(value)?));
    }
    checked_tags(tags, TAGS_MAX)
}

/// Tags that are within the limits, each key once.
///
/// # Errors
/// `InvalidTag`.
pub(crate) fn checked_tags(mut tags: Vec<(String, String)>, most: usize) -> S3Result<Vec<(String, String)>> {
    if tags.len() > most {
        return Err(s3_error!(InvalidTag, "{} tags are too many: the limit is {most}", tags.len()));
    }
    tags.sort();
    if tags.windows(2).any(|pair| pair[0].0 == pair[1].0) {
        return Err(s3_error!(InvalidTag, "a key of a tag is given twice"));
    }
    for (key, value) in &tags {
        if key.is_empty() || key.chars().count() > TAG_KEY_CHARS_MAX {
            return Err(s3_error!(InvalidTag, "the key of a tag has 1 to {TAG_KEY_CHARS_MAX} characters"));
        }
        if value.chars().count() > TAG_VALUE_CHARS_MAX {
            return Err(s3_error!(
                InvalidTag,
                "the value of a tag has at most {TAG_VALUE_CHARS_MAX} characters"
            ));
        }
        let allowed = |c: char| c.is_alphanumeric() || " +-=._:/@".contains(c);
        if !key.chars().chain(value.chars()).all(allowed) {
            return Err(s3_error!(InvalidTag, "a tag has letters, digits, spaces and + - = . _ : / @ only"));
        }
        if key.starts_with("aws:") {
            return Err(s3_error!(InvalidTag, "keys of tags that begin with 'aws:' are reserved"));
        }
    }
    Ok(tags)
}

/// Tags as extended attributes.
pub(crate) fn tag_xattrs(tags: Vec<(String, String)>) -> impl Iterator<Item = (String, Vec<u8>)> {
    tags.into_iter().map(|(key, value)| (format!("{TAG}{key}"), value.into_bytes()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tags_are_checked() {
        let tags = tags_of_header("b=2&a=x%20y&c").unwrap();
        let pair = |k: &str, v: &str| (k.to_owned(), v.to_owned());
        assert_eq!(tags, [pair("a", "x y"), pair("b", "2"), pair("c", "")]);
        let many = (0..11).map(|n| format!("k{n}=v")).collect::<Vec<_>>().join("&");
        let long = format!("{}=v", "k".repeat(129));
        for bad in ["a=1&a=2", "=v", "aws:x=1", "a=%FF", "a=%0A", many.as_str(), long.as_str()] {
            assert!(tags_of_header(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn metadata_is_bounded_and_comes_back() {
        let metadata = s3s::dto::Metadata::from([("b".to_owned(), "2".to_owned()), ("a".into(), "1".into())]);
        let kept = Kept { content_type: Some("text/x"), metadata: Some(&metadata), ..Kept::default() };
        let attributes = Attributes { xattrs: kept.xattrs().unwrap(), ..Attributes::default() };
        let names: Vec<_> = attributes.xattrs.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(names, ["user.mime_type", "user.meta.a", "user.meta.b"]);
        assert_eq!(text(&attributes, TYPE), Some("text/x"));
        assert_eq!(super::metadata(&attributes), Some(metadata));
        let much = s3s::dto::Metadata::from([("a".to_owned(), "x".repeat(2048))]);
        let kept = Kept { metadata: Some(&much), ..Kept::default() };
        assert_eq!(kept.xattrs().expect_err("large").code().as_str(), "MetadataTooLarge");
    }
}
