//! The places with their engine: fills them, and carries out one load at a time on all of them.

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use base::ByteCount;
use disk_load::{
    Access, Contents, Engine, EngineError, Load, Measured, Mix, Shape, Stamp, StreamMeasured, Target, Until,
    Workload,
};
use terminal::{Exit, Failure, Outcome, Progress};

use super::args::{Case, Plan};
use super::figures::{self, FioShown, Row, StreamShown};
use super::place::{self, Place};
use super::{fio, streaming};

/// Pairs of slices of Kist and fio.
const PAIRS: u32 = 6;
/// Part of a slice for which both run before they are measured: what a disk, or the host of a virtual one,
/// gives beyond its rate after a pause counts for neither.
const RAMP_PART: u32 = 4;
/// Operations of filling that are under way at once.
const FILL_DEPTH: u32 = 4;
/// What filling writes at once, at most.
const FILL_BLOCK: ByteCount = ByteCount(4 << 20);

/// What came of a load on each place, and of the stream beside it: how it fared, what failed on each place.
type Slice = (Vec<Measured>, Option<(StreamMeasured, Vec<Measured>)>);

/// Everything that a row needs.
pub struct Bed {
    places: Vec<Place>,
    /// So many of them, from the first on, are measured now.
    used: usize,
    engine: Engine,
    depth: u32,
    span: Duration,
    stream: Option<u64>,
    has_fio: bool,
    stamp: Stamp,
    slices: u64,
    /// Ends loads early: never set by a user, for whom the process ends.
    stop: AtomicBool,
}

/// The engine that was asked for, or the one that the kernel lets us have, and why it is another one.
pub fn engine(wanted: Option<Engine>) -> Outcome<(Engine, Option<String>)> {
    let usable = disk_load::is_usable(wanted.unwrap_or(Engine::IoUring));
    match (wanted, usable) {
        (Some(engine), Ok(())) => Ok((engine, None)),
        (None, Ok(())) => Ok((Engine::IoUring, None)),
        (Some(_), Err(error)) => Err(Failure::new(Exit::Refused, error.to_string())),
        (None, Err(error)) => Ok((Engine::Threads, Some(format!("threads are used: {error}")))),
    }
}

fn internal(error: EngineError) -> Failure {
    Failure::internal(format!("bench disk: {error}"))
}

impl Bed {
    /// Nothing is read or written yet.
    pub fn new(places: Vec<Place>, engine: Engine, plan: &Plan, has_fio: bool, stamp: Stamp) -> Bed {
        assert!(!places.is_empty(), "something is measured");
        Bed {
            used: places.len(),
            places,
            engine,
            depth: plan.depth,
            span: plan.span,
            stream: plan.stream,
            has_fio,
            stamp,
            slices: 0,
            stop: AtomicBool::new(false),
        }
    }

    /// The places.
    pub fn places(&self) -> &[Place] {
        &self.places
    }

    /// The files and devices.
    pub fn targets(&self) -> Vec<&Target> {
        self.places.iter().map(|place| &place.target).collect()
    }

    fn paths(&self) -> Vec<PathBuf> {
        self.used().iter().map(|place| place.target.path().to_owned()).collect()
    }

    /// Measures a case, with the stream and fio if they take part.
    pub fn measure(&mut self, case: Case, progress: &Progress) -> Outcome<Row> {
        self.fill(case.mix.has_reads() || self.stream.is_some(), progress)?;
        let mut row = if self.has_fio { self.beside_fio(case)? } else { self.alone(case)? };
        // Of what was not filled nothing is known; and what fio wrote since is no longer ours.
        let is_known = self.used().iter().all(|place| place.is_stamped);
        row.is_verified = case.mix.has_reads() && is_known && !(self.has_fio && case.mix.has_writes());
        Ok(row)
    }

    /// Measures a case on the first places alone.
    pub fn measure_first(&mut self, count: usize, case: Case, progress: &Progress) -> Outcome<Row> {
        self.fill(case.mix.has_reads() || self.stream.is_some(), progress)?;
        self.used = count.clamp(1, self.places.len());
        let row = self.measure(case, progress);
        self.used = self.places.len();
        row
    }

    fn used(&self) -> &[Place] {
        self.places.get(..self.used).unwrap_or(&self.places)
    }

    fn alone(&mut self, case: Case) -> Outcome<Row> {
        let (measured, stream) = self.slice(case, self.span)?;
        let mut row = Row::of(case, self.depth, &self.paths(), &measured);
        if let (Some(asked), Some((went, faults))) = (self.stream, stream) {
            row.stream = Some(StreamShown::of(asked, &went));
            let each = self.places.iter().zip(&faults);
            row.faults
                .extend(each.flat_map(|(place, one)| figures::faults(place.target.path(), &one.faults)));
        }
        Ok(row)
    }

    /// Kist and fio in turn, so that what else the machine does meets both alike.
    fn beside_fio(&mut self, case: Case) -> Outcome<Row> {
        let (mut sums, mut own, mut others) = (vec![Measured::default(); self.used], Vec::new(), Vec::new());
        let ramp = self.span / PAIRS / RAMP_PART;
        let span = self.span / PAIRS - ramp;
        for _ in 0..PAIRS {
            let (ramped, _) = self.slice(case, ramp)?;
            // Its times do not count; its faults do.
            sums.iter_mut().zip(&ramped).for_each(|(sum, one)| sum.faults.merge(&one.faults));
            let (measured, _) = self.slice(case, span)?;
            let mut all = Measured::default();
            for (sum, one) in sums.iter_mut().zip(&measured) {
                all.merge(one);
                sum.append(one);
            }
            own.push(all.rate());
            if case.mix.has_writes() {
                self.places.iter_mut().take(self.used).for_each(|place| place.is_stamped = false);
            }
            let asked = fio::Asked { case, engine: self.engine, depth: self.depth, ramp, span };
            others.push(fio::slice(self.used(), &asked)?);
        }
        let mut row = Row::of(case, self.depth, &self.paths(), &sums);
        row.fio = FioShown::of(&own, &others);
        if case.mix.has_writes() {
            self.make_known()?;
        }
        Ok(row)
    }

