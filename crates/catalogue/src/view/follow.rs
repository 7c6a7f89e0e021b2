//! From a name to what it stands for. A name whose record is missing, or says that it stands elsewhere, is
//! damage and never answered as absent.

use base::{ArchivePath, DirId, FileId, Name};

use super::View;
use crate::error::{Object, ReadError};
use crate::key;
use crate::record::{DirectoryRecord, Entry, FileRecord};
use crate::table::Table;

/// What a name stands for, with its record.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Followed {
    /// A directory.
    Directory(DirId, DirectoryRecord),
    /// The current version of a file.
    File(FileId, FileRecord),
}

impl View<'_> {
    /// What a path stands for, with its record. `None` only if the directories on the way are whole.
    ///
    /// # Errors
    /// [`ReadError::Dangling`]; if the catalogue cannot be read.
    pub fn find(&self, path: &ArchivePath) -> Result<Option<Followed>, ReadError> {
        let Some((parent, name)) = split(path) else {
            let root = self.expect(Table::Directory, &key::directory(DirId::ROOT))?;
            return Ok(Some(Followed::Directory(DirId::ROOT, root)));
        };
        if let Some(directory) = self.known_directory(parent)?
            && let Some(entry) = self.entry_of(directory, name)?
        {
            return self.follow(directory, name, entry).map(Some);
        }
        self.check_way(parent)?;
        Ok(None)
    }

    /// What an entry of a directory stands for.
    ///
    /// # Errors
    /// [`ReadError::Dangling`]; if the catalogue cannot be read.
    pub fn follow(&self, directory: DirId, name: &str, entry: Entry) -> Result<Followed, ReadError> {
        Ok(match entry {
            Entry::Directory(id) => Followed::Directory(id, self.directory_at(directory, name, id)?),
            Entry::File(id) => Followed::File(id, self.file_at(directory, name, id)?),
        })
    }

    /// The file to which an entry or a version of a name leads.
    ///
    /// # Errors
    /// [`ReadError::Dangling`]; if the catalogue cannot be read.
    pub fn file_at(&self, directory: DirId, name: &str, id: FileId) -> Result<FileRecord, ReadError> {
        let is_it =
            |file: &FileRecord| file.parent == directory && file.name.as_str() == name && file.is_named();
        sound(self.file(id)?, is_it, (directory, name), Object::File(id))
    }

    /// The directory to which an entry leads.
    ///
    /// # Errors
    /// [`ReadError::Dangling`]; if the catalogue cannot be read.
    pub fn directory_at(
        &self,
        directory: DirId,
        name: &str,
        id: DirId,
    ) -> Result<DirectoryRecord, ReadError> {
        let is_it = |below: &DirectoryRecord| {
            below.parent == directory && below.name.as_ref().map(Name::as_str) == Some(name)
        };
        sound(self.directory(id)?, is_it, (directory, name), Object::Directory(id))
    }

    /// A directory to which something of the same state leads.
    ///
    /// # Errors
    /// [`ReadError::Inconsistent`] if it is not there; if the catalogue cannot be read.
    pub fn existing_directory(&self, id: DirId) -> Result<DirectoryRecord, ReadError> {
        self.expect(Table::Directory, &key::directory(id))
    }

    /// A directory on the way up from one that may have gone meanwhile: then this is `None`. Those above one
    /// that is there stay as long as it does, and what is inherited from them is not unset if one is missing.
    ///
    /// # Errors
    /// As [`View::existing_directory`].
    pub fn directory_or_gone(&self, at: DirId, begun: DirId) -> Result<Option<DirectoryRecord>, ReadError> {
        if at == begun { self.directory(at) } else { self.existing_directory(at).map(Some) }
    }

    /// Refuses to call anything below a path absent whose directories are not all there.
    pub(super) fn check_way(&self, path: &str) -> Result<(), ReadError> {
        let mut at = DirId::ROOT;
        for name in path.split('/').filter(|name| !name.is_empty()) {
            let Some(Entry::Directory(below)) = self.entry_of(at, name)? else { return Ok(()) };
            self.directory_at(at, name, below)?;
            at = below;
        }
        Ok(())
    }
}

/// The path of the directory, and the name in it; `None` for the root.
pub(super) fn split(path: &ArchivePath) -> Option<(&str, &str)> {
    path.as_str().rsplit_once('/').filter(|(_, name)| !name.is_empty())
}

fn sound<T>(
    record: Option<T>,
    is_it: impl FnOnce(&T) -> bool,
    (directory, name): (DirId, &str),
    to: Object,
) -> Result<T, ReadError> {
    let found = match &record {
        None => "of which there is no record",
        Some(record) if !is_it(record) => "whose record says that it stands elsewhere or is deleted",
        Some(_) => "",
    };
    match record {
        Some(record) if found.is_empty() => Ok(record),
        _ => Err(ReadError::Dangling { directory, name: name.to_owned(), to, found }),
    }
}
