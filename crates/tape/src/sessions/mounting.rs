//! Mounting with label check, labelling of scratch tapes, indexes at the end, and what a crash left open.

use std::sync::Arc;

use base::{
    BlockAddress, ContainerId, FailureCause, Partition, RunId, TapeKey, TapePoolId, Timestamp, Uuid, Vid,
};
use catalogue::{Command, RunRecord, TapeRecord, TapeState};
use library::{KeyError, LibraryError, TapeAlert, TapeDrive, TapeError};
use mover::{LabelKeys, Shown, Volume, VolumeError};
use scheduler::Failure;
use session::WritingSession;

use super::adopt;
use super::mounted::Mounted;
use super::plan;
use super::{
    Broken, DriveThread, SessionError, Verdict, is_of_a_write, is_the_tapes_fault, is_worm, note_drive,
    verdict,
};
use crate::room::Tape;
use ground::ArchiveError;

impl DriveThread {
    /// Mounts a tape and checks its labels; labels it first if it is to be assigned or its labelling was cut
    /// short. A run that an earlier session left open is closed. On failure the drive is empty again, or
    /// broken.
    pub(super) fn mount(&mut self, vid: Vid, assign: Option<TapePoolId>) -> Result<(), Failure> {
        let cause = || self.room.mount_cause(self.name.as_str(), vid);
        self.mounts.ordered(&self.room, vid, cause);
        let result = self.mount_checked(vid, assign);
        let block_size = self.mounted.as_ref().map_or(0, |mounted| mounted.volume.block_size().bytes());
        let counted = result.as_ref().map(|()| block_size).map_err(|failure| failure.reason.as_str());
        self.mounts.mounted(&self.room, self.drive.as_mut(), vid, counted);
        result
    }

    fn mount_checked(&mut self, vid: Vid, assign: Option<TapePoolId>) -> Result<(), Failure> {
        assert!(self.mounted.is_none(), "a tape is mounted into an empty drive");
        self.worth_labelling(vid, assign).map_err(|error| error.failure())?;
        // One that is looked at since a restore shows its key itself.
        if !self.room.settling.asks(vid)
            && let Err(source) = self.room.need_key(vid, assign)
        {
            return Err(SessionError::from(VolumeError::Key { vid, source }).failure());
        }
        self.can_encrypt_for(vid, assign).map_err(|error| error.failure())?;
        if let Err(error) = self.bring(vid) {
            // The cartridge itself, not the robot: take it out of the scheduler's choice.
            if error.cause() == Some(FailureCause::Cartridge) {
                self.room.suspect_tape(vid, error.cause(), &error.to_string(), false);
                self.was_not_seen(vid, &error.to_string());
            }
            let is_out_of_reach = |error: &LibraryError| {
                matches!(
                    error,
                    LibraryError::Cartridge(_)
                        | LibraryError::UnknownCartridge { .. }
                        | LibraryError::NotInSlot { .. }
                )
            };
            if is_out_of_reach(&error) {
                self.room.settler().could_not_mount(vid, &error.to_string());
            }
            let error = SessionError::from(ArchiveError::from(error));
            note_drive(&mut self.broken, &error);
            return Err(error.failure());
        }
        self.mounts.loaded(&self.room, self.drive.as_mut());
        self.look_since_restore(vid, assign)?;
        let is_tried_again = self.room.is_tried_again(vid);
        if is_tried_again && self.room.tape(vid).is_ok_and(|record| record.generation.0 == 0) {
            return self.try_unlabelled(vid);
        }
        let opened = self.open_volume(vid, assign);
        let mut was_opened = false;
        let error = match opened {
            Ok((mounted, open)) => {
                was_opened = true;
                if mounted.key.is_some() {
                    self.plain.works();
                }
                let fault = mounted.volume.label_fault().map(str::to_owned);
                let mut tape = self.take(mounted);
                tape.room.post_tape(vid);
                let closed = match open {
                    None if is_tried_again => match tape.check_end(vid) {
                        Ok(()) => {
                            self.room.found_well(vid, fault.as_deref());
                            return Ok(());
                        }
                        Err(error) => Err(error),
                    },
                    None => return Ok(()),
                    Some((id, run)) => tape.take_over(id, &run),
                };
                match closed {
                    Ok(()) => {
                        self.room.set_tasks(vid, |tasks| tasks.recover = false);
                        // Its labels, its newest index and its end were looked at.
                        if self.room.tape(vid).is_ok_and(|record| record.state == TapeState::Suspect) {
                            self.room.found_well(vid, fault.as_deref());
                        }
                        self.room.notifier.backlog_changed();
                        self.room.post_tape(vid);
                        return Ok(());
                    }
                    Err(error) => error,
                }
            }
            Err(error) => error,
        };
        let Verdict { failure, suspects_tape } = verdict(&self.room, vid, &error, was_opened);
        note_drive(&mut self.broken, &error);
        if error.is_for_want_of_encryption() {
            self.plain.found(self.room.steady(), self.room.settings.tape.retry_delay);
        }
        if is_worm(&error) {
            // It will never be otherwise: what is on it, if it was labelled elsewhere, is read.
            let labelled = self.room.tape(vid).is_ok_and(|record| record.generation.0 > 0);
            let state = if labelled { TapeState::ReadOnly } else { TapeState::Disabled };
            self.room.set_tape_aside(vid, state, &error.to_string());
            self.give_up(vid, &error.to_string());
        } else if matches!(error, SessionError::HoldsNothing { .. }) {
            // Each further mount would find the same; and full is no word for it. The drive may be wrong.
            self.in_doubt.found(self.room.steady(), self.room.settings.tape.retry_delay);
            self.room.set_tape_aside(vid, TapeState::Disabled, &error.to_string());
        } else if suspects_tape {
            self.room.suspect_tape(vid, error.cause(), &error.to_string(), is_of_a_write(&error));
            match is_another_cartridge(&error) {
                true => self.was_not_seen(vid, &error.to_string()),
                false => self.give_up(vid, &error.to_string()),
            }
        }
        if let Some(mounted) = &mut self.mounted {
            mounted.failed = true;
        }
        self.send_for_open_run(vid);
        self.unmount();
        Err(failure)
    }

