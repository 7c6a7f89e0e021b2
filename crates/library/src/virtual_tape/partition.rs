//! One partition of a loaded cartridge: its record file, and where every object of it stands.

use std::fs::{File, OpenOptions};
use std::io::{self, IoSlice, IoSliceMut};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use base::Crc32c;
use rustix::fs::{Advice, fadvise};
use rustix::io::{preadv, pwritev};

use super::atomic;
use super::block64::SEALED_BYTES;
use super::durable::{self, DurableMark, FRAMES_START};
use super::error::CartridgeError;
use super::frame::{FRAME_ALIGNMENT, FRAME_VERSION, FrameHeader, FrameKind, Home, padding_bytes};
use super::index_file;
use super::map::{End, Object, ObjectMap, RunKind};
use super::scan::{Found, Scanner, is_damage};

/// The index is saved at the first flush after so many bytes, and at unload: a load after a crash scans no
/// more.
const INDEX_INTERVAL_BYTES: u64 = 4 << 30;
/// The kernel forgets whole pages only.
const PAGE_BYTES: u64 = 4096;

/// One partition of a loaded cartridge.
pub struct PartitionFile {
    file: File,
    index_path: PathBuf,
    home: Home,
    map: ObjectMap,
    mark: DurableMark,
    /// Whether anything may not be on disk yet.
    dirty: bool,
    /// Up to which offset the index file on disk goes; `None` if there is none that counts.
    indexed: Option<u64>,
}

/// What a read of one object yields.
pub enum PartitionRead {
    Data(usize),
    FileMark,
    EndOfData,
    Damaged,
    BufferTooSmall(usize),
    /// An encrypted record that fits the buffer. It was not read: [`PartitionFile::read_stored`] does.
    Encrypted,
}

/// The name of a partition's record file.
pub fn record_path(directory: &Path, home: Home) -> PathBuf {
    directory.join(format!("partition-{}.rec", home.partition.ltfs_id()))
}

fn index_path(directory: &Path, home: Home) -> PathBuf {
    directory.join(format!("partition-{}.idx", home.partition.ltfs_id()))
}

impl PartitionFile {
    /// Makes the record file of an empty partition. Durable on return.
    pub fn create(directory: &Path, home: Home) -> Result<(), CartridgeError> {
        let path = record_path(directory, home);
        let write = || {
            let file = OpenOptions::new().write(true).create_new(true).open(&path)?;
            durable::write_head(&file, home)?;
            file.sync_all()
        };
        write().map_err(CartridgeError::file(&path, "create"))
    }

    /// Opens the record file, finds the end of data, and cuts off what a crash tore behind the durable mark.
    pub fn load(directory: &Path, home: Home, writable: bool) -> Result<Self, CartridgeError> {
        let path = record_path(directory, home);
        let io = |operation| CartridgeError::file(&path, operation);
        let file = OpenOptions::new().read(true).write(writable).open(&path).map_err(io("open"))?;
        let mark = durable::read_head(&file, &path, home)?;
        let index_path = index_path(directory, home);
        let known = index_file::load(&index_path, &mark, home);
        let indexed = known.as_ref().map(|map| map.end().offset);
        let mut map = known.unwrap_or_else(|| ObjectMap::empty(FRAMES_START));
        // After a failed flush the kernel may call pages clean that never reached the disk: what lies behind
        // the mark is read from the disk, not believed from memory. Pages that are still dirty stay, and a
        // flush writes them.
        let _ = fadvise(&file, mark.end / PAGE_BYTES * PAGE_BYTES, None, Advice::DontNeed);
        let mut scanner = Scanner::new(&file, home, mark, map.end()).map_err(io("read"))?;
        loop {
            match scanner.advance().map_err(io("read"))? {
                Found::Frame(header) => map.push(header.kind, header.length),
                Found::Damaged { end, .. } => map.push_damaged(end),
                Found::End => break,
                Found::Version(version) => {
                    let (version, known) = (version.into(), FRAME_VERSION.into());
                    return Err(CartridgeError::UnknownVersion { path, version, known });
                }
            }
        }
        let end = map.end();
        assert!(end.objects >= mark.objects, "what is durable is never dropped");
        let torn = file.metadata().map_err(io("read"))?.len() > end.offset;
        if torn && writable {
            file.set_len(end.offset).and_then(|()| file.sync_all()).map_err(io("truncate"))?;
        }
        let dirty = end.objects > mark.objects;
        Ok(PartitionFile { file, index_path, home, map, mark, dirty, indexed })
    }

