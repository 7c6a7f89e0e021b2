//! The tests of this crate from outside, in one program: each is linked once.

use std::sync::{Mutex, MutexGuard, PoisonError};

mod campaign;
mod crash_images;
mod gridka;
mod hard_disk;
mod memory;
mod rebuild_rate;
mod streams;
mod whole_system;
mod workers;

/// What is planted is planted in the whole process: whoever runs a world holds this.
static PLANTED: Mutex<()> = Mutex::new(());

fn alone() -> MutexGuard<'static, ()> {
    let alone = PLANTED.lock().unwrap_or_else(PoisonError::into_inner);
    // A test that panicked may have left its bug behind.
    base::planted::plant(None);
    alone
}
