//! The virtual tape drive.

use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use base::{BlockAddress, ByteCount, Partition, TapePosition, Vid};
use mechanics::{Motion, MotionReport, TapeByte, Track};

use super::cartridge::Cartridge;
use super::cipher::{self, Cipher};
#[cfg(feature = "faults")]
use super::faults::{DriveCommand, Faults};
use super::frame::{BLOCK_BYTES_MAX, FrameKind};
use super::map::RunKind;
use super::memory::{MEMORY_ATTRIBUTES_MAX, MEMORY_VALUE_BYTES_MAX, Memory};
use super::partition::PartitionRead;
use super::timed::{self, Pace, Timed};
use crate::drive::is_for_want_of_space;
use crate::encryption::{BlockEncryption, Decryption, TapeEncryption};
use crate::{
    DriveCounters, DriveName, DriveProduct, ErrorCounters, ReadBlock, TapeAlert, TapeDrive, TapeError,
    WriteResult,
};

/// The most file marks that one command writes.
pub const FILE_MARKS_MAX: u32 = 1024;

/// Where a freshly loaded tape stands.
const LOAD_POINT: TapePosition = TapePosition { partition: Partition::Index, block: BlockAddress(0) };

/// What library and handle share of a drive.
pub struct DriveBay {
    pub name: DriveName,
    pub drop_cache: bool,
    timed: Option<Arc<Timed>>,
    #[cfg(feature = "faults")]
    pub faults: Faults,
    state: Mutex<BayState>,
}

/// What changes in a drive.
#[derive(Default)]
pub struct BayState {
    /// Whether a handle exists.
    pub taken: bool,
    /// What is loaded, and where it stands.
    pub loaded: Option<Loaded>,
    /// How the drive moves, if it takes the time of a real one.
    motion: Option<Motion>,
}

impl BayState {
    /// Lets the time go by that the drive takes to load what was put into it.
    pub fn load(&mut self, timed: Option<&Timed>) {
        if let (Some(timed), Some(motion)) = (timed, &mut self.motion) {
            timed.wait_until(motion.load(timed.now_us()));
        }
    }

    /// Unloads what was taken out of `loaded`, in the time that the drive takes for it.
    pub fn unload(&mut self, cartridge: Cartridge, timed: Option<&Timed>) -> io::Result<()> {
        let begin = timed.map(Timed::now_us);
        let result = cartridge.unload();
        if let (Some(timed), Some(begin), Some(motion)) = (timed, begin, &mut self.motion) {
            timed.wait_until(motion.unload(begin));
        }
        result
    }
}

/// What an error of the files behind a cartridge is. That their file system is full says nothing of the
/// cartridge: a real one has its own room.
fn failed(vid: Vid, operation: &'static str, source: io::Error) -> TapeError {
    if is_for_want_of_space(&source) {
        TapeError::Host { operation, source: source.into() }
    } else {
        TapeError::Medium { vid, operation, source: source.into() }
    }
}

/// A cartridge under the head.
pub struct Loaded {
    pub cartridge: Cartridge,
    /// The cartridge whose slot it came from: itself, unless the robot took a wrong one.
    pub slot_of: Vid,
    position: TapePosition,
    counted: Counted,
    /// How blocks are encrypted: forgotten when the cartridge is unloaded.
    cipher: Option<Cipher>,
    /// An encrypted record on its way.
    scratch: Vec<u8>,
}

/// What a drive counts of one load.
#[derive(Default)]
struct Counted {
    written: u64,
    read: u64,
    writing: Errors,
    reading: Errors,
}

#[derive(Default)]
struct Errors {
    /// Blocks that took more than one try.
    corrected: u64,
    /// Tries beyond the first of each block.
    retries: u64,
    /// Blocks that none of the tries brought on the tape, or from it.
    uncorrected: u64,
}

impl Errors {
    /// A block took so many tries beyond the first one.
    #[cfg(feature = "faults")]
    fn retried(&mut self, retries: u64) {
        self.corrected += u64::from(retries > 0);
        self.retries += retries;
    }

    fn told(&self) -> ErrorCounters {
        let Errors { corrected, retries, uncorrected } = *self;
        let (corrected, retries, uncorrected) = (Some(corrected), Some(retries), Some(uncorrected));
        ErrorCounters { corrected, retries, uncorrected }
    }
}

