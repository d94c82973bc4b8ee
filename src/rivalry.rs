//! What was seen lately of other processes that want the same locks.

use std::hash::BuildHasher;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::time::Duration;

use tokio::time::Instant;

use crate::chance::Hashing;
use crate::core::Spread;

/// For how long something that was seen counts.
const LATELY: Duration = Duration::from_millis(250);

/// How soon after a release asking again is too soon, if others want the lock.
const TOO_SOON: Duration = Duration::from_millis(3);

/// Which resources other processes want too, as far as was seen lately: a table
/// of fixed size, by the hash of the key. Where two keys share a place, one may
/// be taken for contended that is not; asking for it then takes a pause longer.
pub(crate) struct Rivalry {
    /// Whether any rival was ever seen: until then, nothing is looked up.
    seen: AtomicBool,
    places: Vec<Seen>,
    origin: Instant,
    hasher: Hashing,
}

/// What was seen. The times are in microseconds from 1; 0 if never.
#[derive(Default)]
struct Seen {
    /// Others had the lock, or have taken it.
    rival: AtomicU64,
    /// Others asked at the same time.
    collision: AtomicU64,
    /// This process released the lock.
    release: AtomicU64,
    /// The level of the [`Spread`].
    spread: AtomicU32,
}

impl Default for Rivalry {
    fn default() -> Self {
        Self {
            seen: AtomicBool::new(false),
            places: (0..256).map(|_| Seen::default()).collect(),
            origin: Instant::now(),
            hasher: Hashing::default(),
        }
    }
}

impl Rivalry {
    /// Another process has, or had, the lock.
    pub(crate) fn rival(&self, key: &[u8]) {
        self.seen.store(true, Ordering::Relaxed);
        self.stamp(&self.place(key).rival);
    }

    /// Another process asked for the lock at the same time.
    pub(crate) fn collided(&self, key: &[u8]) {
        self.seen.store(true, Ordering::Relaxed);
        self.stamp(&self.place(key).rival);
        self.stamp(&self.place(key).collision);
    }

    /// This process has released the lock.
    pub(crate) fn released(&self, key: &[u8]) {
        if self.has_rivals(key) {
            self.stamp(&self.place(key).release);
        }
    }

    pub(crate) fn has_rivals(&self, key: &[u8]) -> bool {
        self.any() && self.within(LATELY, &self.place(key).rival)
    }

    /// Whether several are likely to ask as soon as the lock is free.
    pub(crate) fn collides(&self, key: &[u8]) -> bool {
        self.any() && self.within(LATELY, &self.place(key).collision)
    }

    /// How eager this process is for the lock, when others hear of its release
    /// too. It outlives the wait: the next to wait meets the same others.
    pub(crate) fn spread(&self, key: &[u8]) -> Spread {
        Spread::at(self.place(key).spread.load(Ordering::Relaxed))
    }

    pub(crate) fn set_spread(&self, key: &[u8], spread: Spread) {
        self.place(key)
            .spread
            .store(spread.level(), Ordering::Relaxed);
    }

    /// Whether this process has had the lock just now, and others want it: then
    /// it is their turn.
    pub(crate) fn owes_others_a_turn(&self, key: &[u8]) -> bool {
        self.has_rivals(key) && self.within(TOO_SOON, &self.place(key).release)
    }

    fn any(&self) -> bool {
        self.seen.load(Ordering::Relaxed)
    }

    fn stamp(&self, time: &AtomicU64) {
        time.store(self.now(), Ordering::Relaxed);
    }

    fn within(&self, span: Duration, time: &AtomicU64) -> bool {
        let time = time.load(Ordering::Relaxed);
        time != 0 && self.now().saturating_sub(time) < span.as_micros() as u64
    }

    fn now(&self) -> u64 {
        self.origin.elapsed().as_micros() as u64 + 1
    }

    fn place(&self, key: &[u8]) -> &Seen {
        &self.places[self.hasher.hash_one(key) as usize % self.places.len()]
    }
}
