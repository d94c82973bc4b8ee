//! Waiting for masters that came up lately (S13): they say when they will vote.

use std::time::Duration;

use crate::core::Vote;
use crate::error::LockError;
use crate::master::Fault;
use crate::report::MasterReport;

/// Why a request found no quorum, as far as it is a matter of waiting.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Quarantined {
    /// When enough quarantines are over for a quorum.
    left: Duration,
    /// Whether there is no other fault: then nothing can change before.
    alone: bool,
}

impl Quarantined {
    /// What the masters of a refused attempt say; `None` if a quorum was there, or
    /// if none is even when all quarantines are over.
    pub(crate) fn of(refused: &LockError) -> Option<Self> {
        let LockError::NoQuorum { needed, report, .. } = refused else {
            return None;
        };
        let masters = report.masters();
        let has_vote = |master: &&MasterReport| master.vote != Some(Vote::Absent);
        let voting = masters.iter().filter(has_vote).count();
        let mut quarantines: Vec<Duration> = masters.iter().filter_map(remaining).collect();
        quarantines.sort_unstable();
        let missing = needed.checked_sub(voting)?;
        Some(Self {
            left: *quarantines.get(missing.checked_sub(1)?)?,
            alone: voting + quarantines.len() == masters.len(),
        })
    }

    /// How long to wait before asking again, where the pause would be another
    /// without it.
    pub(crate) fn pause(self, otherwise: Duration) -> Duration {
        match self.alone {
            true => self.left,
            false => self.left.min(otherwise),
        }
    }
}

fn remaining(master: &MasterReport) -> Option<Duration> {
    match master.fault {
        Some(Fault::Quarantined { remaining }) => Some(remaining),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::report::RoundReport;

    fn secs(secs: u64) -> Duration {
        Duration::from_secs(secs)
    }

    fn young(left: u64) -> (Option<Vote>, Option<Fault>) {
        let remaining = secs(left);
        (Some(Vote::Absent), Some(Fault::Quarantined { remaining }))
    }

    fn down() -> (Option<Vote>, Option<Fault>) {
        (Some(Vote::Absent), Some(Fault::Replica))
    }

    const YES: (Option<Vote>, Option<Fault>) = (Some(Vote::Yes), None);
    const NO: (Option<Vote>, Option<Fault>) = (Some(Vote::No), None);
    const OPEN: (Option<Vote>, Option<Fault>) = (None, None);

    /// What three of five come to.
    fn of<const N: usize>(masters: [(Option<Vote>, Option<Fault>); N]) -> Option<Quarantined> {
        let report = |(vote, fault)| MasterReport {
            address: Arc::from("a"),
            vote,
            latency: None,
            fault,
        };
        Quarantined::of(&LockError::NoQuorum {
            resource: "a".to_owned(),
            needed: N / 2 + 1,
            elapsed: Duration::ZERO,
            report: RoundReport::new(masters.map(report).into()),
        })
    }

    #[test]
    fn s13_it_waits_for_as_many_quarantines_as_a_quorum_lacks() {
        let alone = |left| {
            Some(Quarantined {
                left: secs(left),
                alone: true,
            })
        };
        assert_eq!(
            of([young(5), young(1), young(4), young(2), young(3)]),
            alone(3)
        );
        assert_eq!(of([YES, young(9), young(7), young(8), YES]), alone(7));
        assert_eq!(of([NO, OPEN, young(7), young(8), young(9)]), alone(7));
    }

    #[test]
    fn s13_with_other_faults_it_asks_in_between() {
        let found = of([YES, YES, young(7), young(9), down()]).unwrap();
        assert_eq!(found.pause(secs(1)), secs(1));
        assert_eq!(found.pause(secs(8)), secs(7));
        let found = of([YES, YES, young(7), young(9), young(8)]).unwrap();
        assert_eq!(found.pause(secs(1)), secs(7));
    }

    #[test]
    fn s13_a_quorum_that_time_does_not_make_is_not_waited_for() {
        assert_eq!(of([YES, down(), down(), down(), young(1)]), None);
        assert_eq!(of([down(), down(), down()]), None);
        assert_eq!(Quarantined::of(&LockError::NoRuntime), None);
    }
}
