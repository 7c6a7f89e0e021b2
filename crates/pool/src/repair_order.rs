//! Which stripe is repaired next: the decision alone.
//!
//! Each repair reads as many drives as a stripe has, and goes no faster than the one of them that is asked
//! for most. So the next is one whose drives are asked for least at present.

use std::collections::{BTreeMap, VecDeque};

use base::DriveId;

/// Stripes that wait, and the drives of those that are under way.
#[derive(Debug)]
pub struct RepairOrder<T> {
    waiting: VecDeque<(T, Vec<DriveId>)>,
    /// How many repairs each drive is read for.
    asked: BTreeMap<DriveId, usize>,
}

impl<T> Default for RepairOrder<T> {
    fn default() -> Self {
        RepairOrder { waiting: VecDeque::new(), asked: BTreeMap::new() }
    }
}

impl<T> RepairOrder<T> {
    /// A stripe waits that is read from these drives.
    pub fn add(&mut self, stripe: T, drives: Vec<DriveId>) {
        self.waiting.push_back((stripe, drives));
    }

    /// How many wait.
    #[must_use]
    pub fn waiting(&self) -> usize {
        self.waiting.len()
    }

    /// None of those that wait is repaired.
    pub fn forget_waiting(&mut self) {
        self.waiting.clear();
    }

    /// Takes out the stripe whose drives are asked for least, of equal ones the first that came. It is under
    /// way until [`RepairOrder::over`] is told of its drives.
    pub fn take(&mut self) -> Option<(T, Vec<DriveId>)> {
        let weight = |drives: &[DriveId]| -> usize {
            let asked = drives.iter().map(|drive| self.asked.get(drive).copied().unwrap_or(0));
            // One that is asked for twice is worse than two that are asked for once.
            asked.map(|asked| asked.saturating_mul(asked)).fold(0, usize::saturating_add)
        };
        let least = self.waiting.iter().enumerate().min_by_key(|(_, (_, drives))| weight(drives));
        let at = least.map(|(at, _)| at)?;
        let (stripe, drives) = self.waiting.remove(at)?;
        drives.iter().for_each(|drive| *self.asked.entry(*drive).or_default() += 1);
        Some((stripe, drives))
    }

    /// The repair of a stripe on these drives is over.
    ///
    /// # Panics
    /// If none is under way there.
    pub fn over(&mut self, drives: &[DriveId]) {
        for drive in drives {
            let asked = self.asked.get_mut(drive).expect("a repair that is over was under way");
            assert!(*asked > 0, "a repair is over once");
            *asked -= 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn drives(of: &[u16]) -> Vec<DriveId> {
        of.iter().map(|id| DriveId(*id)).collect()
    }

    #[test]
    fn the_next_reads_drives_that_rest() {
        let mut order = RepairOrder::default();
        for (name, of) in [("a", [1, 2, 3]), ("b", [2, 3, 4]), ("c", [4, 5, 6]), ("d", [1, 5, 9])] {
            order.add(name, drives(&of));
        }
        let (first, of_first) = order.take().unwrap();
        assert_eq!(first, "a", "of equal ones the first");
        assert_eq!(order.take().unwrap().0, "c", "no drive of it is asked for");
        assert_eq!(order.take().unwrap().0, "d", "two of its drives have one repair each: b has three such");
        order.over(&of_first);
        assert_eq!((order.take().unwrap().0, order.waiting()), ("b", 0));
        assert!(order.take().is_none());
    }

    /// With as many under way as a rebuild has all drives of a pool are asked for, none far more than others.
    #[test]
    fn the_load_is_spread() {
        let mut order = RepairOrder::default();
        for number in 0..200u16 {
            let of: Vec<u16> = (0..9).map(|at| (number * 7 + at * (1 + number % 5)) % 23).collect();
            order.add(number, drives(&of));
        }
        let mut under_way = VecDeque::new();
        for turn in 0..200 {
            under_way.push_back(order.take().unwrap().1);
            if under_way.len() > 8 {
                order.over(&under_way.pop_front().unwrap());
            }
            if (8..150).contains(&turn) {
                let of = |id| order.asked.get(&DriveId(id)).copied().unwrap_or(0);
                let asked: Vec<usize> = (0..23).map(of).collect();
                assert!(asked.iter().all(|asked| (1..=6).contains(asked)), "{turn}: {asked:?}");
            }
        }
    }
}
