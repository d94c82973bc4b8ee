use super::Quorum;

/// What one master says in one round.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Vote {
    /// It did what it was asked: it granted the lock, matched the token and
    /// extended it, or matched the token and removed it.
    Yes,
    /// It answered that it can't: the lock has another owner, or its value is
    /// not the token (any more).
    No,
    /// It has no vote: unreachable, timed out, broken off, or in error. The
    /// command may have been applied all the same, or may yet be (S5).
    Absent,
}

/// A set of masters, by their number in the configuration.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct MasterSet(u64);

impl MasterSet {
    /// How many masters can be told apart.
    pub const CAPACITY: usize = u64::BITS as usize;

    /// The set without masters.
    pub const EMPTY: MasterSet = MasterSet(0);

    /// The first so many masters.
    pub const fn first(count: usize) -> Self {
        match count {
            0 => MasterSet(0),
            _ => MasterSet(u64::MAX >> (Self::CAPACITY - count)),
        }
    }

    /// Adds a master; says whether it was new.
    ///
    /// # Panics
    ///
    /// If the number is not below [`MasterSet::CAPACITY`].
    pub fn insert(&mut self, master: usize) -> bool {
        assert!(master < Self::CAPACITY, "there is no master {master}");
        let before = self.0;
        self.0 |= 1 << master;
        self.0 != before
    }

    /// Whether a master is in the set.
    pub const fn contains(self, master: usize) -> bool {
        master < Self::CAPACITY && self.0 & (1 << master) != 0
    }

    /// The masters that are in either set.
    pub const fn union(self, other: MasterSet) -> MasterSet {
        MasterSet(self.0 | other.0)
    }

    /// The masters that are in both sets.
    pub const fn intersection(self, other: MasterSet) -> MasterSet {
        MasterSet(self.0 & other.0)
    }

    /// The masters of this set that are not in the other.
    pub const fn without(self, other: MasterSet) -> MasterSet {
        MasterSet(self.0 & !other.0)
    }

    /// How many masters are in the set.
    pub const fn len(self) -> usize {
        self.0.count_ones() as usize
    }

    /// Whether the set has no masters.
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }
}

/// The votes of one round. A master's first vote counts; others are ignored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tally {
    quorum: Quorum,
    yes: MasterSet,
    no: MasterSet,
    absent: MasterSet,
}

impl Tally {
    /// A tally without votes.
    pub const fn new(quorum: Quorum) -> Self {
        Self {
            quorum,
            yes: MasterSet::EMPTY,
            no: MasterSet::EMPTY,
            absent: MasterSet::EMPTY,
        }
    }

    /// Counts a vote; says whether it was that master's first.
    ///
    /// # Panics
    ///
    /// If there is no such master.
    pub fn count(&mut self, master: usize, vote: Vote) -> bool {
        assert!(
            master < self.quorum.masters(),
            "there is no master {master}"
        );
        if self.has_voted(master) {
            return false;
        }
        match vote {
            Vote::Yes => self.yes.insert(master),
            Vote::No => self.no.insert(master),
            Vote::Absent => self.absent.insert(master),
        }
    }

    /// Counts every master that has not voted as absent: the time is up.
    pub fn close(&mut self) {
        for master in 0..self.quorum.masters() {
            self.count(master, Vote::Absent);
        }
    }

    /// Whether this master's vote was counted.
    pub const fn has_voted(&self, master: usize) -> bool {
        self.yes.contains(master) || self.no.contains(master) || self.absent.contains(master)
    }

    /// The quorum that decides.
    pub const fn quorum(&self) -> Quorum {
        self.quorum
    }

    /// The masters that said yes.
    pub const fn yes(&self) -> MasterSet {
        self.yes
    }

    /// The masters that said no.
    pub const fn no(&self) -> MasterSet {
        self.no
    }

    /// The masters that have no vote.
    pub const fn absent(&self) -> MasterSet {
        self.absent
    }

    /// How many masters may still vote.
    pub const fn open(&self) -> usize {
        self.quorum.masters() - self.yes.len() - self.no.len() - self.absent.len()
    }
}
