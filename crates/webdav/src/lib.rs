//! WebDAV (RFC 4918, classes 1, 2 and 3) over the engine: a translation that decides nothing. What it says of
//! each method stands in `docs/reference/webdav.md`.

mod address;
mod answer;
mod conditions;
mod context;
mod copy;
mod delete;
mod digests;
mod engine;
#[doc(hidden)]
pub mod fuzz;
mod get;
mod locking;
mod macaroon;
mod page;
mod pages;
mod properties;
mod propfind;
mod proppatch;
mod put;
mod ranges;
mod service;
mod settings;
mod third_party;
mod tree;
mod xml;

pub use engine::Engine;
pub use service::{Mounted, NAME, WebDavService, service};
pub use settings::{WebDavLimits, WebDavSettings};
