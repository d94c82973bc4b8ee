use std::time::Duration;

use proptest::prelude::*;
use redquorum::core::{Backoff, InvalidBackoff};

use crate::any_duration;

fn backoffs() -> impl Strategy<Value = (Backoff, Duration, Duration)> {
    (any_duration(), any_duration()).prop_filter_map("a base above zero", |(a, b)| {
        let (base, cap) = (a.min(b), a.max(b));
        Some((Backoff::new(base, cap).ok()?, base, cap))
    })
}

/// Few failures mostly, but any number.
fn failures() -> impl Strategy<Value = u32> {
    prop_oneof![8 => 0..100u32, 1 => any::<u32>(), 1 => Just(u32::MAX)]
}

/// `min(cap, base * 2^failures)` in nanoseconds. After 94 doublings one
/// nanosecond is longer than any [`Duration`].
fn exact_bound(base: Duration, cap: Duration, failures: u32) -> u128 {
    let doubled = (failures < 94)
        .then(|| base.as_nanos().checked_mul(1 << failures))
        .flatten();
    doubled.unwrap_or(u128::MAX).min(cap.as_nanos())
}

/// `floor(bound * random / 2^64)`, multiplied in two halves of 64 bits.
fn exact_share(bound: u128, random: u64) -> u128 {
    let low = bound & u128::from(u64::MAX);
    (bound >> 64) * u128::from(random) + ((low * u128::from(random)) >> 64)
}

#[test]
fn the_default_doubles_from_5_to_250_milliseconds() {
    let bounds = (0..8).map(|failures| Backoff::default().bound(failures).as_millis());
    assert_eq!(
        bounds.collect::<Vec<_>>(),
        [5, 10, 20, 40, 80, 160, 250, 250]
    );
}

#[test]
fn a_pause_is_a_random_share_of_the_bound() {
    let backoff = Backoff::new(Duration::from_millis(8), Duration::from_millis(8)).unwrap();
    assert_eq!(backoff.delay(0, 0), Duration::ZERO);
    assert_eq!(backoff.delay(0, 1 << 63), Duration::from_millis(4));
    assert_eq!(backoff.delay(0, u64::MAX), Duration::from_nanos(7_999_999));
}

#[test]
fn the_bound_still_doubles_after_32_failures() {
    let backoff = Backoff::new(Duration::from_nanos(1), Duration::from_secs(3_600)).unwrap();
    let after_32 = Duration::from_nanos(1 << 32);
    assert_eq!(backoff.bound(32), after_32);
    assert_eq!(backoff.bound(33), after_32 * 2);
    assert_eq!(backoff.bound(42), Duration::from_secs(3_600));
}

#[test]
fn a_refusal_names_both() {
    let refusal = Backoff::new(Duration::from_millis(5), Duration::from_millis(4)).unwrap_err();
    assert_eq!(
        refusal.to_string(),
        "a backoff needs a base above zero and a cap of at least the base, not 5ms and 4ms"
    );
}

proptest! {
    #[test]
    fn a_zero_base_and_a_cap_below_the_base_are_refused(
        base in any_duration(), cap in any_duration(),
    ) {
        let fits = !base.is_zero() && base <= cap;
        match Backoff::new(base, cap) {
            Ok(_) => prop_assert!(fits),
            Err(refusal) => {
                prop_assert!(!fits);
                prop_assert_eq!(refusal, InvalidBackoff { base, cap });
            }
        }
    }

    #[test]
    fn the_bound_doubles_up_to_the_cap((backoff, base, cap) in backoffs(), failures in failures()) {
        let bound = backoff.bound(failures);
        prop_assert_eq!(bound.as_nanos(), exact_bound(base, cap, failures));
    }

    #[test]
    fn the_pause_is_exactly_the_share_of_the_bound(
        (backoff, base, cap) in backoffs(), failures in failures(), random: u64,
    ) {
        let delay = backoff.delay(failures, random);
        prop_assert_eq!(delay.as_nanos(), exact_share(exact_bound(base, cap, failures), random));
        prop_assert!(delay < backoff.bound(failures));
    }

    #[test]
    fn more_randomness_is_never_a_shorter_pause(
        (backoff, _, _) in backoffs(), failures in failures(), a: u64, b: u64,
    ) {
        prop_assert!(backoff.delay(failures, a.min(b)) <= backoff.delay(failures, a.max(b)));
    }
}
