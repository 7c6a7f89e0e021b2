//! Keys of tapes: which one a tape needs, and what waits for one that nobody gives. A tape whose key is
//! missing is as well as before: neither it nor another one with this key is mounted, it is told of, and the
//! key is asked for again and again, so that all goes on by itself when it is there.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::PoisonError;

use base::{Duration, KeyCheck, KeyId, TapeKey, TapePoolId, Vid};
use catalogue::{Command, TapeRecord, TapeState};
use ground::{ArchiveError, Worker};
use library::{KeyError, KeySource, TapeEncryption};
use scheduler::Reason;
use threads::{Doorbell, Mutex, MutexGuard};

use crate::reasons::Waiting;
use crate::room::Tape;

/// Tapes that are told by name beside a key that is missing.
const TAPES_TOLD_MAX: usize = 5;

/// All keys are asked for anew after this, so that one which was taken away is missed before what needs it is
/// gone from the pool. An hour: a key manager is asked for a handful of keys, and notes each time.
const ASK_ALL_EVERY: Duration = Duration::from_secs(3_600);

/// What gives up bytes since tapes have them asks for their keys, unless they were given so short a time ago:
/// an evict of a million files asks for each once a minute, and not a million times.
const ANSWER_COUNTS_FOR: Duration = Duration::from_secs(60);

/// A key that something on tape, or to be written, needs.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) struct KeyNeed {
    id: KeyId,
    /// What it must be; `None`: no tape has been written with it yet.
    check: Option<KeyCheck>,
}

impl KeyNeed {
    /// That of a tape.
    pub(crate) fn of(key: &TapeKey) -> Self {
        KeyNeed { id: key.id.clone(), check: Some(key.check) }
    }

    /// The key that was found for it.
    pub(crate) fn key_of(self, found: &TapeEncryption) -> TapeKey {
        TapeKey { id: self.id, check: found.key.check() }
    }
}

/// The keys that could not be had when they were last asked for.
#[derive(Default)]
pub(crate) struct KeysMissing {
    missing: Mutex<BTreeMap<KeyNeed, KeyError>>,
    /// When those were asked for, by the steady clock, that were given when they were last asked for.
    given: Mutex<BTreeMap<TapeKey, Duration>>,
    /// Keys that are missing, or there again, of which nobody was told yet, and whether they are missing.
    untold: Mutex<Vec<(KeyNeed, bool)>>,
    /// Held while keys are asked for on which somebody relies: of many at once, one asks.
    relying: Mutex<()>,
    /// Tapes that were looked at since a restore, and showed that they wait for their key indeed.
    shown: Mutex<BTreeSet<Vid>>,
    doorbell: Doorbell,
}

impl KeysMissing {
    fn lock(&self) -> MutexGuard<'_, BTreeMap<KeyNeed, KeyError>> {
        self.missing.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn why(&self, need: &KeyNeed) -> Option<KeyError> {
        self.lock().get(need).cloned()
    }

    fn note_given(&self, need: &KeyNeed, found: &Result<TapeEncryption, KeyError>, asked: Duration) {
        let mut given = self.given.lock().unwrap_or_else(PoisonError::into_inner);
        match found {
            Ok(found) => {
                if need.check.is_none() {
                    // No tape has it: a source may give another one each time.
                    given.retain(|key, _| key.id != need.id);
                }
                given.insert(need.clone().key_of(found), asked);
            }
            // Of whatever key has the id: what gives one of them gives no other.
            Err(_) => given.retain(|key, _| key.id != need.id),
        }
    }

