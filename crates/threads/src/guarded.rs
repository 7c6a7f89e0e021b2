//! Threads whose panic nobody can make good.

use std::panic::{AssertUnwindSafe, catch_unwind};

use crate::{Builder, JoinHandle};

/// Starts a thread whose panic ends the process: it has left its work in an unknown state, and the others
/// would wait for it for ever. `dying` is called first, to say so. In a simulation a panic fails the run.
///
/// # Errors
/// If the system has no thread for it.
pub fn spawn_guarded(
    name: &str,
    run: impl FnOnce() + Send + 'static,
    dying: fn(),
) -> std::io::Result<JoinHandle<()>> {
    Builder::new().name(name.to_owned()).spawn(move || {
        if let Err(panic) = catch_unwind(AssertUnwindSafe(run)) {
            #[cfg(feature = "simulated")]
            if crate::simulated::is_running() {
                std::panic::resume_unwind(panic);
            }
            drop(panic);
            dying();
            std::process::abort();
        }
    })
}