    /// Refuses to have a tape brought that needs encryption if the drive was just found not to encrypt: each
    /// scratch tape would be brought in vain, one after the other.
    fn can_encrypt_for(&self, vid: Vid, assign: Option<TapePoolId>) -> Result<(), SessionError> {
        let rests = self.plain.rests(self.room.steady());
        if rests && self.room.key_needed(&self.room.tape(vid)?, assign).is_some() {
            let drive = self.name.clone();
            return Err(VolumeError::Tape(TapeError::EncryptionUnsupported { drive }).into());
        }
        Ok(())
    }

    /// A tape was sent for, and nobody has seen what is on it: what is open on it stays open until it has
    /// been tried in vain.
    fn was_not_seen(&mut self, vid: Vid, why: &str) {
        match self.room.is_to_be_tried(vid) {
            true => self.send_for_open_run(vid),
            false => self.give_up(vid, why),
        }
    }

    /// A tape whose session is still open is mounted to close it, but not before it is tried again.
    fn send_for_open_run(&self, vid: Vid) {
        if self.room.tape(vid).is_ok_and(|record| record.run.is_some()) {
            let rests = self.room.is_to_be_tried(vid);
            self.room.set_tasks(vid, |tasks| tasks.recover = !rests);
        }
    }

    /// Looks at a tape first that was not seen since the catalogue was restored. The drive is empty
    /// afterwards if the tape is not, or cannot be known to be, what the catalogue has, or is scratch and was
    /// mounted for this alone.
    fn look_since_restore(&mut self, vid: Vid, assign: Option<TapePoolId>) -> Result<(), Failure> {
        let room = Arc::clone(&self.room);
        // Before: the look may find a volume on it.
        let had_use = assign.is_some() || room.tape(vid).is_ok_and(|record| record.uuid.is_some());
        let reason = match room.settler().answer(self.drive.as_mut(), vid) {
            Ok(None) => return Ok(()),
            Ok(Some(true)) if had_use => return Ok(()),
            Ok(_) if room.settling.asks(vid) => {
                room.keys_missing.has_shown(vid);
                room.post_tape(vid);
                format!("tape {vid} waits for its key to be looked at since the catalogue was restored")
            }
            Ok(_) => format!("tape {vid} was looked at since the catalogue was restored"),
            Err(error) => format!("tape {vid} cannot be looked at since the catalogue was restored: {error}"),
        };
        self.unmount();
        Err(Failure { reason, cause: None, suspect: false })
    }

