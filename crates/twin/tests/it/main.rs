//! The tests of this crate from outside, in one program: each is linked once.

mod faults;
mod foreign;
mod report;
mod report_limits;
mod scenario;
mod scenario_docs;
mod scenario_refused;
mod scenario_run;
mod support;
mod tape_choice;
mod validate;
mod world;
mod world_planted;
