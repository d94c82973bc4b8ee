//! Masters that lost their memory, and when they vote again (S13): exact timing
//! on in-process masters. On real ones: `admission.rs`.
#![cfg(feature = "testing")]

mod memory;

use std::time::Duration;

use memory::*;
use redquorum::{
    ConfigError, ExtendError, Fault, Guard, InvalidRequest, InvalidTime, LockError, MemoryMaster,
    Redlock, Vote,
};
use tokio::time::{Instant, sleep};

const SECOND: Duration = Duration::from_secs(1);

fn restart(master: &MemoryMaster) {
    master.kill();
    master.restart();
}

async fn take(redlock: &Redlock, ttl: Duration) -> Result<Guard, LockError> {
    redlock.lock(KEY).ttl(ttl).try_once().await
}

/// What is left of each master's quarantine.
fn quarantines(refused: &LockError) -> Vec<Option<Duration>> {
    let masters = refused.report().unwrap().masters().iter();
    let remaining = masters.map(|master| match master.fault {
        Some(Fault::Quarantined { remaining }) => Some(remaining),
        _ => None,
    });
    remaining.collect()
}

#[tokio::test(start_paused = true)]
async fn s13_a_master_that_came_up_has_no_vote_for_the_ttl_that_is_asked_for() {
    let masters = masters::<3>();
    let redlock = redlock(&masters);
    masters[1..].iter().for_each(restart);
    sleep(ms(400)).await;
    let refused = take(&redlock, SECOND).await.unwrap_err();
    assert!(matches!(refused, LockError::NoQuorum { .. }), "{refused}");
    assert_eq!(quarantines(&refused), [None, Some(ms(600)), Some(ms(600))]);
    assert_eq!(refused.report().unwrap().count(Vote::Absent), 2);
    assert!(
        refused.to_string().contains("no vote for another 600 ms"),
        "{refused}"
    );
    // A shorter lock can't have been forgotten any more.
    take(&redlock, ms(400))
        .await
        .unwrap()
        .release()
        .await
        .unwrap();
    let refused = take(&redlock, ms(401)).await.unwrap_err();
    assert_eq!(quarantines(&refused)[1..], [Some(ms(1)); 2]);

    sleep(ms(599)).await;
    take(&redlock, SECOND).await.unwrap_err();
    sleep(ms(1)).await;
    drop(take(&redlock, SECOND).await.unwrap());
}

