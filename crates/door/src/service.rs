//! What the listeners of a door serve: the door's own addresses, and services that are registered by name.

use std::collections::BTreeMap;
use std::sync::Arc;

use authority::{Authority, Guard};
use transfer::{Service, Transfers};

use crate::engine::Engine;
use crate::server::Door;

/// The name of the door's own service: `/data`, `/api/v1` and `/healthz`.
pub const HTTP: &str = "http";

/// Everything that the listeners of a door can serve. The program fills it before the door opens.
pub struct Services {
    /// Lets people in at the door's own addresses, each to the engine as they may use it.
    pub(crate) authority: Guard<dyn Engine>,
    pub(crate) transfers: Transfers,
    pub(crate) registered: BTreeMap<&'static str, Service>,
}

impl Services {
    /// The door's own service alone, [`HTTP`], with a budget for bodies as the limits of this door say.
    #[must_use]
    pub fn new(door: &Door, authority: Guard<dyn Engine>) -> Self {
        let (limits, asked) = (door.limits().transfer.clone(), authority.clone());
        let transfers = Transfers::new(limits, authority.notices(), move |caller| asked.upload_haste(caller));
        Services { authority, transfers, registered: BTreeMap::new() }
    }

    /// The same over an engine with nobody but the admins of [`DoorSettings::keys`](crate::DoorSettings), for
    /// tests and tools.
    #[must_use]
    pub fn over<E: Engine>(door: &Door, engine: Arc<E>) -> Self {
        Services::new(door, Guard::new(Arc::new(Authority::default()), engine as Arc<dyn Engine>))
    }

    /// The one budget of all services for bodies of files, to make further services with.
    #[must_use]
    pub fn transfers(&self) -> &Transfers {
        &self.transfers
    }

    /// Adds a service, for listeners that name it.
    ///
    /// # Panics
    /// If there is one of its name: two services of one name are a mistake of the program.
    pub fn register(&mut self, service: Service) {
        let name = service.name;
        let is_new = name != HTTP && self.registered.insert(name, service).is_none();
        assert!(is_new, "there are two services '{name}'");
    }

    /// The names of all services.
    #[must_use]
    pub fn names(&self) -> Vec<&'static str> {
        [HTTP].into_iter().chain(self.registered.keys().copied()).collect()
    }

    /// Threads for blocking calls of all services but the door's own.
    pub(crate) fn threads(&self) -> usize {
        self.registered.values().fold(0, |sum, service| sum.saturating_add(service.threads))
    }
}
