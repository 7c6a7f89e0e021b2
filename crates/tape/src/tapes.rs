//! What an operator has done with tapes: check, repack, reclaim; and taking drives out of use.

use std::sync::PoisonError;

use base::{BlockAddress, ByteCount, ContainerId, Duration, TapePoolId, Timestamp, Vid};
use catalogue::{Command, Object, Rejection, TapeRecord, TapeState};
use scheduler::Event;

use crate::maintenance::{AskedCheck, Repack};
use crate::reasons::Waiting;
use crate::room::Tape;
use crate::sessions::write_again;
use crate::why_repack::{RepackWait, is_repacked};
use ground::ArchiveError;
pub(crate) use ground::is_unidentified;
use ground::truncated;
use scheduler::Reason;

/// Places of damage that a check tells; it counts all.
pub const DAMAGE_TOLD_MAX: usize = 1_000;
/// Tapes in one call for a check.
pub const CHECK_TAPES_MAX: usize = 1_000;

/// How far the check of a tape is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum CheckState {
    /// It waits for a drive.
    Waiting,
    /// The tape is being read.
    Running,
    /// Everything was read.
    Done,
    /// It ended before that, since the tape cannot be mounted before somebody does something about it.
    Failed,
    /// An operator has called it off.
    Stopped,
}

/// What on a tape is damaged.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum DamagedPart {
    /// A label.
    Label,
    /// An index.
    Index,
    /// A change-log segment.
    Segment,
    /// A base of the catalogue.
    Base,
    /// The cartridge memory.
    Memory,
    /// A container.
    Container,
    /// A block of which nothing is known.
    Block,
}

/// A place on a tape that does not hold what it should.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TapeDamage {
    /// What it is.
    pub part: DamagedPart,
    /// The block, on the data partition unless `reason` says otherwise.
    pub block: BlockAddress,
    /// The container, if it is one.
    pub container: Option<ContainerId>,
    /// Its path in the volume.
    pub tape_path: String,
    /// Files whose bytes are hit.
    pub files: Vec<String>,
    /// How many more there are.
    pub more_files: u64,
    /// What is wrong.
    pub reason: String,
}

/// The check of a tape. It is forgotten when the server stops.
#[derive(Clone, PartialEq, Debug)]
pub struct TapeCheck {
    /// The tape.
    pub vid: Vid,
    /// How far it is.
    pub state: CheckState,
    /// Why it does not go on, or has ended before all was read, if so.
    pub reason: String,
    /// When it was asked for.
    pub asked: Timestamp,
    /// When reading began.
    pub began: Option<Timestamp>,
    /// When all was read, or it ended before that.
    pub ended: Option<Timestamp>,
    /// Containers on the tape when it was asked for.
    pub containers: u64,
    /// Containers read.
    pub containers_checked: u64,
    /// Bytes of all containers.
    pub bytes: ByteCount,
    /// Bytes of those that were read.
    pub bytes_checked: ByteCount,
    /// For how long the tape was read, before the present session.
    pub busy: Duration,
    /// Whole indexes, on both partitions.
    pub indexes: u64,
    /// Whole change-log segments.
    pub segments: u64,
    /// Blocks that sessions cut short have left; they are no damage.
    pub torn_blocks: u64,
    /// Damage, at most [`DAMAGE_TOLD_MAX`] places.
    pub damage: Vec<TapeDamage>,
    /// All places of damage.
    pub damage_count: u64,
}

impl TapeCheck {
    /// Whether it waits or runs.
    #[must_use]
    pub fn goes_on(&self) -> bool {
        matches!(self.state, CheckState::Waiting | CheckState::Running)
    }

    /// Bytes a second while the tape was read; 0 if that is not known yet.
    #[must_use]
    pub fn rate(&self) -> f64 {
        let seconds = self.busy.as_secs_f64();
        if seconds > 0.0 { self.bytes_checked.0 as f64 / seconds } else { 0.0 }
    }

    /// How long the rest takes at this rate; `None` if that is not known.
    #[must_use]
    pub fn left(&self) -> Option<Duration> {
        let rest = self.bytes.0.saturating_sub(self.bytes_checked.0) as f64;
        let seconds = rest / self.rate();
        (seconds.is_finite() && seconds < 1e9).then(|| Duration::from_secs_f64(seconds))
    }
}

/// How far a repack is, since it began or since the server started.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct TapeRepack {
    /// Containers that stand on other tapes now, read back.
    pub moved: u64,
    /// Their bytes.
    pub bytes: ByteCount,
    /// Containers that nobody needed.
    pub dropped: u64,
    /// Containers whose bytes no tape can give now.
    pub stuck: u64,
    /// Containers on their way.
    pub under_way: u64,
    /// Containers still on the tape.
    pub left: u64,
    /// Whether nothing is left on the tape.
    pub done: bool,
    /// What the next of them waits for.
    pub waits: Option<RepackWait>,
}

