//! `PUT`.

use archive::{ArchiveError, ErrorKind, PutDone, PutOptions, Stat};
use authority::{Bytes as _, Namespace, Upload};
use base::{ByteCount, Timestamp};
use bytes::Bytes;
use catalogue::Attributes;
use entrance::headers::{names_tag, single};
use entrance::{Incoming, Kind, Refusal, entity_tag, present, refuse_endless, refuse_parts, store};
use http::header::{CONTENT_TYPE, ETAG, EXPECT, HeaderName, IF_MATCH, IF_NONE_MATCH, IF_UNMODIFIED_SINCE};
use http::{HeaderMap, HeaderValue, StatusCode};
use hyper::body::Body as _;
use transfer::{Beside, Hasher, Kind as SumKind, Reply, RequestBody, Sink};

use crate::answer::{Answer, Failure, empty};
use crate::context::Asked;
use crate::digests::{Announced, announced};
use crate::properties::{TYPE, TYPE_DEFAULT};
use crate::service::check_conditions;
use crate::tree::of_parent;

/// Permission bits of a file.
const MODE: u32 = 0o644;
/// The longest type of content that is kept.
const TYPE_BYTES_MAX: usize = 255;
/// The longest description of a file for the archive, as it is sent.
const ARCHIVE_METADATA_BYTES_MAX: usize = 8 << 10;
/// Where that is kept.
const ARCHIVE_METADATA: &str = "user.archive_metadata";

pub(crate) async fn put(asked: &Asked, body: RequestBody) -> Answer {
    let headers = &asked.parts.headers;
    if asked.target.has_slash {
        return Err(Refusal::new(
            Kind::IsADirectory,
            "the address ends with '/': make directories with MKCOL",
        )
        .into());
    }
    refuse_parts(headers)?;
    refuse_endless(asked.parts.version, headers)?;
    let length = body.size_hint().exact();
    let announced = announced(headers)?;
    let demand = Demand::of(headers)?;
    let options = PutOptions {
        length: length.map(ByteCount),
        adler32: announced.adler32,
        attributes: attributes(headers)?,
        keep_existing: demand == Demand::Absent,
        who: Some(asked.call.principal.name.clone()),
        ..PutOptions::default()
    };
    let rate = asked.context.transfers.limits().rate;
    let incoming = Incoming { body, rate, call: asked.call.clone() };
    let job = asked.clone();
    let begin = move || begin(&job, options, &demand, announced);
    let finish = |receiving: Receiving, (), reply: Reply<PutDone, Refusal>| receiving.finish(reply);
    let source = (incoming, length, headers.contains_key(EXPECT));
    let done = store(&asked.context.transfers, &asked.holder(), source, begin, finish).await?;
    let mut response =
        empty(if done.replaced || !done.created { StatusCode::NO_CONTENT } else { StatusCode::CREATED });
    let mut insert = |name: HeaderName, value: String| {
        if let Ok(value) = HeaderValue::from_str(&value) {
            response.headers_mut().insert(name, value);
        }
    };
    insert(ETAG, format!("\"{}\"", done.file));
    insert(HeaderName::from_static("digest"), format!("adler32={}", done.checksums.stream.adler32));
    if headers.contains_key("x-oc-mtime") {
        insert(HeaderName::from_static("x-oc-mtime"), "accepted".to_owned());
    }
    Ok(response)
}

/// What a put demands of what is there.
#[derive(Clone, PartialEq, Eq, Debug)]
enum Demand {
    Nothing,
    /// `If-None-Match: *`.
    Absent,
    /// `If-Match`.
    Current(Vec<u8>),
}

impl Demand {
    fn of(headers: &HeaderMap) -> Result<Demand, Refusal> {
        if headers.contains_key(IF_UNMODIFIED_SINCE) {
            return Err(Refusal::bad("If-Unmodified-Since is not supported with PUT: send If-Match"));
        }
        match (single(headers, &IF_MATCH)?, single(headers, &IF_NONE_MATCH)?) {
            (None, None) => Ok(Demand::Nothing),
            (Some(tags), None) => Ok(Demand::Current(tags.as_bytes().to_vec())),
            (None, Some(value)) if value.as_bytes().trim_ascii() == b"*" => Ok(Demand::Absent),
            _ => Err(Refusal::bad("a PUT takes If-Match, or If-None-Match with '*'")),
        }
    }

    /// Puts it into the options, which the engine checks once more when the file gets its name.
    fn apply(&self, asked: &Asked, options: &mut PutOptions) -> Result<(), Refusal> {
        let Demand::Current(tags) = self else { return Ok(()) };
        let failed = || Refusal::new(Kind::Precondition, "the condition If-Match does not hold");
        let stat = match asked.engine.stat(&asked.target.path) {
            Ok(Stat::File(stat)) => stat,
            Ok(Stat::Directory(_)) => return Err(failed()),
            Err(error) if error.kind() == ErrorKind::NotFound => return Err(failed()),
            Err(error) => return Err(error.into()),
        };
        if !names_tag(tags, &entity_tag(&stat), false) {
            return Err(failed());
        }
        options.if_current = Some(stat.file);
        Ok(())
    }
}

