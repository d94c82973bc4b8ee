//! What is compared: two libraries that take a lock and release it.

use std::time::Duration;

use redquorum::{Guard, Redlock, Wait};
use rslock::LockManager;
use serde::{Deserialize, Serialize};

use crate::protocol::Job;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Subject {
    Rslock,
    Redquorum,
}

impl Subject {
    pub const ALL: [Self; 2] = [Subject::Rslock, Subject::Redquorum];

    pub fn name(self) -> &'static str {
        match self {
            Subject::Rslock => "rslock",
            Subject::Redquorum => "redquorum",
        }
    }
}

/// One coordinator for the process.
#[derive(Clone)]
pub enum Locker {
    Rslock(LockManager),
    Redquorum(Redlock),
}

/// A lock that is held.
pub enum Held {
    Rslock(rslock::Lock),
    Redquorum(Guard),
}

impl Locker {
    pub fn new(job: &Job) -> Self {
        match job.subject {
            Subject::Rslock => Locker::Rslock(LockManager::new(job.masters.clone())),
            Subject::Redquorum => {
                let redlock = crate::support::builder()
                    .masters(&job.masters)
                    .master_timeout(job.master_timeout)
                    .build();
                Locker::Redquorum(redlock.expect("five masters"))
            }
        }
    }

    /// Waits for the lock, however long. rslock gives up after three attempts:
    /// it is asked again at once.
    pub async fn acquire(&self, resource: &str, ttl: Duration) -> Held {
        match self {
            Locker::Rslock(manager) => loop {
                if let Ok(lock) = manager.lock(resource.as_bytes(), ttl).await {
                    return Held::Rslock(lock);
                }
            },
            Locker::Redquorum(redlock) => {
                let request = redlock.lock(resource).ttl(ttl).wait(Wait::Forever);
                Held::Redquorum(request.await.expect("it waits"))
            }
        }
    }
}

impl Held {
    pub async fn release(self) {
        match self {
            Held::Rslock(lock) => lock.release().await,
            Held::Redquorum(guard) => {
                guard.release().await.expect("it was held");
            }
        }
    }
}
