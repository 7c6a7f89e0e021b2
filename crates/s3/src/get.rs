//! GetObject and HeadObject.

use std::ops::Range as Span;
use std::sync::Arc;

use archive::{ArchiveError, Which};
use authority::Download;
use s3s::dto::*;
use s3s::{Body, S3Error, S3Request, S3Response, S3Result, s3_error};
use transfer::{Content, Opened};

use crate::answers::{Known, absent, find, other_sums, storage_class, sums, sums_of_part, timestamp};
use crate::conditions::Conditions;
use crate::context::{Context, Failure, Guest, Said};
use crate::glacier;
use crate::keys::{self, Place};
use crate::metadata::{self, text};
use crate::settings::S3Settings;
use crate::{markers, parts};

/// What HEAD and GET are asked for.
#[derive(Clone)]
struct Asked {
    settings: Arc<S3Settings>,
    place: Place,
    version: Option<String>,
    conditions: Conditions,
    range: Option<Range>,
    /// What the object has to be still for the range to be given.
    if_range: Option<String>,
    /// The part of an object that was put in parts.
    number: Option<u16>,
}

/// Builds the parts that the answers to HEAD and GET have in common.
macro_rules! answer {
    ($kind:ident, $cx:expr, $known:expr, $input:expr, $sums:expr) => {{
        let (known, input) = (&$known, &$input);
        let attributes = &known.file.attributes;
        let kept = |name: &str| text(attributes, name).map(str::to_owned);
        let sums = match input.part_number.and_then(|number| u16::try_from(number).ok()) {
            _ if !$sums || input.range.is_some() => Checksum::default(),
            Some(number) => sums_of_part(attributes, number),
            None => sums(attributes),
        };
        $kind {
            accept_ranges: Some("bytes".to_owned()),
            cache_control: input.response_cache_control.clone().or_else(|| kept(metadata::CACHE_CONTROL)),
            checksum_crc32: sums.checksum_crc32,
            checksum_crc32c: sums.checksum_crc32c,
            checksum_crc64nvme: sums.checksum_crc64nvme,
            checksum_sha1: sums.checksum_sha1,
            checksum_sha256: sums.checksum_sha256,
            checksum_type: sums.checksum_type,
            content_disposition: input
                .response_content_disposition
                .clone()
                .or_else(|| kept(metadata::DISPOSITION)),
            content_encoding: input.response_content_encoding.clone().or_else(|| kept(metadata::ENCODING)),
            content_language: input.response_content_language.clone().or_else(|| kept(metadata::LANGUAGE)),
            content_type: input
                .response_content_type
                .clone()
                .or_else(|| kept(metadata::TYPE))
                .or_else(|| Some(metadata::TYPE_DEFAULT.to_owned())),
            e_tag: Some(known.e_tag()),
            expires: input.response_expires.clone().or_else(|| expires(attributes)),
            last_modified: Some(timestamp(known.file.created)),
            metadata: metadata::metadata(attributes),
            restore: known.restore(),
            storage_class: storage_class(&$cx.settings, &known.file.class, known.file.locality),
            version_id: known.version(),
            ..$kind::default()
        }
    }};
}

fn expires(attributes: &catalogue::Attributes) -> Option<Timestamp> {
    Timestamp::parse(TimestampFormat::HttpDate, text(attributes, metadata::EXPIRES)?).ok()
}

pub(crate) async fn head_object(
    cx: &Context,
    req: S3Request<HeadObjectInput>,
) -> S3Result<S3Response<HeadObjectOutput>> {
    let if_range = if_range(&req.headers)?;
    let input = req.input;
    let wants_sums = wants_sums(input.checksum_mode.as_ref())?;
    let number = part_number(input.part_number, input.range.is_some())?;
    let place = keys::place(&input.bucket, &input.key)?;
    let version = input.version_id.clone();
    let known = cx
        .call(&req.extensions, move |guest| {
            if place.is_directory {
                return markers::find(guest, &place);
            }
            find(guest, &place, version.as_deref())
        })
        .await?;
    let conditions = Conditions {
        matches: input.if_match.clone(),
        none_matches: input.if_none_match.clone(),
        modified_since: input.if_modified_since.clone(),
        unmodified_since: input.if_unmodified_since.clone(),
    };
    conditions.check(&known.tag(), known.file.created)?;
    let range = input.range.filter(|_| is_of_range(if_range.as_deref(), &known));
    let (part, length) = asked_span(range, number, &known)?;
    let is_part = part.is_some();
    let mut output = answer!(HeadObjectOutput, cx, known, input, wants_sums);
    output.content_length = i64::try_from(length).ok();
    output.content_range = part.map(|part| content_range(&part, known.file.size.0));
    output.parts_count = parts_count(number, &known);
    let with_sums = wants_sums && !is_part;
    let mut response = S3Response::new(output);
    add_headers(&mut response.headers, &known, with_sums);
    // s3s has no field for it here.
    let tags = metadata::tags(&known.file.attributes).len();
    if tags > 0 {
        response.headers.insert("x-amz-tagging-count", http::HeaderValue::from(tags));
    }
    if is_part {
        response.extensions.insert(Said(http::StatusCode::PARTIAL_CONTENT));
    }
    Ok(response)
}

