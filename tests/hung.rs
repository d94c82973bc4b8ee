//! Masters that are there and don't answer: stopped processes.

mod support;

use std::time::{Duration, Instant};

use redquorum::{Fault, LockError, Redlock, Vote};
use support::fleet::Fleet;

const SECOND: Duration = Duration::from_secs(1);
const TIMEOUT: Duration = Duration::from_millis(50);

fn redlock(fleet: &Fleet) -> Redlock {
    support::builder().masters(fleet.urls()).build().unwrap()
}

/// The median time of a lock and its release.
async fn median_cycle(redlock: &Redlock, cycles: usize) -> Duration {
    let mut times = Vec::with_capacity(cycles);
    for cycle in 0..cycles {
        let started = Instant::now();
        let lock = redlock.lock(format!("cycle:{cycle}")).await.unwrap();
        lock.release().await.unwrap();
        times.push(started.elapsed());
    }
    times.sort();
    times[cycles / 2]
}

/// A lock and its release when all connections stand.
async fn warm_up(redlock: &Redlock) {
    let all = support::wait::until(SECOND, async || {
        let lock = redlock.lock("warm-up").await.unwrap();
        lock.release().await.unwrap().removed == 5
    });
    assert!(all.await, "all five masters take part");
}

#[tokio::test]
async fn one_hung_master_costs_nothing() {
    let mut fleet = Fleet::start(5).await;
    let redlock = redlock(&fleet);
    warm_up(&redlock).await;

    let mut ratios = Vec::new();
    for _ in 0..5 {
        let healthy = median_cycle(&redlock, 200).await;
        fleet[4].stop();
        let hung = median_cycle(&redlock, 200).await;
        fleet[4].cont();
        warm_up(&redlock).await;
        ratios.push(hung.as_secs_f64() / healthy.as_secs_f64());
    }
    ratios.sort_by(f64::total_cmp);
    println!("one hung of five: median acquire + release {ratios:.2?} of healthy");
    assert!(ratios[2] <= 1.25, "{ratios:?}");
    fleet.assert_no_keys(2 * SECOND).await;
}

#[tokio::test]
async fn with_three_hung_a_try_ends_within_the_timeout_and_leaves_nothing() {
    let mut fleet = Fleet::start(5).await;
    let redlock = redlock(&fleet);
    warm_up(&redlock).await;
    for master in 2..5 {
        fleet[master].stop();
    }

    let started = Instant::now();
    let refused = redlock.lock("a").try_once().await.unwrap_err();
    let took = started.elapsed();
    println!("three hung of five: refused after {took:?}");
    assert!(
        took >= TIMEOUT && took <= TIMEOUT + Duration::from_millis(10),
        "{took:?}"
    );
    let LockError::NoQuorum { report, .. } = &refused else {
        panic!("{refused}");
    };
    for (master, report) in report.masters().iter().enumerate() {
        let timed_out = matches!(report.fault, Some(Fault::TimedOut { .. }));
        assert_eq!(timed_out, master >= 2, "{refused}");
        assert_eq!(*report.address, fleet[master].addr().to_string());
    }
    for master in 0..2 {
        let free = support::wait::until(SECOND, async || fleet[master].keys().await.is_empty());
        assert!(free.await);
    }

    let started = Instant::now();
    let refused = redlock.lock("a").try_once().await.unwrap_err();
    assert!(
        started.elapsed() < TIMEOUT / 2,
        "they are known to be silent"
    );
    assert!(matches!(refused, LockError::NoQuorum { .. }), "{refused}");

    for master in 2..5 {
        fleet[master].cont();
    }
    fleet.assert_no_keys(2 * SECOND).await;
    warm_up(&redlock).await;
}

