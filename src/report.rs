//! The evidence: what each master said in a round.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use crate::core::Vote;
use crate::master::Fault;

/// What one master said in one round, and how long it took to say it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct MasterReport {
    /// The master's address, without credentials.
    pub address: Arc<str>,
    /// Its vote; `None` if the round was decided before it had answered.
    pub vote: Option<Vote>,
    /// From the start of the round to its answer, or to the time-out.
    pub latency: Option<Duration>,
    /// Why it has no vote.
    pub fault: Option<Fault>,
}

impl fmt::Display for MasterReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: ", self.address)?;
        match (&self.fault, self.vote) {
            (Some(fault), _) => write!(f, "{fault}")?,
            (None, Some(Vote::Yes)) => f.write_str("yes")?,
            (None, Some(Vote::No)) => f.write_str("no")?,
            (None, Some(Vote::Absent)) => f.write_str("no vote")?,
            (None, None) => f.write_str("not answered yet")?,
        }
        match self.latency {
            Some(latency) => write!(f, " ({:.1} ms)", latency.as_secs_f64() * 1e3),
            None => Ok(()),
        }
    }
}

/// What all masters said in one round, in the order of the configuration.
///
/// A yes means that the master did what it was asked; a no that the lock's
/// value there was another than the operation needs; see [`Vote`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RoundReport {
    masters: Vec<MasterReport>,
}

impl RoundReport {
    pub(crate) fn new(masters: Vec<MasterReport>) -> Self {
        Self { masters }
    }

    /// The masters' reports.
    pub fn masters(&self) -> &[MasterReport] {
        &self.masters
    }

    /// How many masters have this vote.
    pub fn count(&self, vote: Vote) -> usize {
        self.masters
            .iter()
            .filter(|master| master.vote == Some(vote))
            .count()
    }

    /// The first reason that a master had for not voting.
    pub fn first_fault(&self) -> Option<&Fault> {
        self.masters.iter().find_map(|master| master.fault.as_ref())
    }
}

impl fmt::Display for RoundReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, master) in self.masters.iter().enumerate() {
            if index > 0 {
                f.write_str("; ")?;
            }
            write!(f, "{master}")?;
        }
        Ok(())
    }
}
