//! Waiting for a lock, giving up, and saying why.
#![cfg(feature = "testing")]

mod memory;

use std::collections::HashSet;
use std::error::Error;
use std::time::Duration;

use memory::*;
use redquorum::{Fault, LockError, MemoryMaster, Retry, Vote, Wait};
use tokio::time::{Instant, sleep};

#[tokio::test(start_paused = true)]
async fn without_waiting_there_is_one_attempt() {
    let masters = masters::<3>();
    take_elsewhere(&masters, None);
    let redlock = redlock(&masters);
    let began = Instant::now();
    for refused in [
        redlock.lock(KEY).wait(Wait::No).await,
        redlock.lock(KEY).try_once().await,
        redlock.lock(KEY).wait(Wait::Forever).try_once().await,
    ] {
        let refused = refused.unwrap_err();
        assert!(matches!(refused, LockError::Taken { .. }), "{refused}");
    }
    assert_eq!(began.elapsed(), Duration::ZERO);
    assert_eq!(executed(&masters), [6; 3], "three times taken and released");
}

#[tokio::test(start_paused = true)]
async fn the_wait_ends_on_time_and_says_how_it_was_spent() {
    let masters = masters::<3>();
    take_elsewhere(&masters, None);
    for wait in [1, 7, 100, 1000] {
        let before = masters[0].executed();
        let began = Instant::now();
        let refused = redlock(&masters).lock(KEY).wait(ms(wait)).await;
        assert_eq!(began.elapsed(), ms(wait));
        let Err(LockError::WaitedTooLong {
            waited,
            attempts,
            last,
        }) = refused
        else {
            panic!("{refused:?}");
        };
        assert_eq!(waited, ms(wait));
        assert_eq!(masters[0].executed() - before, 2 * attempts as usize);
        assert!(attempts >= 2, "the last one is at the end");
        assert!(matches!(*last, LockError::Taken { .. }));
    }
}

