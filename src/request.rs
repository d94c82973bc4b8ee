//! A request for a lock: its options, and the loop of rounds that serves it.

use std::fmt;
use std::future::{Future, IntoFuture};
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use tokio::runtime::Handle;
use tokio::time::{Instant, timeout};

use crate::acquire::take;
use crate::claim::Claim;
use crate::core::{Backoff, Lease, Spread, Terms, Vote};
use crate::error::{InvalidRequest, LockError};
use crate::gate::{Gate, Local};
use crate::guard::Guard;
use crate::held::Held;
use crate::hold::{HoldError, LeaseHandle, hold};
use crate::keeper;
use crate::masters::Masters;
use crate::quarantine::Quarantined;
use crate::settings::{Retry, Wait};
use crate::waiting::{chance, give_way};

/// A request for a lock, made by [`Redlock::lock`](crate::Redlock::lock).
///
/// Await it to wait for the lock within its [wait](Self::wait) and
/// [retry](Self::retry), or call [`try_once`](Self::try_once).
///
/// # Errors
///
/// | variant of [`LockError`] | when |
/// |---|---|
/// | `Taken` | others hold it, and there is no waiting or no attempt left |
/// | `NoQuorum` | so many masters can't be reached that no quorum is left |
/// | `ValidityUsedUp` | a quorum took so long that nothing is left of the TTL |
/// | `WaitedTooLong` | the wait is over; its source is what the last attempt came to |
/// | `Invalid` | the request can't be served by any attempt; nothing was sent |
/// | `NoRuntime` | it was polled outside of a tokio runtime; nothing was sent |
///
/// # Cancel safety
///
/// The future can be dropped at any time: what it may have set is released on
/// all masters in the background (S17).
#[must_use = "a request does nothing until it is awaited"]
#[derive(Clone)]
pub struct Request {
    masters: Arc<Masters>,
    resource: Arc<[u8]>,
    ttl: Duration,
    wait: Wait,
    retry: Retry,
    auto_extend: bool,
    max_hold: Duration,
    finish_on_loss: bool,
}

impl Request {
    pub(crate) fn new(masters: Arc<Masters>, resource: &[u8]) -> Self {
        let settings = &masters.settings;
        Self {
            resource: resource.into(),
            ttl: settings.ttl,
            wait: settings.wait,
            retry: settings.retry,
            auto_extend: false,
            max_hold: settings.max_hold,
            finish_on_loss: false,
            masters,
        }
    }

    /// The time to live of the lock's keys, in whole milliseconds; the rest is
    /// cut off. The lock is valid for this, less the time that taking it took,
    /// less the drift.
    pub fn ttl(mut self, ttl: Duration) -> Self {
        self.ttl = ttl;
        self
    }

    /// How long to wait.
    pub fn wait(mut self, wait: impl Into<Wait>) -> Self {
        self.wait = wait.into();
        self
    }

    /// How to try again while waiting.
    pub fn retry(mut self, retry: Retry) -> Self {
        self.retry = retry;
        self
    }

    /// Extends the lock to its [TTL](Self::ttl) again and again, in the
    /// background, until it is released, dropped, lost, or held for
    /// [`max_hold`](Self::max_hold) (S12).
    ///
    /// It is extended when a third of the TTL is over since the last extension
    /// that a quorum confirmed began, but at most nine times a second; of leases
    /// under 200 ms or so, when four sevenths are over. An extension that is
    /// undecided, since masters are down, hung or in error, is tried again after
    /// short random pauses, until the old deadline. That the lock is lost all
    /// the same, [`Guard::lost`] tells.
    ///
    /// It costs a small task a lock, in the runtime in which it was taken.
    pub fn auto_extend(mut self) -> Self {
        self.auto_extend = true;
        self
    }

    /// For how long the lock is extended [automatically](Self::auto_extend); the
    /// default is the builder's, an hour. After this time no extension is sent,
    /// so that the lock ends up to one TTL later, with the reason
    /// [`MaxHold`](crate::LossReason::MaxHold): a section that hangs does not
    /// keep the others waiting for ever. Without automatic extension it has no
    /// effect. [`Duration::MAX`] is for ever.
    pub fn max_hold(mut self, longest: Duration) -> Self {
        self.max_hold = longest;
        self
    }

    /// Lets a section that is [held](Self::hold) run to its end even if the lock
    /// is lost before. The default is to drop it then.
    pub fn finish_on_loss(mut self) -> Self {
        self.finish_on_loss = true;
        self
    }

