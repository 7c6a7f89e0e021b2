//! Applying a change log to a copy of the catalogue.

use std::fs::File;
use std::path::Path;

use base::{ByteCount, Timestamp};
use catalogue::{Envelope, Outcome, ReadError, Transaction, View, apply};

use crate::engine::{LmdbEngine, kv_error_of_rejection};
use crate::error::{OpenError, ReplayError};
use crate::snapshot::{Digests, digests};
use crate::store::open_directory;

/// Changes applied between two commits of a replay.
const REPLAY_BATCH_MAX: u64 = 20_000;

/// A catalogue that is being built from a snapshot and a change log. Nobody else has it open.
pub struct Replay {
    engine: LmdbEngine,
    last: u64,
    _lock: File,
}

impl Replay {
    /// Opens the copy in `directory`, or makes an empty catalogue there.
    ///
    /// # Errors
    /// As [`crate::CatalogueStore::open`].
    pub fn open(directory: &Path, map_size: ByteCount) -> Result<Replay, OpenError> {
        let (lock, engine) = open_directory(directory, map_size)?;
        let mut replay = Replay { engine, last: 0, _lock: lock };
        replay.last = replay.read(|view| view.last_change()).map_err(|error| OpenError::Unreadable {
            path: directory.to_owned(),
            reason: error.to_string(),
        })?;
        Ok(replay)
    }

    /// The number of the newest change that it holds, committed.
    #[must_use]
    pub fn last_change(&self) -> u64 {
        self.last
    }

    /// Applies changes in order, numbered from `first` on, and commits them. Gives how many were applied:
    /// fewer than there are if `until` said so. `until` is asked before each change and stops the replay
    /// there by `false`.
    ///
    /// # Errors
    /// [`ReplayError`] names the change that does not fit; what was committed before stays.
    pub fn apply(
        &mut self,
        first: u64,
        changes: &[&[u8]],
        mut until: impl FnMut(u64, &Envelope) -> bool,
    ) -> Result<u64, ReplayError> {
        let mut applied = 0;
        let mut stopped = false;
        while !stopped && applied < changes.len() as u64 {
            let mut txn = self.engine.write().map_err(|error| ReplayError::Engine(error.to_string()))?;
            let mut batch = 0;
            for bytes in changes.iter().skip(usize::try_from(applied).unwrap_or(usize::MAX)) {
                let number = first + applied + batch;
                let envelope = Envelope::decode(bytes)
                    .map_err(|error| ReplayError::Change { number, reason: error.to_string() })?;
                if !until(number, &envelope) {
                    stopped = true;
                    break;
                }
                replay_one(&mut txn, number, &envelope)?;
                batch += 1;
                if batch == REPLAY_BATCH_MAX {
                    break;
                }
            }
            txn.commit().map_err(|error| ReplayError::Engine(error.to_string()))?;
            assert!(batch > 0 || stopped, "each turn applies something, so that it ends");
            applied += batch;
            assert!(applied <= changes.len() as u64, "no change is applied twice");
            if applied > 0 {
                self.last = first + applied - 1;
            }
        }
        Ok(applied)
    }

    /// Executes a command that is no part of the log that is replayed, at `at`; durable on return.
    ///
    /// # Errors
    /// If it is refused or the engine fails.
    pub fn execute(&mut self, envelope: &Envelope) -> Result<Outcome, ReplayError> {
        let mut txn = self.engine.write().map_err(|error| ReplayError::Engine(error.to_string()))?;
        let number = self.last + 1;
        let outcome = apply(&mut txn, envelope)
            .map_err(|error| ReplayError::Change { number, reason: error.to_string() })?;
        txn.commit().map_err(|error| ReplayError::Engine(error.to_string()))?;
        let before = self.last;
        self.last =
            self.read(|view| view.last_change()).map_err(|error| ReplayError::Engine(error.to_string()))?;
        assert!(self.last >= before, "the log only grows");
        Ok(outcome)
    }

    /// Reads one consistent snapshot, as [`crate::CatalogueStore::read`].
    ///
    /// # Errors
    /// What `f` returns, or that the engine failed.
    pub fn read<T>(&self, f: impl FnOnce(&View<'_>) -> Result<T, ReadError>) -> Result<T, ReadError> {
        let snapshot = self.engine.read()?;
        f(&View::new(&snapshot))
    }

    pub(crate) fn engine(&self) -> &LmdbEngine {
        &self.engine
    }

    /// Rows up to `change` were put in.
    pub(crate) fn stand_at(&mut self, change: u64) {
        self.last = change;
    }

    /// The digest of each table.
    ///
    /// # Errors
    /// If the engine fails.
    pub fn digests(&self) -> Result<Digests, ReadError> {
        Ok(digests(&self.engine.read()?)?)
    }
}

/// A change of a log changed something when it was made, and must again: else the log and the tables are not
/// of one history.
pub(crate) fn replay_one(
    txn: &mut dyn Transaction,
    number: u64,
    envelope: &Envelope,
) -> Result<(), ReplayError> {
    apply(txn, envelope).map_err(|error| match kv_error_of_rejection(&error) {
        Some(reason) => ReplayError::Engine(reason),
        None => ReplayError::Change { number, reason: format!("it is refused: {error}") },
    })?;
    let last = View::new(txn).last_change().map_err(|error| ReplayError::Engine(error.to_string()))?;
    if last == number {
        return Ok(());
    }
    Err(ReplayError::Change { number, reason: format!("the tables stand at change {last} after it") })
}

/// When a change of a log was made.
///
/// # Errors
/// [`ReplayError::Change`] if it is malformed.
pub fn time_of_change(number: u64, bytes: &[u8]) -> Result<Timestamp, ReplayError> {
    let envelope = Envelope::decode(bytes);
    let wrong = |error: catalogue::DecodeError| ReplayError::Change { number, reason: error.to_string() };
    envelope.map(|envelope| envelope.at).map_err(wrong)
}
