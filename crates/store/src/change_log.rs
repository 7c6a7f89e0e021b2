//! Where the changes of a catalogue become durable, in one order.
//!
//! A writer takes the log over, which gives it a term: it alone appends from then on. What the log has and
//! its tables lack it applies first. Each group of commands is applied to the tables in a transaction, which
//! gives its times, its refusals and the numbers of its changes; the changes are appended; then the
//! transaction is committed, with the number of the last change in it. So:
//!
//! - a refused command is in no log, and no replica ever sees one;
//! - what has no room in this machine's tables is refused before anybody else hears of it; what is done in
//!   parts for lack of room is in the log part by part, as it was applied. (LMDB writes its list of free
//!   pages with the commit: where that alone finds no room behind a log that has the change already, the
//!   writer stops.)
//! - after a crash between the two, the change is in the log and in the tables of whoever opens them next.
//!
//! What this process keeps beside the tables (the plan of what is written where, room in the pool, work on
//! tapes that nobody waits for) belongs to the term (`OfTerm` in the tape room): whoever takes over builds it
//! anew from the catalogue.

use catalogue::{ReadError, View};

/// A writer's right to append, which ends with the next one's.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Term(pub u64);

impl std::fmt::Display for Term {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "term {}", self.0)
    }
}

/// When what was appended is durable.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Durable {
    /// With the commit of the tables, or not at all.
    WithCommit,
    /// Already: it stays in the log whatever becomes of the commit.
    Already,
}

/// Why changes were not appended, as far as is known.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AppendError {
    /// Nothing was appended, and it may be tried again.
    #[error("the change log takes nothing now: {0}")]
    NotNow(String),
    /// Another writer has taken the log over.
    #[error("another writer has taken the change log over ({0}): this one appends nothing more")]
    Fenced(Term),
    /// Whether they are in the log is not known before it is taken over again.
    #[error("whether the change log has the last changes is not known: {0}")]
    Unknown(String),
}

/// The log cannot be taken over or read.
#[derive(Debug, thiserror::Error)]
#[error("the change log cannot be read: {0}")]
pub struct FollowError(pub String);

/// The changes of one group, in the transaction that holds their effects.
pub struct Changes<'v> {
    view: View<'v>,
    first: u64,
    last: u64,
}

impl<'v> Changes<'v> {
    /// Those behind change `before` of the tables that `view` shows.
    pub(crate) fn behind(before: u64, view: View<'v>) -> Result<Self, ReadError> {
        let last = view.last_change()?;
        Ok(Changes { view, first: before + 1, last })
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.last < self.first
    }

    /// The number of the first one; the log must end just before it.
    #[must_use]
    pub fn first(&self) -> u64 {
        self.first
    }

    /// The number of the last one.
    #[must_use]
    pub fn last(&self) -> u64 {
        self.last
    }

    /// Their bytes, in order.
    ///
    /// # Errors
    /// If the engine fails.
    pub fn encoded(&self) -> Result<Vec<Vec<u8>>, ReadError> {
        let count = usize::try_from(self.last + 1 - self.first).unwrap_or(usize::MAX);
        let rows = self.view.changes(self.first, count, usize::MAX)?;
        Ok(rows.into_iter().map(|(_, bytes)| bytes).collect())
    }
}

/// The order of all changes. Its first implementation is the catalogue's own table ([`Embedded`]).
pub trait ChangeLog: Send {
    /// Becomes the only one that appends: nobody with an earlier term appends anything after this returns.
    ///
    /// # Errors
    /// If the log cannot be reached.
    fn take_over(&mut self) -> Result<Term, FollowError>;

    /// The encoded changes behind number `after`, in order, as many as fit a bounded answer; none at the end.
    ///
    /// # Errors
    /// If the log cannot be read, or has forgotten them.
    fn follow(&mut self, after: u64) -> Result<Vec<Vec<u8>>, FollowError>;

    /// Appends a group behind all that was appended before.
    ///
    /// # Errors
    /// As the variants say. After the last two nothing more is asked of this log.
    fn append(&mut self, term: Term, changes: &Changes<'_>) -> Result<Durable, AppendError>;
}

/// The log is a table of the catalogue: applying a command has written its change there, and the commit of
/// the tables makes it durable. The lock of the directory keeps other writers out.
#[derive(Clone, Copy, Debug)]
pub struct Embedded;

impl ChangeLog for Embedded {
    fn take_over(&mut self) -> Result<Term, FollowError> {
        Ok(Term(0))
    }

    fn follow(&mut self, _after: u64) -> Result<Vec<Vec<u8>>, FollowError> {
        Ok(Vec::new())
    }

    fn append(&mut self, _term: Term, _changes: &Changes<'_>) -> Result<Durable, AppendError> {
        Ok(Durable::WithCommit)
    }
}
