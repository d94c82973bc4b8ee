use std::time::Duration;

use super::{Moment, Ttl};

/// By how much a server may report too long an uptime: it counts whole seconds
/// of the clock, so that one that began 10 ms ago may say 1.
const ROUNDING: Duration = Duration::from_secs(1);

/// For how long a server has been up, at the least (S13).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Age {
    known: Moment,
    then: Duration,
}

impl Age {
    /// Of a server that says nothing of its age: it counts from when it was
    /// first seen.
    pub const fn since(seen: Moment) -> Self {
        Self::known(Duration::ZERO, seen)
    }

    /// Of a server that reports this uptime, in an answer that had come by
    /// `answered`.
    pub const fn reported(uptime: Duration, answered: Moment) -> Self {
        Self::known(uptime.saturating_sub(ROUNDING), answered)
    }

    /// Of a server that is known to have been this old at some time.
    pub const fn known(then: Duration, known: Moment) -> Self {
        Self { known, then }
    }

    /// The age at a time when the server is still the same process.
    pub const fn at(self, now: Moment) -> Duration {
        self.then.saturating_add(now.since(self.known))
    }

    /// The larger of two ages of one process.
    pub fn or_older(self, other: Age) -> Age {
        let both_known = self.known.max(other.known);
        match other.at(both_known) > self.at(both_known) {
            true => other,
            false => self,
        }
    }
}

/// What speaks for a master's vote: that it has been up for long enough, or that
/// it can't have forgotten anything.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Evidence {
    /// For how long it has been up.
    pub age: Age,
    /// Whether all that it has ever granted was on disk before it said so.
    pub keeps_all: bool,
}

/// For how long a master that came up has no vote (S13).
///
/// It may have come up without the locks that it had granted. Once it has been
/// up for as long as the longest of them can live, none is left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Quarantine {
    /// The longest that any client's locks live, as far as it is known; `None`
    /// if there is no quarantine.
    longest: Option<Duration>,
}

impl Quarantine {
    /// No quarantine: every master votes at once.
    pub const OFF: Quarantine = Quarantine { longest: None };

    /// A quarantine of one TTL of the lock that is asked for.
    pub const fn of_one_ttl() -> Self {
        Self::of(Duration::ZERO)
    }

    /// A quarantine of one TTL of the lock that is asked for, or of `longest` if
    /// that is more.
    pub const fn of(longest: Duration) -> Self {
        Self {
            longest: Some(longest),
        }
    }

    /// For how long the master still has no vote on a lock with this TTL. The
    /// time is not asked for where it doesn't matter.
    pub fn remaining(
        self,
        ttl: Ttl,
        evidence: &Evidence,
        now: impl FnOnce() -> Moment,
    ) -> Duration {
        match self.longest {
            Some(longest) if !evidence.keeps_all => {
                let quarantine = longest.max(ttl.as_duration());
                quarantine.saturating_sub(evidence.age.at(now()))
            }
            _ => Duration::ZERO,
        }
    }
}
