//! Panics within a simulation fail the run instead of being printed.

use std::sync::Once;

use super::runtime::runtime;

pub(super) fn install() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let before = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |info| {
            // A panic in a task that is being unwound ends the process, so that it has to be seen.
            let Some(runtime) = runtime().filter(|runtime| !runtime.is_dead()) else {
                return before(info);
            };
            let text = info.payload_as_str().unwrap_or("a panic without words");
            let place = info.location().map(ToString::to_string).unwrap_or_default();
            let mut said = format!("{text} (at {place})");
            if std::env::var_os("KIST_SIMULATED_BACKTRACE").is_some() {
                said.push_str(&format!("\n{}", std::backtrace::Backtrace::force_capture()));
            }
            runtime.fail(said);
        }));
    });
}
