//! What one turn of one subject gives.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use tokio::time::timeout;

use crate::subject::Subject;

/// A subject that takes longer for one cycle is left alone.
pub(crate) const LIMIT: Duration = Duration::from_secs(5);

/// The resources of the cycles.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Resources {
    /// Each task has one, and takes it again and again.
    OfTask,
    /// Each cycle has one that nobody took before.
    New,
}

impl Resources {
    fn name(self, task: usize) -> String {
        static CYCLES: AtomicU64 = AtomicU64::new(0);
        match self {
            Resources::OfTask => format!("bench:compare:{task}"),
            Resources::New => {
                let cycle = CYCLES.fetch_add(1, Ordering::Relaxed);
                format!("bench:compare:cycle:{cycle}")
            }
        }
    }
}

/// The times of the cycles of a turn, the shortest first; and how often there was an
/// error, or no end within the limit.
pub(crate) struct Sample {
    times: Vec<Duration>,
    failures: usize,
    lasted: Duration,
}

impl Sample {
    /// Cycles of this many tasks, each on a resource of its own, for that long.
    pub(crate) async fn of(subject: &Subject, tasks: usize, turn: Duration) -> Self {
        Self::on(Resources::OfTask, subject, tasks, turn).await
    }

    /// Cycles of this many tasks on such resources for that long.
    pub(crate) async fn on(
        resources: Resources,
        subject: &Subject,
        tasks: usize,
        turn: Duration,
    ) -> Self {
        let over = Arc::new(AtomicBool::new(false));
        let began = Instant::now();
        let running: Vec<_> = (0..tasks)
            .map(|task| tokio::spawn(cycles(subject.clone(), resources, task, over.clone())))
            .collect();
        tokio::time::sleep(turn).await;
        over.store(true, Ordering::Relaxed);
        let mut times = Vec::new();
        let mut failures = 0;
        for task in running {
            let (of_task, failed) = task.await.expect("the subject does not panic");
            times.extend(of_task);
            failures += failed;
        }
        let lasted = began.elapsed();
        times.sort();
        Self {
            times,
            failures,
            lasted,
        }
    }

    /// In milliseconds; those that failed took longer than all others.
    pub(crate) fn percentile(&self, percent: usize) -> Option<f64> {
        let last = (self.times.len() + self.failures).checked_sub(1)?;
        let time = self.times.get(last * percent / 100)?;
        Some(time.as_secs_f64() * 1e3)
    }

    pub(crate) fn rate(&self) -> Option<f64> {
        (!self.times.is_empty()).then(|| self.times.len() as f64 / self.lasted.as_secs_f64())
    }
}

async fn cycles(
    subject: Subject,
    resources: Resources,
    task: usize,
    over: Arc<AtomicBool>,
) -> (Vec<Duration>, usize) {
    let (mut times, mut failures) = (Vec::new(), 0);
    while !over.load(Ordering::Relaxed) {
        let resource = resources.name(task);
        let began = Instant::now();
        match timeout(LIMIT, subject.cycle(&resource)).await {
            Ok(Ok(())) => times.push(began.elapsed()),
            _ => failures += 1,
        }
    }
    (times, failures)
}

/// How long it takes until the subject says that it can't, in milliseconds.
pub(crate) async fn time_to_an_error(subject: &Subject) -> Option<f64> {
    let began = Instant::now();
    match timeout(LIMIT, subject.attempt("bench:compare:error")).await {
        Ok(Err(_)) => Some(began.elapsed().as_secs_f64() * 1e3),
        _ => None,
    }
}
