//! The tests of this crate from outside, in one program: each is linked once.

mod campaigns;
mod cleaning;
mod engine;
mod fairness;
mod forecast;
mod forecast_scale;
mod forecast_world;
mod host;
mod idle;
mod limits;
mod maintenance;
mod sessions;
mod snapshots;
