//! What users do.

use base::Duration;

use super::file::ClassIndex;

/// A group of users that do one kind of thing.
#[derive(Clone, PartialEq, Debug)]
pub struct Workload {
    /// Its name, under which its requests are counted.
    pub name: String,
    /// What they do it with.
    pub class: ClassIndex,
    /// What they do.
    pub kind: WorkloadKind,
    /// When it begins.
    pub begin: Duration,
    /// When it ends at the latest; nothing: with the run.
    pub end: Option<Duration>,
    /// Priority of its requests, 0 to 9.
    pub priority: u8,
}

/// What users do.
#[derive(Clone, PartialEq, Debug)]
pub enum WorkloadKind {
    /// All files that are chosen are asked for together; done when the last one is there.
    Campaign {
        /// Which.
        choice: Choice,
        /// Most files asked for and not there at a time (what the campaign's own tool limits); 0: no limit.
        window: u64,
    },
    /// A campaign cut into parts, each of so many files: the next part is asked for when all but
    /// `overlap_percent` of the one before are there, and what was read is released (a tape carousel).
    Carousel {
        /// Which files, in all.
        choice: Choice,
        /// Files of a part.
        part_files: u64,
        /// When the next part is asked for.
        overlap_percent: u8,
    },
    /// Single files or data sets, at random: a read of what is in the pool, else a recall and then the read.
    Users {
        /// When.
        arrivals: Arrivals,
        /// Files of each visit, one behind the other: 1, or a part of a data set.
        files: u32,
        /// How much likelier newer or popular data sets are: exponent of a Zipf law over data sets, newest
        /// first; 0: all alike.
        popularity: f64,
        /// Visits in a thousand that go to one of the last 1,000 data sets that anyone visited.
        repeat_per_mille: u16,
    },
    /// Files are put, evenly through the day or in bursts.
    Ingest {
        /// When files, or bursts of `burst` files, come.
        arrivals: Arrivals,
        /// Files that are put together.
        burst: u32,
    },
    /// A backup: every period so many files within a window of hours, never read but in a restore of
    /// `restore_files` files at `restore_at`.
    Backup {
        /// Between two backups.
        period: Duration,
        /// How long one takes to come.
        window: Duration,
        /// Files of each.
        files: u64,
        /// When everything is read back, since the beginning of the run; nothing: never.
        restore_at: Option<Duration>,
        /// The newest so many files are read back.
        restore_files: u64,
    },
    /// Clients that read and write the pool at random as fast as it lets them: so many streams all the time.
    Saturate {
        /// Reading streams.
        readers: u32,
        /// Writing streams.
        writers: u32,
    },
    /// What was recorded: times since the workload's beginning, and files by number of the class.
    Recorded {
        /// Puts, ascending by time.
        puts: Vec<Duration>,
        /// Recalls: when, and the file's number; ascending by time.
        stages: Vec<(Duration, u64)>,
    },
}

/// When things happen.
#[derive(Clone, PartialEq, Debug)]
pub struct Arrivals {
    /// Mean number a day, over a week; storms come on top.
    pub per_day: f64,
    /// How much more than the mean by day and less by night, percent: 0 is even, 100 is nothing at night.
    pub day_swing_percent: u8,
    /// The same for weekends: what is left of the rate on two days of seven, percent.
    pub weekend_percent: u8,
    /// Storms a year: for `storm_length` the rate is `storm_factor` times the usual one.
    pub storms_per_year: f64,
    /// How much more.
    pub storm_factor: f64,
    /// How long.
    pub storm_length: Duration,
}

/// Which files of a class.
#[derive(Clone, PartialEq, Debug)]
pub struct Choice {
    /// How many; nothing: all that the class holds at the beginning.
    pub files: Option<u64>,
    /// Whole data sets, chosen at random until there are enough; else single files.
    pub data_sets: bool,
    /// Of the files of the chosen range or data sets, so many in a thousand.
    pub share_per_mille: u16,
    /// The order in which they are asked for: as they were put, or the chosen data sets (or, without
    /// `data_sets`, the files) in any order.
    pub shuffled: bool,
    /// Only files of the class's first so many tapes; 0: of all.
    pub tapes: u32,
}
