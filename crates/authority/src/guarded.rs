//! The engine as one caller may use it: every call asks for the right that it needs, and changes are written
//! down. Each role stands in a file of its own.

mod access;
mod bytes;
mod locking;
mod namespace;
mod objects;
mod operation;
mod owners;
mod parts;
mod path_requests;
mod staging;
#[cfg(test)]
mod tests;
mod trees;

use std::collections::BTreeMap;
use std::sync::Arc;

use archive::{ArchiveError, Which};
use base::{ArchivePath, Name};
use catalogue::Entry;
use identity::Rights;

use crate::authority::Ledger;
use crate::notices::Notices;
use crate::roles::Access;
use crate::rule::{Holding, Rule};
use crate::seam::Download;

/// How often rights are looked at for a call while the tree changes under it.
const TREE_LOOKS_MAX: usize = 4;

/// An engine for one caller: it has the roles that the engine behind it has ([`Access`] and others).
pub struct Guarded<E: ?Sized> {
    engine: Arc<E>,
    rule: Rule<E>,
    notices: Notices,
}

impl<E: ?Sized> Guarded<E> {
    pub(crate) fn new(engine: Arc<E>, ledger: Ledger, holding: Holding, notices: Notices) -> Self {
        let rule = Rule { engine: engine.clone(), ledger, holding };
        Guarded { engine, rule, notices }
    }

    /// Opens a file for reading, if the caller may read it, which `look` finds out. Between the look at its
    /// owner and lists and the opening its name may come to stand for another file, which somebody with the
    /// right to rename may have put there just for that.
    fn opened(
        &self,
        look: impl Fn() -> Result<Option<Entry>, ArchiveError>,
        open: impl Fn() -> Result<Box<dyn Download>, ArchiveError>,
    ) -> Result<Box<dyn Download>, ArchiveError> {
        until_unchanged(|| {
            let seen = look()?;
            let download = open()?;
            let is_it = self.rule.is_admin() || seen == Some(Entry::File(download.stat().file));
            if is_it { Ok(download) } else { Err(ArchiveError::TreeChanges) }
        })
    }
}

impl<E: Access + ?Sized> Guarded<E> {
    /// Whether the caller may see what has this path now, or how it stands. What is no path names nothing.
    fn is_visible(&self, path: &str) -> Result<bool, ArchiveError> {
        // A deleted file, which has no path any more, or what a client wrote.
        let Ok(path) = ArchivePath::collapsed(path) else {
            return Ok(!self.rule.ledger.caller.is_bounded());
        };
        Ok(self.rule.has(Rights::STAT, &path)? || self.rule.has(Rights::POLL, &path)?)
    }

    /// Whether the caller may list a directory; what is `known` is not asked again.
    fn is_listable(
        &self,
        directory: Option<ArchivePath>,
        known: &mut BTreeMap<ArchivePath, bool>,
    ) -> Result<bool, ArchiveError> {
        let directory = directory.unwrap_or_else(ArchivePath::root);
        if let Some(may) = known.get(&directory) {
            return Ok(*may);
        }
        let may = self.rule.has(Rights::LIST, &directory)?;
        known.insert(directory, may);
        Ok(may)
    }
}

/// Tries again what found that the tree has changed since it was looked at.
fn until_unchanged<T>(mut attempt: impl FnMut() -> Result<T, ArchiveError>) -> Result<T, ArchiveError> {
    for _ in 1..TREE_LOOKS_MAX {
        match attempt() {
            Err(ArchiveError::TreeChanges) => {}
            other => return other,
        }
    }
    attempt()
}

fn bucket_path(name: &Name) -> Result<ArchivePath, ArchiveError> {
    Ok(ArchivePath::root().join(name)?)
}

fn versioned(path: &ArchivePath, which: Which) -> String {
    match which {
        Which::Current => path.to_string(),
        Which::Null => format!("{path} version null"),
        Which::Version(file) => format!("{path} version {:016x}", file.0),
    }
}
