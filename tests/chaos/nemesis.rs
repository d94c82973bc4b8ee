//! What breaks the masters and the workers, by a seed.
//!
//! It keeps to what the library promises to survive: at most two of five masters are without a vote
//! at any time, be they down, cut off, or up again since less than the quarantine; clocks keep within
//! the drift. Every now and then it rests, to see how fast it goes without faults.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::sleep;

use crate::clock;
use crate::crew::Crew;
use crate::dice::Dice;
use crate::fault::{Faults, Kind, Victim};
use crate::master::{Cut, Master};
use crate::rule::Rule;

/// How many masters may be without a vote.
const MINORITY: usize = 2;

/// Between rests.
const RAGE: Duration = Duration::from_secs(7);
const REST: Duration = Duration::from_millis(1_500);

/// How long after a fault of its connections a master has its vote again: clients connect anew.
const RECONNECTION: Duration = Duration::from_millis(700);

/// Servers count their age in whole seconds, so that a quarantine may be longer by one.
const ROUNDING: Duration = Duration::from_secs(1);

/// The latest that a clock goes ahead after it was told to.
const LATEST: Duration = Duration::from_secs(1);

pub struct Nemesis {
    pub masters: Vec<Arc<Master>>,
    pub crew: Arc<Crew>,
    pub faults: Faults,
    pub dice: Dice,
    pub max_ttl: Duration,
    /// The rule that is switched off: what it does is what shows that.
    pub broken: Option<Rule>,
    /// When the clocks may go ahead again.
    pub clocks_due: u64,
}

const OF_PROCESSES: &[(Kind, usize)] = &[
    (Kind::Kill, 16),
    (Kind::Freeze, 10),
    (Kind::Delay, 6),
    (Kind::Lag, 3),
    (Kind::Limit, 5),
    (Kind::BlackHole, 8),
    (Kind::Deaf, 6),
    (Kind::Refuse, 6),
    (Kind::Reset, 8),
    (Kind::HalfOpen, 6),
    (Kind::ScriptFlush, 6),
    (Kind::Clock, 10),
    (Kind::Stop, 6),
    (Kind::Die, 6),
];

const OF_CONTAINERS: &[(Kind, usize)] = &[
    (Kind::Kill, 10),
    (Kind::Freeze, 10),
    (Kind::Cut, 10),
    (Kind::ScriptFlush, 5),
    (Kind::Clock, 5),
    (Kind::Stop, 5),
    (Kind::Die, 5),
];

/// The faults that are on.
#[derive(Default)]
struct Under {
    way: JoinSet<Victim>,
    victims: HashSet<Victim>,
}

impl Under {
    fn reap(&mut self) {
        while let Some(ended) = self.way.try_join_next() {
            self.ended(ended);
        }
    }

    async fn all_ended(&mut self) {
        while let Some(ended) = self.way.join_next().await {
            self.ended(ended);
        }
    }

    fn ended(&mut self, ended: Result<Victim, tokio::task::JoinError>) {
        self.victims.remove(&ended.expect("a fault ends"));
    }

    fn masters(&self) -> usize {
        let masters = self.victims.iter();
        masters
            .filter(|victim| matches!(victim, Victim::Master(_)))
            .count()
    }
}

impl Nemesis {
    /// Breaks things until it is told that it is over, and lets all be well again then.
    pub async fn rage(mut self, over: watch::Receiver<bool>) {
        let mut under = Under::default();
        let mut rage = clock::now();
        while !*over.borrow() {
            under.reap();
            match self.broken {
                Some(Rule::Quarantine) => self.ambush().await,
                Some(Rule::Drift) => {
                    self.advance_clocks(&HashSet::new()).await;
                    sleep(self.dice.millis(10..200)).await;
                }
                Some(Rule::Check) => {
                    self.strike_worker(Kind::Stop, &mut under);
                    sleep(self.dice.millis(100..500)).await;
                }
                _ => self.strike(&mut under).await,
            }
            if clock::between(rage, clock::now()) > RAGE {
                under.all_ended().await;
                sleep(REST).await;
                rage = clock::now();
            }
        }
        under.all_ended().await;
    }

    async fn strike(&mut self, under: &mut Under) {
        let kinds = match self.masters[0].is_container() {
            true => OF_CONTAINERS,
            false => OF_PROCESSES,
        };
        match self.dice.weighted(kinds) {
            Kind::Clock => self.advance_clocks(&under.victims).await,
            Kind::Lag => self.lag(under).await,
            Kind::ScriptFlush => self.flush_scripts(&under.victims).await,
            kind @ (Kind::Stop | Kind::Die) => self.strike_worker(kind, under),
            kind if under.masters() < MINORITY => self.strike_master(kind, under),
            _ => {}
        }
        sleep(self.dice.millis(30..300)).await;
    }