/// What s3s has no fields for.
fn add_headers(headers: &mut http::HeaderMap, known: &Known, with_sums: bool) {
    crate::lock::add_headers(headers, known.object.as_ref());
    if with_sums {
        other_sums(&known.file.attributes, headers);
    }
}

/// The condition of a range.
fn if_range(headers: &http::HeaderMap) -> S3Result<Option<String>> {
    let Some(value) = headers.get(http::header::IF_RANGE) else { return Ok(None) };
    let text = value.to_str().map_err(|_| s3_error!(InvalidArgument, "If-Range is not text"))?;
    Ok(Some(text.to_owned()))
}

/// Whether the object is still the one of `If-Range` (RFC 9110, 13.1.5): else all of it is given.
fn is_of_range(condition: Option<&str>, known: &Known) -> bool {
    let Some(condition) = condition else { return true };
    if condition.trim_matches('"') == known.tag() {
        return true;
    }
    crate::answers::http_time(known.file.created).is_some_and(|modified| modified == condition)
}

pub(crate) async fn get_object(
    cx: &Context,
    req: S3Request<GetObjectInput>,
) -> S3Result<S3Response<GetObjectOutput>> {
    let guest = cx.guest(&req.extensions)?;
    let if_range = if_range(&req.headers)?;
    let input = req.input;
    let wants_sums = wants_sums(input.checksum_mode.as_ref())?;
    let number = part_number(input.part_number, input.range.is_some())?;
    let asked = Asked {
        settings: cx.settings.clone(),
        place: keys::place(&input.bucket, &input.key)?,
        version: input.version_id.clone(),
        conditions: Conditions {
            matches: input.if_match.clone(),
            none_matches: input.if_none_match.clone(),
            modified_since: input.if_modified_since.clone(),
            unmodified_since: input.if_unmodified_since.clone(),
        },
        range: input.range,
        if_range,
        number,
    };
    let holder = guest.holder.clone();
    let sent = cx.transfers.send(&holder, guest, move |guest| open(guest, &asked)).await;
    let (Head { known, part, length }, content) = sent?;
    let with_sums = wants_sums && part.is_none();
    let mut output = answer!(GetObjectOutput, cx, known, input, wants_sums);
    output.content_length = i64::try_from(length).ok();
    output.content_range = part.map(|part| content_range(&part, known.file.size.0));
    output.parts_count = parts_count(number, &known);
    let tags = metadata::tags(&known.file.attributes).len();
    output.tag_count = i32::try_from(tags).ok().filter(|tags| *tags > 0);
    let body = match content {
        Content::Whole(bytes) => Body::from(bytes),
        Content::Stream(rest) => Body::http_body(rest),
    };
    output.body = Some(StreamingBlob::from(body));
    let mut response = S3Response::new(output);
    add_headers(&mut response.headers, &known, with_sums);
    Ok(response)
}

/// Whether checksums are asked for.
///
/// # Errors
/// `InvalidArgument` for a mode that there is not.
fn wants_sums(mode: Option<&ChecksumMode>) -> S3Result<bool> {
    match mode.map(ChecksumMode::as_str) {
        None => Ok(false),
        Some(ChecksumMode::ENABLED) => Ok(true),
        Some(_) => Err(s3_error!(InvalidArgument, "x-amz-checksum-mode can only be ENABLED")),
    }
}

/// The part that is asked for.
///
/// # Errors
/// `InvalidArgument`; `InvalidRequest` if a range is asked for, too.
fn part_number(number: Option<i32>, has_range: bool) -> S3Result<Option<u16>> {
    match number {
        Some(_) if has_range => {
            Err(s3_error!(InvalidRequest, "a part and a range cannot be asked for together"))
        }
        Some(number) => crate::multipart::part_number(number).map(Some),
        None => Ok(None),
    }
}

/// How many parts the object was put in; said if one is asked for.
fn parts_count(number: Option<u16>, known: &Known) -> Option<i32> {
    number?;
    i32::try_from(parts::sizes(&known.file.attributes)?.len()).ok()
}

