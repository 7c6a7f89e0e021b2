//! The planner: what a workload takes of drives, cache, robots, disks, power and money, each figure with its
//! formula and the numbers put in.
//!
//! Pure. Every line is computed from the very formula that it shows, so that it can be checked by hand; the
//! formulas and their sources are in docs/reference/planner.md.

mod access;
mod bandwidth;
mod bottleneck;
mod cache;
mod check;
mod drives;
mod expression;
mod html;
mod line;
mod machines;
mod plan;
mod pool;
mod robots;
mod site;
#[cfg(test)]
mod tests;
mod workload;

pub use bandwidth::{PathLimit, path_limit};
pub use check::{PARTS_MAX, SiteError};
pub use html::html;
pub use line::{Input, Line, Section, Unit, Verdict};
pub use plan::{ASSUMPTIONS, Plan, plan};
pub use site::{Attach, Jbod, Pool, PowerOf, Price, Reading, Server, Site, Tape};
pub use workload::{ClassWorkload, FileKind, ForHitRate};
