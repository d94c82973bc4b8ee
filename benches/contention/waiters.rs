//! A worker whose tasks wait for a lock in vain.

use std::time::Duration;

use tokio::sync::mpsc::UnboundedReceiver;
use tokio::time::sleep;

use crate::clock;
use crate::locker::Locker;
use crate::protocol::{Job, Order, Report};
use crate::worker::{TTL, tell};

/// How long after their first attempts they are ready.
const SETTLING: Duration = Duration::from_secs(2);

pub async fn run(job: Job, tasks: usize, locker: Locker, mut orders: UnboundedReceiver<Order>) {
    for _ in 0..tasks {
        let (locker, resource) = (locker.clone(), job.resource.clone());
        tokio::spawn(async move {
            locker.acquire(&resource, TTL).await;
            panic!("another process holds the lock");
        });
    }
    sleep(SETTLING).await;
    tell(&Report::Ready);
    while let Some(order) = orders.recv().await {
        assert!(
            matches!(order, Order::Measure),
            "not for waiters: {order:?}"
        );
        tell(&Report::Cpu(clock::cpu()));
    }
}
