//! Names: stat, list, make, rename, remove. None of them touches data.

use std::cell::OnceCell;
use std::collections::{BTreeSet, HashMap, hash_map};

use base::{ArchivePath, ByteCount, ClassId, ContainerId, DirId, DriveId, FileId, Name};
use catalogue::{
    Attributes, Command, ContainerRecord, CopyState, Entry, FileRecord, FileState, Followed, Object,
    ReadError, Rejection, Replace, View,
    typed::{self, RemovedName},
};

use crate::Namespace;
use crate::keys::MARKER_XATTR;
use ground::Ground;
use ground::access::Notice;
use ground::{
    ArchiveError, CopyInfo, CopyProgress, DirectoryStat, FileStat, Listed, ListedKind, Locality,
    PathLocality, RenameOf, Stat,
};

/// Most names in one page of a listing.
pub const LIST_PAGE_MAX: usize = 10_000;
/// A page of a listing ends with the line whose attributes make it this many bytes: each may have 64 KiB.
pub const LIST_PAGE_BYTES: usize = 4 << 20;
/// Most pins that are told of a file: somebody may have any number of requests for it.
pub const PINS_TOLD_MAX: usize = 100;
/// How often an operation on a path is tried again when the tree changes under it.
pub const TREE_RETRIES_MAX: usize = 3;

impl Namespace {
    /// All about a path.
    ///
    /// # Errors
    /// [`ArchiveError::NotFound`].
    pub fn stat(&self, path: &ArchivePath) -> Result<Stat, ArchiveError> {
        let ground = &*self.ground;
        let stat = ground.read(|view| match view.find(path)? {
            None => Ok(None),
            Some(Followed::Directory(_, record)) => Ok(Some(Stat::Directory(DirectoryStat {
                path: path.clone(),
                created: record.created,
                attributes: record.attributes,
                class: record.class.map(|class| ground.classes.name(class)),
            }))),
            Some(Followed::File(id, record)) => {
                Ok(Some(Stat::File(Box::new(file_stat(ground, view, path, id, record)?))))
            }
        })?;
        stat.ok_or_else(|| ArchiveError::NotFound(path.clone()))
    }

    /// A page of a directory in byte order, from behind `after` on, at most `limit` lines and about
    /// [`LIST_PAGE_BYTES`]; and whether there is more.
    ///
    /// # Errors
    /// [`ArchiveError::NotFound`], [`ArchiveError::NotADirectory`].
    pub fn list(
        &self,
        path: &ArchivePath,
        after: Option<&Name>,
        limit: usize,
    ) -> Result<(Vec<Listed>, bool), ArchiveError> {
        let ground = &*self.ground;
        let limit = limit.clamp(1, LIST_PAGE_MAX);
        ground.read(|view| match view.find(path)? {
            None => Ok(Err(ArchiveError::NotFound(path.clone()))),
            Some(Followed::File(..)) => Ok(Err(ArchiveError::NotADirectory(path.clone()))),
            Some(Followed::Directory(id, _)) => {
                let names = view.list(id, after, limit + 1)?;
                let count = names.len();
                let (mut containers, mut bytes) = (Containers::default(), 0);
                let mut lines = Vec::with_capacity(count.min(limit));
                for (name, entry) in names.into_iter().take(limit) {
                    let found = view.follow(id, name.as_str(), entry)?;
                    let line = listed(ground, view, &mut containers, name, found)?;
                    bytes += weight(&line.attributes);
                    lines.push(line);
                    if bytes >= LIST_PAGE_BYTES {
                        break;
                    }
                }
                let more = lines.len() < count;
                Ok(Ok((lines, more)))
            }
        })?
    }

    /// Makes a directory. With `parents`, missing ones are made too and one that is there is no error.
    ///
    /// # Errors
    /// [`ArchiveError::Exists`], [`ArchiveError::NotFound`], [`ArchiveError::NotADirectory`].
    pub fn make_directory(
        &self,
        path: &ArchivePath,
        attributes: Attributes,
        class: Option<&str>,
        parents: bool,
    ) -> Result<(), ArchiveError> {
        let ground = &*self.ground;
        let class = class.map(|name| ground.classes.by_name(name).map(|class| class.id)).transpose()?;
        let Some((parent, name)) = path.split() else {
            return if parents { Ok(()) } else { Err(ArchiveError::Exists(path.clone())) };
        };
        // Those above the directory of a key of S3 go with the last object, as those above any other key.
        let is_key = attributes.xattrs.iter().any(|(name, _)| name == MARKER_XATTR);
        let directory = match (parents, is_key) {
            (true, true) => self.ensure_directory_with(&parent, &crate::objects::implied())?,
            (true, false) => self.ensure_directory(&parent)?,
            (false, _) => self.directory_id(&parent)?,
        };
        let command = Command::MakeDirectory { parent: directory, name, attributes, class };
        match ground.execute(command) {
            Ok(()) => Ok(()),
            Err(ArchiveError::Rejected(Rejection::NameTaken { .. })) => {
                let is_directory =
                    matches!(ground.read(|view| view.resolve(path))?, Some(Entry::Directory(_)));
                match (parents, is_directory) {
                    (true, true) => Ok(()),
                    (true, false) => Err(ArchiveError::NotADirectory(path.clone())),
                    (false, _) => Err(ArchiveError::Exists(path.clone())),
                }
            }
            Err(error) => Err(in_words(error, path)),
        }
    }

