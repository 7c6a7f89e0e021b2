//! Listings of the objects of a bucket.

use archive::{KeyLine, KeyPage, KeyQuery, ObjectLine};
use s3s::dto::*;
use s3s::{S3Request, S3Response, S3Result, s3_error};

use crate::answers::{absent, algorithms, bucket, listed_class, owner, restore_status, sums, timestamp};
use crate::context::Context;
use crate::keys::{self, Place};
use base::base64;

use crate::{etag, percent};

/// Most lines of a page, as in S3.
const KEYS_MAX: i32 = 1000;

/// A listing, whatever version of the operation asks for it.
struct Asked {
    bucket: String,
    prefix: Option<String>,
    delimiter: Option<String>,
    after: String,
    limit: usize,
    owner: bool,
    restore: bool,
    url: bool,
}

/// What is listed.
struct Page {
    contents: Vec<Object>,
    prefixes: Vec<CommonPrefix>,
    next: Option<String>,
}

pub(crate) fn limit(asked: Option<i32>) -> S3Result<usize> {
    let asked = asked.unwrap_or(KEYS_MAX).min(KEYS_MAX);
    usize::try_from(asked).map_err(|_| s3_error!(InvalidArgument, "max-keys is negative"))
}

/// Whether names are to be encoded.
///
/// # Errors
/// `InvalidArgument` for another encoding than `url`.
pub(crate) fn url(encoding: Option<&EncodingType>) -> S3Result<bool> {
    match encoding.map(EncodingType::as_str) {
        None | Some("") => Ok(false),
        Some("url") => Ok(true),
        Some(_) => Err(s3_error!(InvalidArgument, "encoding-type can only be url")),
    }
}

/// A name as an answer says it.
pub(crate) fn said(name: String, url: bool) -> String {
    if url { percent::encode_key(&name) } else { name }
}

/// Whether a listing is to say what is restored.
///
/// # Errors
/// `InvalidArgument` for any other attribute.
pub(crate) fn wants_restore(attributes: Option<&OptionalObjectAttributesList>) -> S3Result<bool> {
    // One header may name several, which s3s does not take apart.
    let names = attributes.into_iter().flatten().flat_map(|names| names.as_str().split(',')).map(str::trim);
    let mut wants = false;
    for name in names.filter(|name| !name.is_empty()) {
        if name != "RestoreStatus" {
            return Err(s3_error!(InvalidArgument, "a listing has no optional attribute '{name}'"));
        }
        wants = true;
    }
    Ok(wants)
}

impl Asked {
    async fn page(self, cx: &Context, extensions: &http::Extensions) -> S3Result<Page> {
        let name = keys::bucket(&self.bucket)?;
        let path = keys::bucket_path(&name)?;
        let place = Place { bucket: name.clone(), path: path.clone(), is_directory: true };
        let query = KeyQuery {
            bucket: path,
            prefix: self.prefix.clone().unwrap_or_default(),
            delimiter: self.delimiter.clone().filter(|delimiter| !delimiter.is_empty()),
            after: self.after.clone(),
            limit: self.limit,
        };
        let page = cx
            .call(extensions, move |guest| {
                bucket(guest, &name)?;
                if query.limit == 0 {
                    return Ok(KeyPage::default());
                }
                guest.engine.list_keys(&query).map_err(|error| absent(guest, &place, None, error))
            })
            .await?;
        Ok(self.said(cx, page))
    }

    fn said(&self, cx: &Context, page: KeyPage) -> Page {
        let mut said_page = Page { contents: Vec::new(), prefixes: Vec::new(), next: page.next };
        for line in page.lines {
            match line {
                KeyLine::Prefix(prefix) => {
                    said_page.prefixes.push(CommonPrefix { prefix: Some(said(prefix, self.url)) });
                }
                KeyLine::Object(line) if line.is_marker => {}
                KeyLine::Object(line) => said_page.contents.push(self.object(cx, *line)),
            }
        }
        said_page
    }

    fn object(&self, cx: &Context, line: ObjectLine) -> Object {
        let sums = sums(&line.attributes);
        Object {
            checksum_algorithm: algorithms(&sums),
            checksum_type: sums.checksum_type,
            e_tag: Some(ETag::Strong(etag::of_line(&line))),
            last_modified: Some(timestamp(line.created)),
            owner: self.owner.then(|| owner(&line.attributes.owner)),
            restore_status: if self.restore { restore_status(line.restore) } else { None },
            size: i64::try_from(line.size.0).ok(),
            storage_class: Some(listed_class(&cx.settings, &line.class, line.locality)),
            key: Some(said(line.key, self.url)),
        }
    }
}

