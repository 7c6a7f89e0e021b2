//! A library behind a medium changer.

mod cleaning;
mod door;
mod inventory;
mod machine;
mod moves;
mod tgt;
mod world;
