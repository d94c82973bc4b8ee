//! The core's rounds, made from what a state keeps of them.
//!
//! A state keeps when a round began and the votes that were counted while
//! nothing was certain. That is all that a round is made of: begun anew, and
//! given the same votes, it is the same value (`rounds_begun_anew…` holds it).
//! So a state is a few bytes, and masters can be put into any order.

use std::time::Duration;

use redquorum::core::{
    AcquireRound, Drift, ExtendRound, FenceRound, Lease, Moment, Quorum, ReleaseRound, Terms, Ttl,
    Vote,
};

use super::link::Answer;
use super::setting::{Mutation, Setting};
use super::world::World;

/// The present. Every round is as long ago from here as it has taken.
pub(crate) const NOW: Moment = Moment::from_origin(Duration::from_secs(1));

pub(crate) fn millis(ticks: u8) -> Duration {
    Duration::from_millis(u64::from(ticks))
}

pub(crate) fn ticks(duration: Duration) -> u8 {
    u8::try_from(duration.as_millis()).expect("terms are a few ticks")
}

pub(crate) fn ago(ticks: u8) -> Moment {
    let before = NOW.since(Moment::default()) - millis(ticks);
    Moment::from_origin(before)
}

pub(crate) struct Ballot {
    pub(crate) quorum: Quorum,
    pub(crate) terms: [Terms; 2],
    /// All rounds of a client have the same token.
    pub(crate) one_token: bool,
    /// Requests on one connection arrive in order.
    pub(crate) in_order: bool,
    /// The lease runs from the decision.
    from_decision: bool,
    /// Masters vote in the order of their answers, and the last has no vote: so
    /// half of them decide, which the core allows nobody to configure.
    seats_by_answer: bool,
}

impl Ballot {
    pub(crate) fn new(masters: usize, setting: &Setting) -> Self {
        let half = setting.is(Mutation::HalfQuorum);
        let voters = if half { masters - 1 } else { masters };
        let drift = Drift::new(0.0, millis(setting.drift)).expect("no factor");
        let terms = |ttl| {
            let ttl = Ttl::new(millis(ttl)).expect("a few ticks");
            Terms::new(ttl, drift, Duration::ZERO).expect("more than the drift")
        };
        Self {
            quorum: Quorum::majority(voters).expect("a few masters"),
            terms: setting.ttl.map(terms),
            one_token: setting.one_token(),
            in_order: !setting.unordered(),
            from_decision: setting.is(Mutation::LeaseFromDecision),
            seats_by_answer: half,
        }
    }

    pub(crate) fn started(&self, elapsed: u8) -> Moment {
        match self.from_decision {
            true => NOW,
            false => ago(elapsed),
        }
    }

    /// The round of a client that has not been decided.
    pub(crate) fn acquire<const N: usize>(
        &self,
        world: &World<N>,
        client: usize,
        elapsed: u8,
    ) -> AcquireRound {
        let started = self.started(elapsed);
        let mut round = AcquireRound::new(self.quorum, self.terms[client], started);
        self.count(world, client, |master, vote| {
            round.vote(master, vote, started);
        });
        round
    }

    /// The second part of a round that began at `started`, of which so much is
    /// known at `now`.
    pub(crate) fn fence(
        &self,
        started: Moment,
        client: usize,
        counts: &[(usize, u64)],
        now: Moment,
    ) -> FenceRound {
        let round = FenceRound::new(self.quorum, self.terms[client], started, counts, now);
        round.expect("a quorum has counted it")
    }

    /// The second part of a client's round that has not been decided. Masters
    /// that knew its token, and those that were raised to it, are alike.
    pub(crate) fn fence_begun<const N: usize>(
        &self,
        world: &World<N>,
        client: usize,
        elapsed: u8,
    ) -> FenceRound {
        let started = self.started(elapsed);
        let me = &world.clients[client];
        let token = me.fence(me.round).expect("it is being raised").value();
        let know = votes(world, client).filter(|(_, vote)| *vote == Vote::Yes);
        let counts: Vec<_> = know.map(|(master, _)| (master, token)).collect();
        let mut round = self.fence(started, client, &counts, started);
        self.count(world, client, |master, vote| {
            round.vote(master, vote, started);
        });
        round
    }

    /// The extension of a client that has not been decided, of a lease that has
    /// so much left.
    pub(crate) fn extend<const N: usize>(
        &self,
        world: &World<N>,
        client: usize,
        elapsed: u8,
        left: u8,
    ) -> ExtendRound {
        let started = self.started(elapsed);
        let old = Lease::until(NOW.after(millis(left)));
        let mut round = ExtendRound::new(self.quorum, self.terms[client], started, old);
        self.count(world, client, |master, vote| {
            round.vote(master, vote, started);
        });
        round
    }

    /// The release of a client that has not been decided.
    pub(crate) fn release<const N: usize>(&self, world: &World<N>, client: usize) -> ReleaseRound {
        let mut round = ReleaseRound::new(self.quorum);
        self.count(world, client, |master, vote| {
            round.vote(master, vote);
        });
        round
    }

    /// By which number a master that has not voted yet does so.
    pub(crate) fn seat<const N: usize>(
        &self,
        world: &World<N>,
        client: usize,
        master: usize,
    ) -> usize {
        match self.seats_by_answer {
            true => votes(world, client).count(),
            false => master,
        }
    }

    fn count<const N: usize>(
        &self,
        world: &World<N>,
        client: usize,
        mut vote: impl FnMut(usize, Vote),
    ) {
        for (answered, (master, voted)) in votes(world, client).enumerate() {
            let seat = if self.seats_by_answer {
                answered
            } else {
                master
            };
            vote(seat, voted);
        }
    }
}

fn votes<const N: usize>(world: &World<N>, client: usize) -> impl Iterator<Item = (usize, Vote)> {
    let answers = world
        .columns
        .iter()
        .map(move |column| column.links[client].answer);
    answers
        .enumerate()
        .filter_map(|(master, answer)| match answer {
            Answer::Counted(voted) => Some((master, voted.into())),
            Answer::None | Answer::Sent(_) => None,
        })
}