    /// Gives a file or directory another path.
    ///
    /// # Errors
    /// [`ArchiveError::NotFound`], [`ArchiveError::Exists`]; a directory cannot go below itself.
    pub fn rename(&self, from: &ArchivePath, to: &ArchivePath, replace: bool) -> Result<(), ArchiveError> {
        let (Some((from_parent, from_name)), Some((to_parent, to_name))) = (from.split(), to.split()) else {
            return Err(ArchiveError::Exists(ArchivePath::root()));
        };
        let replaced = self.ground.read(|view| view.resolve(to))?;
        let command = Command::Rename {
            from_parent: self.directory_id(&from_parent)?,
            from_name,
            to_parent: self.directory_id(&to_parent)?,
            to_name,
            replace: if replace { Replace::Allowed } else { Replace::Refused },
        };
        self.ground.execute(command).map_err(|error| rename_in_words(error, from, to))?;
        self.forget_wants(replaced, None);
        Ok(())
    }

    /// As [`Namespace::rename`], but only of what was looked at, and from and to the directories that were.
    ///
    /// # Errors
    /// [`ArchiveError::TreeChanges`] if another file or directory has the name by now; as
    /// [`Namespace::rename`].
    pub fn rename_entry(
        &self,
        from: &ArchivePath,
        to: &ArchivePath,
        of: &RenameOf,
    ) -> Result<(), ArchiveError> {
        let (Some((_, from_name)), Some((_, to_name))) = (from.split(), to.split()) else {
            return Err(ArchiveError::Exists(ArchivePath::root()));
        };
        let RenameOf { source, from_parent, to_parent, replace } = *of;
        let replaced = self.ground.read(|view| view.entry(to_parent, &to_name))?;
        let replace = if replace { Replace::Allowed } else { Replace::Refused };
        let command = Command::RenameEntry { source, from_parent, from_name, to_parent, to_name, replace };
        self.ground.execute(command).map_err(|error| match error {
            ArchiveError::Rejected(Rejection::NotCurrent { .. }) => ArchiveError::TreeChanges,
            other => rename_in_words(other, from, to),
        })?;
        self.forget_wants(replaced, None);
        Ok(())
    }

    /// Deletes a file, or an empty directory.
    ///
    /// # Errors
    /// [`ArchiveError::NotFound`], [`ArchiveError::NotEmpty`].
    pub fn remove(&self, path: &ArchivePath) -> Result<(), ArchiveError> {
        let Some((parent_path, name)) = path.split() else {
            return Err(ArchiveError::NotEmpty(path.clone()));
        };
        let ground = &*self.ground;
        let parent = self.directory_id(&parent_path)?;
        let (entry, known) = ground.read(|view| {
            let entry = view.entry(parent, &name)?;
            let known = match entry.map(|entry| view.follow(parent, name.as_str(), entry)).transpose()? {
                Some(Followed::File(_, record)) => Some((record.class, record.size)),
                _ => None,
            };
            Ok((entry, known))
        })?;
        let removed = match entry {
            None => return Err(ArchiveError::NotFound(path.clone())),
            Some(Entry::Directory(_)) => {
                ground.execute(Command::RemoveDirectory { parent, name }).map(|()| RemovedName::Gone)
            }
            Some(Entry::File(_)) => ground.ask(typed::RemoveFile { parent, name }),
        };
        match removed.map_err(|error| self.what_holds(in_words(error, path)))? {
            // The bucket keeps it as a version.
            RemovedName::Version(removal) => self.forget_wants(removal.gone.map(Entry::File), None),
            RemovedName::Gone => self.forget_wants(entry, known),
        }
        Ok(())
    }

