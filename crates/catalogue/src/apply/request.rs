//! Requests: who wants which files online, for how long, and how far that is.

use base::{BlockAddress, Duration, FileId, RequestId, Timestamp, Vid};

use super::{cold, limit, part};
use crate::command::{BATCH_FILES_MAX, Command, Outcome, PRIORITY_MAX, PRIORITY_USUAL, REQUEST_FILES_MAX};
use crate::draft::Draft;
use crate::encoding::Nothing;
use crate::error::{Object, Rejection};
use crate::frame;
use crate::key;
use crate::record::{
    ContainerRecord, Counter, FileRecord, FileState, ItemState, RecallItem, RecallKey, RequestItem,
    RequestRecord, RequestState, Rule,
};
use crate::table::Table;
use crate::view::recall_key;

mod path_bytes;
pub(super) mod paths;

pub(super) use path_bytes::{begin as begin_to_count_paths, count_some as count_paths};

/// Most bytes in the name of who asks.
const OWNER_BYTES_MAX: usize = 64;

pub(super) fn perform(draft: &mut Draft<'_>, command: &Command) -> Result<Outcome, Rejection> {
    match command {
        Command::OpenRequest { owner, pin } => return open(draft, owner, *pin),
        Command::AddToRequest { request, files } => add(draft, *request, files)?,
        Command::CloseRequest { request } => close(draft, *request)?,
        Command::CancelRequest { request } => return cancel(draft, *request, BATCH_FILES_MAX),
        Command::Release { request, files: None } => release_all(draft, *request)?,
        Command::Release { request, files: Some(files) } => release_files(draft, *request, files, release)?,
        Command::Unpin { request, files } => release_files(draft, *request, files, unpin_item)?,
        Command::ForgetRequest { request } => return forget(draft, *request, BATCH_FILES_MAX),
        Command::SetRequestPriority { request, priority } => set_priority(draft, *request, *priority)?,
        Command::CancelFiles { request, files } => cancel_files(draft, *request, files)?,
        Command::RecallStarted { files } => started(draft, files)?,
        Command::OpenPathRequest { .. } | Command::AddPaths { .. } | Command::ClosePathRequest { .. } => {
            return paths::perform(draft, command);
        }
        _ => unreachable!("apply sends commands about requests only"),
    }
    Ok(Outcome::Done)
}

fn find(draft: &Draft<'_>, id: RequestId) -> Result<RequestRecord, Rejection> {
    draft.view().request(id)?.ok_or(Rejection::NotFound(Object::Request(id)))
}

fn word(state: RequestState) -> &'static str {
    match state {
        RequestState::Filling => "being filled",
        RequestState::Active => "active",
        RequestState::Completed => "completed",
        RequestState::Cancelled => "cancelled",
        RequestState::Cancelling => "being cancelled",
        RequestState::Forgetting => "being deleted",
    }
}

fn wrong(id: RequestId, request: &RequestRecord, needed: &'static str) -> Rejection {
    Rejection::WrongState { object: Object::Request(id), state: word(request.state), needed }
}

fn open(draft: &mut Draft<'_>, owner: &str, pin: Duration) -> Result<Outcome, Rejection> {
    let (id, request) = new_request(draft, owner, pin)?;
    draft.put(Table::Request, key::request(id), &request);
    Ok(Outcome::Request(id))
}

fn new_request(
    draft: &mut Draft<'_>,
    owner: &str,
    pin: Duration,
) -> Result<(RequestId, RequestRecord), Rejection> {
    limit("bytes of the name of who asks", owner.len(), OWNER_BYTES_MAX)?;
    let id = draft.change_meta(|meta| {
        meta.next_request += 1;
        RequestId(meta.next_request - 1)
    })?;
    assert!(draft.view().request(id)?.is_none(), "the number of a new request was never given");
    let request = RequestRecord {
        owner: owner.to_owned(),
        created: draft.at,
        state: RequestState::Filling,
        ended: None,
        pin,
        files: 0,
        bytes: Default::default(),
        done: 0,
        done_bytes: Default::default(),
        failed: 0,
        cancelled: 0,
        swept: 0,
        started: None,
        list: None,
    };
    Ok((id, request))
}

