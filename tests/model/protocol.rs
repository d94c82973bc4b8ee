//! The model: what can happen next in a state.

use std::fmt;
use std::sync::atomic::{AtomicU32, Ordering};

use stateright::{Model, Property};

use super::ballot::Ballot;
use super::client::Phase;
use super::count::Count;
use super::event::{Event, Events};
use super::link::{Answer, Voted};
use super::promise::Promise;
use super::setting::Setting;
use super::step::Step;
use super::world::World;

pub(crate) struct Protocol<const N: usize> {
    pub(crate) setting: Setting,
    pub(crate) ballot: Ballot,
    /// The events that were shown already: one example of each is enough.
    shown: AtomicU32,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Action {
    /// A tick passes everywhere.
    Tick,
    Begin {
        client: usize,
    },
    Execute {
        client: usize,
        master: usize,
        index: usize,
    },
    ExecuteStray {
        client: usize,
        master: usize,
    },
    Hear {
        client: usize,
        master: usize,
    },
    TimeOut {
        client: usize,
    },
    Abandon {
        client: usize,
    },
    Extend {
        client: usize,
    },
    Reseed {
        client: usize,
    },
    Release {
        client: usize,
    },
    Crash {
        master: usize,
    },
    Revert {
        master: usize,
        to: Count,
        keeps_key: bool,
    },
    Reconnect {
        client: usize,
        master: usize,
    },
    Jump {
        master: usize,
    },
}

impl<const N: usize> Protocol<N> {
    pub(crate) fn new(setting: Setting) -> Self {
        Self {
            ballot: Ballot::new(N, &setting),
            setting,
            shown: AtomicU32::new(0),
        }
    }

    /// Whether a step from this state shows an event that was not shown yet.
    pub(crate) fn shows(&self, world: &World<N>, event: Event) -> bool {
        let bit = 1 << event as u32;
        if self.shown.load(Ordering::Relaxed) & bit != 0 {
            return false;
        }
        let mut actions = Vec::new();
        self.actions(world, &mut actions);
        let found = actions
            .into_iter()
            .any(|action| self.step(world, action).1.has(event));
        found && self.shown.fetch_or(bit, Ordering::Relaxed) & bit == 0
    }

    pub(crate) fn step(&self, world: &World<N>, action: Action) -> (World<N>, Events) {
        let mut step = Step::new(self, world);
        match action {
            Action::Tick => step.tick(),
            Action::Begin { client } => step.begin(client),
            Action::Execute {
                client,
                master,
                index,
            } => step.execute(client, master, index),
            Action::ExecuteStray { client, master } => step.execute_stray(client, master),
            Action::Hear { client, master } => step.hear(client, master),
            Action::TimeOut { client } => step.time_out(client),
            Action::Abandon { client } => {
                step.shows(Event::Abandoned);
                step.give_up(client);
            }
            Action::Extend { client } => step.extend(client),
            Action::Reseed { client } => step.reseed(client),
            Action::Release { client } => step.release(client),
            Action::Crash { master } => step.crash(master),
            Action::Revert {
                master,
                to,
                keeps_key,
            } => step.revert(master, to, keeps_key),
            Action::Reconnect { client, master } => step.reconnect(client, master),
            Action::Jump { master } => step.jump(master),
        }
        step.end()
    }

    /// Only the order of the tokens matters, and nobody will get one any more.
    fn is_over(&self, world: &World<N>) -> bool {
        let mut clients = world.clients.iter().zip(self.setting.rounds);
        self.setting.is_about_tokens() && !clients.any(|(client, rounds)| client.may_win(rounds))
    }

    /// Of masters that are alike, one is enough: what follows is the same. They
    /// are side by side.
    fn distinct_masters(&self, world: &World<N>) -> impl Iterator<Item = usize> {
        let is_alike = |master: usize| {
            self.setting.symmetry
                && master > 0
                && world.columns[master] == world.columns[master - 1]
        };
        (0..N).filter(move |master| !is_alike(*master))
    }

    fn client_actions(&self, world: &World<N>, client: usize, actions: &mut Vec<Action>) {
        let me = &world.clients[client];
        match me.phase {
            Phase::Idle if me.round < self.setting.rounds[client] => {
                actions.push(Action::Begin { client });
            }
            Phase::Idle => {}
            Phase::Taking { .. } | Phase::Fencing { .. } => {
                actions.extend([Action::TimeOut { client }, Action::Abandon { client }]);
            }
            Phase::Held { left, reseeding } => {
                actions.push(Action::Release { client });
                if left > 0 && me.extension < self.setting.extensions[client] {
                    actions.push(Action::Extend { client });
                }
                let lost =
                    |master: usize| world.columns[master].links[client].has_counted(Voted::No);
                if left > 0 && reseeding && (0..N).any(lost) {
                    actions.push(Action::Reseed { client });
                }
            }
            Phase::Extending { .. } => {
                actions.extend([Action::Release { client }, Action::TimeOut { client }]);
            }
            Phase::Releasing { .. } => actions.push(Action::TimeOut { client }),
        }
    }

