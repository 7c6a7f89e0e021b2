//! Requests, wants, recall sets, pins.

use std::collections::BTreeSet;

use base::{FileId, RequestId, Timestamp};

use super::Check;
use crate::encoding::Nothing;
use crate::error::ReadError;
use crate::key;
use crate::record::{
    ContainerKind, Counter, FileState, ItemState, RecallItem, RequestItem, RequestRecord, RequestState,
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
        self.wants()?;
        self.pins()
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
