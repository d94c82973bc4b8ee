//! Fencing tokens on real masters, that are killed, wiped and restarted (S16).

#![allow(unreachable_pub)]

#[path = "../docs/samples/guarded_set.rs"]
mod guarded_set;
mod support;

use std::time::Duration;

use redquorum::{FencedGuard, Redlock, Wait};
use support::fleet::Fleet;
use support::server::{DURABLE, Server};
use support::wait::eventually;

const SECOND: Duration = Duration::from_secs(1);

fn redlock(fleet: &Fleet) -> Redlock {
    let builder = support::builder().masters(fleet.urls()).ttl(SECOND);
    builder.wait(Wait::Forever).build().unwrap()
}

async fn take(redlock: &Redlock) -> FencedGuard {
    redlock.lock("a").fenced().await.unwrap()
}

fn assert_increasing(tokens: &[u64]) {
    for pair in tokens.windows(2) {
        assert!(pair[0] < pair[1], "{} before {}", pair[0], pair[1]);
    }
}

#[tokio::test]
async fn s16_tokens_increase_while_masters_are_killed_and_come_back_empty() {
    let mut fleet = Fleet::start(5).await;
    let redlock = redlock(&fleet);
    let mut tokens = Vec::new();
    for turn in 0..10 {
        for _ in 0..5 {
            let lock = take(&redlock).await;
            tokens.push(lock.fencing_token());
            lock.release().await.unwrap();
        }
        let killed = turn % 5;
        fleet[killed].kill();
        fleet[killed].restart().await;
    }
    assert_increasing(&tokens);
}

#[tokio::test]
async fn s16_the_token_after_all_masters_were_wiped_is_larger() {
    let fleet = Fleet::start(5).await;
    let redlock = redlock(&fleet);
    let mut tokens = Vec::new();
    for _ in 0..3 {
        for _ in 0..20 {
            let lock = take(&redlock).await;
            tokens.push(lock.fencing_token());
            lock.release().await.unwrap();
        }
        for master in fleet.iter() {
            master.wipe().await;
        }
    }
    assert_increasing(&tokens);
}

/// All are killed while the lock is held, and come back without it and its counter:
/// nobody is the next owner before the quarantine is over.
#[tokio::test]
async fn s13_s16_the_token_after_all_masters_were_killed_at_once_is_larger() {
    let mut fleet = Fleet::start(5).await;
    let builder = Redlock::builder().masters(fleet.urls()).ttl(SECOND);
    let redlock = builder.wait(Wait::Forever).build().unwrap();
    let mut tokens = vec![take(&redlock).await.fencing_token()];
    for _ in 0..2 {
        let held = take(&redlock).await;
        tokens.push(held.fencing_token());
        fleet.iter_mut().for_each(Server::kill);
        for master in fleet.iter_mut() {
            master.restart().await;
        }
        assert_eq!(fleet.keys_left().await.concat(), Vec::<Vec<u8>>::new());
        let next = take(&redlock).await;
        assert!(!held.is_valid(), "two owners at once");
        tokens.push(next.fencing_token());
        // What was lost can't be released.
        held.release().await.unwrap_err();
        next.release().await.unwrap();
    }
    assert_increasing(&tokens);
}

/// Masters that keep all that they granted are killed at once.
#[tokio::test]
async fn s16_the_token_after_masters_came_back_with_all_they_had_is_larger() {
    let mut fleet = Fleet::start_with(5, DURABLE).await;
    let builder = Redlock::builder().masters(fleet.urls()).ttl(SECOND);
    let redlock = builder.wait(Wait::Forever).build().unwrap();
    for _ in 0..3 {
        let last = take(&redlock).await;
        let before = last.fencing_token();
        last.release().await.unwrap();
        redlock.settled().await;
        let kept = fleet.counts("a").await;
        fleet.iter_mut().for_each(Server::kill);
        for master in fleet.iter_mut() {
            master.restart().await;
        }
        assert_eq!(fleet.counts("a").await, kept, "they keep all");
        let next = take(&redlock).await;
        assert!(before < next.fencing_token());
        next.release().await.unwrap();
    }
}

async fn write(server: &Server, value: &str, token: u64) -> bool {
    let mut connection = server.connection().await;
    let written = guarded_set::set(&mut connection, "stock", value, token).await;
    written.unwrap()
}

/// The clocks of three masters jump past the TTL while the lock is held: two
/// owners at once are possible then, which is beyond what a lease can prevent.
#[tokio::test]
async fn s16_two_owners_by_clocks_that_jumped_are_told_apart_by_the_resource() {
    let fleet = Fleet::start(5).await;
    let resource = Server::start().await;
    let redlock = redlock(&fleet);
    let request = redlock.lock("a").ttl(60 * SECOND).fenced();
    let first = request.await.unwrap();
    for master in &fleet.iter().collect::<Vec<_>>()[..3] {
        let mut connection = master.connection().await;
        let mut jump = redis::cmd("PEXPIRE");
        jump.arg("a").arg(1);
        let () = jump.query_async(&mut connection).await.unwrap();
    }
    eventually("the keys are gone", SECOND, async || {
        fleet.get("a").await.iter().flatten().count() == 2
    })
    .await;
    let second = take(&redlock).await;
    assert!(first.is_valid() && second.is_valid(), "both believe it");
    assert!(write(&resource, "the second's", second.fencing_token()).await);
    assert!(!write(&resource, "the first's", first.fencing_token()).await);
    assert_eq!(resource.get("stock").await.unwrap(), b"the second's");
}