    /// Takes the lock, runs the section under it, and releases it. The lock is
    /// [extended](Self::auto_extend) for as long as the section runs, by a task
    /// of its own, so that the section is never held up.
    ///
    /// If the lock is lost before the section has ended, the section's future is
    /// dropped at the await where it stands, unless
    /// [`finish_on_loss`](Self::finish_on_loss) lets it go on. What it does
    /// between two awaits can't be stopped: a section that computes for long
    /// should [`ensure`](LeaseHandle::ensure) what it needs.
    ///
    /// ```no_run
    /// # use std::time::Duration;
    /// # async fn build_report() -> std::io::Result<u32> { Ok(7) }
    /// # async fn doc(redlock: redquorum::Redlock) -> Result<(), Box<dyn std::error::Error>> {
    /// let pages = redlock
    ///     .lock("report:daily")
    ///     .ttl(Duration::from_secs(10))
    ///     .hold(|lease| async move {
    ///         lease.ensure(Duration::from_secs(1))?;
    ///         build_report().await.map_err(Box::<dyn std::error::Error>::from)
    ///     })
    ///     .await??; // the lock's error, and the section's own
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// The lock is released whatever becomes of the section: when it returns,
    /// fails, panics, or is cancelled.
    ///
    /// # Errors
    ///
    /// [`HoldError::Lock`] if the lock was not taken: the section was not begun.
    /// [`HoldError::Lost`] if the lock was lost before the section had ended, or
    /// if masters said at the release that it had been; with the section's value
    /// if it has one. A release that too few masters confirmed is no error: it
    /// goes on in the background, is logged, and the value is returned.
    ///
    /// # Cancel safety
    ///
    /// The future can be dropped at any time: the section is dropped, then the
    /// lock is released on all masters in the background (S17).
    pub async fn hold<F, S>(self, section: F) -> Result<S::Output, HoldError<S::Output>>
    where
        F: FnOnce(LeaseHandle) -> S,
        S: Future,
    {
        let finish_on_loss = self.finish_on_loss;
        let guard = self.auto_extend().acquire().await?;
        hold(guard, section, finish_on_loss).await
    }

    /// Makes one attempt, without waiting for others to release the lock. It
    /// takes at most the master time-out.
    ///
    /// # Errors
    ///
    /// As for the [request](Self), but never `WaitedTooLong`.
    ///
    /// # Cancel safety
    ///
    /// As for the [request](Self).
    pub async fn try_once(self) -> Result<Guard, LockError> {
        self.wait(Wait::No).acquire().await
    }

    async fn acquire(self) -> Result<Guard, LockError> {
        let terms = self.check()?;
        let mut waiting = Waiting::begin(self.wait, self.retry)?;
        let runtime = Handle::try_current().map_err(|_| LockError::NoRuntime)?;
        let key = self.masters.key(&self.resource);
        let attempt = Attempt {
            masters: &self.masters,
            runtime: &runtime,
            resource: &self.resource,
            key: &key,
            terms,
        };
        let gates = &self.masters.gates;
        let waits = self.wait != Wait::No;
        let (claim, lease) = if waits && gates.is_awaited(&key) {
            attempt.queue(&mut waiting, First::Queue).await?
        } else if waits && gates.owes_others_a_turn(&key) {
            attempt.queue(&mut waiting, First::GiveWay).await?
        } else {
            match attempt.make().await {
                Ok(won) => won,
                Err(refused) => {
                    waiting.count(refused)?;
                    attempt.queue(&mut waiting, First::Queue).await?
                }
            }
        };
        Ok(self.hand_out(claim, lease, terms))
    }

    /// The lock, and the task that keeps it, if one is to.
    fn hand_out(self, claim: Claim, lease: Lease, terms: Terms) -> Guard {
        let held = Held::new(claim, self.resource, lease);
        if self.auto_extend {
            keeper::keep(&held, terms, self.max_hold);
        }
        Guard::new(held)
    }

    /// Refuses what no attempt could serve.
    fn check(&self) -> Result<Terms, InvalidRequest> {
        if self.resource.is_empty() {
            return Err(InvalidRequest::EmptyResource);
        }
        Ok(self.masters.settings.terms(self.ttl)?)
    }
}

impl IntoFuture for Request {
    type Output = Result<Guard, LockError>;
    type IntoFuture = Pin<Box<dyn Future<Output = Self::Output> + Send>>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(self.acquire())
    }
}

impl fmt::Debug for Request {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Request")
            .field("resource", &String::from_utf8_lossy(&self.resource))
            .field("ttl", &self.ttl)
            .field("wait", &self.wait)
            .field("retry", &self.retry)
            .finish_non_exhaustive()
    }
}

/// Where masters wake those who wait, they look again this often on their own.
const FALLBACK: Duration = Duration::from_secs(2);

/// One request's attempts to take its lock.
struct Attempt<'a> {
    masters: &'a Arc<Masters>,
    runtime: &'a Handle,
    resource: &'a Arc<[u8]>,
    key: &'a Arc<[u8]>,
    terms: Terms,
}

type Won = (Claim, Lease);

/// What comes before the first attempt of one that contends.
#[derive(Clone, Copy, PartialEq, Eq)]
enum First {
    /// To wait for the lock, which others have.
    Queue,
    /// To let others have it, who want it too: this process just had it.
    GiveWay,
}

