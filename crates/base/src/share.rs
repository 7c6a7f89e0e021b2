//! How much of what there is only so much of one caller may have: as much as stays free.

/// Something is scarce while less than one of so many parts of it is free.
const SCARCE_PART: usize = 4;

/// Whether somebody can have what they ask for now.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Fit {
    /// They can.
    Yes,
    /// They have their share: they wait for themselves, and hold up nobody.
    Share,
    /// There is not so much. Who comes behind must not pass them, or they would wait for ever.
    Full,
}

impl Fit {
    /// Whether `count` of the `free` go to one who holds some already, in each of these respects (of their
    /// own, over their connection). Who holds none gets whatever there is.
    #[must_use]
    pub fn of(count: usize, free: usize, held: impl IntoIterator<Item = usize>) -> Fit {
        if count > free {
            return Fit::Full;
        }
        let within = |held: usize| held == 0 || held.saturating_add(count) <= free;
        if held.into_iter().all(within) { Fit::Yes } else { Fit::Share }
    }
}

/// Whether so little of `total` is free that who holds much of it has to make haste.
#[must_use]
pub fn is_scarce(free: usize, total: usize) -> bool {
    free.saturating_mul(SCARCE_PART) < total
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_share_is_as_much_as_stays_free() {
        assert_eq!(Fit::of(1, 1, [0]), Fit::Yes);
        assert_eq!(Fit::of(1, 0, [0]), Fit::Full);
        assert_eq!(Fit::of(1, 49, [48]), Fit::Yes);
        assert_eq!(Fit::of(1, 48, [48]), Fit::Share);
        assert_eq!(Fit::of(8, 8, [0, 1]), Fit::Share);
        assert_eq!(Fit::of(8, 8, [0, 0]), Fit::Yes);
        assert!(is_scarce(23, 96) && !is_scarce(24, 96));
    }
}