fn add(draft: &mut Draft<'_>, id: RequestId, files: &[FileId]) -> Result<(), Rejection> {
    limit("files in one command", files.len(), BATCH_FILES_MAX)?;
    let mut request = find(draft, id)?;
    if request.state != RequestState::Filling {
        return Err(wrong(id, &request, "open for files: make a new request"));
    }
    let before = (request.files, request.done + request.failed);
    let mut waiting = 0;
    for &file_id in files {
        let file = draft.view().file(file_id)?.filter(FileRecord::is_named);
        let file = file.ok_or(Rejection::NotFound(Object::File(file_id)))?;
        if draft.view().get::<u32>(Table::RequestFile, &key::request_file(id, file_id))?.is_none() {
            let (_, state) = add_item(draft, (id, &mut request), (file_id, &file), None)?;
            waiting += u32::from(state == ItemState::Waiting);
        }
    }
    let ended = request.done + request.failed - before.1;
    assert_eq!(request.files - before.0, ended + waiting, "each new item is done, failed or waits");
    draft.put(Table::Request, key::request(id), &request);
    Ok(())
}

/// Adds a file that is not in the request yet; gives the number of its item, and how that stands.
fn add_item(
    draft: &mut Draft<'_>,
    (id, request): (RequestId, &mut RequestRecord),
    (file_id, file): (FileId, &FileRecord),
    pin: Option<Duration>,
) -> Result<(u32, ItemState), Rejection> {
    if request.files >= REQUEST_FILES_MAX {
        return Err(Rejection::LimitExceeded {
            what: "files of a request",
            limit: u64::from(REQUEST_FILES_MAX),
        });
    }
    let number = request.files;
    request.files += 1;
    request.bytes.0 = request.bytes.0.saturating_add(file.size.0);
    let mut item = RequestItem { pin, ..RequestItem::new(file_id, ItemState::Waiting) };
    item.state = begin_item(draft, (id, request), (number, &item), file)?;
    let kept = kept_time(draft)?;
    match item.state {
        ItemState::Done(_) => {
            item.started = kept;
            request.started = request.started.or(kept);
        }
        ItemState::Failed(_) => item.over = kept,
        _ => {}
    }
    draft.put(Table::RequestFile, key::request_file(id, file_id), &number);
    draft.put(Table::RequestItem, key::request_item(id, number), &item);
    Ok((number, item.state))
}

/// The time of the change, if times of requests are kept by now.
fn kept_time(draft: &Draft<'_>) -> Result<Option<Timestamp>, Rejection> {
    Ok(draft.view().holds(Rule::RequestTimes)?.then_some(draft.at))
}

fn begin_item(
    draft: &mut Draft<'_>,
    (id, request): (RequestId, &mut RequestRecord),
    (number, item): (u32, &RequestItem),
    file: &FileRecord,
) -> Result<ItemState, Rejection> {
    let file_id = item.file;
    if file.is_online() {
        request.done += 1;
        request.done_bytes.0 = request.done_bytes.0.saturating_add(file.size.0);
        pin(draft, id, request, item);
        return Ok(ItemState::Done(draft.at));
    }
    if part::complete(draft, file_id)? {
        let file = draft.view().expect(Table::File, &key::file(file_id))?;
        return begin_item(draft, (id, request), (number, item), &file);
    }
    if let FileState::Lost(_) = file.state {
        request.failed += 1;
        return Ok(ItemState::Failed("LOST: no copy of the file can be read".to_owned()));
    }
    let Some(places) = places(draft, file_id, file)? else {
        request.failed += 1;
        return Ok(ItemState::Failed("no tape holds a copy of all of the file".to_owned()));
    };
    for (recall_key, item) in places {
        let container: ContainerRecord =
            draft.view().expect(Table::Container, &key::container(item.container))?;
        if part::in_pool(&container).is_none() {
            put_recall(draft, &recall_key, &item)?;
        }
    }
    draft.put(Table::Want, key::want(file_id, id), &number);
    Ok(ItemState::Waiting)
}

