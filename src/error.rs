//! What can go wrong, an enum an operation, each with the masters' evidence.

use std::time::Duration;

use thiserror::Error;

use crate::core::{Quorum, Refusal, Terms, Vote};
use crate::report::RoundReport;
use crate::settings::{InvalidRetry, InvalidTime};

/// Why a request for a lock was not served.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum LockError {
    /// A quorum of masters could be reached, but others hold the lock on so
    /// many of them that it can't be had now. Wait for it, or come back later.
    #[error(
        "{resource:?} is taken: others hold it on {} of {} masters, {needed} must grant it; \
         decided in {elapsed:?} [{report}]",
        report.count(Vote::No), report.masters().len()
    )]
    Taken {
        /// The resource, as text.
        resource: String,
        /// How many masters must grant it.
        needed: usize,
        /// How long the attempt took.
        elapsed: Duration,
        /// What each master said.
        report: RoundReport,
    },
    /// So many masters have no vote that no quorum is left. See to the masters.
    #[error(
        "no quorum for {resource:?}: {} of {} masters have no vote, {needed} must grant it; \
         check those with a fault below; decided in {elapsed:?} [{report}]",
        report.count(Vote::Absent), report.masters().len()
    )]
    NoQuorum {
        /// The resource, as text.
        resource: String,
        /// How many masters must grant it.
        needed: usize,
        /// How long the attempt took.
        elapsed: Duration,
        /// What each master said.
        report: RoundReport,
    },
    /// The attempt took so long that its validity was used up before a quorum
    /// had granted the lock. Ask for a longer TTL.
    #[error(
        "the validity of {resource:?} was used up after {elapsed:?}, before {needed} masters \
         had granted it: its TTL is {ttl:?}; ask for a longer one [{report}]"
    )]
    ValidityUsedUp {
        /// The resource, as text.
        resource: String,
        /// How many masters must grant it.
        needed: usize,
        /// The TTL that was asked for.
        ttl: Duration,
        /// How long the attempt took.
        elapsed: Duration,
        /// What each master said.
        report: RoundReport,
    },
    /// The wait is over. The source is what the last attempt came to.
    #[error("waited too long, {waited:?} (attempts: {attempts}); the last: {last}")]
    WaitedTooLong {
        /// How long.
        waited: Duration,
        /// How many attempts were made.
        attempts: u32,
        /// What the last attempt came to.
        #[source]
        last: Box<LockError>,
    },
    /// No attempt could serve the request; nothing was sent.
    #[error("this lock can't be asked for: {0}")]
    Invalid(#[from] InvalidRequest),
    /// The request was polled outside of a tokio runtime; nothing was sent.
    #[error("a lock can only be taken in a tokio runtime")]
    NoRuntime,
}

impl LockError {
    pub(crate) fn refused(
        refusal: Refusal,
        resource: &[u8],
        terms: Terms,
        quorum: Quorum,
        elapsed: Duration,
        report: RoundReport,
    ) -> Self {
        let resource = as_text(resource);
        let needed = quorum.needed();
        match refusal {
            Refusal::Taken => LockError::Taken {
                resource,
                needed,
                elapsed,
                report,
            },
            Refusal::NoQuorum => LockError::NoQuorum {
                resource,
                needed,
                elapsed,
                report,
            },
            Refusal::TooLate => LockError::ValidityUsedUp {
                resource,
                needed,
                ttl: terms.ttl().as_duration(),
                elapsed,
                report,
            },
        }
    }

    /// What the last attempt came to: this error, or what is behind a wait that is
    /// over. So `matches!(error.cause(), LockError::NoQuorum { .. })` is true of
    /// masters in trouble, however long they were waited for.
    pub fn cause(&self) -> &LockError {
        match self {
            LockError::WaitedTooLong { last, .. } => last.cause(),
            other => other,
        }
    }

    /// What each master said in the last attempt, if there was one.
    pub fn report(&self) -> Option<&RoundReport> {
        match self {
            LockError::Taken { report, .. }
            | LockError::NoQuorum { report, .. }
            | LockError::ValidityUsedUp { report, .. } => Some(report),
            LockError::WaitedTooLong { last, .. } => last.report(),
            LockError::Invalid(_) | LockError::NoRuntime => None,
        }
    }
}

/// What is wrong with a request.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum InvalidRequest {
    /// The resource has no bytes: its key would be the bare prefix.
    #[error("the resource is empty")]
    EmptyResource,
    /// The TTL can't be used.
    #[error(transparent)]
    Time(#[from] InvalidTime),
    /// The retry policy can't be used.
    #[error("the retry policy can't be used: {0}")]
    Retry(#[from] InvalidRetry),
}

/// What came of an extension that did not renew the lease (S10).
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum ExtendError {
    /// The lock is not held any more: so many masters have lost the token that
    /// a quorum can't have it, or the deadline passed before they had answered.
    /// Stop the critical section. What was left of the lock is released.
    #[error("the lease is lost after {elapsed:?} [{report}]")]
    Lost {
        /// How long the extension took.
        elapsed: Duration,
        /// What each master said; empty if the lease had ended before.
        report: RoundReport,
    },
    /// Too few masters answered to say either. The lock is held until its
    /// deadline, and the extension may be tried again until then.
    #[error(
        "the extension is undecided after {elapsed:?}; the lease stands for {remaining:?}, \
         try again before that [{report}]"
    )]
    Unknown {
        /// How much is left of the lease.
        remaining: Duration,
        /// How long the extension took.
        elapsed: Duration,
        /// What each master said.
        report: RoundReport,
    },
    /// The TTL can't be used; nothing was sent, and the lease stands.
    #[error("this extension can't be asked for: {0}")]
    Invalid(#[from] InvalidTime),
}

/// Why a release was not what its caller may rely on.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum ReleaseError {
    /// The lock was not held any more: it had expired, or been deleted or taken
    /// over, on so many masters that no quorum had it. The critical section may
    /// have overlapped with another owner's. Nothing of it is left.
    #[error(
        "the lock was not held any more when it was released; its section may have overlapped \
         with another; a longer TTL or extension helps [{report}]"
    )]
    NotHeld {
        /// What each master said.
        report: RoundReport,
    },
    /// Too few masters answered in the master time-out. The release goes on in
    /// the background, and the TTL ends what it can't reach.
    #[error(
        "the release was confirmed by {} of {} masters; it goes on in the background [{report}]",
        report.count(Vote::Yes) + report.count(Vote::No), report.masters().len()
    )]
    Unconfirmed {
        /// What each master said.
        report: RoundReport,
    },
}

/// Less is left of the lease than was asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("{remaining:?} is left of the lease, and {wanted:?} is needed; extend it, or stop")]
pub struct LeaseTooShort {
    /// How much is left.
    pub remaining: Duration,
    /// How much was asked for.
    pub wanted: Duration,
}

/// The resource as text, cut if it is long.
fn as_text(resource: &[u8]) -> String {
    const LONGEST: usize = 100;
    match resource.len() {
        0..=LONGEST => String::from_utf8_lossy(resource).into_owned(),
        length => {
            let start = String::from_utf8_lossy(&resource[..LONGEST]).into_owned();
            format!("{start}… ({length} bytes)")
        }
    }
}
