//! Where the tape stands, and moving it.
//!
//! The driver knows where the tape is to stand. After anything that leaves doubt it asks the drive and
//! compares, and moves the tape to where it is to stand. If objects were written since the last flush, a
//! drive that stands elsewhere has lost or doubled some: the cartridge is closed for writes.
//!
//! Some drives do not know where they stand: they answer zeros. At each load the drive is asked at the begin
//! of the tape, where the right answer is known; one that answers anything else is not believed, and objects
//! are counted from the begin of the tape instead.

use ::scsi::command::{Destination, PositionForm, SpaceCode, Stream};
use ::scsi::position::{PositionLong, PositionShort};
use ::scsi::{Command, Data, Packed, SenseKey};
use base::{BlockAddress, Partition, TapePosition};

use super::ability::op;
use super::condition::Stop;
use super::{Drive, index_of, partition_of};
use crate::TapeError;

/// Who knows where the tape stands.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum PositionSource {
    /// The drive, by the long form of READ POSITION.
    Long,
    /// The drive, by the short form.
    Short,
    /// Nobody but us: objects are counted.
    Counted,
}

/// What the drive says of its position.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Reported {
    /// The object that comes next, `None` if the drive does not know.
    pub at: Option<TapePosition>,
    /// It is at the begin of its partition.
    pub begin: bool,
    /// It is behind the early warning, or the programmable one.
    pub near_end: bool,
}

/// Times that the tape is moved anew to where it is to stand.
const MOVES_MAX: u32 = 4;
/// Times that it is asked where it stands, with all that follows from the answer.
const QUESTIONS_MAX: u32 = 8;
/// The most objects that one SPACE(6) passes.
const SPACE_MAX: u64 = 0x7f_ffff;
/// The most objects that are counted one by one: what does not know its position is no drive for more.
pub const COUNTED_MAX: u64 = 1_000_000;

/// The begin of the tape.
const BEGIN: TapePosition = TapePosition { partition: Partition::Index, block: BlockAddress(0) };

/// Where a movement in objects ended.
enum Spaced {
    /// All were passed.
    All,
    /// At a file mark, which was passed.
    Mark,
    /// At the end of data.
    End,
    /// Nobody knows where: it must be begun anew.
    Anew,
}

impl Drive {
    /// Asks where the tape stands. `None` if the drive does not know how to tell.
    fn ask_as(&mut self, source: PositionSource) -> Result<Option<Reported>, Stop> {
        let position = |form| Command::from(Stream::ReadPosition { form, allocation_length: 0 });
        let operation = "read position";
        Ok(match source {
            PositionSource::Counted => None,
            PositionSource::Long => {
                let answer =
                    self.quiet_answer(operation, &position(PositionForm::Long), PositionLong::LENGTH)?;
                let said =
                    PositionLong::decode(&answer).map_err(|e| Stop::Not(self.strange(operation, e)))?;
                let partition = partition_of(said.partition).filter(|_| !said.unknown);
                let block = BlockAddress(said.object);
                Some(Reported {
                    at: partition.map(|partition| TapePosition { partition, block }),
                    begin: said.begin,
                    near_end: said.end || said.beyond_early_warning,
                })
            }
            PositionSource::Short => {
                let answer =
                    self.quiet_answer(operation, &position(PositionForm::Short), PositionShort::LENGTH)?;
                let said =
                    PositionShort::decode(&answer).map_err(|e| Stop::Not(self.strange(operation, e)))?;
                let partition =
                    partition_of(u32::from(said.partition)).filter(|_| !said.unknown && !said.overflow);
                let block = BlockAddress(u64::from(said.first));
                Some(Reported {
                    at: partition.map(|partition| TapePosition { partition, block }),
                    begin: said.begin,
                    near_end: said.end || said.beyond_early_warning,
                })
            }
        })
    }

    /// Asks where the tape stands, `None` if nobody can tell. Remembers that the end is near.
    pub fn reported(&mut self) -> Result<Option<Reported>, TapeError> {
        let reported = self.ask_as(self.source).map_err(|stop| self.error_of("read position", stop))?;
        if let (Some(Reported { at: Some(at), near_end: true, .. }), Some(session)) =
            (reported, &mut self.session)
            && session.at.partition == at.partition
        {
            session.warn(at.block);
        }
        Ok(reported)
    }

