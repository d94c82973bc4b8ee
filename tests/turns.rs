//! Processes that want the same lock again and again: each gets it.

mod support;

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use redquorum::Retry;
use support::crowd::{busy, connected};
use support::fleet::Fleet;
use tokio::time::{sleep, timeout};

const SECOND: Duration = Duration::from_secs(1);

/// What one waits for in turn with another process, at the median. That gives way
/// after 10 ms.
const TURN: Duration = Duration::from_millis(50);

/// How long another process waits for its turn, at the median.
async fn waits_for(tasks: usize) -> Duration {
    let fleet = Fleet::start(3).await;
    let (here, there) = (connected(&fleet).await, connected(&fleet).await);
    let over = Arc::default();
    let busy = busy(&here, tasks, &over);
    let mut waits = Vec::new();
    for _ in 0..15 {
        let began = Instant::now();
        if let Ok(lock) = timeout(SECOND, there.lock("a").into_future()).await {
            lock.unwrap().release().await.unwrap();
        }
        waits.push(began.elapsed());
        sleep(SECOND / 50).await;
    }
    over.store(true, Ordering::Relaxed);
    let mut turns = 0;
    for task in busy {
        turns += task.await.unwrap();
    }
    waits.sort();
    println!("{tasks} tasks had it {turns} times; the other process waited {waits:?}");
    waits[waits.len() / 2]
}

#[tokio::test]
async fn a_process_of_one_task_lets_others_have_their_turn() {
    let waits = waits_for(1).await;
    assert!(waits < TURN, "{waits:?}");
}

#[tokio::test]
async fn a_process_of_many_tasks_lets_others_have_their_turn() {
    let waits = waits_for(8).await;
    assert!(waits < TURN, "{waits:?}");
}

/// How often those who wait have looked at the lock, at the master that is looked at
/// most. Each release looks at it too, in its script.
async fn looks(fleet: &Fleet) -> u64 {
    let mut most = 0;
    for master in fleet.iter() {
        let (gets, releases) = (
            master.commandstats("get").await,
            master.commandstats("evalsha").await,
        );
        most = most.max(gets.saturating_sub(releases));
    }
    most
}

/// To give way is to see whether the lock is free, and to pause.
#[tokio::test]
async fn a_process_that_is_alone_seldom_gives_way() {
    let fleet = Fleet::start(3).await;
    let redlock = connected(&fleet).await;
    let (over, began) = (Arc::default(), Instant::now());
    let busy = busy(&redlock, 8, &over);
    sleep(2 * SECOND).await;
    over.store(true, Ordering::Relaxed);
    for task in busy {
        task.await.unwrap();
    }
    redlock.settled().await;
    let (looks, took) = (looks(&fleet).await, began.elapsed());
    println!("{looks} looks in {took:?}");
    assert!(looks > 0, "it gives way at all");
    let most = took.as_millis() as u64 / 40;
    assert!(looks < most, "{looks} looks in {took:?}");
}

/// A task of the same process that asks once and is refused is no rival: nobody gives
/// way to it.
#[tokio::test]
async fn one_that_asks_once_beside_its_own_process_is_no_rival() {
    let fleet = Fleet::start(3).await;
    let redlock = connected(&fleet).await;
    let over = Arc::default();
    let busy = busy(&redlock, 1, &over);
    let mut refused = 0;
    for _ in 0..100 {
        sleep(SECOND / 200).await;
        let once = redlock.lock("a").retry(Retry::default().attempts(1));
        refused += usize::from(once.await.is_err());
    }
    over.store(true, Ordering::Relaxed);
    for task in busy {
        task.await.unwrap();
    }
    redlock.settled().await;
    let looks = looks(&fleet).await;
    println!("{looks} looks, {refused} refused");
    assert!(refused > 50, "{refused} were refused");
    assert!(looks < 20, "{looks} looks");
}
