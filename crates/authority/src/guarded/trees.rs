//! Directories with all that is in them.

use archive::{ArchiveError, RemoveTree, TreeRemoval};
use base::{ArchivePath, DirId};
use catalogue::Entry;
use identity::Rights;

use super::{Guarded, until_unchanged};
use crate::locks::Touch;
use crate::roles::{Access, Trees};

impl<E: Trees + Access + ?Sized> Trees for Guarded<E> {
    /// The rights that the removal name by name would need, which hold for all below a directory but for what
    /// lists in it say; those have the engine refuse it, unless they do not concern the caller.
    fn remove_tree(&self, path: &ArchivePath, how: RemoveTree) -> Result<TreeRemoval, ArchiveError> {
        let owner = self.rule.acting(&how.owner);
        if self.rule.is_admin() {
            self.rule.unlocked(path, Touch::Tree)?;
            let how = RemoveTree { owner, directory: None, with_lists: true };
            let removal = self.rule.done("remove-tree", path, || self.engine.remove_tree(path, how));
            return removal.inspect(|_| self.rule.holding.locks.forget_tree(path));
        }
        let with_lists = self.rule.ledger.caller.is_confined();
        until_unchanged(|| {
            let rights = Rights::MODIFY | Rights::LIST;
            let seen = self.rule.may_current("remove-tree", rights, path)?;
            self.rule.unlocked(path, Touch::Tree)?;
            let directory = match seen {
                Some(Entry::Directory(directory)) => Some(directory),
                Some(Entry::File(_)) => return Err(ArchiveError::NotADirectory(path.clone())),
                None => return Err(ArchiveError::NotFound(path.clone())),
            };
            let how = RemoveTree { owner: owner.clone(), directory, with_lists };
            let removal = self.rule.done("remove-tree", path, || self.engine.remove_tree(path, how));
            removal.map_err(|error| self.without_names(error))
        })
        .inspect(|_| self.rule.holding.locks.forget_tree(path))
    }

    fn tree_removal(&self, id: DirId) -> Result<TreeRemoval, ArchiveError> {
        let removal = self.engine.tree_removal(id)?;
        if self.sees_removal(&removal) { Ok(removal) } else { Err(ArchiveError::NoSuchRemoval(id)) }
    }

    fn tree_removals(&self) -> Result<Vec<TreeRemoval>, ArchiveError> {
        let mut removals = self.engine.tree_removals()?;
        removals.retain(|removal| self.sees_removal(removal));
        Ok(removals)
    }
}

impl<E: ?Sized> Guarded<E> {
    fn sees_removal(&self, removal: &TreeRemoval) -> bool {
        let TreeRemoval { record, .. } = removal;
        self.rule.sees(&record.owner) && self.rule.bounds_leave(Rights::MODIFY, &record.path)
    }
}

impl<E: Access + ?Sized> Guarded<E> {
    /// A refusal without a name in it that the caller does not get by listing either.
    fn without_names(&self, error: ArchiveError) -> ArchiveError {
        let ArchiveError::NotAtOnce { path, why } = error else { return error };
        let may_know = why.named().is_none_or(|named| self.is_listed(&path, named).unwrap_or(false));
        ArchiveError::NotAtOnce { path, why: if may_know { why } else { why.unnamed() } }
    }

    /// Whether the caller may list each directory on the way from one to what stands below it.
    fn is_listed(&self, from: &ArchivePath, below: &ArchivePath) -> Result<bool, ArchiveError> {
        let mut at = below.clone();
        while at != *from {
            let Some((above, _)) = at.split() else { return Ok(true) };
            if !self.rule.has(Rights::LIST, &above)? {
                return Ok(false);
            }
            at = above;
        }
        Ok(true)
    }
}