    /// Refuses to take a blank tape while nothing of what is queued for its pool can be written: each would
    /// be labelled in vain, one after the other.
    fn worth_labelling(&self, vid: Vid, assign: Option<TapePoolId>) -> Result<(), SessionError> {
        let record = self.room.tape(vid)?;
        let tape_pool = match record.state {
            TapeState::Scratch => assign,
            TapeState::Labelling => record.tape_pool,
            _ => None,
        };
        let Some(tape_pool) = tape_pool else { return Ok(()) };
        if self.in_doubt.rests(self.room.steady()) {
            return Err(SessionError::DriveInDoubt { vid, drive: self.name.clone() });
        }
        if self.room.has_no_room_for_work() {
            self.room.catalogue.check_room().map_err(ArchiveError::Store)?;
        }
        if plan::has_work(&self.room, tape_pool, record.capacity)? {
            return Ok(());
        }
        let tape_pool = self.room.classes.tape_pool_name(tape_pool);
        Err(SessionError::NothingToWrite { vid, tape_pool })
    }

    /// Looks at a suspect tape without labels: if nothing is on it that must not be lost, it is scratch
    /// again, or labelled the next time if its labelling failed. The drive is empty afterwards, so this is no
    /// mount that ended well, whatever was found.
    fn try_unlabelled(&mut self, vid: Vid) -> Result<(), Failure> {
        let failure = match self.may_be_labelled(vid) {
            Ok(state) => {
                self.room.set_tape_aside(vid, state, "tried again: there is nothing on it");
                self.room.end_rest(vid);
                let reason =
                    format!("tape {vid} was suspect, and has nothing on it: it is taken into use again");
                Failure { reason, cause: None, suspect: false }
            }
            Err(error) => {
                note_drive(&mut self.broken, &error);
                if is_the_tapes_fault(&error) {
                    self.room.suspect_tape(vid, error.cause(), &error.to_string(), false);
                }
                error.failure()
            }
        };
        self.unmount();
        Err(failure)
    }

    /// What the mounted tape without labels becomes, since labelling it destroys nothing.
    fn may_be_labelled(&mut self, vid: Vid) -> Result<TapeState, SessionError> {
        let record = mounted_record(&self.room, vid)?;
        if let Some(uuid) = record.uuid {
            let keys = self.room.settings.tape_keys();
            match keys.is_empty() {
                true => mover::check_may_be_labelled(self.drive.as_mut(), vid, uuid, record.replaces)?,
                false => {
                    let volumes = (uuid, record.replaces);
                    mover::check_encrypted_may_be_labelled(self.drive.as_mut(), vid, volumes, &keys)?;
                }
            }
            return Ok(TapeState::Labelling);
        }
        self.need_blank(vid, record.replaces)?;
        Ok(TapeState::Scratch)
    }

    /// Refuses a cartridge that holds anything but the volume that may be destroyed.
    fn need_blank(&mut self, vid: Vid, replaces: Option<Uuid>) -> Result<(), SessionError> {
        match mover::identify(self.drive.as_mut()) {
            Ok(mover::Found::Blank) => Ok(()),
            Ok(mover::Found::Volume { uuid, .. }) if Some(uuid) == replaces => Ok(()),
            Ok(found) => Err(VolumeError::NotBlank { vid, found }.into()),
            Err(VolumeError::Tape(error)) if error.is_of_the_key() => {
                let found = mover::Found::Foreign(error.to_string());
                Err(VolumeError::NotBlank { vid, found }.into())
            }
            Err(error) => Err(error.into()),
        }
    }

