//! What all rooms share.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock, Weak};

use base::{BlobDescription, BlobId, BlobPiece, Clock, DriveId, TapeKey, Timestamp, Uuid, Vid};
use catalogue::{Command, Object, ReadError, Rejection, TapeRecord, TypedCommand, View};
use drive::ObjectDrive;
use pool::{Pool, PoolError};
use store::{CatalogueStore, ExecuteError};
use threads::Doorbell;

use crate::access::AccessQueue;
use crate::classes::Classes;
use crate::gate::ReadGate;
use crate::libraries::Libraries;
use crate::notifier::Notifier;
use crate::pool_drives::PoolDriveList;
use crate::settled::Settled;
use crate::upward::Upward;
use crate::uses::Uses;
use crate::worker::{Duty, Worker, Workers};
use crate::{ArchiveError, LeavingSignal, OpenError, Settings};

/// A drive of the pool; `None` if it is missing.
pub type PoolDrive = (DriveId, Option<Arc<dyn ObjectDrive>>);

/// The state that no room owns, shared by all threads of the engine and by all who call it.
pub struct Ground {
    /// What the operator decided.
    pub settings: Settings,
    /// The trusted time.
    pub clock: Arc<dyn Clock>,
    /// The instance's id.
    pub instance: Uuid,
    /// What exists.
    pub catalogue: Arc<CatalogueStore>,
    /// The bytes.
    pub pool: Arc<Pool>,
    /// Where its drives are.
    pub pool_drives: PoolDriveList,
    /// Which library each tape stands in.
    pub libraries: Libraries,
    /// Storage classes and tape pools.
    pub classes: Classes,
    /// Wakes the conductor, and tells it what happened.
    pub notifier: Notifier,
    /// Readers of the pool, and the removal of what they may be reading.
    pub gate: Arc<ReadGate>,
    /// Set when the server is to stop.
    pub stop: AtomicBool,
    /// Rung when there is garbage to remove.
    pub sweep: Doorbell,
    /// Told when the pool is to make room, or more files may leave it.
    pub leaving: LeavingSignal,
    /// Wakes the thread of the lifecycle rules.
    pub lifecycle: Doorbell,
    /// What users do, on its way to the access log.
    pub access: AccessQueue,
    /// Files that were read, until their use is noted.
    pub uses: Uses,
    /// How far a restored catalogue was compared with pool and tapes.
    pub settled: Arc<dyn Settled>,
    /// The tape room, once there is one.
    pub above: OnceLock<Weak<dyn Upward>>,
    /// The threads of all rooms.
    pub workers: Workers,
}

impl Ground {
    /// The trusted time: everything that the engine decides goes by it.
    pub fn now(&self) -> Timestamp {
        self.clock.now()
    }

    /// The span since some moment, by a clock that nobody sets and that never leaps.
    pub fn steady(&self) -> base::Duration {
        self.clock.steady()
    }

