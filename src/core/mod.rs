//! The deciding part of the library: pure, without I/O, clock or randomness.
//!
//! Everything here is given the time, the replies and the random numbers, and
//! answers with a decision. So it can be tested exactly, explored by a model
//! checker and read in one sitting. Most users never need it; it is public so
//! that proofs can drive the very code that decides.
//!
//! | noun | what it is |
//! |---|---|
//! | [`Moment`] | a point in time on the lease clock |
//! | [`Ttl`] | a time to live as Redis takes it: whole milliseconds |
//! | [`Drift`] | the allowance for clocks that run at different rates |
//! | [`Terms`], [`Lease`] | what a round asks for, and until when it may be relied on |
//! | [`Quorum`] | how many of how many masters decide |
//! | [`Tally`] | the votes of one round |
//! | [`AcquireRound`], [`ExtendRound`], [`ReleaseRound`] | the three kinds of round |
//! | [`Backoff`] | the pause between two rounds |
//! | [`lead`] | which master is asked first by all who contend |
//! | [`Spread`] | which of them ask at once when a lock becomes free |
//! | [`Renewal`] | when a lease that is kept is extended |
//! | [`Quarantine`], [`Age`], [`Evidence`] | for how long a master that came up has no vote |
//!
//! The algorithm is that of <https://redis.io/docs/latest/develop/clients/patterns/distributed-locks/>.

mod admission;
mod backoff;
mod drift;
mod lead;
mod lease;
mod moment;
mod quorum;
mod renewal;
mod round;
mod spread;
mod tally;
mod ttl;

pub use admission::{Age, Evidence, Quarantine};
pub use backoff::{Backoff, InvalidBackoff};
pub use drift::{Drift, InvalidDrift};
#[cfg(feature = "redis")]
pub(crate) use lead::fold;
pub use lead::lead;
pub use lease::{InvalidTerms, Lease, Terms};
pub use moment::Moment;
pub use quorum::{InvalidQuorum, Quorum};
pub use renewal::Renewal;
pub use round::{
    AcquireRound, AcquireVerdict, ExtendRound, ExtendVerdict, LeaseLoss, Refusal, ReleaseRound,
    ReleaseVerdict,
};
pub use spread::Spread;
pub use tally::{MasterSet, Tally, Vote};
pub use ttl::{InvalidTtl, Ttl};
