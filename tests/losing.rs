//! The signal that a lock is lost: when, why, and to whom (S11).
#![cfg(feature = "testing")]

mod memory;

use std::time::Duration;

use memory::*;
use redquorum::{Guard, LossReason, MemoryMaster, Vote};
use tokio::time::{Instant, advance, sleep, timeout};

const SECOND: Duration = Duration::from_secs(1);

async fn hold(masters: &[MemoryMaster], ttl: Duration) -> Guard {
    redlock(masters).lock(KEY).ttl(ttl).await.unwrap()
}

/// Ends with the reason of the loss and its time, and checks that the lease had
/// not come to its deadline.
async fn told(lock: &Guard) -> (LossReason, Duration) {
    let began = Instant::now();
    let until = lock.remaining();
    let lost = timeout(100 * SECOND, lock.lost()).await;
    let (reason, after) = (lost.expect("it is told"), began.elapsed());
    if until > Duration::ZERO && reason == LossReason::Expired {
        assert!(after < until, "told after {after:?} of {until:?}");
    }
    assert!(!lock.is_valid());
    assert_eq!(lock.remaining(), Duration::ZERO);
    assert_eq!(lock.loss(), Some(reason.clone()));
    (reason, after)
}

#[tokio::test(start_paused = true)]
async fn s11_a_loss_is_told_just_before_the_deadline() {
    let masters = masters::<3>();
    let lock = hold(&masters, SECOND).await;
    assert_eq!(told(&lock).await, (LossReason::Expired, ms(983)));
}

