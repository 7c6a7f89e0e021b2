//! Objects: versions found, read, deleted, held, and the directories that were made only for them.

use base::{ArchivePath, DirId, FileId, Name};
use catalogue::{
    Command, DirectoryRecord, Entry, FileRecord, Followed, Hold, QuotaSubject, ReadError, Rejection, Removal,
    Retention, RetentionMode, TypedCommand, Version, View, typed,
};

use crate::Namespace;
use crate::keys::{MARKER_XATTR, restore_state};
use crate::names::{file_stat, in_words};
use ground::{ArchiveError, LeavingCause, ObjectRemoved, ObjectStat, Which};

/// A file that was looked for, or why there is none.
pub type FoundFile = Result<Result<(FileId, FileRecord), ArchiveError>, ReadError>;

/// The extended attribute of directories that were made for an object and go with the last one.
pub(crate) const IMPLIED: &str = "kist.implied";
/// Most directories that are looked at when a bucket is removed.
const PRUNED_MAX: usize = 100_000;

/// What such directories get.
pub fn implied() -> [(String, Vec<u8>); 1] {
    [(IMPLIED.to_owned(), b"1".to_vec())]
}

/// What a path and a choice of version stand for.
pub(crate) enum Found {
    /// Nothing.
    Nothing,
    /// A directory.
    Directory(DirId),
    /// A delete marker.
    Marker(FileId),
    /// A version.
    File {
        /// The file.
        id: FileId,
        /// Its record.
        record: Box<FileRecord>,
        /// Whether it is the current one.
        is_current: bool,
        /// Whether it has no number.
        is_null: bool,
    },
}

/// The directory and the name of a path; `None` if there is no such directory.
pub(crate) fn place(view: &View<'_>, path: &ArchivePath) -> Result<Option<(DirId, Name)>, ReadError> {
    let Some((parent, name)) = path.split() else { return Ok(None) };
    match view.find(&parent)? {
        Some(Followed::Directory(parent, _)) => Ok(Some((parent, name))),
        _ => Ok(None),
    }
}

/// Finds a version.
pub(crate) fn find(view: &View<'_>, path: &ArchivePath, which: Which) -> Result<Found, ReadError> {
    let Some((parent, name)) = place(view, path)? else {
        return Ok(if path.is_root() { Found::Directory(DirId::ROOT) } else { Found::Nothing });
    };
    let bucket = view.bucket_of(parent)?.map(|(_, bucket)| bucket).unwrap_or_default();
    let entry = view.entry(parent, &name)?;
    if let (Some(Entry::Directory(id)), Which::Current) = (entry, which) {
        view.directory_at(parent, name.as_str(), id)?;
        return Ok(Found::Directory(id));
    }
    let file = |id, is_current| -> Result<Found, ReadError> {
        let record = Box::new(view.file_at(parent, name.as_str(), id)?);
        Ok(Found::File { id, record, is_current, is_null: bucket.is_null(id) })
    };
    let is_it = |id: FileId| match which {
        Which::Current => true,
        Which::Null => bucket.is_null(id),
        Which::Version(wanted) => wanted == id,
    };
    if let Some(Entry::File(id)) = entry
        && is_it(id)
    {
        return file(id, true);
    }
    let found = match which {
        Which::Current => view.versions(parent, &name, None, 1)?.first().copied(),
        Which::Null => view.null_version(&bucket, parent, &name)?,
        Which::Version(id) => view.version(parent, &name, id)?.map(|version| (id, version)),
    };
    match found {
        None => Ok(Found::Nothing),
        Some((id, Version::Marker(_))) => Ok(Found::Marker(id)),
        Some((id, Version::File)) => file(id, false),
    }
}

/// The file of a version, or why there is none.
pub fn file_of(view: &View<'_>, path: &ArchivePath, which: Which) -> FoundFile {
    Ok(match find(view, path, which)? {
        Found::File { id, record, .. } => Ok((id, *record)),
        other => Err(no_file(other, path)),
    })
}

/// Why what was found is no file.
fn no_file(found: Found, path: &ArchivePath) -> ArchiveError {
    match found {
        Found::Directory(_) => ArchiveError::IsADirectory(path.clone()),
        Found::Marker(version) => ArchiveError::DeleteMarker { path: path.clone(), version },
        Found::Nothing | Found::File { .. } => ArchiveError::NotFound(path.clone()),
    }
}

