//! A read on its way to a drive.

use std::ops::Range;
use std::sync::Arc;

use base::ByteCount;
use blob::Use;
use drive::{AlignedBuffer, DriveError, ExtentId, ReadOperation};

use crate::arena::CellBuffer;
use crate::drives::Device;
use crate::lane::Flight;
use crate::order::Wanted;
use crate::slow::Kind;

/// Memory that a drive fills.
pub(crate) trait Memory: Send + 'static {
    fn bytes(&mut self) -> &mut [u8];

    /// For whom it is filled.
    fn whose(&self) -> Use;
}

impl Memory for CellBuffer {
    fn bytes(&mut self) -> &mut [u8] {
        self.as_mut_slice()
    }

    fn whose(&self) -> Use {
        CellBuffer::whose(self)
    }
}

impl Memory for AlignedBuffer {
    fn bytes(&mut self) -> &mut [u8] {
        self.as_mut_slice()
    }

    fn whose(&self) -> Use {
        Use::Client
    }
}

/// What is read of an extent: for each part where it begins there, and the range of the memory that it fills.
pub(crate) struct ReadPlace {
    pub(crate) extent: ExtentId,
    pub(crate) parts: Vec<(u64, Range<usize>)>,
}

impl ReadPlace {
    /// All of the memory, which has this length.
    pub(crate) fn whole(extent: ExtentId, offset: u64, length: usize) -> Self {
        ReadPlace { extent, parts: vec![(offset, 0..length)] }
    }
}

impl ReadPlace {
    /// What of the drive it is, from the first byte to the last.
    pub(crate) fn wanted(&self, whose: Use) -> Wanted {
        let from = self.parts.iter().map(|(at, _)| *at).min().unwrap_or(0);
        let to = self.parts.iter().map(|(at, range)| at + range.len() as u64).max().unwrap_or(from);
        Wanted { extent: self.extent, from, to, whose }
    }
}

pub(crate) struct Reading<M, T> {
    pub(crate) device: Arc<Device>,
    pub(crate) flight: Flight,
    pub(crate) place: ReadPlace,
    pub(crate) memory: M,
    pub(crate) then: T,
}

impl<M, T> ReadOperation for Reading<M, T>
where
    M: Memory,
    T: FnOnce(&Device, M, Result<(), DriveError>) + Send,
{
    fn extent(&self) -> ExtentId {
        self.place.extent
    }

    fn part(&mut self, number: usize) -> Option<(ByteCount, &mut [u8])> {
        let (offset, range) = self.place.parts.get(number)?;
        Some((ByteCount(*offset), &mut self.memory.bytes()[range.clone()]))
    }

    fn done(self: Box<Self>, result: Result<(), DriveError>) {
        let Reading { device, flight, place, memory, then } = *self;
        if result.is_ok() {
            device.took(Kind::Read, &flight);
            device.has_read(place.parts.iter().map(|(_, range)| range.len()).sum());
        }
        then(&device, memory, result);
        // Nothing of the drive is held when its place is free: who waits for that may close it.
        drop(device);
        drop(flight);
    }

    fn lost(self: Box<Self>, error: DriveError) {
        let Reading { device, flight, place, memory, then } = *self;
        std::mem::forget(memory);
        device.read_failed(place.extent.blob, &error);
        // As of a drive that was set aside: there is no memory to be told of.
        drop(then);
        drop(device);
        drop(flight);
    }
}
