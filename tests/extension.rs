//! Extending a lock that is held (S9, S10).
#![cfg(feature = "testing")]

mod memory;

use std::time::Duration;

use memory::*;
use redquorum::{ExtendError, Guard, MemoryMaster, ReleaseError, Vote};
use tokio::time::{Instant, sleep, timeout};

async fn hold(masters: &[MemoryMaster], ttl: Duration) -> Guard {
    redlock(masters).lock(KEY).ttl(ttl).await.unwrap()
}

#[track_caller]
fn assert_lost(outcome: Result<Duration, ExtendError>) {
    assert!(
        matches!(outcome, Err(ExtendError::Lost { .. })),
        "{outcome:?}"
    );
}

#[track_caller]
fn assert_unknown(outcome: Result<Duration, ExtendError>, stands: Duration) {
    match outcome {
        Err(ExtendError::Unknown { remaining, .. }) => assert_eq!(remaining, stands),
        other => panic!("{other:?}"),
    }
}

#[tokio::test(start_paused = true)]
async fn s09_the_new_lease_runs_from_the_start_of_its_extension() {
    let masters = masters::<3>();
    let lock = hold(&masters, ms(1000)).await;
    sleep(ms(500)).await;
    delay(&masters, &[5, 10, 40]);
    let began = Instant::now();
    let remaining = lock.extend(ms(1000)).await.unwrap();
    assert_eq!(began.elapsed(), ms(20), "a quorum decides");
    assert_eq!(remaining, ms(1000 - 12 - 20));
    assert_eq!(lock.remaining(), remaining);
    assert_backed(&lock, &masters);
}

#[tokio::test(start_paused = true)]
async fn s09_a_lock_can_be_held_by_extensions_for_much_longer_than_its_ttl() {
    let masters = masters::<3>();
    let lock = hold(&masters, ms(100)).await;
    for _ in 0..1000 {
        sleep(ms(60)).await;
        assert_eq!(lock.extend(ms(100)).await.unwrap(), ms(97));
        assert_eq!(having(&masters, lock.token()), 3);
    }
}

#[tokio::test(start_paused = true)]
async fn s09_an_expired_lease_is_never_extended() {
    let masters = masters::<3>();
    let lock = hold(&masters, ms(1000)).await;
    sleep(ms(988)).await;
    assert_eq!(having(&masters, lock.token()), 3, "the drift is left");
    assert_lost(lock.extend(ms(1000)).await);
    assert!(!lock.is_valid());
    assert_no_keys(&masters);
    assert_eq!(executed(&masters), [2; 3], "taken and released");
}

#[tokio::test(start_paused = true)]
async fn s09_an_extension_that_is_decided_after_the_deadline_does_not_count() {
    let masters = masters::<3>();
    let lock = hold(&masters, ms(1000)).await;
    sleep(ms(988 - 30)).await;
    delay(&masters, &[15, 15, 15]);
    assert_lost(lock.extend(ms(1000)).await);
    assert_eq!(lock.remaining(), Duration::ZERO);
    heal(&masters).await;
    assert_no_keys(&masters);
}

#[tokio::test(start_paused = true)]
async fn s09_an_extension_that_is_decided_just_before_the_deadline_counts() {
    let masters = masters::<3>();
    let lock = hold(&masters, ms(1000)).await;
    sleep(ms(988 - 31)).await;
    delay(&masters, &[15, 15, 15]);
    assert_eq!(lock.extend(ms(1000)).await.unwrap(), ms(1000 - 12 - 30));
}

#[tokio::test(start_paused = true)]
async fn s09_a_key_that_is_gone_is_not_created_again() {
    for delete in [MemoryMaster::wipe, |master: &MemoryMaster| {
        master.delete(KEY)
    }] {
        let masters = masters::<3>();
        let lock = hold(&masters, ms(1000)).await;
        masters[..2].iter().for_each(delete);
        assert_lost(lock.extend(ms(1000)).await);
        assert!(!lock.is_valid());
        assert_no_keys(&masters);
        assert_lost(lock.extend(ms(1000)).await);
        assert_no_keys(&masters);
    }
}

#[tokio::test(start_paused = true)]
async fn s09_a_master_that_lost_the_key_has_no_vote_for_the_extension() {
    let masters = masters::<3>();
    let lock = hold(&masters, ms(1000)).await;
    masters[0].wipe();
    masters[1].stall();
    assert_unknown(lock.extend(ms(1000)).await, ms(988 - 50));
}

#[tokio::test(start_paused = true)]
async fn s09_another_owners_key_is_neither_extended_nor_deleted() {
    let masters = masters::<3>();
    let lock = hold(&masters, ms(1000)).await;
    take_elsewhere(&masters[..2], Some(ms(300)));
    assert_lost(lock.extend(ms(5000)).await);
    assert_eq!(having(&masters[..2], "other"), 2);
    assert_eq!(masters[0].expires_in(KEY), Some(ms(300)));
    assert_eq!(masters[2].get(KEY), None, "ours is released");
}

