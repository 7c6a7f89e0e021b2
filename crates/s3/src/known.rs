//! What each operation takes: one table of the query fields, headers and elements that are honoured. What a
//! client sends beside them is refused, since whoever sends it relies on it.
//!
//! The table also says which operation a request is; s3s decides that once more, and comes to the same, since
//! no field that chooses an operation is known to another one.

use http::request::Parts;
use http::{HeaderMap, Method, StatusCode};
use s3s::{S3Error, S3Result, s3_error};

use crate::context::Context;
use crate::elements;
use crate::errors::custom;
use crate::operation_table::OPERATIONS;
use crate::percent;
use crate::sigv4::Query;

/// What the address of a request names.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Level {
    /// All buckets.
    Root,
    /// A bucket.
    Bucket,
    /// A key of a bucket.
    Object,
}

/// What comes behind the header of a request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Content {
    /// Nothing.
    None,
    /// XML of these elements, each with those above it: `Tagging/TagSet`.
    Xml(&'static [&'static str]),
    /// The bytes of an object or a part.
    Bytes,
}

/// A row of the table.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Operation {
    /// Its name in S3.
    pub name: &'static str,
    /// The method of HTTP.
    pub method: &'static str,
    /// What its address names.
    pub level: Level,
    /// Query fields that choose it: it is the first row whose fields are all there.
    pub chosen_by: &'static [&'static str],
    /// Whether it is chosen by the header of a copy, too.
    pub copies: bool,
    /// Other query fields.
    pub query: &'static [&'static str],
    /// Headers beside [`EVERYWHERE`]; one that ends with `-` stands for all that begin so.
    pub headers: &'static [&'static str],
    /// What is sent with it.
    pub content: Content,
}

/// All rows, for the test that walks them.
#[doc(hidden)]
#[must_use]
pub fn operations() -> &'static [Operation] {
    OPERATIONS
}

/// The header that says that a request is a copy.
pub(crate) const COPY_SOURCE: &str = "x-amz-copy-source";
/// The query field in which clients repeat the name of the operation.
const REPEATED_NAME: &str = "x-id";

/// Headers of S3 that every operation takes, and where they are honoured.
const EVERYWHERE: [&str; 15] = [
    // The signature: `sigv4`.
    "x-amz-date",
    // What the body has to be: `sigv4::payload`, `body`, `checksums`.
    "x-amz-content-sha256",
    "x-amz-decoded-content-length",
    "x-amz-trailer",
    "x-amz-sdk-checksum-algorithm",
    "x-amz-checksum-crc32",
    "x-amz-checksum-crc32c",
    "x-amz-checksum-crc64nvme",
    "x-amz-checksum-sha1",
    "x-amz-checksum-sha256",
    "x-amz-checksum-sha512",
    "x-amz-checksum-md5",
    // Whose the bucket has to be: `expected_owner`.
    "x-amz-expected-bucket-owner",
    // What the client is called. Nothing depends on it.
    "x-amz-user-agent",
    // Whoever sends it agrees to be charged. Nobody is: buckets are never of the kind "requester pays", and
    // S3 itself takes it for all others.
    "x-amz-request-payer",
];

/// Headers of HTTP that change what is done; only the operations that list them take them. All other headers
/// without `x-amz-` say nothing to S3, and HTTP has a server leave out what it does not know (RFC 9110, 5.1):
/// those of proxies and traces, `amz-sdk-*` (the count of tries and an id for logs), `Accept-*`, `Origin`.
const OF_HTTP: [&str; 13] = [
    "if-match",
    "if-none-match",
    "if-modified-since",
    "if-unmodified-since",
    "if-range",
    "range",
    "content-range",
    "content-disposition",
    "content-language",
    "expires",
    // Some servers take another method from these.
    "x-http-method-override",
    "x-http-method",
    "x-method-override",
];

/// Headers of other makers of S3 servers, which their clients send.
const OF_OTHERS: [&str; 4] = ["x-minio-", "x-rgw-", "x-goog-", "x-oss-"];

/// What the address of a request names, as s3s reads it.
///
/// # Errors
/// `InvalidURI`.
pub(crate) fn level(cx: &Context, parts: &Parts) -> S3Result<Level> {
    let path = percent::decode(parts.uri.path())
        .ok_or_else(|| s3_error!(InvalidURI, "the path cannot be decoded"))?;
    let path = path.strip_prefix('/').unwrap_or(&path);
    if bucket_in_host(cx, parts).is_some() {
        return Ok(if path.is_empty() { Level::Bucket } else { Level::Object });
    }
    Ok(match path.split_once('/') {
        None if path.is_empty() => Level::Root,
        Some((_, key)) if !key.is_empty() => Level::Object,
        _ => Level::Bucket,
    })
}

/// The bucket that the host names.
fn bucket_in_host<'p>(cx: &Context, parts: &'p Parts) -> Option<&'p str> {
    let host = parts.headers.get(http::header::HOST).and_then(|host| host.to_str().ok());
    let host = host.or_else(|| parts.uri.authority().map(|authority| authority.as_str()))?;
    let host = host.split(':').next()?;
    let bucket = host.strip_suffix(cx.settings.domain.as_deref()?)?.strip_suffix('.')?;
    Some(bucket).filter(|bucket| !bucket.is_empty())
}

