//! What this door needs of the engine.

use authority::{Access, PathRequests, Staging};

/// The roles of the engine that this door asks for.
pub trait Engine: Access + Staging + PathRequests {}

impl<E: Access + Staging + PathRequests + ?Sized> Engine for E {}
