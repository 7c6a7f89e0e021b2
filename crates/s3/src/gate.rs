//! What every request passes before s3s sees it: its size, its signature, its time, and what is not offered.
//! What comes out has no signature any more; who made it stands in its extensions.

use std::sync::Arc;

use authority::{AccessKey, Allowance, Allowances, ClientCertificate, Peer};
use bytes::Bytes;
use http::header::{
    AUTHORIZATION, CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_TYPE, HOST, RANGE, RETRY_AFTER,
    TRANSFER_ENCODING,
};
use http::request::Parts;
use http::uri::PathAndQuery;
use http::{HeaderMap, HeaderValue, Method, Request, Uri};
use identity::{Caller, How};
use s3s::{Body, S3Result, s3_error};
use transfer::{AnyError, Holder, Pace};

use crate::body::{Frames, ObjectBody};
use crate::checksums::Expected;
use crate::chunked::Decoder;
use crate::context::{Context, Entered};
use crate::errors::custom;
use crate::known::{self, Content};
use crate::sigv4::{self, ChunkSigner, Claim, Payload, Query, only};
use crate::{buckets, copy_source, percent};

/// Who a request is from, and what its body has to be.
struct Admitted {
    caller: Arc<Caller>,
    payload: Payload,
    signer: Option<ChunkSigner>,
}

/// What of Amazon's may stand in an address: the signature, and what changes nothing of what is stored. Some
/// clients move other headers there when they presign, and rely on them; they are not looked for there.
const IN_ADDRESS: [&str; 9] = [
    "x-amz-algorithm",
    "x-amz-credential",
    "x-amz-date",
    "x-amz-expires",
    "x-amz-signedheaders",
    "x-amz-signature",
    "x-amz-content-sha256",
    "x-amz-user-agent",
    CHECKSUM_MODE,
];

/// Whether an answer is to carry the object's checksums.
const CHECKSUM_MODE: &str = "x-amz-checksum-mode";

/// Lets a request in, or says why not.
pub(crate) async fn pass<B>(cx: &Context, request: Request<B>) -> S3Result<Request<Body>>
where
    B: hyper::body::Body<Data = Bytes> + Send + 'static,
    B::Error: Into<AnyError>,
{
    let (mut parts, body) = request.into_parts();
    // The host is signed and says which bucket is meant. With HTTP/1 it may stand in the address alone, where
    // the signature finds it and s3s does not: a key could then pass for a bucket and a key.
    if !parts.headers.contains_key(HOST)
        && let Some(authority) = parts.uri.authority()
        && let Ok(host) = HeaderValue::from_str(authority.as_str())
    {
        parts.headers.insert(HOST, host);
    }
    let limits = &cx.settings.limits;
    check_sizes(cx, &parts)?;
    let query = sigv4::query(parts.uri.query(), limits.query_fields)?;
    let peer = parts.extensions.get::<Peer>().map(|peer| peer.0);
    let admitted = admit(cx, &parts, &query).inspect_err(|error| {
        let why = error.message().unwrap_or_else(|| error.code().as_str());
        cx.authority.refused(How::Signature, peer, parts.method.as_str(), parts.uri.path(), why);
    })?;
    let allowance = allowance(&parts, &admitted.caller)?;
    refuse_not_offered(&parts, &query)?;
    strip(&mut parts, &query)?;
    let query = sigv4::query(parts.uri.query(), limits.query_fields)?;
    let operation = known::admitted(known::level(cx, &parts)?, &parts, &query)?;
    let is_empty = body.is_end_stream();
    let frames: Frames = Box::pin(http_body_util::BodyExt::map_err(body, Into::into));
    let length = object_length(&parts, admitted.payload)?;
    let body = incoming(&parts, frames, length, &admitted)?;
    let pace = parts.extensions.get::<Pace>().cloned().unwrap_or_default();
    let holder = Holder { caller: admitted.caller.name.clone(), connection: peer, pace };
    parts.extensions.insert(Entered { caller: admitted.caller, peer, holder: holder.clone(), allowance });
    parts.extensions.insert(operation);
    check_owners(cx, &parts).await?;
    copy_source::take(&mut parts)?;
    rewrite_headers(&mut parts.headers, length)?;
    if operation.content == Content::Bytes {
        let length =
            length.ok_or_else(|| s3_error!(MissingContentLength, "an object needs a Content-Length"))?;
        let limit = limits.put_bytes.0;
        if length > limit {
            return Err(s3_error!(
                EntityTooLarge,
                "the object has {length} bytes; the limit of one put is {limit}"
            ));
        }
        body.put(&mut parts.extensions);
        return Ok(Request::from_parts(parts, Body::empty()));
    }
    let most = if is_empty { 0 } else { length.unwrap_or(u64::MAX).min(limits.xml_bytes as u64) };
    let place = cx.admit_bytes(&holder, most).await?;
    parts.extensions.insert(Arc::new(place));
    let bytes = gather(body, &about_body(&parts, &query), length, limits.xml_bytes).await?;
    known::check_body(operation, &bytes)?;
    Ok(Request::from_parts(parts, Body::from(bytes)))
}

