//! A disk before its first use: all of it is written, read in another order and compared, and read at random
//! place by place.
//!
//! Who calls judges by the [`Profile`] that comes of it; nothing here decides.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use base::ByteCount;

use crate::engine::{Contents, Engine, EngineError, Load, Until};
use crate::measured::{FAULTS_MAX, Fault, Faults, Measured, SlowRead};
use crate::profile::{Profile, Spot, ZONES_LEAST, Zone, is_spot};
use crate::stamp::Stamp;
use crate::target::{FILE_MAX, RESERVE, Target, TargetError};
use crate::workload::{ALIGNMENT, Access, Mix, Shape, Workload};

/// Bytes of an operation in order.
pub const BLOCK: ByteCount = ByteCount(1 << 20);
/// Zones of a disk: of 20 TB each has 310 GB, of which a rate says something.
pub const ZONES: u64 = 64;
/// No zone is smaller: the rate of less is that of caches and of the machine's other work.
pub const ZONE_BYTES_LEAST: ByteCount = ByteCount(64 << 20);
/// How often a zone is looked at before it is called slow.
pub const LOOKS: usize = 5;

/// Operations in order that are under way at once.
const DEPTH: u32 = 8;
/// After so many bytes is told how far it is: a disk that moves 9 MB/s is heard of every 30 s.
const STEP: ByteCount = ByteCount(1 << 28);
/// Small reads at random: all zones in turn, so that what else the machine does meets all alike, and what the
/// disk keeps in its memory of one round is gone by the next.
const ROUNDS: usize = 4;
const READS_A_ROUND: u64 = 32;
/// Slow blocks that are read again.
const SPOTS_MAX: usize = 64;
/// Files that a burn-in makes: 128 TiB.
const FILES_MAX: u64 = 128;
/// The part of what is free that is left to a file system for the maps of the files: an ext4 extent of 12
/// bytes bears at most 128 MiB, and may be split.
const MAPS_PART: u64 = 1_024;

/// Carries loads out: an [`Engine`], or a disk of a test.
pub trait RunsLoads {
    /// As [`crate::run`].
    ///
    /// # Errors
    /// As [`crate::run`].
    fn run(&self, load: Load<'_>) -> Result<Measured, EngineError>;
}

impl RunsLoads for Engine {
    fn run(&self, load: Load<'_>) -> Result<Measured, EngineError> {
        crate::run(*self, load)
    }
}

/// What is done.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Stage {
    /// All is written.
    Writes,
    /// All is read and compared.
    Reads,
    /// Small reads at random.
    Random,
    /// Places that seem slow are looked at again.
    LooksAgain,
}

/// How far it is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Far {
    /// With what.
    pub stage: Stage,
    /// Bytes that were written and read.
    pub done: ByteCount,
    /// Bytes that are to be.
    pub of: ByteCount,
}

/// A disk that is to be burnt in.
pub struct BurnIn<'a> {
    /// Its files in order, all of the same length, or the one device.
    pub parts: &'a [Target],
    /// Bytes of each that are written over, whole blocks.
    pub part_length: ByteCount,
    /// Who reads and writes.
    pub engine: &'a dyn RunsLoads,
    /// Known by nobody before: what the disk gives back must be of this run.
    pub stamp: Stamp,
    /// Ends it early.
    pub stop: &'a AtomicBool,
    /// Is told how far it is.
    pub tell: &'a dyn Fn(Far),
}

/// What came of it.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct BurntIn {
    /// Place by place.
    pub profile: Profile,
    /// All writes in order.
    pub written: Measured,
    /// All reads in order, the first time.
    pub read: Measured,
}

/// Bytes that a burn-in of all that is free in a directory writes.
///
/// # Errors
/// [`TargetError::Io`].
pub fn room(directory: &std::path::Path) -> Result<ByteCount, TargetError> {
    let free = crate::target::free(directory)?;
    Ok(ByteCount(free.0.saturating_sub(RESERVE.0).saturating_sub(free.0 / MAPS_PART)))
}