/// What is told of a cartridge that the library cannot identify, with what can be done about it.
fn unidentified_text(vid: Vid) -> String {
    format!(
        "the library cannot identify it: nothing is written there or read; kist tape dump {vid} tells why; \
         repair it, or take it out of the library, and restart the server. Behind a changer its label names \
         no medium that is known: set cartridge_capacity in kist.toml"
    )
}

/// Why a tape is in its state, for people.
pub(crate) fn told(vid: Vid, record: &TapeRecord) -> String {
    let said = record.told(vid);
    match (is_unidentified(record), record.capacity.0) {
        (true, _) => unidentified_text(vid),
        (false, 0) => {
            let said = if said.is_empty() { "disabled" } else { &said };
            format!("{said}; the library cannot identify it: kist tape dump {vid} tells why")
        }
        (false, _) => said,
    }
}

/// The state of a tape and why, in a sentence; of one that is disabled also what gives it back to use.
pub(crate) fn state_told(vid: Vid, record: &TapeRecord) -> String {
    let said = record.told(vid);
    let mut text = format!("it is {}", record.state.word());
    if !said.is_empty() {
        text.push_str(&format!(": {said}"));
    }
    if record.state == TapeState::Disabled && !is_unidentified(record) {
        text.push_str(&format!("; to use it again: kist tape set {vid} active, or read-only"));
    }
    text
}

/// Refuses what needs more of a cartridge than that it is there.
pub(crate) fn need_identified(vid: Vid, record: &TapeRecord) -> Result<(), ArchiveError> {
    if !is_unidentified(record) {
        return Ok(());
    }
    Err(ArchiveError::Rejected(Rejection::WrongState {
        object: Object::Tape(vid),
        state: "a cartridge that its library cannot identify",
        needed: "repaired or taken out first (kist why with its VID tells what to do); until then it can \
                 only be disabled",
    }))
}

impl Tape {
    /// Has whole tapes read and compared with the catalogue, as soon as drives have nothing better to do.
    /// Damaged copies are written again from the pool or from other copies. A check that waits or runs
    /// already goes on.
    ///
    /// # Errors
    /// [`ArchiveError::NoSuchTape`]; [`ArchiveError::TapeNotLabelled`]; [`ArchiveError::Rejected`] if it is
    /// in no library, disabled or set aside. Nothing is done then.
    pub fn check_tapes(&self, vids: &[Vid]) -> Result<(), ArchiveError> {
        if vids.len() > CHECK_TAPES_MAX {
            return Err(ArchiveError::Limit { what: "tapes at once", limit: CHECK_TAPES_MAX as u64 });
        }
        let room = self;
        let mut checks = Vec::new();
        for vid in vids {
            let record = room.tape(*vid)?;
            if record.generation.0 == 0 {
                return Err(ArchiveError::TapeNotLabelled(*vid));
            }
            room.need_checkable(*vid)?;
            checks.push(TapeCheck::asked(*vid, room.now(), record.containers, record.committed));
        }
        for check in checks {
            let vid = check.vid;
            let number = {
                let mut maintenance = room.maintenance();
                if maintenance.checks.get(&vid).is_some_and(TapeCheck::goes_on) {
                    continue;
                }
                maintenance.checks.insert(vid, check);
                maintenance.checks_asked += 1;
                maintenance.checks_asked
            };
            let from = BlockAddress(0);
            room.set_tasks(vid, |tasks| tasks.check = Some(AskedCheck { number, from }));
            // It may have been taken out, or failed, since it was looked at.
            room.maintenance_follows(vid);
        }
        Ok(())
    }

    /// The last check of a tape since the server started.
    ///
    /// # Errors
    /// [`ArchiveError::NoSuchTape`].
    pub fn tape_check(&self, vid: Vid) -> Result<Option<TapeCheck>, ArchiveError> {
        let room = self;
        room.tape(vid)?;
        let check = room.maintenance().checks.get(&vid).cloned();
        let why = room.reason(Waiting::Maintenance(vid))?.unwrap_or(Reason::NothingWaits);
        Ok(check.map(|mut check| {
            if check.state == CheckState::Waiting {
                check.reason = match check.reason.is_empty() {
                    true => why.to_string(),
                    false => format!("{}; {why}", check.reason),
                };
            }
            check
        }))
    }

