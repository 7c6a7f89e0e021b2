//! What keeps a server from taking changes although it answers.

use std::fmt;
use std::path::PathBuf;

/// A reason why changes are refused; reads go on. `/healthz`, `kist status` and the metrics tell it.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum HealthProblem {
    /// The catalogue's writer has stopped; only a restart helps.
    CatalogueStopped,
    /// The file system of the catalogue is full.
    CatalogueDiskFull,
    /// The map of the catalogue is full.
    CatalogueMapFull,
    /// The audit log in this directory has no room.
    AuditFull(PathBuf),
}

impl HealthProblem {
    /// All words that [`HealthProblem::word`] gives.
    pub const WORDS: [&str; 4] =
        ["catalogue-stopped", "catalogue-disk-full", "catalogue-map-full", "audit-full"];

    /// The same word for the same kind of problem, for programs.
    #[must_use]
    pub fn word(&self) -> &'static str {
        match self {
            HealthProblem::CatalogueStopped => Self::WORDS[0],
            HealthProblem::CatalogueDiskFull => Self::WORDS[1],
            HealthProblem::CatalogueMapFull => Self::WORDS[2],
            HealthProblem::AuditFull(_) => Self::WORDS[3],
        }
    }
}

impl fmt::Display for HealthProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let goes_on = "reads and what makes room go on";
        match self {
            HealthProblem::CatalogueStopped => f.write_str(
                "the catalogue's writer has stopped: look for the first error in the log, then restart",
            ),
            HealthProblem::CatalogueDiskFull => write!(
                f,
                "the file system of the catalogue is full: changes are refused until there is room; {goes_on}"
            ),
            HealthProblem::CatalogueMapFull => write!(
                f,
                "the catalogue's map is full: changes are refused; remove files, or raise catalogue.map_size \
                 in kist.toml and restart; {goes_on}"
            ),
            HealthProblem::AuditFull(directory) => write!(
                f,
                "the audit log in {} has no room: changes are refused until there is some; reads go on",
                directory.display()
            ),
        }
    }
}
