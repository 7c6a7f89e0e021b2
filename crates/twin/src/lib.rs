//! The twin: the production scheduler in virtual time, against modelled hardware, users and faults.
//!
//! Pure and seeded: the same scenario and seed give the same bytes. Reading files, threads and printing are
//! the caller's.
//!
//! What is to be run is a `scenario::model::Model`; [`world`] runs it, with [`users`] for what users do,
//! [`holdings`] for where files stand, [`disks`] for what the pool gives to whom, [`cache`] for what is in
//! it; [`meter`] makes a `report::outcome::Outcome` of what happened. What is too large for one world is run
//! in part (crate `sample`); a server's own record is run again by crate `replay`.

pub mod cache;
pub mod disks;
#[cfg(test)]
mod fixture;
pub mod holdings;
mod left_out;
pub mod meter;
pub mod moment;
pub mod users;
pub mod world;

pub use left_out::left_out;
pub use world::run;
