//! What was seen on the way: a run in which nothing goes wrong proves nothing.

use std::collections::BTreeMap;
use std::fmt;

#[derive(Default, Clone)]
pub(crate) struct Sightings(BTreeMap<&'static str, u64>);

impl Sightings {
    pub(crate) fn saw(&mut self, what: &'static str) {
        *self.0.entry(what).or_default() += 1;
    }

    pub(crate) fn add(&mut self, others: &Sightings) {
        for (what, count) in &others.0 {
            *self.0.entry(what).or_default() += count;
        }
    }

    /// Those of these that were never seen.
    pub(crate) fn missing(&self, wanted: &[&'static str]) -> Vec<&'static str> {
        let seen = |what: &&&str| !self.0.contains_key(**what);
        wanted.iter().filter(seen).copied().collect()
    }
}

impl fmt::Display for Sightings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (what, count) in &self.0 {
            writeln!(f, "{count:>9}  {what}")?;
        }
        Ok(())
    }
}
