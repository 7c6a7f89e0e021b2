//! I/O load on disks and files: which block is read or written next, two engines that do it, and what came
//! of it.
//!
//! Pure are [`Workload`], [`Stamp`], [`Histogram`], [`Standing`], [`Profile`] and [`TapeStream`]; the
//! engines, [`BurnIn`] and [`Target`] read and write, and decide nothing. What is written says where it
//! belongs, and what is read is checked for it: an operation that moves other bytes is a [`Fault`], and never
//! counts as done.

mod blocking;
mod burn_in;
mod engine;
mod histogram;
mod measured;
mod profile;
mod stamp;
mod standing;
mod stream;
mod target;
mod uring;
mod workload;

pub use burn_in::{
    BLOCK, BurnIn, BurntIn, Far, LOOKS, RunsLoads, Stage, ZONE_BYTES_LEAST, ZONES, compares_places, files,
    room,
};
pub use engine::{Contents, DEPTH_MAX, Engine, EngineError, Load, Until, is_usable, run};
pub use histogram::Histogram;
pub use measured::{Direction, FAULTS_MAX, Fault, Faults, Measured, SLOWEST_KEPT, Seen, SlowRead, Slowest};
pub use profile::{
    MEDIAN_FACTOR, NEIGHBOURS, P99_FACTOR, Profile, RATE_SHARE, SlowPlace, Slowness, Spot, Verdict,
    ZONES_LEAST, Zone,
};
pub use stamp::{PAGE, Stamp, Wrong, is_stamped};
pub use standing::{LOOKED_AT, Standing, standing};
pub use stream::{RATE_MAX, RATE_MIN, RUN, RUNS_HELD, StreamMeasured, TapeStream};
pub use target::{
    FILE_MAX, RESERVE, Target, TargetError, TargetKind, check_mounted, clear_leftovers, free, leaves_room,
};
pub use workload::{ALIGNMENT, Access, BLOCK_MAX, MIX_MAX, Mix, Operation, Shape, ShapeError, Workload};
