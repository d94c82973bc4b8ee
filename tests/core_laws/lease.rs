use std::time::Duration;

use proptest::prelude::*;
use redquorum::core::{Drift, InvalidTerms, Lease, Moment, Terms, Ttl};

use crate::{Ask, any_duration, any_moment, asks, at_millis, nanos, nanos_at};

fn drifts() -> impl Strategy<Value = Drift> {
    let floor = prop_oneof![
        3 => (0..5_000_000u64).prop_map(Duration::from_nanos),
        1 => any_duration(),
    ];
    (0.0..1.0f64, floor).prop_map(|(factor, floor)| Drift::new(factor, floor).unwrap())
}

/// A moment of the first hundred years, and a time that has passed since then.
fn elapsed(longest: Duration) -> impl Strategy<Value = (Moment, Duration)> {
    let longest = longest.as_nanos() as u64;
    (0..3_000_000_000_000_000_000u64, 0..=longest).prop_map(|(started, elapsed)| {
        let started = Moment::from_origin(Duration::from_nanos(started));
        (started, Duration::from_nanos(elapsed))
    })
}

#[test]
fn ten_seconds_are_worth_9_898_milliseconds() {
    let ttl = Ttl::new(Duration::from_secs(10)).unwrap();
    let terms = Terms::new(ttl, Drift::default(), Duration::ZERO).unwrap();
    let lease = terms.lease(at_millis(1_000));
    assert_eq!(lease.deadline(), at_millis(10_898));
    assert_eq!(
        lease.validity(at_millis(1_050)),
        Duration::from_millis(9_848)
    );
}

#[test]
fn s02_a_lease_is_not_valid_at_its_deadline() {
    let lease = Lease::until(at_millis(100));
    assert!(lease.is_valid(at_millis(99)));
    assert!(!lease.is_valid(at_millis(100)));
    assert_eq!(lease.validity(at_millis(101)), Duration::ZERO);
}

#[test]
fn s02_the_smallest_validity_must_be_exceeded() {
    let terms = Ask::millis(100, 10, 30).terms();
    let started = at_millis(0);
    let last = at_millis(60);
    let just_before = Moment::from_origin(Duration::from_millis(60) - Duration::from_nanos(1));
    assert!(terms.lease_if_valid(started, just_before).is_some());
    assert_eq!(terms.lease_if_valid(started, last), None);
}

#[test]
fn s15_a_ttl_that_is_not_above_its_drift_is_refused() {
    let drift = Drift::new(0.01, Duration::from_millis(2)).unwrap();
    let terms = |millis| {
        let ttl = Ttl::new(Duration::from_millis(millis)).unwrap();
        Terms::new(ttl, drift, Duration::ZERO)
    };
    assert_eq!(
        terms(2).unwrap_err().to_string(),
        "a TTL of 2ms leaves no usable validity: the drift is 2.02ms and the validity must be \
         more than 0ns; ask for a longer TTL"
    );
    assert!(terms(3).is_ok());
}

#[test]
fn s15_a_ttl_that_leaves_no_more_than_the_smallest_validity_is_refused() {
    let ttl = Ttl::new(Duration::from_millis(100)).unwrap();
    let drift = Drift::new(0.0, Duration::from_millis(10)).unwrap();
    let left = Duration::from_millis(90);
    assert!(Terms::new(ttl, drift, left).is_err());
    assert!(Terms::new(ttl, drift, left - Duration::from_nanos(1)).is_ok());
}

