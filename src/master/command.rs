#[cfg(feature = "redis")]
use std::sync::OnceLock;

use std::sync::Arc;

use crate::core::Ttl;
use crate::token::Token;

/// One command, the same for all masters.
pub(crate) struct Command {
    pub(crate) action: Action,
    /// The lock's key: the prefix and the resource.
    pub(crate) key: Arc<[u8]>,
    pub(crate) token: Token,
    wire: OnceLock<super::redis::Wire>,
}

/// What is to be done with the key and the token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Action {
    /// Set the key to the token if there is no such key, for this time.
    Take(Ttl),
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

impl Command {
    pub(crate) fn new(action: Action, key: Arc<[u8]>, token: Token) -> Arc<Self> {
        Arc::new(Self {
            action,
            key,
            token,
            wire: OnceLock::new(),
        })
    }

    /// The command as it goes over the wire: built once for all masters.
    pub(crate) fn wire(&self) -> &super::redis::Wire {
        self.wire.get_or_init(|| super::redis::Wire::of(self))
    }
}
