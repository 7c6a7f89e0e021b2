//! The twin: the production scheduler in virtual time, against modelled hardware, users and faults.
//!
//! Pure and seeded: the same scenario and seed give the same bytes. Reading files, threads and printing are
//! the caller's.

pub mod plan;
pub mod quantity;
