//! How one request comes to its lock: it asks at once, and if others have it,
//! queues with the tasks of this process, contends with other processes when it
//! is its turn, and asks again at each chance.

use std::future::poll_fn;
use std::sync::Arc;
use std::task::Poll;

use tokio::runtime::Handle;
use tokio::time::{Instant, sleep, timeout};

use crate::acquire::settle;
use crate::claim::Claim;
use crate::core::{Lease, Terms, Vote};
use crate::error::LockError;
use crate::gate::{Gate, Turn, is_over};
use crate::holdings::{Holding, Noted};
use crate::master::Action;
use crate::masters::Masters;
use crate::patience::Patience;
use crate::waiting::{Chance, Next, Waiter};

/// A request that contends for its lock.
pub(crate) struct Contender<'a> {
    pub(crate) masters: &'a Arc<Masters>,
    pub(crate) runtime: &'a Handle,
    pub(crate) resource: &'a Arc<[u8]>,
    pub(crate) key: &'a Arc<[u8]>,
    pub(crate) terms: Terms,
    /// How it is asked for.
    pub(crate) take: Action,
}

type Won = (Claim, Lease);

impl Contender<'_> {
    /// Asks at once, unless others are first, and then for as long as there is
    /// patience.
    pub(crate) async fn acquire(&self, patience: &mut Patience) -> Result<Won, LockError> {
        let gates = &self.masters.gates;
        if patience.is_none() {
            return self.attempt(self.note().holding()).await;
        }
        let next = if gates.is_awaited(self.key) {
            Next::Knock
        } else if gates.rivalry.owes_others_a_turn(self.key) {
            Next::GiveWay
        } else if gates.rivalry.collides(self.key) {
            Next::Enter
        } else {
            match self.note() {
                // The next attempt could be the last, or long after.
                Noted::Others if !patience.counts_attempts() && self.masters.tell() => Next::Knock,
                noted => {
                    let is_first = matches!(noted, Noted::First(_));
                    match self.attempt(noted.holding()).await {
                        Ok(won) => return Ok(won),
                        Err(refused) => {
                            if is_first && matches!(refused, LockError::Taken { .. }) {
                                // Not by a task of this process, as far as is known.
                                gates.rivalry.rival(self.key);
                            }
                            let next = self.after(&refused, false);
                            patience.count(refused)?;
                            next
                        }
                    }
                }
            }
        };
        // Apart, so that the usual way stays small.
        Box::pin(self.queue(patience, next)).await
    }

    /// Waits at the resource's gate, and contends when it is this one's turn,
    /// for as long as the request waits.
    async fn queue(&self, patience: &mut Patience, next: Next) -> Result<Won, LockError> {
        let place = self.masters.gates.join(self.key);
        let holdings = &self.masters.holdings;
        let clock = self.masters.clock;
        place
            .gate()
            .is_held_while(|| holdings.has(self.key, clock.now()));
        let left = patience.left();
        let contending = self.contend(place.gate(), patience, next);
        if let Ok(outcome) = timeout(left, contending).await {
            return outcome;
        }
        // The last one needs no turn: it is to say how things are.
        match self.attempt(None).await {
            Ok(won) => Ok(won),
            Err(refused) => {
                patience.count_missed();
                Err(patience.over(refused))
            }
        }
    }

    async fn contend(
        &self,
        gate: &Gate,
        patience: &mut Patience,
        mut next: Next,
    ) -> Result<Won, LockError> {
        let mut turn = gate.turn.lock().await;
        let (mut missed, mut vain) = (0, 0);
        loop {
            let waiter = self.waiter(gate, patience, missed, &mut vain);
            let chance = self.chance(waiter, &mut turn, patience, next).await;
            let led = matches!(chance, Chance::Led { .. });
            let outcome = match chance {
                Chance::Claimed(claim) => settle(claim, self.resource, self.terms).await,
                Chance::Led { mut claim, .. } => {
                    claim.ask_the_rest();
                    settle(claim, self.resource, self.terms).await
                }
                Chance::Free | Chance::Unwanted => self.attempt(None).await,
                Chance::Missed { asked } => {
                    missed += 1;
                    if asked {
                        patience.count_missed();
                    }
                    next = Next::Watch;
                    continue;
                }
                Chance::Due => {
                    next = Next::GiveWay;
                    continue;
                }
            };
            match outcome {
                Ok(won) => {
                    gate.is_held_here();
                    return Ok(won);
                }
                Err(refused) => {
                    next = self.after(&refused, led);
                    patience.count(refused)?;
                }
            }
        }
    }

    /// What follows a refusal. A lead master that had the lock to give while
    /// others had not is not the one to watch.
    fn after(&self, refused: &LockError, led: bool) -> Next {
        let split = |report: &crate::report::RoundReport| report.count(Vote::Yes) > 0;
        match refused {
            LockError::Taken { report, .. } => {
                if split(report) {
                    self.masters.gates.rivalry.collided(self.key);
                }
                if led { Next::Look } else { Next::Knock }
            }
            _ => Next::Rest,
        }
    }

    async fn attempt(&self, holding: Option<Holding>) -> Result<Won, LockError> {
        let staking = poll_fn(|context| {
            let (key, listener) = (self.key.clone(), Some(context.waker()));
            let claim = Claim::stake(self.masters, self.runtime, key, self.take, listener);
            Poll::Ready(claim)
        });
        let claim = staking.await.noted(holding);
        settle(claim, self.resource, self.terms).await
    }

    /// Remembers what an opening says of others. Masters don't tell of what this
    /// process did itself. That nobody came while it gave way says nothing against
    /// those who were seen before: they may be slow.
    fn see(&self, chance: &Chance) {
        let rivalry = &self.masters.gates.rivalry;
        let is_seen = match chance {
            Chance::Led { at_once: true, .. } => false,
            Chance::Unwanted => rivalry.has_rivals(self.key),
            _ => true,
        };
        if is_seen {
            rivalry.rival(self.key);
        }
    }

    /// Lets the other tasks of this process know that this one asks.
    fn note(&self) -> Noted {
        let clock = self.masters.clock;
        self.masters.holdings.ask(self.key, || clock.now())
    }

    fn waiter<'a>(
        &'a self,
        gate: &'a Gate,
        patience: &Patience,
        missed: u32,
        vain: &'a mut u32,
    ) -> Waiter<'a> {
        Waiter {
            masters: self.masters,
            runtime: self.runtime,
            key: self.key,
            take: self.take,
            gate,
            missed,
            vain,
            may_miss: !patience.has_one_attempt_left(),
            sparing: patience.counts_attempts(),
        }
    }

    /// Waits until the lock may be had: a task of this process has released it,
    /// masters say that it is gone, or it is time to ask anyway.
    async fn chance(
        &self,
        mut waiter: Waiter<'_>,
        turn: &mut Turn,
        patience: &Patience,
        next: Next,
    ) -> Chance {
        let gate = waiter.gate;
        let successor = waiter.succeed(turn.run);
        let rest = patience.rest(next != Next::Rest && self.masters.tell());
        tokio::select! {
            biased;
            () = gate.until_freed_here() => {}
            chance = waiter.opening(next) => {
                self.see(&chance);
                turn.run = None;
                return chance;
            }
            () = sleep(rest) => {
                turn.run = None;
                return Chance::Free;
            }
        }
        if let Some(claim) = successor.take() {
            turn.run.get_or_insert_with(Instant::now);
            return Chance::Claimed(claim);
        }
        if is_over(turn.run, self.masters.gates.longest_run(self.key)) {
            turn.run = None;
            return Chance::Due;
        }
        turn.run.get_or_insert_with(Instant::now);
        Chance::Free
    }
}
