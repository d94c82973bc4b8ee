use std::time::Duration;

/// How eager one of several contenders is when the lock becomes free: all hear
/// of it at the same time, and if all ask at once, they split the vote.
///
/// One that has collided goes at once with half the probability, down to a
/// sixteenth, and otherwise pauses, watching whether another one takes it. One
/// that has won without a collision is twice as eager the next time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Spread {
    halvings: u32,
}

impl Spread {
    /// How often the probability is halved at the most.
    pub const MOST_HALVINGS: u32 = 4;

    /// The time after which one that waits is twice as eager.
    pub const AGE: Duration = Duration::from_millis(20);

    /// The longest pause.
    pub const LONGEST_PAUSE: Duration = Duration::from_millis(1);

    /// One whose probability is halved this often.
    pub fn halved(times: u32) -> Self {
        Self {
            halvings: times.min(Self::MOST_HALVINGS),
        }
    }

    /// How often its probability is halved.
    pub const fn halvings(self) -> u32 {
        self.halvings
    }

    /// The same for one that has waited this long: twice as eager for each
    /// [`AGE`](Self::AGE), so that none is passed over for ever.
    pub fn after(self, waited: Duration) -> Self {
        let ages = waited.as_millis() / Self::AGE.as_millis();
        Self {
            halvings: self.halvings.saturating_sub(ages.min(32) as u32),
        }
    }

    /// Several had asked at once.
    pub fn collided(&mut self) {
        self.halvings = (self.halvings + 1).min(Self::MOST_HALVINGS);
    }

    /// Nobody else had asked.
    pub fn won(&mut self) {
        self.halvings = self.halvings.saturating_sub(1);
    }

    /// How long to pause before asking: the upper bits of the random number say
    /// whether at all, the lower ones for how long.
    pub fn pause(self, random: u64) -> Option<Duration> {
        let goes_now = random >> 32 >> (32 - self.halvings) == 0;
        if goes_now {
            return None;
        }
        let share = random & u64::from(u32::MAX);
        let nanos = Self::LONGEST_PAUSE.as_nanos() as u64;
        Some(Duration::from_nanos((nanos * share) >> 32))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_that_never_collided_goes_at_once() {
        let spread = Spread::default();
        assert_eq!(spread.pause(0), None);
        assert_eq!(spread.pause(u64::MAX), None);
    }

    #[test]
    fn each_collision_halves_the_chance_and_each_win_doubles_it() {
        let mut spread = Spread::default();
        for halvings in 1..=6 {
            spread.collided();
            let chance = halvings.min(Spread::MOST_HALVINGS);
            let last_to_go = (1u64 << (64 - chance)) - 1;
            assert_eq!(spread.pause(last_to_go), None);
            assert!(spread.pause(last_to_go + 1).is_some());
        }
        for _ in 0..Spread::MOST_HALVINGS {
            assert!(spread.pause(u64::MAX).is_some());
            spread.won();
        }
        assert_eq!(spread.pause(u64::MAX), None);
    }

    #[test]
    fn one_that_has_waited_long_goes_at_once() {
        let spread = Spread::halved(4);
        assert_eq!(spread.after(Spread::AGE / 2), spread);
        assert_eq!(spread.after(Spread::AGE), Spread::halved(3));
        assert_eq!(spread.after(4 * Spread::AGE), Spread::default());
        assert_eq!(spread.after(Duration::MAX), Spread::default());
    }

    #[test]
    fn no_pause_is_longer_than_the_longest() {
        let mut spread = Spread::default();
        spread.collided();
        let pause = spread.pause(u64::MAX).unwrap();
        assert!(pause < Spread::LONGEST_PAUSE && pause > Spread::LONGEST_PAUSE / 2);
        assert_eq!(spread.pause(1 << 63), Some(Duration::ZERO));
    }
}