    /// One load on all places, and the stream beside it.
    fn slice(&mut self, case: Case, span: Duration) -> Outcome<Slice> {
        self.slices += 1;
        let over = AtomicBool::new(false);
        let contents = |place: &Place| self.contents(place);
        let (places, stream) = (self.used(), self.stream);
        std::thread::scope(|scope| {
            let (contents, over) = (&contents, &over);
            let streaming =
                stream.map(|rate| scope.spawn(move || streaming::run(places, contents, rate, over)));
            let measured = self.on_all(|number, place| {
                let (block, begin) = (case.size, ByteCount(0));
                let shape = Shape { block, mix: case.mix, access: case.access, begin, length: place.length };
                let seed = self.stamp.0 ^ (self.slices << 16) ^ number as u64;
                (shape, seed, self.depth, Until::Time(span), self.contents(place))
            });
            over.store(true, Ordering::Relaxed);
            let stream = streaming.map(|thread| match thread.join() {
                Ok(went) => went,
                Err(panic) => std::panic::resume_unwind(panic),
            });
            Ok((measured?, stream.transpose()?))
        })
    }

    fn contents(&self, place: &Place) -> Contents {
        if place.is_stamped { Contents::Stamped(self.stamp) } else { Contents::Unverified(self.stamp) }
    }

    /// A load on each place at the same time.
    fn on_all(
        &self,
        load: impl Fn(usize, &Place) -> (Shape, u64, u32, Until, Contents) + Sync,
    ) -> Outcome<Vec<Measured>> {
        let one = |number: usize, place: &Place| -> Outcome<Measured> {
            let (shape, seed, depth, until, contents) = load(number, place);
            let workload =
                Workload::new(shape, seed).map_err(|error| Failure::usage(format!("bench disk: {error}")))?;
            let file = place.target.file();
            let load = Load { file, workload, contents, depth, until, stop: &self.stop };
            disk_load::run(self.engine, load).map_err(internal)
        };
        std::thread::scope(|scope| {
            let started: Vec<_> = self
                .used()
                .iter()
                .enumerate()
                .map(|(number, place)| {
                    let one = &one;
                    scope.spawn(move || one(number, place))
                })
                .collect();
            let join = |thread: std::thread::ScopedJoinHandle<'_, Outcome<Measured>>| {
                thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
            };
            started.into_iter().map(join).collect()
        })
    }

    /// Writes all of the files that were made, before anything is measured in them, and again before reads if
    /// fio has written there.
    fn fill(&mut self, has_reads: bool, progress: &Progress) -> Outcome {
        let is_to_be_filled = |place: &Place| {
            let lacks = !place.is_laid_out || has_reads && !place.is_stamped;
            !place::is_lasting(place) && lacks
        };
        if !self.places.iter().any(is_to_be_filled) {
            return Ok(());
        }
        progress.note("fills");
        let measured = self.on_all(|_, place| {
            let length = if is_to_be_filled(place) { place.length } else { ByteCount(0) };
            self.writing(ByteCount(0), length)
        })?;
        self.whole(&measured)?;
        for place in self.places.iter_mut().filter(|place| is_to_be_filled(place)) {
            place.target.sync().map_err(place::failed)?;
            (place.is_stamped, place.is_laid_out) = (true, true);
        }
        progress.note("");
        Ok(())
    }

    /// Stamps what fio has written at both ends of what stays, so that a next call knows it again.
    fn make_known(&self) -> Outcome {
        for at_end in [false, true] {
            let measured = self.on_all(|_, place| match place::is_lasting(place) {
                true => {
                    let part = place.written_end(at_end);
                    self.writing(ByteCount(part.start), ByteCount(part.end - part.start))
                }
                false => self.writing(ByteCount(0), ByteCount(0)),
            })?;
            self.whole(&measured)?;
        }
        Ok(())
    }

    /// A load that writes all of a part once; of none, nothing.
    fn writing(&self, begin: ByteCount, length: ByteCount) -> (Shape, u64, u32, Until, Contents) {
        // As large as the part allows: lengths are whole operations of the largest size.
        let mut block = FILL_BLOCK.0;
        while block > disk_load::ALIGNMENT.0 && !length.0.is_multiple_of(block) {
            block /= 2;
        }
        let blocks = length.0 / block;
        let shape = Shape {
            block: ByteCount(block),
            mix: Mix::WRITE,
            access: Access::Sequential,
            begin,
            length: ByteCount(length.0.max(block)),
        };
        (shape, 0, FILL_DEPTH, Until::Operations(blocks), Contents::Stamped(self.stamp))
    }

    /// Demands that nothing failed.
    fn whole(&self, measured: &[Measured]) -> Outcome {
        for (place, one) in self.places.iter().zip(measured) {
            if let Some((fault, seen)) = one.faults.0.first_key_value() {
                return Err(Failure::internal(format!(
                    "{}: {fault} at byte {} while it was filled: it cannot be measured like this",
                    place.target.path().display(),
                    seen.first.0
                )));
            }
        }
        Ok(())
    }
}