/// Every place on tape where a part of the file can be read; `None` if some byte of it has none.
pub(super) fn places(
    draft: &Draft<'_>,
    id: FileId,
    file: &FileRecord,
) -> Result<Option<Vec<(RecallKey, RecallItem)>>, Rejection> {
    let mut places = Vec::new();
    let mut covered = 0;
    for (container, member) in draft.view().parts(id)? {
        let record: ContainerRecord = draft.view().expect(Table::Container, &key::container(container))?;
        let before = places.len();
        for (vid, block) in record.places() {
            let key = RecallKey { vid, block, data_offset: member.data_offset, file: id };
            places.push((key, RecallItem { container, length: member.length, since: draft.at }));
        }
        if places.len() > before {
            covered += member.length.0;
        }
    }
    Ok((covered == file.size.0).then_some(places))
}

fn pin(draft: &mut Draft<'_>, id: RequestId, request: &RequestRecord, item: &RequestItem) {
    let until = draft.at.plus(item.pin.unwrap_or(request.pin));
    let file = item.file;
    draft.put(Table::Pin, key::pin(file, id), &until);
    draft.put(Table::PinExpiry, key::pin_expiry(until, file, id), &Nothing);
}

fn unpin(draft: &mut Draft<'_>, id: RequestId, file: FileId) -> Result<(), Rejection> {
    let key = key::pin(file, id);
    if let Some(until) = draft.view().get(Table::Pin, &key)? {
        draft.remove(Table::Pin, key);
        draft.remove(Table::PinExpiry, key::pin_expiry(until, file, id));
        cold::leave(draft, file)?;
    }
    Ok(())
}

/// Completes a closed request for which nothing waits.
fn complete(draft: &mut Draft<'_>, request: &mut RequestRecord) -> Result<(), Rejection> {
    let ended = u64::from(request.done) + u64::from(request.failed) + u64::from(request.cancelled);
    if request.state == RequestState::Active && ended == u64::from(request.files) {
        end(draft, request, RequestState::Completed)?;
    }
    Ok(())
}

/// A request has ended: one that names paths counts no more among those of its owner that have not, and is
/// not what a repeated submission finds.
fn end(draft: &mut Draft<'_>, request: &mut RequestRecord, state: RequestState) -> Result<(), Rejection> {
    assert!(request.ended.is_none(), "a request ends once");
    request.state = state;
    request.ended = Some(draft.at);
    paths::leave_submission(draft, request);
    if request.list.is_some() {
        paths::count_open(draft, &request.owner, |open| open.checked_sub(1))?;
    }
    Ok(())
}

/// Ends all that waits for a file: done or failed. Its rows leave the recall sets of all tapes, and what came
/// of its parts is given up.
pub(super) fn settle(
    draft: &mut Draft<'_>,
    file_id: FileId,
    file: &FileRecord,
    state: &ItemState,
) -> Result<(), Rejection> {
    let wants = draft.view().wants(file_id)?;
    if wants.is_empty() {
        return Ok(());
    }
    drop_recalls(draft, file_id)?;
    let kept = kept_time(draft)?;
    for want in wants {
        let id = want.request;
        draft.remove(Table::Want, key::want(file_id, id));
        let before: RequestItem =
            draft.view().expect(Table::RequestItem, &key::request_item(id, want.item))?;
        assert!(before.state.waits(), "who wants a file waits for it");
        let is_unpinned = before.state == ItemState::WaitingUnpinned;
        let item = match state {
            ItemState::Done(_) if is_unpinned => before.over(ItemState::Released, kept),
            ItemState::Done(_) => RequestItem { state: state.clone(), ..before },
            state => before.over(state.clone(), kept),
        };
        draft.put(Table::RequestItem, key::request_item(id, want.item), &item);
        let mut request: RequestRecord = draft.view().expect(Table::Request, &key::request(id))?;
        if matches!(item.state, ItemState::Done(_) | ItemState::Released) {
            request.done += 1;
            request.done_bytes.0 = request.done_bytes.0.saturating_add(file.size.0);
            if !is_unpinned {
                pin(draft, id, &request, &item);
            }
        } else {
            request.failed += 1;
            paths::leave_submission(draft, &mut request);
        }
        complete(draft, &mut request)?;
        draft.put(Table::Request, key::request(id), &request);
    }
    assert!(draft.view().wants(file_id)?.is_empty(), "nobody waits for what is settled");
    Ok(())
}

