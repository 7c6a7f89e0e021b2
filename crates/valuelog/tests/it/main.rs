//! Tests of the store as its users see it.

#[path = "../history/mod.rs"]
mod history;

mod basic;
mod crash;
mod damage;
mod disk;
mod files;
mod full;
mod model;
mod threads;