impl Attempt<'_> {
    async fn make(&self) -> Result<Won, LockError> {
        take(self.masters, self.runtime, self.resource, self.terms).await
    }

    /// Waits at the resource's gate, and contends when it is this one's turn,
    /// for as long as the request waits.
    async fn queue(&self, waiting: &mut Waiting, first: First) -> Result<Won, LockError> {
        let place = self.masters.gates.join(self.key);
        let left = waiting.left();
        let contending = self.contend(place.gate(), waiting, first);
        if let Ok(outcome) = timeout(left, contending).await {
            return outcome;
        }
        // The last one needs no turn: it is to say how things are.
        match self.make().await {
            Ok(won) => Ok(won),
            Err(refused) => {
                waiting.attempts = waiting.attempts.saturating_add(1);
                Err(waiting.over(refused))
            }
        }
    }

    fn spread(&self, waiting: &Waiting) -> Spread {
        let spread = self.masters.gates.spread(self.key);
        spread.after(waiting.began.elapsed())
    }

    fn adapt(&self, change: impl FnOnce(&mut Spread)) {
        let gates = &self.masters.gates;
        let mut spread = gates.spread(self.key);
        change(&mut spread);
        gates.set_spread(self.key, spread);
    }

    async fn contend(
        &self,
        gate: &Gate,
        waiting: &mut Waiting,
        first: First,
    ) -> Result<Won, LockError> {
        let mut turn = gate.turn.lock().await;
        let mut reachable = true;
        if first == First::GiveWay && gate.local() != Local::Held && self.masters.tell() {
            let fallback = waiting.fallback(true, true);
            give_way(self.masters, self.key, gate, fallback).await;
        } else {
            let fallback = waiting.fallback(self.masters.tell(), reachable);
            let spread = self.spread(waiting);
            chance(self.masters, self.key, gate, &mut turn, spread, fallback).await;
        }
        loop {
            let quarantined;
            match self.make().await {
                Ok(won) => {
                    self.adapt(Spread::won);
                    gate.set_local(Local::Held);
                    return Ok(won);
                }
                Err(refused) => {
                    reachable = matches!(refused, LockError::Taken { .. });
                    quarantined = Quarantined::of(&refused);
                    if refused
                        .report()
                        .is_some_and(|report| report.count(Vote::Yes) > 0)
                    {
                        self.adapt(Spread::collided);
                    }
                    waiting.count(refused)?;
                }
            }
            let fallback = waiting.fallback(self.masters.tell(), reachable);
            let fallback = quarantined.map_or(fallback, |found| found.pause(fallback));
            let spread = self.spread(waiting);
            chance(self.masters, self.key, gate, &mut turn, spread, fallback).await;
        }
    }
}

/// The waiting of one request: how long it has lasted, and how long it may.
struct Waiting {
    began: Instant,
    wait: Wait,
    backoff: Backoff,
    /// The pauses where masters wake those who wait.
    fallback: Backoff,
    attempts: u32,
    most_attempts: Option<u32>,
    /// Whether the wait for masters was told.
    told: bool,
}

impl Waiting {
    fn begin(wait: Wait, retry: Retry) -> Result<Self, InvalidRequest> {
        Ok(Self {
            began: Instant::now(),
            wait,
            backoff: retry.backoff()?,
            fallback: Backoff::new(FALLBACK, FALLBACK).expect("the bounds are in order"),
            attempts: 0,
            most_attempts: retry.attempts,
            told: false,
        })
    }

    /// Counts a refused attempt; gives it back if there is to be no other.
    fn count(&mut self, refused: LockError) -> Result<(), LockError> {
        self.attempts = self.attempts.saturating_add(1);
        if self.wait == Wait::No || self.most_attempts.is_some_and(|most| self.attempts >= most) {
            return Err(refused);
        }
        if self.left().is_zero() {
            return Err(self.over(refused));
        }
        self.tell(&refused);
        Ok(())
    }

    /// How much of the wait is left.
    fn left(&self) -> Duration {
        match self.wait {
            Wait::Forever => Duration::MAX,
            Wait::For(longest) => longest.saturating_sub(self.began.elapsed()),
            Wait::No => Duration::ZERO,
        }
    }

    /// How long to wait for a wake-up: a while, unless there is nobody to give
    /// one, or nothing to tell of.
    fn fallback(&self, woken: bool, reachable: bool) -> Duration {
        let failures = self.attempts.saturating_sub(1);
        let backoff = if woken && reachable {
            self.fallback
        } else {
            self.backoff
        };
        backoff.delay(failures, rand::random())
    }

    /// The wait is over, and this is what the last attempt came to.
    fn over(&self, refused: LockError) -> LockError {
        LockError::WaitedTooLong {
            waited: self.began.elapsed(),
            attempts: self.attempts,
            last: Box::new(refused),
        }
    }

    /// Waiting for masters that can't be reached is worth a word, once.
    fn tell(&mut self, refused: &LockError) {
        if !self.told && matches!(refused, LockError::NoQuorum { .. }) {
            self.told = true;
            tracing::warn!(%refused, "waiting for a quorum of masters");
        } else {
            tracing::trace!(%refused, attempts = self.attempts, "trying again");
        }
    }
}
