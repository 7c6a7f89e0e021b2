//! `GET` and `HEAD /data/...`.

use std::sync::Arc;

use archive::{ArchiveError, FileStat, Stat};
use axum::body::Body;
use axum::http::header::{
    ACCEPT_RANGES, CONTENT_LENGTH, CONTENT_RANGE, CONTENT_TYPE, ETAG, HeaderName, HeaderValue, IF_MATCH,
    IF_NONE_MATCH, IF_RANGE, LAST_MODIFIED, RANGE,
};
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use base::ArchivePath;
use catalogue::FileKind;
use transfer::{Content, Opened};

use crate::convert::locality_word;
use crate::data::DataRequest;
use crate::engine::Engine;
use crate::shared::Asked;
use entrance::Call;
use entrance::headers::{Range, http_date, names_tag, precise, range};
use entrance::percent;
use entrance::{Kind, Refusal, unsatisfied};

/// Says what `GET` would say, also of a file that is on tape only.
pub(crate) async fn head(shared: &Asked, asked: DataRequest) -> Result<Response, Refusal> {
    let DataRequest { path, headers, .. } = asked;
    let stat = shared.call(move |engine| Ok(engine.stat(&path)?)).await?;
    let stat = match stat {
        Stat::File(stat) => stat,
        Stat::Directory(stat) => return Err(ArchiveError::IsADirectory(stat.path).into()),
    };
    let plan = Plan::new(&stat, &headers, false)?;
    Ok(plan.response(&stat, Body::empty()))
}

/// Sends a file or one range of it.
pub(crate) async fn get(shared: &Asked, asked: DataRequest) -> Result<Response, Refusal> {
    let DataRequest { path, headers, call, .. } = asked;
    let engine = shared.engine.clone();
    // The call counts against the principal until the last byte.
    let open = move |call: &Arc<Call>| open(&*engine, &path, &headers, &call.principal.name);
    let ((plan, stat), content) = shared.transfers.send(&shared.holder, call, open).await?;
    let body = match content {
        Content::Whole(bytes) => Body::from(bytes),
        Content::Stream(rest) => Body::new(rest),
    };
    Ok(plan.response(&stat, body))
}

fn open(
    engine: &dyn Engine,
    path: &ArchivePath,
    headers: &HeaderMap,
    who: &str,
) -> Result<Opened<(Plan, FileStat)>, Refusal> {
    let mut download = engine.open_read_for(path, who)?;
    let plan = Plan::new(download.stat(), headers, true)?;
    if let (Some(offset), true) = (plan.part, plan.length > 0) {
        download.select(offset, plan.length)?;
    }
    if plan.length > 0 {
        download.check_drives()?;
    }
    Ok(Opened { head: (plan, download.stat().clone()), length: plan.length, download: Some(download) })
}

/// What is sent: decided from the file and the request's conditions.
#[derive(Clone, Copy, Debug)]
struct Plan {
    status: StatusCode,
    /// Where the part begins, if it is one.
    part: Option<u64>,
    /// Bytes of the body.
    length: u64,
}

impl Plan {
    /// RFC 9110, 13.2.2: `If-Match`, `If-None-Match`, `If-Range`, `Range`. `Range` counts only for `GET`.
    fn new(stat: &FileStat, headers: &HeaderMap, ranged: bool) -> Result<Plan, Refusal> {
        let size = stat.size.0;
        let tag = format!("\"{}\"", stat.file);
        let named = |name: &HeaderName, weak| {
            let mut values = headers.get_all(name).iter().peekable();
            values.peek().is_some().then(|| values.any(|value| names_tag(value.as_bytes(), &tag, weak)))
        };
        if named(&IF_MATCH, false) == Some(false) {
            let detail = format!("{} is another version now: its entity tag is {tag}", stat.path);
            return Err(Refusal::new(Kind::Precondition, detail));
        }
        if named(&IF_NONE_MATCH, true) == Some(true) {
            return Ok(Plan { status: StatusCode::NOT_MODIFIED, part: None, length: 0 });
        }
        let whole = Plan { status: StatusCode::OK, part: None, length: size };
        let current =
            headers.get(IF_RANGE).is_none_or(|value| value.as_bytes().trim_ascii() == tag.as_bytes());
        let mut ranges = headers.get_all(RANGE).iter();
        let asked = match (ranges.next(), ranges.next()) {
            (Some(value), None) if ranged && current => range(value.as_bytes(), size),
            _ => Range::Whole,
        };
        match asked {
            Range::Whole => Ok(whole),
            Range::Part { offset, length } => {
                Ok(Plan { status: StatusCode::PARTIAL_CONTENT, part: Some(offset), length })
            }
            Range::Unsatisfiable => {
                let detail = format!("the range touches no byte of {}, which has {size} bytes", stat.path);
                Err(Refusal::new(Kind::Range, detail).with(CONTENT_RANGE, unsatisfied(size)))
            }
        }
    }

    fn response(&self, stat: &FileStat, body: Body) -> Response {
        let mut headers = HeaderMap::new();
        let mut insert = |name: HeaderName, value: String| {
            if let Ok(value) = HeaderValue::from_str(&value) {
                headers.insert(name, value);
            }
        };
        let kist = HeaderName::from_static;
        insert(ETAG, format!("\"{}\"", stat.file));
        insert(ACCEPT_RANGES, "bytes".to_owned());
        insert(kist("digest"), format!("adler32={}", stat.checksums.stream.adler32));
        insert(kist("kist-blake3"), stat.checksums.blake3.to_string());
        insert(kist("kist-file-id"), stat.file.to_string());
        insert(kist("kist-locality"), locality_word(stat.locality).to_owned());
        insert(kist("kist-class"), percent::encode(&stat.class));
        insert(kist("kist-mtime"), precise(stat.attributes.mtime));
        insert(kist("kist-mode"), format!("{:04o}", stat.attributes.mode));
        insert(kist("kist-owner"), percent::encode(&stat.attributes.owner));
        insert(kist("kist-group"), percent::encode(&stat.attributes.group));
        if let FileKind::Symlink(target) = &stat.kind {
            insert(kist("kist-link-target"), percent::encode(target));
        }
        if self.status != StatusCode::NOT_MODIFIED {
            insert(CONTENT_LENGTH, self.length.to_string());
            insert(CONTENT_TYPE, "application/octet-stream".to_owned());
            insert(kist("x-content-type-options"), "nosniff".to_owned());
        }
        if let Some(offset) = self.part {
            let last = offset + self.length - 1;
            insert(CONTENT_RANGE, format!("bytes {offset}-{last}/{}", stat.size.0));
        }
        if let Some(date) = http_date(stat.attributes.mtime) {
            headers.insert(LAST_MODIFIED, date);
        }
        (self.status, headers, body).into_response()
    }
}