    fn link_actions(
        &self,
        world: &World<N>,
        client: usize,
        master: usize,
        actions: &mut Vec<Action>,
    ) {
        let link = &world.columns[master].links[client];
        let in_reach = match self.ballot.in_order {
            true => usize::from(!link.requests.is_empty()),
            false => link.requests.len(),
        };
        actions.extend((0..in_reach).map(|index| Action::Execute {
            client,
            master,
            index,
        }));
        if link.may_stray() {
            actions.push(Action::ExecuteStray { client, master });
        }
        let answers = matches!(link.answer, Answer::Sent(_));
        if answers {
            actions.push(Action::Hear { client, master });
        }
        let carries = answers || !link.requests.is_empty();
        if world.faults.reconnects > 0 && carries && !link.may_stray() {
            actions.push(Action::Reconnect { client, master });
        }
    }

    fn master_actions(&self, world: &World<N>, master: usize, actions: &mut Vec<Action>) {
        let this = &world.columns[master].master;
        if world.faults.crashes > 0 {
            actions.push(Action::Crash { master });
        }
        if world.faults.reverts > 0 {
            self.reverts(world, master, actions);
        }
        if world.faults.jumps > 0 && !this.jumped && this.key.is_some() {
            actions.push(Action::Jump { master });
        }
    }
}

impl<const N: usize> Protocol<N> {
    fn reverts(&self, world: &World<N>, master: usize, actions: &mut Vec<Action>) {
        let has_key = world.columns[master].master.key.is_some();
        for to in world.older_counts(master) {
            for keeps_key in [false, true].into_iter().take(1 + usize::from(has_key)) {
                actions.push(Action::Revert {
                    master,
                    to,
                    keeps_key,
                });
            }
        }
    }
}

impl<const N: usize> Model for Protocol<N> {
    type State = World<N>;
    type Action = Action;

    fn init_states(&self) -> Vec<World<N>> {
        World::all_new(&self.setting)
    }

    fn actions(&self, world: &World<N>, actions: &mut Vec<Action>) {
        if world.broken.is_some() || self.is_over(world) {
            return;
        }
        actions.push(Action::Tick);
        for client in 0..2 {
            self.client_actions(world, client, actions);
        }
        for master in self.distinct_masters(world) {
            for client in 0..2 {
                self.link_actions(world, client, master, actions);
            }
            self.master_actions(world, master, actions);
        }
    }

    fn next_state(&self, world: &World<N>, action: Action) -> Option<World<N>> {
        Some(self.step(world, action).0)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        let mut properties = vec![
            always(Promise::OneHolder, |_, world| {
                kept(world, Promise::OneHolder)
            }),
            always(Promise::OnQuorum, |_, world| kept(world, Promise::OnQuorum)),
            always(Promise::NothingAfterRelease, |_, world| {
                kept(world, Promise::NothingAfterRelease)
            }),
            always(Promise::NoOrphan, |_, world| kept(world, Promise::NoOrphan)),
            always(Promise::ReleaseToldRight, |_, world| {
                kept(world, Promise::ReleaseToldRight)
            }),
            always(Promise::TokensIncrease, |_, world| {
                kept(world, Promise::TokensIncrease)
            }),
            always(Promise::TokensDiffer, |_, world| {
                kept(world, Promise::TokensDiffer)
            }),
        ];
        let sometimes = |event: &Event| Property::sometimes(event.name(), event.condition());
        properties.extend(self.setting.expects.iter().map(sometimes));
        properties
    }
}

fn always<const N: usize>(
    promise: Promise,
    condition: fn(&Protocol<N>, &World<N>) -> bool,
) -> Property<Protocol<N>> {
    Property::always(promise.name(), condition)
}

fn kept<const N: usize>(world: &World<N>, promise: Promise) -> bool {
    world.broken != Some(promise)
}

impl fmt::Debug for Action {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = |client: usize| ["A", "B"][client];
        match *self {
            Action::Tick => write!(f, "a tick"),
            Action::Begin { client } => write!(f, "{} begins a round", name(client)),
            Action::Execute {
                client,
                master,
                index: 0,
            } => write!(f, "m{master} executes {}'s request", name(client)),
            Action::Execute {
                client,
                master,
                index,
            } => write!(
                f,
                "m{master} executes {}'s request, {index} too soon",
                name(client)
            ),
            Action::ExecuteStray { client, master } => {
                write!(f, "m{master} executes a stray request of {}", name(client))
            }
            Action::Hear { client, master } => write!(f, "{} hears m{master}", name(client)),
            Action::TimeOut { client } => write!(f, "{} waits no longer", name(client)),
            Action::Abandon { client } => write!(f, "{} abandons its round", name(client)),
            Action::Extend { client } => write!(f, "{} begins an extension", name(client)),
            Action::Reseed { client } => write!(f, "{} gives the key back", name(client)),
            Action::Release { client } => write!(f, "{} releases", name(client)),
            Action::Crash { master } => write!(f, "m{master} restarts without its memory"),
            Action::Revert {
                master, keeps_key, ..
            } => {
                let key = if keeps_key {
                    "and its key"
                } else {
                    "without its key"
                };
                write!(f, "m{master} restarts with an older counter {key}")
            }
            Action::Reconnect { client, master } => {
                write!(f, "{} connects to m{master} anew", name(client))
            }
            Action::Jump { master } => write!(f, "the clock of m{master} jumps a tick ahead"),
        }
    }
}
