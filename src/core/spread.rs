/// How likely one of several contenders is to ask at once when the lock becomes
/// free: all hear of it at the same time.
///
/// Time at an opening is cut into slots of one round trip. In each, one that
/// does not ask looks whether another has. All see the same, so that all come
/// to a like probability by themselves, without knowing how many they are: it
/// falls with each slot in which somebody has asked, and rises with each in
/// which nobody has. What was seen is forgotten by and by, so that two that have
/// seen different things don't stay different.
///
/// Whoever has missed an opening is twice as likely to ask at the next: the server
/// tells its clients in always the same order, and the first would always be
/// first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Spread {
    /// In steps, of which two halve the probability, and parts of a step.
    level: u32,
}

/// The parts of a step; and of the level, one of so many is forgotten a slot.
const STEP: u32 = 32;

/// How many steps the level rises with a slot in which somebody has asked.
const RISE: u32 = 2;

/// How many steps of it one missed opening is worth.
const MISS: u32 = 2;

impl Spread {
    /// What [`level`](Self::level) gave.
    pub fn at(level: u32) -> Self {
        Self {
            level: level.min(STEP * STEP * RISE),
        }
    }

    /// What there is to remember of it.
    pub const fn level(self) -> u32 {
        self.level
    }

    /// Somebody has asked in this slot.
    pub fn taken(&mut self) {
        self.forget();
        self.level += RISE * STEP;
    }

    /// Nobody has, and in as many slots before it of the same opening.
    pub fn idle(&mut self, before: u32) {
        self.forget();
        let fall = before.saturating_add(1).saturating_mul(STEP);
        self.level = self.level.saturating_sub(fall);
    }

    /// Whether one that has missed so many openings asks in this slot, by a
    /// random number.
    pub fn asks(self, missed: u32, random: u64) -> bool {
        /// The square root of a half, of 2³².
        const ROOT: u64 = 3_037_000_500;
        let steps = (self.level / STEP).saturating_sub(missed.saturating_mul(MISS));
        let chance = (1 << 32) >> (steps / 2);
        let chance = match steps % 2 {
            0 => chance,
            _ => (chance * ROOT) >> 32,
        };
        random >> 32 < chance
    }

    fn forget(&mut self) {
        self.level -= self.level / STEP;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn steps(steps: u32) -> Spread {
        Spread::at(steps * STEP)
    }

    #[test]
    fn one_that_knows_of_no_others_asks() {
        assert!(Spread::default().asks(0, u64::MAX));
    }

    #[test]
    fn two_steps_halve_the_chance() {
        for halvings in 0..32 {
            let last = u64::MAX >> halvings;
            assert!(steps(2 * halvings).asks(0, last));
            let next = last.checked_add(1 << 32);
            assert!(next.is_none_or(|next| !steps(2 * halvings).asks(0, next)));
        }
        assert!(!steps(u32::MAX / STEP).asks(0, 1 << 32));
    }

    #[test]
    fn an_odd_step_is_the_geometric_mean_of_its_neighbours() {
        let asks = |odd, share: f64| steps(odd).asks(0, (share * 2f64.powi(64)) as u64);
        assert!(asks(1, 0.707) && !asks(1, 0.708));
        assert!(asks(3, 0.3535) && !asks(3, 0.3536));
    }

    #[test]
    fn a_missed_opening_doubles_the_chance() {
        assert!(steps(8).asks(4, u64::MAX));
        assert!(steps(8).asks(3, u64::MAX / 2) && !steps(8).asks(3, u64::MAX / 2 + (1 << 32)));
        assert!(steps(60).asks(u32::MAX, u64::MAX));
    }

    #[test]
    fn slots_that_are_taken_lower_the_chance_down_to_a_bound_and_idle_ones_raise_it() {
        let mut spread = Spread::default();
        for _ in 0..10_000 {
            let before = spread.level();
            spread.taken();
            assert!(spread.level() >= before);
            assert_eq!(Spread::at(spread.level()), spread);
        }
        let mut slots = 0;
        while spread.level() > 0 {
            spread.idle(slots);
            slots += 1;
        }
        assert!(slots < 12, "{slots} slots");
    }

    #[test]
    fn a_slot_that_is_taken_is_worth_two_steps_and_an_idle_one_more_each_time() {
        let mut spread = Spread::default();
        spread.taken();
        assert_eq!(spread, steps(2));
        let mut spread = steps(32);
        spread.idle(0);
        assert_eq!(spread, steps(30), "one step, and one is forgotten");
        let mut spread = steps(32);
        spread.idle(3);
        assert_eq!(spread, steps(27));
    }

    #[test]
    fn two_that_saw_different_things_come_to_see_things_alike() {
        let (mut eager, mut shy) = (steps(0), steps(60));
        for slot in 0..200 {
            match slot % 2 {
                0 => (eager.taken(), shy.taken()),
                _ => (eager.idle(0), shy.idle(0)),
            };
        }
        assert!(shy.level().abs_diff(eager.level()) < STEP);
    }
}
