//! A section that runs under a lock.

use std::error::Error;
use std::fmt;
use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use tokio_util::sync::CancellationToken;

use crate::error::{LeaseTooShort, LockError, ReleaseError};
use crate::guard::Guard;
use crate::held::Held;
use crate::loss::LossReason;

/// Runs the section while the lock is held, then releases it.
///
/// On every way out the section is dropped before the guard: nothing of it runs
/// when the lock is released.
pub(crate) async fn hold<F, S>(
    guard: Guard,
    section: F,
    finish_on_loss: bool,
) -> Result<S::Output, HoldError<S::Output>>
where
    F: FnOnce(LeaseHandle) -> S,
    S: Future,
{
    let lease = guard.lease();
    let ended = {
        let mut section = pin!(section(lease.clone()));
        tokio::select! {
            biased;
            reason = lease.lost() => match finish_on_loss {
                true => Err((reason, Some(section.await))),
                false => Err((reason, None)),
            },
            value = &mut section => match lease.loss() {
                Some(reason) => Err((reason, Some(value))),
                None => Ok(value),
            },
        }
    };
    match ended {
        Ok(value) => release(guard, value).await,
        Err((reason, value)) => Err(HoldError::Lost { reason, value }),
    }
}

/// Releases the lock; says if the masters know that it had been lost before the
/// section ended.
async fn release<T>(guard: Guard, value: T) -> Result<T, HoldError<T>> {
    match guard.release().await {
        Err(ReleaseError::NotHeld { report }) => Err(HoldError::Lost {
            reason: LossReason::Gone { report },
            value: Some(value),
        }),
        Err(unconfirmed) => {
            tracing::debug!(%unconfirmed, "the release of a section's lock");
            Ok(value)
        }
        Ok(_) => Ok(value),
    }
}

/// What a section knows of its lock: the lease, and not the power to release it.
///
/// Clones see the same lease. A handle can outlive the lock, and then says that
/// it was [released](LossReason::Released).
#[derive(Clone)]
pub struct LeaseHandle {
    held: Arc<Held>,
}

impl LeaseHandle {
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

    /// The fencing token, of a lock that was asked for as
    /// [`fenced`](crate::Request::fenced); see
    /// [`FencedGuard::fencing_token`](crate::FencedGuard::fencing_token).
    pub fn fencing_token(&self) -> Option<u64> {
        self.held.fence()
    }

    /// How much is left of the lease; zero when it is over. An extension may
    /// make it more.
    pub fn remaining(&self) -> Duration {
        self.held.remaining()
    }

    /// Whether any of the lease is left, and its loss was not told.
    pub fn is_valid(&self) -> bool {
        !self.remaining().is_zero()
    }

    /// Makes sure that at least this much is left of the lease: call it before a
    /// step that takes as long, with what it takes at the worst.
    ///
    /// # Errors
    ///
    /// [`LeaseTooShort`] if less is left.
    pub fn ensure(&self, wanted: Duration) -> Result<(), LeaseTooShort> {
        self.held.ensure(wanted)
    }

    /// Waits until the lock is not held any more, and says why; see
    /// [`Guard::lost`].
    ///
    /// # Cancel safety
    ///
    /// Dropping the future changes nothing; any number of them can wait.
    pub fn lost(&self) -> impl Future<Output = LossReason> + Send + use<> {
        self.held.clone().lost()
    }

    /// A token that is cancelled when the lock is not held any more; see
    /// [`Guard::lost_token`].
    pub fn lost_token(&self) -> CancellationToken {
        self.held.lost_token()
    }

    /// Why the lock is not held any more, if that was told.
    pub fn loss(&self) -> Option<LossReason> {
        self.held.loss()
    }
}

impl fmt::Debug for LeaseHandle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LeaseHandle")
            .field("resource", &String::from_utf8_lossy(self.resource()))
            .field("token", &self.token())
            .field("remaining", &self.remaining())
            .finish_non_exhaustive()
    }
}

/// Why [`Request::hold`](crate::Request::hold) has no value that was made under
/// the lock.
#[non_exhaustive]
pub enum HoldError<T> {
    /// The lock was not taken; the section was not begun.
    Lock(LockError),
    /// The lock was lost before the section had ended. Another owner may have
    /// begun meanwhile.
    Lost {
        /// Why.
        reason: LossReason,
        /// What the section returned; `None` if it was dropped.
        value: Option<T>,
    },
}

impl<T> HoldError<T> {
    /// What the section returned, if it ended.
    pub fn into_value(self) -> Option<T> {
        match self {
            HoldError::Lock(_) => None,
            HoldError::Lost { value, .. } => value,
        }
    }
}

impl<T> From<LockError> for HoldError<T> {
    fn from(error: LockError) -> Self {
        HoldError::Lock(error)
    }
}

impl<T> fmt::Display for HoldError<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            HoldError::Lock(error) => error.fmt(f),
            HoldError::Lost {
                reason,
                value: None,
            } => write!(
                f,
                "the section was stopped, since its lock was lost: {reason}"
            ),
            HoldError::Lost { reason, .. } => {
                write!(f, "the section ended after its lock was lost: {reason}")
            }
        }
    }
}

/// Without the value, whose type need not have it.
impl<T> fmt::Debug for HoldError<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            HoldError::Lock(error) => f.debug_tuple("Lock").field(error).finish(),
            HoldError::Lost { reason, value } => f
                .debug_struct("Lost")
                .field("reason", reason)
                .field("has_value", &value.is_some())
                .finish(),
        }
    }
}

impl<T> Error for HoldError<T> {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            HoldError::Lock(error) => Some(error),
            HoldError::Lost { reason, .. } => Some(reason),
        }
    }
}
