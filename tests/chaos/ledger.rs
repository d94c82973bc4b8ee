//! The checker: who had which lock when, and whether two had one at once.
//!
//! What it takes for a tenure is what the owner may have relied on, and never more: from when the
//! owner knew of the grant, to the end of its lease or to when it began to release it, whichever
//! came first; a lease that was lost ends when it was last seen valid. A worker that is killed had
//! its locks to the end of their leases, since nobody can have released them. So two tenures that
//! overlap are always a fault of the library.

use std::collections::{BTreeMap, HashMap, VecDeque};

use crate::HORIZON;
use crate::protocol::{End, Grant, Id};

/// A time for which a worker could rely on a lock.
#[derive(Clone, Debug)]
pub struct Tenure {
    pub resource: usize,
    pub worker: Id,
    pub hold: u64,
    pub token: String,
    pub fence: Option<u64>,
    pub asked: u64,
    pub from: u64,
    pub until: u64,
    pub how: Option<End>,
}

/// Two that should not be.
#[derive(Clone, Debug)]
pub enum Conflict {
    /// Both had the lock.
    Overlap(Tenure, Tenure),
    /// The second was asked for when the first was granted, and its token is not greater.
    FencesOutOfOrder(Tenure, Tenure),
}

/// The tenures of the last while.
#[derive(Default)]
pub struct Ledger {
    open: HashMap<(Id, u64), Open>,
    closed: BTreeMap<usize, VecDeque<Tenure>>,
}

struct Open {
    tenure: Tenure,
    /// When it was last seen valid.
    seen: u64,
    renews: bool,
}

impl Ledger {
    pub fn granted(&mut self, worker: Id, grant: &Grant) {
        let tenure = Tenure {
            resource: grant.resource,
            worker,
            hold: grant.hold,
            token: grant.token.clone(),
            fence: grant.fence,
            asked: grant.asked.at,
            from: grant.at,
            until: grant.until,
            how: None,
        };
        let open = Open {
            tenure,
            seen: grant.at,
            renews: grant.renews,
        };
        self.open.insert((worker, grant.hold), open);
    }

    /// A lease was seen to be valid until another moment than before.
    pub fn seen(&mut self, worker: Id, hold: u64, at: u64, until: u64) -> Option<Conflict> {
        let open = self.open.get_mut(&(worker, hold))?;
        let before = open.tenure.clone();
        open.seen = at;
        open.tenure.until = until;
        if at <= before.until {
            return None;
        }
        // Nobody looked in between.
        open.tenure.from = at;
        self.close(before)
    }

    pub fn ended(&mut self, worker: Id, hold: u64, at: u64, how: End) -> Option<Conflict> {
        let open = self.open.remove(&(worker, hold))?;
        let end = match how {
            End::Lost => open.seen,
            End::Released | End::Dropped | End::Overslept => at,
        };
        let tenure = Tenure {
            until: open.tenure.until.min(end),
            how: Some(how),
            ..open.tenure
        };
        self.close(tenure)
    }

    /// A worker is no more; gives how many locks it had, too.
    pub fn died(&mut self, worker: Id) -> (usize, Vec<Conflict>) {
        let left = self.open.extract_if(|(owner, _), _| *owner == worker);
        let left: Vec<Open> = left.map(|(_, open)| open).collect();
        let count = left.len();
        let close = |mut open: Open| {
            if open.renews {
                open.tenure.until = open.tenure.until.min(open.seen);
            }
            self.close(open.tenure)
        };
        (count, left.into_iter().filter_map(close).collect())
    }

    /// The tenures that have ended.
    pub fn tenures(&self) -> impl Iterator<Item = &Tenure> {
        self.closed.values().flatten()
    }

    fn close(&mut self, tenure: Tenure) -> Option<Conflict> {
        let tenures = self.closed.entry(tenure.resource).or_default();
        let conflict = tenures.iter().find_map(|other| conflict(other, &tenure));
        let old = tenure.until.saturating_sub(HORIZON.as_nanos() as u64);
        while tenures.front().is_some_and(|front| front.until < old) {
            tenures.pop_front();
        }
        tenures.push_back(tenure);
        conflict
    }
}

fn conflict(one: &Tenure, other: &Tenure) -> Option<Conflict> {
    if (one.worker, one.hold) == (other.worker, other.hold) {
        return None;
    }
    let (first, second) = match one.from <= other.from {
        true => (one, other),
        false => (other, one),
    };
    let pair = || (first.clone(), second.clone());
    if second.from < first.until && second.from < second.until {
        let (first, second) = pair();
        return Some(Conflict::Overlap(first, second));
    }
    match (first.fence, second.fence) {
        (Some(lower), Some(higher)) if first.from < second.asked && lower >= higher => {
            let (first, second) = pair();
            Some(Conflict::FencesOutOfOrder(first, second))
        }
        _ => None,
    }
}
