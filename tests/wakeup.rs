//! Waiters that are woken by the masters, and queue within one process.

mod support;

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use redquorum::{LockError, Redlock, Retry, Wait};
use support::fleet::Fleet;
use support::wait::eventually;
use tokio::time::{sleep, timeout};

const SECOND: Duration = Duration::from_secs(1);

/// Pauses that no test waits for: what is faster was woken.
fn never() -> Retry {
    Retry::default().base(100 * SECOND).cap(1_000 * SECOND)
}

fn redlock(fleet: &Fleet) -> Redlock {
    support::builder()
        .masters(fleet.urls())
        .master_timeout(5 * SECOND)
        .retry(never())
        .wait(Wait::Forever)
        .build()
        .unwrap()
}

/// Until somebody of another process waits for it: its key is looked at.
async fn is_looked_at(fleet: &Fleet, looks: u64) {
    eventually("a waiter looks", 5 * SECOND, async || {
        fleet[0].commandstats("get").await > looks
    })
    .await;
}

#[tokio::test]
async fn a_waiter_of_another_process_is_woken_by_the_release() {
    let fleet = Fleet::start(5).await;
    let (here, there) = (redlock(&fleet), redlock(&fleet));
    for _ in 0..10 {
        let looks = fleet[0].commandstats("get").await;
        let lock = here.lock("a").await.unwrap();
        let waiter = tokio::spawn(there.lock("a").into_future());
        is_looked_at(&fleet, looks).await;
        assert!(!waiter.is_finished());
        let released = Instant::now();
        lock.release().await.unwrap();
        let lock = timeout(SECOND, waiter).await.expect("it is woken");
        println!("woken {:?} after the release", released.elapsed());
        lock.unwrap().unwrap().release().await.unwrap();
    }
}

#[tokio::test]
async fn a_waiter_is_woken_by_expiry_and_by_deletion() {
    let fleet = Fleet::start(5).await;
    let (here, there) = (redlock(&fleet), redlock(&fleet));
    let started = Instant::now();
    let forgotten = here.lock("a").ttl(SECOND).await.unwrap();
    std::mem::forget(forgotten);
    let lock = timeout(3 * SECOND, there.lock("a").into_future()).await;
    let lock = lock.expect("it is woken").unwrap();
    println!(
        "woken {:?} after the lock was taken for 1 s",
        started.elapsed()
    );

    let looks = fleet[0].commandstats("get").await;
    let waiter = tokio::spawn(here.lock("a").into_future());
    is_looked_at(&fleet, looks).await;
    for master in fleet.iter() {
        master.wipe().await;
    }
    let second = timeout(SECOND, waiter).await.expect("it is woken");
    assert!(lock.release().await.is_err(), "it had been deleted");
    second.unwrap().unwrap().release().await.unwrap();
}

#[tokio::test]
async fn a_waiter_is_woken_when_masters_come_back() {
    let mut fleet = Fleet::start(3).await;
    let (here, there) = (redlock(&fleet), redlock(&fleet));
    let looks = fleet[0].commandstats("get").await;
    let lock = here.lock("a").await.unwrap();
    let waiter = tokio::spawn(there.lock("a").into_future());
    is_looked_at(&fleet, looks).await;
    for master in 0..3 {
        fleet[master].kill();
        fleet[master].restart().await;
    }
    let second = timeout(5 * SECOND, waiter).await.expect("it is woken");
    second.unwrap().unwrap().release().await.unwrap();
    drop(lock);
}

#[tokio::test]
async fn the_tasks_of_one_process_are_served_in_their_order() {
    let fleet = Fleet::start(5).await;
    let redlock = redlock(&fleet);
    let lock = redlock.lock("a").await.unwrap();
    let served = Arc::new(Mutex::new(Vec::new()));
    let mut tasks = Vec::new();
    for task in 0..20 {
        let (redlock, served) = (redlock.clone(), served.clone());
        tasks.push(tokio::spawn(async move {
            let lock = redlock.lock("a").await.unwrap();
            served.lock().unwrap().push(task);
            lock.release().await.unwrap();
        }));
        // The first asks the masters before it queues.
        sleep(Duration::from_millis(20)).await;
    }
    lock.release().await.unwrap();
    for task in tasks {
        timeout(5 * SECOND, task)
            .await
            .expect("all are served")
            .unwrap();
    }
    assert_eq!(*served.lock().unwrap(), (0..20).collect::<Vec<_>>());
}

