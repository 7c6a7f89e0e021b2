//! `PUT /data/...`.

use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use archive::{PutDone, PutOptions};
use authority::Upload;
use axum::Json;
use axum::body::Body;
use axum::http::header::{
    CONTENT_ENCODING, CONTENT_RANGE, ETAG, EXPECT, HeaderName, HeaderValue, IF_NONE_MATCH,
};
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use base::{Blake3, ByteCount, Timestamp};
use bytes::Bytes;
use catalogue::Attributes;
use hyper::body::Body as _;
use transfer::{Fault, LowestRate, Paced, Reply, Source, WHOLE_BYTES_MAX, gather, next_bytes, on_thread};

use crate::convert::put_reply;
use crate::data::{DataRequest, refuse_unsupported};
use crate::shared::Asked;
use entrance::Call;
use entrance::headers::{digest, flag, mode, single, text, time};
use entrance::{Kind, Refusal};

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
    let is_link = options.link_target.is_some();
    let rate = shared.limits.transfer.rate;
    let incoming = Incoming { body: Paced::new(body, rate, call.pace.clone()), rate, call, is_link };
    let engine = shared.engine.clone();
    let finish = |upload: Box<dyn Upload>, (), reply: Reply<PutDone, Refusal>| {
        upload.finish_then(Box::new(move |done| reply(done.map_err(Refusal::from))));
    };
    // Who asks first gets an answer first, so that it saves the sending.
    if length.is_none_or(|length| length > WHOLE_BYTES_MAX) || headers.contains_key(EXPECT) {
        let begin = move || Ok(engine.begin_put(&path, options)?);
        return Ok(answer(&shared.transfers.receive(&shared.holder, incoming, begin, finish).await?));
    }
    // A small body is gathered first, so that the thread is needed only for a moment.
    let place = shared.transfers.admit(&shared.holder).await?;
    let (parts, ()) = gather(incoming).await?;
    let store = move |reply| {
        let received = engine
            .begin_put(&path, options)
            .and_then(|mut upload| parts.iter().try_for_each(|bytes| upload.write(bytes)).map(|()| upload));
        match received {
            Ok(upload) => finish(upload, (), reply),
            Err(error) => reply(Err(error.into())),
        }
    };
    Ok(answer(&on_thread(place, store).await?))
}

/// A body as it comes from the connection.
struct Incoming {
    body: Paced<Body>,
    rate: LowestRate,
    call: Arc<Call>,
    is_link: bool,
}

impl Source for Incoming {
    type End = ();
    type Error = Refusal;

    async fn next(&mut self) -> Result<Option<Bytes>, Refusal> {
        let bytes = next_bytes(&mut self.body).await.map_err(|fault| match fault {
            Fault::TooSlow => self.too_slow(),
            fault => fault.into(),
        })?;
        if let Some(bytes) = &bytes {
            if self.is_link {
                return Err(Refusal::bad("a link has no body: send Kist-Link-Target with an empty body"));
            }
            self.call.received(bytes.len());
        }
        Ok(bytes)
    }

    fn end(self) {}
}

impl Incoming {
    fn too_slow(&self) -> Refusal {
        let (bytes, seconds) = (self.rate.bytes.0, self.rate.window.as_secs_f64());
        let detail =
            format!("the body came at less than {bytes} bytes in {seconds} s of waiting: nothing was stored");
        Refusal::new(Kind::Timeout, detail)
    }
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
    if headers.contains_key(CONTENT_RANGE) {
        return Err(Refusal::bad(
            "a part of a file cannot be put: send the whole file without Content-Range",
        ));
    }
    if single(headers, &CONTENT_ENCODING)?
        .is_some_and(|coding| !coding.as_bytes().eq_ignore_ascii_case(b"identity"))
    {
        return Err(Refusal::bad("Content-Encoding is not supported: send the file's own bytes"));
    }
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

fn present() -> Timestamp {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Timestamp(i64::try_from(since.as_nanos()).unwrap_or(i64::MAX))
}
