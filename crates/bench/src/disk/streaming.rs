//! Reads for the simulated tape drive beside a load.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use base::ByteCount;
use disk_load::{Access, Mix};
use disk_load::{Contents, Engine, Load, Measured, RUN, Shape, StreamMeasured, TapeStream, Until, Workload};
use terminal::{Failure, Outcome};

use super::place::Place;

/// What is asked for at once within a run, one after the other.
const PIECE: ByteCount = ByteCount(4 << 20);
/// How often it is looked whether to stop.
const LOOK: Duration = Duration::from_millis(20);

/// Reads runs of all places in turn until it is told to stop; gives how the drive fared, and what failed on
/// each place.
pub fn run(
    places: &[Place],
    contents: &(dyn Fn(&Place) -> Contents + Sync),
    rate: u64,
    stop: &AtomicBool,
) -> Outcome<(StreamMeasured, Vec<Measured>)> {
    let mut stream =
        TapeStream::new(rate).ok_or_else(|| Failure::internal("a rate that no drive has was let through"))?;
    let mut measured = vec![Measured::default(); places.len()];
    let since = Instant::now();
    let mut begun = Duration::ZERO;
    'runs: for number in 0u64.. {
        loop {
            let wait = stream.wait(since.elapsed());
            if stop.load(Ordering::Relaxed) {
                break 'runs;
            }
            if wait.is_zero() {
                break;
            }
            std::thread::sleep(wait.min(LOOK));
        }
        let at = (number % places.len() as u64) as usize;
        let place = &places[at];
        let runs = (place.length.0 / RUN.0).max(1);
        let begin = ByteCount(number / places.len() as u64 % runs * RUN.0);
        let one = read(place, contents(place), begin, stop)?;
        let bytes = one.bytes();
        measured[at].append(&one);
        if bytes < RUN.0.min(place.length.0) && stop.load(Ordering::Relaxed) {
            break;
        }
        let was_waiting = !stream.has_begun();
        stream.arrive(since.elapsed(), bytes);
        if was_waiting && stream.has_begun() {
            begun = since.elapsed();
        }
    }
    let now = since.elapsed();
    let begun = if stream.has_begun() { begun } else { now };
    Ok((stream.measured(now, begun), measured))
}

fn read(place: &Place, contents: Contents, begin: ByteCount, stop: &AtomicBool) -> Outcome<Measured> {
    let length = ByteCount(RUN.0.min(place.length.0 - begin.0));
    let shape = Shape { block: PIECE, mix: Mix::READ, access: Access::Sequential, begin, length };
    let workload = Workload::new(shape, 0).map_err(|error| Failure::internal(error.to_string()))?;
    let until = Until::Operations(workload.blocks());
    let load = Load { file: place.target.file(), workload, contents, depth: 1, until, stop };
    disk_load::run(Engine::Threads, load).map_err(|error| Failure::internal(error.to_string()))
}
