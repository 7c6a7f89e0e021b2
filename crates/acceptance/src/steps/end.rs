//! The data partition to its end.

use std::time::Instant;

use base::Partition;
use library::TapeError;

use super::{BLOCK, Buffers, at, place, stands};
use crate::report::Unit;
use crate::run::{Figures, Outcome, Run, Trouble};

/// Progress is told so often.
const TOLD_BLOCKS: u64 = 128;
/// Blocks at the end that are read again.
const READ_AGAIN: u64 = 64;
/// Blocks after which a drive that has not said that it is full never will: more than any tape has.
const BLOCKS_MAX: u64 = 1 << 32;

/// The drive took the early warning that it was told at the load. Whether it keeps to it shows at the end of
/// the partition.
pub fn early_warning(run: &mut Run<'_>, figures: &mut Figures) -> Outcome {
    let drive = run.scsi()?;
    if !drive.wishes_early_warning() {
        let why = "the cartridge is too small for one: the drive warns when it does by itself";
        return Err(Trouble::NotAsked(why.to_owned()));
    }
    let Some(room) = drive.programmed_early_warning() else {
        let why = "it warns of the end by itself alone: an index may not fit on a tape that ends early";
        return Err(Trouble::NotOffered(why.to_owned()));
    };
    figures.add("before its own", room.0 as f64, Unit::Bytes);
    Ok(())
}

/// Writes until the drive says that it is full. It warns before.
pub fn to_end(run: &mut Run<'_>, figures: &mut Figures) -> Outcome {
    if !run.plan.to_end {
        return Err(Trouble::NotAsked("it takes hours and is done on request only".to_owned()));
    }
    let length = BLOCK.min(run.scsi()?.block_bytes_max());
    let mut buffers = Buffers::of(length);
    let begin = run.tape.space_to_end_of_data(Partition::Data)?;
    let room = run.tape.remaining()?;
    let (mut end, mut warned) = (begin, None);
    let begun = Instant::now();
    while end.block.0 - begin.block.0 < BLOCKS_MAX {
        match buffers.write(run, end, length) {
            Ok(warns) => {
                end.block.0 += 1;
                if warns && warned.is_none() {
                    warned = Some(end);
                }
            }
            Err(Trouble::Tape(TapeError::EndOfMedium { at, .. })) if at == end => break,
            Err(error) => return Err(error),
        }
        let written = end.block.0 - begin.block.0;
        if written.is_multiple_of(TOLD_BLOCKS) {
            run.tell(written * length as u64, Some(room.0));
        }
    }
    let took = begun.elapsed().as_secs_f64();
    let bytes = |blocks: u64| (blocks * length as u64) as f64;
    let written = end.block.0 - begin.block.0;
    figures.add("written", bytes(written), Unit::Bytes);
    figures.add("rate", bytes(written) / took.max(1e-9), Unit::BytesPerSecond);
    run.tape.write_filemarks(0)?;
    stands(run, end)?;
    let Some(warned) = warned else {
        return Err(Trouble::Wrong(format!("it did not warn before its end at {}", place(end))));
    };
    let behind = bytes(end.block.0 - warned.block.0);
    figures.add("from the warning to the end", behind, Unit::Bytes);
    if let Some(told) = run.scsi()?.programmed_early_warning()
        // The block with which the warning came began before it.
        && behind + (length as f64) < told.0 as f64
    {
        let what =
            format!("it warned {behind} bytes before its end, and was told {told} before its own warning");
        return Err(Trouble::Wrong(what));
    }
    let first = end.block.0.saturating_sub(READ_AGAIN).max(begin.block.0);
    run.tape.locate(at(Partition::Data, first))?;
    for number in first..end.block.0 {
        buffers.read(run, at(Partition::Data, number), length)?;
    }
    let found = run.tape.space_to_end_of_data(Partition::Data)?;
    if found != end {
        let what = format!("it says that data end at {}, and {} was written", place(found), place(end));
        return Err(Trouble::Wrong(what));
    }
    Ok(())
}
