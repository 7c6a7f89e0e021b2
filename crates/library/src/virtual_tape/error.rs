//! Why a virtual cartridge cannot be created, loaded or dumped.

use std::path::{Path, PathBuf};

use base::Vid;

use crate::drive::is_for_want_of_space;

/// Why a virtual cartridge cannot be created, loaded or dumped.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CartridgeError {
    /// A file of the cartridge cannot be read or written.
    #[error("cannot {operation} {path}: {source}{}", file_advice(source))]
    File {
        /// The file.
        path: PathBuf,
        /// What was tried.
        operation: &'static str,
        /// What the system said.
        source: std::io::Error,
    },
    /// The file is something else, or its header is damaged.
    #[error("{path} is damaged or not a file of a virtual cartridge: restore it, or use the other copies")]
    Damaged {
        /// The file.
        path: PathBuf,
    },
    /// The file is of a version that this program does not know.
    #[error("{path} has format version {version}, this program knows {known}: use a newer program")]
    UnknownVersion {
        /// The file.
        path: PathBuf,
        /// Its version.
        version: u32,
        /// The version that is known.
        known: u32,
    },
    /// The file belongs to another cartridge.
    #[error("{path} belongs to cartridge {found}, not to {expected}: directories or files were exchanged")]
    WrongCartridge {
        /// The file.
        path: PathBuf,
        /// The VID of the directory.
        expected: Vid,
        /// The VID in the file.
        found: Vid,
    },
    /// The file belongs to the other partition.
    #[error("{path} belongs to partition {found}, not to {expected}: files were exchanged")]
    WrongPartition {
        /// The file.
        path: PathBuf,
        /// The partition in the file's name.
        expected: char,
        /// The partition in the file.
        found: char,
    },
    /// Another process, or a drive, has the cartridge loaded.
    #[error("cartridge {vid} is in use by another process: only one may load it")]
    Locked {
        /// The cartridge.
        vid: Vid,
    },
    /// The directory's name is no VID.
    #[error("{path} is not a cartridge directory: its name must be a VID")]
    NotAVid {
        /// The directory.
        path: PathBuf,
    },
}

/// What helps, where that is known.
fn file_advice(source: &std::io::Error) -> &'static str {
    if is_for_want_of_space(source) { ": make room for the library" } else { "" }
}

impl CartridgeError {
    /// Whether the file system of the library is full: this says nothing of the cartridge.
    #[must_use]
    pub fn is_for_want_of_space(&self) -> bool {
        match self {
            CartridgeError::File { source, .. } => is_for_want_of_space(source),
            _ => false,
        }
    }

    /// Whether the file is gone or its content is, rather than that something else is wrong.
    pub(super) fn is_loss(&self) -> bool {
        match self {
            CartridgeError::Damaged { .. } => true,
            CartridgeError::File { source, .. } => source.kind() == std::io::ErrorKind::NotFound,
            _ => false,
        }
    }

    /// For `map_err`: a failed operation on a file.
    pub(super) fn file(
        path: &Path,
        operation: &'static str,
    ) -> impl FnOnce(std::io::Error) -> CartridgeError {
        let path = path.to_owned();
        move |source| CartridgeError::File { path, operation, source }
    }
}
