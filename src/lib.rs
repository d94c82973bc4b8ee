//! Distributed locks by the Redlock algorithm: one lock, held on a majority of
//! N independent Redis or Valkey masters.

pub mod core;

#[cfg(feature = "driver")]
mod acquire;
#[cfg(feature = "driver")]
mod claim;
#[cfg(feature = "driver")]
mod clock;
#[cfg(feature = "driver")]
mod config;
#[cfg(feature = "driver")]
mod error;
#[cfg(feature = "driver")]
mod fanout;
#[cfg(feature = "driver")]
mod guard;
#[cfg(feature = "driver")]
mod master;
#[cfg(feature = "driver")]
mod redlock;
#[cfg(feature = "driver")]
mod release;
#[cfg(feature = "driver")]
mod report;
#[cfg(feature = "driver")]
mod request;
#[cfg(feature = "driver")]
mod token;

#[cfg(feature = "driver")]
pub use crate::{
    config::{Builder, ConfigError, InvalidRetry, InvalidTime},
    core::Vote,
    error::{ExtendError, InvalidRequest, LeaseTooShort, LockError, ReleaseError},
    guard::{Guard, Released},
    master::Fault,
    redlock::Redlock,
    report::{MasterReport, RoundReport},
    request::{Request, Retry, Wait},
};

#[cfg(feature = "testing")]
pub use crate::master::MemoryMaster;
