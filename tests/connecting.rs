//! Locks that are asked for while the first connections are being made.

mod support;

use std::time::Duration;

use redquorum::Redlock;
use support::fleet::Fleet;
use support::proxy::Flow;
use support::wait::{eventually, until};

const SECOND: Duration = Duration::from_secs(1);
const TTL: Duration = Duration::from_secs(600);

/// Three masters, the connection to the last of which takes a while.
async fn one_is_slow(fleet: &Fleet) -> (support::proxy::Proxy, Redlock) {
    let slow = support::proxy::Proxy::in_front_of(fleet[2].addr()).await;
    slow.replies(Flow::Delay(SECOND / 5));
    let urls = [fleet[0].url(), fleet[1].url(), slow.url()];
    let redlock = support::builder()
        .masters(urls)
        .master_timeout(2 * SECOND)
        .connect_timeout(5 * SECOND)
        .build()
        .unwrap();
    (slow, redlock)
}

#[tokio::test]
async fn s08_the_first_lock_reaches_a_slow_master_though_nobody_polls_for_it() {
    let fleet = Fleet::start(3).await;
    let (_slow, redlock) = one_is_slow(&fleet).await;
    let lock = redlock.lock("a").ttl(TTL).try_once().await.unwrap();
    assert_eq!(lock.granted(), 2, "the third is not connected yet");
    eventually("the third has it too", 5 * SECOND, async || {
        fleet[2].get("a").await.as_deref() == Some(lock.token().as_bytes())
    })
    .await;
    eventually("and its answer counts", 5 * SECOND, async || {
        lock.granted() == 3
    })
    .await;
    lock.release().await.unwrap();
    fleet.assert_no_keys(SECOND).await;
}

#[tokio::test]
async fn s17_a_lock_that_is_dropped_before_a_master_is_connected_never_gets_there() {
    let fleet = Fleet::start(3).await;
    let (slow, redlock) = one_is_slow(&fleet).await;
    drop(redlock.lock("a").ttl(TTL).try_once().await.unwrap());
    let taken = redlock.lock("b").ttl(TTL).try_once().await.unwrap();
    eventually("the third is connected", 5 * SECOND, async || {
        fleet[2].get("b").await.is_some()
    })
    .await;
    slow.replies(Flow::Pass);
    assert!(fleet[2].get("a").await.is_none());
    taken.release().await.unwrap();
    let free = until(5 * SECOND, async || fleet[2].keys().await.is_empty());
    assert!(free.await, "left: {:?}", fleet[2].keys().await);
}