impl Loaded {
    pub fn new(cartridge: Cartridge, slot_of: Vid) -> Self {
        let counted = Counted::default();
        Loaded { cartridge, slot_of, position: LOAD_POINT, counted, cipher: None, scratch: Vec::new() }
    }

    fn vid(&self) -> Vid {
        self.cartridge.vid()
    }

    fn check_writable(&self) -> Result<(), TapeError> {
        let vid = self.vid();
        if self.cartridge.identity.write_protected {
            return Err(TapeError::WriteProtected { vid });
        }
        if self.cartridge.poisoned {
            return Err(TapeError::Poisoned { vid });
        }
        Ok(())
    }

    /// Runs something that changes the medium; if it fails, nothing more is written.
    fn change<T>(
        &mut self,
        operation: &'static str,
        change: impl FnOnce(&mut Cartridge) -> io::Result<T>,
    ) -> Result<T, TapeError> {
        let vid = self.vid();
        change(&mut self.cartridge).map_err(|source| {
            self.cartridge.poisoned = true;
            failed(vid, operation, source)
        })
    }

    /// Prepares a write at the head: what stands behind it goes.
    fn cut_behind(&mut self) -> Result<(), TapeError> {
        let TapePosition { partition, block } = self.position;
        self.change("write", |cartridge| {
            let cuts = block.0 < cartridge.partition(partition).end().objects;
            cartridge.note_change(cuts)?;
            if cuts { cartridge.partition_mut(partition).cut(block.0) } else { Ok(()) }
        })
    }

    fn write_result(&self) -> WriteResult {
        let partition = self.position.partition;
        let capacity = self.cartridge.identity.capacity(partition);
        let used = self.cartridge.partition(partition).end().payload;
        WriteResult { early_warning: used > capacity.total.saturating_sub(capacity.early_warning) }
    }

    /// Where a position stands on the tape.
    fn byte_of(&self, position: TapePosition) -> TapeByte {
        let TapePosition { partition, block } = position;
        TapeByte { partition, byte: self.cartridge.partition(partition).payload_before(block.0) }
    }

    /// The payload bytes in front of the head, were all behind it cut off.
    fn used_in_front(&self) -> u64 {
        self.cartridge.partition(self.position.partition).payload_before(self.position.block.0)
    }

    /// Writes a record as the drive is set.
    fn append_record(&mut self, record: &[u8]) -> Result<(), TapeError> {
        let Some(cipher) = self.cipher.as_ref().filter(|cipher| cipher.setting.encrypts) else {
            return self.append(FrameKind::Record, record);
        };
        let mut scratch = std::mem::take(&mut self.scratch);
        let vid = self.vid();
        let sealed = cipher.seal(record, &mut scratch);
        let appended = match sealed {
            Ok(()) => self.append(FrameKind::Encrypted, &scratch),
            Err(error) => {
                self.cartridge.poisoned = true;
                Err(failed(vid, "write", error))
            }
        };
        self.scratch = scratch;
        appended
    }

    /// Reads the encrypted record under the head, which fits the buffer.
    fn decrypt(&mut self, buffer: &mut [u8]) -> Result<usize, TapeError> {
        let (vid, at) = (self.vid(), self.position);
        let reading = |cipher: &&Cipher| cipher.setting.decryption != Decryption::Off;
        let Some(cipher) = self.cipher.as_ref().filter(reading) else {
            return Err(TapeError::KeyMissing { vid, at });
        };
        let read = self.cartridge.partition(at.partition).read_stored(at.block.0, &mut self.scratch);
        if !read.map_err(|error| failed(vid, "read", error))? {
            return Err(TapeError::Unreadable { vid, at });
        }
        // What stands there is what was written, by its checksum: what does not come out is of another key.
        let record = cipher.open(&mut self.scratch).ok_or(TapeError::WrongKey { vid, at })?;
        let into = buffer.get_mut(..record.len()).ok_or(TapeError::Unreadable { vid, at })?;
        into.copy_from_slice(record);
        Ok(record.len())
    }

