//! Locks whose keys are deleted on masters while they are held.

mod support;

use std::sync::Mutex;
use std::time::{Duration, Instant};

use redquorum::{Guard, HoldError, LossReason, Redlock, Vote};
use support::fleet::Fleet;
use support::inspect;
use support::machine::Watch;
use support::wait::eventually;
use tokio::time::{sleep, timeout};

const SECOND: Duration = Duration::from_secs(1);

/// Held for so long, a lock is not worth watching.
const MOMENT: Duration = Duration::from_millis(1);

/// How soon a loss is told that masters tell of.
const AT_ONCE: Duration = Duration::from_millis(50);

async fn connected(fleet: &Fleet) -> Redlock {
    let redlock = support::builder().masters(fleet.urls()).build().unwrap();
    eventually("all masters grant", 5 * SECOND, async || {
        let lock = redlock.lock("connected").await.unwrap();
        let released = lock.release().await.unwrap();
        released.removed == fleet.len()
    })
    .await;
    redlock
}

/// Until the masters have been asked to tell of the key: each has been read.
async fn is_watched(fleet: &Fleet, looks: &[u64]) {
    eventually("the key is looked at", SECOND, async || {
        for (master, looks) in fleet.iter().zip(looks) {
            if master.commandstats("get").await <= *looks {
                return false;
            }
        }
        true
    })
    .await;
}

async fn looks(fleet: &Fleet) -> Vec<u64> {
    let mut looks = Vec::new();
    for master in fleet.iter() {
        looks.push(master.commandstats("get").await);
    }
    looks
}

async fn delete(fleet: &Fleet, masters: std::ops::Range<usize>) -> Instant {
    let deleted = Instant::now();
    for master in masters {
        let mut connection = fleet[master].connection().await;
        let gone: u64 = redis::cmd("DEL")
            .arg("a")
            .query_async(&mut connection)
            .await
            .unwrap();
        assert_eq!(gone, 1);
    }
    deleted
}

fn assert_gone_on(loss: &LossReason, masters: usize) {
    let LossReason::Gone { report } = loss else {
        panic!("it is gone: {loss}");
    };
    assert!(report.count(Vote::No) >= masters, "{report}");
}

/// A deletion passes through five servers and this process: each may have to wait
/// for the machine, which a watch has seen.
fn assert_at_once(deleted: Instant, watch: &Watch) {
    let (took, stall) = (deleted.elapsed(), watch.longest_stall());
    println!("told {took:?} after the deletion; the machine stalled for {stall:?}");
    assert!(
        took < AT_ONCE + 4 * stall,
        "{took:?}, stalled for {stall:?}"
    );
}

/// Deletes the key on a minority, which is no loss, and then on the quorum's last.
async fn is_told_at_once(fleet: &Fleet, lock: &Guard) {
    let lost = tokio::spawn(lock.lost());
    delete(fleet, 0..2).await;
    sleep(2 * AT_ONCE).await;
    assert!(
        !lost.is_finished() && lock.is_valid(),
        "three still have it"
    );
    let watch = Watch::begin();
    let deleted = delete(fleet, 2..3).await;
    let loss = timeout(SECOND, lost).await.expect("it is told").unwrap();
    assert_at_once(deleted, &watch);
    assert_gone_on(&loss, 3);
    assert!(!lock.is_valid());
    fleet.assert_no_keys(SECOND).await;
}

#[tokio::test]
async fn s11_a_lock_deleted_on_three_of_five_is_told_at_once() {
    let fleet = Fleet::start(5).await;
    let redlock = connected(&fleet).await;
    let before = looks(&fleet).await;
    let lock = redlock.lock("a").ttl(60 * SECOND).await.unwrap();
    let watching = tokio::spawn(lock.lost());
    is_watched(&fleet, &before).await;
    is_told_at_once(&fleet, &lock).await;
    assert_gone_on(&watching.await.unwrap(), 3);
}

#[tokio::test]
async fn s11_it_is_told_at_once_after_extensions_too() {
    let fleet = Fleet::start(5).await;
    let redlock = connected(&fleet).await;
    let lock = redlock.lock("a").ttl(60 * SECOND).await.unwrap();
    let before = looks(&fleet).await;
    let watching = tokio::spawn(lock.lost());
    is_watched(&fleet, &before).await;
    for _ in 0..3 {
        lock.extend(60 * SECOND).await.unwrap();
    }
    is_told_at_once(&fleet, &lock).await;
    assert_gone_on(&watching.await.unwrap(), 3);
}

