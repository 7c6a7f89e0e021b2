//! The pool: room for what is recalled and put, pins, clients' reads and writes, eviction.

use std::collections::VecDeque;

use base::{ByteCount, ClassId, Duration, FileId, ShareId};
use scheduler::Event;
use session::FreeSpace;

use super::World;
use super::agenda::What;
use super::invariants::Check;
use super::planted::Planted;
use super::wants::ByFile;
use crate::cache::Evicted;
use crate::disks::Stream;
use crate::moment::Moment;
use scenario::model::{ClassIndex, ClassModel, FileNumber, Site, WorkloadKind};

/// The scheduler is told of the room no more often than this, unless a recall has just ended.
const LOOK_EVERY: Duration = Duration::from_millis(250);
/// What a campaign recalled stays for so long, unless it releases it.
const PIN: Duration = Duration::from_secs(24 * 3600);

/// What is claimed, what waits for room, and what the scheduler was told.
pub(super) struct Room {
    /// What sessions have claimed, and what did not fit.
    pub(super) claims: session::Room,
    told: Option<u64>,
    told_class: Vec<Option<u64>>,
    looked: Option<Moment>,
    is_due: bool,
    /// Puts that wait for room, by class: workload and file.
    pub(super) puts: Vec<VecDeque<(usize, FileNumber)>>,
    pub(super) puts_waiting: usize,
    /// Puts that were refused because no cartridge takes the file.
    pub(super) puts_too_large: u64,
    /// When the last file of each class that is being put will be there.
    written_at: Vec<Moment>,
    /// Clients' transfers under way.
    pub(super) clients: u64,
    left_for_puts: u64,
    /// Wanted bytes by class.
    pub(super) wanted: Vec<u64>,
    /// Until when a campaign's files are pinned, and the same in the order of time.
    pinned: ByFile<Moment>,
    pins: VecDeque<(Moment, FileId)>,
    evict_at: Moment,
    evicted: Vec<Evicted>,
}

impl Room {
    pub(super) fn new(site: &Site) -> Self {
        let classes = site.classes.len();
        let disks = site.pool.disks.as_ref().map_or(u64::MAX, |disks| u64::from(disks.count.max(1)));
        let left_for_puts = session::left_for_puts(site.pool.capacity, disks).0;
        Room {
            claims: session::Room::default(),
            told: None,
            told_class: vec![None; classes],
            looked: None,
            is_due: false,
            puts: vec![VecDeque::new(); classes],
            puts_waiting: 0,
            puts_too_large: 0,
            written_at: vec![Moment(0); classes],
            clients: 0,
            left_for_puts,
            wanted: vec![0; classes],
            pinned: ByFile::default(),
            pins: VecDeque::new(),
            evict_at: Moment(u64::MAX),
            evicted: Vec::new(),
        }
    }

    /// The scheduler is new and was told nothing.
    pub(super) fn forget_told(&mut self) {
        self.told = None;
        self.told_class.iter_mut().for_each(|told| *told = None);
        self.looked = None;
    }
}

