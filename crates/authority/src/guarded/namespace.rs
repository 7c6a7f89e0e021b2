//! Names: directories and the files in them.

use archive::{ArchiveError, Listed, RenameOf, SpaceLeft, Stat};
use base::{ArchivePath, Name};
use catalogue::Attributes;
use identity::Rights;

use super::{Guarded, until_unchanged};
use crate::locks::Touch;
use crate::roles::{Access, Namespace};

impl<E: Namespace + Access + ?Sized> Namespace for Guarded<E> {
    fn stat(&self, path: &ArchivePath) -> Result<Stat, ArchiveError> {
        self.rule.may("stat", Rights::STAT, path)?;
        self.engine.stat(path)
    }

    fn space_left(&self, path: &ArchivePath, group: &str) -> Result<SpaceLeft, ArchiveError> {
        self.rule.may("space", Rights::STAT, path)?;
        let caller = &self.rule.ledger.caller;
        let own = caller.groups.first().map(String::as_str).unwrap_or_default();
        self.engine.space_left(path, if caller.is_admin && !group.is_empty() { group } else { own })
    }

    fn list(
        &self,
        path: &ArchivePath,
        after: Option<&Name>,
        limit: usize,
    ) -> Result<(Vec<Listed>, bool), ArchiveError> {
        self.rule.may("list", Rights::LIST, path)?;
        self.engine.list(path, after, limit)
    }

    fn make_directory(
        &self,
        path: &ArchivePath,
        mut attributes: Attributes,
        class: Option<&str>,
        parents: bool,
    ) -> Result<(), ArchiveError> {
        self.rule.may_make("mkdir", path)?;
        self.rule.unlocked_new(path)?;
        self.rule.own_up(&mut attributes);
        self.rule.done("mkdir", path, || self.engine.make_directory(path, attributes, class, parents))
    }

    fn rename(&self, from: &ArchivePath, to: &ArchivePath, replace: bool) -> Result<(), ArchiveError> {
        let what = format!("{from} to {to}");
        if self.rule.is_admin() {
            self.unlocked_rename(from, to)?;
            let renamed = self.rule.done("rename", what, || self.engine.rename(from, to, replace));
            return renamed.inspect(|()| self.rule.holding.locks.forget_tree(from));
        }
        self.rule.ledger.admit("rename")?;
        let renamed = until_unchanged(|| {
            let of = self.rule.may_rename("rename", from, to, replace)?;
            self.unlocked_rename(from, to)?;
            self.engine.rename_entry(from, to, &of)
        });
        // What is refused was written down there.
        if !matches!(renamed, Err(ArchiveError::Denied { .. })) {
            self.rule.ledger.outcome("rename", &what, &renamed);
        }
        renamed.inspect(|()| self.rule.holding.locks.forget_tree(from))
    }

    fn rename_entry(&self, from: &ArchivePath, to: &ArchivePath, of: &RenameOf) -> Result<(), ArchiveError> {
        if !self.rule.is_admin() && self.rule.may_rename("rename", from, to, of.replace)? != *of {
            return Err(ArchiveError::TreeChanges);
        }
        self.unlocked_rename(from, to)?;
        let what = format!("{from} to {to}");
        let renamed = self.rule.done("rename", what, || self.engine.rename_entry(from, to, of));
        renamed.inspect(|()| self.rule.holding.locks.forget_tree(from))
    }

    fn remove(&self, path: &ArchivePath) -> Result<(), ArchiveError> {
        self.rule.may("remove", Rights::MODIFY, path)?;
        self.rule.unlocked(path, Touch::Tree)?;
        let removed = self.rule.done("remove", path, || self.engine.remove(path));
        removed.inspect(|()| self.rule.holding.locks.forget_tree(path))
    }
}

impl<E: Access + ?Sized> Guarded<E> {
    /// That no lock keeps something from leaving one name and getting another.
    fn unlocked_rename(&self, from: &ArchivePath, to: &ArchivePath) -> Result<(), ArchiveError> {
        self.rule.unlocked(from, Touch::Tree)?;
        self.rule.unlocked(to, Touch::Tree)
    }
}