#[tokio::test(start_paused = true)]
async fn s09_a_quorum_that_matches_is_enough() {
    let masters = masters::<5>();
    let lock = hold(&masters, ms(1000)).await;
    masters[0].wipe();
    masters[1].stall();
    let began = Instant::now();
    assert_eq!(lock.extend(ms(1000)).await.unwrap(), ms(988));
    assert_eq!(began.elapsed(), Duration::ZERO);
}

#[tokio::test(start_paused = true)]
async fn s10_an_undecided_extension_leaves_the_deadline_and_the_keys() {
    let masters = masters::<3>();
    let lock = hold(&masters, ms(1000)).await;
    masters[1].stall();
    masters[2].stall();
    let began = Instant::now();
    assert_unknown(lock.extend(ms(9000)).await, ms(988 - 50));
    assert_eq!(began.elapsed(), ms(50));
    assert_eq!(lock.remaining(), ms(988 - 50));
    masters[1].resume();
    masters[2].resume();
    assert_eq!(having(&masters, lock.token()), 3);
    assert_eq!(
        lock.remaining(),
        ms(988 - 50),
        "late answers change nothing"
    );
}

#[tokio::test(start_paused = true)]
async fn s10_an_extension_that_reaches_nobody_is_undecided_at_once() {
    let masters = masters::<3>();
    let lock = hold(&masters, ms(1000)).await;
    masters.iter().for_each(MemoryMaster::cut_off);
    let began = Instant::now();
    assert_unknown(lock.extend(ms(9000)).await, ms(988));
    assert_eq!(began.elapsed(), Duration::ZERO);
}

#[tokio::test(start_paused = true)]
async fn s10_an_undecided_extension_can_be_tried_again() {
    let masters = masters::<3>();
    let lock = hold(&masters, ms(1000)).await;
    masters[1].cut_off();
    masters[2].cut_off();
    assert_unknown(lock.extend(ms(1000)).await, ms(988));
    masters[1].restart();
    sleep(ms(400)).await;
    assert_eq!(lock.extend(ms(1000)).await.unwrap(), ms(988));
    assert_backed(&lock, &masters);
}

#[tokio::test(start_paused = true)]
async fn s10_silence_until_the_deadline_is_a_loss_at_the_deadline() {
    let masters = masters::<3>();
    let lock = hold(&masters, ms(1000)).await;
    sleep(ms(988 - 20)).await;
    masters.iter().for_each(MemoryMaster::stall);
    let began = Instant::now();
    assert_lost(lock.extend(ms(1000)).await);
    assert_eq!(began.elapsed(), ms(20));
}

#[tokio::test(start_paused = true)]
async fn s10_the_report_says_what_each_master_said() {
    let masters = masters::<3>();
    let lock = hold(&masters, ms(1000)).await;
    masters[0].wipe();
    masters[1].wipe();
    let Err(ExtendError::Lost { report, .. }) = lock.extend(ms(1000)).await else {
        panic!("it is lost");
    };
    assert_eq!(report.count(Vote::No), 2);
}

#[tokio::test(start_paused = true)]
async fn s10_a_shorter_extension_shortens_the_lease() {
    let masters = masters::<3>();
    let lock = hold(&masters, ms(1000)).await;
    assert_eq!(lock.extend(ms(100)).await.unwrap(), ms(97));
    assert_eq!(lock.remaining(), ms(97));
    assert_eq!(masters[0].expires_in(KEY), Some(ms(100)));
}

#[tokio::test(start_paused = true)]
async fn s10_an_undecided_shorter_extension_shortens_the_lease() {
    let masters = masters::<3>();
    let lock = hold(&masters, ms(1000)).await;
    masters[0].lose_replies(1);
    masters[1].lose_replies(1);
    assert_unknown(lock.extend(ms(100)).await, ms(97 - 50));
    assert_backed(&lock, &masters);
}

#[tokio::test(start_paused = true)]
async fn s10_an_undecided_shorter_extension_takes_no_longer_than_it_leaves() {
    let masters = masters::<3>();
    let lock = hold(&masters, ms(1000)).await;
    masters.iter().for_each(MemoryMaster::stall);
    let began = Instant::now();
    assert_lost(lock.extend(ms(30)).await);
    // The drift is 2.3 ms; timers fire on whole milliseconds.
    assert_eq!(began.elapsed(), ms(28));
}

#[tokio::test(start_paused = true)]
async fn s10_one_extension_at_a_time() {
    let masters = masters::<3>();
    let lock = hold(&masters, ms(1000)).await;
    delay(&masters, &[5, 5, 5]);
    let began = Instant::now();
    let (long, short) = tokio::join!(lock.extend(ms(2000)), lock.extend(ms(500)));
    assert_eq!(began.elapsed(), ms(20));
    assert_eq!(long.unwrap(), ms(2000 - 22 - 10));
    assert_eq!(short.unwrap(), ms(500 - 7 - 10));
    assert_eq!(lock.remaining(), ms(500 - 7 - 10), "the later one stands");
    assert_backed(&lock, &masters);
}

