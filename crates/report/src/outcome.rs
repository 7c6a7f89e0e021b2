//! What came of a run.

use std::collections::BTreeMap;

use serde::Serialize;

/// One run of one variant with one seed. Times are seconds since the beginning of the run, amounts bytes.
#[derive(Clone, PartialEq, Debug, Default, Serialize)]
pub struct Outcome {
    /// The variant.
    pub variant: String,
    /// The seed.
    pub seed: u64,
    /// When the run ended.
    pub end: f64,
    /// Where the means begin: what was said, or where the run was found to have settled.
    pub warm_up: f64,
    /// Whether `warm_up` was found, and not said.
    pub is_warm_up_found: bool,
    /// Whether the run went on for its span, and not until its work was done: only then do means within one
    /// run say something of their own certainty.
    pub is_steady: bool,
    /// Whether everything that was asked for was done, or refused, before the end.
    pub is_drained: bool,
    /// Things that happened in the world.
    pub events: u64,
    /// Things that the scheduler was told of: calls of its `step`.
    pub steps: u64,
    /// Sums over the whole run.
    pub totals: Totals,
    /// Most files that waited for a recall at one time.
    pub queue_max: u64,
    /// The longest that any file had waited for its recall while it still waited, seconds.
    pub queue_age_max: f64,
    /// Over time.
    pub series: Series,
    /// Each drive.
    pub drives: Vec<DriveUse>,
    /// Each workload that asks for files.
    pub campaigns: Vec<Campaign>,
    /// Each class.
    pub classes: Vec<ClassUse>,
    /// Scratch tapes that were left at the end. With none, new files stay in the pool until there is no room
    /// for recalls and puts either.
    pub scratch_left: u64,
    /// Files whose clients waited for room in the pool at the end.
    pub puts_waiting: u64,
    /// Files that were refused when they were put, because no cartridge of their class takes them.
    pub puts_too_large: u64,
    /// When a tape pool first had something to write and neither a begun tape nor a scratch tape; nothing if
    /// none ever had.
    pub no_tape_since: Option<f64>,
    /// Bytes that waited at the end for a tape that is not there, each copy.
    pub no_tape_bytes: u64,
    /// Bytes of wanted files that waited at the end and for which the pool had no room.
    pub no_room_bytes: u64,
    /// Faults that happened, by name.
    pub faults: BTreeMap<String, u64>,
    /// Invariants: how often each was checked, by name. What does not hold ends the run.
    pub checks: BTreeMap<String, u64>,
    /// The first invariant that did not hold, in words; the run ended there.
    pub violation: Option<String>,
}

/// Sums.
#[derive(Clone, PartialEq, Debug, Default, Serialize)]
pub struct Totals {
    /// Bytes of files read from tape.
    pub tape_read: u64,
    /// Bytes of files written to tape, each copy.
    pub tape_written: u64,
    /// Files read from tape.
    pub files_read: u64,
    /// Copies of files written to tape.
    pub files_written: u64,
    /// Bytes that clients wrote.
    pub client_written: u64,
    /// Bytes that clients read.
    pub client_read: u64,
    /// Files that clients wrote.
    pub files_put: u64,
    /// Files that clients asked for.
    pub files_wanted: u64,
    /// Of these, those that were in the pool.
    pub hits: u64,
    /// Of the wanted files, those that were there in the end.
    pub files_served: u64,
    /// Those that no copy could give, or that were cancelled.
    pub files_refused: u64,
    /// Mounts that were ordered.
    pub mounts: u64,
    /// Different tapes that were mounted.
    pub tapes_mounted: u64,
    /// Bytes that were evicted.
    pub evicted: u64,
    /// Bytes that were read from the pool's disks, for whatever.
    pub pool_read: u64,
    /// Bytes that were written to the pool's disks, parity included.
    pub pool_written: u64,
}

/// Figures over time: bin `i` covers `step * i` to `step * (i + 1)`. All have the same number of bins.
#[derive(Clone, PartialEq, Debug, Default, Serialize)]
pub struct Series {
    /// The width of a bin, seconds.
    pub step: f64,
    /// Bytes read from tape in the bin.
    pub tape_read: Vec<u64>,
    /// Bytes written to tape in the bin.
    pub tape_written: Vec<u64>,
    /// Bytes that clients wrote in the bin.
    pub client_written: Vec<u64>,
    /// Bytes that clients read in the bin.
    pub client_read: Vec<u64>,
    /// Files that wait for a recall at the end of the bin.
    pub queue: Vec<u64>,
    /// How long the oldest of them has waited then, seconds.
    pub queue_age: Vec<f64>,
    /// Bytes that wait to be written to tape at the end of the bin.
    pub backlog: Vec<u64>,
    /// Bytes in the pool at the end of the bin.
    pub pool_used: Vec<u64>,
    /// Wanted files in the bin.
    pub wanted: Vec<u64>,
    /// Those of them that were in the pool.
    pub hits: Vec<u64>,
    /// Mounts in the bin.
    pub mounts: Vec<u64>,
    /// Seconds of all drives in the bin, by [`DriveActivity`] in the order of [`DriveActivity::ALL`].
    pub activity: Vec<[f64; DriveActivity::COUNT]>,
}