/// The bucket that the address names.
pub(crate) fn bucket(cx: &Context, parts: &Parts) -> Option<String> {
    if let Some(bucket) = bucket_in_host(cx, parts) {
        return Some(bucket.to_owned());
    }
    let path = percent::decode(parts.uri.path())?;
    let name = path.strip_prefix('/')?.split('/').next()?;
    Some(name.to_owned()).filter(|name| !name.is_empty())
}

fn not_implemented(what: &str) -> S3Error {
    s3_error!(NotImplemented, "{what} is not supported here, and nothing was done")
}

/// Finds the operation of a request and refuses what it does not take. The query has no signature any more.
///
/// # Errors
/// `NotImplemented`, `InvalidArgument` for a query field given twice, `MethodNotAllowed`.
pub(crate) fn admitted(level: Level, parts: &Parts, query: &Query) -> S3Result<&'static Operation> {
    let operation = operation(level, &parts.method, &parts.headers, query)?;
    check_query(operation, query)?;
    check_headers(operation, &parts.headers)?;
    Ok(operation)
}

/// The operation that method, address and the header of a copy choose.
fn operation(
    level: Level,
    method: &Method,
    headers: &HeaderMap,
    query: &Query,
) -> S3Result<&'static Operation> {
    let has = |wanted: &str| query.iter().any(|(name, _)| name == wanted);
    let copies = headers.contains_key(COPY_SOURCE);
    let mut rows = OPERATIONS.iter().filter(|row| row.method == method.as_str() && row.level == level);
    let fits = |row: &&Operation| row.chosen_by.iter().all(|name| has(name)) && (copies || !row.copies);
    if let Some(row) = rows.find(fits) {
        return Ok(row);
    }
    match method.as_str() {
        "GET" | "HEAD" | "PUT" | "POST" | "DELETE" => {
            Err(s3_error!(NotImplemented, "there is no such operation here: see the reference of S3"))
        }
        _ => Err(s3_error!(MethodNotAllowed, "the method {method} is not one of S3")),
    }
}

fn check_query(operation: &Operation, query: &Query) -> S3Result<()> {
    for (at, (name, value)) in query.iter().enumerate() {
        if query.iter().take(at).any(|(before, _)| before == name) {
            return Err(s3_error!(InvalidArgument, "the query field '{name}' is given twice"));
        }
        // Clients repeat the name of the operation there; s3s chooses one by it.
        let is_name = name == REPEATED_NAME && value == operation.name;
        let is_version = name != "list-type" || value == "2";
        let is_known =
            operation.chosen_by.contains(&name.as_str()) || operation.query.contains(&name.as_str());
        if !(is_name || is_known && is_version) {
            let what =
                if is_known || name == REPEATED_NAME { format!("{name}={value}") } else { name.clone() };
            return Err(not_implemented(&format!("the query field '{what}' of {}", operation.name)));
        }
    }
    Ok(())
}

fn check_headers(operation: &Operation, headers: &HeaderMap) -> S3Result<()> {
    let is_listed = |name: &str| {
        let fits = |known: &&str| name == *known || known.ends_with('-') && name.starts_with(*known);
        operation.headers.iter().any(fits)
    };
    for name in headers.keys().map(http::HeaderName::as_str) {
        let is_of_s3 = name.starts_with("x-amz-");
        let is_ours =
            is_of_s3 || OF_HTTP.contains(&name) || OF_OTHERS.iter().any(|other| name.starts_with(other));
        if is_ours && !(is_listed(name) || is_of_s3 && EVERYWHERE.contains(&name)) {
            return Err(not_implemented(&format!("the header {name} of {}", operation.name)));
        }
    }
    // The coding of an object is kept with it; that of a document or a part would have to be undone.
    let codings = headers.get_all(http::header::CONTENT_ENCODING).iter();
    let codings = codings.flat_map(|value| value.to_str().unwrap_or("?").split(','));
    let mut others = codings.map(str::trim).filter(|coding| {
        !(coding.is_empty() || ["aws-chunked", "identity"].iter().any(|ok| coding.eq_ignore_ascii_case(ok)))
    });
    if !is_listed("content-encoding")
        && let Some(coding) = others.next()
    {
        return Err(not_implemented(&format!("the content coding '{coding}' of {}", operation.name)));
    }
    if headers.get("x-amz-request-payer").is_some_and(|payer| payer.as_bytes() != b"requester") {
        return Err(s3_error!(InvalidArgument, "x-amz-request-payer can only be 'requester'"));
    }
    Ok(())
}

/// Refuses a body that is not of the elements that the operation knows.
///
/// # Errors
/// `MalformedXML`; `NotImplemented` for elements of S3 that are not offered.
pub(crate) fn check_body(operation: &Operation, body: &[u8]) -> S3Result<()> {
    match operation.content {
        Content::Xml(known) if !body.is_empty() => elements::check(operation.name, known, body),
        Content::None if !body.is_empty() => {
            let message = format!("{} takes no body", operation.name);
            Err(custom("InvalidRequest", StatusCode::BAD_REQUEST, message))
        }
        _ => Ok(()),
    }
}
