//! `GET` and `HEAD`: files, whole and in parts, and pages of directories.

use std::sync::{Arc, Weak};

use archive::{ArchiveError, ErrorKind, FileStat, Locality, Stat};
use authority::{Bytes as _, Download, Namespace};
use bytes::Bytes;
use entrance::{Call, Kind, Plan, Refusal, entity_tag, is_of_this};
use http::header::{CONTENT_LENGTH, CONTENT_SECURITY_POLICY, CONTENT_TYPE, RANGE, RETRY_AFTER};
use http::{HeaderMap, HeaderName, HeaderValue, Response, StatusCode};
use http_body_util::BodyExt;
use transfer::{Beside, Content, Hasher, Opened, ReplyBody};

use crate::answer::{Answer, Failure, whole};
use crate::context::Asked;
use crate::digests::Wanted;
use crate::page;
use crate::properties::content_type;
use crate::ranges::{self, Several};

/// After how many seconds a client should ask again for a file that nobody brings back yet.
const NEARLINE_RETRY_SECONDS: u64 = 3600;
/// The same while it is on its way.
const RECALL_RETRY_SECONDS: u64 = 60;
/// A file of somebody else that a browser shows may have a program in it: it gets no hold on this server.
const FILE_POLICY: HeaderValue = HeaderValue::from_static("sandbox; default-src 'none'");

/// Says what `GET` would say, also of a file that is on tape only.
pub(crate) async fn head(asked: &Asked) -> Answer {
    let stat = asked.run(|asked: &Asked| Ok::<_, Failure>(asked.engine.stat(&asked.target.path)?)).await?;
    let stat = match stat {
        Stat::File(stat) => stat,
        Stat::Directory(_) => return page::head(asked),
    };
    let plan = Plan::new(&stat, &asked.parts.headers, false)?;
    let wanted = Wanted::of(&asked.parts.headers);
    let md5 = if wanted.needs_md5(&stat) { computed_md5(asked, &stat).await? } else { None };
    let mut response = Response::new(whole(Bytes::new()));
    *response.status_mut() = plan.status;
    *response.headers_mut() = headers(&plan, &stat, &wanted, md5);
    Ok(response)
}

/// Sends a file, parts of it, or the page of a directory.
pub(crate) async fn get(asked: &Asked) -> Answer {
    let job = asked.clone();
    let open = move |_: &Arc<Call>| open(&job);
    let sent = asked.context.transfers.send(&asked.holder(), asked.call.clone(), open).await;
    let (head, content) = match sent {
        Ok(sent) => sent,
        Err(Stopped::Directory) => return page::get(asked).await,
        Err(Stopped::Failed(failure)) => return Err(failure),
    };
    match head {
        Head::Several(stat, several) => ranges::send(asked, *stat, several).await,
        Head::Plan(plan, stat) => {
            let body = match content {
                Content::Whole(bytes) => whole(bytes),
                Content::Stream(rest) => ReplyBody::new(rest.map_err(Into::into)),
            };
            let mut response = Response::new(body);
            *response.status_mut() = plan.status;
            *response.headers_mut() = headers(&plan, &stat, &Wanted::of(&asked.parts.headers), None);
            Ok(response)
        }
    }
}

/// Why a file is not sent.
enum Stopped {
    /// It is a directory.
    Directory,
    Failed(Failure),
}

impl From<ArchiveError> for Stopped {
    fn from(error: ArchiveError) -> Self {
        match error.kind() {
            ErrorKind::IsADirectory => Stopped::Directory,
            ErrorKind::Nearline => Stopped::Failed(nearline(&error).into()),
            _ => Stopped::Failed(error.into()),
        }
    }
}

impl From<transfer::Fault> for Stopped {
    fn from(fault: transfer::Fault) -> Self {
        Stopped::Failed(fault.into())
    }
}

/// What is sent.
enum Head {
    Plan(Plan, Box<FileStat>),
    /// Several parts, each with a head of its own.
    Several(Box<FileStat>, Several),
}

