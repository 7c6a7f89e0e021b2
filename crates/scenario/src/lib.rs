//! Scenario files: hardware, policies, users and faults in TOML, as docs/reference/twin.md describes them.
//!
//! A scenario is made of tables. Everything that there may be more than one of is a table by name. The file
//! of a site, if one is named, lies below the scenario, and each variant lies over it, key by key.

mod build;
mod error;
mod form;
mod limits;
mod node;
mod origin;
mod parse;
mod read;
mod sampling;
mod site;

pub mod laws;
pub mod model;

pub use error::{Place, ScenarioError};
pub use limits::{
    BINS_MAX, BINS_USUAL, CLASSES_MAX, COPIES_MAX, DEPTH_MAX, DRIVES_MAX, FAULTS_MAX, FILES_MAX,
    HOLDINGS_MAX, INDEX_BYTES_A_FILE_MAX, LIBRARIES_MAX, LISTED_MAX, MIX_MAX, PER_DAY_MAX, ROBOTS_MAX,
    RUNS_MAX, SEEDS_MAX, SPAN_DAYS_MAX, TAPE_POOLS_MAX, TAPES_MAX, TEXT_BYTES_MAX, UNITS_MAX, VARIANTS_MAX,
    WORKLOADS_MAX,
};
pub use node::write_path;
pub use origin::{Key, Kind, Origin, Provenance};
pub use parse::{BASE, Resolver, Scenario, parse};
pub use read::Seen;
pub use sampling::{RUN_MIN, SPREAD_MAX, Sampling};
pub use site::{BuiltInSite, site, sites};
