//! `kist.toml`: typed, every key known, units inside values, errors with file, line and key.

mod check;
mod convert;
mod file;
mod identity;
mod libraries;
mod mounts;
mod s3;
mod server;
mod template;
mod value;

pub use check::load;
pub use file::Config;
pub use identity::{FETCHED_DIRECTORY, Identity, KeyAddress, TokenIssuer};
pub use template::{Template, write};
pub use value::{Size, Span};
