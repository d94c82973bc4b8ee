//! Those who wait while some masters are in trouble: nobody waits longer for it,
//! and nobody asks in a tight loop.

mod support;

use std::time::{Duration, Instant};

use futures::future::join_all;
use redquorum::{Guard, LockError, Redlock, Retry};
use support::crowd::{connected, connected_to, sets};
use support::fleet::Fleet;
use support::inspect;
use support::wait::eventually;
use tokio::task::JoinHandle;
use tokio::time::{sleep, timeout};

const SECOND: Duration = Duration::from_secs(1);

/// What is faster was woken: the masters are looked at every second or so anyway.
const SOON: Duration = Duration::from_millis(150);

type Waiting = JoinHandle<Result<Guard, LockError>>;

/// One that has waited for so long that it has seen how things are.
async fn waiting(redlock: &Redlock) -> Waiting {
    let waiting = tokio::spawn(redlock.lock("a").into_future());
    sleep(SECOND / 5).await;
    assert!(!waiting.is_finished());
    waiting
}

/// Releases the lock, and sees how soon the other one has it.
async fn assert_handed_on(lock: Guard, waiting: Waiting, what: &str) {
    let released = Instant::now();
    let release = tokio::spawn(lock.release());
    let lock = timeout(5 * SECOND, waiting).await.expect("it is woken");
    let took = released.elapsed();
    println!("{what}: {took:?}");
    assert!(took < SOON, "{what}: {took:?}");
    release.await.unwrap().unwrap();
    lock.unwrap().unwrap().release().await.unwrap();
}

async fn set(fleet: &Fleet, master: usize) {
    let mut set = redis::cmd("SET");
    let () = inspect::ask(&fleet[master].url(), set.arg("a").arg("orphan")).await;
}

async fn refuse_writes(fleet: &Fleet, master: usize) {
    let mut config = redis::cmd("CONFIG");
    config.arg("SET").arg("min-replicas-to-write").arg(1);
    let () = inspect::ask(&fleet[master].url(), &config).await;
}

/// Whichever of them leads, it does so once.
#[tokio::test]
async fn a_key_that_a_dead_client_left_on_one_master_keeps_nobody_waiting() {
    let fleet = Fleet::start(5).await;
    let (here, there) = (connected(&fleet).await, connected(&fleet).await);
    for master in 0..5 {
        set(&fleet, master).await;
        let lock = here.lock("a").await.unwrap();
        let waiting = waiting(&there).await;
        assert_handed_on(lock, waiting, &format!("an orphan on {master}")).await;
        fleet[master].wipe().await;
    }
}

#[tokio::test]
async fn a_master_that_hangs_keeps_nobody_waiting() {
    let mut fleet = Fleet::start(3).await;
    let (here, there) = (connected(&fleet).await, connected(&fleet).await);
    for master in 0..3 {
        let lock = here.lock("a").await.unwrap();
        fleet[master].stop();
        let waiting = waiting(&there).await;
        let released = Instant::now();
        drop(lock);
        let lock = timeout(5 * SECOND, waiting).await.expect("it is woken");
        let took = released.elapsed();
        fleet[master].cont();
        println!("{master} hangs: {took:?}");
        assert!(took < SOON, "{master} hangs: {took:?}");
        lock.unwrap().unwrap().release().await.unwrap();
        fleet.assert_no_keys(5 * SECOND).await;
    }
}

/// One has a key that nobody releases, one sets none: two of three look free, and
/// never are.
#[tokio::test]
async fn masters_that_look_free_and_refuse_are_not_asked_in_a_tight_loop() {
    let fleet = Fleet::start(3).await;
    let processes = [
        connected(&fleet).await,
        connected(&fleet).await,
        connected(&fleet).await,
    ];
    set(&fleet, 0).await;
    refuse_writes(&fleet, 1).await;
    let mut all = Vec::new();
    for process in &processes {
        all.push(waiting(process).await);
    }
    let before = fleet[2].commandstats("set").await;
    sleep(2 * SECOND).await;
    let asked = fleet[2].commandstats("set").await - before;
    println!("three asked {asked} times in two seconds");
    assert!(asked <= 300, "{asked} attempts in two seconds");
    fleet[0].wipe().await;
    let turn = |waiting: Waiting| async move { waiting.await.unwrap().unwrap().release().await };
    let turns = join_all(all.into_iter().map(turn));
    let released = timeout(5 * SECOND, turns).await.expect("each has its turn");
    assert!(released.iter().all(Result::is_ok), "{released:?}");
}