    /// A directory that is not empty may hold nothing that is listed by its name.
    pub(crate) fn what_holds(&self, error: ArchiveError) -> ArchiveError {
        let ArchiveError::NotEmpty(path) = error else { return error };
        let holds = self.ground.read(|view| {
            let Some(Followed::Directory(id, _)) = view.find(&path)? else { return Ok(false) };
            Ok(view.list(id, None, 1)?.is_empty() && !view.versions_in(id, None, 1)?.is_empty())
        });
        match holds {
            Ok(true) => ArchiveError::HoldsVersions(path),
            // That it is not empty is true whatever came of the look.
            Ok(false) | Err(_) => ArchiveError::NotEmpty(path),
        }
    }

    /// A version that lost its name is wanted no more, and may have left garbage. `known`: its class and
    /// size.
    pub fn forget_wants(&self, entry: Option<Entry>, known: Option<(ClassId, ByteCount)>) {
        let ground = &*self.ground;
        if let Some(Entry::File(file)) = entry {
            ground.access.push(|| Notice::Deleted { at: ground.now(), file, known });
            ground.notifier.wants_changed(file);
            ground.notifier.backlog_changed();
            ground.sweep.ring();
        }
    }

    /// The directory of that path.
    pub fn directory_id(&self, path: &ArchivePath) -> Result<DirId, ArchiveError> {
        match self.ground.read(|view| view.find(path))? {
            Some(Followed::Directory(id, _)) => Ok(id),
            Some(Followed::File(..)) => Err(ArchiveError::NotADirectory(path.clone())),
            None => Err(self.nearest_obstacle(path)?),
        }
    }

    /// Why a path does not resolve: a file on the way, or nothing there.
    fn nearest_obstacle(&self, path: &ArchivePath) -> Result<ArchiveError, ArchiveError> {
        let mut above = path.clone();
        while let Some((parent, _)) = above.split() {
            above = parent;
            if matches!(self.ground.read(|view| view.resolve(&above))?, Some(Entry::File(_))) {
                return Ok(ArchiveError::NotADirectory(above));
            }
        }
        Ok(ArchiveError::NotFound(path.clone()))
    }

    /// The directory of that path, made with its parents if missing.
    pub fn ensure_directory(&self, path: &ArchivePath) -> Result<DirId, ArchiveError> {
        self.ensure_directory_with(path, &[])
    }

    /// As [`Namespace::ensure_directory`]; those that are made get these extended attributes.
    pub fn ensure_directory_with(
        &self,
        path: &ArchivePath,
        xattrs: &[(String, Vec<u8>)],
    ) -> Result<DirId, ArchiveError> {
        for _ in 0..TREE_RETRIES_MAX {
            match self.directory_id(path) {
                Err(ArchiveError::NotFound(_)) => {}
                other => return other,
            }
            self.make_missing(path, xattrs)?;
        }
        self.directory_id(path)
    }

    fn make_missing(&self, path: &ArchivePath, xattrs: &[(String, Vec<u8>)]) -> Result<(), ArchiveError> {
        let ground = &*self.ground;
        let mut parent = DirId::ROOT;
        for component in path.components() {
            let name = Name::new(component)?;
            parent = match ground.read(|view| view.entry(parent, &name))? {
                Some(Entry::Directory(id)) => id,
                Some(Entry::File(_)) => return Err(ArchiveError::NotADirectory(path.clone())),
                None => {
                    let now = ground.now();
                    let xattrs = xattrs.to_vec();
                    let attributes = Attributes { mtime: now, mode: 0o755, xattrs, ..Attributes::default() };
                    match ground.ask(typed::MakeDirectory { parent, name, attributes, class: None }) {
                        Ok(id) => id,
                        // Somebody else made it, or removed the parent: the caller resolves again.
                        Err(ArchiveError::Rejected(_)) => return Ok(()),
                        Err(error) => return Err(error),
                    }
                }
            };
        }
        Ok(())
    }
}

/// A rejection of a rename, in terms of both paths.
fn rename_in_words(error: ArchiveError, from: &ArchivePath, to: &ArchivePath) -> ArchiveError {
    match error {
        ArchiveError::Rejected(Rejection::NotFound(_)) => ArchiveError::NotFound(from.clone()),
        ArchiveError::Rejected(Rejection::IntoItself { .. }) => {
            ArchiveError::IntoItself { from: from.clone(), to: to.clone() }
        }
        ArchiveError::Rejected(Rejection::AcrossQuota(_)) => {
            ArchiveError::AcrossQuota { from: from.clone(), to: to.clone() }
        }
        other => in_words(other, to),
    }
}

