//! Extending a lock automatically: when, for how long, and when not (S9, S10,
//! S12).
#![cfg(feature = "testing")]

mod memory;

use std::time::Duration;

use memory::*;
use redquorum::{Guard, LossReason, MemoryMaster, ReleaseError, Request};
use tokio::time::{Instant, sleep, timeout};

const SECOND: Duration = Duration::from_secs(1);
const HOUR: Duration = Duration::from_secs(3600);

fn kept(masters: &[MemoryMaster], ttl: Duration) -> Request {
    redlock(masters).lock(KEY).ttl(ttl).auto_extend()
}

async fn keep(masters: &[MemoryMaster], ttl: Duration) -> Guard {
    kept(masters, ttl).await.unwrap()
}

/// How many commands the first master executes in this time.
async fn executed_in(masters: &[MemoryMaster], time: Duration) -> usize {
    let before = masters[0].executed();
    sleep(time).await;
    masters[0].executed() - before
}

#[tokio::test(start_paused = true)]
async fn s10_a_kept_lock_outlives_its_ttl_by_far() {
    let masters = masters::<3>();
    let lock = keep(&masters, SECOND).await;
    for _ in 0..1000 {
        sleep(ms(170)).await;
        assert!(lock.remaining() >= ms(988 - 334), "{:?}", lock.remaining());
        assert_backed(&lock, &masters);
    }
    assert_eq!(lock.release().await.unwrap().removed, 3);
    assert_no_keys(&masters);
}

#[tokio::test(start_paused = true)]
async fn it_is_extended_at_a_third_of_the_ttl() {
    let masters = masters::<3>();
    let lock = keep(&masters, 3 * SECOND).await;
    assert_eq!(executed_in(&masters, ms(999)).await, 0);
    assert_eq!(executed_in(&masters, ms(2)).await, 1);
    assert_eq!(executed_in(&masters, ms(998)).await, 0);
    assert_eq!(executed_in(&masters, ms(2)).await, 1);
    drop(lock);
}

#[tokio::test(start_paused = true)]
async fn a_third_of_the_ttl_counts_from_the_start_of_the_round_that_won() {
    let masters = masters::<3>();
    delay(&masters, &[20, 20, 20]);
    let lock = keep(&masters, 3 * SECOND).await;
    // It took 40 ms to take it, and the extension is under way for 20.
    assert_eq!(executed_in(&masters, ms(979)).await, 0);
    assert_eq!(executed_in(&masters, ms(2)).await, 1);
    drop(lock);
}

#[tokio::test(start_paused = true)]
async fn renewal_is_never_a_tight_loop_whatever_the_ttl() {
    for (ttl, most) in [(200, 10), (250, 10), (500, 7), (100, 18), (20, 110)] {
        let masters = masters::<3>();
        let lock = keep(&masters, ms(ttl)).await;
        let executed = executed_in(&masters, 10 * SECOND).await;
        assert!(
            executed <= 10 * most,
            "{executed} extensions, TTL of {ttl} ms"
        );
        assert!(lock.is_valid(), "TTL of {ttl} ms");
    }
}

#[tokio::test(start_paused = true)]
async fn renewal_is_never_a_tight_loop_while_masters_are_down() {
    for ttl in [20, 200, 1_000, 10_000] {
        let masters = masters::<3>();
        let lock = keep(&masters, ms(ttl)).await;
        masters[1].cut_off();
        masters[2].cut_off();
        let executed = executed_in(&masters, ms(2 * ttl)).await;
        assert!(executed <= 60, "{executed} extensions, TTL of {ttl} ms");
        assert!(!lock.is_valid());
    }
}

#[tokio::test(start_paused = true)]
async fn without_it_nothing_is_extended() {
    let masters = masters::<3>();
    let lock = redlock(&masters).lock(KEY).ttl(SECOND).await.unwrap();
    assert_eq!(executed_in(&masters, 2 * SECOND).await, 0);
    assert!(!lock.is_valid());
}

