//! Durability: one sync at a time, shared by all who wait for it; and the tables of segments that are
//! complete.

use base::planted::{Bug, is_planted};

use crate::error::LogError;
use crate::log::{Inner, ValueLog};
use crate::state::Head;

impl ValueLog {
    /// Makes durable all changes that have returned before.
    ///
    /// # Errors
    /// [`LogError::Poisoned`], [`LogError::Closed`].
    pub fn flush(&self) -> Result<(), LogError> {
        self.inner.lock().check_open()?;
        self.inner.flush()
    }
}

impl Inner {
    /// A sync, unless there is nothing to be synced.
    pub(crate) fn flush(&self) -> Result<(), LogError> {
        {
            let state = self.lock();
            let is_clean = state.dirty == 0 && !state.is_syncing && !state.has_closing();
            if is_clean && state.failure.is_none() {
                return Ok(());
            }
        }
        self.sync_now()
    }

    /// Waits for a sync that begins after this call; makes it if nobody else does.
    pub(crate) fn sync_now(&self) -> Result<(), LogError> {
        let mut state = self.lock();
        let wanted = state.syncs_begun + 1;
        while state.is_syncing && state.syncs_ended < wanted && state.failure.is_none() {
            state = self.wait(state);
        }
        if state.failure.is_some() {
            return Err(LogError::Poisoned);
        }
        if state.syncs_ended >= wanted {
            return Ok(());
        }
        state.is_syncing = true;
        state.syncs_begun += 1;
        let number = state.syncs_begun;
        let through = state.written_through();
        state.dirty = 0;
        drop(state);
        let synced = if is_planted(Bug::MissingLogSync) { Ok(()) } else { self.medium.sync() };
        self.counters.syncs.add(1);
        let mut state = self.lock();
        state.is_syncing = false;
        match synced {
            Ok(()) => {
                state.syncs_ended = number;
                state.durable = state.durable.max(through);
            }
            // What was written may be lost, and another sync would not say so.
            Err(error) => state.fail(format!("a sync failed: {error}")),
        }
        let failed = state.failure.is_some();
        let ready = if failed { Vec::new() } else { state.take_durable_heads() };
        drop(state);
        self.changed.notify_all();
        self.seal(ready)?;
        if failed { Err(LogError::Poisoned) } else { Ok(()) }
    }

    /// Writes the tables of segments of which all is durable. Durable they need not be: a segment without its
    /// table is scanned.
    fn seal(&self, heads: Vec<Head>) -> Result<(), LogError> {
        for head in heads {
            let (store, durable) = {
                let state = self.lock();
                (state.store, state.durable)
            };
            let (offset, bytes) = head.footer(store, durable, self.layout);
            let written = self.write(head.slot, offset, &[&bytes]);
            let mut state = self.lock();
            state.sealing -= 1;
            if written.is_ok() {
                state.slot(head.slot).state = crate::state::SlotState::Sealed;
            }
            drop(state);
            self.changed.notify_all();
            written.map_err(|error| self.poison("writing the table of a segment", &error))?;
        }
        Ok(())
    }
}
