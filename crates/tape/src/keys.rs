//! Keys of tapes: which one a tape needs, and what waits for one that nobody gives. A tape whose key is missing
//! is as well as before: it is held, told of, and tried again, so that it goes on by itself when the key is
//! there.

use std::collections::BTreeMap;
use std::sync::PoisonError;

use base::{KeyId, TapePoolId, Timestamp, Vid};
use catalogue::{TapeRecord, TapeState};
use ground::PoolEncryption;
use library::KeyError;
use scheduler::{Event, Reason};
use threads::{Mutex, MutexGuard};

use crate::reasons::Waiting;
use crate::room::Tape;

/// Tapes, and tape pools with their new tapes, that wait for a key.
#[derive(Default)]
pub(crate) struct KeysMissing(Mutex<State>);

#[derive(Default)]
struct State {
    tapes: BTreeMap<Vid, Missing>,
    pools: BTreeMap<TapePoolId, Missing>,
}

/// A key that could not be had.
#[derive(Clone, Debug)]
struct Missing {
    key: Option<KeyId>,
    why: String,
    /// When it is asked for again.
    until: Timestamp,
    /// Whether that has come, and those who ask were told.
    is_due: bool,
}

impl KeysMissing {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Tape {
    /// How tapes of a pool are encrypted, as `kist.toml` says.
    pub(crate) fn encryption_of(&self, tape_pool: Option<TapePoolId>) -> Option<&PoolEncryption> {
        self.classes.tape_pools().get(&tape_pool?)?.encryption.as_ref()
    }

    /// Whether anything new may go to a labelled tape: not if it has another key than its pool, or one of
    /// them has none. So a repack brings everything under the new key.
    pub(crate) fn has_current_key(&self, record: &TapeRecord) -> bool {
        let current = self.encryption_of(record.tape_pool).map(|encryption| &encryption.key);
        record.generation.0 == 0 || record.key.as_ref() == current
    }

    /// The key that a tape needs in the drive, and the pool that it is of or given to.
    pub(crate) fn key_needed(
        &self,
        record: &TapeRecord,
        assign: Option<TapePoolId>,
    ) -> Option<(TapePoolId, KeyId)> {
        match record.state {
            TapeState::Scratch => Some((assign?, self.encryption_of(assign)?.key.clone())),
            TapeState::Labelling => {
                Some((record.tape_pool?, self.encryption_of(record.tape_pool)?.key.clone()))
            }
            _ => Some((record.tape_pool?, record.key.clone()?)),
        }
    }

    /// Asks for the key of a tape before it is mounted: the robot moves for none that cannot be read or
    /// written. What is given is asked for again when the tape is in the drive, and not kept until then.
    ///
    /// # Errors
    /// [`KeyError`]; what waits for it is held then.
    pub(crate) fn need_key(&self, vid: Vid, assign: Option<TapePoolId>) -> Result<(), KeyError> {
        let Ok(record) = self.tape(vid) else { return Ok(()) };
        let Some((pool, key)) = self.key_needed(&record, assign) else { return Ok(()) };
        let own = self.encryption_of(Some(pool)).map(|encryption| &encryption.keys);
        match self.settings.tape_keys().find(&key, own) {
            Ok(_) => {
                if self.keys_missing.lock().pools.remove(&pool).is_some() {
                    self.notifier.backlog_changed();
                }
                Ok(())
            }
            Err(error) => {
                self.hold_for_key(vid, &record, assign, &error);
                Err(error)
            }
        }
    }

