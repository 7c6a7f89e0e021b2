//! `recorded INSTANCE MARKS SEED`: a workload on the engine, which strace records. `KIST_PLANTED` plants.

use std::process::ExitCode;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [instance, marks, seed] = arguments.as_slice() else { return ExitCode::from(2) };
    if let Ok(bug) = std::env::var("KIST_PLANTED")
        && !base::planted::plant_named(&bug)
    {
        return ExitCode::from(2);
    }
    match torture::images::record_here(instance.as_ref(), marks.as_ref(), seed.parse().unwrap_or(0)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("recorded: {error}");
            ExitCode::FAILURE
        }
    }
}
