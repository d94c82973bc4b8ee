//! The state: the masters, what is on its way to and from them, the clients,
//! and the faults that may still happen.

use std::collections::HashSet;
use std::mem;

use super::client::Client;
use super::count::Count;
use super::link::{Answer, Link};
use super::master::{Master, Token};
use super::promise::Promise;
use super::setting::Setting;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct World<const N: usize> {
    pub(crate) columns: [Column; N],
    pub(crate) clients: [Client; 2],
    pub(crate) faults: Faults,
    /// The fencing token of the last owner.
    pub(crate) last: Option<Count>,
    /// The first promise that was broken; then nothing else is left.
    pub(crate) broken: Option<Promise>,
}

/// A master and the connections to it. All masters are asked the same, so their
/// order means nothing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Column {
    pub(crate) master: Master,
    pub(crate) links: [Link; 2],
}

/// How many may still happen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Faults {
    pub(crate) crashes: u8,
    pub(crate) reverts: u8,
    pub(crate) reconnects: u8,
    pub(crate) jumps: u8,
}

impl<const N: usize> World<N> {
    pub(crate) fn new(setting: &Setting) -> Self {
        Self {
            columns: [Column::default(); N],
            clients: [Client::default(); 2],
            faults: Faults {
                crashes: setting.crashes,
                reverts: setting.reverts,
                reconnects: setting.reconnects,
                jumps: setting.jumps,
            },
            last: None,
            broken: None,
        }
    }

    /// All states that a setting can begin with: whatever the counters and clocks
    /// of the masters are.
    pub(crate) fn all_new(setting: &Setting) -> Vec<Self> {
        let mut all = vec![Self::new(setting)];
        for master in 0..N {
            let before = mem::take(&mut all);
            for begun in all_masters(setting) {
                all.extend(before.iter().map(|world| {
                    let mut world = *world;
                    world.columns[master].master = begun;
                    world
                }));
            }
        }
        for world in &mut all {
            world.compact_counts(setting.skew);
            if setting.symmetry {
                world.columns.sort_unstable();
            }
        }
        let mut seen = HashSet::new();
        all.retain(|world| seen.insert(*world));
        all
    }

    /// All that is left of a state that breaks a promise.
    pub(crate) fn breaking(promise: Promise) -> Self {
        Self {
            columns: [Column::default(); N],
            clients: [Client::default(); 2],
            faults: Faults::default(),
            last: None,
            broken: Some(promise),
        }
    }

    pub(crate) fn tick(&mut self, setting: &Setting) {
        for column in &mut self.columns {
            column.master.tick();
        }
        self.with_counts(Count::tick);
        for (index, client) in self.clients.iter_mut().enumerate() {
            client.tick(setting.enough(index));
        }
    }

    /// How many masters have this token, or had it and lost their memory since.
    pub(crate) fn had(&self, token: Token) -> usize {
        let client = usize::from(token.client);
        let had = |column: &&Column| column.master.holds(token) || column.links[client].forgot;
        self.columns.iter().filter(had).count()
    }

    /// How many masters have this token.
    pub(crate) fn have(&self, token: Token) -> usize {
        let have = |column: &&Column| column.master.holds(token);
        self.columns.iter().filter(have).count()
    }

    /// The client waits for no answer any more. Those on their way would change
    /// nothing, so they are gone.
    pub(crate) fn forget_answers(&mut self, client: usize) {
        for column in &mut self.columns {
            column.links[client].answer = Answer::None;
            column.links[client].count = None;
        }
    }
}

/// All that a master can begin with.
fn all_masters(setting: &Setting) -> impl Iterator<Item = Master> {
    let count = |begun: u8| Count::seeded(setting.skew + 1).after(begun);
    let life = |begun: Option<u8>| begun.map_or(0, |_| setting.counter_life);
    setting.counters.iter().flat_map(move |begun| {
        (0..=setting.skew).map(move |behind| Master {
            count: begun.map(count),
            count_left: life(*begun),
            behind,
            ..Master::default()
        })
    })
}
