//! What can go wrong with the engine.

use std::path::PathBuf;

use catalogue::Rejection;

use crate::room::Shortage;

/// How a catalogue is damaged.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Damage {
    /// A page does not hold what it must.
    #[error("page {page}: {what}")]
    Page {
        /// Its number.
        page: u64,
        /// What is wrong.
        what: &'static str,
    },
    /// A record is not what was written under its key.
    #[error("{0}")]
    Record(String),
    /// Sound records that together are not those of the last commit.
    #[error("table {table}: its rows are not those of the last commit: some are missing, or older")]
    Rows {
        /// The table.
        table: &'static str,
    },
    /// The list of the tables holds another one, or none.
    #[error("the list of the tables is not that of a catalogue")]
    Names,
    /// The newest commit is not there any more.
    #[error("its newest commit is {found}, and commit {newest} was made")]
    Older {
        /// The newest that the file has.
        found: u64,
        /// The newest that was made.
        newest: u64,
    },
    /// The file of a catalogue that was written to.
    #[error("data.mdb is missing or empty")]
    Missing,
    /// Another file has the name of that which is open.
    #[error("data.mdb is another file than the one that the server has open")]
    Replaced,
    /// The file cannot be read.
    #[error("data.mdb cannot be read: {0}")]
    Io(#[from] std::io::Error),
}

/// Why the catalogue could not be opened.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OpenError {
    /// The directory or a file in it cannot be made or read.
    #[error("the catalogue's file {path} cannot be used: {source}")]
    File {
        /// The directory or file.
        path: PathBuf,
        /// The system's reason.
        source: std::io::Error,
    },
    /// The change log cannot be taken over, or what it has does not fit the tables.
    #[error("the catalogue cannot follow its change log: {0}")]
    ChangeLog(String),
    /// Another process, or another store of this one, has it open.
    #[error("the catalogue in {0} is in use by another process: stop that process first")]
    InUse(PathBuf),
    /// Another Kist wrote it.
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
    /// The format file is damaged or missing.
    #[error("the file {0} is damaged or missing: restore the catalogue from its backup")]
    DamagedFormat(PathBuf),
    /// It is not what the last commit left. Nothing was changed.
    #[error(
        "the catalogue in {path} is damaged: {damage}; nothing was changed, and nothing is served from it. \
         If its disk had a fault that is mended, start again; else bring it back with `kist restore` (from \
         its backup) or `kist rebuild` (from the tapes): see docs/operations.md"
    )]
    Damaged {
        /// The directory.
        path: PathBuf,
        /// What is wrong.
        damage: Damage,
    },
    /// The map size does not fit into the address space.
    #[error("catalogue.map_size is {0} bytes, more than this machine can address: lower it")]
    MapSize(u64),
    /// The engine refused.
    #[error("the catalogue's engine in {path} failed to open: {source}")]
    Engine {
        /// The directory.
        path: PathBuf,
        /// The engine's reason.
        source: heed::Error,
    },
    /// It opened, and its first record cannot be read.
    #[error("the catalogue in {path} cannot be read: {reason}: restore it from its backup")]
    Unreadable {
        /// The directory.
        path: PathBuf,
        /// What is wrong.
        reason: String,
    },
    /// The writer's thread could not be started.
    #[error("the catalogue's writer could not be started: {0}")]
    Thread(std::io::Error),
}

