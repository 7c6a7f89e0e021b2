//! Whether a tape may be mounted for work that nobody waits for, as it stands; and how its check ends before
//! all was read.

use base::Vid;
use catalogue::{Object, Rejection, TapeRecord, TapeState};

use crate::CheckState;
use crate::maintenance::Maintenance;
use crate::room::Tape;
use crate::tapes::{is_unidentified, state_told};
use ground::{ArchiveError, truncated};

/// Most bytes of the reason why a check has ended.
const REASON_MAX: usize = 512;
/// What is told of a tape that is in no library.
pub(crate) const PUT_IT_IN: &str = "no library holds it: put it in";

/// What keeps a tape from being mounted for what nobody waits for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum HeldBack {
    /// No library holds it.
    Absent,
    /// It is about to be exported.
    Leaving,
    /// Nobody gives its key.
    KeyMissing,
    /// Its library cannot say what it is.
    Unidentified,
    /// An operator has taken it out of use.
    Disabled,
    /// It failed so often that an operator decides.
    SetAside,
    /// It failed, and is tried again by itself when it has rested.
    Resting,
}

impl HeldBack {
    /// Whether nothing but somebody's hand ends it.
    fn lasts(self) -> bool {
        !matches!(self, HeldBack::Resting | HeldBack::Leaving | HeldBack::KeyMissing)
    }
}

impl Tape {
    /// What keeps a tape from being mounted for what nobody waits for; of one whose record cannot be read
    /// the drive's thread finds out.
    pub(crate) fn held_back(&self, vid: Vid) -> Option<HeldBack> {
        if !self.libraries.holds(vid) {
            return Some(HeldBack::Absent);
        }
        let record = self.tape(vid).ok()?;
        match record.state {
            TapeState::Disabled => Some(HeldBack::Disabled),
            _ if is_unidentified(&record) => Some(HeldBack::Unidentified),
            _ if self.is_leaving(vid) => Some(HeldBack::Leaving),
            _ if self.key_missing(&record).is_some() => Some(HeldBack::KeyMissing),
            _ if self.is_given_up(vid, &record) => Some(HeldBack::SetAside),
            TapeState::Suspect => Some(HeldBack::Resting),
            _ => None,
        }
    }

    /// Whether a tape is suspect and not tried again by itself. By its record too, which is first to know of
    /// a failure.
    pub(crate) fn is_given_up(&self, vid: Vid, record: &TapeRecord) -> bool {
        let is_tried = || self.is_to_be_tried(vid) || record.history.is_none_or(|it| it.retry.is_some());
        record.state == TapeState::Suspect && !is_tried()
    }

    /// Whether a tape is to be mounted for what is to be done on it. What a session left open is closed, and
    /// a tape looked at since a restore, whatever its state: what comes of these ends them. A suspect tape is
    /// also asked for what no other may have: each mount that fails brings it nearer to being set aside.
    pub(crate) fn is_due(&self, maintenance: &Maintenance, vid: Vid) -> bool {
        match self.held_back(vid) {
            None => maintenance.is_due(vid),
            Some(HeldBack::Absent | HeldBack::Unidentified) => false,
            // A restored catalogue may not know which key it has: it shows that itself, once.
            Some(HeldBack::KeyMissing) => {
                self.settling.asks(vid) && !self.keys_missing.was_shown(vid) && maintenance.is_urgent(vid)
            }
            // The next mount tries it.
            Some(HeldBack::Resting) if self.tape_retries.is_due(vid, self.now()) => true,
            Some(HeldBack::Resting) => maintenance.is_urgent(vid) || maintenance.next_read(vid).is_some(),
            Some(HeldBack::Disabled | HeldBack::SetAside | HeldBack::Leaving) => maintenance.is_urgent(vid),
        }
    }

    /// What keeps a tape from what is to be done on it, and how that is told; `None` if nothing does, or
    /// nothing is to be done.
    pub(crate) fn why_held_back(&self, vid: Vid) -> Option<String> {
        let is_wanted = {
            let maintenance = self.maintenance();
            maintenance.is_due(vid) && !self.is_due(&maintenance, vid)
        };
        self.held_back(vid).filter(|_| is_wanted).map(|held| self.held_back_text(vid, held))
    }

