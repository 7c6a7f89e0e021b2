//! Reading a record file frame by frame, without an index, past damage.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

use base::Crc32c;

use super::block64::SEALED_BYTES;
use super::durable::DurableMark;
use super::frame::{
    FRAME_ALIGNMENT, FrameHeader, HEADER_BYTES, HeaderFault, Home, frame_bytes, padding_bytes,
};
use super::map::End;

/// How much is read at once when looking for the next intact header.
const SEARCH_BYTES: usize = 1 << 20;

/// What stands at the scanner's place.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Found {
    /// A frame with an intact header. Whether its payload verifies is another question.
    Frame(FrameHeader),
    /// Durable objects without intact headers, up to `end`.
    Damaged {
        /// Where they begin.
        start: End,
        /// Where the next object begins.
        end: End,
    },
    /// Nothing: the end of data.
    End,
    /// A frame of a version that this program does not know.
    Version(u16),
}

/// Walks over the frames of one record file.
pub struct Scanner<'a> {
    file: &'a File,
    file_bytes: u64,
    home: Home,
    mark: DurableMark,
    at: End,
}

impl<'a> Scanner<'a> {
    /// Starts at `at`, which must be the start of an object or the end of data.
    pub fn new(file: &'a File, home: Home, mark: DurableMark, at: End) -> io::Result<Self> {
        Ok(Scanner { file, file_bytes: file.metadata()?.len(), home, mark, at })
    }

    /// Looks at the next object and moves behind it. Behind the durable mark a frame counts only if its
    /// payload verifies too, and the first that does not is the end of data: what follows it was never
    /// promised.
    pub fn advance(&mut self) -> io::Result<Found> {
        let durable = self.at.objects < self.mark.objects;
        match self.header_at(self.at.offset)? {
            Err(HeaderFault::Version(version)) => return Ok(Found::Version(version)),
            Ok(header) if self.continues(&header) => {
                let whole = durable || payload_verifies(self.file, &header)?;
                if whole {
                    self.at = behind(&header);
                    return Ok(Found::Frame(header));
                }
            }
            _ => {}
        }
        if !durable {
            return Ok(Found::End);
        }
        let start = self.at;
        self.at = self.next_intact(start)?;
        Ok(Found::Damaged { start, end: self.at })
    }

    fn continues(&self, header: &FrameHeader) -> bool {
        let end = header.offset + frame_bytes(header.kind, header.length);
        header.object == self.at.objects && header.payload_before == self.at.payload && end <= self.file_bytes
    }

    fn header_at(&self, offset: u64) -> io::Result<Result<FrameHeader, HeaderFault>> {
        let mut bytes = [0; SEALED_BYTES];
        match self.file.read_exact_at(&mut bytes, offset) {
            Ok(()) => Ok(FrameHeader::decode(bytes, self.home, offset)),
            // A medium error of the disk below damages what it hits, no more.
            Err(error) if is_damage(&error) => Ok(Err(HeaderFault::Damaged)),
            Err(error) => Err(error),
        }
    }

    /// Where the first intact frame behind a damaged one begins; at the latest the durable mark.
    fn next_intact(&self, start: End) -> io::Result<End> {
        let mark = End { objects: self.mark.objects, offset: self.mark.end, payload: self.mark.payload };
        let limit = mark.offset.min(self.file_bytes);
        let mut window = vec![0u8; SEARCH_BYTES];
        let mut base = start.offset + FRAME_ALIGNMENT;
        while base + HEADER_BYTES <= limit {
            let length = (limit - base).min(SEARCH_BYTES as u64) as usize;
            let Some(window) = window.get_mut(..length) else { break };
            if let Err(error) = self.file.read_exact_at(window, base)
                && !is_damage(&error)
            {
                return Err(error);
            }
            let found = self.intact_within(window, base, start, mark);
            if let Some(end) = found {
                return Ok(end);
            }
            base += (length as u64 - HEADER_BYTES + FRAME_ALIGNMENT).next_multiple_of(FRAME_ALIGNMENT);
        }
        Ok(End { offset: mark.offset.max(start.offset), payload: mark.payload.max(start.payload), ..mark })
    }

    fn intact_within(&self, window: &[u8], base: u64, start: End, mark: End) -> Option<End> {
        let starts = (0..window.len()).step_by(FRAME_ALIGNMENT as usize);
        starts.filter_map(|at| Some((at, *window.get(at..)?.first_chunk::<SEALED_BYTES>()?))).find_map(
            |(at, bytes)| {
                let offset = base + at as u64;
                let header = FrameHeader::decode(bytes, self.home, offset).ok()?;
                let end = End { objects: header.object, offset, payload: header.payload_before };
                let between = end.objects > start.objects && end.objects < mark.objects;
                (between && end.payload >= start.payload && end.payload <= mark.payload).then_some(end)
            },
        )
    }
}

/// Whether a failed read means that the bytes are lost, rather than that reading is impossible now.
pub fn is_damage(error: &io::Error) -> bool {
    const EIO: i32 = 5;
    error.kind() == io::ErrorKind::UnexpectedEof || error.raw_os_error() == Some(EIO)
}

/// Reads the payload and padding of a frame and compares them with the header.
pub fn payload_verifies(file: &File, header: &FrameHeader) -> io::Result<bool> {
    let length = header.kind.stored_bytes(header.length);
    let mut bytes = vec![0; length + padding_bytes(header.kind, header.length)];
    match file.read_exact_at(&mut bytes, header.offset + HEADER_BYTES) {
        Ok(()) => {
            let (payload, padding) = bytes.split_at(length);
            Ok(Crc32c::of(payload) == header.payload_crc && padding.iter().all(|b| *b == 0))
        }
        Err(error) if is_damage(&error) => Ok(false),
        Err(error) => Err(error),
    }
}

fn behind(header: &FrameHeader) -> End {
    End {
        objects: header.object + 1,
        offset: header.offset + frame_bytes(header.kind, header.length),
        payload: header.payload_before + u64::from(header.length),
    }
}
