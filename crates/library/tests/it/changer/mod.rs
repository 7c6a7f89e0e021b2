//! A library behind a medium changer.

mod inventory;
mod moves;
mod tgt;
mod world;
