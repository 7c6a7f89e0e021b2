//! Commands that move the tape, and where it stands (SSC-5, clauses 6 and 7).

use base::{BlockAddress, Partition, TapePosition};
use library::{LibraryError, TapeError};
use scsi::command::{Destination, PositionForm, SpaceCode};
use scsi::position::{PositionExtended, PositionLong, PositionShort};
use scsi::{Packed, Sense, SenseKey};

use super::medium::Object;
use super::{Run, Tape, end_of_data, filemark};
use crate::answer::{Outcome, Refusal, give};
use crate::gate::MEDIUM_CHANGED;

/// Objects that READ POSITION looks at to count filemarks; where more are not known, the number of the file
/// is not either.
const COUNTED_MAX: u64 = 65_536;

/// Where the initiator wants to go: the number of a partition and the byte of the command that holds it.
type Wanted = Option<(u8, u16)>;

impl Tape {
    pub fn rewind(&mut self) -> Outcome {
        self.medium()?;
        self.drive.rewind()?;
        Ok(0)
    }

    fn wanted(&mut self, to: Wanted) -> Result<Partition, Refusal> {
        match to {
            None => Ok(self.position()?.partition),
            Some((number, byte)) => {
                self.medium()?.partition(u64::from(number)).ok_or_else(|| Refusal::field(byte))
            }
        }
    }

    /// LOCATE to a block. Behind the end of data the tape stops there.
    pub fn locate_object(&mut self, to: Wanted, object: u64) -> Outcome {
        let partition = self.wanted(to)?;
        let to = TapePosition { partition, block: BlockAddress(object) };
        match self.drive.locate(to) {
            Err(TapeError::BeyondEndOfData { .. }) => {
                self.drive.space_to_end_of_data(partition)?;
                Err(end_of_data())
            }
            located => Ok(located.map(|()| 0)?),
        }
    }

    pub fn locate(&mut self, run: &Run<'_>, kind: Destination, to: Wanted, object: u64) -> Outcome {
        match kind {
            Destination::Object => self.locate_object(to, object),
            Destination::EndOfData => {
                let partition = self.wanted(to)?;
                let end = self.drive.space_to_end_of_data(partition)?;
                self.look_for_zone(partition, end.block.0)?;
                Ok(0)
            }
            Destination::File => {
                let partition = self.wanted(to)?;
                self.locate_file(run, partition, object)
            }
        }
    }

    /// To the block behind the filemark with this number; 0 is the begin of the partition.
    fn locate_file(&mut self, run: &Run<'_>, partition: Partition, file: u64) -> Outcome {
        let mut to = TapePosition { partition, block: BlockAddress(0) };
        for _ in 0..file {
            let Some(mark) = self.next_filemark(run, to)? else {
                self.drive.space_to_end_of_data(partition)?;
                return Err(end_of_data());
            };
            to.block = BlockAddress(mark + 1);
        }
        self.drive.locate(to)?;
        Ok(0)
    }

    /// The first filemark from here on.
    fn next_filemark(&mut self, run: &Run<'_>, from: TapePosition) -> Result<Option<u64>, Refusal> {
        let mut at = from;
        let marks = self.medium()?.marks(from.partition);
        if let Some(before) = marks.before(from.block.0) {
            if let Some(mark) = marks.nth(before) {
                return Ok(Some(mark));
            }
            at.block = BlockAddress(marks.known());
        }
        loop {
            run.goes_on()?;
            match self.object(at)? {
                Object::Filemark => return Ok(Some(at.block.0)),
                Object::EndOfData => return Ok(None),
                Object::Record => at.block.0 += 1,
            }
        }
    }

