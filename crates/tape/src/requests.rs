//! Recall requests and evicts.

use base::{ArchivePath, ByteCount, FileId, RequestId};
use catalogue::{
    BULK_FILES, Command, EvictRefusal, Followed, ItemState, Object, PRIORITY_USUAL, PathTarget, ReadError,
    Rejection, RequestState, View, typed,
};

use crate::Tape;
use crate::path_requests::failure;
use crate::resume::waiting_files;
use ground::access::Notice;
use ground::{
    ArchiveError, CallProgress, EvictDone, ItemFailure, RequestFile, RequestInfo, Selection, StageOptions,
};
use ground::{LeavingCause, Selected};
use namespace::in_words;
use upkeep::{keys_counted_on, refuses_evict};

/// Refused files named in the answer of one evict.
pub const REFUSALS_SHOWN_MAX: usize = 100;
/// How often a batch is tried again while its files are being deleted.
const ADD_RETRIES_MAX: usize = 5;
/// Files of a request in one page.
pub const REQUEST_PAGE_MAX: usize = 10_000;

impl Tape {
    /// Asks for files to be brought online and pinned. Durable on return; a file that is online is done at
    /// once.
    ///
    /// # Errors [`ArchiveError::NotFound`], [`ArchiveError::SomeNotFound`], [`ArchiveError::IsADirectory`],
    /// [`ArchiveError::NeverFits`] for a file that no evict can make room for: no request
    /// is made, or what there is of one is taken back.
    pub fn stage(&self, selection: &Selection, options: StageOptions) -> Result<RequestId, ArchiveError> {
        self.stage_told(selection, options, &CallProgress::default())
    }

    /// Nobody will hear of this request: what it holds so far is not worked on, and nothing of it is left.
    pub(crate) fn undo_request(&self, request: RequestId) -> Result<(), ArchiveError> {
        self.execute(Command::CloseRequest { request })?;
        match self.cancel_request(request) {
            // One that holds nothing has ended with being closed.
            Ok(()) | Err(ArchiveError::Rejected(Rejection::WrongState { .. })) => {}
            Err(error) => return Err(error),
        }
        while self.ask(typed::ForgetSome { request })? {}
        Ok(())
    }

    /// The same, and tells how far it is.
    ///
    /// # Errors
    /// As [`Tape::stage`].
    pub fn stage_told(
        &self,
        selection: &Selection,
        options: StageOptions,
        progress: &CallProgress,
    ) -> Result<RequestId, ArchiveError> {
        let room = self;
        let mut request = None;
        let result = self.namespace.for_each_selected(selection, &mut |files| {
            for selected in files.iter().filter(|selected| !selected.online) {
                room.check_can_fit(selected.file, selected.class, selected.size)?;
            }
            let id = match request {
                Some(id) => id,
                None => *request.insert(self.open_request(&options)?),
            };
            progress.fills(id);
            // Before the files are wanted: some may be back before this line is written.
            let at = room.now();
            self.add_to_request(id, &files)?;
            progress.add_files(files.len());
            room.access.push(|| Notice::Staged {
                at,
                who: options.owner.clone(),
                request: id,
                priority: options.priority,
                files,
            });
            Ok(())
        });
        let id = match (request, result) {
            (Some(id), Err(error)) => {
                room.undo_request(id)?;
                return Err(error);
            }
            (None, Err(error)) => return Err(error),
            (Some(id), Ok(())) => id,
            (None, Ok(())) => self.open_request(&options)?,
        };
        room.execute(Command::CloseRequest { request: id })?;
        Ok(id)
    }

    pub(crate) fn open_request(&self, options: &StageOptions) -> Result<RequestId, ArchiveError> {
        let open = typed::OpenRequest { owner: options.owner.clone(), pin: options.pin };
        let request = self.ask(open)?;
        if options.priority != PRIORITY_USUAL {
            let priority = options.priority;
            self.execute(Command::SetRequestPriority { request, priority })?;
        }
        Ok(request)
    }

