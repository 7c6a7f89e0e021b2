//! What others have measured and published, against what the twin predicts with one frozen site file each.
//!
//! A case is a scenario on a site, run as any other, or a computation of the planner. Nothing is tuned for a
//! case: what a site's publication leaves open was fitted once, on the case that the site file names, and
//! serves all others.

mod case;
mod gridka;
mod judge;
mod kisti;
mod kit;
mod measure;
mod sdsc;

pub use case::{Basis, Case, Expectation, Prediction, Tolerance, USUAL, cases};
pub use judge::{CaseResult, Row, Validation, judge};
pub use measure::{Measure, Of};
