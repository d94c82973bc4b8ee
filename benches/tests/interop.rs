//! Other Redlock libraries on the same masters and resources: the key is the
//! resource, and the value is the owner's token.

#[path = "../../tests/support/mod.rs"]
mod support;

use std::time::Duration;

use redquorum::{LockError, Redlock};
use rslock::LockManager;
use support::masters::{shared, unique};

const TTL: Duration = Duration::from_secs(10);

fn ours(urls: &[String]) -> Redlock {
    support::builder()
        .masters(urls)
        .master_timeout(Duration::from_secs(5))
        .build()
        .unwrap()
}

#[tokio::test]
async fn a_lock_of_rslock_is_seen_as_taken() {
    let urls = shared().await.urls();
    let redlock = ours(&urls);
    let theirs = LockManager::new(urls);
    let resource = unique("interop");

    let held = theirs.lock(resource.as_bytes(), TTL).await.unwrap();
    let refused = redlock.lock(&resource).try_once().await.unwrap_err();
    assert!(matches!(refused, LockError::Taken { .. }), "{refused}");

    theirs.unlock(&held).await;
    let lock = redlock.lock(&resource).await.unwrap();
    lock.release().await.unwrap();
}

#[tokio::test]
async fn rslock_sees_ours_as_taken() {
    let urls = shared().await.urls();
    let redlock = ours(&urls);
    let mut theirs = LockManager::new(urls);
    theirs.set_retry(2, Duration::from_millis(20));
    let resource = unique("interop");

    let lock = redlock.lock(&resource).ttl(TTL).await.unwrap();
    assert!(theirs.lock(resource.as_bytes(), TTL).await.is_err());

    lock.release().await.unwrap();
    let held = theirs.lock(resource.as_bytes(), TTL).await.unwrap();
    theirs.unlock(&held).await;
}

#[tokio::test]
async fn their_release_leaves_our_lock_alone() {
    let urls = shared().await.urls();
    let redlock = ours(&urls);
    let theirs = LockManager::new(urls);
    let resource = unique("interop");

    let expired = theirs
        .lock(resource.as_bytes(), Duration::from_millis(300))
        .await
        .unwrap();
    let lock = redlock.lock(&resource).ttl(TTL).await.unwrap();
    theirs.unlock(&expired).await;
    lock.extend(TTL).await.unwrap();
    lock.release().await.unwrap();
}
