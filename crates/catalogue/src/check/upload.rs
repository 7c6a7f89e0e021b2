//! Uploads in parts.

use base::{DirId, UploadId};

use super::Check;
use crate::command::PARTS_MAX;
use crate::encoding::Nothing;
use crate::error::ReadError;
use crate::key;
use crate::record::{Counter, UploadPart, UploadRecord, UploadUse};
use crate::table::Table;

impl Check<'_> {
    pub(super) fn uploads(&mut self) -> Result<(), ReadError> {
        const T: Table = Table::Upload;
        self.walk(T, |check, mut parts, key, upload: UploadRecord| {
            let name = key::upload_name(upload.bucket, &upload.key, UploadId(parts.u64()?));
            let is_named = check.has::<Nothing>(Table::UploadName, &name)?;
            check.expect(is_named != upload.ending, T, key, "the upload is not listed, or is ending and is");
            if !upload.ending {
                check.count(Counter::Uploads, base::ByteCount(0));
                let is_there = check.view.directory(upload.bucket)?.is_some();
                check.expect(is_there, T, key, "the directory of the upload does not exist");
            }
            if let Some(class) = upload.plan.class {
                let is_known = check.has_class(class)?;
                check.expect(is_known, T, key, "the class does not exist");
            }
            Ok(())
        })?;
        self.walk(Table::UploadName, |check, _, key, _: Nothing| {
            let is_right = match key::split_upload_name(key) {
                Some((_, id)) => check.view.upload(id)?.is_some_and(|upload| {
                    !upload.ending && key::upload_name(upload.bucket, &upload.key, id) == key
                }),
                None => false,
            };
            check.expect(is_right, Table::UploadName, key, "the upload does not exist or has another path");
            Ok(())
        })?;
        self.walk(Table::UploadPart, |check, mut parts, key, part: UploadPart| {
            let upload = check.view.upload(UploadId(parts.u64()?))?;
            let number = parts.u16()?;
            check.refer(&part.pieces);
            check.expect(upload.is_some(), Table::UploadPart, key, "the upload does not exist");
            let is_numbered = (1..=PARTS_MAX).contains(&number);
            check.expect(is_numbered, Table::UploadPart, key, "no part has this number");
            let held: u64 = part.pieces.iter().map(|piece| piece.length.0).sum();
            let fits = held == part.size.0 && part.hash.length() == Some(part.size);
            check.expect(fits, Table::UploadPart, key, "the pieces or the hash are not of its size");
            Ok(())
        })?;
        self.upload_use()
    }

    /// What parts count against the parts themselves; whether quotas have it is looked at with those.
    fn upload_use(&mut self) -> Result<(), ReadError> {
        const T: Table = Table::UploadUse;
        self.walk(T, |check, mut parts, key, usage: UploadUse| {
            let id = UploadId(parts.u64()?);
            let is_open = check.view.upload(id)?.is_some_and(|upload| !upload.ending);
            check.expect(is_open, T, key, "the upload does not exist or is ending");
            let rows = check.view.upload_parts(id, 0, usize::MAX)?;
            let stored = rows.iter().fold(0u64, |sum, (_, part)| sum.saturating_add(part.size.0));
            check.expect(usage.bytes.0 == stored, T, key, "the bytes of its parts are miscounted");
            let is_there = check.view.directory(usage.directory)?.is_some();
            check.expect(is_there, T, key, "the directory does not exist");
            let is_listed = check.has::<Nothing>(Table::UploadIn, &key::upload_in(usage.directory, id))?;
            check.expect(is_listed, T, key, "the upload is not listed at its directory");
            Ok(())
        })?;
        self.walk(Table::UploadIn, |check, mut parts, key, _: Nothing| {
            let (directory, id) = (DirId(parts.u64()?), UploadId(parts.u64()?));
            let is_right = check.view.upload_use(id)?.is_some_and(|usage| usage.directory == directory);
            check.expect(is_right, Table::UploadIn, key, "the upload does not count for this directory");
            Ok(())
        })
    }
}
