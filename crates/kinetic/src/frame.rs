//! Frames: nine bytes, a protobuf message, a value.
//!
//! ```text
//! offset 0   1 byte   0x46 ('F')
//!        1   4 bytes  length of the message, big-endian
//!        5   4 bytes  length of the value, big-endian
//!        9            message, then value
//! ```

use bytes::{Buf, Bytes, BytesMut};

/// The first byte of a frame.
pub const MAGIC: u8 = b'F';
/// Bytes before the message.
pub const HEADER_BYTES: usize = 9;
/// Most bytes of a message.
pub const MESSAGE_BYTES_MAX: u32 = 1 << 20;
/// Most bytes of a value.
pub const VALUE_BYTES_MAX: u32 = 1 << 20;
/// A server reads over a value that is too long, to answer that the request is invalid, if it is not longer
/// than this; the connection ends at a longer one. The bytes are dropped as they come.
pub const VALUE_BYTES_SKIPPED_MAX: u32 = 16 << 20;

/// Why no frame can be read here any more: the connection has to end.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FrameError {
    /// What came is no frame.
    #[error(
        "a frame begins with 0x46, here stands {0:#04x}: the peer does not speak Kinetic, or lost its place"
    )]
    Magic(u8),
    /// The message is too long.
    #[error("a message of {length} bytes, at most {limit} are accepted")]
    MessageTooLong {
        /// What the frame says.
        length: u32,
        /// What is accepted.
        limit: u32,
    },
    /// The value is too long.
    #[error("a value of {length} bytes, at most {limit} are accepted")]
    ValueTooLong {
        /// What the frame says.
        length: u32,
        /// What is accepted.
        limit: u32,
    },
}

/// What is accepted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FrameLimits {
    /// Most bytes of a message.
    pub message: u32,
    /// Most bytes of a value.
    pub value: u32,
    /// Most bytes of a value that is read over; no more than `value`: none is.
    pub skipped: u32,
}

impl Default for FrameLimits {
    fn default() -> Self {
        FrameLimits { message: MESSAGE_BYTES_MAX, value: VALUE_BYTES_MAX, skipped: 0 }
    }
}

/// The nine bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FrameHeader {
    /// Bytes of the message.
    pub message: u32,
    /// Bytes of the value.
    pub value: u32,
}

impl FrameHeader {
    /// As bytes.
    #[must_use]
    pub fn encode(self) -> [u8; HEADER_BYTES] {
        let mut bytes = [MAGIC; HEADER_BYTES];
        let (message, value) = (self.message.to_be_bytes(), self.value.to_be_bytes());
        for (to, from) in bytes.iter_mut().skip(1).zip(message.into_iter().chain(value)) {
            *to = from;
        }
        bytes
    }

    /// From bytes; the lengths are whatever they are.
    pub fn decode(bytes: [u8; HEADER_BYTES]) -> Result<Self, FrameError> {
        let [magic, a, b, c, d, e, f, g, h] = bytes;
        if magic != MAGIC {
            return Err(FrameError::Magic(magic));
        }
        Ok(FrameHeader { message: u32::from_be_bytes([a, b, c, d]), value: u32::from_be_bytes([e, f, g, h]) })
    }
}

/// A value as it came.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum FrameValue {
    /// Whole.
    Whole(Bytes),
    /// Longer than is accepted: so many bytes came and were dropped.
    Skipped(u32),
}

/// A frame that came.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Frame {
    /// The protobuf message.
    pub message: Bytes,
    /// What stands behind it.
    pub value: FrameValue,
}

impl Frame {
    /// A frame with this value.
    #[must_use]
    pub fn new(message: Bytes, value: Bytes) -> Self {
        Frame { message, value: FrameValue::Whole(value) }
    }
}

/// A frame to send: two pieces, so that a value is never copied.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct OutFrame {
    /// Header and message.
    pub head: Bytes,
    /// The value.
    pub value: Bytes,
}

impl OutFrame {
    /// All bytes in one piece.
    #[must_use]
    pub fn to_vec(&self) -> Vec<u8> {
        [self.head.as_ref(), self.value.as_ref()].concat()
    }

