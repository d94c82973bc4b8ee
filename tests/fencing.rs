//! Fencing tokens on real masters, that are killed, wiped and restarted (S16).

mod support;

use std::time::{Duration, Instant};

use redquorum::{FencedGuard, Redlock, Wait};
use support::fleet::Fleet;
use support::inspect;
use support::server::Server;
use support::wait::eventually;
use tokio::task::JoinSet;
use tokio::time::sleep;

const SECOND: Duration = Duration::from_secs(1);

fn redlock(fleet: &Fleet) -> Redlock {
    let builder = support::builder().masters(fleet.urls()).ttl(SECOND);
    builder.wait(Wait::Forever).build().unwrap()
}

async fn take(redlock: &Redlock) -> FencedGuard {
    redlock.lock("a").fenced().await.unwrap()
}

/// Takes the lock this often, and gives the tokens in the order in which it was
/// held: they are written down while it is.
async fn acquisitions(redlock: Redlock, count: usize, tokens: &std::sync::Mutex<Vec<u64>>) {
    for _ in 0..count {
        let lock = take(&redlock).await;
        tokens.lock().unwrap().push(lock.fencing_token());
        // One that was lost meanwhile is no matter here.
        let _ = lock.release().await;
    }
}

fn assert_increasing(tokens: &[u64]) {
    for pair in tokens.windows(2) {
        assert!(pair[0] < pair[1], "{} before {}", pair[0], pair[1]);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn s16_tokens_of_many_clients_increase() {
    let all = std::env::var("REDQUORUM_FENCED").map_or(800, |all| all.parse().unwrap());
    let fleet = Fleet::start(5).await;
    let tokens: &'static std::sync::Mutex<Vec<u64>> = Box::leak(Box::default());
    let mut clients = JoinSet::new();
    for _ in 0..4 {
        clients.spawn(acquisitions(redlock(&fleet), all / 4, tokens));
    }
    let began = Instant::now();
    clients.join_all().await;
    println!("{all} fenced acquisitions in {:?}", began.elapsed());
    let tokens = tokens.lock().unwrap();
    assert_eq!(tokens.len(), all / 4 * 4);
    assert_increasing(&tokens);
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

/// What the guide on fencing gives: a write that a later owner's makes void.
const GUARDED_SET: &str = include_str!("../docs/samples/guarded_set.lua");

async fn write(server: &Server, value: &str, token: u64) -> bool {
    let mut connection = server.connection().await;
    let mut command = redis::cmd("EVAL");
    command
        .arg(GUARDED_SET)
        .arg(2)
        .arg("stock")
        .arg("stock:fence");
    command.arg(value).arg(token);
    command.query_async(&mut connection).await.unwrap()
}

#[tokio::test]
async fn s16_an_owner_that_slept_through_its_lease_can_not_write_any_more() {
    let fleet = Fleet::start(5).await;
    let resource = Server::start().await;
    let redlock = redlock(&fleet);
    let sleeper = take(&redlock).await;
    assert!(write(&resource, "its first", sleeper.fencing_token()).await);
    // Its process is stopped past the TTL, and another takes the lock.
    let began = Instant::now();
    let next = take(&redlock).await;
    assert!(began.elapsed() > SECOND / 2, "it waited for the TTL");
    assert!(write(&resource, "the other's", next.fencing_token()).await);
    assert!(!write(&resource, "too late", sleeper.fencing_token()).await);
    assert_eq!(resource.get("stock").await.unwrap(), b"the other's");
    assert!(write(&resource, "once more", next.fencing_token()).await);
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
    sleep(SECOND / 10).await;
    let second = take(&redlock).await;
    assert!(first.is_valid() && second.is_valid(), "both believe it");
    assert!(write(&resource, "the second's", second.fencing_token()).await);
    assert!(!write(&resource, "the first's", first.fencing_token()).await);
    assert_eq!(resource.get("stock").await.unwrap(), b"the second's");
}

#[tokio::test]
async fn a_counter_that_is_no_number_is_an_error_and_sets_nothing() {
    let fleet = Fleet::start(3).await;
    for url in fleet.urls() {
        let mut set = redis::cmd("SET");
        let () = inspect::ask(&url, set.arg("{a}:fence").arg("none")).await;
    }
    let redlock = redlock(&fleet);
    let refused = redlock.lock("a").fenced().try_once().await.unwrap_err();
    assert!(refused.to_string().contains("not an integer"), "{refused}");
    eventually("nothing is left", SECOND, async || {
        fleet.get("a").await.iter().flatten().count() == 0
    })
    .await;
}
