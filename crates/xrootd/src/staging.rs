//! Bringing files back from tape: stage, cancel, query, evict.

use std::collections::BTreeMap;

use archive::{
    CallProgress, ErrorKind, FileStat, Locality, RequestFile, Selection, StageOptions, Stat, has_ended,
};
use authority::{Namespace as _, Staging as _};
use base::{ArchivePath, Duration, RequestId};
use catalogue::{ItemState, PRIORITY_MAX, PRIORITY_USUAL};
use rustix::io::Errno;
use serde::Serialize;

use crate::errors::Refused;
use crate::names::path;
use crate::people::Client;

/// Files of a request that are looked through for those that were asked for.
const QUERY_FILES_MAX: usize = 100_000;
/// Files of a request that are told if none is named.
const ANSWER_FILES_MAX: usize = 1_000;
/// A page of files of a request.
const PAGE: usize = 1_000;

fn paths(texts: &[String]) -> Result<Vec<ArchivePath>, Refused> {
    texts.iter().map(|text| path(text)).collect()
}

fn number(text: &str) -> Result<RequestId, Refused> {
    let none = || Refused::new(Errno::NOENT, format!("there is no request '{text}'"));
    text.trim().parse().map(RequestId).map_err(|_| none())
}

/// Has files brought back; gives the number of the request.
pub fn stage(client: &Client, texts: &[String], priority: u32, pin: Duration) -> Result<String, Refused> {
    let selection = Selection { paths: paths(texts)?, recursive: false };
    if selection.paths.is_empty() {
        return Err(Refused::new(Errno::INVAL, "no path is named"));
    }
    let more = u8::try_from(priority).unwrap_or(0);
    let priority = PRIORITY_USUAL.saturating_add(more).min(PRIORITY_MAX);
    let options = StageOptions { owner: client.caller.name.clone(), pin, priority };
    let request = client.engine.stage_told(&selection, options, &CallProgress::default())?;
    Ok(request.0.to_string())
}

/// Cancels a request; of one that is over the pins are given back: XRootD has one word for both.
pub fn cancel(client: &Client, text: &str) -> Result<(), Refused> {
    let (request, progress) = (number(text)?, CallProgress::default());
    match client.engine.cancel_request_told(request, &progress) {
        Err(error) if error.kind() == ErrorKind::WrongState => {
            Ok(client.engine.release_told(request, None, &progress)?)
        }
        cancelled => Ok(cancelled?),
    }
}

/// Files are not needed in the pool any more: the caller's own requests pin them no longer, and what is safe
/// on tape and nobody else needs leaves the pool. That some of them stay is no error.
pub fn evict(client: &Client, texts: &[String]) -> Result<(), Refused> {
    let selection = Selection { paths: paths(texts)?, recursive: false };
    let mut pinned: BTreeMap<RequestId, Vec<ArchivePath>> = BTreeMap::new();
    for path in &selection.paths {
        match client.engine.stat(path)? {
            Stat::File(stat) => {
                for (request, _) in &stat.pins {
                    pinned.entry(*request).or_default().push(path.clone());
                }
            }
            Stat::Directory(_) => return Err(Refused::new(Errno::ISDIR, format!("{path} is a directory"))),
        }
    }
    for (request, paths) in pinned {
        // Requests of others keep their pins.
        let is_own = client.engine.request(request).is_ok_and(|info| info.record.owner == client.caller.name);
        if is_own {
            client.engine.release_told(request, Some(&paths), &CallProgress::default())?;
        }
    }
    client.engine.evict_told(&selection, &CallProgress::default())?;
    Ok(())
}

/// How a request stands: the JSON that gfal2 and FTS read.
#[derive(Serialize)]
struct Answer<'a> {
    request_id: &'a str,
    responses: Vec<Line>,
}

#[derive(Serialize)]
struct Line {
    path: String,
    path_exists: bool,
    on_tape: bool,
    online: bool,
    requested: bool,
    has_reqid: bool,
    req_time: String,
    error_text: String,
}

/// How a request stands, for these paths, or for the first of its files.
pub fn query(client: &Client, text: &str, texts: &[String]) -> Result<String, Refused> {
    let request = number(text)?;
    let info = client.engine.request(request)?;
    let wanted = paths(texts)?;
    let files = files_of(client, request, &wanted)?;
    let asked = if wanted.is_empty() {
        files.values().take(ANSWER_FILES_MAX).filter_map(|file| path(&file.path).ok()).collect()
    } else {
        wanted
    };
    let waits = !has_ended(info.record.state);
    let created = (info.record.created.0 / 1_000_000_000).to_string();
    let line = |asked: &ArchivePath| {
        let file = files.get(asked.as_str());
        let stat = match client.engine.stat(asked) {
            Ok(Stat::File(stat)) => Ok(*stat),
            Ok(Stat::Directory(_)) => Err("a directory".to_owned()),
            Err(error) => Err(error.to_string()),
        };
        told(asked.to_string(), stat, file, waits, &created)
    };
    let answer = Answer { request_id: text, responses: asked.iter().map(line).collect() };
    serde_json::to_string(&answer).map_err(|error| Refused::new(Errno::IO, error.to_string()))
}

fn told(
    path: String,
    stat: Result<FileStat, String>,
    file: Option<&RequestFile>,
    waits: bool,
    created: &str,
) -> Line {
    let (online, on_tape, mut error_text) = match &stat {
        Ok(stat) => (
            matches!(stat.locality, Locality::Online | Locality::OnlineAndNearline),
            matches!(stat.locality, Locality::Nearline | Locality::OnlineAndNearline),
            if stat.locality == Locality::Lost {
                "no copy of it can be read".to_owned()
            } else {
                String::new()
            },
        ),
        Err(why) => (false, false, why.clone()),
    };
    let has_reqid = file.is_some();
    match file.map(|file| &file.state) {
        None => {
            error_text = if error_text.is_empty() { "not in this request".to_owned() } else { error_text }
        }
        Some(ItemState::Failed(why)) => error_text.clone_from(why),
        Some(ItemState::Cancelled) if !online => "cancelled".clone_into(&mut error_text),
        Some(_) => {}
    }
    let requested = waits && file.is_some_and(|file| file.state.waits());
    let req_time = if has_reqid { created.to_owned() } else { String::new() };
    Line { path, path_exists: stat.is_ok(), on_tape, online, requested, has_reqid, req_time, error_text }
}

/// The files of a request by path: of these paths, or the first.
fn files_of(
    client: &Client,
    request: RequestId,
    wanted: &[ArchivePath],
) -> Result<BTreeMap<String, RequestFile>, Refused> {
    let (mut found, mut from, mut seen) = (BTreeMap::new(), 0, 0);
    let enough = if wanted.is_empty() { ANSWER_FILES_MAX } else { wanted.len() };
    let names: std::collections::BTreeSet<&str> = wanted.iter().map(ArchivePath::as_str).collect();
    while found.len() < enough && seen < QUERY_FILES_MAX {
        let (files, next) = client.engine.request_files(request, from, PAGE)?;
        seen += PAGE;
        let named = |file: &RequestFile| names.is_empty() || names.contains(file.path.as_str());
        found.extend(files.into_iter().filter(named).map(|file| (file.path.clone(), file)));
        match next {
            Some(next) => from = next,
            None => break,
        }
    }
    Ok(found)
}
