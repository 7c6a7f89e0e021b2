//! What clients are told. Replies have these members and no others, and no nulls: some clients fail over any
//! more, and take any `error` for a failure.

use archive::{Locality, PathLocality, PathRequest, PathState};
use base::{ByteCount, RequestId, Timestamp};
use catalogue::ItemState;
use serde::Serialize;

use crate::address::VERSION;
use crate::settings::TapeRestSettings;

/// The answer of the discovery.
#[derive(Serialize)]
pub(crate) struct Discovery<'a> {
    sitename: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    description: Option<&'a str>,
    endpoints: [Endpoint<'a>; 1],
}

#[derive(Serialize)]
struct Endpoint<'a> {
    uri: &'a str,
    version: &'static str,
}

impl<'a> Discovery<'a> {
    pub(crate) fn new(settings: &'a TapeRestSettings, uri: &'a str) -> Self {
        let endpoints = [Endpoint { uri, version: VERSION }];
        Discovery { sitename: &settings.sitename, description: settings.description.as_deref(), endpoints }
    }
}

/// The answer to a submission.
#[derive(Serialize)]
pub(crate) struct Submitted {
    #[serde(rename = "requestId")]
    request_id: String,
}

impl Submitted {
    pub(crate) fn new(request: RequestId) -> Self {
        Submitted { request_id: request.to_string() }
    }
}

/// How a request stands.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Progress<'a> {
    id: String,
    created_at: u64,
    started_at: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    completed_at: Option<u64>,
    files: Vec<FileProgress<'a>>,
}

/// How a file of a request stands: with `on_disk` or with `state`, never with both.
#[derive(Serialize, Debug, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
struct FileProgress<'a> {
    path: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    on_disk: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    state: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    started_at: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    finished_at: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<&'a str>,
}

impl<'a> Progress<'a> {
    pub(crate) fn new(request: &'a PathRequest) -> Self {
        let record = &request.info.record;
        let created = record.created;
        let files = request.paths.iter().map(|(path, state)| file(path, state, created));
        Progress {
            id: request.info.request.to_string(),
            created_at: seconds(created),
            started_at: seconds(record.started.unwrap_or(created)),
            completed_at: record.ended.map(seconds),
            files: files.collect(),
        }
    }
}

fn file<'a>(path: &'a str, state: &'a PathState, created: Timestamp) -> FileProgress<'a> {
    let (item, _) = match state {
        PathState::File(item, failure) => (item, failure),
        PathState::Refused(why) => {
            let at = Some(seconds(created));
            let error = Some(why.text());
            let state = Some("FAILED");
            return FileProgress { path, on_disk: None, state, started_at: at, finished_at: at, error };
        }
    };
    let (state, error) = match &item.state {
        ItemState::Waiting | ItemState::WaitingUnpinned if item.started.is_none() => ("SUBMITTED", None),
        ItemState::Waiting | ItemState::WaitingUnpinned => ("STARTED", None),
        ItemState::Done(_) | ItemState::Released => ("COMPLETED", None),
        ItemState::Failed(reason) if reason.is_empty() => ("FAILED", Some("it cannot be read")),
        ItemState::Failed(reason) => ("FAILED", Some(reason.as_str())),
        // The state CANCELLED of the specification is one that gfal2 does not know.
        ItemState::Cancelled => {
            let error = Some("cancelled");
            let (on_disk, state) = (Some(false), None);
            return FileProgress { path, on_disk, state, started_at: None, finished_at: None, error };
        }
    };
    FileProgress {
        path,
        on_disk: None,
        state: Some(state),
        started_at: item.started.map(seconds),
        finished_at: item.ended().map(seconds),
        error,
    }
}

/// Where a file is.
#[derive(Serialize, Debug, PartialEq, Eq)]
pub(crate) struct Located<'a> {
    path: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    locality: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<&'static str>,
}

impl<'a> Located<'a> {
    /// `None`: it can be no path.
    pub(crate) fn new(path: &'a str, found: Option<PathLocality>) -> Self {
        let word = match found {
            None => Err("it is no path of the archive"),
            Some(PathLocality::Missing) => Err("no such file or directory"),
            Some(PathLocality::NotAllowed) => Err("the caller may not ask where it is"),
            Some(PathLocality::Directory) => Err("it is a directory: name the files in it"),
            Some(PathLocality::File { locality, size, unavailable }) => {
                Ok(locality_word(locality, size, unavailable))
            }
        };
        match word {
            Ok(word) => Located { path, locality: Some(word), error: None },
            Err(why) => Located { path, locality: None, error: Some(why) },
        }
    }
}

