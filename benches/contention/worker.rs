//! A worker process: it is told a job on standard input, then orders, reports
//! on standard output, and ends when its input does.

use std::io::{self, BufRead, Write};
use std::thread;
use std::time::Duration;

use serde::de::DeserializeOwned;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

use crate::locker::Locker;
use crate::protocol::{Job, Order, Part, Report};
use crate::{contender, hand, waiters};

/// Longer than anything here takes.
pub const TTL: Duration = Duration::from_secs(600);

pub async fn run() {
    let job: Job = parse(&first_line());
    let orders = orders();
    let locker = Locker::new(&job);
    probe(&locker, &job).await;
    match job.part {
        Part::Contender(habit) => contender::run(job, habit, locker, orders).await,
        Part::Hand => hand::run(job, locker, orders).await,
        Part::Waiters(tasks) => waiters::run(job, tasks, locker, orders).await,
    }
    // The parent has heard all, and closes the input: see `read_orders`.
    std::future::pending().await
}

pub fn tell(report: &Report) {
    let line = serde_json::to_string(report).expect("reports become JSON");
    writeln!(io::stdout(), "{line}").expect("the parent listens");
}

/// Takes and releases a lock that nobody else wants: connections are made, too.
/// Says how long it took to take it.
pub async fn probe(locker: &Locker, job: &Job) -> Duration {
    let resource = format!("{}:{}", job.resource, std::process::id());
    let started = std::time::Instant::now();
    let held = locker.acquire(&resource, TTL).await;
    let took = started.elapsed();
    held.release().await;
    took
}

/// Orders as they come; the process ends when no more can come.
fn orders() -> UnboundedReceiver<Order> {
    let (sender, orders) = unbounded_channel();
    thread::spawn(move || read_orders(&sender));
    orders
}

fn read_orders(sender: &UnboundedSender<Order>) {
    for line in io::stdin().lock().lines().map_while(Result::ok) {
        let _ = sender.send(parse(&line));
    }
    std::process::exit(0);
}

fn first_line() -> String {
    let mut line = String::new();
    io::stdin()
        .read_line(&mut line)
        .expect("the parent tells the job");
    line
}

fn parse<T: DeserializeOwned>(line: &str) -> T {
    serde_json::from_str(line).expect("the parent speaks JSON")
}
