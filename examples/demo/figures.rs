//! What workers report.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::{Deserialize, Serialize};

/// What was done, by one worker or by all of them.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Figures {
    /// Sections that updated the counter.
    pub sections: u64,
    /// Sections before which another process was inside.
    pub hand_overs: u64,
    /// Sections in which another worker was inside too.
    pub overlaps: u64,
    /// How often what went wrong that may.
    pub errors: BTreeMap<String, u64>,
    /// How long each lock was waited for, in microseconds.
    waits: Vec<u64>,
}

impl Figures {
    pub fn waited(&mut self, wait: Duration) {
        self.waits
            .push(wait.as_micros().try_into().unwrap_or(u64::MAX));
    }

    pub fn error(&mut self, what: &str) {
        *self.errors.entry(what.to_owned()).or_default() += 1;
    }

    pub fn add(&mut self, more: Figures) {
        self.sections += more.sections;
        self.hand_overs += more.hand_overs;
        self.overlaps += more.overlaps;
        for (what, count) in more.errors {
            *self.errors.entry(what).or_default() += count;
        }
        self.waits.extend(more.waits);
    }

    /// The wait that this share of all waits doesn't exceed.
    pub fn wait(&self, share: f64) -> Option<Duration> {
        let mut waits = self.waits.clone();
        waits.sort_unstable();
        let rank = (waits.len() as f64 * share).ceil() as usize;
        let wait = waits.get(rank.saturating_sub(1))?;
        Some(Duration::from_micros(*wait))
    }
}
