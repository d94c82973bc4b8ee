//! Five masters, a plain server, and jobs for workers on them.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use crate::crew::Worker;
use crate::locker::Subject;
use crate::options::Options;
use crate::protocol::{Job, Part};
use crate::support::fleet::Fleet;
use crate::support::server::Server;

pub struct Stage {
    pub masters: Fleet,
    plain: Server,
    master_timeout: Duration,
    resources: AtomicU64,
}

impl Stage {
    pub async fn set(options: &Options) -> Self {
        Self {
            masters: Fleet::start(5).await,
            plain: Server::start().await,
            master_timeout: options.master_timeout,
            resources: AtomicU64::new(0),
        }
    }

    /// A resource that nobody has used.
    pub fn resource(&self) -> String {
        format!("bench:{}", self.resources.fetch_add(1, Ordering::Relaxed))
    }

    /// Starts so many workers on one resource, and waits until all are ready.
    pub async fn hire(
        &self,
        count: usize,
        subject: Subject,
        resource: &str,
        part: Part,
    ) -> Vec<Worker> {
        let job = Job {
            subject,
            masters: self.masters.urls(),
            plain: self.plain.url(),
            master_timeout: self.master_timeout,
            resource: resource.to_owned(),
            part,
        };
        let mut workers = Vec::with_capacity(count);
        for _ in 0..count {
            workers.push(Worker::hire(&job).await);
        }
        for worker in &mut workers {
            worker.ready().await;
        }
        workers
    }
}
