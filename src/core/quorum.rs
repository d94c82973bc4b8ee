use thiserror::Error;

use super::MasterSet;

/// How many of how many masters decide: always more than half (S1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Quorum {
    masters: usize,
    needed: usize,
}

impl Quorum {
    /// The smallest safe quorum of this many masters: 3 of 5, and 3 of 4.
    ///
    /// # Errors
    ///
    /// [`InvalidQuorum`] if there are no masters, or more than
    /// [`MasterSet::CAPACITY`].
    pub fn majority(masters: usize) -> Result<Self, InvalidQuorum> {
        Self::new(masters, smallest(masters))
    }

    /// A quorum of `needed` out of `masters`.
    ///
    /// # Errors
    ///
    /// [`InvalidQuorum`] unless `masters / 2 < needed <= masters`, or if there
    /// are no masters, or more than [`MasterSet::CAPACITY`].
    pub fn new(masters: usize, needed: usize) -> Result<Self, InvalidQuorum> {
        if masters == 0 {
            return Err(InvalidQuorum::NoMasters);
        }
        if masters > MasterSet::CAPACITY {
            return Err(InvalidQuorum::TooManyMasters { masters });
        }
        let smallest = smallest(masters);
        if needed < smallest || needed > masters {
            return Err(InvalidQuorum::OutOfRange {
                needed,
                masters,
                smallest,
            });
        }
        Ok(Self { masters, needed })
    }

    /// The number of masters.
    pub const fn masters(self) -> usize {
        self.masters
    }

    /// How many of them must agree.
    pub const fn needed(self) -> usize {
        self.needed
    }

    /// Whether this many are a quorum.
    pub const fn is_met_by(self, votes: usize) -> bool {
        votes >= self.needed
    }

    /// Whether a quorum is out of reach when this many don't agree.
    pub const fn is_blocked_by(self, votes: usize) -> bool {
        votes > self.masters - self.needed
    }
}

/// More than half.
fn smallest(masters: usize) -> usize {
    #[cfg(redquorum_break)]
    if crate::broken::is_broken("quorum") {
        return masters / 2;
    }
    masters / 2 + 1
}

/// Why a quorum can't be had.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum InvalidQuorum {
    /// There are no masters.
    #[error("no masters were given")]
    NoMasters,
    /// There are more masters than a round can count.
    #[error(
        "{masters} masters are too many; at most {} can be used",
        MasterSet::CAPACITY
    )]
    TooManyMasters {
        /// How many were given.
        masters: usize,
    },
    /// Not more than half, or more than all.
    #[error(
        "a quorum of {needed} of {masters} masters is {}; the smallest that is safe is {smallest}",
        if needed > masters { "more than there are" } else { "not more than half" }
    )]
    OutOfRange {
        /// The quorum that was asked for.
        needed: usize,
        /// How many masters there are.
        masters: usize,
        /// The smallest quorum that is safe.
        smallest: usize,
    },
}
