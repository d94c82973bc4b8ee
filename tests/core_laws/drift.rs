use std::time::Duration;

use proptest::prelude::*;
use redquorum::core::{Drift, Terms, Ttl};

use crate::{any_duration, nanos};

const BILLION: u128 = 1_000_000_000;

/// The largest factor below 1.
const LARGEST: f64 = 1.0 - f64::EPSILON / 2.0;

/// The drift of a second without a floor: as many nanoseconds as the factor has
/// billionths.
fn billionths(factor: f64) -> u128 {
    let drift = Drift::new(factor, Duration::ZERO).unwrap();
    drift
        .of(Ttl::new(Duration::from_secs(1)).unwrap())
        .as_nanos()
}

/// A factor as the exact fraction `numerator / 2^exponent` that a double is.
fn fraction(factor: f64) -> (u128, u32) {
    let bits = factor.to_bits();
    let mantissa = u128::from(bits & ((1 << 52) - 1));
    match (bits >> 52) as u32 & 0x7ff {
        0 => (mantissa, 1_074),
        exponent => (mantissa | 1 << 52, 1_075 - exponent),
    }
}

fn ttls(longest: Ttl) -> impl Strategy<Value = Ttl> {
    (1..=longest.as_millis()).prop_map(|millis| Ttl::new(Duration::from_millis(millis)).unwrap())
}

fn hours(hours: u64) -> Ttl {
    Ttl::new(Duration::from_secs(hours * 3_600)).unwrap()
}

fn factors() -> impl Strategy<Value = f64> {
    prop_oneof![
        3 => 0.0..1.0f64,
        1 => (0..1_000_000_000u32).prop_map(|billionths| f64::from(billionths) / 1e9),
        1 => prop::num::f64::POSITIVE.prop_map(|factor| factor.fract()),
        1 => prop::sample::select(vec![0.0, -0.0, 5e-324, f64::MIN_POSITIVE, LARGEST]),
    ]
}

#[test]
fn s02_the_default_is_a_hundredth_and_two_milliseconds() {
    let ttl = Ttl::new(Duration::from_secs(10)).unwrap();
    assert_eq!(Drift::default().of(ttl), Duration::from_millis(102));
    assert_eq!(
        Drift::new(0.01, Duration::from_millis(2)),
        Ok(Drift::default())
    );
}

#[test]
fn s02_a_part_of_a_nanosecond_is_a_nanosecond() {
    let drift = Drift::new(1e-12, Duration::ZERO).unwrap();
    let ttl = Ttl::new(Duration::from_millis(1)).unwrap();
    assert_eq!(drift.of(ttl), Duration::from_nanos(1));
}

#[test]
fn a_refusal_names_the_factor() {
    assert_eq!(
        Drift::new(1.0, Duration::ZERO).unwrap_err().to_string(),
        "a drift factor must be at least 0 and less than 1, not 1"
    );
}

#[test]
fn s15_a_factor_that_rounds_to_the_whole_ttl_leaves_no_validity() {
    let drift = Drift::new(LARGEST, Duration::ZERO).unwrap();
    let ttl = hours(1);
    assert_eq!(drift.of(ttl), ttl.as_duration());
    assert!(Terms::new(ttl, drift, Duration::ZERO).is_err());
}

/// 0.1 as a double is a little more than a tenth, by less than a double can
/// tell from a tenth once it is counted in billionths.
#[test]
fn a_tenth_is_a_tenth() {
    assert_eq!(billionths(0.1), 100_000_000);
    assert_eq!(billionths(0.1 + 1e-12), 100_000_001);
}

proptest! {
    #[test]
    fn exactly_the_factors_from_0_to_below_1_are_accepted(
        factor in prop_oneof![prop::num::f64::ANY, -0.5..1.5f64, factors()],
        floor in any_duration(),
    ) {
        prop_assert_eq!(Drift::new(factor, floor).is_ok(), (0.0..1.0).contains(&factor));
    }

    #[test]
    fn s02_the_factor_is_kept_in_billionths_rounded_up(factor in factors()) {
        let (numerator, exponent) = fraction(factor.abs());
        let kept = billionths(factor);
        let exact = numerator * BILLION;
        if exponent > 90 {
            prop_assert_eq!(kept, u128::from(numerator > 0));
        } else {
            prop_assert!(kept << exponent < exact + (1 << exponent), "a billionth too much");
            let half_a_bit = (exact >> 53) + 1;
            prop_assert!((kept << exponent) + half_a_bit >= exact, "too little");
        }
    }

    #[test]
    fn s02_a_factor_written_in_billionths_is_never_cut(written in 0..1_000_000_000u32) {
        let kept = billionths(f64::from(written) / 1e9);
        let literal: f64 = format!("0.{written:09}").parse().unwrap();
        prop_assert_eq!(billionths(literal), kept);
        prop_assert!((u128::from(written)..=u128::from(written) + 1).contains(&kept));
    }

    #[test]
    fn s02_drift_is_never_less_than_its_share_of_the_ttl_plus_the_floor(
        numerator in 0..1u128 << 53, ttl in ttls(hours(4)), floor in 0..10_000_000u64,
    ) {
        let factor = numerator as f64 / (1u64 << 53) as f64;
        let drift = Drift::new(factor, Duration::from_nanos(floor)).unwrap().of(ttl);
        let share = drift.as_nanos() - u128::from(floor);
        let ttl = ttl.as_duration().as_nanos();
        // In units of 2^-53 ns. A double has 53 bits, of which the last is rounded.
        let exact = ttl * numerator;
        let lost = (exact >> 53) + 1;
        prop_assert!((share << 53) + lost >= exact);
        let rounding = (ttl << 53) / BILLION + 1;
        prop_assert!(share << 53 < exact + (1 << 53) + rounding);
    }

    #[test]
    fn s02_drift_is_exact_for_every_ttl_and_floor(
        factor in factors(),
        ttl in prop_oneof![ttls(hours(24)), ttls(Ttl::MAX)],
        floor in any_duration(),
    ) {
        let share = (ttl.as_duration().as_nanos() * billionths(factor)).div_ceil(BILLION) as i128;
        let drift = Drift::new(factor, floor).unwrap().of(ttl);
        prop_assert_eq!(nanos(drift), (share + nanos(floor)).min(nanos(Duration::MAX)));
    }
}
