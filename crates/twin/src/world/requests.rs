//! What users do: files that are put, wanted, released, cancelled.

use base::{ByteCount, Duration, FileId, ShareId, Vid};
use scheduler::Event;

use super::World;
use super::agenda::What;
use super::invariants::Check;
use super::planted::Planted;
use super::wants::{Waiter, Want};
use crate::disks::Stream;
use crate::holdings::{Copies, Holdings, Place, TapeIndex};
use crate::users::Act;
use scenario::model::{CopyRule, FaultKind, FileNumber};

/// What streams at random have moved is counted so often.
const SATURATE_EVERY: Duration = Duration::from_secs(10);

/// Streams that read and write at random all the time, by workload.
#[derive(Clone, Copy, Default)]
pub(super) struct Streams {
    readers: u32,
    writers: u32,
}

impl World<'_> {
    pub(super) fn users_event(&mut self) {
        let mut acts = std::mem::take(&mut self.acts);
        acts.clear();
        self.users.act(self.now, &mut self.holdings, &mut acts);
        for act in &acts {
            match *act {
                Act::Put { workload, file } => self.put(workload, file),
                Act::Want { workload, file } => self.want(workload, file),
                Act::Release { file } => self.release(file),
                Act::Cancel { workload, file } => self.cancel(workload, file),
                Act::Streams { workload, readers, writers } => self.set_streams(workload, readers, writers),
            }
            if self.violation.is_some() {
                break;
            }
        }
        self.acts = acts;
    }

    /// Places from which a file may be read: those of tapes and copies that can be.
    pub(super) fn readable(&mut self, file: FileNumber) -> Copies {
        self.holdings.copies(file)
    }

    fn is_bad(&self, file: FileId, tape: TapeIndex) -> bool {
        self.tapes[tape.0 as usize].is_unreadable
            || self.spans.others(file, tape).any(|other| self.tapes[other.0 as usize].is_unreadable)
            || (!self.bad_copies.is_empty() && self.bad_copies.contains(&(file, tape)))
    }

    /// The tapes that the scheduler is told of.
    pub(super) fn told_copies(&mut self, id: FileId) -> Vec<TapeIndex> {
        if let Some(tape) = self.spans.next(id) {
            return Some(tape).filter(|tape| !self.is_bad(id, *tape)).into_iter().collect();
        }
        let copies = self.readable(FileNumber::of(id));
        let good = copies.iter().filter(|place| !self.is_bad(id, place.tape));
        let chosen: Option<&Place> = match self.model.foreign.copies {
            CopyRule::Any => {
                let mut tapes: Vec<TapeIndex> = good.map(|place| place.tape).collect();
                tapes.dedup();
                return tapes;
            }
            CopyRule::Newest => good.max_by_key(|place| place.order),
            CopyRule::First => good.min_by_key(|place| place.order),
        };
        chosen.map(|place| place.tape).into_iter().collect()
    }

    pub(super) fn want(&mut self, workload: usize, file: FileNumber) {
        let bytes = self.holdings.size(file);
        let hit = self.cache.contains(file);
        if !self.overdue.is_empty() {
            // Whoever wanted it in the record brought it back, whatever had become of it before.
            self.overdue.remove(&file.id());
        }
        self.meter.wanted(self.now, workload, bytes, hit);
        let request = self.ledger.begin();
        let waiter = Waiter { workload: workload as u16, request, since: self.now };
        if hit {
            self.cache.touch(self.now, file);
            self.use_file(workload, file);
            return self.serve(file, waiter);
        }
        let id = file.id();
        let priority = self.model.workloads[workload].priority;
        if let Some(want) = self.wants.get_mut(id) {
            want.others.push(waiter);
            return;
        }
        if !self.can_fit(file.class, bytes) || self.told_copies(id).is_empty() {
            return self.refuse(file, waiter);
        }
        let since = self.now;
        let want =
            Want { file: id, bytes, since, priority, admitted: None, first: waiter, others: Vec::new() };
        self.wants.insert(want);
        self.room.wanted[usize::from(file.class.0)] += bytes;
        self.is_level_new = true;
        let limit = self.model.foreign.queue_limit;
        if limit > 0 && self.admitted >= limit {
            self.outside.push_back(id);
        } else {
            self.admit(id);
        }
    }

    /// The scheduler is told of a wanted file.
    fn admit(&mut self, id: FileId) {
        let Some(want) = self.wants.get_mut(id) else { return };
        if want.admitted.is_none() {
            self.admitted += 1;
        }
        // Not since when it was asked for: the scheduler of a foreign system knows nothing of what waits
        // outside.
        let since = want.admitted.get_or_insert(self.now).timestamp();
        let (bytes, priority) = (ByteCount(want.bytes), want.priority);
        let tapes = self.told_copies(id);
        for tape in &tapes {
            let state = &mut self.tapes[tape.0 as usize];
            state.wanted.push(id);
            state.arrived += 1;
            if state.wanted.len() > 2 * state.cleared + 10_000 {
                self.clear_wanted(*tape);
            }
        }
        self.tell_room(false);
        let copies: Vec<Vid> = tapes.into_iter().map(Holdings::vid).collect();
        let share = ShareId(FileNumber::of(id).class.0 + 1);
        self.tell(Event::Wanted { file: id, bytes, since, priority, share, copies });
    }

    /// Takes out of a tape's list what is wanted no more, and what stands there twice.
    pub(super) fn clear_wanted(&mut self, tape: TapeIndex) {
        let mut wanted = std::mem::take(&mut self.tapes[tape.0 as usize].wanted);
        wanted.retain(|file| self.wants.get(*file).is_some_and(|want| want.admitted.is_some()));
        wanted.sort_unstable();
        wanted.dedup();
        if !self.bad_copies.is_empty() {
            wanted.retain(|file| !self.is_bad(*file, tape));
        }
        let state = &mut self.tapes[tape.0 as usize];
        state.cleared = wanted.len();
        state.wanted = wanted;
    }

    /// A wanted file is in the pool, read by a session.
    pub(super) fn recalled(&mut self, id: FileId) {
        let file = FileNumber::of(id);
        let Some(want) = self.end_want(id) else { return };
        if self.is_planted(Planted::ServeTwice, 0) {
            self.serve(file, want.first);
        }
        for waiter in want.waiters() {
            self.use_file(usize::from(waiter.workload), file);
            self.serve(file, *waiter);
        }
        self.leaves_late(file);
        if !self.is_planted(Planted::LoseNotWanted, 0) {
            self.tell(Event::NotWanted(id));
        }
        self.admit_next();
    }

    /// A file is no longer wanted, for whatever reason; who waited is told by the caller.
    fn end_want(&mut self, id: FileId) -> Option<Want> {
        let want = self.wants.remove(id)?;
        self.spans.wanted_no_more(id);
        self.room.wanted[usize::from(FileNumber::of(id).class.0)] -= want.bytes;
        self.admitted -= u64::from(want.admitted.is_some());
        self.is_level_new = true;
        Some(want)
    }

    fn admit_next(&mut self) {
        let limit = self.model.foreign.queue_limit;
        while limit > 0 && self.admitted < limit {
            let Some(id) = self.outside.pop_front() else { break };
            if self.wants.get(id).is_some_and(|want| want.admitted.is_none()) {
                self.admit(id);
            }
        }
    }

    fn serve(&mut self, file: FileNumber, waiter: Waiter) {
        self.end_request(file, waiter);
        self.trace_served(file, waiter.since);
        let workload = usize::from(waiter.workload);
        self.meter.served(self.now, workload, self.now.since(waiter.since));
        self.users.done(self.now, workload, file);
    }

    fn refuse(&mut self, file: FileNumber, waiter: Waiter) {
        self.end_request(file, waiter);
        let workload = usize::from(waiter.workload);
        self.meter.refused(self.now, workload);
        self.users.done(self.now, workload, file);
    }

    fn end_request(&mut self, file: FileNumber, waiter: Waiter) {
        self.checked(Check::EndsOnce);
        if !self.ledger.end(waiter.request) {
            let class = file.class.0;
            self.violated(format!(
                "request {} for file {} of class {class} ends twice",
                waiter.request, file.sequence
            ));
        }
    }

    /// A copy cannot be read: another one is, or nobody gets the file.
    pub(super) fn copy_failed(&mut self, id: FileId, tape: TapeIndex) {
        self.bad_copies.insert((id, tape));
        self.tell(Event::CopyFailed(id, Holdings::vid(tape)));
        self.copies_changed(id);
    }

    /// The copies of a wanted file are others now.
    pub(super) fn copies_changed(&mut self, id: FileId) {
        let Some(want) = self.wants.get(id) else { return };
        let is_admitted = want.admitted.is_some();
        if !self.told_copies(id).is_empty() {
            if is_admitted {
                self.admit(id);
            }
            return;
        }
        self.wanted_by_nobody(FileNumber::of(id));
    }

    /// A file is no more: whoever waits for it is told so.
    pub(super) fn wanted_by_nobody(&mut self, file: FileNumber) {
        let id = file.id();
        let Some(want) = self.end_want(id) else { return };
        for waiter in want.waiters() {
            self.refuse(file, *waiter);
        }
        if want.admitted.is_some() {
            self.tell(Event::NotWanted(id));
        }
        self.admit_next();
    }

    /// A workload wants a file no more.
    pub(super) fn cancel(&mut self, workload: usize, file: FileNumber) {
        let id = file.id();
        let Some(want) = self.wants.get_mut(id) else { return };
        let is_its = |waiter: &Waiter| usize::from(waiter.workload) == workload;
        if let Some(at) = want.others.iter().position(is_its) {
            let waiter = want.others.swap_remove(at);
            return self.refuse(file, waiter);
        }
        if !is_its(&want.first) {
            return;
        }
        let waiter = want.first;
        if want.others.is_empty() {
            let was = self.end_want(id).is_some_and(|want| want.admitted.is_some());
            if was {
                self.tell(Event::NotWanted(id));
            }
            self.admit_next();
        } else {
            want.first = want.others.swap_remove(0);
        }
        self.refuse(file, waiter);
    }

    /// One of those who wait, chosen at random, wants it no more.
    pub(super) fn cancel_any(&mut self, at: usize) {
        let Some(want) = self.wants.at(at) else { return };
        let (file, workload) = (FileNumber::of(want.file), usize::from(want.first.workload));
        self.meter.fault(FaultKind::Cancel);
        self.cancel(workload, file);
    }

    fn set_streams(&mut self, workload: usize, readers: u32, writers: u32) {
        self.saturate_event();
        let wanted = self.model.site.pool.network.stream.max(1);
        let old = std::mem::replace(&mut self.streams[workload], Streams { readers, writers });
        for _ in 0..old.readers {
            self.feed.end(Stream::RandomRead, wanted);
        }
        for _ in 0..old.writers {
            self.feed.end(Stream::RandomWrite, wanted);
        }
        for _ in 0..readers {
            self.feed.begin(Stream::RandomRead, wanted);
        }
        for _ in 0..writers {
            self.feed.begin(Stream::RandomWrite, wanted);
        }
        if self.saturate_at <= self.now {
            self.saturate_at = self.now.plus(SATURATE_EVERY);
            self.agenda.enter(self.saturate_at, What::Saturate);
        }
    }

    /// Counts what random streams have moved since the last look.
    pub(super) fn saturate_event(&mut self) {
        let (readers, writers) = self.streams.iter().fold((0, 0), |(readers, writers), streams| {
            (readers + u64::from(streams.readers), writers + u64::from(streams.writers))
        });
        let from = std::mem::replace(&mut self.saturated, self.now);
        let span = self.now.since(from).as_micros();
        if readers + writers == 0 || span == 0 {
            return;
        }
        let wanted = self.model.site.pool.network.stream.max(1);
        let moved =
            |rate: u64, streams: u64| (u128::from(rate) * u128::from(streams) * span / 1_000_000) as u64;
        if readers > 0 {
            let bytes = moved(self.feed.rate(Stream::RandomRead, wanted), readers);
            self.feed.moved(Stream::RandomRead, bytes);
            self.meter.client_read(from, self.now, bytes);
        }
        if writers > 0 {
            let bytes = moved(self.feed.rate(Stream::RandomWrite, wanted), writers);
            self.feed.moved(Stream::RandomWrite, bytes);
            self.meter.client_written(from, self.now, bytes);
        }
        if self.saturate_at <= self.now {
            self.saturate_at = self.now.plus(SATURATE_EVERY);
            self.agenda.enter(self.saturate_at, What::Saturate);
        }
    }
}