#[tokio::test]
async fn masters_that_hang_from_the_start_cost_one_timeout_and_no_caller_waits_for_another() {
    let mut fleet = Fleet::start(5).await;
    for master in 2..5 {
        fleet[master].stop();
    }
    let redlock = redlock(&fleet);
    let started = Instant::now();
    let callers = (0..16).map(|caller| redlock.lock(format!("{caller}")).try_once());
    for refused in futures::future::join_all(callers).await {
        assert!(matches!(refused, Err(LockError::NoQuorum { .. })));
    }
    assert!(started.elapsed() < 2 * TIMEOUT, "{:?}", started.elapsed());
    for master in 2..5 {
        fleet[master].cont();
    }
    fleet.assert_no_keys(2 * SECOND).await;
    warm_up(&redlock).await;
}

#[tokio::test]
async fn s05_an_extension_survives_a_stall_that_is_shorter_than_the_lease() {
    let mut fleet = Fleet::start(5).await;
    let redlock = redlock(&fleet);
    warm_up(&redlock).await;
    let lock = redlock.lock("a").ttl(2 * SECOND).await.unwrap();
    for master in 2..5 {
        fleet[master].stop();
    }
    let undecided = lock.extend(2 * SECOND).await.unwrap_err();
    assert!(
        matches!(undecided, redquorum::ExtendError::Unknown { .. }),
        "{undecided}"
    );
    assert!(lock.is_valid());
    for master in 2..5 {
        fleet[master].cont();
    }
    let extended = support::wait::until(SECOND, async || lock.extend(5 * SECOND).await.is_ok());
    assert!(extended.await);
    assert!(lock.remaining() > 3 * SECOND);
    lock.release().await.unwrap();
    fleet.assert_no_keys(SECOND).await;
}

#[tokio::test]
async fn s02_no_lock_comes_out_of_a_stall_that_is_longer_than_its_ttl() {
    let mut fleet = Fleet::start(3).await;
    let builder = support::builder().masters(fleet.urls());
    let redlock = builder.master_timeout(2 * SECOND).build().unwrap();
    redlock
        .lock("warm-up")
        .await
        .unwrap()
        .release()
        .await
        .unwrap();
    for turn in 0..5 {
        fleet[0].stop();
        fleet[1].stop();
        let resource = format!("a:{turn}");
        let attempt = tokio::spawn(redlock.lock(resource).ttl(SECOND / 5).try_once());
        tokio::time::sleep(Duration::from_millis(300)).await;
        fleet[0].cont();
        fleet[1].cont();
        let refused = attempt.await.unwrap();
        let in_vain = matches!(
            refused,
            Err(LockError::ValidityUsedUp { .. } | LockError::NoQuorum { .. })
        );
        assert!(in_vain, "{refused:?}");
    }
    fleet.assert_no_keys(SECOND).await;
}

#[tokio::test]
async fn a_release_that_a_hung_master_does_not_confirm_goes_on() {
    let mut fleet = Fleet::start(5).await;
    let redlock = redlock(&fleet);
    warm_up(&redlock).await;
    let lock = redlock.lock("a").ttl(60 * SECOND).await.unwrap();
    fleet[0].stop();
    let started = Instant::now();
    let released = lock.release().await.unwrap();
    assert_eq!(released.removed, 4);
    assert!(started.elapsed() < TIMEOUT, "{:?}", started.elapsed());
    fleet[0].cont();
    fleet.assert_no_keys(SECOND).await;
}

#[tokio::test]
async fn the_report_tells_who_was_asked_and_who_was_not() {
    let mut fleet = Fleet::start(3).await;
    let redlock = redlock(&fleet);
    redlock
        .lock("warm-up")
        .await
        .unwrap()
        .release()
        .await
        .unwrap();
    fleet[0].stop();
    fleet[1].stop();
    let first = redlock.lock("a").try_once().await.unwrap_err();
    let timed_out = &first.report().unwrap().masters()[0];
    assert!(timed_out.latency.is_some_and(|latency| latency >= TIMEOUT));
    let silent = support::wait::until(SECOND, async || {
        let second = redlock.lock("a").try_once().await.unwrap_err();
        let report = second.report().unwrap();
        assert_eq!(report.count(Vote::Absent), 2, "{second}");
        matches!(report.masters()[1].fault, Some(Fault::Silent { .. }))
    });
    assert!(silent.await);
    fleet[0].cont();
    fleet[1].cont();
}
