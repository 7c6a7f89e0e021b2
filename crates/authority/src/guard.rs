//! The one way to an engine: a guard, which lets nobody have it but as they may use it.

use std::net::SocketAddr;
use std::ops::Deref;
use std::sync::Arc;

use archive::HealthProblem;
use identity::Caller;

use crate::authority::Authority;
use crate::guarded::Guarded;
use crate::roles::{Bytes, Operation};

/// Guards an engine with the roles `E` for a door: whoever comes through it gets the engine from here and
/// from nowhere else. Several doors share an authority. Clones are the same guard.
pub struct Guard<E: ?Sized> {
    authority: Arc<Authority>,
    engine: Arc<E>,
}

impl<E: ?Sized> Clone for Guard<E> {
    fn clone(&self) -> Self {
        Guard { authority: self.authority.clone(), engine: self.engine.clone() }
    }
}

impl<E: ?Sized> Deref for Guard<E> {
    type Target = Authority;

    fn deref(&self) -> &Authority {
        &self.authority
    }
}

impl<E: ?Sized> Guard<E> {
    /// Who lets people in.
    #[must_use]
    pub fn authority(&self) -> &Arc<Authority> {
        &self.authority
    }

    /// Guards an engine for those whom this authority lets in.
    #[must_use]
    pub fn new(authority: Arc<Authority>, engine: Arc<E>) -> Self {
        Guard { authority, engine }
    }

    /// The engine as this caller may use it: each call is authorised and written down.
    #[must_use]
    pub fn enter(&self, caller: &Arc<Caller>) -> Arc<Guarded<E>> {
        self.enter_from(caller, None)
    }

    /// As [`Guard::enter`], with the address of the caller for the audit log.
    #[must_use]
    pub fn enter_from(&self, caller: &Arc<Caller>, peer: Option<SocketAddr>) -> Arc<Guarded<E>> {
        let ledger = self.authority.ledger(caller, peer);
        Arc::new(Guarded::new(self.engine.clone(), ledger, self.authority.notices().clone()))
    }
}

impl<E: Bytes + ?Sized> Guard<E> {
    /// How many times the lowest rate of a client is due of this caller's uploads; see
    /// [`Bytes::upload_haste`].
    #[must_use]
    pub fn upload_haste(&self, caller: &str) -> u64 {
        self.engine.upload_haste(caller)
    }
}

impl<E: Operation + ?Sized> Guard<E> {
    /// What keeps the server from taking changes; none: it takes them.
    #[must_use]
    pub fn health(&self) -> Vec<HealthProblem> {
        let mut problems = self.engine.health();
        problems.extend(self.authority.problem());
        problems
    }
}
