//! The tests of this crate from outside, in one program: each is linked once.

mod adopt;
mod away;
mod behaviour;
mod clock;
mod cold;
mod common;
mod formats;
mod keys;
mod model;
mod multipart;
mod parts;
mod path_requests;
mod quotas;
mod repair;
mod sealing;
mod states;
mod trees;
mod typed;
mod versions;
