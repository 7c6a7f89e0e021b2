//! Records and file marks.

use ::scsi::command::Stream;
use ::scsi::lbp::ProtectionError;
use ::scsi::{Command, Data, Sense as SenseData, SenseKey};
use base::TapePosition;

use super::super::unit::{Done, Heard};
use super::condition::Stop;
use super::encryption::is_key_changed;
use super::reservation::Hold;
use super::{BlockProtection, Doubt, Drive};
use crate::{DeviceError, FILE_MARKS_MAX, ReadBlock, Sense, TapeError, WriteResult};

/// Times that a record is read or written anew after something came between.
const TRIES_MAX: u32 = 4;
/// The longest transfer that READ(6) and WRITE(6) can say.
pub const LENGTH_MAX: usize = 0xff_ffff;

/// What became of a write whose end is not known.
enum Outcome {
    /// Nothing was written.
    Nothing,
    /// All was written.
    All,
}

/// What a READ found.
enum Found {
    /// A record of so many bytes, its checksum included.
    Record(usize),
    Mark,
    End,
    /// A record of so many bytes, its checksum included, which is longer than the buffer.
    Longer(usize),
    /// A record of so many bytes, its checksum included, of which not all came over.
    Part(usize),
    /// What came contradicts itself, or its checksum.
    Wrong(DeviceError),
}

impl Drive {
    /// Bytes that each block has beside its data.
    fn overhead(&self) -> usize {
        self.protection.map_or(0, |_| BlockProtection::LENGTH)
    }

    /// Reads the object under the head.
    pub fn read(&mut self, buffer: &mut [u8]) -> Result<ReadBlock, TapeError> {
        if buffer.is_empty() {
            return self.read_nothing();
        }
        let (mut last, mut exactly) = (None, None);
        for _ in 0..TRIES_MAX {
            self.settle()?;
            let overhead = self.overhead();
            let session = self.session()?;
            let at = session.at;
            session.writing = false;
            if session.is_missing(at.partition) {
                return Ok(ReadBlock::EndOfData);
            }
            let most = (buffer.len() + overhead).min(self.unit.transfer_max()).min(LENGTH_MAX);
            let want = exactly.take().unwrap_or(most);
            match self.read_once(at, buffer, want)? {
                Some(Found::Record(length)) => {
                    self.session()?.passed(1);
                    return Ok(ReadBlock::Data(length - overhead));
                }
                Some(Found::Mark) => {
                    self.session()?.passed(1);
                    return Ok(ReadBlock::FileMark);
                }
                Some(Found::End) => {
                    self.session()?.ends_here();
                    return Ok(ReadBlock::EndOfData);
                }
                Some(Found::Longer(length)) => {
                    self.session()?.sure = false;
                    let record = length.saturating_sub(overhead);
                    if buffer.len() + overhead > most {
                        // The buffer would do: what is in the way is the adapter.
                        let source = std::io::Error::from(std::io::ErrorKind::FileTooLarge);
                        return Err(TapeError::Host { operation: "read", source: source.into() });
                    }
                    return Err(TapeError::BufferTooSmall { record, buffer: buffer.len() });
                }
                Some(Found::Part(length)) => {
                    self.session()?.sure = false;
                    exactly = Some(length);
                    let source = short_of(length, want);
                    last = Some(TapeError::Path { drive: self.name.clone(), operation: "read", source });
                }
                Some(Found::Wrong(source)) => {
                    self.session()?.sure = false;
                    last = Some(TapeError::Path { drive: self.name.clone(), operation: "read", source });
                }
                None => {}
            }
        }
        Err(last.unwrap_or_else(|| self.error_of("read", Stop::Again)))
    }

    /// A READ of no bytes would not look at the tape.
    fn read_nothing(&mut self) -> Result<ReadBlock, TapeError> {
        match self.read(&mut [0]) {
            Ok(ReadBlock::Data(record)) => {
                let session = self.session()?;
                session.at.block.0 -= 1;
                session.sure = false;
                Err(TapeError::BufferTooSmall { record, buffer: 0 })
            }
            Err(TapeError::BufferTooSmall { record, .. }) => {
                Err(TapeError::BufferTooSmall { record, buffer: 0 })
            }
            other => other,
        }
    }

