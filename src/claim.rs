//! A token that is, or may be, on the masters.

use std::mem;
use std::sync::{Arc, Mutex, MutexGuard};
use std::task::{Context, Poll, Waker};

use tokio::runtime::Handle;

use crate::core::{Lease, MasterSet, Refusal, Terms, Ttl};
use crate::error::LockError;
use crate::fanout::Fanout;
use crate::holdings::Holding;
use crate::master::{Action, Command};
use crate::masters::Masters;
use crate::release::Release;
use crate::report::RoundReport;
use crate::token::Token;

/// What one round has set, or may yet set, on the masters. Unless it is
/// released, dropping it releases it on all of them in the background (S6, S17).
pub(crate) struct Claim {
    masters: Arc<Masters>,
    runtime: Handle,
    key: Arc<[u8]>,
    token: Token,
    take: Action,
    /// What orders the owners (S16), once a quorum knows it.
    fence: Option<u64>,
    sent: Mutex<Sendings>,
}

/// What was sent for the token. Whatever is sent, is sent while this is locked:
/// so nothing follows a release but another release (S10, S12).
struct Sendings {
    takes: Fanout,
    /// What came of the takes, when they are over: a lease that rests is small.
    settled: Option<Settled>,
    /// The longest that the token's keys live.
    longest: Ttl,
    /// The last attempt to give the key back to masters that lost it (S9).
    reseeds: Option<Fanout>,
    /// The masters that were ever sent the key again.
    reseeded: MasterSet,
    /// A release was sent.
    ended: bool,
    /// The owner's release was sent: nothing is left to do.
    released: bool,
    /// Whether a lock was held by it, so that its release lets others in.
    won: bool,
    /// By which other tasks of this process know of it.
    holding: Option<Holding>,
}

/// The masters that granted the token, and those that may have set it.
#[derive(Clone, Copy)]
struct Settled {
    granted: MasterSet,
    holders: MasterSet,
}

impl Sendings {
    fn settled(&self) -> Settled {
        self.settled.unwrap_or_else(|| Settled {
            granted: self.takes.agreed(),
            holders: self.takes.may_have_agreed(),
        })
    }
}

impl Claim {
    /// Asks all masters for the key, with a fresh token (S4).
    pub(crate) fn stake(
        masters: &Arc<Masters>,
        runtime: &Handle,
        key: Arc<[u8]>,
        take: Action,
        listener: Option<&Waker>,
    ) -> Self {
        let everybody = |command: &_| Fanout::send(&masters.all, command, masters.clock, listener);
        Self::with(masters, runtime, key, take, everybody)
    }

    /// Asks one master for the key, with a fresh token; the others are asked
    /// [later](Self::ask_the_rest), in the same round.
    pub(crate) fn stake_at(
        lead: usize,
        masters: &Arc<Masters>,
        runtime: &Handle,
        key: Arc<[u8]>,
        take: Action,
    ) -> Self {
        let mut first = MasterSet::EMPTY;
        first.insert(lead);
        let one = |command: &_| Fanout::send_to(first, &masters.all, command, masters.clock);
        Self::with(masters, runtime, key, take, one)
    }

    fn with(
        masters: &Arc<Masters>,
        runtime: &Handle,
        key: Arc<[u8]>,
        take: Action,
        send: impl FnOnce(&Arc<Command>) -> Fanout,
    ) -> Self {
        let token = Token::fresh();
        let takes = send(&Command::new(take, key.clone(), token));
        Self {
            masters: masters.clone(),
            runtime: runtime.clone(),
            key,
            token,
            take,
            fence: None,
            sent: Mutex::new(Sendings {
                takes,
                settled: None,
                longest: take.ttl().expect("taking gives a time"),
                reseeds: None,
                reseeded: MasterSet::EMPTY,
                ended: false,
                released: false,
                won: false,
                holding: None,
            }),
        }
    }

    pub(crate) fn masters(&self) -> &Arc<Masters> {
        &self.masters
    }

    pub(crate) fn runtime(&self) -> &Handle {
        &self.runtime
    }

    pub(crate) fn token(&self) -> &Token {
        &self.token
    }

    /// The replies to the taking command.
    pub(crate) fn takes(&mut self) -> &mut Fanout {
        let sent = self.sent.get_mut();
        &mut sent.unwrap_or_else(|poisoned| poisoned.into_inner()).takes
    }