#[tokio::test(start_paused = true)]
async fn s11_a_loss_is_told_before_a_deadline_of_any_fraction() {
    for ttl in 20..400 {
        let masters = masters::<3>();
        let lock = hold(&masters, ms(ttl)).await;
        let until = lock.remaining();
        let (_, after) = told(&lock).await;
        assert!(after < until && after + ms(5) >= until, "{after:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn s11_it_is_told_before_another_client_can_have_the_lock() {
    let masters = masters::<5>();
    let request = redlock(&masters).lock(KEY).ttl(SECOND).auto_extend();
    let lock = request.await.unwrap();
    masters[..3].iter().for_each(MemoryMaster::stall);
    let next = redlock(&masters).lock(KEY).wait(ms(60_000)).into_future();
    let resumes = async {
        sleep(ms(1200)).await;
        masters[..3].iter().for_each(MemoryMaster::resume);
        std::future::pending::<()>().await;
    };
    tokio::select! {
        biased;
        reason = lock.lost() => assert_eq!(reason, LossReason::Expired),
        _ = next => panic!("taken before the loss was told"),
        () = resumes => {}
    }
}

#[tokio::test(start_paused = true)]
async fn s11_the_signal_moves_with_the_deadline() {
    let masters = masters::<3>();
    let lock = hold(&masters, SECOND).await;
    let lost = tokio::spawn(lock.lost());
    let began = Instant::now();
    sleep(ms(900)).await;
    lock.extend(5 * SECOND).await.unwrap();
    sleep(SECOND).await;
    assert!(!lost.is_finished());
    lock.extend(ms(100)).await.unwrap();
    assert_eq!(lost.await.unwrap(), LossReason::Expired);
    assert_eq!(began.elapsed(), ms(1900 + 92));
}

#[tokio::test(start_paused = true)]
async fn s11_an_undecided_shorter_extension_moves_it_too() {
    let masters = masters::<3>();
    let lock = hold(&masters, 10 * SECOND).await;
    let lost = tokio::spawn(lock.lost());
    tokio::task::yield_now().await;
    masters[0].lose_replies(1);
    masters[1].lose_replies(1);
    let began = Instant::now();
    assert!(lock.extend(ms(100)).await.is_err());
    assert_eq!(lost.await.unwrap(), LossReason::Expired);
    assert_eq!(began.elapsed(), ms(92));
}

#[tokio::test(start_paused = true)]
async fn s11_it_does_not_wait_for_the_next_renewal() {
    let masters = masters::<5>();
    let request = redlock(&masters).lock(KEY).ttl(9 * SECOND).auto_extend();
    let lock = request.await.unwrap();
    sleep(SECOND).await;
    masters[..3].iter().for_each(MemoryMaster::stall);
    let (reason, after) = told(&lock).await;
    assert_eq!((reason, after), (LossReason::Expired, ms(8000 - 92 - 5)));
}

#[tokio::test(start_paused = true)]
async fn s11_it_does_not_wait_for_an_extension_under_way() {
    let masters = masters::<3>();
    let redlock = builder(&masters)
        .master_timeout(60 * SECOND)
        .build()
        .unwrap();
    let lock = redlock.lock(KEY).ttl(SECOND).auto_extend().await.unwrap();
    masters.iter().for_each(MemoryMaster::stall);
    assert_eq!(told(&lock).await, (LossReason::Expired, ms(983)));
}

#[tokio::test(start_paused = true)]
async fn s11_an_extension_that_finds_the_lock_gone_tells_at_once() {
    let masters = masters::<5>();
    let request = redlock(&masters).lock(KEY).ttl(3 * SECOND).auto_extend();
    let lock = request.await.unwrap();
    take_elsewhere(&masters[..3], None);
    let (reason, after) = told(&lock).await;
    let LossReason::Gone { report } = reason else {
        panic!("{reason}");
    };
    assert_eq!(report.count(Vote::No), 3);
    assert!(after <= ms(1001), "{after:?}");
}

#[tokio::test(start_paused = true)]
async fn s11_an_extension_by_hand_tells_those_who_wait() {
    let masters = masters::<3>();
    let lock = hold(&masters, SECOND).await;
    let lost = tokio::spawn(lock.lost());
    let token = lock.lost_token();
    masters[..2].iter().for_each(MemoryMaster::wipe);
    assert!(lock.extend(SECOND).await.is_err());
    assert!(token.is_cancelled());
    assert!(matches!(lost.await.unwrap(), LossReason::Gone { .. }));
}

#[tokio::test(start_paused = true)]
async fn s11_what_was_told_stays_so() {
    let masters = masters::<3>();
    let lock = hold(&masters, SECOND).await;
    delay(&masters, &[10, 10, 10]);
    sleep(ms(967)).await;
    // Told at 983, decided at 987, and the deadline is at 988.
    let (extended, (reason, after)) = tokio::join!(lock.extend(SECOND), told(&lock));
    assert_eq!((reason, after), (LossReason::Expired, ms(16)));
    assert!(extended.is_err());
    assert!(!lock.is_valid());
    sleep(ms(100)).await;
    assert_no_keys(&masters);
}

#[tokio::test(start_paused = true)]
async fn s11_after_a_pause_past_the_deadline_the_first_look_says_lost() {
    let masters = masters::<3>();
    let lock = hold(&masters, SECOND).await;
    let token = lock.lost_token();
    // All of the time at once, as after SIGSTOP: no timer has run.
    advance(60 * SECOND).await;
    assert!(!lock.is_valid());
    assert_eq!(lock.loss(), Some(LossReason::Expired));
    assert_eq!(told(&lock).await.1, Duration::ZERO);
    assert!(token.is_cancelled());
}

#[tokio::test(start_paused = true)]
async fn s12_a_lock_that_was_held_for_max_hold_says_so_at_its_deadline() {
    let masters = masters::<3>();
    let request = redlock(&masters).lock(KEY).ttl(3 * SECOND).auto_extend();
    let lock = request.max_hold(4_500 * SECOND / 1000).await.unwrap();
    // Extended at 1, 2, 3 and 4 s.
    let (reason, after) = told(&lock).await;
    assert_eq!(reason, LossReason::MaxHold);
    assert_eq!(after, ms(4000 + 3000 - 32 - 5));
}

#[tokio::test(start_paused = true)]
async fn the_token_is_cancelled_when_the_future_is_ready() {
    let masters = masters::<3>();
    let lock = hold(&masters, SECOND).await;
    let began = Instant::now();
    let token = lock.lost_token();
    assert!(!token.is_cancelled());
    token.cancelled().await;
    assert_eq!(began.elapsed(), ms(983));
    assert!(lock.lost_token().is_cancelled());
    assert_eq!(lock.lost().await, LossReason::Expired);
}

#[tokio::test(start_paused = true)]
async fn a_token_of_a_lock_that_is_lost_is_cancelled_from_the_start() {
    let masters = masters::<3>();
    let lock = hold(&masters, SECOND).await;
    sleep(SECOND).await;
    assert!(lock.lost_token().is_cancelled());
}

#[tokio::test(start_paused = true)]
async fn a_release_is_an_end_too() {
    let masters = masters::<3>();
    for released in [true, false] {
        let lock = hold(&masters, SECOND).await;
        let (lease, token) = (lock.lease(), lock.lost_token());
        let lost = tokio::spawn(lock.lost());
        match released {
            true => drop(lock.release().await.unwrap()),
            false => drop(lock),
        }
        assert!(token.is_cancelled());
        assert_eq!(lost.await.unwrap(), LossReason::Released);
        assert!(!lease.is_valid());
        assert_eq!(lease.loss(), Some(LossReason::Released));
    }
    assert_no_keys(&masters);
}

#[tokio::test(start_paused = true)]
async fn a_future_that_is_dropped_leaves_the_signal_to_the_others() {
    let masters = masters::<3>();
    let lock = hold(&masters, SECOND).await;
    assert!(timeout(ms(100), lock.lost()).await.is_err());
    let both = tokio::join!(lock.lost(), lock.lost());
    assert_eq!(both, (LossReason::Expired, LossReason::Expired));
}

#[tokio::test(start_paused = true)]
async fn a_lock_that_nobody_watches_costs_no_task() {
    let masters = masters::<3>();
    let redlock = redlock(&masters);
    let metrics = tokio::runtime::Handle::current().metrics();
    let mut locks = Vec::new();
    for number in 0..100 {
        locks.push(redlock.lock(format!("{number}")).await.unwrap());
    }
    assert_eq!(metrics.num_alive_tasks(), 0);
    let token = locks[0].lost_token();
    let same = locks[0].lost_token();
    assert_eq!(metrics.num_alive_tasks(), 1);
    drop(locks);
    sleep(ms(1)).await;
    assert!(token.is_cancelled() && same.is_cancelled());
    assert_eq!(metrics.num_alive_tasks(), 0);
}
