//! Scenario files: hardware, policies, users and faults in TOML, as docs/reference/twin.md describes them.
//!
//! A scenario is made of tables. Everything that there may be more than one of is a table by name. The file
//! of a site, if one is named, lies below the scenario, and each variant lies over it, key by key.

mod build;
mod error;
mod form;
mod left_out;
mod limits;
mod node;
mod origin;
mod parse;
mod read;
mod site;

pub use error::{Place, ScenarioError};
pub use left_out::left_out;
pub use limits::{
    BINS_MAX, BINS_USUAL, CLASSES_MAX, COPIES_MAX, DEPTH_MAX, DRIVES_MAX, FAULTS_MAX, FILES_MAX,
    HOLDINGS_MAX, INDEX_BYTES_A_FILE_MAX, LIBRARIES_MAX, LISTED_MAX, MIX_MAX, PER_DAY_MAX, ROBOTS_MAX,
    RUNS_MAX, SEEDS_MAX, SPAN_DAYS_MAX, TAPE_POOLS_MAX, TAPES_MAX, TEXT_BYTES_MAX, UNITS_MAX, VARIANTS_MAX,
    WORKLOADS_MAX,
};
pub use node::write_path;
pub use origin::{Key, Kind, Origin, Provenance};
pub use parse::{BASE, Scenario, parse};
pub use read::Seen;
pub use site::{BuiltInSite, site, sites};

use crate::model::Model;

/// Reads a site's file by its name in a scenario; the caller knows directories, the twin does not.
pub type Resolver<'a> = &'a dyn Fn(&str) -> Result<String, String>;

impl Scenario {
    /// A variant by its name.
    ///
    /// # Errors
    /// If there is none; the error lists all.
    pub fn variant(&self, name: &str) -> Result<&Model, ScenarioError> {
        let found = self.variants.iter().find(|model| model.name == name);
        found.ok_or_else(|| {
            let known: Vec<String> = self.variants.iter().map(|model| model.name.clone()).collect();
            let nearest = error::nearest(name, known.iter().map(String::as_str));
            ScenarioError::NoVariant { name: name.to_owned(), nearest, known }
        })
    }
}