/// Why a command was not executed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ExecuteError {
    /// The command was refused; nothing was changed.
    #[error(transparent)]
    Rejected(#[from] Rejection),
    /// More commands in one call than [`crate::EXECUTE_ALL_MAX`].
    #[error("{found} commands in one call: at most {limit} are allowed")]
    TooMany {
        /// How many there are.
        found: usize,
        /// How many are allowed.
        limit: usize,
    },
    /// The map reserved for the catalogue is full. Nothing was changed; reads and deletes go on.
    #[error("the catalogue's map is full: raise catalogue.map_size in kist.toml and restart")]
    MapFull,
    /// The file system of the catalogue is full. Nothing was changed; reads and deletes go on.
    #[error(
        "the file system of the catalogue is full: make room on it; until then only what makes room is taken"
    )]
    DiskFull,
    /// Pages of the catalogue that are free cannot be used yet. Nothing was changed; reads go on.
    #[error(
        "the catalogue's map is full, and the room that removals made is still read, as by a snapshot for a \
         backup: it is taken when that has ended"
    )]
    MapRead,
    /// Of work that makes room and is done in parts, the first ones are done, and the next one finds no room.
    #[error("a part of it is done; for the rest there is no room: {}", ExecuteError::from(*.0))]
    InPart(Shortage),
    /// Of work that makes room and is done in parts, the first ones are done, and the change log takes
    /// nothing now.
    #[error(
        "a part of it is done; for the rest the catalogue's change log takes nothing now ({0}): try again"
    )]
    InPartNotNow(String),
    /// The change log takes nothing now. Nothing was changed; reads go on.
    #[error("the catalogue's change log takes nothing now ({0}): try again later")]
    NotNow(String),
    /// The engine failed. Whether the command is durable is unknown until the restart.
    #[error("the catalogue's engine failed ({0}): nothing more is written until the restart")]
    Engine(String),
    /// The writer has stopped, because of an earlier failure of the engine or because the store is closing.
    #[error(
        "the catalogue's writer has stopped after an earlier failure: look for the first error, then restart"
    )]
    Stopped,
    /// The command is carried out and durable, and its outcome is not one that such a command has: Kist is
    /// wrong about its own commands. The tables are as the command left them.
    #[error("the catalogue did what it was told and answered {0:?}, which is no answer to that: report this")]
    WrongOutcome(Box<catalogue::Outcome>),
}

impl From<Shortage> for ExecuteError {
    fn from(shortage: Shortage) -> Self {
        match shortage {
            Shortage::Disk => ExecuteError::DiskFull,
            Shortage::Map => ExecuteError::MapFull,
            Shortage::Readers => ExecuteError::MapRead,
        }
    }
}

impl ExecuteError {
    /// What the catalogue lacks, if that is the reason. Certainly nothing was changed then.
    #[must_use]
    pub fn shortage(&self) -> Option<Shortage> {
        match self {
            ExecuteError::DiskFull => Some(Shortage::Disk),
            ExecuteError::MapFull => Some(Shortage::Map),
            ExecuteError::MapRead => Some(Shortage::Readers),
            _ => None,
        }
    }

    /// What the catalogue lacks, if that is the reason, also if a part was done before.
    #[must_use]
    pub fn lacks(&self) -> Option<Shortage> {
        match self {
            ExecuteError::InPart(shortage) => Some(*shortage),
            other => other.shortage(),
        }
    }

    /// Whether nothing was changed, for certain.
    #[must_use]
    pub fn is_certain_refusal(&self) -> bool {
        match self {
            ExecuteError::Rejected(_) | ExecuteError::TooMany { .. } | ExecuteError::NotNow(_) => true,
            // Of a call that the writer has taken, nobody knows when it stops.
            ExecuteError::InPart(_)
            | ExecuteError::InPartNotNow(_)
            | ExecuteError::WrongOutcome(_)
            | ExecuteError::Engine(_)
            | ExecuteError::Stopped => false,
            ExecuteError::DiskFull | ExecuteError::MapFull | ExecuteError::MapRead => true,
        }
    }

    /// Whether the first parts of it are done, and the rest is not.
    #[must_use]
    pub fn is_in_part(&self) -> bool {
        matches!(self, ExecuteError::InPart(_) | ExecuteError::InPartNotNow(_))
    }
}

/// Why a copy of the catalogue cannot be made or read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SnapshotError {
    /// A file cannot be written or read.
    #[error("{path}: {source}")]
    File {
        /// The file or directory.
        path: PathBuf,
        /// The system's reason.
        source: std::io::Error,
    },
    /// The tables are not what the last commit left.
    #[error("the copy of the catalogue in {path} is damaged: {damage}")]
    Damaged {
        /// The directory.
        path: PathBuf,
        /// What is wrong.
        damage: Damage,
    },
    /// The format is damaged or another.
    #[error(transparent)]
    Format(#[from] OpenError),
    /// The engine refused.
    #[error("{path}: the catalogue's engine failed: {reason}")]
    Engine {
        /// The file or directory.
        path: PathBuf,
        /// The engine's reason.
        reason: String,
    },
}

/// Why a change log cannot be replayed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ReplayError {
    /// A change does not follow from what came before.
    #[error("change {number} cannot be replayed: {reason}")]
    Change {
        /// Its number.
        number: u64,
        /// What is wrong.
        reason: String,
    },
    /// The rows of a base are not the rows of a catalogue.
    #[error("the base of the catalogue cannot be used: {reason}")]
    Base {
        /// What is wrong.
        reason: String,
    },
    /// The engine failed.
    #[error("the catalogue's engine failed during replay: {0}")]
    Engine(String),
}