proptest! {
    #[test]
    fn s02_validity_is_exactly_ttl_minus_drift_minus_elapsed(
        (ttl, (started, elapsed)) in (1..=100_000u64).prop_flat_map(|millis| {
            let ttl = Duration::from_millis(millis);
            (Just(ttl), elapsed(ttl + ttl))
        }),
        drift in drifts(),
    ) {
        let ttl = Ttl::new(ttl).unwrap();
        let Ok(terms) = Terms::new(ttl, drift, Duration::ZERO) else { return Ok(()) };
        let now = started.after(elapsed);
        let exact = nanos(ttl.as_duration()) - nanos(drift.of(ttl)) - nanos(elapsed);
        prop_assert_eq!(nanos(terms.lease(started).validity(now)), exact.max(0));
        prop_assert_eq!(terms.lease(started).is_valid(now), exact > 0);
        prop_assert_eq!(terms.lease_if_valid(started, now).is_some(), exact > 0);
    }

    #[test]
    fn s02_never_a_lease_with_the_smallest_validity_or_less(
        (ask, (started, elapsed)) in asks().prop_flat_map(|ask| {
            let near = prop::sample::select(vec![ask.window(), ask.length(), ask.ttl])
                .prop_flat_map(|end| (Just(Moment::default()), {
                    let end = end.as_nanos() as u64;
                    (end.saturating_sub(2)..=end + 2).prop_map(Duration::from_nanos)
                }));
            (Just(ask), prop_oneof![near, elapsed(ask.ttl)])
        })
    ) {
        let terms = ask.terms();
        let now = started.after(elapsed);
        let left = nanos(ask.ttl) - nanos(ask.drift) - nanos(elapsed);
        let lease = terms.lease_if_valid(started, now);
        prop_assert_eq!(lease.is_some(), left > nanos(ask.min_validity));
        prop_assert_eq!(lease.is_some(), elapsed < terms.window());
        if let Some(lease) = lease {
            prop_assert_eq!(lease, terms.lease(started));
            prop_assert_eq!(nanos(lease.validity(now)), left);
        }
    }

    #[test]
    fn s15_terms_are_refused_exactly_when_nothing_usable_is_left(
        asked in any_duration(), drift in drifts(), min_validity in any_duration(),
    ) {
        let Ok(ttl) = Ttl::new(asked) else { return Ok(()) };
        let allowance = drift.of(ttl);
        let left = nanos(ttl.as_duration()) - nanos(allowance);
        match Terms::new(ttl, drift, min_validity) {
            Ok(terms) => {
                prop_assert!(left > nanos(min_validity));
                prop_assert_eq!(nanos(terms.window()), left - nanos(min_validity));
                prop_assert_eq!(terms.ttl(), ttl);
            }
            Err(refusal) => {
                prop_assert!(left <= nanos(min_validity));
                let said = InvalidTerms { ttl: ttl.as_duration(), drift: allowance, min_validity };
                prop_assert_eq!(refusal, said);
            }
        }
    }

    #[test]
    fn no_moment_overflows_and_no_lease_is_longer_for_it(
        asked in any_duration(), drift in drifts(), min_validity in any_duration(),
        started in any_moment(), now in any_moment(),
    ) {
        let terms = Ttl::new(asked).ok().and_then(|ttl| Terms::new(ttl, drift, min_validity).ok());
        let Some(terms) = terms else { return Ok(()) };
        let left = nanos(terms.ttl().as_duration()) - nanos(drift.of(terms.ttl()))
            - (nanos_at(now) - nanos_at(started));
        let lease = terms.lease(started);
        prop_assert!(nanos(lease.validity(now)) <= left.max(0));
        prop_assert!(nanos_at(lease.deadline()) <= nanos_at(now) + left);
        if let Some(won) = terms.lease_if_valid(started, now) {
            prop_assert_eq!(won, lease);
            prop_assert!(lease.validity(now) > min_validity);
        }
    }

    #[test]
    fn moments_add_and_subtract_up_to_the_ends(
        a in any_moment(), b in any_moment(), delay in any_duration(),
    ) {
        prop_assert_eq!(nanos(a.since(b)), (nanos_at(a) - nanos_at(b)).max(0));
        let sum = nanos_at(a) + nanos(delay);
        prop_assert_eq!(nanos_at(a.after(delay)), sum.min(nanos(Duration::MAX)));
    }

    #[test]
    fn the_shorter_of_two_leases_ends_first(a in any_moment(), b in any_moment()) {
        let (first, second) = (Lease::until(a), Lease::until(b));
        prop_assert_eq!(first.shorter(second).deadline(), a.min(b));
        prop_assert_eq!(first.shorter(second), second.shorter(first));
    }
}
