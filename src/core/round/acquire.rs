use crate::core::{Lease, Moment, Quorum, Tally, Terms, Vote};

/// One attempt to take a lock.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AcquireRound {
    terms: Terms,
    started: Moment,
    tally: Tally,
    verdict: AcquireVerdict,
}

/// What is known of an attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AcquireVerdict {
    /// Nothing is certain yet.
    Pending,
    /// A quorum granted it in time: it is held for the lease.
    Won(Lease),
    /// It can't be won any more. Whatever was granted, or will be, must be
    /// released on all masters (S6, S8).
    Lost(Refusal),
}

/// Why an attempt was lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// A quorum of masters could be reached, but others hold the lock on so
    /// many that a quorum of grants can't be had.
    Taken,
    /// So many masters have no vote that no quorum is left.
    NoQuorum,
    /// The validity was used up before a quorum had granted it.
    TooLate,
}

impl AcquireRound {
    /// A round that began at `started`: a time that was read *before* its first
    /// command was sent (S2).
    pub fn new(quorum: Quorum, terms: Terms, started: Moment) -> Self {
        Self {
            terms,
            started,
            tally: Tally::new(quorum),
            verdict: AcquireVerdict::Pending,
        }
    }

    /// Counts a vote that was processed at `now`. A vote that comes after the
    /// verdict is counted, but changes nothing.
    ///
    /// # Panics
    ///
    /// If there is no such master.
    pub fn vote(&mut self, master: usize, vote: Vote, now: Moment) -> AcquireVerdict {
        self.tally.count(master, vote);
        self.decide(now)
    }

    /// Ends the round: masters that have not answered have no vote.
    pub fn close(&mut self, now: Moment) -> AcquireVerdict {
        self.tally.close();
        self.decide(now)
    }

    /// What is known.
    pub const fn verdict(&self) -> AcquireVerdict {
        self.verdict
    }

    /// The votes so far, those after the verdict too.
    pub const fn tally(&self) -> &Tally {
        &self.tally
    }

    fn decide(&mut self, now: Moment) -> AcquireVerdict {
        if self.verdict == AcquireVerdict::Pending {
            self.verdict = self.judge(now);
        }
        self.verdict
    }

    fn judge(&self, now: Moment) -> AcquireVerdict {
        let quorum = self.tally.quorum();
        let absent = self.tally.absent().len();
        let not_granted = self.tally.no().len() + absent;
        if quorum.is_blocked_by(absent) {
            return AcquireVerdict::Lost(Refusal::NoQuorum);
        }
        if quorum.is_blocked_by(not_granted) {
            return AcquireVerdict::Lost(Refusal::Taken);
        }
        let granted = quorum.is_met_by(self.tally.yes().len());
        match self.terms.lease_if_valid(self.started, now) {
            None => AcquireVerdict::Lost(Refusal::TooLate),
            Some(lease) if granted => AcquireVerdict::Won(lease),
            Some(_) => AcquireVerdict::Pending,
        }
    }
}
