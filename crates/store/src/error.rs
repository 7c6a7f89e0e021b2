//! What can go wrong with the engine.

use std::path::PathBuf;

use catalogue::Rejection;

/// Why the catalogue could not be opened.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OpenError {
    /// The directory cannot be made or read.
    #[error("the catalogue's directory {path} cannot be used: {source}")]
    Directory {
        /// The directory.
        path: PathBuf,
        /// The system's reason.
        source: std::io::Error,
    },
    /// Another process has it open.
    #[error("the catalogue in {0} is in use by another process: stop that process first")]
    InUse(PathBuf),
    /// A newer Kist wrote it, or it is none of ours.
    #[error(
        "the catalogue in {path} has format {found}, but this Kist knows {known}: use the Kist that wrote it"
    )]
    UnknownFormat {
        /// The directory.
        path: PathBuf,
        /// The format found.
        found: u32,
        /// The format that this Kist writes.
        known: u32,
    },
    /// The format file is damaged.
    #[error("the file {0} is damaged: restore the catalogue from its backup")]
    DamagedFormat(PathBuf),
    /// The engine refused.
    #[error("the catalogue's engine in {path} failed to open: {source}")]
    Engine {
        /// The directory.
        path: PathBuf,
        /// The engine's reason.
        source: heed::Error,
    },
}

/// Why a command was not executed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ExecuteError {
    /// The command was refused; nothing was changed.
    #[error(transparent)]
    Rejected(#[from] Rejection),
    /// The engine failed to begin or to commit. Whether the command is durable is unknown until the restart.
    #[error("the catalogue's engine failed ({0}): nothing more is written until the restart")]
    Engine(String),
    /// The writer has stopped, because of an earlier failure of the engine or because the store is closing.
    #[error(
        "the catalogue's writer has stopped after an earlier failure: look for the first error, then restart"
    )]
    Stopped,
}
