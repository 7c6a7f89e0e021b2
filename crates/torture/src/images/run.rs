//! Records histories and checks images of each.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use super::check::{Found, hashed, judge, look_at};
use super::disk::{Disk, Files};
use super::record::Recorded;
use super::trace::{Step, Trace, bytes, descriptor};
use super::work::{Marks, expected};
use super::{Report, Settings, engine, record};
use crate::random::Random;

/// Violations beyond which a run ends.
const VIOLATIONS_MAX: usize = 20;

/// A planted bug is found with the first.
fn enough(settings: &Settings) -> usize {
    if settings.planted.is_some() { 0 } else { VIOLATIONS_MAX }
}

/// Records all histories and checks their images.
///
/// # Errors
/// If a history cannot be recorded.
pub fn run(settings: &Settings) -> io::Result<Report> {
    let (next, shapes) = (AtomicU64::new(0), Mutex::new(BTreeSet::new()));
    let total = Mutex::new(Report::default());
    let result = std::thread::scope(|scope| {
        let workers: Vec<_> = (0..settings.workers)
            .map(|worker| {
                let (next, shapes, total) = (&next, &shapes, &total);
                scope.spawn(move || -> io::Result<()> {
                    let dir = settings.dir.join(format!("w{worker}"));
                    named(&dir, std::fs::create_dir_all(&dir))?;
                    // As strace prints it.
                    let dir = named(&dir, dir.canonicalize())?;
                    loop {
                        let number = next.fetch_add(1, Ordering::SeqCst);
                        if number >= settings.histories {
                            return Ok(());
                        }
                        let (report, shape) = history(settings, &dir, settings.seed + number)?;
                        shapes.lock().unwrap_or_else(PoisonError::into_inner).insert(shape);
                        let mut total = total.lock().unwrap_or_else(PoisonError::into_inner);
                        total.add(report);
                        if total.violations.len() > enough(settings) {
                            return Ok(());
                        }
                    }
                })
            })
            .collect();
        workers.into_iter().try_for_each(|worker| {
            worker.join().unwrap_or_else(|_| Err(io::Error::other("a worker panicked")))
        })
    });
    result?;
    let mut total = total.into_inner().unwrap_or_else(PoisonError::into_inner);
    total.distinct = shapes.into_inner().unwrap_or_else(PoisonError::into_inner).len() as u64;
    Ok(total)
}

fn history(settings: &Settings, dir: &Path, seed: u64) -> io::Result<(Report, u64)> {
    let mut report = Report { histories: 1, ..Report::default() };
    let begin = Instant::now();
    let root = dir.join("instance");
    let (before, trace) = match record(settings, dir, &root, seed)? {
        (before, Ok(trace)) => (before, trace),
        // A planted bug may show by an assertion of the program itself.
        (_, Err(why)) if settings.planted.is_some() => {
            report.violations.push(format!("seed {seed}: the program ended by itself: {why}"));
            return Ok((report, seed));
        }
        (_, Err(why)) => return Err(io::Error::other(format!("seed {seed}: the program ended: {why}"))),
    };
    report.recording = begin.elapsed().as_secs_f64();
    report.calls = trace.calls.len() as u64;
    report.syncs = trace.calls.iter().filter(|call| call.name.contains("sync")).count() as u64;
    let begin = Instant::now();
    let mut random = Random::nth(settings.seed, seed);
    let mut cuts: Vec<usize> =
        (0..settings.images).map(|_| random.below(trace.steps.len() as u64 + 1) as usize).collect();
    cuts.sort_unstable();
    let mut disk = Disk::new(&root, &before);
    let (mut marks, mut at) = (Marks::default(), 0);
    let mut known: BTreeMap<[u8; 32], Found> = BTreeMap::new();
    for (number, cut) in cuts.into_iter().enumerate() {
        for step in &trace.steps[at..cut] {
            mark(&trace, *step, &mut marks);
            disk.take(&trace, *step);
        }
        at = cut;
        let (files, lossy) = disk.image(&mut random);
        let full = (number as u64 + seed).is_multiple_of(settings.full_every);
        let mut violations = Vec::new();
        let expected = hashed(&expected(seed, &marks));
        // The same files give the same answers; only what must be there may have become more.
        let key = hash(&files);
        if let Some(found) = known.get(&key).filter(|_| !full) {
            report.repeated += 1;
            report.read += judge(found, &expected, &mut violations);
        } else {
            build(&root, &files)?;
            match look_at(&root, &expected, full, &mut violations) {
                Ok(found) => {
                    report.read += judge(&found, &expected, &mut violations);
                    known.insert(key, found);
                }
                Err(error) => violations.push(format!("the engine does not open: {error}")),
            }
        }
        let place = format!("seed {seed}, image {number} at step {cut} of {}", trace.steps.len());
        report.violations.extend(violations.into_iter().map(|text| format!("{place}: {text}")));
        report.images += 1;
        report.lossy += u64::from(lossy);
        report.full += u64::from(full);
        report.acknowledged += marks.acknowledged();
        if report.violations.len() > enough(settings) {
            break;
        }
    }
    for strange in &disk.strange {
        report.violations.push(format!("seed {seed}: the model of a disk does not know {strange}"));
    }
    report.checking = begin.elapsed().as_secs_f64();
    Ok((report, shape(&trace)))
}

