//! The rules that can be switched off, to see that it is noticed.

use serde::{Deserialize, Serialize};

/// A rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Rule {
    /// S1: two of five are a quorum.
    Quorum,
    /// S13: masters that restarted empty vote at once.
    Quarantine,
    /// S2: the lease is as long as the TTL.
    Drift,
    /// S4: a process uses one token for all its rounds.
    FreshTokens,
    /// No rule of the library's, but of its users: who writes looks at the lease, and what is written
    /// to refuses what is late.
    Check,
}

impl Rule {
    pub const ALL: [Self; 5] = [
        Rule::Quorum,
        Rule::Quarantine,
        Rule::Drift,
        Rule::FreshTokens,
        Rule::Check,
    ];

    pub fn name(self) -> &'static str {
        match self {
            Rule::Quorum => "quorum",
            Rule::Quarantine => "quarantine",
            Rule::Drift => "drift",
            Rule::FreshTokens => "fresh-tokens",
            Rule::Check => "check",
        }
    }

    /// Whether the library itself must be broken for it: it takes `--cfg redquorum_break`.
    pub fn is_built_in(self) -> bool {
        matches!(self, Rule::Quorum | Rule::FreshTokens)
    }
}
