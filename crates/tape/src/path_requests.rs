//! Requests that name paths one by one, as the Tape REST API has them: a path that cannot be brought stays in
//! the request with why, and keeps no other from coming.

use std::collections::{HashMap, HashSet};
use std::sync::PoisonError;

use base::{ArchivePath, Blake3, FileId, RequestId};
use catalogue::{
    AskedFor, AskedPath, BULK_FILES, Command, FileRecord, Followed, ItemState, KEPT_PATH_BYTES_MAX,
    OPEN_REQUESTS_MAX, PRIORITY_USUAL, PathRefusal, PathTarget, REQUEST_PATHS_MAX, ReadError, Rejection,
    RequestItem, RequestState, View, typed,
};

use crate::Tape;
use ground::access::Notice;
use ground::{
    ArchiveError, ItemFailure, LeavingCause, PathLocality, PathRequest, PathState, PathSubmission,
    RequestInfo, Selected, SubmittedPath,
};
use scheduler::DriveState;
use threads::MutexGuard;

/// Paths looked up in one look at the catalogue.
const LOOKUP_PATHS: usize = 1_000;

/// A path and the file that it leads to, or why it is not brought.
type LookedUp<'p> = (&'p SubmittedPath, Result<Selected, PathRefusal>);

impl Tape {
    /// Asks for paths to be brought online and pinned. Durable on return. A path that cannot be brought is
    /// refused by itself, with why; files that are online are done at once. If the same was submitted before
    /// and has not ended, this gives that request, as long as it brings and holds all that a new one would.
    ///
    /// # Errors
    /// [`ArchiveError::Limit`] for more than [`REQUEST_PATHS_MAX`] paths, [`ArchiveError::TooManyRequests`]
    /// for more requests of one caller than [`OPEN_REQUESTS_MAX`], [`ArchiveError::TooManyPathBytes`] for
    /// more bytes of paths in all of these than [`KEPT_PATH_BYTES_MAX`]. Then no request is made.
    pub fn stage_paths(&self, submission: PathSubmission) -> Result<RequestId, ArchiveError> {
        let submission = &submission;
        let mut known = HashSet::with_capacity(submission.paths.len());
        let paths: Vec<&SubmittedPath> =
            submission.paths.iter().filter(|path| known.insert(path.key())).collect();
        if paths.len() > REQUEST_PATHS_MAX as usize {
            let limit = u64::from(REQUEST_PATHS_MAX);
            return Err(ArchiveError::Limit { what: "paths of a request", limit });
        }
        let digest = self.digest(submission, &paths)?;
        if let Some(same) = self.read(|view| view.submitted(&digest))? {
            return Ok(same);
        }
        self.undo_left();
        let open = typed::OpenPathRequest { owner: submission.owner.clone(), pin: submission.pin };
        let request = self.ask(open).map_err(of_caller)?;
        match self.fill(request, submission, &paths, digest) {
            Ok(same) if same == request => Ok(request),
            filled => {
                if let Err(error) = self.undo_path_request(request) {
                    tracing::warn!(
                        %request, %error,
                        "what a submission left could not be removed; it is tried again with the next one"
                    );
                    self.submissions_left().push(request);
                }
                filled
            }
        }
    }

    /// Removes what failed submissions left and could not be removed then: each counts among the open
    /// requests of its owner.
    fn undo_left(&self) {
        let mut left = std::mem::take(&mut *self.submissions_left());
        while let Some(request) = left.pop() {
            match self.undo_path_request(request) {
                Ok(()) | Err(ArchiveError::NoSuchRequest(_)) => {}
                Err(error) => {
                    tracing::debug!(%request, %error, "what a submission left can still not be removed");
                    left.push(request);
                    self.submissions_left().append(&mut left);
                }
            }
        }
    }