    /// Asks the masters that were not asked when it was staked.
    pub(crate) fn ask_the_rest(&mut self) {
        let (key, token) = (self.key.clone(), self.token);
        let all = &self.masters.all;
        let sent = self.sent.get_mut();
        let sent = sent.unwrap_or_else(|poisoned| poisoned.into_inner());
        let command = Command::new(self.take, key, token);
        sent.takes.send_to_the_rest(all, &command);
    }

    /// Gives it up. Where every master that was asked has said that it did not
    /// set the key, there is nothing to release.
    pub(crate) fn withdraw(self) {
        let mut sent = self.sent();
        if sent.settled().holders.is_empty() {
            sent.ended = true;
            sent.released = true;
            sent.holding = None;
        }
    }

    /// Asks the masters that have the key to raise its count, those that will
    /// grant it late too.
    pub(crate) fn raise(&self, count: u64, life: Ttl) -> Fanout {
        let action = Action::Raise { count, life };
        let command = Command::new(action, self.key.clone(), self.token);
        Fanout::send(&self.masters.all, &command, self.masters.clock, None)
    }

    /// Lets masters answer in the background: a command whose answer is dropped
    /// may never be sent.
    pub(crate) fn settle_apart(&self, mut replies: Fanout) {
        if replies.is_complete() {
            return;
        }
        let masters = self.masters.clone();
        self.runtime.spawn(async move {
            replies.settle(&masters).await;
        });
    }

    /// How long the counter of a fenced lock is to live.
    pub(crate) fn counter_life(&self) -> Option<Ttl> {
        match self.take {
            Action::TakeFenced(ask) => Some(ask.life),
            _ => None,
        }
    }

    pub(crate) fn is_fenced(&mut self, fence: u64) {
        self.fence = Some(fence);
    }

    pub(crate) fn fence(&self) -> Option<u64> {
        self.fence
    }

    /// Asks all masters to extend the key; `None` if a release was sent before.
    pub(crate) fn extend(&self, ttl: Ttl) -> Option<Fanout> {
        let mut sent = self.sent();
        if sent.ended {
            return None;
        }
        sent.longest = ttl.max(sent.longest);
        let command = Command::new(Action::Extend(ttl), self.key.clone(), self.token);
        Some(Fanout::send(
            &self.masters.all,
            &command,
            self.masters.clock,
            None,
        ))
    }

    /// Asks these masters whether they still have the token; they tell when that
    /// changes.
    pub(crate) fn check(&self, masters: MasterSet) -> Fanout {
        let command = Command::new(Action::Check, self.key.clone(), self.token);
        Fanout::send_to(masters, &self.masters.all, &command, self.masters.clock)
    }

    pub(crate) fn key(&self) -> &Arc<[u8]> {
        &self.key
    }

    /// Gives the key back to masters that lost it, if they have none (S9); says
    /// whether it was sent: not after a release. What they answer counts for
    /// nothing, but [`poll_reseeds`](Self::poll_reseeds) must be polled.
    pub(crate) fn reseed(&self, lost: MasterSet, ttl: Ttl) -> bool {
        let mut sent = self.sent();
        if sent.ended || lost.is_empty() {
            return false;
        }
        sent.longest = ttl.max(sent.longest);
        let command = Command::new(Action::GiveBack(ttl), self.key.clone(), self.token);
        let reseeds = Fanout::send_to(lost, &self.masters.all, &command, self.masters.clock);
        sent.reseeded = sent.reseeded.union(reseeds.may_have_agreed());
        sent.reseeds = Some(reseeds);
        true
    }

    /// Ready when all masters have answered that were sent the key again, or
    /// when a release was sent.
    pub(crate) fn poll_reseeds(&self, context: &mut Context<'_>) -> Poll<()> {
        match &mut self.sent().reseeds {
            Some(reseeds) => reseeds.poll_replies(context, |_, _, _| {}),
            None => Poll::Ready(()),
        }
    }

    /// Asks all masters to delete the key. Replies to the taking commands are
    /// dropped before: one that was not written yet is never sent then, and all
    /// others come before the release.
    fn release(&self, sent: &mut Sendings, listener: Option<&Waker>) -> Release {
        sent.ended = true;
        sent.takes.drop_pending();
        sent.reseeds = None;
        let holders = sent.settled().holders.union(sent.reseeded);
        let command = Command::new(Action::Release, self.key.clone(), self.token);
        let release = Release::send(
            self.masters.clone(),
            self.runtime.clone(),
            command,
            sent.longest,
            holders,
            listener,
        );
        // Whoever comes now asks behind the release.
        let was_noted = sent.holding.take().is_some();
        if mem::take(&mut sent.won) {
            self.masters.gates.released(&self.key);
        } else if was_noted && !holders.is_empty() {
            self.masters.gates.given_up(&self.key);
        }
        release
    }

