//! Quotas, owners and access control lists.

use base::{ArchivePath, DirId};

use super::DEPTH_MAX;
use crate::error::ReadError;
use crate::frame;
use crate::key;
use crate::record::{
    AccessChain, AclEntry, Attributes, Counter, DirectoryOwner, DirectoryRecord, Entry, QuotaRecord,
    QuotaSubject,
};
use crate::table::Table;
use crate::view::View;

impl View<'_> {
    /// A quota.
    ///
    /// # Errors
    /// If the catalogue cannot be read.
    pub fn quota(&self, subject: &QuotaSubject) -> Result<Option<QuotaRecord>, ReadError> {
        self.get(Table::Quota, &key::quota(subject))
    }

    /// Quotas, those of directories first, then those of groups: behind `after`, at most `limit`.
    ///
    /// # Errors
    /// If the catalogue cannot be read.
    pub fn quotas(
        &self,
        after: Option<&QuotaSubject>,
        limit: usize,
    ) -> Result<Vec<(QuotaSubject, QuotaRecord)>, ReadError> {
        let after = after.map(key::quota);
        self.rows_within(Table::Quota, &[], after, limit, |mut parts, key, value| {
            Ok((parts.quota()?, frame::open(Table::Quota, key, value)?))
        })
    }

    /// A quota whose files are still being counted.
    ///
    /// # Errors
    /// If the catalogue cannot be read.
    pub fn uncounted_quota(&self) -> Result<Option<QuotaSubject>, ReadError> {
        if self.tally(Counter::QuotasCounting)?.files == 0 {
            return Ok(None);
        }
        let mut quotas = self.quotas(None, usize::MAX)?.into_iter();
        Ok(quotas.find(|(_, quota)| quota.counting.is_some()).map(|(subject, _)| subject))
    }

    /// Whether any quota is set.
    ///
    /// # Errors
    /// If the catalogue cannot be read.
    pub fn has_quotas(&self) -> Result<bool, ReadError> {
        Ok(self.tally(Counter::Quotas)?.files > 0)
    }

    /// The quotas that a file of this group in this directory is counted by: of the directory, of those above
    /// it from the nearest on, of the group.
    ///
    /// # Errors
    /// If the catalogue cannot be read.
    pub fn quotas_of(
        &self,
        directory: DirId,
        group: &str,
    ) -> Result<Vec<(QuotaSubject, QuotaRecord)>, ReadError> {
        let mut found = Vec::new();
        let mut take = |subject: QuotaSubject| -> Result<(), ReadError> {
            if let Some(quota) = self.quota(&subject)? {
                found.push((subject, quota));
            }
            Ok(())
        };
        let mut at = directory;
        for _ in 0..DEPTH_MAX {
            take(QuotaSubject::Directory(at))?;
            if at == DirId::ROOT {
                break;
            }
            let record: DirectoryRecord = self.expect(Table::Directory, &key::directory(at))?;
            at = record.parent;
        }
        if !group.is_empty() {
            take(QuotaSubject::Group(group.to_owned()))?;
        }
        Ok(found)
    }

    /// Whether a put with this idempotency key was answered.
    ///
    /// # Errors
    /// If the catalogue cannot be read.
    pub fn is_answered(&self, key: &[u8; 32]) -> Result<bool, ReadError> {
        self.has(Table::Idempotency, key)
    }

    /// Who may do what in a directory and below; `None`: what holds above it.
    ///
    /// # Errors
    /// If the catalogue cannot be read.
    pub fn acl(&self, directory: DirId) -> Result<Option<Vec<AclEntry>>, ReadError> {
        self.get(Table::Acl, &key::acl(directory))
    }

    /// All that decides who may do what with a path, in two look-ups a name of the path, and one more each if
    /// there are access control lists at all.
    ///
    /// # Errors
    /// If the catalogue cannot be read.
    pub fn access_chain(&self, path: &ArchivePath) -> Result<AccessChain, ReadError> {
        let has_acls = self.tally(Counter::Acls)?.files > 0;
        let mut chain = AccessChain::default();
        let mut names = path.components();
        let of = path.components().count();
        let (mut at, mut depth) = (DirId::ROOT, 0);
        let mut directory: DirectoryRecord = self.expect(Table::Directory, &key::directory(at))?;
        loop {
            if has_acls && let Some(acl) = self.acl(at)? {
                (chain.acl, chain.acl_depth) = (Some(acl), depth);
            }
            let Some(name) = names.next() else {
                chain.is_directory = true;
                chain.entry = Some(Entry::Directory(at));
                chain.owned(directory.attributes);
                break;
            };
            let Attributes { owner, group, mode, .. } = directory.attributes;
            chain.above.push(DirectoryOwner { owner, group, mode });
            depth += 1;
            let is_last = depth == of;
            chain.directory = is_last.then_some(at);
            match self.entry_of(at, name)? {
                Some(Entry::Directory(below)) => {
                    directory = self.directory_at(at, name, below)?;
                    at = below;
                }
                Some(Entry::File(id)) => {
                    // A name below a file stands for nothing.
                    if is_last {
                        chain.entry = Some(Entry::File(id));
                        chain.owned(self.file_at(at, name, id)?.attributes);
                    }
                    break;
                }
                None => break,
            }
        }
        chain.above.reverse();
        Ok(chain)
    }
}

impl AccessChain {
    fn owned(&mut self, attributes: Attributes) {
        self.exists = true;
        self.owner = attributes.owner;
        self.group = attributes.group;
        self.mode = attributes.mode;
    }
}
