//! What all requests share: who lets them in, and the allowances of threads and memory.

use std::ops::Deref;
use std::sync::Arc;

use axum::extract::FromRequestParts;
use axum::http::request::Parts;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::task::spawn_blocking;

use crate::audit::Call;
use crate::limits::Limits;
use crate::metrics::RequestCounts;
use crate::problem::{Kind, Refusal};
use authority::{Authority, Engine};

/// One for each door.
pub(crate) struct Shared {
    pub authority: Arc<Authority>,
    pub limits: Limits,
    /// What the doors count.
    pub counts: Arc<RequestCounts>,
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
    pub(crate) fn new(authority: Arc<Authority>, limits: Limits) -> Self {
        let semaphore = |permits: usize| Arc::new(Semaphore::new(permits.clamp(1, Semaphore::MAX_PERMITS)));
        Shared {
            authority,
            counts: RequestCounts::new(),
            transfers: semaphore(limits.transfers),
            // None is as good as any number: all downloads copy then.
            loans: Arc::new(Semaphore::new(limits.loans.min(Semaphore::MAX_PERMITS))),
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
}

/// What a handler works with: what all share, and the engine as the caller of this request may use it. There
/// is no other way to an engine.
pub(crate) struct Asked {
    shared: Arc<Shared>,
    pub engine: Arc<dyn Engine>,
}

impl Deref for Asked {
    type Target = Shared;

    fn deref(&self) -> &Shared {
        &self.shared
    }
}

impl FromRequestParts<Arc<Shared>> for Asked {
    type Rejection = Refusal;

    async fn from_request_parts(parts: &mut Parts, shared: &Arc<Shared>) -> Result<Self, Refusal> {
        let call = parts.extensions.get::<Arc<Call>>();
        let call = call.ok_or_else(|| Refusal::new(Kind::Unauthorized, "nobody has come in"))?;
        Ok(Asked { shared: shared.clone(), engine: call.engine.clone() })
    }
}

impl Asked {
    /// Calls the engine on a thread that may block.
    pub(crate) async fn call<T, W>(&self, work: W) -> Result<T, Refusal>
    where
        T: Send + 'static,
        W: FnOnce(&dyn Engine) -> Result<T, Refusal> + Send + 'static,
    {
        let engine = self.engine.clone();
        self.block(move || work(&*engine)).await
    }

    /// Does something that may block on a thread that may.
    pub(crate) async fn block<T, W>(&self, work: W) -> Result<T, Refusal>
    where
        T: Send + 'static,
        W: FnOnce() -> Result<T, Refusal> + Send + 'static,
    {
        let permit = self.admit(&self.calls).await?;
        let outcome = spawn_blocking(move || {
            let _permit = permit;
            work()
        });
        outcome.await.map_err(lost_thread)?
    }
}

/// A thread that ended without an answer.
pub(crate) fn lost_thread<E>(_: E) -> Refusal {
    Refusal::new(Kind::Internal, "the operation ended unexpectedly: see the server's log")
}
