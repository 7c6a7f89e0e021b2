//! Records and file marks of both partitions, and moving among them.

use base::Partition;
use library::{ReadBlock, TapeError};

use super::{BLOCK, Buffers, at, place, stands, words};
use crate::report::Unit;
use crate::run::{Figures, Outcome, Run, Trouble};

/// What is laid down at the begin of each partition: `true` is a record, `false` a file mark. Marks alone,
/// two in a row, and at the end, as labels and indexes of LTFS have them.
const LAID: [bool; 12] = [true, true, false, true, true, true, false, false, true, true, true, false];
/// Bytes of each record: no multiple of anything.
pub const LENGTH: usize = 10_007;

/// Writes them; after each the drive is asked where the tape stands.
pub fn positions(run: &mut Run<'_>, figures: &mut Figures) -> Outcome {
    let mut buffers = Buffers::of(LENGTH);
    for partition in [Partition::Index, Partition::Data] {
        run.tape.locate(at(partition, 0))?;
        for (number, is_record) in (0..).zip(LAID) {
            match is_record {
                true => drop(buffers.write(run, at(partition, number), LENGTH)?),
                false => drop(run.tape.write_filemarks(1)?),
            }
            stands(run, at(partition, number + 1))?;
        }
        run.tape.write_filemarks(0)?;
        stands(run, at(partition, LAID.len() as u64))?;
    }
    figures.add("objects", (2 * LAID.len()) as f64, Unit::Count);
    Ok(())
}

/// Reads them, and the end of data behind them.
pub fn read_back(run: &mut Run<'_>, figures: &mut Figures) -> Outcome {
    let mut buffers = Buffers::of(BLOCK);
    for partition in [Partition::Data, Partition::Index] {
        run.tape.locate(at(partition, 0))?;
        for (number, is_record) in (0..).zip(LAID) {
            object(run, &mut buffers, partition, number, is_record)?;
        }
        match run.tape.read_block(&mut buffers.block)? {
            ReadBlock::EndOfData => {}
            other => {
                let end = at(partition, LAID.len() as u64);
                return Err(Trouble::Wrong(format!("at {} is {} behind the last", place(end), words(other))));
            }
        }
        stands(run, at(partition, LAID.len() as u64))?;
    }
    figures.add("objects", (2 * LAID.len()) as f64, Unit::Count);
    Ok(())
}

/// Reads the object under the head and compares it.
fn object(
    run: &mut Run<'_>,
    buffers: &mut Buffers,
    partition: Partition,
    number: u64,
    is_record: bool,
) -> Outcome {
    if is_record {
        return buffers.read(run, at(partition, number), LENGTH);
    }
    match run.tape.read_block(&mut buffers.block)? {
        ReadBlock::FileMark => Ok(()),
        other => {
            let place = place(at(partition, number));
            Err(Trouble::Wrong(format!("at {place} is {} and should be a file mark", words(other))))
        }
    }
}

/// Forward, back, to the other partition, to the end of data, and not beyond it. What stands there is read.
pub fn locate(run: &mut Run<'_>, figures: &mut Figures) -> Outcome {
    let mut buffers = Buffers::of(BLOCK);
    let last = LAID.len() as u64 - 1;
    // From end to end, so that each goes forward, back, or to the other partition.
    let mut locates = 0;
    for step in 0..=last {
        for partition in [Partition::Index, Partition::Data] {
            for number in [step, last - step] {
                run.tape.locate(at(partition, number))?;
                stands(run, at(partition, number))?;
                let is_record = usize::try_from(number).ok().and_then(|number| LAID.get(number));
                object(run, &mut buffers, partition, number, is_record == Some(&true))?;
                locates += 1;
            }
        }
    }
    for partition in [Partition::Data, Partition::Index] {
        let end = run.tape.space_to_end_of_data(partition)?;
        if end.partition != partition || end.block.0 < LAID.len() as u64 {
            return Err(Trouble::Wrong(format!("it says that data end at {}", place(end))));
        }
        stands(run, end)?;
        run.tape.locate(at(partition, 0))?;
        run.tape.locate(end)?;
        let behind = at(partition, end.block.0 + 1);
        match run.tape.locate(behind) {
            Err(TapeError::BeyondEndOfData { end: told, .. }) if told == end => {}
            Err(error) => return Err(error.into()),
            Ok(()) => {
                let what = format!("it locates to {}, behind the end of data", place(behind));
                return Err(Trouble::Wrong(what));
            }
        }
        run.tape.locate(at(partition, 0))?;
        run.tape.rewind()?;
        stands(run, at(partition, 0))?;
    }
    figures.add("locates", f64::from(locates), Unit::Count);
    Ok(())
}
