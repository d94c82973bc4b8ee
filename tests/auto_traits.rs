//! What the types and futures of the public API can be used for: to lose one of
//! these is a breaking change.
#![cfg(feature = "testing")]

use std::error::Error;
use std::fmt::Debug;
use std::time::Duration;

use redquorum::{
    Builder, ConfigError, ExtendError, Fault, Guard, HoldError, InvalidRequest, InvalidRetry,
    InvalidTime, LeaseHandle, LeaseTooShort, LockError, LossReason, MasterReport, MemoryMaster,
    Redlock, ReleaseError, Released, Request, Retry, RoundReport, Wait,
};

fn is_shared<T: Send + Sync + Debug + 'static>() {}
fn is_cloned<T: Clone>() {}
fn is_error<T: Error + Send + Sync + 'static>() {}
fn is_send<T: Send>(future: T) -> T {
    future
}

#[test]
fn types_are_send_and_sync() {
    is_shared::<Redlock>();
    is_shared::<Builder>();
    is_shared::<Request>();
    is_shared::<Guard>();
    is_shared::<LeaseHandle>();
    is_shared::<LossReason>();
    is_shared::<Released>();
    is_shared::<RoundReport>();
    is_shared::<MasterReport>();
    is_shared::<MemoryMaster>();
    is_shared::<Retry>();
    is_shared::<Wait>();
}

#[test]
fn what_is_shared_or_kept_is_cloned() {
    is_cloned::<Redlock>();
    is_cloned::<Builder>();
    is_cloned::<Request>();
    is_cloned::<LeaseHandle>();
    is_cloned::<LossReason>();
    is_cloned::<Released>();
    is_cloned::<RoundReport>();
    is_cloned::<MasterReport>();
    is_cloned::<MemoryMaster>();
}

#[test]
fn errors_are_errors_that_travel() {
    is_error::<ConfigError>();
    is_error::<LockError>();
    is_error::<ExtendError>();
    is_error::<ReleaseError>();
    is_error::<HoldError<()>>();
    is_error::<LossReason>();
    is_error::<LeaseTooShort>();
    is_error::<InvalidRequest>();
    is_error::<InvalidRetry>();
    is_error::<InvalidTime>();
    is_error::<Fault>();
}

#[tokio::test(start_paused = true)]
async fn futures_are_send() {
    let masters = [MemoryMaster::new("m")];
    let redlock = Redlock::builder().memory_masters(&masters).build().unwrap();
    let ttl = Duration::from_secs(1);
    let once = is_send(redlock.lock("a").try_once()).await.unwrap();
    let waited = is_send(redlock.lock("b").into_future()).await.unwrap();
    is_send(once.extend(ttl)).await.unwrap();
    drop(is_send(once.lost()));
    let lost: std::pin::Pin<Box<dyn Future<Output = LossReason> + Send>> = {
        let lease = once.lease();
        Box::pin(lease.lost())
    };
    drop(lost);
    let section = redlock
        .lock("c")
        .hold(|lease| async move { lease.ensure(ttl).map(|()| lease.token().to_owned()) });
    is_send(section).await.unwrap().unwrap();
    is_send(once.release()).await.unwrap();
    is_send(waited.release()).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_guard_can_be_moved_to_another_task_and_shared() {
    let masters = [MemoryMaster::new("m")];
    let redlock = Redlock::builder().memory_masters(&masters).build().unwrap();
    let request = redlock.lock("a");
    drop(redlock);
    let lock = tokio::spawn(request.into_future()).await.unwrap().unwrap();
    let lock = std::sync::Arc::new(lock);
    let other = lock.clone();
    let extended = tokio::spawn(async move { other.extend(Duration::from_secs(30)).await });
    assert!(extended.await.unwrap().is_ok());
    assert!(lock.remaining() > Duration::from_secs(29));
}
