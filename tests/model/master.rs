//! One master: what it remembers, and what it does with a request.

use redquorum::core::Vote;

use super::event::{Event, Events};
use super::request::Kind;

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
        }
        Vote::Yes
    }

    pub(crate) fn tick(&mut self) {
        self.age_key();
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

    /// It is up again at once, without its memory.
    pub(crate) fn crash(&mut self, quarantine: u8) {
        self.key = None;
        self.young = quarantine;
    }
}