    /// One READ. `None` if it must be done again.
    fn read_once(
        &mut self,
        at: TapePosition,
        buffer: &mut [u8],
        want: usize,
    ) -> Result<Option<Found>, TapeError> {
        let length = u32::try_from(want).unwrap_or(u32::MAX);
        let command = Command::from(Stream::Read6 { suppress: false, fixed: false, length });
        let Some(protection) = self.protection else {
            let into = buffer.get_mut(..want).unwrap_or_default();
            let ended = self.once("read", &command, Data::In(into));
            return self.read_ended(at, want, ended);
        };
        // A block of the buffer's length leaves its checksum behind the buffer; that of a shorter one comes
        // into the buffer, behind the block.
        let mut tail = [0; BlockProtection::LENGTH];
        let in_buffer = want.min(buffer.len());
        let front = buffer.get_mut(..in_buffer).unwrap_or_default();
        let rest = tail.get_mut(..want - in_buffer).unwrap_or_default();
        let ended = self.once("read", &command, Data::InParts([front, rest]));
        let found = self.read_ended(at, want, ended);
        let Ok(Some(Found::Record(length))) = found else { return found };
        match verified(protection, [buffer, &tail], length) {
            Ok(()) => found,
            // The drive found the block whole when it sent it: it was damaged on the way.
            Err(error) => {
                let source = std::io::Error::new(std::io::ErrorKind::InvalidData, error);
                Ok(Some(Found::Wrong(source.into())))
            }
        }
    }

    fn read_ended(
        &mut self,
        at: TapePosition,
        want: usize,
        ended: Result<Done, Stop>,
    ) -> Result<Option<Found>, TapeError> {
        match ended {
            // GOOD is said of a record of just this length.
            Ok(done) if done.transferred == want => Ok(Some(Found::Record(want))),
            Ok(done) => Ok(Some(Found::Wrong(short_of(want, done.transferred)))),
            Err(Stop::Again) => Ok(None),
            // The tape may have moved: it is moved back before the next try.
            Err(Stop::Lost(error)) => match self.look() {
                Ok(()) => Ok(None),
                Err(_) => Err(error),
            },
            Err(Stop::Not(error)) => Err(error),
            Err(Stop::Heard(heard)) => self.read_heard(at, want, &heard),
        }
    }

    fn read_heard(
        &mut self,
        at: TapePosition,
        want: usize,
        heard: &Heard,
    ) -> Result<Option<Found>, TapeError> {
        let sense = &heard.sense;
        let is_fault = !matches!(
            sense.key,
            SenseKey::NoSense | SenseKey::RecoveredError | SenseKey::BlankCheck | SenseKey::Completed
        );
        if !is_fault && sense.is_filemark() {
            return Ok(Some(Found::Mark));
        }
        if !is_fault && sense.is_end_of_data() {
            return Ok(Some(Found::End));
        }
        if !is_fault && sense.incorrect_length {
            return Ok(Some(length_of(sense, want, heard.transferred)));
        }
        let key_error = self.key_error(sense);
        let session = self.session()?;
        session.sure = false;
        let vid = session.vid;
        if let Some(error) = key_error {
            return Err(error);
        }
        // A record whose checksum is wrong already in the drive was damaged on the medium, or before it got
        // there. 8/14/03: the end of data is missing.
        if sense.is_block_protection_error()
            || sense.key == SenseKey::MediumError
            || sense.key == SenseKey::BlankCheck
        {
            return Err(TapeError::Unreadable { vid, at });
        }
        if sense.key == SenseKey::AbortedCommand {
            return Ok(Some(Found::Wrong(DeviceError::Sense(sense.into()))));
        }
        Err(self.typed("read", sense))
    }

    /// Whether anything may be written.
    pub fn check_writable(&mut self) -> Result<(), TapeError> {
        let session = self.session()?;
        let vid = session.vid;
        if session.medium.is_worm_by_itself {
            return Err(TapeError::Worm { vid });
        }
        if session.write_protected {
            return Err(TapeError::WriteProtected { vid });
        }
        if session.poisoned {
            return Err(TapeError::Poisoned { vid });
        }
        Ok(())
    }

