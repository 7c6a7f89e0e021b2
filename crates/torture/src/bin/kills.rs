//! `kills DIR POINTS SEED [--errors] [--planted BUG] [--load NAME] [--threads PREFIX] [--per-instance N]`:
//! kills at system calls of the real server.

use std::process::ExitCode;
use std::time::Instant;

use torture::kills::{Only, POINTS_PER_INSTANCE, Settings, run};

/// Much of a point is waiting for strace and for syncs.
const WORKERS: u64 = 4;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let number = |at: usize| arguments.get(at).and_then(|text| text.parse().ok());
    let (Some(dir), Some(points), Some(seed)) = (arguments.first(), number(1), number(2)) else {
        eprintln!(
            "kills DIR POINTS SEED [--errors] [--planted BUG] [--load NAME] [--threads PREFIX] \
             [--per-instance N]"
        );
        return ExitCode::from(2);
    };
    let option = |name: &str| {
        arguments.iter().position(|text| text == name).and_then(|at| arguments.get(at + 1)).cloned()
    };
    let per_instance = option("--per-instance").and_then(|text| text.parse().ok());
    let planted = option("--planted");
    let kist = if planted.is_some() { torture::server::with_knobs() } else { torture::server::released() };
    let settings = Settings {
        kist: kist.unwrap_or_default(),
        dir: dir.into(),
        points,
        seed,
        planted,
        errors: arguments.iter().any(|text| text == "--errors"),
        workers: WORKERS,
        points_per_instance: per_instance.unwrap_or(POINTS_PER_INSTANCE),
        only: Only { load: option("--load"), threads: option("--threads") },
    };
    let begin = Instant::now();
    match run(&settings) {
        Ok(report) => {
            println!("{report:#?}\n{:.1} s", begin.elapsed().as_secs_f64());
            if report.violations.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
        }
        Err(error) => {
            eprintln!("kills: {error}");
            ExitCode::from(8)
        }
    }
}