fn open(asked: &Asked) -> Result<Opened<Head>, Stopped> {
    let headers = &asked.parts.headers;
    let mut download = asked.engine.open_read_for(&asked.target.path, &asked.call.principal.name)?;
    let stat = Box::new(download.stat().clone());
    let refused = |refusal: Refusal| Stopped::Failed(refusal.into());
    if let Some(several) = several(&stat, headers, asked.context.settings.limits.ranges).map_err(refused)? {
        download.check_drives()?;
        return Ok(Opened { head: Head::Several(stat, several), length: 0, download: None });
    }
    let plan = Plan::new(&stat, headers, true).map_err(refused)?;
    if let (Some(offset), true) = (plan.part, plan.length > 0) {
        download.select(offset, plan.length)?;
    }
    if plan.length > 0 {
        download.check_drives()?;
    }
    Ok(Opened { head: Head::Plan(plan, stat), length: plan.length, download: Some(download) })
}

/// The parts, if several are asked for and the conditions of the request hold.
fn several(stat: &FileStat, headers: &HeaderMap, limit: usize) -> Result<Option<Several>, Refusal> {
    let mut values = headers.get_all(RANGE).iter();
    let (Some(value), None) = (values.next(), values.next()) else { return Ok(None) };
    if !value.as_bytes().contains(&b',') || !is_of_this(headers, &entity_tag(stat)) {
        return Ok(None);
    }
    if Plan::new(stat, headers, false)?.status != StatusCode::OK {
        return Ok(None);
    }
    ranges::several(value.as_bytes(), stat.size.0, limit)
}

/// A file that is on tape only is answered at once, with when to ask again: whoever wants it has it staged
/// first.
pub(crate) fn nearline(error: &ArchiveError) -> Refusal {
    let on_its_way = matches!(error, ArchiveError::Nearline { recall: Some(_), .. });
    let seconds = if on_its_way { RECALL_RETRY_SECONDS } else { NEARLINE_RETRY_SECONDS };
    Refusal::new(Kind::NotStaged, error.to_string()).with(RETRY_AFTER, HeaderValue::from(seconds))
}

/// The headers of a file.
pub(crate) fn headers(plan: &Plan, stat: &FileStat, wanted: &Wanted, md5: Option<[u8; 16]>) -> HeaderMap {
    let mut headers = plan.headers(stat);
    wanted.answer(stat, md5, &mut headers);
    headers.insert(HeaderName::from_static("kist-locality"), HeaderValue::from_static(stat.locality.word()));
    if plan.status == StatusCode::NOT_MODIFIED {
        headers.remove(CONTENT_LENGTH);
        return headers;
    }
    let kind = HeaderValue::from_str(content_type(&stat.attributes.xattrs));
    headers.insert(CONTENT_TYPE, kind.unwrap_or(HeaderValue::from_static(crate::properties::TYPE_DEFAULT)));
    headers.insert(CONTENT_SECURITY_POLICY, FILE_POLICY);
    headers
}

/// The MD5 of a file in the pool, read for it; `None` if it is not there, or too large.
async fn computed_md5(asked: &Asked, stat: &FileStat) -> Result<Option<[u8; 16]>, Failure> {
    let limit = asked.context.settings.limits.computed_bytes;
    if matches!(stat.locality, Locality::Nearline | Locality::Lost) || stat.size > limit {
        return Ok(None);
    }
    let file = stat.file;
    // Whoever goes away does not have it read to its end.
    let wanted = Arc::new(());
    let still = Arc::downgrade(&wanted);
    let sum = asked
        .run_long(move |asked: &Asked| {
            let mut download = asked.engine.open_read_for(&asked.target.path, &asked.call.principal.name)?;
            if download.stat().file != file {
                return Err(ArchiveError::TreeChanges.into());
            }
            md5_of(asked, &mut *download, &still)
        })
        .await;
    drop(wanted);
    sum
}

fn md5_of(asked: &Asked, download: &mut dyn Download, still: &Weak<()>) -> Result<Option<[u8; 16]>, Failure> {
    let mut beside = Beside::start(Hasher::new(true, false, []), asked.context.transfers.md5())?;
    while let Some(bytes) = download.next()? {
        if still.strong_count() == 0 {
            return Ok(None);
        }
        beside.update(&bytes)?;
    }
    Ok(beside.finish()?.md5)
}