    /// Brings all that is needed of a tape to other tapes of its pool. Durable: a restart goes on. The tape
    /// stays readable and is not written any more: if it is being written, that session ends first.
    ///
    /// # Errors
    /// [`ArchiveError::NoSuchTape`]; [`ArchiveError::Rejected`] if it is not labelled, or disabled.
    pub fn repack_tape(&self, vid: Vid, reason: &str) -> Result<(), ArchiveError> {
        let room = self;
        need_identified(vid, &room.tape(vid)?)?;
        self.set_repacking(vid, reason)?;
        room.try_reads_now();
        room.repack_begin(vid)
    }

    /// How far the repack of a tape is; `None` if it is not repacked.
    ///
    /// # Errors
    /// [`ArchiveError::NoSuchTape`].
    pub fn tape_repack(&self, vid: Vid) -> Result<Option<TapeRepack>, ArchiveError> {
        let room = self;
        let record = room.tape(vid)?;
        if !is_repacked(&record) {
            return Ok(None);
        }
        let known = room.maintenance().repacks.get(&vid).cloned();
        let Repack { progress, under_way, .. } = known.unwrap_or_default();
        let (under_way, left) = (under_way.len() as u64, record.containers);
        let done = left == 0 && record.run.is_none();
        let waits = room.repack_waits_for(vid)?;
        Ok(Some(TapeRepack { under_way, left, done, waits, ..progress }))
    }

    /// Takes a tape drive out of use: at once if it is empty, else when its session has ended and the tape is
    /// in its slot. Durable on return: it stays so until [`Tape::drive_up`], whatever is restarted.
    ///
    /// # Errors
    /// [`ArchiveError::NoSuchDrive`]; if the catalogue cannot be written.
    pub fn drive_down(&self, drive: &str, reason: &str) -> Result<(), ArchiveError> {
        let room = self;
        room.known_drive(drive)?;
        let _one = room.ordering.lock().unwrap_or_else(PoisonError::into_inner);
        let reason = match reason.is_empty() {
            // One that is out of use already keeps the reason that it has.
            true => {
                let mut down = room.read(|view| view.drives_down())?.into_iter();
                let known = down.find(|(name, _)| name == drive).map(|(_, reason)| reason);
                known.unwrap_or_else(|| "taken out of use by an operator".to_owned())
            }
            false => truncated(reason, 512),
        };
        let down = Some(reason.clone());
        room.execute(Command::SetDriveDown { drive: drive.to_owned(), down })?;
        room.notifier.post(Event::RetireDrive(drive.to_owned(), reason));
        Ok(())
    }

    pub(crate) fn set_repacking(&self, vid: Vid, reason: &str) -> Result<(), ArchiveError> {
        let state = TapeState::Repacking;
        let reason = truncated(reason, 512);
        {
            let _one = self.tape_states();
            self.execute(Command::SetTapeState { vid, state, reason })?;
        }
        self.post_tape(vid);
        Ok(())
    }
}

/// The changes on tapes of a pool that count, of those that wait for no key: ascending ranges that neither
/// overlap nor touch.
pub(crate) fn covered(
    view: &catalogue::View<'_>,
    tape_pool: TapePoolId,
    counts: impl Fn(Vid, &TapeRecord) -> bool,
) -> Result<Vec<(u64, u64)>, catalogue::ReadError> {
    let mut ranges = Vec::new();
    for (vid, tape) in view.tapes()? {
        if tape.tape_pool == Some(tape_pool) && counts(vid, &tape) && !view.lacks_key(&tape)? {
            ranges.extend(view.segments(vid)?);
        }
    }
    Ok(catalogue::merged_ranges(ranges))
}

/// What the last server left to be done.
pub(crate) fn resume(room: &Tape) -> Result<(), ArchiveError> {
    for (id, run) in room.read(|view| view.open_runs())? {
        let vid = run.vid;
        if room.tape(vid)?.history.is_some_and(|history| history.retry.is_some()) {
            // It is suspect, and sent for when it has rested.
            continue;
        }
        tracing::warn!(%vid, run = %id, "a tape session was left open: it is closed when a drive is free");
        room.set_tasks(run.vid, |tasks| tasks.recover = true);
    }
    for (vid, record) in room.read(|view| view.tapes())? {
        if record.state == TapeState::Repacking {
            room.repack_begin(vid)?;
        }
        // A tape that was set aside is never under an index again: one that fell between the end of its run
        // and this would keep its last copies from being safe for ever.
        if record.generation.0 > 0 && record.run.is_none() {
            match record.state {
                TapeState::Active => room.close_what_is_open(vid),
                _ => write_again(room, vid, "no index covers it, and none will")?,
            }
        }
    }
    room.resume_suspects()
}
