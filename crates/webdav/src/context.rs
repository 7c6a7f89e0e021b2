//! What all requests share, and what one request works with.

use std::sync::Arc;

use authority::{Guard, Guarded};
use entrance::{Call, Refusal};
use http::request::Parts;
use tokio::sync::Semaphore;
use tpc::Client;
use transfer::{Fault, Holder, Place, Places, Transfers};

use crate::address::Target;
use crate::conditions::IfHeader;
use crate::engine::Engine;
use crate::settings::WebDavSettings;

/// What all requests share.
pub(crate) struct Context {
    pub guard: Guard<dyn Engine>,
    pub transfers: Transfers,
    pub settings: WebDavSettings,
    /// Makes third-party copies, if any are made.
    pub copies: Option<Arc<Client>>,
    /// Copies that come by several connections at once.
    pub several: Arc<Semaphore>,
    calls: Places,
    long_calls: Places,
}

impl Context {
    pub(crate) fn new(
        guard: Guard<dyn Engine>,
        transfers: Transfers,
        settings: WebDavSettings,
        copies: Option<Arc<Client>>,
    ) -> Self {
        let limits = &settings.limits;
        let (calls, long_calls) = (Places::new(limits.calls), Places::new(limits.long_calls));
        let several = Arc::new(Semaphore::new(limits.copies_by_several));
        Context { guard, transfers, settings, copies, several, calls, long_calls }
    }
}

/// One request: who asks, for what, and the engine as they may use it.
#[derive(Clone)]
pub(crate) struct Asked {
    pub context: Arc<Context>,
    pub call: Arc<Call>,
    pub engine: Arc<Guarded<dyn Engine>>,
    pub parts: Arc<Parts>,
    pub target: Target,
    /// The conditions of the header `If`.
    pub conditions: Arc<IfHeader>,
}

impl Asked {
    /// Who gets places for it.
    pub(crate) fn holder(&self) -> Holder {
        self.call.holder()
    }

    /// Calls the engine on a thread that may block.
    pub(crate) async fn run<T, E, W>(&self, work: W) -> Result<T, E>
    where
        T: Send + 'static,
        E: From<Fault> + Send + 'static,
        W: FnOnce(&Asked) -> Result<T, E> + Send + 'static,
    {
        self.block(&self.context.calls, work).await
    }

    /// The same for what may go through very many files.
    pub(crate) async fn run_long<T, E, W>(&self, work: W) -> Result<T, E>
    where
        T: Send + 'static,
        E: From<Fault> + Send + 'static,
        W: FnOnce(&Asked) -> Result<T, E> + Send + 'static,
    {
        self.block(&self.context.long_calls, work).await
    }

    async fn block<T, E, W>(&self, places: &Places, work: W) -> Result<T, E>
    where
        T: Send + 'static,
        E: From<Fault> + Send + 'static,
        W: FnOnce(&Asked) -> Result<T, E> + Send + 'static,
    {
        let asked = self.clone();
        self.context.transfers.block(places, &self.holder(), move || work(&asked)).await
    }

    /// A place for a call that may take long.
    pub(crate) async fn place_for_long(&self) -> Result<Place, Refusal> {
        let Context { transfers, long_calls, .. } = &*self.context;
        Ok(transfers.admit_to(long_calls, &self.holder().unpaced(), 1).await?)
    }
}
