//! The tests of this crate from outside, in one program: each is linked once.

mod faults;
mod foreign;
mod left_out;
mod report;
mod report_limits;
mod scenario_run;
mod support;
mod tape_choice;
mod world;
mod world_planted;
