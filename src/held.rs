//! What a guard, its keeper and those who watch for its loss share.

use std::future::poll_fn;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock};
use std::task::{Poll, Waker};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::sync::futures::Notified;
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;

use crate::claim::Claim;
use crate::core::{
    ExtendRound, ExtendVerdict, Lease, LeaseLoss, MasterSet, Moment, Renewal, Terms, Ttl, Vote,
};
use crate::error::{ExtendError, LeaseTooShort};
use crate::fanout::Fanout;
use crate::loss::LossReason;
use crate::masters::Masters;
use crate::release::Release;
use crate::report::RoundReport;
use crate::watch::Watch;

/// A loss is told this much before the deadline: what a timer of the runtime
/// may be late by (S11).
const EARLY: Duration = Duration::from_millis(5);

/// A lock that is held for less than this is not watched: that would cost as
/// much as taking it.
const SHORT: Duration = Duration::from_millis(10);

/// Timers stand still while the machine is suspended, so that one who waits for
/// the deadline looks at the clock this often.
const LONGEST_REST: Duration = Duration::from_secs(1);

/// A lock that was taken, until its guard is gone: what was sent for it, and
/// until when it may be relied on.
pub(crate) struct Held {
    claim: Claim,
    resource: Arc<[u8]>,
    state: Mutex<State>,
    /// One extension at a time (S10).
    extending: tokio::sync::Mutex<()>,
    /// The lease ended, or now ends earlier.
    shortened: Notify,
    /// What masters tell of it, from the first time that somebody asks.
    watch: OnceLock<Watch>,
}

struct State {
    lease: Lease,
    /// Why the lease is over. Once it is, it stays so.
    loss: Option<LossReason>,
    /// It is not extended any more, by `max_hold`.
    capped: bool,
    lost_token: Option<CancellationToken>,
}

impl Held {
    pub(crate) fn new(claim: Claim, resource: Arc<[u8]>, lease: Lease) -> Arc<Self> {
        Arc::new(Self {
            claim,
            resource,
            state: Mutex::new(State {
                lease,
                loss: None,
                capped: false,
                lost_token: None,
            }),
            extending: tokio::sync::Mutex::new(()),
            shortened: Notify::new(),
            watch: OnceLock::new(),
        })
    }

    pub(crate) fn claim(&self) -> &Claim {
        &self.claim
    }

    pub(crate) fn resource(&self) -> &[u8] {
        &self.resource
    }

    pub(crate) fn masters(&self) -> &Arc<Masters> {
        self.claim.masters()
    }

    pub(crate) fn now(&self) -> Moment {
        self.masters().clock.now()
    }

    pub(crate) fn remaining(&self) -> Duration {
        self.lease().validity(self.now())
    }

    pub(crate) fn ensure(&self, wanted: Duration) -> Result<(), LeaseTooShort> {
        let remaining = self.remaining();
        if remaining < wanted || remaining.is_zero() {
            return Err(LeaseTooShort { remaining, wanted });
        }
        Ok(())
    }

    /// Extends the lease (S9, S10).
    pub(crate) async fn extend(self: &Arc<Self>, terms: Terms) -> Result<Duration, ExtendError> {
        let _one_at_a_time = self.extending.lock().await;
        self.extend_alone(terms).await
    }

    /// Extends the lease if that is still due when it is this extension's turn.
    pub(crate) async fn renew(
        self: &Arc<Self>,
        terms: Terms,
        renewal: Renewal,
    ) -> Result<Duration, ExtendError> {
        let _one_at_a_time = self.extending.lock().await;
        let remaining = self.remaining();
        if !renewal.pause(remaining).is_zero() {
            return Ok(remaining);
        }
        self.extend_alone(terms).await
    }

