//! Clocks of the system, which all processes of a machine share.

use std::time::Duration;

use rustix::time::{ClockId, Timespec, clock_gettime};

/// Monotonic time in nanoseconds, the same in all processes.
pub fn now() -> u64 {
    nanos(clock_gettime(ClockId::Monotonic))
}

/// How long from one moment to a later one.
pub fn between(earlier: u64, later: u64) -> Duration {
    Duration::from_nanos(later.saturating_sub(earlier))
}

/// How long until a moment.
pub fn until(moment: u64) -> Duration {
    between(now(), moment)
}

/// The CPU time that this process has used so far, in nanoseconds.
pub fn cpu() -> u64 {
    nanos(clock_gettime(ClockId::ProcessCPUTime))
}

fn nanos(time: Timespec) -> u64 {
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}