    /// Finds out, at the begin of the tape, who knows where it stands.
    pub fn find_position_source(&mut self) -> Result<(), TapeError> {
        self.source = PositionSource::Counted;
        for source in [PositionSource::Long, PositionSource::Short] {
            match self.ask_as(source) {
                Ok(Some(Reported { at: Some(BEGIN), begin: true, .. })) => {
                    self.source = source;
                    return Ok(());
                }
                Ok(_) => {}
                Err(Stop::Heard(heard)) if heard.sense.key == SenseKey::IllegalRequest => {}
                Err(stop) => return Err(self.error_of("read position", stop)),
            }
        }
        Ok(())
    }

    /// Where the tape stands. Asked each time: a drive that stands elsewhere than it was sent is found here
    /// at the latest, before a batch is written.
    pub fn position(&mut self) -> Result<TapePosition, TapeError> {
        self.settle()?;
        let session = self.session()?;
        let (at, vid) = (session.at, session.vid);
        if session.is_missing(at.partition) {
            return Ok(at);
        }
        let reported = self.reported()?;
        if self.doubt.is_some() {
            // Looked into, and moved back if that is needed.
            self.settle()?;
            return Ok(self.session()?.at);
        }
        if reported.is_none_or(|reported| reported.at == Some(at)) {
            return Ok(at);
        }
        let session = self.session()?;
        session.sure = false;
        if session.shows_loss() {
            self.poison();
        }
        Err(TapeError::PositionUnknown { vid })
    }

    /// Moves to an object.
    pub fn locate(&mut self, to: TapePosition) -> Result<(), TapeError> {
        self.look()?;
        let session = self.session()?;
        if session.is_missing(to.partition) {
            let end = TapePosition { block: BlockAddress(0), ..to };
            if to.block.0 > 0 {
                return Err(TapeError::BeyondEndOfData { vid: session.vid, to, end });
            }
            session.stands(to);
            return Ok(());
        }
        self.leave()?;
        let begun = self.begin();
        self.move_to(to)?;
        self.measure_locate(&begun, to);
        Ok(())
    }

    /// Moves behind the last object of a partition.
    pub fn end_of_data(&mut self, partition: Partition) -> Result<TapePosition, TapeError> {
        self.look()?;
        let session = self.session()?;
        if session.is_missing(partition) {
            let end = TapePosition { partition, block: BlockAddress(0) };
            session.stands(end);
            return Ok(end);
        }
        self.leave()?;
        let begun = self.begin();
        let end = self.move_to_end(partition)?;
        self.measure_locate(&begun, end);
        Ok(end)
    }

    /// Before the tape is moved away from where something was written: what is in doubt there cannot be
    /// proven any more afterwards.
    fn leave(&mut self) -> Result<(), TapeError> {
        let session = self.session()?;
        if session.shows_loss() && (!session.sure || session.buffer_doubted) { self.settle() } else { Ok(()) }
    }

    /// Makes sure that the tape stands where it is to stand. Afterwards nothing is in doubt, unless the
    /// cartridge is closed for writes.
    pub fn settle(&mut self) -> Result<(), TapeError> {
        for _ in 0..QUESTIONS_MAX {
            self.look()?;
            let session = self.session()?;
            let (at, is_missing) = (session.at, session.is_missing(session.at.partition));
            session.buffer_doubted &= session.unflushed > 0;
            if session.sure && !session.buffer_doubted {
                return Ok(());
            }
            if is_missing {
                session.stands(at);
                return Ok(());
            }
            let reported = self.reported()?;
            if self.doubt.is_some() {
                continue;
            }
            if reported.is_some_and(|reported| reported.at == Some(at)) {
                self.session()?.sure = true;
                self.prove_buffer(at)?;
                continue;
            }
            let session = self.session()?;
            if session.shows_loss() || session.buffer_doubted {
                if self.is_end(at)? {
                    continue;
                }
                self.poison();
            }
            let session = self.session()?;
            if session.poisoned {
                (session.unflushed, session.buffer_doubted) = (0, false);
            }
            match self.move_to(at) {
                // Objects that were written are gone, and the place with them.
                Err(TapeError::BeyondEndOfData { vid, .. }) => {
                    return Err(TapeError::PositionUnknown { vid });
                }
                moved => moved?,
            }
        }
        let vid = self.session()?.vid;
        Err(TapeError::PositionUnknown { vid })
    }

