//! fio (Debian's package) on the same file: the same operations, depth and time.

use std::process::{Command, Stdio};
use std::time::Duration;

use disk_load::{Access, Engine};
use serde::Deserialize;
use terminal::{Exit, Failure, Outcome};

use super::args::Case;
use super::place::Place;

/// The program.
const FIO: &str = "fio";
/// Text of its that is passed on in an error.
const SAID_MAX: usize = 400;

/// What fio has to say.
#[derive(Deserialize)]
struct Answer {
    jobs: Vec<Job>,
}

#[derive(Deserialize)]
struct Job {
    #[serde(default)]
    error: i64,
    read: Direction,
    write: Direction,
}

#[derive(Deserialize)]
struct Direction {
    io_bytes: u64,
    /// Milliseconds.
    runtime: u64,
}

/// Its version, if it is there.
pub fn version() -> Outcome<String> {
    let missing = |error: std::io::Error| {
        let what = format!("{FIO}: {error}: install Debian's package fio, or leave --fio out");
        Failure::new(Exit::NotFound, what)
    };
    let said = Command::new(FIO).arg("--version").stdin(Stdio::null()).output().map_err(missing)?;
    Ok(String::from_utf8_lossy(&said.stdout).trim().to_owned())
}

/// What a slice is like.
pub struct Asked {
    /// The operations.
    pub case: Case,
    /// Kist's, of which fio has the like.
    pub engine: Engine,
    /// Operations under way at once, on each place.
    pub depth: u32,
    /// Before anything counts.
    pub ramp: Duration,
    /// What counts.
    pub span: Duration,
}

/// Bytes a second of one slice, over all places.
pub fn slice(places: &[Place], asked: &Asked) -> Outcome<f64> {
    let said = Command::new(FIO)
        .args(arguments(places, asked))
        .stdin(Stdio::null())
        .output()
        .map_err(|error| Failure::internal(format!("{FIO} cannot be run: {error}")))?;
    let out = String::from_utf8_lossy(&said.stdout);
    let failed = |why: String| Failure::internal(format!("{FIO} did not measure: {why}"));
    if !said.status.success() {
        let words = String::from_utf8_lossy(&said.stderr);
        return Err(failed(terminal::text::shortened(words.trim(), SAID_MAX)));
    }
    rate(&out).map_err(failed)
}

/// fio's arguments: what holds for all places, then a job for each.
fn arguments(places: &[Place], asked: &Asked) -> Vec<String> {
    let Asked { case, engine, depth, ramp, span } = *asked;
    let kind = match (case.access, case.mix.has_reads(), case.mix.has_writes()) {
        (Access::Sequential, true, false) => "read",
        (Access::Sequential, false, _) => "write",
        (Access::Sequential, true, true) => "rw",
        (Access::Random, true, false) => "randread",
        (Access::Random, false, _) => "randwrite",
        (Access::Random, true, true) => "randrw",
    };
    let mut all = vec![
        "--name=global".to_owned(),
        "--output-format=json".to_owned(),
        "--group_reporting".to_owned(),
        "--thread".to_owned(),
        "--time_based".to_owned(),
        format!("--ramp_time={}ms", ramp.as_millis()),
        format!("--runtime={}ms", span.as_millis()),
        format!("--rw={kind}"),
        format!("--bs={}", case.size.0),
        "--norandommap".to_owned(),
        "--randrepeat=0".to_owned(),
        "--allow_file_create=0".to_owned(),
        "--overwrite=1".to_owned(),
        "--invalidate=0".to_owned(),
    ];
    if !case.mix.has_writes() {
        all.push("--readonly".to_owned());
    }
    if case.mix.has_reads() && case.mix.has_writes() {
        // fio knows whole percents.
        all.push(format!("--rwmixread={:.0}", case.mix.read_share() * 100.0));
    }
    match engine {
        Engine::IoUring => all.extend(["--ioengine=io_uring".to_owned(), format!("--iodepth={depth}")]),
        Engine::Threads => all.extend(["--ioengine=psync".to_owned(), format!("--numjobs={depth}")]),
    }
    for (number, place) in places.iter().enumerate() {
        // A colon is where fio takes two names apart.
        let path = place.target.path_for_others().display().to_string().replace(':', "\\:");
        all.push(format!("--name=path{number}"));
        all.push(format!("--filename={path}"));
        all.push(format!("--direct={}", u8::from(place.target.is_direct())));
        let blocks = place.length.0 / case.size.0;
        if engine == Engine::Threads && case.access == Access::Sequential && blocks >= u64::from(depth) {
            // Each of fio's jobs has an order of its own: a part of the file for each.
            let part = blocks / u64::from(depth) * case.size.0;
            all.extend([format!("--size={part}"), format!("--offset_increment={part}")]);
        } else {
            all.push(format!("--size={}", blocks * case.size.0));
        }
    }
    all
}

