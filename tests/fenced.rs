//! Fencing tokens on in-process masters: when one round is enough, and what
//! happens where it is not (S16).
#![cfg(feature = "testing")]

mod memory;

use std::future::IntoFuture;
use std::time::Duration;

use memory::*;
use redquorum::core::helper_key;
use redquorum::{Fault, InvalidRequest, InvalidTime, LockError, MemoryMaster, Vote};
use tokio::time::timeout;

/// The counter of each master.
fn counts(masters: &[MemoryMaster]) -> Vec<Option<u64>> {
    let counter = helper_key(KEY.as_bytes(), "fence");
    let counts = masters.iter().map(|master| {
        let fields = master.get_hash(&counter)?;
        let values: Vec<&String> = fields.values().collect();
        assert_eq!(values.len(), 1, "one generation: {fields:?}");
        Some(values[0].parse().unwrap())
    });
    counts.collect()
}

async fn token(masters: &[MemoryMaster]) -> u64 {
    let lock = redlock(masters).lock(KEY).fenced().await.unwrap();
    let token = lock.fencing_token();
    lock.release().await.unwrap();
    token
}

/// Has the counters agree, ahead of all clocks, and gives them.
async fn aligned(masters: &[MemoryMaster]) -> u64 {
    let counter = helper_key(KEY.as_bytes(), "fence");
    for master in masters {
        master.set_hash(&counter, [("another", "4000000000000000")], None);
    }
    let token = token(masters).await;
    assert_eq!(counts(masters), vec![Some(token); masters.len()]);
    token
}

#[tokio::test(start_paused = true)]
async fn s16_where_the_counters_agree_one_round_is_enough() {
    let masters = masters::<5>();
    let first = aligned(&masters).await;
    for next in 1..=3 {
        let before = executed(&masters);
        assert_eq!(token(&masters).await, first + next);
        let sent = executed(&masters).into_iter().zip(before);
        assert!(
            sent.map(|(after, before)| after - before)
                .all(|sent| sent == 2)
        );
    }
}

