//! A drive is cleaned.

use std::sync::Arc;

use base::Vid;
use catalogue::Command;
use library::{CleanerInfo, LibraryError, Place, TapeAlert, TapeError};
use scheduler::{CleaningEnd, Event};

use super::DriveThread;
use ground::truncated;

impl DriveThread {
    /// Brings home a cleaning cartridge that a server which ended has left in the drive.
    pub(super) fn let_cleaner_out(&mut self) {
        let is_here = |cleaner: &CleanerInfo| matches!(&cleaner.place, Place::Drive(at) if *at == self.name);
        let Some(cleaner) = self.room.library.cleaners().into_iter().find(is_here) else { return };
        let vid = cleaner.vid;
        match self.room.library.unmount(&self.name) {
            Ok(_) => tracing::info!(drive = %self.name, %vid, "a cleaning cartridge was brought home"),
            // The next mount tries again.
            Err(error) => {
                tracing::warn!(drive = %self.name, %vid, %error, "a cleaning cartridge stays in the drive");
            }
        }
    }

    /// Cleans the empty drive.
    pub(super) fn clean(&mut self, vid: Vid) -> CleaningEnd {
        assert!(self.mounted.is_none(), "an empty drive is cleaned");
        let (room, drive) = (Arc::clone(&self.room), self.name.as_str().to_owned());
        // Before: a server that is killed meanwhile has counted it.
        if let Err(error) = room.execute(Command::CountCleaning { vid, anew: false }) {
            return CleaningEnd::Failed(error.to_string());
        }
        let most = room.settings.tape.mounts.cleaning.time_max;
        let mut cleaned = room.library.clean(vid, &self.name, most);
        if let Err(LibraryError::DriveFull { .. }) = cleaned
            && matches!(room.library.unmount(&self.name), Ok(_) | Err(LibraryError::UnmountFlush { .. }))
        {
            cleaned = room.library.clean(vid, &self.name, most);
        }
        if let Err(error) = &cleaned
            && error.is_of_the_drive()
        {
            self.note_broken(truncated(&error.to_string(), 512));
        }
        let alerts = match cleaned {
            Ok(alerts) => alerts,
            // It is clean, or the cartridge is used up, wherever that is now. Only the way back is to be
            // tried again.
            Err(LibraryError::CleanerStays { alerts, source, .. }) => {
                tracing::error!(drive, %vid, error = %source, "a cleaning cartridge was not brought back");
                alerts
            }
            Err(error) => {
                tracing::error!(drive, %vid, %error, "the drive was not cleaned");
                let reason = truncated(&error.to_string(), 512);
                if !error.was_in_drive()
                    && let Err(error) = room.execute(Command::UncountCleaning { vid })
                {
                    tracing::error!(drive, %vid, %error, "a use that was none stays counted");
                }
                // It was cleaned and asks once more: so often that a flag which sticks uses up no cartridge
                // in a day.
                if let LibraryError::NotCleaned { source, .. } = &error
                    && matches!(**source, TapeError::CleaningNeeded { .. })
                {
                    let ended = Command::CleaningEnded { vid, drive: drive.clone(), unfit: None };
                    match room.execute(ended) {
                        Ok(()) => room.must_be_cleaned(&drive),
                        Err(error) => tracing::error!(drive, %error, "a cleaning is not recorded"),
                    }
                }
                room.look_at_cleaners();
                return CleaningEnd::Failed(reason);
            }
        };
        let bad = [TapeAlert::CLEANER_USED_UP, TapeAlert::CLEANER_INVALID];
        let unfit = alerts.iter().find(|alert| bad.contains(alert)).map(ToString::to_string);
        match &unfit {
            Some(why) => tracing::warn!(drive, %vid, why, "the cleaning cartridge did not clean"),
            None => tracing::info!(drive, %vid, "the drive was cleaned"),
        }
        let end = if unfit.is_some() { CleaningEnd::Unfit } else { CleaningEnd::Cleaned };
        let told = room.execute(Command::CleaningEnded { vid, drive: drive.clone(), unfit });
        room.look_at_cleaners();
        match told {
            // A drive that is broken now is told of as such: what it asked for is over all the same.
            Ok(()) if self.broken.is_some() && end == CleaningEnd::Cleaned => {
                room.notifier.post(Event::CleanDrive(drive, None));
                end
            }
            Ok(()) => end,
            Err(error) => CleaningEnd::Failed(error.to_string()),
        }
    }
}