    pub fn end(&self) -> End {
        self.map.end()
    }

    /// Payload bytes in front of an object.
    pub fn payload_before(&self, object: u64) -> u64 {
        self.map.get(object).map_or(self.map.end().payload, |place| place.payload_before)
    }

    /// The first object with so many payload bytes in front of it, or more.
    pub fn at_payload(&self, payload: u64) -> u64 {
        self.map.at_payload(payload)
    }

    /// Writes an object behind the last, with its payload as it is to stand in the frame. After an error the
    /// partition must not be written to again.
    pub fn append(&mut self, kind: FrameKind, payload: &[u8]) -> io::Result<()> {
        let End { objects, offset, payload: payload_before } = self.map.end();
        let length = payload.len().checked_sub(kind.overhead()).and_then(|length| u32::try_from(length).ok());
        let length = length.ok_or_else(|| io::Error::from(io::ErrorKind::InvalidInput))?;
        let payload_crc = Crc32c::of(payload);
        let header = FrameHeader { kind, length, payload_crc, object: objects, offset, payload_before };
        let header = header.encode(self.home);
        let padding = [0u8; FRAME_ALIGNMENT as usize];
        let padding = padding.get(..padding_bytes(kind, length)).unwrap_or_default();
        self.dirty = true;
        write_frame(&self.file, offset, [&header, payload, padding])?;
        self.map.push(kind, length);
        Ok(())
    }

    /// Reads an object into the front of `buffer` and verifies it.
    pub fn read(&self, object: u64, buffer: &mut [u8]) -> io::Result<PartitionRead> {
        let Some(place) = self.map.get(object) else { return Ok(PartitionRead::EndOfData) };
        let RunKind::Frames(kind) = place.kind else { return Ok(PartitionRead::Damaged) };
        let buffer_bytes = buffer.len();
        let Some(payload) = buffer.get_mut(..place.length as usize) else {
            debug_assert!(buffer_bytes < place.length as usize);
            return Ok(PartitionRead::BufferTooSmall(place.length as usize));
        };
        if kind == FrameKind::Encrypted {
            return Ok(PartitionRead::Encrypted);
        }
        match self.read_whole(object, &place, kind, payload)? {
            false => Ok(PartitionRead::Damaged),
            true if kind == FrameKind::FileMark => Ok(PartitionRead::FileMark),
            true => Ok(PartitionRead::Data(payload.len())),
        }
    }

    /// What an object is, without reading it.
    pub fn kind(&self, object: u64) -> Option<RunKind> {
        self.map.get(object).map(|place| place.kind)
    }

    /// Reads the payload of an object as it stands in its frame, verified. `false` if it is damaged.
    pub fn read_stored(&self, object: u64, into: &mut Vec<u8>) -> io::Result<bool> {
        let Some(place) = self.map.get(object) else { return Ok(false) };
        let RunKind::Frames(kind) = place.kind else { return Ok(false) };
        into.resize(kind.stored_bytes(place.length), 0);
        self.read_whole(object, &place, kind, into)
    }

    /// Whether the frame of an object was read as it was written.
    fn read_whole(
        &self,
        object: u64,
        place: &Object,
        kind: FrameKind,
        payload: &mut [u8],
    ) -> io::Result<bool> {
        match self.read_frame(object, place, kind, payload) {
            Err(error) if is_damage(&error) => Ok(false),
            read => read,
        }
    }

    fn read_frame(
        &self,
        object: u64,
        place: &Object,
        kind: FrameKind,
        payload: &mut [u8],
    ) -> io::Result<bool> {
        let mut header = [0u8; SEALED_BYTES];
        let mut padding = [0u8; FRAME_ALIGNMENT as usize];
        let padding = padding.get_mut(..padding_bytes(kind, place.length)).unwrap_or_default();
        read_frame_bytes(&self.file, place.offset, [&mut header, payload, padding])?;
        let expected = FrameHeader {
            kind,
            length: place.length,
            payload_crc: Crc32c::of(payload),
            object,
            offset: place.offset,
            payload_before: place.payload_before,
        };
        // What was read must be what the index says, with the payload's own checksum in it.
        let whole = FrameHeader::decode(header, self.home, place.offset) == Ok(expected);
        Ok(whole && padding.iter().all(|b| *b == 0))
    }

