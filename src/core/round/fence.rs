use super::acquire::{AcquireVerdict, judge};
use crate::core::{Moment, Quorum, Tally, Terms, Vote};

/// The second part of a fenced acquisition: a quorum must know its fencing token
/// before the lock is held (S16).
///
/// Each master that granted the lock has counted it, with a counter of its own.
/// The fencing token is the highest of these counts. Any later acquisition has
/// a quorum, which shares a master with the quorum that knows this token, and
/// counts on from there: so its own is higher. Where the counters had come apart,
/// they are raised to the token first, on every master that has the lock.
///
/// A master whose counter is above the token by then has granted the lock late,
/// after it had granted it to another: it says no. So even of two owners at once,
/// where a clock has jumped, no two have one token: on a master that both count
/// on, one of them was granted after the other's token was known there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FenceRound {
    terms: Terms,
    started: Moment,
    token: u64,
    tally: Tally,
    verdict: AcquireVerdict,
}

impl FenceRound {
    /// For a lock that was asked for at `started`, and that a quorum has granted:
    /// `counts` are the masters that have, each with its counter. `None` if there
    /// are none.
    ///
    /// Masters that already have the token's count know it.
    ///
    /// # Panics
    ///
    /// If there is no such master.
    pub fn new(
        quorum: Quorum,
        terms: Terms,
        started: Moment,
        counts: &[(usize, u64)],
        now: Moment,
    ) -> Option<Self> {
        let token = counts.iter().map(|(_, count)| *count).max()?;
        let mut round = Self {
            terms,
            started,
            token,
            tally: Tally::new(quorum),
            verdict: AcquireVerdict::Pending,
        };
        for (master, count) in counts {
            if *count == token {
                round.vote(*master, Vote::Yes, now);
            }
        }
        Some(round)
    }

    /// The fencing token, which is not to be used before the round is won.
    pub const fn token(&self) -> u64 {
        self.token
    }

    /// Counts a vote that was processed at `now`. [`Vote::Yes`] means that the
    /// master still had the lock, and has just the token's count. A master that
    /// knew it before is not asked again: its later votes are ignored.
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

    /// What is known: won is a lock that is held, with its lease.
    pub const fn verdict(&self) -> AcquireVerdict {
        self.verdict
    }

    fn decide(&mut self, now: Moment) -> AcquireVerdict {
        if self.verdict == AcquireVerdict::Pending {
            self.verdict = judge(&self.tally, self.terms, self.started, now);
        }
        self.verdict
    }
}
