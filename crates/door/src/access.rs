//! `/api/v1/acl`, `owner` and `quotas`.

use std::sync::Arc;

use archive::{AclEntry, QuotaInfo, QuotaLimits, QuotaOf};
use axum::body::Body;
use axum::extract::RawQuery;
use axum::http::StatusCode;
use axum::{Extension, Json};
use base::{ArchivePath, ByteCount};
use identity::Acl;

use crate::admin::{Door, Reply};
use crate::engine::Engine;
use crate::json::JsonBody;
use crate::parameters::Parameters;
use entrance::Call;
use entrance::Refusal;
use entrance::percent::bad_path;

type Caller = Extension<Arc<Call>>;

pub(crate) async fn acl(shared: Door, RawQuery(query): RawQuery) -> Reply<wire::AclReply> {
    let path = Parameters::read(query.as_deref(), &["path"])?.needed_path("path")?;
    shared.call(move |engine| Ok(Json(acl_reply(engine, &path)?))).await
}

fn acl_reply(engine: &dyn Engine, path: &ArchivePath) -> Result<wire::AclReply, Refusal> {
    let entries = engine.acl(path)?;
    let chain = engine.access_chain(path)?;
    let names: Vec<&str> = path.components().take(chain.acl_depth).collect();
    let above = format!("/{}", names.join("/"));
    Ok(wire::AclReply {
        path: path.to_string(),
        entries: entries.as_deref().map(lines),
        effective_path: chain.acl.is_some().then_some(above),
        effective: chain.acl.as_deref().map(lines),
        owner: chain.owner,
        group: chain.group,
    })
}

fn lines(entries: &[AclEntry]) -> Vec<wire::AclLine> {
    let line = |entry: &AclEntry| wire::AclLine {
        subject: entry.subject.clone(),
        // Bits of a newer Kist are told as they are, since a list without them would mean something else.
        rights: match identity::Rights::from_bits(entry.rights) {
            Some(rights) => rights.to_string(),
            None => format!("{:#x}", entry.rights),
        },
    };
    entries.iter().map(line).collect()
}

pub(crate) async fn set_acl(
    shared: Door,
    Extension(call): Caller,
    body: Body,
) -> Result<StatusCode, Refusal> {
    let body = JsonBody::read(&shared, &call, body).await?.parse::<wire::AclBody>()?;
    let path = ArchivePath::new(&body.path).map_err(bad_path)?;
    let entries = body.entries.as_deref().map(checked).transpose()?;
    call.about(match &body.entries {
        Some(entries) => format!("{path} {}", told(entries)),
        None => format!("{path} none"),
    });
    shared.call(move |engine| Ok(engine.set_acl(&path, entries)?)).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// Most of a list that goes into the audit log.
const TOLD_MAX: usize = 20;

fn told(entries: &[wire::AclLine]) -> String {
    let told = entries.iter().take(TOLD_MAX).map(|line| format!("{}:{}", line.subject, line.rights));
    let more = if entries.len() > TOLD_MAX { " ..." } else { "" };
    told.collect::<Vec<_>>().join(" ") + more
}

fn checked(lines: &[wire::AclLine]) -> Result<Vec<AclEntry>, Refusal> {
    let bad = |error: &dyn std::fmt::Display| Refusal::bad(error.to_string());
    let entry = |line: &wire::AclLine| {
        let rights = identity::Rights::parse(&line.rights).map_err(|error| bad(&error))?;
        Ok((line.subject.clone(), rights.bits()))
    };
    let pairs = lines.iter().map(entry).collect::<Result<Vec<_>, Refusal>>()?;
    let acl = Acl::from_pairs(&pairs).map_err(|error| bad(&error))?;
    Ok(acl.to_pairs().into_iter().map(|(subject, rights)| AclEntry { subject, rights }).collect())
}

pub(crate) async fn set_owner(
    shared: Door,
    Extension(call): Caller,
    body: Body,
) -> Result<StatusCode, Refusal> {
    let body = JsonBody::read(&shared, &call, body).await?.parse::<wire::OwnerBody>()?;
    let path = ArchivePath::new(&body.path).map_err(bad_path)?;
    if body.owner.is_none() && body.group.is_none() {
        return Err(Refusal::bad("neither owner nor group is named: nothing is to be changed"));
    }
    let word = |name: &Option<String>| name.clone().unwrap_or_else(|| "-".to_owned());
    call.about(format!("{path} owner {} group {}", word(&body.owner), word(&body.group)));
    let set = move |engine: &dyn Engine| {
        Ok(engine.set_owner(&path, body.owner.as_deref(), body.group.as_deref())?)
    };
    shared.call(set).await?;
    Ok(StatusCode::NO_CONTENT)
}

pub(crate) async fn quotas(shared: Door) -> Reply<Vec<wire::QuotaReply>> {
    shared.call(move |engine| Ok(Json(engine.quotas()?.iter().map(quota_reply).collect()))).await
}

fn quota_reply(quota: &QuotaInfo) -> wire::QuotaReply {
    let (path, vo) = match &quota.of {
        QuotaOf::Directory(path) => (Some(path.to_string()), None),
        QuotaOf::Group(group) => (None, Some(group.clone())),
    };
    let record = &quota.record;
    wire::QuotaReply {
        path,
        vo,
        bytes: record.limits.bytes.map(|bytes| bytes.0),
        files: record.limits.files,
        bytes_used: record.used.bytes.0,
        files_used: record.used.files,
        counting: record.counting.is_some(),
        counted: quota.counted(),
    }
}

fn subject(body: &wire::QuotaBody) -> Result<QuotaOf, Refusal> {
    match (&body.path, &body.vo) {
        (Some(path), None) => Ok(QuotaOf::Directory(ArchivePath::new(path).map_err(bad_path)?)),
        (None, Some(vo)) if !vo.is_empty() => Ok(QuotaOf::Group(vo.clone())),
        _ => Err(Refusal::bad("a quota is of a path or of a virtual organisation (vo): name one of them")),
    }
}

pub(crate) async fn set_quota(
    shared: Door,
    Extension(call): Caller,
    body: Body,
) -> Result<StatusCode, Refusal> {
    let body = JsonBody::read(&shared, &call, body).await?.parse::<wire::QuotaBody>()?;
    let of = subject(&body)?;
    let word = |limit: Option<u64>| limit.map_or_else(|| "any".to_owned(), |limit| limit.to_string());
    call.about(format!("{of} bytes {} files {}", word(body.bytes), word(body.files)));
    let limits = QuotaLimits { bytes: body.bytes.map(ByteCount), files: body.files };
    shared.call(move |engine| Ok(engine.set_quota(&of, limits)?)).await?;
    Ok(StatusCode::NO_CONTENT)
}

pub(crate) async fn remove_quota(
    shared: Door,
    Extension(call): Caller,
    body: Body,
) -> Result<StatusCode, Refusal> {
    let body = JsonBody::read(&shared, &call, body).await?.parse::<wire::QuotaBody>()?;
    let of = subject(&body)?;
    call.about(of.to_string());
    shared.call(move |engine| Ok(engine.remove_quota(&of)?)).await?;
    Ok(StatusCode::NO_CONTENT)
}
