use std::mem;
use std::sync::{Arc, Mutex, MutexGuard};

use tokio::time::Instant;

use crate::token::Token;

/// A release that a master has not confirmed.
#[derive(Clone)]
pub(crate) struct Owed {
    pub(crate) key: Arc<[u8]>,
    pub(crate) token: Token,
    /// When the key has expired by itself, if it was set when it was asked for;
    /// `None` if that is farther away than the clock goes.
    pub(crate) until: Option<Instant>,
}

impl Owed {
    pub(crate) fn is_expired(&self, now: Instant) -> bool {
        self.until.is_some_and(|until| until <= now)
    }
}

/// The releases that one master has not confirmed.
///
/// They are kept for as long as the master can't be reached, whatever their
/// age: a command that waits in a stopped server's buffer is applied when the
/// server goes on, and lives for its TTL from then. Nothing more is asked of
/// such a master, so there are never more of them than locks were under way
/// when it was lost.
#[derive(Default)]
pub(crate) struct OwedReleases(Mutex<Lists>);

#[derive(Default)]
struct Lists {
    /// Those that were not repeated yet.
    fresh: Vec<Owed>,
    /// Those that were, in vain.
    tried: Vec<Owed>,
}

impl OwedReleases {
    pub(crate) fn push(&self, owed: Owed) {
        self.lock().fresh.push(owed);
    }

    /// All of them, to be settled. Those that are not come back when this is
    /// dropped, be it in the middle.
    pub(crate) fn take(&self) -> Taken<'_> {
        let mut taken = self.take_fresh();
        taken.list.append(&mut self.lock().tried);
        taken
    }

    /// Those that were not taken before.
    pub(crate) fn take_fresh(&self) -> Taken<'_> {
        Taken {
            list: mem::take(&mut self.lock().fresh),
            from: self,
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        let lists = self.lock();
        lists.fresh.is_empty() && lists.tried.is_empty()
    }

    /// Whether all of them have expired by themselves.
    pub(crate) fn are_expired(&self) -> bool {
        let now = Instant::now();
        let lists = self.lock();
        let mut all = lists.fresh.iter().chain(&lists.tried);
        all.all(|owed| owed.is_expired(now))
    }

    fn lock(&self) -> MutexGuard<'_, Lists> {
        self.0
            .lock()
            .unwrap_or_else(|poisoned| poisoned.into_inner())
    }
}

/// Owed releases that are being repeated.
pub(crate) struct Taken<'a> {
    pub(crate) list: Vec<Owed>,
    from: &'a OwedReleases,
}

impl Drop for Taken<'_> {
    fn drop(&mut self) {
        self.from.lock().tried.append(&mut self.list);
    }
}
