//! Reading uploads in parts.

use std::ops::ControlFlow;

use base::{DirId, FileId, Timestamp, UploadId};

use super::View;
use crate::command::completion_key;
use crate::error::ReadError;
use crate::frame;
use crate::key;
use crate::record::{IdempotencyRecord, UploadPart, UploadRecord, UploadUse};
use crate::table::Table;

impl View<'_> {
    /// An upload in parts, even one that is being given up.
    ///
    /// # Errors
    /// If the catalogue cannot be read.
    pub fn upload(&self, id: UploadId) -> Result<Option<UploadRecord>, ReadError> {
        self.get(Table::Upload, &key::upload(id))
    }

    /// The file that a completed upload made (or found), for as long as answers are kept.
    ///
    /// # Errors
    /// If the catalogue cannot be read.
    pub fn completed_upload(&self, id: UploadId) -> Result<Option<FileId>, ReadError> {
        let answer: Option<IdempotencyRecord> = self.get(Table::Idempotency, &completion_key(id))?;
        Ok(answer.map(|answer| answer.file))
    }

    /// Parts of an upload with numbers above `after`, in order, at most `limit`.
    ///
    /// # Errors
    /// If the catalogue cannot be read.
    pub fn upload_parts(
        &self,
        id: UploadId,
        after: u16,
        limit: usize,
    ) -> Result<Vec<(u16, UploadPart)>, ReadError> {
        let after = (after > 0).then(|| key::upload_part(id, after));
        self.rows_within(Table::UploadPart, &key::upload(id), after, limit, |mut parts, key, value| {
            parts.u64()?;
            Ok((parts.u16()?, frame::open(Table::UploadPart, key, value)?))
        })
    }

    /// How the parts of an upload count for quotas; `None` if they do not: it began before they did.
    ///
    /// # Errors
    /// If the catalogue cannot be read.
    pub fn upload_use(&self, id: UploadId) -> Result<Option<UploadUse>, ReadError> {
        self.get(Table::UploadUse, &key::upload(id))
    }

    /// A part of an upload.
    ///
    /// # Errors
    /// If the catalogue cannot be read.
    pub fn upload_part(&self, id: UploadId, number: u16) -> Result<Option<UploadPart>, ReadError> {
        self.get(Table::UploadPart, &key::upload_part(id, number))
    }

    /// Uploads below a directory of the root whose paths begin with `prefix`, in the order of paths and ids,
    /// those behind `after`, at most `limit`; those that are being given up are not among them.
    ///
    /// # Errors
    /// If the catalogue cannot be read.
    pub fn uploads(
        &self,
        bucket: DirId,
        prefix: &str,
        after: Option<(&str, UploadId)>,
        limit: usize,
    ) -> Result<Vec<(UploadId, UploadRecord)>, ReadError> {
        // Only the beginning of a long path stands in the key: those with the same beginning are next to one
        // another, and are sorted here.
        let within = key::upload_name_prefix(bucket, prefix);
        let to = key::prefix_end(&within);
        let from = match after {
            Some((path, _)) => key::upload_name_prefix(bucket, path).max(within),
            None => within,
        };
        let mut found: Vec<(UploadId, UploadRecord)> = Vec::new();
        let mut group: Option<Vec<u8>> = None;
        self.each(Table::UploadName, &from, to.as_deref(), |row, value| {
            frame::open_bytes(Table::UploadName, row, value)?;
            let (beginning, id) =
                key::split_upload_name(row).ok_or_else(|| ReadError::damaged(Table::UploadName, row))?;
            if group.as_deref() != Some(beginning) {
                sort(&mut found);
                if found.len() >= limit {
                    return Ok(ControlFlow::Break(()));
                }
                group = Some(beginning.to_vec());
            }
            let record: UploadRecord = self.expect(Table::Upload, &key::upload(id))?;
            let is_behind = after.is_none_or(|after| (record.key.as_str(), id) > after);
            if is_behind && record.key.starts_with(prefix) {
                found.push((id, record));
            }
            Ok(ControlFlow::Continue(()))
        })?;
        sort(&mut found);
        assert!(
            found.is_sorted_by(|(a, one), (b, next)| (&one.key, a) < (&next.key, b)),
            "uploads are listed by their paths, each once"
        );
        found.truncate(limit);
        Ok(found)
    }

    /// Uploads whose age counts from before `before`, oldest first, those behind `after`, at most `limit`;
    /// those that are being given up are among them.
    ///
    /// # Errors
    /// If the catalogue cannot be read.
    pub fn uploads_before(
        &self,
        before: Timestamp,
        after: Option<UploadId>,
        limit: usize,
    ) -> Result<Vec<(UploadId, UploadRecord)>, ReadError> {
        let mut found = Vec::new();
        let clock = self.clock()?;
        let from = after.map_or_else(Vec::new, |after| key::behind(key::upload(after)));
        // Ids rise with time, so that nothing behind the first younger one is older.
        self.each(Table::Upload, &from, None, |row, value| {
            let record: UploadRecord = frame::open(Table::Upload, row, value)?;
            let id = UploadId(key::KeyReader::new(Table::Upload, row).u64()?);
            if clock.age_from(FileId(id.0), record.created) >= before || found.len() >= limit {
                return Ok(ControlFlow::Break(()));
            }
            found.push((id, record));
            Ok(ControlFlow::Continue(()))
        })?;
        Ok(found)
    }
}

fn sort(found: &mut [(UploadId, UploadRecord)]) {
    // What came before is sorted already, so that this is one pass but for long paths.
    found.sort_by(|(a, left), (b, right)| (&left.key, a).cmp(&(&right.key, b)));
}
