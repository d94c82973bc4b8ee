//! Which locks the tasks of this process ask for or have: who comes next need not
//! ask the masters in order to learn it, nor split their votes with its own kind.

use std::hash::BuildHasher;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::chance::Hashing;

/// A table of fixed size, by the hash of the key. A lock whose place another has is
/// not noted: then it is asked for as if nobody here had it.
pub(crate) struct Holdings {
    /// The hash of the lock that is noted there, and what is done with it; 0 if none.
    places: Box<[AtomicU64]>,
    hasher: Hashing,
}

const PLACES: usize = 1024;

/// The lowest bits of a place that is used.
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

impl Default for Holdings {
    fn default() -> Self {
        Self {
            places: (0..PLACES).map(|_| AtomicU64::new(0)).collect(),
            hasher: Hashing::default(),
        }
    }
}

impl Holdings {
    /// Notes that a task asks for the lock, if none does or has it.
    pub(crate) fn ask(self: &Arc<Self>, key: &[u8]) -> Noted {
        let (place, hash) = self.find(key);
        match self.enter(place, hash | ASKED) {
            Ok(holding) => Noted::First(Some(holding)),
            Err(other) if other & !USE == hash => Noted::Others,
            Err(_) => Noted::First(None),
        }
    }

    /// Notes that a task has the lock.
    pub(crate) fn hold(self: &Arc<Self>, key: &[u8]) -> Option<Holding> {
        let (place, hash) = self.find(key);
        self.enter(place, hash | HELD).ok()
    }

    /// Whether a task is known to have the lock.
    pub(crate) fn has(&self, key: &[u8]) -> bool {
        let (place, hash) = self.find(key);
        self.places[place].load(Ordering::Acquire) == hash | HELD
    }

    fn enter(self: &Arc<Self>, place: usize, mark: u64) -> Result<Holding, u64> {
        let (order, on_failure) = (Ordering::AcqRel, Ordering::Acquire);
        self.places[place].compare_exchange(0, mark, order, on_failure)?;
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
    /// The lock that was asked for was granted.
    pub(crate) fn is_granted(&self) {
        self.holdings.places[self.place].fetch_or(HELD, Ordering::Release);
    }
}

impl Drop for Holding {
    fn drop(&mut self) {
        self.holdings.places[self.place].store(0, Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lock_is_noted_once_for_as_long_as_it_is_asked_for_or_held() {
        let holdings = Arc::new(Holdings::default());
        let Noted::First(Some(holding)) = holdings.ask(b"a") else {
            panic!("it is the first");
        };
        assert!(!holdings.has(b"a"));
        assert!(matches!(holdings.ask(b"a"), Noted::Others));
        assert!(holdings.hold(b"a").is_none());
        holding.is_granted();
        assert!(holdings.has(b"a"));
        assert!(matches!(holdings.ask(b"a"), Noted::Others));
        drop(holding);
        assert!(!holdings.has(b"a"));
        let holding = holdings.hold(b"a").unwrap();
        assert!(holdings.has(b"a"));
        drop(holding);
        assert!(matches!(holdings.ask(b"a"), Noted::First(Some(_))));
    }

    #[test]
    fn a_lock_is_never_taken_for_another() {
        let holdings = Arc::new(Holdings::default());
        let keys: Vec<_> = (0..10 * PLACES).map(|key| key.to_le_bytes()).collect();
        let held: Vec<_> = keys.iter().map(|key| holdings.hold(key)).collect();
        for (key, holding) in keys.iter().zip(&held) {
            assert_eq!(holdings.has(key), holding.is_some());
            let expected = holding.is_some();
            assert_eq!(matches!(holdings.ask(key), Noted::Others), expected);
        }
        assert!(held.iter().flatten().count() > PLACES / 2);
        drop(held);
        assert!(keys.iter().all(|key| !holdings.has(key)));
    }
}
