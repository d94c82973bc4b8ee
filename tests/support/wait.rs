//! Waiting for a condition instead of for a while.

use std::time::{Duration, Instant};

/// How long a condition rests between two looks at it.
const PAUSE: Duration = Duration::from_millis(5);

/// Looks until `look` gives something; `None` when it has not within `limit`.
pub async fn until_some<T>(limit: Duration, mut look: impl AsyncFnMut() -> Option<T>) -> Option<T> {
    let start = Instant::now();
    loop {
        // Asked before the look, so that a look always follows the limit.
        let over = start.elapsed() >= limit;
        if let Some(found) = look().await {
            return Some(found);
        }
        if over {
            return None;
        }
        tokio::time::sleep(PAUSE).await;
    }
}

/// Waits until `condition` holds; says whether it did within `limit`.
#[must_use = "a condition that was waited for may not have come"]
pub async fn until(limit: Duration, mut condition: impl AsyncFnMut() -> bool) -> bool {
    until_some(limit, async || condition().await.then_some(()))
        .await
        .is_some()
}

/// Waits until `condition` holds, and panics when it does not within `limit`.
#[track_caller]
pub fn eventually(
    what: &str,
    limit: Duration,
    condition: impl AsyncFnMut() -> bool,
) -> impl Future<Output = ()> {
    let caller = std::panic::Location::caller();
    async move {
        assert!(
            until(limit, condition).await,
            "{caller}: not within {limit:?}: {what}"
        );
    }
}
