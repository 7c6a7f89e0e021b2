//! Which files a stage, evict or release means.

use base::{ArchivePath, DirId, FileId, Name};
use catalogue::{FileRecord, Followed, ReadError, View};

use crate::Namespace;
use ground::Selected;
use ground::{ArchiveError, Selection};

/// Most paths of one selection.
pub const SELECTION_PATHS_MAX: usize = 100_000;
/// Names of a directory read at a time.
const PAGE: usize = 4_096;
/// Files handed on at a time, for one command.
pub(crate) const FILES_BATCH: usize = catalogue::BULK_FILES;

/// What a path of a selection stands for.
enum Root {
    File(Selected),
    Directory(DirId),
}

impl Namespace {
    /// Resolves all paths first, so that one that does not exist means that nothing is done; then hands on
    /// the files in batches of at most `FILES_BATCH`.
    pub fn for_each_selected(
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
            match self.ground.read(|view| view.find(path))? {
                None => missing.push(path),
                Some(Followed::Directory(..)) if !selection.recursive => {
                    return Err(ArchiveError::IsADirectory(path.clone()));
                }
                Some(Followed::Directory(id, _)) => roots.push(Root::Directory(id)),
                Some(Followed::File(id, record)) => roots.push(Root::File(selected(id, &record))),
            }
        }
        if let Some(first) = missing.first() {
            return Err(match selection.paths.len() {
                1 => ArchiveError::NotFound((*first).clone()),
                _ => ArchiveError::SomeNotFound { count: missing.len(), first: (*first).clone() },
            });
        }
        let mut batch = Vec::new();
        for root in roots {
            match root {
                Root::File(file) => {
                    batch.push(file);
                    hand_on(&mut batch, take)?;
                }
                Root::Directory(id) => self.walk(id, &mut batch, take)?,
            }
        }
        if batch.is_empty() { Ok(()) } else { take(batch) }
    }

    fn walk(
        &self,
        root: DirId,
        batch: &mut Vec<Selected>,
        take: &mut dyn FnMut(Vec<Selected>) -> Result<(), ArchiveError>,
    ) -> Result<(), ArchiveError> {
        let mut directories: Vec<DirId> = vec![root];
        while let Some(directory) = directories.pop() {
            let mut after: Option<Name> = None;
            loop {
                let (files, below, last) = self.ground.read(|view| page(view, directory, after.as_ref()))?;
                batch.extend(files);
                directories.extend(below);
                hand_on(batch, take)?;
                after = match last {
                    Some(name) => Some(name),
                    None => break,
                };
            }
        }
        Ok(())
    }
}

/// Hands on what is enough for a batch, in batches that one command takes.
fn hand_on(
    batch: &mut Vec<Selected>,
    take: &mut dyn FnMut(Vec<Selected>) -> Result<(), ArchiveError>,
) -> Result<(), ArchiveError> {
    if batch.len() < FILES_BATCH {
        return Ok(());
    }
    for chunk in std::mem::take(batch).chunks(FILES_BATCH) {
        take(chunk.to_vec())?;
    }
    Ok(())
}

type Page = (Vec<Selected>, Vec<DirId>, Option<Name>);

fn page(view: &View<'_>, directory: DirId, after: Option<&Name>) -> Result<Page, ReadError> {
    let names = view.list(directory, after, PAGE)?;
    let more = names.len() == PAGE;
    let (mut files, mut below, mut last) = (Vec::new(), Vec::new(), None);
    for (name, entry) in names {
        match view.follow(directory, name.as_str(), entry)? {
            Followed::File(id, record) => files.push(selected(id, &record)),
            Followed::Directory(id, _) => below.push(id),
        }
        last = Some(name);
    }
    Ok((files, below, last.filter(|_| more)))
}

fn selected(file: FileId, record: &FileRecord) -> Selected {
    Selected { file, size: record.size, class: record.class, online: record.is_online() }
}