/// The rows of a file in the recall sets of all tapes.
pub(super) fn recalls(draft: &Draft<'_>, id: FileId) -> Result<Vec<(RecallKey, RecallItem)>, Rejection> {
    let mut rows = Vec::new();
    for (container, member) in draft.view().parts(id)? {
        let record: ContainerRecord = draft.view().expect(Table::Container, &key::container(container))?;
        for (vid, block) in record.places() {
            let key = RecallKey { vid, block, data_offset: member.data_offset, file: id };
            if let Some(item) = draft.view().get(Table::Recall, &key::recall(&key))? {
                rows.push((key, item));
            }
        }
    }
    Ok(rows)
}

/// All rows that stand for one place on tape.
pub(super) fn recalls_at(
    draft: &Draft<'_>,
    vid: Vid,
    block: BlockAddress,
) -> Result<Vec<(RecallKey, RecallItem)>, Rejection> {
    let prefix = key::content(vid, block);
    Ok(draft.view().rows_within(Table::Recall, &prefix, None, usize::MAX, |parts, key, value| {
        Ok((recall_key(parts)?, frame::open(Table::Recall, key, value)?))
    })?)
}

/// Makes a file wanted at a place, unless it is already.
pub(super) fn put_recall(
    draft: &mut Draft<'_>,
    place: &RecallKey,
    item: &RecallItem,
) -> Result<(), Rejection> {
    let key = key::recall(place);
    if draft.view().get::<RecallItem>(Table::Recall, &key)?.is_none() {
        draft.put(Table::Recall, key, item);
        draft.count(Counter::Wanted(place.vid), 1, item.length.0)?;
    }
    Ok(())
}

pub(super) fn drop_recall(
    draft: &mut Draft<'_>,
    key: &RecallKey,
    item: &RecallItem,
) -> Result<(), Rejection> {
    draft.remove(Table::Recall, key::recall(key));
    draft.discount(Counter::Wanted(key.vid), 1, item.length.0)?;
    Ok(())
}

/// Nobody waits for a file any more.
fn drop_recalls(draft: &mut Draft<'_>, id: FileId) -> Result<(), Rejection> {
    part::give_up(draft, id)?;
    for (key, item) in recalls(draft, id)? {
        drop_recall(draft, &key, &item)?;
    }
    debug_assert!(recalls(draft, id)?.is_empty(), "what nobody waits for is in no tape's recall set");
    Ok(())
}

fn close(draft: &mut Draft<'_>, id: RequestId) -> Result<(), Rejection> {
    let mut request = find(draft, id)?;
    match request.state {
        RequestState::Filling => {
            request.state = RequestState::Active;
            complete(draft, &mut request)?;
            draft.put(Table::Request, key::request(id), &request);
            Ok(())
        }
        RequestState::Active | RequestState::Completed => Ok(()),
        RequestState::Cancelled | RequestState::Cancelling | RequestState::Forgetting => {
            Err(wrong(id, &request, "open for files: make a new request"))
        }
    }
}

