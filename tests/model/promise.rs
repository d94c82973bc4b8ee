//! What must hold in every state.

/// A state that breaks one has nothing but its name: a counter-example ends
/// there, and all that break the same are one state.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Promise {
    /// S1, S2: never two clients whose leases are both valid.
    OneHolder,
    /// When a round is won, or an extension renewed, the token is on a quorum
    /// of masters, counting those that had it and lost their memory since.
    OnQuorum,
    /// S10, S12: once a master has executed the release of a round, no request
    /// of that round sets the key there or renews its TTL.
    NothingAfterRelease,
    /// S6, S8: while a client doesn't look after a token, every master that has
    /// it has a release of it coming, on the current connection. So when all is
    /// delivered, no key is left but those of rounds that go on.
    NoOrphan,
    /// A release that says "released" left the token on so few masters that
    /// others can have a quorum; and none says "not held" before the lease would
    /// have ended, if no memory was lost and no clock jumped.
    ReleaseToldRight,
    /// S16: whoever becomes the owner has a fencing token that is greater than
    /// that of every owner before.
    TokensIncrease,
    /// No two owners, one after the other or at once, have the same fencing token.
    TokensDiffer,
}

impl Promise {
    pub(crate) const ALL: [Promise; 7] = [
        Promise::OneHolder,
        Promise::OnQuorum,
        Promise::NothingAfterRelease,
        Promise::NoOrphan,
        Promise::ReleaseToldRight,
        Promise::TokensIncrease,
        Promise::TokensDiffer,
    ];

    pub(crate) const fn name(self) -> &'static str {
        match self {
            Promise::OneHolder => "never two valid holders",
            Promise::OnQuorum => "what is granted is on a quorum",
            Promise::NothingAfterRelease => "nothing renews after the release",
            Promise::NoOrphan => "no key is an orphan",
            Promise::ReleaseToldRight => "a release is told as it was",
            Promise::TokensIncrease => "fencing tokens increase",
            Promise::TokensDiffer => "fencing tokens differ",
        }
    }
}
