//! A worker whose tasks all want one lock.

use std::thread;
use std::time::Duration;

use redis::aio::MultiplexedConnection;
use tokio::sync::mpsc::UnboundedReceiver;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, timeout_at};

use crate::clock;
use crate::locker::{Held, Locker};
use crate::protocol::{Habit, Job, Log, Order, Report, Tenure};
use crate::support::inspect;
use crate::worker::tell;

/// Longer than a turn: none expires within it.
const TTL: Duration = Duration::from_secs(10);

/// One of the tasks.
#[derive(Clone)]
struct Contender {
    task: usize,
    resource: String,
    habit: Habit,
    locker: Locker,
    plain: MultiplexedConnection,
}

pub async fn run(job: Job, habit: Habit, locker: Locker, mut orders: UnboundedReceiver<Order>) {
    let plain = inspect::connection(&job.plain).await;
    tell(&Report::Ready);
    let Some(Order::Contend { from, until }) = orders.recv().await else {
        panic!("contenders are told to contend");
    };
    sleep(clock::until(from)).await;
    let mut tasks = JoinSet::new();
    for task in 0..habit.tasks {
        let contender = Contender {
            task,
            resource: job.resource.clone(),
            habit,
            locker: locker.clone(),
            plain: plain.clone(),
        };
        tasks.spawn(contender.contend(until));
    }
    tell(&Report::Log(merge(tasks.join_all().await)));
}

fn merge(logs: Vec<Log>) -> Log {
    let mut all = Log::default();
    for log in logs {
        all.tenures.extend(log.tenures);
        all.unserved.extend(log.unserved);
    }
    all
}

impl Contender {
    async fn contend(mut self, until: u64) -> Log {
        let deadline = Instant::now() + clock::until(until);
        let mut log = Log::default();
        while clock::now() < until {
            let asked = clock::now();
            let acquire = self.locker.acquire(&self.resource, TTL);
            let Ok(held) = timeout_at(deadline, acquire).await else {
                log.unserved.push(asked);
                break;
            };
            log.tenures.push(self.tenure(asked, held).await);
            if let Some(pause) = self.habit.pause {
                sleep(pause).await;
            }
        }
        log
    }

    async fn tenure(&mut self, asked: u64, held: Held) -> Tenure {
        let granted = clock::now();
        if let Some(section) = self.habit.section {
            self.work(section).await;
        }
        let left = clock::now();
        held.release().await;
        Tenure {
            task: self.task,
            asked,
            granted,
            left,
        }
    }

    async fn work(&mut self, section: Duration) {
        let incremented = redis::cmd("INCR")
            .arg(&self.resource)
            .query_async::<()>(&mut self.plain)
            .await;
        incremented.expect("the plain server answers");
        thread::sleep(section);
    }
}
