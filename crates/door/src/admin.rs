//! `/api/v1`: one function an address. Each reads its input, calls the engine once, and converts.

use std::sync::Arc;

use archive::{CallProgress, PRIORITY_MAX, PRIORITY_USUAL, StageOptions, Stat, TapeUse};
use axum::body::Body;
use axum::extract::rejection::PathRejection;
use axum::extract::{Path, RawQuery};
use axum::http::{HeaderMap, StatusCode};
use axum::response::Response;
use axum::{Extension, Json};
use base::{ArchivePath, BlockAddress, Duration, Name, RequestId, Timestamp, Vid};
use catalogue::Attributes;

use crate::convert;
use crate::engine::Engine;
use crate::foresee::outlook_reply;
use crate::json::{JsonBody, ReleaseInput, SelectionInput};
use crate::parameters::Parameters;
use crate::put::{parse_mode, parse_mtime};
use crate::shared::Asked;
use crate::works::Answer;
use entrance::Call;
use entrance::percent::bad_path;
use entrance::{Kind, Refusal};

/// For how long files of a request are pinned if the client does not say.
const PIN_DEFAULT: Duration = Duration::from_secs(86_400);
/// The longest pin: a hundred years, as for the restores of S3.
const PIN_MAX: Duration = Duration::from_secs(36_500 * 86_400);
/// Permission bits of a directory whose client names none.
const MODE_DEFAULT: u32 = 0o755;

pub(crate) type Door = Asked;
type Caller = Extension<Arc<Call>>;
pub(crate) type Reply<T> = Result<Json<T>, Refusal>;
type PathPart = Result<Path<String>, PathRejection>;

pub(crate) async fn stat(shared: Door, RawQuery(query): RawQuery) -> Reply<wire::StatReply> {
    let path = Parameters::read(query.as_deref(), &["path"])?.needed_path("path")?;
    shared.call(move |engine| Ok(Json(convert::stat_reply(&engine.stat(&path)?)))).await
}

pub(crate) async fn list(shared: Door, RawQuery(query): RawQuery) -> Reply<wire::ListReply> {
    let parameters = Parameters::read(query.as_deref(), &["path", "after", "limit"])?;
    let path = parameters.needed_path("path")?;
    let after = parameters.text("after")?.map(Name::new).transpose().map_err(bad_path)?;
    let limit = parameters.limit(shared.limits.page_default, shared.limits.page)?;
    let list = move |engine: &dyn Engine| {
        let (entries, more) = engine.list(&path, after.as_ref(), limit)?;
        Ok(Json(wire::ListReply { entries: entries.iter().map(convert::list_entry).collect(), more }))
    };
    shared.call(list).await
}

pub(crate) async fn make_directory(
    shared: Door,
    Extension(call): Caller,
    body: Body,
) -> Result<StatusCode, Refusal> {
    let body = JsonBody::read(&shared, &call, body).await?.parse::<wire::MakeDirectoryBody>()?;
    call.about(body.path.clone());
    let path = ArchivePath::new(&body.path).map_err(bad_path)?;
    let attributes = Attributes {
        mtime: parse_mtime(body.mtime.as_deref(), "mtime")?,
        mode: parse_mode(body.mode.as_deref(), "mode", MODE_DEFAULT)?,
        owner: body.owner.unwrap_or_default(),
        group: body.group.unwrap_or_default(),
        xattrs: Vec::new(),
    };
    let make = move |engine: &dyn Engine| {
        // With `parents` an existing directory is no error, and the status tells which it was.
        let exists = body.parents && matches!(engine.stat(&path), Ok(Stat::Directory(_)));
        engine.make_directory(&path, attributes, body.class.as_deref(), body.parents)?;
        Ok(if exists { StatusCode::OK } else { StatusCode::CREATED })
    };
    shared.call(make).await
}

