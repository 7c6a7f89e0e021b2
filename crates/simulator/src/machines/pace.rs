//! What a machine needs of the world around it: time that passes, and chance.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Time and chance, handed to every machine.
pub trait Pace: Send + Sync {
    /// Lets so many nanoseconds pass; others may run meanwhile. No machine holds a lock then.
    fn pause(&self, nanos: u64);

    /// The next random number of the run.
    fn random(&self) -> u64;
}

/// A pace without time, whose chance comes from a seed: for tests without a runtime.
#[derive(Debug)]
pub struct StillPace(AtomicU64);

impl StillPace {
    /// The pace of this seed.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        StillPace(AtomicU64::new(seed))
    }
}

impl Pace for StillPace {
    fn pause(&self, _nanos: u64) {}

    fn random(&self) -> u64 {
        mix(self.0.fetch_add(GAMMA, Ordering::SeqCst).wrapping_add(GAMMA))
    }
}

/// The pace of a simulation: virtual time, and the run's chance. Only within [`threads::simulated::run`].
#[derive(Clone, Copy, Default, Debug)]
pub struct RuntimePace;

impl Pace for RuntimePace {
    fn pause(&self, nanos: u64) {
        threads::simulated::pause(Duration::from_nanos(nanos));
    }

    fn random(&self) -> u64 {
        threads::simulated::random()
    }
}

const GAMMA: u64 = 0x9e37_79b9_7f4a_7c15;

/// The finishing steps of `SplitMix64`: spreads a counter over all numbers.
fn mix(mut z: u64) -> u64 {
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// A stream of chance of its own: what a power loss leaves, where a run is cut.
#[derive(Clone, Debug)]
pub struct Dice(u64);

impl Dice {
    /// The stream of this seed.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        Dice(seed)
    }

    /// The next number.
    pub fn roll(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(GAMMA);
        mix(self.0)
    }

    /// A number below `end`; 0 if `end` is 0.
    pub fn below(&mut self, end: u64) -> u64 {
        self.roll().checked_rem(end).unwrap_or(0)
    }

    /// Whether the one case in `cases` happens.
    pub fn one_in(&mut self, cases: u64) -> bool {
        self.below(cases) == 0
    }
}
