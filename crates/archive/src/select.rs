//! Which files a stage, evict or release means.

use base::{ArchivePath, ByteCount, ClassId, DirId, FileId, Name};
use catalogue::{Entry, ReadError, View};

use crate::{Archive, ArchiveError, Selection};

/// Most paths of one selection.
pub const SELECTION_PATHS_MAX: usize = 100_000;
/// Names of a directory read at a time.
const PAGE: usize = 4_096;
/// Files handed on at a time.
pub(crate) const FILES_BATCH: usize = 10_000;

/// A selected file.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Selected {
    pub(crate) file: FileId,
    pub(crate) size: ByteCount,
    pub(crate) class: ClassId,
    /// Whether the pool has it.
    pub(crate) online: bool,
}

impl Archive {
    /// Resolves all paths first, so that one that does not exist means that nothing is done; then hands on
    /// the files in batches of at most [`FILES_BATCH`].
    pub(crate) fn for_each_selected(
        &self,
        selection: &Selection,
        take: &mut dyn FnMut(Vec<Selected>) -> Result<(), ArchiveError>,
    ) -> Result<(), ArchiveError> {
        if selection.paths.len() > SELECTION_PATHS_MAX {
            return Err(ArchiveError::Limit { what: "paths in one call", limit: SELECTION_PATHS_MAX as u64 });
        }
        let mut roots = Vec::with_capacity(selection.paths.len());
        let mut missing: Vec<&ArchivePath> = Vec::new();
        for path in &selection.paths {
            match self.engine().read(|view| view.resolve(path))? {
                None => missing.push(path),
                Some(Entry::Directory(_)) if !selection.recursive => {
                    return Err(ArchiveError::IsADirectory(path.clone()));
                }
                Some(entry) => roots.push(entry),
            }
        }
        if let Some(first) = missing.first() {
            return Err(match selection.paths.len() {
                1 => ArchiveError::NotFound((*first).clone()),
                _ => ArchiveError::SomeNotFound { count: missing.len(), first: (*first).clone() },
            });
        }
        let mut batch = Vec::new();
        for entry in roots {
            self.walk(entry, &mut batch, take)?;
        }
        if batch.is_empty() { Ok(()) } else { take(batch) }
    }

    fn walk(
        &self,
        entry: Entry,
        batch: &mut Vec<Selected>,
        take: &mut dyn FnMut(Vec<Selected>) -> Result<(), ArchiveError>,
    ) -> Result<(), ArchiveError> {
        let mut directories: Vec<DirId> = Vec::new();
        match entry {
            Entry::Directory(id) => directories.push(id),
            Entry::File(id) => batch.extend(self.engine().read(|view| selected(view, id))?),
        }
        while let Some(directory) = directories.pop() {
            let mut after: Option<Name> = None;
            loop {
                let (files, below, last) =
                    self.engine().read(|view| page(view, directory, after.as_ref()))?;
                batch.extend(files);
                directories.extend(below);
                if batch.len() >= FILES_BATCH {
                    for chunk in std::mem::take(batch).chunks(FILES_BATCH) {
                        take(chunk.to_vec())?;
                    }
                }
                after = match last {
                    Some(name) => Some(name),
                    None => break,
                };
            }
        }
        Ok(())
    }
}

type Page = (Vec<Selected>, Vec<DirId>, Option<Name>);

fn page(view: &View<'_>, directory: DirId, after: Option<&Name>) -> Result<Page, ReadError> {
    let names = view.list(directory, after, PAGE)?;
    let more = names.len() == PAGE;
    let (mut files, mut below, mut last) = (Vec::new(), Vec::new(), None);
    for (name, entry) in names {
        match entry {
            Entry::File(id) => files.extend(selected(view, id)?),
            Entry::Directory(id) => below.push(id),
        }
        last = Some(name);
    }
    Ok((files, below, last.filter(|_| more)))
}

fn selected(view: &View<'_>, file: FileId) -> Result<Option<Selected>, ReadError> {
    Ok(view.file(file)?.map(|record| Selected {
        file,
        size: record.size,
        class: record.class,
        online: record.is_online(),
    }))
}
