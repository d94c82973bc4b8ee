use std::time::Duration;

use thiserror::Error;

use super::Ttl;

const BILLION: u128 = 1_000_000_000;

/// The allowance for the clocks of masters and client that run at different
/// rates: a share of the TTL, and a floor for the granularity of expiry.
///
/// The default is the one of the algorithm's page: 1 % and 2 ms.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Drift {
    billionths: u32,
    floor: Duration,
}

impl Drift {
    /// A drift of `factor` of the TTL plus `floor`. The factor is kept as a
    /// whole number of billionths, rounded up; if a double can't tell it from
    /// such a number, it is that number: 0.01 is a hundredth.
    ///
    /// # Errors
    ///
    /// [`InvalidDrift`] unless `0 <= factor < 1`.
    pub fn new(factor: f64, floor: Duration) -> Result<Self, InvalidDrift> {
        if !(0.0..1.0).contains(&factor) {
            return Err(InvalidDrift { factor });
        }
        Ok(Self {
            billionths: (factor * BILLION as f64).ceil() as u32,
            floor,
        })
    }

    /// What is subtracted from the validity of a lock with this TTL: rounded up
    /// to a nanosecond, so never too little.
    pub fn of(self, ttl: Ttl) -> Duration {
        let nanos = ttl.as_duration().as_nanos() * u128::from(self.billionths);
        duration_from_nanos(nanos.div_ceil(BILLION)).saturating_add(self.floor)
    }
}

impl Default for Drift {
    fn default() -> Self {
        Self {
            billionths: 10_000_000,
            floor: Duration::from_millis(2),
        }
    }
}

fn duration_from_nanos(nanos: u128) -> Duration {
    let seconds = u64::try_from(nanos / BILLION).unwrap_or(u64::MAX);
    Duration::new(seconds, (nanos % BILLION) as u32)
}

/// The drift factor is negative, one or more, or not a number.
#[derive(Clone, Copy, Debug, PartialEq, Error)]
#[error("a drift factor must be at least 0 and less than 1, not {factor}")]
pub struct InvalidDrift {
    /// The factor that was given.
    pub factor: f64,
}
