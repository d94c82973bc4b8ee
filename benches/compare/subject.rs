//! What is compared: ways to take a lock and release it.

use std::time::Duration;

use distributed_lock_core::traits::{DistributedLock, LockHandle, LockProvider};
use distributed_lock_redis::RedisLockProvider;
use redquorum::Redlock;
use rslock::LockManager;

use crate::floor::Floor;

const TTL: Duration = Duration::from_secs(10);

/// How long the saturated masters of a machine with few cores may take.
const PATIENT: Duration = Duration::from_secs(5);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Floor,
    Redquorum,
    /// With a fencing token.
    Fenced,
    Rslock,
    DistributedLock,
}

impl Kind {
    pub(crate) const ALL: [Self; 4] = [
        Kind::Floor,
        Kind::Redquorum,
        Kind::Rslock,
        Kind::DistributedLock,
    ];

    /// Libraries, which say how they fare when masters fail.
    pub(crate) const LIBRARIES: [Self; 3] = [Kind::Redquorum, Kind::Rslock, Kind::DistributedLock];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Kind::Floor => "floor",
            Kind::Redquorum => "redquorum",
            Kind::Fenced => "fenced",
            Kind::Rslock => "rslock",
            Kind::DistributedLock => "distributed-lock-redis",
        }
    }
}

/// Connected to masters.
#[derive(Clone)]
pub(crate) enum Subject {
    Floor(Floor),
    Redquorum(Redlock),
    Fenced(Redlock),
    Rslock(LockManager),
    DistributedLock(std::sync::Arc<RedisLockProvider>),
}

impl Subject {
    pub(crate) async fn connect(kind: Kind, urls: &[String], patient: bool) -> Self {
        match kind {
            Kind::Floor => Subject::Floor(Floor::connect(urls).await),
            Kind::Redquorum => Subject::Redquorum(redlock(urls, patient)),
            Kind::Fenced => Subject::Fenced(redlock(urls, patient)),
            Kind::Rslock => Subject::Rslock(LockManager::new(urls.to_vec())),
            Kind::DistributedLock => {
                // The same parts of the TTL as in its defaults: it waits for as long as the
                // validity that it must leave lets it, a tenth of the TTL.
                let builder = RedisLockProvider::builder().urls(urls).expiry(TTL);
                let builder = builder.min_validity(TTL * 9 / 10);
                let provider = builder.extension_cadence(TTL / 3).build().await;
                Subject::DistributedLock(provider.expect("healthy masters").into())
            }
        }
    }

    /// Asks for the lock in one attempt, or in as many as the subject makes of itself.
    pub(crate) async fn attempt(&self, resource: &str) -> Result<(), String> {
        match self {
            Subject::Redquorum(redlock) => {
                let lock = redlock.lock(resource).ttl(TTL).try_once().await;
                lock.map(drop).map_err(text)
            }
            other => other.cycle(resource).await,
        }
    }

    /// Takes the lock and releases it. The error is in the subject's words.
    pub(crate) async fn cycle(&self, resource: &str) -> Result<(), String> {
        match self {
            Subject::Floor(floor) => floor.cycle(resource).await,
            Subject::Redquorum(redlock) => {
                let lock = redlock.lock(resource).ttl(TTL).await.map_err(text)?;
                lock.release().await.map_err(text)?;
            }
            Subject::Fenced(redlock) => {
                let lock = redlock.lock(resource).ttl(TTL).fenced().await;
                lock.map_err(text)?.release().await.map_err(text)?;
            }
            Subject::Rslock(manager) => {
                let lock = manager.lock(resource.as_bytes(), TTL).await;
                lock.map_err(text)?.release().await;
            }
            Subject::DistributedLock(provider) => {
                let lock = provider.create_lock(resource);
                let held = lock.acquire(Some(TTL)).await.map_err(text)?;
                held.release().await.map_err(text)?;
            }
        }
        Ok(())
    }
}

fn redlock(urls: &[String], patient: bool) -> Redlock {
    let builder = crate::support::builder().masters(urls);
    let builder = match patient {
        true => builder.master_timeout(PATIENT),
        false => builder,
    };
    builder.build().expect("masters")
}

fn text(error: impl std::fmt::Display) -> String {
    error.to_string()
}
