//! How long a lock that was just taken may be relied on (S2), and which locks
//! can't be asked for (S15).
#![cfg(feature = "testing")]

mod memory;

use std::time::Duration;

use memory::*;
use redquorum::{ExtendError, InvalidRequest, LeaseTooShort, LockError, Wait};
use tokio::time::{Instant, sleep};

#[tokio::test(start_paused = true)]
async fn s02_validity_is_the_ttl_less_the_drift() {
    let masters = masters::<3>();
    let lock = redlock(&masters).lock(KEY).ttl(ms(1000)).await.unwrap();
    assert_eq!(lock.remaining(), ms(1000 - 12));
}

#[tokio::test(start_paused = true)]
async fn s02_validity_runs_from_before_the_first_command() {
    let masters = masters::<3>();
    delay(&masters, &[10, 10, 10]);
    let lock = redlock(&masters).lock(KEY).ttl(ms(1000)).await.unwrap();
    assert_eq!(lock.remaining(), ms(1000 - 12 - 20));
}

#[tokio::test(start_paused = true)]
async fn s02_validity_runs_from_the_winning_round_not_from_the_first() {
    let masters = masters::<3>();
    take_elsewhere(&masters, Some(ms(3000)));
    let lock = redlock(&masters).lock(KEY).ttl(ms(1000)).await.unwrap();
    assert_eq!(lock.remaining(), ms(1000 - 12));
}

#[tokio::test(start_paused = true)]
async fn s02_the_ttl_counts_in_the_whole_milliseconds_that_are_sent() {
    let masters = masters::<3>();
    let ttl = Duration::from_micros(1_000_999);
    let lock = redlock(&masters).lock(KEY).ttl(ttl).await.unwrap();
    assert_eq!(masters[0].expires_in(KEY), Some(ms(1000)));
    assert_eq!(lock.remaining(), ms(1000 - 12));
}

#[tokio::test(start_paused = true)]
async fn s02_the_drift_is_a_share_of_the_ttl_and_a_floor() {
    let masters = masters::<3>();
    let redlock = builder(&masters)
        .drift_factor(0.05)
        .drift_floor(ms(7))
        .build()
        .unwrap();
    let lock = redlock.lock(KEY).ttl(ms(1000)).await.unwrap();
    assert_eq!(lock.remaining(), ms(1000 - 50 - 7));
}

#[tokio::test(start_paused = true)]
async fn s02_no_success_with_the_smallest_validity_or_less() {
    // The drift is 4 ms, so that 96 ms are left for the round.
    for (each_way, wins) in [(47, true), (48, false), (49, false)] {
        let masters = masters::<3>();
        delay(&masters, &[each_way; 3]);
        let redlock = builder(&masters)
            .min_validity(ms(100))
            .master_timeout(ms(1000))
            .build()
            .unwrap();
        match redlock.lock(KEY).ttl(ms(200)).try_once().await {
            Ok(lock) => {
                assert!(wins, "held for {:?}", lock.remaining());
                assert!(lock.remaining() > ms(100));
            }
            Err(error) => assert!(!wins, "{error}"),
        }
    }
}

#[tokio::test(start_paused = true)]
async fn s02_slow_replies_never_give_a_lock_that_has_expired() {
    for each_way in 0..130 {
        let masters = masters::<3>();
        delay(&masters, &[0, each_way, each_way]);
        let redlock = builder(&masters).master_timeout(ms(1000)).build().unwrap();
        if let Ok(lock) = redlock.lock(KEY).ttl(ms(200)).try_once().await {
            assert!(each_way < 98, "held after {} ms", 2 * each_way);
            assert_eq!(lock.remaining(), ms(200 - 4 - 2 * each_way));
            assert_backed(&lock, &masters);
        } else {
            assert!(each_way >= 98, "refused after {} ms", 2 * each_way);
        }
    }
}

#[tokio::test(start_paused = true)]
async fn s02_stalls_longer_than_the_ttl_never_give_a_lock_that_has_expired() {
    for stalled in 0..8_u8 {
        let masters = masters::<3>();
        let redlock = builder(&masters).master_timeout(ms(1000)).build().unwrap();
        for (bit, master) in masters.iter().enumerate() {
            if stalled & (1 << bit) != 0 {
                master.stall();
                let master = master.clone();
                tokio::spawn(async move {
                    sleep(ms(300)).await;
                    master.resume();
                });
            }
        }
        let lock = redlock.lock(KEY).ttl(ms(200)).await.unwrap();
        assert!(lock.is_valid());
        assert_backed(&lock, &masters);
    }
}