    fn submissions_left(&self) -> MutexGuard<'_, Vec<RequestId>> {
        self.submissions_left.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What stands for all that is asked for, and by whom: the same paths in any order, each with its pin and
    /// what it leads to now. Where a file was refused that may be staged by now, it is another submission.
    fn digest(&self, submission: &PathSubmission, paths: &[&SubmittedPath]) -> Result<Blake3, ArchiveError> {
        let PathSubmission { owner, pin, priority, paths: _ } = submission;
        let mut lines: Vec<(&str, String)> = Vec::with_capacity(paths.len());
        for batch in paths.chunks(LOOKUP_PATHS) {
            for (path, found) in self.look_up_all(batch)? {
                let leads_to = self.check_fits(found)?.map(|selected| selected.file);
                lines.push((path.key(), format!("{:?} {leads_to:?}", path.pin.unwrap_or(*pin))));
            }
        }
        lines.sort_unstable();
        let mut hasher = blake3::Hasher::new();
        let mut text = |text: &str| {
            hasher.update(&(text.len() as u64).to_le_bytes());
            hasher.update(text.as_bytes());
        };
        text(owner);
        text(&format!("{pin:?} {priority}"));
        for (path, line) in lines {
            text(path);
            text(&line);
        }
        Ok(Blake3(*hasher.finalize().as_bytes()))
    }

