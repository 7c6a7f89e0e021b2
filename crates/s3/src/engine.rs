//! The engine as S3 asks for it.

use authority::{Access, Bytes, Namespace, Objects, Parts};

/// The roles that S3 asks for.
pub trait Engine: Access + Bytes + Namespace + Objects + Parts {}

impl<E: Access + Bytes + Namespace + Objects + Parts + ?Sized> Engine for E {}
