//! Coordinators with the quarantine on, and what their masters say of themselves.

#![allow(dead_code)] // Each test file uses some of it.

use std::time::Duration;

use redquorum::{Builder, Fault, MasterState, Redlock, RoundReport};

use crate::support::inspect;
use crate::support::wait::eventually;

pub(crate) const SECOND: Duration = Duration::from_secs(1);
pub(crate) const TTL: Duration = Duration::from_secs(2);
pub(crate) const RESOURCE: &str = "orders:42";

/// The quarantine is on.
pub(crate) fn builder<U: AsRef<str>>(urls: impl IntoIterator<Item = U>) -> Builder {
    Redlock::builder().masters(urls).ttl(TTL)
}

pub(crate) fn without_quarantine<U: AsRef<str>>(urls: impl IntoIterator<Item = U>) -> Builder {
    builder(urls).restart_quarantine(false)
}

/// Waits until all masters have been up for so long that whoever connects to
/// them finds them old enough for [`TTL`].
pub(crate) async fn grow_up(urls: &[String]) {
    let old_enough = TTL + 2 * SECOND;
    for url in urls {
        eventually("it has grown up", 30 * SECOND, async || {
            let uptime = inspect::info(url, "server", "uptime_in_seconds").await;
            uptime.unwrap().parse().unwrap_or(0) >= old_enough.as_secs()
        })
        .await;
    }
}

/// A coordinator that has connected to all masters, and found them to vote.
pub(crate) async fn admitted(builder: Builder) -> Redlock {
    let redlock = builder.build().unwrap();
    eventually("all masters vote", 5 * SECOND, async || {
        let states = redlock.masters().await;
        states.voting() == states.masters().len()
    })
    .await;
    redlock
}

pub(crate) async fn state(redlock: &Redlock, master: usize) -> MasterState {
    redlock.masters().await.masters()[master].clone()
}

pub(crate) fn is_quarantined(fault: Option<&Fault>) -> bool {
    matches!(fault, Some(Fault::Quarantined { .. }))
}

/// What the masters say to an attempt that needs all of them and fails.
pub(crate) async fn refusal(redlock: &Redlock) -> Option<RoundReport> {
    let refused = redlock.lock(RESOURCE).try_once().await.err()?;
    Some(refused.report().expect("masters were asked").clone())
}
