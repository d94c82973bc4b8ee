#[cfg(feature = "redis")]
use std::sync::OnceLock;

use std::sync::Arc;

use crate::core::{Ttl, helper_key};
use crate::token::Token;

/// One command: the same for all masters, but for the
/// [generation](Command::of_generation) of a fenced one.
pub(crate) struct Command {
    pub(crate) action: Action,
    /// The lock's key: the prefix and the resource.
    pub(crate) key: Arc<[u8]>,
    pub(crate) token: Token,
    /// The generation of the server that it is sent to, where it counts.
    pub(crate) generation: Option<Arc<str>>,
    wire: OnceLock<super::redis::Wire>,
}

/// What a fenced lock is asked for with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Ask {
    pub(crate) ttl: Ttl,
    /// How long its counter lives from now.
    pub(crate) life: Ttl,
}

/// What is to be done with the key and the token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Action {
    /// Set the key to the token if there is no such key, for this time.
    Take(Ttl),
    /// The same, and count that: the answer is the count.
    TakeFenced(Ask),
    /// Raise the count, if the key's value is the token, to this: no if it is higher.
    Raise {
        /// To what.
        count: u64,
        /// How long the counter lives from now.
        life: Ttl,
    },
    /// Give the key this time from now if its value is the token.
    Extend(Ttl),
    /// The same as taking, for a master that lost the key: no vote (S9).
    GiveBack(Ttl),
    /// Delete the key if its value is the token.
    Release,
    /// See whether there is no such key, and be told when that changes.
    Look,
    /// See whether the key's value is the token, and be told when that changes.
    Check,
}

impl Action {
    /// How long a key lives that it sets, or gives a new time to.
    pub(crate) fn ttl(self) -> Option<Ttl> {
        match self {
            Action::Take(ttl) | Action::TakeFenced(Ask { ttl, .. }) => Some(ttl),
            Action::Extend(ttl) | Action::GiveBack(ttl) => Some(ttl),
            Action::Raise { .. } | Action::Release | Action::Look | Action::Check => None,
        }
    }

    /// Whether it has to do with the lock's counter.
    pub(crate) fn counts(self) -> bool {
        matches!(self, Action::TakeFenced(_) | Action::Raise { .. })
    }

    /// Whether it asks for the lock.
    pub(crate) fn takes(self) -> bool {
        matches!(self, Action::Take(_) | Action::TakeFenced(_))
    }
}

impl Command {
    /// The key of the lock's counter.
    pub(crate) fn counter(&self) -> Vec<u8> {
        helper_key(&self.key, "fence")
    }

    pub(crate) fn new(action: Action, key: Arc<[u8]>, token: Token) -> Arc<Self> {
        Arc::new(Self {
            action,
            key,
            token,
            generation: None,
            wire: OnceLock::new(),
        })
    }

    /// The same for a server of this generation, which alone is sent it: what a
    /// counter says is trusted by the generation that wrote it, and by no other.
    pub(crate) fn of_generation(&self, generation: &Arc<str>) -> Arc<Self> {
        Arc::new(Self {
            action: self.action,
            key: self.key.clone(),
            token: self.token,
            generation: Some(generation.clone()),
            wire: OnceLock::new(),
        })
    }

    /// The command as it goes over the wire: built once for all masters that are
    /// sent it.
    pub(crate) fn wire(&self) -> &super::redis::Wire {
        self.wire.get_or_init(|| super::redis::Wire::of(self))
    }
}
