//! Why a lease is over.

use thiserror::Error;

use crate::report::RoundReport;

/// Why a lease is over. From the moment at which it is told,
/// [`Guard::is_valid`](crate::Guard::is_valid) is false.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum LossReason {
    /// Its deadline came: nobody extended it, or no quorum of masters confirmed
    /// an extension in time. It is told a little *before* the deadline (S11).
    #[error("the lease came to its deadline")]
    Expired,
    /// So many masters no longer have the token that a quorum can't have it: the
    /// key was deleted, evicted, taken by another, or lost in restarts.
    #[error("the lock is gone from so many masters that no quorum has it [{report}]")]
    Gone {
        /// What each master said.
        report: RoundReport,
    },
    /// It was extended for as long as [`max_hold`](crate::Request::max_hold)
    /// allows, and then came to its deadline.
    #[error("the lock was held for as long as `max_hold` allows")]
    MaxHold,
    /// Its owner released it, or dropped its guard.
    #[error("the lock was released by its owner")]
    Released,
}
