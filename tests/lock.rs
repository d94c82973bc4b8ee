//! A lock on real, healthy masters, from the request to the release.

mod support;

use std::time::Duration;

use redquorum::{LockError, Redlock, ReleaseError, Vote, Wait};
use support::inspect;
use support::masters::{shared, unique};

const SECOND: Duration = Duration::from_secs(1);

/// A time-out that no healthy master exceeds, however busy the machine: these
/// tests are not about time.
const PATIENT: Duration = Duration::from_secs(5);

async fn redlock() -> Redlock {
    support::builder()
        .masters(shared().await.urls())
        .master_timeout(PATIENT)
        .build()
        .expect("five masters are a valid configuration")
}

/// How many masters have this value at the resource's own key.
async fn holding(resource: impl AsRef<[u8]>, value: &str) -> usize {
    let values = shared().await.get(resource).await;
    let same = |found: &&Option<Vec<u8>>| found.as_deref() == Some(value.as_bytes());
    values.iter().filter(same).count()
}

#[tokio::test]
async fn it_is_held_on_the_masters_until_it_is_released() {
    let resource = unique("lock");
    let lock = redlock().await.lock(&resource).await.unwrap();
    assert!(lock.is_valid());
    assert!(lock.granted() >= 3);
    assert!(holding(&resource, lock.token()).await >= 3);

    let released = lock.release().await.unwrap();
    assert!(released.removed >= 3 && released.masters == 5);
    shared().await.assert_free(&resource, SECOND).await;
}

#[tokio::test]
async fn s02_its_validity_is_less_than_the_ttl_by_the_drift_at_least() {
    let request = redlock().await.lock(unique("lock")).ttl(SECOND);
    let lock = request.await.unwrap();
    let drift = Duration::from_millis(12);
    assert!(lock.remaining() < SECOND - drift);
    assert!(lock.remaining() > SECOND / 2);
    lock.ensure(SECOND / 2).unwrap();
    assert_eq!(lock.ensure(SECOND).unwrap_err().wanted, SECOND);
}

#[tokio::test]
async fn nobody_else_gets_it() {
    let resource = unique("lock");
    let (here, there) = (redlock().await, redlock().await);
    let lock = here.lock(&resource).await.unwrap();

    let refused = there.lock(&resource).try_once().await.unwrap_err();
    assert!(
        matches!(refused, LockError::Taken { needed: 3, .. }),
        "{refused}"
    );
    assert!(refused.report().unwrap().count(Vote::No) >= 3);
    let refused = here.lock(&resource).wait(SECOND / 20).await.unwrap_err();
    let LockError::WaitedTooLong { waited, last, .. } = refused else {
        panic!("{refused}");
    };
    assert!(waited >= SECOND / 20);
    assert!(matches!(*last, LockError::Taken { .. }));
    assert!(lock.is_valid());
}

#[tokio::test]
async fn a_waiter_gets_it_when_it_is_released() {
    let resource = unique("lock");
    let redlock = redlock().await;
    let lock = redlock.lock(&resource).await.unwrap();
    let waiter = tokio::spawn(redlock.lock(&resource).wait(Wait::Forever).into_future());
    tokio::time::sleep(SECOND / 10).await;
    assert!(!waiter.is_finished());
    lock.release().await.unwrap();
    let lock = waiter.await.unwrap().unwrap();
    lock.release().await.unwrap();
}

#[tokio::test]
async fn a_waiter_gets_it_when_it_expires() {
    let resource = unique("lock");
    let redlock = redlock().await;
    let first = redlock.lock(&resource).ttl(SECOND / 5).await.unwrap();
    let second = redlock.lock(&resource).await.unwrap();
    assert!(!first.is_valid());
    assert_eq!(first.remaining(), Duration::ZERO);
    let late = first.release().await.unwrap_err();
    assert!(matches!(late, ReleaseError::NotHeld { .. }), "{late}");
    assert!(holding(&resource, second.token()).await >= 3);
    second.release().await.unwrap();
}

#[tokio::test]
async fn s09_s10_an_extension_outlives_the_first_ttl() {
    let resource = unique("lock");
    let lock = redlock()
        .await
        .lock(&resource)
        .ttl(SECOND / 2)
        .await
        .unwrap();
    let left = lock.extend(10 * SECOND).await.unwrap();
    assert!(left > 9 * SECOND && left < 10 * SECOND);
    tokio::time::sleep(SECOND / 2).await;
    assert!(lock.is_valid());
    assert!(holding(&resource, lock.token()).await >= 3);
    lock.release().await.unwrap();
}

