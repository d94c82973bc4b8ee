//! The lease clock (S3): it keeps counting while the machine sleeps.

use std::time::Duration;

use crate::core::Moment;

/// Where a coordinator reads the time. Timers are tokio's; deadlines are
/// compared with this.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Clock {
    /// The system's monotonic clock that counts suspended time: on Linux
    /// `CLOCK_BOOTTIME`, on Apple's systems `CLOCK_MONOTONIC`; elsewhere the
    /// best that the standard library has.
    System,
    /// tokio's clock, which tests can pause and advance.
    #[cfg(feature = "testing")]
    Tokio(tokio::time::Instant),
}

impl Clock {
    pub(crate) fn now(self) -> Moment {
        Moment::from_origin(match self {
            Clock::System => since_boot(),
            #[cfg(feature = "testing")]
            Clock::Tokio(origin) => tokio::time::Instant::now() - origin,
        })
    }
}

#[cfg(any(target_os = "linux", target_os = "android", target_vendor = "apple"))]
fn since_boot() -> Duration {
    use rustix::time::{ClockId, clock_gettime};

    #[cfg(not(target_vendor = "apple"))]
    const COUNTS_SLEEP: ClockId = ClockId::Boottime;
    #[cfg(target_vendor = "apple")]
    const COUNTS_SLEEP: ClockId = ClockId::Monotonic;

    let time = clock_gettime(COUNTS_SLEEP);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

#[cfg(not(any(target_os = "linux", target_os = "android", target_vendor = "apple")))]
fn since_boot() -> Duration {
    use std::sync::OnceLock;
    use std::time::Instant;

    static ORIGIN: OnceLock<Instant> = OnceLock::new();
    ORIGIN.get_or_init(Instant::now).elapsed()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[cfg(target_os = "linux")]
    #[test]
    fn s03_the_system_clock_is_the_one_that_counts_suspended_time() {
        let uptime = std::fs::read_to_string("/proc/uptime").unwrap();
        let uptime: f64 = uptime.split(' ').next().unwrap().parse().unwrap();
        let now = Clock::System.now().since(Moment::default()).as_secs_f64();
        assert!(
            (now - uptime).abs() < 1.0,
            "{now} is not the uptime {uptime}"
        );
    }

    #[test]
    fn it_never_goes_back() {
        let mut last = Clock::System.now();
        for _ in 0..10_000 {
            let now = Clock::System.now();
            assert!(now >= last);
            last = now;
        }
    }
}
