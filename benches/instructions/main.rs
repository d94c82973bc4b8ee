//! What one acquire and release costs in instructions and allocations: figures that
//! don't depend on how busy the machine is.
//!
//! `make bench-instructions`. Called by itself, `instructions SUBJECT TASKS CYCLES`
//! runs so many cycles in each of so many tasks on one thread, after some to warm up,
//! and prints allocations and bytes a cycle; `scripts/bench-instructions` has valgrind
//! count the instructions of two such runs of different length, and divides the
//! difference.
//!
//! | subject | what it is |
//! |---|---|
//! | `floor` | the same commands by the redis crate alone, on five servers |
//! | `redquorum` | this library on the same servers |
//! | `fenced` | the same, with a fencing token |
//! | `memory` | this library on five masters in its own memory |

#[path = "../floor.rs"]
mod floor;

use std::alloc::System;
use std::process::ExitCode;
use std::time::Duration;

use floor::Floor;
use redquorum::{MemoryMaster, Redlock};
use stats_alloc::{INSTRUMENTED_SYSTEM, Region, StatsAlloc};

#[global_allocator]
static ALLOCATOR: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

const WARM_UP: usize = 100;
const USAGE: &str = "usage: instructions floor|redquorum|fenced|memory TASKS CYCLES [URL ...]";

#[derive(Clone)]
enum Subject {
    Floor(Floor),
    Plain(Redlock),
    Fenced(Redlock),
}

impl Subject {
    async fn new(name: &str, urls: &[String]) -> Option<Self> {
        let builder = || {
            let builder = Redlock::builder().restart_quarantine(false);
            // Under valgrind everything is slow.
            builder.master_timeout(Duration::from_secs(5))
        };
        let on_servers = || builder().masters(urls).build().expect("five masters");
        Some(match name {
            "floor" => Self::Floor(Floor::connect(urls, None).await),
            "redquorum" => Self::Plain(on_servers()),
            "fenced" => Self::Fenced(on_servers()),
            "memory" => {
                let masters: Vec<_> = (0..5)
                    .map(|n| MemoryMaster::new(format!("master {n}")))
                    .collect();
                Self::Plain(builder().memory_masters(&masters).build().expect("five"))
            }
            _ => return None,
        })
    }

    async fn cycle(&self, resource: &str) {
        match self {
            Self::Floor(floor) => floor.cycle(resource).await.expect("healthy masters"),
            Self::Plain(redlock) => {
                let lock = redlock.lock(resource).await.expect("nobody else asks");
                lock.release().await.expect("it was held");
            }
            Self::Fenced(redlock) => {
                let lock = redlock.lock(resource).fenced().await;
                let lock = lock.expect("nobody else asks");
                lock.release().await.expect("it was held");
            }
        }
    }
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let [name, tasks, cycles, urls @ ..] = &*args else {
        return usage();
    };
    let (Ok(tasks), Ok(cycles)) = (tasks.parse(), cycles.parse()) else {
        return usage();
    };
    let Some(subject) = Subject::new(name, urls).await else {
        return usage();
    };
    run(&subject, tasks, WARM_UP).await;
    let region = Region::new(ALLOCATOR);
    run(&subject, tasks, cycles).await;
    let change = region.change();
    let a_cycle = |total: usize| total as f64 / (tasks * cycles) as f64;
    println!(
        "{:.1} {:.0}",
        a_cycle(change.allocations + change.reallocations),
        a_cycle(change.bytes_allocated)
    );
    ExitCode::SUCCESS
}

/// Each task has a resource of its own.
async fn run(subject: &Subject, tasks: usize, cycles: usize) {
    let running: Vec<_> = (0..tasks)
        .map(|task| {
            let subject = subject.clone();
            tokio::spawn(async move {
                let resource = format!("bench:instructions:{task}");
                for _ in 0..cycles {
                    subject.cycle(&resource).await;
                }
            })
        })
        .collect();
    for task in running {
        task.await.expect("the task ran through");
    }
}

fn usage() -> ExitCode {
    eprintln!("{USAGE}");
    ExitCode::from(2)
}
