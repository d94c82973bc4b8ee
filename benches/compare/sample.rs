//! What one turn of one subject gives.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use redquorum_benches::figure::Outcome;
use redquorum_benches::panics::said;
use tokio::time::timeout;

use crate::subject::Subject;

/// A subject that takes longer for one cycle is left alone.
const LIMIT: Duration = Duration::from_secs(5);

/// The resources of the cycles. Subjects have none in common.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Resources {
    /// Each task has one, and takes it again and again.
    OfTask,
    /// Each cycle has one that nobody took before.
    New,
}

impl Resources {
    fn name(self, subject: &Subject, task: usize) -> String {
        match self {
            Resources::OfTask => format!("bench:{}:{task}", subject.name),
            Resources::New => new_resource(subject),
        }
    }
}

fn new_resource(subject: &Subject) -> String {
    static CYCLES: AtomicU64 = AtomicU64::new(0);
    let cycle = CYCLES.fetch_add(1, Ordering::Relaxed);
    format!("bench:{}:cycle:{cycle}", subject.name)
}

/// The times of the cycles of a turn, the shortest first; and why others had no end
/// within the limit, or an error.
pub(crate) struct Sample {
    times: Vec<Duration>,
    failures: Vec<String>,
    lasted: Duration,
}

impl Sample {
    /// Cycles of this many tasks, each on a resource of its own, for that long.
    pub(crate) async fn of(
        subject: &Subject,
        tasks: usize,
        turn: Duration,
    ) -> Result<Self, String> {
        Self::on(Resources::OfTask, subject, tasks, turn).await
    }

    /// Cycles of this many tasks on such resources for that long. The error is what a task
    /// said that panicked.
    pub(crate) async fn on(
        resources: Resources,
        subject: &Subject,
        tasks: usize,
        turn: Duration,
    ) -> Result<Self, String> {
        let over = Arc::new(AtomicBool::new(false));
        let began = Instant::now();
        let running: Vec<_> = (0..tasks)
            .map(|task| tokio::spawn(cycles(subject.clone(), resources, task, over.clone())))
            .collect();
        tokio::time::sleep(turn).await;
        over.store(true, Ordering::Relaxed);
        let mut ended = Vec::with_capacity(tasks);
        for task in running {
            ended.push(task.await);
        }
        let lasted = began.elapsed();
        let (mut times, mut failures) = (Vec::new(), Vec::new());
        for task in ended {
            let (of_task, failed) = task.map_err(|error| said(error.into_panic()))?;
            times.extend(of_task);
            failures.extend(failed);
        }
        times.sort();
        Ok(Self {
            times,
            failures,
            lasted,
        })
    }

    /// In milliseconds; those that failed took longer than all others.
    pub(crate) fn percentile(&self, percent: usize) -> Outcome {
        let last = (self.times.len() + self.failures.len()).saturating_sub(1);
        let time = self.times.get(last * percent / 100);
        time.map(|time| millis(*time)).ok_or_else(|| self.why())
    }

    pub(crate) fn rate(&self) -> Outcome {
        match self.times.len() {
            0 => Err(self.why()),
            cycles => Ok(cycles as f64 / self.lasted.as_secs_f64()),
        }
    }

    fn why(&self) -> String {
        let first = self.failures.first().cloned();
        first.unwrap_or_else(|| "no cycle began".to_owned())
    }
}

async fn cycles(
    subject: Subject,
    resources: Resources,
    task: usize,
    over: Arc<AtomicBool>,
) -> (Vec<Duration>, Vec<String>) {
    let (mut times, mut failures) = (Vec::new(), Vec::new());
    while !over.load(Ordering::Relaxed) {
        let resource = resources.name(&subject, task);
        match timed(subject.cycle(&resource)).await {
            (Ok(Ok(())), took) => times.push(took),
            (Ok(Err(error)), _) => failures.push(error),
            (Err(no_end), _) => failures.push(no_end),
        }
    }
    (times, failures)
}

/// How long one cycle takes, in milliseconds.
pub(crate) async fn time_of_a_cycle(subject: &Subject) -> Outcome {
    let (ended, took) = timed(subject.cycle(&new_resource(subject))).await;
    ended?.map(|()| millis(took))
}

/// How long it takes until the subject says that it can't, in milliseconds.
pub(crate) async fn time_to_an_error(subject: &Subject) -> Outcome {
    let (ended, took) = timed(subject.attempt(&new_resource(subject))).await;
    match ended? {
        Ok(()) => Err("it got the lock".to_owned()),
        Err(_) => Ok(millis(took)),
    }
}

/// What comes of it, and how long it took. The error says that it had no end.
async fn timed<T>(doing: impl Future<Output = T>) -> (Result<T, String>, Duration) {
    let began = Instant::now();
    let ended = timeout(LIMIT, doing).await;
    let ended = ended.map_err(|_| format!("no end within {LIMIT:?}"));
    (ended, began.elapsed())
}

fn millis(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}
