//! The only randomness of the crate: a small generator that is a function of its seed.
//!
//! Owns one word of state. Never reads an operating system source, so that a run is reproducible.

/// SplitMix64. Good enough to shuffle and to draw faults; never for keys.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Rng {
    state: u64,
}

impl Rng {
    /// The generator of a seed.
    pub fn new(seed: u64) -> Self {
        Self { state: seed }
    }

    pub fn next_word(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut word = self.state;
        word = (word ^ (word >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        word = (word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        word ^ (word >> 31)
    }

    /// A number below `bound`; 0 for a bound of 0. The bias of the remainder does not matter here.
    pub fn below(&mut self, bound: u64) -> u64 {
        self.next_word().checked_rem(bound).unwrap_or(0)
    }

    /// True with this probability (0.0 never, 1.0 always).
    pub fn chance(&mut self, probability: f64) -> bool {
        // 53 bits: every f64 in [0, 1) of that grid is exact.
        let unit = (self.next_word() >> 11) as f64 / (1_u64 << 53) as f64;
        unit < probability
    }
}
