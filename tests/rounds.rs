//! Rounds on masters that are slow, silent or lose messages (S4, S5, S6, S8).
#![cfg(feature = "testing")]

mod memory;

use std::collections::HashSet;
use std::time::Duration;

use memory::*;
use redquorum::{ExtendError, LockError, MemoryMaster, ReleaseError, Vote};
use tokio::time::{Instant, sleep};

#[tokio::test(start_paused = true)]
async fn s02_the_round_is_won_at_the_reply_that_makes_the_quorum() {
    let masters = masters::<5>();
    delay(&masters, &[9, 3, 20, 1, 2]);
    let began = Instant::now();
    let lock = redlock(&masters).lock(KEY).ttl(ms(1000)).await.unwrap();
    assert_eq!(began.elapsed(), ms(6), "the third fastest decides");
    assert_eq!(lock.remaining(), ms(1000 - 12 - 6));
}

#[tokio::test(start_paused = true)]
async fn a_minority_that_is_stalled_or_down_costs_nothing() {
    let masters = masters::<5>();
    masters[0].stall();
    masters[3].cut_off();
    let began = Instant::now();
    let lock = redlock(&masters).lock(KEY).await.unwrap();
    assert_eq!(began.elapsed(), Duration::ZERO);
    assert_eq!(lock.granted(), 3);
}

#[tokio::test(start_paused = true)]
async fn the_round_is_lost_at_the_reply_that_rules_a_quorum_out() {
    let masters = masters::<5>();
    take_elsewhere(&masters[..3], None);
    delay(&masters, &[2, 7, 4, 0, 0]);
    masters[4].stall();
    let began = Instant::now();
    let refused = redlock(&masters).lock(KEY).try_once().await.unwrap_err();
    assert_eq!(began.elapsed(), ms(14));
    assert!(matches!(refused, LockError::Taken { .. }), "{refused}");
    let report = refused.report().unwrap();
    assert_eq!((report.count(Vote::Yes), report.count(Vote::No)), (1, 3));
    assert_eq!(report.masters()[4].vote, None, "it was not waited for");
    assert_eq!(report.masters()[1].latency, Some(ms(14)));
}

#[tokio::test(start_paused = true)]
async fn masters_that_do_not_answer_are_waited_for_until_the_time_out() {
    let masters = masters::<3>();
    masters[1].stall();
    masters[2].stall();
    let began = Instant::now();
    let refused = redlock(&masters).lock(KEY).try_once().await.unwrap_err();
    assert_eq!(began.elapsed(), ms(50));
    assert!(matches!(refused, LockError::NoQuorum { .. }), "{refused}");
}

#[tokio::test(start_paused = true)]
async fn a_round_that_takes_longer_than_its_validity_accuses_no_master() {
    let masters = masters::<3>();
    let redlock = redlock(&masters);
    for master in &masters {
        master.stall();
    }
    let early = redlock.lock("short").ttl(ms(20)).try_once().await;
    assert!(early.is_err());
    let began = Instant::now();
    let refused = redlock.lock(KEY).try_once().await.unwrap_err();
    assert_eq!(
        began.elapsed(),
        ms(50),
        "it was asked, for it has had 18 ms to answer before, not 50: {refused}"
    );
}

#[tokio::test(start_paused = true)]
async fn s04_every_round_has_a_fresh_token() {
    let masters = masters::<3>();
    take_elsewhere(&masters[1..], None);
    delay(&masters, &[0, 5, 5]);
    let request = redlock(&masters).lock(KEY).wait(ms(1000));
    let request = tokio::spawn(request.into_future());
    let mut tokens = HashSet::new();
    while !request.is_finished() {
        tokens.extend(masters[0].get(KEY));
        sleep(ms(1)).await;
    }
    let LockError::WaitedTooLong { attempts, .. } = request.await.unwrap().unwrap_err() else {
        panic!("it can't be had");
    };
    assert!(attempts > 3);
    assert_eq!(tokens.len(), attempts as usize);
}

/// All ways to choose among the masters.
fn choices(masters: &[MemoryMaster]) -> impl Iterator<Item = Vec<&MemoryMaster>> {
    (0..1_u32 << masters.len()).map(move |mask| {
        let chosen = |index: &usize| mask & (1 << index) != 0;
        let indices = (0..masters.len()).filter(chosen);
        indices.map(|index| &masters[index]).collect()
    })
}