    /// Makes sure that the next write goes where it is to go.
    fn settle_to_write(&mut self) -> Result<TapePosition, TapeError> {
        self.check_writable()?;
        let settled = self.settle();
        // What was found may have closed it.
        self.check_writable()?;
        settled?;
        let is_ours = self.options.trusts_reservation && self.hold != Hold::None;
        let session = self.session()?;
        let at = session.at;
        if session.is_missing(at.partition) {
            return Err(TapeError::EndOfMedium { vid: session.vid, at });
        }
        // Nothing tells that another host has moved the tape. While it is reserved none should.
        if is_ours && session.writing {
            return Ok(at);
        }
        for _ in 0..TRIES_MAX {
            let session = self.session()?;
            if session.encryption.is_some() && !session.writing {
                self.assure_encryption()?;
            }
            let reported = self.reported()?;
            if self.doubt.is_none() && reported.is_none_or(|reported| reported.at == Some(at)) {
                self.session()?.writing = true;
                return Ok(at);
            }
            self.session()?.sure = false;
            self.settle()?;
            self.check_writable()?;
        }
        Err(TapeError::PositionUnknown { vid: self.session()?.vid })
    }

    /// Writes a record.
    pub fn write(&mut self, block: &[u8]) -> Result<WriteResult, TapeError> {
        let (length, max) = (block.len(), self.block_max);
        if length == 0 || length > max {
            self.session()?;
            return Err(TapeError::BlockLength { length, max });
        }
        if self.session()?.is_unsettled {
            return Err(TapeError::EncryptionUnsupported { drive: self.name.clone() });
        }
        let mut last = None;
        for _ in 0..TRIES_MAX {
            let at = self.settle_to_write()?;
            let ended = self.write_once(block);
            if let (Ok(done), None) = (&ended, self.protection)
                && done.transferred != length
            {
                // The drive is content with less than was sent, and no checksum tells what it has.
                self.poison();
                let source = short_of(length, done.transferred);
                return Err(TapeError::Path { drive: self.name.clone(), operation: "write", source });
            }
            if let Some(result) = self.wrote("write", at, 1, ended, &mut last)? {
                return Ok(result);
            }
        }
        Err(last.unwrap_or_else(|| self.error_of("write", Stop::Again)))
    }

    fn write_once(&mut self, block: &[u8]) -> Result<Done, Stop> {
        let total = block.len() + self.overhead();
        let length = u32::try_from(total).unwrap_or(u32::MAX);
        let command = Command::from(Stream::Write6 { fixed: false, length });
        let Some(protection) = self.protection else {
            return self.once("write", &command, Data::Out(block));
        };
        let checksum = protection.checksum(block);
        self.once("write", &command, Data::OutParts([block, &checksum]))
    }

    /// Writes file marks, and returns when all is on the medium.
    pub fn mark(&mut self, count: u32) -> Result<WriteResult, TapeError> {
        if count > FILE_MARKS_MAX {
            self.session()?;
            return Err(TapeError::FileMarkCount { count, max: FILE_MARKS_MAX });
        }
        let command = Command::from(Stream::WriteFilemarks6 { immediate: false, count });
        let mut last = None;
        for _ in 0..TRIES_MAX {
            let at = match self.settle_to_write() {
                // There is nothing to flush in a partition that is not there.
                Err(TapeError::EndOfMedium { .. }) if count == 0 => return Ok(WriteResult::default()),
                at => at?,
            };
            let ended = self.once("flush", &command, Data::None);
            let was_lost = matches!(ended, Err(Stop::Lost(_)));
            if let Some(result) = self.wrote("flush", at, u64::from(count), ended, &mut last)? {
                if was_lost {
                    // The marks are there; whether they and what is before them are on the medium is not
                    // told.
                    self.mark(0)?;
                }
                self.flushed()?;
                return Ok(result);
            }
        }
        Err(last.unwrap_or_else(|| self.error_of("flush", Stop::Again)))
    }

    /// After a flush: compares where the tape stands with what was written. Nothing was lost or doubled then.
    fn flushed(&mut self) -> Result<(), TapeError> {
        let at = self.session()?.at;
        let reported = match self.reported() {
            Ok(reported) => reported,
            Err(error) => {
                self.poison();
                return Err(error);
            }
        };
        if self.doubt.is_some() {
            // Looked into before the next command. What was flushed is counted as not flushed until then.
            return self.settle().and_then(|()| self.check_writable());
        }
        if reported.is_some_and(|reported| reported.at != Some(at)) {
            self.poison();
            return Err(TapeError::PositionUnknown { vid: self.session()?.vid });
        }
        let session = self.session()?;
        (session.unflushed, session.sure) = (0, true);
        // What is encrypted is looked at before each batch, whether anything was heard or not.
        session.writing &= session.encryption.is_none();
        Ok(())
    }

