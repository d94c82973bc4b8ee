use std::time::Duration;

use thiserror::Error;

use super::{Drift, Moment, Ttl};

/// What one round asks of the masters, and what it may conclude from a grant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Terms {
    ttl: Ttl,
    drift: Duration,
    min_validity: Duration,
}

impl Terms {
    /// The terms of a lock with this TTL.
    ///
    /// # Errors
    ///
    /// [`InvalidTerms`] if even a round that took no time would leave a
    /// validity of `min_validity` or less: such a lock can't be had (S15).
    pub fn new(ttl: Ttl, drift: Drift, min_validity: Duration) -> Result<Self, InvalidTerms> {
        let drift = drift.of(ttl);
        let terms = Self {
            ttl,
            drift,
            min_validity,
        };
        if terms.ttl.as_duration().saturating_sub(drift) <= min_validity {
            return Err(InvalidTerms {
                ttl: ttl.as_duration(),
                drift,
                min_validity,
            });
        }
        Ok(terms)
    }

    /// The time to live that is sent to every master.
    pub const fn ttl(self) -> Ttl {
        self.ttl
    }

    /// A round that takes this long or longer can't win.
    pub fn window(self) -> Duration {
        self.ttl
            .as_duration()
            .saturating_sub(self.drift)
            .saturating_sub(self.min_validity)
    }

    /// The lease that a quorum of grants is worth, if `started` was read before
    /// the first command of the round was sent (S2).
    pub fn lease(self, started: Moment) -> Lease {
        let length = self.ttl.as_duration().saturating_sub(self.drift);
        Lease::until(started.after(length))
    }

    /// The same lease, if at `now` it is still worth having: its validity is
    /// more than the smallest allowed.
    pub fn lease_if_valid(self, started: Moment, now: Moment) -> Option<Lease> {
        let lease = self.lease(started);
        (lease.validity(now) > self.min_validity).then_some(lease)
    }
}

/// How long a lock may be relied on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lease {
    deadline: Moment,
}

impl Lease {
    /// A lease that ends at this moment.
    pub const fn until(deadline: Moment) -> Self {
        Self { deadline }
    }

    /// The moment at which it ends; at that moment it is no longer valid.
    pub const fn deadline(self) -> Moment {
        self.deadline
    }

    /// How much of it is left; zero when it has ended.
    pub const fn validity(self, now: Moment) -> Duration {
        self.deadline.since(now)
    }

    /// Whether any of it is left.
    pub const fn is_valid(self, now: Moment) -> bool {
        !self.validity(now).is_zero()
    }

    /// The one of two leases that ends first.
    pub fn shorter(self, other: Lease) -> Lease {
        Lease::until(self.deadline.min(other.deadline))
    }
}

/// The TTL leaves no validity after the drift and the smallest validity.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error(
    "a TTL of {ttl:?} leaves no usable validity: the drift is {drift:?} and the validity must be \
     more than {min_validity:?}; ask for a longer TTL"
)]
pub struct InvalidTerms {
    /// The TTL that was asked for, in whole milliseconds.
    pub ttl: Duration,
    /// The drift of that TTL.
    pub drift: Duration,
    /// The validity that must be exceeded.
    pub min_validity: Duration,
}
