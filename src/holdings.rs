//! Which locks the tasks of this process ask for or have: who comes next need not
//! ask the masters in order to learn it, nor split their votes with its own kind.

use std::hash::BuildHasher;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::chance::Hashing;
use crate::core::Moment;

/// A table of fixed size, by the hash of the key. A lock whose place another has is
/// not noted: then it is asked for as if nobody here had it.
pub(crate) struct Holdings {
    places: Box<[Place]>,
    hasher: Hashing,
}

#[derive(Default)]
struct Place {
    /// The hash of the lock that is noted here, and what is done with it; 0 if none.
    mark: AtomicU64,
    /// Until when it is held, in microseconds: a guard may outlive its lease.
    until: AtomicU64,
}

const PLACES: usize = 1024;

/// The lowest bits of a mark.
const ASKED: u64 = 0b10;
const HELD: u64 = 0b11;
const USE: u64 = 0b11;

/// A lock that is noted until this is dropped.
pub(crate) struct Holding {
    holdings: Arc<Holdings>,
    place: usize,
}

/// What was found when a lock was to be noted.
pub(crate) enum Noted {
    /// Nobody here asks for it or has it, as far as is known.
    First(Option<Holding>),
    /// Somebody does.
    Others,
}

impl Noted {
    pub(crate) fn holding(self) -> Option<Holding> {
        match self {
            Noted::First(holding) => holding,
            Noted::Others => None,
        }
    }
}

impl Default for Holdings {
    fn default() -> Self {
        Self {
            places: (0..PLACES).map(|_| Place::default()).collect(),
            hasher: Hashing::default(),
        }
    }
}

impl Holdings {
    /// Notes that a task asks for the lock, if none does or has it.
    pub(crate) fn ask(self: &Arc<Self>, key: &[u8], now: impl FnOnce() -> Moment) -> Noted {
        let (place, hash) = self.find(key);
        match self.enter(place, hash | ASKED) {
            Ok(holding) => Noted::First(Some(holding)),
            Err(other) if other == hash | ASKED => Noted::Others,
            Err(other) if other == hash | HELD && self.places[place].stands(now()) => Noted::Others,
            Err(_) => Noted::First(None),
        }
    }

    /// Notes that a task has the lock, until then.
    pub(crate) fn hold(self: &Arc<Self>, key: &[u8], until: Moment) -> Option<Holding> {
        let (place, hash) = self.find(key);
        let holding = self.enter(place, hash | HELD).ok()?;
        holding.is_held_until(until);
        Some(holding)
    }

    /// Whether a task is known to have the lock.
    pub(crate) fn has(&self, key: &[u8], now: Moment) -> bool {
        let (place, hash) = self.find(key);
        let place = &self.places[place];
        place.mark.load(Ordering::Acquire) == hash | HELD && place.stands(now)
    }

    fn enter(self: &Arc<Self>, place: usize, mark: u64) -> Result<Holding, u64> {
        let (order, on_failure) = (Ordering::AcqRel, Ordering::Acquire);
        let place_mark = &self.places[place].mark;
        place_mark.compare_exchange(0, mark, order, on_failure)?;
        Ok(Holding {
            holdings: self.clone(),
            place,
        })
    }

    fn find(&self, key: &[u8]) -> (usize, u64) {
        let hash = self.hasher.hash_one(key);
        ((hash >> 32) as usize % PLACES, hash & !USE)
    }
}

impl Holding {
    /// The lock that was asked for was granted, or extended.
    pub(crate) fn is_held_until(&self, until: Moment) {
        let place = self.place();
        place.until.store(micros(until), Ordering::Relaxed);
        place.mark.fetch_or(HELD, Ordering::Release);
    }

    fn place(&self) -> &Place {
        &self.holdings.places[self.place]
    }
}

impl Place {
    fn stands(&self, now: Moment) -> bool {
        micros(now) < self.until.load(Ordering::Relaxed)
    }
}

fn micros(moment: Moment) -> u64 {
    let since_origin = moment.since(Moment::default()).as_micros();
    since_origin.try_into().unwrap_or(u64::MAX)
}

impl Drop for Holding {
    fn drop(&mut self) {
        self.place().mark.store(0, Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn at(secs: u64) -> Moment {
        Moment::from_origin(Duration::from_secs(secs))
    }

    fn asks(holdings: &Arc<Holdings>, key: &[u8]) -> Noted {
        holdings.ask(key, || at(1))
    }

    #[test]
    fn a_lock_is_noted_once_for_as_long_as_it_is_asked_for_or_held() {
        let holdings = Arc::new(Holdings::default());
        let Noted::First(Some(holding)) = asks(&holdings, b"a") else {
            panic!("it is the first");
        };
        assert!(!holdings.has(b"a", at(1)));
        assert!(matches!(asks(&holdings, b"a"), Noted::Others));
        assert!(holdings.hold(b"a", at(2)).is_none());
        holding.is_held_until(at(2));
        assert!(holdings.has(b"a", at(1)));
        assert!(matches!(asks(&holdings, b"a"), Noted::Others));
        drop(holding);
        assert!(!holdings.has(b"a", at(1)));
        let holding = holdings.hold(b"a", at(2)).unwrap();
        assert!(holdings.has(b"a", at(1)));
        drop(holding);
        assert!(matches!(asks(&holdings, b"a"), Noted::First(Some(_))));
    }

    #[test]
    fn a_guard_that_outlives_its_lease_does_not_count() {
        let holdings = Arc::new(Holdings::default());
        let holding = holdings.hold(b"a", at(2)).unwrap();
        let others = |now| matches!(holdings.ask(b"a", || at(now)), Noted::Others);
        assert!(others(1) && holdings.has(b"a", at(1)));
        assert!(!others(2) && !holdings.has(b"a", at(2)));
        holding.is_held_until(at(9));
        assert!(others(2) && holdings.has(b"a", at(2)));
    }

    #[test]
    fn a_lock_is_never_taken_for_another() {
        let holdings = Arc::new(Holdings::default());
        let keys: Vec<_> = (0..10 * PLACES).map(|key| key.to_le_bytes()).collect();
        let held: Vec<_> = keys.iter().map(|key| holdings.hold(key, at(2))).collect();
        for (key, holding) in keys.iter().zip(&held) {
            let expected = holding.is_some();
            assert_eq!(holdings.has(key, at(1)), expected);
            assert_eq!(matches!(asks(&holdings, key), Noted::Others), expected);
        }
        assert!(held.iter().flatten().count() > PLACES / 2);
        drop(held);
        assert!(keys.iter().all(|key| !holdings.has(key, at(1))));
    }
}