/// The files that fill a directory up to the reserve, or take so many bytes.
///
/// # Errors
/// [`TargetError::NoRoom`], [`TargetError::Io`].
pub fn files(directory: &std::path::Path, size: Option<ByteCount>) -> Result<Vec<Target>, TargetError> {
    let bytes = match size {
        Some(size) => size.0,
        None => room(directory)?.0,
    };
    let count = bytes.div_ceil(FILE_MAX.0).clamp(1, FILES_MAX);
    let length = (bytes / count).min(FILE_MAX.0);
    let length = ByteCount((length - length % BLOCK.0).max(BLOCK.0));
    (0..count).map(|_| Target::temporary(directory, length)).collect()
}

/// A zone: which part it is of, and where there.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Place {
    part: usize,
    begin: u64,
    length: u64,
}

/// The zones of some equal parts, in order.
fn places(parts: u64, part_length: ByteCount) -> Vec<Place> {
    let most = (ZONES / parts).max(1);
    let zones = (part_length.0 / ZONE_BYTES_LEAST.0).clamp(1, most);
    let blocks = part_length.0 / BLOCK.0;
    let edge = |n: u64| blocks * n / zones * BLOCK.0;
    let zone =
        |part: u64, n: u64| Place { part: part as usize, begin: edge(n), length: edge(n + 1) - edge(n) };
    (0..parts).flat_map(|part| (0..zones).map(move |n| zone(part, n))).collect()
}

/// Whether the zones of a burn-in of such parts are enough to compare places.
#[must_use]
pub fn compares_places(parts: usize, part_length: ByteCount) -> bool {
    places(parts as u64, part_length).len() >= ZONES_LEAST
}

/// All numbers below `count`, none beside the one before it: steps of the golden section, or of the next
/// number that has no factor in common with `count`.
fn scattered(count: usize) -> impl Iterator<Item = usize> {
    let shares_factor = |step: usize| {
        let (mut a, mut b) = (step, count);
        while b > 0 {
            (a, b) = (b, a % b);
        }
        a != 1
    };
    let first = (count as f64 * 0.618) as usize;
    let step = (first.max(1)..).find(|step| !shares_factor(*step)).unwrap_or(1);
    // The last zone first: what was written last is not what is read first.
    (1..=count).map(move |n| n * step % count)
}

/// A burn-in under way.
struct Work<'a> {
    burn: &'a BurnIn<'a>,
    places: Vec<Place>,
    faults: Faults,
    far: Far,
    seed: u64,
}

impl BurnIn<'_> {
    /// Carries it out. `None` if it was stopped. More than [`FAULTS_MAX`] faults end it early.
    ///
    /// # Errors
    /// If the engine cannot run; never because of the disk.
    pub fn run(&self) -> Result<Option<BurntIn>, EngineError> {
        assert!(!self.parts.is_empty(), "there is something to be burnt in");
        assert!(self.part_length >= BLOCK, "a part has a block");
        let places = places(self.parts.len() as u64, self.part_length);
        let bytes: u64 = places.iter().map(|place| place.length).sum();
        let far = Far { stage: Stage::Writes, done: ByteCount(0), of: ByteCount(2 * bytes) };
        let mut work = Work { burn: self, places, faults: Faults::default(), far, seed: 0 };
        let done = work.all()?;
        Ok((!self.stop.load(Ordering::Relaxed)).then_some(done))
    }
}

