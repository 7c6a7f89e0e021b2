//! The whole system against simulated machines: one thread, virtual time, one seed.

pub mod clients;
pub mod content;
pub mod faults;
pub mod images;
pub mod invariants;
pub mod machines;
pub mod operator;
pub mod oracle;
pub mod pool_operator;
pub mod report;
pub mod run;
pub mod world;
