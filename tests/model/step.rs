//! One step under way: the state that it changes, and what it shows.

use super::ballot::Ballot;
use super::event::{Event, Events};
use super::link::Link;
use super::master::Token;
use super::promise::Promise;
use super::protocol::Protocol;
use super::request::{Kind, Request};
use super::setting::Setting;
use super::world::World;

pub(crate) struct Step<'a, const N: usize> {
    pub(crate) setting: &'a Setting,
    pub(crate) ballot: &'a Ballot,
    pub(crate) world: World<N>,
    pub(crate) events: Events,
}

impl<'a, const N: usize> Step<'a, N> {
    pub(crate) fn new(protocol: &'a Protocol<N>, world: &World<N>) -> Self {
        Self {
            setting: &protocol.setting,
            ballot: &protocol.ballot,
            world: *world,
            events: Events::default(),
        }
    }

    /// Ends the step: the state that follows.
    pub(crate) fn end(mut self) -> (World<N>, Events) {
        self.check_holders();
        self.check_orphans();
        if let Some(promise) = self.world.broken {
            return (World::breaking(promise), self.events);
        }
        self.drop_idle_requests();
        if self.setting.fenced {
            self.forget_fences();
            self.forget_what_nobody_looks_at();
            self.world.compact_counts(self.setting.skew);
        }
        if self.setting.symmetry {
            self.world.columns.sort_unstable();
        }
        (self.world, self.events)
    }

    pub(crate) fn token(&self, client: usize, round: u8) -> Token {
        Token {
            client: client as u8,
            round: if self.ballot.one_token { 1 } else { round },
        }
    }

    pub(crate) fn own_token(&self, client: usize) -> Token {
        self.token(client, self.world.clients[client].round)
    }

    pub(crate) fn link(&mut self, client: usize, master: usize) -> &mut Link {
        &mut self.world.columns[master].links[client]
    }

    pub(crate) fn send_to_all(&mut self, client: usize, request: Request) {
        for column in &mut self.world.columns {
            column.links[client].requests.push(request);
        }
    }

    pub(crate) fn shows(&mut self, event: Event) {
        self.events.add(event);
    }

    /// Breaks a promise, if it is one of those that must hold here.
    pub(crate) fn breaks(&mut self, promise: Promise) {
        if self.world.broken.is_none() && self.setting.promises.contains(&promise) {
            self.world.broken = Some(promise);
        }
    }

    fn check_holders(&mut self) {
        if self
            .world
            .clients
            .iter()
            .all(|client| client.validity() > 0)
        {
            self.breaks(Promise::OneHolder);
        }
    }

    fn check_orphans(&mut self) {
        for master in 0..N {
            let Some(key) = self.world.columns[master].master.key else {
                continue;
            };
            let owner = usize::from(key.token.client);
            let is_cared_for =
                self.world.clients[owner].cares() && self.own_token(owner) == key.token;
            let link = self.world.columns[master].links[owner];
            if !is_cared_for && !link.will_release(|round| self.token(owner, round) == key.token) {
                self.breaks(Promise::NoOrphan);
            }
        }
    }

    /// Drops requests that come next, change nothing whenever they are executed,
    /// and have answers that nobody waits for. They could be executed at any
    /// time before anything else of their connection, with the same outcome: so
    /// no order of events is left out by executing them now.
    fn drop_idle_requests(&mut self) {
        if !self.ballot.in_order || !self.setting.prunes {
            return;
        }
        for master in 0..N {
            for client in 0..2 {
                while let Some(request) = self.link(client, master).requests.first()
                    && self.is_idle(client, master, request)
                {
                    let link = self.link(client, master);
                    link.requests.remove(0);
                    if request.kind == Kind::Release {
                        link.released = request.round;
                    }
                }
            }
        }
    }

    fn has_token(&self, client: usize, master: usize, request: Request) -> bool {
        let token = self.token(client, request.round);
        self.world.columns[master].master.holds(token)
    }

    /// Whether the counter is as high as the request wants it, and stays so for as
    /// long as the token is there.
    fn is_raised(&self, client: usize, master: usize, request: Request) -> bool {
        let this = self.world.columns[master].master;
        let stays = this.count_left == 0
            || this.key.is_some_and(|key| this.count_left >= key.left)
                && self.setting.extensions == [0, 0];
        let fence = self.world.clients[client].fence(request.round);
        stays && fence.is_some_and(|fence| this.knows(fence))
    }

    /// The token is not there, and can't come back: what might set it came
    /// before on the same connection. Or the counter is high enough: while the
    /// token is there, it stays so.
    fn is_idle(&self, client: usize, master: usize, request: Request) -> bool {
        let column = &self.world.columns[master];
        let is_done = match request.kind {
            Kind::Extend | Kind::Release => !self.has_token(client, master, request),
            Kind::Raise => {
                !self.has_token(client, master, request) || self.is_raised(client, master, request)
            }
            Kind::Take | Kind::Reseed => false,
        };
        is_done && !column.links[client].may_stray() && !self.is_awaited(client, master, request)
    }
}