impl World<'_> {
    pub(super) fn class_of(&self, file: FileId) -> &ClassModel {
        &self.model.site.classes[usize::from(FileNumber::of(file).class.0)]
    }

    fn room_for_recalls(&self) -> u64 {
        self.cache.free().saturating_sub(self.room.left_for_puts)
    }

    /// Whether a file can ever come into the pool.
    pub(super) fn can_fit(&self, class: ClassIndex, bytes: u64) -> bool {
        let pool = &self.model.site.pool;
        let most = self.model.site.classes[usize::from(class.0)].pool_max.map_or(u64::MAX, |max| max.0);
        bytes <= pool.capacity.0.saturating_sub(self.room.left_for_puts).min(most)
    }

    /// What is free for recalls now.
    pub(super) fn free_for_recalls(&self) -> FreeSpace {
        let classes = (0..self.room.told_class.len()).filter_map(|class| {
            Some((ClassId(class as u16 + 1), ByteCount(self.cache.free_of(ClassIndex(class as u16))?)))
        });
        FreeSpace {
            pool: ByteCount(self.room_for_recalls()),
            classes: classes.collect(),
            ..FreeSpace::default()
        }
    }

    /// Whether a file that is to be recalled fits beside what is claimed.
    pub(super) fn has_room_for(&self, class: ClassIndex, bytes: u64) -> bool {
        self.room.claims.fits(&self.free_for_recalls(), ClassId(class.0 + 1), ByteCount(bytes))
    }

    /// Tells the scheduler of the room for recalls, where that may change what it decides: while more is free
    /// than all that is wanted, nothing is limited.
    pub(super) fn tell_room(&mut self, now: bool) {
        let mut free = self.free_for_recalls();
        let told = if free.pool.0 > self.wants.bytes { u64::MAX } else { free.pool.0 };
        let rested = self.room.claims.to_tell(&mut free, self.now.timestamp(), self.model.policy.retry_delay);
        if let Some(rested) = rested.filter(|_| !self.room.is_due) {
            self.room.is_due = true;
            self.agenda.enter(Moment::of(rested), What::Room);
        }
        let classes: Vec<u64> =
            (0..self.room.told_class.len()).map(|class| self.class_room(class, &free)).collect();
        let mut changed = self.room.told != Some(told) && !(self.room.told.is_none() && told == u64::MAX);
        for (value, told) in classes.iter().zip(&self.room.told_class) {
            changed |= told.unwrap_or(u64::MAX) != *value;
        }
        if !changed {
            return;
        }
        let next = self.room.looked.map_or(Moment(0), |looked| looked.plus(LOOK_EVERY));
        if !now && next > self.now {
            if !std::mem::replace(&mut self.room.is_due, true) {
                self.agenda.enter(next, What::Room);
            }
            return;
        }
        self.room.looked = Some(self.now);
        if self.room.told.unwrap_or(u64::MAX) != told {
            self.room.told = Some(told);
            self.tell(Event::PoolSpace { share: None, free: ByteCount(told) });
        }
        for (class, value) in classes.into_iter().enumerate() {
            if self.room.told_class[class].unwrap_or(u64::MAX) != value {
                self.room.told_class[class] = Some(value);
                let share = Some(ShareId(class as u16 + 1));
                self.tell(Event::PoolSpace { share, free: ByteCount(value) });
            }
        }
    }

    /// What is told of a class: while more is free than is wanted of it, nothing is limited.
    fn class_room(&self, class: usize, free: &FreeSpace) -> u64 {
        let of_class = free.classes.get(&ClassId(class as u16 + 1)).map_or(u64::MAX, |bytes| bytes.0);
        if of_class > 0 && of_class > self.room.wanted[class] { u64::MAX } else { of_class }
    }

    pub(super) fn room_event(&mut self) {
        self.room.is_due = false;
        self.tell_room(false);
    }

    /// A file comes into the pool; `false`: there is no room.
    pub(super) fn put_in(&mut self, file: FileNumber, bytes: u64, safe: bool) -> bool {
        let fits = self.cache.put_in(self.now, file, bytes, safe);
        if fits {
            let used = self.cache.used_of(file.class);
            self.meter.pool_of(self.now, file.class, used);
        }
        fits
    }

    /// A client puts a file, as soon as there is room.
    pub(super) fn put(&mut self, workload: usize, file: FileNumber) {
        let bytes = self.holdings.size(file);
        self.meter.put(self.now, workload, bytes);
        let class = usize::from(file.class.0);
        if bytes > self.model.site.pool.capacity.0 {
            self.checked(Check::PutRefused);
            return;
        }
        let spans = self.model.foreign.spans;
        if !spans && bytes > self.model.site.largest_on_tape(&self.model.site.classes[class]) {
            self.checked(Check::PutTooLarge);
            self.room.puts_too_large += 1;
            return;
        }
        self.room.puts[class].push_back((workload, file));
        self.room.puts_waiting += 1;
        self.put_what_fits(class);
    }

    fn put_what_fits(&mut self, class: usize) {
        let mut has_evicted = false;
        while let Some(&(workload, file)) = self.room.puts[class].front() {
            let bytes = self.holdings.size(file);
            let safe = self.model.site.classes[class].copies.is_empty();
            let fits =
                self.room.claims.claimed().0 + bytes <= self.cache.free() && self.put_in(file, bytes, safe);
            if !fits {
                if !std::mem::replace(&mut has_evicted, true) && self.evict_once() {
                    continue;
                }
                break;
            }
            self.room.puts[class].pop_front();
            self.room.puts_waiting -= 1;
            self.write_as_client(workload, file, bytes);
        }
    }

    fn write_as_client(&mut self, _workload: usize, file: FileNumber, bytes: u64) {
        if self.is_planted(Planted::EvictUnsafe, 0) {
            self.has_struck = false;
            self.cache.made_safe(file);
        }
        let wanted = self.model.site.pool.network.stream.max(1);
        self.feed.begin(Stream::ClientWrite, wanted);
        let rate = self.feed.rate(Stream::ClientWrite, wanted);
        let took = (u128::from(bytes) * 1_000_000 / u128::from(rate)) as u64;
        let class = usize::from(file.class.0);
        let at = Moment(self.now.0 + took).max(self.room.written_at[class]);
        self.room.written_at[class] = at;
        self.room.clients += 1;
        self.agenda.enter(at, What::Wrote { file, from: self.now, wanted });
    }

    pub(super) fn client_wrote(&mut self, file: FileNumber, from: Moment, wanted: u64) {
        let bytes = self.holdings.size(file);
        self.feed.end(Stream::ClientWrite, wanted);
        self.feed.moved(Stream::ClientWrite, bytes);
        self.meter.client_written(from, self.now, bytes);
        self.room.clients -= 1;
        self.file_put(file);
        self.evict();
    }

    /// A file that a workload wanted is in the pool now: it stays until it was read or released.
    pub(super) fn use_file(&mut self, workload: usize, file: FileNumber) {
        match self.model.workloads[workload].kind {
            WorkloadKind::Users { .. } | WorkloadKind::Recorded { .. } | WorkloadKind::Backup { .. } => {
                self.cache.pin(file);
                let wanted = self.model.site.pool.network.stream.max(1);
                self.feed.begin(Stream::ClientRead, wanted);
                let rate = self.feed.rate(Stream::ClientRead, wanted);
                let took = u128::from(self.holdings.size(file)) * 1_000_000 / u128::from(rate);
                self.room.clients += 1;
                let at = Moment(self.now.0 + took as u64);
                self.agenda.enter(at, What::Read { file, from: self.now, wanted });
            }
            _ => {
                let until = self.now.plus(PIN);
                if self.room.pinned.insert(file.id(), until).is_none() {
                    self.cache.pin(file);
                }
                if self.room.pins.is_empty() {
                    self.agenda.enter(until, What::Pins);
                }
                self.room.pins.push_back((until, file.id()));
            }
        }
    }

    pub(super) fn client_read(&mut self, file: FileNumber, from: Moment, wanted: u64) {
        let bytes = self.holdings.size(file);
        self.feed.end(Stream::ClientRead, wanted);
        self.feed.moved(Stream::ClientRead, bytes);
        self.meter.client_read(from, self.now, bytes);
        self.room.clients -= 1;
        self.cache.unpin(self.now, file);
        self.evict();
    }

    /// Pins of campaigns that have lasted for long enough end.
    pub(super) fn end_pins(&mut self) {
        while let Some(&(until, file)) = self.room.pins.front() {
            if until > self.now {
                self.agenda.enter(until, What::Pins);
                break;
            }
            self.room.pins.pop_front();
            if self.room.pinned.get(&file) == Some(&until) {
                self.release(FileNumber::of(file));
            }
        }
    }

    pub(super) fn release(&mut self, file: FileNumber) {
        if self.room.pinned.remove(&file.id()).is_some() {
            self.cache.unpin(self.now, file);
            self.evict();
        }
    }

    /// Evicts what may go and has to; what waited for room goes on.
    pub(super) fn evict(&mut self) {
        let any = self.evict_once();
        if any || self.room.puts_waiting > 0 {
            self.put_what_waits();
        }
        if any {
            self.tell_room(false);
        }
        if let Some(due) = self.cache.next_due().filter(|due| *due < self.room.evict_at) {
            let due = due.max(self.now);
            self.room.evict_at = due;
            self.agenda.enter(due, What::Evict);
        }
    }

    /// Files have left the pool by a record: what waited for room goes on, and the scheduler is told.
    pub(super) fn room_was_made(&mut self) {
        self.is_level_new = true;
        self.put_what_waits();
        self.tell_room(false);
    }

    fn put_what_waits(&mut self) {
        for class in 0..self.room.puts.len() {
            if !self.room.puts[class].is_empty() {
                self.put_what_fits(class);
            }
        }
    }

    pub(super) fn evict_event(&mut self) {
        if self.room.evict_at <= self.now {
            self.room.evict_at = Moment(u64::MAX);
        }
        self.evict();
    }

    fn evict_once(&mut self) -> bool {
        let mut evicted = std::mem::take(&mut self.room.evicted);
        evicted.clear();
        self.cache.evict(self.now, &mut evicted);
        for Evicted { file, bytes, untouched } in &evicted {
            self.meter.evicted(self.now, file.class, *bytes, *untouched);
            let class = usize::from(file.class.0);
            self.meter.pool_of(self.now, file.class, self.cache.used_of(file.class));
            self.checked(Check::EvictedWithItsCopies);
            let todo = &self.migration.todo[class];
            if file.sequence >= todo.begin
                && !todo.safe.get(file.sequence)
                && !self.model.site.classes[class].copies.is_empty()
            {
                let name = &self.model.site.classes[class].name;
                self.violated(format!(
                    "file {} of class {name} was evicted without its copies",
                    file.sequence
                ));
            }
        }
        let any = !evicted.is_empty();
        self.room.evicted = evicted;
        any
    }
}