#[tokio::test(start_paused = true)]
async fn s10_an_extension_that_waits_behind_a_loss_is_lost_too() {
    let masters = masters::<3>();
    let lock = hold(&masters, ms(1000)).await;
    delay(&masters, &[5, 5, 5]);
    masters.iter().for_each(MemoryMaster::wipe);
    let (first, second) = tokio::join!(lock.extend(ms(2000)), lock.extend(ms(2000)));
    assert_lost(first);
    assert_lost(second);
}

#[tokio::test(start_paused = true)]
async fn s10_a_cancelled_extension_leaves_the_lease_and_the_next_can_run() {
    for after in 0..12 {
        let masters = masters::<3>();
        let lock = hold(&masters, ms(1000)).await;
        delay(&masters, &[5, 5, 5]);
        let cancelled = timeout(ms(after), lock.extend(ms(9000))).await;
        assert_eq!(cancelled.is_err(), after < 10, "after {after} ms");
        if cancelled.is_err() {
            assert_eq!(lock.remaining(), ms(988 - after));
        }
        assert_eq!(lock.extend(ms(1000)).await.unwrap(), ms(978));
        heal(&masters).await;
        assert_backed(&lock, &masters);
    }
}

#[tokio::test(start_paused = true)]
async fn s10_a_cancelled_shorter_extension_counts_as_made() {
    for after in 1..10 {
        let masters = masters::<3>();
        let lock = hold(&masters, ms(1000)).await;
        delay(&masters, &[5, 5, 5]);
        assert!(timeout(ms(after), lock.extend(ms(100))).await.is_err());
        assert_eq!(lock.remaining(), ms(97 - after));
        sleep(ms(20)).await;
        assert_backed(&lock, &masters);
    }
}

#[tokio::test(start_paused = true)]
async fn s10_a_release_comes_after_an_extension_that_was_cancelled() {
    for after in 0..12 {
        let masters = masters::<3>();
        let lock = hold(&masters, ms(1000)).await;
        delay(&masters, &[5, 10, 20]);
        let _ = timeout(ms(after), lock.extend(ms(60_000))).await;
        let released = lock.release().await.unwrap();
        assert!(released.removed >= 2);
        sleep(ms(200)).await;
        assert_no_keys(&masters);
    }
}

#[tokio::test(start_paused = true)]
async fn s10_a_release_after_an_undecided_extension_leaves_nothing() {
    for lose in [MemoryMaster::lose_requests, MemoryMaster::lose_replies] {
        let masters = masters::<3>();
        let lock = hold(&masters, ms(1000)).await;
        masters.iter().for_each(|master| lose(master, 1));
        assert_unknown(lock.extend(ms(60_000)).await, ms(988 - 50));
        assert_eq!(lock.release().await.unwrap().removed, 3);
        assert_no_keys(&masters);
    }
}

#[tokio::test(start_paused = true)]
async fn s10_the_release_of_an_extended_lock_is_owed_too() {
    let masters = masters::<3>();
    let lock = hold(&masters, ms(1000)).await;
    lock.extend(ms(60_000)).await.unwrap();
    masters[0].cut_off();
    lock.release().await.unwrap();
    sleep(ms(30_000)).await;
    assert!(masters[0].get(KEY).is_some());
    masters[0].restart();
    assert_no_keys(&masters);
}

#[tokio::test(start_paused = true)]
async fn s06_an_extension_that_found_the_lease_lost_releases_everywhere() {
    let masters = masters::<5>();
    let lock = hold(&masters, ms(1000)).await;
    masters[..3].iter().for_each(MemoryMaster::wipe);
    assert_lost(lock.extend(ms(1000)).await);
    assert_no_keys(&masters);
    let report = match lock.release().await {
        Err(ReleaseError::NotHeld { report }) => report,
        other => panic!("{other:?}"),
    };
    assert_eq!(report.count(Vote::No), 5);
}

#[tokio::test(start_paused = true)]
async fn s02_an_extension_never_leaves_the_smallest_validity_or_less() {
    let masters = masters::<3>();
    let redlock = builder(&masters).min_validity(ms(80)).build().unwrap();
    let lock = redlock.lock(KEY).ttl(ms(1000)).await.unwrap();
    delay(&masters, &[10, 10, 10]);
    // 97 ms less the 20 of the round are not more than 80.
    assert_unknown(lock.extend(ms(100)).await, ms(77));
    assert_eq!(
        lock.remaining(),
        ms(77),
        "masters have shortened their keys"
    );
}

#[tokio::test(start_paused = true)]
async fn s06_a_lost_lease_is_released_once_however_often_it_is_extended() {
    let masters = masters::<3>();
    let lock = hold(&masters, ms(1000)).await;
    masters[0].cut_off();
    sleep(ms(1000)).await;
    for _ in 0..100 {
        assert_lost(lock.extend(ms(1000)).await);
    }
    drop(lock);
    sleep(ms(100)).await;
    assert_eq!(masters[1].executed(), 3, "taken, lost and dropped");
    masters[0].restart();
    assert_eq!(masters[0].executed(), 3, "no more is owed");
}