impl Work<'_> {
    fn all(&mut self) -> Result<BurntIn, EngineError> {
        let mut done = BurntIn::default();
        let count = self.places.len();
        let mut zones: Vec<Zone> = (0..count).map(|at| self.unmeasured(at)).collect();
        for (at, zone) in zones.iter_mut().enumerate() {
            let measured = self.in_order(at, Mix::WRITE)?;
            zone.write_rate = measured.rate();
            done.written.append(&measured);
        }
        self.sync();
        self.far.stage = Stage::Reads;
        let mut slowest = Vec::new();
        for at in scattered(count) {
            let measured = self.in_order(at, Mix::READ)?;
            zones[at].read_rate = measured.rate();
            slowest.extend(self.slow_reads(at, &measured));
            done.read.append(&measured);
        }
        slowest.sort_unstable_by_key(|(_, read, _)| std::cmp::Reverse(*read));
        slowest.truncate(SPOTS_MAX);
        self.far.stage = Stage::Random;
        let (latencies, spots) = self.at_random(slowest)?;
        for (zone, took) in zones.iter_mut().zip(latencies) {
            (zone.median, zone.p99) = took;
        }
        done.profile = Profile { zones, spots, faults: Faults::default() };
        self.far.stage = Stage::LooksAgain;
        for _ in 1..LOOKS {
            for at in done.profile.slow_zones() {
                let again = self.look_again(at)?;
                done.profile.zones[at] = done.profile.zones[at].better(&again);
            }
        }
        done.profile.faults = std::mem::take(&mut self.faults);
        Ok(done)
    }

    fn is_over(&self) -> bool {
        self.burn.stop.load(Ordering::Relaxed) || self.faults.count() >= FAULTS_MAX
    }

    /// The byte of the whole disk at which a part begins.
    fn part_begin(&self, part: usize) -> u64 {
        part as u64 * self.burn.part_length.0
    }

    fn unmeasured(&self, at: usize) -> Zone {
        let place = self.places[at];
        let begin = ByteCount(self.part_begin(place.part) + place.begin);
        let none = Duration::ZERO;
        Zone {
            begin,
            length: ByteCount(place.length),
            write_rate: 0.0,
            read_rate: 0.0,
            median: none,
            p99: none,
        }
    }

    /// A load on a part of the disk; nothing if it is to end. Places come back as those of the whole disk.
    fn load(&mut self, part: usize, shape: Shape, depth: u32, count: u64) -> Result<Measured, EngineError> {
        if self.is_over() {
            return Ok(Measured::default());
        }
        let measured = self.run_load(part, shape, depth, count)?;
        let begin = self.part_begin(part);
        for (fault, seen) in &measured.faults.0 {
            let first = ByteCount(begin + seen.first.0);
            self.faults.merge(&Faults([(*fault, crate::Seen { first, ..*seen })].into()));
        }
        // A disk of which less was seen than was meant has not passed, whatever the reason.
        let is_explained = measured.faults.count() > 0 || self.is_over();
        if measured.bytes() < count * shape.block.0 && !is_explained {
            self.faults.add(Fault::NotDone, ByteCount(begin + shape.begin.0));
        }
        Ok(measured)
    }

    fn run_load(
        &mut self,
        part: usize,
        shape: Shape,
        depth: u32,
        count: u64,
    ) -> Result<Measured, EngineError> {
        self.seed += 1;
        let seed = self.burn.stamp.0 ^ self.seed;
        let Ok(workload) = Workload::new(shape, seed) else { return Ok(Measured::default()) };
        // A stamp of its own for each part: what belongs to another one is seen.
        let contents = Contents::Painted(Stamp(self.burn.stamp.0.wrapping_add(part as u64)));
        let (file, stop) = (self.burn.parts[part].file(), self.burn.stop);
        let until = Until::Operations(count);
        self.burn.engine.run(Load { file, workload, contents, depth, until, stop })
    }

    /// Writes or reads a zone from its beginning to its end.
    fn in_order(&mut self, at: usize, mix: Mix) -> Result<Measured, EngineError> {
        let place = self.places[at];
        let mut measured = Measured::default();
        let mut done = 0;
        while done < place.length && !self.is_over() {
            let length = ByteCount((place.length - done).min(STEP.0));
            let begin = ByteCount(place.begin + done);
            let shape = Shape { block: BLOCK, mix, access: Access::Sequential, begin, length };
            measured.append(&self.load(place.part, shape, DEPTH, length.0 / BLOCK.0)?);
            done += length.0;
            self.tell(length);
        }
        Ok(measured)
    }

    fn tell(&mut self, more: ByteCount) {
        self.far.done.0 += more.0;
        (self.burn.tell)(self.far);
    }

    /// What was written must be on the disk before it is asked for.
    fn sync(&mut self) {
        for part in 0..self.burn.parts.len() {
            match self.burn.parts[part].sync_and_forget() {
                Ok(()) => {}
                Err(TargetError::Io { source, .. }) => {
                    let number = source.raw_os_error().unwrap_or(0);
                    self.faults.add(Fault::Sync(number), ByteCount(self.part_begin(part)));
                }
                Err(_) => self.faults.add(Fault::Sync(0), ByteCount(self.part_begin(part))),
            }
        }
    }

    /// The reads of a zone that may have needed retries, with the zone and what is usual there.
    fn slow_reads(&self, at: usize, measured: &Measured) -> Vec<(usize, SlowRead, Duration)> {
        let usual = measured.read.took.quantile(0.5);
        let slow = measured.slowest.reads().iter().filter(|read| is_spot(read.took, usual));
        slow.map(|read| (at, *read, usual)).collect()
    }

    /// Small reads in all zones, and between their rounds the blocks again, alone, that were slow: beside
    /// others a block waits for those before it.
    #[expect(clippy::type_complexity, reason = "median and p99 of each zone, and what needs retries")]
    fn at_random(
        &mut self,
        slow: Vec<(usize, SlowRead, Duration)>,
    ) -> Result<(Vec<(Duration, Duration)>, Vec<Spot>), EngineError> {
        let count = self.places.len();
        let mut measured = vec![Measured::default(); count];
        let mut fastest = vec![Duration::MAX; slow.len()];
        for _ in 0..ROUNDS {
            for at in scattered(count) {
                measured[at].append(&self.few_at_random(at, READS_A_ROUND)?);
            }
            for (fastest, (at, read, _)) in fastest.iter_mut().zip(&slow) {
                let shape = Shape {
                    block: BLOCK,
                    mix: Mix::READ,
                    access: Access::Sequential,
                    begin: read.at,
                    length: BLOCK,
                };
                let again = self.load(self.places[*at].part, shape, 1, 1)?;
                *fastest = (*fastest).min(again.read.took.max());
            }
        }
        let spots = slow.iter().zip(fastest).filter(|((_, _, usual), took)| is_spot(*took, *usual));
        let spots = spots.map(|((at, read, _), took)| {
            let at = ByteCount(self.part_begin(self.places[*at].part) + read.at.0);
            Spot { at, took }
        });
        let mut spots: Vec<Spot> = spots.collect();
        spots.sort_unstable_by_key(|spot| spot.at);
        Ok((measured.iter().map(latency).collect(), spots))
    }

    fn few_at_random(&mut self, at: usize, count: u64) -> Result<Measured, EngineError> {
        let place = self.places[at];
        let (begin, length) = (ByteCount(place.begin), ByteCount(place.length));
        let shape = Shape { block: ALIGNMENT, mix: Mix::READ, access: Access::Random, begin, length };
        let measured = self.load(place.part, shape, 1, count)?;
        (self.burn.tell)(self.far);
        Ok(measured)
    }

    fn look_again(&mut self, at: usize) -> Result<Zone, EngineError> {
        self.far.of.0 += self.places[at].length;
        let mut zone = self.unmeasured(at);
        zone.read_rate = self.in_order(at, Mix::READ)?.rate();
        let reads = self.few_at_random(at, READS_A_ROUND * ROUNDS as u64)?;
        (zone.median, zone.p99) = latency(&reads);
        Ok(zone)
    }
}