/// One of the requests that the caller may have at once and over time.
fn allowance(parts: &Parts, caller: &Caller) -> S3Result<Option<Arc<Allowance>>> {
    let Some(allowances) = parts.extensions.get::<Allowances>() else { return Ok(None) };
    match allowances.begin(&caller.name) {
        Ok(allowance) => Ok(Some(Arc::new(allowance))),
        Err(exceeded) => {
            let mut error = s3_error!(SlowDown, "{exceeded}");
            let mut headers = HeaderMap::new();
            headers.insert(RETRY_AFTER, HeaderValue::from(exceeded.retry_after()));
            error.set_headers(headers);
            Err(error)
        }
    }
}

fn check_sizes(cx: &Context, parts: &Parts) -> S3Result<()> {
    let limits = &cx.settings.limits;
    let uri = parts.uri.path_and_query().map_or(0, |uri| uri.as_str().len());
    if uri > limits.uri_bytes {
        let limit = limits.uri_bytes;
        let message = format!("the address has {uri} bytes; the limit is {limit}");
        return Err(custom("InvalidURI", http::StatusCode::URI_TOO_LONG, message));
    }
    let headers: usize =
        parts.headers.iter().map(|(name, value)| name.as_str().len() + value.len() + 4).sum();
    if headers > limits.header_bytes {
        let limit = limits.header_bytes;
        let message = format!("the header has {headers} bytes; the limit is {limit}");
        let status = http::StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE;
        return Err(custom("RequestHeaderSectionTooLarge", status, message));
    }
    Ok(())
}

/// Finds out who it is.
fn admit(cx: &Context, parts: &Parts, query: &Query) -> S3Result<Admitted> {
    let has = |wanted: &str| query.iter().any(|(name, _)| name == wanted);
    let header = only(parts, AUTHORIZATION.as_str())?;
    if has("AWSAccessKeyId") || has("Signature") || header.is_some_and(|value| value.starts_with("AWS ")) {
        return Err(s3_error!(
            InvalidRequest,
            "signature version 2 is not supported: sign with AWS4-HMAC-SHA256 (version 4)"
        ));
    }
    let is_presigned = query.iter().any(|(name, _)| {
        ["X-Amz-Signature", "X-Amz-Algorithm", "X-Amz-Credential"]
            .iter()
            .any(|known| name.eq_ignore_ascii_case(known))
    });
    if parts.headers.contains_key("x-amz-security-token") || has("X-Amz-Security-Token") {
        return Err(s3_error!(
            InvalidToken,
            "there are no temporary credentials here: send no security token"
        ));
    }
    let payload = sigv4::payload(only(parts, "x-amz-content-sha256")?)?;
    let claim = match (header, is_presigned) {
        (Some(_), true) => {
            return Err(s3_error!(
                InvalidArgument,
                "a request is signed in its header or in its address, not both"
            ));
        }
        (Some(value), false) => match bearer(value) {
            Some(token) => return by_token(cx, parts, token, payload),
            None => Claim::of_header(value, parts)?,
        },
        (None, true) => Claim::of_query(query, cx.settings.limits.presigned.as_secs())?,
        (None, false) => return by_certificate(cx, parts, payload),
    };
    by_signature(cx, parts, query, &claim, payload)
}

