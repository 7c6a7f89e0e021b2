//! One page with pictures of what came of a scenario.

mod text;

pub use text::with_interval;
