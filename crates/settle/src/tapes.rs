//! Looks at tapes since a restore: what stands on them, and what of it the catalogue does not know.

use backup::tape::{LookError, TapeSeen, look};
use backup::{NotLookedAt, TapeLook};
use base::{BlockAddress, ByteCount, Duration, Vid};
use catalogue::{Command, RunEnd, TapeRecord, TapeState};
use library::{DriveName, TapeDrive};
use mover::{Found, VolumeError};
use scheduler::Event;

use crate::found::{self, VolumeFound};
use crate::progress::Question;
use crate::room::Settler;
use ground::truncated;
use ground::{ArchiveError, SettlingStage};

/// Containers of a tape looked up together.
const CONTENT_PAGE: usize = 4_096;
/// A drive that has not answered for so long while it looks at a tape is given up with it. The longest
/// command of an LTO drive, a locate over all of a worn tape, takes less than an hour.
pub const SILENT_MAX: Duration = Duration::from_secs(3_600);
/// Why drives are not in use while tapes are looked at that may be written.
pub const DRIVES_LOOK: &str = "it looks at tapes since the catalogue was restored, before any is written";

/// What a look at a tape has found.
enum Seen {
    /// What the catalogue expects.
    Good,
    /// The volume, and something speaks against writing to it.
    Aside(String),
    /// Another volume, or none: nothing that the catalogue expects is there.
    Gone(String),
    /// Nothing is known.
    Unseen(String),
    /// Nothing is known before somebody can be asked for the key that the catalogue says it has.
    NoKey(String),
}

/// What a look at a tape has found, and what of it the catalogue lacks.
struct Look {
    seen: Seen,
    found: Option<VolumeFound>,
}

impl From<Seen> for Look {
    fn from(seen: Seen) -> Self {
        Look { seen, found: None }
    }
}

/// What an error says of a tape. One that may be written, and whose key nobody could be asked for, is neither
/// set aside nor given up: that would last, and a program that gives keys may be late once.
fn unseen(record: &TapeRecord, error: &LookError) -> Look {
    let missing = match error {
        LookError::Volume(VolumeError::Key { source, .. }) if source.may_pass() => source.missing(),
        _ => None,
    };
    let known = record.key.as_ref().map(|key| &key.id);
    let waits = missing.is_some() && missing == known && record.may_be_written();
    let text = error.to_string();
    if waits { Seen::NoKey(text).into() } else { Seen::Unseen(text).into() }
}

impl Settler<'_> {
    /// Looks at tapes that may be written, in this drive, until none is left for it. With the last one of all
    /// drives what they hold is taken over, and tapes may be written again.
    pub fn look_at_written(&self, name: &DriveName, drive: &mut dyn TapeDrive) {
        let library = self.library.library_of(name);
        let given_up = self.settling.written.each(library, name.as_str(), |vid| {
            tracing::warn!(%vid, drive = %name, "a tape that may be written is looked at since the restore");
            match mount_and_look(self, name, drive, vid) {
                Ok(Some(volume)) => self.settling.looked_at_written(self.now(), volume),
                Ok(None) => self.settling.ask_also(library, vid),
                Err(why) => {
                    tracing::warn!(%vid, drive = %name, why, "a tape could not be looked at in this drive");
                    return Err(why);
                }
            }
            Ok(())
        });
        match given_up {
            Some(vid) if self.settling.look_again(library, vid) => {
                tracing::warn!(%vid, drive = %name, "a drive that was given up works again, its tape too");
            }
            Some(_) => {}
            None => leave(self),
        }
    }

    /// Finds out what is asked about a mounted tape that is not written, and takes over what it holds. Gives
    /// whether it can be used as the catalogue has it; `None` if nothing is asked about it.
    ///
    /// # Errors
    /// If the catalogue cannot be read, or not be told.
    pub fn answer(&self, drive: &mut dyn TapeDrive, vid: Vid) -> Result<Option<bool>, ArchiveError> {
        let Some(question) = self.settling.question(vid) else { return Ok(None) };
        let record = self.tape(vid)?;
        tracing::info!(%vid, ?question, "a tape is looked at since the restore");
        let look = match question {
            Question::Label => look_at(self, drive, vid, &record)?,
            Question::Content => content_of(self, drive, vid)?,
        };
        match &look.seen {
            Seen::Unseen(reason) => {
                not_seen(self, vid, question, reason)?;
                answered(self, vid);
                return Ok(Some(false));
            }
            Seen::NoKey(reason) => {
                tracing::warn!(%vid, reason, "a tape waits for its key to be looked at since the restore");
                return Ok(Some(false));
            }
            _ => {}
        }
        if question == Question::Content
            && let (Some(known), Some(here)) = (record.uuid, look.found.as_ref().map(VolumeFound::uuid))
            && known != here
        {
            drop_places(self, vid, &format!("the tape holds volume {here} since the restore"))?;
        }
        let is_good = matches!(look.seen, Seen::Good);
        let volume = act(self, vid, &record, look)?;
        found::take_over(self, volume.into_iter().collect())?;
        answered(self, vid);
        let after = self.tape(vid)?;
        Ok(Some(is_good && (after.uuid, after.state) == (record.uuid, record.state)))
    }

    /// A tape cannot be mounted, for a reason of its own: what is asked about it is not found out.
    pub fn could_not_mount(&self, vid: Vid, why: &str) {
        let Some(question) = self.settling.question(vid) else { return };
        if let Err(error) = not_seen(self, vid, question, why) {
            tracing::error!(%vid, %error, "a tape that could not be looked at is not set aside");
        }
        answered(self, vid);
    }
}

