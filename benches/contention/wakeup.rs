//! Rows 6 and 7: how soon a waiting process has the lock when another has
//! released it, or was killed and lets it expire.

use std::time::Duration;

use tokio::time::sleep;

use crate::clock;
use crate::crew::Worker;
use crate::locker::Subject;
use crate::options::Options;
use crate::protocol::{Order, Part, Report};
use crate::stage::Stage;
use crate::table::{Bar, Line, median, millis};
use crate::worker::TTL;

/// Before each measurement, so that the waiter waits, and all else is at rest.
const REST: Duration = Duration::from_millis(10);

/// How long the lock of one that is killed lives.
const SHORT_TTL: Duration = Duration::from_secs(1);

/// How long after having taken the lock it is killed.
const LIFE: Duration = Duration::from_millis(100);

pub async fn by_release(stage: &Stage, options: &Options) -> Vec<Line> {
    let mut lines = Vec::new();
    for subject in &options.subjects {
        lines.push(hand_overs(*subject, stage, options.hand_overs).await);
    }
    lines
}

pub async fn by_expiry(stage: &Stage, options: &Options) -> Vec<Line> {
    let mut lines = Vec::new();
    for subject in &options.subjects {
        lines.push(expiries(*subject, stage, options.expiries).await);
    }
    lines
}

async fn hand_overs(subject: Subject, stage: &Stage, count: usize) -> Line {
    let mut hands = stage.hire(2, subject, &stage.resource(), Part::Hand).await;
    let [holder, waiter] = &mut hands[..] else {
        unreachable!("two were hired")
    };
    let (mut holder, mut waiter) = (holder, waiter);
    let (mut wakes, mut frees) = (Vec::new(), Vec::new());
    take(holder, TTL).await;
    for _ in 0..count {
        wakes.push(hand_over(holder, waiter).await.as_secs_f64());
        sleep(REST).await;
        frees.push(free_acquire(holder).await.as_secs_f64());
        (holder, waiter) = (waiter, holder);
    }
    let (wake, free) = (median(wakes.iter().copied()), median(frees));
    let worst = wakes.into_iter().fold(0.0, f64::max);
    let figures = format!(
        "release to grant {}, longest {}; free acquire {}; {:.1} × that",
        millis(Duration::from_secs_f64(wake)),
        millis(Duration::from_secs_f64(worst)),
        millis(Duration::from_secs_f64(free)),
        wake / free,
    );
    let bars = vec![Bar::at_most("× free acquire", wake / free, 3.0)];
    Line::new(6, subject, figures, bars)
}

/// From the call of the release to the grant.
async fn hand_over(holder: &mut Worker, waiter: &mut Worker) -> Duration {
    waiter.order(Order::Hold { ttl: TTL }).await;
    sleep(REST).await;
    let Report::Released { at: released } = holder.ask(Order::Release).await else {
        panic!("not released");
    };
    clock::between(released, granted(waiter).await)
}

async fn expiries(subject: Subject, stage: &Stage, count: usize) -> Line {
    let mut took = Vec::new();
    for _ in 0..count {
        took.push(expiry(subject, stage).await.as_secs_f64() * 1e3);
    }
    let worst = took.iter().copied().fold(0.0, f64::max);
    let figures = format!(
        "granted {:.0} ms after the killed one, longest {worst:.0} ms",
        median(took)
    );
    Line::new(
        7,
        subject,
        figures,
        vec![Bar::at_most("ms", worst, 1_150.0)],
    )
}

/// From the grant to the one that is killed to the grant to the one that waits.
async fn expiry(subject: Subject, stage: &Stage) -> Duration {
    let mut hands = stage.hire(2, subject, &stage.resource(), Part::Hand).await;
    let (mut waiter, mut holder) = hands.pop().zip(hands.pop()).expect("two were hired");
    let taken = take(&mut holder, SHORT_TTL).await;
    waiter.order(Order::Hold { ttl: TTL }).await;
    sleep(LIFE).await;
    holder.kill().await;
    clock::between(taken, granted(&mut waiter).await)
}

async fn take(worker: &mut Worker, ttl: Duration) -> u64 {
    worker.order(Order::Hold { ttl }).await;
    granted(worker).await
}

async fn granted(worker: &mut Worker) -> u64 {
    match worker.report().await {
        Report::Held { at } => at,
        other => panic!("not held: {other:?}"),
    }
}

async fn free_acquire(worker: &mut Worker) -> Duration {
    match worker.ask(Order::Probe).await {
        Report::Took(nanos) => Duration::from_nanos(nanos),
        other => panic!("not taken: {other:?}"),
    }
}