    /// Whether the server is to stop.
    pub fn stopping(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    /// The tape room, unless the engine is only being put together.
    pub fn above(&self) -> Option<Arc<dyn Upward>> {
        self.above.get().and_then(Weak::upgrade)
    }

    /// What other places have of a file, or of the history, is about to be given up, since tapes with these
    /// keys have it: they are asked for first. A key that was at hand an hour ago may be gone.
    ///
    /// # Errors
    /// If whether they are at hand cannot be recorded, or nobody is there to ask: nothing may be given up
    /// then.
    pub fn rely_on_keys(&self, keys: &BTreeSet<TapeKey>) -> Result<(), ArchiveError> {
        match self.above() {
            _ if keys.is_empty() => Ok(()),
            Some(above) => above.ask_for_keys(keys),
            None => Err(ArchiveError::Stopping),
        }
    }

    /// The same for all keys that are at hand.
    ///
    /// # Errors
    /// As [`Ground::rely_on_keys`], or if the catalogue cannot be read.
    pub fn rely_on_all_keys(&self) -> Result<(), ArchiveError> {
        self.rely_on_keys(&self.read(|view| view.keys_at_hand())?.into_iter().collect())
    }

    /// Starts a thread of a room.
    ///
    /// # Errors
    /// If the system has no thread for it.
    pub fn start(
        &self,
        duty: Duty,
        run: impl FnOnce(&Arc<Worker>) + Send + 'static,
    ) -> Result<(), OpenError> {
        self.workers.start(&self.clock, duty, run)
    }

    /// Reads one state of the catalogue.
    pub fn read<T>(&self, f: impl FnOnce(&View<'_>) -> Result<T, ReadError>) -> Result<T, ArchiveError> {
        self.catalogue.read(f).map_err(ArchiveError::from)
    }

    /// At most `most` blobs behind `after`, with what they are made of; the last number is needed even if the
    /// blob is gone.
    pub fn blob_page(
        &self,
        after: Option<BlobId>,
        most: usize,
    ) -> Result<Vec<(BlobId, Option<BlobDescription>)>, ArchiveError> {
        self.read(|view| {
            let blobs = view.blobs(after, most)?;
            blobs.into_iter().map(|(id, _)| Ok((id, view.blob(id)?))).collect()
        })
    }

    /// Carries out a command that answers nothing, or nothing that the caller needs.
    pub fn execute(&self, command: Command) -> Result<(), ArchiveError> {
        self.catalogue.execute(command).map(drop).map_err(|error| self.failed(error))
    }

    /// Carries out a command and gives what it answers.
    pub fn ask<C: TypedCommand>(&self, command: C) -> Result<C::Answer, ArchiveError> {
        self.catalogue.ask(command).map_err(|error| self.failed(error))
    }

    /// As [`Ground::execute`], of what is about a container: `None` if the catalogue does not have it any
    /// more.
    pub fn execute_on_container(&self, command: Command) -> Result<Option<()>, ArchiveError> {
        if_there(self.execute(command))
    }

    /// As [`Ground::execute_on_container`], of at most [`store::EXECUTE_ALL_MAX`] commands with one commit.
    /// All are tried; the first refusal for another reason is the error.
    pub fn execute_on_containers(&self, commands: Vec<Command>) -> Result<(), ArchiveError> {
        let results = self.catalogue.execute_all(commands).map_err(ArchiveError::Store)?;
        let mut results = results.into_iter().map(|result| result.map_err(|refusal| self.refused(refusal)));
        results.try_for_each(|result| if_there(result).map(drop))
    }

    /// As [`Ground::ask`], of what is about a container: `None` if the catalogue does not have it any more.
    pub fn ask_on_container<C: TypedCommand>(&self, command: C) -> Result<Option<C::Answer>, ArchiveError> {
        if_there(self.ask(command))
    }

    /// What the catalogue's refusal or failure means to whoever gave a command.
    pub fn failed(&self, error: ExecuteError) -> ArchiveError {
        match error {
            ExecuteError::Rejected(rejection) => self.refused(rejection),
            other => ArchiveError::Store(other),
        }
    }

    /// A refusal of the catalogue, as far as it can be said better here.
    pub fn refused(&self, rejection: Rejection) -> ArchiveError {
        match rejection {
            Rejection::QuotaExceeded { subject, what, limit, used } => {
                self.exceeded(subject, what, limit, used)
            }
            other => ArchiveError::Rejected(other),
        }
    }

    /// A tape's record.
    pub fn tape(&self, vid: Vid) -> Result<TapeRecord, ArchiveError> {
        self.read(|view| view.tape(vid))?.ok_or(ArchiveError::NoSuchTape(vid))
    }

    /// All bytes of a small piece of the pool: the skeleton of a pack.
    pub fn read_whole(&self, blob: &BlobDescription, piece: &BlobPiece) -> Result<Vec<u8>, PoolError> {
        let mut bytes = Vec::with_capacity(usize::try_from(piece.length.0).unwrap_or(0));
        let mut reader = self.pool.read_piece(blob, piece)?;
        while let Some(chunk) = reader.next()? {
            bytes.extend_from_slice(chunk.as_ref());
        }
        Ok(bytes)
    }
}

/// `None` if the catalogue does not have the container any more that the command was about: its last member
/// was deleted, and its last place given up, since the caller looked.
fn if_there<T>(answer: Result<T, ArchiveError>) -> Result<Option<T>, ArchiveError> {
    match answer {
        Err(ArchiveError::Rejected(Rejection::NotFound(Object::Container(_)))) => Ok(None),
        answer => answer.map(Some),
    }
}

/// At most `limit` bytes of `text`. What is cut off is cut between words, if there are any, and shown by "…".
pub fn truncated(text: &str, limit: usize) -> String {
    if text.len() <= limit {
        return text.to_owned();
    }
    const MORE: &str = "…";
    let Some(room) = limit.checked_sub(MORE.len()) else { return String::new() };
    let kept = text.get(..text.floor_char_boundary(room)).unwrap_or_default();
    let ends_a_word = text.get(kept.len()..).is_some_and(|rest| rest.starts_with(char::is_whitespace));
    let word = kept.rfind(char::is_whitespace).filter(|at| !ends_a_word && *at >= room / 2);
    let kept = word.and_then(|at| kept.get(..at)).unwrap_or(kept);
    format!("{}{MORE}", kept.trim_end())
}

#[cfg(test)]
mod tests {
    use super::truncated;

    /// Story: a warning in `kist status` ended in the middle of a word, as if that were all.
    #[test]
    fn what_is_cut_off_is_cut_between_words_and_shown() {
        assert_eq!(truncated("a library", 9), "a library");
        assert_eq!(truncated("the library is away", 17), "the library is…");
        assert_eq!(truncated("the library is away", 14), "the library…");
        assert_eq!(truncated("the library is away", 16), "the library…", "three bytes are the mark's");
        assert_eq!(truncated("äöüäöüäöü", 10), "äöü…");
        assert_eq!(truncated("long", 2), "");
        for limit in 0..60 {
            assert!(truncated("eine Bücherei, die nicht antwortet, und noch mehr", limit).len() <= limit);
        }
    }
}
