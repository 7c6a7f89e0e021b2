//! One workload.

use base::Duration;
use durability::SplitMix;

use super::Act;
use super::arrivals::Process;
use super::selection::Selection;
use super::zipf::Zipf;
use crate::holdings::Holdings;
use crate::moment::Moment;
use scenario::model::{Arrivals, Choice, ClassIndex, FileNumber, Workload, WorkloadKind};

/// Data sets of a class that are remembered for repeated visits.
const RECENT_MAX: usize = 1000;

/// The last data sets of a class that anyone visited.
#[derive(Default)]
pub(super) struct Recent {
    data_sets: Vec<u64>,
    next: usize,
}

impl Recent {
    fn visited(&mut self, data_set: u64) {
        if self.data_sets.len() < RECENT_MAX {
            self.data_sets.push(data_set);
        } else {
            self.data_sets[self.next] = data_set;
            self.next = (self.next + 1) % RECENT_MAX;
        }
    }
}

/// Where a workload's acts go.
pub(super) struct Sink<'a> {
    pub(super) workload: usize,
    pub(super) holdings: &'a mut Holdings,
    pub(super) acts: &'a mut Vec<Act>,
    /// No more acts from this length on.
    pub(super) full: usize,
    pub(super) recent: &'a mut Recent,
}

impl Sink<'_> {
    fn is_full(&self) -> bool {
        self.acts.len() >= self.full
    }

    fn put(&mut self, class: ClassIndex) {
        let file = self.holdings.put(class);
        self.acts.push(Act::Put { workload: self.workload, file });
    }

    fn want(&mut self, class: ClassIndex, sequence: u64) {
        let file = FileNumber { class, sequence };
        self.acts.push(Act::Want { workload: self.workload, file });
    }
}

/// One workload.
pub(super) struct Worker {
    class: ClassIndex,
    data_set: u32,
    begin: Moment,
    end: Moment,
    due: Option<Moment>,
    random: SplitMix,
    doing: Doing,
}

enum Doing {
    Campaign(Campaign),
    Visits(Visits),
    Ingest { process: Process, burst: u32, left: u32 },
    Backup(Backup),
    Saturate { readers: u32, writers: u32, is_on: bool },
    Recorded { puts: Vec<Duration>, stages: Vec<(Duration, u64)>, put: usize, stage: usize },
}

/// A campaign, or a carousel: then with parts.
struct Campaign {
    choice: Choice,
    window: u64,
    parts: Option<Parts>,
    selection: Option<Selection>,
    is_ended: bool,
    outstanding: u64,
}

struct Parts {
    files: u64,
    /// The next part begins when no more than these are outstanding.
    overlap: u64,
    /// Files left of the part.
    left: u64,
    read: Vec<FileNumber>,
}

struct Visits {
    process: Process,
    files: u64,
    popularity: f64,
    repeat_per_mille: u64,
    law: Zipf,
    /// What is left of a visit.
    visit: std::ops::Range<u64>,
}

struct Backup {
    period: u64,
    window: u64,
    files: u64,
    /// The backup, and its file, that comes next.
    at: (u64, u64),
    restore_at: Option<Moment>,
    restore_files: u64,
    /// What is left of a restore.
    restore: std::ops::Range<u64>,
}

impl Worker {
    pub(super) fn new(workload: &Workload, data_set: u32, mut random: SplitMix) -> Worker {
        let begin = Moment::default().plus(workload.begin);
        let end = workload.end.map_or(Moment(u64::MAX), |end| Moment::default().plus(end));
        let mut process = |arrivals: &Arrivals| Process::new(arrivals, begin, &mut random);
        let doing = match &workload.kind {
            WorkloadKind::Campaign { choice, window } => {
                Doing::Campaign(Campaign::new(choice, *window, None))
            }
            WorkloadKind::Carousel { choice, part_files, overlap_percent } => {
                let files = (*part_files).max(1);
                let overlap = (u128::from(files) * u128::from(*overlap_percent) / 100) as u64;
                let parts = Parts { files, overlap, left: files, read: Vec::new() };
                Doing::Campaign(Campaign::new(choice, 0, Some(parts)))
            }
            WorkloadKind::Users { arrivals, files, popularity, repeat_per_mille } => Doing::Visits(Visits {
                process: process(arrivals),
                files: u64::from((*files).max(1)),
                popularity: *popularity,
                repeat_per_mille: u64::from(*repeat_per_mille),
                law: Zipf::new(*popularity, 1),
                visit: 0..0,
            }),
            WorkloadKind::Ingest { arrivals, burst } => {
                Doing::Ingest { process: process(arrivals), burst: (*burst).max(1), left: 0 }
            }
            WorkloadKind::Backup { period, window, files, restore_at, restore_files } => {
                Doing::Backup(Backup {
                    period: micros(*period),
                    window: micros(*window),
                    files: *files,
                    at: (0, 0),
                    restore_at: restore_at.map(|at| Moment::default().plus(at)),
                    restore_files: *restore_files,
                    restore: 0..0,
                })
            }
            WorkloadKind::Saturate { readers, writers } => {
                Doing::Saturate { readers: *readers, writers: *writers, is_on: false }
            }
            WorkloadKind::Recorded { puts, stages } => {
                Doing::Recorded { puts: puts.clone(), stages: stages.clone(), put: 0, stage: 0 }
            }
        };
        let mut worker = Worker { class: workload.class, data_set, begin, end, due: None, random, doing };
        worker.due = worker.next(begin);
        if let (Doing::Campaign(campaign), None) = (&mut worker.doing, worker.due) {
            campaign.is_ended = true;
        }
        worker
    }