    fn look_up_all<'p>(&self, batch: &[&'p SubmittedPath]) -> Result<Vec<LookedUp<'p>>, ArchiveError> {
        self.read(|view| batch.iter().map(|path| Ok((*path, look_up(view, path)?))).collect())
    }

    /// Adds the paths and closes the request; gives the one that has them, which may be an earlier one.
    fn fill(
        &self,
        request: RequestId,
        submission: &PathSubmission,
        paths: &[&SubmittedPath],
        digest: Blake3,
    ) -> Result<RequestId, ArchiveError> {
        let priority = submission.priority;
        if priority != PRIORITY_USUAL {
            self.execute(Command::SetRequestPriority { request, priority })?;
        }
        for batch in paths.chunks(BULK_FILES) {
            self.add_paths(request, submission, batch)?;
        }
        self.ask(typed::ClosePathRequest { request, submission: digest })
    }

    fn add_paths(
        &self,
        request: RequestId,
        submission: &PathSubmission,
        batch: &[&SubmittedPath],
    ) -> Result<(), ArchiveError> {
        let found = self.look_up_all(batch)?;
        let mut selected = Vec::with_capacity(found.len());
        let mut asked = Vec::with_capacity(found.len());
        for (path, found) in found {
            let file = match self.check_fits(found)? {
                Ok(file) => {
                    selected.push(file);
                    AskedFor::File(file.file)
                }
                Err(why) => AskedFor::Refused(why),
            };
            asked.push(AskedPath { path: path.text.clone(), file, pin: path.pin });
        }
        let files: Vec<FileId> = selected.iter().map(|selected| selected.file).collect();
        self.check_online(&files)?;
        upkeep::give_up(&self.upkeep, &files)?;
        // Before the files are wanted: some may be back before this line is written.
        let at = self.now();
        self.execute(Command::AddPaths { request, paths: asked }).map_err(of_caller)?;
        files.into_iter().for_each(|file| self.notifier.wants_changed(file));
        self.access.push(|| Notice::Staged {
            at,
            who: submission.owner.clone(),
            request,
            priority: submission.priority,
            files: selected,
        });
        Ok(())
    }

    fn check_fits(
        &self,
        found: Result<Selected, PathRefusal>,
    ) -> Result<Result<Selected, PathRefusal>, ArchiveError> {
        let Ok(selected) = found else { return Ok(found) };
        if selected.online {
            return Ok(found);
        }
        match self.check_can_fit(selected.file, selected.class, selected.size) {
            Ok(()) => Ok(found),
            Err(ArchiveError::NeverFits { .. }) => Ok(Err(PathRefusal::NeverFits)),
            Err(error) => Err(error),
        }
    }

    /// Nobody will hear of this request: nothing of it is left.
    pub(crate) fn undo_path_request(&self, request: RequestId) -> Result<(), ArchiveError> {
        self.end_and_forget(request)
    }

    /// Also goes on with what was begun before.
    fn end_and_forget(&self, request: RequestId) -> Result<(), ArchiveError> {
        match self.cancel_request(request) {
            // What has ended only holds pins, which go with it.
            Ok(()) | Err(ArchiveError::Rejected(Rejection::WrongState { .. })) => {}
            Err(error) => return Err(error),
        }
        while self.ask(typed::ForgetSome { request })? {}
        Ok(())
    }

    /// A request that names paths one by one, with how each of them stands.
    ///
    /// # Errors
    /// [`ArchiveError::NoSuchRequest`], also for a request that names no paths.
    pub fn path_request(&self, request: RequestId) -> Result<PathRequest, ArchiveError> {
        let (info, rows) = self
            .read(|view| {
                let Some(record) = view.request(request)?.filter(is_there) else { return Ok(None) };
                let Some(list) = record.list else { return Ok(None) };
                let (paths, files) = (list.paths as usize, record.files as usize);
                let items = view.request_items(request, 0, files)?;
                let failures =
                    items.iter().map(|(_, item)| failure(view, item)).collect::<Result<Vec<_>, _>>()?;
                let items: Vec<_> = items.into_iter().map(|(_, item)| item).zip(failures).collect();
                let of_path = |row: catalogue::RequestPath| {
                    let state = match row.target {
                        PathTarget::Refused(why) => PathState::Refused(why),
                        PathTarget::Item(number) => match items.get(number as usize) {
                            Some((item, failure)) => PathState::File(item.clone(), *failure),
                            None => PathState::Refused(PathRefusal::NotFound),
                        },
                    };
                    (row.path, state)
                };
                let rows = view.request_paths(request, 0, paths)?.into_iter().map(of_path).collect();
                let priority = view.priority(request)?;
                Ok(Some((RequestInfo { request, record, priority }, rows)))
            })?
            .ok_or(ArchiveError::NoSuchRequest(request))?;
        Ok(PathRequest { info, paths: rows })
    }

    /// Cancels some files of a request: those that wait come no more, and the pins of others are given back.
    ///
    /// # Errors
    /// [`ArchiveError::NoSuchRequest`]; [`ArchiveError::NotInRequest`], with nothing done, if it does not
    /// name one of the paths.
    pub fn cancel_paths(&self, request: RequestId, paths: &[SubmittedPath]) -> Result<(), ArchiveError> {
        let found = self.path_request(request)?;
        let mut named: HashSet<FileId> = HashSet::with_capacity(paths.len());
        let known = by_key(&found);
        for path in paths {
            match known.get(path.key()) {
                Some(file) => named.extend(file),
                None => {
                    return Err(ArchiveError::NotInRequest { request, path: path.text.clone() });
                }
            }
        }
        let mut named: Vec<FileId> = named.into_iter().collect();
        named.sort_unstable();
        for files in named.chunks(BULK_FILES).map(<[FileId]>::to_vec) {
            self.execute(Command::CancelFiles { request, files: files.clone() })?;
            self.leaving.tell(LeavingCause::MayLeave);
            files.into_iter().for_each(|file| self.notifier.wants_changed(file));
        }
        Ok(())
    }

    /// Gives back the pins of some files of a request, and of those that are waited for still when they come.
    /// Paths that it does not name are passed over: what is not held need not be given back.
    ///
    /// # Errors
    /// [`ArchiveError::NoSuchRequest`].
    pub fn release_paths(&self, request: RequestId, paths: &[SubmittedPath]) -> Result<(), ArchiveError> {
        let found = self.path_request(request)?;
        let known = by_key(&found);
        let named: HashSet<FileId> =
            paths.iter().filter_map(|path| known.get(path.key()).copied().flatten()).collect();
        let mut named: Vec<FileId> = named.into_iter().collect();
        named.sort_unstable();
        for files in named.chunks(BULK_FILES).map(<[FileId]>::to_vec) {
            self.execute(Command::Unpin { request, files })?;
            self.leaving.tell(LeavingCause::MayLeave);
        }
        Ok(())
    }

    /// Cancels a request and deletes it: from the moment that this returns nobody finds it.
    ///
    /// # Errors
    /// [`ArchiveError::NoSuchRequest`].
    pub fn delete_request(&self, request: RequestId) -> Result<(), ArchiveError> {
        if !is_there(&self.request(request)?.record) {
            return Err(ArchiveError::NoSuchRequest(request));
        }
        self.end_and_forget(request)?;
        self.leaving.tell(LeavingCause::MayLeave);
        Ok(())
    }

    /// Where the bytes of what has these paths are, and whether a tape can give them now.
    ///
    /// # Errors
    /// If the catalogue cannot be read.
    pub fn localities(&self, paths: &[ArchivePath]) -> Result<Vec<PathLocality>, ArchiveError> {
        let no_drive = self.has_no_drive();
        let mut found = Vec::with_capacity(paths.len());
        for paths in paths.chunks(LOOKUP_PATHS) {
            found.extend(self.namespace.localities(paths)?);
        }
        if no_drive {
            for one in &mut found {
                if let PathLocality::File { locality: ground::Locality::Nearline, unavailable, .. } = one {
                    *unavailable = true;
                }
            }
        }
        Ok(found)
    }

    /// Whether all drives are out of use. Of those that the scheduler has not heard of yet nothing is known.
    fn has_no_drive(&self) -> bool {
        let scheduler = self.scheduler();
        let mut drives = scheduler.drives().peekable();
        drives.peek().is_some() && drives.all(|(_, state)| matches!(state, DriveState::Down { .. }))
    }
}

