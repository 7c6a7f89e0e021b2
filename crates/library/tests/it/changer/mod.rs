//! A library behind a medium changer.

mod inventory;
mod machine;
mod moves;
mod tgt;
mod world;
