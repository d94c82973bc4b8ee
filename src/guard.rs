//! A lock that is held.

use std::fmt;
use std::mem;
use std::sync::{Arc, Mutex, MutexGuard};
use std::task::Poll;
use std::time::Duration;

use crate::claim::Claim;
use crate::core::{ExtendRound, ExtendVerdict, Lease, Moment, ReleaseVerdict, Terms, Vote};
use crate::error::{ExtendError, LeaseTooShort, ReleaseError};
use crate::fanout::{Fanout, within};
use crate::masters::Masters;
use crate::report::RoundReport;

/// A lock that is held, until it is released or its lease ends.
///
/// Dropping it releases it on all masters in the background, which can't say
/// whether it was still held: [`release`](Self::release) can.
#[must_use = "the lock is released as soon as its guard is dropped"]
pub struct Guard {
    claim: Claim,
    resource: Arc<[u8]>,
    lease: Mutex<Lease>,
    /// One extension at a time (S10).
    extending: tokio::sync::Mutex<()>,
}

/// A lock that was held until it was released.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Released {
    /// On how many masters the lock was removed. Less than all where it had not
    /// been granted, or where the answer has not come yet; the release goes on
    /// there in the background.
    pub removed: usize,
    /// Of how many.
    pub masters: usize,
}

impl Guard {
    pub(crate) fn new(claim: Claim, resource: Arc<[u8]>, lease: Lease) -> Self {
        Self {
            claim,
            resource,
            lease: Mutex::new(lease),
            extending: tokio::sync::Mutex::new(()),
        }
    }

    /// What is locked, as it was asked for: without the key prefix.
    pub fn resource(&self) -> &[u8] {
        &self.resource
    }

    /// The value that the lock has on its masters: unique to this owner.
    pub fn token(&self) -> &str {
        self.claim.token().as_str()
    }

    /// How much is left of the lease; zero when it has ended. It counts the
    /// time for which the machine is suspended, where the platform says.
    pub fn remaining(&self) -> Duration {
        self.lease().validity(self.now())
    }

    /// Whether any of the lease is left. By the time the caller acts on it,
    /// less is: see [`ensure`](Self::ensure).
    pub fn is_valid(&self) -> bool {
        self.lease().is_valid(self.now())
    }

    /// Makes sure that at least this much is left of the lease: call it before
    /// a step that takes as long, with what it takes at the worst.
    ///
    /// # Errors
    ///
    /// [`LeaseTooShort`] if less is left.
    pub fn ensure(&self, wanted: Duration) -> Result<(), LeaseTooShort> {
        let remaining = self.remaining();
        if remaining < wanted || remaining.is_zero() {
            return Err(LeaseTooShort { remaining, wanted });
        }
        Ok(())
    }

    /// On how many masters the lock was granted, late answers included.
    pub fn granted(&self) -> usize {
        self.claim.granted()
    }

    /// Extends the lease to this TTL from now, if a quorum of masters still has
    /// the token; returns how much is then left of it. An extension to less
    /// than is left shortens it.
    ///
    /// It takes at most the master time-out, and never longer than what is left
    /// of the lease. Extensions of one lock wait for each other.
    ///
    /// # Errors
    ///
    /// See [`ExtendError`]: lost for good, undecided, or refused.
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped, the lease is what it was, or what was asked
    /// for where that is shorter. Masters may have extended their keys; a later
    /// release removes them all the same.
    pub async fn extend(&self, ttl: Duration) -> Result<Duration, ExtendError> {
        let terms = self.masters().settings.terms(ttl)?;
        let _one_at_a_time = self.extending.lock().await;
        let old = self.lease();
        let now = self.now();
        if !old.is_valid(now) {
            return Err(self.lost(Duration::ZERO, RoundReport::default()));
        }
        // Masters may shorten their TTL as soon as they are asked.
        let old = old.shorter(terms.lease(now));
        *self.lease_mut() = old;
        let mut replies = self.claim.extend(terms.ttl());
        let round = self.decide(&mut replies, terms, old).await;
        let elapsed = self.now().since(replies.started());
        let verdict = round.verdict();
        if let ExtendVerdict::Renewed(lease) = verdict {
            *self.lease_mut() = lease;
            self.settle(replies);
            return Ok(self.remaining());
        }
        let report = replies.report(&self.masters().all);
        match verdict {
            ExtendVerdict::Lost(_) => Err(self.lost(elapsed, report)),
            _ => {
                self.settle(replies);
                Err(ExtendError::Unknown {
                    remaining: self.remaining(),
                    elapsed,
                    report,
                })
            }
        }
    }

