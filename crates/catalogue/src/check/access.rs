//! Quotas against the files that they count, access control lists against directories.

use std::collections::BTreeMap;

use base::{ByteCount, DirId, FileId, UploadId};

use super::Check;
use crate::encoding::Meta;
use crate::error::ReadError;
use crate::key;
use crate::record::{
    ACL_ENTRIES_MAX, AclEntry, Counter, FileRecord, QuotaRecord, QuotaSubject, Tally, UploadUse,
};
use crate::table::Table;

/// All quotas, and what a count of all files and parts has found of each.
type Counted = BTreeMap<QuotaSubject, (QuotaRecord, Tally)>;

/// Adds to those of these quotas that have seen what has this id.
fn add<'s>(quotas: &mut Counted, of: impl Iterator<Item = &'s QuotaSubject>, id: FileId, tally: Tally) {
    for subject in of {
        if let Some((quota, counted)) = quotas.get_mut(subject)
            && quota.has_seen(id)
        {
            counted.files += tally.files;
            counted.bytes.0 = counted.bytes.0.saturating_add(tally.bytes.0);
        }
    }
}

impl Check<'_> {
    pub(super) fn acls(&mut self) -> Result<(), ReadError> {
        self.walk(Table::Acl, |check, mut parts, key, entries: Vec<AclEntry>| {
            check.count(Counter::Acls, ByteCount(0));
            let is_known = check.view.directory(DirId(parts.u64()?))?.is_some();
            check.expect(is_known, Table::Acl, key, "the directory does not exist");
            let fits = entries.len() <= ACL_ENTRIES_MAX;
            check.expect(fits, Table::Acl, key, "there are too many entries");
            Ok(())
        })
    }

    /// Counts the files and parts of all quotas anew; memory grows with the number of quotas.
    pub(super) fn quotas(&mut self) -> Result<(), ReadError> {
        let next_file = self.view.expect::<Meta>(Table::Meta, key::META)?.next_file;
        let mut quotas = Counted::new();
        self.walk(Table::Quota, |check, mut parts, key, quota: QuotaRecord| {
            let subject = parts.quota()?;
            check.count(Counter::Quotas, ByteCount(0));
            if let Some(counting) = quota.counting {
                check.count(Counter::QuotasCounting, ByteCount(0));
                let is_right = counting.next <= counting.until && counting.until.0 <= next_file;
                check.expect(is_right, Table::Quota, key, "the count is beyond the files");
            }
            let is_known = match &subject {
                QuotaSubject::Directory(id) => check.view.directory(*id)?.is_some(),
                QuotaSubject::Group(group) => !group.is_empty(),
            };
            check.expect(is_known, Table::Quota, key, "the directory does not exist");
            quotas.insert(subject, (quota, Tally::default()));
            Ok(())
        })?;
        if quotas.is_empty() {
            return Ok(());
        }
        self.quotas_of_files(&mut quotas)?;
        self.quotas_of_uploads(&mut quotas)?;
        for (subject, (quota, counted)) in quotas {
            let key = key::quota(&subject);
            self.expect(quota.used == counted, Table::Quota, &key, "the use is miscounted");
        }
        Ok(())
    }

    fn quotas_of_files(&mut self, quotas: &mut Counted) -> Result<(), ReadError> {
        // Files that follow one another often stand in one directory.
        let mut last: Option<(DirId, Vec<QuotaSubject>)> = None;
        self.walk(Table::File, |check, mut parts, _, file: FileRecord| {
            if !file.counts_for_quotas() {
                return Ok(());
            }
            let id = FileId(parts.u64()?);
            let above = match &last {
                Some((parent, above)) if *parent == file.parent => above,
                _ => &last.insert((file.parent, check.quotas_above(file.parent)?)).1,
            };
            let group = QuotaSubject::Group(file.attributes.group);
            add(quotas, above.iter().chain([&group]), id, Tally { files: 1, bytes: file.size });
            Ok(())
        })
    }

    fn quotas_of_uploads(&mut self, quotas: &mut Counted) -> Result<(), ReadError> {
        self.walk(Table::UploadUse, |check, mut parts, _, usage: UploadUse| {
            let id = UploadId(parts.u64()?);
            // One that is missing is told elsewhere.
            let Some(upload) = check.view.upload(id)? else { return Ok(()) };
            let above = check.quotas_above(usage.directory)?;
            let group = QuotaSubject::Group(upload.plan.attributes.group);
            let tally = Tally { files: 0, bytes: usage.bytes };
            add(quotas, above.iter().chain([&group]), FileId(id.0), tally);
            Ok(())
        })
    }

    /// The directories with quotas above a file; those that are missing are told elsewhere.
    fn quotas_above(&self, directory: DirId) -> Result<Vec<QuotaSubject>, ReadError> {
        match self.view.quotas_of(directory, "") {
            Ok(quotas) => Ok(quotas.into_iter().map(|(subject, _)| subject).collect()),
            Err(ReadError::Inconsistent { .. }) => Ok(Vec::new()),
            Err(error) => Err(error),
        }
    }
}