    /// The last filemark before here.
    fn last_filemark(&mut self, run: &Run<'_>, before: TapePosition) -> Result<Option<u64>, Refusal> {
        let mut at = before;
        while let Some(block) = at.block.0.checked_sub(1) {
            let marks = self.medium()?.marks(before.partition);
            if let Some(count) = marks.before(at.block.0) {
                return Ok(count.checked_sub(1).and_then(|number| marks.nth(number)));
            }
            run.goes_on()?;
            at.block = BlockAddress(block);
            if self.object(at)? == Object::Filemark {
                return Ok(Some(block));
            }
        }
        Ok(None)
    }

    /// SPACE. Where it cannot go on, the tape stands where SSC-5 says: behind a filemark on the way forward,
    /// before it on the way back.
    pub fn space(&mut self, run: &Run<'_>, code: SpaceCode, count: i64) -> Outcome {
        let from = self.position()?;
        let (to, end) = match code {
            SpaceCode::EndOfData => {
                let end = self.drive.space_to_end_of_data(from.partition)?;
                self.look_for_zone(from.partition, end.block.0)?;
                return Ok(0);
            }
            SpaceCode::SequentialFilemarks => return Err(Refusal::bit(1, 3)),
            SpaceCode::Blocks => self.space_blocks(run, from, count),
            SpaceCode::Filemarks => self.space_filemarks(run, from, count),
        }
        .map_err(|refusal| self.back_to(from, refusal))?;
        let to = TapePosition { block: BlockAddress(to), ..from };
        self.drive.locate(to)?;
        end.map_or(Ok(0), Err)
    }

    /// After an error the tape stands where it stood.
    fn back_to(&mut self, from: TapePosition, refusal: Refusal) -> Refusal {
        // Why it cannot is less than why it did not go.
        let _ = self.drive.locate(from);
        refusal
    }

    fn space_blocks(
        &mut self,
        run: &Run<'_>,
        from: TapePosition,
        count: i64,
    ) -> Result<(u64, Option<Refusal>), Refusal> {
        let mut block = from.block.0;
        for done in 0..count.unsigned_abs() {
            run.goes_on()?;
            let residual = left(count, done);
            let looked_at = if count > 0 { Some(block) } else { block.checked_sub(1) };
            let Some(at) = looked_at else { return Ok((0, Some(begin_of_partition(residual)))) };
            let behind = if count > 0 { at + 1 } else { at };
            match self.object(TapePosition { block: BlockAddress(at), ..from })? {
                Object::Record => block = behind,
                Object::Filemark => return Ok((behind, Some(filemark().with_residual(residual)))),
                Object::EndOfData => return Ok((at, Some(end_of_data().with_residual(residual)))),
            }
        }
        Ok((block, None))
    }

    fn space_filemarks(
        &mut self,
        run: &Run<'_>,
        from: TapePosition,
        count: i64,
    ) -> Result<(u64, Option<Refusal>), Refusal> {
        let mut at = from;
        for done in 0..count.unsigned_abs() {
            run.goes_on()?;
            let residual = left(count, done);
            if count > 0 {
                let Some(mark) = self.next_filemark(run, at)? else {
                    let end = self.drive.space_to_end_of_data(from.partition)?;
                    return Ok((end.block.0, Some(end_of_data().with_residual(residual))));
                };
                at.block = BlockAddress(mark + 1);
            } else {
                let Some(mark) = self.last_filemark(run, at)? else {
                    return Ok((0, Some(begin_of_partition(residual))));
                };
                at.block = BlockAddress(mark);
            }
        }
        Ok((at.block.0, None))
    }

    /// Filemarks before a position, if that is known or soon found out.
    fn file_number(&mut self, run: &Run<'_>, at: TapePosition) -> Result<Option<u64>, Refusal> {
        let known = self.medium()?.marks(at.partition).known();
        if at.block.0.saturating_sub(known) > COUNTED_MAX {
            return Ok(None);
        }
        let looks = at.block.0 > known;
        for block in known..at.block.0 {
            run.goes_on()?;
            self.object(TapePosition { block: BlockAddress(block), ..at })?;
        }
        if looks {
            self.drive.locate(at)?;
        }
        Ok(self.medium()?.marks(at.partition).before(at.block.0).map(|count| count as u64))
    }

