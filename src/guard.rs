//! A lock that is held.

use std::fmt;
use std::future::{Future, poll_fn};
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use tokio_util::sync::CancellationToken;

use crate::core::ReleaseVerdict;
use crate::error::{ExtendError, LeaseTooShort, ReleaseError};
use crate::held::Held;
use crate::hold::LeaseHandle;
use crate::loss::LossReason;

/// A lock that is held, until it is released or its lease ends.
///
/// Dropping it releases it on all masters in the background, which can't say
/// whether it was still held: [`release`](Self::release) can.
///
/// A guard that outlives its lease does nothing by itself: look at
/// [`is_valid`](Self::is_valid) or [`ensure`](Self::ensure) before what matters,
/// or hear of the loss by [`lost`](Self::lost).
#[must_use = "the lock is released as soon as its guard is dropped"]
pub struct Guard {
    held: Arc<Held>,
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
    pub(crate) fn new(held: Arc<Held>) -> Self {
        Self { held }
    }

    /// What is locked, as it was asked for: without the key prefix.
    pub fn resource(&self) -> &[u8] {
        self.held.resource()
    }

    /// The value that the lock has on its masters: unique to this owner.
    pub fn token(&self) -> &str {
        self.held.claim().token().as_str()
    }

    /// How much is left of the lease; zero when it has ended. It counts the
    /// time for which the machine is suspended, where the platform says.
    pub fn remaining(&self) -> Duration {
        self.held.remaining()
    }

    /// Whether any of the lease is left, and its loss was not told. By the time
    /// the caller acts on it, less is: see [`ensure`](Self::ensure).
    pub fn is_valid(&self) -> bool {
        !self.remaining().is_zero()
    }

    /// Makes sure that at least this much is left of the lease: call it before
    /// a step that takes as long, with what it takes at the worst.
    ///
    /// # Errors
    ///
    /// [`LeaseTooShort`] if less is left.
    pub fn ensure(&self, wanted: Duration) -> Result<(), LeaseTooShort> {
        self.held.ensure(wanted)
    }

    /// On how many masters the lock was granted, late answers included.
    pub fn granted(&self) -> usize {
        self.held.claim().granted()
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
        let terms = self.held.masters().settings.terms(ttl)?;
        self.held.extend(terms).await
    }

    /// Waits until the lock is not held any more, and says why: at the latest a
    /// little before the deadline (5 ms, so that a timer that is late is not too
    /// late), and at once when masters say that so many of them have lost the
    /// key that no quorum has it (S11). From then on, [`is_valid`](Self::is_valid)
    /// is false.
    ///
    /// Masters say so as soon as the key is deleted, expires or is overwritten
    /// there: while the future is polled, they are asked to tell. Those that
    /// can't (see the operations guide) say so when the lock is extended, by hand
    /// or by [`auto_extend`](crate::Request::auto_extend). The end of this guard
    /// is an end too, [`LossReason::Released`].
    ///
    /// The future is independent of the guard: move it to another task, or race
    /// it with the critical section. It must be polled in a tokio runtime. After
    /// the machine was suspended, or the process stopped, it is ready within a
    /// second, and at once if it is polled; [`is_valid`](Self::is_valid) is
    /// right at the first look.
    ///
    /// ```no_run
    /// # async fn section() {}
    /// # async fn doc(lock: redquorum::Guard) {
    /// tokio::select! {
    ///     () = section() => println!("done"),
    ///     reason = lock.lost() => eprintln!("stopped: {reason}"),
    /// }
    /// # }
    /// ```
    ///
    /// # Cancel safety
    ///
    /// Dropping the future changes nothing; any number of them can wait.
    pub fn lost(&self) -> impl Future<Output = LossReason> + Send + use<> {
        self.held.clone().lost()
    }

    /// A token that is cancelled when the lock is not held any more, at the same
    /// time as [`lost`](Self::lost) is ready: for code that passes such tokens
    /// on. All calls return clones of one token; to cancel it yourself tells its
    /// other users, and changes nothing about the lock. Why it was cancelled,
    /// [`loss`](Self::loss) says.
    ///
    /// The first call starts a small task in the runtime in which the lock was
    /// taken; it ends with the lock.
    pub fn lost_token(&self) -> CancellationToken {
        self.held.lost_token()
    }

    /// A handle that sees the lease and can't release the lock, for the parts of
    /// a section that run elsewhere.
    pub fn lease(&self) -> LeaseHandle {
        LeaseHandle::new(self.held.clone())
    }

    /// Why the lock is not held any more, if that was told: see
    /// [`lost`](Self::lost).
    pub fn loss(&self) -> Option<LossReason> {
        self.held.loss()
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
        let sending = poll_fn(|context| Poll::Ready(self.held.release(context.waker())));
        let mut release = sending.await;
        match release.confirm().await {
            ReleaseVerdict::Released => {
                let (removed, masters) = release.removed();
                Ok(Released { removed, masters })
            }
            ReleaseVerdict::NotHeld => Err(ReleaseError::NotHeld {
                report: release.report(),
            }),
            ReleaseVerdict::Unconfirmed | ReleaseVerdict::Pending => {
                Err(ReleaseError::Unconfirmed {
                    report: release.report(),
                })
            }
        }
    }
}

impl Guard {
    pub(crate) fn fence(&self) -> Option<u64> {
        self.held.fence()
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        self.held.abandon();
    }
}

impl fmt::Debug for Guard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Guard")
            .field("resource", &String::from_utf8_lossy(self.resource()))
            .field("token", &self.token())
            .field("remaining", &self.remaining())
            .finish_non_exhaustive()
    }
}
