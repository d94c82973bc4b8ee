//! A worker process: it is told a job on standard input, reports on standard output, and ends when
//! its input does.

use std::io::{self, BufRead, Write};
use std::panic;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

use redquorum::{Redlock, Wait};
use tokio::sync::watch;
use tokio::task::JoinSet;

use crate::PREFIX;
use crate::dice::Dice;
use crate::errand::Errands;
use crate::protocol::{Job, Report};
use crate::rule::Rule;
use crate::support::inspect;

/// More than the default: masters and workers share the cores.
const MASTER_TIMEOUT: Duration = Duration::from_millis(100);
const CONNECT_TIMEOUT: Duration = Duration::from_millis(500);

pub async fn run() {
    die_with_the_parent();
    panic::set_hook(Box::new(|panicked| {
        tell(&Report::Panicked {
            what: panicked.to_string(),
        });
    }));
    let job = first_line();
    let lines = lines_of_the_parent();
    let redlock = redlock(&job);
    until_it_locks(&redlock).await;
    tell(&Report::Ready);
    work(&job, &redlock, lines).await;
    // What goes on in the background goes on until the parent closes the input.
    std::future::pending().await
}

/// One line, at once: whoever dies next has said it.
pub fn tell(report: &Report) {
    let line = serde_json::to_string(report).expect("reports become JSON") + "\n";
    let mut output = io::stdout().lock();
    let written = output.write_all(line.as_bytes());
    written
        .and_then(|()| output.flush())
        .expect("the parent listens");
}

async fn work(job: &Job, redlock: &Redlock, mut lines: watch::Receiver<usize>) {
    let plain = inspect::connection(&job.plain).await;
    let holds = Arc::new(AtomicU64::new(0));
    let mut seeds = Dice::new(job.seed);
    let mut tasks = JoinSet::new();
    for _ in 0..job.tasks {
        let errands = Errands {
            dice: Dice::new(seeds.number()),
            redlock: redlock.clone(),
            plain: plain.clone(),
            holds: holds.clone(),
            resources: job.resources,
            max_ttl: job.max_ttl,
            broken: job.broken,
        };
        tasks.spawn(errands.run(lines.clone()));
    }
    // A task that is missing panicked, which was told when it happened.
    let idle = ended(tasks).await;
    tell(&Report::Done);
    let _ = lines.wait_for(|lines| *lines > 1).await;
    let mut parting = JoinSet::new();
    for (number, errands) in idle.into_iter().enumerate() {
        parting.spawn(errands.part(number));
    }
    ended(parting).await;
    tell(&Report::Parted);
}

async fn ended<T: 'static>(mut tasks: JoinSet<T>) -> Vec<T> {
    let mut all = Vec::new();
    while let Some(task) = tasks.join_next().await {
        all.extend(task);
    }
    all
}

fn redlock(job: &Job) -> Redlock {
    let mut builder = Redlock::builder()
        .masters(&job.masters)
        .max_ttl(job.max_ttl)
        .ttl(job.max_ttl)
        .master_timeout(MASTER_TIMEOUT)
        .connect_timeout(CONNECT_TIMEOUT);
    match job.broken {
        Some(Rule::Quarantine) => builder = builder.restart_quarantine(false),
        Some(Rule::Drift) => builder = builder.drift_factor(0.0).drift_floor(Duration::ZERO),
        _ => {}
    }
    builder.build().expect("a sound configuration")
}

/// Until the masters are old enough, and connected.
async fn until_it_locks(redlock: &Redlock) {
    let own = format!("{PREFIX}ready:{}", std::process::id());
    let lock = redlock.lock(own).wait(Wait::Forever).await;
    let _ = lock.expect("it waits").release().await;
}

/// How many lines have come since the job; the process ends at the end of its input.
fn lines_of_the_parent() -> watch::Receiver<usize> {
    let (lines, counted) = watch::channel(0);
    std::thread::spawn(move || {
        for _ in io::stdin().lock().lines().map_while(Result::ok) {
            lines.send_modify(|lines| *lines += 1);
        }
        std::process::exit(0);
    });
    counted
}

fn first_line() -> Job {
    let mut line = String::new();
    let read = io::stdin().read_line(&mut line);
    read.expect("the parent tells the job");
    serde_json::from_str(&line).expect("the parent speaks JSON")
}

/// A stopped process would not see that its input has ended.
fn die_with_the_parent() {
    #[cfg(target_os = "linux")]
    rustix::process::set_parent_process_death_signal(Some(rustix::process::Signal::KILL))
        .expect("Linux has it");
}