/// Records a history on a new instance; gives the files before it and all calls, or how the program ended
/// that was to stop.
fn record(
    settings: &Settings,
    dir: &Path,
    root: &Path,
    seed: u64,
) -> io::Result<(Files, Result<Trace, String>)> {
    let _ = std::fs::remove_dir_all(root);
    named(root, engine::create(root))?;
    let mut before = Files::new();
    gather(root, root, &mut before)?;
    let trace = match engine::retried(|| record::log(settings, dir, root, seed))? {
        Recorded::Log(log) => Trace::parse(&log),
        Recorded::Ended(why) => return Ok((before, Err(why))),
    };
    compare_model(&trace, root, &before)?;
    Ok((before, Ok(trace)))
}

/// The model, told of all calls, must come to the files that are there.
fn compare_model(trace: &Trace, root: &Path, before: &Files) -> io::Result<()> {
    // The program stood still before it was ended, which it can do between calls only.
    if let Some(call) = trace.calls.iter().find(|call| call.is_unfinished()) {
        return Err(io::Error::other(format!("a call was recorded in part: {call:?}")));
    }
    let mut disk = Disk::new(root, before);
    trace.steps.iter().for_each(|step| disk.take(trace, *step));
    let (seen, mut there) = (disk.seen(), Files::new());
    gather(root, root, &mut there)?;
    let mut wrong: Vec<&PathBuf> =
        there.iter().filter(|(path, bytes)| seen.get(*path) != Some(*bytes)).map(|(path, _)| path).collect();
    wrong.extend(seen.keys().filter(|path| !there.contains_key(*path)));
    if wrong.is_empty() {
        return Ok(());
    }
    Err(io::Error::other(format!("the model of the disk is wrong about {wrong:?}")))
}

/// A mark counts from the beginning of its call: what it says had happened by then.
fn mark(trace: &Trace, step: Step, marks: &mut Marks) {
    let Step::Begin(number) = step else { return };
    let call = &trace.calls[number];
    let is_mark = call.name == "write"
        && call
            .arguments
            .first()
            .and_then(|argument| descriptor(argument))
            .is_some_and(|(_, p)| p.ends_with("/marks"));
    if is_mark {
        marks.take(&String::from_utf8_lossy(&bytes(&call.arguments[1])));
    }
}

/// A number for the sequence of calls and files.
fn shape(trace: &Trace) -> u64 {
    let mut text = String::new();
    for step in &trace.steps {
        if let Step::Begin(number) = step {
            let call = &trace.calls[*number];
            let path = call.arguments.first().and_then(|argument| descriptor(argument)).map(|(_, path)| path);
            text.push_str(&call.name);
            text.push_str(path.as_deref().unwrap_or_default());
        }
    }
    let hash = base::Blake3::of(text.as_bytes());
    hash.0.iter().take(8).fold(0, |shape, byte| (shape << 8) | u64::from(*byte))
}

/// The same for the same files.
fn hash(files: &Files) -> [u8; 32] {
    let mut hasher = blake3::Hasher::new();
    for (path, bytes) in files {
        hasher.update(path.as_os_str().as_encoded_bytes());
        hasher.update(&[0]);
        hasher.update(&(bytes.len() as u64).to_le_bytes());
        hasher.update(bytes);
    }
    *hasher.finalize().as_bytes()
}

/// Says of which file an error is.
pub(super) fn named<T>(path: &Path, result: io::Result<T>) -> io::Result<T> {
    result.map_err(|error| io::Error::new(error.kind(), format!("{}: {error}", path.display())))
}

/// All files below `at`, but LMDB's table of readers, which no crash leaves in use.
fn gather(root: &Path, at: &Path, files: &mut Files) -> io::Result<()> {
    for entry in named(at, std::fs::read_dir(at))? {
        let (entry, path) = named(at, entry.map(|entry| (entry.file_type(), entry.path())))?;
        if named(&path, entry)?.is_dir() {
            gather(root, &path, files)?;
        } else if !path.ends_with("lock.mdb") {
            let relative: PathBuf = path.strip_prefix(root).unwrap_or(&path).to_owned();
            files.insert(relative, Arc::new(named(&path, std::fs::read(&path))?));
        }
    }
    Ok(())
}

/// Makes the files below `root` these and no others; directories stay.
fn build(root: &Path, files: &Files) -> io::Result<()> {
    clear(root)?;
    for (path, bytes) in files {
        let path = root.join(path);
        named(&path, std::fs::write(&path, bytes.as_slice()))?;
    }
    Ok(())
}

fn clear(at: &Path) -> io::Result<()> {
    for entry in named(at, std::fs::read_dir(at))? {
        let entry = named(at, entry)?;
        let path = entry.path();
        if named(&path, entry.file_type())?.is_dir() {
            clear(&path)?;
        } else {
            named(&path, std::fs::remove_file(&path))?;
        }
    }
    Ok(())
}
