use std::time::Duration;

use proptest::prelude::*;
use redquorum::core::{Drift, Renewal, Terms, Ttl};

use crate::{any_duration, asks};

fn renewal(ttl: u64) -> Renewal {
    let ttl = Ttl::new(Duration::from_millis(ttl)).unwrap();
    Renewal::new(Terms::new(ttl, Drift::default(), Duration::ZERO).unwrap())
}

#[test]
fn a_lease_is_extended_after_a_third_of_its_ttl() {
    assert_eq!(renewal(9_000).period(), Duration::from_secs(3));
    let left = Duration::from_millis(9_000 - 92);
    assert_eq!(renewal(9_000).pause(left), Duration::from_secs(3));
}

#[test]
fn a_short_lease_is_extended_at_most_nine_times_a_second() {
    assert_eq!(renewal(200).period(), Duration::from_millis(112));
    assert_eq!(renewal(300).period(), Duration::from_millis(112));
}

#[test]
fn a_very_short_lease_is_extended_when_a_bit_more_than_half_is_over() {
    // 97 ms are valid.
    let period = renewal(100).period();
    assert!(period > Duration::from_millis(55) && period < Duration::from_millis(56));
}

#[test]
fn what_was_extended_by_hand_is_extended_when_as_much_is_left_as_ever() {
    let left = Duration::from_secs(60);
    let due = Duration::from_millis(9_000 - 92 - 3_000);
    assert_eq!(renewal(9_000).pause(left), left - due);
    assert_eq!(renewal(9_000).pause(due), Duration::ZERO);
    assert_eq!(renewal(9_000).pause(Duration::ZERO), Duration::ZERO);
}

#[test]
fn a_retry_comes_after_an_eighth_to_a_quarter_of_what_is_left() {
    let left = Duration::from_secs(8);
    assert_eq!(Renewal::retry(left, 0), Some(left / 8));
    assert_eq!(Renewal::retry(left, 1 << 63), Some(left * 3 / 16));
    assert_eq!(Renewal::retry(left, u64::MAX).unwrap().as_millis(), 1999);
}

#[test]
fn near_the_deadline_there_is_no_retry() {
    let millis = Duration::from_millis;
    assert_eq!(Renewal::retry(millis(11), 0), Some(millis(10)));
    assert_eq!(Renewal::retry(millis(10), 0), None);
    assert_eq!(Renewal::retry(Duration::ZERO, 0), None);
}

proptest! {
    /// Something is left when an extension is due, and time has passed since
    /// the last one: neither too late nor in a tight loop.
    #[test]
    fn an_extension_is_due_within_the_lease(ask in asks()) {
        let renewal = Renewal::new(ask.terms());
        let (period, length) = (renewal.period(), ask.length());
        prop_assert!(period < length);
        prop_assert!(period <= length * 4 / 7);
        prop_assert!(period >= (length / 7 * 4).min(Duration::from_millis(112)));
        prop_assert_eq!(renewal.pause(length), period);
    }

    #[test]
    fn a_pause_never_leaves_less_than_what_is_due(ask in asks(), left in any_duration()) {
        let renewal = Renewal::new(ask.terms());
        let pause = renewal.pause(left);
        let due = ask.length() - renewal.period();
        prop_assert!(pause <= left);
        prop_assert_eq!(left - pause, left.min(due));
    }

    #[test]
    fn a_retry_leaves_something_and_is_never_at_once(left in any_duration(), random: u64) {
        match Renewal::retry(left, random) {
            Some(pause) => {
                prop_assert!(pause < left);
                prop_assert!(pause >= Duration::from_millis(10));
                prop_assert!(pause >= left / 8);
                prop_assert!(pause <= (left / 4).max(Duration::from_millis(10)));
            }
            None => prop_assert!(left <= Duration::from_millis(10)),
        }
    }

    /// However they fall, the retries of one lease are few.
    #[test]
    fn the_retries_of_a_lease_of_ten_seconds_are_few(randoms in prop::collection::vec(any::<u64>(), 64)) {
        let mut left = Duration::from_secs(10);
        let mut retries = 0;
        for random in randoms {
            let Some(pause) = Renewal::retry(left, random) else { break };
            left -= pause;
            retries += 1;
        }
        prop_assert!(retries <= 50, "{}", retries);
    }
}
