//! Random numbers from a seed, so that a run can be had again as far as its choices go.

use std::ops::Range;
use std::time::Duration;

/// SplitMix64.
pub struct Dice(u64);

impl Dice {
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    pub fn number(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    pub fn below(&mut self, bound: usize) -> usize {
        (self.number() % bound as u64) as usize
    }

    pub fn pick<T: Copy>(&mut self, from: &[T]) -> T {
        from[self.below(from.len())]
    }

    pub fn millis(&mut self, range: Range<u64>) -> Duration {
        Duration::from_millis(range.start + self.number() % (range.end - range.start))
    }

    /// One of the items, as often as their weights say.
    pub fn weighted<T: Copy>(&mut self, items: &[(T, usize)]) -> T {
        let mut rest = self.below(items.iter().map(|(_, weight)| weight).sum());
        for (item, weight) in items {
            match rest.checked_sub(*weight) {
                Some(less) => rest = less,
                None => return *item,
            }
        }
        unreachable!("less than the sum of the weights")
    }
}
