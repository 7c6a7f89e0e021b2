//! What all requests share: who lets them in, and the allowances of threads and memory.

use std::ops::Deref;
use std::sync::Arc;

use axum::extract::FromRequestParts;
use axum::http::request::Parts;

use crate::engine::Engine;
use crate::limits::Limits;
use crate::metrics::RequestCounts;
use crate::works::Works;
use authority::Guard;
use entrance::Call;
use entrance::{Kind, Refusal};
use transfer::{Fault, Holder, Place, Places, Transfers};

/// One for each door.
pub(crate) struct Shared {
    pub authority: Guard<dyn Engine>,
    pub limits: Limits,
    /// What the doors count.
    pub counts: Arc<RequestCounts>,
    /// Allowance for streams of bytes, with those of other doors.
    pub transfers: Transfers,
    /// Allowance for other calls.
    pub calls: Places,
    /// Allowance for calls that may take long.
    pub long_calls: Places,
    /// Allowance for large JSON bodies.
    pub json_large: Places,
    /// Allowance for those with very long lists of paths.
    pub json_lists: Places,
    /// Calls over many files.
    pub works: Works,
}

impl Shared {
    pub(crate) fn new(authority: Guard<dyn Engine>, transfers: Transfers, limits: Limits) -> Self {
        Shared {
            authority,
            counts: RequestCounts::new(),
            transfers,
            calls: Places::new(limits.calls),
            long_calls: Places::new(limits.long_calls),
            json_large: Places::new(limits.json_large_at_once),
            json_lists: Places::new(limits.json_lists_at_once),
            works: Works::default(),
            limits,
        }
    }

    /// Waits for a place, but not for long.
    ///
    /// # Errors
    /// 503 if none came free within [`transfer::TransferLimits::admission_wait`].
    pub(crate) async fn admit(&self, places: &Places, holder: &Holder) -> Result<Place, Refusal> {
        Ok(self.transfers.admit_to(places, holder, 1).await?)
    }
}

/// What a handler works with: what all share, and the engine as the caller of this request may use it. There
/// is no other way to an engine.
pub(crate) struct Asked {
    shared: Arc<Shared>,
    pub engine: Arc<dyn Engine>,
    /// Who gets places for it.
    pub holder: Holder,
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
        let engine = shared.authority.enter_from(&call.principal, call.peer);
        Ok(Asked { shared: shared.clone(), engine, holder: call.holder() })
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

    /// As [`Asked::call`], for what may go through very many files.
    pub(crate) async fn call_long<T, W>(&self, work: W) -> Result<T, Refusal>
    where
        T: Send + 'static,
        W: FnOnce(&dyn Engine) -> Result<T, Refusal> + Send + 'static,
    {
        let engine = self.engine.clone();
        self.block_on(&self.long_calls, move || work(&*engine)).await
    }

    /// Does something that may block on a thread that may.
    pub(crate) async fn block<T, W>(&self, work: W) -> Result<T, Refusal>
    where
        T: Send + 'static,
        W: FnOnce() -> Result<T, Refusal> + Send + 'static,
    {
        self.block_on(&self.calls, work).await
    }

    /// A place for a call that may take long.
    pub(crate) async fn place_for_long(&self) -> Result<Place, Refusal> {
        self.admit(&self.long_calls, &self.holder.unpaced()).await
    }

    async fn block_on<T, W>(&self, places: &Places, work: W) -> Result<T, Refusal>
    where
        T: Send + 'static,
        W: FnOnce() -> Result<T, Refusal> + Send + 'static,
    {
        self.transfers.block(places, &self.holder, work).await
    }
}

/// A thread that ended without an answer.
pub(crate) fn lost_thread<E>(_: E) -> Refusal {
    Fault::Lost.into()
}
