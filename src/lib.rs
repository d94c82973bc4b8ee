//! Distributed locks by the Redlock algorithm: one lock, held on a majority of
//! N independent Redis or Valkey masters.
//!
//! ```no_run
//! use std::time::Duration;
//! use redquorum::{LockError, Redlock};
//!
//! # async fn doc() -> Result<(), Box<dyn std::error::Error>> {
//! let redlock = Redlock::builder()
//!     .masters(["redis://10.0.0.1", "redis://10.0.0.2", "redis://10.0.0.3"])
//!     .build()?;
//!
//! // Wait for it, up to 10 s unless configured otherwise …
//! let lock = redlock.lock("orders:42").ttl(Duration::from_secs(10)).await?;
//! lock.ensure(Duration::from_secs(5))?;
//! // … the critical section …
//! lock.release().await?;
//!
//! // … or for as long as the work takes …
//! let report = redlock.lock("report:daily").hold(|lease| async move {
//!     lease.ensure(Duration::from_secs(1))?;
//!     Ok::<_, redquorum::LeaseTooShort>(7)
//! });
//! report.await??;
//!
//! // … or don't wait.
//! match redlock.lock("report:daily").try_once().await {
//!     Ok(lock) => drop(lock),
//!     Err(LockError::Taken { .. }) => println!("somebody else is at it"),
//!     Err(other) => return Err(other.into()),
//! }
//! # Ok(())
//! # }
//! ```
//!
//! | to | see |
//! |---|---|
//! | configure it | [`Builder`] |
//! | ask for a lock | [`Redlock::lock`], [`Request`] |
//! | use it | [`Guard`] |
//! | keep it, and hear of its loss | [`Request::auto_extend`], [`Guard::lost`], [`LossReason`] |
//! | run something under it | [`Request::hold`], [`LeaseHandle`] |
//! | see how the masters are | [`Redlock::masters`], [`MasterStates`] |
//! | find out why not | [`LockError`], [`ExtendError`], [`ReleaseError`], [`HoldError`], each with a [`RoundReport`] |
//! | test a service that uses it | `MemoryMaster`, with the feature `testing` |
//! | see how it decides | [`core`] |
//!
//! # What it promises
//!
//! While [`Guard::is_valid`] is true, no other client that uses the same masters
//! holds the lock, if clocks run at nearly the same rate and masters don't lose
//! what they granted within the TTL. A lock can't stop a write that is already
//! in flight when its lease ends. The repository's `docs/safety.md` has the
//! scenarios.
//!
//! # Runtime
//!
//! Locks are taken in a tokio runtime with its timer and I/O enabled, of any
//! kind. A [`Redlock`] can be built, cloned and dropped anywhere; connections
//! belong to the runtime in which they are first needed, and are made anew in
//! another when that has ended.

// The links above lead to what the core alone doesn't have.
#![cfg_attr(not(feature = "redis"), allow(rustdoc::broken_intra_doc_links))]

pub mod core;

#[cfg(feature = "redis")]
mod acquire;
#[cfg(redquorum_break)]
mod broken;
#[cfg(feature = "redis")]
mod chance;
#[cfg(feature = "redis")]
mod claim;
#[cfg(feature = "redis")]
mod clock;
#[cfg(feature = "redis")]
mod config;
#[cfg(feature = "redis")]
mod contend;
#[cfg(feature = "redis")]
mod error;
#[cfg(feature = "redis")]
mod fanout;
#[cfg(feature = "redis")]
mod fenced;
#[cfg(feature = "redis")]
mod gate;
#[cfg(feature = "redis")]
mod guard;
#[cfg(feature = "redis")]
mod held;
#[cfg(feature = "redis")]
mod hold;
#[cfg(feature = "redis")]
mod holdings;
#[cfg(feature = "redis")]
mod keeper;
#[cfg(feature = "redis")]
mod lock;
#[cfg(feature = "redis")]
mod loss;
#[cfg(feature = "redis")]
mod master;
#[cfg(feature = "redis")]
mod masters;
#[cfg(feature = "redis")]
mod patience;
#[cfg(feature = "redis")]
mod quarantine;
#[cfg(feature = "redis")]
mod redlock;
#[cfg(feature = "redis")]
mod release;
#[cfg(feature = "redis")]
mod report;
#[cfg(feature = "redis")]
mod request;
#[cfg(feature = "redis")]
mod rivalry;
#[cfg(feature = "redis")]
mod settings;
#[cfg(feature = "testing")]
#[doc(hidden)]
pub mod simulation;
#[cfg(feature = "redis")]
mod timers;
#[cfg(feature = "redis")]
mod token;
#[cfg(feature = "redis")]
mod waiting;
#[cfg(feature = "redis")]
mod watch;

#[cfg(feature = "testing")]
pub use crate::master::MemoryMaster;
#[cfg(feature = "redis")]
pub use crate::{
    config::{Builder, ConfigError},
    core::Vote,
    error::{ExtendError, InvalidRequest, LeaseTooShort, LockError, ReleaseError},
    fenced::{Fenced, FencedGuard, Kind, Plain},
    guard::{Guard, Released},
    hold::{HoldError, LeaseHandle},
    loss::LossReason,
    master::{Fault, InvalidUrl, MasterState, MasterStates},
    redlock::Redlock,
    report::{MasterReport, RoundReport},
    request::Request,
    settings::{InvalidRetry, InvalidTime, Retry, Wait},
};

/// The samples of the guides compile.
#[cfg(all(doctest, feature = "redis"))]
mod guides {
    #[doc = include_str!("../README.md")]
    struct Readme;
    #[doc = include_str!("../docs/safety.md")]
    struct Safety;
    #[doc = include_str!("../docs/fencing.md")]
    struct Fencing;
}