/// Bytes a second out of fio's answer, before which it may write words.
fn rate(out: &str) -> Result<f64, String> {
    let begin = out.find('{').ok_or("it answered nothing")?;
    let json = out.get(begin..).unwrap_or_default();
    let answer: Answer = serde_json::from_str(json).map_err(|error| format!("its answer: {error}"))?;
    if let Some(job) = answer.jobs.iter().find(|job| job.error != 0) {
        return Err(format!("error {}", job.error));
    }
    let sides = answer.jobs.iter().flat_map(|job| [&job.read, &job.write]);
    let (bytes, milliseconds) = sides.fold((0u64, 0u64), |(bytes, longest), side| {
        (bytes.saturating_add(side.io_bytes), longest.max(side.runtime))
    });
    if bytes == 0 || milliseconds == 0 {
        return Err("it moved nothing".to_owned());
    }
    Ok(bytes as f64 * 1e3 / milliseconds as f64)
}

#[cfg(test)]
mod tests {
    use base::ByteCount;
    use disk_load::{Mix, Target};

    use super::*;

    fn line(case: Case, engine: Engine) -> Vec<String> {
        let directory = tempfile::tempdir().unwrap();
        let target = Target::temporary(directory.path(), ByteCount(64 << 20)).unwrap();
        let holes = base::ByteCount(0);
        let place = Place { length: target.length(), target, holes, is_stamped: true, is_laid_out: true };
        let (ramp, span) = (Duration::from_millis(500), Duration::from_millis(1_500));
        arguments(&[place], &Asked { case, engine, depth: 8, ramp, span })
    }

    #[test]
    fn fio_is_asked_for_the_same() {
        let case = Case { size: ByteCount(4096), mix: Mix::parse("2:1").unwrap(), access: Access::Random };
        let words = line(case, Engine::IoUring);
        for word in ["--rw=randrw", "--rwmixread=67", "--bs=4096", "--iodepth=8", "--runtime=1500ms"] {
            assert!(words.iter().any(|one| one == word), "{word}: {words:?}");
        }
        assert!(!words.iter().any(|one| one == "--readonly"));
        let case = Case { mix: Mix::READ, access: Access::Sequential, ..case };
        let words = line(case, Engine::Threads);
        for word in ["--rw=read", "--readonly", "--numjobs=8", "--size=8388608", "--ioengine=psync"] {
            assert!(words.iter().any(|one| one == word), "{word}: {words:?}");
        }
    }

    #[test]
    fn answers_are_added_up_and_errors_are_told() {
        let job = |error: i64, bytes: u64, runtime: u64| {
            let read = format!(r#"{{"io_bytes":{bytes},"runtime":{runtime}}}"#);
            format!(r#"{{"error":{error},"read":{read},"write":{{"io_bytes":0,"runtime":0}}}}"#)
        };
        let answer = |jobs: &[String]| format!("note: x\n{{\"jobs\":[{}]}}", jobs.join(","));
        assert_eq!(rate(&answer(&[job(0, 1_000, 500), job(0, 3_000, 1_000)])), Ok(4_000.0));
        assert!(rate(&answer(&[job(5, 1_000, 500)])).unwrap_err().contains("error 5"));
        assert!(rate(&answer(&[job(0, 0, 500)])).is_err() && rate("").is_err() && rate("{").is_err());
    }
}