fn bearer(value: &str) -> Option<&str> {
    let (scheme, token) = value.split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then(|| token.trim_ascii())
}

fn by_token(cx: &Context, parts: &Parts, token: &str, payload: Payload) -> S3Result<Admitted> {
    if matches!(payload, Payload::Chunked { signed: true, .. }) {
        return Err(s3_error!(InvalidRequest, "chunks cannot be signed with a token"));
    }
    let peer = parts.extensions.get::<Peer>().map(|peer| peer.0);
    let caller = cx.authority.bearer(token, peer).map_err(|denied| {
        tracing::info!(%denied, "a bearer token was refused");
        s3_error!(InvalidToken, "the token is not valid")
    })?;
    Ok(Admitted { caller, payload, signer: None })
}

/// Whoever has shown a certificate need not sign.
fn by_certificate(cx: &Context, parts: &Parts, payload: Payload) -> S3Result<Admitted> {
    let unsigned = || s3_error!(AccessDenied, "the request is not signed");
    let certificate = parts.extensions.get::<ClientCertificate>().ok_or_else(unsigned)?;
    if matches!(payload, Payload::Chunked { signed: true, .. }) {
        return Err(unsigned());
    }
    let caller = cx.authority.certificate(&certificate.0).map_err(|_| unsigned())?;
    Ok(Admitted { caller, payload, signer: None })
}

fn by_signature(
    cx: &Context,
    parts: &Parts,
    query: &Query,
    claim: &Claim,
    payload: Payload,
) -> S3Result<Admitted> {
    let now = cx.clock.now().0.div_euclid(1_000_000_000);
    let skew = i64::try_from(cx.settings.limits.clock_skew.as_secs()).unwrap_or(i64::MAX);
    claim.check(now, skew, &cx.settings.region)?;
    let is_chunked = matches!(payload, Payload::Chunked { .. });
    if claim.expires.is_some() && is_chunked {
        return Err(s3_error!(NotImplemented, "a presigned address takes no aws-chunked body"));
    }
    let said = only(parts, "x-amz-content-sha256")?;
    if claim.expires.is_none() && said.is_none() {
        return Err(s3_error!(InvalidRequest, "a signed request needs the header x-amz-content-sha256"));
    }
    let Some(AccessKey { secret, caller }) = cx.authority.access_key(&claim.key) else {
        return Err(s3_error!(InvalidAccessKeyId, "there is no valid access key of that id"));
    };
    let signer = claim.verify(parts, query, said.unwrap_or_default(), &secret)?;
    let signs_chunks = matches!(payload, Payload::Chunked { signed: true, .. });
    Ok(Admitted { caller, payload, signer: signs_chunks.then_some(signer) })
}

fn refuse_not_offered(parts: &Parts, query: &Query) -> S3Result<()> {
    let moved = query.iter().map(|(name, _)| name.to_ascii_lowercase());
    if let Some(name) =
        moved.into_iter().find(|name| name.starts_with("x-amz-") && !IN_ADDRESS.contains(&name.as_str()))
    {
        return Err(s3_error!(NotImplemented, "{name} is not supported in an address: send it as a header"));
    }
    let digest = query.iter().find(|(name, _)| name.eq_ignore_ascii_case("x-amz-content-sha256"));
    if digest.is_some_and(|(_, digest)| digest != "UNSIGNED-PAYLOAD") {
        return Err(s3_error!(NotImplemented, "a presigned address takes no digest of the body"));
    }
    if let Some(acl) = parts.headers.get("x-amz-acl")
        && !["private", "bucket-owner-full-control"].iter().any(|known| acl.as_bytes() == known.as_bytes())
    {
        return Err(s3_error!(
            AccessControlListNotSupported,
            "only the ACL 'private' is supported: see kist acl"
        ));
    }
    let is_form = parts.headers.get(CONTENT_TYPE).is_some_and(|value| {
        value.as_bytes().get(..19).is_some_and(|start| start.eq_ignore_ascii_case(b"multipart/form-data"))
    });
    if parts.method == Method::POST && is_form {
        return Err(s3_error!(NotImplemented, "uploads by HTML forms are not supported: use PUT"));
    }
    Ok(())
}