    pub(super) fn class(&self) -> ClassIndex {
        self.class
    }

    pub(super) fn due(&self) -> Option<Moment> {
        self.due
    }

    /// Whether it would act when something is done.
    pub(super) fn waits(&self) -> bool {
        matches!(&self.doing, Doing::Campaign(campaign) if campaign.waits())
    }

    pub(super) fn act(&mut self, now: Moment, sink: &mut Sink<'_>) {
        let (class, is_over) = (self.class, now > self.end);
        match &mut self.doing {
            Doing::Campaign(campaign) => {
                if campaign.selection.is_none() {
                    campaign.choose(class, self.data_set, sink.holdings, self.random.clone());
                }
                campaign.is_ended |= is_over;
                campaign.act(class, sink);
            }
            Doing::Visits(visits) => {
                if visits.visit.is_empty() {
                    visits.choose(class, self.data_set, sink, &mut self.random);
                }
                while !visits.visit.is_empty() && !sink.is_full() {
                    sink.want(class, visits.visit.start);
                    visits.visit.start += 1;
                }
            }
            Doing::Ingest { burst, left, .. } => {
                if *left == 0 {
                    *left = *burst;
                }
                while *left > 0 && !sink.is_full() {
                    sink.put(class);
                    *left -= 1;
                }
            }
            Doing::Backup(backup) => backup.act(now, self.begin, class, sink),
            Doing::Saturate { readers, writers, is_on } => {
                *is_on = !*is_on;
                let streams = if *is_on { (*readers, *writers) } else { (0, 0) };
                let (workload, (readers, writers)) = (sink.workload, streams);
                sink.acts.push(Act::Streams { workload, readers, writers });
            }
            Doing::Recorded { puts, stages, put, stage } => {
                let is_due = |at: Duration| self.begin.plus(at) <= now;
                while puts.get(*put).is_some_and(|at| is_due(*at)) && !sink.is_full() {
                    sink.put(class);
                    *put += 1;
                }
                while !sink.is_full() {
                    let Some((_, file)) = stages.get(*stage).filter(|(at, _)| is_due(*at)) else { break };
                    sink.want(class, *file);
                    *stage += 1;
                }
            }
        }
        self.due = self.next(now);
    }

    pub(super) fn done(&mut self, now: Moment, file: FileNumber) {
        let Doing::Campaign(campaign) = &mut self.doing else { return };
        campaign.outstanding = campaign.outstanding.saturating_sub(1);
        if let Some(parts) = &mut campaign.parts {
            parts.read.push(file);
        }
        if campaign.selection.is_some() && campaign.may_act() {
            self.due = Some(self.due.map_or(now, |due| due.min(now)));
        }
    }

    pub(super) fn storm(&mut self, now: Moment, factor: f64) {
        let Doing::Visits(visits) = &mut self.doing else { return };
        let next = visits.process.again(now.max(self.begin), factor, &mut self.random);
        if visits.visit.is_empty() {
            self.due = next.filter(|next| *next <= self.end);
        }
    }

    /// When it acts next, having acted at `now`.
    fn next(&mut self, now: Moment) -> Option<Moment> {
        let is_first = self.due.is_none();
        let next = match &mut self.doing {
            Doing::Campaign(campaign) => (is_first || campaign.may_act()).then_some(now),
            Doing::Visits(visits) if !visits.visit.is_empty() => Some(now),
            Doing::Visits(visits) => visits.process.next(now, &mut self.random),
            Doing::Ingest { left, .. } if *left > 0 => Some(now),
            Doing::Ingest { process, .. } => process.next(now, &mut self.random),
            Doing::Backup(backup) => backup.next(now, self.begin, self.end),
            Doing::Saturate { is_on: false, .. } => is_first.then_some(now),
            Doing::Saturate { .. } => return Some(self.end).filter(|end| end.0 < u64::MAX),
            Doing::Recorded { puts, stages, put, stage } => {
                let (put, stage) = (puts.get(*put).copied(), stages.get(*stage).map(|(at, _)| *at));
                let at = [put, stage].into_iter().flatten().min();
                at.map(|at| self.begin.plus(at).max(now))
            }
        };
        next.filter(|next| *next <= self.end)
    }
}