    /// Brings a cartridge into the drive; what a failure before has left in it goes out first.
    fn bring(&mut self, vid: Vid) -> Result<(), LibraryError> {
        match self.room.library.mount(vid, &self.name) {
            Err(LibraryError::DriveFull { .. }) => {
                match self.room.library.unmount(&self.name) {
                    Ok(_) | Err(LibraryError::UnmountFlush { .. }) => {}
                    Err(error) => return Err(error),
                }
                self.room.library.mount(vid, &self.name)
            }
            other => other,
        }
    }

    /// An open run that the tape itself does not let us close: it ends here.
    fn give_up(&mut self, vid: Vid, why: &str) {
        let run = self.room.tape(vid).ok().and_then(|record| record.run);
        if let Some(run) = run
            && let Err(error) = adopt::give_up_run(&self.room, run, vid, why)
        {
            tracing::error!(%vid, %error, "an open run stays open");
        }
        if let Some(mounted) = &mut self.mounted {
            mounted.run = None;
        }
        self.room.set_tasks(vid, |tasks| tasks.recover = false);
    }

    /// The volume on the mounted tape, and the session that is still open on it.
    fn open_volume(
        &mut self,
        vid: Vid,
        assign: Option<TapePoolId>,
    ) -> Result<(Mounted, Option<(RunId, RunRecord)>), SessionError> {
        let room = Arc::clone(&self.room);
        let mut record = mounted_record(&room, vid)?;
        let replaces = record.replaces;
        if record.state == TapeState::Scratch
            && let Some(tape_pool) = assign
        {
            // Look before the tape is given a name: a foreign cartridge stays as it is.
            self.need_blank(vid, replaces)?;
            // So it does in a drive that cannot write to it as the pool is to be written.
            if let Some(need) = room.key_needed(&record, assign) {
                let setting = room.find_key(&need);
                let setting = setting.map_err(|source| VolumeError::Key { vid, source })?;
                self.drive.set_encryption(Some(&setting)).map_err(VolumeError::from)?;
                self.drive.set_encryption(None).map_err(VolumeError::from)?;
            }
            let uuid = (room.random_uuid)().ok_or(ArchiveError::NoEntropy)?;
            room.execute(Command::AssignTape { vid, tape_pool, uuid })?;
            record = room.tape(vid)?;
        }
        let mounted = |volume, index_fault, unverified, key| Mounted {
            key,
            vid,
            volume,
            run: None,
            writing: WritingSession::new(room.settings.tape.writing_rules(), Timestamp(0)),
            failed: false,
            segment_left_out: false,
            index_fault,
            unverified,
        };
        let uuid = match (record.state, record.uuid) {
            (TapeState::Labelling, Some(uuid)) => {
                let (volume, key) = self.label(vid, uuid, &record, replaces)?;
                return Ok((mounted(volume, None, Vec::new(), key), None));
            }
            (_, Some(uuid)) => uuid,
            (_, None) => return Err(ArchiveError::NoSuchTape(vid).into()),
        };
        let mut key = None;
        let (volume, index_fault, unverified) =
            open_labelled(&room, self.drive.as_mut(), (vid, uuid), &record, &mut key)?;
        // No drive must tell, and a tape is read without.
        if record.state == TapeState::Active
            && let Ok(left) = self.drive.remaining()
        {
            match room.tape_has_left(vid, left) {
                Ok(true) => {}
                Ok(false) => {
                    return Err(SessionError::HoldsNothing { vid, drive: self.name.clone(), told: left });
                }
                // It is read, and written, by what was known before.
                Err(error) => tracing::warn!(%vid, %error, "what a tape holds cannot be noted"),
            }
        }
        if let Some(fault) = volume.label_fault()
            && record.state == TapeState::Active
        {
            room.set_tape_aside(vid, TapeState::ReadOnly, fault);
        }
        let open = record.run.map(|run| room.read(|view| view.run(run)).map(|found| (run, found)));
        let open = match open.transpose()? {
            Some((id, Some(run))) if run.ended.is_none() => Some((id, run)),
            _ => None,
        };
        Ok((mounted(volume, index_fault, unverified, key), open))
    }