    fn block_encryption(&mut self) -> Result<BlockEncryption, TapeError> {
        let (vid, at) = (self.vid(), self.position);
        let partition = self.cartridge.partition(at.partition);
        match partition.kind(at.block.0) {
            None | Some(RunKind::Frames(FrameKind::FileMark)) => return Ok(BlockEncryption::NoBlock),
            Some(RunKind::Frames(FrameKind::Record)) => return Ok(BlockEncryption::Plain),
            Some(RunKind::Damaged) => return Ok(BlockEncryption::Unknown),
            Some(RunKind::Frames(FrameKind::Encrypted)) => {}
        }
        let read = partition.read_stored(at.block.0, &mut self.scratch);
        if !read.map_err(|error| failed(vid, "read", error))? {
            return Ok(BlockEncryption::Unknown);
        }
        let Some(identity) = cipher::identity_of(&self.scratch) else { return Ok(BlockEncryption::Unknown) };
        let cipher = self.cipher.as_ref().filter(|cipher| cipher.setting.decryption != Decryption::Off);
        let is_readable = cipher.is_some_and(|cipher| cipher.open(&mut self.scratch).is_some());
        Ok(BlockEncryption::Encrypted { identity, is_readable })
    }

    fn append(&mut self, kind: FrameKind, payload: &[u8]) -> Result<(), TapeError> {
        let partition = self.position.partition;
        self.change("write", |cartridge| cartridge.partition_mut(partition).append(kind, payload))?;
        self.position.block.0 += 1;
        assert_eq!(self.position.block.0, self.cartridge.partition(partition).end().objects);
        Ok(())
    }

    /// Reads the object under the head.
    fn read(
        &mut self,
        _bay: &DriveBay,
        pace: &mut Pace<'_>,
        buffer: &mut [u8],
    ) -> Result<ReadBlock, TapeError> {
        #[cfg(feature = "faults")]
        _bay.faults.check_alive(&_bay.name, DriveCommand::Read)?;
        let (vid, at) = (self.vid(), self.position);
        #[cfg(feature = "faults")]
        if _bay.faults.is_unreadable(&_bay.name, vid, at) {
            return Err(TapeError::Unreadable { vid, at });
        }
        let read = self.cartridge.partition(at.partition).read(at.block.0, buffer);
        let read = read.map_err(|error| failed(vid, "read", error))?;
        let result = match read {
            PartitionRead::Data(length) => {
                let required = |cipher: &Cipher| cipher.setting.decryption == Decryption::Required;
                if self.cipher.as_ref().is_some_and(required) {
                    return Err(TapeError::NotEncrypted { vid, at });
                }
                ReadBlock::Data(length)
            }
            PartitionRead::Encrypted => ReadBlock::Data(self.decrypt(buffer)?),
            PartitionRead::FileMark => ReadBlock::FileMark,
            PartitionRead::EndOfData => return Ok(ReadBlock::EndOfData),
            PartitionRead::Damaged => return Err(TapeError::Unreadable { vid, at }),
            PartitionRead::BufferTooSmall(record) => {
                return Err(TapeError::BufferTooSmall { record, buffer: buffer.len() });
            }
        };
        if let ReadBlock::Data(length) = result {
            let end = self.cartridge.partition(at.partition).end().payload;
            pace.read(|| self.byte_of(at), length as u64, end);
        }
        self.position.block.0 += 1;
        Ok(result)
    }

    /// Writes a record of a length that a record may have.
    fn write(
        &mut self,
        _bay: &DriveBay,
        pace: &mut Pace<'_>,
        block: &[u8],
    ) -> Result<WriteResult, TapeError> {
        #[cfg(feature = "faults")]
        _bay.faults.check_alive(&_bay.name, DriveCommand::Write)?;
        self.check_writable()?;
        let (vid, at) = (self.vid(), self.position);
        let capacity = self.cartridge.identity.capacity(at.partition).total;
        if self.used_in_front().saturating_add(block.len() as u64) > capacity {
            return Err(TapeError::EndOfMedium { vid, at });
        }
        #[cfg(feature = "faults")]
        {
            if _bay.faults.is_end(vid, at) {
                return Err(TapeError::EndOfMedium { vid, at });
            }
            self.change("write", |_| _bay.faults.write_at(vid, at))?;
        }
        self.cut_behind()?;
        self.append_record(block)?;
        pace.write(|| self.byte_of(at), block.len() as u64);
        Ok(self.write_result())
    }