pub(crate) async fn rename(shared: Door, Extension(call): Caller, body: Body) -> Result<StatusCode, Refusal> {
    let body = JsonBody::read(&shared, &call, body).await?.parse::<wire::RenameBody>()?;
    call.about(format!("{} to {}", body.from, body.to));
    let from = ArchivePath::new(&body.from).map_err(bad_path)?;
    let to = ArchivePath::new(&body.to).map_err(bad_path)?;
    shared.call(move |engine| Ok(engine.rename(&from, &to, body.replace)?)).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// For how long files are pinned. A pin that would end after the last time there is is not shortened.
fn pin(seconds: Option<u64>) -> Result<Duration, Refusal> {
    let pin = seconds.map_or(PIN_DEFAULT, Duration::from_secs);
    if pin == Duration::ZERO {
        return Err(Refusal::bad(
            "pin_seconds 0: files that are not pinned may leave the pool before anybody reads them: say how \
             many seconds they stay, at least 1, or leave it out for a day",
        ));
    }
    if pin > PIN_MAX {
        let days = PIN_MAX.as_secs() / 86_400;
        return Err(Refusal::bad(format!("files are pinned for {days} days at most; {}", Timestamp::RANGE)));
    }
    Ok(pin)
}

pub(crate) async fn stage(
    shared: Door,
    Extension(call): Caller,
    headers: HeaderMap,
    body: Body,
) -> Result<Response, Refusal> {
    let body = JsonBody::read_list(&shared, &call, body).await?;
    let limit = shared.limits.paths;
    let about = call.clone();
    let stage = move |engine: &dyn Engine, progress: &CallProgress| {
        let input: SelectionInput = body.parse()?;
        let _share = body.spent();
        let pin = pin(input.pin_seconds)?;
        let priority = priority(input.priority)?;
        let selection = input.selection(limit)?;
        about.about(convert::selection_text(&selection));
        let options = StageOptions { owner: about.principal.name.clone(), pin, priority };
        let request = engine.stage_told(&selection, options, progress)?;
        Answer::json(StatusCode::CREATED, &wire::CreatedReply { id: request.0 })
    };
    shared.work("stage", call, &headers, stage).await
}

pub(crate) async fn requests(shared: Door, RawQuery(query): RawQuery) -> Reply<Vec<wire::RequestReply>> {
    let parameters = Parameters::read(query.as_deref(), &["before", "limit"])?;
    let before = parameters.number("before")?.map(RequestId);
    let limit = parameters.limit(shared.limits.page_default, shared.limits.page)?;
    let list = move |engine: &dyn Engine| {
        Ok(Json(engine.requests(before, limit)?.iter().map(convert::request_reply).collect()))
    };
    shared.call(list).await
}

pub(crate) async fn request(shared: Door, id: PathPart) -> Reply<wire::RequestReply> {
    let id = request_id(id)?;
    let request = move |engine: &dyn Engine| {
        let mut reply = convert::request_reply(&engine.request(id)?);
        reply.outlook = Some(outlook_reply(&engine.request_outlook(id)?));
        Ok(Json(reply))
    };
    shared.call(request).await
}

pub(crate) async fn request_files(
    shared: Door,
    id: PathPart,
    RawQuery(query): RawQuery,
) -> Reply<wire::RequestFilesReply> {
    let id = request_id(id)?;
    let parameters = Parameters::read(query.as_deref(), &["from", "limit"])?;
    let from = parameters.number("from")?.unwrap_or(0);
    let limit = parameters.limit(shared.limits.page_default, shared.limits.page)?;
    let list = move |engine: &dyn Engine| {
        let (files, next) = engine.request_files(id, from, limit)?;
        Ok(Json(wire::RequestFilesReply { files: files.iter().map(convert::request_file).collect(), next }))
    };
    shared.call(list).await
}

pub(crate) async fn prioritise(
    shared: Door,
    Extension(call): Caller,
    id: PathPart,
    body: Body,
) -> Result<StatusCode, Refusal> {
    let id = request_id(id)?;
    let body = JsonBody::read(&shared, &call, body).await?;
    let change = move |engine: &dyn Engine| {
        let input: wire::PriorityBody = body.parse()?;
        Ok(engine.set_priority(id, priority(Some(input.priority))?)?)
    };
    shared.call(change).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// A priority that exists; the usual one if none is given.
fn priority(given: Option<u8>) -> Result<u8, Refusal> {
    let priority = given.unwrap_or(PRIORITY_USUAL);
    if priority > PRIORITY_MAX {
        return Err(Refusal::bad(format!("there is no priority {priority}: it is 0 to {PRIORITY_MAX}")));
    }
    Ok(priority)
}

pub(crate) async fn cancel(
    shared: Door,
    Extension(call): Caller,
    id: PathPart,
    headers: HeaderMap,
    body: Body,
) -> Result<Response, Refusal> {
    let id = request_id(id)?;
    JsonBody::read(&shared, &call, body).await?;
    call.about(format!("request {id}"));
    let cancel = move |engine: &dyn Engine, progress: &CallProgress| {
        engine.cancel_request_told(id, progress)?;
        Ok(Answer::status(StatusCode::NO_CONTENT))
    };
    shared.work("cancel", call, &headers, cancel).await
}

pub(crate) async fn release(
    shared: Door,
    Extension(call): Caller,
    id: PathPart,
    headers: HeaderMap,
    body: Body,
) -> Result<Response, Refusal> {
    let id = request_id(id)?;
    let body = JsonBody::read_list(&shared, &call, body).await?;
    let limit = shared.limits.paths;
    call.about(format!("request {id}"));
    let release = move |engine: &dyn Engine, progress: &CallProgress| {
        let input: ReleaseInput = body.parse()?;
        let _share = body.spent();
        let paths = input.paths.map(|paths| paths.checked(limit)).transpose()?;
        engine.release_told(id, paths.as_deref(), progress)?;
        Ok(Answer::status(StatusCode::NO_CONTENT))
    };
    shared.work("release", call, &headers, release).await
}

pub(crate) async fn evict(
    shared: Door,
    Extension(call): Caller,
    headers: HeaderMap,
    body: Body,
) -> Result<Response, Refusal> {
    let body = JsonBody::read_list(&shared, &call, body).await?;
    let limit = shared.limits.paths;
    let about = call.clone();
    let evict = move |engine: &dyn Engine, progress: &CallProgress| {
        let selection = body.parse::<SelectionInput>()?.selection(limit)?;
        let _share = body.spent();
        about.about(convert::selection_text(&selection));
        Answer::json(StatusCode::OK, &convert::evict_reply(&engine.evict_told(&selection, progress)?))
    };
    shared.work("evict", call, &headers, evict).await
}

pub(crate) async fn tapes(shared: Door) -> Reply<Vec<wire::TapeReply>> {
    shared.call(|engine| Ok(Json(engine.tapes()?.iter().map(convert::tape_reply).collect()))).await
}

pub(crate) async fn tape(
    shared: Door,
    vid: PathPart,
    RawQuery(query): RawQuery,
) -> Reply<wire::TapeContentReply> {
    let Path(vid) = vid.map_err(|_| no_such_part())?;
    let vid = Vid::new(&vid).map_err(|error| Refusal::bad(error.to_string()))?;
    let parameters = Parameters::read(query.as_deref(), &["from", "limit"])?;
    let from = BlockAddress(parameters.number("from")?.unwrap_or(0));
    let limit = parameters.limit(shared.limits.page_default, shared.limits.page)?;
    let show = move |engine: &dyn Engine| {
        let tape = convert::tape_reply(&engine.tape(vid)?);
        let (containers, next) = engine.tape_content(vid, from, limit)?;
        let containers = containers.iter().map(convert::container_reply).collect();
        Ok(Json(wire::TapeContentReply { tape, containers, next: next.map(|block| block.0) }))
    };
    shared.call(show).await
}

pub(crate) async fn set_tape(
    shared: Door,
    Extension(call): Caller,
    vid: PathPart,
    body: Body,
) -> Result<StatusCode, Refusal> {
    let Path(vid) = vid.map_err(|_| no_such_part())?;
    let vid = Vid::new(&vid).map_err(|error| Refusal::bad(error.to_string()))?;
    let body = JsonBody::read(&shared, &call, body).await?.parse::<wire::TapeBody>()?;
    call.about(format!("{vid} {} {}", body.state, body.reason));
    if body.state == "off-site" {
        call.about(format!("{vid} off-site {}", body.place));
        shared.call(move |engine| Ok(engine.set_tape_off_site(vid, &body.place)?)).await?;
        return Ok(StatusCode::NO_CONTENT);
    }
    if !body.place.is_empty() {
        return Err(Refusal::bad("'place' is of a tape that is off-site".to_owned()));
    }
    let use_as = match body.state.as_str() {
        "active" => TapeUse::Active,
        "read-only" => TapeUse::ReadOnly,
        "disabled" => TapeUse::Disabled,
        other => {
            return Err(Refusal::bad(format!(
                "'{other}' is no state: active, read-only, disabled or off-site"
            )));
        }
    };
    shared.call(move |engine| Ok(engine.set_tape(vid, use_as, &body.reason)?)).await?;
    Ok(StatusCode::NO_CONTENT)
}

pub(crate) async fn drive_up(
    shared: Door,
    Extension(call): Caller,
    name: PathPart,
) -> Result<StatusCode, Refusal> {
    let Path(name) = name.map_err(|_| no_such_part())?;
    call.about(name.clone());
    shared.call(move |engine| Ok(engine.drive_up(&name)?)).await?;
    Ok(StatusCode::NO_CONTENT)
}

pub(crate) async fn drives(shared: Door) -> Reply<Vec<wire::DriveReply>> {
    let read = |engine: &dyn Engine| {
        engine.may_look()?;
        Ok(Json(engine.tape_drives().iter().map(convert::drive_reply).collect()))
    };
    shared.call(read).await
}

pub(crate) async fn pool(shared: Door) -> Reply<wire::PoolReply> {
    shared.call(|engine| Ok(Json(convert::pool_reply(&engine.pool_info()?)))).await
}

pub(crate) async fn classes(shared: Door) -> Reply<Vec<wire::ClassReply>> {
    shared.call(|engine| Ok(Json(engine.classes()?.iter().map(convert::class_reply).collect()))).await
}

pub(crate) async fn queue(shared: Door) -> Reply<Vec<wire::QueueReply>> {
    shared.call(|engine| Ok(Json(engine.queue()?.iter().map(convert::queue_reply).collect()))).await
}

pub(crate) async fn status(shared: Door) -> Reply<wire::StatusReply> {
    let read = |engine: &dyn Engine| {
        let memory = std::fs::read_to_string("/proc/self/status").ok();
        let memory = memory.as_deref().and_then(resident_anonymous).unwrap_or(0);
        Ok(Json(convert::status_reply(engine.instance(), &engine.totals()?, memory)))
    };
    shared.call(read).await
}

pub(crate) async fn migrate(
    shared: Door,
    Extension(call): Caller,
    body: Body,
) -> Result<StatusCode, Refusal> {
    let body = JsonBody::read(&shared, &call, body).await?.parse::<wire::MigrateBody>()?;
    call.about(body.class.clone().unwrap_or_default());
    shared.call(move |engine| Ok(engine.migrate_now(body.class.as_deref())?)).await?;
    Ok(StatusCode::ACCEPTED)
}

fn request_id(part: PathPart) -> Result<RequestId, Refusal> {
    let Path(text) = part.map_err(|_| no_such_part())?;
    let digits = text.bytes().all(|b| b.is_ascii_digit());
    let number = digits.then(|| text.parse().ok()).flatten().map(RequestId);
    number.ok_or_else(|| Refusal::bad(format!("'{text}' is not the number of a request")))
}

pub(crate) fn no_such_part() -> Refusal {
    Refusal::new(Kind::NotFound, "there is nothing of that name")
}

/// The resident anonymous memory in bytes, of `/proc/self/status`.
fn resident_anonymous(status: &str) -> Option<u64> {
    let line = status.lines().find_map(|line| line.strip_prefix("RssAnon:"))?;
    line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()?.checked_mul(1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_read_from_the_kernels_table() {
        assert_eq!(
            resident_anonymous("VmRSS:\t  9 kB\nRssAnon:\t     123 kB\nRssFile: 1 kB\n"),
            Some(123 << 10)
        );
        assert_eq!(resident_anonymous("RssAnon:\n"), None);
        assert_eq!(resident_anonymous("RssAnon: 99999999999999999999 kB"), None);
    }
}