#[tokio::test]
async fn s11_a_section_under_a_lock_that_is_deleted_is_dropped_at_once() {
    let fleet = Fleet::start(5).await;
    let redlock = connected(&fleet).await;
    let before = looks(&fleet).await;
    let deleted = Mutex::new(None);
    let watch = Watch::begin();
    let request = redlock.lock("a").ttl(60 * SECOND);
    let section = request.hold(async |_| {
        is_watched(&fleet, &before).await;
        *deleted.lock().unwrap() = Some(delete(&fleet, 0..3).await);
        std::future::pending::<()>().await
    });
    let outcome = timeout(5 * SECOND, section).await.expect("it is dropped");
    let took = deleted
        .into_inner()
        .unwrap()
        .expect("it was deleted")
        .elapsed();
    let Err(HoldError::Lost { reason, .. }) = outcome else {
        panic!("it is lost: {outcome:?}");
    };
    assert_gone_on(&reason, 3);
    assert!(took < AT_ONCE + 4 * watch.longest_stall(), "{took:?}");
}

/// Extended three times a second by itself: its keys are known by the masters to
/// be watched all the same.
#[tokio::test]
async fn s11_it_is_told_at_once_between_automatic_extensions() {
    let fleet = Fleet::start(5).await;
    let redlock = connected(&fleet).await;
    let request = redlock.lock("a").ttl(SECOND).auto_extend();
    let lock = request.await.unwrap();
    let before = extensions(&fleet).await;
    eventually("it is extended twice", 5 * SECOND, async || {
        extensions(&fleet).await > before + 1
    })
    .await;
    let watch = Watch::begin();
    let deleted = delete(&fleet, 0..3).await;
    let loss = lock.lost().await;
    assert_gone_on(&loss, 3);
    assert_at_once(deleted, &watch);
}

async fn extensions(fleet: &Fleet) -> u64 {
    fleet[0].commandstats("pexpire").await
}

#[tokio::test]
async fn s11_masters_that_restart_empty_are_noticed_as_soon_as_they_are_back() {
    let mut fleet = Fleet::start(5).await;
    let redlock = connected(&fleet).await;
    let before = looks(&fleet).await;
    let lock = redlock.lock("a").ttl(60 * SECOND).await.unwrap();
    let lost = tokio::spawn(lock.lost());
    is_watched(&fleet, &before).await;
    for master in 0..3 {
        fleet[master].kill();
        fleet[master].restart().await;
    }
    let loss = timeout(5 * SECOND, lost)
        .await
        .expect("it is told")
        .unwrap();
    assert_gone_on(&loss, 3);
}

#[tokio::test]
async fn s09_s11_a_key_that_was_given_back_is_watched_again() {
    let fleet = Fleet::start(5).await;
    let redlock = connected(&fleet).await;
    let before = looks(&fleet).await;
    let lock = redlock.lock("a").ttl(60 * SECOND).await.unwrap();
    let lost = tokio::spawn(lock.lost());
    is_watched(&fleet, &before).await;
    delete(&fleet, 0..2).await;
    lock.extend(60 * SECOND).await.unwrap();
    eventually("they have it back", SECOND, async || {
        fleet.get("a").await.iter().flatten().count() == 5
    })
    .await;
    // Looked at after it was given back: the look before was of the extension.
    eventually("all are watched", SECOND, async || {
        let mut watching = 0;
        for master in fleet.iter() {
            let mut connection = master.connection().await;
            let stats: String = redis::cmd("INFO")
                .arg("stats")
                .query_async(&mut connection)
                .await
                .unwrap();
            watching +=
                usize::from(inspect::info_field(&stats, "tracking_total_keys").unwrap() == "1");
        }
        watching == 5
    })
    .await;
    let watch = Watch::begin();
    let deleted = delete(&fleet, 0..3).await;
    let loss = timeout(SECOND, lost).await.expect("it is told").unwrap();
    assert_gone_on(&loss, 3);
    assert_at_once(deleted, &watch);
}

#[tokio::test]
async fn a_lock_that_nobody_watches_is_not_looked_at() {
    let fleet = Fleet::start(5).await;
    let redlock = connected(&fleet).await;
    let before = looks(&fleet).await;
    for _ in 0..10 {
        let lock = redlock.lock("a").await.unwrap();
        lock.release().await.unwrap();
        let held = redlock.lock("a").hold(async |_| sleep(MOMENT).await).await;
        held.unwrap();
    }
    let mut most = Vec::new();
    for (master, before) in fleet.iter().zip(&before) {
        most.push(master.commandstats("get").await - before);
    }
    // A release reads the key once; some sections may have been held up.
    assert!(most.iter().all(|looks| *looks <= 25), "{most:?}");
}

#[tokio::test]
async fn s11_what_silent_masters_say_too_late_is_asked_again() {
    let mut fleet = Fleet::start(3).await;
    let redlock = connected(&fleet).await;
    let lock = redlock.lock("a").ttl(60 * SECOND).await.unwrap();
    delete(&fleet, 0..2).await;
    for master in 0..2 {
        fleet[master].stop();
    }
    let lost = tokio::spawn(lock.lost());
    // Longer than they are waited for.
    sleep(SECOND / 5).await;
    assert!(!lost.is_finished() && lock.is_valid());
    for master in 0..2 {
        fleet[master].cont();
    }
    let loss = timeout(SECOND, lost).await.expect("it is told").unwrap();
    assert_gone_on(&loss, 2);
}