    /// Labels a tape, with its pool's current key if that has one. Which key it is stands in the catalogue
    /// before anything stands on the tape.
    fn label(
        &mut self,
        vid: Vid,
        uuid: Uuid,
        record: &TapeRecord,
        replaces: Option<Uuid>,
    ) -> Result<(Volume, Option<TapeKey>), SessionError> {
        let block_size = self.room.block_size();
        let now = self.room.now();
        let need = self.room.key_needed(record, None);
        let setting = need.as_ref().map(|need| self.room.find_key(need)).transpose();
        let setting = setting.map_err(|source| VolumeError::Key { vid, source })?;
        let key = need.zip(setting.as_ref()).map(|(need, setting)| need.key_of(setting));
        assert_eq!(
            key.as_ref().map(|key| &key.id),
            self.room.current_key(record.tape_pool),
            "a pool with a key has all its new tapes encrypted with it"
        );
        let keys = self.room.settings.tape_keys();
        let with = (!keys.is_empty()).then_some(LabelKeys { keys: &keys, setting: setting.as_ref() });
        if record.key != key {
            self.room.execute(Command::SetTapeKey { vid, key: key.clone() })?;
        }
        let volume = Volume::label(self.drive.as_mut(), vid, uuid, block_size, replaces, with, now)?;
        let end = self.drive.space_to_end_of_data(Partition::Data)?;
        self.room.execute(Command::TapeLabelled {
            vid,
            generation: volume.generation(),
            index_block: volume.index_block(),
            end_of_data: end.block,
        })?;
        tracing::info!(%vid, %uuid, drive = %self.name, "labelled");
        let told = self.drive.remaining()?;
        if !self.room.empty_tape_holds(vid, told)? {
            return Err(SessionError::HoldsNothing { vid, drive: self.name.clone(), told });
        }
        self.in_doubt.works();
        Ok((volume, key))
    }

    /// Writes what is owed to the tape and brings it to its slot. The drive is empty afterwards, whatever
    /// happened.
    pub(super) fn unmount(&mut self) {
        if let Some(mut tape) = self.on_tape()
            && let Err(error) = tape.close_volume()
        {
            tape.fail(&error);
        }
        let alerts = self.tell_alerts();
        self.room.heard_of_cleaning(&self.name, &alerts);
        self.mounts.unmounting(&self.room, self.drive.as_mut(), &alerts);
        let mut failed = None;
        match self.room.library.unmount(&self.name) {
            Ok(_) => {}
            // It is in its slot all the same, and what counts was flushed before.
            Err(error @ (LibraryError::UnmountFlush { .. } | LibraryError::DriveEmpty { .. })) => {
                tracing::error!(drive = %self.name, %error, "unmount");
                failed = Some(error.to_string());
            }
            Err(error) => {
                failed = Some(error.to_string());
                let wants_cleaning = matches!(
                    &error,
                    LibraryError::UnloadFailed { source, .. }
                        if matches!(**source, TapeError::CleaningNeeded { .. })
                );
                self.broken.get_or_insert(Broken { reason: error.to_string(), wants_cleaning });
            }
        }
        self.mounts.unmounted(&self.room, failed);
        if let Some(mounted) = self.mounted.take() {
            self.room.forget_room_indexes(mounted.vid);
            self.room.post_tape(mounted.vid);
        }
    }
}

impl DriveThread {
    /// What the drive says of itself and of the medium goes to the log, where a site's monitoring finds it.
    fn tell_alerts(&mut self) -> Vec<TapeAlert> {
        let vid = self.mounted.as_ref().map(|mounted| mounted.vid);
        let alerts = self.drive.alerts().unwrap_or_else(|error| {
            tracing::debug!(drive = %self.name, %error, "the drive's flags are not known");
            Vec::new()
        });
        for alert in &alerts {
            tracing::warn!(drive = %self.name, ?vid, %alert, "the drive asks for attention");
        }
        alerts
    }
}