#[tokio::test]
async fn s17_dropping_it_releases_it_everywhere() {
    let resource = unique("lock");
    drop(redlock().await.lock(&resource).await.unwrap());
    shared().await.assert_free(&resource, SECOND).await;
}

#[tokio::test]
async fn any_bytes_are_a_resource_and_the_key_is_exactly_them() {
    let redlock = redlock().await;
    let mut long = unique("lock").into_bytes();
    long.resize(1_000_000, b'x');
    let braces = unique("{a}{b").into_bytes();
    let nul = [unique("nul").as_bytes(), b"\0\r\n*3"].concat();
    let invalid_utf8 = [unique("bytes").as_bytes(), b"\xff\xfe"].concat();
    for resource in [long, braces, nul, invalid_utf8] {
        let lock = redlock.lock(&resource).await.unwrap();
        assert_eq!(lock.resource(), resource);
        assert!(holding(&resource, lock.token()).await >= 3);
        lock.extend(SECOND).await.unwrap();
        lock.release().await.unwrap();
        shared().await.assert_free(&resource, SECOND).await;
    }
}

#[tokio::test]
async fn a_prefix_goes_before_the_resource() {
    let builder = support::builder().masters(shared().await.urls());
    let redlock = builder
        .master_timeout(PATIENT)
        .key_prefix("app:")
        .build()
        .unwrap();
    let resource = unique("lock");
    let lock = redlock.lock(&resource).await.unwrap();
    assert_eq!(lock.resource(), resource.as_bytes());
    assert!(holding(format!("app:{resource}"), lock.token()).await >= 3);
    assert_eq!(holding(&resource, lock.token()).await, 0);
    lock.release().await.unwrap();
}

#[tokio::test]
async fn one_master_is_a_simple_lock() {
    let url = shared().await.urls().remove(0);
    let redlock = support::builder()
        .masters([url])
        .master_timeout(PATIENT)
        .build()
        .unwrap();
    let resource = unique("lock");
    let lock = redlock.lock(&resource).await.unwrap();
    let refused = redlock.lock(&resource).try_once().await.unwrap_err();
    assert!(matches!(refused, LockError::Taken { needed: 1, .. }));
    assert_eq!(lock.release().await.unwrap().removed, 1);
}

#[tokio::test]
async fn clients_of_the_redis_crate_are_masters_too() {
    let urls = shared().await.urls();
    let clients = urls.iter().map(|url| redis::Client::open(&**url).unwrap());
    let redlock = support::builder()
        .redis_clients(clients)
        .master_timeout(PATIENT)
        .build()
        .unwrap();
    let lock = redlock.lock(unique("lock")).await.unwrap();
    assert_eq!(lock.release().await.unwrap().masters, 5);
}

#[tokio::test]
async fn scripts_that_a_master_has_lost_are_sent_again() {
    let redlock = redlock().await;
    let resource = unique("lock");
    let lock = redlock.lock(&resource).await.unwrap();
    for url in shared().await.urls() {
        let _: () = inspect::ask(&url, redis::cmd("SCRIPT").arg("FLUSH")).await;
    }
    lock.extend(5 * SECOND).await.unwrap();
    for url in shared().await.urls() {
        let _: () = inspect::ask(&url, redis::cmd("SCRIPT").arg("FLUSH")).await;
    }
    lock.release().await.unwrap();
    shared().await.assert_free(&resource, SECOND).await;
}

#[tokio::test]
async fn a_key_that_is_no_lock_is_taken_and_stays_as_it_is() {
    let resource = unique("lock");
    for url in shared().await.urls() {
        let _: () = inspect::ask(&url, redis::cmd("LPUSH").arg(&resource).arg("a")).await;
    }
    let refused = redlock().await.lock(&resource).try_once().await;
    assert!(matches!(refused, Err(LockError::Taken { .. })));
    for url in shared().await.urls() {
        let length: i64 = inspect::ask(&url, redis::cmd("LLEN").arg(&resource)).await;
        assert_eq!(length, 1);
        let _: () = inspect::ask(&url, redis::cmd("DEL").arg(&resource)).await;
    }
}