    fn strike_master(&mut self, kind: Kind, under: &mut Under) {
        let mut number = self.dice.below(self.masters.len());
        while !under.victims.insert(Victim::Master(number)) {
            number = (number + 1) % self.masters.len();
        }
        let victim = Victim::Master(number);
        let (master, faults) = (self.masters[number].clone(), self.faults.clone());
        let (max_ttl, length) = (self.max_ttl, self.dice.millis(200..2_500));
        let short = length / 8;
        let cut = self.cut(kind);
        under.way.spawn(async move {
            let mark = faults.begin(kind, victim);
            match (kind, cut) {
                (Kind::Kill, _) => master.kill(short).await,
                (Kind::Freeze, _) => master.freeze(length).await,
                (Kind::Cut, _) => master.cut_off(length).await,
                (Kind::Reset, Some(cut)) => master.disturb(cut, Duration::ZERO).await,
                (_, Some(cut)) => master.disturb(cut, length).await,
                (_, None) => unreachable!("{kind:?} is no fault of a master"),
            }
            drop(mark);
            match kind {
                Kind::Kill => {
                    let _mark = faults.begin(Kind::Quarantine, victim);
                    sleep(max_ttl + ROUNDING + RECONNECTION).await;
                }
                _ => sleep(RECONNECTION).await,
            }
            victim
        });
    }

    fn cut(&mut self, kind: Kind) -> Option<Cut> {
        match kind {
            Kind::Delay => Some(Cut::Delay(self.dice.millis(1..150))),
            Kind::Limit => Some(Cut::Limit(2_000 + self.dice.below(30_000))),
            Kind::BlackHole => Some(Cut::BlackHole),
            Kind::Deaf => Some(Cut::Deaf),
            Kind::Refuse => Some(Cut::Refuse),
            Kind::Reset => Some(Cut::Reset),
            Kind::HalfOpen => Some(Cut::HalfOpen),
            _ => None,
        }
    }

    fn strike_worker(&mut self, kind: Kind, under: &mut Under) {
        let seat = self.dice.below(self.crew.seats());
        let victim = Victim::Worker(seat);
        if !under.victims.insert(victim) {
            return;
        }
        let (crew, faults) = (self.crew.clone(), self.faults.clone());
        let length = self.max_ttl / 2 + self.dice.millis(0..2_000);
        under.way.spawn(async move {
            let _mark = faults.begin(kind, victim);
            match kind {
                Kind::Stop => {
                    crew.stop(seat).await;
                    sleep(length).await;
                    crew.cont(seat).await;
                }
                _ => crew.replace(seat).await,
            }
            victim
        });
    }

    /// All masters answer late for a while, so that rounds take longer than the drift. No other fault
    /// is on meanwhile.
    async fn lag(&mut self, under: &mut Under) {
        under.all_ended().await;
        let (delay, length) = (self.dice.millis(20..80), self.dice.millis(500..1_500));
        let masters = self.masters.iter().enumerate();
        let lag = masters.map(async |(number, master)| {
            let _mark = self.faults.begin(Kind::Lag, Victim::Master(number));
            master.disturb(Cut::Lag(delay), length).await;
        });
        futures::future::join_all(lag).await;
    }

    async fn flush_scripts(&self, spared: &HashSet<Victim>) {
        for (number, master) in self.masters.iter().enumerate() {
            let victim = Victim::Master(number);
            if !spared.contains(&victim) && master.flush_scripts().await {
                drop(self.faults.begin(Kind::ScriptFlush, victim));
            }
        }
    }

    /// All at once, but never twice within the life of a key.
    async fn advance_clocks(&mut self, spared: &HashSet<Victim>) {
        let now = clock::now();
        if now < self.clocks_due {
            return;
        }
        self.clocks_due = clock::after(now, self.max_ttl + LATEST);
        let masters = self.masters.iter().enumerate();
        let spare = |number| spared.contains(&Victim::Master(number));
        let advance =
            masters
                .filter(|(number, _)| !spare(*number))
                .map(async |(number, master)| {
                    if master.advance_clock().await {
                        drop(self.faults.begin(Kind::Clock, Victim::Master(number)));
                    }
                });
        futures::future::join_all(advance).await;
    }

    /// What shows that a master which restarted empty votes: two masters are cut off, so that locks
    /// are taken on the other three; they come back, and one of the three forgets.
    async fn ambush(&mut self) {
        let first = self.dice.below(self.masters.len());
        let at = |turn: usize| (first + turn) % self.masters.len();
        let length = self.dice.millis(400..1_000);
        let cut_off = async |number: usize| {
            let _mark = self.faults.begin(Kind::Refuse, Victim::Master(number));
            self.masters[number].disturb(Cut::Refuse, length).await;
        };
        tokio::join!(cut_off(at(0)), cut_off(at(1)));
        sleep(RECONNECTION / 2).await;
        let forgetful = at(2);
        let mark = self.faults.begin(Kind::Kill, Victim::Master(forgetful));
        self.masters[forgetful].kill(Duration::ZERO).await;
        drop(mark);
        sleep(self.dice.millis(300..1_000)).await;
    }
}
