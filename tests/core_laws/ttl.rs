use std::time::Duration;

use proptest::prelude::*;
use redquorum::core::{InvalidTtl, Ttl};

use crate::any_duration;

#[test]
fn s15_a_ttl_below_a_millisecond_is_refused() {
    for asked in [Duration::ZERO, Duration::from_nanos(999_999)] {
        assert_eq!(Ttl::new(asked), Err(InvalidTtl::TooShort { asked }));
    }
    assert_eq!(Ttl::new(Duration::from_millis(1)).unwrap().as_millis(), 1);
}

#[test]
fn s15_a_ttl_beyond_the_range_of_redis_is_refused() {
    let last = Ttl::MAX.as_duration() + Duration::from_nanos(999_999);
    assert_eq!(Ttl::new(last), Ok(Ttl::MAX));
    for asked in [last + Duration::from_nanos(1), Duration::MAX] {
        assert_eq!(Ttl::new(asked), Err(InvalidTtl::TooLong { asked }));
    }
}

#[test]
fn the_longest_ttl_can_be_added_to_a_clock_of_63_bits() {
    let clock_in_the_year_3000 = 32_503_680_000_000i64;
    let ttl = i64::try_from(Ttl::MAX.as_millis()).unwrap();
    assert!(clock_in_the_year_3000.checked_add(ttl).is_some());
}

#[test]
fn a_refusal_says_what_to_ask_for() {
    let refusal = Ttl::new(Duration::from_micros(500)).unwrap_err();
    assert_eq!(
        refusal.to_string(),
        "a TTL of 500µs has no whole millisecond; ask for at least 1 ms"
    );
}

proptest! {
    #[test]
    fn s02_a_ttl_is_what_is_sent_whole_milliseconds(asked in any_duration()) {
        let millis = asked.as_nanos() / 1_000_000;
        match Ttl::new(asked) {
            Ok(ttl) => {
                prop_assert_eq!(u128::from(ttl.as_millis()), millis);
                prop_assert_eq!(ttl.as_duration().as_nanos(), millis * 1_000_000);
                prop_assert!(ttl.as_duration() <= asked);
            }
            Err(InvalidTtl::TooShort { .. }) => prop_assert!(millis < 1),
            Err(_) => prop_assert!(millis > u128::from(Ttl::MAX.as_millis())),
        }
    }
}
