//! Threads whose panic nobody can make good.

use std::io::Write;
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
            // Not by the macros, whose words a test program keeps back, and loses with the process.
            let message = panic.downcast_ref::<String>().map(String::as_str);
            let message = message.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("unknown");
            let name = std::thread::current().name().unwrap_or_default().to_owned();
            let _ = writeln!(std::io::stderr(), "thread {name} has panicked, the process ends: {message}");
            dying();
            std::process::abort();
        }
    })
}