#[tokio::test]
async fn no_more_attempts_are_made_than_are_allowed() {
    let fleet = Fleet::start(3).await;
    let redlock = connected(&fleet).await;
    let lock = connected(&fleet).await.lock("a").ttl(60 * SECOND).await;
    let lock = lock.unwrap();
    for most in 1..6 {
        let before = sets(&fleet).await;
        let request = redlock.lock("a").retry(Retry::default().attempts(most));
        let request = tokio::spawn(request.into_future());
        // Each change is worth an attempt.
        while !request.is_finished() {
            for master in fleet.iter() {
                let mut touch = redis::cmd("PEXPIRE");
                let () = inspect::ask(&master.url(), touch.arg("a").arg(60_000)).await;
            }
            sleep(SECOND / 50).await;
        }
        let refused = request.await.unwrap();
        assert!(matches!(refused, Err(LockError::Taken { .. })));
        for (master, before) in sets(&fleet).await.into_iter().zip(before) {
            assert!(
                master - before <= u64::from(most),
                "{} of {most}",
                master - before
            );
        }
    }
    lock.release().await.unwrap();
}

/// Several processes take turns, and most of those who wait give up: at any point
/// of their way.
#[tokio::test(flavor = "multi_thread")]
async fn s17_waiters_that_give_up_at_any_time_leave_nothing() {
    let fleet = Fleet::start(3).await;
    let mut tasks = Vec::new();
    for process in 0..4 {
        let redlock = connected(&fleet).await;
        for task in 0..3 {
            let redlock = redlock.clone();
            tasks.push(tokio::spawn(async move {
                let mut had = 0;
                for turn in 0..150 {
                    let patience = Duration::from_micros(
                        (turn * 7919 + task * 104_729 + process * 1_299_709) % 5_000,
                    );
                    let request = redlock.lock("a").ttl(600 * SECOND);
                    if let Ok(lock) = timeout(patience, request.into_future()).await {
                        had += 1;
                        drop(lock.unwrap());
                    }
                }
                had
            }));
        }
    }
    let mut had = 0;
    for task in tasks {
        had += task.await.unwrap();
    }
    println!("{had} of 1800 had the lock");
    assert!(had > 0);
    fleet.assert_no_keys(SECOND).await;
    let lock = timeout(SECOND, connected(&fleet).await.lock("a").into_future()).await;
    lock.expect("it is free").unwrap().release().await.unwrap();
}

/// Whatever happens between being refused and being told is seen by looking.
#[tokio::test]
async fn a_release_that_comes_before_the_look_is_seen_by_it() {
    let fleet = Fleet::start(3).await;
    let proxies = fleet.proxies().await;
    let urls: Vec<_> = proxies.iter().map(|proxy| proxy.url()).collect();
    let here = connected(&fleet).await;
    for retry in [Retry::default(), Retry::default().attempts(1_000)] {
        // One that had the lock just now would look before it asks.
        let there = connected_to(urls.clone(), 3).await;
        let lock = here.lock("a").await.unwrap();
        for proxy in &proxies {
            // The refused attempt's release, whose script reads the key too.
            proxy.hold_requests_with("EVALSHA");
        }
        let request = there.lock("a").retry(retry);
        let waiting = tokio::spawn(request.into_future());
        eventually("it is refused", SECOND, async || {
            proxies.iter().any(|proxy| proxy.requests_waiting() > 0)
        })
        .await;
        lock.release().await.unwrap();
        for proxy in &proxies {
            proxy.release_held();
        }
        let free = Instant::now();
        let lock = timeout(5 * SECOND, waiting).await.expect("it is seen");
        assert!(free.elapsed() < SOON, "{:?}", free.elapsed());
        lock.unwrap().unwrap().release().await.unwrap();
    }
}
