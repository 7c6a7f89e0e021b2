//! What all requests share: the engine, the keys, and the allowances of threads and memory.

use std::sync::Arc;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::task::spawn_blocking;

use crate::auth::Keys;
use crate::limits::Limits;
use crate::problem::{Kind, Refusal};
use crate::seam::Engine;

/// One for each door.
pub(crate) struct Shared {
    pub engine: Arc<dyn Engine>,
    pub limits: Limits,
    pub keys: Keys,
    /// Allowance for streams of bytes.
    pub transfers: Arc<Semaphore>,
    /// Allowance for downloads that hand on the engine's own memory.
    pub loans: Arc<Semaphore>,
    /// Allowance for other calls.
    pub calls: Arc<Semaphore>,
    /// Allowance for large JSON bodies.
    pub json_large: Arc<Semaphore>,
}

impl Shared {
    pub(crate) fn new(engine: Arc<dyn Engine>, limits: Limits, keys: Keys) -> Self {
        let semaphore = |permits: usize| Arc::new(Semaphore::new(permits.clamp(1, Semaphore::MAX_PERMITS)));
        Shared {
            engine,
            keys,
            transfers: semaphore(limits.transfers),
            loans: semaphore(limits.loans),
            calls: semaphore(limits.calls),
            json_large: semaphore(limits.json_large_at_once),
            limits,
        }
    }

    /// Waits for a place, but not for long.
    ///
    /// # Errors
    /// 503 if none came free within [`Limits::admission_wait`].
    pub(crate) async fn admit(&self, semaphore: &Arc<Semaphore>) -> Result<OwnedSemaphorePermit, Refusal> {
        let wait = tokio::time::timeout(self.limits.admission_wait, semaphore.clone().acquire_owned());
        match wait.await {
            Ok(Ok(permit)) => Ok(permit),
            // The semaphores are never closed.
            Ok(Err(_)) | Err(_) => {
                Err(Refusal::new(Kind::Unavailable, "the server is busy: try again later"))
            }
        }
    }

    /// Calls the engine on a thread that may block.
    pub(crate) async fn call<T, W>(&self, work: W) -> Result<T, Refusal>
    where
        T: Send + 'static,
        W: FnOnce(&dyn Engine) -> Result<T, Refusal> + Send + 'static,
    {
        let permit = self.admit(&self.calls).await?;
        let engine = self.engine.clone();
        let outcome = spawn_blocking(move || {
            let _permit = permit;
            work(&*engine)
        });
        outcome.await.map_err(lost_thread)?
    }
}

/// A thread that ended without an answer.
pub(crate) fn lost_thread<E>(_: E) -> Refusal {
    Refusal::new(Kind::Internal, "the operation ended unexpectedly: see the server's log")
}