/// What part of an object is asked for, by its bytes or its number, and how long it is.
fn asked_span(
    range: Option<Range>,
    number: Option<u16>,
    known: &Known,
) -> S3Result<(Option<Span<u64>>, u64)> {
    let size = known.file.size.0;
    let Some(number) = number else { return span(range, size) };
    match parts::sizes(&known.file.attributes) {
        Some(sizes) => match parts::range(&sizes, number) {
            // A part without bytes is no range.
            Some((_, 0)) if size == 0 => Ok((None, 0)),
            Some((offset, length)) if length > 0 => Ok((Some(offset..offset + length), length)),
            _ => Err(no_such_part(number)),
        },
        None if known.tag().split_once('-').is_some_and(|(_, count)| count != "1") => {
            Err(s3_error!(NotImplemented, "where the parts of this object begin is not known: use a range"))
        }
        // An object that was put in one request is its only part.
        None if number == 1 => Ok(((size > 0).then_some(0..size), size)),
        None => Err(no_such_part(number)),
    }
}

fn no_such_part(number: u16) -> S3Error {
    let message = format!("the object has no part {number}");
    crate::errors::custom("InvalidPartNumber", http::StatusCode::RANGE_NOT_SATISFIABLE, message)
}

fn content_range(part: &Span<u64>, size: u64) -> String {
    format!("bytes {}-{}/{size}", part.start, part.end.saturating_sub(1))
}

/// What part of an object is asked for, and how long it is.
fn span(range: Option<Range>, size: u64) -> S3Result<(Option<Span<u64>>, u64)> {
    let Some(range) = range else { return Ok((None, size)) };
    // An empty object satisfies no range.
    match range.check(size) {
        Ok(part) if part.end > part.start => {
            let length = part.end - part.start;
            Ok((Some(part), length))
        }
        _ => Err(unsatisfied(size)),
    }
}

fn unsatisfied(size: u64) -> S3Error {
    let mut error =
        s3_error!(InvalidRange, "the range touches no byte of the object, which has {size} bytes");
    let mut headers = http::HeaderMap::new();
    if let Ok(value) = http::HeaderValue::try_from(format!("bytes */{size}")) {
        headers.insert(http::header::CONTENT_RANGE, value);
    }
    error.set_headers(headers);
    error
}

/// What is told before the first byte is sent.
struct Head {
    known: Known,
    part: Option<Span<u64>>,
    length: u64,
}

impl Head {
    fn with(self, download: Option<Box<dyn Download>>) -> Opened<Head> {
        Opened { length: self.length, head: self, download }
    }
}

fn open(guest: &Guest, asked: &Asked) -> Result<Opened<Head>, Failure> {
    let place = &asked.place;
    if place.is_directory {
        let known = markers::find(guest, place)?;
        asked.conditions.check(&known.tag(), known.file.created)?;
        let (part, length) = span(asked.range, 0)?;
        return Ok(Head { known, part, length }.with(None));
    }
    let version = asked.version.as_deref();
    let which = keys::which(version)?;
    let who = &guest.caller.name;
    let opened = match which {
        Which::Current => guest.engine.open_read_for(&place.path, who),
        which => guest.engine.open_object(&place.path, which, who),
    };
    let mut download = match opened {
        Ok(download) => download,
        Err(error) => return Err(unopened(guest, asked, error)),
    };
    let file = download.stat().clone();
    let object = guest.engine.object(&place.path, which).ok().filter(|object| object.file.file == file.file);
    let known = Known { file, object, named: version.is_some() };
    asked.conditions.check(&known.tag(), known.file.created)?;
    glacier::check_readable(&asked.settings, &known)?;
    let range = asked.range.filter(|_| is_of_range(asked.if_range.as_deref(), &known));
    let (part, length) = asked_span(range, asked.number, &known)?;
    if let Some(part) = &part {
        download.select(part.start, length)?;
    }
    if length > 0 {
        download.check_drives()?;
    }
    Ok(Head { known, part, length }.with(Some(download)))
}

/// Why an object cannot be opened. Conditions come first: one that is on tape only may be known already.
fn unopened(guest: &Guest, asked: &Asked, error: ArchiveError) -> Failure {
    let version = asked.version.as_deref();
    if matches!(error, ArchiveError::Nearline { .. } | ArchiveError::NearlineAway { .. })
        && let Ok(known) = find(guest, &asked.place, version)
    {
        let unmet = asked.conditions.check(&known.tag(), known.file.created).err();
        if let Some(refusal) = unmet.or_else(|| glacier::check_readable(&asked.settings, &known).err()) {
            return refusal.into();
        }
    }
    absent(guest, &asked.place, version, error)
}
