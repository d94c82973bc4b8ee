use crate::core::{Lease, Moment, Quorum, Tally, Terms, Vote};

/// One attempt to extend a lock that is held.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExtendRound {
    terms: Terms,
    started: Moment,
    old: Lease,
    tally: Tally,
    verdict: ExtendVerdict,
}

/// What is known of an extension (S10).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExtendVerdict {
    /// Nothing is certain yet.
    Pending,
    /// A quorum still had the token: the lock is held for the new lease.
    Renewed(Lease),
    /// The lock is not held any more.
    Lost(LeaseLoss),
    /// Neither is certain. The lock is held for [`ExtendRound::standing`], and
    /// another attempt may be made until then.
    Unknown,
}

/// Why a lease was lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LeaseLoss {
    /// So many masters no longer have the token that a quorum can't have it.
    Gone,
    /// Its deadline passed before the extension was decided.
    Expired,
}

impl ExtendRound {
    /// A round that began at `started`, a time that was read before its first
    /// command was sent, and that extends the lease `old`.
    pub fn new(quorum: Quorum, terms: Terms, started: Moment, old: Lease) -> Self {
        Self {
            terms,
            started,
            old,
            tally: Tally::new(quorum),
            verdict: ExtendVerdict::Pending,
        }
    }

    /// Counts a vote that was processed at `now`. [`Vote::Yes`] means that the
    /// master's value still was the token (S9).
    ///
    /// # Panics
    ///
    /// If there is no such master.
    pub fn vote(&mut self, master: usize, vote: Vote, now: Moment) -> ExtendVerdict {
        self.tally.count(master, vote);
        self.decide(now)
    }

    /// Ends the round: masters that have not answered have no vote.
    pub fn close(&mut self, now: Moment) -> ExtendVerdict {
        self.tally.close();
        self.decide(now)
    }

    /// What is known.
    pub const fn verdict(&self) -> ExtendVerdict {
        self.verdict
    }

    /// The votes so far, those after the verdict too.
    pub const fn tally(&self) -> &Tally {
        &self.tally
    }

    /// The lease that may be relied on while the round is neither won nor lost:
    /// the old one, or what is asked for where that is shorter, since masters
    /// may have shortened their TTL to it already.
    pub fn standing(&self) -> Lease {
        self.old.shorter(self.terms.lease(self.started))
    }

    fn decide(&mut self, now: Moment) -> ExtendVerdict {
        if self.verdict == ExtendVerdict::Pending {
            self.verdict = self.judge(now);
        }
        self.verdict
    }

    fn judge(&self, now: Moment) -> ExtendVerdict {
        let quorum = self.tally.quorum();
        let gone = self.tally.no().len();
        let not_matched = gone + self.tally.absent().len();
        if !self.standing().is_valid(now) {
            return ExtendVerdict::Lost(LeaseLoss::Expired);
        }
        if quorum.is_blocked_by(gone) {
            return ExtendVerdict::Lost(LeaseLoss::Gone);
        }
        match self.terms.lease_if_valid(self.started, now) {
            Some(lease) if quorum.is_met_by(self.tally.yes().len()) => {
                ExtendVerdict::Renewed(lease)
            }
            Some(_) if !quorum.is_blocked_by(not_matched) => ExtendVerdict::Pending,
            _ if self.can_be_gone() => ExtendVerdict::Pending,
            _ => ExtendVerdict::Unknown,
        }
    }

    /// Whether the masters that have not answered could still prove the loss.
    fn can_be_gone(&self) -> bool {
        let quorum = self.tally.quorum();
        quorum.is_blocked_by(self.tally.no().len() + self.tally.open())
    }
}