    /// How many bytes it has.
    #[must_use]
    pub fn length(&self) -> usize {
        self.head.len() + self.value.len()
    }
}

/// What a buffer held.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Progress {
    /// A frame; it was taken from the buffer.
    Frame(Frame),
    /// At least so many more bytes have to come. Never more than the limits allow.
    More(usize),
}

/// Takes frames from the bytes of one connection.
#[derive(Clone, Debug)]
pub struct FrameReader {
    limits: FrameLimits,
    skipping: Option<Skipping>,
}

#[derive(Clone, Debug)]
struct Skipping {
    message: Bytes,
    length: u32,
    left: usize,
}

impl FrameReader {
    /// With these limits.
    #[must_use]
    pub fn new(limits: FrameLimits) -> Self {
        FrameReader { limits, skipping: None }
    }

    /// Other limits from the next frame on: a device has said what it accepts and sends.
    pub fn set_limits(&mut self, limits: FrameLimits) {
        self.limits = limits;
    }

    /// Whether the next byte is the first of a frame, and not of a value that is read over.
    #[must_use]
    pub fn is_between(&self) -> bool {
        self.skipping.is_none()
    }

    /// Takes the next frame from the front of `buffer`, without copying it. Lengths are checked as soon as
    /// the nine bytes are there, so nobody has to make room for a length that will be refused.
    pub fn next(&mut self, buffer: &mut BytesMut) -> Result<Progress, FrameError> {
        if let Some(skipping) = self.skipping.take() {
            return Ok(self.skip(buffer, skipping));
        }
        let Some(bytes) = buffer.first_chunk::<HEADER_BYTES>() else {
            if let Some(magic) = buffer.first().filter(|byte| **byte != MAGIC) {
                return Err(FrameError::Magic(*magic));
            }
            return Ok(Progress::More(HEADER_BYTES - buffer.len()));
        };
        let header = FrameHeader::decode(*bytes)?;
        let FrameLimits { message, value, skipped } = self.limits;
        if header.message > message {
            return Err(FrameError::MessageTooLong { length: header.message, limit: message });
        }
        let is_skipped = header.value > value;
        if is_skipped && header.value > skipped {
            return Err(FrameError::ValueTooLong { length: header.value, limit: value });
        }
        let message_end = HEADER_BYTES + header.message as usize;
        let wanted = if is_skipped { message_end } else { message_end + header.value as usize };
        if buffer.len() < wanted {
            return Ok(Progress::More(wanted - buffer.len()));
        }
        let mut frame = buffer.split_to(wanted).freeze();
        frame.advance(HEADER_BYTES);
        let message = frame.split_to(header.message as usize);
        assert!(is_skipped == (frame.len() != header.value as usize), "a frame has the lengths it states");
        if is_skipped {
            let skipping = Skipping { message, length: header.value, left: header.value as usize };
            return Ok(self.skip(buffer, skipping));
        }
        Ok(Progress::Frame(Frame::new(message, frame)))
    }

