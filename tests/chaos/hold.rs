//! A lock that a task has, as it is told to the parent.
//!
//! Whatever the process is stopped for in between, what is told is never more than what the library
//! said: the moment is read before the library is asked how much is left, so that the lock was valid
//! from then until that much later, at the least.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use redquorum::LeaseHandle;
use tokio::time::{Instant, sleep, sleep_until};

use crate::clock;
use crate::protocol::{Asked, End, Grant, Report};
use crate::worker::tell;

/// Between two looks at a lease that is extended.
const PAUSE: Duration = Duration::from_millis(40);

/// If it is dropped before its end is told, the library has dropped the section: the lock is lost.
pub struct Hold {
    number: u64,
    told: AtomicBool,
}

impl Hold {
    /// None if it is over already.
    pub fn begin(
        numbers: &AtomicU64,
        resource: usize,
        (token, fence): (String, Option<u64>),
        asked: Asked,
        renews: bool,
        remaining: impl FnOnce() -> Duration,
    ) -> Option<Self> {
        let (at, until) = look(remaining)?;
        let number = numbers.fetch_add(1, Ordering::Relaxed);
        tell(&Report::Granted(Grant {
            hold: number,
            resource,
            token,
            fence,
            asked,
            at,
            until,
            renews,
        }));
        Some(Self {
            number,
            told: AtomicBool::new(false),
        })
    }

    /// Looks whether it is still valid, and until when. (Until when it was valid before does not
    /// count any more: an extension to less may have ended it earlier.)
    pub fn look(&self, remaining: impl FnOnce() -> Duration) {
        match look(remaining) {
            Some((at, until)) => tell(&Report::Valid {
                hold: self.number,
                at,
                until,
            }),
            None => self.end(End::Lost),
        }
    }

    /// Keeps it for so long, and looks at it again and again.
    pub async fn keep(&self, lease: &LeaseHandle, length: Duration) {
        let end = Instant::now() + length;
        while Instant::now() + PAUSE < end {
            sleep(PAUSE).await;
            self.look(|| lease.remaining());
        }
        sleep_until(end).await;
    }

    /// To be called before it is given up.
    pub fn end(&self, how: End) {
        if !self.told.swap(true, Ordering::Relaxed) {
            tell(&Report::Ended {
                hold: self.number,
                at: clock::now(),
                how,
            });
        }
    }
}

impl Drop for Hold {
    fn drop(&mut self) {
        self.end(End::Lost);
    }
}

fn look(remaining: impl FnOnce() -> Duration) -> Option<(u64, u64)> {
    let at = clock::now();
    let left = remaining();
    (!left.is_zero()).then(|| (at, clock::after(at, left)))
}