    fn take_untold(&self) -> Vec<(KeyNeed, bool)> {
        std::mem::take(&mut *self.untold.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Whether a key was given so short a time ago that its answer counts.
    fn was_given(&self, key: &TapeKey, now: Duration) -> bool {
        let given = self.given.lock().unwrap_or_else(PoisonError::into_inner);
        given.get(key).is_some_and(|asked| now.saturating_sub(*asked) < ANSWER_COUNTS_FOR)
    }

    /// A tape was looked at since a restore, and waits for its key: it is not mounted again before one comes.
    pub(crate) fn has_shown(&self, vid: Vid) {
        self.shown.lock().unwrap_or_else(PoisonError::into_inner).insert(vid);
    }

    /// Whether it was.
    pub(crate) fn was_shown(&self, vid: Vid) -> bool {
        self.shown.lock().unwrap_or_else(PoisonError::into_inner).contains(&vid)
    }

    /// Wakes the thread, which ends if the engine stops.
    pub(crate) fn stop(&self) {
        self.doorbell.ring();
    }
}

/// The thread of the keys: asks for all that are needed, then again for those that are missing, and for all
/// once in a while: what leaves the pool counts on them. What relies on keys asks for them itself.
pub(crate) fn run(room: &Tape, me: &Worker) {
    let mut needs = room.all_key_needs();
    let mut all_asked = room.steady();
    loop {
        me.does("asking for keys of tapes");
        for need in needs {
            if room.stopping() {
                return;
            }
            let _ = room.find_key(&need);
        }
        room.upkeep.asked_for_keys(true);
        me.rests();
        room.keys_missing.doorbell.wait(room.settings.tape.retry_delay);
        if room.stopping() {
            return;
        }
        for (need, is_missing) in room.keys_missing.take_untold() {
            room.tell_of_key(&need, is_missing);
        }
        let now = room.steady();
        needs = if now.saturating_sub(all_asked) >= ASK_ALL_EVERY {
            all_asked = now;
            room.all_key_needs()
        } else {
            room.missing_keys()
        };
    }
}

impl Tape {
    /// The key of new tapes of a pool, as `kist.toml` says; `None`: they are in clear.
    pub(crate) fn current_key(&self, tape_pool: Option<TapePoolId>) -> Option<&KeyId> {
        self.classes.tape_pools().get(&tape_pool?)?.encryption.as_ref()?.key.as_ref()
    }

    /// Whether anything new may go to a labelled tape: not if it has another key than its pool, or one of
    /// them has none. So nothing is written in clear, or with an old key, from the day on that its pool has
    /// another one, and a repack brings everything under that.
    pub(crate) fn has_current_key(&self, record: &TapeRecord) -> bool {
        let current = self.current_key(record.tape_pool);
        record.generation.0 == 0 || record.key.as_ref().map(|key| &key.id) == current
    }

    /// Why nothing new goes to a tape whose pool has another key; `None` if it has the same one.
    pub(crate) fn told_of_old_key(&self, vid: Vid, record: &TapeRecord) -> Option<String> {
        if self.has_current_key(record) {
            return None;
        }
        let named = |key: Option<&KeyId>| key.map_or("none".to_owned(), ToString::to_string);
        Some(format!(
            "nothing new goes to it: its key is {}, that of its pool {}; kist tape repack {vid} brings what \
             it holds to tapes of the pool's key",
            named(record.key.as_ref().map(|key| &key.id)),
            named(self.current_key(record.tape_pool))
        ))
    }

    /// The key that a tape needs in a drive: its own, or the current one of the pool that it is labelled for.
    pub(crate) fn key_needed(&self, record: &TapeRecord, assign: Option<TapePoolId>) -> Option<KeyNeed> {
        match record.state {
            TapeState::Scratch => self.key_for_new_tapes(assign),
            TapeState::Labelling => self.key_for_new_tapes(record.tape_pool),
            _ => record.key.as_ref().map(KeyNeed::of),
        }
    }

    /// A new tape gets the very key that others of its id have: else one of the two could never be read again
    /// by who knows but the id.
    fn key_for_new_tapes(&self, tape_pool: Option<TapePoolId>) -> Option<KeyNeed> {
        let id = self.current_key(tape_pool)?.clone();
        let check = self.keys_of_tapes().into_iter().find_map(|need| need.check.filter(|_| need.id == id));
        Some(KeyNeed { id, check })
    }

    /// The keys of all labelled tapes.
    fn keys_of_tapes(&self) -> BTreeSet<KeyNeed> {
        let tapes = self.read(|view| view.tapes()).unwrap_or_else(|error| {
            tracing::error!(%error, "which keys tapes have cannot be read");
            Vec::new()
        });
        let labelled = tapes.into_iter().filter(|(_, tape)| tape.generation.0 > 0);
        labelled.filter_map(|(_, tape)| tape.key.as_ref().map(KeyNeed::of)).collect()
    }

    /// The keys to be asked for again, and those of tapes that nobody was asked for yet. One that no tape and
    /// no pool needs any more is forgotten.
    fn missing_keys(&self) -> BTreeSet<KeyNeed> {
        let all = self.all_key_needs();
        let at_hand = self.read(|view| view.keys_at_hand()).unwrap_or_default();
        let at_hand: BTreeSet<KeyNeed> = at_hand.iter().map(KeyNeed::of).collect();
        let mut missing = self.keys_missing.lock();
        missing.retain(|need, _| all.contains(need));
        let is_due =
            |need: &KeyNeed| missing.contains_key(need) || need.check.is_some() && !at_hand.contains(need);
        all.iter().filter(|need| is_due(need)).cloned().collect()
    }

    fn all_key_needs(&self) -> BTreeSet<KeyNeed> {
        let pools = self.classes.tape_pools().keys();
        let of_pools = pools.filter_map(|pool| self.key_for_new_tapes(Some(*pool)));
        self.keys_of_tapes().into_iter().chain(of_pools).collect()
    }

    /// Whether there is anything to ask for, so that the thread of the keys is needed.
    pub(crate) fn needs_keys(&self) -> bool {
        !self.settings.tape_keys().is_empty() || !self.keys_of_tapes().is_empty()
    }

    /// Asks for a key, and takes note of whether it can be had.
    ///
    /// # Errors
    /// [`KeyError`]; what needs the key is held then.
    pub(crate) fn find_key(&self, need: &KeyNeed) -> Result<TapeEncryption, KeyError> {
        let (found, is_news) = self.ask_for_key(need);
        let is_news = is_news.unwrap_or_else(|error| {
            tracing::error!(key = %need.id, %error, "whether a key is at hand cannot be recorded");
            false
        });
        if is_news {
            self.tell_of_key(need, found.is_err());
        }
        found
    }

    /// The same, but nobody is told. The second one: whether it is otherwise than before, or why that is not
    /// in the catalogue.
    fn ask_for_key(&self, need: &KeyNeed) -> (Result<TapeEncryption, KeyError>, Result<bool, ArchiveError>) {
        let own = self.source_of(&need.id);
        let asked = self.steady();
        let found = self.settings.tape_keys().find(&need.id, need.check, own);
        self.keys_missing.note_given(need, &found, asked);
        let had = {
            let mut missing = self.keys_missing.lock();
            match &found {
                Ok(_) => missing.remove(need),
                Err(error) => missing.insert(need.clone(), error.clone()),
            }
        };
        // Before anybody hears of it: they ask the catalogue.
        let recorded = self.record_at_hand(need, &found);
        let is_news = match (&found, had) {
            (Ok(_), None) => false,
            (Err(error), Some(had)) if *error == had => false,
            (Ok(_), Some(_)) => {
                tracing::info!(key = %need.id, "the key of tapes is there again");
                true
            }
            (Err(error), _) => {
                tracing::error!(key = %need.id, %error, "tapes wait for their key: they are not damaged");
                true
            }
        };
        (found, recorded.map(|is_recorded| is_recorded || is_news))
    }

    /// Where a key comes from: from where the pool says that has it now, else the one that has tapes with it.
    /// What is told if nobody gives it is told of this source.
    fn source_of(&self, id: &KeyId) -> Option<&KeySource> {
        let pools = self.classes.tape_pools();
        let mut now = pools.values().filter_map(|pool| pool.encryption.as_ref());
        if let Some(encryption) = now.find(|encryption| encryption.key.as_ref() == Some(id)) {
            return Some(&encryption.keys);
        }
        let tapes = self.read(|view| view.tapes()).unwrap_or_default().into_iter();
        let of_key = tapes.filter(|(_, tape)| tape.key.as_ref().is_some_and(|key| key.id == *id));
        let mut then = of_key.filter_map(|(_, tape)| pools.get(&tape.tape_pool?)?.encryption.as_ref());
        then.next().map(|encryption| &encryption.keys)
    }

    /// Has the catalogue know whether a key of tapes is at hand: it gives up nothing that only tapes without
    /// theirs have. Gives whether that changed.
    fn record_at_hand(
        &self,
        need: &KeyNeed,
        found: &Result<TapeEncryption, KeyError>,
    ) -> Result<bool, ArchiveError> {
        let check = match found {
            Ok(found) => Some(found.key.check()),
            // No tape has it.
            Err(_) => need.check,
        };
        let Some(check) = check else { return Ok(false) };
        let (key, at_hand) = (TapeKey { id: need.id.clone(), check }, found.is_ok());
        let known = self.read(|view| view.is_key_at_hand(&key))?;
        if known != at_hand {
            self.execute(Command::SetKeyAtHand { key: key.clone(), at_hand })?;
        }
        if need.check.is_none() {
            self.forget_unused(&key)?;
        }
        Ok(known != at_hand)
    }

    /// No tape has this key yet: others under its id that no tape has were given before it, by a source that
    /// gives another one each time, and are none.
    fn forget_unused(&self, newest: &TapeKey) -> Result<(), ArchiveError> {
        let unused = self.read(|view| {
            let (mut at_hand, tapes) = (view.keys_at_hand()?, view.tapes()?);
            at_hand.retain(|key| key.id == newest.id && key != newest);
            at_hand.retain(|key| !tapes.iter().any(|(_, tape)| tape.key.as_ref() == Some(key)));
            Ok(at_hand)
        })?;
        for key in unused {
            self.execute(Command::SetKeyAtHand { key, at_hand: false })?;
        }
        Ok(())
    }

    /// What [`Upward::ask_for_keys`](ground::Upward::ask_for_keys) promises. The thread of the keys tells of
    /// what is otherwise now: whoever asks here may hold what those need who are told.
    pub(crate) fn ask_for_relied_on(&self, keys: &BTreeSet<TapeKey>) -> Result<(), ArchiveError> {
        let _one = self.keys_missing.relying.lock().unwrap_or_else(PoisonError::into_inner);
        for key in keys {
            if self.keys_missing.was_given(key, self.steady()) {
                continue;
            }
            if self.stopping() {
                return Err(ArchiveError::Stopping);
            }
            let need = KeyNeed::of(key);
            let (found, is_news) = self.ask_for_key(&need);
            if is_news? {
                let untold = &self.keys_missing.untold;
                untold.lock().unwrap_or_else(PoisonError::into_inner).push((need, found.is_err()));
                self.keys_missing.doorbell.ring();
            }
        }
        Ok(())
    }

    /// Everybody hears whether a key is there, with all tapes that have it.
    fn tell_of_key(&self, need: &KeyNeed, is_missing: bool) {
        let tapes = self.read(|view| view.tapes()).unwrap_or_default();
        for (vid, record) in tapes {
            let is_new = matches!(record.state, TapeState::Scratch | TapeState::Labelling);
            let of_key = record.key.as_ref().is_some_and(|key| key.id == need.id);
            if !is_new && of_key || record.state == TapeState::Labelling {
                self.post_tape(vid);
                if is_missing && of_key {
                    self.have_others_read(vid);
                }
            }
        }
        if !is_missing {
            self.keys_missing.shown.lock().unwrap_or_else(PoisonError::into_inner).clear();
            if let Err(error) = self.retry_mends() {
                tracing::error!(key = %need.id, %error, "what waited for the tapes of a key waits on");
            }
            // What was LOST for the lack of it may be read again.
            self.upkeep.key_is_there_again();
            // Cold classes wait for it too.
            self.sweep.ring();
        }
        self.notifier.backlog_changed();
    }

    /// Asks for the key of a tape before it is mounted: the robot moves for none that cannot be read or
    /// written. What is given is asked for again when the tape is in the drive, and not kept until then.
    ///
    /// # Errors
    /// [`KeyError`].
    pub(crate) fn need_key(&self, vid: Vid, assign: Option<TapePoolId>) -> Result<(), KeyError> {
        let Ok(record) = self.tape(vid) else { return Ok(()) };
        match self.key_needed(&record, assign) {
            Some(need) => self.find_key(&need).map(drop),
            None => Ok(()),
        }
    }

    /// Why a tape is held for its key; `None`: it is not.
    pub(crate) fn key_missing(&self, record: &TapeRecord) -> Option<(KeyId, KeyError)> {
        if self.keys_missing.lock().is_empty() {
            return None;
        }
        let need = self.key_needed(record, None)?;
        let why = self.keys_missing.why(&need)?;
        Some((need.id, why))
    }

    /// The same in words.
    pub(crate) fn held_for_key(&self, vid: Vid, record: &TapeRecord) -> Option<String> {
        self.key_missing(record)
            .map(|(_, why)| format!("it waits for its key: {}", self.what_to_do(vid, &why)))
    }

    /// Why a key is missing, and what is to be done if nobody has it any more and others wait for the tape: a
    /// source that fails says nothing of whether it has the key, and is asked for ever.
    fn what_to_do(&self, vid: Vid, why: &KeyError) -> String {
        match self.settling.asks(vid) && why.may_pass() {
            true => format!(
                "{why}; the restore waits for it: if nobody has the key any more, say kist tape set {vid} \
                 disabled"
            ),
            false => why.to_string(),
        }
    }

    /// Why nothing is written to new tapes of a pool for want of its key; `None`: it is there.
    pub(crate) fn pool_key_missing(&self, pool: TapePoolId) -> Option<(KeyId, KeyError)> {
        if self.keys_missing.lock().is_empty() {
            return None;
        }
        let need = self.key_for_new_tapes(Some(pool))?;
        let why = self.keys_missing.why(&need)?;
        Some((need.id, why))
    }

    /// Keys that are missing, and the tapes that wait for them, in words.
    pub(crate) fn keys_missing_told(&self, tapes: &[(Vid, TapeRecord)]) -> Vec<String> {
        let missing: Vec<(KeyNeed, KeyError)> =
            self.keys_missing.lock().iter().map(|(need, why)| (need.clone(), why.clone())).collect();
        let told = missing.into_iter().map(|(need, why)| {
            let of_key = |tape: &TapeRecord| self.key_needed(tape, None).as_ref() == Some(&need);
            let waiting: Vec<Vid> =
                tapes.iter().filter(|(_, tape)| of_key(tape)).map(|(vid, _)| *vid).collect();
            let listed: Vec<String> = waiting.iter().take(TAPES_TOLD_MAX).map(Vid::to_string).collect();
            match waiting.len() {
                0 => format!("{why}: new tapes cannot be written with it"),
                1 => format!("{why}: tape {} waits for it", listed.join("")),
                count if count <= TAPES_TOLD_MAX => {
                    format!("{why}: tapes {} wait for it", listed.join(", "))
                }
                count => format!("{why}: {count} tapes wait for it, {} first", listed.join(", ")),
            }
        });
        told.collect()
    }

    /// For the scheduler a tape without its key cannot be read, and nothing waits for a pool without its own.
    pub(crate) fn while_keys_are_missing(&self, waiting: Waiting<'_>, reason: Reason) -> Reason {
        if self.keys_missing.lock().is_empty() {
            return reason;
        }
        let goes_on = matches!(
            reason,
            Reason::Writing { .. } | Reason::Reading { .. } | Reason::Checking { .. } | Reason::Lost
        );
        let told = |vid: Option<Vid>, (key, why): (KeyId, KeyError)| Reason::KeyMissing {
            vid,
            key: key.to_string(),
            why: vid.map_or_else(|| why.to_string(), |vid| self.what_to_do(vid, &why)),
            others: Vec::new(),
        };
        let of_tape = |vid: Vid| {
            let record = self.tape(vid).ok()?;
            self.key_missing(&record).map(|missing| told(Some(vid), missing))
        };
        let missing = match (waiting, &reason) {
            (_, Reason::TapeNotReadable { vid, .. }) => of_tape(*vid),
            (_, Reason::NoReadableCopy { tapes }) => {
                let asked = match waiting {
                    Waiting::Tape(vid) | Waiting::Planned(vid) | Waiting::Maintenance(vid) => Some(vid),
                    _ => None,
                };
                // Which of the keys somebody can give is not known: of a file all are named. Each tape has a
                // row of its own, which names its own key.
                let vids = match asked.filter(|vid| of_tape(*vid).is_some()) {
                    Some(vid) => vec![vid],
                    None => tapes.iter().map(|(vid, _)| *vid).collect(),
                };
                let missing = |vid: Vid| Some((vid, self.key_missing(&self.tape(vid).ok()?)?));
                let mut missing = vids.into_iter().filter_map(missing);
                missing.next().map(|(vid, (key, why))| Reason::KeyMissing {
                    vid: Some(vid),
                    key: key.to_string(),
                    why: why.to_string(),
                    others: missing.map(|(other, (_, why))| (other, why.to_string())).collect(),
                })
            }
            (Waiting::Maintenance(_), Reason::NothingWaits) => None,
            (Waiting::Tape(vid) | Waiting::Planned(vid) | Waiting::Maintenance(vid), _) if !goes_on => {
                of_tape(vid)
            }
            (Waiting::Migration(pool) | Waiting::Copy(_, _, pool), _) if !goes_on => {
                self.pool_key_missing(pool).map(|missing| told(None, missing))
            }
            _ => None,
        };
        missing.unwrap_or(reason)
    }
}
