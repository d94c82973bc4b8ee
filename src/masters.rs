//! The masters, and what all locks on them have in common.

use std::sync::Arc;

use tokio::sync::watch;

use crate::clock::Clock;
use crate::core::{MasterSet, lead};
use crate::gate::Gates;
use crate::holdings::Holdings;
use crate::master::{Listener, Master};
use crate::settings::Settings;
use crate::timers::Timers;
use crate::watch::Watches;

pub(crate) struct Masters {
    pub(crate) all: Vec<Arc<dyn Master>>,
    pub(crate) settings: Settings,
    pub(crate) clock: Clock,
    pub(crate) timers: Timers,
    /// Where those wait who want a lock that another has.
    pub(crate) gates: Arc<Gates>,
    /// The locks that tasks of this process ask for or have.
    pub(crate) holdings: Arc<Holdings>,
    /// The locks whose holders hear of it when masters lose the key.
    pub(crate) watches: Arc<Watches>,
    /// How many releases go on in the background.
    unsettled: watch::Sender<usize>,
}

/// Those who hear what masters tell.
#[derive(Clone, Default)]
pub(crate) struct Listeners {
    gates: Arc<Gates>,
    watches: Arc<Watches>,
}

impl Listener for Listeners {
    fn changed(&self, master: usize, key: &[u8]) {
        self.gates.changed(master, key);
        self.watches.changed(master, key);
    }

    fn all_changed(&self, master: usize) {
        self.gates.all_changed(master);
        self.watches.all_changed(master);
    }
}

impl Masters {
    pub(crate) fn new(
        all: Vec<Arc<dyn Master>>,
        settings: Settings,
        clock: Clock,
        listeners: &Listeners,
    ) -> Self {
        Self {
            all,
            settings,
            clock,
            timers: Timers::of(clock),
            gates: listeners.gates.clone(),
            holdings: Arc::default(),
            watches: listeners.watches.clone(),
            unsettled: watch::Sender::new(0),
        }
    }

    /// Counts a release that goes on in the background, until this is dropped.
    pub(crate) fn unsettled(self: &Arc<Self>) -> Unsettled {
        self.unsettled.send_modify(|count| *count += 1);
        Unsettled(self.clone())
    }

    /// Waits until no release goes on in the background.
    pub(crate) async fn settled(&self) {
        let mut unsettled = self.unsettled.subscribe();
        // The sender lives as long as `self`.
        let _ = unsettled.wait_for(|count| *count == 0).await;
    }

    /// The masters that tell of changes.
    pub(crate) fn telling(&self) -> MasterSet {
        self.select(|master| master.tells().is_some())
    }

    fn select(&self, wanted: impl Fn(&dyn Master) -> bool) -> MasterSet {
        let mut set = MasterSet::EMPTY;
        for (index, master) in self.all.iter().enumerate() {
            if wanted(&**master) {
                set.insert(index);
            }
        }
        set
    }

    /// The master that all who contend for the key ask first, if a quorum of
    /// masters tells of changes.
    pub(crate) fn lead(&self, key: &[u8]) -> Option<usize> {
        let all = self.all.iter().enumerate();
        let telling = all.filter(|(_, master)| !master.is_barred());
        let telling = telling.filter_map(|(index, master)| Some((index, master.tells()?)));
        match self.tell() {
            true => lead(telling, key),
            false => None,
        }
    }

    /// Whether a quorum of masters tells of locks that may be had.
    pub(crate) fn tell(&self) -> bool {
        let telling = self.select(|master| master.tells().is_some() && !master.is_barred());
        self.settings.quorum.is_met_by(telling.len())
    }

    /// The key of a resource.
    pub(crate) fn key(&self, resource: &Arc<[u8]>) -> Arc<[u8]> {
        match &*self.settings.key_prefix {
            [] => resource.clone(),
            prefix => [prefix, resource].concat().into(),
        }
    }
}

/// A release that goes on in the background.
pub(crate) struct Unsettled(Arc<Masters>);

impl Drop for Unsettled {
    fn drop(&mut self) {
        self.0.unsettled.send_modify(|count| *count -= 1);
    }
}
