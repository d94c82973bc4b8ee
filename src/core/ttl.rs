use std::time::Duration;

use thiserror::Error;

/// A time to live as Redis takes it: a whole number of milliseconds, from 1 to
/// [`Ttl::MAX`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Ttl {
    millis: u64,
}

impl Ttl {
    /// The longest TTL, about 146 million years. Redis adds the TTL to its
    /// clock and refuses what does not fit into 63 bits; this leaves room.
    pub const MAX: Ttl = Ttl {
        millis: (i64::MAX / 2) as u64,
    };

    /// The TTL of this many whole milliseconds; the rest is cut off.
    ///
    /// # Errors
    ///
    /// [`InvalidTtl`] if fewer than one millisecond is left (Redis would
    /// refuse, or delete the key at once), or more than [`Ttl::MAX`] (S15).
    pub fn new(duration: Duration) -> Result<Self, InvalidTtl> {
        let millis = duration.as_millis();
        if millis == 0 {
            return Err(InvalidTtl::TooShort { asked: duration });
        }
        if millis > u128::from(Self::MAX.millis) {
            return Err(InvalidTtl::TooLong { asked: duration });
        }
        Ok(Self {
            millis: millis as u64,
        })
    }

    /// The number that is sent to Redis.
    pub const fn as_millis(self) -> u64 {
        self.millis
    }

    /// The TTL as a duration.
    pub const fn as_duration(self) -> Duration {
        Duration::from_millis(self.millis)
    }
}

/// Why a duration can't be a [`Ttl`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum InvalidTtl {
    /// It has no whole millisecond.
    #[error("a TTL of {asked:?} has no whole millisecond; ask for at least 1 ms")]
    TooShort {
        /// What was asked for.
        asked: Duration,
    },
    /// It is more than Redis takes.
    #[error("a TTL of {asked:?} is more than Redis takes")]
    TooLong {
        /// What was asked for.
        asked: Duration,
    },
}
