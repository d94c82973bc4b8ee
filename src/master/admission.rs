//! Which masters have a vote (S13, S14): the part that is the same for all kinds
//! of masters.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use super::{Action, Answer, Ask, Fault, Pending, Sent};
use crate::clock::Clock;
use crate::core::{Evidence, Moment, Quarantine, Ttl};
use crate::lock::lock;

/// How one coordinator admits its masters.
#[derive(Clone)]
pub(crate) struct Admissions {
    pub(crate) clock: Clock,
    pub(crate) quarantine: Quarantine,
    pub(crate) voters: Arc<Voters>,
}

/// How one master is admitted.
pub(crate) struct Admission {
    pub(crate) clock: Clock,
    quarantine: Quarantine,
    /// Until when it has no vote on the locks that it was not asked for.
    barred: Mutex<Moment>,
}

/// What becomes of a command to a master that may have no vote.
pub(crate) enum Ruling {
    /// It is sent, and what the master says counts.
    Counts,
    /// It is sent, but for this reason a yes is no vote.
    YesIsNoVote(Fault),
    /// It is not sent.
    NotAsked(Fault),
}

impl Ruling {
    /// What is sent, by the given means.
    pub(crate) fn apply(self, send: impl FnOnce() -> Sent) -> Sent {
        match self {
            Ruling::Counts => send(),
            Ruling::NotAsked(fault) => Sent::Not(fault),
            Ruling::YesIsNoVote(fault) => match send() {
                Sent::Pending(pending) => Sent::Pending(without_yes(pending, fault)),
                Sent::Ready(pending) => Sent::Ready(without_yes(pending, fault)),
                Sent::Not(fault) => Sent::Not(fault),
            },
        }
    }
}

fn without_yes(pending: Pending, fault: Fault) -> Pending {
    Box::pin(async move {
        match pending.await {
            Ok(Answer::Yes | Answer::Counted(_)) => Err(fault),
            other => other,
        }
    })
}

impl Admission {
    pub(crate) fn new(admissions: &Admissions) -> Self {
        Self {
            clock: admissions.clock,
            quarantine: admissions.quarantine,
            barred: Mutex::default(),
        }
    }

    /// What becomes of a command to a master of this evidence.
    ///
    /// A master in quarantine is not asked for locks. It is asked to extend them,
    /// so that a key that is there lives on, but its yes counts for nothing: a key
    /// that was given back to it (S9) would stand for what it has forgotten. Its no
    /// is the truth: without the key it can't be one of a quorum that has it.
    pub(crate) fn rule(&self, action: Action, evidence: &Evidence) -> Ruling {
        match action {
            Action::Take(ttl) | Action::TakeFenced(Ask { ttl, .. }) => {
                match self.barring(ttl, evidence) {
                    Some(fault) => Ruling::NotAsked(fault),
                    None => Ruling::Counts,
                }
            }
            Action::Extend(ttl) => match self.quarantined(ttl, evidence) {
                Some(fault) => Ruling::YesIsNoVote(fault),
                None => Ruling::Counts,
            },
            Action::Look => match self.still_barred() {
                Some(fault) => Ruling::NotAsked(fault),
                None => Ruling::Counts,
            },
            // A count is raised where the lock was granted before.
            Action::GiveBack(_) | Action::Raise { .. } | Action::Release | Action::Check => {
                Ruling::Counts
            }
        }
    }

    /// Whether it was lately not asked for a lock, and still would not be. One who
    /// waits for that lock should not take it for free there.
    pub(crate) fn is_barred(&self) -> bool {
        self.still_barred().is_some()
    }

    /// Why it has no vote on a lock with this TTL, if it has none yet.
    pub(crate) fn quarantined(&self, ttl: Ttl, evidence: &Evidence) -> Option<Fault> {
        let remaining = self
            .quarantine
            .remaining(ttl, evidence, || self.clock.now());
        (!remaining.is_zero()).then_some(Fault::Quarantined { remaining })
    }

    /// The same for a lock that is asked for.
    fn barring(&self, ttl: Ttl, evidence: &Evidence) -> Option<Fault> {
        let fault = self.quarantined(ttl, evidence)?;
        if let Fault::Quarantined { remaining } = fault {
            let until = self.clock.now().after(remaining);
            let mut barred = lock(&self.barred);
            *barred = until.max(*barred);
        }
        Some(fault)
    }

    fn still_barred(&self) -> Option<Fault> {
        let barred = *lock(&self.barred);
        if barred == Moment::default() {
            return None;
        }
        let remaining = barred.since(self.clock.now());
        (!remaining.is_zero()).then_some(Fault::Quarantined { remaining })
    }

    /// There is another process behind its address, or another proof.
    pub(crate) fn begin_anew(&self) {
        *lock(&self.barred) = Moment::default();
    }
}

/// Which master has the vote of which server, by the server's `run_id` (S14).
#[derive(Default)]
pub(crate) struct Voters(Mutex<HashMap<Arc<str>, Voter>>);

struct Voter {
    master: usize,
    address: Arc<str>,
}

impl Voters {
    /// The vote of this server is this master's, unless another has it: then the
    /// error is the other's address. The first to come keeps it for as long as it
    /// doesn't connect to another server, whether or not it is reachable: so no
    /// server can vote under two names in one round.
    pub(crate) fn claim(
        &self,
        run_id: &Arc<str>,
        master: usize,
        address: &Arc<str>,
    ) -> Result<(), Arc<str>> {
        let mut voters = lock(&self.0);
        voters.retain(|id, voter| voter.master != master || id == run_id);
        let voter = voters.entry(run_id.clone()).or_insert_with(|| Voter {
            master,
            address: address.clone(),
        });
        match voter.master == master {
            true => Ok(()),
            false => Err(voter.address.clone()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(text: &str) -> Arc<str> {
        text.into()
    }

    #[test]
    fn s14_a_server_has_one_vote_under_whatever_name() {
        let voters = Voters::default();
        let (first, second) = (text("127.0.0.1:6379"), text("localhost:6379"));
        let before = text("before");
        assert_eq!(voters.claim(&before, 0, &first), Ok(()));
        assert_eq!(voters.claim(&before, 1, &second), Err(first.clone()));
        assert_eq!(voters.claim(&before, 0, &first), Ok(()), "again");

        // The server restarts, and is reached under its other name first.
        let after = text("after");
        assert_eq!(voters.claim(&after, 1, &second), Ok(()));
        assert_eq!(voters.claim(&after, 0, &first), Err(second));
    }

    #[test]
    fn s14_servers_that_are_not_the_same_have_a_vote_each() {
        let voters = Voters::default();
        for (master, id) in ["a", "b", "c"].into_iter().enumerate() {
            assert_eq!(voters.claim(&text(id), master, &text(id)), Ok(()));
        }
        // One moves to another server: its former one is free for others.
        assert_eq!(voters.claim(&text("d"), 0, &text("a")), Ok(()));
        assert_eq!(voters.claim(&text("a"), 1, &text("b")), Ok(()));
    }
}
