//! The counter of a fenced lock on an in-process master: what the scripts do with
//! it. It is a hash whose one field is the generation that wrote it, at the count.

use std::collections::BTreeMap;

/// The fields of a hash.
pub(super) type Fields = BTreeMap<String, String>;

/// The least count that is too high.
const TOO_HIGH: u64 = 1 << 53;

/// The least count that a clock since 2001 can have begun.
const BEGUN: i64 = 1_000_000_000_000_000;

/// Counts one more, as `take_fenced.lua` does: by the clock, unless this generation
/// has counted before. The error says why it can't.
pub(super) fn count(fields: &mut Fields, generation: &str, micros: u64) -> Result<u64, String> {
    let before = fields.get(generation).map_or(Some(0), |own| integer(own));
    let before = before.ok_or("hash value is not an integer")?;
    let next = before.checked_add(1);
    let next = next.ok_or("increment or decrement would overflow")?;
    fields.insert(generation.to_owned(), next.to_string());
    if next >= BEGUN {
        return below_limit(next.unsigned_abs());
    }
    let counts: Option<Vec<u64>> = fields.values().map(|value| counted(value)).collect();
    let highest = counts.ok_or("another generation has no count")?;
    let highest = highest.into_iter().max().unwrap_or(0);
    let count = below_limit(micros.max(highest.saturating_add(1)))?;
    *fields = Fields::from([(generation.to_owned(), count.to_string())]);
    Ok(count)
}

/// Raises it, as `raise.lua` does, unless that says no.
pub(super) fn raise(fields: &mut Fields, generation: &str, count: u64) -> bool {
    let own = |(writer, value): (&String, &String)| {
        let before = integer(value).and_then(|before| u64::try_from(before).ok());
        writer == generation && before.is_some_and(|before| (1..=count).contains(&before))
    };
    let may = fields.iter().all(own);
    if may {
        fields.insert(generation.to_owned(), count.to_string());
    }
    may
}

fn below_limit(count: u64) -> Result<u64, String> {
    match count < TOO_HIGH {
        true => Ok(count),
        false => Err(format!("{count} is not below 2^53")),
    }
}

/// What `HINCRBY` takes for an integer.
fn integer(value: &str) -> Option<i64> {
    let integer: i64 = value.parse().ok()?;
    (integer.to_string() == value).then_some(integer)
}

/// What the scripts take for a count; one below 0 is as good as 0.
fn counted(value: &str) -> Option<u64> {
    let digits = value.strip_prefix('-').unwrap_or(value);
    if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    match value.starts_with('-') {
        true => Some(0),
        false => Some(digits.parse().unwrap_or(u64::MAX)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fields(text: &[(&str, &str)]) -> Fields {
        let owned = |(field, value): &(&str, &str)| (field.to_string(), value.to_string());
        text.iter().map(owned).collect()
    }

    /// `tests/scripts/raising.rs` has the same of the script.
    #[test]
    fn s16_a_counter_is_raised_where_it_is_lower_and_of_this_generation_alone() {
        for raised in [&[][..], &[("me", "5")], &[("me", "17")]] {
            let mut counter = fields(raised);
            assert!(raise(&mut counter, "me", 17), "{raised:?}");
            assert_eq!(counter, fields(&[("me", "17")]), "{raised:?}");
        }
        for left in [
            &[("me", "18")][..],
            &[("you", "5")],
            &[("me", "5"), ("you", "5")],
            &[("me", "none")],
            &[("me", "5.5")],
            &[("me", "05")],
            &[("me", "0")],
            &[("me", "-5")],
            &[("me", "99999999999999999999")],
        ] {
            let mut counter = fields(left);
            assert!(!raise(&mut counter, "me", 17), "{left:?}");
            assert_eq!(counter, fields(left));
        }
    }
}
