//! Frames from a link: short ones out of one buffer, long values read to where they stay.

use std::sync::Arc;
use std::time::Instant;

use bytes::{Buf, Bytes, BytesMut};
use kinetic::{Frame, FrameError, FrameHeader, FrameLimits, FrameReader, HEADER_BYTES, Progress};

use crate::budget::{Budget, ValueBuffer};
use crate::limits::{LONG_VALUE_BYTES, READ_BYTES};
use crate::link::{Came, Link};

/// What comes next.
pub(crate) enum Next {
    Frame(Frame),
    /// More bytes have to come.
    More,
    /// There is no memory for the value that comes.
    NoMemory,
}

pub(crate) struct Incoming {
    limits: FrameLimits,
    reader: FrameReader,
    buffer: BytesMut,
    piece: Vec<u8>,
    long: Option<Long>,
    /// Since when there is part of a frame.
    pub(crate) began: Option<Instant>,
}

/// A frame of which the value goes to its place.
struct Long {
    message: Bytes,
    value: ValueBuffer,
    filled: usize,
}

impl Incoming {
    pub(crate) fn new(limits: FrameLimits) -> Incoming {
        Incoming {
            limits,
            reader: FrameReader::new(limits),
            buffer: BytesMut::new(),
            piece: vec![0; READ_BYTES],
            long: None,
            began: None,
        }
    }

    /// The next frame of what was read.
    pub(crate) fn next(&mut self, budget: &Arc<Budget>, link: &Link) -> Result<Next, FrameError> {
        if self.long.is_none() && self.reader.is_between() && !self.begin_long(budget, link) {
            return Ok(Next::NoMemory);
        }
        if let Some(long) = self.long.as_mut() {
            let room = &mut long.value.bytes_mut()[long.filled..];
            let count = room.len().min(self.buffer.len());
            room[..count].copy_from_slice(&self.buffer[..count]);
            self.buffer.advance(count);
            long.filled += count;
            if count < room.len() {
                return Ok(Next::More);
            }
            if let Some(Long { message, value, .. }) = self.long.take() {
                self.ended();
                return Ok(Next::Frame(Frame::new(message, value.into_bytes())));
            }
        }
        match self.reader.next(&mut self.buffer)? {
            Progress::Frame(frame) => {
                self.ended();
                Ok(Next::Frame(frame))
            }
            Progress::More(_) => Ok(Next::More),
        }
    }

    fn ended(&mut self) {
        self.began = (!self.buffer.is_empty()).then(Instant::now);
    }

    /// Where a frame with a long value begins, makes room for that. `false`: there is none.
    fn begin_long(&mut self, budget: &Arc<Budget>, link: &Link) -> bool {
        let Some(bytes) = self.buffer.first_chunk::<HEADER_BYTES>() else { return true };
        // What is no frame, or too long, is refused by the reader.
        let Ok(header) = FrameHeader::decode(*bytes) else { return true };
        let (message, value) = (header.message as usize, header.value as usize);
        let is_long = value >= LONG_VALUE_BYTES
            && header.value <= self.limits.value
            && header.message <= self.limits.message
            && self.buffer.len() >= HEADER_BYTES + message
            // What is there already needs no other place.
            && self.buffer.len() < HEADER_BYTES + message + value;
        if !is_long {
            return true;
        }
        let Some(value) = budget.buffer(value, &link.wake) else { return false };
        self.buffer.advance(HEADER_BYTES);
        // It is kept as long as the value, and does not keep what stood around it.
        let message = Bytes::copy_from_slice(&self.buffer.split_to(message));
        self.long = Some(Long { message, value, filled: 0 });
        true
    }

    /// It is not the client's fault that nothing is read now.
    pub(crate) fn excuse(&mut self) {
        self.began = self.began.map(|_| Instant::now());
    }

    /// Reads what the link has.
    pub(crate) fn read(&mut self, link: &Link) -> Came {
        let came = match self.long.as_mut() {
            Some(long) => {
                let came = link.read(&mut long.value.bytes_mut()[long.filled..]);
                if let Came::Bytes(count) = came {
                    long.filled += count;
                }
                came
            }
            None => {
                let came = link.read(&mut self.piece);
                if let Came::Bytes(count) = came {
                    self.buffer.extend_from_slice(&self.piece[..count]);
                }
                came
            }
        };
        if matches!(came, Came::Bytes(_)) {
            self.began.get_or_insert_with(Instant::now);
        }
        came
    }

    /// Reads what the link has, and forgets it.
    pub(crate) fn skip(&mut self, link: &Link) -> Came {
        link.read(&mut self.piece)
    }
}