    /// Makes what a request still waits for more or less urgent than other requests. Durable on return.
    ///
    /// # Errors
    /// [`ArchiveError::NoSuchRequest`], [`ArchiveError::Rejected`] if it has ended or there is no such
    /// priority.
    pub fn set_priority(&self, request: RequestId, priority: u8) -> Result<(), ArchiveError> {
        self.request(request)?;
        self.execute(Command::SetRequestPriority { request, priority })?;
        waiting_files(self, request)?.into_iter().for_each(|file| self.notifier.wants_changed(file));
        Ok(())
    }

    /// Adds a batch. Files that were deleted since they were selected are left out.
    pub(crate) fn add_to_request(&self, request: RequestId, files: &[Selected]) -> Result<(), ArchiveError> {
        let room = self;
        let mut files: Vec<FileId> = files.iter().map(|selected| selected.file).collect();
        room.check_online(&files)?;
        upkeep::give_up(&room.upkeep, &files)?;
        for _ in 0..ADD_RETRIES_MAX {
            match room.execute(Command::AddToRequest { request, files: files.clone() }) {
                Err(ArchiveError::Rejected(Rejection::NotFound(Object::File(_)))) => {
                    files = room.read(|view| {
                        let mut live = Vec::with_capacity(files.len());
                        for file in files {
                            if view.file(file)?.is_some_and(|record| record.is_named()) {
                                live.push(file);
                            }
                        }
                        Ok(live)
                    })?;
                }
                other => {
                    other?;
                    files.into_iter().for_each(|file| room.notifier.wants_changed(file));
                    return Ok(());
                }
            }
        }
        Err(ArchiveError::TreeChanges)
    }

    /// A request.
    ///
    /// # Errors
    /// [`ArchiveError::NoSuchRequest`].
    pub fn request(&self, request: RequestId) -> Result<RequestInfo, ArchiveError> {
        let (record, priority) = self.read(|view| Ok((view.request(request)?, view.priority(request)?)))?;
        let info = record.map(|record| RequestInfo { request, record, priority });
        info.ok_or(ArchiveError::NoSuchRequest(request))
    }

    /// Requests, newest first, those before `before`.
    ///
    /// # Errors
    /// If the catalogue cannot be read.
    pub fn requests(
        &self,
        before: Option<RequestId>,
        limit: usize,
    ) -> Result<Vec<RequestInfo>, ArchiveError> {
        self.read(|view| {
            let records = view.requests(before, limit.clamp(1, REQUEST_PAGE_MAX))?;
            let infos = records.into_iter().map(|(request, record)| {
                Ok(RequestInfo { request, record, priority: view.priority(request)? })
            });
            infos.collect()
        })
    }

    /// Files of a request from number `from` on, and the number of the next page. With the last page come the
    /// paths that were refused when they were asked for.
    ///
    /// # Errors
    /// [`ArchiveError::NoSuchRequest`].
    pub fn request_files(
        &self,
        request: RequestId,
        from: u32,
        limit: usize,
    ) -> Result<(Vec<RequestFile>, Option<u32>), ArchiveError> {
        self.request(request)?;
        let limit = limit.clamp(1, REQUEST_PAGE_MAX);
        self.read(|view| {
            let items = view.request_items(request, from, limit)?;
            let next = items.last().filter(|_| items.len() == limit).map(|(number, _)| number + 1);
            let mut files = Vec::with_capacity(items.len());
            for (_, item) in items {
                let record = view.file(item.file)?;
                let is_gone = match &record {
                    Some(record) => view.is_in_condemned_tree(record.parent)?,
                    None => true,
                };
                // In a removed directory its old path says nothing of who may see it any more.
                let path = if is_gone { None } else { view.path_of_file(item.file)? };
                files.push(RequestFile {
                    path: path.unwrap_or_else(|| format!("(file {}, deleted)", item.file)),
                    size: record.map(|record| record.size).unwrap_or_default(),
                    failure: failure(view, &item)?,
                    started: item.started,
                    ended: item.ended(),
                    state: item.state,
                });
            }
            if next.is_none() {
                files.extend(refused_paths(view, request)?);
            }
            Ok((files, next))
        })
    }

    /// Cancels what still waits in a request and gives back its pins.
    ///
    /// # Errors
    /// [`ArchiveError::NoSuchRequest`].
    pub fn cancel_request(&self, request: RequestId) -> Result<(), ArchiveError> {
        self.cancel_request_told(request, &CallProgress::default())
    }

