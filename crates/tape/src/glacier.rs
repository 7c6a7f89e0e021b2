//! Files that live on tape: brought back for a while, and sent there by a change of class.

use base::ArchivePath;
use catalogue::Command;

use crate::Tape;
use ground::Selected;
use ground::{ArchiveError, LeavingCause, StageOptions, Which};
use namespace::in_words;

impl Tape {
    /// Has a version brought back from tape and kept in the pool for `options.pin` from then on. One that is
    /// in the pool is kept that long from now, or as long as somebody asked for before. Gives whether it was
    /// there already. Durable on return.
    ///
    /// # Errors
    /// [`ArchiveError::NotFound`], [`ArchiveError::DeleteMarker`], [`ArchiveError::IsADirectory`],
    /// [`ArchiveError::NeverFits`], [`ArchiveError::Lost`] if no copy can be read.
    pub fn restore_object(
        &self,
        path: &ArchivePath,
        which: Which,
        options: StageOptions,
    ) -> Result<bool, ArchiveError> {
        let room = self;
        let (file, record) = self.namespace.version_file(path, which)?;
        let online = record.is_online();
        if !online {
            room.check_can_fit(file, record.class, record.size)?;
        }
        let request = self.open_request(&options)?;
        let added = self
            .add_to_request(request, &[Selected { file, size: record.size, class: record.class, online }])
            .and_then(|()| room.execute(Command::CloseRequest { request }));
        if let Err(error) = added {
            room.undo_request(request)?;
            return Err(in_words(error, path));
        }
        Ok(online)
    }

    /// Gives the current version of a file another class. What tapes have of it stays there; what they do not
    /// have yet goes where the new class says. If files of that class leave the pool, it does as soon as it
    /// may.
    ///
    /// # Errors
    /// [`ArchiveError::NotFound`], [`ArchiveError::NoSuchClass`]; [`ArchiveError::Rejected`] if the file is
    /// LOST, or only on tape and the class is without tape.
    pub fn change_class(&self, path: &ArchivePath, class: &str) -> Result<(), ArchiveError> {
        let (file, _) = self.namespace.version_file(path, Which::Current)?;
        let class = self.classes.by_name(class)?.id;
        self.change_class_of(file, class).map_err(|error| in_words(error, path))
    }

    /// As [`Tape::change_class`], of a file.
    pub fn change_class_of(&self, file: base::FileId, class: base::ClassId) -> Result<(), ArchiveError> {
        let room = self;
        room.execute(Command::ChangeClass { file, class })?;
        room.notifier.wants_changed(file);
        room.notifier.backlog_changed();
        room.sweep.ring();
        // Its new class may be one whose files leave sooner.
        room.leaving.tell(LeavingCause::MayLeave);
        Ok(())
    }
}