    fn held_back_text(&self, vid: Vid, held: HeldBack) -> String {
        match (held, self.tape(vid)) {
            (_, Err(_)) => PUT_IT_IN.to_owned(),
            (HeldBack::Absent, Ok(record)) => crate::exports::absent_text(&record),
            (HeldBack::KeyMissing, Ok(record)) => self.held_for_key(vid, &record).unwrap_or_default(),
            (HeldBack::Leaving, Ok(_)) => self.leaving_text(vid),
            (HeldBack::SetAside, Ok(record)) => {
                format!("{}: kist tape set {vid} active, if it is well", state_told(vid, &record))
            }
            (_, Ok(record)) => state_told(vid, &record),
        }
    }

    /// The state of a tape has changed: what is to be done on it is due or not any more, its check ends if
    /// only somebody's hand brings the tape back, and what it was to give is read from other tapes.
    pub(crate) fn maintenance_follows(&self, vid: Vid) {
        let lasting = self.held_back(vid).filter(|held| held.lasts());
        if let Some(held) = lasting {
            self.end_check(vid, CheckState::Failed, &self.held_back_text(vid, held));
        }
        self.end_try(vid);
        if lasting.is_some() {
            self.have_others_read(vid);
        }
    }

    /// What a tape was to give is read from other tapes, if they have it.
    pub(crate) fn have_others_read(&self, vid: Vid) {
        if let Err(error) = self.read_elsewhere(vid) {
            tracing::error!(%vid, %error, "what the tape was to give waits for it");
        }
    }

    /// Ends the check of a tape that waits or runs. One that runs stops at its next block of a container, or
    /// between two things on the tape.
    pub(crate) fn end_check(&self, vid: Vid, state: CheckState, reason: &str) {
        let now = self.now();
        let was_going = {
            let mut maintenance = self.maintenance();
            let check = maintenance.checks.get_mut(&vid).filter(|check| check.goes_on());
            check
                .map(|check| {
                    (check.state, check.ended) = (state, Some(now));
                    check.reason = truncated(reason, REASON_MAX);
                })
                .is_some()
        };
        if was_going {
            tracing::warn!(%vid, ?state, reason, "the check of a tape has ended before all was read");
        }
        let is_asked = self.maintenance().tapes.get(&vid).is_some_and(|tasks| tasks.check.is_some());
        if is_asked {
            self.set_tasks(vid, |tasks| tasks.check = None);
        }
    }

    /// Whether a check was ended while it ran: another one may have been asked for since.
    pub(crate) fn is_check_over(&self, vid: Vid, number: u64) -> bool {
        let maintenance = self.maintenance();
        let asked = maintenance.tapes.get(&vid).and_then(|tasks| tasks.check);
        asked.is_none_or(|asked| asked.number != number)
    }

    /// Refuses to check a tape that cannot be mounted before somebody does something about it.
    pub(crate) fn need_checkable(&self, vid: Vid) -> Result<(), ArchiveError> {
        let (state, needed) = match self.held_back(vid) {
            Some(HeldBack::Absent) => ("in no library", "in one to be checked: put it in"),
            Some(HeldBack::Leaving) => ("being exported", "in a library to be checked"),
            Some(HeldBack::Unidentified) => (
                "a cartridge that its library cannot identify",
                "repaired to be checked: kist tape dump with its VID tells why",
            ),
            Some(HeldBack::Disabled) => {
                ("disabled", "in use to be checked: kist tape set with its VID and active, or read-only")
            }
            Some(HeldBack::SetAside) => (
                "set aside: it failed too often",
                "given back to use to be checked: kist why with its VID tells what failed, kist tape set \
                 with its VID and active, or read-only, gives it back",
            ),
            Some(HeldBack::Resting | HeldBack::KeyMissing) | None => return Ok(()),
        };
        Err(ArchiveError::Rejected(Rejection::WrongState { object: Object::Tape(vid), state, needed }))
    }

    /// Calls off the checks of tapes that wait or run; what they found is still told. Nothing happens to
    /// tapes that are not being checked.
    ///
    /// # Errors
    /// [`ArchiveError::NoSuchTape`]. Nothing is done then.
    pub fn stop_checks(&self, vids: &[Vid]) -> Result<(), ArchiveError> {
        vids.iter().try_for_each(|vid| self.tape(*vid).map(drop))?;
        vids.iter()
            .for_each(|vid| self.end_check(*vid, CheckState::Stopped, "an operator has called it off"));
        Ok(())
    }
}
