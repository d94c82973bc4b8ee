//! The clocks of the system, which all processes of a machine share.

use std::time::Duration;

use rustix::time::{ClockId, Timespec, clock_gettime};

/// Monotonic time in nanoseconds, the same in all processes.
pub fn now() -> u64 {
    nanos(clock_gettime(ClockId::Monotonic))
}

/// The time of day in nanoseconds: what a server's `TIME` says, too.
pub fn time_of_day() -> u64 {
    nanos(clock_gettime(ClockId::Realtime))
}

/// The moment so much later.
pub fn after(moment: u64, delay: Duration) -> u64 {
    moment.saturating_add(u64::try_from(delay.as_nanos()).unwrap_or(u64::MAX))
}

/// How long from one moment to a later one.
pub fn between(earlier: u64, later: u64) -> Duration {
    Duration::from_nanos(later.saturating_sub(earlier))
}

fn nanos(time: Timespec) -> u64 {
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}
