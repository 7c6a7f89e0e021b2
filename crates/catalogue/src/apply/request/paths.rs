//! Requests that name paths one by one.

use base::{Blake3, Duration, PATH_BYTES_MAX, RequestId};

use super::{add_item, complete, find, new_request, path_bytes, wrong};
use crate::apply::limit;
use crate::command::{
    AskedFor, AskedPath, BATCH_FILES_MAX, Command, OPEN_REQUESTS_MAX, Outcome, REQUEST_PATHS_MAX,
};
use crate::draft::Draft;
use crate::error::{Object, Rejection};
use crate::key;
use crate::record::{
    FileRecord, ItemState, PathList, PathRefusal, PathTarget, RequestItem, RequestPath, RequestRecord,
    RequestState,
};
use crate::table::Table;

pub(super) fn perform(draft: &mut Draft<'_>, command: &Command) -> Result<Outcome, Rejection> {
    match command {
        Command::OpenPathRequest { owner, pin } => open(draft, owner, *pin),
        Command::AddPaths { request, paths } => add(draft, *request, paths),
        Command::ClosePathRequest { request, submission } => close(draft, *request, submission),
        _ => unreachable!("requests send commands about their paths only"),
    }
}

fn open(draft: &mut Draft<'_>, owner: &str, pin: Duration) -> Result<Outcome, Rejection> {
    let (id, mut request) = new_request(draft, owner, pin)?;
    request.list = Some(PathList::default());
    let one_more = |open: u32| open.checked_add(1).filter(|open| *open <= OPEN_REQUESTS_MAX);
    count_open(draft, owner, one_more)?;
    draft.put(Table::Request, key::request(id), &request);
    Ok(Outcome::Request(id))
}

/// Counts the requests of an owner that have not ended anew; `None`: there are too many.
pub(super) fn count_open(
    draft: &mut Draft<'_>,
    owner: &str,
    count: impl FnOnce(u32) -> Option<u32>,
) -> Result<(), Rejection> {
    let limit = u64::from(OPEN_REQUESTS_MAX);
    let too_many = Rejection::LimitExceeded { what: "requests of a caller that have not ended", limit };
    match count(draft.view().open_requests(owner)?).ok_or(too_many)? {
        0 => draft.remove(Table::OpenRequests, key::open_requests(owner)),
        open => {
            assert!(open <= OPEN_REQUESTS_MAX, "nobody has more open requests than one may");
            draft.put(Table::OpenRequests, key::open_requests(owner), &open);
        }
    }
    Ok(())
}

fn add(draft: &mut Draft<'_>, id: RequestId, paths: &[AskedPath]) -> Result<Outcome, Rejection> {
    limit("files in one command", paths.len(), BATCH_FILES_MAX)?;
    let mut request = find(draft, id)?;
    let Some(mut list) = request.list.filter(|_| request.state == RequestState::Filling) else {
        return Err(wrong(id, &request, "open for paths: make a new request"));
    };
    let before = list.paths;
    path_bytes::add(draft, &request.owner, (id, before), paths)?;
    for asked in paths {
        limit("bytes of a path", asked.path.len(), PATH_BYTES_MAX)?;
        if list.paths >= REQUEST_PATHS_MAX {
            let limit = u64::from(REQUEST_PATHS_MAX);
            return Err(Rejection::LimitExceeded { what: "paths of a request", limit });
        }
        let target = target(draft, (id, &mut request), asked)?;
        list.refused += u32::from(matches!(target, PathTarget::Refused(_)));
        let row = RequestPath { path: asked.path.clone(), target };
        draft.put(Table::RequestPath, key::request_path(id, list.paths), &row);
        list.paths += 1;
    }
    assert_eq!((list.paths - before) as usize, paths.len(), "no path is left out");
    assert!(list.paths <= REQUEST_PATHS_MAX, "a request has no more paths than one answer can say");
    assert!(list.refused <= list.paths, "what is refused is one of the paths");
    request.list = Some(list);
    draft.put(Table::Request, key::request(id), &request);
    Ok(Outcome::Done)
}