#[tokio::test(start_paused = true)]
async fn s10_one_connection_error_does_not_end_renewal() {
    let masters = masters::<3>();
    let lock = keep(&masters, SECOND).await;
    masters.iter().for_each(MemoryMaster::cut_off);
    sleep(ms(600)).await;
    masters.iter().for_each(MemoryMaster::restart);
    sleep(10 * SECOND).await;
    assert!(lock.is_valid());
    assert_backed(&lock, &masters);
}

#[tokio::test(start_paused = true)]
async fn s10_one_lost_reply_does_not_end_renewal() {
    let masters = masters::<3>();
    let lock = keep(&masters, SECOND).await;
    masters.iter().for_each(|master| master.lose_replies(1));
    sleep(10 * SECOND).await;
    assert!(lock.is_valid());
    assert_backed(&lock, &masters);
}

#[tokio::test(start_paused = true)]
async fn s10_a_stall_that_is_shorter_than_what_is_left_is_survived() {
    for begins in [0, 100, 300, 333, 340, 500] {
        let masters = masters::<5>();
        let lock = keep(&masters, SECOND).await;
        sleep(ms(begins)).await;
        masters[..3].iter().for_each(MemoryMaster::stall);
        // 50 ms before the lease would end.
        sleep(lock.remaining() - ms(50)).await;
        masters[..3].iter().for_each(MemoryMaster::resume);
        sleep(10 * SECOND).await;
        assert!(lock.is_valid(), "stalled after {begins} ms");
        assert_backed(&lock, &masters);
    }
}

#[tokio::test(start_paused = true)]
async fn an_undecided_extension_does_not_release_the_lock() {
    let masters = masters::<3>();
    let lock = keep(&masters, SECOND).await;
    masters[0].cut_off();
    masters[1].cut_off();
    sleep(ms(900)).await;
    assert!(lock.is_valid());
    assert_eq!(having(&masters, lock.token()), 3);
}

#[tokio::test(start_paused = true)]
async fn s12_renewal_stops_at_the_release() {
    for at in [1, 100, 333, 334, 400, 5_000] {
        let masters = masters::<3>();
        let lock = keep(&masters, SECOND).await;
        sleep(ms(at)).await;
        lock.release().await.unwrap();
        assert_eq!(executed_in(&masters, 10 * SECOND).await, 0);
        assert_no_keys(&masters);
    }
}

#[tokio::test(start_paused = true)]
async fn s12_renewal_stops_when_the_guard_is_dropped() {
    for at in [1, 100, 333, 334, 400, 5_000] {
        let masters = masters::<3>();
        let lock = keep(&masters, SECOND).await;
        sleep(ms(at)).await;
        drop(lock);
        assert_eq!(executed_in(&masters, 10 * SECOND).await, 0);
        assert_no_keys(&masters);
    }
}

#[tokio::test(start_paused = true)]
async fn s12_renewal_stops_when_the_task_that_owns_the_guard_is_aborted() {
    let masters = masters::<3>();
    let request = kept(&masters, SECOND);
    let owner = tokio::spawn(async move {
        let _lock = request.await.unwrap();
        std::future::pending::<()>().await;
    });
    sleep(5 * SECOND).await;
    assert!(masters[0].get(KEY).is_some());
    owner.abort();
    sleep(ms(1)).await;
    assert_no_keys(&masters);
    assert_eq!(executed_in(&masters, HOUR).await, 0);
}

#[tokio::test(start_paused = true)]
async fn s12_renewal_stops_at_a_loss() {
    let masters = masters::<3>();
    let lock = keep(&masters, SECOND).await;
    masters[..2].iter().for_each(MemoryMaster::wipe);
    sleep(SECOND).await;
    assert!(matches!(lock.loss(), Some(LossReason::Gone { .. })));
    assert_no_keys(&masters);
    assert_eq!(executed_in(&masters, HOUR).await, 0);
}

