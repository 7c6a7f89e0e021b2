//! The engine as WebDAV asks for it.

use authority::{Access, Bytes, Namespace, Objects, Trees};

/// The roles that WebDAV asks for.
pub trait Engine: Access + Bytes + Namespace + Objects + Trees {}

impl<E: Access + Bytes + Namespace + Objects + Trees + ?Sized> Engine for E {}