    async fn extend_alone(self: &Arc<Self>, terms: Terms) -> Result<Duration, ExtendError> {
        let (held, now) = (self.lease(), self.now());
        let old = held.shorter(terms.lease(now));
        let sent = match held.is_valid(now) {
            true => {
                // Masters may shorten their TTL as soon as they are asked.
                self.shorten(old);
                self.claim.extend(terms.ttl())
            }
            false => None,
        };
        let Some(mut replies) = sent else {
            return Err(self.found_expired(Duration::ZERO, RoundReport::default()));
        };
        let round = self.decide(&mut replies, terms, old).await;
        let elapsed = self.now().since(replies.started());
        let report = |replies: &Fanout| replies.report(&self.masters().all);
        match round.verdict() {
            ExtendVerdict::Renewed(lease) => {
                if !self.renewed(lease) {
                    return Err(self.found_expired(elapsed, report(&replies)));
                }
                self.settle_and_reseed(replies, terms.ttl());
                Ok(self.remaining())
            }
            ExtendVerdict::Lost(LeaseLoss::Gone) => {
                let report = report(&replies);
                self.lose(LossReason::Gone {
                    report: report.clone(),
                });
                self.claim.release_the_lost();
                Err(ExtendError::Lost { elapsed, report })
            }
            ExtendVerdict::Lost(LeaseLoss::Expired) => {
                Err(self.found_expired(elapsed, report(&replies)))
            }
            ExtendVerdict::Pending | ExtendVerdict::Unknown => {
                let report = report(&replies);
                self.claim.settle_apart(replies);
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
        let decided = masters.timers.within(left, |context| {
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

    /// Ends the lease, and releases what may be left of it on all masters (S6).
    fn found_expired(&self, elapsed: Duration, report: RoundReport) -> ExtendError {
        self.expire();
        self.claim.release_the_lost();
        ExtendError::Lost { elapsed, report }
    }

    /// Lets the masters that have not answered do so in the background; then those
    /// that lost the key are given it back, uncounted (S9).
    fn settle_and_reseed(self: &Arc<Self>, mut replies: Fanout, ttl: Ttl) {
        if replies.is_complete() && replies.refused().is_empty() {
            return;
        }
        let held = self.clone();
        self.claim.runtime().spawn(async move {
            replies.settle(held.masters()).await;
            let lost = replies.refused();
            if held.loss().is_none() && held.claim.reseed(lost, ttl) {
                let answered = poll_fn(|context| held.claim.poll_reseeds(context));
                let _ = timeout(held.masters().settings.master_timeout, answered).await;
                if let Some(watch) = held.watch.get() {
                    watch.suspect(lost);
                }
            }
        });
    }

    /// Why the lease is over, if it is.
    pub(crate) fn loss(&self) -> Option<LossReason> {
        self.until_told().err()
    }

    /// The same, if it was told.
    pub(crate) fn told(&self) -> Option<LossReason> {
        self.state().loss.clone()
    }

    /// No extension follows: what is left of the lease runs out.
    pub(crate) fn cap(&self) {
        self.state().capped = true;
    }

    /// Waits until the lease is over, by a timer of its own (S11).
    pub(crate) async fn lost(self: Arc<Self>) -> LossReason {
        loop {
            let shortened = self.shortened();
            match self.until_told() {
                Ok(left) => {
                    let rest = left.min(LONGEST_REST);
                    let _ = timeout(rest, self.disturbed(shortened)).await;
                }
                Err(over) => return over,
            }
        }
    }

    /// Waits until the lease is over, or ends earlier. On the way, masters that
    /// tell of a change are asked whether they have lost the key.
    pub(crate) async fn disturbed(&self, shortened: Notified<'_>) {
        let watching = async {
            if self.watch.get().is_none() {
                sleep(SHORT).await;
            }
            let watch = self.watch();
            loop {
                watch.until_suspect().await;
                Box::pin(self.check(watch)).await;
            }
        };
        tokio::select! {
            biased;
            () = shortened => {}
            () = watching => {}
        }
    }

    /// Has the masters tell of changes of the key.
    fn watch(&self) -> &Watch {
        let all = MasterSet::first(self.masters().all.len());
        let watches = &self.masters().watches;
        self.watch
            .get_or_init(|| watches.begin(self.claim.key(), all))
    }

    /// Asks the suspects, and all if so many have lost the key that a quorum
    /// can't have it: then the lease is over (S11).
    async fn check(&self, watch: &Watch) {
        let Some(check) = watch.check() else {
            return;
        };
        let masters = self.masters();
        let suspects = check.suspects().intersection(masters.telling());
        let replies = self.ask(suspects).await;
        let gone = check.answered(replies.agreed(), replies.refused());
        let quorum = masters.settings.quorum;
        if !quorum.is_blocked_by(gone.len()) {
            return;
        }
        let all = MasterSet::first(masters.all.len());
        let replies = self.ask(all).await;
        if quorum.is_blocked_by(replies.refused().len()) {
            let report = replies.report(&masters.all);
            self.lose(LossReason::Gone { report });
            self.claim.release_the_lost();
        }
    }

    async fn ask(&self, some: MasterSet) -> Fanout {
        let mut replies = self.claim.check(some);
        replies.settle(self.masters()).await;
        replies
    }

    /// Waits for nothing but the end or the shortening of the lease.
    pub(crate) fn shortened(&self) -> Notified<'_> {
        self.shortened.notified()
    }

    /// How long until the loss is to be told; if that is now, it is, and is
    /// true from now on.
    fn until_told(&self) -> Result<Duration, LossReason> {
        let now = self.now();
        let told = {
            let state = self.state();
            match &state.loss {
                Some(loss) => return Err(loss.clone()),
                None => state.lease.validity(now).saturating_sub(EARLY),
            }
        };
        match told.is_zero() {
            true => Err(self.expire()),
            false => Ok(told),
        }
    }

    /// A token that is cancelled when the lease is over. A task looks after it,
    /// from the first time that somebody asks for it.
    pub(crate) fn lost_token(self: &Arc<Self>) -> CancellationToken {
        let token = {
            let mut state = self.state();
            if let Some(token) = &state.lost_token {
                return token.clone();
            }
            let token = CancellationToken::new();
            state.lost_token = Some(token.clone());
            token
        };
        if self.until_told().is_ok() {
            self.claim.runtime().spawn(self.clone().lost());
        } else {
            token.cancel();
        }
        token
    }

    /// What orders the owners of the lock, if it is fenced (S16).
    pub(crate) fn fence(&self) -> Option<u64> {
        self.claim.fence()
    }

    /// The owner's release.
    pub(crate) fn release(&self, listener: &Waker) -> Release {
        self.lose(LossReason::Released);
        self.claim.release_for_good(listener)
    }

    /// The owner's release, in the background; nothing if there was one.
    pub(crate) fn abandon(&self) {
        self.lose(LossReason::Released);
        self.claim.abandon();
    }

    /// Ends the lease since its deadline is here; says why it is over.
    fn expire(&self) -> LossReason {
        let reason = match self.state().capped {
            true => LossReason::MaxHold,
            false => LossReason::Expired,
        };
        self.lose(reason)
    }

    /// Ends the lease, and tells everybody; says why it is over, which may be
    /// something that came before.
    fn lose(&self, reason: LossReason) -> LossReason {
        let (reason, lost_token) = {
            let mut state = self.state();
            if let Some(before) = &state.loss {
                return before.clone();
            }
            state.loss = Some(reason.clone());
            state.lease = Lease::until(Moment::default());
            (reason, state.lost_token.clone())
        };
        self.shortened.notify_waiters();
        if let Some(token) = lost_token {
            token.cancel();
        }
        reason
    }

    /// Moves the deadline to where a quorum confirmed it, unless the lease is
    /// over; says whether it did.
    fn renewed(&self, lease: Lease) -> bool {
        let mut state = self.state();
        if state.loss.is_some() {
            return false;
        }
        state.lease = lease;
        drop(state);
        self.claim.is_kept(lease);
        true
    }

    fn shorten(&self, standing: Lease) {
        let mut state = self.state();
        if state.loss.is_none() && standing != state.lease {
            state.lease = standing;
            drop(state);
            self.claim.is_kept(standing);
            self.shortened.notify_waiters();
        }
    }

    fn lease(&self) -> Lease {
        self.state().lease
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state
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
