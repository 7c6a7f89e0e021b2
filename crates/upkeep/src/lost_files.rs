//! How many files are LOST, and the first of them, without going through all files each time.
//!
//! The files are counted once behind each start, by the walk that tries lost files again, and noted when they
//! become LOST. Whoever asks has those that are kept looked up: what was found again, written anew or removed
//! counts no more.

use std::collections::BTreeSet;
use std::sync::PoisonError;
use threads::{Mutex, MutexGuard};

use base::{ContainerId, FileId};
use catalogue::{FileRecord, View};

use crate::Upkeep;
use ground::ArchiveError;
use ground::LostFilesInfo;

/// Files that are kept by id, and looked up when somebody asks: so many point reads take some tens of
/// milliseconds. Of more only the number is kept, as it was counted last.
const KEPT_MAX: usize = 10_000;
/// Members of a container looked at together.
const MEMBERS_PAGE: usize = 500;

/// The files that are known to be LOST.
#[derive(Default)]
pub(crate) struct LostFiles(Mutex<Known>);

#[derive(Default)]
struct Known {
    files: Files,
    /// What the walk that is under way has met.
    counting: Option<Files>,
    is_counted: bool,
}

/// Files, the first ones by id.
#[derive(Clone, Default)]
struct Files {
    kept: BTreeSet<FileId>,
    more: u64,
}

impl Files {
    fn add(&mut self, file: FileId) {
        if self.kept.len() < KEPT_MAX {
            self.kept.insert(file);
        } else if !self.kept.contains(&file) {
            self.more += 1;
        }
    }
}

impl LostFiles {
    fn known(&self) -> MutexGuard<'_, Known> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// These have become LOST.
    pub(crate) fn add(&self, files: &[FileId]) {
        let mut known = self.known();
        for file in files {
            known.files.add(*file);
            if let Some(counting) = &mut known.counting {
                counting.add(*file);
            }
        }
    }

    /// All files are about to be looked at.
    pub(crate) fn begin_count(&self) {
        self.known().counting = Some(Files::default());
    }

    /// Some of all files.
    pub(crate) fn count(&self, files: &[(FileId, FileRecord)]) {
        let mut known = self.known();
        let Some(counting) = &mut known.counting else { return };
        files.iter().filter(|(_, file)| file.is_lost()).for_each(|(id, _)| counting.add(*id));
    }

    /// All files were looked at.
    pub(crate) fn end_count(&self) {
        let mut known = self.known();
        if let Some(counted) = known.counting.take() {
            (known.files, known.is_counted) = (counted, true);
        }
    }

    /// Those that are still LOST, the first ones by id, and how many there are.
    fn now(&self, view: &View<'_>) -> Result<(Vec<FileId>, LostFilesInfo), catalogue::ReadError> {
        let kept: Vec<FileId> = self.known().files.kept.iter().copied().collect();
        let (mut lost, mut others) = (Vec::new(), BTreeSet::new());
        for file in kept {
            if view.file(file)?.is_some_and(|record| record.is_lost()) {
                lost.push(file);
            } else {
                others.insert(file);
            }
        }
        let mut known = self.known();
        known.files.kept.retain(|file| !others.contains(file));
        let files = lost.len() as u64 + known.files.more;
        let info = LostFilesInfo { files, is_counted: known.is_counted };
        Ok((lost, info))
    }
}

impl Upkeep {
    /// How many files are LOST.
    pub fn lost_info(&self) -> Result<LostFilesInfo, ArchiveError> {
        self.read(|view| Ok(self.lost_files.now(view)?.1))
    }

    /// The first LOST files.
    pub(crate) fn first_lost(&self, most: usize) -> Result<Vec<FileId>, ArchiveError> {
        let (mut files, _) = self.read(|view| self.lost_files.now(view))?;
        files.truncate(most);
        Ok(files)
    }

    /// A place of a container on tape was given up: its files may be LOST.
    pub fn note_lost_members(&self, container: ContainerId) -> Result<(), ArchiveError> {
        let mut after = None;
        loop {
            let (lost, last) = self.read(|view| {
                let is_placed = view.container(container)?.is_none_or(|it| it.places().next().is_some());
                let members = match is_placed {
                    true => Vec::new(),
                    false => view.members(container, after, MEMBERS_PAGE)?,
                };
                let mut lost = Vec::new();
                for member in &members {
                    if view.file(member.file)?.is_some_and(|file| file.is_lost()) {
                        lost.push(member.file);
                    }
                }
                Ok((lost, members.last().map(|member| (member.data_offset, member.file))))
            })?;
            self.lost_files.add(&lost);
            match last {
                Some(last) => after = Some(last),
                None => return Ok(()),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_becomes_lost_while_all_are_counted_is_not_forgotten() {
        let lost = LostFiles::default();
        lost.add(&[FileId(1)]);
        lost.begin_count();
        lost.add(&[FileId(2), FileId(2)]);
        assert!(!lost.known().is_counted);
        lost.end_count();
        let known = lost.known();
        assert!(known.is_counted && known.files.kept == BTreeSet::from([FileId(2)]));
    }

    #[test]
    fn of_too_many_only_the_number_is_kept() {
        let lost = LostFiles::default();
        let files: Vec<FileId> = (0..KEPT_MAX as u64 + 5).map(FileId).collect();
        lost.add(&files);
        let known = lost.known();
        assert_eq!((known.files.kept.len(), known.files.more), (KEPT_MAX, 5));
    }
}
