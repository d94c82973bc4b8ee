//! Runs of many seeds.

use std::fmt::Write;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

use super::run::{self, Outcome};
use super::setting::Planted;
use super::sightings::Sightings;

/// How many of the last events are shown of a run in which something is broken.
const SHOWN: usize = 120;

/// What became of many runs.
#[derive(Default)]
pub(crate) struct Campaign {
    pub(crate) runs: u64,
    pub(crate) simulated: Duration,
    /// The time of cores that it took.
    pub(crate) worked: Duration,
    pub(crate) sightings: Sightings,
    pub(crate) broken: Vec<Outcome>,
}

impl Campaign {
    /// Runs one seed after the other for about this much of a core's time.
    pub(crate) fn for_a_while(planted: Planted, budget: Duration) -> Self {
        let began = busy();
        Self::run((0..).take_while(|_| busy() - began < budget), planted)
    }

    /// Runs these seeds, up to the first in which something is broken.
    pub(crate) fn run(seeds: impl Iterator<Item = u64>, planted: Planted) -> Self {
        run::hear_of_panics();
        let mut campaign = Self::default();
        for seed in seeds {
            campaign.take_on(seed, planted);
            if !campaign.broken.is_empty() {
                break;
            }
        }
        campaign
    }

    /// Runs so many seeds on all cores.
    pub(crate) fn on_all_cores(first: u64, count: u64) -> Self {
        run::hear_of_panics();
        let next = AtomicU64::new(first);
        let work = || {
            let mut campaign = Self::default();
            loop {
                let seed = next.fetch_add(1, Ordering::Relaxed);
                if seed >= first + count {
                    return campaign;
                }
                campaign.take_on(seed, Planted::Nothing);
            }
        };
        let cores = thread::available_parallelism().map_or(1, usize::from);
        thread::scope(|scope| {
            let workers: Vec<_> = (0..cores).map(|_| scope.spawn(work)).collect();
            let mut all = Self::default();
            for worker in workers {
                all.join(worker.join().expect("a run does not panic"));
            }
            all
        })
    }

    fn take_on(&mut self, seed: u64, planted: Planted) {
        let began = busy();
        let outcome = run::run(seed, planted, false);
        self.worked += busy() - began;
        self.runs += 1;
        self.simulated += outcome.simulated;
        self.sightings.add(&outcome.sightings);
        if outcome.broken.is_some() {
            self.broken.push(outcome);
        }
    }

    fn join(&mut self, other: Self) {
        self.runs += other.runs;
        self.simulated += other.simulated;
        self.worked += other.worked;
        self.sightings.add(&other.sightings);
        self.broken.extend(other.broken);
    }

    /// Fails if something was broken, with what is needed to look into it.
    pub(crate) fn assert_sound(&self) {
        if self.broken.is_empty() {
            return;
        }
        let mut report = String::new();
        for outcome in &self.broken {
            write!(report, "{}", told(outcome)).expect("a string takes it");
        }
        let seeds: Vec<u64> = self.broken.iter().map(|outcome| outcome.seed).collect();
        panic!(
            "{report}broken by {} of {} seeds: {seeds:?}",
            seeds.len(),
            self.runs
        );
    }

    /// What was seen, and how fast it was.
    pub(crate) fn summary(&self) -> String {
        let worked = self.worked.as_secs_f64();
        format!(
            "{}{} seeds in {worked:.1} s of a core: {:.1} a second, {:.0} times as fast as time",
            self.sightings,
            self.runs,
            self.runs as f64 / worked,
            self.simulated.as_secs_f64() / worked,
        )
    }
}

/// One run in which something is broken: its end, and how to see it again.
fn told(outcome: &Outcome) -> String {
    let (setting, events) = outcome.log.split_first().expect("there is a setting");
    let last = events.len().saturating_sub(SHOWN);
    format!(
        "{setting}\n{}\nseed {}: {}\nrepeat it: make simulate SEED={}\n\n",
        events[last..].join("\n"),
        outcome.seed,
        outcome.broken.as_deref().unwrap_or("nothing"),
        outcome.seed,
    )
}

/// How long this thread has worked.
fn busy() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}
