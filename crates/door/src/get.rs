//! `GET` and `HEAD /data/...`.

use std::sync::Arc;

use archive::{ArchiveError, FileStat, Stat};
use axum::body::Body;
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use base::ArchivePath;
use catalogue::FileKind;
use transfer::{Content, Opened};

use crate::data::DataRequest;
use crate::engine::Engine;
use crate::shared::Asked;
use entrance::Call;
use entrance::headers::precise;
use entrance::{Plan, Refusal, percent};

/// Says what `GET` would say, also of a file that is on tape only.
pub(crate) async fn head(shared: &Asked, asked: DataRequest) -> Result<Response, Refusal> {
    let DataRequest { path, headers, .. } = asked;
    let stat = shared.call(move |engine| Ok(engine.stat(&path)?)).await?;
    let stat = match stat {
        Stat::File(stat) => stat,
        Stat::Directory(stat) => return Err(ArchiveError::IsADirectory(stat.path).into()),
    };
    let plan = Plan::new(&stat, &headers, false)?;
    Ok(response(&plan, &stat, Body::empty()))
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
    Ok(response(&plan, &stat, body))
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

fn response(plan: &Plan, stat: &FileStat, body: Body) -> Response {
    let mut headers = plan.headers(stat);
    let mut insert = |name: &'static str, value: String| {
        if let Ok(value) = HeaderValue::from_str(&value) {
            headers.insert(HeaderName::from_static(name), value);
        }
    };
    insert("digest", format!("adler32={}", stat.checksums.stream.adler32));
    insert("kist-blake3", stat.checksums.blake3.to_string());
    insert("kist-file-id", stat.file.to_string());
    insert("kist-locality", stat.locality.word().to_owned());
    insert("kist-class", percent::encode(&stat.class));
    insert("kist-mtime", precise(stat.attributes.mtime));
    insert("kist-mode", format!("{:04o}", stat.attributes.mode));
    insert("kist-owner", percent::encode(&stat.attributes.owner));
    insert("kist-group", percent::encode(&stat.attributes.group));
    if let FileKind::Symlink(target) = &stat.kind {
        insert("kist-link-target", percent::encode(target));
    }
    if plan.status != StatusCode::NOT_MODIFIED {
        insert("content-type", "application/octet-stream".to_owned());
    }
    (plan.status, headers, body).into_response()
}
