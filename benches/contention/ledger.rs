//! What the logs of one turn come to.

use std::time::Duration;

use crate::clock;
use crate::protocol::{Log, Tenure};

/// One turn of one subject.
#[derive(Clone, Copy, Debug)]
pub struct Turn {
    pub grants_per_second: f64,
    pub changes_per_second: f64,
    pub longest_wait: Duration,
    /// By the most served owner, for each by the least served.
    pub most_to_least: f64,
}

/// Who had the lock, in order. Grants are stamped while the lock is held, so
/// that their order is that of the tenures.
pub struct Ledger {
    /// Owners are numbered.
    entries: Vec<(usize, Tenure)>,
    unserved: Vec<u64>,
    owners: usize,
}

impl Ledger {
    /// From a log of each process. Owners are the processes or, if there is but
    /// one, its tasks.
    pub fn new(logs: Vec<Log>, tasks: usize) -> Self {
        let one = logs.len() == 1;
        let mut ledger = Self {
            entries: Vec::new(),
            unserved: Vec::new(),
            owners: if one { tasks } else { logs.len() },
        };
        for (process, log) in logs.into_iter().enumerate() {
            let owned = |tenure: Tenure| (if one { tenure.task } else { process }, tenure);
            ledger.entries.extend(log.tenures.into_iter().map(owned));
            ledger.unserved.extend(log.unserved);
        }
        ledger.entries.sort_by_key(|(_, tenure)| tenure.granted);
        ledger
    }

    pub fn turn(&self, from: u64, until: u64) -> Turn {
        let seconds = clock::between(from, until).as_secs_f64();
        Turn {
            grants_per_second: self.entries.len() as f64 / seconds,
            changes_per_second: self.changes() as f64 / seconds,
            longest_wait: self.longest_wait(until),
            most_to_least: self.most_to_least(),
        }
    }

    /// Panics if two had the lock at once. Without a section, a tenure is too short
    /// to tell.
    pub fn assert_exclusive(&self) {
        for pair in self.entries.windows(2) {
            let [(_, earlier), (_, later)] = pair else {
                unreachable!("windows of two")
            };
            assert!(
                earlier.left <= later.granted,
                "two held the lock at once: {earlier:?}, {later:?}"
            );
        }
    }

    fn changes(&self) -> usize {
        let changed = |pair: &&[(usize, Tenure)]| pair[0].0 != pair[1].0;
        self.entries.windows(2).filter(changed).count()
    }

    fn longest_wait(&self, until: u64) -> Duration {
        let served = self.entries.iter();
        let served = served.map(|(_, tenure)| clock::between(tenure.asked, tenure.granted));
        let unserved = self
            .unserved
            .iter()
            .map(|asked| clock::between(*asked, until));
        served.chain(unserved).max().unwrap_or_default()
    }

    fn most_to_least(&self) -> f64 {
        let mut served = vec![0_u32; self.owners];
        for (owner, _) in &self.entries {
            served[*owner] += 1;
        }
        let most = served.iter().max().copied().unwrap_or_default();
        let least = served.iter().min().copied().unwrap_or_default();
        match least {
            0 => f64::INFINITY,
            least => f64::from(most) / f64::from(least),
        }
    }
}