    /// Where a partition ends, if the tape was to stand there: what a drive that has rewound the tape, or
    /// lost its place, still has of what was written.
    pub fn end_found(&mut self) -> Result<Option<TapePosition>, TapeError> {
        let is_counted = self.source == PositionSource::Counted;
        let session = self.session()?;
        if !session.is_at_end() || is_counted {
            return Ok(None);
        }
        let (at, warned, ends) = (session.at, session.warned, session.ends);
        let end = match self.move_to_end(at.partition) {
            Ok(end) => end,
            Err(TapeError::PositionUnknown { .. }) => return Ok(None),
            Err(error) => return Err(error),
        };
        // Whether that is where it is to stand is for the caller to say.
        let session = self.session()?;
        (session.at, session.sure, session.warned, session.ends) = (at, false, warned, ends);
        Ok(Some(end))
    }

    /// Whether the partition ends where the tape is to stand: then nothing of it is gone, and the tape stands
    /// there.
    fn is_end(&mut self, at: TapePosition) -> Result<bool, TapeError> {
        Ok(self.end_found()? == Some(at))
    }

    /// After a reset, has the drive write what it should still have in its buffer, and asks again where the
    /// tape stands: what was lost shows in the one or the other.
    fn prove_buffer(&mut self, at: TapePosition) -> Result<(), TapeError> {
        let session = self.session()?;
        if !session.buffer_doubted {
            return Ok(());
        }
        if !session.is_at_end() {
            // Where it stands says nothing of what was written elsewhere.
            (session.buffer_doubted, session.unflushed) = (false, 0);
            self.poison();
            return Ok(());
        }
        let flush = Command::from(Stream::WriteFilemarks6 { immediate: false, count: 0 });
        let flushed = self.quiet("flush", &flush, Data::None).map_err(|stop| self.error_of("flush", stop));
        let is_there = match flushed {
            Ok(_) => self.reported()?.is_some_and(|reported| reported.at == Some(at)),
            Err(_) => false,
        };
        // Reset once more meanwhile: the proof begins anew.
        if flushed.is_ok() && self.doubt.is_some() {
            return Ok(());
        }
        if !is_there {
            self.poison();
        }
        let session = self.session()?;
        (session.buffer_doubted, session.unflushed) = (false, 0);
        flushed.map(|_| ())
    }

    /// Moves the tape to an object and checks that it stands there. Then that is where it is to stand.
    pub fn move_to(&mut self, to: TapePosition) -> Result<(), TapeError> {
        let mut stands = None;
        for _ in 0..MOVES_MAX {
            self.session()?.sure = false;
            match self.source {
                PositionSource::Counted => self.count_to(to)?,
                PositionSource::Long | PositionSource::Short => self.locate_once(to)?,
            }
            let reported = self.reported()?;
            if self.doubt.is_some() {
                continue;
            }
            stands = reported.and_then(|reported| reported.at);
            if reported.is_none() || stands == Some(to) {
                let session = self.session()?;
                session.stands(to);
                if reported.is_some_and(|reported| reported.near_end) {
                    session.warn(to.block);
                }
                return Ok(());
            }
        }
        // What was written before may still be right, but nothing shows that it is.
        let session = self.session()?;
        let (vid, unflushed) = (session.vid, session.unflushed);
        if unflushed > 0 || stands.is_none() {
            self.poison();
        }
        Err(TapeError::PositionUnknown { vid })
    }

    /// LOCATE, or REWIND and SPACE for drives without.
    fn locate_once(&mut self, to: TapePosition) -> Result<(), TapeError> {
        let change_partition = self.session()?.partitions > 1;
        let partition = to.partition.scsi_number();
        if self.abilities.may(op::LOCATE_16, 0) {
            let command = Command::from(Stream::Locate16 {
                destination: Destination::Object,
                change_partition,
                immediate: false,
                explicit: false,
                partition,
                object: to.block.0,
            });
            match self.anywhere("locate", &command, Data::None) {
                Err(Stop::Heard(heard)) if heard.sense.is_unknown_command() => {
                    self.abilities.refused(op::LOCATE_16, 0);
                }
                other => return self.located(to, other),
            }
        }
        if let (true, Ok(object)) = (self.abilities.may(op::LOCATE_10, 0), u32::try_from(to.block.0)) {
            let command = Command::from(Stream::Locate10 {
                vendor_address: false,
                change_partition,
                immediate: false,
                object,
                partition,
            });
            match self.anywhere("locate", &command, Data::None) {
                Err(Stop::Heard(heard)) if heard.sense.is_unknown_command() => {
                    self.abilities.refused(op::LOCATE_10, 0);
                }
                other => return self.located(to, other),
            }
        }
        self.count_to(to)
    }

