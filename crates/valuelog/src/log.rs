//! The store, and what its parts share.

use std::sync::atomic::AtomicBool;
use std::sync::{Arc, PoisonError};

use base::{ByteCount, Count, Uuid};
use drive::PAGE;
use threads::{Condvar, Doorbell, Mutex, MutexGuard};

use crate::background::Background;
use crate::buffers::Buffers;
use crate::error::{Damage, LogError};
use crate::figures::{Counters, Figures};
use crate::limits::{Layout, Settings};
use crate::make::Making;
use crate::medium::Medium;
use crate::recover::Recovery;
use crate::state::{SlotState, State};

/// A store of keys and values on one disk. All calls may be made from any number of threads at the same time;
/// none waits for another one's transfers but for those of the same key, and for a shared sync.
///
/// Dropped without [`ValueLog::close`] it is left as a crash would leave it, which costs the next opening a
/// scan of what was not sealed.
pub struct ValueLog {
    pub(crate) inner: Arc<Inner>,
    recovery: Recovery,
    background: Option<Background>,
}

pub(crate) struct Inner {
    pub(crate) medium: Box<dyn Medium>,
    pub(crate) layout: Layout,
    pub(crate) settings: Settings,
    pub(crate) buffers: Arc<Buffers>,
    pub(crate) state: Mutex<State>,
    /// Anything of the state that others wait for has changed.
    pub(crate) changed: Condvar,
    /// Whoever makes segments free or ready.
    pub(crate) making: Mutex<Making>,
    pub(crate) counters: Counters,
    pub(crate) doorbell: Doorbell,
    pub(crate) is_stopping: AtomicBool,
}

impl Inner {
    pub(crate) fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn making(&self) -> MutexGuard<'_, Making> {
        self.making.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn wait<'a>(&self, state: MutexGuard<'a, State>) -> MutexGuard<'a, State> {
        self.changed.wait(state).unwrap_or_else(PoisonError::into_inner)
    }

    /// A write or a sync has failed: nothing more is taken.
    pub(crate) fn poison(&self, what: &str, error: &std::io::Error) -> LogError {
        self.lock().fail(format!("{what} failed: {error}"));
        self.changed.notify_all();
        LogError::Poisoned
    }

    /// Writes to a segment.
    pub(crate) fn write(&self, slot: u32, offset: u32, parts: &[&[u8]]) -> std::io::Result<()> {
        let bytes: usize = parts.iter().map(|part| part.len()).sum();
        assert!(
            bytes.is_multiple_of(PAGE) && (offset as usize).is_multiple_of(PAGE),
            "whole pages are written"
        );
        let end = u64::from(offset) + bytes as u64;
        assert!(end <= self.layout.segment.0, "nothing is written behind the end of a segment");
        self.counters.written.add(bytes as u64);
        self.medium.write(slot, offset, parts)
    }

    /// A record was found damaged.
    pub(crate) fn met(&self, damage: Damage) -> LogError {
        self.counters.damaged.add(1);
        LogError::Damaged(Box::new(damage))
    }
}

impl ValueLog {
    pub(crate) fn new(inner: Inner, recovery: Recovery) -> ValueLog {
        let inner = Arc::new(inner);
        let background = inner.settings.background.then(|| Background::start(&inner));
        ValueLog { inner, recovery, background }
    }

    /// Which store it is.
    #[must_use]
    pub fn id(&self) -> Uuid {
        self.inner.lock().store
    }

    /// What it was made with.
    #[must_use]
    pub fn layout(&self) -> Layout {
        self.inner.layout
    }

    /// What was found when it was opened.
    #[must_use]
    pub fn recovery(&self) -> &Recovery {
        &self.recovery
    }

    /// Why it takes no more changes, if a write or sync has failed.
    #[must_use]
    pub fn failure(&self) -> Option<String> {
        self.inner.lock().failure.clone()
    }

    /// What it holds and has done.
    #[must_use]
    pub fn figures(&self) -> Figures {
        let (state, counters) = (self.inner.lock(), &self.inner.counters);
        let segment = self.inner.layout.segment.0;
        let is_used = |state: SlotState| !matches!(state, SlotState::Unmade | SlotState::Free);
        let used = state.slots.iter().filter(|slot| is_used(slot.state)).count() as u64;
        Figures {
            capacity: ByteCount(u64::from(state.limit.saturating_sub(state.reserve)) * segment),
            used: ByteCount(used * segment),
            needed: ByteCount(state.slots.iter().map(|slot| slot.needed).sum()),
            keys: Count(state.index.present().len() as u64),
            tombstones: Count(state.index.tombstones() as u64),
            index: ByteCount(state.index.bytes()),
            reads: counters.reads.count(),
            read: counters.read.bytes(),
            writes: counters.writes.count(),
            written: counters.written.bytes(),
            syncs: counters.syncs.count(),
            cleaned: counters.cleaned.count(),
            copied: counters.copied.bytes(),
            damaged: counters.damaged.count(),
        }
    }

    /// Makes all durable and ends it, so that the next opening reads tables only. Waits for what is under
    /// way; what comes later is refused.
    ///
    /// # Errors
    /// [`LogError::Poisoned`].
    pub fn close(mut self) -> Result<(), LogError> {
        if let Some(background) = self.background.take() {
            background.stop(&self.inner);
        }
        self.inner.close()
    }

    /// As [`ValueLog::close`], where others have it, too: they are refused from now on.
    ///
    /// # Errors
    /// [`LogError::Poisoned`], [`LogError::Closed`].
    pub fn shut(&self) -> Result<(), LogError> {
        self.inner.close()
    }
}

impl Drop for ValueLog {
    fn drop(&mut self) {
        if let Some(background) = self.background.take() {
            background.stop(&self.inner);
        }
    }
}

impl Inner {
    fn close(&self) -> Result<(), LogError> {
        let _making = self.making();
        let mut state = self.lock();
        state.check_open()?;
        state.is_closed = true;
        while !state.is_idle() && state.failure.is_none() {
            state = self.wait(state);
        }
        state.close_heads();
        drop(state);
        // The first makes records durable, the second the tables that are written then.
        self.sync_now()?;
        self.sync_now()?;
        assert!(!self.lock().has_closing(), "all segments are sealed");
        Ok(())
    }
}
