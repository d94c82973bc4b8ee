//! Futures that are dropped in the middle of an acquisition, and guards that
//! are dropped instead of released, by the thousand (S17).

mod support;

use std::time::Duration;

use futures::future::{Either, select};
use futures::stream::{StreamExt, iter};
use redquorum::Redlock;
use support::fleet::Fleet;
use tokio::time::sleep;

const SECOND: Duration = Duration::from_secs(1);
const DROPS: usize = 10_000;
const AT_A_TIME: usize = 64;

/// Far longer than the tests: whatever is left was not released.
const TTL: Duration = Duration::from_secs(600);

#[derive(Default, Debug)]
struct Dropped {
    futures: usize,
    guards: usize,
    refused: usize,
}

/// Asks for locks, some contended, and drops each request or its guard.
async fn drop_at_random_moments(redlock: &Redlock, longest: Duration) -> Dropped {
    let drops = iter(0..DROPS).map(|number| {
        let request = redlock.lock(format!("drop:{}", number % 500)).ttl(TTL);
        async move {
            // Three of ten right after the first poll, when the commands are queued.
            let length = longest.mul_f64((rand::random::<f64>() - 0.3).max(0.0));
            let outcome = select(request.into_future(), Box::pin(sleep(length)));
            match outcome.await {
                Either::Left((Ok(guard), _)) => {
                    drop(guard);
                    (0, 1, 0)
                }
                Either::Left((Err(_), _)) => (0, 0, 1),
                Either::Right(((), request)) => {
                    drop(request);
                    (1, 0, 0)
                }
            }
        }
    });
    let mut dropped = Dropped::default();
    let mut drops = drops.buffer_unordered(AT_A_TIME);
    while let Some((futures, guards, refused)) = drops.next().await {
        dropped.futures += futures;
        dropped.guards += guards;
        dropped.refused += refused;
    }
    dropped
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn s17_ten_thousand_drops_leave_no_key_on_healthy_masters() {
    let fleet = Fleet::start(5).await;
    let redlock = support::builder().masters(fleet.urls()).build().unwrap();
    let dropped = drop_at_random_moments(&redlock, Duration::from_millis(8)).await;
    println!("healthy masters: {dropped:?}");
    assert!(dropped.futures > 100 && dropped.guards > 100, "{dropped:?}");
    fleet.assert_no_keys(SECOND).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn s17_ten_thousand_drops_leave_no_key_on_masters_that_were_stopped() {
    let mut fleet = Fleet::start(5).await;
    let redlock = support::builder().masters(fleet.urls()).build().unwrap();
    let _ = redlock.lock("warm-up").await.unwrap().release().await;

    let dropping =
        tokio::spawn(
            async move { drop_at_random_moments(&redlock, Duration::from_millis(8)).await },
        );
    tokio::time::sleep(Duration::from_millis(30)).await;
    fleet[1].stop();
    fleet[3].stop();
    let dropped = dropping.await.unwrap();
    println!("two masters stopped: {dropped:?}");
    assert!(dropped.futures > 100 && dropped.guards > 100, "{dropped:?}");
    fleet[1].cont();
    fleet[3].cont();
    fleet.assert_no_keys(2 * SECOND).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn s17_drops_leave_no_key_when_the_coordinator_is_dropped_too() {
    let mut fleet = Fleet::start(5).await;
    for turn in 0..20 {
        let redlock = support::builder().masters(fleet.urls()).build().unwrap();
        let _ = redlock.lock("warm-up").await.unwrap().release().await;
        if turn % 2 == 1 {
            fleet[2].stop();
        }
        let guards =
            (0..20).map(|guard| redlock.lock(format!("{turn}:{guard}")).ttl(TTL).try_once());
        let guards = futures::future::join_all(guards).await;
        assert!(guards.iter().all(Result::is_ok), "{guards:?}");
        drop(redlock);
        drop(guards);
        fleet[2].cont();
    }
    fleet.assert_no_keys(2 * SECOND).await;
}

#[test]
fn s17_a_runtime_that_ends_after_all_is_settled_leaves_no_key() {
    let runtime = || tokio::runtime::Runtime::new().unwrap();
    let looking = runtime();
    let fleet = looking.block_on(Fleet::start(5));
    for turn in 0..20 {
        let resource = format!("taken:{turn}");
        looking.block_on(async {
            for master in fleet.iter().take(3) {
                let mut set = redis::cmd("SET");
                set.arg(&resource).arg("another");
                let _: () = support::inspect::ask(&master.url(), &set).await;
            }
        });
        let ending = runtime();
        ending.block_on(async {
            let redlock = support::builder().masters(fleet.urls()).build().unwrap();
            let _ = redlock
                .lock(&resource)
                .ttl(TTL)
                .try_once()
                .await
                .unwrap_err();
            redlock.settled().await;
        });
        ending.shutdown_background();
        let values = looking.block_on(fleet.get(&resource));
        let left = values.iter().filter(|value| value.is_some()).count();
        assert_eq!(left, 3, "only the other's: {values:?}");
    }
}
