//! The program that libFuzzer drives: the target is named by the variable `KIST_FUZZ_TARGET`.

#![no_main]

use std::sync::OnceLock;

use fuzz::Target;
use libfuzzer_sys::fuzz_target;

fn target() -> &'static Target {
    static TARGET: OnceLock<&Target> = OnceLock::new();
    TARGET.get_or_init(|| {
        let name = std::env::var("KIST_FUZZ_TARGET").unwrap_or_default();
        let known = fuzz::TARGETS.iter().find(|target| target.name == name);
        known.unwrap_or_else(|| {
            let names: Vec<_> = fuzz::TARGETS.iter().map(|target| target.name).collect();
            eprintln!("KIST_FUZZ_TARGET is '{name}', but the targets are: {}", names.join(" "));
            std::process::exit(2)
        })
    })
}

fuzz_target!(|data: &[u8]| {
    (target().run)(data);
});
