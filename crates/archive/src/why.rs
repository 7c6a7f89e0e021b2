//! Why something waits, in sentences, the nearest cause first.

use std::collections::BTreeSet;
use std::sync::PoisonError;

use base::{ArchivePath, FileId, RequestId, Timestamp};
use catalogue::{CopyState, Entry, EvictRefusal, ItemState, RequestState};

use crate::engine::{Engine, Rest};
use crate::{Archive, ArchiveError, Locality};

/// Waiting files of a request whose reasons are told.
const WAITING_TOLD_MAX: usize = 5;
/// Files of a request looked at for that.
const WAITING_LOOKED_AT_MAX: usize = 10_000;

impl Archive {
    /// What a file waits for on its way to tape or back.
    ///
    /// # Errors
    /// [`ArchiveError::NotFound`].
    pub fn why_path(&self, path: &ArchivePath) -> Result<Vec<String>, ArchiveError> {
        let engine = self.engine();
        match engine.read(|view| view.resolve(path))? {
            None => Err(ArchiveError::NotFound(path.clone())),
            Some(Entry::Directory(_)) => Ok(vec![format!(
                "{path} is a directory; ask about a file in it, or see 'kist queue' for everything that waits"
            )]),
            Some(Entry::File(file)) => why_file(engine, path, file),
        }
    }

    /// What a request waits for.
    ///
    /// # Errors
    /// [`ArchiveError::NoSuchRequest`].
    pub fn why_request(&self, request: RequestId) -> Result<Vec<String>, ArchiveError> {
        let engine = self.engine();
        let record = self.request(request)?.record;
        let mut reasons = vec![format!(
            "request {request} is {}: {} of {} online, {} failed, {} cancelled",
            match record.state {
                RequestState::Filling => "still being filled",
                RequestState::Active => "waiting",
                RequestState::Completed => "complete",
                RequestState::Cancelled => "cancelled",
                RequestState::Cancelling => "being cancelled",
                RequestState::Forgetting => "being deleted",
            },
            record.done,
            if record.files == 1 { "1 file".to_owned() } else { format!("{} files", record.files) },
            record.failed,
            record.cancelled
        )];
        if matches!(record.state, RequestState::Completed | RequestState::Cancelled) {
            return Ok(reasons);
        }
        let now = engine.now();
        let items = engine.read(|view| view.request_items(request, 0, WAITING_LOOKED_AT_MAX))?;
        let mut told: Vec<String> = Vec::new();
        for (_, item) in items.iter().filter(|(_, item)| item.state == ItemState::Waiting) {
            let reason = recall_reason(engine, item.file, now);
            if !told.contains(&reason) {
                told.push(reason);
            }
            if told.len() >= WAITING_TOLD_MAX {
                break;
            }
        }
        reasons.extend(told);
        Ok(reasons)
    }
}

fn recall_reason(engine: &Engine, file: FileId, now: Timestamp) -> String {
    match engine.scheduler().why_recalling(file, now) {
        Some(reason) => reason.to_string(),
        None => "the file has just come, or the scheduler is about to hear of it".to_owned(),
    }
}

fn why_file(engine: &Engine, path: &ArchivePath, file: FileId) -> Result<Vec<String>, ArchiveError> {
    let now = engine.now();
    let silent = engine.pool.silent_drives();
    let (record, stat, containers, wants, missing) = engine.read(|view| {
        let record = view.file(file)?;
        let stat = match &record {
            Some(record) => Some(crate::namespace::file_stat(engine, view, path, file, record.clone())?),
            None => None,
        };
        let mut containers = Vec::new();
        for (id, _) in view.parts(file)? {
            containers.push((id, view.container(id)?));
        }
        let missing = match &record {
            Some(record) => crate::away::missing_for(engine, view, record, &silent)?,
            None => BTreeSet::new(),
        };
        Ok((record, stat, containers, view.wants(file)?, missing))
    })?;
    let (Some(record), Some(stat)) = (record, stat) else {
        return Err(ArchiveError::NotFound(path.clone()));
    };
    let mut reasons = Vec::new();
    if !missing.is_empty() {
        reasons.push(crate::away::refused(&stat, missing).to_string());
    }
    if !wants.is_empty() {
        reasons.push(format!("recall: {}", recall_reason(engine, file, now)));
    }
    if containers.is_empty() && stat.copies_wanted > 0 {
        let reason = engine.scheduler().why_sealing(record.class, now);
        reasons.push(format!("not in a container yet: {reason}"));
    }
    for (id, container) in containers {
        let Some(container) = container else { continue };
        for copy in &container.copies {
            let pool = engine.classes.tape_pool_name(copy.tape_pool);
            match copy.state {
                CopyState::Queued => {
                    let resting = engine.resting.lock().unwrap_or_else(PoisonError::into_inner);
                    let reason = match resting.get(&id) {
                        Some(Rest { until, why, .. }) if *until > now => {
                            format!("left alone until {until}: {why}")
                        }
                        _ => engine.scheduler().why_migrating(copy.tape_pool, now).to_string(),
                    };
                    reasons.push(format!("copy in {pool}: {reason}"));
                }
                CopyState::Planned { vid, .. } => {
                    reasons.push(format!("copy in {pool}: being written to {vid}"))
                }
                CopyState::Flushed { vid, .. } => {
                    reasons.push(format!("copy in {pool}: safe on {vid}, waits for the next index there"));
                }
                CopyState::Indexed { .. } => {}
            }
        }
    }
    if reasons.is_empty() {
        reasons.push(match stat.locality {
            Locality::Nearline => format!("nothing waits: it is NEARLINE; to read it: kist stage {path}"),
            Locality::Lost => "no copy of it can be read".to_owned(),
            Locality::Online | Locality::OnlineAndNearline => "nothing waits: it is online".to_owned(),
        });
    }
    Ok(reasons)
}

/// A refusal in words.
#[must_use]
pub fn refusal_text(refusal: EvictRefusal) -> &'static str {
    match refusal {
        EvictRefusal::NotFound => "there is no such file",
        EvictRefusal::Lost => "it is lost: no copy of it can be read",
        EvictRefusal::NotOnline => "it is not in the pool",
        EvictRefusal::NoData => "it has no bytes and is always online",
        EvictRefusal::DiskOnly => "its class has no tape copies",
        EvictRefusal::NotSafeOnTape => {
            "not all of its tape copies are under a synced index yet: kist why tells"
        }
        EvictRefusal::Pinned => "a request holds it: release it first",
    }
}