fn target(
    draft: &mut Draft<'_>,
    (id, request): (RequestId, &mut RequestRecord),
    asked: &AskedPath,
) -> Result<PathTarget, Rejection> {
    let file_id = match asked.file {
        AskedFor::File(file) => file,
        AskedFor::Refused(why) => return Ok(PathTarget::Refused(why)),
    };
    let Some(file) = draft.view().file(file_id)?.filter(FileRecord::is_named) else {
        return Ok(PathTarget::Refused(PathRefusal::NotFound));
    };
    let known: Option<u32> = draft.view().get(Table::RequestFile, &key::request_file(id, file_id))?;
    if let Some(number) = known {
        pin_longer(draft, (id, request), number, asked.pin)?;
        return Ok(PathTarget::Item(number));
    }
    let (number, _) = add_item(draft, (id, request), (file_id, &file), asked.pin)?;
    assert!(number < request.files, "a path leads to an item of its request");
    Ok(PathTarget::Item(number))
}

/// Another path leads to the same file: it is pinned for the longer of both times.
fn pin_longer(
    draft: &mut Draft<'_>,
    (id, request): (RequestId, &RequestRecord),
    number: u32,
    pin: Option<Duration>,
) -> Result<(), Rejection> {
    let mut item: RequestItem = draft.view().expect(Table::RequestItem, &key::request_item(id, number))?;
    let longer = pin.unwrap_or(request.pin);
    if longer <= item.pin.unwrap_or(request.pin) {
        return Ok(());
    }
    item.pin = Some(longer);
    let pinned = draft.view().get(Table::Pin, &key::pin(item.file, id))?;
    if let (ItemState::Done(_), Some(until)) = (&item.state, pinned) {
        draft.remove(Table::PinExpiry, key::pin_expiry(until, item.file, id));
        super::pin(draft, id, request, &item);
    }
    draft.put(Table::RequestItem, key::request_item(id, number), &item);
    Ok(())
}

fn close(draft: &mut Draft<'_>, id: RequestId, submission: &Blake3) -> Result<Outcome, Rejection> {
    let mut request = find(draft, id)?;
    let Some(mut list) = request.list else {
        return Err(Rejection::NotFound(Object::Request(id)));
    };
    match request.state {
        RequestState::Filling => {}
        RequestState::Active | RequestState::Completed => return Ok(Outcome::Request(id)),
        RequestState::Cancelled | RequestState::Cancelling | RequestState::Forgetting => {
            return Err(wrong(id, &request, "open for paths: make a new request"));
        }
    }
    if let Some(same) = draft.view().submitted(submission)? {
        return Ok(Outcome::Request(same));
    }
    // Whoever submits the same after a file failed wants it tried again.
    if request.failed == 0 {
        draft.put(Table::Submission, key::submission(submission), &id);
        list.submission = Some(*submission);
    }
    request.list = Some(list);
    request.state = RequestState::Active;
    complete(draft, &mut request)?;
    let is_found = draft.view().submitted(submission)? == Some(id);
    let may_be_found = request.ended.is_none() && request.failed == 0;
    assert_eq!(is_found, may_be_found, "a submission finds its request until that ends");
    draft.put(Table::Request, key::request(id), &request);
    Ok(Outcome::Request(id))
}

/// A repeated submission does not find this request any more.
pub(super) fn leave_submission(draft: &mut Draft<'_>, request: &mut RequestRecord) {
    if let Some(submission) = request.list.as_mut().and_then(|list| list.submission.take()) {
        draft.remove(Table::Submission, key::submission(&submission));
    }
}

/// A file of a request was given back, or is held no more: whoever submits the same wants all of it, which
/// this request gives no more.
pub(in crate::apply) fn differ(draft: &mut Draft<'_>, id: RequestId) -> Result<(), Rejection> {
    let mut request = find(draft, id)?;
    if request.list.is_some_and(|list| list.submission.is_some()) {
        leave_submission(draft, &mut request);
        draft.put(Table::Request, key::request(id), &request);
    }
    Ok(())
}

/// Removes the last paths of a request that is deleted, at most so many; whether there are more.
pub(super) fn forget(
    draft: &mut Draft<'_>,
    id: RequestId,
    request: &mut RequestRecord,
    most: usize,
) -> Result<bool, Rejection> {
    let Some(list) = &mut request.list else { return Ok(false) };
    let left = list.paths.saturating_sub(u32::try_from(most).unwrap_or(u32::MAX));
    path_bytes::take(draft, &request.owner, id, left..list.paths)?;
    for number in left..list.paths {
        draft.remove(Table::RequestPath, key::request_path(id, number));
    }
    list.paths = left;
    Ok(left > 0)
}
