//! How fast blocks of each size are written and read, and what a flush costs.

use std::time::Instant;

use base::Partition;

use super::{BLOCK, Buffers, at, median};
use crate::report::Unit;
use crate::run::{Figures, Outcome, Region, Run, Trouble};

/// Sizes of blocks: those that drives can from the first that is of use to the longest that LTFS allows.
const SIZES: [usize; 8] = [64 << 10, 128 << 10, 256 << 10, 512 << 10, 1 << 20, 2 << 20, 4 << 20, 8 << 20];
/// No more of the partition than this part is written.
const PART_MAX: u64 = 3;
/// Progress is told so often.
const TOLD_BYTES: u64 = 16 << 20;
/// Flushes of each kind.
const FLUSHES: usize = 8;

/// Writes, flushes and reads blocks of each size.
pub fn rates(run: &mut Run<'_>, figures: &mut Figures) -> Outcome {
    let longest = run.scsi()?.block_bytes_max();
    let sizes: Vec<usize> = SIZES.into_iter().filter(|size| *size <= longest).collect();
    if sizes.is_empty() {
        return Err(Trouble::Wrong(format!("its longest block has {longest} bytes, which is too short")));
    }
    let room = run.tape.remaining()?.0 / PART_MAX;
    let each = run.plan.bytes.0.min(room) / sizes.len() as u64;
    let blocks = |size: usize| (each / size as u64).max(1);
    let total: u64 = 2 * sizes.iter().map(|size| blocks(*size) * *size as u64).sum::<u64>();
    let mut buffers = Buffers::of(longest);
    let mut moved = 0;
    for size in sizes {
        let begin = run.tape.space_to_end_of_data(Partition::Data)?;
        let region = Region { begin, blocks: blocks(size), size };
        let bytes = (region.blocks * size as u64) as f64;
        let mut tell = |run: &Run<'_>| {
            moved += size as u64;
            if moved % TOLD_BYTES < size as u64 {
                run.tell(moved, Some(total));
            }
        };
        let begun = Instant::now();
        for number in 0..region.blocks {
            buffers.write(run, at(Partition::Data, begin.block.0 + number), size)?;
            tell(run);
        }
        run.tape.write_filemarks(0)?;
        let written = begun.elapsed().as_secs_f64();
        run.regions.push(region);
        run.tape.locate(begin)?;
        let begun = Instant::now();
        for number in 0..region.blocks {
            buffers.read(run, at(Partition::Data, begin.block.0 + number), size)?;
            tell(run);
        }
        let read = begun.elapsed().as_secs_f64();
        let name = format!("{} KiB", size >> 10);
        figures.add(format!("write {name}"), bytes / written.max(1e-9), Unit::BytesPerSecond);
        figures.add(format!("read {name}"), bytes / read.max(1e-9), Unit::BytesPerSecond);
    }
    Ok(())
}

/// WRITE FILEMARKS of none and of one, with a block in the buffer and without.
pub fn flush(run: &mut Run<'_>, figures: &mut Figures) -> Outcome {
    let length = BLOCK.min(run.scsi()?.block_bytes_max());
    let mut buffers = Buffers::of(length);
    let mut end = run.tape.space_to_end_of_data(Partition::Data)?;
    let kinds =
        [("flush of a block", true, 0), ("flush of nothing", false, 0), ("block and file mark", true, 1)];
    for (name, has_block, marks) in kinds {
        let mut times = Vec::with_capacity(FLUSHES);
        for _ in 0..FLUSHES {
            if has_block {
                buffers.write(run, end, length)?;
                end.block.0 += 1;
            }
            let begun = Instant::now();
            run.tape.write_filemarks(marks)?;
            end.block.0 += u64::from(marks);
            times.push(begun.elapsed().as_secs_f64());
        }
        figures.add(name, median(times), Unit::Seconds);
    }
    super::stands(run, end)
}
