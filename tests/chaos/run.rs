//! One run: workers at work, masters broken, then peace, in which everything must come to its end.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{mpsc, watch};
use tokio::time::{Instant, timeout_at};

use crate::PREFIX;
use crate::clock;
use crate::crew::{Crew, News};
use crate::dice::Dice;
use crate::fault::Faults;
use crate::history::{History, Kind};
use crate::master::Master;
use crate::nemesis::Nemesis;
use crate::options::Options;
use crate::protocol::Job;
use crate::section;
use crate::support::server::Server;
use crate::support::{compose, inspect, wait};

/// The longest TTL of all: short, so that quarantines end within the run.
pub const MAX_TTL: Duration = Duration::from_secs(2);

/// Masters, in a run of its own.
const MASTERS: usize = 5;

/// How long a worker may take to have its first lock: masters must be old enough for it.
const BEGINNING: Duration = Duration::from_secs(30);

/// How often it is looked whether updates were lost.
const LOOK: Duration = Duration::from_secs(1);

/// How long the workers go on when the faults have ended: each resource must be granted again.
const PEACE: Duration = Duration::from_secs(2);

/// How long the workers may take to end what they are at.
const ENDING: Duration = Duration::from_secs(15);

/// How long releases may take after the last guard is gone: less than keys live by themselves.
const RELEASES: Duration = Duration::from_millis(1_000);

/// What came of a run.
pub struct Outcome {
    pub history: History,
    /// From the first fault to the end of the last, or to the violation.
    pub length: Duration,
    /// For how long faults were on.
    pub faulted: Duration,
    pub lost_updates: u64,
    /// From the end of the faults to when each resource had been granted anew.
    pub recovery: Option<Duration>,
    pub grants_in_length: usize,
}

struct Stage {
    masters: Vec<Arc<Master>>,
    plain: Server,
    crew: Arc<Crew>,
    news: mpsc::Receiver<News>,
    history: History,
}

pub async fn run(options: &Options) -> Outcome {
    let mut stage = Stage::set(options).await;
    stage.begin(options).await;
    let began = clock::now();
    stage.rage(options).await;
    let peace = clock::now();
    let grants_in_length = stage.history.counts.grants;
    let faulted = stage.history.faults.on_in_all();
    let recovery = match stage.is_spoilt() {
        true => None,
        false => stage.recover(peace, options).await,
    };
    if !stage.is_spoilt() {
        stage.end(options).await;
    }
    let lost_updates = stage.look_for_lost_updates(options).await;
    Outcome {
        length: clock::between(began, peace),
        history: stage.history,
        faulted,
        lost_updates,
        recovery,
        grants_in_length,
    }
}

impl Stage {
    async fn set(options: &Options) -> Self {
        let masters = match options.containers {
            true => containers().await,
            false => processes().await,
        };
        let plain = Server::start().await;
        let (sender, news) = mpsc::channel(10_000);
        let job = Job {
            seed: options.seed,
            masters: masters.iter().map(|master| master.url()).collect(),
            plain: plain.url(),
            max_ttl: MAX_TTL,
            tasks: options.tasks,
            resources: options.resources,
            broken: options.broken,
        };
        let crew = Crew::hire(job, options.workers, sender);
        Self {
            masters,
            plain,
            crew: Arc::new(crew),
            news,
            history: History::new(Faults::default()),
        }
    }

    /// Until every worker has had a lock.
    async fn begin(&mut self, options: &Options) {
        self.crew.begin().await;
        let ready = |history: &History| history.ready.len() == options.workers;
        if !self.hear_until(BEGINNING, ready).await {
            self.history.violated(
                Kind::Other,
                format!("not all workers are ready within {BEGINNING:?}"),
            );
        }
    }

    /// Breaks things until the time is over or a violation is seen.
    async fn rage(&mut self, options: &Options) {
        let (over, is_over) = watch::channel(false);
        let nemesis = Nemesis {
            masters: self.masters.clone(),
            crew: self.crew.clone(),
            faults: self.history.faults.clone(),
            dice: Dice::new(options.seed),
            max_ttl: MAX_TTL,
            broken: options.broken,
            clocks_due: 0,
        };
        let raging = tokio::spawn(nemesis.rage(is_over));
        let end = Instant::now() + options.length;
        while Instant::now() < end && !self.is_spoilt() {
            let length = LOOK.min(end - Instant::now());
            self.hear_until(length, |history| !history.violations.is_empty())
                .await;
            self.look_for_lost_updates(options).await;
        }
        over.send_replace(true);
        while !raging.is_finished() {
            self.hear_for(Duration::from_millis(20)).await;
        }
        raging.await.expect("the nemesis does not panic");
    }

