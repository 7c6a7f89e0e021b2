//! The places of a pool's drives, by number.

use std::sync::OnceLock;

use base::DriveId;

use crate::drives::PoolDrive;

/// Numbers have two bytes: one chooses the block, the other the place in it.
const BLOCKS: usize = 1 << 8;
const PLACES: usize = 1 << 8;

type Block = Box<[OnceLock<PoolDrive>]>;

/// All places, in order of their numbers. One that is there stays for as long as the pool does, whatever
/// becomes of the drive in it; more may come at any time. So nobody who looks one up takes a lock, and what
/// was found may be kept.
pub(crate) struct Places {
    blocks: Box<[OnceLock<Block>]>,
}

impl Places {
    pub(crate) fn new(drives: impl Iterator<Item = PoolDrive>) -> Self {
        let places = Places { blocks: (0..BLOCKS).map(|_| OnceLock::new()).collect() };
        for drive in drives {
            let id = drive.id;
            assert!(places.add(drive).is_ok(), "drive {id} is there once");
        }
        places
    }

    pub(crate) fn get(&self, id: DriveId) -> Option<&PoolDrive> {
        let [block, place] = id.0.to_be_bytes().map(usize::from);
        self.blocks.get(block)?.get()?.get(place)?.get()
    }

    /// Adds a place; gives it back if there is one of this number.
    pub(crate) fn add(&self, drive: PoolDrive) -> Result<(), PoolDrive> {
        let [block, place] = drive.id.0.to_be_bytes().map(usize::from);
        let empty = || (0..PLACES).map(|_| OnceLock::new()).collect();
        let cell = self.blocks.get(block).and_then(|block| block.get_or_init(empty).get(place));
        // Two bytes are never past the last block or place.
        let Some(cell) = cell else { return Err(drive) };
        cell.set(drive)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &PoolDrive> {
        let blocks = self.blocks.iter().filter_map(OnceLock::get);
        blocks.flat_map(|block| block.iter().filter_map(OnceLock::get))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;

    fn missing(id: u16) -> PoolDrive {
        PoolDrive::new((DriveId(id), base::DriveGroup::MAIN), None, &Arc::default())
    }

    #[test]
    fn places_are_in_order_of_their_numbers_and_each_there_once() {
        let places = Places::new([7, 0, 65_535].into_iter().map(missing));
        assert!(places.add(missing(300)).is_ok());
        assert!(places.add(missing(7)).is_err(), "it is there");
        let ids: Vec<u16> = places.iter().map(|place| place.id.0).collect();
        assert_eq!(ids, [0, 7, 300, 65_535]);
        let found = [7, 8, 255, 256, 300].map(|id| places.get(DriveId(id)).map(|place| place.id.0));
        assert_eq!(found, [Some(7), None, None, None, Some(300)]);
    }
}
