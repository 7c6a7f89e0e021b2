//! Requests, wants, recall sets, pins.

use std::collections::{BTreeMap, BTreeSet};

use base::{Blake3, FileId, RequestId, Timestamp};

use super::Check;
use crate::encoding::Nothing;
use crate::error::ReadError;
use crate::key;
use crate::record::{
    ContainerKind, Counter, FileState, ItemState, PathPlace, PathTarget, RecallItem, RequestItem,
    RequestPath, RequestRecord, RequestState, Rule,
};
use crate::table::Table;
use crate::view::recall_key;

impl Check<'_> {
    pub(super) fn requests(&mut self) -> Result<(), ReadError> {
        self.walk(Table::Request, |check, mut parts, key, request: RequestRecord| {
            let id = RequestId(!parts.u64()?);
            let items = check.view.request_items(id, 0, usize::MAX)?;
            let count =
                |is: fn(&ItemState) -> bool| items.iter().filter(|(_, item)| is(&item.state)).count() as u64;
            let waiting = count(ItemState::waits);
            let done = count(|state| matches!(state, ItemState::Done(_) | ItemState::Released));
            let failed = count(|state| matches!(state, ItemState::Failed(_)));
            let cancelled = count(|state| matches!(state, ItemState::Cancelled));
            let recorded = [request.files, request.done, request.failed, request.cancelled].map(u64::from);
            let counted = [items.len() as u64, done, failed, cancelled];
            // Of one that is being deleted, the first items are gone.
            let is_part = request.state == RequestState::Forgetting
                && recorded.iter().zip(counted).all(|(recorded, counted)| *recorded >= counted);
            let is_counted = recorded == counted || is_part;
            check.expect(is_counted, Table::Request, key, "the items are miscounted");
            let is_right = match request.state {
                RequestState::Filling => request.ended.is_none(),
                RequestState::Active => request.ended.is_none() && waiting > 0,
                RequestState::Completed | RequestState::Cancelled | RequestState::Forgetting => {
                    request.ended.is_some() && waiting == 0
                }
                RequestState::Cancelling => request.ended.is_none() && is_swept(&items, request.swept),
            };
            check.expect(is_right, Table::Request, key, "the state does not agree with the items");
            let is_tidy = request.swept == 0 || request.state == RequestState::Cancelling;
            check.expect(is_tidy, Table::Request, key, "it is not being cancelled but half treated");
            Ok(())
        })?;
        self.walk(Table::RequestItem, |check, mut parts, key, item: RequestItem| {
            let id = RequestId(parts.u64()?);
            let number = parts.u32()?;
            let is_known = check.view.request(id)?.is_some();
            check.expect(is_known, Table::RequestItem, key, "the request does not exist");
            let by_file: Option<u32> =
                check.view.get(Table::RequestFile, &key::request_file(id, item.file))?;
            check.expect(
                by_file == Some(number),
                Table::RequestItem,
                key,
                "the item is not found by its file",
            );
            let is_timed =
                item.over.is_none() || !matches!(item.state, ItemState::Done(_)) && !item.state.waits();
            check.expect(is_timed, Table::RequestItem, key, "it has an end that it has not come to");
            let want: Option<u32> = check.view.get(Table::Want, &key::want(item.file, id))?;
            let waits = item.state.waits().then_some(number);
            check.expect(
                want == waits,
                Table::RequestItem,
                key,
                "the item waits for nothing, or is not known to",
            );
            Ok(())
        })?;
        self.walk(Table::RequestFile, |check, mut parts, key, number: u32| {
            let id = RequestId(parts.u64()?);
            let item: Option<RequestItem> =
                check.view.get(Table::RequestItem, &key::request_item(id, number))?;
            let file = FileId(parts.u64()?);
            let is_right = item.is_some_and(|item| item.file == file);
            check.expect(is_right, Table::RequestFile, key, "the item is another file's");
            Ok(())
        })?;
        self.request_paths()?;
        self.wants()?;
        self.pins()
    }

    /// Requests that name paths one by one: their paths, what repeated submissions find, how many are open.
    fn request_paths(&mut self) -> Result<(), ReadError> {
        let mut open: BTreeMap<String, u32> = BTreeMap::new();
        self.walk(Table::Request, |check, mut parts, key, request: RequestRecord| {
            let id = RequestId(!parts.u64()?);
            let Some(list) = request.list else { return Ok(()) };
            let paths = check.view.request_paths(id, 0, usize::MAX)?;
            let refused = paths.iter().filter(|path| matches!(path.target, PathTarget::Refused(_))).count();
            let is_part = request.state == RequestState::Forgetting && list.refused as usize >= refused;
            let is_counted = list.paths as usize == paths.len() && list.refused as usize == refused;
            let is_whole = is_counted || is_part && list.paths as usize == paths.len();
            check.expect(is_whole, Table::Request, key, "the paths are miscounted");
            let is_open = request.ended.is_none();
            if is_open {
                *open.entry(request.owner).or_default() += 1;
            }
            if let Some(submission) = list.submission {
                let found = check.view.submitted(&submission)?;
                let is_found = is_open && request.state != RequestState::Filling && found == Some(id);
                check.expect(is_found, Table::Request, key, "its submission stands for another request");
            }
            Ok(())
        })?;
        let is_counted = self.view.counted_paths()?;
        let (mut last, mut bytes) = (None, BTreeMap::new());
        self.walk(Table::RequestPath, |check, mut parts, key, path: RequestPath| {
            let (id, number) = (RequestId(parts.u64()?), parts.u32()?);
            let is_next = number == last.filter(|(of, _)| *of == id).map_or(0, |(_, last)| last + 1);
            last = Some((id, number));
            check.expect(is_next, Table::RequestPath, key, "a path of the request is missing");
            let request = check.view.request(id)?;
            let is_named = request.as_ref().is_some_and(|request| request.list.is_some());
            if let Some(request) = request.as_ref().filter(|_| is_counted(id, number)) {
                *bytes.entry(request.owner.clone()).or_default() += path.path.len() as u64;
            }
            check.expect(is_named, Table::RequestPath, key, "no request names this path");
            let is_going = request.is_some_and(|request| request.state == RequestState::Forgetting);
            let is_there = match path.target {
                PathTarget::Refused(_) => true,
                PathTarget::Item(_) if is_going => true,
                PathTarget::Item(item) => {
                    check.has::<RequestItem>(Table::RequestItem, &key::request_item(id, item))?
                }
            };
            check.expect(is_there, Table::RequestPath, key, "the item does not exist");
            Ok(())
        })?;
        self.walk(Table::Submission, |check, mut parts, key, id: RequestId| {
            let submission = Some(Blake3(parts.digest()?));
            let request = check.view.request(id)?;
            let list = request.and_then(|request| request.list);
            let is_its = list.is_some_and(|list| list.submission == submission);
            check.expect(is_its, Table::Submission, key, "the request was not submitted so");
            Ok(())
        })?;
        self.walk(Table::OpenRequests, |check, mut parts, key, count: u32| {
            parts.u8()?;
            let counted = open.remove(&parts.text()?);
            check.expect(counted == Some(count), Table::OpenRequests, key, "open requests are miscounted");
            Ok(())
        })?;
        for owner in open.into_keys() {
            let key = key::open_requests(&owner);
            self.expect(false, Table::OpenRequests, &key, "open requests are not counted");
        }
        self.path_bytes(bytes)
    }

    /// How many bytes the paths have that requests of each owner keep.
    fn path_bytes(&mut self, mut bytes: BTreeMap<String, u64>) -> Result<(), ReadError> {
        bytes.retain(|_, bytes| *bytes > 0);
        self.walk(Table::PathBytes, |check, mut parts, key, count: u64| {
            parts.u8()?;
            let counted = bytes.remove(&parts.text()?);
            check.expect(counted == Some(count), Table::PathBytes, key, "bytes of paths are miscounted");
            Ok(())
        })?;
        for owner in bytes.into_keys() {
            let key = key::path_bytes(&owner);
            self.expect(false, Table::PathBytes, &key, "bytes of paths are not counted");
        }
        self.walk(Table::PathBytesBehind, |check, _, key, _: PathPlace| {
            let holds = check.view.holds(Rule::PathsCounted)?;
            check.expect(holds, Table::PathBytesBehind, key, "bytes of paths are not to be counted");
            Ok(())
        })
    }

    fn wants(&mut self) -> Result<(), ReadError> {
        self.walk(Table::Want, |check, mut parts, key, number: u32| {
            let file_id = FileId(parts.u64()?);
            let id = RequestId(parts.u64()?);
            let item: Option<RequestItem> =
                check.view.get(Table::RequestItem, &key::request_item(id, number))?;
            let waits = item.is_some_and(|item| item.file == file_id && item.state.waits());
            check.expect(waits, Table::Want, key, "the item does not wait");
            let file = check.view.file(file_id)?;
            let is_near = file.is_some_and(|file| file.state == FileState::Live && !file.is_online());
            check.expect(is_near, Table::Want, key, "the file is online or gone");
            let mut in_sets = BTreeSet::new();
            let parts = check.view.parts(file_id)?;
            for (container, member) in &parts {
                let Some(record) = check.view.container(*container)? else { continue };
                if matches!(record.kind, ContainerKind::Segment { .. }) && record.image.is_some() {
                    in_sets.insert(*container);
                }
                for (vid, block) in record.places() {
                    let data_offset = member.data_offset;
                    let place = crate::record::RecallKey { vid, block, data_offset, file: file_id };
                    if check.has::<RecallItem>(Table::Recall, &key::recall(&place))? {
                        in_sets.insert(*container);
                    }
                }
            }
            check.expect(
                in_sets.len() == parts.len(),
                Table::Want,
                key,
                "a part is in no tape's recall set, nor in the pool",
            );
            Ok(())
        })?;
        self.walk(Table::Recall, |check, parts, key, item: RecallItem| {
            let place = recall_key(parts)?;
            check.count(Counter::Wanted(place.vid), item.length);
            let is_wanted = !check.view.wants(place.file)?.is_empty();
            check.expect(is_wanted, Table::Recall, key, "nobody wants this file");
            let record = check.view.container(item.container)?;
            let has_come = record.as_ref().is_some_and(|record| {
                matches!(record.kind, ContainerKind::Segment { .. }) && record.image.is_some()
            });
            check.expect(!has_come, Table::Recall, key, "the part is in the pool already");
            let is_there =
                record.is_some_and(|record| record.places().any(|at| at == (place.vid, place.block)));
            check.expect(is_there, Table::Recall, key, "the container has no copy here");
            Ok(())
        })
    }

    fn pins(&mut self) -> Result<(), ReadError> {
        self.walk(Table::Pin, |check, mut parts, key, until: Timestamp| {
            let file = FileId(parts.u64()?);
            let request = RequestId(parts.u64()?);
            let expires = check.has::<Nothing>(Table::PinExpiry, &key::pin_expiry(until, file, request))?;
            check.expect(expires, Table::Pin, key, "the pin would never run out");
            let is_known = check.view.file(file)?.is_some() && check.view.request(request)?.is_some();
            check.expect(is_known, Table::Pin, key, "the file or the request does not exist");
            Ok(())
        })?;
        self.walk(Table::PinExpiry, |check, mut parts, key, _: Nothing| {
            let until = parts.time()?;
            let file = FileId(parts.u64()?);
            let pin: Option<Timestamp> =
                check.view.get(Table::Pin, &key::pin(file, RequestId(parts.u64()?)))?;
            check.expect(pin == Some(until), Table::PinExpiry, key, "the pin does not exist");
            Ok(())
        })
    }
}

/// Whether the items that a cancel has passed wait no more and hold nothing.
fn is_swept(items: &[(u32, RequestItem)], swept: u32) -> bool {
    let mut passed = items.iter().filter(|(number, _)| *number < swept);
    passed.all(|(_, item)| !item.state.waits() && !matches!(item.state, ItemState::Done(_)))
}
