//! Locks of this process, which a panic elsewhere does not take down.

use std::sync::{Mutex, MutexGuard};

/// What the mutex guards, also after a panic in another holder: none of them
/// leaves it half changed.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex
        .lock()
        .unwrap_or_else(|poisoned| poisoned.into_inner())
}