impl Namespace {
    /// All about a version of an object.
    ///
    /// # Errors
    /// [`ArchiveError::NotFound`], [`ArchiveError::DeleteMarker`], [`ArchiveError::IsADirectory`].
    pub fn object(&self, path: &ArchivePath, which: Which) -> Result<ObjectStat, ArchiveError> {
        let ground = &*self.ground;
        ground.read(|view| match find(view, path, which)? {
            Found::File { id, record, is_current, is_null } => {
                let (restore, hold) = (restore_state(view, id, &record)?, view.hold(id)?);
                let file = file_stat(ground, view, path, id, *record)?;
                Ok(Ok(ObjectStat { file, is_current, is_null, restore, hold }))
            }
            other => Ok(Err(no_file(other, path))),
        })?
    }

    /// The file of a version.
    pub fn version_file(
        &self,
        path: &ArchivePath,
        which: Which,
    ) -> Result<(FileId, FileRecord), ArchiveError> {
        self.ground.read(|view| file_of(view, path, which))?
    }

    /// Deletes an object, or one version of it for good. What is not there is no error. Directories that were
    /// made for objects go with the last one.
    ///
    /// # Errors
    /// [`ArchiveError::Held`]; [`ArchiveError::Exists`] if a version would become current whose name is a
    /// directory's by now.
    pub fn remove_object(
        &self,
        path: &ArchivePath,
        which: Which,
        bypass: bool,
    ) -> Result<ObjectRemoved, ArchiveError> {
        let version = match which {
            Which::Current => {
                let current = |parent, name| typed::RemoveObject { parent, name, if_current: None };
                return self.remove_by(path, current);
            }
            Which::Null => None,
            Which::Version(id) => Some(id),
        };
        self.remove_by(path, |parent, name| typed::RemoveVersion { parent, name, version, bypass })
    }

    /// Deletes an object as a client would, but only while this file is its current version.
    ///
    /// # Errors
    /// [`ArchiveError::NotCurrent`]; as [`Namespace::remove_object`].
    pub fn remove_if_current(&self, path: &ArchivePath, file: FileId) -> Result<ObjectRemoved, ArchiveError> {
        self.remove_by(path, |parent, name| typed::RemoveObject { parent, name, if_current: Some(file) })
    }

    fn remove_by<C: TypedCommand<Answer = Removal>>(
        &self,
        path: &ArchivePath,
        command: impl FnOnce(DirId, Name) -> C,
    ) -> Result<ObjectRemoved, ArchiveError> {
        let ground = &*self.ground;
        let Some((parent, name)) = ground.read(|view| place(view, path))? else {
            return Ok(ObjectRemoved::default());
        };
        let command = command(parent, name);
        let removal = match ground.ask(command) {
            Ok(removal) => removal,
            // A directory is no object, and one that went takes its objects with it.
            Err(ArchiveError::Rejected(Rejection::IsADirectory { .. } | Rejection::NotFound(_))) => {
                Removal::default()
            }
            Err(error) => return Err(in_words(error, path)),
        };
        self.forget_wants(removal.gone.map(Entry::File), None);
        if let Some((above, _)) = path.split() {
            self.prune(&above);
        }
        Ok(ObjectRemoved { version: removal.version, marker: removal.marker })
    }

    /// Sets or removes extended attributes of a version, or of a directory. A directory that is said to be
    /// made for its objects only (`kist.implied`) goes if there is none.
    ///
    /// # Errors
    /// [`ArchiveError::NotFound`], [`ArchiveError::DeleteMarker`]; [`ArchiveError::Rejected`] if there are
    /// too many.
    pub fn set_xattrs(
        &self,
        path: &ArchivePath,
        which: Which,
        changes: &[(String, Option<Vec<u8>>)],
    ) -> Result<(), ArchiveError> {
        let found = self.ground.read(|view| find(view, path, which))?;
        if let Found::Directory(dir) = found {
            let command = Command::SetDirectoryXattrs { dir, changes: changes.to_vec() };
            self.ground.execute(command).map_err(|error| in_words(error, path))?;
            if changes.iter().any(|(name, value)| name == IMPLIED && value.is_some()) {
                self.prune(path);
            }
            return Ok(());
        }
        let (file, _) = self.version_file(path, which)?;
        let command = Command::SetXattrs { file, changes: changes.to_vec() };
        self.ground.execute(command).map_err(|error| in_words(error, path))
    }

