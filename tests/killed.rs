//! Masters that are gone: killed processes, refused connections.

mod support;

use std::time::{Duration, Instant};

use redquorum::{Fault, LockError, Redlock, Wait};
use support::fleet::Fleet;

const SECOND: Duration = Duration::from_secs(1);

fn redlock(fleet: &Fleet) -> Redlock {
    support::builder().masters(fleet.urls()).build().unwrap()
}

/// How many masters remove a lock: as many as take part.
async fn taking_part(redlock: &Redlock) -> usize {
    let Ok(lock) = redlock.lock("taking-part").try_once().await else {
        return 0;
    };
    lock.release().await.map_or(0, |released| released.removed)
}

#[tokio::test]
async fn with_two_of_five_killed_every_acquisition_succeeds() {
    let mut fleet = Fleet::start(5).await;
    let redlock = redlock(&fleet);
    assert!(support::wait::until(SECOND, async || taking_part(&redlock).await == 5).await);
    for killed in [[0, 1], [3, 4], [1, 3]] {
        for master in killed {
            fleet[master].kill();
        }
        for attempt in 0..100 {
            let resource = format!("a:{attempt}");
            let lock = redlock.lock(resource).try_once().await.unwrap();
            assert_eq!(lock.granted(), 3);
            assert_eq!(lock.release().await.unwrap().removed, 3);
        }
        for master in killed {
            fleet[master].restart().await;
        }
        let all = support::wait::until(SECOND, async || taking_part(&redlock).await == 5);
        assert!(all.await, "restarted masters take part within a second");
    }
}

#[tokio::test]
async fn with_three_refusing_connections_a_try_names_them_at_once() {
    let mut fleet = Fleet::start(5).await;
    let redlock = redlock(&fleet);
    assert!(support::wait::until(SECOND, async || taking_part(&redlock).await == 5).await);
    for master in 0..3 {
        fleet[master].kill();
    }
    // Once the connections have broken, and as long as nobody has asked since.
    let started = Instant::now();
    let refused = redlock.lock("a").try_once().await.unwrap_err();
    let took = started.elapsed();
    assert!(took < Duration::from_millis(10), "{took:?}");
    let LockError::NoQuorum {
        needed: 3, report, ..
    } = &refused
    else {
        panic!("{refused}");
    };
    for (master, report) in report.masters().iter().enumerate() {
        assert_eq!(report.fault.is_some(), master < 3, "{refused}");
        assert!(refused.to_string().contains(&*report.address));
    }
    assert!(
        support::wait::until(SECOND, async || {
            let refused = redlock.lock("a").try_once().await.unwrap_err();
            let report = refused.report().unwrap().masters();
            report[..3].iter().all(|master| match &master.fault {
                Some(Fault::Unreachable { cause }) => cause.contains("refused"),
                _ => false,
            })
        })
        .await
    );
    for master in 3..5 {
        assert!(fleet[master].keys().await.is_empty());
    }
}

#[tokio::test]
async fn with_three_refusing_from_the_start_the_first_try_says_so_at_once() {
    let mut fleet = Fleet::start(5).await;
    for master in 0..3 {
        fleet[master].kill();
    }
    let redlock = redlock(&fleet);
    let started = Instant::now();
    let refused = redlock.lock("a").try_once().await.unwrap_err();
    let took = started.elapsed();
    println!("three of five refuse connections: refused after {took:?}");
    assert!(took < Duration::from_millis(10), "{took:?}");
    assert!(matches!(refused, LockError::NoQuorum { .. }), "{refused}");
}

#[tokio::test]
async fn building_does_no_io_and_the_first_lock_decides() {
    let mut fleet = Fleet::start(5).await;
    fleet[0].kill();
    fleet[1].kill();
    let started = Instant::now();
    let redlock = std::thread::scope(|scope| {
        let build = || redlock(&fleet);
        scope.spawn(build).join().expect("no runtime is needed")
    });
    assert!(started.elapsed() < Duration::from_millis(20));
    let lock = redlock.lock("a").try_once().await.unwrap();
    assert_eq!(lock.release().await.unwrap().removed, 3);

    for master in 2..5 {
        fleet[master].kill();
    }
    let redlock = self::redlock(&fleet);
    let refused = redlock.lock("a").try_once().await.unwrap_err();
    assert!(matches!(refused, LockError::NoQuorum { .. }), "{refused}");
}

#[tokio::test]
async fn a_request_that_waits_has_the_lock_when_a_quorum_is_back() {
    let mut fleet = Fleet::start(3).await;
    fleet[0].kill();
    fleet[1].kill();
    let redlock = redlock(&fleet);
    let waiting = tokio::spawn(redlock.lock("a").wait(Wait::Forever).into_future());
    tokio::time::sleep(SECOND / 2).await;
    assert!(!waiting.is_finished());
    fleet[0].restart().await;
    let lock = tokio::time::timeout(2 * SECOND, waiting).await.unwrap();
    assert_eq!(lock.unwrap().unwrap().granted(), 2);
}

#[tokio::test]
async fn a_master_that_restarts_while_nobody_asks_has_a_vote_at_the_next_lock() {
    let mut fleet = Fleet::start(3).await;
    let redlock = redlock(&fleet);
    assert!(support::wait::until(SECOND, async || taking_part(&redlock).await == 3).await);
    for turn in 0..3 {
        fleet[turn].kill();
        fleet[turn].restart().await;
        tokio::time::sleep(SECOND).await;
        let lock = redlock.lock("a").try_once().await.unwrap();
        assert_eq!(lock.release().await.unwrap().removed, 3);
    }
}

#[tokio::test]
async fn a_master_that_takes_no_more_clients_is_unreachable_and_says_why() {
    let server = support::server::Server::start().await;
    let mut other = server.connection().await;
    let _: () = redis::cmd("CONFIG")
        .arg(&["SET", "maxclients", "1"])
        .query_async(&mut other)
        .await
        .unwrap();
    let redlock = support::builder().masters([server.url()]).build().unwrap();
    let mut refusals = Vec::new();
    for _ in 0..20 {
        let refused = redlock.lock("a").try_once().await.unwrap_err();
        let fault = refused.report().unwrap().first_fault().cloned();
        refusals.push(fault.unwrap());
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    for fault in &refusals {
        let Fault::Unreachable { cause } = fault else {
            panic!("{refusals:?}");
        };
        assert!(cause.contains("max number of clients"), "{refusals:?}");
    }
}