#[tokio::test(start_paused = true)]
async fn the_wait_ends_with_the_attempt_under_way_at_the_latest() {
    let masters = masters::<3>();
    masters
        .iter()
        .for_each(|master| master.lose_requests(usize::MAX));
    let redlock = redlock(&masters);
    for wait in [1, 49, 51, 200, 333] {
        let began = Instant::now();
        let refused = redlock.lock(KEY).wait(ms(wait)).await;
        assert!(refused.is_err());
        let spent = began.elapsed();
        assert!(spent >= ms(wait) && spent <= ms(wait + 50), "{spent:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_wait_that_is_over_has_what_the_last_attempt_came_to_as_its_source() {
    let masters = masters::<3>();
    masters.iter().for_each(MemoryMaster::cut_off);
    let refused = redlock(&masters).lock(KEY).wait(ms(100)).await.unwrap_err();
    let LockError::WaitedTooLong { last, .. } = &refused else {
        panic!("{refused}");
    };
    assert!(matches!(**last, LockError::NoQuorum { .. }), "{refused}");
    assert_eq!(refused.source().unwrap().to_string(), last.to_string());
    assert!(matches!(refused.cause(), LockError::NoQuorum { .. }));
    assert_eq!(refused.report().unwrap().count(Vote::Absent), 3);
}

#[tokio::test(start_paused = true)]
async fn a_lock_is_had_as_soon_as_a_pause_after_it_is_free() {
    let masters = masters::<3>();
    take_elsewhere(&masters, Some(ms(2000)));
    let began = Instant::now();
    let lock = redlock(&masters).lock(KEY).await.unwrap();
    assert!(began.elapsed() >= ms(2000));
    assert!(began.elapsed() <= ms(2000 + 251), "{:?}", began.elapsed());
    assert!(lock.is_valid());
}

#[tokio::test(start_paused = true)]
async fn waiting_for_ever_outlasts_another_owner_and_a_time_without_masters() {
    let masters = masters::<3>();
    let long = Duration::from_secs(300);
    take_elsewhere(&masters, Some(long));
    let redlock = redlock(&masters);
    let began = Instant::now();
    let lock = redlock.lock(KEY).wait(Wait::Forever).await.unwrap();
    assert!(began.elapsed() >= long);
    lock.release().await.unwrap();

    masters.iter().for_each(MemoryMaster::kill);
    let restarted = masters.clone();
    tokio::spawn(async move {
        sleep(long).await;
        restarted.iter().for_each(MemoryMaster::restart);
    });
    let began = Instant::now();
    let lock = redlock.lock(KEY).wait(Wait::Forever).await.unwrap();
    assert!(began.elapsed() >= long);
    assert!(lock.is_valid());
}

#[tokio::test(start_paused = true)]
async fn attempts_are_counted_with_the_first() {
    let masters = masters::<3>();
    take_elsewhere(&masters, None);
    for most in 1..5 {
        let before = masters[0].executed();
        let request = redlock(&masters).lock(KEY).wait(Wait::Forever);
        let refused = request.retry(Retry::default().attempts(most)).await;
        assert!(
            matches!(refused, Err(LockError::Taken { .. })),
            "{refused:?}"
        );
        assert_eq!(masters[0].executed() - before, 2 * most as usize);
    }
}

/// How long the pauses were, in milliseconds.
async fn pauses(base: u64, cap: u64, attempts: u32) -> Vec<u128> {
    let masters = masters::<3>();
    take_elsewhere(&masters, None);
    let retry = Retry::default().base(ms(base)).cap(ms(cap));
    let request = redlock(&masters).lock(KEY).wait(Wait::Forever);
    let request = request.retry(retry.attempts(attempts)).into_future();
    let request = tokio::spawn(request);
    let mut times = Vec::new();
    let mut seen = 0;
    let mut finished = false;
    while !finished {
        sleep(ms(1)).await;
        finished = request.is_finished();
        if masters[0].executed() > seen {
            seen = masters[0].executed();
            times.push(Instant::now());
        }
    }
    let pause = |pair: &[Instant]| (pair[1] - pair[0]).as_millis();
    times.windows(2).map(pause).collect()
}

#[tokio::test(start_paused = true)]
async fn pauses_are_jittered_and_never_longer_than_their_bound() {
    let pauses = pauses(100, 100, 100).await;
    assert!(pauses.len() > 80, "{pauses:?}");
    assert!(pauses.iter().all(|pause| *pause <= 101), "{pauses:?}");
    // That all of them are in one half has a chance of 2^-80.
    assert!(pauses.iter().any(|pause| *pause > 50), "{pauses:?}");
    assert!(pauses.iter().any(|pause| *pause <= 50), "{pauses:?}");
    assert!(
        pauses.iter().collect::<HashSet<_>>().len() > 5,
        "{pauses:?}"
    );
}

#[tokio::test(start_paused = true)]
async fn the_bound_of_the_pauses_doubles_up_to_the_cap() {
    let mut longest = [0; 4];
    for _ in 0..40 {
        let pauses = pauses(100, 400, 5).await;
        // Two pauses of no time look like one attempt.
        if pauses.len() == longest.len() {
            longest = std::array::from_fn(|n| pauses[n].max(longest[n]));
        }
    }
    for (n, longest) in longest.into_iter().enumerate() {
        let bound = 100 << n.min(2);
        assert!(longest <= bound + 1, "pause {n}: {longest} ms");
        // That none of them is in the upper half has a chance of 2^-35.
        assert!(longest > bound / 2, "pause {n}: {longest} ms");
    }
}

#[tokio::test(start_paused = true)]
async fn a_key_that_a_dead_client_left_on_a_minority_does_not_block() {
    let masters = masters::<5>();
    masters[0].set(KEY, "dead", None);
    masters[3].set(KEY, "dead", None);
    let began = Instant::now();
    let lock = redlock(&masters).lock(KEY).await.unwrap();
    assert_eq!(began.elapsed(), Duration::ZERO);
    assert_eq!(lock.granted(), 3);
    assert_eq!(lock.release().await.unwrap().removed, 3);
    assert_eq!(having(&masters, "dead"), 2);
}

#[tokio::test(start_paused = true)]
async fn three_of_five_masters_gone_is_said_at_once_and_by_name() {
    let masters = masters::<5>();
    for gone in [0, 2, 4] {
        masters[gone].cut_off();
    }
    let began = Instant::now();
    let refused = redlock(&masters).lock(KEY).try_once().await.unwrap_err();
    assert_eq!(began.elapsed(), Duration::ZERO);
    assert!(
        matches!(refused, LockError::NoQuorum { needed: 3, .. }),
        "{refused}"
    );
    let text = refused.to_string();
    for gone in ["m1: unreachable", "m3: unreachable", "m5: unreachable"] {
        assert!(text.contains(gone), "{text}");
    }
    let report = refused.report().unwrap();
    assert_eq!(report.count(Vote::Absent), 3);
    assert!(matches!(
        report.first_fault(),
        Some(Fault::Unreachable { .. })
    ));
    assert_no_keys(&masters);
}

#[tokio::test(start_paused = true)]
async fn taken_is_told_from_no_quorum() {
    let masters = masters::<5>();
    masters[0].cut_off();
    masters[1].cut_off();
    take_elsewhere(&masters[2..3], None);
    let redlock = redlock(&masters);
    let refused = redlock.lock(KEY).try_once().await.unwrap_err();
    assert!(matches!(refused, LockError::Taken { .. }), "{refused}");
    masters[2].cut_off();
    let refused = redlock.lock(KEY).try_once().await.unwrap_err();
    assert!(matches!(refused, LockError::NoQuorum { .. }), "{refused}");
}

#[tokio::test(start_paused = true)]
async fn used_up_validity_is_told_from_no_quorum() {
    let masters = masters::<3>();
    delay(&masters, &[0, 60, 60]);
    let redlock = builder(&masters).master_timeout(ms(1000)).build().unwrap();
    let began = Instant::now();
    let refused = redlock.lock(KEY).ttl(ms(100)).try_once().await.unwrap_err();
    assert_eq!(began.elapsed(), ms(97), "no longer than the validity");
    assert!(
        matches!(refused, LockError::ValidityUsedUp { ttl, elapsed, .. }
            if ttl == ms(100) && elapsed == ms(97)),
        "{refused}"
    );
    heal(&masters).await;
    assert_no_keys(&masters);
}

#[tokio::test(start_paused = true)]
async fn used_up_validity_can_be_waited_through() {
    let masters = masters::<3>();
    delay(&masters, &[60, 60, 60]);
    let redlock = builder(&masters).master_timeout(ms(1000)).build().unwrap();
    let recovering = masters.clone();
    tokio::spawn(async move {
        sleep(ms(500)).await;
        delay(&recovering, &[1, 1, 1]);
    });
    let lock = redlock.lock(KEY).ttl(ms(100)).await.unwrap();
    assert!(lock.is_valid() && lock.remaining() <= ms(95));
    assert_backed(&lock, &masters);
}

#[tokio::test(start_paused = true)]
async fn a_resource_is_shown_in_errors_and_cut_if_it_is_long() {
    let masters = masters::<3>();
    masters.iter().for_each(MemoryMaster::cut_off);
    let redlock = redlock(&masters);
    let refused = redlock.lock(KEY).try_once().await.unwrap_err();
    assert!(refused.to_string().contains(KEY), "{refused}");
    let refused = redlock.lock(vec![b'x'; 1 << 20]).try_once().await;
    assert!(refused.unwrap_err().to_string().len() < 1000);
}
