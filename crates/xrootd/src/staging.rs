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
use crate::frame::IO_BYTES_MAX;
use crate::names::path;
use crate::people::Client;

/// Files of a request that are looked through for those that were asked for.
const QUERY_FILES_MAX: usize = 100_000;
/// Files of a request that are told if none is named.
const ANSWER_FILES_MAX: usize = 1_000;
/// The longest JSON in one answer. A line has a path and a reason with it: it is much shorter than what a
/// frame has room for beside this.
const ANSWER_BYTES_MAX: usize = IO_BYTES_MAX as usize;
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
    let request = stage_paths(client, paths(texts)?, priority, pin)?;
    Ok(request.0.to_string())
}

/// The same of paths that were read already.
pub fn stage_paths(
    client: &Client,
    paths: Vec<ArchivePath>,
    priority: u32,
    pin: Duration,
) -> Result<RequestId, Refused> {
    let selection = Selection { paths, recursive: false };
    if selection.paths.is_empty() {
        return Err(Refused::new(Errno::INVAL, "no path is named"));
    }
    let more = u8::try_from(priority).unwrap_or(0);
    let priority = PRIORITY_USUAL.saturating_add(more).min(PRIORITY_MAX);
    let options = StageOptions { owner: client.caller.name.clone(), pin, priority };
    Ok(client.engine.stage_told(&selection, options, &CallProgress::default())?)
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

/// How a request stands: the JSON that gfal2 and FTS read, of as many of the paths as there is room for.
pub struct Answer {
    /// Paths, from the first, that it tells of.
    pub paths: u32,
    /// `request_id` and `responses`.
    pub json: String,
}

impl Answer {
    /// Takes lines as long as the whole is no longer than `room`.
    fn of(request: &str, room: usize, lines: impl Iterator<Item = Line>) -> Result<Self, serde_json::Error> {
        let mut json = format!(r#"{{"request_id":{},"responses":["#, serde_json::to_string(request)?);
        let (end, mut paths) = ("]}", 0);
        for line in lines {
            let line = serde_json::to_string(&line)?;
            if paths > 0 && json.len() + 1 + line.len() + end.len() > room {
                break;
            }
            if paths > 0 {
                json.push(',');
            }
            json.push_str(&line);
            paths += 1;
        }
        json.push_str(end);
        Ok(Answer { paths, json })
    }
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

/// How a request stands, for these paths, or for the first of its files: as many of them as fit.
pub fn query(client: &Client, text: &str, texts: &[String]) -> Result<Answer, Refused> {
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
    Answer::of(text, ANSWER_BYTES_MAX, asked.iter().map(line))
        .map_err(|error| Refused::new(Errno::IO, error.to_string()))
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::frame::FRAME_BYTES_MAX;

    fn line(path: &str) -> Line {
        told(path.to_owned(), Err(format!("there is no {path}")), None, true, "1")
    }

    #[test]
    fn an_answer_has_as_many_lines_as_fit() {
        let paths: Vec<String> =
            (0..10_000).map(|n| format!("/experiment/run-{n:05}/{}", "f".repeat(60))).collect();
        let (mut told, mut answers) = (Vec::new(), 0);
        while told.len() < paths.len() {
            let left = paths.iter().skip(told.len());
            let answer = Answer::of("17", ANSWER_BYTES_MAX, left.map(|path| line(path))).unwrap();
            assert!(answer.json.len() <= ANSWER_BYTES_MAX, "{}", answer.json.len());
            let read: serde_json::Value = serde_json::from_str(&answer.json).unwrap();
            assert_eq!(read["request_id"], "17");
            let responses = read["responses"].as_array().unwrap();
            assert_eq!(responses.len(), answer.paths as usize);
            told.extend(responses.iter().map(|line| line["path"].as_str().unwrap().to_owned()));
            answers += 1;
        }
        assert_eq!((told == paths, answers), (true, 2), "all of them, in their order");
        assert_eq!(
            Answer::of("17", 0, std::iter::empty()).unwrap().json,
            r#"{"request_id":"17","responses":[]}"#
        );
        let longest = Answer::of("17", 0, std::iter::repeat_with(|| line(&"\u{1}".repeat(4096)))).unwrap();
        assert_eq!(longest.paths, 1, "one line at least");
        assert!(longest.json.len() < (FRAME_BYTES_MAX - IO_BYTES_MAX) as usize, "{}", longest.json.len());
    }
}
