//! What keeps a server from taking changes although it answers.

use std::fmt;
use std::path::PathBuf;

use base::Timestamp;
use store::Refused;

/// A reason why changes are refused, or do not get to tape; reads go on. `/healthz`, `kist status` and the
/// metrics tell it.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum HealthProblem {
    /// The catalogue's writer has stopped; only a restart helps.
    CatalogueStopped,
    /// The file system of the catalogue is full.
    CatalogueDiskFull(Refused),
    /// The map of the catalogue is full.
    CatalogueMapFull(Refused),
    /// The map of the catalogue is full, since pages that hold nothing any more are still read.
    CatalogueMapRead,
    /// Too few drives of the pool have room for new files.
    PoolFull,
    /// Too few drives of the pool are up for new files.
    DrivesAway {
        /// Drives that take new data.
        writable: usize,
        /// Drives that each row of a file needs.
        needed: usize,
        /// Whether files that share segments are taken still: these need fewer drives.
        takes_small: bool,
    },
    /// The audit log in this directory has no room.
    AuditFull(PathBuf),
    /// This host cannot write to tapes, whatever tape and drive. Changes are taken still, as long as the pool
    /// has room.
    TapesNotWritten {
        /// What failed.
        cause: String,
        /// When it is tried again.
        until: Timestamp,
    },
}

impl HealthProblem {
    /// All words that [`HealthProblem::word`] gives.
    pub const WORDS: [&str; 7] = [
        "catalogue-stopped",
        "catalogue-disk-full",
        "catalogue-map-full",
        "audit-full",
        "pool-full",
        "drives-away",
        "tapes-not-written",
    ];

    /// The same word for the same kind of problem, for programs.
    #[must_use]
    pub fn word(&self) -> &'static str {
        match self {
            HealthProblem::CatalogueStopped => Self::WORDS[0],
            HealthProblem::CatalogueDiskFull(_) => Self::WORDS[1],
            HealthProblem::CatalogueMapFull(_) | HealthProblem::CatalogueMapRead => Self::WORDS[2],
            HealthProblem::AuditFull(_) => Self::WORDS[3],
            HealthProblem::PoolFull => Self::WORDS[4],
            HealthProblem::DrivesAway { .. } => Self::WORDS[5],
            HealthProblem::TapesNotWritten { .. } => Self::WORDS[6],
        }
    }
}

impl fmt::Display for HealthProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            HealthProblem::CatalogueStopped => f.write_str(
                "the catalogue's writer has stopped: look for the first error in the log, then restart",
            ),
            HealthProblem::CatalogueDiskFull(refused) => write!(
                f,
                "the file system of the catalogue is full: {}; make room there",
                what_goes_on(*refused)
            ),
            HealthProblem::CatalogueMapFull(refused) => write!(
                f,
                "the catalogue's map is full: {}; remove files, or raise catalogue.map_size in kist.toml and \
                 restart",
                what_goes_on(*refused)
            ),
            HealthProblem::CatalogueMapRead => write!(
                f,
                "the catalogue's map is full, and the room that removals made is still read, as by a \
                 snapshot for a backup: {}; all goes on when that has ended",
                what_goes_on(Refused::All)
            ),
            HealthProblem::PoolFull => f.write_str(
                "the pool is full: new files wait, or are refused, until files have gone to tape and left or \
                 drives are added; reads, migration and all other changes go on",
            ),
            HealthProblem::DrivesAway { writable, needed, takes_small } => {
                let (what, others) = match takes_small {
                    true => ("files above 256 KiB", "smaller files, reads"),
                    false => ("new files", "reads"),
                };
                write!(
                    f,
                    "{writable} drives of the pool take new data and {needed} are needed: {what} are refused \
                     and nothing is recalled until drives are back, or replaced or added (kist pool show); \
                     {others} and all other changes go on"
                )
            }
            HealthProblem::TapesNotWritten { cause, until } => write!(
                f,
                "this host cannot write to tapes: {cause}; tried again at {until}, or by kist migrate --now \
                 when that is mended; nothing goes to tape until then, all else goes on as long as the pool \
                 has room"
            ),
            HealthProblem::AuditFull(directory) => write!(
                f,
                "the audit log in {} has no room: changes are refused until there is some; reads go on",
                directory.display()
            ),
        }
    }
}

fn what_goes_on(refused: Refused) -> &'static str {
    match refused {
        Refused::Growth => {
            "changes and new recalls are refused until there is room; reads, migration, recalls that were \
             asked for before, evictions and removals go on"
        }
        Refused::Work => {
            "changes, migration and recalls are refused until there is room; reads, evictions and removals \
             go on"
        }
        Refused::All => "changes are refused, evictions and removals too; reads go on",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn too_few_drives_refuse_what_they_cannot_hold() {
        let told =
            |takes_small| HealthProblem::DrivesAway { writable: 5, needed: 6, takes_small }.to_string();
        assert!(told(true).contains("6 are needed: files above 256 KiB are refused"), "{}", told(true));
        assert!(told(false).contains("6 are needed: new files are refused"), "{}", told(false));
    }

    /// Story: the status said that what makes room goes on when evictions were refused.
    #[test]
    fn only_what_is_taken_is_said_to_go_on() {
        for full in [HealthProblem::CatalogueDiskFull, HealthProblem::CatalogueMapFull] {
            let goes_on = |refused| {
                let text = full(refused).to_string();
                let sentences: Vec<String> = text.split("; ").map(str::to_owned).collect();
                sentences.into_iter().find(|sentence| sentence.ends_with(" go on")).unwrap()
            };
            assert!(goes_on(Refused::Growth).contains("migration"));
            // A stage needs room for its request.
            let text = full(Refused::Growth).to_string();
            assert!(
                text.contains("new recalls are refused") && !text.contains("migration, recalls,"),
                "{text}"
            );
            assert!(
                goes_on(Refused::Work).contains("evictions") && !goes_on(Refused::Work).contains("migration")
            );
            assert_eq!(goes_on(Refused::All), "reads go on");
        }
    }
}