/// The median, and what 99 of 100 keep.
fn latency(measured: &Measured) -> (Duration, Duration) {
    let took = &measured.read.took;
    (took.quantile(0.5), took.quantile(0.99))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn zones_cover_all_blocks_once() {
        for (parts, length) in [(1, 64 << 20), (1, (1 << 40) + (7 << 20)), (1, 1 << 20), (20, 1 << 40)] {
            let zones = places(parts, ByteCount(length));
            let mut next = (0, 0);
            for zone in &zones {
                if zone.part as u64 != next.0 {
                    assert_eq!(next.1, length, "a part is whole");
                    next = (zone.part as u64, 0);
                }
                assert_eq!(zone.begin, next.1);
                assert!(zone.length >= BLOCK.0);
                next.1 += zone.length;
            }
            assert_eq!(next, (parts - 1, length));
            assert!(zones.len() as u64 <= ZONES.max(parts), "{}", zones.len());
        }
    }

    #[test]
    fn zones_are_read_in_another_order_and_each_once() {
        for count in 1..200 {
            let order: Vec<usize> = scattered(count).collect();
            assert_eq!(order.iter().copied().collect::<BTreeSet<_>>().len(), count, "{count}");
            let beside = order.windows(2).filter(|pair| pair[1] == pair[0] + 1).count();
            assert!(count < 6 || beside == 0, "{count}: {order:?}");
        }
    }
}