/// Gives up drives that look at tapes and were not heard of for [`SILENT_MAX`], with their tapes: these are
/// not written, and the others are. Not for a time in which the whole machine stood still, and not while the
/// robot may be what is stuck.
pub(crate) fn give_up_silent(settler: &Settler<'_>) {
    if settler.settling.stage() != Some(SettlingStage::WrittenTapes) {
        return;
    }
    for look in settler.settling.written.silent(settler.steady()) {
        if look.silent < SILENT_MAX || !settler.settling.written.give_up(&look) {
            continue;
        }
        let TapeLook { vid, drive, silent, .. } = look;
        let seconds = silent.as_secs();
        let why = format!("drive {drive} has it, and has not answered for {seconds} s");
        not_seen_or_later(settler, vid, &why);
        let reason = format!("it has not answered for {seconds} s while it looked at tape {vid}");
        tracing::error!(%vid, drive, reason, "nobody waits for a drive any more");
        settler.notifier.post(Event::DriveDown(drive.clone(), reason));
        conclude(settler, settler.settling.written.release(&drive));
    }
}

/// A drive takes part no more, or there is none.
pub(crate) fn leave(settler: &Settler<'_>) {
    conclude(settler, settler.settling.written.leave());
}

/// The last drive takes part no more: what could be looked at was looked at.
fn conclude(settler: &Settler<'_>, failed: Option<NotLookedAt>) {
    let Some(failed) = failed else { return };
    for (vid, why) in failed {
        let library = settler.libraries.of_tape(vid);
        let Some(why) = why else {
            // It is looked at when a drive can, before anything else is done with it.
            settler.settling.ask_also(library, vid);
            continue;
        };
        not_seen_or_later(settler, vid, &why);
    }
    let volumes = settler.settling.volumes();
    let vids: Vec<Vid> = volumes.iter().map(VolumeFound::vid).collect();
    if let Err(error) = found::take_over(settler, volumes) {
        tracing::error!(%error, "what tapes hold is not taken over: they are looked at again");
        vids.into_iter().for_each(|vid| settler.settling.ask_also(settler.libraries.of_tape(vid), vid));
    }
    settler.settling.written_are_known(settler.now());
}

/// Nothing is known of a tape that may be written. If it cannot be set aside it is looked at later.
fn not_seen_or_later(settler: &Settler<'_>, vid: Vid, why: &str) {
    if let Err(error) = not_seen(settler, vid, Question::Label, why) {
        tracing::error!(%vid, %error, "a tape that could not be looked at is not set aside");
        settler.settling.ask_also(settler.libraries.of_tape(vid), vid);
    }
}

/// The volume that is to be taken over, if there is anything; or why nothing is known of the tape. `None`: it
/// is looked at when its key is there.
fn mount_and_look(
    settler: &Settler<'_>,
    name: &DriveName,
    drive: &mut dyn TapeDrive,
    vid: Vid,
) -> Result<Option<Option<VolumeFound>>, String> {
    let queue = &settler.settling.written;
    let mounted = settler.library.mount(vid, name);
    queue.served(name.as_str());
    mounted.map_err(|error| error.to_string())?;
    let look = settler.tape(vid).and_then(|record| look_at(settler, drive, vid, &record));
    queue.leaves(name.as_str());
    let unmounted = settler.library.unmount(name);
    queue.served(name.as_str());
    unmounted.map_err(|error| error.to_string())?;
    if !queue.record(name.as_str()) {
        return Err("the drive came back too late".to_owned());
    }
    let look = look.map_err(|error| error.to_string())?;
    // A look takes minutes: an operator may have decided meanwhile.
    let record = settler.tape(vid).map_err(|error| error.to_string())?;
    match &look.seen {
        Seen::Unseen(reason) => return Err(reason.clone()),
        Seen::NoKey(reason) => {
            tracing::warn!(%vid, reason, "a tape waits for its key to be looked at since the restore");
            return Ok(None);
        }
        _ => {}
    }
    act(settler, vid, &record, look).map(Some).map_err(|error| error.to_string())
}