/// A rejection in terms of the path that the user gave.
pub fn in_words(error: ArchiveError, path: &ArchivePath) -> ArchiveError {
    match error {
        ArchiveError::Rejected(rejection) => match rejection {
            Rejection::NotFound(Object::Name(..) | Object::Directory(_) | Object::File(_)) => {
                ArchiveError::NotFound(path.clone())
            }
            Rejection::IsADirectory { .. } => ArchiveError::IsADirectory(path.clone()),
            Rejection::NotADirectory { .. } => ArchiveError::NotADirectory(path.clone()),
            Rejection::NameTaken { .. } => ArchiveError::Exists(path.clone()),
            Rejection::NotCurrent { .. } => ArchiveError::NotCurrent(path.clone()),
            held @ Rejection::Held { .. } => {
                ArchiveError::Held { path: path.clone(), held: held.to_string() }
            }
            Rejection::DirectoryNotEmpty { .. } => ArchiveError::NotEmpty(path.clone()),
            Rejection::IdempotencyKeyReused { .. } => ArchiveError::IdempotencyKeyReused,
            other => ArchiveError::Rejected(other),
        },
        other => other,
    }
}

/// Containers read within one operation, so that members of one pack cost one look-up.
#[derive(Default)]
pub struct Containers {
    known: HashMap<ContainerId, Option<ContainerRecord>>,
    /// Drives of the pool that do not answer, once somebody asked.
    silent: OnceCell<BTreeSet<DriveId>>,
}

impl Containers {
    /// A container, looked up once.
    pub fn get(&mut self, view: &View<'_>, id: ContainerId) -> Result<Option<&ContainerRecord>, ReadError> {
        match self.known.entry(id) {
            hash_map::Entry::Occupied(known) => Ok(known.into_mut().as_ref()),
            hash_map::Entry::Vacant(unknown) => Ok(unknown.insert(view.container(id)?).as_ref()),
        }
    }
}

/// Where a reader finds a file's bytes now: what all its tapes have and the pool cannot give, as long as
/// drives do not answer, is NEARLINE.
pub(crate) fn locality_now(
    ground: &Ground,
    view: &View<'_>,
    containers: &mut Containers,
    id: FileId,
    record: &FileRecord,
) -> Result<Locality, ReadError> {
    let found = locality(view, containers, id, record)?;
    if found != Locality::OnlineAndNearline {
        return Ok(found);
    }
    let silent = containers.silent.get_or_init(|| ground.pool.silent_drives());
    let is_given = missing_for(ground, view, record, silent)?.is_empty();
    Ok(if is_given { found } else { Locality::Nearline })
}

impl Namespace {
    /// Where the bytes of what has these paths are; paths are few enough for one look at the catalogue.
    ///
    /// # Errors
    /// If the catalogue cannot be read.
    pub fn localities(&self, paths: &[ArchivePath]) -> Result<Vec<PathLocality>, ArchiveError> {
        let ground = &*self.ground;
        ground.read(|view| {
            let mut containers = Containers::default();
            let mut found = Vec::with_capacity(paths.len());
            for path in paths {
                found.push(match view.find(path)? {
                    None => PathLocality::Missing,
                    Some(Followed::Directory(..)) => PathLocality::Directory,
                    Some(Followed::File(id, record)) => {
                        let locality = locality_now(ground, view, &mut containers, id, &record)?;
                        let unavailable = match locality {
                            Locality::Nearline => !is_given(ground, view, &mut containers, id)?,
                            Locality::Online | Locality::OnlineAndNearline => {
                                let silent = containers.silent.get_or_init(|| ground.pool.silent_drives());
                                !missing_for(ground, view, &record, silent)?.is_empty()
                            }
                            Locality::Lost => false,
                        };
                        PathLocality::File { locality, size: record.size, unavailable }
                    }
                });
            }
            Ok(found)
        })
    }
}