#[tokio::test(start_paused = true)]
async fn s12_an_interrupted_acquisition_renews_nothing() {
    for after in 0..12 {
        let masters = masters::<3>();
        delay(&masters, &[5, 5, 5]);
        let taken = timeout(ms(after), kept(&masters, SECOND).into_future()).await;
        drop(taken);
        sleep(ms(100)).await;
        assert_no_keys(&masters);
        assert_eq!(executed_in(&masters, HOUR).await, 0);
    }
}

#[tokio::test(start_paused = true)]
async fn s12_no_extension_is_sent_after_max_hold() {
    for max_hold in [0, 100, 2_000, 2_500] {
        let masters = masters::<3>();
        let request = kept(&masters, SECOND).max_hold(ms(max_hold));
        let lock = request.await.unwrap();
        sleep(ms(max_hold)).await;
        assert!(lock.is_valid());
        assert_eq!(executed_in(&masters, 988 * SECOND / 1000).await, 0);
        assert_eq!(lock.loss(), Some(LossReason::MaxHold));
        assert_eq!(executed_in(&masters, HOUR).await, 0);
    }
}

#[tokio::test(start_paused = true)]
async fn s12_a_lock_that_nobody_releases_is_not_renewed_for_ever() {
    let masters = masters::<3>();
    let lock = keep(&masters, 10 * SECOND).await;
    sleep(HOUR - SECOND).await;
    assert!(lock.is_valid());
    sleep(11 * SECOND).await;
    assert_eq!(lock.loss(), Some(LossReason::MaxHold));
    assert_no_keys(&masters);
}

#[tokio::test(start_paused = true)]
async fn the_cap_can_be_set_for_all_locks() {
    let masters = masters::<3>();
    let redlock = builder(&masters).max_hold(5 * SECOND).build().unwrap();
    let request = redlock.lock(KEY).ttl(SECOND).auto_extend();
    let capped = request.clone().await.unwrap();
    sleep(7 * SECOND).await;
    assert_eq!(capped.loss(), Some(LossReason::MaxHold));
    drop(capped);
    let endless = request.max_hold(Duration::MAX).await.unwrap();
    sleep(2 * HOUR).await;
    assert!(endless.is_valid());
}

#[tokio::test(start_paused = true)]
async fn s10_a_release_during_an_extension_leaves_nothing() {
    // The extension is under way from 333 to 353 ms.
    for at in 333..355 {
        let masters = masters::<3>();
        let lock = keep(&masters, SECOND).await;
        delay(&masters, &[5, 10, 20]);
        sleep(ms(at)).await;
        let released = lock.release().await.unwrap();
        assert!(released.removed >= 2);
        sleep(5 * SECOND).await;
        assert_no_keys(&masters);
    }
}

#[tokio::test(start_paused = true)]
async fn s10_an_extension_by_hand_is_not_shortened_by_one_that_waited_for_it() {
    let masters = masters::<3>();
    let lock = keep(&masters, SECOND).await;
    sleep(ms(325)).await;
    delay(&masters, &[10, 10, 10]);
    // Under way from 325 to 345 ms; the automatic one is due at 333.
    lock.extend(60 * SECOND).await.unwrap();
    sleep(10 * SECOND).await;
    assert!(lock.remaining() > 48 * SECOND, "{:?}", lock.remaining());
}

#[tokio::test(start_paused = true)]
async fn an_extension_by_hand_to_less_is_renewed_in_time() {
    let masters = masters::<3>();
    let lock = keep(&masters, 10 * SECOND).await;
    lock.extend(ms(100)).await.unwrap();
    sleep(SECOND).await;
    assert!(lock.remaining() > 6 * SECOND);
}

/// In quarantine they don't count, so that one at a time may be in it (S13).
#[tokio::test(start_paused = true)]
async fn s09_s13_masters_that_restarted_empty_get_the_key_back() {
    for (quarantine, pause) in [(false, 400), (true, 1_100)] {
        let masters = masters::<3>();
        let redlock = builder(&masters).restart_quarantine(quarantine).build();
        let request = redlock.unwrap().lock(KEY).ttl(SECOND).auto_extend();
        let lock = request.await.unwrap();
        for turn in 0..30 {
            masters[turn % 3].kill();
            masters[turn % 3].restart();
            sleep(ms(pause)).await;
            assert_eq!(having(&masters, lock.token()), 3, "turn {turn}");
        }
        assert!(lock.is_valid());
        assert_eq!(lock.release().await.unwrap().removed, 3);
        assert_no_keys(&masters);
    }
}

