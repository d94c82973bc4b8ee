//! Rows 6 and 7: how soon a waiting process has the lock when another has
//! released it, or was killed and lets it expire.

use std::time::Duration;

use redquorum_benches::figure::{Row, Unit};
use tokio::time::sleep;

use crate::clock;
use crate::crew::Worker;
use crate::locker::Subject;
use crate::options::Options;
use crate::protocol::{Order, Part, Report};
use crate::stage::Stage;
use crate::table::{Bar, Line, Results, beside_base, median, millis};
use crate::worker::TTL;

/// Before each measurement, so that the waiter waits, and all else is at rest.
const REST: Duration = Duration::from_millis(10);

/// How long the lock of one that is killed lives.
const SHORT_TTL: Duration = Duration::from_secs(1);

/// How long after having taken the lock it is killed.
const LIFE: Duration = Duration::from_millis(100);

const MS: Unit = Unit::less("ms");

pub async fn by_release(stage: &Stage, options: &Options) -> Results {
    let mut all = Vec::new();
    for subject in &options.subjects {
        all.push((
            *subject,
            hand_overs(*subject, stage, options.hand_overs).await,
        ));
    }
    let each = |time: fn(&HandOvers) -> Duration| {
        let times = all.iter().map(move |(who, of)| (*who, time(of)));
        times.map(|(who, time)| (who, time.as_secs_f64() * 1e3))
    };
    let bench = "wake by release";
    let longest = Row::new(format!("{bench}: longest"), MS).of_the_worst_turn();
    let mut figures = beside_base(&Row::new(bench, MS), each(|of| of.wake));
    figures.extend(beside_base(&longest, each(|of| of.longest)));
    figures.extend(beside_base(
        &Row::new("free acquire", MS),
        each(|of| of.free),
    ));
    Results {
        lines: all.iter().map(|(who, of)| of.line(*who)).collect(),
        figures,
    }
}

pub async fn by_expiry(stage: &Stage, options: &Options) -> Results {
    let mut all = Vec::new();
    for subject in &options.subjects {
        all.push((*subject, expiries(*subject, stage, options.expiries).await));
    }
    let each = |time: fn(&Expiries) -> f64| all.iter().map(move |(who, of)| (*who, time(of)));
    let bench = format!("wake by expiry, TTL {SHORT_TTL:?}");
    let longest = Row::new(format!("{bench}: longest"), MS).of_the_worst_turn();
    let mut figures = beside_base(&Row::new(bench, MS), each(|of| of.median));
    figures.extend(beside_base(&longest, each(|of| of.longest)));
    Results {
        lines: all.iter().map(|(who, of)| of.line(*who)).collect(),
        figures,
    }
}

/// From a release in one process to the grant in another.
struct HandOvers {
    /// The median.
    wake: Duration,
    longest: Duration,
    /// The median time of taking a lock that nobody has.
    free: Duration,
}

impl HandOvers {
    fn line(&self, subject: Subject) -> Line {
        let ratio = self.wake.as_secs_f64() / self.free.as_secs_f64();
        let figures = format!(
            "release to grant {}, longest {}; free acquire {}; {ratio:.1} × that",
            millis(self.wake),
            millis(self.longest),
            millis(self.free),
        );
        let bars = vec![Bar::at_most("× free acquire", ratio, 3.0)];
        Line::new(6, subject, figures, bars)
    }
}

/// From the grant to one that is killed to the next grant, in milliseconds.
struct Expiries {
    median: f64,
    longest: f64,
}

impl Expiries {
    fn line(&self, subject: Subject) -> Line {
        let Self { median, longest } = self;
        let figures =
            format!("granted {median:.0} ms after the killed one, longest {longest:.0} ms");
        let bars = vec![Bar::at_most("ms", *longest, 1_150.0)];
        Line::new(7, subject, figures, bars)
    }
}

async fn hand_overs(subject: Subject, stage: &Stage, count: usize) -> HandOvers {
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
    let longest = wakes.iter().copied().fold(0.0, f64::max);
    HandOvers {
        wake: Duration::from_secs_f64(median(wakes)),
        longest: Duration::from_secs_f64(longest),
        free: Duration::from_secs_f64(median(frees)),
    }
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

async fn expiries(subject: Subject, stage: &Stage, count: usize) -> Expiries {
    let mut took = Vec::new();
    for _ in 0..count {
        took.push(expiry(subject, stage).await.as_secs_f64() * 1e3);
    }
    Expiries {
        longest: took.iter().copied().fold(0.0, f64::max),
        median: median(took),
    }
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