/// A way to lose the next message of a master: its command, or its answer.
type Lose = fn(&MemoryMaster, usize);
const LOSSES: [Lose; 2] = [MemoryMaster::lose_requests, MemoryMaster::lose_replies];

#[tokio::test(start_paused = true)]
async fn s05_an_acquisition_that_was_not_answered_is_no_vote_and_leaves_nothing() {
    for lose in LOSSES {
        let masters = masters::<3>();
        let redlock = redlock(&masters);
        for chosen in choices(&masters) {
            chosen.iter().for_each(|master| lose(master, 1));
            let began = Instant::now();
            let outcome = redlock.lock(KEY).try_once().await;
            match chosen.len() {
                0 | 1 => {
                    let lock = outcome.unwrap();
                    assert_eq!(began.elapsed(), Duration::ZERO);
                    assert_eq!(lock.granted(), 3 - chosen.len());
                    drop(lock);
                }
                _ => {
                    let refused = outcome.unwrap_err();
                    assert!(matches!(refused, LockError::NoQuorum { .. }), "{refused}");
                }
            }
            assert_no_keys(&masters);
        }
    }
}

#[tokio::test(start_paused = true)]
async fn s05_an_extension_that_was_not_answered_is_no_vote_and_releases_nothing() {
    for lose in LOSSES {
        let masters = masters::<3>();
        let redlock = redlock(&masters);
        for chosen in choices(&masters) {
            let lock = redlock.lock(KEY).ttl(ms(1000)).await.unwrap();
            chosen.iter().for_each(|master| lose(master, 1));
            let outcome = lock.extend(ms(2000)).await;
            match chosen.len() {
                0 | 1 => assert_eq!(outcome.unwrap(), ms(2000 - 22)),
                _ => {
                    let unknown = outcome.unwrap_err();
                    let stands = ms(1000 - 12 - 50);
                    assert!(
                        matches!(unknown, ExtendError::Unknown { remaining, .. } if remaining == stands),
                        "{unknown}"
                    );
                    assert_eq!(lock.remaining(), stands);
                }
            }
            sleep(ms(100)).await;
            assert_eq!(having(&masters, lock.token()), 3);
            assert_backed(&lock, &masters);
            lock.release().await.unwrap();
            assert_no_keys(&masters);
        }
    }
}

#[tokio::test(start_paused = true)]
async fn s05_a_release_that_was_not_answered_is_no_vote_and_is_repeated() {
    for lose in LOSSES {
        let masters = masters::<3>();
        let redlock = redlock(&masters);
        for chosen in choices(&masters) {
            let lock = redlock.lock(KEY).await.unwrap();
            chosen.iter().for_each(|master| lose(master, 1));
            match (chosen.len(), lock.release().await) {
                (0 | 1, released) => assert_eq!(released.unwrap().removed, 3 - chosen.len()),
                (_, Err(ReleaseError::Unconfirmed { report })) => {
                    assert_eq!(report.count(Vote::Yes), 3 - chosen.len());
                }
                (lost, outcome) => panic!("{lost} were lost: {outcome:?}"),
            }
            sleep(ms(100)).await;
            assert_no_keys(&masters);
        }
    }
}

#[tokio::test(start_paused = true)]
async fn s05_a_key_that_cannot_be_released_ends_with_its_ttl() {
    let masters = masters::<3>();
    let lock = redlock(&masters).lock(KEY).ttl(ms(1000)).await.unwrap();
    masters.iter().for_each(MemoryMaster::cut_off);
    drop(lock);
    sleep(ms(999)).await;
    assert_eq!(masters[0].keys().len(), 1, "nothing could delete it");
    sleep(ms(1)).await;
    assert_no_keys(&masters);
}

#[tokio::test(start_paused = true)]
async fn s06_a_lost_round_releases_on_all_masters() {
    let masters = masters::<5>();
    take_elsewhere(&masters[1..4], None);
    let refused = redlock(&masters).lock(KEY).try_once().await;
    assert!(refused.is_err());
    assert_eq!(masters[0].get(KEY), None);
    assert_eq!(masters[4].get(KEY), None);
    assert_eq!(executed(&masters), [2; 5], "those that refused it too");
    assert_eq!(having(&masters, "other"), 3);
}

