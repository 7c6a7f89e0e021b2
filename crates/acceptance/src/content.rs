//! Blocks whose content is made of where they stand.

use base::{Partition, TapePosition};

/// Bytes of a block that say where it was written: partition and number.
const HEAD: usize = 16;
/// The partition stands in the first eight bytes behind this, so that zeros are no block.
const MARK: u64 = 0x4b49_5354_5445_5354;

/// Fills a block for a place. Incompressible, and the same each time.
pub fn fill(block: &mut [u8], at: TapePosition) {
    let head = [(MARK ^ u64::from(at.partition.scsi_number())).to_be_bytes(), at.block.0.to_be_bytes()];
    let mut state = at.block.0.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ u64::from(at.partition.scsi_number());
    let mut words = block.chunks_exact_mut(8);
    for word in &mut words {
        word.copy_from_slice(&next(&mut state).to_le_bytes());
    }
    let last = next(&mut state).to_le_bytes();
    words.into_remainder().iter_mut().zip(last).for_each(|(to, from)| *to = from);
    block.iter_mut().zip(head.concat()).for_each(|(to, from)| *to = from);
}

/// The next number of a sequence (SplitMix64).
fn next(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mixed = (*state ^ (*state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}

/// What is wrong with a block that was read at a place; `None`: nothing. `scratch` is as long as the block.
pub fn wrong(block: &[u8], at: TapePosition, scratch: &mut [u8]) -> Option<String> {
    fill(scratch, at);
    if block == scratch {
        return None;
    }
    let place = |at: TapePosition| format!("partition {} block {}", at.partition.ltfs_id(), at.block);
    if let Some(other) = written_at(block).filter(|other| *other != at) {
        return Some(format!("at {} came what was written at {}", place(at), place(other)));
    }
    let differs = block.iter().zip(scratch.iter()).position(|(one, other)| one != other);
    let byte = differs.unwrap_or(block.len().min(scratch.len()));
    Some(format!("{} of {} bytes differs from byte {byte} on", place(at), block.len()))
}

/// Where a block says that it was written.
fn written_at(block: &[u8]) -> Option<TapePosition> {
    let (mark, rest) = block.get(..HEAD)?.split_first_chunk::<8>()?;
    let number = u64::from_be_bytes(*rest.first_chunk::<8>()?);
    let partition = u64::from_be_bytes(*mark) ^ MARK;
    let partition = [Partition::Index, Partition::Data]
        .into_iter()
        .find(|one| u64::from(one.scsi_number()) == partition)?;
    Some(TapePosition { partition, block: base::BlockAddress(number) })
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::BlockAddress;

    #[test]
    fn a_block_is_known_by_its_place() {
        let at = TapePosition { partition: Partition::Data, block: BlockAddress(7) };
        let (mut block, mut scratch) = (vec![0; 1001], vec![0; 1001]);
        fill(&mut block, at);
        assert_eq!(wrong(&block, at, &mut scratch), None);
        let other = TapePosition { block: BlockAddress(8), ..at };
        assert_eq!(
            wrong(&block, other, &mut scratch).unwrap(),
            "at partition b block 8 came what was written at partition b block 7"
        );
        let other = TapePosition { partition: Partition::Index, ..at };
        assert!(wrong(&block, other, &mut scratch).unwrap().contains("partition a block 7 came"));
        for byte in [16, 500, 1000] {
            let mut damaged = block.clone();
            damaged[byte] ^= 1;
            let told = wrong(&damaged, at, &mut scratch).unwrap();
            assert_eq!(told, format!("partition b block 7 of 1001 bytes differs from byte {byte} on"));
        }
        assert!(wrong(&block[..1000], at, &mut scratch).is_some(), "too short");
    }
}
