//! Where a drive of the pool is. Its kind says which backend opens it; who stands above names none.

mod location;

pub use kinetic_drive::{AddressError, KineticAddress};
pub use location::{DriveLocation, LocationError, ResolvedLocation};
