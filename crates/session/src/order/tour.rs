//! An order of stretches as a round of nodes that begins at the head, and its one kind of change.

use super::neighbours::HEAD;

/// The nodes of an order: the head, then each stretch.
pub(super) fn tour_of(order: &[usize]) -> Vec<u32> {
    [HEAD].into_iter().chain(order.iter().map(|stretch| *stretch as u32 + 1)).collect()
}

/// The order of a round that begins at the head.
pub(super) fn order_of(tour: &[u32]) -> Vec<usize> {
    tour.iter().skip(1).map(|node| *node as usize - 1).collect()
}

/// Two neighbouring parts that change places: the first begins at `begin`, the second at `middle`.
#[derive(Clone, Copy)]
pub(super) struct Exchange {
    pub begin: usize,
    pub middle: usize,
    pub end: usize,
}

impl Exchange {
    /// Makes the change.
    pub(super) fn apply(self, tour: &mut [u32]) {
        tour[self.begin..self.end].rotate_left(self.middle - self.begin);
    }

    /// The exchange that takes this one back.
    pub(super) fn inverse(self) -> Self {
        Exchange { middle: self.begin + (self.end - self.middle), ..self }
    }
}