    /// A tape waits for its key; so does its pool if that writes with the same key.
    pub(crate) fn hold_for_key(
        &self,
        vid: Vid,
        record: &TapeRecord,
        assign: Option<TapePoolId>,
        error: &KeyError,
    ) {
        let until = self.now().plus(self.settings.tape.retry_delay);
        let needed = self.key_needed(record, assign);
        let key = error.key().or(needed.as_ref().map(|(_, key)| key)).cloned();
        let missing = Missing { key, why: error.to_string(), until, is_due: false };
        tracing::error!(%vid, %error, "a tape waits for its key: it is not damaged, and tried again");
        {
            let mut state = self.keys_missing.lock();
            let given = matches!(error, KeyError::NotGiven { .. } | KeyError::NoSource(_));
            if let Some((pool, key)) = needed
                && given
                && self.encryption_of(Some(pool)).is_some_and(|encryption| encryption.key == key)
            {
                state.pools.insert(pool, missing.clone());
            }
            if record.state != TapeState::Scratch {
                state.tapes.insert(vid, missing);
            }
        }
        self.notifier.backlog_changed();
        self.post_tape(vid);
    }

    /// The key of a tape was there, and opened what is on it.
    pub(crate) fn has_key(&self, vid: Vid) {
        let was_missing = self.keys_missing.lock().tapes.remove(&vid).is_some();
        if was_missing {
            tracing::info!(%vid, "the key of a tape is there again");
            self.post_tape(vid);
        }
    }

    /// What is told of a tape that is held for its key; `None`: it is not, or its key is asked for again.
    pub(crate) fn held_for_key(&self, vid: Vid) -> Option<String> {
        let now = self.now();
        let state = self.keys_missing.lock();
        let missing = state.tapes.get(&vid).filter(|missing| missing.until > now)?;
        Some(format!("it waits for its key: {}", missing.why))
    }

    /// Whether nothing is mounted to write to a pool, for want of its key.
    pub(crate) fn pool_waits_for_key(&self, pool: TapePoolId) -> bool {
        let now = self.now();
        self.keys_missing.lock().pools.get(&pool).is_some_and(|missing| missing.until > now)
    }

    /// What the scheduler is to hear of tapes whose keys are asked for again now, and whether what is queued
    /// for a pool is to be told anew.
    pub(crate) fn keys_due(&self, now: Timestamp) -> (Vec<Event>, bool) {
        let due = |missing: &mut Missing| {
            let is_due = missing.until <= now && !missing.is_due;
            missing.is_due |= is_due;
            is_due
        };
        let (tapes, pools) = {
            let mut state = self.keys_missing.lock();
            let tapes: Vec<Vid> =
                state.tapes.iter_mut().filter_map(|(vid, missing)| due(missing).then_some(*vid)).collect();
            let pools = state.pools.values_mut().fold(false, |some, missing| due(missing) || some);
            (tapes, pools)
        };
        let mut events = Vec::new();
        for vid in tapes {
            if let Ok(record) = self.tape(vid) {
                events.push(Event::Tape(vid, self.summary_of(vid, &record)));
                let maintenance = self.maintenance();
                events.push(Event::Maintain(vid, self.is_due(&maintenance, vid)));
            }
        }
        (events, pools)
    }

    /// For the scheduler a tape without its key cannot be read, and nothing waits for a pool without its own.
    pub(crate) fn while_keys_are_missing(&self, waiting: Waiting<'_>, reason: Reason) -> Reason {
        let goes_on = matches!(
            reason,
            Reason::Writing { .. } | Reason::Reading { .. } | Reason::Checking { .. } | Reason::Lost
        );
        let state = self.keys_missing.lock();
        let told = |vid, missing: &Missing| {
            let key = missing.key.as_ref().map(ToString::to_string);
            Reason::KeyMissing { vid, key, why: missing.why.clone() }
        };
        let of_tape = |vid: &Vid| state.tapes.get(vid).map(|missing| told(Some(*vid), missing));
        let missing = match (waiting, &reason) {
            (_, Reason::TapeNotReadable { vid, .. }) => of_tape(vid),
            (Waiting::Tape(vid) | Waiting::Planned(vid), _) if !goes_on => of_tape(&vid),
            (Waiting::Migration(pool) | Waiting::Copy(_, _, pool), _) if !goes_on => {
                state.pools.get(&pool).map(|missing| told(None, missing))
            }
            _ => None,
        };
        missing.unwrap_or(reason)
    }
}
