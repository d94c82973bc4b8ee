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

/// How long the floor waits for masters that may fail: as long as redquorum does by default.
const IMPATIENT: Duration = Duration::from_millis(50);

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
pub(crate) struct Subject {
    pub(crate) name: &'static str,
    way: Way,
}

#[derive(Clone)]
enum Way {
    Floor(Floor),
    Redquorum(Redlock),
    Fenced(Redlock),
    Rslock(LockManager),
    DistributedLock(std::sync::Arc<RedisLockProvider>),
}

impl Subject {
    pub(crate) async fn connect(kind: Kind, urls: &[String], patient: bool) -> Self {
        let limit = (!patient).then_some(IMPATIENT);
        let way = match kind {
            Kind::Floor => Way::Floor(Floor::connect(urls, limit).await),
            Kind::Redquorum => Way::Redquorum(redlock(urls, patient)),
            Kind::Fenced => Way::Fenced(redlock(urls, patient)),
            Kind::Rslock => Way::Rslock(LockManager::new(urls.to_vec())),
            Kind::DistributedLock => {
                // The same parts of the TTL as in its defaults: it waits for as long as the
                // validity that it must leave lets it, a tenth of the TTL.
                let builder = RedisLockProvider::builder().urls(urls).expiry(TTL);
                let builder = builder.min_validity(TTL * 9 / 10);
                let provider = builder.extension_cadence(TTL / 3).build().await;
                Way::DistributedLock(provider.expect("healthy masters").into())
            }
        };
        let name = kind.name();
        Self { name, way }
    }

    /// Asks for the lock in one attempt, or in as many as the subject makes of itself.
    pub(crate) async fn attempt(&self, resource: &str) -> Result<(), String> {
        match &self.way {
            Way::Redquorum(redlock) => {
                let lock = redlock.lock(resource).ttl(TTL).try_once().await;
                lock.map(drop).map_err(text)
            }
            _ => self.cycle(resource).await,
        }
    }

    /// Takes the lock and releases it. The error is in the subject's words.
    pub(crate) async fn cycle(&self, resource: &str) -> Result<(), String> {
        match &self.way {
            Way::Floor(floor) => floor.cycle(resource).await?,
            Way::Redquorum(redlock) => {
                let lock = redlock.lock(resource).ttl(TTL).await.map_err(text)?;
                lock.release().await.map_err(text)?;
            }
            Way::Fenced(redlock) => {
                let lock = redlock.lock(resource).ttl(TTL).fenced().await;
                lock.map_err(text)?.release().await.map_err(text)?;
            }
            Way::Rslock(manager) => {
                let lock = manager.lock(resource.as_bytes(), TTL).await;
                lock.map_err(text)?.release().await;
            }
            Way::DistributedLock(provider) => {
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