/// A limit of what one caller may have is told as such.
fn of_caller(error: ArchiveError) -> ArchiveError {
    let ArchiveError::Rejected(Rejection::LimitExceeded { limit, .. }) = error else { return error };
    if limit == u64::from(OPEN_REQUESTS_MAX) {
        ArchiveError::TooManyRequests { limit }
    } else if limit == KEPT_PATH_BYTES_MAX {
        ArchiveError::TooManyPathBytes { limit }
    } else {
        error
    }
}

/// Whether a request is there for those who ask: not while it is being filled or deleted.
fn is_there(record: &catalogue::RequestRecord) -> bool {
    !matches!(record.state, RequestState::Filling | RequestState::Forgetting)
}

/// The file that a path leads to, or why it is not brought.
fn look_up(view: &View<'_>, path: &SubmittedPath) -> Result<Result<Selected, PathRefusal>, ReadError> {
    let path = match &path.path {
        Ok(path) => path,
        Err(why) => return Ok(Err(*why)),
    };
    Ok(match view.find(path)? {
        None => Err(PathRefusal::NotFound),
        Some(Followed::Directory(..)) => Err(PathRefusal::Directory),
        Some(Followed::File(_, record)) if !record.has_data() => Err(PathRefusal::NoData),
        Some(Followed::File(file, record)) => {
            let FileRecord { size, class, .. } = record;
            Ok(Selected { file, size, class, online: record.is_online() })
        }
    })
}

/// What keeps a file that failed from being had now.
pub(crate) fn failure(view: &View<'_>, item: &RequestItem) -> Result<Option<ItemFailure>, ReadError> {
    if !matches!(item.state, ItemState::Failed(_)) {
        return Ok(None);
    }
    let Some(record) = view.file(item.file)? else { return Ok(Some(ItemFailure::Removed)) };
    let is_gone = view.is_in_condemned_tree(record.parent)?;
    Ok(Some(match record {
        record if record.is_lost() && !is_gone => ItemFailure::Lost,
        record if record.is_named() && !is_gone => ItemFailure::NotReadable,
        _ => ItemFailure::Removed,
    }))
}

/// The file of each path of a request, if it has one, by what ways to write that path have in common.
fn by_key(request: &PathRequest) -> HashMap<String, Option<FileId>> {
    let of_path = |(text, state): &(String, PathState)| {
        let key = SubmittedPath::new(text.clone(), None).key().to_owned();
        let file = match state {
            PathState::File(item, _) => Some(item.file),
            PathState::Refused(_) => None,
        };
        (key, file)
    };
    request.paths.iter().map(of_path).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(what: &'static str, limit: u64) -> ArchiveError {
        of_caller(ArchiveError::Rejected(Rejection::LimitExceeded { what, limit }))
    }

    #[test]
    fn limits_of_a_caller_are_told_as_such() {
        let open = refused("requests of a caller that have not ended", 5_000);
        assert!(matches!(open, ArchiveError::TooManyRequests { limit: 5_000 }), "{open:?}");
        let bytes = refused("bytes of paths that requests of a caller keep", 4_294_967_296);
        assert!(matches!(bytes, ArchiveError::TooManyPathBytes { limit: 4_294_967_296 }), "{bytes:?}");
        assert_eq!(bytes.kind(), ground::ErrorKind::TooMany);
        assert!(bytes.to_string().contains("delete some"), "{bytes}");
        let other = refused("paths of a request", 10_000);
        assert!(matches!(other, ArchiveError::Rejected(_)), "{other:?}");
        assert!(matches!(of_caller(ArchiveError::Stopping), ArchiveError::Stopping));
    }
}