    /// What a write of `objects` from `at` on came to. `None`: nothing was written, it is tried again.
    fn wrote(
        &mut self,
        operation: &'static str,
        at: TapePosition,
        objects: u64,
        ended: Result<Done, Stop>,
        last: &mut Option<TapeError>,
    ) -> Result<Option<WriteResult>, TapeError> {
        let (error, is_end) = match ended {
            Ok(done) => {
                self.forget_warning(at);
                self.advance(objects);
                return self.write_result(at, done.early_warning).map(Some);
            }
            Err(Stop::Again) => return Ok(None),
            Err(Stop::Not(error)) => return Err(error),
            Err(Stop::Lost(error)) => (error, false),
            Err(Stop::Heard(heard)) if is_key_changed(&heard.sense) => {
                self.doubt(Doubt::Settings);
                *last = Some(self.typed(operation, &heard.sense));
                return Ok(None);
            }
            Err(Stop::Heard(heard)) => {
                let sense = heard.sense;
                let error = self.write_failed(operation, at, &sense);
                let session = self.session()?;
                // A flush that runs into the end has not written what was before it.
                let is_end = sense.is_end_of_partition() && (operation == "write" || session.unflushed == 0);
                if !is_clean(&sense) && !is_end {
                    self.poison();
                    return Err(error);
                }
                session.sure = false;
                session.buffer_doubted |= is_end;
                (error, is_end)
            }
        };
        // What was done is told by where the tape stands, and by nothing else.
        match self.outcome(at, objects) {
            Ok(Outcome::Nothing) if is_end || !is_retried(&error) => {
                self.session()?.stands(at);
                Err(error)
            }
            Ok(Outcome::Nothing) => {
                self.session()?.stands(at);
                *last = Some(error);
                Ok(None)
            }
            Ok(Outcome::All) => {
                self.forget_warning(at);
                self.advance(objects);
                self.session()?.sure = true;
                self.write_result(at, is_end).map(Some)
            }
            Err(()) => {
                self.poison();
                Err(error)
            }
        }
    }

    fn advance(&mut self, objects: u64) {
        if let Some(session) = &mut self.session {
            session.passed(objects);
            session.unflushed += objects;
            if objects > 0 {
                session.ends_here();
            }
        }
    }

    fn write_result(&mut self, at: TapePosition, early_warning: bool) -> Result<WriteResult, TapeError> {
        let session = self.session()?;
        if early_warning {
            session.warn(at.block);
        }
        Ok(WriteResult { early_warning: session.is_near_end() })
    }

    /// Finds out what became of a write whose end is not known. An error if that cannot be proven.
    fn outcome(&mut self, at: TapePosition, objects: u64) -> Result<Outcome, ()> {
        for _ in 0..TRIES_MAX {
            self.look().map_err(|_| ())?;
            let reported = self.reported().map_err(|_| ())?;
            if self.doubt.is_some() {
                continue;
            }
            let stands = reported.and_then(|reported| reported.at).ok_or(())?;
            let behind = TapePosition { block: base::BlockAddress(at.block.0 + objects), ..at };
            // A drive that has rewound the tape: if that was at the end, the end tells.
            let stands = match stands == at || stands == behind {
                true => stands,
                false => self.end_found().map_err(|_| ())?.ok_or(())?,
            };
            if self.doubt.is_some() {
                continue;
            }
            // A flush leaves the tape where it was, done or not: it is done again.
            let outcome = match () {
                () if stands == at => Outcome::Nothing,
                () if stands == behind => Outcome::All,
                () => return Err(()),
            };
            self.seen.answers_proven += 1;
            return Ok(outcome);
        }
        Err(())
    }

    fn write_failed(&mut self, operation: &'static str, at: TapePosition, sense: &SenseData) -> TapeError {
        let Some(session) = &mut self.session else { return self.typed(operation, sense) };
        let vid = session.vid;
        if sense.is_write_protected() {
            session.write_protected = true;
            return TapeError::WriteProtected { vid };
        }
        if sense.is_end_of_partition() && (operation == "write" || session.unflushed == 0) {
            return TapeError::EndOfMedium { vid, at };
        }
        if sense.is_encryption() {
            return TapeError::EncryptionUnsupported { drive: self.name.clone() };
        }
        if sense.is_block_protection_error() {
            // The drive has the block otherwise than it was sent.
            let source = DeviceError::Sense(Sense::from(sense));
            return TapeError::Path { drive: self.name.clone(), operation, source };
        }
        self.typed(operation, sense)
    }
}

