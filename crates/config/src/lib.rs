//! `kist.toml`: typed, every key known, units inside values, errors with file, line and key.
//!
//! [`load`] reads and checks a file; a [`Config`] gives the settings of engine, doors and identities;
//! [`write()`] makes the file of a new instance.

mod check;
mod convert;
mod drive_file;
mod file;
mod identity;
mod keys;
mod libraries;
mod mounts;
mod s3;
mod server;
mod tape_rest;
mod template;
mod third_party_copy;
mod value;
mod xrootd;

pub use check::{ConfigError, load, load_strictly};
pub use drive_file::DriveFile;
pub use file::Config;
pub use identity::{FETCHED_DIRECTORY, Identity, KeyAddress, TokenIssuer};
pub use template::{Template, write};
pub use value::{Size, Span};
pub use xrootd::{Xrootd, XrootdSettings};

/// The format of an instance that this program writes; it reads this one only.
pub const FORMAT: u32 = 1;
/// Its name in the directory of an instance: the operator's settings.
pub const CONFIG_FILE: &str = "kist.toml";
