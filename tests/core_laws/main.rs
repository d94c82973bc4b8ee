//! The laws of the pure core, one file a noun.
//!
//! Each law is stated exactly and compared with arithmetic of its own: whole
//! nanoseconds in 128 bits, and the enumeration of all that could still happen.
//! A test that holds a rule of safety is named after it: `s01_…` to `s18_…`.

mod acquire;
mod admission;
mod backoff;
mod drift;
mod extend;
mod lease;
mod quorum;
mod release;
mod renewal;
mod round;
mod ttl;

use std::time::Duration;

use proptest::prelude::*;
use redquorum::core::{Drift, Moment, Quorum, Terms, Ttl};

/// Every quorum that is allowed, of 1 to 9 masters.
fn quorums() -> impl Strategy<Value = Quorum> {
    (1..=9usize)
        .prop_flat_map(|masters| (Just(masters), masters / 2 + 1..=masters))
        .prop_map(|(masters, needed)| Quorum::new(masters, needed).unwrap())
}

fn three_of_five() -> Quorum {
    Quorum::new(5, 3).unwrap()
}

/// Any duration there is, the ends of the range and of Redis' range more often
/// than chance would have it.
fn any_duration() -> impl Strategy<Value = Duration> {
    prop_oneof![
        4 => any::<Duration>(),
        4 => (0..10_000_000_000u64).prop_map(Duration::from_nanos),
        1 => any::<u64>().prop_map(Duration::from_millis),
        1 => prop::sample::select(vec![
            Duration::ZERO,
            Duration::from_nanos(1),
            Duration::from_nanos(999_999),
            Duration::from_millis(1),
            Duration::from_millis(1) + Duration::from_nanos(1),
            Ttl::MAX.as_duration(),
            Ttl::MAX.as_duration() + Duration::from_nanos(999_999),
            Ttl::MAX.as_duration() + Duration::from_millis(1),
            Duration::from_millis(u64::MAX),
            Duration::MAX - Duration::from_nanos(1),
            Duration::MAX,
        ]),
    ]
}

fn any_moment() -> impl Strategy<Value = Moment> {
    any_duration().prop_map(Moment::from_origin)
}

/// What a round asks for, in numbers that the laws can be stated in.
#[derive(Clone, Copy, Debug)]
struct Ask {
    ttl: Duration,
    drift: Duration,
    min_validity: Duration,
}

impl Ask {
    fn millis(ttl: u64, drift: u64, min_validity: u64) -> Self {
        Self {
            ttl: Duration::from_millis(ttl),
            drift: Duration::from_millis(drift),
            min_validity: Duration::from_millis(min_validity),
        }
    }

    fn terms(self) -> Terms {
        let drift = Drift::new(0.0, self.drift).unwrap();
        Terms::new(Ttl::new(self.ttl).unwrap(), drift, self.min_validity).unwrap()
    }

    /// The validity of a round that took no time.
    fn length(self) -> Duration {
        self.ttl - self.drift
    }

    /// A round that takes this long or longer can't win.
    fn window(self) -> Duration {
        self.length() - self.min_validity
    }
}

/// Everything that can be asked for with a TTL of up to a minute.
fn asks() -> impl Strategy<Value = Ask> {
    (1..=60_000u64)
        .prop_map(|millis| millis * 1_000_000)
        .prop_flat_map(|ttl| (Just(ttl), 0..ttl))
        .prop_flat_map(|(ttl, drift)| {
            let min_validity = prop_oneof![Just(0), 0..ttl - drift];
            (Just(ttl), Just(drift), min_validity)
        })
        .prop_map(|(ttl, drift, min_validity)| Ask {
            ttl: Duration::from_nanos(ttl),
            drift: Duration::from_nanos(drift),
            min_validity: Duration::from_nanos(min_validity),
        })
}

fn at_millis(millis: u64) -> Moment {
    Moment::from_origin(Duration::from_millis(millis))
}

fn nanos(duration: Duration) -> i128 {
    duration.as_nanos() as i128
}

/// The distance from the origin, in nanoseconds.
fn nanos_at(moment: Moment) -> i128 {
    nanos(moment.since(Moment::default()))
}
