//! Whose files are, who may use them, and how much of them there may be.

use archive::{AclEntry, ArchiveError, QuotaInfo, QuotaLimits, QuotaOf};
use base::{ArchivePath, DirId};
use catalogue::Entry;
use identity::Rights;

use super::Guarded;
use crate::locks::Touch;
use crate::roles::{Access, Owners};
use crate::rule::read_acl;

impl<E: Owners + Access + ?Sized> Owners for Guarded<E> {
    fn acl(&self, path: &ArchivePath) -> Result<Option<Vec<AclEntry>>, ArchiveError> {
        self.rule.may("acl-get", Rights::STAT, path)?;
        self.engine.acl(path)
    }

    fn set_acl(&self, path: &ArchivePath, entries: Option<Vec<AclEntry>>) -> Result<(), ArchiveError> {
        let seen = self.rule.may_current("acl-set", Rights::MANAGE, path)?;
        self.rule.unlocked(path, Touch::Itself)?;
        check_acl(path, entries.as_deref())?;
        self.rule.done("acl-set", path, || match seen {
            Some(Entry::Directory(directory)) => self.engine.set_acl_of(path, directory, entries),
            Some(Entry::File(_)) => Err(ArchiveError::NotADirectory(path.clone())),
            None if self.rule.is_admin() => self.engine.set_acl(path, entries),
            None => Err(ArchiveError::NotFound(path.clone())),
        })
    }

    fn set_acl_of(
        &self,
        path: &ArchivePath,
        directory: DirId,
        entries: Option<Vec<AclEntry>>,
    ) -> Result<(), ArchiveError> {
        let seen = self.rule.may_current("acl-set", Rights::MANAGE, path)?;
        if !self.rule.is_admin() && seen != Some(Entry::Directory(directory)) {
            return Err(ArchiveError::TreeChanges);
        }
        self.rule.unlocked(path, Touch::Itself)?;
        check_acl(path, entries.as_deref())?;
        self.rule.done("acl-set", path, || self.engine.set_acl_of(path, directory, entries))
    }

    fn set_owner(
        &self,
        path: &ArchivePath,
        owner: Option<&str>,
        group: Option<&str>,
    ) -> Result<(), ArchiveError> {
        self.rule.admin("chown", path)?;
        self.rule.unlocked(path, Touch::Itself)?;
        self.rule.done("chown", path, || self.engine.set_owner(path, owner, group))
    }

    fn quotas(&self) -> Result<Vec<QuotaInfo>, ArchiveError> {
        self.rule.looks("list", "quotas")?;
        self.engine.quotas()
    }

    fn set_quota(&self, of: &QuotaOf, limits: QuotaLimits) -> Result<(), ArchiveError> {
        self.rule.admin("quota-set", of)?;
        self.rule.done("quota-set", of, || self.engine.set_quota(of, limits))
    }

    fn remove_quota(&self, of: &QuotaOf) -> Result<(), ArchiveError> {
        self.rule.admin("quota-rm", of)?;
        self.rule.done("quota-rm", of, || self.engine.remove_quota(of))
    }
}

/// A list that could not be read would lock everybody out, so it is not taken from anybody.
fn check_acl(path: &ArchivePath, entries: Option<&[AclEntry]>) -> Result<(), ArchiveError> {
    match entries.map(read_acl) {
        Some(Err(error)) => Err(ArchiveError::BadAcl { path: path.clone(), reason: error.to_string() }),
        Some(Ok(_)) | None => Ok(()),
    }
}
