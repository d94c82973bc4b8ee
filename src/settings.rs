//! What requests are made with: the values that a builder and a request set.

use std::time::Duration;

use thiserror::Error;

use crate::core::{Backoff, Drift, InvalidBackoff, InvalidTerms, InvalidTtl, Quorum, Terms, Ttl};

/// What all requests of one coordinator have in common.
#[derive(Clone, Debug)]
pub(crate) struct Settings {
    pub(crate) quorum: Quorum,
    pub(crate) drift: Drift,
    pub(crate) min_validity: Duration,
    pub(crate) ttl: Duration,
    pub(crate) max_ttl: Option<Duration>,
    pub(crate) wait: Wait,
    pub(crate) retry: Retry,
    pub(crate) max_hold: Duration,
    pub(crate) master_timeout: Duration,
    pub(crate) key_prefix: Vec<u8>,
}

impl Settings {
    /// The terms of a lock with this TTL.
    pub(crate) fn terms(&self, ttl: Duration) -> Result<Terms, InvalidTime> {
        if let Some(longest) = self.max_ttl.filter(|longest| ttl > *longest) {
            return Err(InvalidTime::TooLong {
                asked: ttl,
                longest,
            });
        }
        let terms = Terms::new(Ttl::new(ttl)?, self.drift, self.min_validity)?;
        Ok(terms)
    }
}

/// How long a request waits for a lock that it can't have at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wait {
    /// Not at all: one attempt.
    No,
    /// Up to this long, and then for the attempt under way at most.
    For(Duration),
    /// Until it has the lock, however long the masters are down.
    Forever,
}

impl From<Duration> for Wait {
    fn from(duration: Duration) -> Self {
        Wait::For(duration)
    }
}

/// How a request tries again: after a pause of a random share of a bound that
/// doubles with each failed attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub struct Retry {
    pub(crate) base: Duration,
    pub(crate) cap: Duration,
    pub(crate) attempts: Option<u32>,
}

impl Retry {
    /// The bound of the first pause; the default is 5 ms.
    pub fn base(mut self, base: Duration) -> Self {
        self.base = base;
        self
    }

    /// The bound that no pause exceeds; the default is 250 ms.
    pub fn cap(mut self, cap: Duration) -> Self {
        self.cap = cap;
        self
    }

    /// At most this many attempts, the first included; the default is any
    /// number of them, for as long as the request waits.
    pub fn attempts(mut self, attempts: u32) -> Self {
        self.attempts = Some(attempts);
        self
    }
}

impl Default for Retry {
    fn default() -> Self {
        Self {
            base: Duration::from_millis(5),
            cap: Duration::from_millis(250),
            attempts: None,
        }
    }
}

impl Retry {
    pub(crate) fn backoff(&self) -> Result<Backoff, InvalidRetry> {
        if self.attempts == Some(0) {
            return Err(InvalidRetry::NoAttempts);
        }
        Ok(Backoff::new(self.base, self.cap)?)
    }
}

/// Why a lock can't have a TTL (S15).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum InvalidTime {
    /// Redis doesn't take it.
    #[error(transparent)]
    Ttl(#[from] InvalidTtl),
    /// It is longer than the configuration allows
    /// ([`max_ttl`](crate::Builder::max_ttl)).
    #[error("a TTL of {asked:?} is longer than the configured max_ttl of {longest:?}")]
    TooLong {
        /// What was asked for.
        asked: Duration,
        /// The longest that is allowed.
        longest: Duration,
    },
    /// It leaves no validity.
    #[error(transparent)]
    Validity(#[from] InvalidTerms),
}

/// Why a retry policy can't be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum InvalidRetry {
    /// The pauses can't be used.
    #[error(transparent)]
    Backoff(#[from] InvalidBackoff),
    /// Not even one attempt is allowed.
    #[error("at least one attempt must be allowed")]
    NoAttempts,
}
