//! The keys of a server, which live until a time on its own clock.

use std::collections::{BTreeMap, VecDeque};

/// How far back a server's past is kept, for restarts that lose the last of it.
const PAST: usize = 64;

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Entry {
    pub(crate) value: Vec<u8>,
    /// In milliseconds of the server's clock.
    pub(crate) expires: Option<u64>,
}

type Keys = BTreeMap<Vec<u8>, Entry>;

#[derive(Default)]
pub(crate) struct Store {
    keys: Keys,
    /// What there was before each change, and when that was.
    past: VecDeque<(u64, Keys)>,
}

impl Store {
    /// The entry of a key that has not expired. Like Redis, an entry lives until
    /// its time is over, not until it has come.
    pub(crate) fn get(&self, key: &[u8], now: u64) -> Option<&Entry> {
        let entry = self.keys.get(key)?;
        entry
            .expires
            .is_none_or(|expires| expires >= now)
            .then_some(entry)
    }

    pub(crate) fn set(&mut self, key: &[u8], entry: Entry, now: u64) {
        self.remember(now);
        self.keys.insert(key.to_vec(), entry);
    }

    pub(crate) fn remove(&mut self, key: &[u8], now: u64) -> bool {
        if !self.keys.contains_key(key) {
            return false;
        }
        self.remember(now);
        self.keys.remove(key).is_some()
    }

    /// Removes a key if its time is over; says whether it did.
    pub(crate) fn expire(&mut self, key: &[u8], now: u64) -> bool {
        let over = self.keys.contains_key(key) && self.get(key, now).is_none();
        over && self.keys.remove(key).is_some()
    }

    /// Removes all keys whose time is over.
    pub(crate) fn expire_all(&mut self, now: u64) -> Vec<Vec<u8>> {
        let all: Vec<Vec<u8>> = self.keys.keys().cloned().collect();
        all.into_iter()
            .filter(|key| self.expire(key, now))
            .collect()
    }

    pub(crate) fn living(&self, now: u64) -> impl Iterator<Item = (&Vec<u8>, &Entry)> {
        self.keys
            .iter()
            .filter(move |(key, _)| self.get(key, now).is_some())
    }

    pub(crate) fn clear(&mut self) {
        self.keys.clear();
        self.past.clear();
    }

    /// Goes back to what there was at this time: the tail is lost.
    pub(crate) fn go_back_to(&mut self, then: u64) {
        while let Some((changed, before)) = self.past.pop_back() {
            if changed < then {
                break;
            }
            self.keys = before;
        }
        self.past.clear();
    }

    fn remember(&mut self, now: u64) {
        if self.past.len() == PAST {
            self.past.pop_front();
        }
        self.past.push_back((now, self.keys.clone()));
    }
}