/// Takes the signature off, and conditions that s3s reads more strictly than S3 does. What some clients put
/// into a presigned address and S3 takes there as well becomes a header.
fn strip(parts: &mut Parts, query: &Query) -> S3Result<()> {
    parts.headers.remove(AUTHORIZATION);
    if parts.headers.get(RANGE).is_some_and(|range| !is_one_range(range.as_bytes())) {
        // S3 answers with the whole object then.
        parts.headers.remove(RANGE);
    }
    if !query.iter().any(|(name, _)| name.get(..6).is_some_and(|start| start.eq_ignore_ascii_case("x-amz-")))
    {
        return Ok(());
    }
    let bad = || s3_error!(InvalidURI, "the address is malformed");
    if let Some((_, mode)) = query.iter().find(|(name, _)| name.eq_ignore_ascii_case(CHECKSUM_MODE)) {
        parts.headers.insert(CHECKSUM_MODE, HeaderValue::try_from(mode).map_err(|_| bad())?);
    }
    let text = parts.uri.query().unwrap_or_default();
    let kept: Vec<&str> = text
        .split('&')
        .filter(|field| !field.get(..6).is_some_and(|start| start.eq_ignore_ascii_case("x-amz-")))
        .collect();
    let path = parts.uri.path();
    let target = if kept.is_empty() { path.to_owned() } else { format!("{path}?{}", kept.join("&")) };
    let mut uri = parts.uri.clone().into_parts();
    uri.path_and_query = Some(PathAndQuery::try_from(target).map_err(|_| bad())?);
    parts.uri = Uri::from_parts(uri).map_err(|_| bad())?;
    Ok(())
}

/// `bytes=A-B`, `bytes=A-` or `bytes=-N`.
fn is_one_range(value: &[u8]) -> bool {
    let Some(range) = std::str::from_utf8(value).ok().and_then(|value| value.strip_prefix("bytes=")) else {
        return false;
    };
    let number = |text: &str| text.bytes().all(|b| b.is_ascii_digit()) && text.len() < 19;
    match range.split_once('-') {
        Some((from, to)) if number(from) && number(to) => match (from.parse::<u64>(), to.parse::<u64>()) {
            (Ok(from), Ok(to)) => from <= to,
            (from, to) => from.is_ok() || to.is_ok(),
        },
        _ => false,
    }
}

/// Bytes of the body without its chunks' frames.
fn object_length(parts: &Parts, payload: Payload) -> S3Result<Option<u64>> {
    let name = match payload {
        Payload::Chunked { .. } => "x-amz-decoded-content-length",
        _ => CONTENT_LENGTH.as_str(),
    };
    let Some(value) = only(parts, name)? else {
        return match payload {
            Payload::Chunked { .. } => Err(s3_error!(MissingContentLength, "{name} is missing")),
            _ => Ok(None),
        };
    };
    let digits = (!value.is_empty() && value.bytes().all(|b| b.is_ascii_digit())).then(|| value.parse().ok());
    digits.flatten().map(Some).ok_or_else(|| s3_error!(InvalidArgument, "{name} is not a number"))
}

/// Refuses if a bucket is not of the owner that the client expects.
///
/// # Errors
/// `AccessDenied`, as in S3; `NoSuchBucket`.
async fn check_owners(cx: &Context, parts: &Parts) -> S3Result<()> {
    if let Some(expected) = only(parts, "x-amz-expected-bucket-owner")? {
        let bucket = known::bucket(cx, parts)
            .ok_or_else(|| s3_error!(InvalidRequest, "x-amz-expected-bucket-owner needs a bucket"))?;
        check_owner(cx, parts, &bucket, expected).await?;
    }
    if let Some(expected) = only(parts, "x-amz-source-expected-bucket-owner")? {
        let source = only(parts, known::COPY_SOURCE)?.unwrap_or_default();
        let source = percent::decode(source)
            .ok_or_else(|| s3_error!(InvalidArgument, "{} cannot be decoded", known::COPY_SOURCE))?;
        let source = source.strip_prefix('/').unwrap_or(&source);
        check_owner(cx, parts, source.split('/').next().unwrap_or_default(), expected).await?;
    }
    Ok(())
}

