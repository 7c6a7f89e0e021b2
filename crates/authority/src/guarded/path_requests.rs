//! Paths that are asked for one by one. A path that the caller may not stage, or not look at, fails alone.

use archive::{ArchiveError, PathLocality, PathRequest, PathSubmission, SubmittedPath};
use base::{ArchivePath, RequestId};
use catalogue::PathRefusal;
use identity::Rights;

use super::Guarded;
use crate::roles::{Access, PathRequests, Staging};

impl<E: PathRequests + Staging + Access + ?Sized> PathRequests for Guarded<E> {
    fn stage_paths(&self, mut submission: PathSubmission) -> Result<RequestId, ArchiveError> {
        let what = named(&submission.paths);
        let caller = self.rule.acting(&submission.owner);
        if caller.is_empty() {
            return self.rule.deny(
                "stage",
                what,
                "a request needs an owner, who alone may ask how it stands",
            );
        }
        submission.owner = caller;
        let (mut allowed, mut denied) = (0, None);
        for path in &mut submission.paths {
            let Ok(found) = &path.path else { continue };
            if self.rule.has(Rights::STAGE, found)? {
                allowed += 1;
            } else {
                denied.get_or_insert_with(|| found.clone());
                path.path = Err(PathRefusal::NotAllowed);
            }
        }
        // Whoever may stage none of it hears so now, not when they ask how it stands: that is a wrong token
        // or a wrong directory, and a request would only hide it.
        // So does who names no path at all.
        if allowed == 0 {
            self.rule.may("stage", Rights::STAGE, &denied.unwrap_or_else(ArchivePath::root))?;
        }
        self.rule.done("stage", what, || self.engine.stage_paths(submission))
    }

    fn path_request(&self, request: RequestId) -> Result<PathRequest, ArchiveError> {
        self.rule.own("request", request, true)?;
        let mut found = self.engine.path_request(request)?;
        // Its asker sees all of it; a macaroon only what is where it is for.
        found.paths.retain(|(text, _)| self.rule.bounds_leave_text(Rights::POLL, text));
        Ok(found)
    }

    fn cancel_paths(&self, request: RequestId, paths: &[SubmittedPath]) -> Result<(), ArchiveError> {
        self.rule.own("cancel", request, false)?;
        let what = format!("request {request}: {}", named(paths));
        self.rule.done("cancel", what, || self.engine.cancel_paths(request, paths))
    }

    fn release_paths(&self, request: RequestId, paths: &[SubmittedPath]) -> Result<(), ArchiveError> {
        self.rule.own("release", request, false)?;
        let what = format!("request {request}: {}", named(paths));
        self.rule.done("release", what, || self.engine.release_paths(request, paths))
    }

    fn delete_request(&self, request: RequestId) -> Result<(), ArchiveError> {
        self.rule.own("delete-request", request, false)?;
        let what = format!("request {request}");
        self.rule.done("delete-request", what, || self.engine.delete_request(request))
    }

    fn localities(&self, paths: &[ArchivePath]) -> Result<Vec<PathLocality>, ArchiveError> {
        let may: Vec<bool> =
            paths.iter().map(|path| self.rule.has(Rights::POLL, path)).collect::<Result<_, _>>()?;
        let allowed = paths.iter().zip(&may).filter(|(_, may)| **may).map(|(path, _)| path.clone());
        let mut found = self.engine.localities(&allowed.collect::<Vec<_>>())?.into_iter();
        let of_path = |may: bool| {
            if may { found.next().unwrap_or(PathLocality::Missing) } else { PathLocality::NotAllowed }
        };
        Ok(may.into_iter().map(of_path).collect())
    }
}

fn named(paths: &[SubmittedPath]) -> String {
    let first = paths.first().map(|path| path.text.clone()).unwrap_or_default();
    match paths.len() {
        0 | 1 => first,
        more => format!("{first} and {} more", more - 1),
    }
}
