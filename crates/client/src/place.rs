//! What a client looks for in the directory of an instance on its machine. The server's side of it is the
//! program's.

use std::path::Path;

use serde::{Deserialize, Serialize};

/// The directory that commands take if none is named.
pub const DEFAULT_DIRECTORY: &str = "kist-data";
/// What says that a directory is an instance, and of which format.
pub const INSTANCE_FILE: &str = "instance.kist";
/// Where `kist demo` and `kist bench` keep the key of their own instance.
pub const ADMIN_KEY_FILE: &str = "admin.key";
/// Written by a server that is ready.
pub const SERVER_FILE: &str = "run/server.json";
/// The key of a local admin, written anew by each server that starts: whoever may read it may administrate.
pub const RUN_KEY_FILE: &str = "run/admin-key";

/// `run/server.json` of an instance with a running server.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct ServerFile {
    /// Where it listens.
    pub url: String,
    /// Where its S3 listens, if it does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub s3: Option<String>,
    /// Where its WebDAV listens, if it does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub webdav: Option<String>,
    /// Its process.
    pub pid: u32,
}

/// Whether there is an instance in `directory`.
pub fn is_instance(directory: &Path) -> bool {
    directory.join(INSTANCE_FILE).exists()
}
