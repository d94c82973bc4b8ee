use std::time::Duration;

use super::{Backoff, Moment, Terms};

/// The shortest time between two extensions of a lease that goes well: nine a
/// second.
const LEAST_PERIOD: Duration = Duration::from_millis(112);

/// The shortest pause after an extension that was undecided.
const LEAST_RETRY: Duration = Duration::from_millis(10);

/// When a lease that is kept is extended.
///
/// All follows from how much is left of it, so that whatever moved its deadline
/// counts: a renewal, an extension by hand, or the time for which the machine
/// was suspended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Renewal {
    /// What is left of a lease when it is due to be extended.
    due: Duration,
    period: Duration,
}

impl Renewal {
    /// The schedule for leases on these terms: extended after a third of their
    /// TTL, but not more than nine times a second, unless the lease is so short
    /// that this would leave too little of it; then after four sevenths.
    pub fn new(terms: Terms) -> Self {
        let start = Moment::default();
        let length = terms.lease(start).validity(start);
        let third = terms.ttl().as_duration() / 3;
        let period = third.max(LEAST_PERIOD).min(length / 7 * 4);
        Self {
            due: length - period,
            period,
        }
    }

    /// From the start of a round that won to the next extension.
    pub const fn period(self) -> Duration {
        self.period
    }

    /// How long to wait before the next extension, when this much is left and
    /// the last one went well.
    pub const fn pause(self, left: Duration) -> Duration {
        left.saturating_sub(self.due)
    }

    /// How long to wait after an extension that was undecided, when this much
    /// is left: from an eighth to a quarter of it, by the random number, and
    /// never less than ten milliseconds. `None` if nothing would be left.
    ///
    /// The pauses get shorter as the deadline comes nearer: a stall that ends
    /// before it is survived, and no number of failures makes a tight loop.
    pub fn retry(left: Duration, random: u64) -> Option<Duration> {
        let eighth = left / 8;
        let jitter = match Backoff::new(eighth, eighth) {
            Ok(share) => share.delay(0, random),
            Err(_) => Duration::ZERO,
        };
        let pause = (eighth + jitter).max(LEAST_RETRY);
        (pause < left).then_some(pause)
    }
}
