//! Releasing a lock, and what its owner is told of it (S6).
#![cfg(feature = "testing")]

mod memory;

use std::time::Duration;

use memory::*;
use redquorum::{MemoryMaster, ReleaseError, Vote};
use tokio::time::{Instant, sleep};

#[tokio::test(start_paused = true)]
async fn a_release_says_on_how_many_masters_the_lock_was_removed() {
    for down in 0..3 {
        let masters = masters::<5>();
        masters[..down].iter().for_each(MemoryMaster::cut_off);
        let lock = redlock(&masters).lock(KEY).await.unwrap();
        masters[..down].iter().for_each(MemoryMaster::restart);
        let released = lock.release().await.unwrap();
        assert_eq!((released.removed, released.masters), (5 - down, 5));
        assert_no_keys(&masters);
    }
}

#[tokio::test(start_paused = true)]
async fn s06_a_release_goes_to_all_masters() {
    let masters = masters::<5>();
    take_elsewhere(&masters[..2], None);
    let lock = redlock(&masters).lock(KEY).await.unwrap();
    lock.release().await.unwrap();
    assert_eq!(executed(&masters), [2; 5], "those that had refused it too");
}

#[tokio::test(start_paused = true)]
async fn a_lock_that_has_expired_was_not_held_any_more() {
    let masters = masters::<3>();
    let lock = redlock(&masters).lock(KEY).ttl(ms(100)).await.unwrap();
    sleep(ms(100)).await;
    take_elsewhere(&masters[..1], None);
    let Err(ReleaseError::NotHeld { report }) = lock.release().await else {
        panic!("it has expired");
    };
    assert_eq!(report.count(Vote::No), 3);
    assert_eq!(having(&masters, "other"), 1, "it is not ours to delete");
}

#[tokio::test(start_paused = true)]
async fn a_lock_that_a_minority_lost_was_held() {
    let masters = masters::<3>();
    let lock = redlock(&masters).lock(KEY).await.unwrap();
    masters[1].wipe();
    assert_eq!(lock.release().await.unwrap().removed, 2);
}

#[tokio::test(start_paused = true)]
async fn a_release_that_too_few_confirm_is_unconfirmed_and_goes_on() {
    let masters = masters::<3>();
    let lock = redlock(&masters).lock(KEY).await.unwrap();
    masters[0].cut_off();
    masters[1].cut_off();
    let began = Instant::now();
    let Err(ReleaseError::Unconfirmed { report }) = lock.release().await else {
        panic!("one master of three");
    };
    assert_eq!(began.elapsed(), Duration::ZERO, "nobody is waited for");
    assert_eq!(report.count(Vote::Absent), 2);
    assert_eq!(masters[0].keys().len(), 1);
    masters[0].restart();
    masters[1].restart();
    assert_no_keys(&masters);
}

#[tokio::test(start_paused = true)]
async fn a_release_takes_the_master_time_out_at_most() {
    let masters = masters::<3>();
    let lock = redlock(&masters).lock(KEY).await.unwrap();
    masters.iter().for_each(MemoryMaster::stall);
    let began = Instant::now();
    let unconfirmed = lock.release().await;
    assert!(matches!(unconfirmed, Err(ReleaseError::Unconfirmed { .. })));
    assert_eq!(began.elapsed(), ms(50));
    heal(&masters).await;
    assert_no_keys(&masters);
}

#[tokio::test(start_paused = true)]
async fn a_release_waits_for_stragglers_for_as_long_again() {
    let masters = masters::<5>();
    let lock = redlock(&masters).lock(KEY).await.unwrap();
    delay(&masters, &[4, 5, 6, 11, 25]);
    let began = Instant::now();
    assert_eq!(lock.release().await.unwrap().removed, 4);
    assert_eq!(began.elapsed(), ms(24), "decided at 12");
    heal(&masters).await;
    assert_no_keys(&masters);
}

#[tokio::test(start_paused = true)]
async fn a_stalled_master_costs_a_release_little_and_nothing_once_it_is_known() {
    let masters = masters::<3>();
    let redlock = redlock(&masters);
    masters[2].stall();
    for costs in [5, 0, 0] {
        let lock = redlock.lock(KEY).await.unwrap();
        let began = Instant::now();
        assert_eq!(lock.release().await.unwrap().removed, 2);
        assert_eq!(began.elapsed(), ms(costs));
        sleep(ms(60)).await;
    }
    masters[2].resume();
    assert_no_keys(&masters);
}

#[tokio::test(start_paused = true)]
async fn s05_an_owed_release_is_delivered_when_the_master_comes_back() {
    type Fault = (fn(&MemoryMaster), fn(&MemoryMaster));
    let faults: [Fault; 2] = [
        (MemoryMaster::cut_off, MemoryMaster::restart),
        (MemoryMaster::stall, MemoryMaster::resume),
    ];
    for (fails, recovers) in faults {
        let masters = masters::<3>();
        let redlock = redlock(&masters);
        let lock = redlock.lock(KEY).ttl(ms(60_000)).await.unwrap();
        fails(&masters[0]);
        lock.release().await.unwrap();
        sleep(ms(1000)).await;
        assert_eq!(masters[0].keys().len(), 1);
        recovers(&masters[0]);
        assert_no_keys(&masters);
        let next = redlock.lock(KEY).await.unwrap();
        sleep(ms(1000)).await;
        assert_eq!(having(&masters, next.token()), 3, "it is not repeated");
    }
}

#[tokio::test(start_paused = true)]
async fn s05_an_owed_release_does_not_delete_the_next_owners_key() {
    let masters = masters::<3>();
    let redlock = redlock(&masters);
    let lock = redlock.lock(KEY).ttl(ms(100)).await.unwrap();
    masters[0].cut_off();
    lock.release().await.unwrap();
    sleep(ms(100)).await;
    masters[0].set(KEY, "other", None);
    masters[0].restart();
    assert_eq!(having(&masters, "other"), 1);
}

#[tokio::test(start_paused = true)]
async fn a_released_lock_can_be_taken_at_once() {
    let masters = masters::<3>();
    let redlock = redlock(&masters);
    for _ in 0..100 {
        let lock = redlock.lock(KEY).try_once().await.unwrap();
        lock.release().await.unwrap();
    }
    for _ in 0..100 {
        drop(redlock.lock(KEY).try_once().await.unwrap());
    }
}

#[tokio::test(start_paused = true)]
async fn a_release_that_was_never_polled_is_sent_all_the_same() {
    let masters = masters::<3>();
    let lock = redlock(&masters).lock(KEY).await.unwrap();
    drop(lock.release());
    assert_no_keys(&masters);
}
