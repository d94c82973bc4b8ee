use std::time::Duration;

use thiserror::Error;

/// The pause between two rounds: full jitter, that is a random share of a bound
/// which doubles with each failed round, up to a cap.
///
/// Randomness is what ends split votes: clients that retry in lockstep split
/// the vote again. See <https://aws.amazon.com/blogs/architecture/exponential-backoff-and-jitter/>.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Backoff {
    base: Duration,
    cap: Duration,
}

impl Backoff {
    /// Pauses of up to `base` after the first failed round, and never more than
    /// `cap`.
    ///
    /// # Errors
    ///
    /// [`InvalidBackoff`] if either is zero, or the cap is less than the base.
    pub fn new(base: Duration, cap: Duration) -> Result<Self, InvalidBackoff> {
        if base.is_zero() || cap < base {
            return Err(InvalidBackoff { base, cap });
        }
        Ok(Self { base, cap })
    }

    /// The longest pause after this many failed rounds before the last one.
    pub fn bound(self, failures: u32) -> Duration {
        (0..failures)
            .try_fold(self.base, |bound, _| {
                bound.checked_mul(2).filter(|bound| *bound < self.cap)
            })
            .unwrap_or(self.cap)
    }

    /// The pause: the share `random / 2^64` of the [bound](Self::bound).
    pub fn delay(self, failures: u32, random: u64) -> Duration {
        let bound = self.bound(failures);
        let seconds = u128::from(bound.as_secs()) * u128::from(random);
        let nanos = u128::from(bound.subsec_nanos()) * u128::from(random);
        let share_of_second = ((seconds & u128::from(u64::MAX)) * 1_000_000_000 + nanos) >> 64;
        Duration::from_secs((seconds >> 64) as u64)
            .saturating_add(Duration::from_nanos(share_of_second as u64))
    }
}

impl Default for Backoff {
    /// From 5 ms to 250 ms.
    fn default() -> Self {
        Self {
            base: Duration::from_millis(5),
            cap: Duration::from_millis(250),
        }
    }
}

/// The base is zero, or the cap is less than the base.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error(
    "a backoff needs a base above zero and a cap of at least the base, not {base:?} and {cap:?}"
)]
pub struct InvalidBackoff {
    /// The base that was given.
    pub base: Duration,
    /// The cap that was given.
    pub cap: Duration,
}