pub(crate) async fn list_objects(
    cx: &Context,
    req: S3Request<ListObjectsInput>,
) -> S3Result<S3Response<ListObjectsOutput>> {
    let input = req.input;
    let limit = limit(input.max_keys)?;
    let asked = Asked {
        bucket: input.bucket.clone(),
        prefix: input.prefix.clone(),
        delimiter: input.delimiter.clone(),
        after: input.marker.clone().unwrap_or_default(),
        limit,
        owner: true,
        restore: wants_restore(input.optional_object_attributes.as_ref())?,
        url: url(input.encoding_type.as_ref())?,
    };
    let url = asked.url;
    let page = asked.page(cx, &req.extensions).await?;
    let spoken = |name: Option<String>| name.map(|name| said(name, url));
    let output = ListObjectsOutput {
        name: Some(input.bucket),
        prefix: Some(said(input.prefix.unwrap_or_default(), url)),
        marker: Some(said(input.marker.unwrap_or_default(), url)),
        max_keys: i32::try_from(limit).ok(),
        is_truncated: Some(page.next.is_some()),
        next_marker: spoken(page.next),
        contents: Some(page.contents),
        common_prefixes: Some(page.prefixes),
        delimiter: spoken(input.delimiter),
        encoding_type: input.encoding_type,
        request_charged: None,
    };
    Ok(S3Response::new(output))
}

pub(crate) async fn list_objects_v2(
    cx: &Context,
    req: S3Request<ListObjectsV2Input>,
) -> S3Result<S3Response<ListObjectsV2Output>> {
    let input = req.input;
    let limit = limit(input.max_keys)?;
    let asked = Asked {
        bucket: input.bucket.clone(),
        prefix: input.prefix.clone(),
        delimiter: input.delimiter.clone(),
        after: match &input.continuation_token {
            Some(token) => behind(token)?,
            None => input.start_after.clone().unwrap_or_default(),
        },
        limit,
        owner: input.fetch_owner == Some(true),
        restore: wants_restore(input.optional_object_attributes.as_ref())?,
        url: url(input.encoding_type.as_ref())?,
    };
    let url = asked.url;
    let page = asked.page(cx, &req.extensions).await?;
    let spoken = |name: Option<String>| name.map(|name| said(name, url));
    let output = ListObjectsV2Output {
        name: Some(input.bucket),
        prefix: Some(said(input.prefix.unwrap_or_default(), url)),
        max_keys: i32::try_from(limit).ok(),
        key_count: i32::try_from(page.contents.len() + page.prefixes.len()).ok(),
        continuation_token: input.continuation_token,
        is_truncated: Some(page.next.is_some()),
        next_continuation_token: page.next.map(|next| base64::encode(next.as_bytes())),
        contents: Some(page.contents),
        common_prefixes: Some(page.prefixes),
        delimiter: spoken(input.delimiter),
        encoding_type: input.encoding_type,
        start_after: spoken(input.start_after),
        request_charged: None,
    };
    Ok(S3Response::new(output))
}

/// Behind which key a continuation token goes on.
fn behind(token: &str) -> S3Result<String> {
    let bytes = base64::decode(token).filter(|bytes| bytes.len() <= 2 * keys::KEY_BYTES_MAX);
    let key = bytes.and_then(|bytes| String::from_utf8(bytes).ok());
    key.ok_or_else(|| s3_error!(InvalidArgument, "the continuation token is none of ours"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_encodings_and_tokens_are_checked() {
        assert_eq!(limit(None).unwrap(), 1000);
        assert_eq!(limit(Some(0)).unwrap(), 0);
        assert_eq!(limit(Some(5000)).unwrap(), 1000);
        assert!(limit(Some(-1)).is_err());
        assert!(url(Some(&EncodingType::from_static("url"))).unwrap());
        assert!(url(Some(&EncodingType::from_static("base64"))).is_err());
        assert_eq!(behind(&base64::encode("a/ü".as_bytes())).unwrap(), "a/ü");
        for bad in ["?", "Z", "//8="] {
            assert!(behind(bad).is_err(), "{bad}");
        }
        assert_eq!(said("a b/c+".to_owned(), true), "a%20b/c%2B");
    }
}