    /// Cuts off object `objects` and all behind it; durable on return. The mark goes down before the file is
    /// cut, so that a crash leaves the old tail or none, never damage.
    pub fn cut(&mut self, objects: u64) -> io::Result<()> {
        assert!(objects < self.map.end().objects, "there is something to cut off");
        self.map.truncate(objects);
        self.indexed = None;
        let end = self.map.end();
        self.mark.cuts += 1;
        if end.objects < self.mark.objects {
            let End { objects, offset, payload } = end;
            self.mark = DurableMark { objects, end: offset, payload, ..self.mark };
        }
        self.dirty = end.objects > self.mark.objects;
        self.write_mark()?;
        self.file.sync_data()?;
        self.file.set_len(end.offset)?;
        // Once more, over the other mark, which still promises what is gone.
        self.write_mark()?;
        self.file.sync_all()
    }

    /// Makes all that was written durable: first the frames, then the mark that says so.
    pub fn flush(&mut self) -> io::Result<()> {
        if !self.dirty {
            return Ok(());
        }
        let End { objects, offset, payload } = self.map.end();
        self.file.sync_data()?;
        self.mark = DurableMark { objects, end: offset, payload, ..self.mark };
        self.write_mark()?;
        self.file.sync_data()?;
        self.dirty = false;
        if offset >= self.indexed.unwrap_or(FRAMES_START).saturating_add(INDEX_INTERVAL_BYTES) {
            self.save_index();
        }
        Ok(())
    }

    /// Saves the index, if it is not on disk as it is. Only after a flush. A failure costs a scan at the next
    /// load.
    pub fn save_index(&mut self) {
        assert!(!self.dirty, "the index names durable objects only");
        let end = self.map.end();
        if self.indexed == Some(end.offset) || (self.indexed.is_none() && end.objects == 0) {
            return;
        }
        let Some(bytes) = index_file::encode(&self.map, self.mark.cuts, self.home) else { return };
        if atomic::replace_lazily(&self.index_path, &bytes).is_ok() {
            self.indexed = Some(end.offset);
        }
    }

    /// Asks the kernel to forget the pages of what is durable, which a tape does not need again soon.
    pub fn drop_cache(&self) {
        // Advice only: a kernel that does not take it loses nothing.
        let _ = fadvise(&self.file, FRAMES_START, None, Advice::DontNeed);
    }

    fn write_mark(&mut self) -> io::Result<()> {
        self.mark.counter += 1;
        self.mark.write(&self.file, self.home)
    }
}

/// One call for the whole frame; the rare short write is finished piece by piece.
fn write_frame(file: &File, offset: u64, parts: [&[u8]; 3]) -> io::Result<()> {
    let slices = parts.map(IoSlice::new);
    let mut done = loop {
        match pwritev(file, &slices, offset) {
            Err(rustix::io::Errno::INTR) => {}
            result => break result? as u64,
        }
    };
    let mut at = offset;
    for part in parts {
        let skip = done.min(part.len() as u64);
        if let Some(rest) = part.get(skip as usize..).filter(|rest| !rest.is_empty()) {
            file.write_all_at(rest, at + skip)?;
        }
        done -= skip;
        at += part.len() as u64;
    }
    Ok(())
}

fn read_frame_bytes(file: &File, offset: u64, parts: [&mut [u8]; 3]) -> io::Result<()> {
    let [header, payload, padding] = parts;
    let wanted = header.len() + payload.len() + padding.len();
    let mut slices = [IoSliceMut::new(header), IoSliceMut::new(payload), IoSliceMut::new(padding)];
    let done = loop {
        match preadv(file, &mut slices, offset) {
            Err(rustix::io::Errno::INTR) => {}
            result => break result?,
        }
    };
    if done == wanted {
        return Ok(());
    }
    let mut at = offset;
    for part in [header, payload, padding] {
        file.read_exact_at(part, at)?;
        at += part.len() as u64;
    }
    Ok(())
}
