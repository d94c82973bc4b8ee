//! What a client does for a fencing token: the second part of a fenced round.

use redquorum::core::{AcquireVerdict, FenceRound, Lease};

use super::ballot::{NOW, ticks};
use super::client::Phase;
use super::count::Count;
use super::event::Event;
use super::link::{Answer, Voted};
use super::promise::Promise;
use super::request::Kind;
use super::setting::Mutation;
use super::step::Step;

impl<const N: usize> Step<'_, N> {
    /// A quorum has granted it. Unless a quorum knows the fencing token, all
    /// masters are asked to raise their counters to it, those too that have not
    /// answered: they may yet grant it.
    pub(crate) fn fence(&mut self, client: usize, elapsed: u8, lease: Lease) {
        let counts = self.granted_counts(client);
        let round = self
            .ballot
            .fence(self.ballot.started(elapsed), client, &counts, NOW);
        let token = Count::of(round.token());
        if self.setting.is(Mutation::NoSecondRound) {
            return self.own(client, lease, token);
        }
        if round.verdict() != AcquireVerdict::Pending {
            return self.conclude_fence(client, &round);
        }
        self.ask_to_raise(client, elapsed, token, &counts);
        if self.setting.is(Mutation::SecondRoundUnawaited) {
            self.own(client, lease, token);
        }
    }

    fn granted_counts(&self, client: usize) -> Vec<(usize, u64)> {
        let links = self.world.columns.iter().map(|column| column.links[client]);
        let counts = links.enumerate().filter_map(|(master, link)| {
            let granted = link.has_counted(Voted::Yes);
            granted
                .then_some(link.count)
                .flatten()
                .map(|count| (master, count.value()))
        });
        counts.collect()
    }

    fn ask_to_raise(&mut self, client: usize, elapsed: u8, token: Count, counts: &[(usize, u64)]) {
        self.shows(Event::SecondRound);
        let me = &mut self.world.clients[client];
        let round = me.round;
        me.phase = Phase::Fencing { elapsed };
        me.set_fence(round, token);
        self.ask_all(client, Kind::Raise, round, 0);
        for (master, _) in counts.iter().filter(|(_, count)| *count == token.value()) {
            self.link(client, *master).answer = Answer::Counted(Voted::Yes);
        }
    }

    pub(crate) fn conclude_fence(&mut self, client: usize, round: &FenceRound) {
        match round.verdict() {
            AcquireVerdict::Pending => {}
            AcquireVerdict::Won(lease) => self.own(client, lease, Count::of(round.token())),
            AcquireVerdict::Lost(_) => {
                self.shows(Event::SecondRoundLost);
                self.give_up(client);
            }
        }
    }

    /// The lock is held, with this fencing token.
    fn own(&mut self, client: usize, lease: Lease, token: Count) {
        let last = self.world.last.replace(token);
        if last.is_some_and(|last| last.value() >= token.value()) {
            self.breaks(Promise::TokensIncrease);
        }
        if last == Some(token) {
            self.breaks(Promise::TokensDiffer);
        }
        self.shows([Event::GrantedA, Event::GrantedB][client]);
        self.check_quorum(client);
        self.hold(client, ticks(lease.validity(NOW)), false);
    }

    /// What other promises are about than the order of the tokens.
    pub(crate) fn forget_what_nobody_looks_at(&mut self) {
        if !self.setting.is_about_tokens() || !self.setting.prunes {
            return;
        }
        let columns = self.world.columns.iter_mut();
        for link in columns.flat_map(|column| &mut column.links) {
            link.forgot = false;
            link.released = 0;
        }
        for (client, extensions) in self.world.clients.iter_mut().zip(self.setting.extensions) {
            if let Phase::Held { left, .. } = &mut client.phase
                && extensions == 0
            {
                *left = 0;
            }
        }
    }

    /// The fencing tokens of rounds that nobody will ask for any more are gone.
    pub(crate) fn forget_fences(&mut self) {
        for client in 0..2 {
            for round in self.world.clients[client].fenced_rounds() {
                let me = &self.world.clients[client];
                let goes_on = me.round == round && matches!(me.phase, Phase::Fencing { .. });
                let is_raised =
                    |column: &super::world::Column| column.links[client].may_raise(round);
                if !goes_on && !self.world.columns.iter().any(is_raised) {
                    self.world.clients[client].forget_fence(round);
                }
            }
        }
    }
}
