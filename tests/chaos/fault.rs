//! Faults: their kinds, and when each was on.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use crate::HORIZON;
use crate::clock;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// A master is killed, and starts again empty.
    Kill,
    /// What follows: it has no vote for a while.
    Quarantine,
    /// A master is stopped, or a container paused, and goes on.
    Freeze,
    /// What passes between clients and a master is late, …
    Delay,
    /// … and that of all masters at once, …
    Lag,
    /// … slow, …
    Limit,
    /// … lost …
    BlackHole,
    /// … or only what the master says.
    Deaf,
    /// Connections to a master are reset, and new ones refused.
    Refuse,
    /// Connections to a master are reset, once.
    Reset,
    /// Connections to a master end at its side alone.
    HalfOpen,
    /// A container is cut off its network.
    Cut,
    /// A master forgets its scripts.
    ScriptFlush,
    /// The clocks of masters go ahead within the drift.
    Clock,
    /// A worker is stopped for longer than its leases live, and goes on.
    Stop,
    /// A worker is killed while it holds locks, and replaced.
    Die,
}

impl Kind {
    pub const ALL: &[Self] = &[
        Kind::Kill,
        Kind::Quarantine,
        Kind::Freeze,
        Kind::Delay,
        Kind::Lag,
        Kind::Limit,
        Kind::BlackHole,
        Kind::Deaf,
        Kind::Refuse,
        Kind::Reset,
        Kind::HalfOpen,
        Kind::Cut,
        Kind::ScriptFlush,
        Kind::Clock,
        Kind::Stop,
    ];

    pub fn color(self) -> &'static str {
        match self {
            Kind::Kill | Kind::Die => "#222222",
            Kind::Quarantine => "#bbbbbb",
            Kind::Freeze | Kind::Stop => "#5b8fd0",
            Kind::Delay => "#c9b458",
            Kind::Lag => "#e5dba6",
            Kind::Limit => "#a58b2b",
            Kind::BlackHole => "#7a4fa3",
            Kind::Deaf => "#b58ad6",
            Kind::Refuse | Kind::Cut => "#d1603d",
            Kind::Reset => "#e08b8b",
            Kind::HalfOpen => "#e0a458",
            Kind::ScriptFlush => "#2e8b57",
            Kind::Clock => "#00aacc",
        }
    }

    pub fn name(self) -> &'static str {
        match self {
            Kind::Kill => "kill",
            Kind::Quarantine => "quarantine",
            Kind::Freeze => "freeze",
            Kind::Delay => "delay",
            Kind::Lag => "all late",
            Kind::Limit => "slow",
            Kind::BlackHole => "black hole",
            Kind::Deaf => "replies lost",
            Kind::Refuse => "refuse",
            Kind::Reset => "reset",
            Kind::HalfOpen => "half-open",
            Kind::Cut => "network cut",
            Kind::ScriptFlush => "script flush",
            Kind::Clock => "clock ahead",
            Kind::Stop => "worker stopped",
            Kind::Die => "worker killed",
        }
    }
}

/// What a fault is of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Victim {
    Master(usize),
    Worker(usize),
}

/// A fault, from its beginning to its end.
#[derive(Clone, Copy, Debug)]
pub struct Span {
    pub kind: Kind,
    pub victim: Victim,
    pub from: u64,
    /// None while it is on.
    pub until: Option<u64>,
}

/// All faults so far: the last of them, and how many there were of each kind.
#[derive(Clone, Default)]
pub struct Faults(Arc<Mutex<Record>>);

#[derive(Default)]
struct Record {
    spans: BTreeMap<u64, Span>,
    begun: u64,
    counts: BTreeMap<Kind, usize>,
    /// How many are on, and since when any is.
    on: usize,
    since: u64,
    /// When any was on before.
    periods: VecDeque<(u64, u64)>,
    on_in_all: Duration,
}

/// Ends the fault in the record when it is dropped.
pub struct Mark {
    faults: Faults,
    number: u64,
}

impl Faults {
    #[must_use = "the fault ends in the record when this is dropped"]
    pub fn begin(&self, kind: Kind, victim: Victim) -> Mark {
        let number = self.record().begin(kind, victim);
        Mark {
            faults: self.clone(),
            number,
        }
    }

    /// Those of the last while.
    pub fn spans(&self) -> Vec<Span> {
        self.record().spans.values().copied().collect()
    }

    pub fn counts(&self) -> BTreeMap<Kind, usize> {
        self.record().counts.clone()
    }

    /// Whether one was on at a moment of the last while.
    pub fn were_on(&self, at: u64) -> bool {
        let record = self.record();
        let now = record.on > 0 && at >= record.since;
        let mut periods = record.periods.iter();
        now || periods.any(|(from, until)| (*from..*until).contains(&at))
    }

    /// For how long any was on, as far as they have ended.
    pub fn on_in_all(&self) -> Duration {
        self.record().on_in_all
    }

    /// For how much of this time a worker was stopped.
    pub fn stopped(&self, seat: usize, from: u64, until: u64) -> Duration {
        let record = self.record();
        let stops = record
            .spans
            .values()
            .filter(|span| (span.kind, span.victim) == (Kind::Stop, Victim::Worker(seat)));
        stops
            .map(|stop| {
                let end = stop.until.unwrap_or(until).min(until);
                clock::between(stop.from.max(from), end)
            })
            .sum()
    }

    fn record(&self) -> MutexGuard<'_, Record> {
        self.0.lock().expect("nobody panics with it")
    }
}

impl Record {
    fn begin(&mut self, kind: Kind, victim: Victim) -> u64 {
        let from = clock::now();
        if self.on == 0 {
            self.since = from;
        }
        self.on += 1;
        *self.counts.entry(kind).or_default() += 1;
        let number = self.begun;
        self.begun += 1;
        let span = Span {
            kind,
            victim,
            from,
            until: None,
        };
        self.spans.insert(number, span);
        number
    }

    fn end(&mut self, number: u64) {
        let now = clock::now();
        if let Some(span) = self.spans.get_mut(&number) {
            span.until = Some(now);
        }
        self.on -= 1;
        if self.on == 0 {
            self.periods.push_back((self.since, now));
            self.on_in_all += clock::between(self.since, now);
        }
        self.forget(now);
    }

    fn forget(&mut self, now: u64) {
        let old = now.saturating_sub(HORIZON.as_nanos() as u64);
        self.spans
            .retain(|_, span| span.until.is_none_or(|until| until > old));
        while self.periods.front().is_some_and(|(_, until)| *until < old) {
            self.periods.pop_front();
        }
    }
}

impl Drop for Mark {
    fn drop(&mut self) {
        self.faults.record().end(self.number);
    }
}
