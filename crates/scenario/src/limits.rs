//! The most of everything that a scenario may ask for.

/// Bytes of a scenario or site file.
pub const TEXT_BYTES_MAX: usize = 64 << 20;
/// Tables inside of tables.
pub const DEPTH_MAX: usize = 16;
/// Variants of a scenario.
pub const VARIANTS_MAX: usize = 64;
/// Seeds.
pub const SEEDS_MAX: usize = 10_000;
/// Tape libraries.
pub const LIBRARIES_MAX: usize = 1_000;
/// Units of a sampled site.
pub const UNITS_MAX: u64 = 100_000;
/// Drives of all libraries.
pub const DRIVES_MAX: u64 = 10_000;
/// Robots of a library.
pub const ROBOTS_MAX: u32 = 1_000;
/// Tape pools.
pub const TAPE_POOLS_MAX: usize = 1_000;
/// Storage classes.
pub const CLASSES_MAX: usize = 1_000;
/// Holdings.
pub const HOLDINGS_MAX: usize = 10_000;
/// Workloads.
pub const WORKLOADS_MAX: usize = 1_000;
/// Faults.
pub const FAULTS_MAX: usize = 1_000;
/// Copies of a class, one by mistake included.
pub const COPIES_MAX: usize = 4;
/// Files on tape at the beginning; and so many at most do all workloads put, restore and visit in a run.
pub const FILES_MAX: u64 = 100_000_000_000;
/// Bytes of an index for each file on the tape.
pub const INDEX_BYTES_A_FILE_MAX: u64 = 1 << 20;
/// Runs of files on tape at the beginning: each takes memory.
pub const RUNS_MAX: u64 = 200_000_000;
/// Tapes at the beginning, scratch ones included.
pub const TAPES_MAX: u64 = 2_000_000;
/// Entries of a list of sizes, of recorded puts or of recorded recalls.
pub const LISTED_MAX: usize = 10_000_000;
/// Parts of a mix of sizes.
pub const MIX_MAX: usize = 100;
/// Simulated days.
pub const SPAN_DAYS_MAX: u64 = 100 * 365;
/// Bins of the series of an outcome.
pub const BINS_MAX: u64 = 100_000;
/// Bins unless the scenario says how wide they are.
pub const BINS_USUAL: u64 = 500;
/// Things that a workload does a day, in the mean.
pub const PER_DAY_MAX: f64 = 1e9;
