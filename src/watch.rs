//! The locks whose holders want to hear of it when masters lose the key.

use std::sync::{Arc, Mutex, Weak};

use tokio::sync::Notify;

use crate::chance::KeyMap;
use crate::core::MasterSet;
use crate::lock::lock;
use crate::master::Listener;

/// Those who watch one key: several for a moment, when it is taken again after a
/// loss.
type Watching = Vec<Weak<Suspects>>;

/// All locks that are watched.
#[derive(Default)]
pub(crate) struct Watches {
    all: Mutex<KeyMap<Watching>>,
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
    /// Those that are being asked. None is asked twice at a time, since the older
    /// answer could be read last.
    asked: MasterSet,
    /// Those that didn't have it when they were last asked.
    gone: MasterSet,
}

/// A check of suspects: they stay it unless they have [answered](Self::answered).
pub(crate) struct Check<'a> {
    watch: &'a Watch,
    asked: MasterSet,
    answered: bool,
}

impl Watches {
    /// Watches a key. These masters have not been asked yet.
    pub(crate) fn begin(self: &Arc<Self>, key: &Arc<[u8]>, suspects: MasterSet) -> Watch {
        let known = Known {
            suspects,
            ..Known::default()
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
        !lock(&self.suspects.known).to_be_asked().is_empty()
    }

    /// These may not have the token, or don't tell of it.
    pub(crate) fn suspect(&self, masters: MasterSet) {
        if !masters.is_empty() {
            self.suspects.add(masters);
        }
    }

    /// Begins to check the suspects, if there are any that nobody checks.
    pub(crate) fn check(&self) -> Option<Check<'_>> {
        let mut known = lock(&self.suspects.known);
        let asked = known.to_be_asked();
        known.suspects = known.suspects.without(asked);
        known.asked = known.asked.union(asked);
        drop(known);
        if asked.is_empty() {
            return None;
        }
        Some(Check {
            watch: self,
            asked,
            answered: false,
        })
    }
}

impl Known {
    fn to_be_asked(&self) -> MasterSet {
        self.suspects.without(self.asked)
    }
}

impl Check<'_> {
    pub(crate) fn suspects(&self) -> MasterSet {
        self.asked
    }

    /// These of them have the token, those don't; others did not answer. Gives
    /// the masters of the lock that are known not to have it.
    pub(crate) fn answered(mut self, have: MasterSet, have_not: MasterSet) -> MasterSet {
        self.answered = true;
        let mut known = lock(&self.watch.suspects.known);
        known.gone = known.gone.without(have).union(have_not);
        known.gone
    }
}

impl Drop for Check<'_> {
    fn drop(&mut self) {
        let suspects = &self.watch.suspects;
        let mut known = lock(&suspects.known);
        known.asked = known.asked.without(self.asked);
        if !self.answered {
            known.suspects = known.suspects.union(self.asked);
        }
        let more = !known.to_be_asked().is_empty();
        drop(known);
        if more {
            suspects.news.notify_waiters();
        }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_kept_of_a_key_that_is_watched_no_more() {
        let watches = Arc::new(Watches::default());
        let all = MasterSet::first(3);
        for key in 0..100_u8 {
            let key: Arc<[u8]> = [key].as_slice().into();
            let first = watches.begin(&key, all);
            let second = watches.begin(&key, MasterSet::EMPTY);
            drop(first);
            assert!(!second.is_suspect());
            watches.changed(1, &key);
            assert!(second.is_suspect(), "it is watched still");
        }
        assert!(lock(&watches.all).is_empty());
    }

    #[test]
    fn a_master_that_tells_of_a_change_while_it_is_asked_is_asked_again() {
        let watches = Arc::new(Watches::default());
        let key: Arc<[u8]> = b"a".as_slice().into();
        let watch = watches.begin(&key, MasterSet::first(3));
        let first = watch.check().unwrap();
        watches.changed(0, &key);
        assert!(watch.check().is_none(), "it would be asked twice at a time");
        let gone = first.answered(MasterSet::first(3), MasterSet::EMPTY);
        assert!(gone.is_empty());
        let second = watch.check().unwrap();
        assert_eq!(second.suspects(), MasterSet::first(1));
        drop(second);
        let third = watch.check().unwrap();
        assert_eq!(third.suspects(), MasterSet::first(1), "it did not answer");
        assert_eq!(
            third.answered(MasterSet::EMPTY, MasterSet::first(1)).len(),
            1
        );
        assert!(watch.check().is_none());
    }
}
