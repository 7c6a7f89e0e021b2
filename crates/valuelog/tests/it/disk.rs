//! A disk in memory that records what is done to it, so that any crash can be made of it afterwards.

use std::io;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard};

use base::{ByteCount, Uuid};
use drive::PAGE;
use valuelog::medium::Medium;
use valuelog::{Layout, OpenError, Settings, ValueLog};

pub const STORE: Uuid = Uuid([0x5a; 16]);
pub const SECTOR: usize = 512;

/// Where a write went.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Target {
    Superblock(usize),
    Slot(u32),
}

#[derive(Clone, Debug)]
pub enum Event {
    Write { target: Target, offset: usize, bytes: Vec<u8> },
    Sync,
}

/// All bytes of a disk.
#[derive(Clone, Default)]
pub struct Image {
    pub superblocks: [Vec<u8>; 2],
    pub slots: Vec<Vec<u8>>,
}

impl Image {
    pub fn part(&mut self, target: Target) -> &mut Vec<u8> {
        match target {
            Target::Superblock(copy) => &mut self.superblocks[copy],
            Target::Slot(slot) => &mut self.slots[slot as usize],
        }
    }

    /// Writes the sectors of an event that are wanted.
    pub fn apply(&mut self, event: &Event, mut is_wanted: impl FnMut(usize) -> bool) {
        let Event::Write { target, offset, bytes } = event else { return };
        let part = self.part(*target);
        for (number, sector) in bytes.chunks(SECTOR).enumerate() {
            if is_wanted(number) {
                let at = offset + number * SECTOR;
                part[at..at + sector.len()].copy_from_slice(sector);
            }
        }
    }
}

#[derive(Default)]
pub struct Recorded {
    /// As the disk was when recording began.
    pub base: Image,
    /// As programs see it.
    pub image: Image,
    pub events: Vec<Event>,
    /// After so many more writes, all fail.
    pub writes_left: Option<usize>,
    /// After so many more syncs, all fail.
    pub syncs_left: Option<usize>,
    /// Reads of these pages fail.
    pub unreadable: Vec<(u32, usize)>,
}

#[derive(Clone, Default)]
pub struct Disk(pub Arc<Mutex<Recorded>>);

impl Disk {
    pub fn new(slots: usize, segment: usize) -> Disk {
        // What stood there before is none of ours, and no zeros.
        let image =
            Image { superblocks: [vec![0; PAGE], vec![0; PAGE]], slots: vec![vec![0xd5; segment]; slots] };
        Disk::of(image)
    }

    pub fn of(image: Image) -> Disk {
        let recorded = Recorded { base: image.clone(), image, ..Recorded::default() };
        Disk(Arc::new(Mutex::new(recorded)))
    }

    pub fn recorded(&self) -> MutexGuard<'_, Recorded> {
        self.0.lock().unwrap()
    }

    pub fn image(&self) -> Image {
        self.recorded().image.clone()
    }

    pub fn format(&self, layout: Layout) {
        let slots = self.recorded().image.slots.len() as u32;
        ValueLog::format_on(self, Path::new("disk"), STORE, layout, slots).unwrap();
    }

    pub fn open(&self) -> Result<ValueLog, OpenError> {
        self.open_with(settings())
    }

    pub fn open_with(&self, settings: Settings) -> Result<ValueLog, OpenError> {
        ValueLog::open_on(Box::new(self.clone()), Path::new("disk"), Some(STORE), settings)
    }
}

/// Nothing happens by itself.
pub fn settings() -> Settings {
    Settings { background: false, reserve_segments: 3, ..Settings::default() }
}

pub fn layout(segment: u64, value_max: u64) -> Layout {
    Layout { segment: ByteCount(segment), value_max: ByteCount(value_max) }
}

impl Medium for Disk {
    fn fit(&self, segment_bytes: u32, slots: u32) -> Result<(), u64> {
        let recorded = self.recorded();
        assert!(recorded.image.slots.iter().all(|slot| slot.len() == segment_bytes as usize));
        if slots as usize <= recorded.image.slots.len() { Ok(()) } else { Err(0) }
    }

    fn read_superblock(&self, copy: usize, into: &mut [u8]) -> io::Result<()> {
        into.copy_from_slice(&self.recorded().image.superblocks[copy]);
        Ok(())
    }

    fn write_superblock(&self, copy: usize, page: &[u8]) -> io::Result<()> {
        self.record(Target::Superblock(copy), 0, page.to_vec())
    }

    fn make(&self, _slot: u32) -> io::Result<()> {
        Ok(())
    }

    fn read(&self, slot: u32, offset: u32, into: &mut [u8]) -> io::Result<()> {
        let recorded = self.recorded();
        let range = offset as usize..offset as usize + into.len();
        assert!(
            range.start.is_multiple_of(PAGE) && range.len().is_multiple_of(PAGE),
            "whole pages: {range:?}"
        );
        assert!(into.as_ptr().align_offset(PAGE) == 0, "to aligned memory");
        let is_bad = |(bad, page): &(u32, usize)| *bad == slot && range.contains(page);
        if recorded.unreadable.iter().any(is_bad) {
            return Err(io::Error::other("a bad sector"));
        }
        into.copy_from_slice(&recorded.image.slots[slot as usize][range]);
        Ok(())
    }

    fn write(&self, slot: u32, offset: u32, parts: &[&[u8]]) -> io::Result<()> {
        self.record(Target::Slot(slot), offset as usize, parts.concat())
    }

    fn sync(&self) -> io::Result<()> {
        let mut recorded = self.recorded();
        if let Some(left) = &mut recorded.syncs_left {
            *left = left.checked_sub(1).ok_or_else(|| io::Error::other("a sync that fails"))?;
        }
        recorded.events.push(Event::Sync);
        Ok(())
    }

    fn forget_cached(&self, _slot: u32) {}
}

impl Disk {
    fn record(&self, target: Target, offset: usize, bytes: Vec<u8>) -> io::Result<()> {
        assert!(offset.is_multiple_of(PAGE) && bytes.len().is_multiple_of(PAGE), "whole pages");
        let mut recorded = self.recorded();
        if let Some(left) = &mut recorded.writes_left {
            *left = left.checked_sub(1).ok_or_else(|| io::Error::other("a write that fails"))?;
        }
        let event = Event::Write { target, offset, bytes };
        recorded.image.apply(&event, |_| true);
        recorded.events.push(event);
        Ok(())
    }
}

/// The same numbers for the same seed.
#[derive(Clone)]
pub struct Random(u64);

impl Random {
    pub fn new(seed: u64) -> Random {
        Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    pub fn below(&mut self, most: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) as usize % most.max(1)
    }

    pub fn bytes(&mut self, length: usize) -> Vec<u8> {
        (0..length).map(|_| self.below(256) as u8).collect()
    }
}