fn begin(
    asked: &Asked,
    mut options: PutOptions,
    demand: &Demand,
    announced: Announced,
) -> Result<Receiving, Refusal> {
    demand.apply(asked, &mut options)?;
    let by_tags = asked.conditions.names_tags();
    if by_tags {
        keep_to_tags(asked, &mut options)?;
    }
    let has_demand = by_tags || *demand != Demand::Nothing;
    let upload =
        asked.engine.begin_put(&asked.target.path, options).map_err(|error| in_words(error, has_demand))?;
    let kinds = announced.crc32c.map(|_| SumKind::Crc32c);
    let beside = match (announced.md5, kinds) {
        (None, None) => None,
        (md5, kinds) => {
            Some(Beside::start(Hasher::new(md5.is_some(), false, kinds), asked.context.transfers.md5())?)
        }
    };
    Ok(Receiving { upload, announced, beside, has_demand })
}

/// Entity tags of the header `If` hold for what is there now; it must be there still when the file gets its
/// name.
fn keep_to_tags(asked: &Asked, options: &mut PutOptions) -> Result<(), Refusal> {
    let there = match asked.engine.stat(&asked.target.path) {
        Ok(Stat::File(stat)) => Some(stat.file),
        Ok(Stat::Directory(_)) => None,
        Err(error) if error.kind() == ErrorKind::NotFound => None,
        Err(error) => return Err(error.into()),
    };
    match there {
        Some(file) if options.if_current.is_none_or(|asked| asked == file) => options.if_current = Some(file),
        Some(_) => return Err(Refusal::new(Kind::Precondition, "the file has changed meanwhile")),
        None => options.keep_existing = true,
    }
    // Looked at behind the file that is held on to.
    check_conditions(asked).map_err(|failure| match failure {
        Failure::Refused(refusal) => refusal,
        Failure::Condition { status, .. } => Refusal::new(Kind::Precondition, status.to_string()),
    })
}

/// That the name is taken means that a condition failed, if there was one.
fn in_words(error: ArchiveError, has_demand: bool) -> Refusal {
    match error.kind() {
        ErrorKind::Exists if has_demand => Refusal::new(Kind::Precondition, error.to_string()),
        ErrorKind::Locked => error.into(),
        _ => match of_parent(error) {
            Failure::Refused(refusal) => refusal,
            Failure::Condition { status, .. } => Refusal::new(Kind::Locked, status.to_string()),
        },
    }
}

/// A file on its way in, with the digests that its client announced.
struct Receiving {
    upload: Box<dyn Upload>,
    announced: Announced,
    beside: Option<Beside>,
    has_demand: bool,
}

impl Sink<Refusal> for Receiving {
    fn write(&mut self, bytes: &Bytes) -> Result<(), Refusal> {
        if let Some(beside) = &mut self.beside {
            beside.update(bytes)?;
        }
        Sink::<Refusal>::write(&mut self.upload, bytes)
    }

    fn pause(&mut self) {
        Sink::<Refusal>::pause(&mut self.upload);
    }
}

impl Receiving {
    fn finish(self, reply: Reply<PutDone, Refusal>) {
        let Receiving { upload, announced, beside, has_demand } = self;
        if let Some(beside) = beside
            && let Err(refusal) = agree(announced, beside)
        {
            return reply(Err(refusal));
        }
        upload.finish_then(Box::new(move |done| reply(done.map_err(|error| in_words(error, has_demand)))));
    }
}

/// That the bytes are those that were announced.
fn agree(announced: Announced, beside: Beside) -> Result<(), Refusal> {
    let sums = beside.finish()?;
    let crc =
        sums.sums.first().and_then(|(_, value)| value.as_slice().try_into().ok()).map(u32::from_be_bytes);
    let differs = |name: &str| {
        Refusal::new(
            Kind::DigestMismatch,
            format!("the body has another {name} than was announced: nothing was stored"),
        )
    };
    if announced.md5.is_some() && announced.md5 != sums.md5 {
        return Err(differs("md5"));
    }
    if announced.crc32c.is_some_and(|announced| Some(announced.0) != crc) {
        return Err(differs("crc32c"));
    }
    Ok(())
}

/// The attributes of a file that is put.
pub(crate) fn attributes(headers: &HeaderMap) -> Result<Attributes, Refusal> {
    let mut xattrs = Vec::new();
    if let Some(kind) = single(headers, &CONTENT_TYPE)? {
        let kind = kind.to_str().ok().filter(|kind| kind.len() <= TYPE_BYTES_MAX);
        let kind = kind.ok_or_else(|| Refusal::bad("the header Content-Type is no type that can be kept"))?;
        if kind != TYPE_DEFAULT {
            xattrs.push((TYPE.to_owned(), kind.as_bytes().to_vec()));
        }
    }
    if let Some(value) = single(headers, &HeaderName::from_static("archivemetadata"))? {
        let text = value.to_str().ok().filter(|text| text.len() <= ARCHIVE_METADATA_BYTES_MAX);
        let json = text.and_then(|text| base::base64::decode(text.trim()));
        let wrong = || Refusal::bad("the header ArchiveMetadata is no JSON in base64 of at most 8 KiB");
        let json = json
            .filter(|json| serde_json::from_slice::<serde_json::Value>(json).is_ok())
            .ok_or_else(wrong)?;
        xattrs.push((ARCHIVE_METADATA.to_owned(), json));
    }
    Ok(Attributes { mtime: modified(headers)?, mode: MODE, xattrs, ..Attributes::default() })
}

/// `X-OC-Mtime` in seconds, as rclone and others send it; else the present.
fn modified(headers: &HeaderMap) -> Result<Timestamp, Refusal> {
    let Some(value) = single(headers, &HeaderName::from_static("x-oc-mtime"))? else { return Ok(present()) };
    let time = value.to_str().ok().and_then(|text| entrance::headers::time(text.trim()));
    time.ok_or_else(|| Refusal::bad("the header X-OC-Mtime is no time in seconds since 1970"))
}
