//! The engine as XRootD asks for it.

use authority::{Access, Bytes, Namespace, Staging};

/// The roles that XRootD asks for.
pub trait Engine: Access + Bytes + Namespace + Staging {}

impl<E: Access + Bytes + Namespace + Staging + ?Sized> Engine for E {}