/// Whether what is in the drive is another cartridge than the one that was sent for. A label that is damaged
/// is this one's.
fn is_another_cartridge(error: &SessionError) -> bool {
    let SessionError::Volume(VolumeError::WrongLabel { found, .. }) = error else { return false };
    matches!(found, mover::Found::Blank | mover::Found::Volume { .. })
}

/// Counts the mount of a tape, and gives what is known of it.
fn mounted_record(room: &Tape, vid: Vid) -> Result<TapeRecord, SessionError> {
    room.execute(Command::CountMount { vid })?;
    let mut record = room.tape(vid)?;
    // A restored catalogue may not know that its tape was reused, or by whom.
    if room.read(|view| view.quarantine())?.is_some() {
        record.replaces = None;
    }
    Ok(record)
}

/// Gives the drive the key of a labelled tape, before anything behind its labels is read or written, and
/// tells it. The catalogue of an instance that was restored may not know that a tape is encrypted: the tape
/// shows it.
fn unlock(
    room: &Tape,
    drive: &mut dyn TapeDrive,
    vid: Vid,
    record: &TapeRecord,
) -> Result<Option<TapeKey>, SessionError> {
    if record.key.is_none() && room.settings.tape_keys().is_empty() {
        return Ok(None);
    }
    let differs = |found: String, known: &TapeKey| VolumeError::Key {
        vid,
        source: KeyError::Differs { found, known: known.clone() },
    };
    let key = match (mover::shown_key(drive, vid)?, record.key.clone()) {
        (Shown::Key(shown), Some(known)) if shown != known => {
            return Err(differs(format!("key {shown}"), &known).into());
        }
        (Shown::Clear, Some(known)) => return Err(differs("no key of Kist".to_owned(), &known).into()),
        (Shown::Clear | Shown::Nothing, None) => return Ok(None),
        (Shown::Key(shown), None) => {
            // Before it is asked for: if it is missing the tape is known to wait for it.
            room.execute(Command::SetTapeKey { vid, key: Some(shown.clone()) })?;
            shown
        }
        (_, Some(known)) => known,
    };
    let setting = room.find_key(&crate::keys::KeyNeed::of(&key));
    let setting = setting.map_err(|source| VolumeError::Key { vid, source })?;
    mover::unlock(drive, vid, &setting)?;
    Ok(Some(key))
}

/// Loads the volume at its newest index and enters what was flushed after it: a session that ended without an
/// index has left such containers, and the next index takes them in. A newest index that cannot be used is
/// replaced by what the index partition and the catalogue know; the second value says why. The third are
/// copies entered that took the place of others.
#[allow(clippy::type_complexity)]
fn open_labelled(
    room: &Tape,
    drive: &mut dyn TapeDrive,
    (vid, uuid): (Vid, Uuid),
    record: &TapeRecord,
    key: &mut Option<TapeKey>,
) -> Result<(Volume, Option<String>, Vec<ContainerId>), SessionError> {
    let (generation, index_block) = (record.generation, record.index_block);
    let (mut volume, fault) =
        Volume::open_or_mend(drive, (vid, uuid), generation, index_block, room.now(), |drive| {
            *key = unlock(room, drive, vid, record)?;
            Ok::<(), SessionError>(())
        })?;
    let mut from = volume.enter_from();
    let strays_from = match &fault {
        Some(fault) => {
            tracing::error!(%vid, fault, "the newest index is damaged: it is made anew");
            from
        }
        None => volume.behind_index(),
    };
    let mut unverified = Vec::new();
    loop {
        let content = room.read(|view| view.content(vid, from, 1_000))?;
        let Some((last, _)) = content.last() else { break };
        from = BlockAddress(last.0 + 1);
        for (block, container) in content {
            if super::plan::enter(room, &mut volume, container, block)? {
                unverified.push(container);
            }
        }
    }
    let end = match record.run {
        Some(_) => drive.space_to_end_of_data(Partition::Data)?.block,
        None => record.end_of_data,
    };
    adopt::pass_over_strays(room, drive, &mut volume, strays_from, end, fault.is_some())?;
    super::base_on_tape::forget_missing(room, vid, &volume)?;
    Ok((volume, fault, unverified))
}