    fn end_of(&self, partition: Partition) -> TapePosition {
        TapePosition { partition, block: BlockAddress(self.cartridge.partition(partition).end().objects) }
    }
}

impl DriveBay {
    pub fn new(
        name: DriveName,
        drop_cache: bool,
        timed: Option<Arc<Timed>>,
        #[cfg(feature = "faults")] faults: Faults,
    ) -> Self {
        let motion = timed.as_ref().map(|timed| timed.motion());
        let state = Mutex::new(BayState { motion, ..BayState::default() });
        DriveBay {
            name,
            drop_cache,
            timed,
            #[cfg(feature = "faults")]
            faults,
            state,
        }
    }

    /// The state. After a panic in the midst of a command the cartridge takes no more writes.
    pub fn lock(&self) -> MutexGuard<'_, BayState> {
        self.state.lock().unwrap_or_else(|poisoned: PoisonError<MutexGuard<'_, BayState>>| {
            let mut state = poisoned.into_inner();
            if let Some(loaded) = &mut state.loaded {
                loaded.cartridge.poisoned = true;
            }
            state
        })
    }
}

/// The handle of a virtual drive.
pub struct VirtualDrive {
    bay: Arc<DriveBay>,
}

impl VirtualDrive {
    /// A handle of a bay whose `taken` was just set.
    pub fn new(bay: Arc<DriveBay>) -> Self {
        VirtualDrive { bay }
    }

    fn with<T>(
        &self,
        run: impl FnOnce(&mut Loaded, &DriveBay) -> Result<T, TapeError>,
    ) -> Result<T, TapeError> {
        self.paced(|loaded, bay, _| run(loaded, bay))
    }

    /// Does something that takes the drive time, and waits for it when nothing is locked.
    fn paced<T>(
        &self,
        run: impl FnOnce(&mut Loaded, &DriveBay, &mut Pace<'_>) -> Result<T, TapeError>,
    ) -> Result<T, TapeError> {
        let timed = self.bay.timed.as_deref();
        let (result, until) = {
            let mut state = self.bay.lock();
            let BayState { loaded, motion, .. } = &mut *state;
            let mut pace = Pace::new(timed, motion.as_mut());
            let result = match loaded {
                Some(loaded) => run(loaded, &self.bay, &mut pace),
                None => Err(TapeError::NotLoaded { drive: self.bay.name.clone() }),
            };
            (result, pace.until_us())
        };
        if let (Some(timed), Some(until)) = (timed, until) {
            timed.wait_until(until);
        }
        result
    }

    /// Asks something about the tape on which the model of its motion is needed.
    fn modelled<T>(
        &self,
        run: impl FnOnce(&Loaded, &Timed) -> Result<Option<T>, TapeError>,
    ) -> Result<Option<T>, TapeError> {
        self.with(|loaded, bay| bay.timed.as_deref().map_or(Ok(None), |timed| run(loaded, timed)))
    }
}

impl Drop for VirtualDrive {
    fn drop(&mut self) {
        self.bay.lock().taken = false;
    }
}

impl TapeDrive for VirtualDrive {
    fn id(&self) -> &DriveName {
        &self.bay.name
    }

    fn read_block(&mut self, buffer: &mut [u8]) -> Result<ReadBlock, TapeError> {
        self.paced(|loaded, bay, pace| {
            let result = loaded.read(bay, pace, buffer);
            match &result {
                Ok(ReadBlock::Data(length)) => {
                    loaded.counted.read += *length as u64;
                    #[cfg(feature = "faults")]
                    loaded.counted.reading.retried(bay.faults.retries(&bay.name, loaded.vid()));
                }
                Err(TapeError::Unreadable { .. } | TapeError::Medium { .. }) => {
                    loaded.counted.reading.uncorrected += 1;
                }
                _ => {}
            }
            result
        })
    }

    fn write_block(&mut self, block: &[u8]) -> Result<WriteResult, TapeError> {
        let length = block.len();
        if length == 0 || length > BLOCK_BYTES_MAX {
            return Err(TapeError::BlockLength { length, max: BLOCK_BYTES_MAX });
        }
        self.paced(|loaded, bay, pace| {
            let result = loaded.write(bay, pace, block);
            match &result {
                Ok(_) => {
                    loaded.counted.written += length as u64;
                    #[cfg(feature = "faults")]
                    loaded.counted.writing.retried(bay.faults.retries(&bay.name, loaded.vid()));
                }
                Err(TapeError::Medium { .. }) => loaded.counted.writing.uncorrected += 1,
                Err(_) => {}
            }
            result
        })
    }

