//! Locks that the caller takes, holds and gives back. They are no role of the engine: it does not know them.

use archive::{ArchiveError, WhyNoLock};
use base::{ArchivePath, Duration, Uuid};
use identity::Rights;

use super::Guarded;
use crate::locks::{Lock, LockRequest};
use crate::roles::Access;

impl<E: Access + ?Sized> Guarded<E> {
    /// Takes a lock on what the caller may change, or on a name that is free and that they may use.
    ///
    /// # Errors
    /// [`ArchiveError::Denied`]; [`ArchiveError::NoLock`] if another one is in the way, or there are too
    /// many.
    pub fn lock(&self, mut request: LockRequest) -> Result<Lock, ArchiveError> {
        let path = request.path.clone();
        request.span = self.while_let_in(request.span);
        self.may_lock("lock", &path, request.is_deep)?;
        let no_clock = || ArchiveError::NoLock { path: path.clone(), why: WhyNoLock::NoClock };
        let clock = self.rule.ledger.clock.as_ref().ok_or_else(no_clock)?;
        let mut random = [0; 16];
        getrandom::fill(&mut random).map_err(|_| ArchiveError::NoEntropy)?;
        let token = format!("urn:uuid:{}", Uuid::from_random(random));
        let holder = &self.rule.ledger.caller;
        let take = || self.rule.holding.locks.take(request, holder, token, clock.steady());
        self.rule.done("lock", &path, take)
    }

    /// That the caller may change what they lock, or give free: reading a token is not enough.
    fn may_lock(&self, verb: &'static str, path: &ArchivePath, is_deep: bool) -> Result<(), ArchiveError> {
        if self.rule.ledger.caller.is_anonymous() {
            return self.rule.deny(verb, path, "a lock is somebody's: come in with a key or token");
        }
        if is_deep {
            return self.rule.may(verb, Rights::MODIFY, path);
        }
        self.rule.putting(verb, path, false).map(drop)
    }

    /// Has a lock of the caller, whose token came with the request, last for this long from now on.
    ///
    /// # Errors
    /// [`ArchiveError::NoSuchLock`].
    pub fn refresh_lock(&self, path: &ArchivePath, span: Duration) -> Result<Lock, ArchiveError> {
        self.may_lock("lock", path, false)?;
        let held = (self.rule.ledger.caller.name.as_str(), &self.rule.holding.tokens[..]);
        let span = self.while_let_in(span);
        self.rule.holding.locks.refresh(path, held, span, self.rule.ledger.steady())
    }

    /// A span, cut at the end of that with which the caller came in: nothing that it gives lasts longer.
    fn while_let_in(&self, span: Duration) -> Duration {
        let ledger = &self.rule.ledger;
        match (ledger.caller.until, &ledger.clock) {
            (Some(until), Some(clock)) => span.min(until.since(clock.now())),
            _ => span,
        }
    }

    /// Gives a lock back: one of the caller, or any if they are an admin.
    ///
    /// # Errors
    /// [`ArchiveError::NoSuchLock`].
    pub fn unlock(&self, path: &ArchivePath, token: &str) -> Result<(), ArchiveError> {
        self.may_lock("unlock", path, false)?;
        let caller = (!self.rule.is_admin()).then_some(self.rule.ledger.caller.name.as_str());
        let now = self.rule.ledger.steady();
        self.rule.done("unlock", path, || self.rule.holding.locks.give_back(path, token, caller, now))
    }

    /// Ends all locks that were taken on a path. For admins.
    ///
    /// # Errors
    /// [`ArchiveError::Denied`]; [`ArchiveError::NoSuchLock`] if there are none.
    pub fn end_locks(&self, path: &ArchivePath) -> Result<(), ArchiveError> {
        self.rule.admin("unlock", path)?;
        let now = self.rule.ledger.steady();
        self.rule.done("unlock", path, || self.rule.holding.locks.end_on(path, now))
    }

    /// The locks that hold for a path, with the time until they end.
    ///
    /// # Errors
    /// If the catalogue cannot be read.
    pub fn locks_on(&self, path: &ArchivePath) -> Result<Vec<(Lock, Duration)>, ArchiveError> {
        if self.rule.holding.locks.is_empty() {
            return Ok(Vec::new());
        }
        // Asked for each line of a listing: a refusal is no event.
        if !self.rule.has(Rights::STAT, path)? {
            return Ok(Vec::new());
        }
        let now = self.rule.ledger.steady();
        let locks = self.rule.holding.locks.on(path, now).into_iter();
        Ok(locks.map(|lock| (lock.ends.saturating_sub(now), lock)).map(|(left, lock)| (lock, left)).collect())
    }

    /// All locks, with the time until they end. For admins and operators.
    ///
    /// # Errors
    /// [`ArchiveError::Denied`].
    pub fn locks(&self) -> Result<Vec<(Lock, Duration)>, ArchiveError> {
        self.rule.looks("locks", "")?;
        let now = self.rule.ledger.steady();
        let locks = self.rule.holding.locks.all(now).into_iter();
        Ok(locks.map(|lock| (lock.ends.saturating_sub(now), lock)).map(|(left, lock)| (lock, left)).collect())
    }
}