    pub fn read_position(&mut self, run: &mut Run<'_>, form: PositionForm, allocation: u16) -> Outcome {
        self.medium()?;
        let at = match self.drive.position() {
            Ok(at) => Some(at),
            Err(TapeError::PositionUnknown { .. }) => None,
            Err(error) => return Err(error.into()),
        };
        let unknown = at.is_none();
        let at = at.unwrap_or(TapePosition { partition: Partition::Data, block: BlockAddress(0) });
        let block = at.block.0;
        let medium = self.medium()?;
        let partition = medium.number(at.partition);
        let end = medium.is_behind_warning(at.partition, block);
        let beyond_early_warning = medium.is_in_zone(at.partition, block);
        let begin = block == 0 && !unknown;
        let data = match form {
            // Nothing is buffered for an initiator to know of. What the vendor's form counts are objects too,
            // as drives do: Linux's tape driver asks in it, and locates to it, unless it is told otherwise.
            PositionForm::Short | PositionForm::ShortVendor => {
                let narrow = u32::try_from(block).ok();
                let overflow = narrow.is_none();
                let (first, unknown) = (narrow.unwrap_or(0), unknown || overflow);
                PositionShort {
                    begin,
                    end,
                    beyond_early_warning,
                    unknown,
                    overflow,
                    partition,
                    first,
                    last: first,
                    ..Default::default()
                }
                .encode()
            }
            PositionForm::Long => {
                let file = if unknown { None } else { self.file_number(run, at)? };
                PositionLong {
                    begin,
                    end,
                    beyond_early_warning,
                    file_unknown: file.is_none(),
                    unknown,
                    partition: u32::from(partition),
                    object: block,
                    file: file.unwrap_or(0),
                    ..Default::default()
                }
                .encode()
            }
            PositionForm::Extended => PositionExtended {
                begin,
                end,
                beyond_early_warning,
                unknown,
                partition,
                first: block,
                last: block,
                ..Default::default()
            }
            .encode(),
        };
        let allocation =
            if form == PositionForm::Extended { u64::from(allocation) } else { data.len() as u64 };
        Ok(give(&data, allocation, run.into))
    }

    pub fn load_unload(&mut self, run: &mut Run<'_>, load: bool, hold: bool, end_of_tape: bool) -> Outcome {
        if end_of_tape {
            return Err(Refusal::bit(4, 2));
        }
        if !load {
            return self.unload(run.drive, run.shared, hold).map(|()| 0);
        }
        if self.medium.is_some() {
            let begin = TapePosition { partition: self.first_partition(), block: BlockAddress(0) };
            self.drive.locate(begin)?;
            return Ok(0);
        }
        let vid = run.shared.elements().unloaded_in(run.drive.address).ok_or_else(Refusal::no_medium)?;
        let mounted = run.drive.moving(|| run.shared.library.mount(vid, &run.drive.name));
        mounted.map_err(|error| match error {
            // The cartridge left the library's directory meanwhile.
            LibraryError::UnknownCartridge { .. } => Refusal::no_medium(),
            other => other.into(),
        })?;
        run.shared.elements().loaded(run.drive.address);
        self.loaded(run.shared, vid);
        run.drive.gate.tell_others(Some(run.nexus), MEDIUM_CHANGED);
        Ok(0)
    }
}

/// What is left of a count, with its sign.
fn left(count: i64, done: u64) -> i64 {
    count - count.signum() * i64::try_from(done).unwrap_or(i64::MAX)
}

/// The begin of the partition was met (0/00/04, EOM).
fn begin_of_partition(residual: i64) -> Refusal {
    let sense = Sense { end_of_medium: true, ..Sense::new(SenseKey::NoSense, 0x00, 0x04) };
    Refusal::from(sense).with_residual(residual)
}
