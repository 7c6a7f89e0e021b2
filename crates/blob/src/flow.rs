//! What a tape stream tells the store that it moves bytes to or from.

/// A tape stream, for as long as its session runs: the store holds others back while it starves.
pub trait TapeFlow: Send + Sync {
    /// Takes note of bytes moved between store and tape.
    fn moved(&self, bytes: u64);

    /// The tape drive waits for the store from now on, or does not any more.
    fn set_waiting(&self, waits: bool);
}

impl dyn TapeFlow + '_ {
    /// The tape drive waits for the store until the guard is dropped.
    #[must_use]
    pub fn wait(&self) -> Waiting<'_> {
        self.set_waiting(true);
        Waiting(self)
    }
}

/// A tape drive that waits for the store.
pub struct Waiting<'a>(&'a dyn TapeFlow);

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.set_waiting(false);
    }
}

/// A stream of which no store takes note.
pub struct Unmetered;

impl TapeFlow for Unmetered {
    fn moved(&self, _bytes: u64) {}

    fn set_waiting(&self, _waits: bool) {}
}
