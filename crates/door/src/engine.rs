//! The engine as the door's own service asks for it.

use authority::{Access, Bytes, Namespace, Operation, Owners, Staging, Trees};

/// The roles that the door's own service asks for.
pub trait Engine: Access + Bytes + Namespace + Operation + Owners + Staging + Trees {}

impl<E: Access + Bytes + Namespace + Operation + Owners + Staging + Trees + ?Sized> Engine for E {}
