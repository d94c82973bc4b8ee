//! What goes on, and goes wrong, between the clients and inside the masters.

use redquorum::core::Vote;

use super::count::Count;
use super::event::Event;
use super::link::Answer;
use super::promise::Promise;
use super::request::{Kind, Request};
use super::setting::Mutation;
use super::step::Step;
use super::world::World;

impl<const N: usize> Step<'_, N> {
    /// A tick passes everywhere.
    pub(crate) fn tick(&mut self) {
        let counters = |world: &World<N>| {
            let masters = world.columns.iter().map(|column| column.master);
            masters.filter(|master| master.count.is_some()).count()
        };
        let before = counters(&self.world);
        self.world.tick(self.setting);
        if counters(&self.world) < before {
            self.shows(Event::CounterExpired);
        }
    }

    /// A request arrives, and is executed.
    pub(crate) fn execute(&mut self, client: usize, master: usize, index: usize) {
        let request = self.link(client, master).requests.remove(index);
        let vote = self.apply(client, master, request);
        self.answered(client, master, request, vote);
    }

    /// A request of a lost connection arrives, and is executed; its answer goes
    /// nowhere.
    pub(crate) fn execute_stray(&mut self, client: usize, master: usize) {
        let request = self.link(client, master).strays.remove(0);
        self.shows(Event::StrayExecuted);
        self.apply(client, master, request);
    }

    fn apply(&mut self, client: usize, master: usize, request: Request) -> Vote {
        let token = self.token(client, request.round);
        let ttl = self.setting.ttl[client];
        let column = &mut self.world.columns[master];
        let mut vote = column
            .master
            .execute(request.kind, token, ttl, &mut self.events);
        if vote == Vote::Yes && self.setting.fenced {
            vote = self.count(client, master, request);
        }
        let link = &mut self.world.columns[master].links[client];
        match request.kind {
            Kind::Release => link.released = link.released.max(request.round),
            Kind::Extend => link.forgot = false,
            Kind::Take | Kind::Reseed | Kind::Raise => {}
        }
        let is_over = request.round <= link.released;
        if request.kind != Kind::Release && vote == Vote::Yes && is_over {
            self.breaks(Promise::NothingAfterRelease);
        }
        self.admit(master, request, vote)
    }

    /// What is done to the counter along with the key.
    fn count(&mut self, client: usize, master: usize, request: Request) -> Vote {
        let fence = self.world.clients[client].fence(request.round);
        let this = &mut self.world.columns[master].master;
        let is_untrusted = this.is_untrusted(self.setting);
        match (request.kind, fence) {
            (Kind::Take, _) => {
                this.count_grant(self.setting);
                if is_untrusted {
                    self.shows(Event::OldNotCounted);
                }
            }
            (Kind::Raise, Some(fence)) => {
                let vote = this.raise(fence, self.setting);
                if is_untrusted {
                    self.shows(Event::OldNotRaised);
                }
                return vote;
            }
            _ => {}
        }
        Vote::Yes
    }

    /// A master in quarantine has no vote for an extension either: it may have
    /// been given the key back, and have forgotten what another was granted
    /// before. That it doesn't have the token is true whatever its age.
    fn admit(&mut self, master: usize, request: Request, vote: Vote) -> Vote {
        let is_young = self.world.columns[master].master.young > 0;
        let agrees = request.kind == Kind::Extend && vote == Vote::Yes;
        if is_young && agrees && !self.setting.is(Mutation::YoungExtends) {
            self.shows(Event::QuarantineRefused);
            return Vote::Absent;
        }
        vote
    }

    /// A master crashes, and is up again without its memory. Connections to it
    /// break; answers that it had sent may still come.
    pub(crate) fn crash(&mut self, master: usize) {
        self.world.faults.crashes -= 1;
        for client in 0..2 {
            let is_own = self.world.columns[master]
                .master
                .holds(self.own_token(client));
            let awaited = self.awaits_any(client, master);
            let link = self.link(client, master);
            link.forgot |= is_own;
            link.requests = Default::default();
            link.strays = Default::default();
            if awaited {
                link.fail();
            }
        }
        let quarantine = self.setting.quarantine;
        self.world.columns[master].master.crash(quarantine);
    }

    /// A master is killed, and is up again with an older counter. Connections to it
    /// break; releases are sent again, and answers that it had sent may still come.
    pub(crate) fn revert(&mut self, master: usize, to: Count, keeps_key: bool) {
        self.world.faults.reverts -= 1;
        for client in 0..2 {
            let is_own = self.world.columns[master]
                .master
                .holds(self.own_token(client));
            let awaited = self.awaits_any(client, master);
            let link = self.link(client, master);
            link.forgot |= is_own && !keeps_key;
            link.reconnect(true, true);
            link.strays = Default::default();
            if awaited {
                link.fail();
            }
        }
        let quarantine = self.setting.quarantine;
        let this = &mut self.world.columns[master].master;
        this.revert(to, keeps_key, quarantine);
    }

    /// A connection is lost with what is on its way, and there is a new one.
    pub(crate) fn reconnect(&mut self, client: usize, master: usize) {
        self.world.faults.reconnects -= 1;
        let awaited = self.awaits_any(client, master);
        let kills = self.setting.kills;
        let owes = !self.setting.is(Mutation::ReleaseForgotten);
        let link = self.link(client, master);
        let took = link.requests.iter().any(|old| old.kind == Kind::Take);
        link.reconnect(kills, owes);
        let repeats = !link.requests.is_empty();
        if awaited || matches!(link.answer, Answer::Sent(_)) {
            link.fail();
        }
        if took && kills {
            self.shows(Event::KilledTake);
        }
        if repeats {
            self.shows(Event::ReleaseRepeated);
        }
    }

    /// A master's clock jumps a tick ahead.
    pub(crate) fn jump(&mut self, master: usize) {
        self.world.faults.jumps -= 1;
        let master = &mut self.world.columns[master].master;
        master.jump();
        if master.key.is_none() {
            self.shows(Event::ExpiredEarly);
        }
    }

    fn awaits_any(&self, client: usize, master: usize) -> bool {
        let mut requests = self.world.columns[master].links[client].requests.iter();
        requests.any(|request: Request| self.is_awaited(client, master, request))
    }
}