    /// Other tasks of this process know of it by this.
    pub(crate) fn noted(self, holding: Option<Holding>) -> Self {
        self.sent().holding = holding;
        self
    }

    /// A quorum has granted it.
    pub(crate) fn is_won(&self, lease: Lease) {
        let mut sent = self.sent();
        sent.won = true;
        match &sent.holding {
            Some(holding) => holding.is_held_until(lease.deadline()),
            None => sent.holding = self.masters.holdings.hold(&self.key, lease.deadline()),
        }
    }

    /// Its lease is another now.
    pub(crate) fn is_kept(&self, lease: Lease) {
        if let Some(holding) = &self.sent().holding {
            holding.is_held_until(lease.deadline());
        }
    }

    /// Releases what may be left of a lease that is lost: once, however often
    /// it is found lost.
    pub(crate) fn release_the_lost(&self) {
        let mut sent = self.sent();
        if !sent.ended {
            let release = self.release(&mut sent, None);
            drop(sent);
            drop(release);
        }
    }

    /// The owner's release: nothing is left to do when the claim is dropped.
    pub(crate) fn release_for_good(&self, listener: &Waker) -> Release {
        let mut sent = self.sent();
        sent.released = true;
        self.release(&mut sent, Some(listener))
    }

    /// Releases it in the background, unless the owner has.
    pub(crate) fn abandon(&self) {
        let mut sent = self.sent();
        if !sent.released {
            sent.released = true;
            let release = self.release(&mut sent, None);
            drop(sent);
            drop(release);
        }
    }

    /// On how many masters the token was set, late grants included (S8).
    pub(crate) fn granted(&self) -> usize {
        let _ = self.poll_takes(&mut Context::from_waker(Waker::noop()));
        self.sent().settled().granted.len()
    }

    /// Ready when all masters have answered the taking command that are still
    /// to be heard.
    pub(crate) fn poll_takes(&self, context: &mut Context<'_>) -> Poll<()> {
        let mut sent = self.sent();
        let all = sent.takes.poll_replies(context, |_, _, _| {});
        if all.is_ready() && sent.settled.is_none() {
            sent.settled = Some(sent.settled());
            drop(sent.takes.take());
        }
        all
    }

    /// Why the round was lost, with the evidence: that of the takes, unless it is
    /// another's.
    pub(crate) fn refused(
        mut self,
        refusal: Refusal,
        report: Option<RoundReport>,
        resource: &[u8],
        terms: Terms,
    ) -> LockError {
        let masters = self.masters.clone();
        let takes = self.takes();
        let elapsed = masters.clock.now().since(takes.started());
        let report = report.unwrap_or_else(|| takes.report(&masters.all));
        LockError::refused(
            refusal,
            resource,
            terms,
            masters.settings.quorum,
            elapsed,
            report,
        )
    }

    fn sent(&self) -> MutexGuard<'_, Sendings> {
        self.sent
            .lock()
            .unwrap_or_else(|poisoned| poisoned.into_inner())
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        self.abandon();
    }
}

#[cfg(all(test, feature = "testing"))]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::{MemoryMaster, Redlock};

    /// A guard or a keeper may be about to send something for the token when the
    /// release comes from another thread: the claim has the last word.
    #[tokio::test(start_paused = true)]
    async fn s09_s12_nothing_but_a_release_is_sent_after_a_release() {
        let masters = [1, 2, 3].map(|n| MemoryMaster::new(format!("m{n}")));
        let redlock = Redlock::builder().memory_masters(&masters).build().unwrap();
        let ttl = Ttl::new(Duration::from_secs(10)).unwrap();
        let (key, runtime) = (b"a".as_slice().into(), Handle::current());
        let claim = Claim::stake(&redlock.masters, &runtime, key, Action::Take(ttl), None);
        claim.is_won(Lease::until(
            redlock.masters.clock.now().after(ttl.as_duration()),
        ));
        let all = MasterSet::first(3);
        assert!(claim.extend(ttl).is_some());
        claim.release_the_lost();
        assert!(claim.extend(ttl).is_none());
        assert!(!claim.reseed(all, ttl));
        drop(claim.release_for_good(Waker::noop()));
        assert!(claim.extend(ttl).is_none());
        assert!(!claim.reseed(all, ttl));
        drop(claim);
        redlock.settled().await;
        for master in &masters {
            assert!(master.keys().is_empty());
            assert_eq!(master.executed(), 4, "a take, an extension, two releases");
        }
    }
}