#[tokio::test]
async fn a_cancelled_waiter_leaves_no_trace() {
    let fleet = Fleet::start(5).await;
    let redlock = redlock(&fleet);
    let lock = redlock.lock("a").await.unwrap();
    let waiters: Vec<_> = (0..10)
        .map(|_| tokio::spawn(redlock.lock("a").into_future()))
        .collect();
    sleep(SECOND / 10).await;
    let last = tokio::spawn(redlock.lock("a").into_future());
    sleep(SECOND / 10).await;
    for waiter in waiters {
        waiter.abort();
    }
    lock.release().await.unwrap();
    let lock = timeout(SECOND, last).await.expect("its turn comes");
    lock.unwrap().unwrap().release().await.unwrap();
    fleet.assert_no_keys(SECOND).await;
}

#[tokio::test]
async fn a_wait_that_ends_in_the_queue_says_what_it_waited_for() {
    let fleet = Fleet::start(5).await;
    let redlock = redlock(&fleet);
    let lock = redlock.lock("a").await.unwrap();
    let long = tokio::spawn(redlock.lock("a").into_future());
    sleep(SECOND / 10).await;
    let started = Instant::now();
    let over = redlock.lock("a").wait(SECOND / 5).await.unwrap_err();
    assert!(started.elapsed() >= SECOND / 5);
    let LockError::WaitedTooLong { last, .. } = over else {
        panic!("{over}");
    };
    assert!(matches!(*last, LockError::Taken { .. }), "{last}");
    lock.release().await.unwrap();
    long.await.unwrap().unwrap().release().await.unwrap();
}

#[tokio::test]
async fn a_thousand_waiters_are_one_to_the_masters() {
    let fleet = Fleet::start(5).await;
    let (here, there) = (redlock(&fleet), redlock(&fleet));
    let lock = here.lock("a").ttl(60 * SECOND).await.unwrap();
    let first = tokio::spawn(there.lock("a").into_future());
    is_looked_at(&fleet, 0).await;
    let waiters: Vec<_> = (0..1_000)
        .map(|_| tokio::spawn(there.lock("a").into_future()))
        .collect();
    sleep(SECOND).await;
    let before = fleet[0].commandstats("set").await;
    sleep(2 * SECOND).await;
    let asked = fleet[0].commandstats("set").await - before;
    assert!(asked <= 10, "{asked} attempts in two seconds");
    for waiter in waiters {
        waiter.abort();
    }
    lock.release().await.unwrap();
    first.await.unwrap().unwrap().release().await.unwrap();
}

/// The URL of one that is not allowed to be told of changes.
async fn mute(fleet: &Fleet, master: usize) -> String {
    let mut acl = redis::cmd("ACL");
    acl.arg(&["SETUSER", "mute", "on", ">pw", "~*", "+@all"]);
    acl.arg("-client|tracking");
    let url = fleet[master].url();
    let () = support::inspect::ask(&url, &acl).await;
    url.replace("redis://", "redis://mute:pw@")
}

#[tokio::test]
async fn masters_that_tell_nothing_are_asked_from_time_to_time() {
    let fleet = Fleet::start(3).await;
    let mut urls = Vec::new();
    for master in 0..3 {
        urls.push(mute(&fleet, master).await);
    }
    let builder = support::builder().masters(urls).master_timeout(5 * SECOND);
    let (here, there) = (builder.clone().build().unwrap(), builder.build().unwrap());
    let lock = here.lock("a").await.unwrap();
    let waiter = tokio::spawn(there.lock("a").into_future());
    sleep(SECOND / 10).await;
    lock.release().await.unwrap();
    let second = timeout(2 * SECOND, waiter).await.expect("it looks again");
    second.unwrap().unwrap().release().await.unwrap();
}

#[tokio::test]
async fn a_quorum_that_tells_is_enough() {
    let fleet = Fleet::start(3).await;
    let here = redlock(&fleet);
    for silent in 0..3 {
        let mut urls = fleet.urls();
        urls[silent] = mute(&fleet, silent).await;
        let builder = support::builder().masters(urls).master_timeout(5 * SECOND);
        let there = builder.retry(never()).wait(Wait::Forever).build().unwrap();
        there.lock("b").await.unwrap().release().await.unwrap();
        for _ in 0..5 {
            let looks = fleet[(silent + 1) % 3].commandstats("get").await;
            let lock = here.lock("a").await.unwrap();
            let waiter = tokio::spawn(there.lock("a").into_future());
            eventually("a waiter looks", 5 * SECOND, async || {
                fleet[(silent + 1) % 3].commandstats("get").await > looks
            })
            .await;
            sleep(SECOND / 20).await;
            let released = Instant::now();
            lock.release().await.unwrap();
            let lock = timeout(5 * SECOND, waiter).await.expect("it is woken");
            let took = released.elapsed();
            assert!(took < SECOND / 10, "{silent} tells nothing: {took:?}");
            lock.unwrap().unwrap().release().await.unwrap();
        }
    }
}
