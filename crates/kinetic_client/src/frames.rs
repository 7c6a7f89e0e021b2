//! Frames from a connection, each in memory of its own: the value that a caller gets is the memory into which
//! it was read.

use std::io;

use bytes::Bytes;
use kinetic::{Frame, FrameError, FrameHeader, FrameLimits, HEADER_BYTES};

use crate::stream::StreamReader;

/// What is read ahead: many small answers with one call, and little of a large one that has to be moved.
const AHEAD_BYTES: usize = 16 << 10;

/// Why there is no further frame.
#[derive(Debug)]
pub(crate) enum ReadError {
    /// The connection ended.
    Lost,
    /// What came is no frame.
    Frame(FrameError),
}

impl From<io::Error> for ReadError {
    fn from(_: io::Error) -> Self {
        ReadError::Lost
    }
}

/// Takes frames from a connection.
pub(crate) struct Frames {
    reader: StreamReader,
    ahead: Vec<u8>,
    /// What was taken of it already.
    taken: usize,
}

impl Frames {
    pub(crate) fn new(reader: StreamReader) -> Self {
        Frames { reader, ahead: Vec::with_capacity(AHEAD_BYTES), taken: 0 }
    }

    /// Waits for the next frame.
    pub(crate) fn next(&mut self) -> Result<Frame, ReadError> {
        let header = loop {
            if let Some(bytes) = self.left().first_chunk::<HEADER_BYTES>() {
                break FrameHeader::decode(*bytes).map_err(ReadError::Frame)?;
            }
            self.ahead.drain(..self.taken);
            self.taken = 0;
            if self.reader.read(&mut self.ahead)? == 0 {
                return Err(ReadError::Lost);
            }
        };
        self.taken += HEADER_BYTES;
        let limits = FrameLimits::default();
        if header.message > limits.message {
            let too_long = FrameError::MessageTooLong { length: header.message, limit: limits.message };
            return Err(ReadError::Frame(too_long));
        }
        if header.value > limits.value {
            let too_long = FrameError::ValueTooLong { length: header.value, limit: limits.value };
            return Err(ReadError::Frame(too_long));
        }
        let total = header.message as usize + header.value as usize;
        let mut bytes = Vec::with_capacity(total);
        let here = total.min(self.left().len());
        bytes.extend_from_slice(self.left().get(..here).unwrap_or_default());
        self.taken += here;
        while bytes.len() < total {
            if self.reader.read(&mut bytes)? == 0 {
                return Err(ReadError::Lost);
            }
        }
        if bytes.len() > total {
            // The allocator gave more room than was asked for, and what stands there is of the next frame.
            self.ahead.clear();
            self.ahead.extend(bytes.drain(total..));
            self.taken = 0;
        }
        let mut bytes = Bytes::from(bytes);
        let message = bytes.split_to(header.message as usize);
        Ok(Frame::new(message, bytes))
    }

    fn left(&self) -> &[u8] {
        self.ahead.get(self.taken..).unwrap_or_default()
    }
}
