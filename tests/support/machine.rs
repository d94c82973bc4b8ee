//! What the machine itself does to a test's timing: other programs have it too.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

const STEP: Duration = Duration::from_millis(1);

/// Watches, in a thread of its own, for how long the machine keeps a thread
/// waiting that wants to run.
pub struct Watch {
    longest: Arc<AtomicU64>,
    over: Arc<AtomicBool>,
}

impl Watch {
    /// Begins to watch.
    pub fn begin() -> Self {
        let watch = Self {
            longest: Arc::default(),
            over: Arc::default(),
        };
        let (longest, over) = (watch.longest.clone(), watch.over.clone());
        std::thread::spawn(move || {
            while !over.load(Ordering::Relaxed) {
                let slept = Instant::now();
                std::thread::sleep(STEP);
                let late = slept.elapsed().saturating_sub(STEP);
                longest.fetch_max(late.as_micros() as u64, Ordering::Relaxed);
            }
        });
        watch
    }

    /// The longest wait since it began.
    pub fn longest_stall(&self) -> Duration {
        Duration::from_micros(self.longest.load(Ordering::Relaxed))
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.over.store(true, Ordering::Relaxed);
    }
}