    /// The same, and tells how far it is.
    ///
    /// # Errors
    /// As [`Tape::cancel_request`].
    pub fn cancel_request_told(
        &self,
        request: RequestId,
        progress: &CallProgress,
    ) -> Result<(), ArchiveError> {
        self.request(request)?;
        let waiting = waiting_files(self, request)?;
        let mut counted = 0;
        loop {
            let has_more = self.ask(typed::CancelSome { request })?;
            // A full catalogue does fewer at a time than it was asked for.
            let done = self.read(|view| view.request(request))?.map_or(counted, |record| {
                if record.state == RequestState::Cancelling { record.swept } else { record.files }
            });
            progress.add_files(done.saturating_sub(counted) as usize);
            counted = done.max(counted);
            if !has_more {
                break;
            }
        }
        self.leaving.tell(LeavingCause::MayLeave);
        waiting.into_iter().for_each(|file| self.notifier.wants_changed(file));
        Ok(())
    }

    /// Gives back the pins of some or all files of a request.
    ///
    /// # Errors [`ArchiveError::NoSuchRequest`]; [`ArchiveError::NotFound`] and nothing is released if a path
    /// is not there. A directory means those files of the request that are below it.
    pub fn release(&self, request: RequestId, paths: Option<&[ArchivePath]>) -> Result<(), ArchiveError> {
        self.release_told(request, paths, &CallProgress::default())
    }

    /// The same, and tells how far it is.
    ///
    /// # Errors
    /// As [`Tape::release`].
    pub fn release_told(
        &self,
        request: RequestId,
        paths: Option<&[ArchivePath]>,
        progress: &CallProgress,
    ) -> Result<(), ArchiveError> {
        self.request(request)?;
        let Some(paths) = paths else {
            return self.release_those(request, progress, |_, _| Ok(true));
        };
        let (mut files, mut directories) = (Vec::with_capacity(paths.len()), Vec::new());
        for path in paths {
            match self.read(|view| view.find(path))? {
                Some(Followed::File(file, _)) => files.push(file),
                Some(Followed::Directory(..)) => directories.push(path),
                None => return Err(ArchiveError::NotFound(path.clone())),
            }
        }
        for batch in files.chunks(BULK_FILES) {
            let release = Command::Unpin { request, files: batch.to_vec() };
            self.execute(release).map_err(|error| match paths.first() {
                Some(path) => in_words(error, path),
                None => error,
            })?;
            self.leaving.tell(LeavingCause::MayLeave);
            progress.add_files(batch.len());
        }
        if directories.is_empty() {
            return Ok(());
        }
        self.release_those(request, progress, |view, file| {
            let Some(path) = view.path_of_file(file)? else { return Ok(false) };
            let rest = |directory: &ArchivePath| path.strip_prefix(directory.as_str());
            let is_below = |rest: &str| rest.starts_with('/');
            Ok(directories.iter().any(|it| it.as_str() == "/" || rest(it).is_some_and(is_below)))
        })
    }

