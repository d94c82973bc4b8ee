//! The task that keeps a lease: it extends it until it is over, or for as long
//! as it may be kept (S12).

use std::future::poll_fn;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::timeout;

use crate::chance;
use crate::core::{Moment, Renewal, Terms};
use crate::error::ExtendError;
use crate::held::Held;
use crate::loss::LossReason;

/// Starts the task that keeps the lease on these terms, for this long from now.
pub(crate) fn keep(held: &Arc<Held>, terms: Terms, longest: Duration) {
    let keeper = Keeper {
        renewal: Renewal::new(terms),
        terms,
        until: held.now().after(longest),
        held: held.clone(),
    };
    held.claim().runtime().spawn(keeper.run());
}

struct Keeper {
    held: Arc<Held>,
    terms: Terms,
    renewal: Renewal,
    /// No extension is sent from then on.
    until: Moment,
}

/// What one extension came to.
enum Outcome {
    Renewed,
    Undecided,
    Lost,
}

impl Keeper {
    async fn run(self) {
        self.settle_acquisition().await;
        let mut retry = None;
        while self.rest_until_due(retry).await {
            retry = match self.extend().await {
                Outcome::Renewed => None,
                Outcome::Undecided => Some(self.retry_at()),
                Outcome::Lost => return,
            }
        }
    }

    /// Reads what was left open when the lock was taken: the answers of masters
    /// after the quorum's. Until then they take more memory than the lease.
    async fn settle_acquisition(&self) {
        let limit = self.held.masters().settings.master_timeout;
        let limit = limit.min(self.renewal.period() / 2);
        let all = poll_fn(|context| self.held.claim().poll_takes(context));
        let _ = timeout(limit, all).await;
    }

    /// Waits until the lease is due to be extended, or to be tried again; says
    /// whether it may be.
    async fn rest_until_due(&self, retry: Option<Moment>) -> bool {
        loop {
            let shortened = self.held.shortened();
            let now = self.held.now();
            if self.held.told().is_some() {
                return false;
            }
            let allowed = self.until.since(now);
            if allowed.is_zero() {
                self.held.cap();
                return false;
            }
            let rest = match retry {
                Some(retry) => retry.since(now),
                None => self.renewal.pause(self.held.remaining()),
            };
            if rest.is_zero() {
                return true;
            }
            let rest = rest.min(allowed);
            let _ = timeout(rest, self.held.disturbed(shortened)).await;
        }
    }

    /// When to try again; if there is no time for it, when the lease ends.
    fn retry_at(&self) -> Moment {
        let left = self.held.remaining();
        let pause = Renewal::retry(left, chance::number()).unwrap_or(left);
        self.held.now().after(pause)
    }

    /// One extension. It is boxed, so that a lease that rests is small.
    async fn extend(&self) -> Outcome {
        match Box::pin(self.held.renew(self.terms, self.renewal)).await {
            Ok(_) => Outcome::Renewed,
            Err(ExtendError::Unknown { report, .. }) => {
                tracing::debug!(%report, "an extension is undecided, and tried again");
                Outcome::Undecided
            }
            Err(lost) => {
                self.tell(&lost);
                Outcome::Lost
            }
        }
    }

    fn tell(&self, lost: &ExtendError) {
        let Some(reason) = self.held.told() else {
            return;
        };
        if reason != LossReason::Released {
            let resource = String::from_utf8_lossy(self.held.resource());
            tracing::warn!(%resource, %reason, %lost, "a lease that was kept is over");
        }
    }
}