fn locality_word(locality: Locality, size: ByteCount, unavailable: bool) -> &'static str {
    match locality {
        // An empty file is always there: with NONE for it, FTS never cleans up.
        _ if size.0 == 0 => "DISK",
        Locality::Lost => "LOST",
        _ if unavailable => "UNAVAILABLE",
        Locality::Online => "DISK",
        Locality::OnlineAndNearline => "DISK_AND_TAPE",
        Locality::Nearline => "TAPE",
    }
}

/// Seconds since 1970.
fn seconds(at: Timestamp) -> u64 {
    u64::try_from(at.0 / 1_000_000_000).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::FileId;
    use catalogue::{PathRefusal, RequestItem};
    use serde_json::json;

    const CREATED: Timestamp = Timestamp(1_795_292_940_900_000_000);

    fn told(state: &PathState) -> serde_json::Value {
        serde_json::to_value(file("//a", state, CREATED)).unwrap()
    }

    fn item(state: ItemState, started: Option<i64>, over: Option<i64>) -> PathState {
        let at = |seconds: i64| Timestamp(seconds * 1_000_000_000 + 999_999_999);
        let (started, over) = (started.map(at), over.map(at));
        PathState::File(RequestItem { started, over, ..RequestItem::new(FileId(7), state) }, None)
    }

    #[test]
    fn each_state_has_its_members_and_no_others() {
        let done = ItemState::Done(Timestamp(9_000_000_000));
        for (state, expected) in [
            (item(ItemState::Waiting, None, None), json!({ "path": "//a", "state": "SUBMITTED" })),
            (item(ItemState::WaitingUnpinned, None, None), json!({ "path": "//a", "state": "SUBMITTED" })),
            (
                item(ItemState::Waiting, Some(5), None),
                json!({ "path": "//a", "state": "STARTED", "startedAt": 5 }),
            ),
            (
                item(done.clone(), Some(5), None),
                json!({ "path": "//a", "state": "COMPLETED", "startedAt": 5, "finishedAt": 9 }),
            ),
            (item(done, None, None), json!({ "path": "//a", "state": "COMPLETED", "finishedAt": 9 })),
            (
                item(ItemState::Released, Some(5), Some(6)),
                json!({ "path": "//a", "state": "COMPLETED", "startedAt": 5, "finishedAt": 6 }),
            ),
            (
                item(ItemState::Failed("unreadable".into()), Some(5), Some(6)),
                json!({ "path": "//a", "state": "FAILED", "startedAt": 5, "finishedAt": 6,
                    "error": "unreadable" }),
            ),
            (
                item(ItemState::Cancelled, Some(5), Some(6)),
                json!({ "path": "//a", "onDisk": false, "error": "cancelled" }),
            ),
            (
                PathState::Refused(PathRefusal::NotFound),
                json!({
                    "path": "//a", "state": "FAILED", "startedAt": 1_795_292_940, "finishedAt": 1_795_292_940,
                    "error": "no such file or directory",
                }),
            ),
        ] {
            assert_eq!(told(&state), expected);
        }
    }

    #[test]
    fn localities_have_their_words() {
        let word = |locality, size, unavailable| locality_word(locality, ByteCount(size), unavailable);
        assert_eq!(word(Locality::Online, 1, false), "DISK");
        assert_eq!(word(Locality::OnlineAndNearline, 1, false), "DISK_AND_TAPE");
        assert_eq!(word(Locality::Nearline, 1, false), "TAPE");
        assert_eq!(word(Locality::Nearline, 1, true), "UNAVAILABLE");
        assert_eq!(word(Locality::Online, 1, true), "UNAVAILABLE");
        assert_eq!(word(Locality::Lost, 1, false), "LOST");
        for locality in [Locality::Online, Locality::Lost] {
            assert_eq!(word(locality, 0, false), "DISK", "never NONE");
        }
        let missing = serde_json::to_value(Located::new("/a", Some(PathLocality::Missing))).unwrap();
        assert_eq!(missing, json!({ "path": "/a", "error": "no such file or directory" }));
    }

    #[test]
    fn times_are_unsigned_seconds() {
        assert_eq!(seconds(Timestamp(-1)), 0);
        assert_eq!(seconds(Timestamp(i64::MIN)), 0);
        assert_eq!(seconds(CREATED), 1_795_292_940);
    }
}