#[tokio::test(start_paused = true)]
async fn s16_counters_that_came_apart_are_raised_before_the_lock_is_held() {
    let masters = masters::<5>();
    let first = aligned(&masters).await;
    masters[3].cut_off();
    masters[4].cut_off();
    for _ in 0..7 {
        token(&masters).await;
    }
    masters[3].restart();
    masters[4].restart();
    masters[0].cut_off();
    masters[1].cut_off();
    let lock = redlock(&masters).lock(KEY).fenced().await.unwrap();
    assert_eq!(lock.fencing_token(), first + 8);
    assert_eq!(counts(&masters[2..]), [Some(first + 8); 3]);
    lock.release().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn s16_without_a_quorum_that_knows_the_token_the_lock_is_not_held() {
    let masters = masters::<3>();
    aligned(&masters).await;
    masters[2].cut_off();
    token(&masters).await;
    masters[2].restart();
    // The one that agrees with the highest count is silent from the second round on.
    masters[0].cut_off();
    masters[1].delay(ms(5));
    masters[2].delay(ms(5));
    let request = redlock(&masters).lock(KEY).fenced().try_once();
    let silent = masters[2].clone();
    let stall = async move {
        tokio::time::sleep(ms(11)).await;
        silent.stall();
    };
    let (outcome, ()) = tokio::join!(request, stall);
    let refused = outcome.unwrap_err();
    assert!(matches!(refused, LockError::NoQuorum { .. }), "{refused}");
    masters[0].restart();
    heal(&masters).await;
    assert!(masters.iter().all(|master| master.get(KEY).is_none()));
}

#[tokio::test(start_paused = true)]
async fn s16_a_master_that_lost_its_counter_goes_on_by_its_clock() {
    let masters = masters::<3>();
    for _ in 0..3 {
        let mut last = 0;
        for _ in 0..5 {
            last = token(&masters).await;
        }
        // No time passes between these.
        masters.iter().for_each(MemoryMaster::wipe);
        let after = token(&masters).await;
        assert!(after > last, "{after} after {last}");
    }
}

fn kill_and_restart(master: &MemoryMaster) {
    master.kill();
    master.restart();
}

#[tokio::test(start_paused = true)]
async fn s16_masters_that_come_back_with_older_counters_go_on_by_their_clocks() {
    let masters = masters::<3>();
    let mut last = token(&masters).await;
    let saved = counts(&masters);
    masters.iter().for_each(MemoryMaster::save);
    for killed in [&masters[..1], &masters[..2], &masters[..]] {
        masters[2].cut_off();
        for _ in 0..5 {
            last = token(&masters).await;
        }
        masters[2].restart();
        killed.iter().for_each(kill_and_restart);
        assert_eq!(counts(&masters)[0], saved[0], "that of the snapshot");
        masters[1].cut_off();
        let next = token(&masters).await;
        assert!(next > last, "{next} after {last}");
        last = next;
        masters[1].restart();
    }
}

/// It has the lock, and the count of the snapshot: it can't know what it has forgotten.
#[tokio::test(start_paused = true)]
async fn s16_a_master_that_came_back_with_an_older_counter_is_not_raised() {
    let masters = masters::<3>();
    aligned(&masters).await;
    masters[2].cut_off();
    token(&masters).await;
    masters[2].restart();
    masters[0].cut_off();
    masters[1].delay(ms(10));
    masters[2].delay(ms(5));
    // It is killed when it has granted the lock, and before the other has.
    let behind = masters[2].clone();
    let request = redlock(&masters).lock(KEY).fenced().try_once();
    let restart = async move {
        tokio::time::sleep(ms(15)).await;
        behind.save();
        kill_and_restart(&behind);
        assert!(behind.get(KEY).is_some(), "it has the lock again");
    };
    let (outcome, ()) = tokio::join!(request, restart);
    let refused = outcome.unwrap_err();
    let raised = &refused.report().unwrap().masters()[2];
    assert_eq!(raised.vote, Some(Vote::No), "{refused}");
}

#[tokio::test(start_paused = true)]
async fn a_counter_that_is_too_high_takes_nothing() {
    let masters = masters::<3>();
    let counter = helper_key(KEY.as_bytes(), "fence");
    for master in &masters {
        let too_high = [("another", (1_u64 << 53).to_string())];
        master.set_hash(&counter, too_high, Some(ms(90_000)));
    }
    let refused = redlock(&masters).lock(KEY).fenced().try_once().await;
    let refused = refused.unwrap_err();
    let LockError::NoQuorum { report, .. } = &refused else {
        panic!("{refused}");
    };
    let fault = report.first_fault().unwrap();
    assert!(matches!(fault, Fault::Counter { .. }), "{fault}");
    for master in &masters {
        assert_eq!(master.get(KEY), None);
        assert!(master.expires_in(&counter) <= Some(ms(90_000)));
    }
}

#[tokio::test(start_paused = true)]
async fn s16_s17_a_fenced_request_dropped_at_any_time_leaves_no_lock() {
    for behind in 0..3 {
        for after in 0..40 {
            let masters = masters::<3>();
            aligned(&masters).await;
            masters[behind].cut_off();
            token(&masters).await;
            masters[behind].restart();
            delay(&masters, &[3, 4, 5]);
            let request = redlock(&masters).lock(KEY).fenced();
            drop(timeout(ms(after), request.into_future()).await);
            heal(&masters).await;
            let left = masters.iter().filter(|master| master.get(KEY).is_some());
            assert_eq!(left.count(), 0, "after {after} ms");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn s09_s16_extending_and_giving_back_keep_the_counter() {
    let masters = masters::<3>();
    aligned(&masters).await;
    let lock = redlock(&masters).lock(KEY).fenced().await.unwrap();
    let before = counts(&masters);
    masters[0].delete(KEY);
    lock.extend(ms(20_000)).await.unwrap();
    heal(&masters).await;
    assert_eq!(having(&masters, lock.token()), 3);
    assert_eq!(counts(&masters), before);
    lock.release().await.unwrap();
    assert_eq!(counts(&masters), before);
}

#[tokio::test(start_paused = true)]
async fn a_section_sees_its_fencing_token() {
    let masters = masters::<3>();
    aligned(&masters).await;
    let request = redlock(&masters).lock(KEY).fenced();
    let seen = request.hold(async |lease| lease.fencing_token()).await;
    let seen = seen.unwrap();
    assert_eq!(seen, counts(&masters)[0]);
    let plain = redlock(&masters).lock(KEY);
    let seen = plain.hold(async |lease| lease.fencing_token()).await;
    assert_eq!(seen.unwrap(), None);
}

#[tokio::test(start_paused = true)]
async fn a_counter_lives_for_as_long_as_is_configured_and_never_too_short() {
    let masters = masters::<3>();
    let builder = builder(&masters).counter_life(Duration::from_secs(60));
    let redlock = builder.build().unwrap();
    let lock = redlock.lock(KEY).ttl(ms(30_000)).fenced().await.unwrap();
    lock.release().await.unwrap();
    let counter = helper_key(KEY.as_bytes(), "fence");
    let left = masters[0].expires_in(&counter).unwrap();
    assert!(left <= Duration::from_secs(60) && left > Duration::from_secs(59));
    let refused = redlock.lock(KEY).ttl(ms(30_001)).fenced().await;
    let Err(LockError::Invalid(InvalidRequest::Time(time))) = refused else {
        panic!("{refused:?}");
    };
    assert!(matches!(time, InvalidTime::CounterLife { .. }), "{time}");
}
