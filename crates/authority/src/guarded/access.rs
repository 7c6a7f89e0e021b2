//! What decides about a path: owners and lists. Every guard asks for it before it lets a call through.

use archive::{AccessChain, ArchiveError};
use base::ArchivePath;
use identity::Rights;

use super::Guarded;
use crate::roles::Access;

impl<E: Access + ?Sized> Access for Guarded<E> {
    fn access_chain(&self, path: &ArchivePath) -> Result<AccessChain, ArchiveError> {
        self.rule.may("stat", Rights::STAT, path)?;
        self.engine.access_chain(path)
    }
}
