//! The house rules of this repository as functions from values to violations; `tests/house.rs` applies them
//! to the repository itself, the tests beside each rule show that it can fail.

mod assertions;
mod code;
mod layers;
mod licences;
mod links;
mod package;
mod source;

pub use assertions::{FLOORS, Stated, check_assertions};
pub use code::{Code, strip};
pub use layers::{LAYERS, check_faults, check_layers, check_outside, undocumented};
pub use licences::{Foreign, check_licences};
pub use links::check_links;
pub use package::{Dependency, DependencyKind, Package};
pub use source::{COLUMNS_MAX, LINES_MAX, check_source};