#[tokio::test(start_paused = true)]
async fn s13_a_master_in_quarantine_is_not_asked() {
    let masters = masters::<3>();
    restart(&masters[0]);
    let lock = take(&redlock(&masters), SECOND).await.unwrap();
    assert_eq!(lock.granted(), 2);
    assert_eq!(masters[0].executed(), 0);
    lock.release().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn s13_a_master_that_was_only_cut_off_votes_at_once() {
    let masters = masters::<3>();
    for master in &masters {
        master.cut_off();
        master.restart();
    }
    drop(take(&redlock(&masters), SECOND).await.unwrap());
}

/// One lock on a bare quorum, of which one master restarts empty, at each time.
/// Says whether there were two holders at any time.
async fn were_there_two(quarantine: bool) -> bool {
    let mut two = false;
    for at in 0..=100 {
        let masters = masters::<3>();
        masters[2].set(KEY, "other", Some(ms(1)));
        let first = take(&redlock(&masters), ms(100)).await.unwrap();
        let second = builder(&masters).restart_quarantine(quarantine);
        let second = second.build().unwrap();
        sleep(ms(at)).await;
        restart(&masters[1]);
        let lock = loop {
            match take(&second, ms(100)).await {
                Ok(lock) => break lock,
                Err(_) => sleep(ms(1)).await,
            }
        };
        two |= first.is_valid() && lock.is_valid();
    }
    two
}

#[tokio::test(start_paused = true)]
async fn s13_a_master_that_restarts_empty_never_makes_two_holders() {
    assert!(!were_there_two(true).await);
}

#[tokio::test(start_paused = true)]
async fn s13_without_the_quarantine_there_are_two_holders() {
    assert!(were_there_two(false).await);
}

#[tokio::test(start_paused = true)]
async fn s13_a_request_waits_for_just_as_many_quarantines_as_a_quorum_needs() {
    let masters = masters::<5>();
    let redlock = redlock(&masters);
    for master in &masters[1..] {
        restart(master);
        sleep(ms(100)).await;
    }
    // They vote again in 600, 700, 800 and 900 ms; two of them are needed.
    let asked = Instant::now();
    let lock = redlock
        .lock(KEY)
        .ttl(SECOND)
        .wait(5 * SECOND)
        .await
        .unwrap();
    assert_eq!(asked.elapsed(), ms(700));
    assert_eq!(lock.granted(), 3);
}

#[tokio::test(start_paused = true)]
async fn s13_a_request_sleeps_until_the_quarantine_is_over() {
    let masters = masters::<3>();
    masters[1..].iter().for_each(restart);
    let request = redlock(&masters)
        .lock(KEY)
        .ttl(10 * SECOND)
        .wait(60 * SECOND);
    let asked = Instant::now();
    let lock = request.await.unwrap();
    assert_eq!(asked.elapsed(), 10 * SECOND);
    // A few attempts before it knows, one after; each with its release.
    assert!(masters[0].executed() < 8, "{}", masters[0].executed());
    drop(lock);
}

#[tokio::test(start_paused = true)]
async fn s13_a_wait_that_is_shorter_than_the_quarantine_ends_with_it_as_the_reason() {
    let masters = masters::<3>();
    masters[1..].iter().for_each(restart);
    let asked = Instant::now();
    let request = redlock(&masters)
        .lock(KEY)
        .ttl(10 * SECOND)
        .wait(4 * SECOND);
    let refused = request.await.unwrap_err();
    assert_eq!(asked.elapsed(), 4 * SECOND);
    let LockError::WaitedTooLong { last, .. } = &refused else {
        panic!("{refused}");
    };
    assert!(matches!(**last, LockError::NoQuorum { .. }), "{last}");
    assert_eq!(quarantines(&refused)[1..], [Some(6 * SECOND); 2]);
}

#[tokio::test(start_paused = true)]
async fn s13_a_master_that_restarts_while_one_waits_for_it_begins_anew() {
    let masters = masters::<3>();
    masters[1..].iter().for_each(restart);
    let again = masters.clone();
    tokio::spawn(async move {
        sleep(ms(900)).await;
        again[1..].iter().for_each(restart);
    });
    let asked = Instant::now();
    let request = redlock(&masters).lock(KEY).ttl(SECOND).wait(5 * SECOND);
    drop(request.await.unwrap());
    assert_eq!(asked.elapsed(), ms(1900));
}

#[tokio::test(start_paused = true)]
async fn s13_the_quarantine_lasts_for_the_longest_ttl_that_is_allowed() {
    let masters = masters::<3>();
    let builder = builder(&masters).ttl(SECOND).max_ttl(5 * SECOND);
    let redlock = builder.build().unwrap();
    masters.iter().for_each(restart);
    sleep(ms(1500)).await;
    let refused = take(&redlock, SECOND).await.unwrap_err();
    assert_eq!(quarantines(&refused), [Some(ms(3500)); 3]);
    sleep(ms(3500)).await;
    drop(take(&redlock, SECOND).await.unwrap());
}

#[tokio::test(start_paused = true)]
async fn s13_longer_ttls_than_the_longest_are_refused_before_anything_is_sent() {
    let masters = masters::<3>();
    let builder = builder(&masters).ttl(SECOND).max_ttl(5 * SECOND);
    let redlock = builder.clone().build().unwrap();
    let too_long = InvalidTime::TooLong {
        asked: ms(5001),
        longest: 5 * SECOND,
    };
    let refused = take(&redlock, ms(5001)).await.unwrap_err();
    let LockError::Invalid(InvalidRequest::Time(reason)) = refused else {
        panic!("{refused}");
    };
    assert_eq!(reason, too_long);
    assert_eq!(executed(&masters), [0; 3]);

    let lock = take(&redlock, 5 * SECOND).await.unwrap();
    let before = executed(&masters);
    let refused = lock.extend(ms(5001)).await.unwrap_err();
    assert!(matches!(refused, ExtendError::Invalid(reason) if reason == too_long));
    assert_eq!(executed(&masters), before);

    let refused = builder.ttl(ms(5001)).build().unwrap_err();
    assert_eq!(refused, ConfigError::Ttl(too_long));
}

/// A lock on three masters, one of which restarted empty and was given the key
/// back; without another one it has no quorum of those that never forgot.
async fn given_back(quarantine: bool) -> ([MemoryMaster; 3], Guard) {
    let masters = masters::<3>();
    let redlock = builder(&masters).restart_quarantine(quarantine).build();
    let lock = take(&redlock.unwrap(), SECOND).await.unwrap();
    restart(&masters[1]);
    lock.extend(SECOND).await.unwrap();
    sleep(ms(1)).await;
    assert_eq!(having(&masters, lock.token()), 3, "it was given back");
    masters[2].stall();
    (masters, lock)
}

#[tokio::test(start_paused = true)]
async fn s13_the_yes_of_a_master_in_quarantine_does_not_extend() {
    let (masters, lock) = given_back(true).await;
    let remaining = lock.remaining();
    let undecided = lock.extend(SECOND).await.unwrap_err();
    let ExtendError::Unknown { report, .. } = &undecided else {
        panic!("{undecided}");
    };
    assert_eq!(report.count(Vote::Yes), 1);
    let fault = &report.masters()[1].fault;
    assert!(matches!(fault, Some(Fault::Quarantined { .. })), "{report}");
    assert!(lock.remaining() <= remaining, "the deadline stands");
    // The key lives on all the same, for when the quarantine is over.
    assert!(masters[1].expires_in(KEY) > Some(ms(900)));

    let (_masters, lock) = given_back(false).await;
    lock.extend(SECOND).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn s13_the_no_of_a_master_in_quarantine_proves_a_loss() {
    let masters = masters::<3>();
    let lock = take(&redlock(&masters), SECOND).await.unwrap();
    masters[1..].iter().for_each(restart);
    let lost = lock.extend(SECOND).await.unwrap_err();
    assert!(matches!(lost, ExtendError::Lost { .. }), "{lost}");
}

#[tokio::test(start_paused = true)]
async fn s13_when_the_quarantine_is_over_a_key_that_was_given_back_extends() {
    let (masters, lock) = given_back(true).await;
    masters[2].resume();
    for _ in 0..4 {
        sleep(ms(300)).await;
        lock.extend(SECOND).await.unwrap();
    }
    masters[2].stall();
    lock.extend(SECOND).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn s13_quarantine_is_each_coordinators_own_affair() {
    let masters = masters::<3>();
    let (with, without) = (builder(&masters), builder(&masters));
    let with = with.build().unwrap();
    let without = without.restart_quarantine(false).build().unwrap();
    masters.iter().for_each(restart);
    take(&with, SECOND).await.unwrap_err();
    drop(take(&without, SECOND).await.unwrap());
}

#[tokio::test(start_paused = true)]
async fn the_state_of_the_masters_says_who_votes() {
    let masters = masters::<3>();
    let redlock = builder(&masters).ttl(2 * SECOND).build().unwrap();
    restart(&masters[1]);
    masters[2].kill();
    masters[0].delay(ms(3));
    sleep(ms(500)).await;
    let states = redlock.masters().await;
    let [healthy, young, down] = states.masters() else {
        panic!("{states}");
    };
    assert!(healthy.votes() && healthy.connected);
    assert_eq!(healthy.latency, Some(ms(6)));
    let remaining = ms(1500);
    assert_eq!(young.fault, Some(Fault::Quarantined { remaining }));
    assert_eq!(young.age, Some(ms(500)));
    assert!(young.connected && !young.votes());
    assert!(!down.connected && !down.votes());
    assert_eq!((states.voting(), states.needed()), (1, 2));
    assert!(!states.has_quorum());
    let shown = states.to_string();
    assert_eq!(
        shown.lines().collect::<Vec<_>>(),
        [
            "master  connected  vote                                                up for  latency  last error",
            "m1      yes        yes                                                 -       6.0 ms   -",
            "m2      yes        no: it came up lately: no vote for another 1500 ms  0 s     0.0 ms   -",
            "m3      no         no: unreachable: cut off                            -       -        -",
            "1 of 3 masters vote, 2 must",
        ],
        "{shown}"
    );

    masters[2].restart();
    sleep(2 * SECOND).await;
    assert_eq!(redlock.masters().await.voting(), 3);
}