    async fn decide(&self, replies: &mut Fanout, terms: Terms, old: Lease) -> ExtendRound {
        let masters = self.masters();
        let started = replies.started();
        let mut round = ExtendRound::new(masters.settings.quorum, terms, started, old);
        let left = round_limit(masters, round.standing(), started);
        for master in replies.not_asked() {
            round.vote(master, Vote::Absent, started);
        }
        let decided = within(left, |context| {
            let _ = replies.poll_replies(context, |master, vote, now| {
                round.vote(master, vote, now);
            });
            match round.verdict() {
                ExtendVerdict::Pending => Poll::Pending,
                _ => Poll::Ready(()),
            }
        });
        if decided.await.is_none() {
            replies.time_out(masters);
            round.close(masters.clock.now());
        }
        round
    }

    /// Ends the lease, and releases what may be left of it on all masters (S6):
    /// once, however often a lost lease is extended.
    fn lost(&self, elapsed: Duration, report: RoundReport) -> ExtendError {
        let ended = Lease::until(Moment::default());
        let before = mem::replace(&mut *self.lease_mut(), ended);
        if before != ended {
            drop(self.claim.release());
        }
        ExtendError::Lost { elapsed, report }
    }

    /// Lets the masters that have not answered do so in the background: an
    /// extension whose answer is dropped may never be sent.
    fn settle(&self, mut replies: Fanout) {
        if replies.is_complete() {
            return;
        }
        let masters = self.masters().clone();
        self.claim.runtime().spawn(async move {
            replies.settle(&masters).await;
        });
    }

    /// Releases the lock on all masters, and says on how many it was removed.
    ///
    /// It answers when all masters have, or when a quorum has and the others
    /// had as long again; it takes at most the master time-out. A master that
    /// has not answered by then is asked again in the background until it has.
    ///
    /// # Errors
    ///
    /// [`ReleaseError::NotHeld`] if the lock had been lost before, and
    /// [`ReleaseError::Unconfirmed`] if too few masters answered.
    ///
    /// # Cancel safety
    ///
    /// The release is sent when this is first polled. If the future is dropped,
    /// before that too, the release goes on in the background.
    pub async fn release(self) -> Result<Released, ReleaseError> {
        let mut release = self.claim.release_for_good();
        let (verdict, report) = release.confirm().await;
        match verdict {
            ReleaseVerdict::Released => Ok(Released {
                removed: report.count(Vote::Yes),
                masters: report.masters().len(),
            }),
            ReleaseVerdict::NotHeld => Err(ReleaseError::NotHeld { report }),
            ReleaseVerdict::Unconfirmed | ReleaseVerdict::Pending => {
                Err(ReleaseError::Unconfirmed { report })
            }
        }
    }

    fn masters(&self) -> &Arc<Masters> {
        self.claim.masters()
    }

    fn now(&self) -> Moment {
        self.masters().clock.now()
    }

    fn lease(&self) -> Lease {
        *self.lease_mut()
    }

    fn lease_mut(&self) -> MutexGuard<'_, Lease> {
        self.lease
            .lock()
            .unwrap_or_else(|poisoned| poisoned.into_inner())
    }
}

/// No longer than the master time-out, nor than what is left of the lease.
fn round_limit(masters: &Masters, standing: Lease, started: Moment) -> Duration {
    masters
        .settings
        .master_timeout
        .min(standing.validity(started))
}

impl fmt::Debug for Guard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Guard")
            .field("resource", &String::from_utf8_lossy(&self.resource))
            .field("token", &self.token())
            .field("remaining", &self.remaining())
            .finish_non_exhaustive()
    }
}