    fn located<T>(&mut self, to: TapePosition, ended: Result<T, Stop>) -> Result<(), TapeError> {
        match ended {
            Ok(_) => Ok(()),
            // The tape stands at the end of data now.
            Err(Stop::Heard(heard))
                if heard.sense.key == SenseKey::BlankCheck || heard.sense.is_end_of_data() =>
            {
                let end = self.reported()?.and_then(|reported| reported.at);
                let vid = self.session()?.vid;
                match end.filter(|end| end.partition == to.partition && end.block < to.block) {
                    Some(end) => Err(TapeError::BeyondEndOfData { vid, to, end }),
                    None => Err(TapeError::PositionUnknown { vid }),
                }
            }
            Err(stop) => Err(self.error_of("locate", stop)),
        }
    }

    /// REWIND: to the begin of the partition in which the tape stands.
    pub fn rewind_once(&mut self) -> Result<(), TapeError> {
        let command = Command::from(Stream::Rewind { immediate: false });
        self.anywhere("rewind", &command, Data::None)
            .map(|_| ())
            .map_err(|stop| self.error_of("rewind", stop))
    }

    /// SPACE over objects. What it says of how far it came is not believed: only that it came all the way, or
    /// with one object, where it stopped.
    fn space(&mut self, count: u64) -> Result<Spaced, TapeError> {
        assert!((1..=SPACE_MAX).contains(&count), "SPACE over {count} objects");
        let count = i64::try_from(count).unwrap_or(1);
        let command = Command::from(Stream::Space6 { code: SpaceCode::Blocks, count });
        match self.once("space", &command, Data::None) {
            Ok(_) => Ok(Spaced::All),
            Err(Stop::Heard(heard))
                if heard.sense.is_end_of_data() || heard.sense.key == SenseKey::BlankCheck =>
            {
                Ok(Spaced::End)
            }
            Err(Stop::Heard(heard)) if heard.sense.is_filemark() => Ok(Spaced::Mark),
            Err(Stop::Again | Stop::Lost(_)) => Ok(Spaced::Anew),
            Err(stop) => Err(self.error_of("space", stop)),
        }
    }

    /// Over one object, by reading one byte of it: at the end of data tgt's SPACE does not say whether it has
    /// passed the last object.
    fn step(&mut self) -> Result<Spaced, TapeError> {
        let command = Command::from(Stream::Read6 { suppress: false, fixed: false, length: 1 });
        match self.once("read", &command, Data::In(&mut [0])) {
            Ok(_) => Ok(Spaced::All),
            Err(Stop::Again | Stop::Lost(_)) => Ok(Spaced::Anew),
            Err(Stop::Heard(heard)) => match &heard.sense {
                sense if sense.is_end_of_data() => Ok(Spaced::End),
                sense if sense.is_filemark() => Ok(Spaced::Mark),
                sense if sense.incorrect_length => Ok(Spaced::All),
                // A damaged record is passed too.
                sense if sense.key == SenseKey::MediumError => Ok(Spaced::All),
                sense => Err(self.typed("space", sense)),
            },
            Err(stop) => Err(self.error_of("space", stop)),
        }
    }

    /// Counts objects from the begin of the tape.
    fn count_to(&mut self, to: TapePosition) -> Result<(), TapeError> {
        if to.partition != Partition::Index {
            // REWIND stays in a partition.
            return Err(self.unfit("locate"));
        }
        self.rewind_once()?;
        // At once, if there are no file marks in between, or the drive passes them like records.
        let (mut passed, mut spaced) = (0, Spaced::All);
        while passed < to.block.0 && matches!(spaced, Spaced::All) {
            let count = (to.block.0 - passed).min(SPACE_MAX);
            spaced = self.space(count)?;
            passed += count;
        }
        if matches!(spaced, Spaced::All) {
            return Ok(());
        }
        let passed = self.count_up_to(to.block.0)?;
        if passed == to.block.0 {
            return Ok(());
        }
        let end = TapePosition { partition: to.partition, block: BlockAddress(passed) };
        Err(TapeError::BeyondEndOfData { vid: self.session()?.vid, to, end })
    }

