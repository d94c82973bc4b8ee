//! One master: what it remembers, and what it does with a request.

use redquorum::core::Vote;

use super::count::Count;
use super::event::{Event, Events};
use super::request::Kind;
use super::setting::{Mutation, Setting};

/// The value of a key: which client's which round.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Token {
    pub(crate) client: u8,
    pub(crate) round: u8,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Key {
    pub(crate) token: Token,
    /// In how many ticks it expires.
    pub(crate) left: u8,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Master {
    pub(crate) key: Option<Key>,
    /// What its counter says, if there is one.
    pub(crate) count: Option<Count>,
    /// The counter is of another generation: it may be older than it was.
    pub(crate) is_old: bool,
    /// In how many ticks the counter expires; 0 is never.
    pub(crate) count_left: u8,
    /// By how many ticks its clock is behind the one that is furthest ahead.
    pub(crate) behind: u8,
    /// For how many ticks it has no vote, since it lost its memory.
    pub(crate) young: u8,
    /// Its clock has jumped ahead; it does so once.
    pub(crate) jumped: bool,
}

impl Master {
    pub(crate) fn holds(&self, token: Token) -> bool {
        self.key.is_some_and(|key| key.token == token)
    }

    /// Executes a command with this token and TTL.
    pub(crate) fn execute(
        &mut self,
        kind: Kind,
        token: Token,
        ttl: u8,
        events: &mut Events,
    ) -> Vote {
        let key = Some(Key { token, left: ttl });
        match kind {
            Kind::Take if self.young > 0 => {
                events.add(Event::QuarantineRefused);
                return Vote::Absent;
            }
            Kind::Take | Kind::Reseed if self.key.is_some() => return Vote::No,
            Kind::Take => self.key = key,
            Kind::Reseed => {
                events.add(Event::Reseeded);
                self.key = key;
            }
            _ if !self.holds(token) => return Vote::No,
            Kind::Extend => self.key = key,
            Kind::Release => self.key = None,
            Kind::Raise => {}
        }
        Vote::Yes
    }

    /// Counts a grant, as `take_fenced.lua` does.
    pub(crate) fn count_grant(&mut self, setting: &Setting) {
        let count = match self.count {
            Some(count) if self.is_untrusted(setting) => {
                let seeded = Count::seeded(self.behind);
                count.after(1).higher(seeded)
            }
            Some(count) => count.after(1),
            None if setting.is(Mutation::NoSeed) => Count::unseeded(),
            None => Count::seeded(self.behind),
        };
        self.keep(count, setting);
    }

    /// Whether its counter may be older than it was.
    pub(crate) fn is_untrusted(&self, setting: &Setting) -> bool {
        self.is_old && !setting.is(Mutation::OldCounted)
    }

    /// Raises the counter, as `raise.lua` does where the key has the token: not if
    /// it is higher, or of another generation.
    pub(crate) fn raise(&mut self, count: Count, setting: &Setting) -> Vote {
        if self.is_untrusted(setting) {
            return Vote::No;
        }
        if self.is_above(count) && !setting.is(Mutation::RaisedAbove) {
            return Vote::No;
        }
        if !self.knows(count) {
            self.keep(count, setting);
        }
        Vote::Yes
    }

    fn is_above(&self, count: Count) -> bool {
        self.count.is_some_and(|own| own.value() > count.value())
    }

    fn keep(&mut self, count: Count, setting: &Setting) {
        self.count = Some(count);
        self.is_old = false;
        self.count_left = setting.counter_life;
    }

    /// Whether its count is at least that.
    pub(crate) fn knows(&self, count: Count) -> bool {
        self.count.is_some_and(|own| own.value() >= count.value())
    }

    pub(crate) fn tick(&mut self) {
        self.age_key();
        self.age_counter();
        self.young = self.young.saturating_sub(1);
    }

    /// Its clock is a tick further: what it stores expires a tick earlier. What
    /// it says of its age comes from how long it has been up.
    pub(crate) fn jump(&mut self) {
        self.jumped = true;
        self.age_key();
    }

    fn age_key(&mut self) {
        if let Some(key) = &mut self.key {
            key.left -= 1;
            if key.left == 0 {
                self.key = None;
            }
        }
    }

    fn age_counter(&mut self) {
        if self.count_left > 0 {
            self.count_left -= 1;
            if self.count_left == 0 {
                self.count = None;
                self.is_old = false;
            }
        }
    }

    /// It is up again at once, without its memory.
    pub(crate) fn crash(&mut self, quarantine: u8) {
        self.key = None;
        self.count = None;
        self.is_old = false;
        self.count_left = 0;
        self.young = quarantine;
    }

    /// It is up again at once, with an older counter.
    pub(crate) fn revert(&mut self, to: Count, keeps_key: bool, quarantine: u8) {
        if !keeps_key {
            self.key = None;
        }
        self.count = Some(to);
        self.is_old = true;
        self.young = quarantine;
    }
}