impl Campaign {
    fn new(choice: &Choice, window: u64, parts: Option<Parts>) -> Campaign {
        let choice = choice.clone();
        Campaign { choice, window, parts, selection: None, is_ended: false, outstanding: 0 }
    }

    /// Of the files laid out at the beginning; of all that there are by now if none were.
    fn choose(&mut self, class: ClassIndex, data_set: u32, holdings: &Holdings, random: SplitMix) {
        let mut ranges = holdings.on_first_tapes(class, self.choice.tapes);
        let files = holdings.files(class);
        if ranges.is_empty() && files > 0 {
            ranges.push(0..files);
        }
        self.selection = Some(Selection::new(&self.choice, data_set, ranges, random));
    }

    fn may_act(&self) -> bool {
        let Some(parts) = &self.parts else {
            return !self.is_ended && (self.window == 0 || self.outstanding < self.window);
        };
        let may_want = !self.is_ended && (parts.left > 0 || self.outstanding <= parts.overlap);
        may_want || !parts.read.is_empty()
    }

    fn waits(&self) -> bool {
        !self.is_ended || self.parts.as_ref().is_some_and(|_| self.outstanding > 0)
    }

    fn act(&mut self, class: ClassIndex, sink: &mut Sink<'_>) {
        if let Some(parts) = &mut self.parts {
            while !sink.is_full() {
                let Some(file) = parts.read.pop() else { break };
                sink.acts.push(Act::Release { file });
            }
        }
        while !sink.is_full() && !self.is_ended && self.may_act() {
            if let Some(parts) = self.parts.as_mut().filter(|parts| parts.left == 0) {
                parts.left = parts.files;
            }
            let Some(sequence) = self.selection.as_mut().and_then(Iterator::next) else {
                self.is_ended = true;
                return;
            };
            sink.want(class, sequence);
            self.outstanding += 1;
            if let Some(parts) = &mut self.parts {
                parts.left -= 1;
            }
        }
    }
}

impl Visits {
    fn choose(&mut self, class: ClassIndex, data_set: u32, sink: &mut Sink<'_>, random: &mut SplitMix) {
        let (files, unit) = (sink.holdings.files(class), u64::from(data_set));
        if files == 0 {
            return;
        }
        let count = files.div_ceil(unit);
        let is_repeat = (random.below(1000) as u64) < self.repeat_per_mille;
        let chosen = if is_repeat && !sink.recent.data_sets.is_empty() {
            sink.recent.data_sets[random.below(sink.recent.data_sets.len())]
        } else {
            if self.law.count() != count {
                self.law = Zipf::new(self.popularity, count);
            }
            count - self.law.draw(random)
        };
        sink.recent.visited(chosen);
        let first = chosen * unit;
        let there = unit.min(files - first);
        let visited = self.files.min(there);
        let start = first + random.below((there - visited + 1) as usize) as u64;
        self.visit = start..start + visited;
    }
}

impl Backup {
    /// When the next file comes; `None`: no more.
    fn put_at(&self, begin: Moment, end: Moment) -> Option<Moment> {
        let (backup, file) = self.at;
        if self.files == 0 || (self.period == 0 && backup > 0) {
            return None;
        }
        let window = if self.period == 0 { self.window } else { self.window.min(self.period) };
        let inside = (u128::from(window) * u128::from(file) / u128::from(self.files)) as u64;
        let at = begin.0.saturating_add(backup.saturating_mul(self.period)).saturating_add(inside);
        Some(Moment(at)).filter(|at| *at <= end)
    }

    fn next(&self, now: Moment, begin: Moment, end: Moment) -> Option<Moment> {
        if !self.restore.is_empty() {
            return Some(now);
        }
        let next = [self.put_at(begin, end), self.restore_at].into_iter().flatten().min();
        next.map(|next| next.max(now))
    }

    fn act(&mut self, now: Moment, begin: Moment, class: ClassIndex, sink: &mut Sink<'_>) {
        while self.put_at(begin, now).is_some() && !sink.is_full() {
            sink.put(class);
            self.at.1 += 1;
            if self.at.1 == self.files {
                self.at = (self.at.0 + 1, 0);
            }
        }
        if self.restore_at.is_some_and(|at| at <= now) {
            self.restore_at = None;
            let files = sink.holdings.files(class);
            self.restore = files.saturating_sub(self.restore_files)..files;
        }
        while !self.restore.is_empty() && !sink.is_full() {
            sink.want(class, self.restore.start);
            self.restore.start += 1;
        }
    }
}

fn micros(span: Duration) -> u64 {
    u64::try_from(span.as_micros()).unwrap_or(u64::MAX)
}