    /// Sets what keeps a version. `bypass`: shortens or ends a retention of mode governance, or makes it one
    /// of mode compliance.
    ///
    /// # Errors
    /// [`ArchiveError::NotFound`], [`ArchiveError::DeleteMarker`], [`ArchiveError::Held`] if a retention
    /// would be shortened that must not be.
    pub fn set_hold(
        &self,
        path: &ArchivePath,
        which: Which,
        hold: Hold,
        bypass: bool,
    ) -> Result<(), ArchiveError> {
        let (file, record) = self.version_file(path, which)?;
        let ground = &*self.ground;
        let old = ground.read(|view| view.hold(file))?;
        // Nobody can take compliance back, so that it takes the right that ending governance takes. The
        // catalogue lets it through: it must still read journals in which this was done.
        let is_governed =
            |kept: Retention| kept.mode == RetentionMode::Governance && kept.until > ground.now();
        let is_strict = |new: Retention| new.mode == RetentionMode::Compliance;
        if !bypass && old.retention.is_some_and(is_governed) && hold.retention.is_some_and(is_strict) {
            let held = Rejection::Held { file, name: record.name, hold: old };
            return Err(in_words(ArchiveError::Rejected(held), path));
        }
        let command = Command::SetHold { file, hold, bypass };
        ground.execute(command).map_err(|error| in_words(error, path))?;
        if hold.in_force(ground.now()) == Hold::default() && old != Hold::default() {
            ground.leaving.tell(LeavingCause::MayLeave);
        }
        Ok(())
    }

    /// Removes a directory that was made for its objects only, and those above it, as far as they are empty
    /// and nobody has set anything of them. What cannot be removed stays: another client may have put
    /// something there.
    pub(crate) fn prune(&self, path: &ArchivePath) {
        let ground = &*self.ground;
        let mut at = path.clone();
        while let Some((parent_path, name)) = at.split() {
            let found = ground.read(|view| {
                let Some(Entry::Directory(id)) = view.resolve(&at)? else { return Ok(None) };
                let is_empty =
                    view.list(id, None, 1)?.is_empty() && view.versions_in(id, None, 1)?.is_empty();
                if !is_empty || is_set(view, id)? {
                    return Ok(None);
                }
                Ok(view.directory(id)?.filter(is_implied))
            });
            let Ok(Some(record)) = found else { return };
            let removed = ground.execute(Command::RemoveDirectory { parent: record.parent, name });
            if removed.is_err() {
                return;
            }
            at = parent_path;
        }
    }

    /// Removes all directories below one that were made for objects only and hold none.
    pub(crate) fn prune_below(&self, top: DirId) -> Result<(), ArchiveError> {
        let ground = &*self.ground;
        // The deepest come last, and are removed first.
        let mut directories: Vec<(DirId, Name, DirId)> = Vec::new();
        let mut at = 0;
        let mut next = Some(top);
        while let Some(parent) = next {
            let names = ground.read(|view| view.list(parent, None, PRUNED_MAX))?;
            for (name, entry) in names {
                let Entry::Directory(id) = entry else { return Ok(()) };
                if directories.len() >= PRUNED_MAX
                    || !ground.read(|view| view.directory(id))?.is_some_and(|record| is_implied(&record))
                {
                    return Ok(());
                }
                directories.push((parent, name, id));
            }
            next = directories.get(at).map(|(_, _, id)| *id);
            at += 1;
        }
        for (parent, name, _) in directories.into_iter().rev() {
            if ground.execute(Command::RemoveDirectory { parent, name }).is_err() {
                return Ok(());
            }
        }
        Ok(())
    }
}

/// Whether somebody said who may do what in a directory, how much may stand in it, or where its files go:
/// that must hold for the next object too.
fn is_set(view: &View<'_>, id: DirId) -> Result<bool, ReadError> {
    let has_class = view.directory(id)?.is_some_and(|record| record.class.is_some());
    Ok(has_class || view.acl(id)?.is_some() || view.quota(&QuotaSubject::Directory(id))?.is_some())
}

/// Whether a directory was made for its objects only, and is not one itself by now.
fn is_implied(record: &DirectoryRecord) -> bool {
    let has = |attribute| record.attributes.xattrs.iter().any(|(name, _)| name == attribute);
    has(IMPLIED) && !has(MARKER_XATTR)
}
