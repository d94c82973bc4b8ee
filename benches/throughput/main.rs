//! Acquire and release on five real masters, beside the floor: the redis crate
//! alone; and fenced, beside unfenced. All run in turns in one process, so that the
//! machine's noise hits them alike; the ratio is the median over the turns.
//!
//! `cargo bench -p redquorum-benches --bench throughput`, or `make bench`.

mod floor;
#[path = "../../tests/support/mod.rs"]
mod support;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use floor::Floor;
use redquorum::Redlock;
use support::fleet::Fleet;

const TURNS: usize = 21;
const TURN: Duration = Duration::from_millis(400);

/// What is measured: a way to take a lock and release it.
#[derive(Clone)]
enum Subject {
    Floor(Floor),
    Redquorum(Redlock),
    Fenced(Redlock),
}

impl Subject {
    fn name(&self) -> &'static str {
        match self {
            Subject::Floor(_) => "floor",
            Subject::Redquorum(_) => "redquorum",
            Subject::Fenced(_) => "fenced",
        }
    }

    async fn cycle(&self, resource: &str) {
        match self {
            Subject::Floor(floor) => floor.cycle(resource).await,
            Subject::Redquorum(redlock) => {
                let lock = redlock.lock(resource).await.expect("nobody else asks");
                let released = lock.release().await.expect("it was held");
                assert_eq!(released.masters, 5);
            }
            Subject::Fenced(redlock) => {
                let lock = redlock.lock(resource).fenced().await;
                let lock = lock.expect("nobody else asks");
                assert!(lock.fencing_token() > 0);
                lock.release().await.expect("it was held");
            }
        }
    }
}

#[tokio::main]
async fn main() {
    let masters = Fleet::start(5).await;
    let floor = Subject::Floor(Floor::connect(&masters.urls()).await);
    let redlock = crate::support::builder()
        .masters(masters.urls())
        // Masters share two cores with the load: slow is not hung here.
        .master_timeout(Duration::from_secs(5))
        .build()
        .expect("five masters");
    let fenced = Subject::Fenced(redlock.clone());
    let redquorum = Subject::Redquorum(redlock);
    println!("cycles/s; ratio: min, median, max of {TURNS} turns");
    for tasks in [1, 8, 64, 512] {
        compare(tasks, &floor, &redquorum).await;
    }
    for tasks in [1, 64] {
        compare(tasks, &redquorum, &fenced).await;
    }
}

async fn compare(tasks: usize, base: &Subject, subject: &Subject) {
    let mut turns = Vec::new();
    throughput(tasks, base).await;
    throughput(tasks, subject).await;
    for _ in 0..TURNS {
        let base = throughput(tasks, base).await;
        let rate = throughput(tasks, subject).await;
        turns.push((rate / base, base, rate));
    }
    turns.sort_by(|a, b| a.0.total_cmp(&b.0));
    let (median, base_rate, rate) = turns[TURNS / 2];
    let (least, most) = (turns[0].0, turns[TURNS - 1].0);
    println!(
        "{tasks:>4} tasks  {:<9} {base_rate:>6.0}  {:<9} {rate:>6.0}  {least:.3} {median:.3} {most:.3}",
        base.name(),
        subject.name()
    );
}

/// Cycles a second by this many tasks, each on a resource of its own.
async fn throughput(tasks: usize, subject: &Subject) -> f64 {
    let cycles = Arc::new(AtomicU64::new(0));
    let over = Arc::new(AtomicBool::new(false));
    let started = Instant::now();
    let running: Vec<_> = (0..tasks)
        .map(|task| {
            let (subject, cycles, over) = (subject.clone(), cycles.clone(), over.clone());
            tokio::spawn(async move {
                let resource = format!("bench:{}:{task}", subject.name());
                while !over.load(Ordering::Relaxed) {
                    subject.cycle(&resource).await;
                    cycles.fetch_add(1, Ordering::Relaxed);
                }
            })
        })
        .collect();
    tokio::time::sleep(TURN).await;
    over.store(true, Ordering::Relaxed);
    for task in running {
        task.await.expect("the task ran through");
    }
    cycles.load(Ordering::Relaxed) as f64 / started.elapsed().as_secs_f64()
}
