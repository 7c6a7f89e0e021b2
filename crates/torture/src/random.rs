//! Random numbers from a seed.

/// A generator; one seed gives one sequence.
#[derive(Clone, Debug)]
pub struct Random(u64);

impl Random {
    /// A generator for a seed.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        Random(seed ^ 0x6a09_e667_f3bc_c908)
    }

    /// One of a family of generators, such as one a thread.
    #[must_use]
    pub fn nth(seed: u64, number: u64) -> Self {
        let mut parent = Random::new(seed.wrapping_add(number.wrapping_mul(0xd134_2543_de82_ef95)));
        Random(parent.number())
    }

    /// The next number (splitmix64).
    pub fn number(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number below `bound`, which is not 0.
    pub fn below(&mut self, bound: u64) -> u64 {
        self.number() % bound
    }

    /// True once in `one_in` times.
    pub fn one_in(&mut self, one_in: u64) -> bool {
        self.below(one_in) == 0
    }

    /// A number from 0 to 1.
    pub fn fraction(&mut self) -> f64 {
        (self.number() >> 11) as f64 / (1u64 << 53) as f64
    }
}