async fn check_owner(cx: &Context, parts: &Parts, bucket: &str, expected: &str) -> S3Result<()> {
    if buckets::check(cx, &parts.extensions, bucket).await?.owner == expected {
        return Ok(());
    }
    Err(s3_error!(AccessDenied, "the bucket '{bucket}' is not of the expected owner"))
}

fn incoming(parts: &Parts, frames: Frames, length: Option<u64>, admitted: &Admitted) -> S3Result<ObjectBody> {
    let announced: Vec<String> = only(parts, "x-amz-trailer")?
        .map(|names| names.split(',').map(|name| name.trim_ascii().to_ascii_lowercase()).collect())
        .unwrap_or_default();
    let expected = length.unwrap_or(u64::MAX);
    let decoder = match admitted.payload {
        Payload::Chunked { trailer, .. } => {
            if !trailer && !announced.is_empty() {
                return Err(s3_error!(InvalidRequest, "x-amz-trailer is given, but the body has no trailer"));
            }
            Some(Decoder::new(expected, admitted.signer.clone(), announced.clone()))
        }
        _ => None,
    };
    let mut body = ObjectBody::new(frames, expected, decoder);
    if let Payload::Sha256(sha256) = admitted.payload {
        body.sha256 = Some(sha256);
    }
    body.announced = announced;
    Ok(body)
}

fn rewrite_headers(headers: &mut HeaderMap, length: Option<u64>) -> S3Result<()> {
    headers.remove(TRANSFER_ENCODING);
    if let Some(length) = length {
        headers.insert(CONTENT_LENGTH, HeaderValue::from(length));
    }
    let codings = headers.get_all(CONTENT_ENCODING).iter();
    let codings: Vec<&str> =
        codings.filter_map(|value| value.to_str().ok()).flat_map(|v| v.split(',')).collect();
    let kept: Vec<&str> = codings
        .iter()
        .map(|coding| coding.trim())
        .filter(|coding| !coding.eq_ignore_ascii_case("aws-chunked"))
        .collect();
    if kept.len() < codings.len() {
        let kept = kept.join(",");
        headers.remove(CONTENT_ENCODING);
        if !kept.is_empty() {
            let value = HeaderValue::try_from(kept)
                .map_err(|_| s3_error!(InvalidRequest, "Content-Encoding is malformed"))?;
            headers.insert(CONTENT_ENCODING, value);
        }
    }
    Ok(())
}

/// The headers that speak of the body. At the end of an upload in parts, checksums are those of the object.
fn about_body(parts: &Parts, query: &Query) -> HeaderMap {
    let mut headers = parts.headers.clone();
    if parts.method == Method::POST && query.iter().any(|(name, _)| name == "uploadId") {
        let of_object: Vec<_> =
            headers.keys().filter(|name| name.as_str().starts_with("x-amz-checksum-")).cloned().collect();
        for name in of_object {
            headers.remove(name);
        }
    }
    headers
}

/// A small body, with all digests that the request names.
async fn gather(
    mut body: ObjectBody,
    headers: &HeaderMap,
    length: Option<u64>,
    limit: usize,
) -> S3Result<Bytes> {
    let too_long = || s3_error!(MaxMessageLengthExceeded, "the body is too long: the limit is {limit} bytes");
    if length.is_some_and(|length| length > limit as u64) {
        return Err(too_long());
    }
    let expected = Expected::of(headers, &body.announced, body.sha256)?;
    body.is_open_ended(length.is_none());
    let mut all = Vec::new();
    while let Some(bytes) = body.next().await? {
        if all.len() + bytes.len() > limit {
            return Err(too_long());
        }
        all.extend_from_slice(&bytes);
    }
    let mut hasher = expected.hasher();
    hasher.update(&all);
    expected.verify(hasher.finish(), body.trailers())?;
    Ok(Bytes::from(all))
}