    fn skip(&mut self, buffer: &mut BytesMut, mut skipping: Skipping) -> Progress {
        let here = skipping.left.min(buffer.len());
        buffer.advance(here);
        skipping.left -= here;
        if skipping.left == 0 {
            let Skipping { message, length, .. } = skipping;
            return Progress::Frame(Frame { message, value: FrameValue::Skipped(length) });
        }
        // What is asked for is dropped when it comes: no more room at once than for the longest value.
        let more = skipping.left.min(VALUE_BYTES_MAX as usize);
        self.skipping = Some(skipping);
        Progress::More(more)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(message: usize, value: usize) -> Vec<u8> {
        let header = FrameHeader { message: message as u32, value: value as u32 };
        let mut bytes = header.encode().to_vec();
        bytes.resize(HEADER_BYTES + message, b'm');
        bytes.resize(HEADER_BYTES + message + value, b'v');
        bytes
    }

    const SMALL: FrameLimits = FrameLimits { message: 20, value: 30, skipped: 40 };

    #[test]
    fn the_header_is_nine_bytes_big_endian() {
        let bytes = FrameHeader { message: 0x0102_0304, value: 0x0506_0708 }.encode();
        assert_eq!(bytes, *b"F\x01\x02\x03\x04\x05\x06\x07\x08");
    }

    #[test]
    fn frames_come_byte_by_byte() {
        let bytes = [frame(5, 7), frame(0, 0), frame(20, 30)].concat();
        let mut reader = FrameReader::new(SMALL);
        let (mut buffer, mut frames) = (BytesMut::new(), Vec::new());
        for byte in &bytes {
            buffer.extend_from_slice(&[*byte]);
            match reader.next(&mut buffer).unwrap() {
                Progress::Frame(frame) => frames.push(frame),
                Progress::More(more) => assert!(more > 0),
            }
        }
        let lengths = |frame: &Frame| match &frame.value {
            FrameValue::Whole(value) => (frame.message.len(), value.len()),
            FrameValue::Skipped(_) => panic!("nothing was too long"),
        };
        assert_eq!(frames.iter().map(lengths).collect::<Vec<_>>(), [(5, 7), (0, 0), (20, 30)]);
        assert!(buffer.is_empty());
    }

    #[test]
    fn a_value_is_not_copied() {
        let mut buffer = BytesMut::from(frame(5, 7).as_slice());
        let stood_at = buffer.as_ptr() as usize + HEADER_BYTES + 5;
        let Progress::Frame(Frame { value: FrameValue::Whole(value), .. }) =
            FrameReader::new(SMALL).next(&mut buffer).unwrap()
        else {
            panic!("a frame")
        };
        assert_eq!(value.as_ptr() as usize, stood_at);
    }

    #[test]
    fn limits_hold_at_the_header() {
        for (message, value, expected) in [
            (21, 0, Err(FrameError::MessageTooLong { length: 21, limit: 20 })),
            (u32::MAX, 0, Err(FrameError::MessageTooLong { length: u32::MAX, limit: 20 })),
            (20, 41, Err(FrameError::ValueTooLong { length: 41, limit: 30 })),
            (20, u32::MAX, Err(FrameError::ValueTooLong { length: u32::MAX, limit: 30 })),
            (20, 30, Ok(Progress::More(50))),
            // The message has to come first; of the value nothing is kept.
            (20, 40, Ok(Progress::More(20))),
        ] {
            let mut buffer = BytesMut::from(FrameHeader { message, value }.encode().as_slice());
            assert_eq!(FrameReader::new(SMALL).next(&mut buffer), expected, "{message} and {value}");
        }
        let mut strict = FrameReader::new(FrameLimits { skipped: 0, ..SMALL });
        let mut buffer = BytesMut::from(frame(0, 31).as_slice());
        assert_eq!(strict.next(&mut buffer), Err(FrameError::ValueTooLong { length: 31, limit: 30 }));
    }

    #[test]
    fn a_value_that_is_too_long_is_read_over() {
        let bytes = [frame(3, 40), frame(1, 1)].concat();
        for step in 1..=bytes.len() {
            let (mut reader, mut buffer, mut frames) = (FrameReader::new(SMALL), BytesMut::new(), Vec::new());
            for piece in bytes.chunks(step) {
                buffer.extend_from_slice(piece);
                while let Progress::Frame(frame) = reader.next(&mut buffer).unwrap() {
                    frames.push(frame);
                }
            }
            let skipped = Frame { message: Bytes::from_static(b"mmm"), value: FrameValue::Skipped(40) };
            let behind = Frame::new(Bytes::from_static(b"m"), Bytes::from_static(b"v"));
            assert_eq!(frames, [skipped, behind], "in steps of {step}");
        }
    }

    #[test]
    fn what_is_no_frame_is_refused_at_its_first_byte() {
        let mut buffer = BytesMut::from(&b"G"[..]);
        assert_eq!(FrameReader::new(SMALL).next(&mut buffer), Err(FrameError::Magic(b'G')));
    }
}