    /// Gives back the pins of those files of a request that are meant, in batches. What is waited for still
    /// is recalled, and gets no pin.
    fn release_those(
        &self,
        request: RequestId,
        progress: &CallProgress,
        is_meant: impl Fn(&View<'_>, FileId) -> Result<bool, ReadError>,
    ) -> Result<(), ArchiveError> {
        let mut from = 0;
        loop {
            let items = self.read(|view| view.request_items(request, from, BULK_FILES))?;
            let Some((last, _)) = items.last() else { return Ok(()) };
            from = last + 1;
            let files: Vec<FileId> = self.read(|view| {
                let mut meant = Vec::new();
                for (_, item) in items {
                    meant.extend(is_meant(view, item.file)?.then_some(item.file));
                }
                Ok(meant)
            })?;
            if files.is_empty() {
                continue;
            }
            let count = files.len();
            self.execute(Command::Unpin { request, files })?;
            self.leaving.tell(LeavingCause::MayLeave);
            progress.add_files(count);
        }
    }

    /// Removes files from the pool whose tape copies are all under synced indexes and that nobody pins.
    ///
    /// # Errors
    /// If a path is not there, nothing is evicted. Files that must stay are counted and named, not an error.
    pub fn evict(&self, selection: &Selection) -> Result<EvictDone, ArchiveError> {
        self.evict_told(selection, &CallProgress::default())
    }

    /// The same, and tells how far it is.
    ///
    /// # Errors
    /// As [`Tape::evict`].
    pub fn evict_told(
        &self,
        selection: &Selection,
        progress: &CallProgress,
    ) -> Result<EvictDone, ArchiveError> {
        let mut done = EvictDone::default();
        let result = self.namespace.for_each_selected(selection, &mut |files| {
            self.evict_batch(&files, &mut done)?;
            progress.add_files(files.len());
            Ok(())
        });
        self.sweep.ring();
        result.map(|()| done)
    }

    /// Evicts those files that some library's tapes can give back; answers for each.
    pub(crate) fn evict_in_reach(
        &self,
        ids: &[FileId],
    ) -> Result<Vec<Result<(), EvictRefusal>>, ArchiveError> {
        let room = self;
        room.rely_on_keys(&keys_counted_on(room, ids.iter().copied())?)?;
        let refused: Vec<Option<EvictRefusal>> =
            room.read(|view| ids.iter().map(|id| refuses_evict(&room.upkeep, view, *id)).collect())?;
        let kept = |(id, refusal): (&FileId, &Option<EvictRefusal>)| refusal.is_none().then_some(*id);
        let files: Vec<FileId> = ids.iter().zip(&refused).filter_map(kept).collect();
        let asked = files.len();
        let evicted = room.ask(typed::Evict { files })?;
        assert_eq!(evicted.len(), asked, "an evict answers for each file");
        let mut evicted = evicted.into_iter();
        Ok(refused
            .into_iter()
            .filter_map(|kept| kept.map_or_else(|| evicted.next(), |why| Some(Err(why))))
            .collect())
    }

    fn evict_batch(&self, files: &[Selected], done: &mut EvictDone) -> Result<(), ArchiveError> {
        let ids: Vec<FileId> = files.iter().map(|selected| selected.file).collect();
        let results = if self.read(|view| view.is_restored())? {
            vec![Err(EvictRefusal::NotSettled); ids.len()]
        } else {
            self.evict_in_reach(&ids)?
        };
        assert_eq!(results.len(), files.len(), "an evict answers for each file");
        let mut evicted = Vec::new();
        for (selected, result) in files.iter().zip(results) {
            match result {
                Ok(()) => {
                    evicted.push(*selected);
                    done.evicted += 1;
                    done.bytes.0 += selected.size.0;
                }
                Err(EvictRefusal::NotOnline) => done.already += 1,
                // Empty files and links hold no space: nothing to evict is no refusal.
                Err(EvictRefusal::NoData | EvictRefusal::NotFound) => {}
                Err(refusal) => {
                    done.refuse(&refusal);
                    if refusal == EvictRefusal::Pinned {
                        let (now, pins) = (self.now(), self.read(|view| view.pins(selected.file))?);
                        let held = pins.into_iter().filter(|(_, until)| *until > now);
                        held.for_each(|(request, until)| done.held(request, until));
                    }
                    if done.refused.len() < REFUSALS_SHOWN_MAX {
                        let path = self.read(|view| view.path_of_file(selected.file))?;
                        done.refused.push((path.unwrap_or_default(), refusal));
                    }
                }
            }
        }
        let room = self;
        room.access.push(|| Notice::Evicted { at: room.now(), files: evicted });
        Ok(())
    }
}

/// Paths of a request that no file stands for.
fn refused_paths(view: &View<'_>, request: RequestId) -> Result<Vec<RequestFile>, ReadError> {
    let Some(record) = view.request(request)? else { return Ok(Vec::new()) };
    let Some(list) = record.list.filter(|list| list.refused > 0) else { return Ok(Vec::new()) };
    let paths = view.request_paths(request, 0, list.paths as usize)?.into_iter();
    let refused = paths.filter_map(|path| match path.target {
        PathTarget::Refused(why) => Some(RequestFile {
            path: path.path,
            size: ByteCount(0),
            state: ItemState::Failed(why.text().to_owned()),
            failure: Some(ItemFailure::Refused),
            started: None,
            ended: Some(record.created),
        }),
        PathTarget::Item(_) => None,
    });
    Ok(refused.collect())
}