pub(super) fn cancel(draft: &mut Draft<'_>, id: RequestId, most: usize) -> Result<Outcome, Rejection> {
    let mut request = find(draft, id)?;
    match request.state {
        RequestState::Cancelled => return Ok(Outcome::More(false)),
        RequestState::Completed | RequestState::Forgetting => {
            return Err(wrong(id, &request, "unfinished: give back its pins with a release"));
        }
        RequestState::Filling | RequestState::Active | RequestState::Cancelling => {}
    }
    let swept = request.swept;
    let items = draft.view().request_items(id, request.swept, most)?;
    for (number, item) in items {
        request.swept = number.saturating_add(1);
        cancel_item(draft, (id, &mut request), number, item)?;
    }
    assert!(request.swept >= swept, "each part goes on where the last one ended");
    let has_more = request.swept < request.files;
    if has_more {
        request.state = RequestState::Cancelling;
    } else {
        request.swept = 0;
        end(draft, &mut request, RequestState::Cancelled)?;
    }
    draft.put(Table::Request, key::request(id), &request);
    Ok(Outcome::More(has_more))
}

fn cancel_item(
    draft: &mut Draft<'_>,
    (id, request): (RequestId, &mut RequestRecord),
    number: u32,
    item: RequestItem,
) -> Result<(), Rejection> {
    if !item.state.waits() {
        if release(draft, id, number, item)? {
            paths::leave_submission(draft, request);
        }
        return Ok(());
    }
    paths::leave_submission(draft, request);
    request.cancelled += 1;
    let ended = u64::from(request.done) + u64::from(request.failed) + u64::from(request.cancelled);
    assert!(ended <= u64::from(request.files), "no item ends twice");
    draft.remove(Table::Want, key::want(item.file, id));
    if draft.view().wants(item.file)?.is_empty() {
        drop_recalls(draft, item.file)?;
    }
    let item = item.over(ItemState::Cancelled, kept_time(draft)?);
    draft.put(Table::RequestItem, key::request_item(id, number), &item);
    Ok(())
}

fn cancel_files(draft: &mut Draft<'_>, id: RequestId, files: &[FileId]) -> Result<(), Rejection> {
    limit("files in one command", files.len(), BATCH_FILES_MAX)?;
    let mut request = find(draft, id)?;
    if request.state == RequestState::Forgetting {
        return Err(wrong(id, &request, "not deleted yet"));
    }
    for file in files {
        let (number, item) = find_item(draft, id, *file)?;
        cancel_item(draft, (id, &mut request), number, item)?;
    }
    complete(draft, &mut request)?;
    draft.put(Table::Request, key::request(id), &request);
    Ok(())
}

/// A drive begins to read files: whoever waits for one sees when work on it began. Only a Kist that keeps
/// times of requests says so.
fn started(draft: &mut Draft<'_>, files: &[FileId]) -> Result<(), Rejection> {
    limit("files in one command", files.len(), BATCH_FILES_MAX)?;
    for file in files {
        for want in draft.view().wants(*file)? {
            let (id, at) = (want.request, draft.at);
            let item_key = key::request_item(id, want.item);
            let mut item: RequestItem = draft.view().expect(Table::RequestItem, &item_key)?;
            if item.started.is_none() {
                item.started = Some(at);
                draft.put(Table::RequestItem, item_key, &item);
            }
            let mut request: RequestRecord = draft.view().expect(Table::Request, &key::request(id))?;
            if request.started.is_none() {
                request.started = Some(at);
                draft.put(Table::Request, key::request(id), &request);
            }
        }
    }
    Ok(())
}

fn release_all(draft: &mut Draft<'_>, id: RequestId) -> Result<(), Rejection> {
    let request = find(draft, id)?;
    limit("files given back at once: name them in batches", request.files as usize, BATCH_FILES_MAX)?;
    let mut has_changed = false;
    for (number, item) in draft.view().request_items(id, 0, BATCH_FILES_MAX)? {
        has_changed |= release(draft, id, number, item)?;
    }
    if has_changed {
        paths::differ(draft, id)?;
    }
    Ok(())
}