/// Whether sense data of a write says nothing against what was written before.
fn is_clean(sense: &SenseData) -> bool {
    sense.is_write_protected()
        || sense.is_block_protection_error()
        || sense.is_encryption()
        || matches!(sense.key, SenseKey::NotReady | SenseKey::IllegalRequest | SenseKey::AbortedCommand)
}

/// Whether a write is tried again that came to nothing: if the way to the drive was at fault.
fn is_retried(error: &TapeError) -> bool {
    matches!(error, TapeError::Path { .. })
}

/// A transfer of another length than the drive says.
fn short_of(want: usize, transferred: usize) -> DeviceError {
    let what = format!("{transferred} bytes came over of {want}");
    std::io::Error::new(std::io::ErrorKind::UnexpectedEof, what).into()
}

/// Whether the first `length` bytes of both parts are a block and its checksum. The block is in the first.
fn verified(protection: BlockProtection, parts: [&[u8]; 2], length: usize) -> Result<(), ProtectionError> {
    let data = length.checked_sub(BlockProtection::LENGTH).filter(|data| *data > 0);
    let data = data.ok_or(ProtectionError::Short(length))?;
    let checksum = Data::OutParts(parts).out_range(data..length).ok_or(ProtectionError::Short(length))?;
    let mut stored = [0; BlockProtection::LENGTH];
    stored.iter_mut().zip(checksum.into_iter().flatten()).for_each(|(to, from)| *to = *from);
    let [buffer, _] = parts;
    protection.verify_apart(buffer.get(..data).ok_or(ProtectionError::Short(length))?, stored)
}

/// The length of a record that is not that of the buffer: by the residual of the sense data. What came over
/// may be more than the record, if the way counts wrongly, but not less.
fn length_of(sense: &SenseData, want: usize, transferred: usize) -> Found {
    let Some(residual) = sense.residual() else {
        // Nothing but what came over. A record that is longer comes with all that the buffer takes.
        return match transferred < want {
            true if transferred > 0 => Found::Record(transferred),
            true => Found::Wrong(short_of(want, transferred)),
            false => Found::Longer(want + 1),
        };
    };
    let length = i64::try_from(want).ok().and_then(|want| want.checked_sub(residual));
    let length = length.and_then(|length| usize::try_from(length).ok()).unwrap_or(0);
    match length {
        0 => Found::Wrong(short_of(want, transferred)),
        length if length > want => Found::Longer(length),
        length if length <= transferred => Found::Record(length),
        // tgt takes what is left over for what came: asked for its own length the record comes whole.
        length => Found::Part(length),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(residual: Option<i64>, want: usize, transferred: usize) -> Found {
        let sense = SenseData { incorrect_length: true, ..SenseData::default() };
        let sense = residual.map_or(sense.clone(), |residual| sense.with_residual(residual));
        length_of(&sense, want, transferred)
    }

    fn record(residual: Option<i64>, want: usize, transferred: usize) -> Option<usize> {
        match found(residual, want, transferred) {
            Found::Record(length) => Some(length),
            Found::Longer(length) => {
                assert!(length > want);
                None
            }
            _ => Some(0),
        }
    }

    #[test]
    fn the_length_of_a_record_is_what_the_sense_data_say_if_it_came() {
        assert_eq!(record(Some(30), 100, 70), Some(70));
        assert_eq!(record(Some(30), 100, 100), Some(70), "the way does not count");
        assert_eq!(record(None, 100, 70), Some(70));
        assert_eq!(record(Some(-5), 100, 100), None, "longer than the buffer");
        assert_eq!(record(None, 100, 100), None);
        // Contradictions, and records without bytes.
        assert!(matches!(found(Some(30), 100, 60), Found::Part(70)));
        assert_eq!(record(Some(100), 100, 0), Some(0));
        assert_eq!(record(None, 100, 0), Some(0));
        assert_eq!(record(Some(i64::from(i32::MAX)), 100, 100), Some(0));
    }
}