#[tokio::test(start_paused = true)]
async fn s02_what_is_left_runs_down_to_nothing_and_stays_there() {
    let masters = masters::<3>();
    let lock = redlock(&masters).lock(KEY).ttl(ms(100)).await.unwrap();
    for left in (0..97).rev() {
        sleep(ms(1)).await;
        assert_eq!(lock.remaining(), ms(left));
        assert_eq!(lock.is_valid(), left > 0);
    }
    sleep(ms(1000)).await;
    assert_eq!(lock.remaining(), Duration::ZERO);
    assert!(!lock.is_valid());
}

#[tokio::test(start_paused = true)]
async fn s02_ensure_compares_with_what_is_left() {
    let masters = masters::<3>();
    let lock = redlock(&masters).lock(KEY).ttl(ms(100)).await.unwrap();
    sleep(ms(17)).await;
    assert_eq!(lock.ensure(ms(80)), Ok(()));
    let wanted = Duration::from_micros(80_001);
    let remaining = ms(80);
    assert_eq!(
        lock.ensure(wanted),
        Err(LeaseTooShort { remaining, wanted })
    );
    sleep(ms(80)).await;
    assert!(lock.ensure(Duration::ZERO).is_err(), "it has ended");
}

const TOO_LONG: Duration = Duration::from_millis(i64::MAX as u64 / 2 + 1);

#[tokio::test(start_paused = true)]
async fn s15_a_ttl_that_cannot_be_had_is_refused_before_anything_is_sent() {
    let masters = masters::<3>();
    let redlock = redlock(&masters);
    for ttl in [
        Duration::ZERO,
        Duration::from_micros(999),
        ms(1),
        ms(2),
        TOO_LONG,
        Duration::MAX,
    ] {
        let began = Instant::now();
        let refused = redlock.lock(KEY).ttl(ttl).await.unwrap_err();
        assert!(
            matches!(refused, LockError::Invalid(InvalidRequest::Time(_))),
            "{ttl:?}: {refused}"
        );
        assert_eq!(began.elapsed(), Duration::ZERO, "it did not wait");
    }
    assert_eq!(executed(&masters), [0; 3]);
}

#[tokio::test(start_paused = true)]
async fn s15_the_shortest_and_the_longest_ttl_can_be_had() {
    let masters = masters::<3>();
    let redlock = redlock(&masters);
    for ttl in [ms(3), TOO_LONG - ms(1)] {
        let lock = redlock.lock(KEY).ttl(ttl).try_once().await.unwrap();
        assert!(lock.is_valid());
        lock.release().await.unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn s15_a_ttl_of_the_smallest_validity_is_refused_before_anything_is_sent() {
    let masters = masters::<3>();
    let redlock = builder(&masters).min_validity(ms(97)).build().unwrap();
    let refused = redlock.lock(KEY).ttl(ms(100)).await.unwrap_err();
    assert!(matches!(refused, LockError::Invalid(_)), "{refused}");
    assert_eq!(executed(&masters), [0; 3]);
    let longer = redlock.lock(KEY).ttl(ms(101)).wait(Wait::No).await;
    assert!(longer.is_ok());
}

#[tokio::test(start_paused = true)]
async fn s15_an_extension_that_cannot_be_had_is_refused_and_the_lease_stands() {
    let masters = masters::<3>();
    let lock = redlock(&masters).lock(KEY).ttl(ms(100)).await.unwrap();
    for ttl in [Duration::ZERO, Duration::from_micros(999), ms(2), TOO_LONG] {
        let refused = lock.extend(ttl).await.unwrap_err();
        assert!(matches!(refused, ExtendError::Invalid(_)), "{refused}");
    }
    assert_eq!(executed(&masters), [1; 3], "the lock alone was sent");
    assert_eq!(lock.remaining(), ms(97));
    assert_eq!(having(&masters, lock.token()), 3);
}
