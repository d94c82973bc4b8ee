//! How old a master is at the least, and how long it has no vote (S13).

use std::time::Duration;

use proptest::prelude::*;
use redquorum::core::{Age, Evidence, Moment, Quarantine, Ttl};

use crate::{any_duration, any_moment};

const SECOND: Duration = Duration::from_secs(1);

fn at(nanos: u64) -> Moment {
    Moment::from_origin(Duration::from_nanos(nanos))
}

fn nanos(duration: Duration) -> u128 {
    duration.as_nanos()
}

fn young(age: Age) -> Evidence {
    Evidence {
        age,
        keeps_all: false,
    }
}

fn any_ttl() -> impl Strategy<Value = Ttl> {
    (1..=Ttl::MAX.as_millis()).prop_map(|millis| Ttl::new(Duration::from_millis(millis)).unwrap())
}

proptest! {
    /// A server that came up at `born` and reports whole seconds of its clock,
    /// whose ticks come at any time, is never taken for older than it is.
    #[test]
    fn s13_no_server_is_taken_for_older_than_it_is(
        born in 0..1u64 << 40,
        up in 0..1u64 << 40,
        tick in 0..1_000_000_000u64,
        way_back in 0..1u64 << 32,
        later in 0..1u64 << 40,
    ) {
        let second = 1_000_000_000;
        let reports = (born + up + tick) / second - (born + tick) / second;
        let answered = born + up + way_back;
        let age = Age::reported(Duration::from_secs(reports), at(answered));
        let now = answered + later;
        prop_assert!(nanos(age.at(at(now))) <= u128::from(now - born));
        // And not for younger than it must be.
        let lost = nanos(2 * SECOND) + u128::from(way_back);
        prop_assert!(nanos(age.at(at(now))) + lost >= u128::from(now - born));
    }

    #[test]
    fn s13_the_age_is_the_uptime_less_a_second_and_what_has_passed_since(
        uptime in any_duration(),
        answered in any_moment(),
        now in any_moment(),
    ) {
        let exact = nanos(uptime).saturating_sub(nanos(SECOND)) + nanos(now.since(answered));
        let exact = exact.min(nanos(Duration::MAX));
        prop_assert_eq!(nanos(Age::reported(uptime, answered).at(now)), exact);
    }

    #[test]
    fn s13_a_server_that_says_nothing_is_as_old_as_its_connection(
        seen in any_moment(),
        now in any_moment(),
    ) {
        prop_assert_eq!(Age::since(seen).at(now), now.since(seen));
    }

    #[test]
    fn s13_of_two_ages_the_larger_counts(
        first in (0..1u64 << 50, 0..1u64 << 50),
        second in (0..1u64 << 50, 0..1u64 << 50),
        later in 0..1u64 << 50,
    ) {
        let age = |(uptime, answered)| Age::reported(Duration::from_nanos(uptime), at(answered));
        let (one, other) = (age(first), age(second));
        let now = at(first.1.max(second.1) + later);
        let larger = one.at(now).max(other.at(now));
        prop_assert_eq!(one.or_older(other).at(now), larger);
        prop_assert_eq!(other.or_older(one).at(now), larger);
    }

    #[test]
    fn s13_a_master_has_no_vote_until_it_is_as_old_as_the_longest_ttl(
        ttl in any_ttl(),
        longest in any_duration(),
        seen in any_moment(),
        now in any_moment(),
    ) {
        let age = Age::since(seen);
        let left = Quarantine::of(longest).remaining(ttl, &young(age), || now);
        let quarantine = nanos(longest).max(u128::from(ttl.as_millis()) * 1_000_000);
        prop_assert_eq!(nanos(left), quarantine.saturating_sub(nanos(age.at(now))));
        prop_assert_eq!(left.is_zero(), age.at(now) >= longest.max(ttl.as_duration()));
    }

    /// What is said to be left is exactly when it votes.
    #[test]
    fn s13_it_votes_when_what_is_left_is_over(
        ttl in 1..1u64 << 40,
        longest in 0..1u64 << 40,
        seen in 0..1u64 << 50,
        now in 0..1u64 << 50,
    ) {
        let ttl = Ttl::new(Duration::from_millis(ttl)).unwrap();
        let quarantine = Quarantine::of(Duration::from_millis(longest));
        let evidence = young(Age::since(at(seen)));
        let left = quarantine.remaining(ttl, &evidence, || at(now));
        let then = at(now).after(left);
        if now >= seen {
            prop_assert!(quarantine.remaining(ttl, &evidence, || then).is_zero());
        }
        if let Some(before) = left.checked_sub(Duration::from_nanos(1)) {
            prop_assert!(!quarantine.remaining(ttl, &evidence, || at(now).after(before)).is_zero());
        }
    }

    #[test]
    fn s13_a_master_that_keeps_all_votes_at_once_and_so_does_any_without_quarantine(
        ttl in any_ttl(),
        longest in any_duration(),
        seen in any_moment(),
        now in any_moment(),
    ) {
        let age = Age::since(seen);
        let keeps = Evidence { age, keeps_all: true };
        prop_assert!(Quarantine::of(longest).remaining(ttl, &keeps, || now).is_zero());
        prop_assert!(Quarantine::OFF.remaining(ttl, &young(age), || now).is_zero());
    }

    #[test]
    fn s13_without_a_longest_ttl_the_quarantine_is_the_ttl_that_is_asked_for(
        ttl in any_ttl(),
        seen in any_moment(),
        now in any_moment(),
    ) {
        let evidence = young(Age::since(seen));
        let left = Quarantine::of_one_ttl().remaining(ttl, &evidence, || now);
        prop_assert_eq!(left, ttl.as_duration().saturating_sub(now.since(seen)));
    }
}
