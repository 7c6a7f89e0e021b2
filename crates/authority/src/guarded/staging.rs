//! What is brought back from tape or leaves the pool, and why it waits.

use archive::{
    About, ArchiveError, CallProgress, Cause, EvictDone, RequestFile, RequestInfo, RequestOutlook, Selection,
    StageOptions,
};
use base::{ArchivePath, RequestId};
use identity::Rights;

use super::Guarded;
use crate::roles::{Access, Staging};

/// Pages of requests that are looked through for those of one caller before a page is given as it is.
const REQUEST_PAGES_MAX: usize = 256;

impl<E: Staging + Access + ?Sized> Staging for Guarded<E> {
    fn stage_told(
        &self,
        selection: &Selection,
        mut options: StageOptions,
        progress: &CallProgress,
    ) -> Result<RequestId, ArchiveError> {
        for path in &selection.paths {
            self.rule.may("stage", Rights::STAGE, path)?;
        }
        options.owner = self.rule.acting(&options.owner);
        self.rule.done("stage", named(selection), || self.engine.stage_told(selection, options, progress))
    }

    fn request(&self, request: RequestId) -> Result<RequestInfo, ArchiveError> {
        self.rule.own("request", request, true)
    }

    fn requests(&self, before: Option<RequestId>, limit: usize) -> Result<Vec<RequestInfo>, ArchiveError> {
        if self.rule.is_admin() {
            return self.engine.requests(before, limit);
        }
        // Which of the asker's requests are where a macaroon is for would take a look at the files of each.
        if self.rule.ledger.caller.is_bounded() {
            return Ok(Vec::new());
        }
        let (mut before, mut found) = (before, Vec::new());
        for _ in 0..REQUEST_PAGES_MAX {
            let page = self.engine.requests(before, limit)?;
            let Some(last) = page.last() else { break };
            before = Some(last.request);
            found.extend(page.into_iter().filter(|info| self.rule.owns(info, true)));
            if found.len() >= limit {
                break;
            }
        }
        found.truncate(limit);
        Ok(found)
    }

    fn request_files(
        &self,
        request: RequestId,
        from: u32,
        limit: usize,
    ) -> Result<(Vec<RequestFile>, Option<u32>), ArchiveError> {
        self.rule.own("request", request, true)?;
        let (mut files, next) = self.engine.request_files(request, from, limit)?;
        // Whoever has a directory staged may not see all that is below it.
        let mut kept = Vec::with_capacity(files.len());
        for file in files.drain(..) {
            if self.is_visible(&file.path)? {
                kept.push(file);
            }
        }
        Ok((kept, next))
    }

    fn set_priority(&self, request: RequestId, priority: u8) -> Result<(), ArchiveError> {
        self.rule.own("priority", request, false)?;
        self.rule
            .done("priority", format!("request {request}"), || self.engine.set_priority(request, priority))
    }

    fn cancel_request_told(&self, request: RequestId, progress: &CallProgress) -> Result<(), ArchiveError> {
        self.rule.own("cancel", request, false)?;
        let cancel = || self.engine.cancel_request_told(request, progress);
        self.rule.done("cancel", format!("request {request}"), cancel)
    }

    fn release_told(
        &self,
        request: RequestId,
        paths: Option<&[ArchivePath]>,
        progress: &CallProgress,
    ) -> Result<(), ArchiveError> {
        self.rule.own("release", request, false)?;
        let release = || self.engine.release_told(request, paths, progress);
        self.rule.done("release", format!("request {request}"), release)
    }

    fn evict_told(&self, selection: &Selection, progress: &CallProgress) -> Result<EvictDone, ArchiveError> {
        for path in &selection.paths {
            self.rule.may("evict", Rights::STAGE, path)?;
        }
        let evict = || self.engine.evict_told(selection, progress);
        let mut done = self.rule.done("evict", named(selection), evict)?;
        let mut refused = Vec::with_capacity(done.refused.len());
        for (path, refusal) in done.refused.drain(..) {
            if self.is_visible(&path)? {
                refused.push((path, refusal));
            }
        }
        done.refused = refused;
        Ok(done)
    }

    fn explain(&self, about: &About) -> Result<Vec<Cause>, ArchiveError> {
        match about {
            About::Path(path) => self.rule.may("explain", Rights::STAT, path)?,
            About::Request(request) => self.rule.own_whole("explain", *request)?,
            About::Tape(vid) => self.rule.looks("explain", vid)?,
            About::Drive(name) | About::TapePool(name) | About::Class(name) => {
                self.rule.looks("explain", name)?;
            }
        }
        self.engine.explain(about)
    }

    fn request_outlook(&self, request: RequestId) -> Result<RequestOutlook, ArchiveError> {
        self.rule.own_whole("request", request)?;
        self.engine.request_outlook(request)
    }
}

fn named(selection: &Selection) -> String {
    let first = selection.paths.first().map(ToString::to_string).unwrap_or_default();
    match selection.paths.len() {
        0 | 1 => first,
        more => format!("{first} and {} more", more - 1),
    }
}