    fn write_filemarks(&mut self, count: u32) -> Result<WriteResult, TapeError> {
        if count > FILE_MARKS_MAX {
            return Err(TapeError::FileMarkCount { count, max: FILE_MARKS_MAX });
        }
        self.paced(|loaded, bay, pace| {
            #[cfg(feature = "faults")]
            bay.faults.check_alive(&bay.name, DriveCommand::Flush)?;
            loaded.check_writable()?;
            if count > 0 {
                loaded.cut_behind()?;
                let at = loaded.position;
                pace.write(|| loaded.byte_of(at), 0);
            }
            for _ in 0..count {
                loaded.append(FrameKind::FileMark, &[])?;
            }
            loaded.change("flush", Cartridge::flush)?;
            pace.flush();
            if bay.drop_cache {
                loaded.cartridge.partition(Partition::Data).drop_cache();
            }
            Ok(loaded.write_result())
        })
    }

    fn locate(&mut self, to: TapePosition) -> Result<(), TapeError> {
        self.paced(|loaded, _bay, pace| {
            #[cfg(feature = "faults")]
            _bay.faults.check_alive(&_bay.name, DriveCommand::Locate)?;
            let end = loaded.end_of(to.partition);
            if to.block > end.block {
                return Err(TapeError::BeyondEndOfData { vid: loaded.vid(), to, end });
            }
            loaded.position = to;
            pace.locate(|| loaded.byte_of(to));
            Ok(())
        })
    }

    fn space_to_end_of_data(&mut self, partition: Partition) -> Result<TapePosition, TapeError> {
        self.paced(|loaded, _bay, pace| {
            #[cfg(feature = "faults")]
            _bay.faults.check_alive(&_bay.name, DriveCommand::Locate)?;
            loaded.position = loaded.end_of(partition);
            pace.locate(|| loaded.byte_of(loaded.position));
            Ok(loaded.position)
        })
    }

    fn position(&mut self) -> Result<TapePosition, TapeError> {
        self.with(|loaded, _bay| {
            #[cfg(feature = "faults")]
            if _bay.faults.loses_position(loaded.vid(), loaded.position) {
                return Err(TapeError::PositionUnknown { vid: loaded.vid() });
            }
            Ok(loaded.position)
        })
    }

    fn rewind(&mut self) -> Result<(), TapeError> {
        self.paced(|loaded, _, pace| {
            loaded.position.block = BlockAddress(0);
            pace.rewind();
            Ok(())
        })
    }

    fn loaded(&self) -> bool {
        self.bay.lock().loaded.is_some()
    }

    fn format_partitions(&mut self) -> Result<(), TapeError> {
        self.paced(|loaded, _bay, pace| {
            loaded.check_writable()?;
            #[cfg(feature = "faults")]
            if _bay.faults.is_worm(loaded.vid()) {
                return Err(TapeError::Worm { vid: loaded.vid() });
            }
            loaded.change("format", |cartridge| {
                cartridge.note_change(true)?;
                cartridge.format()
            })?;
            loaded.position = LOAD_POINT;
            pace.locate(|| loaded.byte_of(LOAD_POINT));
            Ok(())
        })
    }

    fn read_attribute(&mut self, partition: Partition, id: u16) -> Result<Option<Vec<u8>>, TapeError> {
        self.with(|loaded, _| Ok(loaded.cartridge.read_attribute(partition, id)))
    }

