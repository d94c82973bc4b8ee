//! The one source of chance: of tokens, pauses, and the places of hashed keys.
//!
//! A simulation seeds it, so that a run that failed can be repeated. For the same
//! reason, a `select!` says in which order it looks (`biased`).

use std::collections::HashMap;
use std::hash::{BuildHasher, DefaultHasher, Hasher};
use std::sync::Arc;

#[cfg(feature = "testing")]
use std::cell::Cell;

#[cfg(feature = "testing")]
thread_local! {
    static SEEDED: Cell<Option<u64>> = const { Cell::new(None) };
}

/// From now on, all chance on this thread follows from the seed; from none, it is
/// chance again.
#[cfg(feature = "testing")]
pub fn seed(seed: Option<u64>) {
    SEEDED.set(seed);
}

/// Any number.
pub(crate) fn number() -> u64 {
    seeded().unwrap_or_else(rand::random)
}

/// Random bits for an identity; `None` where the system's are to be used.
pub(crate) fn identity() -> Option<[u8; 16]> {
    let halves = (seeded()?, seeded()?);
    let bits = u128::from(halves.0) << 64 | u128::from(halves.1);
    Some(bits.to_be_bytes())
}

/// The next number of the seed (splitmix64).
#[cfg(feature = "testing")]
fn seeded() -> Option<u64> {
    let state = SEEDED.get()?.wrapping_add(0x9e37_79b9_7f4a_7c15);
    SEEDED.set(Some(state));
    let number = (state ^ (state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let number = (number ^ (number >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    Some(number ^ (number >> 31))
}

#[cfg(not(feature = "testing"))]
fn seeded() -> Option<u64> {
    None
}

/// Something for each of some keys.
pub(crate) type KeyMap<T> = HashMap<Arc<[u8]>, T, Hashing>;

/// Hashes that nobody outside can foresee, like the standard library's.
#[derive(Clone)]
pub(crate) struct Hashing {
    salt: u64,
}

impl Default for Hashing {
    fn default() -> Self {
        Self { salt: number() }
    }
}

impl BuildHasher for Hashing {
    type Hasher = DefaultHasher;

    fn build_hasher(&self) -> DefaultHasher {
        let mut hasher = DefaultHasher::new();
        hasher.write_u64(self.salt);
        hasher
    }
}

#[cfg(all(test, feature = "testing"))]
mod tests {
    use super::*;

    fn drawn() -> (u64, Option<[u8; 16]>, u64) {
        (number(), identity(), Hashing::default().hash_one("a"))
    }

    #[test]
    fn the_same_seed_gives_the_same_chances() {
        let of = |number| {
            seed(Some(number));
            [drawn(), drawn()]
        };
        assert_eq!(of(1), of(1));
        assert_ne!(of(1), of(2));
        let [first, second] = of(1);
        assert_ne!(first, second);
        seed(None);
        assert_ne!(drawn(), drawn());
    }
}
