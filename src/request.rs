//! A request for a lock: its options, and what it makes of the lock.

use std::fmt;
use std::future::{Future, IntoFuture};
use std::marker::PhantomData;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use tokio::runtime::Handle;

use crate::claim::Claim;
use crate::contend::Contender;
use crate::core::{Lease, Terms};
use crate::error::{InvalidRequest, LockError};
use crate::fenced::{Fenced, Kind, Plain};
use crate::guard::Guard;
use crate::held::Held;
use crate::hold::{HoldError, LeaseHandle, hold};
use crate::keeper;
use crate::master::{Action, Ask};
use crate::masters::Masters;
use crate::patience::Patience;
use crate::settings::{Retry, Wait};

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
/// | `NoQuorum` | so many masters have no vote that no quorum is left |
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
pub struct Request<K = Plain> {
    masters: Arc<Masters>,
    resource: Arc<[u8]>,
    ttl: Duration,
    wait: Wait,
    retry: Retry,
    auto_extend: bool,
    max_hold: Duration,
    finish_on_loss: bool,
    kind: PhantomData<fn() -> K>,
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
            kind: PhantomData,
            masters,
        }
    }

    /// Asks for a lock with a [fencing token](crate::FencedGuard::fencing_token) (S16).
    ///
    /// Taking it counts the acquisitions of the resource on each master, in the
    /// same command. It takes one round trip where the counters of a quorum
    /// agree, as they do while masters are healthy, and two where they don't.
    /// The counters are keys beside the lock's (`{orders:42}:fence`), and live for
    /// [`counter_life`](crate::Builder::counter_life) after their last use; one
    /// that is lost, or older than it was, goes on by its server's clock.
    ///
    /// All clients whose order matters must ask for it: a lock that is not fenced
    /// is not counted.
    pub fn fenced(self) -> Request<Fenced> {
        Request {
            masters: self.masters,
            resource: self.resource,
            ttl: self.ttl,
            wait: self.wait,
            retry: self.retry,
            auto_extend: self.auto_extend,
            max_hold: self.max_hold,
            finish_on_loss: self.finish_on_loss,
            kind: PhantomData,
        }
    }
}

impl<K: Kind> Request<K> {
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
    pub async fn try_once(self) -> Result<K::Guard, LockError> {
        let guard = self.wait(Wait::No).acquire().await?;
        Ok(K::guard(guard))
    }

    async fn acquire(self) -> Result<Guard, LockError> {
        let terms = self.check()?;
        let mut patience = Patience::begin(self.wait, self.retry)?;
        let runtime = Handle::try_current().map_err(|_| LockError::NoRuntime)?;
        let contender = Contender {
            masters: &self.masters,
            runtime: &runtime,
            resource: &self.resource,
            key: &self.masters.key(&self.resource),
            terms,
            take: self.take(terms)?,
        };
        let (claim, lease) = contender.acquire(&mut patience).await?;
        Ok(self.hand_out(claim, lease, terms))
    }

    /// How the masters are asked.
    fn take(&self, terms: Terms) -> Result<Action, InvalidRequest> {
        let ttl = terms.ttl();
        Ok(match K::IS_FENCED {
            false => Action::Take(ttl),
            true => Action::TakeFenced(Ask {
                ttl,
                life: self.masters.settings.counter_life(ttl)?,
            }),
        })
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

impl<K> Clone for Request<K> {
    fn clone(&self) -> Self {
        Self {
            masters: self.masters.clone(),
            resource: self.resource.clone(),
            ..*self
        }
    }
}

impl<K: Kind + 'static> IntoFuture for Request<K> {
    type Output = Result<K::Guard, LockError>;
    type IntoFuture = Pin<Box<dyn Future<Output = Self::Output> + Send>>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(async move { Ok(K::guard(self.acquire().await?)) })
    }
}

impl<K> fmt::Debug for Request<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Request")
            .field("resource", &String::from_utf8_lossy(&self.resource))
            .field("ttl", &self.ttl)
            .field("wait", &self.wait)
            .field("retry", &self.retry)
            .finish_non_exhaustive()
    }
}