    fn write_attribute(&mut self, partition: Partition, id: u16, value: &[u8]) -> Result<(), TapeError> {
        if !Memory::is_writable(id) {
            return Err(TapeError::AttributeReadOnly { id });
        }
        if value.len() > MEMORY_VALUE_BYTES_MAX {
            return Err(TapeError::AttributeLength { id, length: value.len(), max: MEMORY_VALUE_BYTES_MAX });
        }
        self.with(|loaded, _bay| {
            #[cfg(feature = "faults")]
            _bay.faults.check_alive(&_bay.name, DriveCommand::WriteAttribute)?;
            loaded.check_writable()?;
            let vid = loaded.vid();
            let memory = loaded.cartridge.memory.with(partition, id, value);
            if memory.attributes.len() > MEMORY_ATTRIBUTES_MAX {
                return Err(TapeError::AttributesFull { vid, max: MEMORY_ATTRIBUTES_MAX });
            }
            // The file is replaced as a whole: after a failure the old one stands, and the tape is untouched.
            let written = loaded.cartridge.set_memory(memory);
            written.map_err(|error| failed(vid, "memory write", error))
        })
    }

    fn remaining(&mut self) -> Result<ByteCount, TapeError> {
        self.with(|loaded, _| {
            let capacity = loaded.cartridge.identity.data.total;
            Ok(ByteCount(capacity.saturating_sub(loaded.cartridge.partition(Partition::Data).end().payload)))
        })
    }

    fn early_warning_room(&mut self) -> Option<ByteCount> {
        self.with(|loaded, _| Ok(ByteCount(loaded.cartridge.identity.data.early_warning))).ok()
    }

    fn end_of_wrap_positions(&mut self) -> Result<Option<Vec<BlockAddress>>, TapeError> {
        self.modelled(|loaded, timed| {
            Ok(Some(timed.ends_of_data(loaded.cartridge.partition(Partition::Data))))
        })
    }

    fn recommended_order(
        &mut self,
        segments: &[(BlockAddress, BlockAddress)],
    ) -> Result<Option<Vec<usize>>, TapeError> {
        self.modelled(|loaded, timed| {
            if !timed.recommends_order() {
                return Ok(None);
            }
            timed::check_segments(loaded.vid(), segments, loaded.end_of(Partition::Data))?;
            let data = |block| loaded.byte_of(TapePosition { partition: Partition::Data, block });
            let bytes: Vec<_> = segments.iter().map(|(begin, end)| (data(*begin), data(*end))).collect();
            Ok(Some(timed.nearest_first(loaded.byte_of(loaded.position), &bytes)))
        })
    }

    fn track(&mut self, block_size: u32) -> Result<Option<Track>, TapeError> {
        self.modelled(|loaded, timed| {
            Ok(Some(timed.track(loaded.cartridge.partition(Partition::Data), block_size)))
        })
    }

    fn motion_report(&mut self) -> Option<MotionReport> {
        let timed = self.bay.timed.as_deref()?;
        Some(self.bay.lock().motion.as_mut()?.report(timed.now_us()))
    }

    fn set_encryption(&mut self, encryption: Option<&TapeEncryption>) -> Result<(), TapeError> {
        #[cfg(feature = "faults")]
        if encryption.is_some() && self.bay.faults.cannot_encrypt(&self.bay.name) {
            return Err(TapeError::EncryptionUnsupported { drive: self.bay.name.clone() });
        }
        self.with(|loaded, _| {
            let cipher = encryption.cloned().map(Cipher::new).transpose();
            loaded.cipher = cipher.map_err(|error| failed(loaded.vid(), "set encryption", error))?;
            Ok(())
        })
    }

    fn block_encryption(&mut self) -> Result<BlockEncryption, TapeError> {
        self.with(|loaded, _| loaded.block_encryption())
    }

    fn alerts(&mut self) -> Result<Vec<TapeAlert>, TapeError> {
        #[cfg(feature = "faults")]
        return Ok(self.bay.faults.alerts(&self.bay.name));
        #[cfg(not(feature = "faults"))]
        Ok(Vec::new())
    }

    fn counters(&mut self) -> Result<DriveCounters, TapeError> {
        self.with(|loaded, bay| {
            let Counted { written, read, writing, reading } = &loaded.counted;
            let product = DriveProduct {
                vendor: "KIST".to_owned(),
                product: "VIRTUAL DRIVE".to_owned(),
                firmware: env!("CARGO_PKG_VERSION").to_owned(),
                serial: bay.name.as_str().to_owned(),
            };
            Ok(DriveCounters {
                written: Some(ByteCount(*written)),
                read: Some(ByteCount(*read)),
                writing: writing.told(),
                reading: reading.told(),
                celsius: None,
                product: Some(product),
            })
        })
    }
}
