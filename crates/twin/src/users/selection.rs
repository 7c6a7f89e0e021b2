//! Which files a campaign asks for, one by one: nothing is kept for each file.

use std::ops::Range;

use durability::SplitMix;

use scenario::model::{Choice, scatter};

/// The files of a choice, in the order in which they are asked for.
pub(super) struct Selection {
    /// Where the files of the choice lie: the index of the first file of each range, and the range.
    ranges: Vec<(u64, Range<u64>)>,
    files: u64,
    /// Files of a unit: of a data set, or 1.
    unit: u64,
    units: u64,
    /// How many units are still to be chosen (in order), or are chosen (shuffled).
    chosen: u64,
    order: Order,
    share: u64,
    key: u64,
    random: SplitMix,
}

enum Order {
    /// Units are gone through once, each chosen with the likelihood that leaves as many as are wanted.
    AsPut { unit: u64, rest: Range<u64> },
    /// The chosen units are gone through in an order that looks random, the files of each as they were put.
    Shuffled { at: u64, units: Permutation },
}

impl Selection {
    /// A choice of the files in `ranges`, ascending.
    pub(super) fn new(choice: &Choice, data_set: u32, ranges: Vec<Range<u64>>, mut random: SplitMix) -> Self {
        let mut files = 0;
        let mut indexed = Vec::with_capacity(ranges.len());
        for range in ranges {
            let len = range.end - range.start;
            indexed.push((files, range));
            files += len;
        }
        let unit = if choice.data_sets { u64::from(data_set.max(1)) } else { 1 };
        let units = files.div_ceil(unit);
        let chosen = choice.files.map_or(units, |wanted| wanted.div_ceil(unit).min(units));
        let key = random.bits();
        let order = match choice.shuffled {
            false => Order::AsPut { unit: 0, rest: 0..0 },
            true => Order::Shuffled { at: 0, units: Permutation::new(units, random.bits()) },
        };
        let share = u64::from(choice.share_per_mille);
        Selection { ranges: indexed, files, unit, units, chosen, order, share, key, random }
    }

    /// The file's number in its class.
    fn sequence(&self, index: u64) -> u64 {
        let at = self.ranges.partition_point(|(first, _)| *first <= index) - 1;
        let (first, range) = &self.ranges[at];
        range.start + (index - first)
    }

    fn index(&mut self) -> Option<u64> {
        match &mut self.order {
            Order::AsPut { unit, rest } => {
                while rest.is_empty() {
                    if self.chosen == 0 || *unit >= self.units {
                        return None;
                    }
                    let left = self.units - *unit;
                    if self.chosen >= left || (self.random.below(left as usize) as u64) < self.chosen {
                        self.chosen -= 1;
                        *rest = *unit * self.unit..((*unit + 1) * self.unit).min(self.files);
                    }
                    *unit += 1;
                }
                rest.next()
            }
            Order::Shuffled { at, units } => {
                let slots = self.chosen * self.unit;
                while *at < slots {
                    let slot = *at;
                    *at += 1;
                    let index = units.of(slot / self.unit) * self.unit + slot % self.unit;
                    if index < self.files {
                        return Some(index);
                    }
                }
                None
            }
        }
    }
}

impl Iterator for Selection {
    type Item = u64;

    fn next(&mut self) -> Option<u64> {
        loop {
            let index = self.index()?;
            if scatter(index ^ self.key) % 1000 < self.share {
                return Some(self.sequence(index));
            }
        }
    }
}

/// All numbers below a bound in another order: a Feistel network over a power of four no less than the
/// bound, gone round until the number is below it.
struct Permutation {
    bound: u64,
    half: u32,
    key: u64,
}

impl Permutation {
    fn new(bound: u64, key: u64) -> Permutation {
        let bits = 64 - bound.saturating_sub(1).leading_zeros();
        Permutation { bound, half: bits.div_ceil(2).max(1), key }
    }

    fn of(&self, number: u64) -> u64 {
        let mask = (1u64 << self.half) - 1;
        let mut number = number;
        loop {
            let (mut left, mut right) = (number >> self.half, number & mask);
            for round in 0..4 {
                let mixed = scatter(right ^ self.key.rotate_left(16 * round) ^ u64::from(round));
                (left, right) = (right, left ^ (mixed & mask));
            }
            number = (left << self.half) | right;
            if number < self.bound {
                return number;
            }
        }
    }
}