/// What a drive does.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum DriveActivity {
    /// A tape is moved, loaded, rewound or unloaded, its labels or index are read or written.
    Mount,
    /// It locates.
    Locate,
    /// It reads.
    Read,
    /// It writes.
    Write,
    /// It has work and waits for something else: the pool, the data path, a robot, a back-hitch.
    Wait,
    /// It has nothing to do.
    Idle,
    /// It is out of use.
    Down,
}

impl DriveActivity {
    /// How many there are.
    pub const COUNT: usize = 7;
    /// All, in order.
    pub const ALL: [DriveActivity; DriveActivity::COUNT] = [
        DriveActivity::Mount,
        DriveActivity::Locate,
        DriveActivity::Read,
        DriveActivity::Write,
        DriveActivity::Wait,
        DriveActivity::Idle,
        DriveActivity::Down,
    ];

    /// In one word, for people.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            DriveActivity::Mount => "mount",
            DriveActivity::Locate => "locate",
            DriveActivity::Read => "read",
            DriveActivity::Write => "write",
            DriveActivity::Wait => "wait",
            DriveActivity::Idle => "idle",
            DriveActivity::Down => "down",
        }
    }
}

/// What a drive did.
#[derive(Clone, PartialEq, Debug, Default, Serialize)]
pub struct DriveUse {
    /// Its name.
    pub name: String,
    /// Bytes a second that it streams at most; 0 if that is not known.
    pub native_rate: u64,
    /// Seconds of each [`DriveActivity`], in the order of [`DriveActivity::ALL`].
    pub seconds: [f64; DriveActivity::COUNT],
    /// Mounts.
    pub mounts: u64,
    /// Bytes read from tape.
    pub read: u64,
    /// Bytes written.
    pub written: u64,
    /// What it did, in order, merged where it did the same: (begin, end, activity). Kept for the first
    /// [`DriveUse::SPANS_MAX`] spans only.
    pub spans: Vec<(f64, f64, DriveActivity)>,
}

impl DriveUse {
    /// Spans that are kept of a drive.
    pub const SPANS_MAX: usize = 2_000;
}

/// What came of a workload's requests.
#[derive(Clone, PartialEq, Debug, Default, Serialize)]
pub struct Campaign {
    /// The workload's name.
    pub name: String,
    /// Whether it is a campaign, a carousel or a restore, which is done at some time; users never are.
    pub ends: bool,
    /// Files asked for.
    pub files: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Files that were there in the end.
    pub served: u64,
    /// Files that no copy could give, or that were cancelled.
    pub refused: u64,
    /// When the first was asked for, and when the last was there.
    pub begin: f64,
    /// See `begin`.
    pub end: f64,
    /// When each hundredth of the files was there: 101 times from the first to the last; empty if none was.
    pub progress: Vec<f64>,
    /// Waiting times: the median, nine tenths, 99 of 100, and the longest, seconds.
    pub waits: [f64; 4],
    /// Of all that were served, mean, seconds.
    pub wait_mean: f64,
}

/// What came of a class.
#[derive(Clone, PartialEq, Debug, Default, Serialize)]
pub struct ClassUse {
    /// Its name.
    pub name: String,
    /// Files wanted.
    pub wanted: u64,
    /// In the pool when they were wanted.
    pub hits: u64,
    /// Files put.
    pub put: u64,
    /// Their bytes.
    pub put_bytes: u64,
    /// Bytes of the class in the pool, mean over time.
    pub pool_mean: f64,
    /// How long evicted files had been in the pool since they were last touched, mean, seconds. Files that
    /// were there at the beginning and that nobody touched do not count.
    pub residency_mean: f64,
    /// Files evicted.
    pub evicted: u64,
    /// Files whose last copy came to tape.
    pub migrated: u64,
    /// From put to the last copy on tape: mean and longest, seconds.
    pub migration_wait: [f64; 2],
}
