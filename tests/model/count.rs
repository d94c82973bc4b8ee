//! What masters count, and so fencing tokens.

use super::client::NO_FENCES;
use super::world::World;

/// A count: when its counter was seeded, and how often it has counted since.
/// Like all times it is kept as a distance from now, so that a date means nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Count {
    /// So many ticks ago, by the clock that is furthest ahead.
    seeded: u8,
    more: u8,
}

/// Seeded with 0 instead of a time: below all others.
const NEVER: u8 = u8::MAX;

/// Dates are further apart than any number of rounds can count, as microseconds
/// are.
const TICK: u64 = 1 << u8::BITS;

/// How many ticks ago a counter can have been seeded, when dates are compact.
const LONGEST_AGO: usize = 32;

impl Count {
    /// That of a counter which was seeded now, by a clock so many ticks behind
    /// the one that is furthest ahead.
    pub(crate) fn seeded(behind: u8) -> Self {
        Self {
            seeded: behind,
            more: 0,
        }
    }

    /// That of a counter which began at 0.
    pub(crate) fn unseeded() -> Self {
        Self {
            seeded: NEVER,
            more: 1,
        }
    }

    /// So many counts after this one.
    pub(crate) fn after(self, counts: u8) -> Self {
        let more = self.more + counts;
        Self { more, ..self }
    }

    pub(crate) fn higher(self, other: Self) -> Self {
        match self.value() < other.value() {
            true => other,
            false => self,
        }
    }

    /// Those with the same seed, down to none counted.
    fn fewer(self) -> impl Iterator<Item = Self> {
        (0..=self.more).map(move |more| Self { more, ..self })
    }

    /// The number that clients see, at present.
    pub(crate) fn value(self) -> u64 {
        u64::from(NEVER - self.seeded) * TICK + u64::from(self.more)
    }

    /// The count with this number.
    pub(crate) fn of(value: u64) -> Self {
        let narrow = |number: u64| u8::try_from(number).expect("it is that of a count");
        Self {
            seeded: NEVER - narrow(value / TICK),
            more: narrow(value % TICK),
        }
    }

    pub(crate) fn tick(&mut self) {
        if self.seeded != NEVER {
            self.seeded += 1;
        }
    }
}

impl<const N: usize> World<N> {
    /// What a master's counter may have been, if there is one: what it is, any lower
    /// one that makes a difference, and one that is below all.
    pub(crate) fn older_counts(&self, master: usize) -> Vec<Count> {
        let Some(own) = self.columns[master].master.count else {
            return Vec::new();
        };
        let mut older = vec![Count::unseeded()];
        older.extend(own.fewer());
        let mut all = *self;
        all.with_counts(|count| older.push(*count));
        older.retain(|count| count.value() <= own.value());
        older.sort_unstable();
        older.dedup();
        older
    }

    /// Does this with every count in the state.
    pub(crate) fn with_counts(&mut self, mut act: impl FnMut(&mut Count)) {
        let mut with = |count: &mut Option<Count>| {
            if let Some(count) = count {
                act(count);
            }
        };
        for column in &mut self.columns {
            with(&mut column.master.count);
            with(&mut column.links[0].count);
            with(&mut column.links[1].count);
        }
        for client in &mut self.clients {
            if client.fences != NO_FENCES {
                client.fences.iter_mut().for_each(&mut with);
            }
        }
        with(&mut self.last);
    }

    /// Of what is older than any seed that is to come, nothing but the order of
    /// the dates matters, and how far the counts of one date are apart.
    pub(crate) fn compact_counts(&mut self, skew: u8) {
        let mut least = [NEVER; LONGEST_AGO];
        let mut oldest = 0;
        self.with_counts(|count| {
            if count.seeded != NEVER {
                let least = &mut least[usize::from(count.seeded)];
                *least = count.more.min(*least);
                oldest = count.seeded.max(oldest);
            }
        });
        let mut compact = [0; LONGEST_AGO];
        let (mut next, mut changes) = (skew + 1, false);
        for ago in skew + 1..=oldest {
            let index = usize::from(ago);
            if least[index] != NEVER {
                compact[index] = next;
                changes |= least[index] != 0 || ago != next;
                next += 1;
            }
        }
        if !changes {
            return;
        }
        self.with_counts(|count| {
            let ago = usize::from(count.seeded);
            if count.seeded > skew && count.seeded != NEVER {
                count.seeded = compact[ago];
                count.more -= least[ago];
            }
        });
    }
}