    fn is_spoilt(&self) -> bool {
        !self.history.violations.is_empty()
    }

    /// Without faults, every lock is granted again.
    async fn recover(&mut self, peace: u64, options: &Options) -> Option<Duration> {
        let again = |history: &History| {
            let since = history.last_grants.values();
            since.filter(|at| **at > peace).count() == options.resources
        };
        let recovered = self.hear_until(ENDING, again).await.then(clock::now);
        if recovered.is_none() {
            self.history.violated(
                Kind::Other,
                format!("a lock is not granted within {ENDING:?} after the faults"),
            );
        }
        self.hear_for(PEACE).await;
        recovered.map(|at| clock::between(peace, at))
    }

    /// All tasks end, and no key is left.
    async fn end(&mut self, options: &Options) {
        let workers = options.workers;
        self.crew.next().await;
        let done = |history: &History| history.done.len() == workers;
        let ended = self.hear_until(ENDING, done).await;
        self.crew.next().await;
        let parted = |history: &History| history.parted.len() == workers;
        if !ended || !self.hear_until(ENDING, parted).await {
            self.history.violated(
                Kind::Other,
                format!("a request does not end within {ENDING:?} without faults"),
            );
            return;
        }
        if let Err(left) = self.wait_until_no_keys().await {
            self.history
                .violated(Kind::Other, format!("keys are left: {left}"));
        }
        for fault in self.crew.dismiss().await {
            self.history.violated(Kind::Other, fault);
        }
    }

    async fn wait_until_no_keys(&self) -> Result<(), String> {
        let mut left = Vec::new();
        let none = wait::until(RELEASES, async || {
            left.clear();
            for master in &self.masters {
                left.extend(locks_at(&master.own_url().await).await);
            }
            left.is_empty()
        });
        match none.await {
            true => Ok(()),
            false => Err(left.join(", ")),
        }
    }

    async fn look_for_lost_updates(&mut self, options: &Options) -> u64 {
        let lost = self.lost_updates(options.resources).await;
        if lost > 0 && !self.is_spoilt() {
            self.history
                .violated(Kind::LostUpdates, format!("{lost} updates are lost"));
        }
        lost
    }

    async fn lost_updates(&self, resources: usize) -> u64 {
        let mut lost = 0;
        for resource in 0..resources {
            let both = redis::cmd("MGET").arg(&section::keys(resource)).to_owned();
            let (number, writes): (Option<u64>, Option<u64>) =
                inspect::ask(&self.plain.url(), &both).await;
            lost += writes.unwrap_or_default() - number.unwrap_or_default();
        }
        lost
    }

    async fn hear_for(&mut self, length: Duration) {
        self.hear_until(length, |_| false).await;
    }

    /// Listens to the workers; says whether it came to this within the limit.
    async fn hear_until(&mut self, limit: Duration, reached: impl Fn(&History) -> bool) -> bool {
        let deadline = Instant::now() + limit;
        while !reached(&self.history) {
            match timeout_at(deadline, self.news.recv()).await {
                Ok(Some(news)) => self.history.hear(news),
                Ok(None) | Err(_) => return reached(&self.history),
            }
        }
        true
    }
}

async fn locks_at(url: &str) -> Vec<String> {
    let keys = inspect::keys(url).await;
    let keys = keys.iter().map(|key| String::from_utf8_lossy(key));
    keys.filter(|key| key.starts_with(PREFIX))
        .map(|key| format!("{key} at {url}"))
        .collect()
}

async fn processes() -> Vec<Arc<Master>> {
    let mut masters = Vec::new();
    for _ in 0..MASTERS {
        masters.push(Arc::new(Master::process().await));
    }
    masters
}

async fn containers() -> Vec<Arc<Master>> {
    let masters = crate::support::masters::shared().await.urls();
    let named = masters.into_iter().zip(compose::containers());
    named
        .map(|(url, name)| Arc::new(Master::Container { name, url }))
        .collect()
}
