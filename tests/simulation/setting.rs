//! What a seed makes of a run: how many take part, what they are like, and which
//! faults there are.

use std::time::Duration;

use super::dice::Dice;
use super::master::Skew;
use super::nemesis::Kind;

#[derive(Clone, Debug)]
pub(crate) struct Setting {
    pub(crate) seed: u64,
    pub(crate) planted: Planted,
    pub(crate) masters: usize,
    pub(crate) clients: usize,
    /// Tasks of each client.
    pub(crate) workers: usize,
    pub(crate) resources: usize,
    /// What locks are asked for with; all clients know the longest.
    pub(crate) ttls: Vec<Duration>,
    pub(crate) latency: (Duration, Duration),
    pub(crate) master_timeout: Duration,
    pub(crate) connect_timeout: Duration,
    /// For how long there are faults.
    pub(crate) chaos: Duration,
    pub(crate) faults: Vec<Kind>,
    /// The most that passes between two faults, in milliseconds.
    pub(crate) peace: u64,
    pub(crate) no_kill: bool,
    pub(crate) old: bool,
    pub(crate) durable: Vec<bool>,
    pub(crate) skews: Vec<Skew>,
}

/// A fault that is planted, to see that it is found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Planted {
    Nothing,
    /// Masters that have lost their memory vote at once.
    NoQuarantine,
    /// Clocks of masters run fast, and nobody allows for it.
    NoDrift,
    /// Masters take no notice of `NX`.
    NoNx,
}

impl Setting {
    pub(crate) fn of(seed: u64, planted: Planted) -> Self {
        let mut dice = Dice::of(seed);
        let masters = *dice.pick(&[3, 3, 3, 4, 5, 5]);
        let ttls = ttls(&mut dice);
        let is_long = ttls.iter().max() > Some(&Duration::from_secs(5));
        let mut faults = Kind::some(&mut dice);
        if is_long {
            // Otherwise most of the run is quarantine, or waiting for keys to expire.
            faults.retain(|kind| !matches!(kind, Kind::Kill | Kind::Crash));
        }
        let slowest = *dice.pick(&[1, 2, 5, 15]);
        Self {
            seed,
            planted,
            masters,
            clients: 2 + dice.index(3),
            workers: 1 + dice.index(3),
            resources: 1 + dice.index(3),
            ttls,
            latency: (Duration::from_millis(1), Duration::from_millis(1 + slowest)),
            master_timeout: *dice.pick(&[50, 50, 100].map(Duration::from_millis)),
            connect_timeout: *dice.pick(&[200, 1000].map(Duration::from_millis)),
            chaos: dice.millis(2000, 6000),
            faults,
            peace: *dice.pick(&[150, 500, 1500]),
            no_kill: dice.chance(10),
            old: dice.chance(10),
            durable: (0..masters).map(|_| dice.chance(10)).collect(),
            skews: (0..masters).map(|_| skew(&mut dice, planted)).collect(),
        }
    }

    pub(crate) fn longest_ttl(&self) -> Duration {
        self.ttls.iter().copied().max().unwrap_or_default()
    }

    /// How long it may take after the last fault until every client has had every
    /// lock. A client may have to notice that a connection is silent, and to
    /// connect again; where memory was lost, the quarantine and the keys' time to
    /// live have to pass.
    pub(crate) fn patience(&self, memory_was_lost: bool) -> Duration {
        let reconnected = Duration::from_secs(4) + self.connect_timeout * 2;
        let contended = Duration::from_secs(2);
        reconnected + contended + self.remains(memory_was_lost)
    }

    /// How long a key may stay that nobody holds.
    pub(crate) fn remains(&self, memory_was_lost: bool) -> Duration {
        match memory_was_lost || self.no_kill {
            true => self.longest_ttl() * 2 + Duration::from_secs(2),
            false => Duration::ZERO,
        }
    }
}

fn ttls(dice: &mut Dice) -> Vec<Duration> {
    let longest = *dice.pick(&[150, 300, 700, 700, 1500, 1500, 4000, 30_000]);
    let shorter = longest / 2;
    let ttls = match dice.chance(30) {
        true => vec![longest, shorter],
        false => vec![longest],
    };
    ttls.into_iter().map(Duration::from_millis).collect()
}

/// Within a drift of one per cent.
fn skew(dice: &mut Dice, planted: Planted) -> Skew {
    let parts_per_million = match planted {
        Planted::NoDrift => 9_000,
        _ => dice.below(17_001) as i64 - 8_500,
    };
    Skew {
        offset: Duration::from_secs(200_000) + dice.millis(0, 2000),
        parts_per_million,
    }
}