/// Whether each part of a file stands on a tape that can give it and that a library holds.
fn is_given(
    ground: &Ground,
    view: &View<'_>,
    containers: &mut Containers,
    id: FileId,
) -> Result<bool, ReadError> {
    for (container, _) in view.parts(id)? {
        let Some(record) = containers.get(view, container)? else { return Ok(false) };
        let held = record.places().map(|(vid, _)| vid).filter(|vid| ground.libraries.holds(*vid));
        if !view.one_can_give(&held.collect::<Vec<_>>())? {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Drives that do not answer and without which a file cannot be read; empty if it can be, as far as that
/// depends on drives.
pub fn missing_for(
    ground: &Ground,
    view: &View<'_>,
    file: &FileRecord,
    silent: &BTreeSet<DriveId>,
) -> Result<BTreeSet<DriveId>, ReadError> {
    let mut missing = BTreeSet::new();
    if silent.is_empty() || file.state != FileState::Live {
        return Ok(missing);
    }
    for piece in &file.pieces {
        let Some(blob) = view.blob(piece.blob)? else { continue };
        // A description that contradicts itself is the catalogue's check's to report.
        if matches!(ground.pool.has_drives_without(&blob, piece, silent), Ok(false)) {
            let of_blob = blob.stripes.iter().flat_map(|set| set.drives.iter().copied());
            missing.extend(of_blob.filter(|drive| silent.contains(drive)));
        }
    }
    Ok(missing)
}

/// Where the catalogue has a file's bytes.
pub fn locality(
    view: &View<'_>,
    containers: &mut Containers,
    id: FileId,
    record: &FileRecord,
) -> Result<Locality, ReadError> {
    if !record.has_data() {
        return Ok(Locality::Online);
    }
    if record.is_lost() {
        return Ok(Locality::Lost);
    }
    let parts = view.parts(id)?;
    let (mut on_all, mut readable) = (!parts.is_empty(), !parts.is_empty());
    for (container, _) in parts {
        let container = containers.get(view, container)?;
        on_all &= container.is_some_and(ContainerRecord::is_on_tape);
        readable &= container.is_some_and(|c| c.places().next().is_some());
    }
    Ok(match (record.is_online(), on_all, readable) {
        (true, true, _) => Locality::OnlineAndNearline,
        (true, false, _) => Locality::Online,
        (false, _, true) => Locality::Nearline,
        (false, _, false) => Locality::Lost,
    })
}

/// All about a file.
pub fn file_stat(
    ground: &Ground,
    view: &View<'_>,
    path: &ArchivePath,
    id: FileId,
    record: FileRecord,
) -> Result<FileStat, ReadError> {
    let mut containers = Containers::default();
    let locality = locality_now(ground, view, &mut containers, id, &record)?;
    let mut copies = Vec::new();
    for (container_id, member) in view.parts(id)? {
        let Some(container) = containers.get(view, container_id)? else { continue };
        for copy in &container.copies {
            let (state, place) = match copy.state {
                // One that a repack takes off its tape can be read there until it is written anew.
                CopyState::Queued => (CopyProgress::Queued, copy.source.map(|at| (at.vid, at.block))),
                CopyState::Planned { vid, block, .. } => (CopyProgress::Writing, Some((vid, block))),
                CopyState::Flushed { vid, block, .. } => (CopyProgress::Flushed, Some((vid, block))),
                CopyState::Indexed { vid, block } => (CopyProgress::Indexed, Some((vid, block))),
            };
            copies.push(CopyInfo {
                tape_pool: ground.classes.tape_pool_name(copy.tape_pool),
                state,
                vid: place.map(|(vid, _)| vid),
                away: place.is_some_and(|(vid, _)| !ground.libraries.holds(vid)),
                away_as: match place {
                    Some((vid, _)) => view.tape(vid)?.and_then(|tape| tape.away),
                    None => None,
                },
                block: place.map(|(_, block)| block),
                container: container_id,
                container_kind: container.kind.clone(),
                tape_path: container.tape_path.clone(),
                offset: member.data_offset,
                length: member.length,
            });
        }
    }
    let copies_wanted = ground.classes.get(record.class).map_or(0, |class| class.copies.len() as u32);
    Ok(FileStat {
        path: path.clone(),
        file: id,
        kind: record.kind,
        size: record.size,
        created: record.created,
        attributes: record.attributes,
        checksums: record.checksums,
        class: ground.classes.name(record.class),
        locality,
        copies,
        copies_wanted,
        pins: view.some_pins(id, PINS_TOLD_MAX)?,
    })
}

/// Bytes of attributes that can be many.
pub(crate) fn weight(attributes: &Attributes) -> usize {
    attributes.xattrs.iter().map(|(name, value)| name.len() + value.len()).sum()
}

fn listed(
    ground: &Ground,
    view: &View<'_>,
    containers: &mut Containers,
    name: Name,
    found: Followed,
) -> Result<Listed, ReadError> {
    Ok(match found {
        Followed::Directory(_, record) => {
            Listed { name, what: ListedKind::Directory, size: ByteCount(0), attributes: record.attributes }
        }
        Followed::File(id, record) => {
            let locality = locality_now(ground, view, containers, id, &record)?;
            Listed {
                name,
                size: record.size,
                what: ListedKind::File {
                    file: id,
                    kind: record.kind,
                    class: ground.classes.name(record.class),
                    locality,
                    blake3: record.checksums.blake3,
                },
                attributes: record.attributes,
            }
        }
    })
}
