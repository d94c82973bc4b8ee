use crate::core::{Quorum, Tally, Vote};

/// The release of a lock on all masters.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReleaseRound {
    tally: Tally,
    verdict: ReleaseVerdict,
}

/// What is known of a release.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReleaseVerdict {
    /// Nothing is certain yet.
    Pending,
    /// So many masters don't have the token any more that others can take the
    /// lock, and nothing says that it was lost before.
    Released,
    /// It was not held any more: so many masters had lost the token before the
    /// release that no quorum had it.
    NotHeld,
    /// Too many masters did not answer to say either.
    Unconfirmed,
}

impl ReleaseRound {
    /// A round without votes.
    pub const fn new(quorum: Quorum) -> Self {
        Self {
            tally: Tally::new(quorum),
            verdict: ReleaseVerdict::Pending,
        }
    }

    /// Counts a vote: [`Vote::Yes`] if the token was removed, [`Vote::No`] if
    /// it was not there.
    ///
    /// # Panics
    ///
    /// If there is no such master.
    pub fn vote(&mut self, master: usize, vote: Vote) -> ReleaseVerdict {
        self.tally.count(master, vote);
        self.decide()
    }

    /// Ends the round: masters that have not answered have no vote.
    pub fn close(&mut self) -> ReleaseVerdict {
        self.tally.close();
        self.decide()
    }

    /// What is known.
    pub const fn verdict(&self) -> ReleaseVerdict {
        self.verdict
    }

    /// The votes so far, those after the verdict too.
    pub const fn tally(&self) -> &Tally {
        &self.tally
    }

    fn decide(&mut self) -> ReleaseVerdict {
        if self.verdict == ReleaseVerdict::Pending {
            self.verdict = self.judge();
        }
        self.verdict
    }

    fn judge(&self) -> ReleaseVerdict {
        let quorum = self.tally.quorum();
        let open = self.tally.open();
        let gone = self.tally.no().len();
        let without_token = gone + self.tally.yes().len();
        if quorum.is_blocked_by(gone) {
            return ReleaseVerdict::NotHeld;
        }
        if quorum.is_blocked_by(gone + open) {
            return ReleaseVerdict::Pending;
        }
        if quorum.is_met_by(without_token) {
            return ReleaseVerdict::Released;
        }
        if quorum.is_met_by(without_token + open) {
            return ReleaseVerdict::Pending;
        }
        ReleaseVerdict::Unconfirmed
    }
}
