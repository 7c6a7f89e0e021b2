//! `images DIR HISTORIES IMAGES SEED [--planted BUG]`: crash images of recorded histories.

use std::process::ExitCode;
use std::time::Instant;

use torture::images::{Settings, run};

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let number = |at: usize| arguments.get(at).and_then(|text| text.parse().ok());
    let (Some(dir), Some(histories), Some(images), Some(seed)) =
        (arguments.first(), number(1), number(2), number(3))
    else {
        eprintln!("images DIR HISTORIES IMAGES SEED [--planted BUG]");
        return ExitCode::from(2);
    };
    let planted = arguments.iter().position(|text| text == "--planted").and_then(|at| arguments.get(at + 1));
    let recorded = std::env::current_exe().unwrap_or_default().with_file_name("recorded");
    let settings = Settings {
        recorded,
        dir: dir.into(),
        histories,
        images,
        full_every: 10,
        seed,
        planted: planted.cloned(),
        // Threads of an engine wait for each other more than they work.
        workers: 6,
    };
    let begin = Instant::now();
    match run(&settings) {
        Ok(report) => {
            let seconds = begin.elapsed().as_secs_f64();
            println!("{report}{:<36} {seconds:>12.1}", "seconds");
            println!("{:<36} {:>12.1}", "images in a second", report.images as f64 / seconds);
            if report.violations.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
        }
        Err(error) => {
            eprintln!("images: {error}");
            ExitCode::from(8)
        }
    }
}
