//! One server has one vote, under however many names, and a replica has none
//! (S14).

mod admitted;
mod support;

use admitted::*;
use redquorum::{ExtendError, Fault, LockError, ReleaseError};
use support::fleet::Fleet;
use support::inspect;
use support::server::Server;
use support::wait::eventually;

/// Five masters, of which the last is the first under another name.
async fn doubled() -> (Fleet, Vec<String>) {
    let fleet = Fleet::start(4).await;
    let mut urls = fleet.urls();
    urls.push(format!("redis://localhost:{}", fleet[0].addr().port()));
    (fleet, urls)
}

#[tokio::test]
async fn s14_the_same_server_under_two_names_has_one_vote() {
    let (mut fleet, urls) = doubled().await;
    let redlock = without_quarantine(&urls).build().unwrap();
    eventually("four masters vote", 5 * SECOND, async || {
        redlock.masters().await.voting() == 4
    })
    .await;
    let lock = redlock.lock(RESOURCE).try_once().await.unwrap();
    eventually("all have granted it", SECOND, async || lock.granted() == 4).await;
    lock.extend(TTL).await.unwrap();
    assert_eq!(lock.release().await.unwrap().removed, 4);
    fleet.assert_no_keys(SECOND).await;

    // Two are left, and one of them has two names: no quorum of five.
    let lock = redlock.lock(RESOURCE).ttl(60 * SECOND).try_once().await;
    let lock = lock.unwrap();
    fleet[1].kill();
    fleet[2].kill();
    let undecided = lock.extend(60 * SECOND).await.unwrap_err();
    let unknown = matches!(undecided, ExtendError::Unknown { .. });
    assert!(unknown, "{undecided}");
    let unconfirmed = lock.release().await.unwrap_err();
    let unknown = matches!(unconfirmed, ReleaseError::Unconfirmed { .. });
    assert!(unknown, "{unconfirmed}");
    eventually("they are missed", 5 * SECOND, async || {
        redlock.masters().await.voting() == 2
    })
    .await;
    let refused = redlock.lock(RESOURCE).try_once().await.unwrap_err();
    assert!(matches!(refused, LockError::NoQuorum { .. }), "{refused}");
}

#[tokio::test]
async fn s14_the_report_names_both_addresses_of_a_server_that_was_given_twice() {
    let (fleet, urls) = doubled().await;
    let redlock = without_quarantine(&urls).quorum(5).build().unwrap();
    eventually("four masters vote", 5 * SECOND, async || {
        redlock.masters().await.voting() == 4
    })
    .await;
    let report = refusal(&redlock).await.expect("five of four can't vote");
    let names = [
        fleet[0].addr().to_string(),
        format!("localhost:{}", fleet[0].addr().port()),
    ];
    let mut masters = report.masters().iter();
    let double = masters.find(|master| matches!(master.fault, Some(Fault::SameServer { .. })));
    let double = double.expect("one is told of").to_string();
    assert!(names.iter().all(|name| double.contains(name)), "{double}");
}

#[tokio::test]
async fn s14_the_same_server_has_one_vote_after_it_restarts_too() {
    let (mut fleet, urls) = doubled().await;
    let redlock = without_quarantine(&urls).build().unwrap();
    for _ in 0..3 {
        fleet[0].restart().await;
        eventually("four masters vote", 5 * SECOND, async || {
            let states = redlock.masters().await;
            let connected = states.masters().iter().all(|master| master.connected);
            assert!(states.voting() <= 4, "{states}");
            connected && states.voting() == 4
        })
        .await;
    }
}

#[tokio::test]
async fn s14_a_replica_has_no_vote_until_it_is_a_master() {
    let mut fleet = Fleet::start(3).await;
    let make = async |server: &Server, of: [&str; 2]| {
        let _: () = inspect::ask(&server.url(), redis::cmd("REPLICAOF").arg(&of)).await;
    };
    let port = fleet[0].addr().port().to_string();
    make(&fleet[2], ["127.0.0.1", &port]).await;
    grow_up(&fleet.urls()).await;
    let redlock = builder(fleet.urls()).build().unwrap();
    assert_eq!(state(&redlock, 2).await.fault, Some(Fault::Replica));
    let lock = redlock.lock(RESOURCE).try_once().await.unwrap();
    eventually("two grant it", SECOND, async || lock.granted() == 2).await;
    assert_eq!(lock.release().await.unwrap().removed, 2);
    fleet[1].kill();
    let refused = redlock.lock(RESOURCE).try_once().await.unwrap_err();
    assert!(matches!(refused, LockError::NoQuorum { .. }), "{refused}");

    // A replica that becomes a master may lack what its master had granted: its
    // uptime counts for nothing.
    make(&fleet[2], ["NO", "ONE"]).await;
    eventually("it is looked at again", 15 * SECOND, async || {
        state(&redlock, 2).await.fault != Some(Fault::Replica)
    })
    .await;
    eventually("it votes", 5 * SECOND, async || {
        let state = state(&redlock, 2).await;
        assert!(state.age < Some(10 * SECOND));
        state.votes()
    })
    .await;
    drop(redlock.lock(RESOURCE).try_once().await.unwrap());
}

#[tokio::test]
async fn s14_a_master_that_becomes_a_replica_is_known_as_one_at_its_first_refusal() {
    let fleet = Fleet::start(3).await;
    let redlock = admitted(without_quarantine(fleet.urls()).quorum(3)).await;
    let port = fleet[0].addr().port().to_string();
    let mut replicate = redis::cmd("REPLICAOF");
    let _: () = inspect::ask(&fleet[2].url(), replicate.arg("127.0.0.1").arg(port)).await;
    let report = refusal(&redlock).await.expect("one refuses to write");
    assert!(report.to_string().contains("READONLY"), "{report}");
    eventually("it is looked at again", SECOND, async || {
        state(&redlock, 2).await.fault == Some(Fault::Replica)
    })
    .await;
}