/// A tape needs not be asked for any more.
fn answered(settler: &Settler<'_>, vid: Vid) {
    settler.room.set_look(vid, false);
    settler.settling.answered(settler.now(), vid);
}

/// Nothing is known of a tape: it is not written, and if it counts nothing is evicted before it was seen.
pub(crate) fn not_seen(
    settler: &Settler<'_>,
    vid: Vid,
    question: Question,
    why: &str,
) -> Result<(), ArchiveError> {
    // First: if it cannot be set aside it is not seen all the same.
    let record = settler.tape(vid).inspect_err(|_| settler.settling.unseen(vid))?;
    let reason = format!("it could not be looked at after the restore: {why}");
    tracing::warn!(%vid, reason, "a tape was not seen");
    // Who disabled it knows that it is away, or not to be read.
    let counts = record.containers > 0
        || question == Question::Content
        // It may have been written since the point, and nobody has asked the library that has it.
        || record.may_be_written() && !settler.libraries.holds(vid) && settler.library.inventory().is_err();
    if record.state != TapeState::Disabled && counts {
        settler.settling.unseen(vid);
    } else if question == Question::Content {
        // All the same it may have what nothing else has.
        settler.settling.unsearched(vid);
    }
    if record.may_be_written() {
        set_aside(settler, vid, &record, &reason)?;
    }
    settler.room.post_tape(vid);
    Ok(())
}

/// Carries out what follows from a look. Gives the volume if it holds what may be taken over.
fn act(
    settler: &Settler<'_>,
    vid: Vid,
    record: &TapeRecord,
    look: Look,
) -> Result<Option<VolumeFound>, ArchiveError> {
    let Look { seen, found } = look;
    let is_needed = found.as_ref().is_some_and(VolumeFound::is_needed);
    let is_unread = found.as_ref().is_some_and(VolumeFound::is_unread);
    if is_unread {
        match record.state {
            TapeState::Disabled => settler.settling.unsearched(vid),
            _ => settler.settling.unseen(vid),
        }
    }
    if !is_unread && (record.may_be_written() || matches!(seen, Seen::Gone(_))) {
        settler.settling.content_known(vid);
    }
    match seen {
        Seen::Good | Seen::Unseen(_) | Seen::NoKey(_) => {}
        Seen::Aside(reason) if record.state == TapeState::Labelling => {
            // What it holds is taken over, and it is read only then; else nobody needs it.
            if !is_needed {
                set_state(settler, vid, record.state, TapeState::Disabled, &reason)?;
            }
        }
        Seen::Aside(reason) => set_aside(settler, vid, record, &reason)?,
        Seen::Gone(reason) => {
            set_aside(settler, vid, record, &reason)?;
            let aside = settler.tape(vid)?.state;
            drop_places(settler, vid, &reason)?;
            // What it holds now is read; else nobody needs it.
            if !is_needed {
                set_state(settler, vid, aside, TapeState::Disabled, &reason)?;
            }
        }
    }
    settler.room.post_tape(vid);
    Ok(found)
}

/// What the volume in the drive holds of the catalogue's files, if it is one of this tape.
fn content_of(settler: &Settler<'_>, drive: &mut dyn TapeDrive, vid: Vid) -> Result<Look, ArchiveError> {
    Ok(match look(drive, &settler.settings.tape_keys()) {
        Ok(Ok(volume)) if volume.vid == vid => {
            Look { seen: Seen::Good, found: found::gather(settler, drive, &volume, false)? }
        }
        Ok(_) => Seen::Good.into(),
        Err(error) => {
            tracing::warn!(%vid, %error, "what a tape holds is not known");
            Seen::Unseen(error.to_string()).into()
        }
    })
}

/// An operator's word since the tape was looked at counts more.
fn set_state(
    settler: &Settler<'_>,
    vid: Vid,
    seen: TapeState,
    state: TapeState,
    reason: &str,
) -> Result<(), ArchiveError> {
    let change = Command::SetTapeState { vid, state, reason: truncated(reason, 512) };
    if settler.room.change_state(vid, seen, change)? {
        tracing::warn!(%vid, reason, ?state, "a tape is set aside");
    } else {
        tracing::warn!(%vid, reason, "a tape would be set aside, but somebody has set its state meanwhile");
    }
    Ok(())
}

