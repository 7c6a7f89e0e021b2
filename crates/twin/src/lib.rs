//! The twin: the production scheduler in virtual time, against modelled hardware, users and faults.
//!
//! Pure and seeded: the same scenario and seed give the same bytes. Reading files, threads and printing are
//! the caller's.
//!
//! The way of a scenario: [`scenario`] reads TOML and makes [`model`] of it, one for each variant; [`world`]
//! runs it, with [`users`] for what users do, [`holdings`] for where files stand, [`disks`] for what the pool
//! gives to whom, [`cache`] for what is in it; what happened becomes an [`outcome`], which [`report`] draws
//! and [`stats`] sums up. What is too large for one world is run in part, by [`sample`].

pub mod cache;
pub mod disks;
#[cfg(test)]
mod fixture;
pub mod holdings;
pub mod laws;
pub mod meter;
pub mod model;
pub mod moment;
pub mod outcome;
pub mod plan;
pub mod quantity;
pub mod replay;
pub mod report;
pub mod sample;
pub mod scenario;
pub mod stats;
pub mod users;
pub mod validate;
pub mod world;

pub use world::run;
