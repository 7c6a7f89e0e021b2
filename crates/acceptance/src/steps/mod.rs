//! What is done in each step.

mod end;
mod load;
mod protection;
mod rates;
mod records;
mod rest;
mod ways;

pub use end::{early_warning, to_end};
pub use load::{belongings, facts, format, load, load_again, unload};
pub use protection::protection;
pub use rates::{flush, rates};
pub use records::{locate, positions, read_back};
pub use rest::{memory, reservations};
pub use ways::{access_order, locate_times, wrap_ends};

use base::{BlockAddress, Partition, TapePosition};
use library::ReadBlock;

use crate::content;
use crate::run::{Outcome, Run, Trouble};

/// A block as LTFS volumes have them.
const BLOCK: usize = 512 << 10;

fn at(partition: Partition, block: u64) -> TapePosition {
    TapePosition { partition, block: BlockAddress(block) }
}

fn place(at: TapePosition) -> String {
    format!("partition {} block {}", at.partition.ltfs_id(), at.block)
}

/// The middle of what was measured; 0 of nothing.
fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or_default()
}

/// A buffer, and another to compare it with.
struct Buffers {
    block: Vec<u8>,
    scratch: Vec<u8>,
}

impl Buffers {
    fn of(length: usize) -> Buffers {
        Buffers { block: vec![0; length], scratch: vec![0; length] }
    }

    /// Writes a block of `length` bytes where the tape stands, which is to be `at`. Whether it warned.
    fn write(&mut self, run: &mut Run<'_>, at: TapePosition, length: usize) -> Outcome<bool> {
        let block = self.block.get_mut(..length).unwrap_or_default();
        content::fill(block, at);
        Ok(run.tape.write_block(block)?.early_warning)
    }

    /// Reads the block at `at`, where the tape is to stand, and compares it.
    fn read(&mut self, run: &mut Run<'_>, at: TapePosition, length: usize) -> Outcome {
        match run.tape.read_block(&mut self.block)? {
            ReadBlock::Data(read) if read == length => {}
            other => return Err(Trouble::Wrong(format!("at {} is {}", place(at), words(other)))),
        }
        let (block, scratch) = (self.block.get(..length), self.scratch.get_mut(..length));
        match content::wrong(block.unwrap_or_default(), at, scratch.unwrap_or_default()) {
            None => Ok(()),
            Some(what) => Err(Trouble::Wrong(what)),
        }
    }
}

fn words(found: ReadBlock) -> String {
    match found {
        ReadBlock::Data(bytes) => format!("a record of {bytes} bytes"),
        ReadBlock::FileMark => "a file mark".to_owned(),
        ReadBlock::EndOfData => "the end of data".to_owned(),
    }
}

/// Asks the drive where the tape stands.
fn stands(run: &mut Run<'_>, expected: TapePosition) -> Outcome {
    let found = run.tape.position()?;
    if found == expected {
        return Ok(());
    }
    Err(Trouble::Wrong(format!("the tape stands at {} and should at {}", place(found), place(expected))))
}
