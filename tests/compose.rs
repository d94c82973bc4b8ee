//! Locks on the masters of `docker-compose.yml` while containers are frozen and
//! cut off their network.

mod support;

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use redquorum::{LockError, Redlock};
use support::compose::{containers, cut, pause};
use support::masters::{shared, unique};
use support::wait::eventually;

const SOON: Duration = Duration::from_secs(10);

async fn redlock() -> Redlock {
    support::builder()
        .masters(shared().await.urls())
        .build()
        .unwrap()
}

/// Until as many masters as this take part.
async fn until_taking_part(redlock: &Redlock, masters: usize) {
    let resource = unique("compose");
    eventually("as many masters take part", SOON, async || {
        match redlock.lock(&resource).try_once().await {
            Ok(lock) => lock
                .release()
                .await
                .is_ok_and(|released| released.removed == masters),
            Err(_) => false,
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs the containers of scripts/test-compose"]
async fn no_two_hold_a_lock_while_one_master_is_cut_off_and_another_is_frozen() {
    let resource = unique("compose");
    let inside = AtomicUsize::new(0);
    let sections = AtomicUsize::new(0);
    let over = AtomicBool::new(false);
    let work = async || {
        let redlock = redlock().await;
        while !over.load(Ordering::SeqCst) {
            let Ok(lock) = redlock.lock(&resource).wait(SOON).await else {
                continue;
            };
            assert_eq!(inside.fetch_add(1, Ordering::SeqCst), 0, "two are inside");
            tokio::time::sleep(Duration::from_millis(1)).await;
            assert!(lock.is_valid());
            assert_eq!(inside.fetch_sub(1, Ordering::SeqCst), 1);
            sections.fetch_add(1, Ordering::SeqCst);
            let _ = lock.release().await;
        }
    };
    let progress = async |what: &str| {
        let before = sections.load(Ordering::SeqCst);
        eventually(what, SOON, async || {
            sections.load(Ordering::SeqCst) > before + 20
        })
        .await;
    };
    let faults = async || {
        progress("sections on healthy masters").await;
        let cut = cut(&containers()[0]);
        progress("sections with one master cut off").await;
        let frozen = pause(&containers()[1]);
        progress("sections with another one frozen").await;
        cut.end();
        progress("sections with one frozen").await;
        frozen.end();
        progress("sections on healthy masters again").await;
        over.store(true, Ordering::SeqCst);
    };
    tokio::join!(work(), work(), work(), work(), faults());
    println!("{} sections", sections.load(Ordering::SeqCst));
    until_taking_part(&redlock().await, 5).await;
    shared().await.assert_free(&resource, SOON).await;
}

#[tokio::test]
#[ignore = "needs the containers of scripts/test-compose"]
async fn a_majority_that_is_cut_off_is_named_and_comes_back() {
    let redlock = redlock().await;
    until_taking_part(&redlock, 5).await;
    let faults: Vec<_> = containers()[..3].iter().map(|name| cut(name)).collect();
    let refused = redlock
        .lock(unique("compose"))
        .try_once()
        .await
        .unwrap_err();
    let LockError::NoQuorum { report, .. } = &refused else {
        panic!("{refused}");
    };
    let faulty = report.masters().iter().map(|master| master.fault.is_some());
    assert_eq!(faulty.collect::<Vec<_>>(), [true, true, true, false, false]);
    for fault in faults {
        fault.end();
    }
    until_taking_part(&redlock, 5).await;
}
