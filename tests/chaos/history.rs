//! What happened: the news of the workers, checked as it comes. It remembers a last while only, so
//! that a run may be of any length.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::time::Duration;

use crate::clock;
use crate::crew::News;
use crate::fault::Faults;
use crate::ledger::{Conflict, Ledger, Tenure};
use crate::protocol::{Asked, End, Grant, Id, Report, Why, Write};
use crate::support::machine;

/// By how much a wait may be longer than it was asked to be, besides what the machine stalls: an
/// attempt may be under way.
const SLACK: Duration = Duration::from_secs(2);

/// Something that must not be.
#[derive(Clone, Debug)]
pub struct Violation {
    /// When it was noticed.
    pub at: u64,
    pub kind: Kind,
    /// Where in time it is, and on which resource, if that is known.
    pub place: Option<(usize, u64, u64)>,
    pub what: String,
}

/// What it shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Two had one lock, or in the wrong order.
    Exclusion,
    LostUpdates,
    /// A wait, a release or a process did not end as it should.
    Other,
}

pub struct History {
    /// When the first worker was ready.
    pub began: u64,
    pub ledger: Ledger,
    pub faults: Faults,
    pub counts: Counts,
    pub violations: Vec<Violation>,
    /// Those that have begun to work.
    pub ready: BTreeSet<Id>,
    killed: BTreeSet<Id>,
    /// Those that have ended their work.
    pub done: BTreeSet<Id>,
    /// Those that have taken their leave.
    pub parted: BTreeSet<Id>,
    /// When each resource was last granted.
    pub last_grants: BTreeMap<usize, u64>,
    machine: machine::Watch,
}

#[derive(Default)]
pub struct Counts {
    pub grants: usize,
    pub grants_with_faults: usize,
    pub ends: BTreeMap<End, usize>,
    pub refusals: BTreeMap<Why, usize>,
    pub writes: [usize; 3],
    pub held_by_the_killed: usize,
    pub longest_wait: Duration,
}

impl History {
    pub fn new(faults: Faults) -> Self {
        Self {
            began: clock::now(),
            ledger: Ledger::default(),
            faults,
            counts: Counts::default(),
            violations: Vec::new(),
            ready: BTreeSet::new(),
            killed: BTreeSet::new(),
            done: BTreeSet::new(),
            parted: BTreeSet::new(),
            last_grants: BTreeMap::new(),
            machine: machine::Watch::begin(),
        }
    }

    pub fn hear(&mut self, news: News) {
        match news {
            News::Said { worker, report } => self.said(worker, report),
            News::Killed { worker } => {
                self.killed.insert(worker);
            }
            News::Gone { worker } => self.gone(worker),
        }
    }

    pub fn violated(&mut self, kind: Kind, what: impl Into<String>) {
        self.violations.push(Violation {
            at: clock::now(),
            kind,
            place: None,
            what: what.into(),
        });
    }

    fn said(&mut self, worker: Id, report: Report) {
        let conflict = match report {
            Report::Granted(grant) => {
                self.granted(worker, &grant);
                None
            }
            Report::Valid { hold, at, until } => self.ledger.seen(worker, hold, at, until),
            Report::Ended { hold, at, how } => {
                *self.counts.ends.entry(how).or_default() += 1;
                self.ledger.ended(worker, hold, at, how)
            }
            Report::Refused { asked, at, why } => {
                *self.counts.refusals.entry(why).or_default() += 1;
                self.waited(worker, asked, at);
                None
            }
            Report::Wrote(write) => {
                self.counts.writes[write as usize] += 1;
                None
            }
            Report::Panicked { what } => {
                self.violated(
                    Kind::Other,
                    format!("a panic in worker {}: {what}", worker.seat),
                );
                None
            }
            Report::Ready => {
                if self.counts.grants == 0 && self.ready.is_empty() {
                    self.began = clock::now();
                }
                self.ready.insert(worker);
                None
            }
            Report::Done => {
                self.done.insert(worker);
                None
            }
            Report::Parted => {
                self.parted.insert(worker);
                None
            }
        };
        if let Some(conflict) = conflict {
            self.conflict(&conflict);
        }
    }

    fn gone(&mut self, worker: Id) {
        if !self.killed.remove(&worker) {
            self.violated(
                Kind::Other,
                format!("worker {} has ended by itself", worker.seat),
            );
        }
        let (held, conflicts) = self.ledger.died(worker);
        self.counts.held_by_the_killed += held;
        self.ready.remove(&worker);
        for conflict in conflicts {
            self.conflict(&conflict);
        }
    }

    fn granted(&mut self, worker: Id, grant: &Grant) {
        self.counts.grants += 1;
        if self.faults.were_on(grant.at) {
            self.counts.grants_with_faults += 1;
        }
        self.last_grants.insert(grant.resource, grant.at);
        self.waited(worker, grant.asked, grant.at);
        self.ledger.granted(worker, grant);
    }

    /// Every wait ends, and in time: but for the time for which the process itself was stopped.
    fn waited(&mut self, worker: Id, asked: Asked, at: u64) {
        let stopped = self.faults.stopped(worker.seat, asked.at, at);
        let waited = clock::between(asked.at, at).saturating_sub(stopped);
        self.counts.longest_wait = self.counts.longest_wait.max(waited);
        let slack = SLACK + self.machine.longest_stall();
        if let Some(allowed) = asked.allowed.filter(|allowed| waited > *allowed + slack) {
            let seat = worker.seat;
            self.violated(
                Kind::Other,
                format!("worker {seat} waited {waited:?} instead of {allowed:?}"),
            );
        }
    }

    fn conflict(&mut self, conflict: &Conflict) {
        let (Conflict::Overlap(first, second) | Conflict::FencesOutOfOrder(first, second)) =
            conflict;
        let (from, until) = (second.from, first.until.min(second.until));
        let pair = format!("{}, {}", self.tell(first), self.tell(second));
        let what = match conflict {
            Conflict::Overlap(..) => {
                format!(
                    "two had one lock for {:?}: {pair}",
                    clock::between(from, until)
                )
            }
            Conflict::FencesOutOfOrder(..) => format!(
                "fencing tokens {:?} and {:?} are out of order: {pair}",
                first.fence, second.fence
            ),
        };
        self.violations.push(Violation {
            at: clock::now(),
            kind: Kind::Exclusion,
            place: Some((second.resource, from, until)),
            what,
        });
    }

    fn tell(&self, tenure: &Tenure) -> impl fmt::Display {
        let since = |at| clock::between(self.began, at).as_secs_f64();
        format!(
            "worker {} had resource {} from {:.6} s to {:.6} s ({}, {:?})",
            tenure.worker.seat,
            tenure.resource,
            since(tenure.from),
            since(tenure.until),
            tenure.token,
            tenure.how
        )
    }
}

impl Counts {
    pub fn written(&self, write: Write) -> usize {
        self.writes[write as usize]
    }
}
