//! A worker that does one thing at a time, as it is told.

use tokio::sync::mpsc::UnboundedReceiver;

use crate::clock;
use crate::locker::{Held, Locker};
use crate::protocol::{Job, Order, Report};
use crate::worker::{probe, tell};

pub async fn run(job: Job, locker: Locker, mut orders: UnboundedReceiver<Order>) {
    tell(&Report::Ready);
    let mut held: Option<Held> = None;
    while let Some(order) = orders.recv().await {
        let report = match order {
            Order::Hold { ttl } => {
                held = Some(locker.acquire(&job.resource, ttl).await);
                Report::Held { at: clock::now() }
            }
            Order::Release => {
                let at = clock::now();
                held.take().expect("it holds the lock").release().await;
                Report::Released { at }
            }
            Order::Probe => Report::Took(probe(&locker, &job).await.as_nanos() as u64),
            other => panic!("not for a hand: {other:?}"),
        };
        tell(&report);
    }
}