#[tokio::test(start_paused = true)]
async fn s06_a_lost_round_releases_without_waiting_for_stragglers() {
    let masters = masters::<5>();
    take_elsewhere(&masters[1..4], None);
    masters[4].stall();
    let began = Instant::now();
    let refused = redlock(&masters).lock(KEY).try_once().await;
    assert!(refused.is_err());
    assert_eq!(masters[0].get(KEY), None);
    assert_eq!(began.elapsed(), Duration::ZERO);
    masters[4].resume();
    assert_eq!(masters[4].get(KEY), None, "the release came after its SET");
    assert_eq!(masters[4].executed(), 2);
}

#[tokio::test(start_paused = true)]
async fn s06_the_next_round_follows_the_release_of_the_last_on_each_master() {
    let masters = masters::<3>();
    delay(&masters, &[30, 0, 0]);
    take_elsewhere(&masters[1..], Some(ms(20)));
    // Rounds are lost in no time, and won while the first of them is still on
    // its way to the slow master.
    let lock = redlock(&masters).lock(KEY).await.unwrap();
    sleep(ms(100)).await;
    assert_eq!(having(&masters, lock.token()), 3);
    assert_eq!(lock.granted(), 3);
}

#[tokio::test(start_paused = true)]
async fn s06_its_own_key_of_a_lost_round_does_not_block_the_next() {
    let masters = masters::<3>();
    let redlock = redlock(&masters);
    take_elsewhere(&masters[1..2], None);
    masters[2].lose_replies(1);
    let first = redlock.lock(KEY).try_once().await;
    assert!(first.is_err(), "one grant, one refusal, one silence");
    let second = redlock.lock(KEY).try_once().await.unwrap();
    assert_eq!(second.granted(), 2);
}

#[tokio::test(start_paused = true)]
async fn s08_late_grants_after_a_refusal_are_released() {
    let masters = masters::<5>();
    take_elsewhere(&masters[..3], None);
    delay(&masters, &[0, 0, 0, 20, 90]);
    let began = Instant::now();
    let refused = redlock(&masters).lock(KEY).try_once().await;
    assert!(refused.is_err());
    assert_eq!(began.elapsed(), Duration::ZERO);
    assert_eq!(masters[3].executed(), 0, "it has not arrived yet");
    sleep(ms(100)).await;
    assert!(masters[3].executed() >= 2);
    assert!(masters[4].executed() >= 2);
    assert_no_keys(&masters[3..]);
}

#[tokio::test(start_paused = true)]
async fn s08_late_grants_after_a_win_are_kept_and_counted() {
    let masters = masters::<5>();
    delay(&masters, &[0, 0, 0, 10, 20]);
    let lock = redlock(&masters).lock(KEY).await.unwrap();
    assert_eq!(lock.granted(), 3);
    sleep(ms(20)).await;
    assert_eq!(lock.granted(), 4);
    sleep(ms(20)).await;
    assert_eq!(lock.granted(), 5);
    assert_eq!(having(&masters, lock.token()), 5);
    delay(&masters, &[0; 5]);
    assert_eq!(lock.release().await.unwrap().removed, 5);
    assert_no_keys(&masters);
}

#[tokio::test(start_paused = true)]
async fn s08_a_late_refusal_after_a_win_is_not_counted() {
    let masters = masters::<3>();
    take_elsewhere(&masters[2..], None);
    delay(&masters, &[0, 0, 10]);
    let lock = redlock(&masters).lock(KEY).await.unwrap();
    sleep(ms(30)).await;
    assert_eq!(lock.granted(), 2);
}

#[tokio::test(start_paused = true)]
async fn a_silent_master_is_sent_no_releases_of_locks_that_it_was_not_asked_for() {
    let masters = masters::<3>();
    let redlock = redlock(&masters);
    masters[0].stall();
    drop(redlock.lock(KEY).await.unwrap());
    sleep(ms(200)).await;
    for _ in 0..100 {
        let lock = redlock.lock(KEY).await.unwrap();
        lock.release().await.unwrap();
    }
    masters[0].resume();
    assert!(masters[0].executed() < 5, "{}", masters[0].executed());
    assert_no_keys(&masters);
}