/// The tape is read only from now on. A tape that is not written already stays as it is.
fn set_aside(settler: &Settler<'_>, vid: Vid, record: &TapeRecord, reason: &str) -> Result<(), ArchiveError> {
    match record.run {
        Some(run) => {
            tracing::warn!(%vid, reason, "the tape is read only from now on");
            // What an operator has set meanwhile is more than that already, or stays.
            settler.execute(Command::EndRun {
                run,
                end: RunEnd::Torn,
                tape_state: TapeState::ReadOnly,
                reason: truncated(reason, 512),
                end_of_data: None,
                torn: ByteCount(0),
            })?;
        }
        None if record.state == TapeState::Active => {
            set_state(settler, vid, TapeState::Active, TapeState::ReadOnly, reason)?;
        }
        None => {}
    }
    // What no index of it covers is written again when it is known what the pool holds (`tapes::resume`).
    Ok(())
}

/// Nothing is expected on a tape any more: what stood there is written again from what the pool has.
fn drop_places(settler: &Settler<'_>, vid: Vid, reason: &str) -> Result<(), ArchiveError> {
    let mut from = BlockAddress(0);
    loop {
        let content = settler.read(|view| view.content(vid, from, CONTENT_PAGE))?;
        let Some((last, _)) = content.last() else { return Ok(()) };
        settler.settling.place_lost();
        from = BlockAddress(last.0 + 1);
        for (block, container) in content {
            settler.room.drop_place(container, vid, block, reason)?;
        }
    }
}

fn look_at(
    settler: &Settler<'_>,
    drive: &mut dyn TapeDrive,
    vid: Vid,
    record: &TapeRecord,
) -> Result<Look, ArchiveError> {
    let Some(uuid) = record.uuid else { return Ok(Seen::Good.into()) };
    if record.state == TapeState::Labelling {
        let keys = settler.settings.tape_keys();
        let checked = match keys.is_empty() {
            true => mover::check_may_be_labelled(drive, vid, uuid, None),
            false => mover::check_encrypted_may_be_labelled(drive, vid, (uuid, None), &keys),
        };
        return match checked {
            Ok(()) => Ok(Seen::Good.into()),
            // It was labelled, and perhaps written, behind the point: what it holds may be needed.
            Err(error @ mover::VolumeError::NotBlank { .. }) => {
                let now = content_of(settler, drive, vid)?;
                let seen = Seen::Aside(error.to_string());
                Ok(if matches!(now.seen, Seen::Unseen(_)) { now } else { Look { seen, ..now } })
            }
            Err(error) => Ok(unseen(record, &error.into())),
        };
    }
    match mover::identify(drive) {
        Ok(Found::Volume { uuid: found, .. }) if found == uuid => {}
        Ok(found @ (Found::Volume { .. } | Found::Blank)) => {
            let seen = Seen::Gone(format!("it holds {found} since the restore, not volume {uuid}"));
            let now = content_of(settler, drive, vid)?;
            // What it holds now may be needed: it is looked at again.
            return Ok(if matches!(now.seen, Seen::Unseen(_)) { now } else { Look { seen, ..now } });
        }
        Ok(found) => return Ok(Seen::Unseen(format!("it holds {found}")).into()),
        Err(error) => return Ok(Seen::Unseen(error.to_string()).into()),
    }
    if !record.may_be_written() {
        return Ok(Seen::Good.into());
    }
    match look(drive, &settler.settings.tape_keys()) {
        Ok(Ok(volume)) => {
            let seen = why_not_to_write(settler, &volume, record)?;
            let found = found::gather(settler, drive, &volume, !matches!(seen, Seen::Good))?;
            Ok(Look { seen, found })
        }
        // It is the volume: what is wrong with it is for those who read it to find.
        Ok(Err(found)) => Ok(Seen::Aside(format!("it holds {found}")).into()),
        // Nothing is known of what it holds.
        Err(error) => Ok(unseen(record, &error)),
    }
}

fn why_not_to_write(
    settler: &Settler<'_>,
    seen: &TapeSeen,
    record: &TapeRecord,
) -> Result<Seen, ArchiveError> {
    let unknown = count_unknown(settler, seen)?;
    if unknown > 0 {
        let reason = format!("it holds {unknown} containers that the restored catalogue does not know");
        return Ok(Seen::Aside(reason));
    }
    let (end, known) = (seen.end_of_data, record.end_of_data);
    if end < known {
        return Ok(Seen::Aside(format!("its end of data is block {end}, the catalogue says {known}")));
    }
    // With an open run, what stands behind is that run's: the mount that closes it looks at it.
    if record.run.is_none() && end > known {
        let reason = format!("its end of data is block {end}, the restored catalogue knows {known} blocks");
        return Ok(Seen::Aside(reason));
    }
    Ok(Seen::Good)
}

fn count_unknown(settler: &Settler<'_>, seen: &TapeSeen) -> Result<u64, ArchiveError> {
    let mut unknown = 0;
    for named in seen.containers() {
        let known = settler.read(|view| view.is_known_there(seen.vid, named.container, named.block))?;
        unknown += u64::from(!known);
    }
    Ok(unknown)
}
