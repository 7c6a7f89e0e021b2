//! The whole system against simulated machines: one thread, virtual time, one seed.

pub mod machines;
