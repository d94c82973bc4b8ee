//! What is between one client and one master.

use redquorum::core::Vote;

use super::count::Count;
use super::request::{Kind, Queue};

/// A connection, what may still come of the one before, and what became of the
/// request whose answer the client waits for: it never waits for two of one
/// master.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Link {
    pub(crate) requests: Queue,
    /// Requests of a lost connection that was not killed.
    pub(crate) strays: Queue,
    pub(crate) answer: Answer,
    /// What the master has counted, if the answer says so.
    pub(crate) count: Option<Count>,
    /// The master had the token of the client's round, and lost its memory.
    pub(crate) forgot: bool,
    /// The last round whose release was executed here.
    pub(crate) released: u8,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Answer {
    /// There is none, or none that the client waits for.
    #[default]
    None,
    /// The answer is on its way.
    Sent(Voted),
    /// The client has counted it. It is the first that came: that of a release
    /// which is sent again is not heard.
    Counted(Voted),
}

/// A vote, in an order: that of the core has none.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Voted {
    Yes,
    No,
    Absent,
}

impl From<Vote> for Voted {
    fn from(vote: Vote) -> Self {
        match vote {
            Vote::Yes => Self::Yes,
            Vote::No => Self::No,
            Vote::Absent => Self::Absent,
        }
    }
}

impl From<Voted> for Vote {
    fn from(voted: Voted) -> Self {
        match voted {
            Voted::Yes => Self::Yes,
            Voted::No => Self::No,
            Voted::Absent => Self::Absent,
        }
    }
}

impl Link {
    pub(crate) fn has_counted(&self, voted: Voted) -> bool {
        self.answer == Answer::Counted(voted)
    }

    /// Whether a release of this round is on its way, or of one with the same
    /// token.
    pub(crate) fn will_release(&self, mut is_same: impl FnMut(u8) -> bool) -> bool {
        let mut requests = self.requests.iter();
        requests.any(|request| request.kind == Kind::Release && is_same(request.round))
    }

    /// Whether a request to raise the counter for this round is on its way.
    pub(crate) fn may_raise(&self, round: u8) -> bool {
        let mut requests = self.requests.iter().chain(self.strays.iter());
        requests.any(|request| request.kind == Kind::Raise && request.round == round)
    }

    /// The answer is that of a broken connection.
    pub(crate) fn fail(&mut self) {
        self.answer = Answer::Sent(Voted::Absent);
        self.count = None;
    }

    /// Whether a stray may still set a key.
    pub(crate) fn may_stray(&self) -> bool {
        !self.strays.is_empty()
    }

    /// A new connection: the old one is killed, or what it carries goes astray.
    /// Releases that were not confirmed are the first to be sent again, if the
    /// client keeps them in mind.
    pub(crate) fn reconnect(&mut self, kills: bool, owes: bool) {
        let old = self.requests;
        self.requests = Queue::EMPTY;
        if !kills {
            self.strays = old;
        }
        if owes {
            old.iter()
                .filter(|request| request.kind == Kind::Release)
                .for_each(|release| self.requests.push(release));
        }
    }
}
