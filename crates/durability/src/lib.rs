//! How likely a pool loses data: rebuild times, closed forms, and a simulation over the placement that the
//! pool uses. No I/O, no clock, no threads; random numbers come from a seed that the caller gives.

mod assess;
mod chain;
mod closed;
mod code;
mod explain;
mod inputs;
mod latent;
mod placement;
mod random;
mod rebuild;
mod simulate;

pub use assess::{Assessment, assess};
pub use chain::{Chain, Repair};
pub use closed::{latent_yearly, leading, no_repair, stationary, windowed};
pub use code::Code;
pub use explain::{ASSUMPTIONS, Line, explain};
pub use inputs::{HOURS_PER_YEAR, InputError, Inputs};
pub use latent::Latent;
pub use placement::{Placement, expected_groups, expected_partners, groups_for_scatter};
pub use random::SplitMix;
pub use rebuild::{Method, Rebuild, rebuild};
pub use simulate::{BATCHES, Simulation, Spread, WindowShape, simulate};
