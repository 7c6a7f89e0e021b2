//! `PUT /data/...`.

use archive::{PutDone, PutOptions};
use authority::Upload;
use axum::Json;
use axum::http::header::{ETAG, EXPECT, HeaderName, HeaderValue, IF_NONE_MATCH};
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use base::{Blake3, ByteCount, Timestamp};
use catalogue::Attributes;
use hyper::body::Body as _;
use transfer::{Paced, Reply};

use crate::convert::put_reply;
use crate::data::{DataRequest, refuse_unsupported};
use crate::shared::Asked;
use entrance::headers::{digest, flag, mode, single, text, time};
use entrance::{Incoming, Refusal, present, refuse_parts, store};

/// Longest name of an owner or group.
const OWNER_BYTES_MAX: usize = 64;
/// Longest name of a class.
const CLASS_BYTES_MAX: usize = 32;
/// Longest hint for collocation.
const DATASET_BYTES_MAX: usize = 255;
/// Longest idempotency key.
const IDEMPOTENCY_KEY_BYTES_MAX: usize = 255;
/// Longest target of a link.
const LINK_TARGET_BYTES_MAX: usize = 4095;
/// Permission bits of a file whose client names none.
const MODE_DEFAULT: u32 = 0o644;

/// Stores a file.
pub(crate) async fn put(shared: &Asked, asked: DataRequest) -> Result<Response, Refusal> {
    let DataRequest { path, headers, body, call } = asked;
    let length = body.size_hint().exact();
    let options = put_options(&headers, length, &call.principal.name)?;
    if options.link_target.is_some() && !body.is_end_stream() {
        return Err(Refusal::bad("a link has no body: send Kist-Link-Target with an empty body"));
    }
    let rate = shared.limits.transfer.rate;
    let incoming = Incoming { body: Paced::new(body, rate, call.pace.clone()), rate, call };
    let engine = shared.engine.clone();
    let begin = move || Ok(engine.begin_put(&path, options)?);
    let finish = |upload: Box<dyn Upload>, (), reply: Reply<PutDone, Refusal>| {
        upload.finish_then(Box::new(move |done| reply(done.map_err(Refusal::from))));
    };
    // Who asks first gets an answer first.
    let body = (incoming, length, headers.contains_key(EXPECT));
    Ok(answer(&store(&shared.transfers, &shared.holder, body, begin, finish).await?))
}

fn answer(done: &PutDone) -> Response {
    let status = if done.created { StatusCode::CREATED } else { StatusCode::OK };
    let mut headers = HeaderMap::new();
    let mut insert = |name: HeaderName, value: String| {
        if let Ok(value) = HeaderValue::from_str(&value) {
            headers.insert(name, value);
        }
    };
    insert(ETAG, format!("\"{}\"", done.file));
    insert(HeaderName::from_static("digest"), format!("adler32={}", done.checksums.stream.adler32));
    (status, headers, Json(put_reply(done))).into_response()
}

fn put_options(headers: &HeaderMap, length: Option<u64>, principal: &str) -> Result<PutOptions, Refusal> {
    refuse_unsupported(headers, "PUT")?;
    refuse_parts(headers)?;
    let keep_existing = match single(headers, &IF_NONE_MATCH)? {
        None => false,
        Some(value) if value.as_bytes().trim_ascii() == b"*" => true,
        Some(_) => return Err(Refusal::bad("If-None-Match with PUT has to be '*'")),
    };
    let blake3 = text(headers, "kist-blake3", 64)?
        .map(|digits| {
            Blake3::parse(&digits).ok_or_else(|| Refusal::bad("Kist-Blake3 is not 64 hexadecimal digits"))
        })
        .transpose()?;
    let key = text(headers, "idempotency-key", IDEMPOTENCY_KEY_BYTES_MAX)?;
    if key.as_deref() == Some("") {
        return Err(Refusal::bad("the header idempotency-key is empty"));
    }
    let link_target = text(headers, "kist-link-target", LINK_TARGET_BYTES_MAX)?;
    if link_target.as_deref() == Some("") {
        return Err(Refusal::bad("the header kist-link-target is empty"));
    }
    Ok(PutOptions {
        length: length.map(ByteCount),
        adler32: digest(headers)?,
        blake3,
        attributes: attributes(headers)?,
        class: text(headers, "kist-class", CLASS_BYTES_MAX)?,
        link_target,
        keep_existing,
        make_parents: flag(headers, "kist-parents")?.unwrap_or(true),
        idempotency: key.map(|key| (key, principal.to_owned())),
        dataset: text(headers, "kist-dataset", DATASET_BYTES_MAX)?,
        who: Some(principal.to_owned()),
        ..PutOptions::default()
    })
}

fn attributes(headers: &HeaderMap) -> Result<Attributes, Refusal> {
    let mtime = text(headers, "kist-mtime", 64)?;
    let bits = text(headers, "kist-mode", 8)?;
    Ok(Attributes {
        mtime: parse_mtime(mtime.as_deref(), "Kist-Mtime")?,
        mode: parse_mode(bits.as_deref(), "Kist-Mode", MODE_DEFAULT)?,
        owner: text(headers, "kist-owner", OWNER_BYTES_MAX)?.unwrap_or_default(),
        group: text(headers, "kist-group", OWNER_BYTES_MAX)?.unwrap_or_default(),
        xattrs: Vec::new(),
    })
}

/// The modification time that a client names; the present, if none.
pub(crate) fn parse_mtime(value: Option<&str>, name: &str) -> Result<Timestamp, Refusal> {
    match value {
        None => Ok(present()),
        Some(value) => time(value).ok_or_else(|| {
            Refusal::bad(format!(
                "{name} '{value}' is neither RFC 3339 nor seconds[.nanoseconds], or out of range: {}",
                Timestamp::RANGE
            ))
        }),
    }
}

/// The permission bits that a client names.
pub(crate) fn parse_mode(value: Option<&str>, name: &str, default: u32) -> Result<u32, Refusal> {
    match value {
        None => Ok(default),
        Some(value) => mode(value)
            .ok_or_else(|| Refusal::bad(format!("{name} '{value}' is not octal, as 0644, up to 7777"))),
    }
}
