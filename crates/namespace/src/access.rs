//! Owners, and who may do what: kept here, decided by those above.

use base::{ArchivePath, DirId};
use catalogue::{AccessChain, AclEntry, Command, Entry, Followed};

use crate::Namespace;
use crate::names::in_words;
use ground::ArchiveError;

impl Namespace {
    /// All that decides who may do what with a path, of one state of the catalogue; a few look-ups.
    ///
    /// # Errors
    /// If the catalogue cannot be read. A path that stands for nothing is no error.
    pub fn access_chain(&self, path: &ArchivePath) -> Result<AccessChain, ArchiveError> {
        self.ground.read(|view| view.access_chain(path))
    }

    /// The access control list of a directory; `None`: what holds above it.
    ///
    /// # Errors
    /// [`ArchiveError::NotFound`], [`ArchiveError::NotADirectory`].
    pub fn acl(&self, path: &ArchivePath) -> Result<Option<Vec<AclEntry>>, ArchiveError> {
        let directory = self.directory_id(path)?;
        self.ground.read(|view| view.acl(directory))
    }

    /// Gives a directory another access control list; `None`: what holds above it. When this returns it is
    /// durable.
    ///
    /// # Errors
    /// [`ArchiveError::NotFound`], [`ArchiveError::NotADirectory`]; more than
    /// [`ACL_ENTRIES_MAX`](catalogue::ACL_ENTRIES_MAX) entries, or two with one subject.
    pub fn set_acl(&self, path: &ArchivePath, entries: Option<Vec<AclEntry>>) -> Result<(), ArchiveError> {
        self.set_acl_of(path, self.directory_id(path)?, entries)
    }

    /// As [`Namespace::set_acl`], but of the directory that was looked at, whatever has its path by now.
    ///
    /// # Errors
    /// As [`Namespace::set_acl`].
    pub fn set_acl_of(
        &self,
        path: &ArchivePath,
        directory: DirId,
        entries: Option<Vec<AclEntry>>,
    ) -> Result<(), ArchiveError> {
        let command = Command::SetAcl { directory, entries };
        self.ground.execute(command).map_err(|error| in_words(error, path))?;
        Ok(())
    }

    /// Gives a directory or a file another owner, another group, or both; what stands below keeps its own.
    /// When this returns it is durable.
    ///
    /// # Errors
    /// [`ArchiveError::NotFound`]; [`ArchiveError::QuotaExceeded`] of the new group.
    pub fn set_owner(
        &self,
        path: &ArchivePath,
        owner: Option<&str>,
        group: Option<&str>,
    ) -> Result<(), ArchiveError> {
        let entry = match self.ground.read(|view| view.find(path))? {
            Some(Followed::Directory(id, _)) => Entry::Directory(id),
            Some(Followed::File(id, _)) => Entry::File(id),
            None => return Err(ArchiveError::NotFound(path.clone())),
        };
        let (owner, group) = (owner.map(str::to_owned), group.map(str::to_owned));
        let command = Command::SetOwner { entry, owner, group };
        self.ground.execute(command).map_err(|error| in_words(error, path))?;
        Ok(())
    }
}
