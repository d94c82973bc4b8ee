//! What is explored: sizes, terms, faults, and how the protocol is broken.

use super::event::Event;
use super::promise::Promise;

/// One configuration. Times are in ticks; a tick is a millisecond of the core.
#[derive(Clone, Debug)]
pub(crate) struct Setting {
    pub(crate) name: &'static str,
    /// How many rounds each client may begin.
    pub(crate) rounds: [u8; 2],
    /// How many extensions each client may begin.
    pub(crate) extensions: [u8; 2],
    pub(crate) ttl: [u8; 2],
    pub(crate) drift: u8,
    /// For how long a master that lost its memory has no vote.
    pub(crate) quarantine: u8,
    /// How many times a master crashes and is up again without its memory.
    pub(crate) crashes: u8,
    /// How many times a master restarts with an older counter than it had, its key
    /// lost or not.
    pub(crate) reverts: u8,
    /// How many connections are lost.
    pub(crate) reconnects: u8,
    /// How many masters' clocks jump a tick ahead, once each.
    pub(crate) jumps: u8,
    /// The lost connection is killed before the new one is used.
    pub(crate) kills: bool,
    /// Owners wait for the confirmation of their releases.
    pub(crate) confirms: bool,
    /// Masters that lost the key are given it back after an extension.
    pub(crate) reseeds: bool,
    /// Locks are fenced: masters count the grants, and the highest count is the
    /// token (S16).
    pub(crate) fenced: bool,
    /// What the masters' counters may begin with, each on its own: none, or so
    /// much more than another. All are older than the first round.
    pub(crate) counters: &'static [Option<u8>],
    /// In how many ticks a counter expires; 0 is never.
    pub(crate) counter_life: u8,
    /// How far the masters' clocks may be apart.
    pub(crate) skew: u8,
    /// What is held to be always true.
    pub(crate) promises: &'static [Promise],
    /// What must be seen on the way.
    pub(crate) expects: &'static [Event],
    pub(crate) mutation: Option<Mutation>,
    /// States that differ only in which master is which are one.
    pub(crate) symmetry: bool,
    /// Requests that change nothing are executed at once.
    pub(crate) prunes: bool,
}

/// One way to break the protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mutation {
    /// Half of four masters is a quorum.
    HalfQuorum,
    /// All rounds of a client have one token.
    OneToken,
    /// Requests overtake each other on a connection.
    Unordered,
    /// Both: one token, and requests overtake each other.
    OneTokenUnordered,
    /// The lease runs from the decision instead of the round's start.
    LeaseFromDecision,
    /// A round that was lost is released only on masters that granted it.
    ReleaseToGranted,
    /// Releases on their way when the connection breaks are not sent again.
    ReleaseForgotten,
    /// A master that lost the key is sent it again, and counts as a vote.
    ReseedCounts,
    /// The quarantine is for acquisitions alone: a master that is given the key
    /// back meanwhile has a vote in the next extension.
    YoungExtends,
    /// A fenced lock is held as soon as it is granted, whoever knows its token.
    NoSecondRound,
    /// A master whose counter is above the token says yes to it.
    RaisedAbove,
    /// Counters are raised to the token, and nobody waits for that.
    SecondRoundUnawaited,
    /// A counter that is not there begins at 0.
    NoSeed,
    /// Whoever has written a counter, it is counted on, and raised.
    OldCounted,
}

impl Setting {
    /// One round each, no faults but delay.
    pub(crate) fn new(name: &'static str) -> Self {
        Self {
            name,
            rounds: [1, 1],
            extensions: [0, 0],
            ttl: [2, 2],
            drift: 0,
            quarantine: 2,
            crashes: 0,
            reverts: 0,
            reconnects: 0,
            jumps: 0,
            kills: true,
            confirms: false,
            reseeds: true,
            fenced: false,
            counters: &[None],
            counter_life: 0,
            skew: 0,
            promises: &Promise::ALL,
            expects: &[Event::GrantedA, Event::GrantedB],
            mutation: None,
            symmetry: true,
            prunes: true,
        }
    }

    pub(crate) fn is(&self, mutation: Mutation) -> bool {
        self.mutation == Some(mutation)
    }

    pub(crate) fn one_token(&self) -> bool {
        self.is(Mutation::OneToken) || self.is(Mutation::OneTokenUnordered)
    }

    pub(crate) fn unordered(&self) -> bool {
        self.is(Mutation::Unordered) || self.is(Mutation::OneTokenUnordered)
    }

    /// Nothing is looked at but the fencing tokens.
    pub(crate) fn is_about_tokens(&self) -> bool {
        use Promise::{TokensDiffer, TokensIncrease};
        let mut promises = self.promises.iter();
        promises.all(|promise| matches!(promise, TokensIncrease | TokensDiffer))
    }

    /// Elapsed ticks beyond this make no difference: nothing can be won.
    pub(crate) fn enough(&self, client: usize) -> u8 {
        self.ttl[client]
    }
}