/// Gives back the pin of an item that is done; others stay as they are. Whether it was done.
fn release(draft: &mut Draft<'_>, id: RequestId, number: u32, item: RequestItem) -> Result<bool, Rejection> {
    let is_done = matches!(item.state, ItemState::Done(_));
    if is_done {
        unpin(draft, id, item.file)?;
        let item = item.over(ItemState::Released, kept_time(draft)?);
        draft.put(Table::RequestItem, key::request_item(id, number), &item);
    }
    Ok(is_done)
}

/// The same, and one that is waited for still gets no pin when it comes. Whether this changes the item.
fn unpin_item(
    draft: &mut Draft<'_>,
    id: RequestId,
    number: u32,
    item: RequestItem,
) -> Result<bool, Rejection> {
    if item.state == ItemState::Waiting {
        let item = RequestItem { state: ItemState::WaitingUnpinned, ..item };
        draft.put(Table::RequestItem, key::request_item(id, number), &item);
        return Ok(true);
    }
    release(draft, id, number, item)
}

fn release_files(
    draft: &mut Draft<'_>,
    id: RequestId,
    files: &[FileId],
    each: fn(&mut Draft<'_>, RequestId, u32, RequestItem) -> Result<bool, Rejection>,
) -> Result<(), Rejection> {
    limit("files in one command", files.len(), BATCH_FILES_MAX)?;
    find(draft, id)?;
    let mut has_changed = false;
    for file in files {
        let (number, item) = find_item(draft, id, *file)?;
        has_changed |= each(draft, id, number, item)?;
    }
    if has_changed {
        paths::differ(draft, id)?;
    }
    Ok(())
}

fn find_item(draft: &Draft<'_>, id: RequestId, file: FileId) -> Result<(u32, RequestItem), Rejection> {
    let number: Option<u32> = draft.view().get(Table::RequestFile, &key::request_file(id, file))?;
    let number = number.ok_or(Rejection::NotFound(Object::RequestFile(id, file)))?;
    Ok((number, draft.view().expect(Table::RequestItem, &key::request_item(id, number))?))
}

pub(super) fn forget(draft: &mut Draft<'_>, id: RequestId, most: usize) -> Result<Outcome, Rejection> {
    let mut request = find(draft, id)?;
    match request.state {
        RequestState::Completed | RequestState::Cancelled | RequestState::Forgetting => {}
        RequestState::Filling | RequestState::Active | RequestState::Cancelling => {
            return Err(wrong(id, &request, "completed or cancelled: cancel it first"));
        }
    }
    let items = draft.view().request_items(id, 0, most)?;
    let room = most - items.len();
    for (number, item) in items {
        unpin(draft, id, item.file)?;
        draft.remove(Table::RequestFile, key::request_file(id, item.file));
        draft.remove(Table::RequestItem, key::request_item(id, number));
    }
    let has_items = !draft.view().request_items(id, 0, 1)?.is_empty();
    let has_paths = paths::forget(draft, id, &mut request, room)?;
    let has_more = has_items || has_paths;
    if has_more {
        request.state = RequestState::Forgetting;
        draft.put(Table::Request, key::request(id), &request);
    } else {
        assert!(draft.view().request_items(id, 0, 1)?.is_empty(), "a request is forgotten after its items");
        draft.remove(Table::Request, key::request(id));
        if draft.view().priority(id)? != PRIORITY_USUAL {
            draft.remove(Table::RequestPriority, key::request(id));
        }
    }
    Ok(Outcome::More(has_more))
}

fn set_priority(draft: &mut Draft<'_>, id: RequestId, priority: u8) -> Result<(), Rejection> {
    limit("the priority of a request", usize::from(priority), usize::from(PRIORITY_MAX))?;
    let request = find(draft, id)?;
    if !matches!(request.state, RequestState::Filling | RequestState::Active) {
        return Err(wrong(id, &request, "waiting: it has ended"));
    }
    if draft.view().priority(id)? != priority {
        match priority {
            PRIORITY_USUAL => draft.remove(Table::RequestPriority, key::request(id)),
            _ => draft.put(Table::RequestPriority, key::request(id), &priority),
        }
    }
    Ok(())
}
