//! Matrices of recent losses, kept by each thread for itself: a repair meets one pattern again and again.

use crate::decode::decode_rows;
use crate::product::Product;
use crate::{Kernel, MAX_SHARDS};
use std::cell::RefCell;
use std::rc::Rc;

/// Patterns that a thread remembers; the one not used for longest makes room.
const REMEMBERED_MAX: usize = 32;
/// Weights of the largest matrix that is remembered, which bounds a thread's memory to a few MiB.
const REMEMBERED_WEIGHTS_MAX: usize = 2048;

/// A set of shard indexes.
pub(crate) type Set = [u64; 4];

/// What a matrix depends on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Pattern {
    pub(crate) kernel: Kernel,
    pub(crate) data_shards: usize,
    pub(crate) chosen: Set,
    pub(crate) wanted: Set,
}

thread_local! {
    /// The most recently used first.
    static RECENT: RefCell<Vec<(Pattern, Rc<Product>)>> = const { RefCell::new(Vec::new()) };
}

/// The product that gives the wanted shards from the chosen ones, both in ascending order.
pub(crate) fn product(pattern: Pattern) -> Rc<Product> {
    let found = RECENT.with_borrow_mut(|recent| {
        let place = recent.iter().position(|(known, _)| *known == pattern)?;
        recent[..=place].rotate_right(1);
        recent.first().map(|(_, product)| Rc::clone(product))
    });
    if let Some(product) = found {
        return product;
    }
    let (chosen, wanted) = (members(&pattern.chosen), members(&pattern.wanted));
    let rows = decode_rows(pattern.data_shards, &chosen, &wanted);
    let product = Rc::new(Product::new(pattern.kernel, pattern.data_shards, &rows));
    if rows.len() <= REMEMBERED_WEIGHTS_MAX {
        RECENT.with_borrow_mut(|recent| {
            recent.truncate(REMEMBERED_MAX - 1);
            recent.insert(0, (pattern, Rc::clone(&product)));
        });
    }
    product
}

/// Adds an index; whether it was new.
pub(crate) fn insert(set: &mut Set, shard: usize) -> bool {
    let bit = 1 << (shard % 64);
    let word = &mut set[shard / 64];
    let new = *word & bit == 0;
    *word |= bit;
    new
}

pub(crate) fn contains(set: &Set, shard: usize) -> bool {
    set[shard / 64] >> (shard % 64) & 1 == 1
}

/// The `count` lowest members of a set that has `members`.
pub(crate) fn lowest(mut set: Set, members: usize, count: usize) -> Set {
    for _ in count..members {
        if let Some(word) = set.iter_mut().rfind(|word| **word != 0) {
            *word ^= 1 << word.ilog2();
        }
    }
    set
}

/// How many members of the set are lower than a shard.
pub(crate) fn rank(set: &Set, shard: usize) -> usize {
    let lower = set[..shard / 64].iter().map(|word| word.count_ones()).sum::<u32>();
    (lower + (set[shard / 64] & ((1 << (shard % 64)) - 1)).count_ones()) as usize
}

pub(crate) fn members(set: &Set) -> Vec<usize> {
    (0..MAX_SHARDS).filter(|&shard| contains(set, shard)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pattern(lost: usize) -> Pattern {
        let mut chosen = Set::default();
        let mut wanted = Set::default();
        (0..MAX_SHARDS - 1).filter(|&shard| shard != lost).take(200).for_each(|shard| {
            insert(&mut chosen, shard);
        });
        insert(&mut wanted, lost);
        Pattern { kernel: Kernel::Portable, data_shards: 200, chosen, wanted }
    }

    #[test]
    fn a_pattern_met_again_is_not_solved_again() {
        let first = product(pattern(3));
        assert!(Rc::ptr_eq(&first, &product(pattern(3))));
        for lost in 4..4 + REMEMBERED_MAX {
            product(pattern(lost));
        }
        assert_eq!(RECENT.with_borrow(Vec::len), REMEMBERED_MAX);
        assert!(!Rc::ptr_eq(&first, &product(pattern(3))), "the oldest pattern made room");
    }
}