    /// Counts objects one by one from the begin of the tape, to `most` or the end of data.
    fn count_up_to(&mut self, most: u64) -> Result<u64, TapeError> {
        let vid = self.session()?.vid;
        'anew: for _ in 0..MOVES_MAX {
            self.rewind_once()?;
            for passed in 0..most.min(COUNTED_MAX) {
                match self.step()? {
                    Spaced::All | Spaced::Mark => {}
                    Spaced::End => return Ok(passed),
                    Spaced::Anew => continue 'anew,
                }
            }
            return Ok(most.min(COUNTED_MAX));
        }
        Err(TapeError::PositionUnknown { vid })
    }

    /// Moves to the end of data of a partition and says where that is.
    pub fn move_to_end(&mut self, partition: Partition) -> Result<TapePosition, TapeError> {
        if self.source == PositionSource::Counted {
            self.session()?.sure = false;
            let block = BlockAddress(self.count_up_to(COUNTED_MAX)?);
            let end = TapePosition { partition, block };
            let session = self.session()?;
            session.stands(end);
            session.ends_here();
            return Ok(end);
        }
        for _ in 0..MOVES_MAX {
            self.look()?;
            self.session()?.sure = false;
            if !self.locate_end(partition)? {
                self.locate_once(TapePosition { partition, block: BlockAddress(0) })?;
                let command = Command::from(Stream::Space6 { code: SpaceCode::EndOfData, count: 0 });
                match self.once("space", &command, Data::None) {
                    Ok(_) => {}
                    Err(Stop::Again) => continue,
                    Err(Stop::Heard(heard)) if heard.sense.is_end_of_data() => {}
                    Err(stop) => return Err(self.error_of("space", stop)),
                }
            }
            let reported = self.reported()?;
            if self.doubt.is_some() {
                continue;
            }
            let end = reported.and_then(|reported| reported.at);
            if let Some(end) = end.filter(|end| end.partition == partition) {
                let session = self.session()?;
                session.stands(end);
                session.ends_here();
                if reported.is_some_and(|reported| reported.near_end) {
                    session.warn(end.block);
                }
                return Ok(end);
            }
        }
        Err(TapeError::PositionUnknown { vid: self.session()?.vid })
    }

    /// LOCATE to the end of data at once, which does not wind through the begin of the partition. `false` if
    /// the drive does not have it.
    fn locate_end(&mut self, partition: Partition) -> Result<bool, TapeError> {
        /// Beside the operation code, as if it were a service action: the destination.
        const END: u16 = 0x100;
        if !self.abilities.may(op::LOCATE_16, 0) || !self.abilities.may(op::LOCATE_16, END) {
            return Ok(false);
        }
        let command = Command::from(Stream::Locate16 {
            destination: Destination::EndOfData,
            change_partition: self.session()?.partitions > 1,
            immediate: false,
            explicit: false,
            partition: partition.scsi_number(),
            object: 0,
        });
        match self.anywhere("locate", &command, Data::None) {
            Ok(_) => Ok(true),
            Err(Stop::Heard(heard)) if heard.sense.is_end_of_data() => Ok(true),
            Err(Stop::Heard(heard)) if heard.sense.key == SenseKey::IllegalRequest => {
                self.abilities.refused(op::LOCATE_16, END);
                Ok(false)
            }
            Err(stop) => Err(self.error_of("locate", stop)),
        }
    }

    /// To the begin of the index partition, wherever the tape stands.
    pub fn move_to_begin(&mut self) -> Result<(), TapeError> {
        if self.session()?.partitions > 1 && self.abilities.may(op::LOCATE_16, 0) {
            return self.locate_once(BEGIN);
        }
        self.rewind_once()
    }

    /// Forgets the warning of a partition from which something was cut off before it.
    pub fn forget_warning(&mut self, at: TapePosition) {
        if let Some(session) = &mut self.session
            && let Some(warned) = session.warned.get_mut(index_of(at.partition))
        {
            *warned = warned.filter(|from| *from <= at.block);
        }
    }
}