#[tokio::test(start_paused = true)]
async fn s09_a_master_that_had_refused_the_lock_gets_the_key_when_it_is_free() {
    let masters = masters::<3>();
    take_elsewhere(&masters[..1], Some(ms(500)));
    let lock = keep(&masters, SECOND).await;
    assert_eq!(lock.granted(), 2);
    sleep(ms(400)).await;
    assert_eq!(having(&masters, "other"), 1, "it is not overwritten");
    sleep(ms(400)).await;
    assert_eq!(having(&masters, lock.token()), 3);
    lock.release().await.unwrap();
    assert_no_keys(&masters);
}

#[tokio::test(start_paused = true)]
async fn s09_a_key_that_was_given_back_lives_as_long_as_the_lease() {
    let masters = masters::<3>();
    let lock = redlock(&masters).lock(KEY).ttl(SECOND).await.unwrap();
    masters[0].wipe();
    lock.extend(5 * SECOND).await.unwrap();
    sleep(ms(1)).await;
    assert_eq!(masters[0].expires_in(KEY), Some(ms(4999)));
    assert_backed(&lock, &masters[..1]);
}

#[tokio::test(start_paused = true)]
async fn s09_a_key_that_is_given_back_is_no_vote() {
    let masters = masters::<3>();
    let lock = redlock(&masters).lock(KEY).ttl(SECOND).await.unwrap();
    masters[..2].iter().for_each(MemoryMaster::wipe);
    assert!(lock.extend(SECOND).await.is_err());
    assert_no_keys(&masters);
    assert!(!lock.is_valid());
}

#[tokio::test(start_paused = true)]
async fn s09_no_key_is_given_back_after_a_release() {
    // The extension is under way for 20 ms, its straggler for 60, and what is
    // given back is sent then.
    for at in 0..80 {
        let masters = masters::<3>();
        let lock = redlock(&masters).lock(KEY).ttl(60 * SECOND).await.unwrap();
        masters[2].wipe();
        delay(&masters, &[10, 10, 24]);
        let _ = timeout(ms(at), lock.extend(60 * SECOND)).await;
        sleep(ms(at.saturating_sub(20))).await;
        let release = lock.release().await;
        assert!(
            matches!(release, Ok(_) | Err(ReleaseError::Unconfirmed { .. })),
            "{release:?}"
        );
        sleep(SECOND).await;
        assert_no_keys(&masters);
    }
}

#[tokio::test(start_paused = true)]
async fn s09_a_key_that_was_given_back_is_owed_its_release() {
    let masters = masters::<3>();
    masters[0].cut_off();
    let lock = redlock(&masters).lock(KEY).ttl(60 * SECOND).await.unwrap();
    masters[0].restart();
    lock.extend(60 * SECOND).await.unwrap();
    sleep(ms(1)).await;
    assert_eq!(having(&masters[..1], lock.token()), 1);
    masters[0].cut_off();
    lock.release().await.unwrap();
    masters[0].restart();
    assert_no_keys(&masters);
}

#[tokio::test(start_paused = true)]
async fn locks_are_kept_side_by_side() {
    let masters = masters::<3>();
    let redlock = redlock(&masters);
    let mut locks = Vec::new();
    for number in 0..500 {
        let request = redlock.lock(format!("a:{number}")).ttl(SECOND);
        locks.push(request.auto_extend().await.unwrap());
    }
    let began = Instant::now();
    sleep(10 * SECOND).await;
    assert_eq!(began.elapsed(), 10 * SECOND);
    assert!(locks.iter().all(Guard::is_valid));
    drop(locks);
    assert_no_keys(&masters);
}
