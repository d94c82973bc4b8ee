//! How long one request has waited, how often it has asked, and how long and how
//! often it may.

use std::time::Duration;

use tokio::time::Instant;

use crate::chance;
use crate::core::Backoff;
use crate::error::{InvalidRequest, LockError};
use crate::quarantine::Quarantined;
use crate::settings::{Retry, Wait};

/// Where masters wake those who wait, they look again this often on their own.
const FALLBACK: Duration = Duration::from_secs(2);

/// The patience of one request.
pub(crate) struct Patience {
    began: Instant,
    wait: Wait,
    backoff: Backoff,
    /// The pauses where masters wake those who wait.
    fallback: Backoff,
    attempts: u32,
    most_attempts: Option<u32>,
    /// When masters will vote that don't yet (S13).
    quarantined: Option<Quarantined>,
    /// Whether the wait for masters was told.
    told: bool,
}

impl Patience {
    pub(crate) fn begin(wait: Wait, retry: Retry) -> Result<Self, InvalidRequest> {
        Ok(Self {
            began: Instant::now(),
            wait,
            backoff: retry.backoff()?,
            fallback: Backoff::new(FALLBACK, FALLBACK).expect("the bounds are in order"),
            attempts: 0,
            most_attempts: retry.attempts,
            quarantined: None,
            told: false,
        })
    }

    /// Counts a refused attempt; gives it back if there is to be no other.
    pub(crate) fn count(&mut self, refused: LockError) -> Result<(), LockError> {
        self.attempts = self.attempts.saturating_add(1);
        self.quarantined = Quarantined::of(&refused);
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
    pub(crate) fn left(&self) -> Duration {
        match self.wait {
            Wait::Forever => Duration::MAX,
            Wait::For(longest) => longest.saturating_sub(self.began.elapsed()),
            Wait::No => Duration::ZERO,
        }
    }

    /// Whether there is but one attempt, and no waiting.
    pub(crate) fn is_none(&self) -> bool {
        self.wait == Wait::No
    }

    /// Counts an attempt in which another was faster.
    pub(crate) fn count_missed(&mut self) {
        self.attempts = self.attempts.saturating_add(1);
    }

    /// Whether there is a bound to the attempts.
    pub(crate) fn counts_attempts(&self) -> bool {
        self.most_attempts.is_some()
    }

    /// Whether the next attempt is the last one: it is to ask all masters.
    pub(crate) fn has_one_attempt_left(&self) -> bool {
        self.most_attempts
            .is_some_and(|most| self.attempts.saturating_add(1) >= most)
    }

    /// How long to wait for a wake-up; if there is none to be had, the backoff.
    pub(crate) fn rest(&self, woken: bool) -> Duration {
        let failures = self.attempts.saturating_sub(1);
        let backoff = if woken { self.fallback } else { self.backoff };
        let pause = backoff.delay(failures, chance::number());
        self.quarantined.map_or(pause, |found| found.pause(pause))
    }

    /// The wait is over, and this is what the last attempt came to.
    pub(crate) fn over(&self, refused: LockError) -> LockError {
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
