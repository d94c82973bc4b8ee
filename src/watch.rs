//! The locks whose holders want to hear of it when masters lose the key.

use std::mem;
use std::sync::{Arc, Mutex, MutexGuard, Weak};

use tokio::sync::Notify;

use crate::chance::KeyMap;
use crate::core::MasterSet;
use crate::master::Listener;

/// All locks that are watched.
#[derive(Default)]
pub(crate) struct Watches {
    /// A key has several for a moment, when it is taken again after a loss.
    all: Mutex<KeyMap<Vec<Weak<Suspects>>>>,
}

/// One lock that is watched, until this is dropped.
pub(crate) struct Watch {
    watches: Arc<Watches>,
    key: Arc<[u8]>,
    suspects: Arc<Suspects>,
}

/// What is known of the masters of one lock.
#[derive(Default)]
struct Suspects {
    known: Mutex<Known>,
    news: Notify,
}

#[derive(Default)]
struct Known {
    /// Those that may not have the token any more, or have not been asked.
    suspects: MasterSet,
    /// Those that didn't have it when they were last asked.
    gone: MasterSet,
}

/// A check of the suspects: they stay it until they have
/// [answered](Self::answered).
pub(crate) struct Check<'a> {
    watch: &'a Watch,
    suspects: MasterSet,
}

impl Watches {
    /// Watches a key. These masters have not been asked yet.
    pub(crate) fn begin(self: &Arc<Self>, key: &Arc<[u8]>, suspects: MasterSet) -> Watch {
        let known = Known {
            suspects,
            gone: MasterSet::EMPTY,
        };
        let suspects = Arc::new(Suspects {
            known: Mutex::new(known),
            ..Suspects::default()
        });
        let mut all = lock(&self.all);
        let watching = all
            .entry(key.clone())
            .or_insert_with(|| Vec::with_capacity(1));
        watching.push(Arc::downgrade(&suspects));
        drop(all);
        Watch {
            watches: self.clone(),
            key: key.clone(),
            suspects,
        }
    }
}

impl Listener for Watches {
    fn changed(&self, master: usize, key: &[u8]) {
        for suspects in lock(&self.all).get(key).into_iter().flatten() {
            suspect(suspects, master);
        }
    }

    fn all_changed(&self, master: usize) {
        for suspects in lock(&self.all).values().flatten() {
            suspect(suspects, master);
        }
    }
}

fn suspect(suspects: &Weak<Suspects>, master: usize) {
    if let Some(suspects) = suspects.upgrade() {
        let mut one = MasterSet::EMPTY;
        one.insert(master);
        suspects.add(one);
    }
}

impl Suspects {
    fn add(&self, masters: MasterSet) {
        let mut known = lock(&self.known);
        known.suspects = known.suspects.union(masters);
        drop(known);
        self.news.notify_waiters();
    }
}

impl Watch {
    /// Waits until there are suspects.
    pub(crate) async fn until_suspect(&self) {
        loop {
            let news = self.suspects.news.notified();
            if self.is_suspect() {
                return;
            }
            news.await;
        }
    }

    pub(crate) fn is_suspect(&self) -> bool {
        !lock(&self.suspects.known).suspects.is_empty()
    }

    /// These may not have the token, or don't tell of it.
    pub(crate) fn suspect(&self, masters: MasterSet) {
        if !masters.is_empty() {
            self.suspects.add(masters);
        }
    }

    /// Begins to check the suspects, if there are any that nobody checks.
    pub(crate) fn check(&self) -> Option<Check<'_>> {
        let suspects = mem::take(&mut lock(&self.suspects.known).suspects);
        (!suspects.is_empty()).then_some(Check {
            watch: self,
            suspects,
        })
    }
}

impl Check<'_> {
    pub(crate) fn suspects(&self) -> MasterSet {
        self.suspects
    }

    /// These of them have the token, those don't; others did not answer. Gives
    /// the masters of the lock that are known not to have it.
    pub(crate) fn answered(mut self, have: MasterSet, have_not: MasterSet) -> MasterSet {
        self.suspects = MasterSet::EMPTY;
        let mut known = lock(&self.watch.suspects.known);
        known.gone = known.gone.without(have).union(have_not);
        known.gone
    }
}

impl Drop for Check<'_> {
    fn drop(&mut self) {
        self.watch.suspect(self.suspects);
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        let mut all = lock(&self.watches.all);
        if let Some(watching) = all.get_mut(&self.key) {
            watching.retain(|other| !std::ptr::eq(other.as_ptr(), &*self.suspects));
            if watching.is_empty() {
                all.remove(&self.key);
            }
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex
        .lock()
        .unwrap_or_else(|poisoned| poisoned.into_inner())
}
